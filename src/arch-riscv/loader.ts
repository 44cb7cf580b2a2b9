/**
 * How kernels' module loaders lay RISC-V modules out: which calls get a PLT entry, what it is. Owns
 * no layout and no relocation arithmetic.
 *
 * What a patcher must know of it:
 *
 * - `auipc; jalr` reaches 2 GiB, which real kernels never exceed: modules lie just below the
 *   kernel. A loader makes a PLT entry only where a call does not reach: `auipc t0; ld t1; jr t1`,
 *   the address in a table of its own. Data of other parts is reached through a GOT, if the module
 *   was compiled so (-fPIC); else a PCREL_HI20 that does not reach is an error.
 * - A PLT entry changes t0 and t1. For a call that is nothing; for a patch site it is fatal: t0
 *   says where the function goes on. What leads from a far module to a tracer's entry therefore
 *   uses t1 only (t1 is dead at a function's entry).
 * - Nothing is relaxed here: RELAX marks are ignored, and where ALIGN asks for nops to be deleted
 *   the object is refused.
 *
 * Source: RISC-V ABIs Specification (psABI) 1.0, 8.4 and 8.5; R-ENC-1, R-DIR-6.
 */
import type { LoaderModel } from '../machine/loader.js';
import { reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import type { Address } from '../units.js';
import { layoutChoices } from '../machine/options.js';
import { riscvOptions } from './options.js';
import { pairReach } from './sites.js';
import { NOP, writeFarLiteral, writeModulePlt } from './stubs.js';

/** `plt`: t0 and t1 are lost. `entry`: t0 and ra stay. */
type RiscvStub = 'plt' | 'entry';

/** Three words, a nop, the address. */
const STUB_BYTES = 24;
const LITERAL = 16;

/**
 * EF_RISCV_RVC and the ABI of double floats: what parts may have, and a processor for it runs those
 * without, too.
 */
const IMAGE_FLAGS = 5;

/** Farther than a pair reaches, both ways. */
const MODULE_DISTANCE = 0x1_0000_0000n;

function stubBytes(words: readonly number[], target: Address): Uint8Array {
  const bytes = new Uint8Array(STUB_BYTES);
  const view = new ByteView(bytes, 'little', 'stub');
  [...words, NOP].forEach((word, i) => {
    view.insertU32(4 * i, word);
  });
  view.insertU64(LITERAL, target);
  return bytes;
}

/** The loader model. */
const NOP_BYTES = new Uint8Array(4);
new DataView(NOP_BYTES.buffer).setUint32(0, NOP, true);

export const riscvLoader: LoaderModel = {
  kind: 'modules',
  imageFlags: IMAGE_FLAGS,
  options: layoutChoices(riscvOptions),
  keepsInit: false,
  segmentAlignBytes: 0x1000,
  addressLimit: 1n << 64n,
  reach: pairReach,
  bases: (base) =>
    base === 'user'
      ? { core: 0x1000_0000n, modules: null }
      : { core: 0xffff_ffff_8000_0000n, modules: 0xffff_ffff_0200_0000n },
  moduleDistance: MODULE_DISTANCE,
  stubs: {
    section: '.plt',
    initSection: null,
    entryBytes: STUB_BYTES,
    alignBytes: 8,
    placeholders: ['.plt', '.got', '.got.plt', '.init.plt', '.ftrace.tramp'],
    gap: null,
    entrySections: null,
  },
  descriptors: null,
  toc: () => null,
  codeOf: () => null,
  tocSymbol: null,
  entrySymbols: ['ftrace_caller', 'ftrace_regs_caller'],
  chosenEntries: [],
  chosenRuntimes: [],
  patchable: 'g2',
  conventionOfPatchable: null,
  conventionOf: () => 'g0',
  joinConventions: () => null,
  farStub: 'entry' satisfies RiscvStub,
  entryStub: (): RiscvStub => 'entry',
  bindCall: ({ place, target }) =>
    reaches(pairReach, place, target.code)
      ? { kind: 'direct', target: target.code }
      : { kind: 'stub', stub: 'plt', restore: null },
  skippedBranches: [{ over: null, delta: 0, bytes: NOP_BYTES }],
  branchBias: 0n,
  trampolineRoom: null,
  kernelWords: [],
  writeStub: (kind, { address, target }) =>
    kind === 'plt'
      ? stubBytes(writeModulePlt(address, address + BigInt(LITERAL)), target)
      : stubBytes(writeFarLiteral(LITERAL), target),
  kernelBlock: null,
};
