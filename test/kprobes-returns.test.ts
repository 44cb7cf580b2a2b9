/**
 * Return probes on a function that calls itself, and threads: how many instances there may be
 * (MAXACTIVE) and what is missed, calls that are left by longjmp, and under which number the
 * records of a thread stand. Everything as breakpoints, which this process serves, and as jumps,
 * whose callback runs in the guest: both give the same records.
 */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { builtFolder as built } from '../scripts/build-samples.js';
import { archOf } from '../src/arches.js';
import { guestRing } from '../src/running/guest-trace.js';
import { recordedProbes } from '../src/cli/probes.js';
import { readElf } from '../src/elf/read.js';
import type { CpuState, Machine } from '../src/emulator/index.js';
import { startProcess } from '../src/guest/index.js';
import { readRecord } from '../src/record/journal.js';
import { ProbeRun } from '../src/kprobes/index.js';
import { entryPoint } from '../src/program/entry-points.js';
import { load, type Program } from '../src/program/program.js';
import { THREAD_MODES } from '../src/runtime/abi.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'kprobes-returns-'));

const SAMPLES = [
  'x86-64/program-mcount',
  'ppc32/program-mcount',
  'ppc64-elfv1/program-mcount',
  'ppc64-elfv2-le/program-power10-mcount',
  'riscv64/program-mcount',
  'arm64/program-mcount',
];

/** Programs with tables of sites: there a return probe shares the site with the tracer. */
const TABLED = [
  'x86-64/program-fentry',
  'ppc32/program-patchable-2',
  'ppc64-elfv1/program-mprofile',
  'ppc64-elfv2-be/program-mprofile',
  'riscv64/program-patchable-8',
  'arm64/program-patchable-2',
];

/** samples/src/program.c: u32 recurse(u32 n) { return n == 0 ? 1 : (recurse(n - 1) * 31) ^ n; } */
const recurse = (n: number): number => (n === 0 ? 1 : (Math.imul(recurse(n - 1), 31) ^ n) >>> 0);

interface Call {
  readonly machine: Machine;
  readonly program: Program;
  /** From 0, counting all calls of `recurse`. */
  readonly number: number;
  readonly n: number;
  /** Stack pointer behind the return, and where that leads. */
  readonly frame: bigint;
  readonly back: bigint;
}

interface Outcome {
  /** `in 9`, `out 31`, in the order of the ring. */
  readonly events: readonly string[];
  readonly threads: readonly number[];
  readonly output: string;
  readonly traps: number;
  readonly hits: number;
  readonly missed: number;
  readonly optimised: boolean;
}

/**
 * Runs a sample with probes; `onCall` is told of each call of `recurse` before anything of it is
 * executed.
 */
function probed(name: string, probes: readonly string[], form: 'breakpoint' | 'jump', onCall: (call: Call) => void = () => undefined): Outcome {
  const out = join(folder, `${name.replace('/', '-')}-${form}`);
  const flags = form === 'jump' ? ['--optimize'] : [];
  const patched = elftrace(['patch', join(built, name), '-o', out, ...probes.flatMap((each) => ['--probe', each]), ...flags]);
  expect([name, patched.status, patched.stderr.replaceAll(/^.*notice: .*\n/gm, '')]).toEqual([name, 0, '']);
  const image = readElf(new Uint8Array(readFileSync(out)));
  const arch = archOf(image.header);
  const { emulation, abi } = arch;
  if (emulation.kind !== 'ir') throw new Error(name);
  const program = load(image, arch);
  let output = '';
  const guest = startProcess({
    image, abi, emulation, args: [name],
    onOutput: (_descriptor, bytes) => { output += Buffer.from(bytes).toString('latin1'); },
  });
  const { machine } = guest;
  for (const [register, value] of Object.entries(program.loadMap?.registers ?? {})) machine.setRegister(register, value);
  const { probes: session } = recordedProbes({ image, arch, symbols: undefined }, readRecord(image)!);
  const run = new ProbeRun({ session: session!, program, machine, comm: 'program' });
  const found = program.symbols.find('recurse');
  const start = program.functions.placeOf(found)!.value + BigInt(abi.localEntryOffset(program.symbols.other[found]!));
  const word = arch.target.wordBytes;
  let number = 0;
  machine.hook(start, () => {
    const sp = machine.register(abi.stackPointer);
    const own = abi.linkRegister === null;
    onCall({
      machine, program, number: number++, n: Number(BigInt.asUintN(32, machine.register(abi.argumentRegisters[0]!))),
      frame: own ? sp + BigInt(word) : sp, back: own ? machine.readWord(sp, word)! : machine.register(abi.linkRegister!),
    });
    return 'continue';
  });
  for (;;) {
    const stop = machine.run({ budget: 5_000_000 });
    if (stop.kind === 'hook') continue;
    if ((stop.kind === 'trap' || stop.kind === 'fault') && run.serve(stop)) continue;
    expect([name, form, stop]).toEqual([name, form, expect.objectContaining({ kind: 'exit' })]);
    break;
  }
  const records = guestRing(program, arch, guest)!.records.filter(({ kind }) => kind === 'probe');
  const events = records.map(({ parent, words = [] }) => {
    const recorded = run.recorded(Number(parent), words, 'program')!;
    const [value] = recorded.values;
    return `${recorded.event.definition.event} ${value!.kind === 'number' ? value!.value : '?'}`;
  });
  const [profile] = run.profile();
  return {
    events, output, traps: run.traps, hits: Number(profile!.hits), missed: Number(profile!.missed),
    threads: records.map(({ cpu }) => cpu), optimised: session!.probes()[0]!.state.text === 'jump',
  };
} // prettier-ignore

const forms = ['breakpoint', 'jump'] as const;
const IN = 'p:in recurse n=$arg1:u32';

describe.each(sampled(SAMPLES, 3))('%s', (name) => {
  test('MAXACTIVE: deeper calls than instances are missed, and counted', () => {
    for (const form of forms) {
      const depths: number[] = [];
      const all = probed(name, [IN, 'r2:out recurse r=$retval:u32'], form, ({ n }) => {
        depths.push(n);
      });
      expect(all.optimised).toBe(form === 'jump');
      // Every top call has its two outermost returns.
      const tops = depths.filter((_n, i) => i === 0 || depths[i - 1] === 0);
      const outs = tops.flatMap((n) => (n > 0 ? [recurse(n - 1), recurse(n)] : [recurse(0)]));
      expect(all.events.filter((each) => each.startsWith('out'))).toEqual(outs.map((value) => `out ${value}`));
      expect(all.events.filter((each) => each.startsWith('in'))).toEqual(depths.map((n) => `in ${n}`));
      expect(depths.slice(0, 10)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
      expect([all.hits, all.missed]).toEqual([depths.length, depths.length - outs.length]);
    }
  });

  test('longjmp: the instance of a call that never returns is in use until a call from farther out comes', () => {
    for (const limit of ['', '4']) {
      const results = forms.map((form) => {
        // The rule once more: instances in use. Those of calls that returned are not; those that
        // were left are, until a call from farther out comes.
        let inUse: { readonly frame: bigint; left: boolean }[] = [];
        let missed = 0;
        let saved: CpuState | null = null;
        let back = 0n;
        let frame = 0n;
        const result = probed(name, [`r${limit}:out recurse r=$retval:u32`], form, (call) => {
          const { machine } = call;
          if (call.number === 0) {
            saved = machine.saveCpu(0);
            ({ back, frame } = call);
          }
          if (call.number === 6 && saved !== null) {
            // longjmp, from the seventh call to behind the first one.
            for (const each of inUse) each.left = true;
            const { abi } = archOf(readElf(new Uint8Array(readFileSync(join(built, name)))).header);
            machine.restoreCpus([saved]);
            machine.setRegister(abi.stackPointer, frame);
            machine.setRegister(abi.resultRegister, 4711n);
            machine.setRegister('pc', back);
            return;
          }
          inUse = inUse.filter((each) => each.frame > call.frame || (each.frame === call.frame && each.left));
          if (limit !== '' && inUse.length >= Number(limit)) missed++;
          else inUse.push({ frame: call.frame, left: false });
        });
        expect([limit, form, result.missed]).toEqual([limit, form, missed]);
        return result;
      });
      const [breakpoints, jumps] = results;
      expect(jumps!.events).toEqual(breakpoints!.events);
      expect(jumps!.output).toBe(breakpoints!.output);
      // The program went on: what was left did not come back, later calls did.
      expect(breakpoints!.events).not.toContain(`out ${recurse(9)}`);
      expect(breakpoints!.output).toMatch(/^recurse .*1267/m);
      expect(breakpoints!.events.length).toBeGreaterThan(0);
    }
  });

  test('T-KP-1: records name the thread, at breakpoints and in jumps alike', () => {
    const [breakpoints, jumps] = forms.map((form) => {
      let tops = 0;
      let before = 0;
      return probed(
        name,
        [IN, 'r:out recurse r=$retval:u32'],
        form,
        ({ machine, program, n }) => {
        // The second call of the program is by another thread.
        if (before === 0 && ++tops > 1) another(program, machine);
        before = n;
      });
    });
    expect(jumps!.threads).toEqual(breakpoints!.threads);
    expect([...new Set(breakpoints!.threads)]).toEqual([0, 1]);
  });
}); // prettier-ignore

test('MAXACTIVE: run says what was missed: as a notice of the trace, and in --json-status', () => {
  const out = join(folder, 'missed');
  expect(elftrace(['patch', join(built, 'arm64/program-mcount'), '--probe', 'r2:out recurse', '-o', out]).status).toBe(
    0,
  );
  const ran = elftrace(['run', '--trace', `${out}.txt`, '--json-status', `${out}.json`, out]);
  const { probes } = JSON.parse(readFileSync(`${out}.json`, 'utf8')) as {
    probes: readonly { hits: number; missed: number }[];
  };
  expect(probes).toEqual([expect.objectContaining({ symbol: 'recurse', offset: 0, events: ['kprobes/out'] })]);
  const [{ hits, missed }] = probes as readonly [{ hits: number; missed: number }];
  expect([hits - missed, missed > 0, ran.status]).toEqual([4, true, 0]);
  expect(ran.stderr).toContain(`notice: recurse+0x0: ${missed} hits were missed`);
});

/** Another thread runs: what tells threads apart changes. */
function another(program: Program, machine: Machine): void {
  const { id } = program.arch.target;
  const key = 0x7000_0000n;
  const registers: Readonly<Record<string, string>> = { ppc32: 'r2', riscv64: 'tp', arm64: 'tpidr_el0' };
  const register = id.startsWith('ppc64') ? 'r13' : (registers[id] ?? null);
  if (register !== null) {
    machine.setRegister(register, key);
    return;
  }
  // The first word of the segment; the program says that it has one.
  if (machine.memory.windowAt(key) === undefined) machine.map({ address: key, size: 0x1000, permission: 'rw' });
  machine.writeWord(key, 8, key);
  machine.setRegister('fs_base', key);
  machine.writeWord(entryPoint(program, 'elftrace_thread_mode')!.identity, 8, BigInt(THREAD_MODES.fs));
}

test.each([...SAMPLES, ...TABLED])(
  'C-FG-3: %s: a graphed function that is left by a tail call to one with a return probe',
  (name) => {
    const out = join(folder, `${name.replace('/', '-')}-tail`);
    const graph = ['--enable', '--tracer', 'function_graph'];
    const { status, stderr } = elftrace(['patch', join(built, name), '--probe', 'r:x leaf', ...graph, '-o', out]);
    expect([status, stderr.replaceAll(/^.*notice: .*\n/gm, '')]).toEqual([0, '']);
    // forward() jumps to leaf(): both return to the tracer, and leaf by way of the probe.
    const plain = elftrace(['run', join(built, name)]);
    const traced = elftrace(['run', '--trace', `${out}.ndjson`, out]);
    // The last line counts calls of the sample's own entry, which are none then.
    const values = (output: string): string => output.replace(/^trace=.*\n/m, '');
    expect([traced.status, values(traced.stdout)]).toEqual([plain.status, values(plain.stdout)]);
    const kinds = readFileSync(`${out}.ndjson`, 'utf8').match(/"kind":"(?:entry|return)"/g)!;
    expect(kinds.filter((each) => each.includes('entry')).length).toBe(kinds.length / 2);
  },
);
