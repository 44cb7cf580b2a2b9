/**
 * States that are easy to miss (PV-3): in each of them a patch is found wrong that is right in the
 * state that an image begins with. What is wrong is one instruction of the tracer's code.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { Prover } from '../src/prove/prover.js';
import { TRACER_STATES, type TracerState } from '../src/prove/tracer-states.js';
import { warmElftrace } from './support/cli.js';
import { isLong } from './support/long.js';
import { makeImage, mutantImages } from './support/mutant-images.js';
import { MutantRun } from './support/mutant-run.js';
import { builtSamples } from './support/pipeline.js';

function runOf(name: string, numbers: readonly number[]): MutantRun {
  const pair = makeImage(mutantImages.find((each) => each.name === name)!);
  if (typeof pair === 'string') throw new Error(pair);
  return new MutantRun(pair.original, pair.patched, numbers);
}

/** Trials of each state, with other numbers. */
const ROUNDS = 6;

function trialsOf(state: TracerState): readonly number[] {
  const own = TRACER_STATES.flatMap((each, n) => (each === state ? [n] : []));
  const rounds = Array.from({ length: ROUNDS }, (_, i) => i * TRACER_STATES.length);
  return rounds.flatMap((first) => own.map((n) => first + n));
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** State, image, the function that the wrong instruction is in, what the proof must say. */
const rows: readonly (readonly [TracerState, string, string, RegExp])[] = [
  ['list-runs', 'arm64/regs list', 'ftrace_ops_list_func', /called 1 times, not at all/],
  // A record that is far from the ring is two.
  ['graph-runs', 'arm64/regs graph', 'ftrace_graph_func', /number of records is 0x[12], not 0x0/],
  ['no-block', 'arm64/regs graph', 'ftrace_graph_func', /dropped is 0xffffffff, not 0x100000000/],
  ['others', 'arm64/regs graph', 'elftrace_graph_return', /"return".*(?:breakpoint|thread|tracer)/],
  ['moved', 'riscv64/g2 graph', 'pop', /"return".*(?:breakpoint|tracer)/],
  ['left', 'arm64/regs graph', 'elftrace_graph_push', /calls under way is 0x\w+, not 0x/],
  ['left', 'arm64/regs graph', 'pop', /"return".*/],
  ['tail', 'arm64/regs graph', 'elftrace_graph_push', /calls under way is 0x\w+, not 0x/],
  ['probed-tail', 'arm64/regs+probes return-graph', 'elftrace_graph_push', /calls under way is 0x\w+, not 0x/],
  ['lost-tail', 'arm64/regs+probes return-beside-graph', 'elftrace_graph_push', /calls? under way|calls left/],
  ['other-stack', 'arm64/regs graph', 'elftrace_graph_push', /calls under way is 0x\w+, not 0x/],
  ['deep', 'arm64/regs graph', 'elftrace_graph_push', /calls not taken is 0x5ffffffff, not 0x600000000/],
  ['gone', 'arm64/regs graph', 'elftrace_graph_push', /calls under way is 0x[02], not 0x1/],
  ['unfiltered', 'arm64/pg graph', 'elftrace_graph_enter', /calls under way is 0x0, not 0x1/],
  // A function that signed its return address, which the graph tracer leaves alone.
  ['unfiltered', 'arm64/pg signed', 'elftrace_graph_enter', /number of records is 0x2, not 0x1/],
  // Another hart comes first, in any state.
  ['graph-runs', 'arm64/regs+probes jump-arguments', 'handle', /runs on in the tracer/],
  // Calls of a return probe as far off as those of another stack.
  ['other-stack', 'arm64/args+probes jump-return', 'elftrace_probe_hit', /calls that return probes wait for/],
  ['stopped', 'arm64/regs graph', 'ftrace_graph_func', /number of records is 0x1, not 0x0/],
  ['not-watching', 'arm64/regs list-rcu', 'ftrace_ops_list_func', /called 1 times, not at all/],
  ['ring-full', 'arm64/regs function', 'elftrace_function_tracer', /number of records|dropped/],
  ['ring-full', 'arm64/regs function', 'write_any', /number of records|dropped/],
  ['ring-wrapped', 'ppc32/pg list', 'elftrace_function_tracer', /number of records is 0x0, not 0x100000000/],
  ['side-full', 'ppc64-elfv2-le/regs livepatch', 'elftrace_side_push', /functions in the place of others|changed/],
  ['side-left', 'ppc64-elfv2-le/regs livepatch', 'elftrace_side_push', /functions in the place of others|keeps/],
  ['filled', 'riscv64/g2 graph', 'elftrace_graph_push', /a user of the graph tracer|users of a call/],
  // Frames that callbacks may walk over.
  ['filled', 'arm64/callops graph-list', 'call_user', /frames that do not lead to/],
  ['filled', 'ppc32/regs graph-list', 'call_user', /frames that do not lead to/],
  ['filled', 'riscv64/g2 list', 'ftrace_ops_list_func', /was told ops|data of the tracer at/],
  ['filled', 'x86-64/modern directs-list', 'ftrace_direct_func', /execute at 0x10|was not reached/],
  // The thread has its number elsewhere.
  ['filled', 'x86-64/modern function', 'find_block', /the owner of a thread is|the kind of a record is/],
  ['filled', 'x86-64/modern graph', 'call_user', /its thread does not say so/],
  // Users that a call does not have, on its way back; some came meanwhile.
  ['filled', 'x86-64/modern graph', 'tell_return', /a user of the graph tracer was asked that should not be/],
  ['rewritten', 'ppc32/regs registers', 'ftrace_regs_call', /"register","name":"cr"/],
  ['rewritten', 'riscv64/g1 graph-list', 'ftrace_regs_call', /"register","name":"s\d+"/],
  // Behind an ordinary call, too, for what calls keep.
  ['rewritten', 'riscv64/g0 registers', 'ftrace_regs_call', /"register","name":"s\d+"/],
  // The site goes on elsewhere, by another way out of the entry.
  ['rerouted', 'ppc64-elfv2-le/regs registers', 'ftrace_regs_caller_end', /"register","name":"r\d+"/],
  ['unmapped', 'arm64/regs+probes probe-arguments', 'record_event', /what a probe fetched is/],
  ['off', 'riscv64/g2+probes probe', 'handle', /number of records is 0x1, not 0x0/],
  // A thread without a block hits it: nothing is dropped.
  ['off', 'arm64/regs+probes jump-return', 'handle', /dropped is 0x1, not 0x0/],
  // No function was ever probed on its return.
  ['ring-end', 'arm64/callops+probes inside-graph', 'ftrace_graph_func', /the return address of a call is 0x0/],
  ['rowless', 'ppc32/ool-ops directs-list', 'ftrace_direct_func', /in circles|execute at 0x10/],
  ['retried', 'arm64/regs function', 'find_block', /the owner of a thread is 0x0, not/],
  ['overtaken', 'riscv64/g2 function', 'find_block', /the owner of a thread|the kind of a record/],
  ['overtaken', 'x86-64/modern function', 'find_block', /the owner of a thread is 0x0, not 0x1/],
  // Words that calls of before left, and an event with the same lower half.
  ['stale', 'arm64/callops+probes jump-return', 'elftrace_probe_hit', /the hits it missed is 0x1, not 0x0/],
  ['twins', 'ppc64-elfv1/regs list', 'ftrace_ops_list_func', /execute at 0x|called|records/],
];

/** What is wrong in any state, and does not show behind the site: image, function, what is said. */
const inside: readonly (readonly [string, string, string, RegExp])[] = [
  ['a function that loses what its caller has saved', 'riscv64/g0 graph', 'elftrace_graph_push', /back in s2, not/],
  ['a field of CR that is lost', 'ppc64-elfv2-le/regs list', 'ftrace_ops_list_func', /back in cr, not/],
  [
    'another function that does not find its own place',
    'ppc64-elfv2-le/regs livepatch',
    'ftrace_regs_caller_end',
    /r12 is 0x\w+ there, not 0x/,
  ],
  ['half of a time', 'ppc32/regs function', 'elftrace_function_tracer', /the time of a record is 0x/],
  ['a guard that is not there', 'riscv64/g2 list', 'ftrace_ops_list_func', /thread does not say that it runs/],
  ['a callback with a stack that is not aligned', 'riscv64/g1 list-rcu', 'elftrace_invoke', /not aligned to 16 bytes/],
  [
    'a hit that the thread does not tell of',
    'arm64/regs+probes probe-arguments',
    'handle',
    /a hit is handled, and its/,
  ],
];

/** The rest repeats them with other words. */
const always = rows.filter(([state]) => ['list-runs', 'deep', 'side-full', 'other-stack'].includes(state));

describe('states of the tracer', () => {
  test.each(isLong ? rows : always)(
    'PV-3: %s: %s: what is wrong in %s there alone is found',
    (state, image, symbol, reason) => {
      const numbers = TRACER_STATES.flatMap((each, n) => (each === state ? [n] : []));
      const run = runOf(image, [0, ...numbers]);
      expect(run.flaw).toBeNull();
      const said: (string | null)[] = [];
      for (const tested of run.reached()) {
        if (tested.symbol !== symbol) continue;
        const texts = numbers.map((n) => run.says(tested, n)).filter((text) => text !== null && text !== 'equal');
        if (texts.length === 0 || (run.says(tested, 0) ?? 'equal') !== 'equal') continue;
        said.push(...texts);
        if (texts.some((text) => reason.test(text!))) return;
      }
      expect(said).toContainEqual(expect.stringMatching(reason));
    },
  );

  test.each(isLong ? inside : inside.slice(0, 1))('PV-1: %s is found', (_, image, symbol, reason) => {
    const run = runOf(image, [0]);
    expect(run.flaw).toBeNull();
    const said: (string | null)[] = [];
    for (const tested of run.reached()) {
      if (tested.symbol !== symbol || tested.kind !== 'nop') continue;
      said.push(run.says(tested, 0));
      if (reason.test(said.at(-1) ?? '')) return;
    }
    expect(said).toContainEqual(expect.stringMatching(reason));
  });

  test('PV-1: a hit that its thread tells of as something else is found', () => {
    const run = runOf('arm64/args+probes jump-arguments', [0]);
    expect(run.flaw).toBeNull();
    // str x0, [x26, #8]; add x0, x24, #32 in the other order: an address in place of 1.
    const [tested] = [...run.reached()].filter(
      ({ kind, mutant }) => kind === 'swap' && hexOf(mutant.before) === '400700f900830091',
    );
    expect(run.says(tested!, 0)).toMatch(/a hit is handled, and its thread/);
  });

  test('PV-3: redirected: an entry that goes on behind the site, whatever a callback names, is found', () => {
    const numbers = [0, TRACER_STATES.indexOf('redirected')];
    const run = runOf('arm64/regs function', numbers);
    // ldr x9, [sp, #256]: the place to go on at; [sp, #312] is the same without what callbacks say.
    const [from, to] = ['e98340f9', 'e99f40f9'].map((code) => Uint8Array.from(Buffer.from(code, 'hex')));
    const load = [...run.reached()].find(
      ({ kind, mutant }) => kind === 'nop' && Buffer.compare(mutant.before, from!) === 0,
    );
    const wrong = { address: load!.address, mutant: { kind: 'nop', before: from!, after: to! } } as const;
    expect(run.says(wrong, 0)).toBe('equal');
    expect(run.says(wrong, numbers[1]!)).toMatch(/the place that a callback named","reason":"was not reached/);
  });

  /** Image, state, function, offset, kind, what is said: states of before did not show it. */
  const more = [
    // The end of the table of blocks is one block too far: a word there looks like a free one.
    ['arm64/args list', 'no-block', 'find_block', 72, 'immediate', /"what":"memory"/],
    // Ops and tables that lie where the list's end has the same lower half; cmpw in place of cmpd.
    ['ppc64-elfv1/regs list', 'filled', 'ftrace_ops_list_func', 296, 'immediate', /called 0 times, not once/],
    // The list ends at its end, whatever is behind that; cmpd left out.
    ['ppc64-elfv1/regs list', 'filled', 'ftrace_ops_list_func', 160, 'nop', /data of the tracer at|was told ops/],
    // Records are written over such of before: the thread's number, which is 0, is not stored.
    ['ppc32/regs+probes inside-graph', 'ring-end', 'pop', 308, 'nop', /the thread of a record is 0xffffffff, not 0x0/],
    // A probe without an event.
    ['ppc32/ool-ops+probes probe-list', 'off', 'handle', 388, 'swap', /fault: execute at/],
    // A graph tracer that was stopped drops nothing in a thread without a block.
    ['ppc64-elfv2-be/regs graph', 'stopped', 'ftrace_graph_func', 284, 'nop', /dropped/],
    // More than 32 bits of records, by the way of any record.
    ['ppc32/pg list', 'ring-wrapped', 'write_any', 100, 'nop', /number of records is 0x0, not 0x100000000/],
    // The record of the return is the one that needs more.
    ['ppc32/regs graph', 'ring-wrapped', 'pop', 484, 'nop', /the time of a record is 0x\w+, not 0x0/],
    // A probe that is off, where the first block is the thread's, and where it has another one.
    ['arm64/regs+probes jump-arguments', 'off', 'handle', 64, 'nop', /number of records is 0xf, not 0x0/],
    ['arm64/regs+probes jump-arguments', 'off', 'handle', 544, 'nop', /number of records is 0xf, not 0x0/],
    // A ring with flags that nothing asks.
    ['riscv64/g2-plain+probes jump-return', 'ring-wrapped', 'take_records', 8, 'nop', /the time of a record/],
    // The function comes back in a thread without a block, and none is free.
    [
      'arm64/callops+probes return-beside-graph',
      'moved',
      'elftrace_graph_return',
      192,
      'immediate',
      /runs on in the tracer/,
    ],
    // Elements of which the last ones, or the first, are on a page that is not mapped.
    ['ppc64-elfv2-le/regs+probes probe-faults', 'unmapped', 'record_event', 592, 'nop', /what a probe fetched is/],
    // The upper half of the clock changes between two looks.
    ['ppc32/regs graph', 'filled', 'elftrace_graph_push', 176, 'immediate', /in circles|runs on in the tracer/],
    // The number of an event's records is taken by another thread.
    [
      'riscv64/g2-plain+probes jump-sizes',
      'overtaken',
      'take_records',
      44,
      'nop',
      /the time of a record is 0xf{16}, not/,
    ],
    // A thread of whose calls some were lost before, and one more now.
    ['ppc32/regs graph', 'moved', 'pop', 128, 'nop', /calls left is 0x5ffff, not 0x60000/],
    // The number of the thread is an address a little below the stack.
    ['ppc32/regs+probes return-graph', 'gone', 'elftrace_graph_push', 728, 'registers', /the owner of a thread is/],
    // The graph tracer asks its own filter, which does not take the site.
    ['riscv64/g2-plain graph', 'unfiltered', 'ftrace_graph_caller', 96, 'nop', /number of records is 0x1, not 0x0/],
    // A hit while another one is handled.
    ['riscv64/g1+probes probe', 'graph-runs', 'elftrace_probe_ftrace', 168, 'immediate', /hits it missed is 0x0/],
    // Nothing is at address 0, for code of probes, too, nor where an index leads to from there.
    ['x86-64/modern+probes probe', 'no-block', 'elftrace_probe_ftrace', 334, 'swap', /fault: read at 0x8/],
    // No return was ever probed, and a call has the frame of the one that comes.
    [
      'riscv64/g2+probes beside-graph',
      'other-stack',
      'elftrace_graph_push',
      552,
      'swap',
      /the return address of a call is 0x1235, not/,
    ],
  ] as const;
  test.each(isLong ? more : more.slice(0, 1))(
    'PV-3: %s: %s: %s+%d: %s is found',
    (image, state, symbol, offset, kind, reason) => {
      const numbers = trialsOf(state);
      const run = runOf(image, [0, ...numbers]);
      expect(run.flaw).toBeNull();
      const wrong = [...run.reached()].find(
        (each) => each.symbol === symbol && each.offset === offset && each.kind === kind,
      )!;
      expect(run.says(wrong, 0) ?? 'equal').toBe('equal');
      expect(numbers.map((n) => run.says(wrong, n))).toContainEqual(expect.stringMatching(reason));
    },
  );

  test('PV-3: moved: a number of calls lost before that is forgotten is found, there and elsewhere', () => {
    const numbers = trialsOf('moved');
    const run = runOf('ppc32/regs graph', [0, ...numbers]);
    expect(run.flaw).toBeNull();
    // add r9,r9,r6 puts its sum into r6.
    const sum = [...run.reached()].find(
      ({ symbol, offset, kind }) => symbol === 'pop' && offset === 108 && kind === 'registers',
    );
    expect(run.says(sum!, 0)).toMatch(/data of the tracer at 0x\w+ changed/);
    expect(numbers.map((n) => run.says(sum!, n))).toContainEqual(
      expect.stringMatching(/calls left is 0x\w, not 0x6000/),
    );
  });

  test('PV-1: what looks for nested functions is tried at functions that only begin as they do', () => {
    const others = TRACER_STATES.indexOf('others');
    const run = runOf('x86-64/modern popped', [0, others]);
    expect(run.flaw).toBeNull();
    const branchOf = (wanted: string) =>
      [...run.reached()].find(
        ({ symbol, offset, kind }) => symbol === 'elftrace_function_tracer' && offset === 300 && kind === wanted,
      )!;
    // The branch where another register than r10 was pushed leads one byte too far, or is none:
    // then the function is a nested one.
    expect(run.says(branchOf('immediate'), others)).toMatch(/fault: read at 0x/);
    expect(run.says(branchOf('nop'), 0)).toMatch(/the parent of a record is/);
  });

  /** Image, function, offset: an instruction that lets a record have what the function pushed. */
  const pushed = [
    // je: without it no function is a nested one, whose static chain is at the top of its stack.
    ['x86-64/modern direct function-inner', 'elftrace_function_tracer', 23],
  ] as const;
  test.each(pushed)('PV-1: %s: %s+%d: what was pushed in front of a site is no caller', (image, symbol, offset) => {
    const again = TRACER_STATES.indexOf('again');
    const run = runOf(image, [again]);
    expect(run.flaw).toBeNull();
    const wrong = [...run.reached()].find(
      (each) => each.symbol === symbol && each.offset === offset && each.kind === 'nop',
    );
    expect(run.says(wrong!, again)).toMatch(/the parent of a record is 0x0, not/);
  });

  test('PV-3: a graph tracer with one user is asked, whichever place of its table that has', () => {
    // Sixteen places are loaded and joined, in 24 instructions; without a user all of them hold 0.
    const numbers = TRACER_STATES.flatMap((state, n) => (state === 'filled' ? [] : [n, n + TRACER_STATES.length]));
    const run = runOf('arm64/regs graph', numbers);
    const joins = [...run.reached()].filter(
      ({ symbol, offset, kind }) =>
        symbol === 'elftrace_graph_push' && offset >= 0xc0 && offset <= 0x11c && kind === 'nop',
    );
    expect(joins).toHaveLength(24);
    expect(joins.filter((each) => run.judge(each) === 'found').length).toBeGreaterThan(16);
  });

  test('PV-3: a graph tracer without users records in its usual way, where the image has one, too', () => {
    const numbers = TRACER_STATES.flatMap((state, n) => (state === 'filled' ? [] : [n]));
    const run = runOf('riscv64/g0+probes inside-graph', numbers);
    // The time of the record of a return.
    const stores = [...run.reached()].filter(
      ({ symbol, offset, kind }) => symbol === 'pop' && offset === 204 && kind === 'immediate',
    );
    expect(stores.map((each) => run.judge(each))).toEqual(['found']);
  });

  test('PV-3: filled: what is wrong where the list is empty is found', () => {
    const numbers = trialsOf('filled');
    const run = runOf('arm64/regs list', [0, ...numbers]);
    expect(run.flaw).toBeNull();
    // The first ops is the end: the branch comes behind what loads x25 again.
    const branch = [...run.reached()].find(
      ({ symbol, offset, kind }) => symbol === 'ftrace_ops_list_func' && offset === 0x80 && kind === 'immediate',
    );
    expect(run.says(branch!, 0)).toBe('equal');
    expect(numbers.map((n) => run.says(branch!, n))).toContainEqual(expect.stringMatching(/back in x25, not/));
  });

  test('PV-3: unmapped: text whose address cannot be read is none, and nothing of what comes later', () => {
    const unmapped = TRACER_STATES.flatMap((state, n) => (state === 'unmapped' ? [n] : []));
    expect(runOf('ppc32/regs+probes probe-faults', unmapped).flaw).toBeNull();
    // Behind pointers that could not be read themselves.
    expect(runOf('arm64/regs+probes jump-chains', unmapped).flaw).toBeNull();
  });

  test('PV-4: a way that comes to its end behind its budget is no difference', () => {
    // Three texts of 63 bytes, byte by byte: more instructions than the budget of these trials.
    const pair = makeImage(mutantImages.find(({ name }) => name === 'arm64/regs+probes probe-chains')!);
    if (typeof pair === 'string') throw new Error(pair);
    const original = readElf(pair.original);
    const prover = new Prover(original, readElf(pair.patched), archOf(original.header), { budget: 1000 });
    const tried = prover.subjects.map((subject) => prover.trialOf(subject)).find((each) => each !== null)!;
    const { entry, seed } = prover.turn(tried.trial, tried.entries, 0);
    expect(prover.attempt(prover.trials(tried.trial), entry, seed)).toMatchObject({ kind: 'open', reason: 'budget' });
  });

  test('PV-3: redirected: a return probe behind the graph tracer has the return last', () => {
    const redirected = TRACER_STATES.flatMap((state, n) => (state === 'redirected' ? [n] : []));
    expect(runOf('ppc64-elfv2-le/regs+probes return-then-graph', redirected).flaw).toBeNull();
  });

  test('PV-1: sites beside a probe are told what to call, where no table names them', () => {
    const run = runOf('ppc64-elfv2-le/regs+probes beside-list', [0]);
    expect(run.flaw).toBeNull();
    const call = [...run.reached()].find(
      ({ kind, symbol, offset }) => kind === 'nop' && symbol === 'ftrace_call' && offset === 0,
    );
    expect(run.says(call!, 0)).toMatch(/called 0 times, not once/);
  });

  test('PV-1: what is wrong in the owner of a block is found', () => {
    const others = TRACER_STATES.indexOf('others');
    const run = runOf('arm64/regs function', [others]);
    // add x0, x0, #1: the thread's key is one less than the owner.
    const before = Uint8Array.from(Buffer.from('00040091', 'hex'));
    const add = [...run.reached()].find(
      ({ kind, symbol, mutant }) =>
        kind === 'nop' && symbol === 'trace_any' && Buffer.compare(mutant.before, before) === 0,
    );
    expect(run.says(add!, others)).toMatch(/the owner of a thread is/);
  });
});

/** Detour buffers step over the red zone; here they use a part of it. Encodings of GNU as. */
const zones: readonly (readonly [string, string, readonly (readonly [string, string])[]])[] = [
  // lea -128(%rsp), %rsp and its inverse: 120.
  [
    'x86-64/program-fentry',
    'outer+0xd',
    [
      ['488d642480', '488d642488'],
      ['488da42480000000', '488da42478000000'],
    ],
  ],
  // stdu r1, -944(r1), addi r3, r1, 944, addi r1, r1, 944: 640 leaves 240 of 288 bytes.
  [
    'ppc64-elfv2-le/program-mprofile',
    'outer+0x10',
    [
      ['51fc21f8', '81fd21f8'],
      ['b0036138', '80026138'],
      ['b0032138', '80022138'],
    ],
  ],
];

test.each(zones)('PV-3: %s: a buffer that writes into a red zone in use is found', (name, place, edits) => {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-zones-'));
  try {
    const [original, output] = [join(builtSamples, name), join(folder, 'out')];
    expect(warmElftrace(['patch', original, '--probe', `p:x ${place}`, '--optimize', '-o', output]).status).toBe(0);
    const [before, after] = [original, output].map((path) => readElf(new Uint8Array(readFileSync(path))));
    const prover = new Prover(before!, after!, archOf(before!.header), {});
    const [probe] = prover.probes!.subjects;
    expect(prover.proveProbe(probe!).verdict).toBe('proved');
    // A file with other bytes than its record has is refused: the image is changed, not the file.
    const slots = after!.section('.elftrace.slots')!;
    for (const [from, to] of edits) {
      const at = Buffer.from(after!.bytes).indexOf(from, slots.offset, 'hex');
      expect(at).toBeGreaterThan(0);
      prover.patched.world.rewrite(slots.address + BigInt(at - slots.offset), Buffer.from(to, 'hex'));
    }
    const { verdict, account } = prover.proveProbe(probe!);
    expect([verdict, account?.difference.what]).toEqual(['different', 'memory']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('PV-3: sites at the limit of reach, on either side of it, are proved; a wrong stub is found', () => {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-reach-'));
  const [image, output] = [join(folder, 'image'), join(folder, 'out')];
  // Branches of arm64 reach 128 MiB.
  const [base, reach] = [0x1000_0000n, 0x800_0000n];
  const parts = ['core-patchable-2.o', 'far-one-patchable-2.ko'].map((part) => join(builtSamples, 'arm64', part));
  const runAt = (base: bigint): MutantRun => {
    const at = `0x${base.toString(16)}`;
    for (const args of [
      ['load', ...parts, '--base', '0x10000000', '--module-base', at, '-o', image],
      ['patch', image, '--enable', '-l', 'far_*', '-o', output],
    ]) {
      const { status, stderr } = warmElftrace(args);
      expect([args[0], status, status === 0 ? '' : stderr]).toEqual([args[0], 0, '']);
    }
    return new MutantRun(new Uint8Array(readFileSync(image)), new Uint8Array(readFileSync(output)), [0]);
  };
  const stubs = (run: MutantRun): readonly (string | null)[] =>
    [...run.reached()].filter(({ object }) => object.endsWith(' stub')).map((each) => run.says(each, 0));
  try {
    runAt(base + reach);
    const loaded = readElf(new Uint8Array(readFileSync(image)));
    const entry = loaded.symbols.value[loaded.symbols.find('ftrace_caller')]!;
    // Places of modules are multiples of 64 KiB; this one is less than a page long.
    const near = (entry + reach - 0x1000n) & ~0xffffn;
    const runs = [runAt(near), runAt(near + 0x2_0000n)];
    expect(runs.map(({ flaw }) => flaw)).toEqual([null, null]);
    expect(stubs(runs[1]!).filter((said) => said !== 'equal').length).toBeGreaterThan(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.each([
  // b .
  ['goes in circles', 0, '00000014', /goes in circles/],
  // add x9, x9, #1; b .-4: never in the same state again
  ['counts for ever', 4, '29050091ffffff17', /runs on in the tracer/],
])('PV-4: a tracer that %s is a difference', (_what, offset, code, said) => {
  const run = runOf('arm64/regs function', [0]);
  const place = [...run.reached()].find((each) => each.symbol === 'elftrace_function_tracer' && each.offset === offset);
  const { address, mutant } = place!;
  const after = Uint8Array.from(Buffer.from(code, 'hex'));
  const before = mutant.before.slice(0, after.length);
  expect(run.says({ address, mutant: { kind: 'nop', before, after } }, 0)).toMatch(said);
});

test('PV-3: rewritten: an entry that leaves out a register of the frame is found', () => {
  const numbers = [0, TRACER_STATES.indexOf('rewritten')];
  const run = runOf('riscv64/g1 registers', numbers);
  expect(run.flaw).toBeNull();
  // ld s5, 168(sp): the callback's own s5 is that of the site, but where it changed the frame.
  const load = [...run.reached()].find(({ kind, mutant }) => kind === 'nop' && hexOf(mutant.before) === '833a810a');
  expect(run.says(load!, 0)).toBe('equal');
  expect(run.says(load!, numbers[1]!)).toMatch(/"register","name":"s5"/);
});

test('PV-3: filled: a list that looks at other flags of ops that it passes over is found', () => {
  const numbers = TRACER_STATES.flatMap((state, n) => (state === 'filled' ? [n] : []));
  const run = runOf('ppc64-elfv2-le/regs list', [0, ...numbers]);
  expect(run.flaw).toBeNull();
  // andi. r9,r9,4; bne cr7 in the other order: the branch of stubs leads to one that asks for RCU.
  const [swapped] = [...run.reached()].filter(
    ({ kind, mutant }) => kind === 'swap' && hexOf(mutant.before) === '0400297148009e40',
  );
  const said = numbers.map((n) => run.says(swapped!, n));
  expect(said).toContainEqual(expect.stringMatching(/was told ops|data of the tracer/));
});
