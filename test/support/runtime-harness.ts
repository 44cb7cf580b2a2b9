/**
 * Programs linked by `ld` with the guest runtime, before any loader: their calls of the profiling
 * entry are renamed to an entry of the runtime, and the patched calls inside it are written here.
 * Runs them under qemu-user and in the emulator.
 */
import type { ConventionName } from '../../src/machine/conventions.js';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readElf } from '../../src/elf/read.js';
import { startProcess } from '../../src/guest/index.js';
import type { Process } from '../../src/guest/index.js';
import { runtimeObject } from '../../src/runtime/index.js';
import type { ElfImage } from '../../src/elf/image.js';
import { scratch } from './c-programs.js';
import type { Outcome, PpcTarget } from './c-programs.js';
import * as riscv from './riscv-runtime.js';
import { spawnSync } from './spawn.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');
export const PROGRAMS = join(root, 'test/programs');

/** Nothing here imports jest, so that scripts can use it too. */
function run(command: string, args: readonly string[]): void {
  const result = spawnSync(command, [...args]);
  if (result.error) throw result.error;
  if (result.status !== 0) throw new Error(`${command} ${args.join(' ')}:\n${result.stderr.toString()}`);
}

export type Tracer = 'none' | 'function' | 'graph' | 'both' | 'counter';

export interface TracedBuild {
  readonly target: PpcTarget;
  readonly flavour: ConventionName;
  /** The entry that the sites call. */
  readonly entry?: 'ftrace_caller' | 'ftrace_regs_caller';
  readonly tracer: Tracer;
  readonly level?: string;
  /** Sources with sites; they have `main` (unless `report` is false). */
  readonly sources: readonly string[];
  /** Sources without sites. */
  readonly plain?: readonly string[];
  readonly flags?: readonly string[];
  /** Whether report.c is `main` and calls the program's own. */
  readonly report?: boolean;
  /** Compiled with two nops per function, which become `mflr r0; bl entry`. */
  readonly patchable?: boolean;
  /** RISC-V: another object than the prebuilt runtime. */
  readonly runtime?: string;
  /** What the entries call, instead of what the tracer needs. */
  readonly callee?: string;
}

/** How the sites of a flavour are compiled. */
function siteFlags(target: PpcTarget, flavour: ConventionName): readonly string[] {
  return flavour === 'regs' && target.name !== 'ppc32' ? ['-pg', '-mprofile-kernel'] : ['-pg'];
}

const compiled = new Map<string, string>();

/** The object of a compilation; equal ones are done once. */
function compile(target: PpcTarget, source: string, args: readonly string[]): string {
  const key = JSON.stringify([target.name, source, args]);
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const object = scratch('compiled.o');
  run(target.gcc, [
    '-w', '-ffreestanding', '-fno-pie', '-fno-stack-protector', '-I', PROGRAMS, ...target.flags, ...args, '-c', source, '-o', object,
  ]); // prettier-ignore
  compiled.set(key, object);
  return object;
}

/** Address of a function's code, or of another symbol. */
export function addressOf(target: PpcTarget, image: ElfImage, name: string): bigint {
  const symbol = image.symbols.find(name);
  const place = symbol < 0 ? null : target.arch.abi.codePlace(image, symbol);
  if (place === null) throw new Error(`no symbol ${name}`);
  return place.value;
}

/** Address of a datum or descriptor. */
export function valueOf(image: ElfImage, name: string): bigint {
  const symbol = image.symbols.find(name);
  if (symbol < 0) throw new Error(`no symbol ${name}`);
  return image.symbols.value[symbol]!;
}

/** Writes `b` or `bl` at a symbol of a linked file. */
function branchTo(target: PpcTarget, bytes: Uint8Array, from: string, to: string, link: boolean): void {
  const image = readElf(bytes);
  const at = addressOf(target, image, from);
  const symbol = image.symbols.find(to);
  const local = BigInt(target.arch.abi.localEntryOffset(image.symbols.other[symbol]!));
  const offset = addressOf(target, image, to) + local - at;
  const word = Number(BigInt.asUintN(26, offset)) | 0x4800_0000 | (link ? 1 : 0);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setUint32(image.fileOffsetOf(at)!, word >>> 0, image.header.endian === 'little');
}

/** The same for RISC-V, whose sites are patched areas, but for -pg. */
function buildRiscv(build: TracedBuild): string {
  const { target, tracer, level = '2', flags = [], entry = 'ftrace_caller', report = true } = build;
  const flavour = riscv.RISCV_FLAVOURS.find((each) => each === build.flavour)!;
  const objects = build.sources.map((source) => {
    const object = riscv.compile(target, source, [`-O${level}`, ...riscv.siteFlags(target, flavour), ...flags]);
    const names = {
      ...(tracer === 'none' ? {} : { _mcount: entry }),
      ...(report ? { main: 'traced_main' } : {}),
    };
    return riscv.renamed(target, object, names);
  });
  const options = [
    ...riscv.flavourFlags(flavour),
    ...(tracer === 'function' || tracer === 'both' ? ['-DUSE_FUNCTION'] : []),
    ...(tracer === 'graph' || tracer === 'both' ? ['-DUSE_GRAPH'] : []),
    ...(tracer === 'counter' ? ['-DUSE_COUNTER'] : []),
  ];
  const sources = [...(report ? [join(PROGRAMS, 'runtime/report.c')] : []), ...(build.plain ?? [])];
  for (const source of sources) objects.push(riscv.compile(target, source, ['-O2', ...options, ...flags]));
  const path = riscv.linkTraced(target, flavour, objects, build.runtime);
  if (tracer === 'none') return path;
  const single = {
    function: 'elftrace_function_tracer',
    graph: 'ftrace_graph_func',
    counter: 'elftrace_counter',
    both: 'ftrace_ops_list_func',
  };
  riscv.edit(path, (program) => {
    riscv.setCallee(program, flavour, build.callee ?? single[tracer]);
    const literal = flavour === 'g3c' ? program.address('ftrace_list_ops') : 0n;
    for (const area of program.areas()) riscv.enable(program, flavour, area, program.address(entry), literal);
  });
  return path;
}

/** Builds a traced program; the path of the executable. */
export function buildTraced(build: TracedBuild): string {
  if (build.target.arch.target.id === 'riscv64') return buildRiscv(build);
  const { target, flavour, tracer, level = '2', flags = [], entry = 'ftrace_caller', report = true } = build;
  const sites = build.patchable === true ? ['-fpatchable-function-entry=2'] : siteFlags(target, flavour);
  const objects = build.sources.map((source) =>
    riscv.renamed(target, compile(target, source, [`-O${level}`, ...sites, ...flags]), {
      ...(tracer === 'none' ? {} : { _mcount: entry }),
      ...(report ? { main: 'traced_main' } : {}),
    }),
  );
  const options = [
    ...(flavour === 'regs' ? ['-DRUNTIME_REGS'] : []),
    ...(tracer === 'function' || tracer === 'both' ? ['-DUSE_FUNCTION'] : []),
    ...(tracer === 'graph' || tracer === 'both' ? ['-DUSE_GRAPH'] : []),
    ...(tracer === 'counter' ? ['-DUSE_COUNTER'] : []),
    '-I', join(root, 'src/runtime'), '-I', join(root, 'src/arch-ppc'),
  ]; // prettier-ignore
  const sources = [...(report ? [join(PROGRAMS, 'runtime/report.c')] : []), ...(build.plain ?? [])];
  for (const source of sources) objects.push(compile(target, source, ['-O2', ...options, ...flags]));
  const start = compile(target, join(PROGRAMS, 'start.S'), []);
  const runtime = scratch('runtime.o');
  writeFileSync(runtime, runtimeObject(target.arch.target.id, flavour)!);
  const output = scratch('program');
  run(target.gcc, [
    ...target.flags, '-nostdlib', '-static', '-no-pie', '-Wl,--build-id=none', '-Wl,-z,norelro',
    '-T', join(PROGRAMS, 'runtime/ring.lds'), '-o', output, start, ...objects, runtime, ...target.libraries,
  ]); // prettier-ignore
  const bytes = new Uint8Array(readFileSync(output));
  if (tracer !== 'none') patch(build, bytes);
  if (tracer !== 'none' && build.patchable === true) patchAreas(target, bytes, entry);
  writeFileSync(output, bytes);
  return output;
}

/** What the tool does to the shared entries. */
function patch(build: Pick<TracedBuild, 'target' | 'flavour' | 'tracer' | 'callee'>, bytes: Uint8Array): void {
  const { target, flavour, tracer } = build;
  const single = {
    none: 'ftrace_stub',
    function: 'elftrace_function_tracer',
    graph: 'ftrace_graph_func',
    counter: 'elftrace_counter',
  };
  if (flavour === 'regs') {
    const callee = build.callee ?? (tracer === 'both' ? 'ftrace_ops_list_func' : single[tracer]);
    for (const call of ['ftrace_call', 'ftrace_regs_call']) branchTo(target, bytes, call, callee, true);
    return;
  }
  // C-TGT-9: this entry passes no ops, so that even one needs the list.
  const callee = build.callee ?? (tracer === 'graph' ? 'ftrace_stub' : 'ftrace_ops_list_func');
  branchTo(target, bytes, 'ftrace_call', callee, true);
  if (tracer === 'graph' || tracer === 'both') {
    branchTo(target, bytes, 'ftrace_graph_call', 'ftrace_graph_caller', false);
  }
}

/** Each entry of the table of areas: the first of two nops. */
function patchAreas(target: PpcTarget, bytes: Uint8Array, entry: string): void {
  const image = readElf(bytes);
  const little = image.header.endian === 'little';
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const to = addressOf(target, image, entry);
  const wordBytes = target.arch.target.wordBytes;
  for (const table of image.sectionsNamed('__patchable_function_entries')) {
    for (let at = table.offset; at < table.offset + table.size; at += wordBytes) {
      const area = wordBytes === 8 ? view.getBigUint64(at, little) : BigInt(view.getUint32(at, little));
      const offset = image.fileOffsetOf(area)!;
      view.setUint32(offset, 0x7c08_02a6, little);
      view.setUint32(offset + 4, (Number(BigInt.asUintN(26, to - area - 4n)) | 0x4800_0001) >>> 0, little);
    }
  }
}

/**
 * Links objects that call the profiling entry with the runtime, traced by graph or untraced; the
 * path of the executable.
 */
export function linkSamples(
  target: PpcTarget,
  flavour: ConventionName,
  paths: readonly string[],
  tracer: 'none' | 'graph',
): string {
  const objects = paths.map((path) => {
    const object = scratch('sample.o');
    const renamed = tracer === 'none' ? [] : ['--redefine-sym', '_mcount=ftrace_caller'];
    run(target.gcc.replace('gcc', 'objcopy'), [...renamed, path, object]);
    return object;
  });
  const runtime = scratch('runtime.o');
  writeFileSync(runtime, runtimeObject(target.arch.target.id, flavour)!);
  const output = scratch('samples');
  run(target.gcc.replace('gcc', 'ld'), ['-T', join(PROGRAMS, 'runtime/ring.lds'), ...objects, runtime, '-o', output]);
  const bytes = new Uint8Array(readFileSync(output));
  if (tracer !== 'none') patch({ target, flavour, tracer }, bytes);
  writeFileSync(output, bytes);
  return output;
}

export interface TracedOutcome extends Outcome {
  /** What report.c wrote. */
  readonly report: Readonly<Record<string, number>>;
}

function parse(text: string): Readonly<Record<string, number>> {
  const entries = [...text.matchAll(/^([a-z-]+) ([0-9a-f]+)$/gm)].map((each) => [
    each[1]!,
    Number.parseInt(each[2]!, 16),
  ]);
  return Object.fromEntries(entries) as Readonly<Record<string, number>>;
}

export function runTracedQemu(target: PpcTarget, path: string): TracedOutcome {
  const result = spawnSync(target.qemu, [...(target.qemuFlags ?? []), path], {
    env: { A: 'B' },
    maxBuffer: 1 << 28,
    timeout: 60_000,
  });
  return {
    output: result.stdout.toString('latin1'),
    end: result.status ?? `signal ${String(result.signal)}`,
    report: parse(result.stderr.toString('latin1')),
  };
}

/** Starts a traced program here. */
export function startTraced(target: PpcTarget, path: string): { process: Process; output: string[] } {
  const { emulation, abi } = target.arch;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const output = ['', '', ''];
  const process = startProcess({
    image: readElf(new Uint8Array(readFileSync(path))),
    emulation,
    abi,
    args: [path],
    env: ['A=B'],
    onOutput: (descriptor, bytes) => {
      output[descriptor] += Buffer.from(bytes).toString('latin1');
    },
  });
  return { process, output };
}

export function runTracedHere(target: PpcTarget, path: string): TracedOutcome & { readonly instructions: number } {
  const { process, output } = startTraced(target, path);
  const stop = process.run({ budget: 2_000_000_000 });
  const where = `0x${process.machine.register('pc').toString(16)}`;
  const end = stop.kind === 'exit' ? stop.code : `${stop.kind} at ${where}`;
  return { output: output[1]!, end, report: parse(output[2]!), instructions: process.machine.instructions };
}
