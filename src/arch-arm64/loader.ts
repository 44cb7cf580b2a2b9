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
import { insertField } from '../isa/table.js';
import { layoutChoices } from '../machine/options.js';
import { arm64Options } from './conventions.js';
import { arm64Table, BRANCH_REACH, isBti, MOV_X9_X30, NOP } from './isa.js';
import { arm64MovwGroup } from './relocs.js';
import { encodeModulePlt, isErratum843419Place, MODULE_PLT_BYTES } from './stubs.js';

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
    isForbidden: isErratum843419Place,
    // One slot of a page at most begins in its last two words.
    reserve: (count) => Math.ceil((count * MODULE_PLT_BYTES) / 0x1000),
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
  callsEntry: (symbol, options) => symbol !== 'ftrace_list_caller' || options['a64-entries'] === 'two',
  patchable: 'regs',
  conventionOf: () => 'pg',
  conventionOfPatchable,
  // Entries that do not read the word in front of a function serve sites that have one, too.
  joinConventions(found) {
    if (!found.every((each) => each === 'regs' || each === 'callops' || each === 'args')) return null;
    return found.includes('args') ? 'args' : 'regs';
  },
  runtimeFor(convention, options) {
    if (convention === 'pg') return convention;
    const era = options['a64-era'];
    return era === 'args' || (era === 'regs' && convention === 'callops') ? era : convention;
  },
  entryStub: () => 'plt',
  farStub: 'plt',
  bindCall({ place, target }) {
    return reaches(BRANCH_REACH, place, target.code)
      ? { kind: 'direct', target: target.code }
      : { kind: 'stub', stub: 'plt', restore: null };
  },
  skippedCall: NOP,
  writeStub: (_kind, { address, target }) => encodeModulePlt(address, target),
  /** The signed groups: movz takes the bits of a value, movn those of its complement. */
  finishWord(type, word, value) {
    const shift = arm64MovwGroup(type);
    if (shift === null) return word;
    const field = arm64Table.field('movz', 'imm16');
    const bits = Number(((value < 0n ? ~value : value) >> BigInt(shift)) & 0xffffn);
    const opcode = arm64Table.row(value < 0n ? 'movn' : 'movz').match;
    const kept = word & ~arm64Table.row('movz').mask;
    return insertField(field, (kept | opcode) >>> 0, bits, 'movz');
  },
  kernelBlock: null,
};
