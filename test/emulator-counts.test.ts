/**
 * Numbers of instructions, and every program counter on the way: qemu-user in single-step mode
 * writes one log line before each instruction. (Under qemu 7.2 that holds for the PowerPC targets:
 * no line is lost or doubled.)
 */
import { test } from '@jest/globals';
import { TARGETS } from './support/c-programs.js';
import type { Level } from './support/c-programs.js';
import { buildNamed, COUNTED, expectSameAddresses, expectSameCount, FOLLOWED } from './support/program-tests.js';
import { describeWith } from './support/tools.js';
import { repeats } from './support/long.js';

let counted = 0;
for (const target of TARGETS) {
  describeWith([target.gcc, target.qemu], `instruction counts on ${target.name}`, () => {
    test.each(repeats<Level>(['2', 's']))('-O%s: as many as under qemu', (level) => {
      counted += expectSameCount(target, buildNamed(target, level, COUNTED));
    });

    test('each instruction has the address that it has under qemu', () => {
      const followed = expectSameAddresses(target, buildNamed(target, '2', FOLLOWED), 50_000);
      process.stderr.write(`${target.name}: ${followed} addresses, ${counted} instructions counted so far\n`);
    });
  });
}
