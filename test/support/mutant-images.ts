/**
 * Images for mutants (PV-5): patched samples that lay in each object of the runtime, and each
 * tracer that reaches its code.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { warmElftrace } from './cli.js';
import {
  type Edits,
  editedSample,
  ofProcessors,
  poppedPrologues,
  riscvPrologues,
  threadedSample,
} from './edited-sample.js';
import { builtSamples } from './pipeline.js';
import { signedSample, type SigningFunctions } from './signed-sample.js';

export interface MutantImage {
  /** `TARGET/CONVENTION[+probes] WHAT` */
  readonly name: string;
  readonly sample: string;
  /** Modules that `load` lays out beside it; the image is what comes out. */
  readonly modules?: readonly string[];
  /** Options of `load`, where it is laid out first. */
  readonly loading?: readonly string[];
  /** Functions of an arm64 sample that sign their return address in front of their site. */
  readonly signs?: SigningFunctions;
  /** Instructions of the sample that are others. */
  readonly edits?: Edits;
  /** The sample has data of threads, so that its thread pointer tells them apart. */
  readonly isThreaded?: boolean;
  /** In the image of `load`, the block of the processor tells threads apart: no option says so. */
  readonly isPerProcessor?: boolean;
  readonly options: readonly string[];
  /** Steps of a session, in YAML. */
  readonly session?: string;
}

/** A sample for each convention: how its objects come in. */
interface Row {
  readonly object: string;
  readonly sample: string;
  readonly options?: readonly string[];
}

const rows: readonly Row[] = [
  { object: 'x86-64/modern', sample: 'x86-64/program-fentry' },
  { object: 'x86-64/y2014', sample: 'x86-64/program-fentry', options: ['--x86-tramp', '2014'] },
  { object: 'x86-64/mcount', sample: 'x86-64/program-mcount' },
  { object: 'arm64/callops', sample: 'arm64/program-patchable-4-2', options: ['--partial'] },
  { object: 'arm64/args', sample: 'arm64/program-patchable-2', options: ['--a64-era', 'args'] },
  { object: 'arm64/regs', sample: 'arm64/program-patchable-2', options: ['--a64-era', 'regs'] },
  { object: 'arm64/pg', sample: 'arm64/program-mcount' },
  { object: 'riscv64/g2', sample: 'riscv64/program-patchable-8' },
  ...['g1', 'g2-plain', 'g2-merged', 'g3'].map((name) => ({
    object: `riscv64/${name}`,
    sample: 'riscv64/program-patchable-8',
    options: ['--riscv-site', name],
  })),
  { object: 'riscv64/g3c', sample: 'riscv64/program-patchable-8-4-aligned', options: ['--riscv-site', 'g3c'] },
  { object: 'riscv64/g0', sample: 'riscv64/program-mcount' },
  { object: 'ppc32/regs', sample: 'ppc32/program-patchable-2' },
  { object: 'ppc32/ool', sample: 'ppc32/program-patchable-1', options: ['--ppc-entries', 'ool'] },
  { object: 'ppc32/ool-ops', sample: 'ppc32/program-patchable-1', options: ['--ppc-entries', 'ool-ops'] },
  { object: 'ppc32/pg', sample: 'ppc32/program-mcount' },
  { object: 'ppc64-elfv1/regs', sample: 'ppc64-elfv1/program-mprofile' },
  { object: 'ppc64-elfv1/ool', sample: 'ppc64-elfv1/program-patchable-1', options: ['--ppc-entries', 'ool'] },
  { object: 'ppc64-elfv1/ool-ops', sample: 'ppc64-elfv1/program-patchable-1', options: ['--ppc-entries', 'ool-ops'] },
  { object: 'ppc64-elfv1/pg', sample: 'ppc64-elfv1/program-mcount' },
  { object: 'ppc64-elfv2-be/regs', sample: 'ppc64-elfv2-be/program-mprofile' },
  { object: 'ppc64-elfv2-be/pg', sample: 'ppc64-elfv2-be/program-mcount' },
  { object: 'ppc64-elfv2-le/regs', sample: 'ppc64-elfv2-le/program-mprofile' },
  {
    object: 'ppc64-elfv2-le/ool',
    sample: 'ppc64-elfv2-le/program-power10-patchable-1',
    options: ['--ppc-entries', 'ool'],
  },
  {
    object: 'ppc64-elfv2-le/ool-ops',
    sample: 'ppc64-elfv2-le/program-power10-patchable-1',
    options: ['--ppc-entries', 'ool-ops'],
  },
  { object: 'ppc64-elfv2-le/pg', sample: 'ppc64-elfv2-le/program-mcount' },
];

const session = (...steps: readonly string[]): string =>
  `version: 1\nsteps:\n${steps.map((each) => `  - ${each}\n`).join('')}`;

/** Ways in which sites are traced: options, or a session. */
const ways: Readonly<Record<string, { readonly options?: readonly string[]; readonly session?: string }>> = {
  function: { options: ['--enable', '--tracer', 'function'] },
  graph: { options: ['--enable', '--tracer', 'function_graph'] },
  counter: { options: ['--enable', '--tracer', 'counter'] },
  registers: { options: ['--enable', '--tracer', 'counter', '--save-regs'] },
  list: {
    session: session(
      'ops: { name: one, call: elftrace_counter, filter: "leaf sum" }',
      'ops: { name: two, call: elftrace_function_tracer, notrace: "many" }',
      'ops: { name: three, call: elftrace_counter, filter: "sum" }',
      'register: one',
      'register: two',
      'register: three',
    ),
  },
  // One callback under a guard, which the entry calls by way of the guard.
  assist: {
    session: session(
      'ops: { name: one, call: elftrace_function_tracer, recursion: true, regs: if-supported }',
      'register: one',
    ),
  },
  'assist-rcu': {
    session: session(
      'ops: { name: one, call: elftrace_function_tracer, recursion: true, rcu: true, regs: if-supported }',
      'register: one',
    ),
  },
  'graph-list': {
    session: session(
      'ops: { name: one, call: elftrace_counter, filter: "leaf sum" }',
      'register: one',
      'graph: { name: two, filter: "leaf sum" }',
    ),
  },
  // Callbacks that need RCU or registers, filters of many sites, one that nothing matches.
  'list-rcu': {
    session: session(
      'ops: { name: one, call: elftrace_counter, rcu: true, filter: "leaf sum many recurse" }',
      'ops: { name: two, call: elftrace_function_tracer, rcu: true, recursion: false, notrace: "many recurse" }',
      'ops: { name: three, call: elftrace_counter, regs: if-supported, filter: "sum recurse" }',
      'register: one',
      'register: two',
      'register: three',
    ),
  },
  'graph-two': {
    session: session(
      'graph: { name: one, filter: "leaf sum many recurse" }',
      'graph: { name: two, notrace: "leaf recurse" }',
      'ops: { name: three, call: elftrace_function_tracer, filter: "sum many" }',
      'register: three',
    ),
  },
  'graph-calls': {
    session: session(
      'graph: { name: one, entry: ftrace_stub, return: ftrace_stub, filter: "leaf sum many" }',
      'graph: { name: two, filter: "sum many" }',
    ),
  },
  // A nested function, whose site has the static chain around it.
  nested: { session: session('graph: { name: one, filter: "inner.0" }') },
  'nested-list': {
    session: session('ops: { name: one, call: elftrace_function_tracer, filter: "inner.0" }', 'register: one'),
  },
  'nested-livepatch': { options: ['--livepatch', 'inner.0=bump'] },
  direct: { options: ['--direct', 'leaf=DIRECT'] },
  directs: {
    options: ['leaf', 'sum', 'many', 'recurse'].flatMap((name) => ['--direct', `${name}=DIRECT`]),
  },
  'directs-list': {
    options: [
      ...['leaf', 'sum', 'many', 'recurse'].flatMap((name) => ['--direct', `${name}=DIRECT`]),
      ...['--enable', '--tracer', 'function'],
    ],
  },
  // The callbacks of the site want all registers: its direct caller is found behind them.
  'direct-registers': {
    options: ['--direct', 'leaf=DIRECT', '--enable', '--tracer', 'counter', '--save-regs'],
  },
  'direct-list': { options: ['--direct', 'leaf=DIRECT', '--enable', '--tracer', 'function'] },
  livepatch: { options: ['--livepatch', 'leaf=bump'] },
  'livepatch-list': { options: ['--livepatch', 'leaf=bump', '--enable', '--tracer', 'function'] },
};

/** Arguments of every kind: registers, words and elements of memory, text behind pointers. */
const FETCHED =
  'a=$arg1 b=%PC c=+8($stack):u32 d=+4(+16($arg1)):s16 i=\\9 e=+2($arg2):x8[3] f=+0($arg1):string g=+0($stack):string[2] h=\\7';

/**
 * Memory behind pointers that may not be mapped, more elements than a word of 32 bits has bits. A
 * pointer that was not read must not be followed to the next page, nor spoil what comes later.
 */
const FAULTS =
  'a=+4096(+0($arg1)):u32 b=\\9 c=+2($arg1):x8[40] d=+0($arg1):string[2] e=+4096(+0($arg2)):u16 f=\\7 g=+2($arg2):x16[3]';

/** Elements of the sizes that the others have not, and texts, few and many. */
const SIZES =
  'a=+0($arg1):x64[2] b=+1($arg1):u8 c=+0(+8($arg1)):x64 d=$arg1:u8 e=+0($arg2):string[1] f=+2($arg1):s64 g=+0($arg1):u32[5]';

/** Texts and elements behind pointers that could not be read themselves, and what comes later. */
const CHAINS =
  'a=+0(+4096($arg1)):string b=+8(+4096($arg2)):string[2] c=+2(+4096($arg1)):x8[3] d=+4(+0(+4096($arg2))):u32 e=\\5';

/** Registers and texts right behind what could not be read: they are known. A text comes first. */
const MIXED =
  'a=+0($arg2):string b=+4096(+0($arg1)):u32 c=$arg2 d=+4096(+4096($arg2)):x8[2] e=+0($arg1):string f=+0($stack):x64';

/** The same by way of words above the frame, as memory around the stack pointer is there. */
const MIXED_STACK = [64, 72, 80, 88]
  .map((at) => `a${at}=+${at}($stack):string b${at}=+4096(+${at}($stack)):u32 c${at}=$stack`)
  .join(' ');

/** The same for places that are no entries. */
const ELSEWHERE = FETCHED.replace('a=$arg1 ', '').replaceAll('$arg1', '$stack').replaceAll('$arg2', '$stack');

const onStack = (text: string): string => text.replaceAll('$arg1', '$stack').replaceAll('$arg2', '$stack');

/** Ways with probes, which bring the object with their code. */
const probeWays: typeof ways = {
  probe: { options: ['--probe', 'p:x leaf'] },
  'probe-list': { options: ['--probe', 'p:x leaf', '--enable', '--tracer', 'function'] },
  'probe-arguments': { options: ['--probe', `p:x leaf ${FETCHED}`] },
  'probe-faults': { options: ['--probe', `p:x leaf ${FAULTS}`] },
  'probe-sizes': { options: ['--probe', `p:x leaf ${SIZES}`] },
  'jump-sizes': {
    options: ['--probe', `p:x outer+JUMP ${onStack(SIZES)}`, '--optimize'],
  },
  'probe-chains': { options: ['--probe', `p:x leaf ${CHAINS}`] },
  'jump-chains': {
    options: ['--probe', `p:x outer+JUMP ${onStack(CHAINS)}`, '--optimize'],
  },
  'probe-mixed': { options: ['--probe', `p:x leaf ${MIXED}`] },
  'jump-mixed': {
    options: ['--probe', `p:x outer+JUMP ${MIXED_STACK}`, '--optimize'],
  },
  'probe-two': {
    session: session(
      `probe: { define: "p:one leaf ${FETCHED.replaceAll('\\', '\\\\')}" }`,
      'probe: { define: "p:two leaf a=$arg2" }',
      'probe: { define: "p:three sum" }',
      'ops: { name: one, call: elftrace_function_tracer, filter: "leaf sum" }',
      'register: one',
    ),
  },
  'jump-arguments': { options: ['--probe', `p:x outer+JUMP ${ELSEWHERE}`, '--optimize'] },
  // Two events of one jump, where callbacks of other sites are asked one by one.
  'jump-two': {
    session: session(
      'probe: { define: "p:one outer+JUMP a=%PC", optimize: true }',
      'probe: { define: "p:two outer+JUMP", optimize: true }',
      'ops: { name: one, call: elftrace_function_tracer, filter: "leaf sum" }',
      'register: one',
    ),
  },
  // The function has no site: its entry can have a jump with every convention.
  'jump-return': {
    session: session(
      'probe: { define: "r2:one sample_log a=$retval", optimize: true }',
      'probe: { define: "p:two sample_log a=%PC", optimize: true }',
      'probe: { define: "r:three sample_log", optimize: true }',
    ),
  },
  return: { options: ['--probe', 'r:x leaf'] },
  // Two events of returns, one of which may be under way twice, and one of the call.
  'return-two': {
    session: session(
      'probe: { define: "r2:one leaf a=$retval b=+0($stack):u32 c=%PC" }',
      'probe: { define: "p:two leaf a=$arg1" }',
      'probe: { define: "r:three leaf a=$retval" }',
      'ops: { name: one, call: elftrace_function_tracer, filter: "leaf sum" }',
      'register: one',
    ),
  },
  // Other sites, of an image with that object.
  'beside-list': {
    session: session(
      'probe: { define: "p:x many" }',
      'ops: { name: one, call: elftrace_counter, filter: "leaf sum" }',
      'ops: { name: two, call: elftrace_function_tracer, notrace: "many" }',
      'register: one',
      'register: two',
    ),
  },
  'beside-graph': {
    session: session('probe: { define: "p:x many" }', 'graph: { name: one, notrace: "many" }'),
  },
  // Which of both has the return first is told by their order.
  'return-then-graph': {
    session: session('probe: { define: "r:x leaf a=$retval" }', 'graph: { name: one, filter: "leaf sum" }'),
  },
  'graph-then-return': {
    session: session('graph: { name: one, filter: "leaf sum" }', 'probe: { define: "r:x leaf a=$retval" }'),
  },
  // Traced functions, and others that have a return probe and may call one by a tail call.
  'return-beside-graph': {
    options: ['--probe', 'r:x sample_log', '--optimize', '--enable', '--tracer', 'function_graph'],
  },
  'return-once': { options: ['--probe', 'r1:x leaf'] },
  'return-graph': { options: ['--probe', 'r:x leaf', '--enable', '--tracer', 'function_graph'] },
};

/** Ways that images of the object with the code of the probes have, too. */
const besideJumps = [
  'function',
  'graph',
  'list',
  'assist',
  'graph-two',
  'graph-calls',
  'directs-list',
  'livepatch',
  'nested',
];

/** The ways with a probe inside a function, which every entry can have beside it. */
const insideWays: typeof ways = Object.fromEntries(
  besideJumps.map((name) => {
    const { options, session: steps } = ways[name]!;
    const probe = 'probe: { define: "p:x outer+JUMP", optimize: true }';
    return [
      `inside-${name}`,
      steps === undefined
        ? { options: ['--probe', 'p:x outer+JUMP', '--optimize', ...options!] }
        : { session: steps.replace('steps:\n', `steps:\n  - ${probe}\n`) },
    ];
  }),
);

/** A function of the runtime that serves as a direct caller. */
const directOf = (object: string): string =>
  object.startsWith('riscv64/')
    ? 'ftrace_stub_direct_tramp'
    : object.startsWith('arm64/')
      ? 'elftrace_direct_stub'
      : 'ftrace_stub';

/** Entries that all sites share, where the object's callbacks have trampolines of their own. */
const sharedWays = (object: string, of: typeof ways, ...names: readonly string[]): typeof ways =>
  object === 'x86-64/mcount'
    ? Object.fromEntries(names.map((name) => [`${name}-shared`, { ...of[name], options: ['--x86-tramp', 'none'] }]))
    : {};

/** Sites behind the prologue that can have a probe of ftrace. */
const lateSites: Readonly<Record<string, string>> = { 'x86-64/mcount': 'sum+0x8', 'ppc64-elfv1/regs': 'sum+0x4' };

const lateProbes = (object: string): typeof ways =>
  object in lateSites
    ? { 'probe-late': { options: ['--probe', `p:x ${lateSites[object]!} a=%PC b=+0($stack):u32`] } }
    : {};

/** A place in `outer` that can have a jump: the others are behind a call of one size or another. */
const jumpOf = (object: string): string =>
  ({ 'x86-64/mcount': '0x11', 'riscv64/g0': '0x12' })[object] ?? (object.startsWith('x86') ? '0xd' : '0x10');

/**
 * Nested functions of x86-64 whose calls have other sizes, which callbacks see by what stands
 * around them: images of other samples.
 */
const nestedWays: typeof ways = {
  'graph-inner': ways['nested']!,
  'function-inner': {
    session: session('ops: { name: one, call: elftrace_function_tracer, filter: "inner.0" }', 'register: one'),
  },
  // The graph tracer of 2014 is a branch of the entry, which has the filter of the callbacks.
  'hook-inner': { options: ['--enable', '--tracer', 'function_graph'] },
};

/** The same with the code of the probes, which another function has, of its call or its return. */
const nestedProbeWays: typeof ways = Object.fromEntries(
  Object.entries(nestedWays).flatMap(([name, { options, session: steps }]) =>
    (['p', 'r'] as const).map((kind) => [
      kind === 'p' ? name : `return-${name}`,
      steps === undefined
        ? { options: ['--probe', `${kind}:x many`, ...options!] }
        : { session: steps.replace('steps:\n', `steps:\n  - probe: { define: "${kind}:x many" }\n`) },
    ]),
  ),
);

const otherSamples: readonly Row[] = [
  ...['x86-64/modern', 'x86-64/y2014'].flatMap((object) =>
    ['direct', 'indirect', 'large'].map((size) => ({
      object: `${object} ${size}`,
      sample: size === 'direct' ? 'x86-64/program-fentry' : `x86-64/program-fentry-${size}`,
      options: object.endsWith('2014') ? ['--x86-tramp', '2014'] : [],
    })),
  ),
  // Calls and prologues of other sizes, which entries behind prologues look at.
  ...['relaxed', 'rv64g'].map((form) => ({
    object: `riscv64/g0 ${form}`,
    sample: form === 'relaxed' ? 'riscv64/program-mcount-relaxed' : 'riscv64/program-rv64g-mcount',
  })),
];

/** What probes call the instruction pointer. */
const pcOf = (object: string): string =>
  object.startsWith('x86') ? '%ip' : object.startsWith('arm') ? '%pc' : object.startsWith('ppc') ? '%nip' : '%epc';

/** Images of an object in each of some ways. */
function imagesOf({ object, sample, options = [] }: Row, waysOf: typeof ways, name = object): MutantImage[] {
  const filled = (text: string): string =>
    text.replaceAll('DIRECT', directOf(object)).replaceAll('%PC', pcOf(object)).replaceAll('JUMP', jumpOf(object));
  return Object.entries(waysOf).map(([way, { options: more = [], session: steps }]) => ({
    name: `${name} ${way}`,
    sample,
    options: [...options, ...more].map(filled),
    ...(steps === undefined ? {} : { session: filled(steps) }),
  }));
}

/**
 * A module and its core, each with a table of contents of its own: what does not give the register
 * back that points to it shows.
 */
const loadedRows: readonly (Row & { readonly module: string; readonly loading?: readonly string[] })[] = [
  { object: 'ppc64-elfv1/regs', sample: 'ppc64-elfv1/core-mprofile.o', module: 'ppc64-elfv1/far-one-mprofile.ko' },
  { object: 'ppc64-elfv2-be/regs', sample: 'ppc64-elfv2-be/core.o', module: 'ppc64-elfv2-be/far-one.ko' },
  { object: 'ppc64-elfv2-le/regs', sample: 'ppc64-elfv2-le/core.o', module: 'ppc64-elfv2-le/far-one.ko' },
  ...['ool', 'ool-ops'].map((entries) => ({
    object: `ppc64-elfv1/${entries}`,
    sample: 'ppc64-elfv1/core-patchable-1.o',
    module: 'ppc64-elfv1/far-one-patchable-1.ko',
    loading: ['--ppc-entries', entries],
  })),
];
const loadedWays: typeof ways = {
  ...Object.fromEntries(
    ['function', 'graph', 'registers'].map((name) => [
      `loaded-${name}`,
      { options: [...ways[name]!.options!, '-l', 'far_*'] },
    ]),
  ),
  'loaded-list': {
    session: session(
      'ops: { name: one, call: elftrace_counter, filter: "far_*" }',
      'ops: { name: two, call: elftrace_function_tracer, filter: "far_*", regs: if-supported }',
      'graph: { name: three, filter: "far_*" }',
      'register: one',
      'register: two',
    ),
  },
};

/**
 * A core for the top 2 GiB, as kernels are: what does with 32 bits the same as with 64 at the
 * addresses of programs does something else there.
 */
const kernelRows: readonly (Row & { readonly loading: readonly string[] })[] = ['modern', '2014'].map((tramp) => ({
  object: `x86-64/${tramp === '2014' ? 'y2014' : tramp}`,
  sample: 'x86-64/core-kernel.o',
  loading: ['--base', 'kernel', '--x86-tramp', tramp],
}));
const someOf = (where: string, of: typeof ways, ...names: readonly string[]): typeof ways =>
  Object.fromEntries(names.map((name) => [`${where}-${name}`, of[name]!]));
const kernelWays = someOf(
  'kernel',
  ways,
  ...['function', 'graph', 'registers', 'list', 'assist', 'assist-rcu', 'graph-list', 'list-rcu', 'graph-two'],
  ...['graph-calls', 'nested', 'nested-list', 'direct', 'directs-list', 'livepatch-list'],
);
const kernelProbeWays = someOf(
  'kernel',
  probeWays,
  ...['probe-list', 'probe-arguments', 'probe-faults', 'probe-sizes', 'probe-two', 'jump-arguments', 'jump-return'],
  ...['return-two', 'return-graph', 'return-beside-graph', 'return-then-graph', 'graph-then-return', 'return-once'],
);

const threadWays = (name: string, object: string): typeof ways => {
  const shared = sharedWays(object, ways, 'assist', 'list');
  return {
    ...someOf(name, ways, 'function', 'graph', 'list', 'assist', 'graph-list'),
    ...someOf(name, shared, ...Object.keys(shared)),
  };
};
const threadProbeWays = (name: string, object: string): typeof ways => {
  const shared = sharedWays(object, insideWays, 'inside-assist', 'inside-list');
  return {
    ...someOf(name, probeWays, 'probe-list', 'return-beside-graph', 'jump-arguments'),
    ...someOf(name, insideWays, 'inside-graph', 'inside-assist'),
    ...someOf(name, shared, ...Object.keys(shared)),
  };
};

/** Programs with several threads, and images whose threads the register of kernels tells apart. */
const threadedImages: readonly MutantImage[] = rows
  .filter(({ object }) => object.startsWith('x86-64/'))
  .flatMap((row) => {
    const { object, options = [] } = row;
    const plain = { ...row, options: [] };
    const loading = (name: string): readonly string[] => (name.endsWith('-shared') ? ['--x86-tramp', 'none'] : options);
    return [
      ...[
        ...imagesOf(row, threadWays('threaded', object)),
        ...imagesOf(row, threadProbeWays('threaded', object), `${object}+probes`),
      ].map((each) => ({ ...each, isThreaded: true })),
      ...[
        ...imagesOf(plain, threadWays('processors', object)).map((each) => ({ ...each, loading: loading(each.name) })),
        ...imagesOf(plain, threadProbeWays('processors', object), `${object}+probes`).map((each) => ({
          ...each,
          loading: [...loading(each.name), '--probes', '8'],
        })),
      ].map((each) => ({ ...each, modules: [], isPerProcessor: true })),
    ];
  });

/**
 * Functions that sign their return address, which the graph tracer leaves alone, and others right
 * behind such functions that are off: what looks for signatures must find them there and stop in
 * front of the next function.
 */
const signedImages: readonly MutantImage[] = (
  [
    ['signed', 'leaf sum', { 'inner.0': ['paciasp', 'no site'], sum: ['paciasp', 'site'] }],
    ['signed-other', 'bump many', { forward: ['pacibsp', 'no site'], many: ['pacibsp', 'site'] }],
  ] as const
).flatMap(([name, filter, signs]) => {
  const steps = [
    `ops: { name: one, call: elftrace_function_tracer, filter: "${filter}" }`,
    'register: one',
    `graph: { name: two, filter: "${filter}" }`,
  ];
  const probe = `probe: { define: "p:x outer+${jumpOf('arm64/pg')}", optimize: true }`;
  return [
    { name: `arm64/pg ${name}`, session: session(...steps) },
    { name: `arm64/pg+probes ${name}`, session: session(probe, ...steps) },
  ].map((each) => ({ ...each, sample: 'arm64/program-mcount', options: [], signs }));
});

/** Prologues that no sample has. */
const editedImages: readonly MutantImage[] = riscvPrologues.flatMap(({ name, sample, edits }) => {
  const filter = Object.keys({ ...edits, leaf: [] }).join(' ');
  const steps = [
    `ops: { name: one, call: elftrace_function_tracer, filter: "${filter}" }`,
    'register: one',
    `graph: { name: two, filter: "${filter}" }`,
  ];
  const probe = 'probe: { define: "r:x sum" }';
  return [
    { name: `riscv64/g0 ${name}`, session: session(...steps) },
    { name: `riscv64/g0+probes ${name}`, session: session(probe, ...steps) },
  ].map((each) => ({ ...each, sample, options: [], edits }));
});

/** Functions that begin as nested ones do, and are none; one of them has a return probe, too. */
const poppedImages: readonly MutantImage[] = poppedPrologues.flatMap(({ name, edits }) =>
  ['', '+probes'].flatMap((probes) => {
    const some = { sample: 'x86-64/program-fentry', edits };
    const own = 'ops: { name: one, call: elftrace_function_tracer, filter: "leaf recurse" }';
    const steps = [...(probes === '' ? [] : ['probe: { define: "r:x leaf" }']), own, 'register: one'];
    const graph = 'graph: { name: two, filter: "leaf recurse" }';
    const old = ['--x86-tramp', '2014'];
    const only = probes === '' ? ['-l', 'leaf', '-l', 'recurse'] : ['--probe', 'r:x leaf'];
    const hook = [...old, '--enable', '--tracer', 'function_graph', ...only];
    return [
      { ...some, name: `x86-64/modern${probes} ${name}`, session: session(...steps, graph), options: [] },
      { ...some, name: `x86-64/y2014${probes} ${name}`, session: session(...steps), options: old },
      { ...some, name: `x86-64/y2014${probes} ${name}-graph`, options: hook },
    ];
  }),
);

export const mutantImages: readonly MutantImage[] = [
  ...rows.flatMap((row) => [
    ...imagesOf(row, { ...ways, ...sharedWays(row.object, ways, 'assist', 'list') }),
    ...imagesOf(
      row,
      {
        ...probeWays,
        ...insideWays,
        ...sharedWays(row.object, insideWays, 'inside-assist', 'inside-list'),
        ...lateProbes(row.object),
      },
      `${row.object}+probes`,
    ),
  ]),
  ...otherSamples.flatMap((row) => [
    ...imagesOf(row, nestedWays),
    ...imagesOf(row, nestedProbeWays, row.object.replace(' ', '+probes ')),
  ]),
  ...loadedRows.flatMap((row) =>
    imagesOf(row, loadedWays).map((each) => ({ ...each, modules: [row.module], loading: row.loading ?? [] })),
  ),
  ...kernelRows.flatMap((row) => [
    ...imagesOf(row, kernelWays).map((each) => ({ ...each, modules: [], loading: row.loading })),
    ...imagesOf(row, kernelProbeWays, `${row.object}+probes`).map((each) => ({
      ...each,
      modules: [],
      loading: [...row.loading, '--probes', '8'],
    })),
  ]),
  ...threadedImages,
  ...signedImages,
  ...editedImages,
  ...poppedImages,
];

export interface MutantPair {
  readonly original: Uint8Array;
  readonly patched: Uint8Array;
}

/**
 * The command that makes an image.
 * @param original  what is patched, where that is no sample
 */
export function argumentsOf(
  { sample, options, session: steps }: MutantImage,
  session: string,
  output: string,
  original = join(builtSamples, sample),
): string[] {
  return ['patch', original, ...options, ...(steps === undefined ? [] : ['--session', session]), '-o', output];
}

/** Patches the sample of an image; text: why it is refused. */
export function makeImage(image: MutantImage): MutantPair | string {
  const { sample, modules, loading = [] } = image;
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-mutants-'));
  const [output, session, loaded] = [join(folder, 'out'), join(folder, 'session'), join(folder, 'image')];
  const isOther = image.signs !== undefined || image.edits !== undefined || image.isThreaded === true;
  const isSample = modules === undefined && !isOther;
  const original = isSample ? join(builtSamples, sample) : loaded;
  try {
    if (!isSample && modules === undefined) writeFileSync(loaded, originalOf(image));
    if (image.session !== undefined) writeFileSync(session, image.session);
    const parts = [sample, ...(modules ?? [])].map((each) => join(builtSamples, each));
    const commands = [
      ...(modules === undefined ? [] : [['load', ...parts, ...loading, '-o', loaded]]),
      argumentsOf(image, session, output, original),
    ];
    for (const command of commands) {
      const { status, stderr } = warmElftrace(command);
      if (status !== 0) return stderr;
      const isLoaded = command[0] === 'load';
      if (isLoaded && image.isPerProcessor === true) writeFileSync(loaded, ofProcessors(readFileSync(loaded)));
    }
    const [before, after] = [original, output].map((path) => new Uint8Array(readFileSync(path)));
    return { original: before!, patched: after! };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The sample itself, where nothing is loaded beside it. */
export function originalOf({ sample, signs, edits, isThreaded }: MutantImage): Uint8Array {
  if (isThreaded === true) return threadedSample(sample);
  return edits === undefined ? signedSample(sample, signs ?? {}) : editedSample(sample, edits);
}
