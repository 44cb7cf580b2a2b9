/**
 * `npm run demo`: the main job on the bundled samples, for a person to look at. Every figure is
 * computed here and now; a step that does not hold ends the demo with an error.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LivePatch } from '../src/machine/live-patching.js';
import { archOf } from '../src/arches.js';
import { guestRing } from '../src/running/guest-trace.js';
import { equalBytes } from '../src/bytes.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import { hex, hexBytes } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { liveText } from '../src/tracing/live.js';
import { planSites } from '../src/patch/plan-sites.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { Session } from '../src/tracing/session.js';
import { verify } from '../src/sites/verdicts.js';
import { planDirect } from '../src/tracing/direct.js';
import { withRuntime } from '../src/tracing/inject.js';
import { planTracing } from '../src/tracing/tracing.js';
import { loadDisassembler } from '../src/isa/disassembler.js';
import { loadImages } from '../src/program/loader.js';
import { load } from '../src/program/program.js';
import { runtimeObject } from '../src/runtime/index.js';
import { watchRepeats } from '../src/trace/repeats.js';
import {
  graphWriter,
  replayRing,
  ringClock,
  ringIsNested,
  ringLosses,
  ringNotices,
  tracedFunctions,
} from '../src/trace/index.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const built = join(root, 'samples', 'built');
const colour = process.stdout.isTTY && process.env['NO_COLOR'] === undefined;
const bold = (text: string): string => (colour ? `\u001b[1m${text}\u001b[0m` : text);
const dim = (text: string): string => (colour ? `\u001b[2m${text}\u001b[0m` : text);
const green = (text: string): string => (colour ? `\u001b[32m${text}\u001b[0m` : text);

function open(bytes: Uint8Array): { image: ElfImage; sites: Sites } {
  const image = readElf(bytes);
  return { image, sites: findSites(load(image, archOf(image.header))) };
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`the demo failed: ${what}`);
}

/** Sample with calls to nop, one per target. */
const shown: readonly [folder: string, file: string][] = [
  ['x86-64', 'module-fentry.ko'],
  ['ppc32', 'module-mcount.ko'],
  ['ppc64-elfv1', 'module-mcount.ko'],
  ['ppc64-elfv2-be', 'module-mprofile.ko'],
  ['ppc64-elfv2-le', 'module-mprofile.ko'],
  ['riscv64', 'module-mcount.ko'],
  ['arm64', 'module-mcount.ko'],
];

console.log(bold('1. Sites and verdicts of every sample'));
let files = 0;
let total = 0;
for (const folder of readdirSync(built, { withFileTypes: true })) {
  if (!folder.isDirectory()) continue;
  const counts = new Map<string, number>();
  let mine = 0;
  for (const name of readdirSync(join(built, folder.name)).sort()) {
    const bytes = new Uint8Array(readFileSync(join(built, folder.name, name)));
    if (bytes[0] !== 0x7f) continue;
    const result = verify(open(bytes).sites);
    mine++;
    total += result.sites;
    for (const [verdict, count] of Object.entries(result.verdicts))
      counts.set(verdict, (counts.get(verdict) ?? 0) + count);
  }
  files += mine;
  console.log(
    `   ${folder.name.padEnd(15)} ${String(mine).padStart(2)} files: ${[...counts].map(([verdict, count]) => `${count} ${verdict}`).join(', ')}`,
  );
}
console.log(`   ${files} files, ${total} sites\n`);
check(total > 500, 'samples are missing');

console.log(bold('2. One site per target: the call, and the nop that takes its place'));
for (const [folder, file] of shown) {
  const { image, sites } = open(new Uint8Array(readFileSync(join(built, folder, file))));
  const { arch } = sites.program;
  const disassembler = await loadDisassembler(arch.isa.text);
  const plan = planSites(sites, { to: { kind: 'nop' } });
  check(plan.refusals.length === 0 && plan.changed > 0, `${folder}/${file} has calls`);
  const applied = applyPlan(image, plan);
  check(equalBytes(revert(readElf(applied.bytes)), image.bytes), 'revert gives the original');
  const first = plan.steps.find((step) => step.kind === 'store')!;
  const text = (code: Uint8Array): string =>
    disassembler
      .disassemble(code, first.address, arch.isa)
      .map((line) => line.text)
      .join('; ');
  const range = sites.codeRange(first.site)!;
  const name = sites.program.symbolName(sites.functionSymbol(first.site));
  console.log(`   ${folder}: ${file}: ${name}, ${range.name}+${hex(first.address)}`);
  console.log(`     before  ${hexBytes(first.before).padEnd(24)} ${text(first.before)}`);
  console.log(`     after   ${hexBytes(first.after).padEnd(24)} ${text(first.after)}`);
  for (const step of plan.steps) {
    if (step.kind !== 'reloc' || step.site !== first.site) continue;
    const row = arch.relocations.get(step.type);
    const becomes = arch.relocations.get(step.becomes);
    console.log(dim(`     relocation ${row?.name ?? step.type} ${step.symbol} -> ${becomes?.name ?? step.becomes}`));
  }
  console.log(dim(`     ${plan.changed} calls changed; reverted: identical, ${image.bytes.length} bytes`));
}

function execute(image: ElfImage): { lines: string[]; code: number; instructions: number; milliseconds: number } {
  const arch = archOf(image.header);
  check(arch.emulation.kind === 'ir', 'the target can be executed');
  if (arch.emulation.kind !== 'ir') throw new Error('unreachable');
  let output = '';
  const begin = process.hrtime.bigint();
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    args: ['program'],
    onOutput: (_descriptor, bytes) => {
      output += new TextDecoder().decode(bytes);
    },
  });
  const stop = guest.run({ budget: 100_000_000 });
  const milliseconds = Number(process.hrtime.bigint() - begin) / 1e6;
  if (stop.kind !== 'exit') throw new Error(`the demo failed: the program stopped: ${stop.kind}`);
  return {
    lines: output.trimEnd().split('\n'),
    code: stop.code,
    instructions: guest.machine.instructions,
    milliseconds,
  };
}

console.log(`\n${bold('3. Proof by execution: the programs run in the emulator, with and without their calls')}`);
for (const [folder, file] of [
  ['ppc64-elfv2-le', 'program-mprofile'],
  ['ppc64-elfv2-be', 'program-mprofile'],
  ['ppc64-elfv1', 'program-mcount'],
  ['ppc32', 'program-mcount'],
  ['riscv64', 'program-mcount'],
  ['arm64', 'program-mcount'],
] as const) {
  const original = open(new Uint8Array(readFileSync(join(built, folder, file))));
  const plan = planSites(original.sites, { to: { kind: 'nop' } });
  const patched = readElf(applyPlan(original.image, plan).bytes);
  const before = execute(original.image);
  const after = execute(patched);
  const differences = before.lines.filter((line, i) => line !== after.lines[i]);
  console.log(`   ${folder}: ${file}: ${plan.changed} of ${plan.selected} calls of _mcount turned into nops`);
  console.log(
    `     before  ${before.instructions} instructions, exit ${before.code}, ${before.milliseconds.toFixed(1)} ms`,
  );
  console.log(
    `     after   ${after.instructions} instructions, exit ${after.code}, ${after.milliseconds.toFixed(1)} ms`,
  );
  for (const line of before.lines.slice(0, 3)) console.log(dim(`       ${line}`));
  console.log(dim(`       … ${before.lines.length} lines`));
  for (const line of differences) {
    console.log(`     differs: before ${line}, after ${after.lines[before.lines.indexOf(line)] ?? ''}`);
  }
  check(differences.length === 1 && differences[0] === 'trace=49', 'only the count of traced calls differs');
  check(after.lines.includes('trace=0'), 'nothing is traced any more');
  check(before.code === 0 && after.code === 0, 'exit status 0');
}
console.log(green('   every other line is equal: the patched programs do what the originals did, and trace nothing'));

console.log(`\n${bold('4. A core and two far modules: loaded, verified, off, traced by their own runtime, run')}`);
const farSamples = [
  ['ppc32', 'pg'],
  ['ppc64-elfv1', 'pg'],
  ['ppc64-elfv2-be', 'regs'],
  ['ppc64-elfv2-le', 'regs'],
  ['riscv64', 'g2'],
  ['arm64', 'callops'],
] as const;

/** Entries and returns in their order, by name: what must be the same on every target. */
function orderOf(trace: string): string {
  return trace
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.slice(line.indexOf('|') + 1))
    .join('\n');
}

/** Runs an image and writes the events that it recorded itself as a function graph. */
function runGraph(bytes: Uint8Array): { output: string; graph: string; events: number } {
  const image = readElf(bytes);
  const arch = archOf(image.header);
  if (arch.emulation.kind !== 'ir') throw new Error('the demo failed: the target cannot be executed');
  const program = load(image, arch);
  let output = '';
  let graph = '';
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    args: ['image'],
    onOutput: (_descriptor, data) => {
      output += new TextDecoder().decode(data);
    },
  });
  const stop = guest.run({ budget: 100_000_000 });
  check(stop.kind === 'exit', 'the traced program ends by itself');
  const ring = guestRing(program, arch, guest);
  if (!ring) throw new Error('the demo failed: the image has no ring');
  const writer = graphWriter((text) => (graph += text), {
    source: 'guest',
    image: 'image',
    clock: ringClock(ring, 'emulator'),
    nested: ringIsNested(ring),
    losses: ringLosses(ring),
    process: 1000,
    nameOf: () => '',
  });
  const { events } = replayRing(ring, tracedFunctions(program), [writer]);
  check(ringNotices(ring, { events, orphans: 0, open: 0 }).length === 0, 'every event is there');
  return { output, graph, events };
}

let order: string | null = null;
for (const [folder, flavour] of farSamples) {
  const source = (name: string, file: string) => ({
    name,
    image: readElf(new Uint8Array(readFileSync(join(built, folder, file)))),
  });
  const core = source('core', 'core.o');
  const arch = archOf(core.image.header);
  const { bytes, map } = loadImages(
    {
      core,
      modules: [source('far_one', 'far-one.ko'), source('far_two', 'far-two.ko')],
      base: 'user',
      runtime: { name: 'runtime', image: readElf(runtimeObject(arch.target.id, flavour)!) },
      options: {},
    },
    arch,
  );
  const judged = (each: Uint8Array): string => {
    const { sites, verdicts } = verify(open(each).sites);
    check(verdicts.ok === sites, `${folder}: every site is fine`);
    return `${sites} sites fine`;
  };
  const plan = (each: Uint8Array, tracer: 'function_graph' | null) => {
    const { image, sites } = open(each);
    const made = planTracing(sites, { tracer: tracer === null ? null : { kind: tracer }, others: 'nop' });
    check(made.refusals.length === 0, `${folder}: no site is refused`);
    return { changed: made.changed, bytes: applyPlan(image, made).bytes };
  };
  const before = judged(bytes);
  const off = plan(bytes, null);
  const offRun = runGraph(off.bytes);
  const on = plan(off.bytes, 'function_graph');
  const { output, graph, events } = runGraph(on.bytes);
  const places = map.parts.map((part) => `${part.name} ${hex(part.ranges[0]!.start)}`).join(', ');
  console.log(`   ${folder}: ${places}`);
  const silent = open(off.bytes).sites;
  const nops = Array.from({ length: silent.count }, (_, i) => silent.reading(i)).filter(
    (reading) => reading !== null && reading.target === null && reading.state !== 'call',
  ).length;
  console.log(`     loaded: ${before}; off: ${nops} nops, ${judged(off.bytes)}, ${offRun.events} events`);
  console.log(`     on:  ${on.changed} calls of the graph tracer, ${judged(on.bytes)}, ${events} events; output equal`);
  check(output === offRun.output && output.includes('checksum'), `${folder}: tracing changes no output`);
  check(offRun.events === 0 && events > 100, `${folder}: what is off records nothing, what is on everything`);
  // Addresses and durations differ between machines; what is called by whom, and in what order,
  // does not.
  const mine = orderOf(graph);
  check(order === null || mine === order, `${folder}: the trace is that of the other targets`);
  if (order === null) {
    const lines = graph.trimEnd().split('\n');
    for (const line of lines.slice(0, 40)) console.log(dim(`       ${line}`));
    console.log(dim(`       … ${lines.length} lines`));
  }
  order = mine;
}
console.log(green('   the six traces are one: the same functions in the same order, each with its return'));

console.log(
  `\n${bold('5. RISC-V: a direct caller and a tracer on one function, through t1, through t0, and through the slot of t0')}`,
);

interface DirectRun {
  readonly result: string;
  readonly direct: number;
  readonly body: number;
  readonly repeats: number;
  /**
   * The way of the one call, as it was seen: a line for each place, what was there to see behind
   * it.
   */
  readonly way: readonly (readonly [place: string, seen: string])[];
}

/** The sample with a direct caller beside a tracer, as it would be written. */
function withDirect(variant: string | null): ReturnType<typeof readElf> {
  const original = open(new Uint8Array(readFileSync(join(built, 'riscv64', 'direct'))));
  const { image, sites } = open(withRuntime(original.sites, undefined, undefined, 'g2').bytes);
  const callers = variant === null ? [] : [{ function: 'traced', caller: 'my_direct_caller' }];
  const plan = planDirect(sites, { callers, tracer: { symbol: 'callback', filter: 'traced' }, variant });
  const patched = readElf(applyPlan(image, plan, { injected: true }).bytes);
  check(equalBytes(revert(patched), original.image.bytes), 'revert gives the original');
  return patched;
}

/**
 * Runs the sample with a direct caller beside a tracer; stops when the direct caller is entered a
 * third time with equal registers.
 */
function runDirect(variant: string | null): DirectRun {
  const patched = withDirect(variant);
  const { arch, symbols } = load(patched, archOf(patched.header));
  if (arch.emulation.kind !== 'ir') throw new Error('the demo failed: the target cannot be executed');
  const guest = startProcess({ image: patched, abi: arch.abi, emulation: arch.emulation, onOutput: () => undefined });
  const { machine } = guest;
  const address = (name: string): bigint => symbols.value[symbols.find(name)]!;
  const body = address('traced') + 8n;
  const name = (value: bigint): string =>
    value === body ? 'body' : value === address('my_direct_caller') ? 'direct caller' : hex(value);
  const way: [string, string][] = [];
  const visit = (at: bigint, place: string, seen: () => string): void => {
    machine.hook(at, () => {
      if (way.length < 9) way.push([place, seen()]);
      return 'continue';
    });
  };
  let frame = 0n;
  const slots = [
    ['t1', 48n],
    ['the resume address', 0n],
    ['t0', 40n],
  ] as const;
  visit(address('traced'), 'traced', () => 'auipc t0; jalr t0');
  visit(address('ftrace_regs_caller'), '└─ ftrace_regs_caller', () => `t0 = ${name(machine.register('t0'))}`);
  visit(address('ftrace_caller'), '└─ ftrace_caller', () => `t0 = ${name(machine.register('t0'))}`);
  visit(address('ftrace_caller_end'), '   └─ exit', () => `jr t0 = ${name(machine.register('t0'))}`);
  visit(address('ftrace_direct_func'), '   ├─ helper', () => ((frame = machine.register('a3')), ''));
  visit(address('callback'), '   ├─ tracer', () => '');
  visit(address('ftrace_regs_caller_end'), '   └─ exit', () => {
    // What the helper wrote; the frame is given up, its words are still there.
    const written = slots.find(
      ([, at]) => frame !== 0n && machine.readWord(frame + at, 8) === address('my_direct_caller'),
    );
    const helper = way.find(([place]) => place.includes('helper'));
    if (helper && written) helper[1] = `word of ${written[0]} := direct caller`;
    const [t0, t1] = [machine.register('t0'), machine.register('t1')];
    if (variant === 't1' || variant === null)
      return t1 === 0n ? `t1 = 0: jr t0 = ${name(t0)}` : `t1 ≠ 0: jr t1 = ${name(t1)}`;
    return `jr t0 = ${name(t0)}`;
  });
  visit(
    address('my_direct_caller'),
    '      └─ direct caller',
    () => `t0 = ${name(machine.register('t0'))}, and back by jr t0`,
  );
  visit(body, '', () => '');
  const watch = watchRepeats(machine, address('my_direct_caller'), ['pc', 't0', 'sp'], 3);
  const stop = guest.run({ budget: 10_000_000 });
  const last = way.at(-1);
  if (last?.[0] === '')
    last[0] = way.at(-2)?.[0].includes('direct caller') === true ? '         └─ body' : '      └─ body';
  const count = (symbol: string): number => Number(machine.readWord(address(symbol), 4));
  const result = stop.kind === 'exit' ? `exit ${stop.code}` : 'endless: the third time with the same pc, t0 and sp';
  check((stop.kind === 'hook') === (watch.repeated !== null), 'what does not end comes back to one state');
  return { result, direct: count('directs'), body: count('bodies'), repeats: watch.repeated?.times ?? 0, way };
}

for (const [name, variant, expected] of [
  ['t1', 't1', [1, 1]],
  ['t0', 't0', [2, 0]],
  ['slot of t0', 't0slot', [0, 1]],
  ['no direct caller', null, [0, 1]],
] as const) {
  const { result, direct, body, repeats, way } = runDirect(variant);
  console.log(`   ${name.padEnd(17)} direct caller ${direct}, body ${body}: ${result}`);
  for (const [place, seen] of way) console.log(dim(`     ${place.padEnd(26)} ${seen}`.trimEnd()));
  check(direct === expected[0] && body === expected[1], `${name} does what the rules say`);
  check(repeats === (variant === 't0' ? 3 : 0), `${name}: only the way through t0 is a loop`);
}
console.log(green('   10 for the body and 1 for the direct caller: 11 through t1, endless through t0, 10 and 10'));

console.log(
  `\n${bold('6. arm64: the ops in front of each function: one entry, no list; and what must not be freed too early')}`,
);
for (const line of [
  'word in front of f: address of an ops {func, flags, direct_call, …}      one aligned store changes the tracer of f',
  'f:   mov x9, x30',
  '     bl ftrace_caller ──> x11 := word at (x30 & ~7) - 16; save x0-x8; call x11->func(ip, parent, x11, regs)',
])
  console.log(dim(`     ${line}`));

/**
 * The sample core with a far module, its entries of an era, and a counter on each of two functions.
 */
function twoTracers(flavour: 'callops' | 'args') {
  const source = (name: string, file: string) => ({
    name,
    image: readElf(new Uint8Array(readFileSync(join(built, 'arm64', file)))),
  });
  const core = source('core', 'core.o');
  const arch = archOf(core.image.header);
  const modules = [source('far_one', 'far-one.ko'), source('far_two', 'far-two.ko')];
  const runtime = { name: 'runtime', image: readElf(runtimeObject('arm64', flavour)!) };
  const { bytes } = loadImages({ core, modules, base: 'user', runtime, options: {} }, arch);
  const session = Session.open(bytes, arch);
  const tracers = (['core_leaf', 'far_one_sum'] as const).map((name) => {
    const ops = session.core.createOps({ name, func: session.functionAddress('elftrace_counter')! });
    const outcomes = [session.core.setFilter(ops, 'filter', name), session.core.register(ops)];
    check(
      outcomes.every(({ kind }) => kind === 'done'),
      `a tracer on ${name}`,
    );
    return ops;
  });
  const image = readElf(session.bytes());
  const start = () => {
    if (arch.emulation.kind !== 'ir') throw new Error('the demo failed: the target cannot be executed');
    return startProcess({ image, abi: arch.abi, emulation: arch.emulation, onOutput: () => undefined }).machine;
  };
  const program = load(image, arch);
  const address = (name: string): bigint => program.symbols.value[program.symbols.find(name)]!;
  return { arch, session, tracers, image, start, address, sites: findSites(program), before: open(bytes) };
}

const perSite = twoTracers('callops');
const armText = await loadDisassembler(perSite.arch.isa.text);
for (const name of ['core_leaf', 'far_one_sum']) {
  for (const [label, sites] of [
    ['loaded', perSite.before.sites],
    ['traced', perSite.sites],
  ] as const) {
    const site = Array.from({ length: sites.count }, (_, i) => i).find(
      (i) => sites.program.symbolName(sites.functionSymbol(i)) === name,
    )!;
    const view = sites.viewOf(site);
    const { ipDelta } = sites.reading(site)!;
    const code = view.bytes(ipDelta - 4, 8);
    const lines = armText.disassemble(code, sites.ip(site) - 4n, perSite.arch.isa).map(({ text }) => text);
    const word = sites.reading(site)?.literal;
    const ops = perSite.tracers.find((each) => perSite.session.backend.addressOf(each) === word);
    const names =
      word === null || word === undefined ? 'nop; nop' : `${hex(word)}, ops of the tracer of ${ops?.name ?? '?'}`;
    console.log(`   ${name.padEnd(12)} ${label}  ${lines.join('; ').padEnd(38)} word in front: ${names}`);
    check((label === 'traced') === (ops?.name === name), 'the word names the tracer of the function');
  }
}

/** Instructions of a run, calls that each tracer counted, walks of the list. */
function countWalks({ start, address, session, tracers }: ReturnType<typeof twoTracers>) {
  const machine = start();
  let walks = 0;
  machine.hook(address('ftrace_ops_list_func'), () => {
    walks++;
    return 'continue';
  });
  check(machine.run({ budget: 10_000_000 }).kind === 'exit', 'the traced program ends by itself');
  const counts = tracers.map((each) => Number(machine.readWord(session.backend.addressOf(each) + 24n, 8)));
  return { counts, walks, instructions: machine.instructions };
}
const own = countWalks(perSite);
const listed = countWalks(twoTracers('args'));
for (const [name, { counts, walks, instructions }] of [
  ['6.2: shared entry', listed],
  ['6.3: per-callsite ops', own],
] as const)
  console.log(
    `   ${name.padEnd(22)} ${counts.join(' + ')} calls counted, ${walks} walks of the list, ${instructions} instructions`,
  );
check(
  own.walks === 0 && listed.walks === listed.counts[0]! + listed.counts[1]!,
  'only the shared entry walks the list',
);
check(own.counts.join() === listed.counts.join() && own.counts.every((each) => each > 0), 'both count the same');

/**
 * The tracer of core_leaf goes away while a thread stands `steps` instructions behind the call; how
 * the thread ends.
 */
function removeWhileInside(steps: number, wait: boolean): 'fine' | 'wild' {
  const { start, address, sites, session, tracers } = perSite;
  const machine = start();
  const site = Array.from({ length: sites.count }, (_, i) => i).find(
    (i) => sites.program.symbolName(sites.functionSymbol(i)) === 'core_leaf',
  )!;
  const ip = sites.ip(site);
  const unhook = machine.hook(ip, () => 'stop');
  check(machine.run({ budget: 10_000_000 }).kind === 'hook', 'the thread comes to the site');
  unhook();
  machine.run({ budget: steps });
  const ops = session.backend.addressOf(tracers[0]!);
  machine.writeWord(ip - 12n, 8, address('ftrace_nop_ops'));
  machine.writeWord(ip, 4, 0xd503_201fn);
  // Until the thread has passed a point where it is in no tracer.
  if (wait) machine.run({ budget: 400 });
  machine.writeWord(ops, 8, 0xdead_beef_dead_beefn);
  return machine.run({ budget: 10_000_000 }).kind === 'exit' ? 'fine' : 'wild';
}
const places = Array.from({ length: 60 }, (_, i) => i);
const early = places.filter((steps) => removeWhileInside(steps, false) === 'wild');
const late = places.filter((steps) => removeWhileInside(steps, true) === 'wild');
console.log(
  `   freed at once: wild from ${early.length} of ${places.length} places behind the call (${early[0]!} to ${early.at(-1)!}); after all threads were elsewhere: ${late.length}`,
);
check(early.length > 5 && late.length === 0, 'ops may be freed only when nobody holds their address');
console.log(green('   switched off is not unused: the word was read before it changed (H12)'));

console.log(
  `\n${bold('7. x86-64: a private trampoline for each tracer, as in 2014 and as today; its call changed while the program runs')}`,
);
for (const line of [
  'f:   call T ──> T: the shared entry once more; mov ops(T),%rdx; call the tracer; 2014: jmp ftrace_return, today: ret',
  'without: f: call ftrace_caller ──> two tracers anywhere in the program: ftrace_ops_list_func, which asks both of them',
])
  console.log(dim(`     ${line}`));

/**
 * The sample core and a module, laid out for a way of making trampolines, and a counter on the
 * functions of each.
 */
function trampolines(way: 'none' | '2014' | 'modern') {
  const source = (name: string, file: string) => ({
    name,
    image: readElf(new Uint8Array(readFileSync(join(built, 'x86-64', file)))),
  });
  const core = source('core', 'core.o');
  const arch = archOf(core.image.header);
  const flavour = way === '2014' ? 'y2014' : 'modern';
  const { bytes } = loadImages(
    {
      core,
      modules: [source('far_one', 'far-one.ko'), source('far_two', 'far-two.ko')],
      base: 'user',
      moduleBase: 0x2000_0000n,
      runtime: { name: 'runtime', image: readElf(runtimeObject('x86-64', flavour)!) },
      options: { machine: { 'x86-tramp': way } },
    },
    arch,
  );
  if (arch.emulation.kind !== 'ir') throw new Error('the demo failed: the target cannot be executed');
  const { emulation } = arch;
  const start = (image: ElfImage) =>
    startProcess({ image, abi: arch.abi, emulation, onOutput: () => undefined }).machine;
  return { arch, bytes, start, program: load(readElf(bytes), arch) };
}

const x86Text = await loadDisassembler(trampolines('none').arch.isa.text);
const walksOf = new Map<string, number>();
for (const way of ['none', '2014', 'modern'] as const) {
  const { arch, bytes, start, program } = trampolines(way);
  const session = Session.open(bytes, arch);
  const counter = session.functionAddress('elftrace_counter')!;
  const tracers = ['core_*', 'far_one_*'].map((filter) => {
    const ops = session.core.createOps({ name: filter, func: counter });
    for (const outcome of [session.core.setFilter(ops, 'filter', filter), session.core.register(ops)])
      check(outcome.kind === 'done', `a tracer on ${filter}`);
    return ops;
  });
  const image = readElf(session.bytes());
  const machine = start(image);
  let walks = 0;
  machine.hook(program.definedAt(program.symbols.find('ftrace_ops_list_func'))!, () => {
    walks++;
    return 'continue';
  });
  check(machine.run({ budget: 10_000_000 }).kind === 'exit', 'the traced program ends by itself');
  const counts = tracers.map((ops) => Number(machine.readWord(session.backend.addressOf(ops) + 24n, 8)));
  walksOf.set(way, walks);
  console.log(
    `   ${(way === 'none' ? 'shared entry' : way).padEnd(13)} ${counts.join(' + ')} calls counted, ${walks} walks of the list, ${machine.instructions} instructions`,
  );
  check(counts.every((each) => each > 0) && (way === 'none') === walks > 0, 'only the shared entry walks the list');
  const { trampoline } = tracers[0]!;
  if (trampoline?.kind !== 'private') continue;
  const { address, sizeBytes } = trampoline.block;
  const code = image.bytes.slice(image.fileOffsetOf(address), image.fileOffsetOf(address) + sizeBytes - 8);
  const lines = x86Text.disassemble(code, address, arch.isa);
  const shown = lines.filter(({ text }) => /^(call|jmp|ret)|\[rip/.test(text));
  console.log(
    dim(`                 ${sizeBytes} bytes at ${hex(address)}: … ${shown.map(({ text }) => text).join('; … ')}`),
  );
  check(shown.length === 3, 'load, call and end of the trampoline');
}
check(walksOf.get('none')! > 50, 'the list is what trampolines avoid');

// One tracer, whose function is changed again and again between a few instructions of the program.
const running = trampolines('2014');
const live = running.start(readElf(running.bytes));
const model = running.arch.livePatching;
if (model.kind !== 'breakpoint') throw new Error('the demo failed: code is not changed by breakpoints');
const sectionsOfCode = readElf(running.bytes).sections.filter(({ flags }) => (flags & 4n) !== 0n);
let traps = 0;
let ended = -1;
/** Lets the program run; breakpoints of the protocol are served as a kernel's handler would. */
function go(budget: number, published: readonly LivePatch[]): void {
  const end = live.instructions + budget;
  while (ended < 0 && live.instructions < end) {
    const stop = live.run({ budget: end - live.instructions });
    if (stop.kind === 'exit') ended = stop.code;
    if (stop.kind === 'exit' || stop.kind === 'step-limit') continue;
    check(stop.kind === 'trap' && stop.trap === 'breakpoint' && model.kind === 'breakpoint', 'nothing but breakpoints');
    if (stop.kind !== 'trap' || model.kind !== 'breakpoint') return;
    traps++;
    const handled = model.handle(published, stop.instruction, {
      flags: Number(live.register('rflags') & 0xffffn),
      setIp: (at) => {
        live.setRegister('pc', at);
      },
      push: (value) => {
        live.setRegister('rsp', live.register('rsp') - 8n);
        live.writeWord(live.register('rsp'), 8, value);
      },
      pop: () => {
        const value = live.readWord(live.register('rsp'), 8)!;
        live.setRegister('rsp', live.register('rsp') + 8n);
        return value;
      },
    });
    check(handled, 'every breakpoint is one of the protocol');
  }
}
const changing = Session.open(running.bytes, running.arch, {
  text: liveText(live, {
    breakpoints: {
      model,
      isCode: (at) => sectionsOfCode.some((each) => at >= each.address && at < each.address + BigInt(each.size)),
      between: (published) => {
        go(3, published);
      },
    },
  }),
});
const functions = ['elftrace_counter', 'elftrace_function_tracer'].map((name) => changing.functionAddress(name)!);
const tracer = changing.core.createOps({ name: 'live', func: functions[0]! });
check(changing.core.register(tracer).kind === 'done', 'a tracer of a program that runs');
let changes = 0;
while (ended < 0) {
  go(40, []);
  if (ended >= 0) break;
  check(
    changing.core.setFunction(tracer, functions[++changes % 2]!).kind === 'done',
    'another function for the tracer',
  );
}
const counted = Number(live.readWord(changing.backend.addressOf(tracer) + 24n, 8));
const head = live.readWord(
  live.readWord(running.program.definedAt(running.program.symbols.find('elftrace_ring'))!, 8)! + 24n,
  8,
);
console.log(
  `   ${changes} changes of the inner call under a running program: ${traps} breakpoints served, ${counted} calls counted, ${Number(head)} recorded, exit ${ended}`,
);
check(changes > 20 && traps > 0 && counted > 0 && Number(head) > 0 && ended === 51, 'old or new, and nothing between');
console.log(
  green(
    '   a call is the old one, a breakpoint or the new one: a processor in the trampoline never sees half of each (H1)',
  ),
);
