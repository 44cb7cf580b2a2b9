/** Races of a few instructions of RISC-V. */
import { arches } from '../../src/arches.js';
import { Machine } from '../../src/emulator/index.js';
import type { Scene } from '../../src/race/index.js';

/**
 * Threads at the first of `words`, which stand at 0x1000 and return to 0x8000; a1 points to memory
 * that they share, at 0x2000.
 * @param fetchLineBytes  CPUs keep the lines that they have fetched; default: they do not
 * @param marks  words that are noted when a thread executes them
 */
export function smallScene(
  words: readonly bigint[],
  threads = 1,
  fetchLineBytes?: number,
  marks: readonly number[] = [],
): Scene {
  const arch = arches.find(({ target }) => target.id === 'riscv64')!;
  if (arch.emulation.kind !== 'ir') throw new Error('not executed');
  const machine = new Machine({
    lifter: arch.emulation.lifter,
    blockInstructions: 1,
    ...(fetchLineBytes === undefined ? {} : { fetch: 'buffered' as const, fetchLineBytes }),
  });
  machine.map({ address: 0x1000n, size: 0x1000, permission: 'rx' });
  machine.map({ address: 0x2000n, size: 0x1000, permission: 'rw' });
  words.forEach((word, i) => machine.writeWord(0x1000n + BigInt(4 * i), 4, word));
  for (let cpu = 0; cpu < threads; cpu++) {
    if (cpu > 0) machine.addCpu();
    machine.switchTo(cpu);
    machine.setRegister('pc', 0x1000n);
    machine.setRegister('a1', 0x2000n);
    machine.setRegister('ra', 0x8000n);
  }
  return {
    machine,
    threads: Array.from({ length: threads }, (_, i) => ({ name: `thread ${i}`, expect: new Map() })),
    stop: 0x8000n,
    stackPointer: 'sp',
    livePatching: arch.livePatching,
    code: null,
    marks: new Map(marks.map((at) => [0x1000n + BigInt(4 * at), `at ${at}`])),
    units: [],
  };
}
