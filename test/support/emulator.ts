/**
 * Machines for tests: blocks built by hand, PowerPC code assembled from the rows, and compiled
 * programs.
 */
import { spawnSync } from './spawn.js';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Arch } from '../../src/machine/arch.js';
import { ppc32, ppc64ElfV1, ppc64ElfV2Le } from '../../src/arch-ppc/index.js';
import { ppc32Table, ppc64Table } from '../../src/arch-ppc/isa.js';
import { readElf } from '../../src/elf/read.js';
import { Machine } from '../../src/emulator/index.js';
import { startProcess } from '../../src/guest/index.js';
import type { IrEmulation } from '../../src/emulator/index.js';
import type { Process } from '../../src/guest/index.js';
import { BlockBuilder, SlotLayout, slotRegister } from '../../src/machine/ir.js';
import type { Helper, Lifter, Slot, Terminator } from '../../src/machine/ir.js';
import { run } from './tools.js';

// ---------------------------------------------------------------------------- blocks built by hand

export const HAND_SLOTS = new SlotLayout([
  ...Array.from({ length: 16 }, (_, i) => [`s${i}`, 'i64'] as const),
  ['k', 'i64'],
  ['ra', 'i64'],
  ['rb', 'i64'],
  ['f0', 'f64'],
  ['f1', 'f64'],
  ['v0', 'v128'],
  ['v1', 'v128'],
]);
/** Slot `s<n>`. */
export const s = (n: number): Slot => HAND_SLOTS.slot(`s${n}`);

/** One "instruction" of 4 bytes; returning a terminator ends the block. */
export type HandInstruction = (b: BlockBuilder) => Terminator | undefined;

/** A front end over instructions given as functions: address -> instruction, 4 bytes apart. */
export function handLifter(
  program: ReadonlyMap<bigint, HandInstruction>,
  options: { addressBits?: 32 | 64; helpers?: Readonly<Record<string, Helper>> } = {},
): Lifter {
  return {
    addressBits: options.addressBits ?? 64,
    codeAlignBytes: 4,
    endian: 'little',
    slots: HAND_SLOTS,
    registers: Array.from({ length: 16 }, (_, i) => slotRegister(`s${i}`, s(i), 64)),
    helpers: options.helpers ?? {},
    lift(_code, address, limits) {
      const b = new BlockBuilder(HAND_SLOTS, address);
      for (let pc = address; ; pc += 4n) {
        if (b.count > 0 && (b.count >= limits.maxInstructions || limits.startsAt(pc))) {
          return b.finish(pc, { kind: 'jmp', pc });
        }
        const instruction = program.get(pc);
        if (!instruction) return b.finish(pc, { kind: 'unknown', mnemonic: null, sizeBytes: 4 });
        b.begin(pc);
        const terminator = instruction(b);
        if (terminator) return b.finish(pc + 4n, terminator);
      }
    },
  };
}

export const CODE = 0x1000n;

/** A machine that executes `instructions` from CODE and then stops as unknown. */
export function handMachine(instructions: readonly HandInstruction[], at = CODE, addressBits: 32 | 64 = 64): Machine {
  const program = new Map(instructions.map((each, i) => [at + BigInt(4 * i), each]));
  const machine = new Machine({ lifter: handLifter(program, { addressBits }) });
  machine.map({ address: at, size: Math.max(0x1000, 4 * instructions.length), permission: 'rx' });
  machine.setRegister('pc', at);
  return machine;
}

// ----------------------------------------------------------------------------------------- PowerPC

export type PpcKind = 'le' | 'be' | '32';

const ARCHES: Readonly<Record<PpcKind, Arch>> = { le: ppc64ElfV2Le, be: ppc64ElfV1, 32: ppc32 };

export function ppcEmulation(kind: PpcKind): IrEmulation {
  const { emulation } = ARCHES[kind];
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  return emulation;
}

/** The same of a processor of `--cpu`. */
export function processorOf(emulation: Arch['emulation'], name: string): IrEmulation {
  const found = emulation.kind === 'ir' ? emulation.cpus?.find((each) => each.name === name) : undefined;
  if (!found) throw new Error(`no processor ${name}`);
  return found.emulation();
}

/** One instruction of the rows: mnemonic and operands by field name. */
export type PpcLine = readonly [mnemonic: string, operands?: Readonly<Record<string, number>>];

export function ppcWords(kind: PpcKind, lines: readonly PpcLine[]): Uint8Array {
  const table = kind === '32' ? ppc32Table : ppc64Table;
  const out = new Uint8Array(lines.length * 4);
  const view = new DataView(out.buffer);
  lines.forEach(([mnemonic, operands], i) => {
    view.setUint32(4 * i, table.encode(mnemonic, operands ?? {}), kind === 'le');
  });
  return out;
}

/**
 * A bare machine with code at `address` (rx unless said otherwise), pc there, and a data window at
 * 0x20000.
 */
export function ppcMachine(
  kind: PpcKind,
  lines: readonly PpcLine[],
  options: {
    readonly address?: bigint;
    readonly permission?: 'rx' | 'rwx';
    readonly tier?: 0 | 1 | 'auto';
    readonly emulation?: IrEmulation;
  } = {},
): Machine {
  const { address = 0x1_0000n, permission = 'rx', tier, emulation = ppcEmulation(kind) } = options;
  const machine = new Machine({ lifter: emulation.lifter, ...(tier !== undefined && { tier }) });
  machine.load(address, ppcWords(kind, lines), { permission, size: 0x1000 });
  machine.map({ address: 0x2_0000n, size: 0x1000, permission: 'rw' });
  machine.setRegister('pc', address);
  return machine;
}

// ---------------------------------------------------------------------------------------- programs

const PREFIX: Readonly<Record<PpcKind, string>> = { le: 'powerpc64le', be: 'powerpc64', 32: 'powerpc' };
export const ppcGcc = (kind: PpcKind): string => `${PREFIX[kind]}-linux-gnu-gcc`;
export const ppcQemu = (kind: PpcKind): string => ({ le: 'qemu-ppc64le', be: 'qemu-ppc64', 32: 'qemu-ppc' })[kind];

/** The sources lie beside the TypeScript, the tests run from `build/`. */
export const PROGRAMS = join(dirname(fileURLToPath(import.meta.url)), '../../../test/programs');
const folder = mkdtempSync(join(tmpdir(), 'elftrace-emulator-'));
let made = 0;

export function temporaryFile(name: string): string {
  return join(folder, `${made++}-${name}`);
}

/**
 * Builds a freestanding static program; vectors are switched off because only integer code is
 * lifted.
 */
export function buildPpc(
  kind: PpcKind,
  level: string,
  sources: readonly string[],
  flags: readonly string[] = [],
): string {
  const output = temporaryFile('program');
  const vectors = kind === '32' ? [] : ['-mno-vsx', '-mno-altivec'];
  run(ppcGcc(kind), [
    `-O${level}`, '-ffreestanding', '-nostdlib', '-static', '-fno-stack-protector', ...vectors, ...flags,
    '-o', output, ...sources, '-lgcc',
  ]); // prettier-ignore
  return output;
}

export function writeSource(name: string, text: string): string {
  const path = temporaryFile(name);
  writeFileSync(path, text);
  return path;
}

export interface Outcome {
  readonly output: string;
  readonly code: number;
}

/** Runs a program under qemu-user. */
export function qemu(
  kind: PpcKind,
  path: string,
  args: readonly string[] = [],
  flags: readonly string[] = [],
): Outcome {
  const result = spawnSync(ppcQemu(kind), [...flags, path, ...args], {
    env: { ...process.env, A: 'B' },
    maxBuffer: 1 << 28,
  });
  if (result.error) throw result.error;
  return { output: result.stdout.toString('latin1'), code: result.status ?? -1 };
}

/** Starts a program here; `output` grows as it runs. */
export function startPpc(
  kind: PpcKind,
  path: string,
  args: readonly string[] = [],
): { process: Process; output: () => string } {
  let output = '';
  const started = startProcess({
    image: readElf(new Uint8Array(readFileSync(path))),
    emulation: ppcEmulation(kind),
    abi: ARCHES[kind].abi,
    args: [path, ...args],
    env: ['A=B'],
    onOutput: (_descriptor, bytes) => {
      output += Buffer.from(bytes).toString('latin1');
    },
  });
  return { process: started, output: () => output };
}

/** All registers as text, for comparing states. */
export function registersOf(machine: Machine): string {
  return machine.registerNames.map((name) => `${name}=${machine.register(name).toString(16)}`).join(' ');
}
