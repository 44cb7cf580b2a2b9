/**
 * Races on real images: the sequence is what a session of the core stores, threads are those of the
 * program. Every target, on and off; the forms that are hazards show the symptom of their hazard,
 * those that are not hold in every order.
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import {
  imageRace,
  type ImageRaceRequest,
  parseRaceState,
  race,
  type RaceOptions,
  tell,
  wordBytes,
} from '../src/race/index.js';
import { loadSamples } from './support/loaded.js';
import { covering, sampled } from './support/long.js';
import { readSample } from './support/pipeline.js';

type Request = Partial<Omit<ImageRaceRequest, 'from' | 'to'>> & { readonly from?: string; readonly to?: string };

let orders = 0n;
let states = 0;
afterAll(() => {
  process.stdout.write(`${orders} orders in ${states} states\n`);
});

function raced(image: string | Uint8Array, { from = 'nop', to = 'call', ...more }: Request = {}, options: RaceOptions = {}) {
  const each = imageRace({
    image: typeof image === 'string' ? readSample(image) : image,
    site: 'leaf',
    from: parseRaceState(from),
    to: parseRaceState(to),
    ...more,
  });
  const result = race(each.scene, each.sequence, { ...each.options, ...options });
  orders += result.counts.explored;
  states += result.counts.states;
  return { ...each, result, rule: result.failing?.violation.rule ?? result.verdict };
} // prettier-ignore

const programs = [
  'x86-64/program-fentry',
  'ppc32/program-mcount',
  'ppc32/program-patchable-2',
  'ppc64-elfv1/program-mprofile',
  'ppc64-elfv2-be/program-mprofile',
  'ppc64-elfv2-le/program-mprofile',
  'arm64/program-patchable-4-2',
  'arm64/program-mcount',
];

/** One of each instruction set, and of each form of sites of PowerPC. */
const taken = covering(
  programs,
  (name) => name.replace(/-.*/, ''),
  (name) => (name.startsWith('ppc') ? name.replace(/.*\//, '') : ''),
);

describe('the core’s own sequences', () => {
  test.each(sampled(taken, 2))('C-UPD-2: %s: on, in every order, with code that CPUs keep', (name) => {
    const { result, sequence, site } = raced(name);
    expect([result.verdict, result.bounds, result.failing]).toEqual(['holds', [], null]);
    // Traced or not, and nothing else.
    expect([...result.counts.outcomes.keys()].sort()).toEqual(['-', 'elftrace_counter']);
    expect(sequence.patchers[0]!.steps.some((step) => step.kind === 'store' && step.address === site.address)).toBe(true);
  }); // prettier-ignore

  test.each(sampled(taken, 2))('C-Q-2: %s: off, and the ops freed', (name) => {
    const { result, sequence } = raced(name, { from: 'call', to: 'nop', staleFetch: false });
    expect([result.verdict, result.bounds]).toEqual(['holds', []]);
    const kinds = sequence.patchers[0]!.steps.map(({ kind }) => kind);
    expect(kinds.lastIndexOf('wait')).toBeLessThan(kinds.indexOf('free'));
  });

  test.each(['x86-64/program-fentry', 'ppc64-elfv2-le/program-mprofile', 'arm64/program-patchable-4-2'])(
    'H12: %s: freed without the wait',
    (name) => {
      const { result } = raced(name, { from: 'call', to: 'nop', variants: ['no-wait'], staleFetch: false });
      const rules = result.violations.map(({ rule }) => rule);
      expect([result.verdict, rules]).toEqual(['violated', expect.arrayContaining(['freed-memory'])]);
    },
  );

  test('two threads in the function', () => {
    const { result, scene } = raced('arm64/program-patchable-4-2', { cpus: 2, staleFetch: false });
    expect([result.verdict, result.bounds, scene.threads.length]).toEqual(['holds', [], 2]);
    expect([...result.counts.outcomes.keys()].sort()).toEqual([
      '- -',
      '- elftrace_counter',
      'elftrace_counter -',
      'elftrace_counter elftrace_counter',
    ]);
  });

  test.each(sampled(['arm64/program-patchable-4-2', 'x86-64/program-fentry'], 1))(
    '%s: two threads in a function that calls itself, five calls in all',
    (name) => {
      const { result } = raced(name, { site: 'recurse', call: [4n], cpus: 2 });
      expect([result.verdict, result.bounds]).toEqual(['holds', []]);
      // Each call is traced or not, and those behind a traced one are: the site is on for good.
      const traced = ['-', ...[1, 2, 3, 4, 5].map((count) => Array<string>(count).fill('elftrace_counter').join('+'))];
      const pairs = traced.flatMap((one) => traced.map((other) => `${one} ${other}`));
      expect([...result.counts.outcomes.keys()].sort()).toEqual(pairs.sort());
    },
  );

  test('H9 C-DIR-6: a direct caller, and another one in its place: none is missed', () => {
    const request = { site: 'traced', entries: 'g3', staleFetch: false } as const;
    const on = raced('riscv64/direct-rv64g', { ...request, to: 'direct:my_direct_caller' });
    expect([on.rule, [...on.result.counts.outcomes.keys()].sort()]).toEqual(['holds', ['-', 'my_direct_caller']]);
    const other = raced('riscv64/direct-rv64g', {
      ...request,
      from: 'direct:my_direct_caller',
      to: 'direct:my_direct_caller2',
    });
    expect([other.rule, [...other.result.counts.outcomes.keys()].sort()]).toEqual([
      'holds',
      ['my_direct_caller', 'my_direct_caller2'],
    ]);
  });

  test.each(['ppc32/program-patchable-1', 'ppc64-elfv1/program-patchable-1'])(
    'P-OOL-4 C-UPD-2: %s: a thread in the stub out of line while the site, the entries and the ops change',
    (name) => {
      for (const [from, to] of [
        ['nop', 'call'],
        ['call', 'nop'],
        ['call', 'list'],
        ['list', 'call'],
      ] as const) {
        const { result, scene } = raced(name, { site: 'quiet', from, to, staleFetch: false });
        expect([from, to, result.verdict, result.bounds, scene.threads.length]).toEqual([from, to, 'holds', [], 1]);
      }
      // Freed while the thread is in the stub, on its way to the entry.
      const early = raced(name, { site: 'quiet', from: 'call', to: 'nop', variants: ['no-wait'], staleFetch: false });
      expect(early.result.violations.map(({ rule }) => rule)).toContain('freed-memory');
    },
  );

  test('list function, graph', () => {
    const arm = 'arm64/program-patchable-4-2';
    const list = raced(arm, { from: 'call', to: 'list', staleFetch: false });
    expect(list.result.verdict).toBe('holds');
    // Never nothing: the old one, both ways at once, the new ones.
    expect([...list.result.counts.outcomes.keys()]).not.toContain('-');
    expect(raced(arm, { to: 'graph', staleFetch: false }).rule).toBe('holds');
    // Of 2014: the filter of the function tracer.
    expect(raced('x86-64/program-mcount', { to: 'graph', staleFetch: false }).rule).toBe('holds');
  });
});

describe('H1 H10: x86-64', () => {
  const name = 'x86-64/program-fentry';

  test('byte by byte: torn, and told step by step', () => {
    const { result, scene, sequence, options } = raced(name, { variants: ['no-breakpoint'], staleFetch: false });
    expect(result.failing?.violation).toMatchObject({ rule: 'torn-instruction', thread: 0 });
    expect(result.failing?.violation.message).toMatch(/^e8 1f 44 00 00 at 0x4001d0/);
    // Told step by step: one byte of the site is stored, then the thread gets there.
    const story = tell(scene, sequence, result.failing!.entries, options);
    expect([story.violation?.rule, Buffer.from(story.watchedFirst).toString('hex')]).toEqual(['torn-instruction', '0f1f440000']);
    const [last, before] = story.steps.slice(-2).reverse();
    expect(last!.event).toMatchObject({ kind: 'instruction', stale: false });
    expect(Buffer.from(last!.watched).toString('hex')).toBe('e81f440000');
    expect(before!.event).toMatchObject({ kind: 'step' });
    expect(story.steps).toHaveLength(result.failing!.entries.length);
    // Another schedule, in which the thread gets further: each instruction says what it changes.
    const alone = tell(scene, sequence, Array.from({ length: 3 }, () => result.failing!.entries.at(-1)!), options);
    const changed = alone.steps.flatMap(({ event }) => (event.kind === 'instruction' ? [event.registers] : []));
    expect(changed).toHaveLength(3);
    expect(changed.some((registers) => registers.some(({ before: was, after }) => was !== after))).toBe(true);
  }); // prettier-ignore

  test('breakpoints without making other CPUs fetch anew: old and new halves', () => {
    const { result } = raced(name, { variants: ['no-sync'] }, { first: true, shortest: false });
    expect(result.violations.map(({ rule }) => rule)).toEqual([expect.stringMatching(/^(stopped|torn-instruction)$/)]);
  });

  test('another callback of the same ops: the one or the other', () => {
    const { result } = raced(name, { from: 'call', to: 'function', staleFetch: false });
    expect([result.verdict, [...result.counts.outcomes.keys()].sort()]).toEqual([
      'holds',
      ['elftrace_counter', 'elftrace_function_tracer'],
    ]);
  });

  test('H6: the word of a trampoline names other ops while its callee stays', () => {
    const { scene, sequence, options } = raced(name, { from: 'call', to: 'nop', staleFetch: false });
    const place = (what: string) => {
      for (const step of sequence.patchers[0]!.steps)
        if (step.kind === 'free' && step.what.startsWith(what)) return step;
      throw new Error(`${what} is not freed`);
    };
    const { address, size } = place('the trampoline');
    const own = wordBytes(place('the ops').address, 8, 'little');
    const at = Buffer.from(scene.machine.memory.read(address, size)!).indexOf(own);
    expect(at).toBeGreaterThan(0);
    const steps = [{ kind: 'store', address: address + BigInt(at), bytes: wordBytes(address, 8, 'little') } as const];
    const result = race(scene, { name: 'other ops', patchers: [{ name: 'patcher', steps }] }, options);
    expect(result.failing?.violation).toMatchObject({ rule: 'wrong-ops', thread: 0 });
    expect(result.failing?.violation.message).toMatch(/^elftrace_counter is called with 0x/);
    // Right where the store comes behind the load.
    expect(result.counts.outcomes.get('elftrace_counter')).toBeGreaterThan(0n);
  });

  test('T-X86-6: trampolines of 2014 are freed without a wait for tasks: safe only where nobody is preempted in them', () => {
    const request = { from: 'call', to: 'nop', staleFetch: false } as const;
    const of2014 = 'x86-64/program-mcount';
    const full = raced(of2014, request, { first: true, shortest: false });
    expect(full.result.verdict).toBe('violated');
    expect(raced(of2014, { ...request, preempt: 'none' }).rule).toBe('holds');
  });
});

describe('H2: RISC-V', () => {
  const name = 'riscv64/program-rv64g-patchable-2';

  test('R-MOD-3: a pair, word by word and with the machine stopped', () => {
    expect(raced(name).rule).toBe('wrong-function');
    expect(raced(name, { variants: ['stopped'] }).rule).toBe('wrong-function');
    expect(raced(name, { variants: ['stopped'], preempt: 'none' }).rule).toBe('holds');
  });

  test('a fixed auipc: one word, on and off', () => {
    expect(raced(name, { entries: 'g3' }).rule).toBe('holds');
    expect(raced(name, { entries: 'g3', from: 'call', to: 'nop', staleFetch: false }).rule).toBe('holds');
  });

  test('a site that is not aligned: its halves', () => {
    expect(raced('riscv64/program-patchable-8', { staleFetch: false }).rule).toBe('torn-instruction');
  });
});

describe('H3: PowerPC 64, a site of a far module', () => {
  const bytes = loadSamples({ target: 'ppc64-elfv1', ending: '', flavour: 'pg' }).bytes;
  const request = { site: 'far_one_sum', call: [3n], from: 'call', to: 'nop' } as const;

  test('two nops: r2 is lost; b +8: it is not', () => {
    const bad = raced(bytes, { ...request, nopForm: '2008' });
    expect(bad.result.violations.map(({ rule }) => rule)).toContain('stopped');
    expect(bad.result.failing?.violation.message).toMatch(/^read of 0x[0-9a-f]+, which is not mapped so/);
    const good = raced(bytes, { ...request, staleFetch: false });
    expect([good.result.verdict, good.result.bounds]).toEqual(['holds', []]);
    // Turning the site off is one word.
    const site = good.sequence.patchers[0]!.steps.filter(
      (step) => step.kind === 'store' && step.address >= good.site.address && step.address < good.site.address + 8n,
    );
    expect(site).toHaveLength(1);
  });
});

describe('H7: arm64, the word in front of the function', () => {
  test('T-A64-14: word and call in the opposite order', () => {
    const bad = raced('arm64/program-patchable-4-2', { variants: ['reversed'], staleFetch: false });
    expect(bad.result.verdict).toBe('violated');
  });
});

describe('what is not raced', () => {
  const code = (body: () => unknown): string => {
    try {
      body();
    } catch (error) {
      if (error instanceof ElftraceError) return `${error.code}: ${error.message}`;
      throw error;
    }
    return 'done';
  };
  const arm = 'arm64/program-patchable-4-2';

  test.each<[string, Request, RegExp]>([
    [arm, { site: 'nobody' }, /^no-match: no function is named nobody$/],
    [arm, { site: '_start' }, /^no-match: _start has no site/],
    [arm, { site: 'program' }, /^unsupported-form: a call of program .*only functions that return by themselves/],
    [arm, { site: 'leaf', budget: 10 }, /^no-match: the program executes 10 instructions without a call of leaf; .*--call 'leaf/],
    [arm, { to: 'nowhere' }, /^no-match: the image defines no nowhere$/],
    [arm, { cpus: 0 }, /^usage: 0 CPUs/],
    [arm, { cpus: 2, to: 'graph' }, /^usage: the runtime records returns of one thread/],
    ['x86-64/module-fentry.ko', {}, /^no-runtime: .*elftrace load/],
  ])('%s %j', (name, request, message) => {
    expect(code(() => raced(name, request))).toMatch(message);
  }); // prettier-ignore

  test('states', () => {
    expect(parseRaceState('direct:far')).toEqual({ kind: 'direct', caller: 'far' });
    expect(code(() => parseRaceState('8ball'))).toMatch(/^usage: '8ball' is no state/);
  });
});

test('a call with arguments instead of what the program does first', () => {
  const { result, scene } = raced('arm64/program-patchable-4-2', { call: [5n], staleFetch: false });
  expect(result.verdict).toBe('holds');
  expect(scene.machine.register('x0')).toBe(5n);
});
