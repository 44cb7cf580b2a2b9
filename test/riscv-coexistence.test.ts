/**
 * RISC-V: several users on one function, executed. Every row of the outcome table that RISC-V has,
 * on each entry with direct callers; tracer, graph, live patch and direct caller on one function in
 * every order of the list; who may change where a function goes on, on each entry.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import type { StopReason } from '../src/emulator/index.js';
import { GraphUser, type Ops, type Outcome, REC } from '../src/ftrace/index.js';
import { withRuntime } from '../src/tracing/inject.js';
import { Session } from '../src/tracing/session.js';
import { planProbes, probeRoomFor, ProbeRun } from '../src/kprobes/index.js';
import { readRing } from '../src/trace/index.js';
import { few } from './support/long.js';
import { openBytes, readSample } from './support/pipeline.js';
import {
  callback,
  direct,
  done,
  type Flavour,
  openDirect,
  passed,
  runsOf,
  sampleOf,
  start,
} from './support/riscv-direct.js';

const DIRECT_FLAVOURS = ['g2', 'g2-merged', 'g3', 'g3c'] as const;

const ringHead = (guest: ReturnType<typeof start>): bigint =>
  guest.process.machine.readWord(guest.address('elftrace_ring_memory') + 24n, 8)!;

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((first, i) => permutations(items.filter((_, at) => at !== i)).map((rest) => [first, ...rest]));
}

describe('C-OUT-1 on RISC-V, executed', () => {
  /** S traces, R wants registers, D is a direct caller. */
  type Kind = 'S' | "S'" | 'R' | 'D';
  interface Row {
    readonly row: number;
    readonly attached: readonly Kind[];
    readonly action: `+${Kind}` | `-${Kind}` | 'modify';
    readonly flags: readonly ('REGS' | 'DIRECT')[];
    /** What the site calls before, and after each store. */
    readonly text: readonly ('nop' | 'caller' | 'regs' | 'direct' | 'new')[];
  }
  // Rows 3, 4, 8 to 10 and 15 to 17 need private trampolines.
  const rows: readonly Row[] = [
    { row: 1, attached: [], action: '+S', flags: [], text: ['nop', 'caller'] },
    { row: 2, attached: [], action: '+R', flags: ['REGS'], text: ['nop', 'regs'] },
    { row: 5, attached: [], action: '+D', flags: ['DIRECT', 'REGS'], text: ['nop', 'direct'] },
    { row: 6, attached: ['S'], action: "+S'", flags: [], text: ['caller'] },
    { row: 7, attached: ['S'], action: '+R', flags: ['REGS'], text: ['caller', 'regs'] },
    { row: 11, attached: ['D'], action: '+S', flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
    { row: 11, attached: ['D'], action: '+R', flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
    { row: 12, attached: ['S'], action: '+D', flags: ['DIRECT', 'REGS'], text: ['caller', 'regs'] },
    { row: 12, attached: ['R'], action: '+D', flags: ['DIRECT', 'REGS'], text: ['regs'] },
    { row: 13, attached: ['S', 'R'], action: '-R', flags: [], text: ['regs', 'caller'] },
    { row: 14, attached: ['S', 'R'], action: '-S', flags: ['REGS'], text: ['regs'] },
    { row: 18, attached: ['D', 'S'], action: '-S', flags: ['DIRECT', 'REGS'], text: ['regs', 'direct'] },
    { row: 19, attached: ['D', 'S'], action: '-D', flags: [], text: ['regs', 'caller'] },
    { row: 20, attached: ['S'], action: '-S', flags: [], text: ['caller', 'nop'] },
    { row: 20, attached: ['R'], action: '-R', flags: [], text: ['regs', 'nop'] },
    { row: 20, attached: ['D'], action: '-D', flags: [], text: ['direct', 'nop'] },
    { row: 21, attached: ['D'], action: 'modify', flags: ['DIRECT', 'REGS'], text: ['direct', 'regs', 'new'] },
    { row: 22, attached: ['D', 'S'], action: 'modify', flags: ['DIRECT', 'REGS'], text: ['regs'] },
  ];
  const CALLBACKS: Readonly<Record<Exclude<Kind, 'D'>, string>> = {
    S: 'elftrace_function_tracer',
    "S'": 'elftrace_counter',
    R: 'callback',
  };

  /** What a site calls by what is stored there. */
  const calledIn = (content: { readonly kind: string; readonly address?: bigint }, next: bigint): string => {
    if (content.kind === 'regs-caller') return 'regs';
    return content.kind === 'direct' && content.address === next ? 'new' : content.kind;
  };

  /** The site as its bytes have it: the address that its pair names. */
  const siteText = (session: Session, old: bigint, next: bigint): string => {
    const { sites, program } = openBytes(session.bytes());
    const index = Array.from({ length: sites.count }, (_, i) => i).find(
      (i) => program.symbolName(sites.functionSymbol(i)) === 'traced',
    )!;
    const { state, target } = sites.reading(index)!;
    if (state !== 'call') return 'nop';
    if (target === old) return 'direct';
    if (target === next) return 'new';
    const plain = session.functionAddress('ftrace_caller');
    return target === session.functionAddress('ftrace_regs_caller') && target !== plain
      ? 'regs'
      : target === plain
        ? 'caller'
        : 'unknown';
  };

  test.each(DIRECT_FLAVOURS)('C-OUT-1, C-TGT-2, C-DIR-2: rows 1 to 22 as far as RISC-V has them: %s', (flavour) => {
    for (const { row, attached, action, flags, text } of rows) {
      const where = `${flavour} row ${row}: ${attached.join()} ${action}`;
      const session = openDirect(flavour);
      const { core } = session;
      const present = new Map<Kind, Ops>();
      const add = (kind: Kind): void => {
        const ops =
          kind === 'D'
            ? direct(session)
            : callback(session, CALLBACKS[kind], 'traced', kind === 'R' ? ['SAVE_REGS'] : []);
        present.set(kind, ops);
      };
      const [old, next] = ['my_direct_caller', 'my_direct_caller2'].map((name) => session.functionAddress(name)!);
      const site = core.records.find(({ name }) => name === 'traced')!;
      const inText = (): string => siteText(session, old!, next!);
      // One entry serves both; a fixed auipc leads to that entry only, which finds the direct
      // caller (R-ENT-1, R-DIR-5).
      const one = flavour !== 'g2';
      const fixed = flavour === 'g3' || flavour === 'g3c';
      const shown = (each: string): string =>
        (each === 'regs' && one) || ((each === 'direct' || each === 'new') && fixed) ? 'caller' : each;
      const steps = (texts: readonly string[], show: (each: string) => string): string[] =>
        texts.map(show).filter((each, i, all) => i === 0 || each !== all[i - 1]);

      for (const kind of attached) add(kind);
      expect([where, inText()]).toEqual([where, shown(text[0]!)]);
      const kind = action.slice(1) as Kind;
      let outcome;
      if (action === 'modify') outcome = core.modifyDirect(present.get('D')!, next!);
      else if (action.startsWith('-')) {
        const ops = present.get(kind)!;
        outcome = kind === 'D' ? core.unregisterDirect(ops, old!) : core.unregister(ops);
        present.delete(kind);
      } else add(kind);
      if (outcome !== undefined) {
        const stores = done(outcome).steps.flatMap((step) =>
          step.kind === 'site' && step.site === site ? [step] : [],
        );
        const seen = [text[0]!, ...stores.map(({ after }) => calledIn(after, next!))];
        expect([where, steps(seen, shown)]).toEqual([where, steps(text, shown)]);
      }
      expect([where, inText()]).toEqual([where, shown(text.at(-1)!)]);
      // Direct callers ask for registers only where there is an entry that saves more.
      const wanted = flags.filter((each) => each !== 'REGS' || !one || present.has('R'));
      expect([where, (['REGS', 'DIRECT'] as const).filter((each) => site.has(REC[each]))]).toEqual([
        where,
        (['REGS', 'DIRECT'] as const).filter((each) => wanted.includes(each)),
      ]);
      expect([where, site.count]).toEqual([where, present.size]);

      const guest = start(session.bytes());
      const stop = guest.process.run({ budget: 1_000_000 });
      const directs = present.has('D') ? (action === 'modify' ? 2 : 1) : 0;
      expect([where, stop]).toMatchObject([where, { kind: 'exit', code: 10 + directs }]);
      const heard = [ringHead(guest), guest.word('elftrace_count', 0, 8), guest.word('callbacks')].map(Number);
      expect([where, heard]).toEqual([where, [present.has('S'), present.has("S'"), present.has('R')].map(Number)]);
    }
  });

  test('every row of the table is here or needs a private trampoline', () => {
    expect([...new Set(rows.map(({ row }) => row))]).toEqual([1, 2, 5, 6, 7, 11, 12, 13, 14, 18, 19, 20, 21, 22]);
  });
});

describe('tracer, graph, live patch and direct caller on one function', () => {
  const USERS = ['tracer', 'graph', 'livepatch', 'direct'] as const;

  function all(order: readonly (typeof USERS)[number][], flavour: Flavour, variant?: string): Session {
    const session = openDirect(flavour, variant === undefined ? {} : { directVariant: variant });
    for (const user of order) {
      switch (user) {
        case 'tracer':
          callback(session, 'elftrace_function_tracer');
          break;
        case 'graph': {
          const graph = new GraphUser('graph', { entry: 0n, return: 0n });
          done(session.core.setGraphFilter(graph, 'filter', 'traced'));
          done(session.core.registerGraph(graph));
          break;
        }
        case 'livepatch':
          callback(session, 'livepatch', 'traced', flavour === 'g2' ? ['IPMODIFY', 'SAVE_REGS'] : ['IPMODIFY']);
          break;
        case 'direct':
          direct(session, 'traced', 'my_direct_caller', () => 0);
          break;
        default:
          user satisfies never;
      }
    }
    return session;
  }

  test.each(few(DIRECT_FLAVOURS))(
    'T-RV-16, R-DIR-2, R-DIR-7: in each of the 24 orders of the list: the tracer once, graph in and out, direct caller, replacement: %s',
    (flavour) => {
      const orders = permutations(USERS);
      expect(orders.length).toBe(24);
      for (const order of orders) {
        const guest = start(all(order, flavour).bytes());
        const stop = guest.process.run({ budget: 1_000_000 });
        expect([order, stop]).toMatchObject([order, { kind: 'exit', code: 101 }]);
        expect(runsOf(guest)).toMatchObject({ bodies: 0n, directs: 1n, replacements: 1n, others: 3n });
        // A record of the tracer, an entry and a return of the graph.
        expect([order, ringHead(guest)]).toEqual([order, 3n]);
      }
    },
  );

  test('T-RV-12, R-DIR-2: the way: list, direct caller with the body of the replacement in t0, replacement, return handler', () => {
    for (const order of [USERS, [...USERS].reverse()]) {
      const bytes = all(order, 'g2').bytes();
      const way = passed(bytes, [
        'traced', 'ftrace_regs_caller', 'ftrace_ops_list_func', 'ftrace_regs_caller_end', 'my_direct_caller', 'replacement', 'return_to_handler',
      ]); // prettier-ignore
      expect(way).toEqual([
        'traced', 'ftrace_regs_caller', 'ftrace_ops_list_func', 'ftrace_regs_caller_end', 'my_direct_caller', 'replacement', 'return_to_handler',
      ]); // prettier-ignore
      const guest = start(bytes);
      const { machine } = guest.process;
      const seen: bigint[] = [];
      machine.hook(guest.address('my_direct_caller'), () => {
        seen.push(machine.register('t0'), machine.register('ra'));
        return 'continue';
      });
      guest.process.run({ budget: 1_000_000 });
      expect(seen).toEqual([guest.address('replacement'), guest.address('return_to_handler')]);
    }
  });

  test('T-RV-15, R-DIR-2: through t0 none of the 24 orders runs both: the later of helper and live patch wins', () => {
    for (const order of permutations(USERS)) {
      const guest = start(all(order, 'g2', 't0').bytes());
      const stop = guest.process.run({ budget: 100_000 });
      const { directs, replacements, bodies } = runsOf(guest);
      // What is registered later runs first; what runs last decides.
      const helperFirst = order.indexOf('direct') > order.indexOf('livepatch');
      const expected = helperFirst ? ['exit', 0n, 1n, 0n] : ['step-limit', expect.anything(), 0n, 0n];
      expect([order, stop.kind, directs, replacements, bodies]).toEqual([order, ...expected]);
      if (!helperFirst) expect(directs).toBeGreaterThan(10n);
    }
  });
});

describe('T-RV-4: probes of a function with a direct caller', () => {
  /** traced(1, …, 8) of samples/src/direct.c: the sum of n times n. */
  const RESULT = 204n;
  const STEPS = {
    direct: 'direct: { function: traced, caller: my_direct_caller }',
    graph: 'graph: { name: both, filter: traced }',
    in: 'probe: { define: "p:in traced a=$arg1:u32 h=$arg8:u32" }',
    out: 'probe: { define: "r:out traced r=$retval:u32" }',
  } as const;
  /** Behind the site: a breakpoint or a jump, not served by ftrace. */
  const middle = (optimize: boolean): string => `probe: { define: "p:middle traced+8", optimize: ${optimize} }`;

  interface Probed {
    readonly stop: StopReason;
    /** Kinds of records of the tracers, events of probes with what they fetched. */
    readonly events: readonly string[];
    readonly runs: Record<string, bigint>;
    readonly way: readonly string[];
    readonly traps: number;
  }

  /** Plans steps on the sample, and runs what comes of it. */
  function probed(flavour: Flavour, steps: readonly string[]): Probed {
    const { sites } = openBytes(readSample(sampleOf(flavour)));
    const image = readElf(withRuntime(sites, undefined, undefined, flavour, {}, probeRoomFor(3)).bytes);
    const text = `version: 1\nsteps:\n${steps.map((each) => `  - ${each}\n`).join('')}`;
    const { plan, probes } = planProbes(image, archOf(image.header), [{ name: 'steps', text }]);
    const bytes = image.bytes.slice();
    for (const { after, fileOffset } of plan.steps) bytes.set(after, fileOffset);
    const guest = start(bytes);
    const { machine } = guest.process;
    const way: string[] = [];
    for (const symbol of ['traced', 'ftrace_regs_caller', 'my_direct_caller']) {
      machine.hook(guest.address(symbol), () => {
        way.push(symbol);
        return way.length > 20 ? 'stop' : 'continue';
      });
    }
    const served = new ProbeRun({ session: probes!, program: openBytes(bytes).program, machine, comm: 'program' });
    const go = (): StopReason => guest.process.run({ budget: 1_000_000 });
    let stop = go();
    while ((stop.kind === 'trap' || stop.kind === 'fault') && served.serve(stop)) stop = go();
    const ring = readRing((at, size) => machine.memory.read(at, size), guest.word('elftrace_ring', 0, 8), 'little');
    const events = ring.records.map(({ kind, parent, words }) => {
      const found = kind === 'probe' ? served.recorded(Number(parent), words ?? [], 'program') : null;
      if (found === null) return kind;
      return [
        found.event.definition.event,
        ...found.values.map((each) => (each.kind === 'number' ? each.value : each.kind)),
      ].join(' ');
    });
    return { stop, events, way, traps: served.traps, runs: runsOf(guest) };
  }

  test('T-RV-4: in each order of direct caller, graph, kprobe and kretprobe: every one once, the direct caller between entry and body', () => {
    const orders = permutations(['direct', 'graph', 'in', 'out'] as const);
    expect(orders.length).toBe(24);
    for (const [index, order] of orders.entries()) {
      const jumps = index % 2 === 1;
      const steps = order.map((each) => STEPS[each]);
      const { stop, events, way, runs } = probed('g2', [...steps, middle(jumps)]);
      expect([order, stop]).toMatchObject([order, { kind: 'exit', code: 11 }]);
      expect(runs).toMatchObject({ bodies: 1n, directs: 1n, replacements: 0n, others: 3n });
      expect([order, way]).toEqual([order, ['traced', 'ftrace_regs_caller', 'my_direct_caller']]);
      expect([order, [...events].sort()]).toEqual([order, ['entry', 'in 1 8', 'middle', `out ${RESULT}`, 'return']]);
    }
  });

  test.each(['g2-merged', 'g3', 'g3c'] as const)(
    'T-RV-4 K-ADDR-7: %s passes no registers for probes of sites: EINVAL; behind the site breakpoints and jumps serve them',
    (flavour) => {
      expect(() => probed(flavour, [STEPS.direct, STEPS.in])).toThrow(/no-ftrace-support, EINVAL.*K-ADDR-7/);
      for (const jumps of [false, true]) {
        const { stop, events, runs } = probed(flavour, [STEPS.direct, STEPS.graph, middle(jumps)]);
        expect(stop).toMatchObject({ kind: 'exit', code: 11 });
        expect(runs).toMatchObject({ bodies: 1n, directs: 1n });
        expect([...events].sort()).toEqual(['entry', 'middle', 'return']);
      }
    },
  );
});

describe('where the function goes on', () => {
  const samples: Partial<Record<Flavour, readonly [string, string]>> = {
    g0: ['riscv64/program-mcount', 'leaf'],
    g1: ['riscv64/program-patchable-8', 'leaf'],
  };

  /** An image whose one callback is a stub that a hook on the machine plays. */
  function withStub(flavour: Flavour, regs: boolean): { session: Session; name: string; outcome: Outcome } {
    const [sample, name] = samples[flavour] ?? ['', 'traced'];
    let session: Session;
    if (sample === '') session = openDirect(flavour);
    else {
      const image = withRuntime(openBytes(readSample(sample)).sites, undefined, undefined, flavour);
      session = Session.open(image.bytes, archOf(readElf(image.bytes).header));
    }
    const ops = session.core.createOps({
      name: 'stub',
      func: session.functionAddress('ftrace_stub')!,
      flags: [...(regs ? (['SAVE_REGS'] as const) : []), 'IPMODIFY'],
    });
    done(session.core.setFilter(ops, 'filter', name));
    return { session, name, outcome: session.core.register(ops) };
  }

  // Merged entries, and the plain entry of G2 in a build with register support, hand out a frame
  // without being asked for registers.
  test.each([
    ['g0', true],
    ['g1', true],
    ['g2', true],
    ['g2', false],
    ['g2-merged', false],
    ['g3', false],
    ['g3c', false],
  ] as const)(
    'F-11, R-ENT-0, R-DIR-2: %s, registers asked for: %p: the address that a callback left',
    (flavour, regs) => {
      const { session, name, outcome } = withStub(flavour, regs);
      done(outcome);
      const guest = start(session.bytes());
      const { machine } = guest.process;
      // A place of its own: what matters is that the entry goes there, and with what.
      const place = guest.address('ftrace_stub');
      let calls = 0;
      let before = { ra: 0n, sp: 0n, site: 0n };
      const entry = machine.hook(guest.address(name), () => {
        before = { ra: machine.register('ra'), sp: machine.register('sp'), site: 0n };
        return 'continue';
      });
      const remove = machine.hook(place, () => {
        calls++;
        if (calls > 1) return 'stop';
        before.site = machine.register('a0');
        machine.writeWord(machine.register('a3'), 8, place);
        return 'continue';
      });
      expect(guest.process.run({ budget: 1_000_000 }).kind).toBe('hook');
      entry();
      remove();
      expect(calls).toBe(2);
      expect(machine.register('pc')).toBe(place);
      if (flavour === 'g1' || flavour === 'g0') {
        // The address is what `ret` went to; in G1 the return address waits in the word below the
        // stack pointer.
        expect(machine.register('ra')).toBe(place);
        if (flavour === 'g1') {
          expect(machine.register('sp')).toBe(before.sp);
          expect(machine.readWord(before.sp - 8n, 8)).toBe(before.ra);
        }
      } else {
        expect([
          machine.register('t0'),
          machine.register('t1'),
          machine.register('ra'),
          machine.register('sp'),
        ]).toEqual([place, flavour === 'g2' && !regs ? machine.register('t1') : 0n, before.ra, before.sp]);
      }
    },
  );

  test.each(['g0', 'g1', 'g2-plain'] as const)('F-11: %s: not without registers: EINVAL', (flavour) => {
    expect(withStub(flavour, false).outcome).toMatchObject({ kind: 'refused', errno: 'EINVAL' });
  });
});

test('R-MOD-4, C-UPD-1: a fixed auipc: what the entry calls is a word of data; a fence between it and the word of the ops; the entry keeps its code', () => {
  const session = openDirect('g3');
  const { image, program } = openBytes(session.bytes());
  const place = (symbol: string): number => image.fileOffsetOf(program.definedAt(program.symbols.find(symbol))!);
  const word = (symbol: string): bigint => {
    const bytes = session.bytes();
    return new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(place(symbol), true);
  };
  const [from, to] = [place('ftrace_caller'), place('ftrace_caller_end')];
  const code = Buffer.from(session.bytes().subarray(from, to)).toString('hex');
  const ops = session.core.createOps({ name: 'one', func: session.functionAddress('elftrace_function_tracer')! });
  done(session.core.setFilter(ops, 'filter', 'traced'));
  const order = (outcome: Outcome): string[] =>
    done(outcome).steps.flatMap((step) => {
      if (step.kind === 'callee' && step.entry === 'plain') return [step.after.kind];
      return step.kind === 'trace-op' || step.kind === 'sync' ? [step.kind] : [];
    });
  const on = order(session.core.register(ops));
  expect(word('ftrace_call_dest')).toBe(session.functionAddress('elftrace_function_tracer'));
  expect(word('function_trace_op')).toBe(session.backend.addressOf(ops));
  // The list stands first, so that nobody is called with the ops of somebody else; the ops word is
  // seen before its callee is.
  const [list, op, last] = [
    on.indexOf('list'),
    on.indexOf('trace-op'),
    on.findLastIndex((each) => !['list', 'trace-op', 'sync'].includes(each)),
  ];
  expect([list >= 0, list < op, op < last]).toEqual([true, true, true]);
  expect([on.slice(list, op).includes('sync'), on.slice(op, last).includes('sync')]).toEqual([true, true]);
  done(session.core.unregister(ops));
  expect(word('ftrace_call_dest')).toBe(session.functionAddress('ftrace_stub'));
  expect(Buffer.from(session.bytes().subarray(from, to)).toString('hex')).toBe(code);
});
