/**
 * How kernels' module loaders lay PowerPC modules out: TOC, stubs and the binding of calls on the
 * three ABIs. Owns no layout and no relocation arithmetic.
 *
 * What a patcher must know of it:
 *
 * - Modules lie further from the core than the 32 MiB of `bl`. The loader makes stubs inside the
 *   module's own reach, one for each distinct target, and points the `bl` there.
 * - 64 bits: a module has a TOC of its own, r2 = `.toc` + 0x8000 (later kernels round the base down
 *   to 256 first). A call into another part changes r2 even where the target is near, so it always
 *   goes through a stub, which saves r2 in the caller's frame: 40(r1) on ELFv1, 24(r1) on ELFv2.
 *   Compilers leave a `nop` behind the `bl`; the loader makes it the load that brings r2 back. A
 *   call without room for it cannot be bound.
 * - A tail call (`b`) keeps LR and has no frame: 24 or 40(r1) is the slot of its caller's caller,
 *   which holds *that* function's r2 when it called through a stub. Saving r2 there, as kernels do,
 *   destroys it; GNU ld refuses such a call ("lacks nop, can't restore toc"). Here its stub loads
 *   the callee's TOC and saves nothing, so r2 is right again after the return of every call through
 *   a stub. Compilers make tail calls only to functions of the same TOC.
 * - Calls with the same TOC need no stub; on ELFv2 they go to the local entry.
 * - A `-mprofile-kernel` site calls `_mcount` before the function has a frame, with r0 in use and
 *   no word for a restore: its stub may change r11, r12 and CTR only. In kernels it finds the
 *   target from the kernel's TOC, which the per-CPU area holds (r13); in programs r13 is the thread
 *   pointer and the stub has the absolute address.
 * - 32 bits: no TOC. A stub is made only where the branch does not reach; core and init sections
 *   have areas of their own.
 *
 * Sources: 64-bit PowerPC ELF ABI Supplement 1.9, ELFv2 ABI 1.5; what GNU ld 2.40 does with tail
 * calls was tried.
 */
import type { ConventionName } from '../machine/conventions.js';
import type {
  CallBinding,
  CallTarget,
  LoaderCall,
  LoaderModel,
  MachineOptions,
  ModuleLoader,
  StubRequest,
} from '../machine/loader.js';
import { reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import { ElftraceError } from '../errors.js';
import type { Address, Endian } from '../units.js';
import { layoutChoices } from '../machine/options.js';
import { ppcOptions } from './options.js';
import { branchReach, R_PPC64_REL24_NOTOC, R_PPC64_REL24_P9NOTOC } from './relocs.js';
import {
  FAR_STUB_BYTES,
  isBl,
  MODULE_STUB_BYTES,
  NOP,
  PACA_TOC_OFFSET,
  restoreToc,
  profileKernelWords,
  writeAbsoluteStub,
  writeFarStub,
  writeFtraceStub,
  writeTailStub,
  writeTocStub,
  writeTocStub2008,
} from './stubs.js';

/**
 * `toc`: r2 saved, the callee's loaded. `tail`: the callee's loaded only. `plain`: r2 left alone.
 * `far`: 32 bits.
 */
type Abi = 'sysv' | 'elfv1' | 'elfv2';

type PpcStub = 'toc' | 'tail' | 'plain' | 'far';

/** Modules of programs lie this far above the core: a direct branch spans an eighth of it. */
const MODULE_DISTANCE = 0x1000_0000n;

/** Real kernel areas, by the loader that is modelled. */
const KERNEL_BASES = {
  // 32-bit Book3S: modules below the kernel in later kernels, in the vmalloc area in 2008.
  sysv: {
    modern: { core: 0xc000_0000n, modules: 0xb000_0000n },
    2008: { core: 0xc000_0000n, modules: 0xd100_0000n },
  },
  // The vmalloc area: the 0xd region until Linux 5.2, then inside the 0xc region.
  elf64: {
    modern: { core: 0xc000_0000_0000_0000n, modules: 0xc008_0000_0000_0000n },
    2008: { core: 0xc000_0000_0000_0000n, modules: 0xd000_0000_0000_0000n },
  },
} as const;

const is2008 = (options: MachineOptions): boolean => options['ppc-stubs'] === '2008';

/** True at a `-mprofile-kernel` call. */
function isProfileKernel(word: (delta: number) => number): boolean {
  return profileKernelWords(word) > 0;
}

const direct = (target: Address): CallBinding => ({ kind: 'direct', target });
const through = (stub: PpcStub): CallBinding => ({ kind: 'stub', stub, restore: null });

function bindCall32(call: LoaderCall): CallBinding {
  const { code } = call.target;
  return reaches(branchReach, call.place, code) ? direct(code) : through('far');
}

/**
 * P-FN-2: bits 7..5 of st_other; 0 and 1 say that the function has one entry, 1 that it does not
 * keep r2.
 */
const entryKind = (target: CallTarget): number => (target.other >>> 5) & 7;

function bindCall64(call: LoaderCall, abi: 'elfv1' | 'elfv2'): CallBinding {
  const { target, place } = call;
  if (call.type === R_PPC64_REL24_NOTOC || call.type === R_PPC64_REL24_P9NOTOC) {
    // The caller has no TOC to lose; a callee that wants one finds it from r12, which the stub
    // sets.
    const near = entryKind(target) <= 1 && reaches(branchReach, place, target.code);
    return near ? direct(target.code) : through('plain');
  }
  const losesToc = abi === 'elfv2' && entryKind(target) === 1;
  if (target.toc === call.toc && !losesToc) {
    const local = target.code + BigInt(target.localEntry);
    return reaches(branchReach, place, local) ? direct(local) : through('plain');
  }
  const word = call.word(0);
  if (target.isTracer && isBl(word) && isProfileKernel((delta) => call.word(delta))) return through('plain');
  if (!isBl(word)) return through('tail');
  const restore = restoreToc(abi === 'elfv1' ? 40 : 24);
  const next = call.word(4);
  if (next === NOP) return { kind: 'stub', stub: 'toc', restore: { delta: 4, word: restore } };
  if (next === restore) return through('toc');
  return {
    kind: 'refused',
    code: 'toc-restore-missing',
    reason: `the word behind the call is ${next < 0 ? 'outside the section' : next.toString(16).padStart(8, '0')}, no nop to take the TOC restore`,
  };
}

/** An instruction as bytes. */
function wordBytesOf(word: number, endian: Endian): Uint8Array {
  const bytes = new Uint8Array(4);
  new ByteView(bytes, endian, 'instruction').insertU32(0, word);
  return bytes;
}

/** Conventions whose sites call through stubs of their own. */
const ownStubs: readonly ConventionName[] = ['ool', 'ool-ops'];

/** `=3,1`: a nop in front of the function, which becomes the pointer to its ops, and two in it. */
function isCallOpsPad(functionAt: (delta: number) => boolean, word: (delta: number) => number): boolean {
  return functionAt(4) && [0, 4, 8].every((delta) => word(delta) === NOP);
}

/** Where stubs go; a module reserves a section for them. */
function stubSections(abi: Abi): ModuleLoader['stubs'] {
  return {
    section: abi === 'sysv' ? '.plt' : '.stubs',
    initSection: abi === 'sysv' ? '.init.plt' : null,
    entryBytes: abi === 'sysv' ? FAR_STUB_BYTES : MODULE_STUB_BYTES[abi],
    alignBytes: abi === 'sysv' ? 4 : 8,
    placeholders: abi === 'sysv' ? ['.plt', '.init.plt', '.ftrace.tramp'] : ['.stubs', '.ftrace.tramp'],
    gap: null,
    entrySections: null,
  };
}

/** The code of a stub of a kind, at its place. */
function writeStubOf(abi: Abi, endian: Endian, kind: string, request: StubRequest): Uint8Array {
  const { address, target, targetToc, coreToc, options } = request;
  if (abi === 'sysv') return writeFarStub(target, is2008(options) ? 11 : 12);
  // An ELFv2 function sets r2 by itself, from r12.
  if (kind === 'plain' || (kind === 'tail' && abi === 'elfv2')) {
    // Only the entries of tracers lie in the core: what else keeps r2 is a far branch inside a
    // part.
    if (request.base === 'kernel' && coreToc !== null && targetToc === coreToc) {
      return writeFtraceStub({ address, coreToc, target, targetToc }, abi, endian);
    }
    return writeAbsoluteStub({ target, targetToc }, abi, endian);
  }
  if (request.toc === null) throw new ElftraceError('internal', 'a stub that saves the TOC of a part without one');
  const stub = { address, toc: request.toc, target, targetToc };
  if (kind === 'tail') return writeTailStub(stub, endian);
  return abi === 'elfv1' && is2008(options) ? writeTocStub2008(stub, endian) : writeTocStub(stub, abi, endian);
}

/** The per-CPU area, of which entries load the TOC of the core. */
function kernelBlock(endian: Endian): NonNullable<ModuleLoader['kernelBlock']> {
  return {
    section: '.data.elftrace_paca',
    symbol: 'elftrace_paca',
    register: 'r13',
    contents(toc) {
      const block = new Uint8Array(0x1000);
      new ByteView(block, endian, 'per-CPU area').insertU64(PACA_TOC_OFFSET, toc);
      return block;
    },
  };
}

/**
 * The loader model of an ABI.
 * Source: P-STUB-1 to P-STUB-7, P-OFF-2; RT-14
 */
export function createPpcLoader(abi: Abi, endian: Endian): LoaderModel {
  const bits = abi === 'sysv' ? 32 : 64;
  return {
    kind: 'modules',
    imageFlags: abi === 'sysv' ? 0 : abi === 'elfv1' ? 1 : 2,
    options: layoutChoices(ppcOptions(bits)),
    keepsInit: abi !== 'sysv',
    segmentAlignBytes: 0x1_0000,
    addressLimit: 1n << BigInt(bits),
    reach: branchReach,
    bases(base, options) {
      if (base === 'user') return { core: 0x1000_0000n, modules: null };
      return KERNEL_BASES[abi === 'sysv' ? 'sysv' : 'elf64'][is2008(options) ? 2008 : 'modern'];
    },
    moduleDistance: MODULE_DISTANCE,
    stubs: stubSections(abi),
    descriptors: abi === 'elfv1' ? '.opd' : null,
    toc(sectionAddress, options) {
      if (abi === 'sysv') return null;
      const base = sectionAddress('.toc') ?? sectionAddress('.got') ?? sectionAddress('.stubs') ?? sectionAddress('');
      if (base === null) return null;
      return (is2008(options) ? base : base & ~0xffn) + 0x8000n;
    },
    codeOf: (name) => (abi === 'elfv1' && name.startsWith('.') && name.length > 1 ? name.slice(1) : null),
    tocSymbol: abi === 'sysv' ? null : '.TOC.',
    entrySymbols: ['ftrace_caller', 'ftrace_regs_caller'],
    chosenEntries: [],
    chosenRuntimes: [
      { option: 'ppc-entries', choice: 'ool', sites: ['ool-ops'], runtime: 'ool' },
      { option: 'ppc-entries', choice: 'regs', sites: ['callops'], runtime: 'regs' },
    ],
    patchable: 'regs',
    // One nop or two; where the function begins at the pad or, with a global entry, behind it.
    conventionOfPatchable(functionAt, word) {
      const atEntry = functionAt(0) || (abi === 'elfv2' && functionAt(-8));
      if (atEntry) return word(0) === NOP && word(4) !== NOP ? 'ool-ops' : 'regs';
      return bits === 32 && isCallOpsPad(functionAt, word) ? 'callops' : 'regs';
    },
    conventionOf: (word) => (bits === 64 && isProfileKernel(word) ? 'regs' : 'pg'),
    // The entry that keeps all registers serves both kinds of calls; stubs of sites need their own.
    joinConventions: (found) => (found.some((each) => ownStubs.includes(each)) ? null : 'regs'),
    farStub: abi === 'sysv' ? 'far' : 'plain',
    entryStub(convention, from): PpcStub {
      if (abi === 'sysv') return 'far';
      // The core and its runtime share a TOC: r2 need not change.
      return from === 'core' || convention !== 'pg' ? 'plain' : 'toc';
    },
    bindCall: (call) => (abi === 'sysv' ? bindCall32(call) : bindCall64(call, abi)),
    skippedBranches: [{ over: null, delta: 0, bytes: wordBytesOf(NOP, endian) }],
    branchBias: 0n,
    trampolineRoom: null,
    kernelWords: [],
    writeStub: (kind, request) => writeStubOf(abi, endian, kind, request),
    kernelBlock: bits === 32 ? null : kernelBlock(endian),
  };
}
