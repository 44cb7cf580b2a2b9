/**
 * The programs of the yardstick, one source each in bench/yardstick. Whoever makes the emulator
 * faster looks at those of the tuning set; figures that documents quote are of the reporting set
 * and of the floats. Those are built with the C library, whose functions they call; the others
 * stand alone.
 */
export interface YardstickProgram {
  readonly name: string;
  readonly set: 'tuning' | 'reporting' | 'floats';
  /** The checksum of four turns, as gcc's program prints it on x86-64 without an emulator. */
  readonly sum: string;
  /** What it exercises. */
  readonly what: string;
  /** Machines whose qemu-user (7.2) does not execute it: it stops with SIGILL in the C library. */
  readonly stopsQemu?: readonly string[];
}

/** Those that are known from other comparisons, or of their kind: floats, texts, compression. */
export const CLASSIC: ReadonlySet<string> = new Set(
  'nbody linpack mandelbrot fft strings regexnfa lz77 bwt huffman rangecoder'.split(' '),
);

// prettier-ignore
export const YARDSTICK: readonly YardstickProgram[] = [
  { name: 'lzw', set: 'tuning', sum: '1e9137d68d622bf9', what: 'LZW with codes that grow, a dictionary in a hash table, and the inverse' },
  { name: 'runlength', set: 'tuning', sum: '2611c3790f1984cc', what: 'runs of bytes, deltas, integers of variable length: short loops over bytes' },
  { name: 'sortstructs', set: 'tuning', sum: '832752a88dd61e01', what: 'records copied and compared through pointers to functions' },
  { name: 'expressions', set: 'tuning', sum: '30eac93992d1ab5c', what: 'text to tokens to trees, evaluated by recursion and a switch' },
  { name: 'regexback', set: 'tuning', sum: 'c1c781fea766cb3a', what: 'a backtracking matcher: deep recursion, unpredictable branches' },
  { name: 'bitstream', set: 'tuning', sum: '5ee02cc58acdd08d', what: 'codes bit by bit, ranks in vectors of bits' },
  { name: 'straight', set: 'tuning', sum: '79a5d87afcf12240', what: '448 functions of straight code, none of them hot' },
  { name: 'matrix', set: 'tuning', sum: '55d8236b66b5e9c3', what: 'products of integers, convolution, division of 64 bits' },
  { name: 'maxflow', set: 'tuning', sum: '10df50f6e2fb91aa', what: 'flows in networks: lists of edges by index, recursion' },
  { name: 'queens', set: 'tuning', sum: 'c33e0cb93e9d6f00', what: 'puzzles by trying: bits, arrays, dancing links' },
  { name: 'vmstack', set: 'tuning', sum: '8f1da7c317554198', what: 'an interpreter of bytes with a stack' },
  { name: 'utf8', set: 'tuning', sum: '1038b3d40b08f739', what: 'UTF-8, UTF-16, Base64: branches by the value of a byte' },
  { name: 'recursion', set: 'tuning', sum: '2c88b7be24c68df4', what: 'Ackermann, Takeuchi, permutations, a Sudoku: calls and returns' },
  { name: 'fractal', set: 'tuning', sum: 'c9b145a8d1f8e681', what: 'fixed point in 64 and 32 bits, lines, dithering' },
  { name: 'trie', set: 'tuning', sum: '920345addb827ddc', what: 'trees of letters and of bits, suffixes sorted' },
  { name: 'lz77', set: 'reporting', sum: '3edfb7c1f8439a52', what: 'LZ77 with chains of hashes, lazy matching, and the inverse' },
  { name: 'bwt', set: 'reporting', sum: 'dd60d8b2305ce64', what: 'rotations sorted by doubling, move to front' },
  { name: 'sortints', set: 'reporting', sum: '6b680204697def7a', what: 'heap, merge, radix and Shell sort' },
  { name: 'sha', set: 'reporting', sum: '39aa333c54a6cbcd', what: 'SHA-1 and SHA-512: rotations, words of 64 bits from bytes' },
  { name: 'digests', set: 'reporting', sum: '86797979e9bd2f59', what: 'MD5, CRC-32, Adler-32, a hash of four lanes: little-endian words' },
  { name: 'hashtables', set: 'reporting', sum: '83128d6c397dfe8d', what: 'chains, open addressing, Robin Hood' },
  { name: 'json', set: 'reporting', sum: 'e6d92209c8ca9ce8', what: 'a document made, parsed into a tree, written again' },
  { name: 'csv', set: 'reporting', sum: '19198f91c7e56efb', what: 'fields cut out of text, numbers and dates read, groups summed' },
  { name: 'regexnfa', set: 'reporting', sum: 'c80fb9e82523268c', what: 'sets of states, and a deterministic machine made as it is reached' },
  { name: 'huffman', set: 'reporting', sum: 'd2ebbbd70cf29179', what: 'canonical codes, packed and unpacked by table' },
  { name: 'rangecoder', set: 'reporting', sum: '411b80c04df5187b', what: 'adaptive range coding, a branch for each bit' },
  { name: 'automaton', set: 'reporting', sum: '1beccc814d7130c1', what: '512 states, some 4,000 blocks of straight code behind jump tables' },
  { name: 'linear', set: 'reporting', sum: 'db22c541bf9d7bf7', what: 'LU, eigenvalues, conjugate gradients in doubles' },
  { name: 'paths', set: 'reporting', sum: '48b33189d7ad714a', what: 'Dijkstra, A*, all pairs' },
  { name: 'aes', set: 'reporting', sum: 'e1f6bef98c106fe4', what: 'AES by bytes and by tables of words, products in GF(2^128)' },
  { name: 'chess', set: 'reporting', sum: '38f99db7d985749a', what: 'moves on bitboards, search with alpha and beta' },
  { name: 'dynamic', set: 'reporting', sum: '5e59d475df2d34f8', what: 'edit distance, knapsack and others by tables' },
  { name: 'vmregister', set: 'reporting', sum: '56b9705db4c0be63', what: 'an interpreter of words with registers, by switch and by functions' },
  { name: 'lisp', set: 'reporting', sum: '4386c39c9a53e07e', what: 'a Lisp with closures and a collector' },
  { name: 'allocators', set: 'reporting', sum: 'f972fef7d070bfc8', what: 'free lists, buddies, slabs' },
  { name: 'strings', set: 'reporting', sum: 'cc3025afcad439b5', what: 'five searches in text, words cut and turned' },
  { name: 'bignum', set: 'reporting', sum: 'fa188b0c2b419494', what: 'products and remainders of long numbers, pi, primes' },
  { name: 'fourier', set: 'reporting', sum: '6cd93e11eca534c9', what: 'a Fourier transform and five bodies in doubles' },
  { name: 'raytrace', set: 'reporting', sum: '6d99116da1e660d5', what: 'rays and spheres in fixed point of 64 bits, structures by value' },
  { name: 'life', set: 'reporting', sum: '5728e8028437273a', what: 'life on bytes and on bits, floods, mazes' },
  { name: 'redblack', set: 'reporting', sum: '40afd41bc815b137', what: 'a balanced tree, a skip list, lists: pointers' },
  { name: 'btree', set: 'reporting', sum: '22424682fb220b4', what: 'a B-tree with splits and merges' },
  { name: 'statistics', set: 'reporting', sum: '9d1c2d44d8273981', what: 'four generators of noise, moments, quantiles, a queue' },
  { name: 'format', set: 'reporting', sum: '3ed2b2641ec302b3', what: 'text by formats with variable arguments, and read again' },
  { name: 'mandelbrot', set: 'floats', sum: 'a20ca6af15bfe0bf', what: "Mandelbrot's set" },
  { name: 'nbody', set: 'floats', sum: '828de064a3fb28', what: 'five bodies that pull at each other: a square root and a quotient a pair' },
  { name: 'linpack', set: 'floats', sum: '50f363913f55dc28', what: 'LU of a matrix by columns, as LINPACK has it' },
  { name: 'fft', set: 'floats', sum: '194cfa9ea7e1e0f0', what: 'a Fourier transform of complex numbers and its inverse' },
  { name: 'functions', set: 'floats', sum: 'b0ee41545df22326', what: 'sines, powers, logarithms, rounding of the C library', stopsQemu: ['ppc32'] },
];
