/**
 * Traced programs of RISC-V, linked by `ld` with the guest runtime before any loader: sites, inner
 * calls and the words that name ops are written here, from the formulas of the rules and not by the
 * code under test. For `buildTraced`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { runtimeObject } from '../../src/runtime/index.js';
import { type PpcTarget, RISCV_TARGETS, scratch } from './c-programs.js';
import { spawnSync } from './spawn.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');
export const PROGRAMS = join(root, 'test/programs');

export type RiscvFlavour = 'g0' | 'g1' | 'g2' | 'g2-plain' | 'g2-merged' | 'g3' | 'g3c';
export const RISCV_FLAVOURS: readonly RiscvFlavour[] = ['g2', 'g2-plain', 'g2-merged', 'g1', 'g3', 'g3c', 'g0'];

/** With and without compressed instructions. */
export const TRACED_TARGETS: readonly PpcTarget[] = RISCV_TARGETS.slice(0, 2);

const isCompressed = (target: PpcTarget): boolean => target.name !== 'rv64g';

/** How the sites of a generation are compiled (R-SITE-5). */
export function siteFlags(target: PpcTarget, flavour: RiscvFlavour): readonly string[] {
  const c = isCompressed(target);
  switch (flavour) {
    case 'g0':
      return ['-pg'];
    case 'g1':
      return [`-fpatchable-function-entry=${c ? 8 : 4}`];
    case 'g2':
    case 'g2-plain':
    case 'g2-merged':
      return [`-fpatchable-function-entry=${c ? 4 : 2}`];
    case 'g3':
      return [`-fpatchable-function-entry=${c ? 4 : 2}`, '-falign-functions=4'];
    case 'g3c':
      return [`-fpatchable-function-entry=${c ? '8,4' : '4,2'}`, '-falign-functions=8'];
    default:
      return flavour satisfies never;
  }
}

/** From the site that callbacks are told (C-TGT-7) to the auipc of its pair. */
export const SITE_OFFSET: Readonly<Record<RiscvFlavour, number>> = {
  g0: 0, g1: 4, g2: 0, 'g2-plain': 0, 'g2-merged': 0, g3: -4, g3c: -4,
}; // prettier-ignore

export function run(command: string, args: readonly string[]): void {
  const result = spawnSync(command, [...args]);
  if (result.error) throw result.error;
  if (result.status !== 0) throw new Error(`${command} ${args.join(' ')}:\n${result.stderr.toString()}`);
}

export function addressOf(image: ElfImage, name: string): bigint {
  const symbol = image.symbols.find(name);
  if (symbol < 0) throw new Error(`no symbol ${name}`);
  return image.symbols.value[symbol]!;
}

/** R-ENC-1, by its formula. */
export function pairWords(register: number, offset: bigint): readonly [number, number] {
  const low = offset & 0xfffn;
  const high = (offset & 0xffff_f000n) + (offset & 0x800n ? 0x1000n : 0n);
  return [
    Number(BigInt.asUintN(32, high)) + (register << 7) + 0x17,
    Number(low) * 2 ** 20 + (register << 15) + (register << 7) + 0x67,
  ];
}

/** A linked file that is written to by address. */
export class Patched {
  readonly image: ElfImage;
  private readonly view: DataView;

  constructor(readonly bytes: Uint8Array) {
    this.image = readElf(bytes);
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  address(name: string): bigint {
    return addressOf(this.image, name);
  }

  word(address: bigint, value: number): void {
    this.view.setUint32(this.image.fileOffsetOf(address), value, true);
  }

  long(address: bigint, value: bigint): void {
    this.view.setBigUint64(this.image.fileOffsetOf(address), value, true);
  }

  /** auipc and jalr through `register` at `at` to `to`. */
  pair(register: number, at: bigint, to: bigint): void {
    const [first, second] = pairWords(register, to - at);
    this.word(at, first);
    this.word(at + 4n, second);
  }

  /** What the table of patchable areas names. */
  areas(): bigint[] {
    const found: bigint[] = [];
    for (const table of this.image.sectionsNamed('__patchable_function_entries')) {
      for (let at = table.offset; at < table.offset + table.size; at += 8) found.push(this.view.getBigUint64(at, true));
    }
    return found;
  }
}

const RA = 1;
const T0 = 5;

/**
 * Makes an area call `to` in the form of a generation; `literal`: what the word in front of the
 * function names.
 */
export function enable(program: Patched, flavour: RiscvFlavour, area: bigint, to: bigint, literal = 0n): void {
  switch (flavour) {
    case 'g0':
      return;
    case 'g1':
      program.word(area, 0xfe11_3c23);
      program.pair(RA, area + 4n, to);
      program.word(area + 12n, 0xff81_3083);
      return;
    case 'g2':
    case 'g2-plain':
    case 'g2-merged':
    case 'g3':
      program.pair(T0, area, to);
      return;
    case 'g3c':
      program.long(area, literal);
      program.pair(T0, area + 8n, to);
      return;
    default:
      flavour satisfies never;
  }
}

/** What the entries call. */
export function setCallee(program: Patched, flavour: RiscvFlavour, callee: string): void {
  const to = program.address(callee);
  if (flavour === 'g3c') return;
  if (flavour === 'g3') program.long(program.address('ftrace_call_dest'), to);
  else {
    const calls = flavour === 'g2-plain' ? ['ftrace_call'] : ['ftrace_call', 'ftrace_regs_call'];
    for (const call of calls) program.pair(RA, program.address(call), to);
  }
}

const compiled = new Map<string, string>();

/** The object of a compilation; equal ones are done once. */
export function compile(target: PpcTarget, source: string, args: readonly string[]): string {
  const key = JSON.stringify([target.name, source, args]);
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const object = scratch('compiled.o');
  run(target.gcc, [
    '-w', '-ffreestanding', '-fno-pie', '-fno-stack-protector', '-I', PROGRAMS, '-I', join(root, 'src/runtime'),
    '-I', join(root, 'src/arch-riscv'), ...target.flags, ...args, '-c', source, '-o', object,
  ]); // prettier-ignore
  compiled.set(key, object);
  return object;
}

const defines: Readonly<Record<RiscvFlavour, readonly string[]>> = {
  g0: ['-DENTRY_G0'],
  g1: ['-DENTRY_G1'],
  g2: ['-DENTRY_DIRECT'],
  'g2-plain': ['-DENTRY_PLAIN'],
  'g2-merged': ['-DENTRY_DIRECT', '-DENTRY_MERGED'],
  g3: ['-DENTRY_DIRECT', '-DENTRY_MERGED', '-DENTRY_G3'],
  g3c: ['-DENTRY_DIRECT', '-DENTRY_MERGED', '-DENTRY_G3', '-DENTRY_G3C'],
};

/** Flags of sources that look into frames of a flavour. */
export const flavourFlags = (flavour: RiscvFlavour): readonly string[] => [
  '-DRUNTIME_REGS', `-DSITE_OFFSET=${SITE_OFFSET[flavour]}`, ...defines[flavour],
]; // prettier-ignore

/** Links objects with start-up code and the runtime of a flavour. */
export function linkTraced(
  target: PpcTarget,
  flavour: RiscvFlavour,
  objects: readonly string[],
  runtimePath?: string,
): string {
  let runtime = runtimePath;
  if (runtime === undefined) {
    runtime = scratch('runtime.o');
    writeFileSync(runtime, runtimeObject('riscv64', flavour)!);
  }
  const start = target.start!.map((each) => compile(target, join(PROGRAMS, each), ['-O2']));
  const output = scratch('program');
  run(target.gcc, [
    ...target.flags, '-nostdlib', '-static', '-no-pie', '-Wl,--build-id=none', '-Wl,-z,norelro',
    '-T', join(PROGRAMS, 'runtime/ring.lds'), '-o', output, ...start, ...objects, runtime, ...target.libraries,
  ]); // prettier-ignore
  return output;
}

const renamings = new Map<string, string>();

/**
 * Objects with calls of the profiling entry get them renamed to the runtime's; equal ones are done
 * once.
 */
export function renamed(target: PpcTarget, object: string, names: Readonly<Record<string, string>>): string {
  const key = JSON.stringify([target.name, object, names]);
  const known = renamings.get(key);
  if (known !== undefined) return known;
  const output = scratch('renamed.o');
  const args = Object.entries(names).flatMap(([from, to]) => ['--redefine-sym', `${from}=${to}`]);
  run(target.gcc.replace('gcc', 'objcopy'), [...args, object, output]);
  renamings.set(key, output);
  return output;
}

/** Reads a program, changes it, writes it back. */
export function edit(path: string, body: (program: Patched) => void): void {
  const program = new Patched(new Uint8Array(readFileSync(path)));
  body(program);
  writeFileSync(path, program.bytes);
}
