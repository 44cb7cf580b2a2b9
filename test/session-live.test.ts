/**
 * A session on a machine that runs: tracers come and go between two instructions of the program,
 * callbacks are guest code or functions of the host behind gates, and the program does not notice.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { Gates } from '../src/emulator/index.js';
import { startProcess } from '../src/guest/index.js';
import { liveText, outsideTracer } from '../src/tracing/live.js';
import { entryPoint } from '../src/program/entry-points.js';
import { Session } from '../src/tracing/session.js';
import { readLoadMap } from '../src/program/load-map.js';
import { arm64Cases, loadedCases, outOfLineCases, type LoadedCase, loadSamples, runImage } from './support/loaded.js';
import { firstOf, isLong, isWhole, sampled } from './support/long.js';

/** The freed ops of x86-64 have tests of their own. */
const others: readonly LoadedCase[] = [
  { name: 'x86-64', target: 'x86-64', ending: '', flavour: 'modern' },
  { name: 'riscv64', target: 'riscv64', ending: '', flavour: 'g2' },
];

const cases = [...loadedCases, ...outOfLineCases, ...arm64Cases, ...others];
/** Schedules of one convention of each word size and byte order; the others repeat them. */
const first = firstOf(cases, ({ target }) => target.replace(isLong ? /-.*-/ : /[-\d].*/, '-'));

describe.each(sampled(cases, 2))('$name', (each) => {
  const { bytes } = loadSamples(each);
  const plain = runImage(bytes);

  function start(): { machine: ReturnType<typeof startProcess>['machine']; output: () => string } {
    const image = readElf(bytes);
    const arch = archOf(image.header);
    if (arch.emulation.kind !== 'ir') throw new Error('not executed');
    let output = '';
    const { machine } = startProcess({
      image,
      abi: arch.abi,
      emulation: arch.emulation,
      onOutput: (_fd, chunk) => {
        output += new TextDecoder().decode(chunk);
      },
    });
    return { machine, output: () => output };
  }

  test('C-UPD-1, C-Q-2: ops come and go while the program runs; what they count are the calls in between', () => {
    const { machine, output } = start();
    const image = readElf(bytes);
    const arch = archOf(image.header);
    const isOutside = outsideTracer(readLoadMap(image)!);
    const stores: bigint[] = [];
    const graces: string[] = [];
    const session = Session.open(bytes, arch, {
      text: liveText(machine, {
        onStore: (address) => stores.push(address),
        quiesce: (grace) => {
          graces.push(grace);
          while (!isOutside(machine.register('pc'))) machine.step();
        },
      }),
    });
    const { core, backend } = session;
    const ops = core.createOps({
      name: 'live',
      func: session.functionAddress('elftrace_counter')!,
      flags: ['DYNAMIC'],
    });
    const word = arch.target.wordBytes;
    const hits = (): bigint => machine.readWord(backend.addressOf(ops) + BigInt(3 * word), word)!;
    const counts: bigint[] = [];
    let on = false;
    for (let slice = 0; slice < 1000; slice++) {
      const reason = machine.run({ budget: 700 });
      if (reason.kind === 'exit') {
        expect(reason.code).toBe(plain.exit);
        break;
      }
      expect(reason.kind).toBe('step-limit');
      counts.push(hits());
      expect(on ? core.unregister(ops) : core.register(ops)).toMatchObject({ kind: 'done' });
      on = !on;
    }
    expect(output()).toBe(plain.output);
    expect(counts.length).toBeGreaterThan(5);
    // It grows while the ops is there and stands still while it is not.
    const growth = counts.slice(1).map((count, i) => count - counts[i]!);
    expect(growth.some((count) => count > 0n)).toBe(true);
    expect(growth.filter((_, i) => i % 2 === 1).every((count) => count <= 1n)).toBe(true);
    expect(stores.length).toBeGreaterThan(100);
    expect(new Set(graces)).toEqual(new Set(['rude', 'tasks']));
  });

  if (each.target !== 'x86-64' && (isWhole || first.has(each)))
    test('H12 C-Q-1 C-Q-2: an ops freed under a thread in the tracer is called all the same, unless the free waits', () => {
      const image = readElf(bytes);
      const arch = archOf(image.header);
      const isOutside = outsideTracer(readLoadMap(image)!);
      /**
       * Frees the ops when the thread stands `at` instructions behind the entry: how the program
       * ends, null when the thread is out again.
       */
      const end = (at: number, waits: boolean): string | null => {
        const { machine } = start();
        const quiesce = (): void => {
          while (waits && !isOutside(machine.register('pc'))) machine.step();
        };
        const session = Session.open(bytes, arch, { text: liveText(machine, { quiesce }) });
        const { core } = session;
        const func = session.functionAddress('elftrace_counter')!;
        const ops = core.createOps({ name: 'freed', func, flags: ['DYNAMIC'] });
        core.setFilter(ops, 'filter', 'core_leaf');
        core.register(ops);
        const off = machine.hook(entryPoint(session.sites.program, 'ftrace_caller')!.address, () => 'stop');
        expect(machine.run({ budget: 1_000_000 }).kind).toBe('hook');
        off();
        machine.run({ budget: at });
        if (isOutside(machine.register('pc'))) return null;
        expect(core.unregister(ops)).toMatchObject({ kind: 'done' });
        return machine.run({ budget: 5_000_000 }).kind;
      };
      const ends: Record<string, number> = {};
      let schedules = 0;
      // Each instruction, or every seventh.
      const step = isWhole && (each.name.endsWith('le') || each.flavour === 'pg') ? 1 : 7;
      for (let at = 1; ; at += step) {
        const without = end(at, false);
        if (without === null) break;
        schedules++;
        ends[without] = (ends[without] ?? 0) + 1;
        expect([at, end(at, true)]).toEqual([at, 'exit']);
      }
      // Schedules between the entry and the way back.
      // Sites that have ops of their own pass no list.
      expect(schedules).toBeGreaterThan(each.flavour.endsWith('ops') ? 3 : step === 1 ? 100 : 14);
      expect(schedules - (ends['exit'] ?? 0)).toBeGreaterThan(0);
      expect(ends['exit'] ?? 0).toBeGreaterThan(0);
    });

  test('RT-12: a callback of the host behind a gate', () => {
    const { machine, output } = start();
    const image = readElf(bytes);
    const arch = archOf(image.header);
    const gates = new Gates({ machine, abi: arch.abi, address: 0x1080_0000n });
    const session = Session.open(bytes, arch, { text: liveText(machine), gates });
    const seen: string[] = [];
    const listener = session.on('core_*', ({ site, ip }) => {
      expect(site?.ip).toBe(ip);
      seen.push(site?.name ?? 'unknown');
    });
    const known = session.core.state.known.length;
    // What the core refuses leaves nothing behind.
    expect(() => session.on('nothing', () => undefined)).toThrow(/EINVAL/);
    if (each.flavour === 'pg') expect(() => session.on('core_*', () => undefined, { regs: true })).toThrow(/EINVAL/);
    expect(session.core.state.known.length).toBe(known);
    const reason = machine.run({ budget: 20_000_000 });
    expect(reason).toMatchObject({ kind: 'exit', code: plain.exit });
    expect(output()).toBe(plain.output);
    expect(seen.length).toBeGreaterThan(20);
    expect(seen.every((name) => name.startsWith('core_'))).toBe(true);
    listener.off();
    expect(() => {
      Session.open(bytes, arch).on('core_*', () => undefined);
    }).toThrow(/gates/);
  });
});
