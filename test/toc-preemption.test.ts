/**
 * Why a far site becomes `b .+8` and not two nops (T-PPC-26, H3): a thread that is inside
 * the tracer has come through the stub, which saved r2 in its frame; when it returns, the word
 * behind the call must still load it. Every schedule of the patcher's stores against one thread,
 * and against two, is run; their numbers are those of the formulas.
 *
 *   module    f:   mflr r0; std r0,16(r1); stdu r1,-112(r1); [bl stub; ld r2,S(r1)]; ld r5,0(r2); …
 *                  blr
 *             stub: of 2008 (ELFv1) or later (ELFv2): saves r2 at S(r1), jumps to the tracer
 *   core      tracer: has its own r2, reads its TOC, returns to LR
 *
 * Words are those of P-ENC-4 and P-STUB-4, assembled from the rows where they are not.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { findNamedSites } from '../src/sites/named.js';
import { Machine, type PatcherStep, runSchedule, type ScheduleStep } from '../src/emulator/index.js';
import { startProcess } from '../src/guest/index.js';
import { type PpcKind, type PpcLine, ppcEmulation, ppcWords } from './support/emulator.js';
import { loadSample, sitesOf, traced } from './support/loaded-samples.js';
import { few, longTest, repeats } from './support/long.js';
import { root } from './support/pipeline.js';
import { interleavings } from './support/interleavings.js';

const TRACER = 0x1000_0000n;
const CORE_TOC = 0x1001_8000n;
const MODULE = 0x2000_0000n;
const STUB = 0x2000_0100n;
const STOP = 0x2000_0200n;
const MODULE_TOC = 0x2000_8100n;
const STACKS = 0x3000_0000n;
const STACK_BYTES = 0x1000n;
const CORE_DATA = 0xc0den;
const MODULE_DATA = 0xf00dn;

const li = (rt: number, ra0: number, ds: number): PpcLine => ['ld', { rt, ra0, ds }];
const mflr = (rt: number): PpcLine => ['mfspr', { rt, spr: 8 }];
const mtlr = (rs: number): PpcLine => ['mtspr', { rs, spr: 8 }];
const std = (rs: number, ra0: number, ds: number): PpcLine => ['std', { rs, ra0, ds }];
const stdu = (ds: number): PpcLine => ['stdu', { rs: 1, ra: 1, ds }];
const addi = (rt: number, ra0: number, si: number): PpcLine => ['addi', { rt, ra0, si }];
const blr: PpcLine = ['bclr', { bo: 20, bi: 0, bh: 0 }];

interface Abi {
  readonly name: string;
  readonly kind: PpcKind;
  readonly slot: number;
  readonly stub: readonly number[];
  /** Behind the stub's code: address of the target and, ELFv1, its TOC. */
  readonly data: readonly bigint[];
  /** Set-up of r2 that the tracer does itself. */
  readonly prologue: readonly PpcLine[];
}

const abis: readonly Abi[] = [
  {
    name: 'ELFv1, stub of 2008',
    kind: 'be',
    slot: 40,
    // off = stub - r2 = -0x8000: HA 0, LO 0x8000; the last word of code is unused.
    stub: [0x3d82_0000, 0x398c_8000, 0xf841_0028, 0xe96c_0020, 0xe84c_0028, 0x7d69_03a6, 0x4e80_0420, 0],
    data: [TRACER, CORE_TOC],
    prologue: [],
  },
  {
    name: 'ELFv2, stub of today',
    kind: 'le',
    slot: 24,
    stub: [0x3d62_0000, 0x396b_8000, 0xf841_0018, 0xe98b_0020, 0x7d89_03a6, 0x4e80_0420, 0, 0x7374_7562],
    data: [TRACER],
    // r12 is the tracer's own address: its global entry.
    prologue: [['addis', { rt: 2, ra0: 12, si: 2 }], addi(2, 2, -0x8000)],
  },
];

const SITE = MODULE + 12n;
const NOP = 0x6000_0000n;
const B_OVER = 0x4800_0008n;
const BL = 0x4800_0001n | ((STUB - SITE) & 0x03ff_fffcn);
const ldR2 = (slot: number): bigint => 0xe841_0000n | BigInt(slot);

interface Form {
  readonly site: readonly [bigint, bigint];
}
const callForm = (abi: Abi): Form => ({ site: [BL, ldR2(abi.slot)] });

/** `threads` CPUs at the beginning of f, with the site in a form. */
function machineOf(abi: Abi, form: Form, threads: number, fetchLineBytes?: number): Machine {
  const { lifter } = ppcEmulation(abi.kind);
  const machine = new Machine({ lifter, ...(fetchLineBytes ? { fetch: 'buffered' as const, fetchLineBytes } : {}) });
  const f: PpcLine[] = [
    mflr(0), std(0, 1, 16), stdu(-112), ['ori', { rs: 0, ra: 0, ui: 0 }], ['ori', { rs: 0, ra: 0, ui: 0 }], li(5, 2, 0),
    addi(1, 1, 112), li(0, 1, 16), mtlr(0), blr,
  ]; // prettier-ignore
  const tracer: PpcLine[] = [
    ...abi.prologue, mflr(3), stdu(-112), std(3, 1, 128), li(6, 2, 0), li(0, 1, 128), mtlr(0), addi(1, 1, 112), blr,
  ]; // prettier-ignore
  machine.load(MODULE, ppcWords(abi.kind, f), { permission: 'rx', size: 0x1000 });
  machine.load(TRACER, ppcWords(abi.kind, tracer), { permission: 'rx', size: 0x1000 });
  machine.map({ address: CORE_TOC, size: 0x1000, permission: 'rw' });
  machine.map({ address: MODULE_TOC & ~0xfffn, size: 0x1000, permission: 'rw' });
  machine.map({ address: STACKS, size: Number(STACK_BYTES) * threads, permission: 'rw' });
  const word = (address: bigint, value: bigint): void => {
    expect(machine.writeWord(address, 4, value)).toBe(true);
  };
  form.site.forEach((value, i) => {
    word(SITE + BigInt(4 * i), value);
  });
  abi.stub.forEach((value, i) => {
    word(STUB + BigInt(4 * i), BigInt(value));
  });
  abi.data.forEach((value, i) => machine.writeWord(STUB + 32n + BigInt(8 * i), 8, value));
  word(STOP, 0x7fe0_0008n);
  machine.writeWord(CORE_TOC, 8, CORE_DATA);
  machine.writeWord(MODULE_TOC, 8, MODULE_DATA);
  for (let cpu = 0; cpu < threads; cpu++) {
    if (cpu > 0) machine.addCpu();
    machine.switchTo(cpu);
    const sp = STACKS + STACK_BYTES * BigInt(cpu) + 0x800n;
    // What an earlier call left in the slot of f's frame: nobody's TOC.
    machine.writeWord(sp - 112n + BigInt(abi.slot), 8, 0xdead_0000n);
    machine.setRegister('pc', MODULE);
    machine.setRegister('r1', sp);
    machine.setRegister('r2', MODULE_TOC);
    machine.setRegister('lr', STOP);
  }
  machine.switchTo(0);
  return machine;
}

type End = 'intact' | "core's TOC" | 'garbage';

/** What became of each thread: by what it read through r2 after the site. */
function ends(machine: Machine, stops: ReadonlyMap<number, { readonly stop: { readonly kind: string } }>): End[] {
  return Array.from({ length: machine.cpuCount }, (_, cpu) => {
    machine.switchTo(cpu);
    const kind = stops.get(cpu)?.stop.kind;
    if (kind === 'fault') return 'garbage';
    expect(kind).toBe('trap');
    if (machine.register('r6') !== 0n) expect(machine.register('r6')).toBe(CORE_DATA);
    const read = machine.register('r5');
    expect([MODULE_DATA, CORE_DATA]).toContain(read);
    return read === MODULE_DATA ? 'intact' : "core's TOC";
  });
}

let explored = 0;
afterAll(() => {
  process.stdout.write(`${explored} schedules\n`);
});

/** Runs schedules from the same start; counts ends of all threads. */
function explore(machine: Machine, schedules: Iterable<readonly ScheduleStep[]>) {
  const start = machine.snapshot();
  const found: Record<End, number> = { intact: 0, "core's TOC": 0, garbage: 0 };
  let count = 0;
  for (const steps of schedules) {
    machine.restore(start);
    const { stops } = runSchedule(machine, steps);
    // The worst thread of a schedule.
    const all = ends(machine, stops);
    found[all.includes('garbage') ? 'garbage' : all.includes("core's TOC") ? "core's TOC" : 'intact']++;
    count++;
    explored++;
  }
  return { count, ...found };
}

const store = (address: bigint, value: bigint): PatcherStep => ({ kind: 'store', address, width: 4, value });
/** The two words at once, as a machine that is stopped sees them. */
const pair = (abi: Abi, [first, second]: readonly [bigint, bigint]): PatcherStep => ({
  kind: 'store', address: SITE, width: 8, value: abi.kind === 'le' ? (second << 32n) | first : (first << 32n) | second,
}); // prettier-ignore

const choose = (n: number, k: number): number => (k === 0 ? 1 : (choose(n - 1, k - 1) * n) / k);

/**
 * Instructions of a thread that goes through the tracer; where in them the call (s) and the word
 * behind it (r) stand.
 */
function path(abi: Abi): { readonly n: number; readonly s: number; readonly r: number } {
  const machine = machineOf(abi, callForm(abi), 1);
  const places: bigint[] = [];
  while (machine.register('pc') !== STOP) {
    places.push(machine.register('pc'));
    machine.run({ budget: 1 });
  }
  expect(machine.register('r5')).toBe(MODULE_DATA);
  expect(machine.register('r6')).toBe(CORE_DATA);
  return { n: places.length, s: places.indexOf(SITE), r: places.indexOf(SITE + 4n) };
}

describe.each(repeats(abis))('T-PPC-26 H3: $name', (abi) => {
  const { n, s, r } = path(abi);
  const one = (patcher: readonly PatcherStep[]): Iterable<readonly ScheduleStep[]> =>
    interleavings({ cpu: 0, instructions: n, patcher, after: 60 });
  const nops: Form = { site: [NOP, NOP] };
  const over: Form = { site: [B_OVER, ldR2(abi.slot)] };
  const call = callForm(abi);

  test('the way through the tracer', () => {
    // By hand: three words, the call, stub, tracer, the restore, the TOC access, four words.
    expect([n, s, r]).toEqual(abi.kind === 'be' ? [25, 3, 19] : [26, 3, 20]);
  });

  test('2008, both words at once: whoever is inside the tracer comes back with the TOC of the core', () => {
    const found = explore(machineOf(abi, call, 1), one([pair(abi, nops.site)]));
    expect(found).toEqual({ count: n + 1, intact: n + 1 - (r - s), "core's TOC": r - s, garbage: 0 });
  });

  test('2008, word by word as the source stores them: new callers load what no stub has saved, too', () => {
    const found = explore(machineOf(abi, call, 1), one([store(SITE, NOP), store(SITE + 4n, NOP)]));
    const inside = ((r - s) * (r - s + 1)) / 2;
    const between = (s + 1) * (n - s - 1);
    expect(found).toEqual({
      count: choose(n + 2, 2),
      intact: choose(n + 2, 2) - inside - between,
      "core's TOC": inside,
      garbage: between,
    });
  });

  test('b .+8: one word, and r2 is intact in every schedule', () => {
    const found = explore(machineOf(abi, call, 1), one([store(SITE, B_OVER)]));
    expect(found).toEqual({ count: n + 1, intact: n + 1, "core's TOC": 0, garbage: 0 });
  });

  test('turning it on again: two words are as bad, one is not', () => {
    const bad = explore(machineOf(abi, nops, 1), one([store(SITE, BL), store(SITE + 4n, ldR2(abi.slot))]));
    expect(bad).toEqual({
      count: choose(n + 2, 2),
      intact: choose(n + 2, 2) - (s + 1) * (n - r) - 1,
      "core's TOC": (s + 1) * (n - r),
      garbage: 1,
    });
    const good = explore(machineOf(abi, over, 1), one([store(SITE, BL)]));
    expect(good).toEqual({ count: n + 1, intact: n + 1, "core's TOC": 0, garbage: 0 });
  });

  /**
   * Two threads, each anywhere when the patcher stores: they meet in memory only at the site, so
   * their orders are independent.
   */
  function* two(patcher: readonly PatcherStep[]): Generator<readonly ScheduleStep[]> {
    function* place(step: number, a: number, b: number): Generator<readonly ScheduleStep[]> {
      const each = patcher[step];
      if (!each) {
        yield [
          { kind: 'run', cpu: 0, instructions: 60 },
          { kind: 'run', cpu: 1, instructions: 60 },
        ];
        return;
      }
      for (let nextA = a; nextA <= n; nextA++) {
        for (let nextB = b; nextB <= n; nextB++) {
          for (const rest of place(step + 1, nextA, nextB)) {
            yield [
              { kind: 'run', cpu: 0, instructions: nextA - a },
              { kind: 'run', cpu: 1, instructions: nextB - b },
              each,
              ...rest,
            ];
          }
        }
      }
    }
    yield* place(0, 0, 0);
  }

  longTest('two CPUs in the same function, every pair of places', () => {
    const bad = explore(machineOf(abi, call, 2), two([pair(abi, nops.site)]));
    const fine = (n + 1 - (r - s)) ** 2;
    expect(bad).toEqual({ count: (n + 1) ** 2, intact: fine, "core's TOC": (n + 1) ** 2 - fine, garbage: 0 });
    const good = explore(machineOf(abi, call, 2), two([store(SITE, B_OVER)]));
    expect(good).toEqual({ count: (n + 1) ** 2, intact: (n + 1) ** 2, "core's TOC": 0, garbage: 0 });
    // Off and on again, while both threads run.
    const again = explore(machineOf(abi, call, 2), sampled(two([store(SITE, B_OVER), store(SITE, BL)]), 37));
    expect([again.intact, again.count]).toEqual([again.count, Math.ceil(choose(n + 2, 2) ** 2 / 37)]);
  });

  test('CPUs that keep what they fetched (lines of 16 bytes, the site across two): b .+8 needs no synchronising for r2', () => {
    const stores2008 = [store(SITE, NOP), store(SITE + 4n, NOP)];
    const bad = explore(machineOf(abi, call, 1, 16), one(stores2008));
    // Old call, new nop: whenever the first line was fetched before its store, and the second after
    // its own.
    const stale = [...pairs(n)].filter(([p, q]) => p >= 1 && q <= r).length;
    expect(bad.count).toBe(choose(n + 2, 2));
    expect(bad["core's TOC"]).toBe(stale);
    const synchronise: PatcherStep = { kind: 'synchronise', cpu: 0 };
    const synchronised = explore(machineOf(abi, call, 1, 16), one([...stores2008, synchronise]));
    expect(synchronised.count).toBe(choose(n + 3, 3));
    expect(synchronised["core's TOC"]).toBeGreaterThan(0);
    for (const [patcher, k] of [
      [[store(SITE, B_OVER)], 1],
      [[store(SITE, B_OVER), synchronise], 2],
      [[store(SITE, B_OVER), store(SITE, BL), synchronise], 3],
    ] as const) {
      const found = explore(machineOf(abi, call, 1, 16), one(patcher));
      expect(found).toEqual({ count: choose(n + k, k), intact: choose(n + k, k), "core's TOC": 0, garbage: 0 });
    }
  });
});

function* pairs(n: number): Generator<readonly [number, number]> {
  for (let p = 0; p <= n; p++) for (let q = p; q <= n; q++) yield [p, q];
}

/** Every `each`-th of a sequence. */
function* sampled<T>(all: Iterable<T>, each: number): Generator<T> {
  let index = 0;
  for (const one of all) if (index++ % each === 0) yield one;
}

describe.each(few(['modern', '2008']))(
  'T-PPC-26 H3: a loaded module, stubs of the form %s, and the real tracer',
  (stubs) => {
    const image = traced(
      loadSample({ target: 'ppc64-elfv1', flavour: 'pg', suffix: '' }, { 'ppc-stubs': stubs }),
      'function',
    );
    const sites = sitesOf(image);
    const [index] = findNamedSites(sites, 'one_data');
    const ip = sites.ip(index!);
    const { loadMap } = sites.program;
    const [coreToc, moduleToc] = ['core', 'far_one'].map(
      (name) => loadMap!.parts.find((part) => part.name === name)!.toc!,
    );
    const expected = readFileSync(join(root, 'samples', 'expected', 'loaded.txt'), 'utf8');

    test('preempted at every instruction from the stub to the return: r2 as it comes back, and what the program prints', () => {
      const { arch, image: elf } = sites.program;
      if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
      let output = '';
      const guest = startProcess({
      image: elf, abi: arch.abi, emulation: arch.emulation, args: ['p'],
      onOutput: (_, data) => (output += Buffer.from(data).toString('latin1')),
    }); // prettier-ignore
      const { machine } = guest;
      const remove = machine.hook(ip, () => 'stop');
      expect(guest.run().kind).toBe('hook');
      remove();
      const sp = machine.register('r1');
      expect(machine.register('r2')).toBe(moduleToc);
      const start = machine.snapshot();
      const printed = output;
      const back = (): boolean => machine.register('pc') === ip + 4n && machine.register('r1') === sp;
      let inside = 0;
      while (!back()) {
        machine.run({ budget: 1 });
        inside++;
      }
      expect(inside).toBeGreaterThan(100);
      const counts: Record<string, number> = {};
      for (const [form, words] of [
        ['2008', [NOP, NOP]],
        ['b8', [B_OVER, ldR2(40)]],
      ] as const) {
        // 0: before the call; inside: the next word is the one behind the call; inside + 1: that
        // one is done.
        for (let preempted = 0; preempted <= inside + 1; preempted++) {
          machine.restore(start);
          output = printed;
          if (preempted > 0) machine.run({ budget: preempted });
          expect(machine.writeWord(ip, 8, (words[0] << 32n) | words[1])).toBe(true);
          const stop = machine.hook(ip + 8n, () => (machine.register('r1') === sp ? 'stop' : 'continue'));
          if (machine.register('pc') !== ip + 8n) guest.run({ budget: 10_000 });
          stop();
          expect(machine.register('pc')).toBe(ip + 8n);
          const wrong = form === '2008' && preempted >= 1 && preempted <= inside;
          expect([form, preempted, machine.register('r2')]).toEqual([form, preempted, wrong ? coreToc : moduleToc]);
          counts[wrong ? 'wrong' : 'right'] = (counts[wrong ? 'wrong' : 'right'] ?? 0) + 1;
          explored++;
          if (preempted % 40 !== 1) continue;
          const end = guest.run({ budget: 10_000_000 });
          expect([form, preempted, end.kind === 'exit' && output === expected]).toEqual([form, preempted, !wrong]);
        }
      }
      expect(counts).toEqual({ wrong: inside, right: 2 * (inside + 2) - inside });
    });
  },
);
