/** The sample core and its two far modules as one image, for tests of tracing; needs no tools. */
import { archOf } from '../../src/arches.js';
import type { ConventionName } from '../../src/machine/conventions.js';
import type { TargetId } from '../../src/targets.js';
import { readElf } from '../../src/elf/read.js';
import { applyPlan } from '../../src/patch/apply.js';
import { checkAcceptance } from '../../src/patch/plan.js';
import { planTracing, type TracingRequest } from '../../src/tracing/tracing.js';
import { startProcess } from '../../src/guest/index.js';
import { loadImages, type LoadRequest, type LoadResult } from '../../src/program/loader.js';
import { runtimeObject } from '../../src/runtime/index.js';
import { type Opened, openBytes, readSample } from './pipeline.js';

export interface LoadedCase {
  readonly name: string;
  readonly target: TargetId;
  /** Ending of the sample's files: ``, `-mprofile`. */
  readonly ending: string;
  readonly flavour: ConventionName;
}

/** Every convention of every PowerPC target. */
export const loadedCases: readonly LoadedCase[] = [
  { name: 'ppc32', target: 'ppc32', ending: '', flavour: 'regs' },
  { name: 'ppc32 as in 2008', target: 'ppc32', ending: '', flavour: 'pg' },
  { name: 'ppc64-elfv1', target: 'ppc64-elfv1', ending: '', flavour: 'pg' },
  { name: 'ppc64-elfv1 -mprofile-kernel', target: 'ppc64-elfv1', ending: '-mprofile', flavour: 'regs' },
  { name: 'ppc64-elfv2-be', target: 'ppc64-elfv2-be', ending: '', flavour: 'regs' },
  { name: 'ppc64-elfv2-le', target: 'ppc64-elfv2-le', ending: '', flavour: 'regs' },
];

/** Lays the samples out. */
export function loadSamples(
  { target, ending, flavour }: Omit<LoadedCase, 'name'>,
  more: Partial<LoadRequest> = {},
): LoadResult {
  const source = (name: string, file: string) => ({ name, image: readElf(readSample(`${target}/${file}`)) });
  const core = source('core', `core${ending}.o`);
  return loadImages(
    {
      core,
      modules: [source('far_one', `far-one${ending}.ko`), source('far_two', `far-two${ending}.ko`)],
      base: 'user',
      runtime: { name: `runtime-${flavour}`, image: readElf(runtimeObject(target, flavour)!) },
      options: {},
      ...more,
    },
    archOf(core.image.header),
  );
}

/** PowerPC with one nop at the entry and stubs out of line. */
export const outOfLineCases: readonly LoadedCase[] = [
  { name: 'ppc32, one nop', target: 'ppc32', ending: '-patchable-1', flavour: 'ool' },
  { name: 'ppc64-elfv1, one nop', target: 'ppc64-elfv1', ending: '-patchable-1', flavour: 'ool' },
  { name: 'ppc32, one nop, ops', target: 'ppc32', ending: '-patchable-1', flavour: 'ool-ops' },
  { name: 'ppc64-elfv1, one nop, ops', target: 'ppc64-elfv1', ending: '-patchable-1', flavour: 'ool-ops' },
];

/** Every convention of arm64. */
export const arm64Cases: readonly LoadedCase[] = [
  { name: 'arm64', target: 'arm64', ending: '', flavour: 'callops' },
  { name: 'arm64 before 6.3', target: 'arm64', ending: '', flavour: 'regs' },
  { name: 'arm64 =2', target: 'arm64', ending: '-patchable-2', flavour: 'regs' },
];

/** Index of the site of a function. */
export function siteOf({ sites, program }: Opened, name: string): number {
  for (let i = 0; i < sites.count; i++) if (program.symbolName(sites.functionSymbol(i)) === name) return i;
  throw new Error(`no site in ${name}`);
}

/** One byte per site, nonzero for the named functions. */
export function selectionOf(opened: Opened, names: readonly string[]): Uint8Array {
  const selection = new Uint8Array(opened.sites.count);
  for (const name of names) selection[siteOf(opened, name)] = 1;
  return selection;
}

/** Plans and applies a tracer on an image. */
export function trace(bytes: Uint8Array, request: Partial<TracingRequest> = {}): Uint8Array {
  const { image, sites } = openBytes(bytes);
  const plan = planTracing(sites, { tracer: { kind: 'function' }, others: 'nop', ...request });
  checkAcceptance(plan, {});
  return applyPlan(image, plan).bytes;
}

export interface RunResult {
  readonly output: string;
  readonly exit: number;
  /** Words of guest memory by symbol. */
  word(symbol: string): bigint;
  /** A word of guest memory. */
  at(address: bigint): bigint;
}

/** Runs an image in the emulator to its end. */
export function runImage(bytes: Uint8Array): RunResult {
  const { image, arch, program } = openBytes(bytes);
  const { emulation } = arch;
  if (emulation.kind !== 'ir') throw new Error(`${arch.target.id} is not executed`);
  let output = '';
  const { machine } = startProcess({
    image,
    abi: arch.abi,
    emulation,
    onOutput: (_fd, chunk) => {
      output += new TextDecoder().decode(chunk);
    },
  });
  for (const [name, value] of Object.entries(program.loadMap?.registers ?? {})) machine.setRegister(name, value);
  const reason = machine.run({ budget: 20_000_000 });
  if (reason.kind !== 'exit')
    throw new Error(`stopped: ${reason.kind} at ${machine.register('pc').toString(16)} after ${output}`);
  return {
    output,
    exit: reason.code,
    at: (address) => machine.readWord(address, image.wordBytes) ?? -1n,
    word: (symbol) => machine.readWord(program.definedAt(program.symbols.find(symbol))!, image.wordBytes) ?? -1n,
  };
}
