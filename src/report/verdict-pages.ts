/**
 * A page for each verdict: what it means, where it comes from, what can be done. Printed by
 * `explain VERDICT`.
 */
import type { Verdict } from '../sites/verdicts.js';

export interface VerdictPage {
  /** One line. */
  readonly meaning: string;
  /** Paragraphs: what is looked at, and usual causes. */
  readonly causes: readonly string[];
  /** What to do about it. */
  readonly advice: readonly string[];
  /** Rules that such a finding names. */
  readonly rules: readonly string[];
}

/** A page for each verdict: what it means, what makes it, what to do. */
export const verdictPages: Readonly<Record<Verdict, VerdictPage>> = {
  ok: {
    meaning: 'The bytes are a form of a known shape and lead where they must.',
    causes: [
      'The site is as the compiler left it, a nop, or a call of a tracer. Calls were followed through stubs, descriptors and pointer slots to their end.',
    ],
    advice: ['Nothing: it can be patched.'],
    rules: ['M-VAL-1', 'C-TGT-2'],
  },
  'zero-entry': {
    meaning: 'The slot of the table is empty.',
    causes: [
      'Tables are padded, links of overridden weak functions leave zeros behind, and patch --untrace empties slots of a vmlinux on purpose.',
    ],
    advice: ['Nothing: kernels skip such slots.'],
    rules: ['C-INIT-1'],
  },
  'outside-text': {
    meaning: 'The slot names a place that is not in executable code.',
    causes: [
      'The table was made for another link of the file, its relocations were not applied, or code was discarded or moved after the table was written.',
    ],
    advice: ['Make the table anew from the objects (mcount), or look at which section the address falls into (info).'],
    rules: ['M-VAL-1'],
  },
  duplicate: {
    meaning: 'Two slots name the same place.',
    causes: ['The table of an object was added twice, by the compiler and by a tool, or two tables were joined.'],
    advice: ['Sort and check the table (mcount); kernels keep both and patch the place twice.'],
    rules: ['M-SORT-3'],
  },
  misaligned: {
    meaning: 'The place is no multiple of what instructions or literals there need.',
    causes: [
      'The slot is damaged or has the byte order of another machine; or a function with a literal in front of it was not aligned to 8 bytes (-falign-functions).',
      'GCC before 14 passes over -falign-functions in cold functions and with -Os (GCC PR 88345).',
    ],
    advice: [
      'Compile with the alignment that the shape needs (-fmin-function-alignment of GCC 14 holds for every function), or make the table anew.',
    ],
    rules: ['M-VAL-1', 'A-SITE-1'],
  },
  'weak-leftover': {
    meaning: 'The site is in the body of a weak function that another one overrode.',
    causes: [
      'Linkers keep the bytes of an overridden weak function and drop its symbol. Its slot stays in the table; the code is never called.',
    ],
    advice: ['Nothing: it is never selected. mcount --zero-weak empties such slots in linked files.'],
    rules: ['M-WEAK-1'],
  },
  'no-symbol': {
    meaning: 'No function covers the place, and its bytes are no site.',
    causes: [
      'A stripped file with some symbols left, a table of another file, or a function without a size in assembly.',
    ],
    advice: ['Give the symbols of the unstripped file (--symbols), or exclude the place.'],
    rules: ['M-VAL-1'],
  },
  'no-landing-pad': {
    meaning: 'The entry of the function is no landing pad.',
    causes: [
      'Some compilers (GCC 15 where landing pads are an extension, GCC before 10 everywhere: GCC PR 92424 and 93492) put the pad behind the nops of -fpatchable-function-entry. Where processors check landing pads, an indirect call of the function traps.',
      'Or the image says that indirect branches are checked, and a pointer leads to a function without a pad: hand-written code, or an object compiled without them and linked with -z force-bti.',
    ],
    advice: ['Compile with another version, or without landing pads (-fcf-protection=none, -mbranch-protection=none).'],
    rules: ['M-PAD-2', 'M-PAD-4', 'M-PAD-6'],
  },
  'bypassed-by-local-entry': {
    meaning: 'Calls within the module enter the function behind the site.',
    causes: [
      'Functions may have two entries: one for callers that need the function to set up its TOC pointer, and a local one behind that set-up. Some compilers put the nops of -fpatchable-function-entry in front of the first (GCC before 13: GCC PR 99888), or name the first in the table (clang: LLVM issue 163706).',
    ],
    advice: ['Use -mprofile-kernel or -pg, or a compiler that puts the nops behind the local entry.'],
    rules: ['P-SITE-2'],
  },
  'unsupported-shape': {
    meaning: 'The bytes are no form of any shape, or of a compiler form that cannot be patched.',
    causes: [
      'Too few nops for a call, nops in the wrong place, another profiling method, or code that something else rewrote (alternatives, jump labels).',
    ],
    advice: ['Compare with the disassembly (disasm), and with the options that info suggests.'],
    rules: ['M-VAL-1', 'C-UPD-2'],
  },
  'wrong-bytes': {
    meaning: 'A known shape, with bytes that none of its forms has.',
    causes: ['Another tool patched the file, the file is damaged, or it was patched while it was copied.'],
    advice: ['Compare expected and actual bytes; restore the file from its source, or undo the other tool first.'],
    rules: ['C-UPD-2'],
  },
  'out-of-range': {
    meaning: 'The call cannot reach what it must.',
    causes: [
      'Text larger than the reach of a branch, or an entry placed too far away from the module, without a stub between.',
    ],
    advice: ['Load the module nearer, or let load make stubs; the message gives the distance.'],
    rules: ['C-TGT-2'],
  },
  'wrong-target': {
    meaning: 'The call leads to something that is no entry of a tracer.',
    causes: [
      'The site is no call of the profiling entry after all, the profiling entry has another name (-mfentry-name), or the branch was retargeted.',
    ],
    advice: ['Name the entry with --mcount if it is one; else treat the file as damaged.'],
    rules: ['C-TGT-2', 'F-2'],
  },
  'stub-wrong-target': {
    meaning: 'The call leads to a stub, and the stub to something that is no entry of a tracer.',
    causes: [
      'The stub belongs to another function, its stored address was overwritten, or it was read with the TOC pointer of another module.',
      'The stub that a site has of its own (out of line) is empty, incomplete, or comes back behind another site.',
    ],
    advice: ['Look at each hop with explain IMAGE SITE: the slot that the stub loads from shows what is stored.'],
    rules: ['P-STUB-1', 'C-TGT-2', 'P-OOL-2', 'P-OOL-7'],
  },
  'toc-restore-missing': {
    meaning: 'The word that brings the TOC pointer back after the call is missing, or stands where nothing was saved.',
    causes: [
      'A stub to code with another TOC saves the pointer; the word behind the call loads it again. Linkers and loaders write it over a nop. Two nops (the form of 2008) lose it.',
    ],
    advice: ['Restore the word, or load the module again; patched sites keep it and jump over it instead.'],
    rules: ['C-UPD-2', 'T-PPC-12'],
  },
  'pad-without-slot': {
    meaning: 'A function begins as traced functions do, and no table names it.',
    causes: [
      'The compiler or the linker lost its slot. GCC before 13.1 links the table of a whole file to the section of its first function: where a linker discards that, as it does with the second copy of an inline function, the slots of all others go with it (GCC PR 110729).',
    ],
    advice: [
      'Compile with GCC 13.1 or later, or give each object the table that it should have (mcount --repair) and link again.',
    ],
    rules: ['M-PAD-3'],
  },
  'state-mismatch': {
    meaning: 'The record in the file says otherwise than the bytes.',
    causes: ['Something changed the site after elftrace did, or the record belongs to another version of the file.'],
    advice: ['Nothing is written over such a site. status shows both; restore the bytes, or make the file anew.'],
    rules: ['RT-6'],
  },
  'klp-form': {
    meaning: 'The livepatch module does not say what it patches in a form that kernels take.',
    causes: [
      'Its information lacks livepatch=, a build stopped before its last step, a row of its tables is damaged or there twice, or the tables are in no known form.',
    ],
    advice: ['Build it anew; objtool klp post-link makes the final form.'],
    rules: ['M-KLP-1', 'M-KLP-2'],
  },
  'klp-object': {
    meaning: 'No file of a kernel or module that the livepatch names was given.',
    causes: ['--against names other files, or the module has another name than its file.'],
    advice: ['Name the file or its folder by --against.'],
    rules: ['M-KLP-3'],
  },
  'klp-function': {
    meaning: 'The function that is replaced is not found exactly once.',
    causes: [
      'No symbol has the name, several have it and the position is 0, or fewer have it than the position says: the livepatch was built for another kernel, or the compiler renamed or inlined the function.',
    ],
    advice: [
      'Build it for this kernel; positions count the symbols of a name, by address in a kernel, by table order in a module.',
    ],
    rules: ['M-KLP-3'],
  },
  'klp-untraceable': {
    meaning: 'The function that is replaced has no site that could send calls elsewhere.',
    causes: [
      'It is notrace, in text that is freed after the start, its site is damaged, calls within the module pass it by, or it calls behind its prologue.',
    ],
    advice: ['Patch its callers instead.'],
    rules: ['M-KLP-4', 'P-SITE-2'],
  },
  'klp-symbol': {
    meaning: 'A symbol that the livepatch core resolves has a wrong form or stands for nothing.',
    causes: [
      'Its name is not .klp.sym.OBJECT.SYMBOL,POSITION, its section is not SHN_LIVEPATCH, or no such symbol is there.',
    ],
    advice: ['Build it for this kernel, with the steps of its build in order.'],
    rules: ['M-KLP-6', 'M-KLP-7'],
  },
  'klp-relocation': {
    meaning: 'A relocation of the livepatch module is refused, or written too early, wrong or never.',
    causes: [
      'A type that module loaders do not take, a place that is not empty, no room for the TOC restore, a section without the flags of livepatch relocations, or a symbol that has no value then.',
    ],
    advice: ['Compile as the kernel is compiled, and let the tools of the kernel make these sections.'],
    rules: ['M-KLP-5', 'M-KLP-6', 'M-KLP-8'],
  },
  'klp-stubs': {
    meaning: 'Stubs of the livepatch module get in the way of each other.',
    causes: [
      'Kernels 6.13 to 6.17 reserve one entry for all stubs of sites out of line; stubs that are made when a patched module comes are written over the others.',
    ],
    advice: ['Use a kernel with the fix, or patch the module by a livepatch of its own that is loaded after it.'],
    rules: ['M-KLP-9'],
  },
  'klp-symid': {
    meaning: 'The table by which a kernel tells symbols of one name apart does not fit its symbols.',
    causes: ['The kernel was changed or stripped after it was linked.'],
    advice: ['Positions counted with this table are wrong: link the kernel anew.'],
    rules: ['M-KLP-10'],
  },
};
