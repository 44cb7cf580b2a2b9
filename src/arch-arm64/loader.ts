/**
 * How the kernel's module loader lays arm64 modules out: the binding of calls, PLT entries, the
 * entries for tracers. Owns no layout and no relocation arithmetic.
 *
 * What a patcher must know of it:
 *
 * - `bl` and `b` reach ±128 MiB. A module lies farther from the core than that, so its calls go to
 *   entries of its own PLT, 12 bytes each: adrp x16; add x16; br x16, which reaches ±4 GiB. x16 and
 *   x17 may be lost at any call, so nothing is saved and nothing restored.
 * - An adrp in the last two words of a 4 KiB page makes some cores (erratum 843419) read a wrong
 *   address: such slots stay empty, and room is reserved for them.
 * - Calls of a tracer's entry have entries of their own: one for the module's text and one for its
 *   init text, which is freed after the start (`.text.ftrace_trampoline`,
 *   `.init.text.ftrace_trampoline`); in the years before per-callsite ops one for each of the two
 *   entries.
 * - The words in front of functions (`=4,2`) are data in the text; the plan that enables a site
 *   writes them.
 *
 * Sources: A-PLT-1 to A-PLT-4, A-OFF-1; ELF for the Arm 64-bit Architecture, 5.7.
 */
import type { ConventionName } from '../machine/conventions.js';
import type { LoaderModel } from '../machine/loader.js';
import { reaches } from '../bits.js';
import { layoutChoices } from '../machine/options.js';
import { arm64Options } from './options.js';
import { BRANCH_REACH, isBti, MOV_X9_X30, NOP } from './isa.js';
import { encodeModulePlt, ERRATUM_843419_GAP, MODULE_PLT_BYTES } from './stubs.js';

const NOP_BYTES = new Uint8Array(4);
new DataView(NOP_BYTES.buffer).setUint32(0, NOP, true);

/** Modules of programs lie this far above the core: twice what a branch reaches. */
const MODULE_DISTANCE = 0x1000_0000n;

/**
 * 48 bits of addresses: modules begin at the first kernel address, the core lies 2 GiB above (Linux
 * 6.5 and later).
 */
const KERNEL_BASES = { core: 0xffff_8000_8000_0000n, modules: 0xffff_8000_0000_0000n } as const;

/**
 * What a patchable area at `anchor` is, by the symbols around it (A-SITE-1): `=2`, or `=4,2` with
 * its literal.
 */
function conventionOfPatchable(
  functionAt: (delta: number) => boolean,
  word: (delta: number) => number,
): ConventionName {
  if (functionAt(-4) && isBti(word(-4))) return 'regs';
  if (!functionAt(8)) return 'regs';
  const first = word(isBti(word(8)) ? 12 : 8);
  return !functionAt(0) || first === NOP || first === MOV_X9_X30 ? 'callops' : 'regs';
}

export const arm64Loader: LoaderModel = {
  kind: 'modules',
  imageFlags: 0,
  options: layoutChoices(arm64Options),
  keepsInit: false,
  segmentAlignBytes: 0x1_0000,
  addressLimit: 1n << 64n,
  reach: BRANCH_REACH,
  bases: (base) => (base === 'user' ? { core: 0x1000_0000n, modules: null } : KERNEL_BASES),
  moduleDistance: MODULE_DISTANCE,
  stubs: {
    section: '.plt',
    initSection: '.init.plt',
    entryBytes: MODULE_PLT_BYTES,
    alignBytes: 4,
    placeholders: ['.plt', '.init.plt', '.text.ftrace_trampoline', '.init.text.ftrace_trampoline'],
    gap: ERRATUM_843419_GAP,
    entrySections: { text: '.text.ftrace_trampoline', init: '.init.text.ftrace_trampoline' },
  },
  descriptors: null,
  // Code of -fpic finds its slots from the GOT's base.
  toc: (sectionAddress) => sectionAddress('.got'),
  tocSymbol: '_GLOBAL_OFFSET_TABLE_',
  codeOf: () => null,
  entrySymbols: ['ftrace_caller', 'ftrace_regs_caller', 'ftrace_list_caller'],
  // A-PLT-2: the PLT of a kernel's module has one entry for ftrace_caller alone; who switches
  // between two entries needs both.
  chosenEntries: [{ symbol: 'ftrace_list_caller', option: 'a64-entries', choice: 'two' }],
  patchable: 'regs',
  conventionOf: () => 'pg',
  conventionOfPatchable,
  // Entries that do not read the word in front of a function serve sites that have one, too.
  joinConventions(found) {
    if (!found.every((each) => each === 'regs' || each === 'callops' || each === 'args')) return null;
    return found.includes('args') ? 'args' : 'regs';
  },
  chosenRuntimes: [
    { option: 'a64-era', choice: 'args', sites: ['regs', 'callops'], runtime: 'args' },
    { option: 'a64-era', choice: 'regs', sites: ['callops'], runtime: 'regs' },
  ],
  entryStub: () => 'plt',
  farStub: 'plt',
  bindCall({ place, target }) {
    return reaches(BRANCH_REACH, place, target.code)
      ? { kind: 'direct', target: target.code }
      : { kind: 'stub', stub: 'plt', restore: null };
  },
  skippedBranches: [{ over: null, delta: 0, bytes: NOP_BYTES }],
  branchBias: 0n,
  trampolineRoom: null,
  writeStub: (_kind, { address, target }) => encodeModulePlt(address, target),
  kernelWords: [],
  kernelBlock: null,
};
