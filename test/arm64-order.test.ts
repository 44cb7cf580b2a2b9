/**
 * The order of stores of per-callsite ops (A-MOD-1, A-CO-3; H5, H7, H12): every
 * schedule of a patcher's stores against one thread in a traced function, and against two, with the
 * real entry of the runtime. Their numbers are those of the formulas; variants in a wrong order,
 * with halved stores, or that free too early fail visibly.
 *
 *   f:    [word in front: ops]  mov x9, x30; [nop or bl entry]; add x0, x0, #1; ret
 *   entry reads the word once (l), then the ops' direct_call and func (g), then calls func
 *
 * What a thread saw is in its own memory (tpidr_el0): how often callbacks a and b ran, and with
 * which ops.
 */
import { afterAll, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { arm64 } from '../src/arch-arm64/index.js';
import { encodeBl, NOP } from '../src/arch-arm64/isa.js';
import { readElf } from '../src/elf/read.js';
import { Machine, type PatcherStep, runSchedule, type ScheduleStep } from '../src/emulator/index.js';
import { loadImages } from '../src/program/loader.js';
import { runtimeObject } from '../src/runtime/index.js';
import { scratch } from './support/c-programs.js';
import { source } from './support/loader-build.js';
import { describeWith, run } from './support/tools.js';
import { interleavings } from './support/interleavings.js';

const PROGRAM = `
	.macro	callback name, slot
	.globl	\\name
	.type	\\name, %function
\\name:	hint	#34
	mrs	x4, tpidr_el0
	ldr	x5, [x4, #\\slot]
	add	x5, x5, #1
	str	x5, [x4, #\\slot]
	str	x2, [x4, #\\slot + 8]
	ret
	.endm
	.text
	.globl	_start, f, site, stop, literal, copy, direct
_start:	brk	#0
	.balign	8
literal: .quad	0
	.type	f, %function
f:	mov	x9, x30
site:	nop
	add	x0, x0, #1
	ret
stop:	brk	#2
	callback a, 0
	callback b, 16
	.type	direct, %function
direct:	hint	#34
	mrs	x10, tpidr_el0
	str	x9, [x10, #32]
	mov	x10, x30
	mov	x30, x9
	ret	x10
	.balign	64
copy:	.space	256
	.data
	.balign	64
	.globl	ops_a, ops_b, ops_d
ops_a:	.quad	a, 0, 0, 0, ftrace_list_end, 0, 0, 0
ops_b:	.quad	b, 0, 0, 0, ftrace_list_end, 0, 0, 0
ops_d:	.quad	elftrace_stub_text_, 0, direct, 0, ftrace_list_end, 0, 0, 0
	.set	elftrace_stub_text_, ftrace_stub
`;

const POISON = 0xdead_beef_dead_beefn;
const STACKS = 0x3000_0000n;
const LOCALS = 0x3100_0000n;

interface World {
  readonly machine: Machine;
  /** Another address of ops that call a. */
  readonly alias?: bigint;
  at(name: string): bigint;
}

interface Setup {
  readonly literal: string | bigint;
  readonly site: string | null;
  /** First of the list. */
  readonly list?: string;
  readonly threads?: number;
  readonly fetchLineBytes?: number;
}

let image: ReturnType<typeof readElf>;

function makeImage(): ReturnType<typeof readElf> {
  const output = scratch('order.o');
  run('aarch64-linux-gnu-as', ['-o', output, '-'], PROGRAM);
  const { bytes } = loadImages(
    {
      core: source('core', new Uint8Array(readFileSync(output))),
      modules: [],
      base: 'user',
      runtime: source('runtime', runtimeObject('arm64', 'callops')!),
      options: { convention: 'callops' },
    },
    arm64,
  );
  return readElf(bytes);
}

/** Threads at the beginning of f. */
function world({ literal, site, list, threads = 1, fetchLineBytes }: Setup): World {
  if (arm64.emulation.kind !== 'ir') throw new Error('arm64 is not executed');
  const machine = new Machine({
    lifter: arm64.emulation.lifter,
    ...(fetchLineBytes === undefined ? {} : { fetch: 'buffered' as const, fetchLineBytes }),
  });
  const at = (name: string): bigint => image.symbols.value[image.symbols.find(name)]!;
  for (const segment of image.segments) {
    if (segment.type !== 1 || segment.memorySize === 0n) continue;
    // The records of the ring are not used: a small machine is a fast one.
    const size = Number(segment.memorySize > 0x2_0000n ? 0x2_0000n : segment.memorySize);
    const bytes = image.bytes.subarray(segment.offset, segment.offset + Math.min(size, Number(segment.fileSize)));
    const page = segment.address & 0xfffn;
    const padded = new Uint8Array(bytes.length + Number(page));
    padded.set(bytes, Number(page));
    const permission = (segment.flags & 1) !== 0 ? 'rx' : 'rw';
    machine.load(segment.address - page, padded, { permission, size: (size + Number(page) + 0xfff) & ~0xfff });
    // Behind them there are the blocks of the threads.
    const end = segment.address + segment.memorySize;
    if (segment.memorySize > 0x4_0000n)
      machine.map({ address: (end - 0x1_0000n) & ~0xfffn, size: 0x1_1000, permission: 'rw' });
  }
  machine.map({ address: STACKS, size: 0x1000 * threads, permission: 'rw' });
  machine.map({ address: LOCALS, size: 0x1000, permission: 'rw' });
  const word = (address: bigint, width: 4 | 8, value: bigint): void => {
    expect(machine.writeWord(address, width, value)).toBe(true);
  };
  word(at('literal'), 8, typeof literal === 'bigint' ? literal : at(literal));
  if (site !== null) word(at('site'), 4, BigInt(encodeBl(at('site'), at(site))));
  if (list !== undefined) word(at('ftrace_ops_list'), 8, at(list));
  for (let cpu = 0; cpu < threads; cpu++) {
    if (cpu > 0) machine.addCpu();
    machine.switchTo(cpu);
    machine.setRegister('pc', at('f'));
    machine.setRegister('x30', at('stop'));
    machine.setRegister('sp', STACKS + 0x1000n * BigInt(cpu + 1) - 64n);
    machine.setRegister('tpidr_el0', LOCALS + 0x100n * BigInt(cpu));
    machine.setRegister('x0', 41n);
  }
  machine.switchTo(0);
  return { machine, at };
}

/** What one thread did: `a`, `b`, `ab`, `direct`, `-` for none of them, or `wild`. */
function ends(
  { machine, at, alias }: World,
  stops: ReadonlyMap<number, { readonly stop: { readonly kind: string } }>,
): string[] {
  return Array.from({ length: machine.cpuCount }, (_, cpu) => {
    machine.switchTo(cpu);
    if (stops.get(cpu)?.stop.kind !== 'trap' || machine.register('pc') !== at('stop')) return 'wild';
    expect(machine.register('x0')).toBe(42n);
    const local = LOCALS + 0x100n * BigInt(cpu);
    const read = (offset: bigint): bigint => machine.readWord(local + offset, 8)!;
    let text = '';
    for (const [name, offset] of [
      ['a', 0n],
      ['b', 16n],
    ] as const) {
      const count = read(offset);
      const ops = read(offset + 8n);
      const known = ops === at(`ops_${name}`) || (name === 'a' && ops === alias);
      if (count > 0n && !known) return 'wild';
      text += name.repeat(Number(count));
    }
    if (read(32n) !== 0n) text += 'direct';
    return text === '' ? '-' : text;
  });
}

let explored = 0;
afterAll(() => {
  process.stdout.write(`${explored} schedules\n`);
});

/** Ends of all schedules from the same start, the worst of the threads of each. */
function explore(from: World, schedules: Iterable<readonly ScheduleStep[]>): Record<string, number> {
  const start = from.machine.snapshot();
  const found: Record<string, number> = { count: 0 };
  for (const steps of schedules) {
    from.machine.restore(start);
    const { stops } = runSchedule(from.machine, steps);
    const all = ends(from, stops);
    const end = all.includes('wild') ? 'wild' : all.join(' ');
    found[end] = (found[end] ?? 0) + 1;
    found['count']!++;
    explored++;
  }
  from.machine.restore(start);
  return found;
}

/**
 * Instructions of the thread: how many, and where in them the site, the load of the word, the loads
 * from the ops stand.
 */
function path(setup: Setup): {
  readonly n: number;
  readonly s: number;
  readonly l: number;
  readonly d: number;
  readonly g: number;
} {
  const { machine, at } = world(setup);
  const places: bigint[] = [];
  while (machine.register('pc') !== at('stop')) {
    places.push(machine.register('pc'));
    machine.run({ budget: 1 });
    if (places.length > 1000) throw new Error('the thread does not come back');
  }
  const caller = at('ftrace_caller');
  const g = places.findIndex((place) => machine.readWord(place, 4) === 0xf940_0044n);
  return {
    n: places.length,
    s: places.indexOf(at('site')),
    l: places.indexOf(caller + 8n),
    d: places.indexOf(caller + 12n),
    g,
  };
}

const choose = (n: number, k: number): number => (k <= 0 ? 1 : (choose(n - 1, k - 1) * n) / k);
const AFTER = 400;

describeWith(['aarch64-linux-gnu-as'], 'order of stores', () => {
  image = makeImage();
  const store = (address: bigint, value: bigint, width: 4 | 8): PatcherStep => ({
    kind: 'store',
    address,
    width,
    value,
  });
  const at = (name: string): bigint => image.symbols.value[image.symbols.find(name)]!;
  const literal = (value: string | bigint): PatcherStep =>
    store(at('literal'), typeof value === 'bigint' ? value : at(value), 8);
  const halves = (value: string): PatcherStep[] => [
    store(at('literal'), at(value) & 0xffff_ffffn, 4),
    store(at('literal') + 4n, at(value) >> 32n, 4),
  ];
  const call = (entry: string): PatcherStep => store(at('site'), BigInt(encodeBl(at('site'), at(entry))), 4);
  const nop = store(at('site'), BigInt(NOP), 4);
  const one = (instructions: number, patcher: readonly PatcherStep[]): Iterable<readonly ScheduleStep[]> =>
    interleavings({ cpu: 0, instructions, patcher, after: AFTER });

  const traced: Setup = { literal: 'ops_a', site: 'ftrace_caller', list: 'ops_a' };
  const { n, s, l, d, g } = path(traced);
  /** The compiler's two nops, of which no address can be made. */
  const COMPILED = (BigInt(NOP) << 32n) | BigInt(NOP);

  test('the way through the entry', () => {
    // mov, bl; bti, bic, ldur, ldr x17 (direct_call), cbnz; ...; ldr x4 (func).
    expect([s, l, d]).toEqual([1, 4, 5]);
    expect(g).toBeGreaterThan(d);
    process.stdout.write(`${n} instructions, func is read by number ${g}\n`);
  });

  test('H7, first enable: word, then call: every prefix is right; the other order finds what was no pointer', () => {
    const before: Setup = { literal: COMPILED, site: null };
    const good = explore(world(before), one(n, [literal('ops_a'), call('ftrace_caller')]));
    // Traced from the call on: the thread has not passed the site.
    const late = choose(s + 2, 2);
    expect(good).toEqual({ count: choose(n + 2, 2), a: late, '-': choose(n + 2, 2) - late });
    const bad = explore(world(before), one(n, [call('ftrace_caller'), literal('ops_a')]));
    // The call before the site is reached, the word after it was loaded.
    const wild = (s + 1) * (n - l);
    expect(bad['wild']).toBe(wild);
    expect(bad['count']).toBe(choose(n + 2, 2));
  });

  test('A-CO-4, T-A64-3: words that start with the list: whoever reads one early is right, in either order of the stores', () => {
    const before: Setup = { literal: 'ftrace_list_ops', site: null, list: 'ops_a' };
    const all = choose(l + 4, 2);
    const wordFirst = explore(world(before), one(l + 2, [literal('ops_a'), call('ftrace_caller')]));
    // Untraced only where the thread passed the site before it was a call.
    const [both, callAlone] = [choose(s + 2, 2), (s + 1) * (l + 3) - choose(s + 1, 2)];
    expect(wordFirst).toEqual({ count: all, a: both, '-': all - both });
    const late = [call('ftrace_caller'), literal('ops_a')];
    expect(explore(world(before), one(l + 2, late))).toEqual({ count: all, a: callAlone, '-': all - callAlone });
    // With words that name ops which do nothing the late store loses calls; with the compiler's
    // nops it is wild (above).
    const nothing = explore(world({ ...before, literal: 'ftrace_nop_ops' }), one(l + 2, late));
    // The call before the site is reached, the word behind its load: two places of the window.
    const lost = (s + 1) * 2;
    expect(nothing).toEqual({ count: all, a: callAlone - lost, '-': all - callAlone + lost });
  });

  test('C-Q-4, disable: word := ops that do nothing, then nop: every prefix is right, a thread between call and load runs nothing', () => {
    const found = explore(world(traced), one(n, [literal('ftrace_nop_ops'), nop]));
    // -: the word changed before it was loaded.
    const nothing = [...pairs(n)].filter(([p]) => p <= l).length;
    expect(found).toEqual({ count: choose(n + 2, 2), a: choose(n + 2, 2) - nothing, '-': nothing });
    const other = explore(world(traced), one(n, [nop, literal('ftrace_nop_ops')]));
    expect([other['wild'], other['count']]).toEqual([undefined, choose(n + 2, 2)]);
  });

  test('T-A64-7, A-CO-5: another ops by way of the list: old, list or new, never nothing', () => {
    // The list has both for as long as the change takes.
    const both = { ...traced, list: 'ops_a' };
    const start = world(both);
    start.machine.writeWord(at('ops_a') + 32n, 8, at('ops_b'));
    const long = path({ ...both, literal: 'ftrace_list_ops' }).n;
    const found = explore(start, one(n, [literal('ftrace_list_ops'), literal('ops_b')]));
    const counts = { a: 0, ab: 0, b: 0 };
    for (const [p, q] of pairs(n)) counts[p > l ? 'a' : q > l ? 'ab' : 'b']++;
    expect(found).toEqual({ count: choose(n + 2, 2), ...counts });
    expect(long).toBeGreaterThan(n);
    // T-A64-6: the list at any time.
    const list = explore(start, one(n, [literal('ftrace_list_ops')]));
    expect(list).toEqual({ count: n + 1, a: n - l, ab: l + 1 });
  });

  /** Threads at f, whose word names ops of a that differ from all others in the upper half too. */
  const far = (): World => {
    const alias = 0x7777_0000_0000n | at('ops_a');
    const made = world({ ...traced, literal: alias });
    made.machine.map({ address: alias & ~0xfffn, size: 0x1000, permission: 'rw' });
    for (let i = 0n; i < 8n; i++)
      made.machine.writeWord(alias + 8n * i, 8, made.machine.readWord(at('ops_a') + 8n * i, 8)!);
    return { ...made, alias };
  };

  test('T-A64-14, T-A64-7: the word in two halves: wild; in one store never', () => {
    const torn = explore(far(), one(n, halves('ops_b')));
    expect(torn).toEqual({
      count: choose(n + 2, 2),
      a: choose(n - l + 1, 2),
      b: choose(l + 2, 2),
      wild: (l + 1) * (n - l),
    });
    expect(explore(far(), one(n, [literal('ops_b')]))).toEqual({ count: n + 1, a: n - l, b: l + 1 });
  });

  test('T-A64-5, T-A64-14: listing entry, word in halves, reading entry: a first enable is right at every prefix', () => {
    const before: Setup = { literal: COMPILED, site: null, list: 'ops_a' };
    const steps = [call('ftrace_list_caller'), ...halves('ops_a'), call('ftrace_caller')];
    // The log of the sequence: what a thread does that begins after each prefix of it.
    const log = steps.map((_, i) => {
      const from = world(before);
      runSchedule(from.machine, steps.slice(0, i + 1));
      from.machine.run({ budget: 2 });
      const place = from.machine.register('pc') === at('ftrace_list_caller') ? 'lists' : 'reads';
      const stop = from.machine.run({ budget: AFTER });
      return `${place}: ${ends(from, new Map([[0, { stop }]])).join()}`;
    });
    expect(log).toEqual(['lists: a', 'lists: a', 'lists: a', 'reads: a']);
    // Where the thread is decides only up to the load of the word: what lies behind is one place.
    const window = l + 2;
    const found = explore(world(before), one(window, steps));
    expect(found['count']).toBe(choose(window + 4, 4));
    expect(Object.keys(found).sort()).toEqual(['-', 'a', 'count']);
    // Untraced only where it passed the site before the first call.
    expect(found['-']).toBe(choose(window - s - 1 + 4, 4));
  });

  test('T-A64-14: a second change that does not wait for threads inside the reading entry: wild; with a wait: never', () => {
    const window = l + 2;
    const steps = [call('ftrace_list_caller'), ...halves('ops_b'), call('ftrace_caller')];
    const early = explore(far(), one(window, steps));
    expect(early['count']).toBe(choose(window + 4, 4));
    // The thread passed the site before the first step, and loads the word between the halves.
    expect(early['wild']).toBe(choose(l - s + 1, 2) * choose(window - l + 1, 2));
    const waited: ScheduleStep[][] = [];
    for (let p = 0; p <= n; p++) {
      const wait: ScheduleStep[] = p > 0 ? [{ kind: 'run', cpu: 0, instructions: AFTER }] : [];
      waited.push([
        { kind: 'run', cpu: 0, instructions: p },
        steps[0]!,
        ...wait,
        ...steps.slice(1),
        { kind: 'run', cpu: 0, instructions: AFTER },
      ]);
    }
    // At 0 the thread has not begun: it calls b by the new word.
    const quiet = explore(far(), waited);
    expect(quiet).toEqual({ count: n + 1, a: n, b: 1 });
  });

  test('T-A64-8: teardown A (listing entry, word, nop) and B (word, nop): right at every prefix as long as nothing is freed', () => {
    const window = g + 2;
    const a = explore(world(traced), one(window, [call('ftrace_list_caller'), literal('ftrace_list_ops'), nop]));
    expect(a['count']).toBe(choose(window + 3, 3));
    expect(Object.keys(a).sort()).toEqual(['-', 'a', 'count']);
    // -: all three came before the site.
    expect(a['-']).toBe(choose(s + 3, 3));
    const b = explore(world(traced), one(n, [literal('ftrace_list_ops'), nop]));
    expect(b).toEqual({ count: choose(n + 2, 2), '-': choose(s + 2, 2), a: choose(n + 2, 2) - choose(s + 2, 2) });
    // The twin: freed behind the last step, a thread that loaded the word before it changed is
    // lost.
    const free = store(at('ops_a'), POISON, 8);
    const lost = explore(world(traced), one(window, [literal('ftrace_list_ops'), nop, free]));
    // Either its func is read later, or the list, which still has the ops, is walked later.
    expect([lost['count'], lost['wild']! >= choose(g - l + 2, 3)]).toEqual([choose(window + 3, 3), true]);
  });

  /**
   * Two CPUs at every pair of places between every two steps: each runs up to `window` instructions
   * before the last step.
   */
  function* two(window: number, patcher: readonly PatcherStep[]): Generator<readonly ScheduleStep[]> {
    const cut = function* (left: number, from: number): Generator<readonly number[]> {
      if (left === 0) yield [];
      else for (let p = from; p <= window; p++) for (const rest of cut(left - 1, p)) yield [p, ...rest];
    };
    const places = [...cut(patcher.length, 0)];
    for (const first of places) {
      for (const second of places) {
        yield [
          ...patcher.flatMap((step, i): ScheduleStep[] => [
            { kind: 'run', cpu: 0, instructions: first[i]! - (first[i - 1] ?? 0) },
            { kind: 'run', cpu: 1, instructions: second[i]! - (second[i - 1] ?? 0) },
            step,
          ]),
          { kind: 'run', cpu: 0, instructions: AFTER },
          { kind: 'run', cpu: 1, instructions: AFTER },
        ];
      }
    }
  }

  test('H7, two CPUs, every pair of places between the stores: enable, disable; the wrong orders fail', () => {
    // What lies behind the load of the word is one place: nothing that the patcher stores is read
    // there.
    const window = l + 2;
    const all = choose(window + 2, 2) ** 2;
    const ways = (count: number): { readonly count: number; readonly rest: number } => ({
      count,
      rest: choose(window + 2, 2) - count,
    });
    // Enabled: both stores come before the site is reached; the CPUs do not know of each other.
    const on = ways(choose(s + 2, 2));
    const idle: Setup = { literal: COMPILED, site: null, threads: 2 };
    expect(explore(world(idle), two(window, [literal('ops_a'), call('ftrace_caller')]))).toEqual({
      count: all,
      'a a': on.count ** 2,
      'a -': on.count * on.rest,
      '- a': on.rest * on.count,
      '- -': on.rest ** 2,
    });
    // The call first: either CPU may find the compiler's nops in the place of ops.
    const lost = ways((s + 1) * (window - l));
    const wrong = explore(world(idle), two(window, [call('ftrace_caller'), literal('ops_a')]));
    expect([wrong['count'], wrong['wild']]).toEqual([all, all - lost.rest ** 2]);
    // Disabled: the word that does nothing was loaded, or the nop executed.
    const traced: Setup = { literal: 'ops_a', site: 'ftrace_caller', list: 'ops_a', threads: 2 };
    const off = ways(choose(window + 2, 2) - [...pairs(window)].filter(([p]) => p <= l).length);
    expect(explore(world(traced), two(window, [literal('ftrace_nop_ops'), nop]))).toEqual({
      count: all,
      'a a': off.count ** 2,
      'a -': off.count * off.rest,
      '- a': off.rest * off.count,
      '- -': off.rest ** 2,
    });
    // Exchanged by way of the list, which has the old one: always one of the two.
    const exchange = explore(world(traced), two(window, [literal('ftrace_list_ops'), literal('ops_b')]));
    expect(exchange['count']).toBe(all);
    expect(Object.keys(exchange).sort()).toEqual(['a a', 'a b', 'b a', 'b b', 'count']);
  });

  test('H7, two CPUs anywhere in function and entry: exchange in one store, disable at once', () => {
    function* anywhere(patcher: readonly PatcherStep[]): Generator<readonly ScheduleStep[]> {
      for (let p = 0; p <= n; p++) {
        for (let q = 0; q <= n; q++) {
          yield [
            { kind: 'run', cpu: 0, instructions: p },
            { kind: 'run', cpu: 1, instructions: q },
            ...patcher,
            { kind: 'run', cpu: 0, instructions: AFTER },
            { kind: 'run', cpu: 1, instructions: AFTER },
          ];
        }
      }
    }
    const found = explore(world({ ...traced, threads: 2 }), anywhere([literal('ops_b')]));
    const [old, fresh] = [n - l, l + 1];
    expect(found).toEqual({
      count: (n + 1) ** 2,
      'a a': old * old,
      'a b': old * fresh,
      'b a': fresh * old,
      'b b': fresh * fresh,
    });
    const off = explore(world({ ...traced, threads: 2 }), anywhere([literal('ftrace_nop_ops'), nop]));
    expect(off).toEqual({
      count: (n + 1) ** 2,
      'a a': old * old,
      'a -': old * fresh,
      '- a': fresh * old,
      '- -': fresh * fresh,
    });
  });

  test('H10: CPUs that keep what they fetched need no more: an old call finds ops, an old nop nobody', () => {
    for (const steps of [
      [literal('ops_a'), call('ftrace_caller')],
      [literal('ops_a'), call('ftrace_caller'), { kind: 'synchronise', cpu: 0 }],
    ] satisfies PatcherStep[][]) {
      const found = explore(world({ literal: 'ftrace_nop_ops', site: null, fetchLineBytes: 16 }), one(s + 4, steps));
      expect(found['count']).toBe(choose(s + 4 + steps.length, steps.length));
      expect(found['wild']).toBeUndefined();
    }
    const off = explore(world({ ...traced, fetchLineBytes: 16 }), one(n, [literal('ftrace_nop_ops'), nop]));
    expect([off['count'], off['wild']]).toEqual([choose(n + 2, 2), undefined]);
  });

  test('T-A64-12, H12: ops freed while a thread has their address: wild, also where every CPU was serialised; none with quiescence', () => {
    const free = store(at('ops_a'), POISON, 8);
    const early = explore(world(traced), one(g + 2, [literal('ftrace_nop_ops'), nop, free]));
    const size = g + 2;
    expect(early['count']).toBe(choose(size + 3, 3));
    // The word loaded before it changed, func loaded after the poison: three places among g - l.
    const lost = choose(g - l + 2, 3);
    expect(early['wild']).toBe(lost);
    const serialised = explore(
      world(traced),
      one(size, [literal('ftrace_nop_ops'), { kind: 'synchronise', cpu: 0 }, free]),
    );
    expect([serialised['count'], serialised['wild']]).toEqual([choose(size + 3, 3), choose(g - l + 2, 3)]);
    // C-Q-2: the thread passes its next voluntary point, here the end of f's caller, before
    // anything is freed.
    const after: ScheduleStep[][] = [];
    for (const [p, q] of pairs(n)) {
      after.push([
        { kind: 'run', cpu: 0, instructions: p },
        literal('ftrace_nop_ops'),
        { kind: 'run', cpu: 0, instructions: q - p },
        nop,
        // A thread that has not begun f is at such a point.
        ...(p === 0 && q === 0 ? [] : [{ kind: 'run', cpu: 0, instructions: AFTER } as const]),
        free,
        { kind: 'run', cpu: 0, instructions: AFTER },
      ]);
    }
    const quiet = explore(world(traced), after);
    expect([quiet['count'], quiet['wild']]).toEqual([choose(n + 2, 2), undefined]);
  });

  test('H5: a copy of the entry, as a private trampoline would be, freed with a thread inside: wild without quiescence, none with it', () => {
    // A private trampoline, as was proposed: a copy of the entry (nothing in it depends on its
    // place).
    const words = (at('ftrace_caller_end') - at('ftrace_caller')) / 4n;
    const begin = (): World => {
      const made = world({ ...traced, site: 'copy' });
      for (let i = 0n; i < words; i++)
        made.machine.writeWord(at('copy') + 4n * i, 4, made.machine.readWord(at('ftrace_caller') + 4n * i, 4)!);
      return made;
    };
    const machine = begin().machine;
    const inside: boolean[] = [];
    while (machine.register('pc') !== at('stop')) {
      const pc = machine.register('pc');
      inside.push(pc >= at('copy') && pc < at('copy') + 4n * words);
      machine.run({ budget: 1 });
    }
    const total = inside.length;
    const first = inside.indexOf(true);
    const last = inside.lastIndexOf(true);
    // All of it in one step: a schedule is a place of the two.
    const poison = Array.from({ length: Number(words) }, (_, i) => store(at('copy') + BigInt(4 * i), 0n, 4));
    const freed = (wait: boolean): ScheduleStep[][] =>
      [...pairs(total)].map(([p, q]) => [
        { kind: 'run', cpu: 0, instructions: p },
        nop,
        { kind: 'run', cpu: 0, instructions: q - p },
        ...(wait && q > 0 ? [{ kind: 'run', cpu: 0, instructions: AFTER } as const] : []),
        ...poison,
        { kind: 'run', cpu: 0, instructions: AFTER },
      ]);
    const early = explore(begin(), freed(false));
    // The call was executed before the nop, and the poison came before the last instruction of the
    // copy.
    const lost = [...pairs(total)].filter(([p, q]) => p > s && q <= last).length;
    expect(first).toBe(s + 1);
    expect([early['count'], early['wild']]).toEqual([choose(total + 2, 2), lost]);
    const quiet = explore(begin(), freed(true));
    expect([quiet['count'], quiet['wild']]).toEqual([choose(total + 2, 2), undefined]);
  });

  test('A-CO-7, A-DIR-1: ops of a direct caller: the entry goes there at once, and the function goes on behind the site', () => {
    const found = explore(world({ literal: 'ops_d', site: 'ftrace_caller' }), one(n, [literal('ftrace_nop_ops')]));
    const length = path({ literal: 'ops_d', site: 'ftrace_caller' }).n;
    expect(length).toBeLessThan(20);
    expect(found).toEqual({ count: n + 1, '-': l + 1, direct: n - l });
  });
});

function* pairs(count: number): Generator<readonly [number, number]> {
  for (let p = 0; p <= count; p++) for (let q = p; q <= count; q++) yield [p, q];
}
