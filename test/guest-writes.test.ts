/**
 * What traced programs may and do write, seen by the machine: of what the tool laid out the guest
 * writes only what is its own (RT-5), and entries of PowerPC may use what is below the stack
 * pointer, because no site has anything there (P-ENT-6).
 */
import { describe, expect, test } from '@jest/globals';
import type { Machine, StopReason } from '../src/emulator/index.js';
import { startProcess } from '../src/guest/index.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { withRuntime } from '../src/tracing/inject.js';
import { planSession } from '../src/tracing/session-plan.js';
import { opsObjects } from '../src/tracing/trampolines.js';
import { RING_HEADER } from '../src/runtime/index.js';
import { OPS_WORDS } from '../src/runtime/abi.js';
import { openBytes, readSample } from './support/pipeline.js';

interface Ended {
  readonly output: string;
  readonly stop: StopReason;
  readonly machine: Machine;
}

/** Runs an image; `prepare` may look at the machine before its first instruction. */
function execute(bytes: Uint8Array, prepare: (machine: Machine) => void, budget = 20_000_000): Ended {
  const { image, arch } = openBytes(bytes);
  const { emulation, abi } = arch;
  if (emulation.kind !== 'ir') throw new Error('not executed');
  let output = '';
  const { machine } = startProcess({
    image,
    abi,
    emulation,
    onOutput: (_stream, chunk) => {
      output += new TextDecoder().decode(chunk);
    },
  });
  prepare(machine);
  return { output, stop: machine.run({ budget }), machine };
}

/**
 * Two callbacks on one function make the list, one has a function of its own, and all returns are
 * recorded.
 */
const SESSION = JSON.stringify({
  version: 1,
  steps: [
    { ops: { name: 'count', call: 'elftrace_counter', filter: 'mix64' } },
    { ops: { name: 'trace', call: 'elftrace_function_tracer', filter: 'mix64 recurse' } },
    { register: 'count' },
    { register: 'trace' },
    { graph: { name: 'graph', filter: 'recurse' } },
  ],
});

describe('what the tool laid out', () => {
  test.each([
    'x86-64/program-fentry',
    'ppc32/program-mcount',
    'ppc64-elfv1/program-mprofile',
    'ppc64-elfv2-le/program-mprofile',
    'riscv64/program-patchable-8',
    'arm64/program-patchable-2',
  ])('RT-5: %s writes no word of objects, hashes and tables but `private`; the ring and the graph stack', (name) => {
    const { sites, arch } = openBytes(readSample(name));
    const laid = withRuntime(sites, undefined);
    const { plan } = planSession(laid, arch, [{ name: 's', text: SESSION }]);
    const { bytes } = applyPlan(laid, plan, { session: [SESSION] });
    const { image, program } = openBytes(bytes);
    const owned = ['.elftrace.data', '.elftrace.text'].flatMap((each) => image.section(each) ?? []);
    const code = image.sections.filter(({ flags, size }) => (flags & 4n) !== 0n && size > 0);
    const written = new Set<bigint>();
    const symbol = (each: string): bigint => program.definedAt(program.symbols.find(each))!;
    let counted = 0;
    const { stop, machine } = execute(bytes, (guest) => {
      for (const { address, size } of [...owned, ...code]) {
        guest.watch({ address, size, access: 'write' }, (_machine, event) => {
          for (let i = 0; i < event.size; i++) written.add(event.address + BigInt(i));
          return 'continue';
        });
      }
      // What is written is seen.
      guest.watch({ address: symbol('elftrace_count'), size: image.wordBytes, access: 'write' }, () => {
        counted++;
        return 'continue';
      });
    });
    expect(stop.kind).toBe('exit');
    const word = BigInt(image.wordBytes);
    const objects = opsObjects(program);
    expect(objects.length).toBeGreaterThanOrEqual(2);
    const own = (at: bigint): boolean =>
      objects.some(({ address }) => {
        const first = address + BigInt(OPS_WORDS.private) * word;
        return at >= first && at < first + word;
      });
    expect([...written].filter((at) => !own(at))).toEqual([]);
    // The ring was written, and the stack of returns; the callbacks ran.
    const ring = machine.readWord(symbol('elftrace_ring'), image.wordBytes)!;
    expect(machine.readWord(ring + BigInt(RING_HEADER.head) + (image.header.endian === 'big' && word === 4n ? 4n : 0n), image.wordBytes)).toBeGreaterThan(10n); // prettier-ignore
    expect(machine.readWord(symbol('elftrace_count'), image.wordBytes)).toBe(BigInt(counted));
    expect(counted).toBeGreaterThan(0);
  });
});

describe('what is below the stack pointer', () => {
  const ZONE = 288;
  const garbage = new Uint8Array(ZONE).fill(0xa5);
  const poison = (machine: Machine): 'continue' => {
    machine.memory.write(machine.register('r1') - BigInt(ZONE), garbage);
    return 'continue';
  };
  test.each([
    'ppc64-elfv1/program-mcount',
    'ppc64-elfv1/program-mprofile',
    'ppc64-elfv1/program-patchable-2',
    'ppc64-elfv2-be/program-mprofile',
    'ppc64-elfv2-le/program-mprofile',
    'ppc64-elfv2-le/program-power10-patchable-2',
    'ppc64-elfv2-le/program-clang-mcount',
    'ppc32/program-mcount',
    'ppc32/program-patchable-4-2',
  ])('P-ENT-6: %s: nothing of the program where a site is', (name) => {
    const bytes = readSample(name);
    const { sites, arch } = openBytes(bytes);
    const plain = execute(bytes, () => undefined);
    expect(plain.stop.kind).toBe('exit');
    let hits = 0;
    const poisoned = execute(bytes, (machine) => {
      for (let i = 0; i < sites.count; i++) {
        machine.hook(sites.ip(i), () => {
          hits++;
          return poison(machine);
        });
      }
    });
    expect([poisoned.output, poisoned.stop]).toEqual([plain.output, plain.stop]);
    expect(hits).toBeGreaterThan(10);
    // The twin: elsewhere in functions of 64 bits there is something; those of 32 bits have no red
    // zone.
    const everywhere = execute(
      bytes,
      (machine) => {
        for (const { address, size } of readElf(bytes).sections.filter((each) => each.name === '.text')) {
          for (let at = 0; at < size; at += 4) machine.hook(address + BigInt(at), () => poison(machine));
        }
      },
      4 * plain.machine.instructions,
    );
    const same = everywhere.output === plain.output && everywhere.stop.kind === 'exit';
    expect([arch.target.id, same]).toEqual([arch.target.id, arch.target.id === 'ppc32']);
  });
});
