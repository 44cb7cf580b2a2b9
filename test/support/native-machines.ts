/** Machines whose programs write their own trace under an emulator of their user mode. */
import { expect } from '@jest/globals';
import { scratch } from './c-programs.js';
import { warmElftrace as elftrace } from './cli.js';
import type { NativeMachine } from './native-run.js';
import { run } from './tools.js';

export interface EmulatedMachine extends NativeMachine {
  /** Further forms of programs. */
  readonly forms: readonly (readonly string[])[];
  /** The forms in which calls and returns are tried; none: they are not served. */
  readonly graphs: readonly (readonly string[])[];
  /** Alignment of segments, as readelf prints it. */
  readonly align: string;
}

const under = (emulator: string, triple: string): readonly string[] => [emulator, '-L', `/usr/${triple}`];
const NO_PIE = ['-no-pie', '-fno-pie'];

/** What such calls lead to while they are on: libraries have none that fits. */
const MCOUNT = `.abiversion 2\n.text\n.globl _mcount\n.hidden _mcount\n.type _mcount, @function
_mcount: mflr 12\nmtctr 12\nmtlr 0\nbctr\n.size _mcount, .-_mcount\n.section .note.GNU-stack,"",@progbits\n`;

/** An object with a table of its calls, and with the function that they call. */
export function withTables(object: string, triple = 'powerpc64le-linux-gnu', flags: readonly string[] = []): string {
  const [tables, own, both] = ['tables.o', 'own.o', 'both.o'].map(scratch) as [string, string, string];
  expect(elftrace(['mcount', object, '-o', tables]).status).toBe(0);
  run(`${triple}-gcc`, [...flags, '-c', '-x', 'assembler', '-', '-o', own], MCOUNT);
  run(`${triple}-ld`, ['-r', tables, own, '-o', both]);
  return both;
}

export const machines: readonly EmulatedMachine[] = [
  {
    name: 'arm64',
    triple: 'aarch64-linux-gnu',
    sites: ['-fpatchable-function-entry=2'],
    run: under('qemu-aarch64', 'aarch64-linux-gnu'),
    forms: [
      ['-static'],
      ['-mbranch-protection=standard'],
      NO_PIE,
      ['-static-pie', '-fPIE'],
      ['-mbranch-protection=bti', '-Wl,-z,now'],
    ],
    graphs: [[], ['-mbranch-protection=standard'], NO_PIE],
    align: '0x10000',
  },
  {
    name: 'riscv64',
    triple: 'riscv64-linux-gnu',
    sites: ['-fpatchable-function-entry=4'],
    run: under('qemu-riscv64', 'riscv64-linux-gnu'),
    forms: [
      ['-static'],
      ['-march=rv64g', '-fpatchable-function-entry=2'],
      NO_PIE,
      ['-fpatchable-function-entry=8'],
      ['-Wl,-z,now'],
    ],
    graphs: [[], ['-march=rv64g', '-fpatchable-function-entry=2'], NO_PIE],
    align: '0x1000',
  },
  {
    name: 'ppc64le',
    triple: 'powerpc64le-linux-gnu',
    sites: ['-pg', '-mprofile-kernel'],
    run: under('qemu-ppc64le', 'powerpc64le-linux-gnu'),
    forms: [['-static'], NO_PIE, ['-Wl,-z,now'], ['-mcpu=power9'], ['-fPIC']],
    graphs: [[], NO_PIE, ['-mcpu=power9']],
    align: '0x10000',
    finish: (object) => withTables(object),
  },
  {
    name: 'ppc64',
    triple: 'powerpc64-linux-gnu',
    sites: ['-fpatchable-function-entry=2'],
    // Frames have at least 112 bytes.
    run: [...under('qemu-ppc64', 'powerpc64-linux-gnu'), '-s', '33554432'],
    words: { bytes: 8, endian: 'big' },
    forms: [['-static'], NO_PIE, ['-Wl,-z,now'], ['-mcpu=power7'], ['-fPIC']],
    graphs: [[], NO_PIE, ['-mcpu=power7']],
    align: '0x10000',
  },
  {
    name: 'ppc32',
    triple: 'powerpc-linux-gnu',
    sites: ['-fpatchable-function-entry=2'],
    run: under('qemu-ppc', 'powerpc-linux-gnu'),
    words: { bytes: 4, endian: 'big' },
    forms: [['-static'], NO_PIE, ['-Wl,-z,now'], ['-O2'], ['-fPIC']],
    graphs: [[], NO_PIE],
    align: '0x10000',
  },
];

/** The window of a file is memory of the emulator's, too. */
export const ROOM = { ELFTRACE_SIZE: String(1 << 26) };
