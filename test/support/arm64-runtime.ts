/**
 * Programs of arm64 linked by `ld` with the guest runtime, whose sites and objects are written by
 * the plan of a tracer; run under qemu-user and in the emulator. Imports no jest.
 */
import { spawnSync } from './spawn.js';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { arm64 } from '../../src/arch-arm64/index.js';
import { readElf } from '../../src/elf/read.js';
import { applyPlan } from '../../src/patch/apply.js';
import { findSites } from '../../src/sites/sites.js';
import { planTracing, type Tracer } from '../../src/tracing/tracing.js';
import { load } from '../../src/program/program.js';
import { runtimeObject } from '../../src/runtime/index.js';
import { ARM64_TARGETS, scratch } from './c-programs.js';
import { PROGRAMS, runTracedHere, runTracedQemu, type TracedOutcome } from './runtime-harness.js';

export const ARM64_FLAVOURS = ['pg', 'regs', 'args', 'callops'] as const;
export type Arm64Flavour = (typeof ARM64_FLAVOURS)[number];

const GCC = 'aarch64-linux-gnu-gcc';
export const arm64Tools = [GCC, 'aarch64-linux-gnu-ld', 'aarch64-linux-gnu-objcopy', 'qemu-aarch64'];
/** General registers only, or everything that compilers use. */
export const plainTarget = ARM64_TARGETS.find(({ name }) => name === 'arm64-plain')!;

function run(command: string, args: readonly string[]): void {
  const result = spawnSync(command, [...args]);
  if (result.error) throw result.error;
  if (result.status !== 0) throw new Error(`${command} ${args.join(' ')}:\n${result.stderr.toString()}`);
}

/** How the sites of a flavour are compiled. */
export const siteFlags: Readonly<Record<Arm64Flavour, readonly string[]>> = {
  pg: ['-pg'],
  regs: ['-fpatchable-function-entry=2'],
  args: ['-fpatchable-function-entry=2'],
  // Functions of other sections have alignments of their own.
  callops: ['-fpatchable-function-entry=4,2', '-falign-functions=8', '-fno-reorder-functions'],
};

const flavourFlags: Readonly<Record<Arm64Flavour, readonly string[]>> = {
  pg: [],
  regs: ['-DRUNTIME_REGS'],
  args: ['-DRUNTIME_REGS', '-DARGS_FRAME'],
  callops: ['-DRUNTIME_REGS', '-DARGS_FRAME', '-DCALL_OPS'],
};

const compiled = new Map<string, string>();

/** The object of a compilation; equal ones are done once. */
export function compileArm64(source: string, args: readonly string[]): string {
  const key = JSON.stringify([source, args]);
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const object = scratch('compiled.o');
  run(GCC, [
    '-w', '-ffreestanding', '-fno-stack-protector', '-I', PROGRAMS, '-I', join(PROGRAMS, '../../src/runtime'),
    '-I', join(PROGRAMS, '../../src/arch-arm64'), ...plainTarget.flags, ...args, '-c', source, '-o', object,
  ]); // prettier-ignore
  compiled.set(key, object);
  return object;
}

export interface Arm64Build {
  readonly flavour: Arm64Flavour;
  /** With sites; they have `main` unless `report` is false. */
  readonly sources: readonly string[];
  /** Without sites. */
  readonly plain?: readonly string[];
  readonly level?: string;
  readonly flags?: readonly string[];
  readonly report?: boolean;
  /** Landing pads, and a file that asks for them to be checked. */
  readonly bti?: boolean;
  /** Other objects, and options of the linker. */
  readonly link?: readonly string[];
}

/** Links a program with the runtime; nothing is traced yet. */
export function linkArm64(build: Arm64Build): Uint8Array {
  const { flavour, level = '2', flags = [], report = true, bti = false } = build;
  const common = [...flags, ...flavourFlags[flavour], ...(bti ? ['-mbranch-protection=bti'] : [])];
  const objects = build.sources.map((source) => {
    const original = compileArm64(source, [`-O${level}`, ...siteFlags[flavour], ...common]);
    if (!report) return original;
    const renamed = scratch('renamed.o');
    run('aarch64-linux-gnu-objcopy', ['--redefine-sym', 'main=traced_main', original, renamed]);
    return renamed;
  });
  const plain = [...(report ? [join(PROGRAMS, 'runtime/report.c')] : []), ...(build.plain ?? [])];
  for (const source of plain) objects.push(compileArm64(source, ['-O2', ...common]));
  objects.push(compileArm64(join(PROGRAMS, 'start-arm64.S'), bti ? ['-DBTI'] : []));
  const runtime = scratch('runtime.o');
  writeFileSync(runtime, runtimeObject('arm64', flavour)!);
  const output = scratch('program');
  run(GCC, [
    '-nostdlib', '-static', '-no-pie', '-Wl,--build-id=none', '-Wl,-z,norelro', ...(bti ? ['-Wl,-z,force-bti', '-Wl,--no-warnings'] : []),
    '-T', join(PROGRAMS, 'runtime/ring.lds'), '-o', output, ...objects, runtime, ...(build.link ?? []), '-lgcc',
  ]); // prettier-ignore
  return new Uint8Array(readFileSync(output));
}

/**
 * The program with a tracer on all its sites; sites of which the pointer is not aligned are left
 * out (A-SITE-1), and, for the graph tracer, those of functions that have signed their return
 * address.
 */
export function traceArm64(
  bytes: Uint8Array,
  tracer: Tracer['kind'] & ('function' | 'function_graph' | 'counter'),
): Uint8Array {
  const image = readElf(bytes);
  const plan = planTracing(findSites(load(image, arm64)), { tracer: { kind: tracer }, others: 'untouched' });
  const bad = plan.refusals.filter(({ code, reason }) => code !== 'signed-return' && !reason.includes('not 8-aligned'));
  if (bad.length > 0) throw new Error(`${bad[0]!.function}: ${bad[0]!.reason}`);
  return applyPlan(image, plan).bytes;
}

/** Writes a program and runs it under qemu-user and here. */
export function runArm64(bytes: Uint8Array): { readonly qemu: TracedOutcome; readonly here: TracedOutcome } {
  const path = scratch('traced');
  writeFileSync(path, bytes, { mode: 0o755 });
  return { qemu: runTracedQemu(plainTarget, path), here: runTracedHere(plainTarget, path) };
}
