/**
 * Steps of sessions about probes that are there: disable and enable, all off and on; what listings
 * say of them; and the same state machines through the library's public entry. Everything on
 * produced images: bytes of the text and traces of runs.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import { withRuntime } from '../src/tracing/inject.js';
import { findSites } from '../src/sites/sites.js';
import { planProbes, probeRoomFor, ProbeRun } from '../src/kprobes/index.js';
import { load } from '../src/program/program.js';
import type * as Library from '../src/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { builtSamples, readSample, root } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-steps-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);

const session = (steps: readonly string[]): string =>
  `version: 1\nsteps:\n${steps.map((each) => `  - ${each}\n`).join('')}`;

/**
 * An instruction behind the site of a function that calls reach, one of another function, and a
 * function with a site where probes are served by ftrace.
 */
const SAMPLES: readonly (readonly [name: string, inside: string, elsewhere: string, site: string])[] = [
  ['x86-64/program-fentry', 'leaf+5', 'mix64+15', 'sum'],
  // The name of a function means its entry, which is no site.
  ['ppc32/program-mcount', 'leaf+16', 'mix64+16', 'sum+0x8'],
  ['ppc64-elfv2-le/program-mprofile', 'leaf+12', 'mix64+12', 'sum'],
  ['riscv64/program-patchable-4', 'leaf+12', 'mix64+12', 'sum'],
  ['arm64/program-patchable-2', 'leaf+12', 'mix64+12', 'sum'],
];

/** An image of a sample, before and after sessions. */
function subject(name: string, probes = 4) {
  const original = readElf(readSample(name));
  const arch = archOf(original.header);
  const image = withRuntime(findSites(load(original, arch)), undefined, undefined, undefined, {}, probeRoomFor(probes));
  const program = load(image, arch);
  const performed = (steps: readonly string[]) => {
    const files = steps.length === 0 ? [] : [{ name: 'steps', text: session(steps) }];
    const { plan, probes: served } = planProbes(readElf(image.bytes.slice()), arch, files);
    const bytes = image.bytes.slice();
    for (const { after, fileOffset } of plan.steps) bytes.set(after, fileOffset);
    return { bytes, probes: served?.probes() ?? [] };
  };
  /** Code of the program. */
  const textOf = (bytes: Uint8Array): Buffer =>
    Buffer.concat(
      program.code
        .filter(({ name: section }) => !section.startsWith('.elftrace.'))
        .map(({ fileOffset, bytes: { length } }) => Buffer.from(bytes.subarray(fileOffset, fileOffset + length))),
    );
  return { performed, textOf };
}

describe.each(sampled(SAMPLES, 2))('%s', (name, inside, elsewhere, site) => {
  const { performed, textOf } = subject(name);
  // A session of x86-64 begins with the nops of kernels.
  const plain = textOf(performed(['tracing: on']).bytes);

  test.each([
    ['a breakpoint', inside, false, 'modern'],
    ['a jump', inside, true, 'modern'],
    ['a jump of 2009', inside, true, '2009'],
    ['a site', site, false, 'modern'],
  ] as const)(
    'K-OPT-9 T-KP-37 T-KP-38 %s: off, nothing of it is in the text; on again, all is as it was',
    (_what, where, optimize, version) => {
      const set = `probe: {define: 'p:e ${where}', optimize: ${String(optimize)}, version: ${version}}`;
      const armed = performed([set]);
      const { state: first } = armed.probes[0]!;
      expect(first.text).toBe(where === site ? 'ftrace' : optimize ? 'jump' : 'breakpoint');
      expect(textOf(armed.bytes).equals(plain)).toBe(false);
      for (const [off, on] of [
        ['disable-probe: e', 'enable-probe: e'],
        ['disable-probe: kprobes/e', 'enable-probe: kprobes/e'],
        ['probes: off', 'probes: on'],
      ] as const) {
        const away = performed([set, off]);
        expect([off, away.probes[0]!.state.text]).toEqual([off, 'original']);
        // Of ftrace only the site itself is what it was: the core has met an ops.
        if (where !== site) expect([off, textOf(away.bytes).equals(plain)]).toEqual([off, true]);
        if (optimize) expect(away.probes[0]!.refusal).toMatchObject({ code: 'disabled', rule: 'K-OPT-2' });
        const again = performed([set, off, on]);
        expect([on, again.probes[0]!.state.text]).toEqual([on, version === '2009' ? 'breakpoint' : first.text]);
        if (version !== '2009' && where !== site) {
          expect([on, textOf(again.bytes).equals(textOf(armed.bytes))]).toEqual([on, true]);
        }
      }
    },
  );

  test('K-OPT-9 probes that are set while all are off wait for it; one of two at an address goes and the other stays', () => {
    const set = (event: string, where: string): string => `probe: {define: 'p:${event} ${where}', optimize: true}`;
    const off = performed(['probes: off', set('a', inside), set('b', elsewhere), 'disable-probe: b']);
    expect(textOf(off.bytes).equals(plain)).toBe(true);
    const on = performed(['probes: off', set('a', inside), set('b', elsewhere), 'disable-probe: b', 'probes: on']);
    expect(on.probes.map(({ state }) => state.text).sort()).toEqual(['jump', 'original']);
    const both = [set('a', inside), set('b', inside)];
    for (const gone of ['a', 'b']) {
      const one = performed([...both, `disable-probe: ${gone}`]);
      expect(textOf(one.bytes).equals(textOf(performed(both).bytes))).toBe(true);
      expect(one.probes[0]!.state.probes.map(({ flags, name: event }) => [event, flags & 2]).sort()).toEqual([
        ['kprobes/a', gone === 'a' ? 2 : 0],
        ['kprobes/b', gone === 'b' ? 2 : 0],
      ]);
    }
    const none = performed([...both, 'disable-probe: a', 'disable-probe: b']);
    expect(textOf(none.bytes).equals(plain)).toBe(true);
  });

  test('T-KP-44: of two probes at an address the last one to leave takes the breakpoint away, in either order', () => {
    for (const optimize of [false, true]) {
      const both = ['a', 'b'].map((event) => `probe: {define: 'p:${event} ${inside}', optimize: ${String(optimize)}}`);
      const other = `probe: {define: 'p:c ${elsewhere}', optimize: ${String(optimize)}}`;
      const armed = textOf(performed([other, ...both]).bytes);
      for (const [first, second] of [
        ['a', 'b'],
        ['b', 'a'],
      ] as const) {
        const one = performed([other, ...both, `no-probe: ${first}`]);
        expect([first, textOf(one.bytes).equals(armed)]).toEqual([first, true]);
        const none = performed([other, ...both, `no-probe: ${first}`, `no-probe: ${second}`]);
        expect(textOf(none.bytes).equals(textOf(performed([other]).bytes))).toBe(true);
        expect(none.probes).toHaveLength(1);
      }
    }
  });
});

test('T-KP-3: what the flags of a listing are, by what has been done to a probe on an image', () => {
  const core = at('core');
  const sample = (name: string): string => join(builtSamples, 'x86-64', name);
  expect(elftrace(['load', sample('core.o'), sample('far-one.ko'), '--probes', '4', '-o', at('first')]).status).toBe(0);
  expect(elftrace(['load', at('first'), sample('far-two.ko'), '-o', core]).status).toBe(0);
  const image = readElf(new Uint8Array(readFileSync(core)));
  const arch = archOf(image.header);
  /** Flags of the object, and of its probes, in the numbers of the header. */
  const flags = (version: string, optimize: boolean, ...steps: readonly string[]): number[] => {
    const set = `probe: {define: 'p:e two_wide+6', version: ${version}, optimize: ${String(optimize)}}`;
    const files = [{ name: 's', text: session([set, ...steps]) }];
    const { state } = planProbes(readElf(image.bytes.slice()), arch, files).probes!.probes()[0]!;
    // A jump is there exactly where somebody says that it is, or asks for it and nothing forbids
    // it.
    expect(state.text === 'jump').toBe(state.flags === 4);
    return [state.flags, ...state.probes.map((each) => each.flags)];
  };
  // 2009: 4 is what the user asks for, 2 that it is off, 1 that its text is gone; without the wish
  // there is no 4.
  expect(flags('2009', true)).toEqual([4, 4]);
  expect(flags('2009', false)).toEqual([0, 0]);
  expect(flags('2009', true, 'disable-probe: e')).toEqual([6, 6]);
  expect(flags('2009', false, 'disable-probe: e')).toEqual([2, 2]);
  expect(flags('2009', false, 'unload: far_two')).toEqual([1, 1]);
  // Today: 4 is what the core has done, which the probe knows nothing of.
  expect(flags('modern', true)).toEqual([4, 0]);
  expect(flags('modern', false)).toEqual([0, 0]);
  expect(flags('modern', true, 'disable-probe: e')).toEqual([2, 2]);
  expect(flags('modern', true, 'unload: far_two')).toEqual([1, 1]);
  expect(flags('modern', true, 'disable-probe: e', 'enable-probe: e')).toEqual([4, 0]);
});

test('patch --session: disable-probe, enable-probe, probes; run, status, revert, and what is refused', () => {
  const sample = join(builtSamples, 'x86-64', 'program-fentry');
  const patch = (name: string, from: string, steps: readonly string[]) => {
    writeFileSync(at(`${name}.yaml`), session(steps));
    return elftrace(['patch', from, '--session', at(`${name}.yaml`), '-o', at(name), '--json']);
  };
  const events = (name: string): readonly string[] => {
    expect(elftrace(['run', '--trace', at('trace'), '--format', 'ftrace', at(name)]).status).toBe(0);
    return [
      ...new Set([...readFileSync(at('trace'), 'utf8').matchAll(/ (\w+): \(/g)].map((match) => match[1]!)),
    ].sort();
  };
  const states = (name: string): readonly string[] =>
    elftrace(['status', at(name)]).stdout.split('\n').filter((line) => /kprobes\//.test(line)).map((line) => line.replace(/^\S+ +/, '')); // prettier-ignore
  const set = [
    "probe: {define: 'p:in mix64+5', optimize: true}",
    "probe: {define: 'p:same mix64+5', optimize: true}",
    "probe: {define: 'p:site sum'}",
    "probe: {define: 'r:out leaf'}",
  ];
  expect(patch('all', sample, set).status).toBe(0);
  expect(events('all')).toEqual(['in', 'out', 'same', 'site']);
  // The steps of a second call go on where the first ended.
  const off = patch('less', at('all'), ['disable-probe: same', 'disable-probe: site', 'disable-probe: out']);
  expect(off.status).toBe(0);
  const json = JSON.parse(off.stdout) as { probes: { events: { event: string; disabled: boolean }[] }[] };
  expect(json.probes.flatMap((each) => each.events).map(({ event, disabled }) => `${event} ${String(disabled)}`).sort()).toEqual([
    'kprobes/in false', 'kprobes/out true', 'kprobes/same true', 'kprobes/site true',
  ]); // prettier-ignore
  expect(events('less')).toEqual(['in']);
  expect(states('less').filter((line) => line.includes('[DISABLED]'))).toHaveLength(2);
  expect(patch('none', at('less'), ['probes: off']).status).toBe(0);
  expect(events('none')).toEqual([]);
  expect(states('none')).toContainEqual(expect.stringMatching(/^k {2}mix64\+0x5 {2}\[OFF\] {2}/));
  expect(patch('back', at('none'), ['enable-probe: site', 'probes: on', 'enable-probe: out']).status).toBe(0);
  expect(events('back')).toEqual(['in', 'out', 'site']);
  expect(elftrace(['revert', at('back'), '-o', at('original')]).status).toBe(0);
  expect(readFileSync(at('original')).equals(readFileSync(sample))).toBe(true);
  for (const step of ['disable-probe: nobody', 'enable-probe: nobody']) {
    const refused = patch('bad', at('all'), [step]);
    expect([refused.status, refused.stdout + refused.stderr]).toEqual([
      1,
      expect.stringMatching(/no event kprobes\/nobody/),
    ]);
    expect(existsSync(at('bad'))).toBe(false);
  }
});

/** Three functions without sites; `work` is called seven times. */
const PROGRAM = `
__attribute__((noinline)) long work(long n) { __asm__ volatile ("" : "+r"(n)); return n * 3 + 1; }
__attribute__((noinline)) long outer(long n) { long sum = 0; for (long i = 0; i < n; i++) sum += work(i) ^ sum; return sum; }
int main(void) { return (int)(outer(7) & 0x3f); }
`;
const START: Readonly<Record<string, readonly [gcc: string, source: string, flags: readonly string[]]>> = {
  'x86-64': [
    'gcc',
    'call main\n mov %eax,%edi\n mov $60,%eax\n syscall',
    ['-no-pie', '-fno-pie', '-fcf-protection=none'],
  ],
  riscv64: ['riscv64-linux-gnu-gcc', 'call main\n li a7,93\n ecall', []],
  arm64: ['aarch64-linux-gnu-gcc', 'bl main\n mov x8,#93\n svc #0', ['-no-pie', '-fno-pie']],
  ppc32: ['powerpc-linux-gnu-gcc', 'bl main\n li 0,1\n sc', ['-no-pie', '-fno-pie']],
};

for (const [target, [gcc, start, flags]] of sampled(Object.entries(START), 2)) {
  describeWith([gcc], `${target}: return probes`, () => {
    writeFileSync(at(`${target}.c`), PROGRAM);
    writeFileSync(
      at(`${target}.S`),
      `.globl _start\n.type _start,%function\n_start:\n ${start}\n.size _start, .-_start\n.section .note.GNU-stack,"",%progbits\n`,
    );
    const file = at(`p-${target}`);
    run(gcc, [
      '-O1',
      '-nostdlib',
      '-static',
      '-fno-stack-protector',
      '-ffreestanding',
      ...flags,
      '-Wl,--build-id=none',
      '-o',
      file,
      at(`${target}.c`),
      at(`${target}.S`),
    ]);

    /** The events of a run of a patched file, and how it ended. */
    const traced = (path: string): readonly string[] => {
      const { status } = elftrace(['run', '--trace', at('r.trace'), '--format', 'ftrace', path]);
      const lines = readFileSync(at('r.trace'), 'utf8')
        .split('\n')
        .filter((line) => /: \(/.test(line));
      return [`exit ${String(status)}`, ...lines.map((line) => line.replace(/^.*?\d+: /, ''))];
    };

    test('T-KP-45: the probe of a return probe is a jump: the return address is replaced once and comes back once', () => {
      const plain = elftrace(['run', file]).status;
      const patched = (name: string, ...more: readonly string[]) => {
        const define = ['--probe', 'r:out work $retval', ...more];
        const done = elftrace(['patch', file, ...define, '--json', '-o', at(name)]);
        expect([name, done.status]).toEqual([name, 0]);
        return (JSON.parse(done.stdout) as { probes: { state: string }[] }).probes[0]!;
      };
      expect(patched('bp').state).toBe('breakpoint');
      const byBreakpoint = traced(at('bp'));
      expect(byBreakpoint).toHaveLength(8);
      expect(byBreakpoint[0]).toBe(`exit ${String(plain)}`);
      for (const version of ['modern', '2009']) {
        const { state } = patched('jump', '--optimize', `--kprobe-opt=${version}`);
        expect([version, state]).toEqual([version, 'jump']);
        expect([version, traced(at('jump'))]).toEqual([version, byBreakpoint]);
      }
    });

    test('T-KP-45: it is in the buffer that the return address is replaced: twin without that call', () => {
      const before = readElf(new Uint8Array(readFileSync(file)));
      const arch = archOf(before.header);
      const image = withRuntime(findSites(load(before, arch)), undefined, undefined, undefined, {}, probeRoomFor(2));
      const { emulation, isa } = arch;
      if (emulation.kind !== 'ir') throw new Error('the machine is not emulated');
      /** Hits of the handler, and traps: those of a return are one each. */
      const counted = (optimize: boolean, isCalling: boolean): { readonly hits: bigint; readonly traps: number } => {
        const steps = session([`probe: {define: 'r:out work', optimize: ${String(optimize)}}`]);
        const { plan, probes } = planProbes(readElf(image.bytes.slice()), arch, [{ name: 's', text: steps }]);
        const bytes = image.bytes.slice();
        for (const { after, fileOffset } of plan.steps) bytes.set(after, fileOffset);
        const patched = readElf(bytes);
        const { state } = probes!.probes()[0]!;
        expect(state.text).toBe(optimize ? 'jump' : 'breakpoint');
        for (let from = state.part?.slot ?? 0n, left = optimize && !isCalling ? 0x180 : 0; left > 0;) {
          const offset = patched.fileOffsetOf(from);
          const { sizeBytes, flow } = isa.decode(bytes, offset, from);
          if (flow.kind === 'call' || flow.kind === 'indirect-call') {
            bytes.set(NOPS[target]!.slice(0, sizeBytes), offset);
            break;
          }
          from += BigInt(sizeBytes);
          left -= sizeBytes;
        }
        const process = startProcess({ image: patched, emulation, abi: arch.abi });
        const { machine } = process;
        const served = new ProbeRun({ session: probes!, program: load(patched, arch), machine, comm: 'p' });
        let traps = 0;
        let stop = process.run();
        for (; (stop.kind === 'trap' || stop.kind === 'fault') && served.serve(stop); stop = process.run()) traps++;
        expect(stop).toMatchObject({ kind: 'exit', code: elftrace(['run', file]).status });
        return { hits: served.profile()[0]!.hits, traps };
      };
      expect(counted(true, true)).toEqual({ hits: 7n, traps: 7 });
      const byBreakpoint = counted(false, true);
      expect(byBreakpoint.hits).toBe(7n);
      expect(byBreakpoint.traps).toBeGreaterThanOrEqual(14);
      expect(counted(true, false)).toEqual({ hits: 0n, traps: 0 });
    });
  });
}

const NOPS: Readonly<Record<string, Uint8Array>> = {
  'x86-64': Uint8Array.of(0x90, 0x90, 0x90, 0x90, 0x90),
  riscv64: Uint8Array.of(0x13, 0, 0, 0),
  arm64: Uint8Array.of(0x1f, 0x20, 0x03, 0xd5),
  ppc32: Uint8Array.of(0x60, 0, 0, 0),
};

/** Memory of a caller of the library: a range of code, and what was stored over it or elsewhere. */
function memoryOver({ address, bytes }: { readonly address: bigint; readonly bytes: Uint8Array }) {
  const memory = new Map<bigint, number>();
  return {
    read: (from: bigint, size: number): Uint8Array =>
      Uint8Array.from({ length: size }, (_, i) => {
        const place = from + BigInt(i);
        return memory.get(place) ?? bytes[Number(place - address)] ?? 0;
      }),
    store: (from: bigint, all: Uint8Array): void => {
      all.forEach((byte, i) => memory.set(from + BigInt(i), byte));
    },
  };
}

describe('the public entry of the library', () => {
  type Machine = InstanceType<typeof Library.TextMachine>;

  /** A machine over text that the caller keeps, the probed address, and the bytes there. */
  function machineOver(library: typeof Library): { machine: Machine; address: bigint; bytes: () => string } {
    const image = library.readElf(readSample('x86-64/program-fentry'));
    const arch = library.archOf(image.header);
    const text = new library.ProbeText(library.load(image, arch), null);
    const found = text.validate({ kind: 'symbol', module: null, name: 'mix64', offset: 5n });
    if (found.kind === 'refused') throw new Error(found.reason);
    const { address, range } = found;
    const over = memoryOver(range);
    const machine = new library.TextMachine({
      support: library.probeSupport(arch),
      slots: new library.SlotPool([{ start: 0x50_0000n, end: 0x50_1000n }]),
      redZone: true,
      callees: [0x50_2000n],
      store: { isFile: false, ...over, sync: () => undefined },
      check: (asked) => {
        const place = text.validateAt(range, asked);
        return place.kind === 'refused' ? place : { ...place, ftrace: place.site !== null };
      },
    });
    return { machine, address, bytes: () => Buffer.from(over.read(address, 5)).toString('hex') };
  }

  test.each(['2009', 'modern'] as const)(
    'K-OPT-9 T-KP-38: the state machine of %s, over text of the caller',
    async (version) => {
      const library = (await import(pathToFileURL(join(root, 'dist', 'index.js')).href)) as typeof Library;
      const { Kprobe, Kprobes2009, KprobesModern, FLAGS_2009 } = library;
      const { machine, address, bytes } = machineOver(library);
      const core =
        version === '2009'
          ? new Kprobes2009(machine, { optimization: true })
          : new KprobesModern(machine, { optimization: true });
      const rest = (): void => {
        for (let i = 0; i < 4; i++) {
          core.tick(10);
          core.quiescence();
        }
      };
      const original = bytes();
      const probe = new Kprobe(address, {}, version === '2009' ? FLAGS_2009.OPTIMIZE : 0);
      expect(core.register(probe)).toBe('done');
      expect(bytes()).toBe(`cc${original.slice(2)}`);
      rest();
      expect(bytes().slice(0, 2)).toBe('e9');
      for (const [off, on] of [
        [() => core.disable(probe), () => core.enable(probe)],
        [() => core.disarmAll(), () => core.armAll()],
      ] as const) {
        expect(off()).toBe('done');
        rest();
        expect(bytes()).toBe(original);
        expect(on()).toBe('done');
        rest();
        expect(bytes().slice(0, 2)).toBe(version === '2009' ? 'cc' : 'e9');
      }
      expect(core.unregister(probe)).toBe('done');
      rest();
      expect([bytes(), core.states()]).toEqual([original, []]);
    },
  );
});
