/**
 * How modules are laid out on x86-64: bases, jump stubs, the binding of calls. Owns no layout and
 * no relocation arithmetic.
 *
 * What a patcher must know of it:
 *
 * - `call` and `jmp` reach ±2 GiB. A kernel keeps core and modules within that (the top 2 GiB), and
 *   its code model counts on it: addresses fit into 32 bits with a sign (R_X86_64_32S), so there
 *   are no stubs.
 * - Programs and modules that were not compiled for that (-fPIC, -mcmodel=large) can lie anywhere.
 *   Their data are found through pointer slots (GOTPCREL and its X forms, which a linker may relax
 *   and which here keep their slot) or by 64-bit addresses; only calls (PLT32) are left, and get a
 *   stub in their own part where they do not reach:
 *
 *       ff 25 00 00 00 00     jmp *0(%rip)
 *       i0 .. i7              the target
 *
 *   It changes no register and no flag, so calls of tracers may go through it, also from a site in
 *   the middle of a prologue.
 * - The relocation of a call stands at its displacement, and the addend -4 says that the processor
 *   counts from behind it: S + A + 4 is what is called.
 * - A `PC32` is no call for certain (data and lea have it too), so it has no stub.
 *
 * Sources: System V psABI 1.0 (4.4, B.2); X-ENC-2; the areas are those of Linux
 * (Documentation of its memory map).
 */
import type { ConventionName } from '../machine/conventions.js';
import type { ModuleLoader } from '../machine/loader.js';
import { type Reach, reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import { layoutChoices } from '../machine/options.js';
import { x86Options } from './options.js';
import { NOP5 } from './sites.js';

/** Bytes of a stub and what follows it up to the next. */
const STUB_BYTES = 16;

/**
 * Relative to the displacement of a call of any length: what both ends of a shorter reach have in
 * common.
 */
const REACH: Reach = { min: -0x7fff_fffbn, max: 0x7fff_fffbn, alignBytes: 1 };

/** Room for trampolines: some forty of the larger kind. */
const TRAMPOLINE_ROOM = 0x4000;

const FRAME = 0xe589_4855;
/** Selectors of a 64-bit kernel's code and stack. */
const KERNEL_CS = 0x10;
const KERNEL_SS = 0x18;
/** Furthest a call of mcount was seen behind `push %rbp; mov %rsp,%rbp`. */
const MAX_PROLOGUE = 32;

const ENDBR64 = 0xfa1e_0ff3;
/** Longest pad in front of a function that is looked through. */
const MAX_PAD = 64;

/**
 * A pad that goes on behind its function's symbol holds a call; one that ends there is for other
 * patching (sites.ts says more).
 */
function conventionOfPatchable(
  functionAt: (delta: number) => boolean,
  word: (delta: number) => number,
): ConventionName | null {
  let at = 0;
  if (word(-4) !== ENDBR64) {
    while (at < MAX_PAD && !functionAt(at)) at++;
    if (word(at) === ENDBR64) at += 4;
  }
  const first = word(at);
  const isNop = first === 0x9090_9090 || (first & 0xffff) === 0x1f0f || (first & 0xff_ffff) === 0x1f_0f66;
  return isNop ? 'modern' : null;
}

export const x86Loader: ModuleLoader = {
  kind: 'modules',
  imageFlags: 0,
  options: layoutChoices(x86Options),
  keepsInit: false,
  segmentAlignBytes: 0x1000,
  addressLimit: 1n << 64n,
  reach: REACH,
  bases: (base) =>
    base === 'user'
      ? { core: 0x1000_0000n, modules: null }
      : { core: 0xffff_ffff_8100_0000n, modules: 0xffff_ffff_a000_0000n },
  // Beyond the reach of every branch.
  moduleDistance: 0x1_0000_0000n,
  stubs: {
    section: '.plt',
    initSection: null,
    entryBytes: STUB_BYTES,
    alignBytes: 16,
    placeholders: [],
    gap: null,
    entrySections: null,
  },
  descriptors: null,
  toc: () => null,
  codeOf: () => null,
  tocSymbol: null,
  entrySymbols: ['ftrace_caller', 'ftrace_regs_caller', 'ftrace_graph_caller'],
  chosenEntries: [],
  patchable: 'modern',
  conventionOf(word, callee) {
    if (callee !== undefined) return callee === 'mcount' ? 'mcount' : 'modern';
    // -pg -mfentry calls first of all; -pg behind the frame, with saves between the two.
    for (let back = 4; back <= MAX_PROLOGUE; back++) if (word(-back) === FRAME) return 'mcount';
    return 'modern';
  },
  conventionOfPatchable,
  // Both kinds of entry serve sites of __fentry__; the option says which.
  joinConventions: (found) => (found.every((each) => each !== 'mcount') ? 'modern' : null),
  chosenRuntimes: [
    { option: 'x86-tramp', choice: '2014', sites: ['modern'], runtime: 'y2014' },
    { option: 'x86-tramp', choice: 'modern', sites: ['y2014'], runtime: 'modern' },
    { option: 'x86-tramp', choice: 'none', sites: ['y2014'], runtime: 'modern' },
  ],
  entryStub: () => 'jump',
  farStub: 'jump',
  bindCall: ({ place, target }) =>
    reaches(REACH, place, target.code)
      ? { kind: 'direct', target: target.code }
      : { kind: 'stub', stub: 'jump', restore: null },
  // A call, whose opcode stands in front of its displacement; a jump, which goes on behind itself.
  skippedBranches: [
    { over: 0xe8, delta: -1, bytes: NOP5 },
    { over: null, delta: 0, bytes: new Uint8Array(4) },
  ],
  branchBias: 4n,
  trampolineRoom: { bytes: TRAMPOLINE_ROOM, unless: { option: 'x86-tramp', choice: 'none' } },
  writeStub(_kind, { target }) {
    const bytes = new Uint8Array(STUB_BYTES).fill(0xcc);
    bytes.set([0xff, 0x25, 0, 0, 0, 0]);
    new ByteView(bytes, 'little', 'stub').insertU64(6, BigInt.asUintN(64, target));
    return bytes;
  },
  // X-ENT-1: a register frame of a kernel names the kernel's segments. The immediates of two
  // instructions of 7 bytes with a store of 8 between.
  kernelWords: [
    { symbol: 'elftrace_selectors', offset: 3, value: KERNEL_SS },
    { symbol: 'elftrace_selectors', offset: 18, value: KERNEL_CS },
  ],
  kernelBlock: null,
};
