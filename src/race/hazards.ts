/**
 * The hazards H1 to H14 as races: for each the forms of a sequence that go
 * wrong and those that do not, on the small programs of `programs.ts`. Every form is data for
 * `race`; what is found is in `test/race-hazards.test.ts`.
 *
 * The sequences of probes (H4, H11, H13) are those that an optimiser plans, written by hand.
 */
import type { Arch } from '../machine/arch.js';
import { arches } from '../arches.js';
import { ElftraceError } from '../errors.js';
import { type Lifter, Machine } from '../emulator/index.js';
import type { Address, RegisterName } from '../units.js';
import { type RaceOptions } from './search.js';
import { type Property, type RaceStep, type Scene, type Sequence, type Unit, wordBytes } from './model.js';
import { BASE, calls, type HazardProgram, literal, pair, probe, redZone, toc } from './programs.js';
import { splitStores, textSteps } from './sequence.js';
import { addThreads, STOP } from './threads.js';

export interface RaceCase {
  readonly scene: Scene;
  readonly sequence: Sequence;
  readonly options: RaceOptions;
  /** Names of places, for reports. */
  readonly labels: ReadonlyMap<Address, string>;
  readonly arch: Arch;
}

export interface HazardForm {
  /** `bytes`, `int3`, … */
  readonly name: string;
  readonly safe: boolean;
  readonly title: string;
  /** A fresh machine each time. Default: one thread. */
  build(threads?: number): RaceCase;
}

export interface Hazard {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly target: string;
  readonly forms: readonly HazardForm[];
}

interface Stage {
  readonly arch: Arch;
  readonly machine: Machine;
  at(label: string): Address;
  /** A word of the target. */
  word(value: bigint, size?: 4 | 8): Uint8Array;
}

interface Setup {
  readonly threads: number;
  readonly fetchLineBytes?: number;
  /** Registers of every thread besides what calls need. */
  readonly registers?: (stage: Stage) => Readonly<Record<RegisterName, bigint>>;
  /** Bytes that stand there before anything happens. */
  readonly start?: (stage: Stage) => readonly { readonly address: Address; readonly bytes: Uint8Array }[];
  /** Registers that a call must leave as the program without a tracer does. */
  readonly expect: readonly RegisterName[];
  readonly marks: readonly string[];
  readonly units?: (stage: Stage) => readonly Unit[];
  readonly windows?: readonly { readonly address: Address; readonly bytes: Uint8Array }[];
}

function archFor(target: string): Arch & { readonly lifter: Lifter } {
  const arch = arches.find((each) => each.target.id === target);
  if (arch?.emulation.kind !== 'ir') throw new ElftraceError('internal', `${target} is not executed`);
  return { ...arch, lifter: arch.emulation.lifter };
}

const bytesOf = (text: string): Uint8Array =>
  Uint8Array.from({ length: text.length / 2 }, (_, i) => parseInt(text.slice(2 * i, 2 * i + 2), 16));

/** Machine and threads: thread i stands at `f` with a stack of its own. */
function stageOf(program: HazardProgram, setup: Setup): { readonly stage: Stage; readonly scene: Scene } {
  const { lifter, ...arch } = archFor(program.target);
  const machine = new Machine({
    lifter,
    blockInstructions: 1,
    ...(setup.fetchLineBytes === undefined ? {} : { fetch: 'buffered' as const, fetchLineBytes: setup.fetchLineBytes }),
  });
  machine.map({ address: BASE, size: 0x1000, permission: 'rx', name: 'text' });
  machine.map({ address: BASE + 0x1000n, size: 0x1000, permission: 'rw', name: 'data' });
  for (const [offset, text] of Object.entries(program.code)) machine.memory.write(BASE + BigInt(offset), bytesOf(text));
  for (const { address, bytes } of setup.windows ?? [])
    machine.load(address, bytes, { permission: 'rw', size: 0x1000 });
  const { abi } = arch;
  const stage: Stage = {
    arch,
    machine,
    at: (label) => {
      const offset = program.labels[label];
      if (offset === undefined) throw new ElftraceError('internal', `the program has no ${label}`);
      return BASE + BigInt(offset);
    },
    word: (value, size = arch.target.wordBytes) => wordBytes(value, size, lifter.endian),
  };
  const given = Object.entries(setup.registers?.(stage) ?? {});
  addThreads(machine, abi, setup.threads, stage.at('f'), () => {
    for (const [name, value] of given) machine.setRegister(name, value);
  });
  // What the program does while it is not traced is what it must do.
  const start = machine.snapshot();
  const threads = Array.from({ length: setup.threads }, (_, cpu) => {
    machine.restore(start);
    machine.switchTo(cpu);
    for (let i = 0; i < 1000 && machine.register('pc') !== STOP; i++) machine.step();
    return { name: `thread ${cpu}`, expect: new Map(setup.expect.map((name) => [name, machine.register(name)])) };
  });
  machine.restore(start);
  for (const { address, bytes } of setup.start?.(stage) ?? []) machine.memory.write(address, bytes);
  const scene: Scene = {
    machine,
    threads,
    stop: STOP,
    stackPointer: abi.stackPointer,
    livePatching: arch.livePatching,
    code: [{ start: BASE, end: BASE + 0x1000n, name: 'program' }],
    marks: new Map(setup.marks.map((label) => [stage.at(label), label])),
    units: setup.units?.(stage) ?? [],
  };
  return { stage, scene };
}

type Planned = { readonly steps: readonly RaceStep[] } | Omit<Sequence, 'name'>;

/** A form: set-up, sequence, properties. */
function form(
  program: HazardProgram,
  name: string,
  safe: boolean,
  title: string,
  setup: Omit<Setup, 'threads'>,
  plan: (stage: Stage) => Planned,
  options: (stage: Stage) => RaceOptions = () => ({}),
): HazardForm {
  return {
    name,
    safe,
    title,
    build: (threads = 1) => {
      const { stage, scene } = stageOf(program, { ...setup, threads });
      const planned = plan(stage);
      const sequence: Sequence =
        'steps' in planned ? { name, patchers: [{ name: 'patcher', steps: planned.steps }] } : { name, ...planned };
      const labels = new Map(Object.entries(program.labels).map(([label, offset]) => [BASE + BigInt(offset), label]));
      return { scene, sequence, options: options(stage), labels, arch: stage.arch };
    },
  };
}

const store = (address: Address, bytes: Uint8Array, label?: string): RaceStep =>
  label === undefined ? { kind: 'store', address, bytes } : { kind: 'store', address, bytes, label };
const syncAll: RaceStep = { kind: 'synchronise', thread: 'all' };
const outside: RaceStep = { kind: 'wait', until: 'outside' };
const free = (what: string, from: Address, to: Address, fill: number): RaceStep => ({
  kind: 'free', what, address: from, size: Number(to - from), fill: Uint8Array.of(fill),
}); // prettier-ignore

// ------------------------------------------------------------------------------------------ x86-64

const X86_EXPECT = ['rsp', 'rax', 'rbx', 'rbp', 'r12', 'rdi'];
const NOP5 = bytesOf('0f1f440000');

const callTo = ({ arch, at }: Stage, to: string, from = at('f')): Uint8Array => arch.branches.call.encode(from, at(to));
const poke = ({ arch }: Stage, address: Address, after: Uint8Array): RaceStep[] =>
  textSteps(arch.livePatching, [{ address, after }]);

/** A site of five bytes and what may stand there as a whole. */
const siteUnit = (stage: Stage, ...targets: readonly string[]): readonly Unit[] => [
  {
    address: stage.at('f'),
    forms: [
      { name: 'nop', bytes: NOP5, starts: [0] },
      { name: 'breakpoint', bytes: Uint8Array.of(0xcc), starts: [0] },
      ...targets.map((to) => ({ name: `call ${to}`, bytes: callTo(stage, to), starts: [0] })),
    ],
  },
];

const marked = { expect: X86_EXPECT, marks: ['cb_a', 'cb_b'] } as const;

/** A callback was called with ops that are not its own: each leaves in a register what it got. */
const ownOps = ({ at }: Stage): Property => ({
  name: 'wrong-ops',
  title: 'a callback gets its own ops',
  atReturn: ({ register }) => {
    for (const [name, ops] of [['r8', 'ops_a'], ['r9', 'ops_b']] as const) {
      if (register(name) !== 0n && register(name) !== at(ops)) return `the callback of ${ops} got other ops`;
    }
    return null;
  },
}); // prettier-ignore

const h1: Hazard = {
  id: 'H1',
  name: 'x86-write',
  title: 'x86-64: the five bytes of a site are written while threads run',
  target: 'x86-64',
  forms: [
    form(
      calls, 'bytes', false, 'byte by byte, no breakpoint',
      { ...marked, units: (stage) => siteUnit(stage, 'entry') },
      (stage) => ({ steps: splitStores(stage.at('f'), callTo(stage, 'entry'), 1) }),
    ),
    form(
      calls, 'int3', true, 'breakpoint, tail, first byte, and all CPUs fetch anew after each',
      { ...marked, units: (stage) => siteUnit(stage, 'entry') },
      (stage) => ({ steps: poke(stage, stage.at('f'), callTo(stage, 'entry')) }),
    ),
  ],
}; // prettier-ignore

const traced = (to: string) => (stage: Stage) => [{ address: stage.at('f'), bytes: callTo(stage, to) }];
const untrace = (stage: Stage): RaceStep[] => poke(stage, stage.at('f'), NOP5);

const h5Setup = { ...marked, start: traced('tramp'), units: (stage: Stage) => siteUnit(stage, 'tramp') };
const freeTrampoline = ({ at }: Stage): RaceStep => free('the trampoline', at('tramp'), at('tramp_end'), 0xcc);
const h5: Hazard = {
  id: 'H5',
  name: 'trampoline-free',
  title: 'x86-64: a private trampoline is freed behind the last call of it',
  target: 'x86-64',
  forms: [
    form(calls, 'no-wait', false, 'freed as soon as the site is a nop', h5Setup, (stage) => ({
      steps: [...untrace(stage), freeTrampoline(stage)],
    })),
    form(calls, 'wait', true, 'freed when every thread was outside', h5Setup, (stage) => ({
      steps: [...untrace(stage), outside, freeTrampoline(stage)],
    })),
  ],
};

const h6Setup = { ...marked, start: traced('entry') };
const opsWord = (stage: Stage, ops: string): RaceStep =>
  store(stage.at('ops_word'), stage.word(stage.at(ops)), `third argument: ${ops}`);
const callee = (stage: Stage, to: string): RaceStep[] =>
  poke(stage, stage.at('inner'), callTo(stage, to, stage.at('inner')));
const withOwnOps = (stage: Stage): RaceOptions => ({ properties: [ownOps(stage)] });
const h6: Hazard = {
  id: 'H6',
  name: 'ops-word',
  title: 'x86-64: the shared entry gets another callee and other ops',
  target: 'x86-64',
  forms: [
    form(
      calls, 'callee-first', false, 'the callee before the word that it gets as its ops', h6Setup,
      (stage) => ({ steps: [...callee(stage, 'cb_b'), opsWord(stage, 'ops_b')] }), withOwnOps,
    ),
    form(
      calls, 'interrupt-only', false,
      'list function, word, new callee; the word is made visible by an interrupt, and a thread is preempted between word and call', h6Setup,
      (stage) => ({ steps: [...callee(stage, 'cb_list'), opsWord(stage, 'ops_b'), syncAll, ...callee(stage, 'cb_b')] }),
      withOwnOps,
    ),
    form(
      calls, 'list-between', true, 'list function, word, a wait until every thread was outside, new callee', h6Setup,
      (stage) => ({ steps: [...callee(stage, 'cb_list'), opsWord(stage, 'ops_b'), outside, ...callee(stage, 'cb_b')] }),
      withOwnOps,
    ),
  ],
}; // prettier-ignore

const h8Setup = { ...marked, start: traced('graph'), units: (stage: Stage) => siteUnit(stage, 'graph') };
const freeHandler = ({ at }: Stage): RaceStep => free('the return handler', at('handler'), at('handler_end'), 0xcc);
const h8: Hazard = {
  id: 'H8',
  name: 'graph-teardown',
  title: 'x86-64: the graph tracer goes while functions that return to its handler are on the stack',
  target: 'x86-64',
  forms: [
    form(calls, 'handler-freed', false, 'the handler is freed with the tracer', h8Setup, (stage) => ({
      steps: [...untrace(stage), freeHandler(stage)],
    })),
    form(
      calls,
      'handler-stays',
      true,
      'the handler is static: it serves those who still return to it',
      h8Setup,
      (stage) => ({
        steps: untrace(stage),
      }),
    ),
  ],
};

/** Every call is seen by the old direct caller or by the new one. */
const seenOnce: Property = {
  name: 'missed-call',
  title: 'every call has its direct caller',
  atReturn: ({ marks }) => (marks.length === 1 ? null : `${marks.length} direct callers were called`),
};
const h9Setup = {
  expect: X86_EXPECT,
  marks: ['old', 'new'],
  start: traced('old'),
  units: (stage: Stage) => siteUnit(stage, 'old', 'via', 'new'),
};
const h9: Hazard = {
  id: 'H9',
  name: 'direct-gap',
  title: 'x86-64: a direct caller is exchanged for another one',
  target: 'x86-64',
  forms: [
    form(
      calls, 'nop-between', false, 'nop, then the new call', h9Setup,
      (stage) => ({ steps: [...untrace(stage), ...poke(stage, stage.at('f'), callTo(stage, 'new'))] }),
      () => ({ properties: [seenOnce] }),
    ),
    form(
      calls, 'by-entry', true, 'through the entry that reads the table, while the table changes', h9Setup,
      (stage) => ({
        steps: [
          ...poke(stage, stage.at('f'), callTo(stage, 'via')),
          store(stage.at('table'), stage.word(stage.at('new')), 'table: new'),
          ...poke(stage, stage.at('f'), callTo(stage, 'new')),
        ],
      }),
      () => ({ properties: [seenOnce] }),
    ),
  ],
}; // prettier-ignore

const h10Setup = { ...marked, fetchLineBytes: 64, units: (stage: Stage) => siteUnit(stage, 'entry') };
const h10: Hazard = {
  id: 'H10',
  name: 'missing-sync',
  title: 'x86-64: CPUs keep what they have fetched',
  target: 'x86-64',
  forms: [
    form(
      calls, 'no-sync', false, 'the breakpoint protocol without making other CPUs fetch anew', h10Setup,
      (stage) => ({
        steps: poke(stage, stage.at('f'), callTo(stage, 'entry')).filter(({ kind }) => kind !== 'synchronise'),
      }),
      () => ({ prefetch: true }),
    ),
    form(
      calls, 'sync', true, 'the breakpoint protocol', h10Setup,
      (stage) => ({ steps: poke(stage, stage.at('f'), callTo(stage, 'entry')) }),
      () => ({ prefetch: true }),
    ),
  ],
}; // prettier-ignore

const h12Setup = { ...marked, start: traced('chase'), units: (stage: Stage) => siteUnit(stage, 'chase') };
const freeOps = ({ at }: Stage): RaceStep => free('the ops', at('ops_a'), at('ops_b'), 0xde);
const h12: Hazard = {
  id: 'H12',
  name: 'ops-free',
  title: 'x86-64: ops are freed that a thread has loaded and not yet called through',
  target: 'x86-64',
  forms: [
    form(calls, 'serialised', false, 'freed when every CPU was interrupted', h12Setup, (stage) => ({
      steps: [opsWord(stage, 'ops_nop'), syncAll, freeOps(stage)],
    })),
    form(calls, 'wait', true, 'freed when every thread was outside', h12Setup, (stage) => ({
      steps: [opsWord(stage, 'ops_nop'), outside, freeOps(stage)],
    })),
  ],
};

// ------------------------------------------------------------------------------------------ probes

/** The bytes of the probed range: as compiled, with a breakpoint, as a jump into the slot. */
function probed({ arch, at }: Stage) {
  const original = bytesOf('534889fb90');
  const armed = Uint8Array.of(0xcc, ...original.slice(1));
  const jump = arch.branches.jump.encode(at('p'), at('slot'));
  // A breakpoint hit runs the copied instruction and goes on behind the original one; with a jump
  // planned it goes to the slot.
  const byCopy = { address: at('p'), after: arch.branches.jump.encode(at('p'), at('copy')) };
  const bySlot = { address: at('p'), after: jump };
  return { original, armed, jump, byCopy, bySlot };
}

const probeUnit = (stage: Stage): readonly Unit[] => {
  const { original, armed, jump } = probed(stage);
  return [
    {
      address: stage.at('p'),
      forms: [
        { name: 'original', bytes: original, starts: [0, 1, 4] },
        { name: 'breakpoint', bytes: armed, starts: [0, 1, 4] },
        // What lies behind the breakpoint is of the jump already; no thread executes it.
        { name: 'breakpoint before jump', bytes: Uint8Array.of(0xcc), starts: [0] },
        { name: 'jump', bytes: jump, starts: [0] },
      ],
    },
  ];
};
const probeSetup = (state: 'armed' | 'jump') => ({
  expect: X86_EXPECT,
  marks: ['callback'],
  start: (stage: Stage) => [{ address: stage.at('p'), bytes: probed(stage)[state] }],
  units: probeUnit,
});

/** the first byte is a breakpoint already. */
function optimise(stage: Stage): RaceStep[] {
  const { jump, bySlot } = probed(stage);
  const p = stage.at('p');
  return [
    { kind: 'publish', entries: [bySlot], label: 'breakpoint hits go to the slot' },
    store(p + 1n, jump.slice(1), 'all bytes but the first'),
    syncAll,
    store(p, jump.slice(0, 1), 'first byte'),
    syncAll,
  ];
}

/**
 * X-7; who hits the breakpoint meanwhile goes on in the slot, because the bytes behind it are
 * still the jump's.
 */
function unoptimise(stage: Stage): RaceStep[] {
  const { original, byCopy, bySlot } = probed(stage);
  const p = stage.at('p');
  return [
    { kind: 'publish', entries: [bySlot], label: 'breakpoint hits go to the slot' },
    store(p, Uint8Array.of(0xcc), 'breakpoint'),
    syncAll,
    store(p + 1n, original.slice(1), 'the original tail'),
    syncAll,
    { kind: 'publish', entries: [byCopy], label: 'breakpoint hits go to the copy' },
  ];
}

const withBreakpoint = (stage: Stage, steps: readonly RaceStep[]): Planned => ({
  patchers: [{ name: 'optimizer', steps }],
  published: [probed(stage).byCopy],
});

const h4: Hazard = {
  id: 'H4',
  name: 'probe-jump',
  title: 'x86-64: a jump over three instructions, at the second of which a thread may stand',
  target: 'x86-64',
  forms: [
    form(probe, 'no-wait', false, 'written at once', probeSetup('armed'), (stage) => withBreakpoint(stage, optimise(stage))),
    form(probe, 'wait', true, 'written when every thread was outside', probeSetup('armed'), (stage) =>
      // The hits go to the slot before the wait begins: a thread that enters later never stands in
      // the middle.
      withBreakpoint(stage, [optimise(stage)[0]!, outside, ...optimise(stage).slice(1)]),
    ),
    form(
      probe, 'wait-for-nothing', false, 'a wait after which new threads may be between the instructions again', probeSetup('armed'),
      (stage) => withBreakpoint(stage, [outside, ...optimise(stage)]),
    ),
  ],
}; // prettier-ignore

const freeSlot = ({ at }: Stage): RaceStep => free('the detour slot', at('slot'), at('slot_end'), 0xcc);
const h11: Hazard = {
  id: 'H11',
  name: 'probe-slot',
  title: 'x86-64: the slot of an optimised probe is used again',
  target: 'x86-64',
  forms: [
    form(probe, 'no-wait', false, 'as soon as the jump is a breakpoint', probeSetup('jump'), (stage) =>
      withBreakpoint(stage, [...unoptimise(stage), freeSlot(stage)]),
    ),
    form(probe, 'wait', true, 'when every thread was outside', probeSetup('jump'), (stage) =>
      withBreakpoint(stage, [...unoptimise(stage), outside, freeSlot(stage)]),
    ),
  ],
};

/**
 * Optimizer against undo, as in 2009: the machine is stopped for stores of several bytes, and no
 * thread is preempted (T-10).
 */
function optimizerAgainstUndo(stage: Stage, locked: boolean): Planned {
  const { original, armed, jump, byCopy } = probed(stage);
  const p = stage.at('p');
  const guard = (steps: readonly RaceStep[]): RaceStep[] =>
    locked ? [{ kind: 'lock', lock: 'queue' }, ...steps, { kind: 'unlock', lock: 'queue' }] : [...steps];
  const queued = { variable: 'queued', equals: 1n };
  return {
    variables: { queued: 1n, seen: 0n },
    published: [byCopy],
    patchers: [
      {
        name: 'optimizer',
        steps: guard([
          { ...store(p, jump, 'jump, with the machine stopped'), when: queued, stopped: true },
          { kind: 'set', variable: 'queued', to: 0n, label: 'dequeued' },
        ]),
      },
      {
        name: 'undo',
        steps: [
          ...guard([
            { kind: 'set', variable: 'seen', to: { variable: 'queued' }, label: 'is it queued?' },
            { kind: 'set', variable: 'queued', to: 0n, label: 'then dequeue', when: { variable: 'seen', equals: 1n } },
            { ...store(p, armed, 'else jump to breakpoint'), when: { variable: 'seen', equals: 0n }, stopped: true },
          ]),
          store(p, original.slice(0, 1), 'disarm: the original first byte'),
        ],
      },
    ],
  };
}
const restored = (stage: Stage): Property => ({
  name: 'corrupted-text',
  title: 'in the end the original instructions are there',
  atEnd: ({ machine }) => {
    const { original } = probed(stage);
    const bytes = machine.memory.read(stage.at('p'), original.length)!;
    return bytes.every((byte, i) => byte === original[i]) ? null : 'the disarmed probe is not what was there before';
  },
});
const h13: Hazard = {
  id: 'H13',
  name: 'probe-undo',
  title: 'x86-64: a probe is removed while the optimizer works on it',
  target: 'x86-64',
  forms: [
    form(
      probe, 'no-lock', false, "undo looks at the queue without the optimizer's lock", probeSetup('armed'),
      (stage) => optimizerAgainstUndo(stage, false), (stage) => ({ properties: [restored(stage)] }),
    ),
    form(
      probe, 'lock', true, 'both hold the lock', { ...probeSetup('armed') },
      (stage) => optimizerAgainstUndo(stage, true), (stage) => ({ properties: [restored(stage)] }),
    ),
  ],
}; // prettier-ignore

/** What stands at a probe of user space, and the branch that takes its place. */
const userProbe = (stage: Stage, kind: 'call' | 'jump', to: string): Uint8Array =>
  stage.arch.branches[kind].encode(stage.at('p'), stage.at(to));
const userSetup = (kind: 'call' | 'jump', to: string) => ({
  expect: X86_EXPECT,
  marks: ['handler'],
  units: (stage: Stage): readonly Unit[] => [
    {
      address: stage.at('p'),
      forms: [
        { name: 'nop', bytes: NOP5, starts: [0] },
        { name: 'breakpoint', bytes: Uint8Array.of(0xcc), starts: [0] },
        { name: `${kind} ${to}`, bytes: userProbe(stage, kind, to), starts: [0] },
      ],
    },
  ],
});
const optimiseUser = (kind: 'call' | 'jump', to: string) => (stage: Stage) => ({
  steps: poke(stage, stage.at('p'), userProbe(stage, kind, to)),
});
const h14: Hazard = {
  id: 'H14',
  name: 'probe-red-zone',
  title: 'x86-64: a probe of user space is optimised in a leaf that keeps data below its stack pointer',
  target: 'x86-64',
  forms: [
    form(
      redZone, 'call', false, 'a call, whose return address is pushed over the data',
      userSetup('call', 'handler'), optimiseUser('call', 'handler'),
    ),
    form(
      redZone, 'jump', true, 'a jump to a stub that first steps over the data',
      userSetup('jump', 'stub'), optimiseUser('jump', 'stub'),
    ),
  ],
}; // prettier-ignore

// ---------------------------------------------------------------------------------- pairs, the TOC

const T0 = 5;
/** auipc and jalr that reach a distance, both with t0. */
function pairFor(distance: bigint): readonly [bigint, bigint] {
  const low = BigInt.asIntN(12, distance);
  const high = BigInt.asUintN(32, distance - low);
  return [high | BigInt(T0 << 7) | 0x17n, (BigInt.asUintN(12, low) << 20n) | BigInt((T0 << 15) | (T0 << 7)) | 0x67n];
}
const RISCV_NOP = 0x13n;
const pairSetup = (first: 'nop' | 'auipc') => ({
  expect: ['sp', 'ra', 'a0', 's0', 'gp', 'tp'],
  marks: ['tracer'],
  // Dead at the entry of a function: whatever an earlier one left there.
  registers: () => ({ t0: 0xbad_0000n }),
  start: (stage: Stage) =>
    first === 'nop'
      ? []
      : [{ address: stage.at('f'), bytes: stage.word(pairFor(stage.at('tracer') - stage.at('f'))[0], 4) }],
});
const pairWordsOf = ({ at, word }: Stage): readonly [Uint8Array, Uint8Array] => {
  const [auipc, jalr] = pairFor(at('tracer') - at('f'));
  return [word(auipc, 4), word(jalr, 4)];
};
const h2: Hazard = {
  id: 'H2',
  name: 'riscv-pair',
  title: 'RISC-V: two nops become auipc and jalr',
  target: 'riscv64',
  forms: [
    form(pair, 'pair', false, 'one word after the other', pairSetup('nop'), (stage) => {
      const [auipc, jalr] = pairWordsOf(stage);
      return { steps: [store(stage.at('f'), auipc, 'auipc'), store(stage.at('f') + 4n, jalr, 'jalr')] };
    }),
    form(
      pair,
      'stopped',
      false,
      'both at once, with the machine stopped; a thread may be stopped between them',
      pairSetup('nop'),
      (stage) => {
        const [auipc, jalr] = pairWordsOf(stage);
        return { steps: [store(stage.at('f'), Uint8Array.of(...auipc, ...jalr), 'both words')] };
      },
    ),
    form(
      pair,
      'stopped-outside',
      true,
      'both at once, with the machine stopped, where nobody is preempted inside a function',
      pairSetup('nop'),
      (stage) => {
        const [auipc, jalr] = pairWordsOf(stage);
        const both = store(stage.at('f'), Uint8Array.of(...auipc, ...jalr), 'both words');
        return { steps: [{ ...both, stopped: true }] };
      },
    ),
    form(
      pair,
      'fixed-auipc',
      true,
      'the auipc is always there, the second word toggles',
      pairSetup('auipc'),
      (stage) => {
        const [, jalr] = pairWordsOf(stage);
        const second = stage.at('f') + 4n;
        return { steps: [store(second, jalr, 'jalr'), store(second, stage.word(RISCV_NOP, 4), 'nop')] };
      },
    ),
  ],
};

const PPC_NOP = 0x6000_0000n;
const B_OVER = 0x4800_0008n;
const LD_R2 = 0xe841_0028n;
const blTo = ({ at }: Stage): bigint => 0x4800_0001n | ((at('stub') - at('site')) & 0x03ff_fffcn);
const tocSetup = {
  expect: ['r1', 'r2', 'r5', 'r14', 'r31'],
  marks: ['tracer'],
  registers: ({ at }: Stage) => ({ r2: at('module_toc') }),
  start: (stage: Stage) => [
    { address: stage.at('site'), bytes: Uint8Array.of(...stage.word(blTo(stage), 4), ...stage.word(LD_R2, 4)) },
  ],
};
const h3: Hazard = {
  id: 'H3',
  name: 'ppc64-toc',
  title: 'PowerPC 64: a call through a stub is turned off, and the word that restores r2',
  target: 'ppc64-elfv1',
  forms: [
    form(toc, '2008', false, 'two nops, word by word', tocSetup, (stage) => ({
      steps: [
        store(stage.at('site'), stage.word(PPC_NOP, 4), 'bl to nop'),
        store(stage.at('site') + 4n, stage.word(PPC_NOP, 4), 'ld r2 to nop'),
      ],
    })),
    form(toc, '2008-stopped', false, 'two nops at once, with the machine stopped', tocSetup, (stage) => ({
      steps: [
        store(stage.at('site'), Uint8Array.of(...stage.word(PPC_NOP, 4), ...stage.word(PPC_NOP, 4)), 'both words'),
      ],
    })),
    form(toc, 'b8', true, 'b +8 over the restore, which stays', tocSetup, (stage) => ({
      steps: [store(stage.at('site'), stage.word(B_OVER, 4), 'bl to b +8')],
    })),
  ],
};

const ARM_NOP = 0xd503_201fn;
const HIGH = 0x7777_0000_0000n;
const armBl = ({ at }: Stage): bigint => 0x9400_0000n | ((at('entry') - at('site')) >> 2n);
const literalSetup = {
  expect: ['sp', 'x0', 'x19', 'x29'],
  marks: ['cb_a', 'cb_nop'],
};
const tracedLiteral = (ops: (stage: Stage) => bigint) => (stage: Stage) => [
  { address: stage.at('literal'), bytes: stage.word(ops(stage)) },
  { address: stage.at('site'), bytes: stage.word(armBl(stage), 4) },
];
const setLiteral = (stage: Stage, ops: string): RaceStep =>
  store(stage.at('literal'), stage.word(stage.at(ops)), `word: ${ops}`);
const setCall = (stage: Stage): RaceStep => store(stage.at('site'), stage.word(armBl(stage), 4), 'bl entry');
const h7: Hazard = {
  id: 'H7',
  name: 'arm64-literal',
  title: 'arm64: the word that names the ops, and the call that makes the entry read it',
  target: 'arm64',
  forms: [
    form(literal, 'call-first', false, 'the call before the word: the entry reads what the compiler left there', literalSetup, (stage) => ({
      steps: [setCall(stage), setLiteral(stage, 'ops_a')],
    })),
    form(literal, 'halves', false, 'the word in two stores', {
      ...literalSetup,
      // The same ops far away, so that both halves differ.
      windows: [{ address: HIGH + BASE + 0x1000n, bytes: bytesOf('8000010000000000') }],
      start: tracedLiteral(({ at }) => HIGH + at('ops_a')),
    }, (stage) => ({ steps: splitStores(stage.at('literal'), stage.word(stage.at('ops_nop')), 4, 'half of the word') })),
    form(literal, 'word-first', true, 'word, then call', literalSetup, (stage) => ({
      steps: [setLiteral(stage, 'ops_a'), setCall(stage)],
    })),
    form(literal, 'off', true, 'off: ops that do nothing, then nop', { ...literalSetup, start: tracedLiteral(({ at }) => at('ops_a')) }, (stage) => ({
      steps: [setLiteral(stage, 'ops_nop'), store(stage.at('site'), stage.word(ARM_NOP, 4), 'nop')],
    })),
  ],
}; // prettier-ignore

/** All hazards, in the order of their ids. */
export const hazards: readonly Hazard[] = [h1, h2, h3, h4, h5, h6, h7, h8, h9, h10, h11, h12, h13, h14];
