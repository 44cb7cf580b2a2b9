/**
 * Structure-aware damage: takes a valid ELF file and changes what means something (header fields,
 * rows of tables, sizes, links, strings, order, length), so that readers get past the first check.
 * Seeded: the same seed gives the same mutants. Whatever is driven by it must either work or throw
 * an ElftraceError.
 */
import { ByteView } from '../../src/bytes.js';
import * as C from '../../src/elf/constants.js';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';

export interface Mutant {
  readonly bytes: Uint8Array;
  /** What was done, for the message of a failing test: sample, seed and the list of changes. */
  readonly description: string;
}

/** Numbers in [0, bound) out of a 32-bit seed (mulberry32). */
export class SeededRandom {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }
  next(bound: number): number {
    this.#state = (this.#state + 0x6d2b_79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * bound);
  }
  pick<T>(values: readonly T[]): T {
    return values[this.next(values.length)]!;
  }
}

interface Field {
  readonly what: string;
  readonly offset: number;
  readonly size: 1 | 2 | 4 | 8;
}

/** Every number of the file that a reader may follow. Rows of large tables are sampled. */
function listFields(image: ElfImage): readonly Field[] {
  const { is64 } = image.header;
  const word = image.wordBytes;
  const fields: Field[] = [];
  const record = (what: string, offset: number, layout: readonly (readonly [string, 1 | 2 | 4 | 8])[]): void => {
    let at = offset;
    for (const [name, size] of layout) {
      fields.push({ what: `${what} ${name}`, offset: at, size });
      at += size;
    }
  };
  const rows = (
    what: string,
    offset: number,
    bytes: number,
    layout: readonly (readonly [string, 1 | 2 | 4 | 8])[],
  ): void => {
    const step = layout.reduce((sum, [, size]) => sum + size, 0);
    const count = Math.floor(bytes / step);
    const stride = Math.max(1, Math.floor(count / 40));
    for (let row = 0; row < count; row += stride) record(`${what}[${row}]`, offset + row * step, layout);
  };
  for (let i = 0; i < 16; i++) fields.push({ what: `e_ident[${i}]`, offset: i, size: 1 });
  record('', 16, [
    ['e_type', 2],
    ['e_machine', 2],
    ['e_version', 4],
    ['e_entry', word],
    ['e_phoff', word],
    ['e_shoff', word],
    ['e_flags', 4],
    ['e_ehsize', 2],
    ['e_phentsize', 2],
    ['e_phnum', 2],
    ['e_shentsize', 2],
    ['e_shnum', 2],
    ['e_shstrndx', 2],
  ]);
  for (const section of image.sections) {
    record(`shdr ${section.index}`, image.header.shoff + section.index * (is64 ? 64 : 40), [
      ['sh_name', 4],
      ['sh_type', 4],
      ['sh_flags', word],
      ['sh_addr', word],
      ['sh_offset', word],
      ['sh_size', word],
      ['sh_link', 4],
      ['sh_info', 4],
      ['sh_addralign', word],
      ['sh_entsize', word],
    ]);
  }
  for (const segment of image.segments) {
    record(
      `phdr ${segment.index}`,
      image.header.phoff + segment.index * (is64 ? 56 : 32),
      is64
        ? [
            ['p_type', 4],
            ['p_flags', 4],
            ['p_offset', 8],
            ['p_vaddr', 8],
            ['p_paddr', 8],
            ['p_filesz', 8],
            ['p_memsz', 8],
            ['p_align', 8],
          ]
        : [
            ['p_type', 4],
            ['p_offset', 4],
            ['p_vaddr', 4],
            ['p_paddr', 4],
            ['p_filesz', 4],
            ['p_memsz', 4],
            ['p_flags', 4],
            ['p_align', 4],
          ],
    );
    if (segment.type === C.PT_DYNAMIC) {
      rows('dynamic', segment.offset, segment.fileSize, [
        ['d_tag', word],
        ['d_val', word],
      ]);
    }
    if (segment.type === C.PT_NOTE) rows('note segment', segment.offset, segment.fileSize, [['word', 4]]);
  }
  const word32: readonly (readonly [string, 4])[] = [['word', 4]];
  for (const { name, type, offset, fileSize, flags } of image.sections) {
    switch (type) {
      case C.SHT_SYMTAB:
      case C.SHT_DYNSYM:
        rows(
          name,
          offset,
          fileSize,
          is64
            ? [
                ['st_name', 4],
                ['st_info', 1],
                ['st_other', 1],
                ['st_shndx', 2],
                ['st_value', 8],
                ['st_size', 8],
              ]
            : [
                ['st_name', 4],
                ['st_value', 4],
                ['st_size', 4],
                ['st_info', 1],
                ['st_other', 1],
                ['st_shndx', 2],
              ],
        );
        break;
      case C.SHT_RELA:
      case C.SHT_REL:
        rows(name, offset, fileSize, [
          ['r_offset', word],
          ['r_info', word],
          ...(type === C.SHT_RELA ? [['r_addend', word] as const] : []),
        ]);
        break;
      case C.SHT_RELR:
        rows(name, offset, fileSize, [['word', word]]);
        break;
      case C.SHT_GROUP:
      case C.SHT_NOTE:
      case C.SHT_HASH:
      case C.SHT_GNU_HASH:
      case C.SHT_SYMTAB_SHNDX:
        rows(name, offset, fileSize, word32);
        break;
      case C.SHT_STRTAB:
        rows(name, offset, fileSize, [['byte', 1]]);
        break;
      default:
        // Site tables and code: what later steps of the pipeline follow.
        if (/mcount|patchable|\.opd|\.toc|\.got/.test(name)) rows(name, offset, fileSize, [['word', word]]);
        else if ((flags & C.SHF_EXECINSTR) !== 0n) rows(name, offset, fileSize, word32);
    }
  }
  return fields;
}

function insert(view: ByteView, field: Field, value: bigint): void {
  if (field.size === 8) view.insertU64(field.offset, value);
  else if (field.size === 4) view.insertU32(field.offset, Number(BigInt.asUintN(32, value)));
  else if (field.size === 2) view.insertU16(field.offset, Number(BigInt.asUintN(16, value)));
  else view.insertU8(field.offset, Number(BigInt.asUintN(8, value)));
}

function extract(view: ByteView, field: Field): bigint {
  if (field.size === 8) return view.u64(field.offset);
  if (field.size === 4) return BigInt(view.u32(field.offset));
  return BigInt(field.size === 2 ? view.u16(field.offset) : view.u8(field.offset));
}

/**
 * Values at which readers go wrong: limits of the types, of the file, of reserved ranges, and
 * neighbours of what was there.
 */
function interesting(random: SeededRandom, old: bigint, fileSize: number): bigint {
  const size = BigInt(fileSize);
  const choices: readonly bigint[] = [
    0n,
    1n,
    old + 1n,
    old - 1n,
    old + 8n,
    old - 8n,
    old * 2n,
    old / 2n,
    -old,
    old ^ (1n << BigInt(random.next(64))),
    size,
    size - 1n,
    size + 1n,
    size - old,
    0x7fffn,
    0xff00n,
    0xffffn,
    0x1_0000n,
    0x7fff_ffffn,
    0x8000_0000n,
    0xffff_fff0n,
    0xffff_ffffn,
    0x1_0000_0000n,
    (1n << 53n) - 1n,
    1n << 53n,
    (1n << 63n) - 1n,
    1n << 63n,
    (1n << 64n) - 1n,
    (1n << 64n) - size,
    BigInt(random.next(256)),
    BigInt(random.next(2 ** 32)) << BigInt(random.next(33)),
  ];
  return random.pick(choices);
}

type Change = (bytes: Uint8Array) => { readonly bytes: Uint8Array; readonly done: string };

/** Makes mutants of one sample. `bytes` must be a file that readElf accepts. */
export class ElfMutator {
  readonly #image: ElfImage;
  readonly #fields: readonly Field[];

  constructor(
    readonly name: string,
    readonly bytes: Uint8Array,
  ) {
    this.#image = readElf(bytes);
    this.#fields = listFields(this.#image);
  }

  mutant(seed: number): Mutant {
    const random = new SeededRandom(Math.imul(seed, 0x9e37_79b1) ^ this.bytes.length);
    let bytes: Uint8Array = this.bytes.slice();
    const done: string[] = [];
    const rounds = random.next(4) === 0 ? 1 + random.next(4) : 1;
    for (let round = 0; round < rounds; round++) {
      const result = this.#change(random)(bytes);
      bytes = result.bytes;
      done.push(result.done);
    }
    return { bytes, description: `${this.name}, seed ${seed}: ${done.join('; ')}` };
  }

  #change(random: SeededRandom): Change {
    const kind = random.next(20);
    if (kind < 12) return this.#setField(random);
    if (kind < 14) return this.#swapFields(random);
    if (kind < 15) return this.#moveHeader(random);
    if (kind < 16) return this.#noise(random);
    if (kind < 18) return this.#truncate(random);
    if (kind < 19) return this.#extend(random);
    return this.#cutOut(random);
  }

  /** A field that still lies in the (maybe shortened) file. */
  #field(random: SeededRandom, bytes: Uint8Array): Field | null {
    // Header fields are few and matter most: half of all choices.
    const headers = this.#fields.findIndex((field) => /\[\d+\] (d_|st_|r_|word|byte)/.test(field.what));
    const end = random.next(2) === 0 && headers > 0 ? headers : this.#fields.length;
    const field = this.#fields[random.next(end)];
    return field === undefined || field.offset + field.size > bytes.length ? null : field;
  }

  #setField(random: SeededRandom): Change {
    return (bytes) => {
      const field = this.#field(random, bytes);
      if (field === null) return { bytes, done: 'nothing' };
      const view = new ByteView(bytes, this.#image.header.endian, 'mutant');
      const value = interesting(random, extract(view, field), bytes.length);
      insert(view, field, value);
      return { bytes, done: `${field.what} = 0x${BigInt.asUintN(8 * field.size, value).toString(16)}` };
    };
  }

  #swapFields(random: SeededRandom): Change {
    return (bytes) => {
      const a = this.#field(random, bytes);
      const b = this.#field(random, bytes);
      if (a === null || b === null) return { bytes, done: 'nothing' };
      const view = new ByteView(bytes, this.#image.header.endian, 'mutant');
      const value = extract(view, a);
      insert(view, a, extract(view, b));
      insert(view, b, value);
      return { bytes, done: `swap ${a.what} with ${b.what}` };
    };
  }

  /** One section header over another, or both exchanged: kinds and links that do not fit. */
  #moveHeader(random: SeededRandom): Change {
    return (bytes) => {
      const { shoff, shnum, shentsize } = this.#image.header;
      if (shnum === 0 || shoff + shnum * shentsize > bytes.length) return { bytes, done: 'nothing' };
      const from = random.next(shnum);
      const to = random.next(shnum);
      const a = bytes.slice(shoff + from * shentsize, shoff + (from + 1) * shentsize);
      const b = bytes.slice(shoff + to * shentsize, shoff + (to + 1) * shentsize);
      bytes.set(a, shoff + to * shentsize);
      const exchange = random.next(2) === 0;
      if (exchange) bytes.set(b, shoff + from * shentsize);
      return { bytes, done: `section header ${from} ${exchange ? 'exchanged with' : 'over'} ${to}` };
    };
  }

  /** Random or constant bytes over a part of a section. */
  #noise(random: SeededRandom): Change {
    return (bytes) => {
      const withBytes = this.#image.sections.filter((section) => section.fileSize > 0);
      const section = withBytes[random.next(withBytes.length)];
      const offset = section?.offset ?? 0;
      const size = section?.fileSize ?? bytes.length;
      const start = offset + random.next(size);
      const length = Math.min(1 + random.next(size), offset + size - start);
      const constant = random.next(3);
      for (let i = start; i < Math.min(start + length, bytes.length); i++) {
        bytes[i] = constant === 0 ? 0xff : constant === 1 ? 0x41 : random.next(256);
      }
      return { bytes, done: `noise over ${length} bytes at ${start} (${section?.name ?? 'file'})` };
    };
  }

  #truncate(random: SeededRandom): Change {
    return (bytes) => {
      const borders = this.#fields.length > 0 && random.next(3) > 0;
      const at = borders
        ? Math.min(bytes.length, random.pick(this.#fields).offset + random.next(3) - 1)
        : random.next(bytes.length);
      return { bytes: bytes.slice(0, Math.max(0, at)), done: `cut at ${at}` };
    };
  }

  #extend(random: SeededRandom): Change {
    return (bytes) => {
      const tail = random.next(3);
      const added =
        tail === 0 ? new TextEncoder().encode('~Module signature appended~\n') : new Uint8Array(1 + random.next(4096));
      if (tail === 2) for (let i = 0; i < added.length; i++) added[i] = random.next(256);
      const out = new Uint8Array(bytes.length + added.length);
      out.set(bytes);
      out.set(added, bytes.length);
      return { bytes: out, done: `${added.length} bytes added` };
    };
  }

  /** Bytes taken out of the middle: everything behind them is somewhere else. */
  #cutOut(random: SeededRandom): Change {
    return (bytes) => {
      const at = random.next(Math.max(1, bytes.length));
      const size = Math.min(1 + random.next(64), bytes.length - at);
      const out = new Uint8Array(bytes.length - size);
      out.set(bytes.subarray(0, at));
      out.set(bytes.subarray(at + size), at);
      return { bytes: out, done: `${size} bytes taken out at ${at}` };
    };
  }
}
