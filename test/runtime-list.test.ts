/**
 * The list function, hashes and guards, changed resume addresses, and the ring: its edges, and two
 * CPUs that write at once.
 */
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { runSchedule } from '../src/emulator/index.js';
import { RING_HEADER, RING_KINDS } from '../src/runtime/index.js';
import { readRing } from '../src/trace/index.js';
import { TARGETS } from './support/c-programs.js';
import {
  addressOf,
  buildTraced,
  PROGRAMS,
  runTracedHere,
  runTracedQemu,
  startTraced,
  valueOf,
} from './support/runtime-harness.js';
import { describeWith } from './support/tools.js';
import { sampled } from './support/long.js';

const FLAVOURS = [
  ['pg', 'ftrace_caller'],
  ['regs', 'ftrace_caller'],
  ['regs', 'ftrace_regs_caller'],
] as const;

for (const target of sampled(TARGETS, 2)) {
  const is64 = target.name !== 'ppc32';
  describeWith([target.gcc, target.qemu], `lists on ${target.name}`, () => {
    test.each(FLAVOURS)('C-TGT-5, C-HASH-1, C-HASH-2, C-HASH-3, P-ENT-4: %s, %s', (flavour, entry) => {
      const path = buildTraced({
        target,
        flavour,
        entry,
        tracer: 'function',
        callee: 'ftrace_ops_list_func',
        report: false,
        sources: [join(PROGRAMS, 'runtime/list.c')],
        flags: [
          `-DENTRY_NAME=${entry}`,
          '-fno-ipa-modref',
          '-fno-ipa-pure-const',
          '-fno-ipa-reference',
          ...(flavour === 'regs' ? ['-DRUNTIME_REGS'] : []),
          ...['src/runtime', 'src/arch-ppc'].map((each) => `-I${join(PROGRAMS, '../..', each)}`),
        ],
      });
      const isFull = entry === 'ftrace_regs_caller';
      const expected = [
        'empty 5', 'ip 1', 'parent 1', 'ops 1', `full ${isFull ? '1' : '0'}`,
        ...(flavour === 'regs' ? ['argument 1234', 'resume 1', 'link 1', 'stack 1'] : []),
        'filter 3', 'filter 2', 'notrace 3', 'notrace 2', 'pending 0', 'pending 3',
        'stub-regs 0', `stub-regs ${isFull ? '1' : '0'}`, 'rcu-off 0', 'rcu-off 1', 'rcu-on 1', 'rcu-on 2',
        'recursion 2', 'recursion 2', 'counter 2', 'counter 1', 'count 3',
      ]; // prettier-ignore
      const replaced = [
        `replaced ${(301 + 1000 * 401).toString(16)}`,
        `replaced12 ${((36 + 18 + 30 + 55 + 84) * 10 + 1).toString(16)}`,
        // r12 is the entry, 12 bytes before where the function looks; on ELFv1 r2 is what its
        // descriptor says.
        ...(is64
          ? [`ruined ${(target.name === 'ppc64-elfv1' ? 12 + 0x1234 : 12).toString(16)}`, 'base 1', 'side 0']
          : []),
      ];
      const ring = ['threads 8', 'dropped 1', 'last-thread 7', 'kept 4', 'kept 2', 'carry 100000001'];
      for (const outcome of [runTracedQemu(target, path), runTracedHere(target, path)]) {
        expect(outcome.end).toBe(0);
        const lines = outcome.output.trim().split('\n');
        expect(lines.filter((line) => !line.startsWith('result'))).toEqual([
          ...expected,
          ...(flavour === 'regs' ? replaced : []),
          ...ring,
        ]);
      }
    });

    test('RT-4, records of two CPUs: none is lost and none is torn, however they interleave', () => {
      const path = buildTraced({
        target,
        flavour: 'regs',
        tracer: 'function',
        callee: 'ftrace_ops_list_func',
        report: false,
        sources: [join(PROGRAMS, 'runtime/cpus.c')],
        flags: [`-I${join(PROGRAMS, '../../src/runtime')}`],
      });
      const image = readElf(new Uint8Array(readFileSync(path)));
      for (const slice of [1, 3, 7, 29]) {
        const { machine } = startTraced(target, path).process;
        const word = is64 ? 8 : 4;
        const begin = (cpu: number, name: string, argument: bigint): void => {
          machine.switchTo(cpu);
          const at = addressOf(target, image, name);
          machine.setRegister('pc', at);
          machine.setRegister('r1', valueOf(image, 'stacks') + BigInt((cpu + 1) * 1024 * word - 64 * word));
          machine.setRegister('r3', argument);
          // Global entries of ELFv2 find their TOC by r12; a descriptor of ELFv1 says it.
          machine.setRegister('r12', at);
          if (target.name === 'ppc64-elfv1') {
            const toc = machine.memory.read(valueOf(image, name) + 8n, 8)!;
            machine.setRegister('r2', new DataView(toc.buffer, toc.byteOffset).getBigUint64(0));
          }
          machine.setRegister(is64 ? 'r13' : 'r2', BigInt(0x100 * (cpu + 1)));
        };
        machine.addCpu();
        begin(0, 'prepare', addressOf(target, image, 'elftrace_function_tracer'));
        machine.run({ budget: 1000 });
        begin(0, 'worker', 0n);
        begin(1, 'worker', 1n);
        for (let round = 0; round < 60_000 / slice; round++) {
          runSchedule(machine, [
            { kind: 'run', cpu: 0, instructions: slice },
            { kind: 'run', cpu: 1, instructions: slice + (round % 3) },
          ]);
        }
        const { endian } = image.header;
        const at = valueOf(image, 'elftrace_ring_memory');
        const ring = readRing((from, size) => machine.memory.read(from, size), at, endian);
        const header = machine.memory.read(at, RING_HEADER.dropped + 8)!;
        const little = endian === 'little';
        const view = new DataView(header.buffer, header.byteOffset);
        expect(Number(view.getBigUint64(RING_HEADER.head, little))).toBe(200);
        expect(Number(view.getBigUint64(RING_HEADER.dropped, little))).toBe(0);
        expect([ring.records.length, ring.unreadable, RING_KINDS.call]).toEqual([200, 0, 7]);
        const perThread = [0, 0];
        for (const { kind, ip, cpu } of ring.records) {
          expect([kind, ip]).toEqual(['call', ring.records[0]!.ip]);
          perThread[cpu]!++;
        }
        expect(perThread).toEqual([100, 100]);
      }
    });
  });
}
