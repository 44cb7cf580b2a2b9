/**
 * The samples of a core and two modules far away, loaded and traced: the way of the demo and of the
 * tests. Imports no jest.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { archOf } from '../../src/arches.js';
import type { ConventionName } from '../../src/machine/conventions.js';
import type { TargetId } from '../../src/targets.js';
import { readElf } from '../../src/elf/read.js';
import { applyPlan } from '../../src/patch/apply.js';
import { findSites, type Sites } from '../../src/sites/sites.js';
import { planTracing, type Tracer } from '../../src/tracing/tracing.js';
import { loadImages } from '../../src/program/loader.js';
import { load } from '../../src/program/program.js';
import { runtimeObject } from '../../src/runtime/index.js';

const built = join(dirname(fileURLToPath(import.meta.url)), '../../../samples/built');

export interface LoadedSample {
  readonly target: TargetId;
  readonly flavour: ConventionName;
  readonly suffix: string;
}

/** Every way in which the samples are compiled. */
export const loadedSamples: readonly LoadedSample[] = [
  { target: 'ppc32', flavour: 'pg', suffix: '' },
  { target: 'ppc32', flavour: 'regs', suffix: '' },
  { target: 'ppc64-elfv1', flavour: 'pg', suffix: '' },
  { target: 'ppc64-elfv1', flavour: 'regs', suffix: '-mprofile' },
  { target: 'ppc64-elfv2-be', flavour: 'regs', suffix: '' },
  { target: 'ppc64-elfv2-le', flavour: 'regs', suffix: '' },
];

/** Core, runtime and both modules in one image. */
export function loadSample(sample: LoadedSample, machine: Readonly<Record<string, string>> = {}): Uint8Array {
  const { target, flavour, suffix } = sample;
  const source = (name: string, file: string) => ({
    name,
    image: readElf(new Uint8Array(readFileSync(join(built, target, file)))),
  });
  const core = source('core', `core${suffix}.o`);
  const runtime = runtimeObject(target, flavour);
  if (!runtime) throw new Error(`no runtime ${flavour} for ${target}`);
  const { bytes } = loadImages(
    {
      core,
      modules: [source('far_one', `far-one${suffix}.ko`), source('far_two', `far-two${suffix}.ko`)],
      base: 'user',
      runtime: { name: `runtime-${flavour}`, image: readElf(runtime) },
      options: { machine },
    },
    archOf(core.image.header),
  );
  return bytes;
}

export function sitesOf(bytes: Uint8Array): Sites {
  const image = readElf(bytes);
  return findSites(load(image, archOf(image.header)));
}

/** The image with a tracer on the sites whose function `selected` takes; with null, all off. */
export function traced(
  bytes: Uint8Array,
  tracer: (Tracer['kind'] & ('function' | 'function_graph')) | null,
  selected: (name: string) => boolean = () => true,
): Uint8Array {
  const sites = sitesOf(bytes);
  const selection = new Uint8Array(sites.count);
  for (let i = 0; i < sites.count; i++) {
    selection[i] = selected(sites.program.symbolName(sites.functionSymbol(i)).replace(/^\./, '')) ? 1 : 0;
  }
  const plan = planTracing(sites, { tracer: tracer === null ? null : { kind: tracer }, selection, others: 'nop' });
  if (plan.refusals.length > 0) throw new Error(plan.refusals[0]!.reason);
  return applyPlan(readElf(bytes), plan).bytes;
}
