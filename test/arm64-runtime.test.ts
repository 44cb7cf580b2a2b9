/**
 * The guest runtime of arm64: what the objects are made of, what an entry leaves as it was, and
 * programs that are traced everywhere. Expected words of the entries are those of A-ENT-1 to
 * A-ENT-8, which GNU as 2.40 made.
 */
import { join } from 'node:path';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { arm64Table, encodeBl } from '../src/arch-arm64/isa.js';
import { readElf } from '../src/elf/read.js';
import { OPS_WORDS, runtimeObject } from '../src/runtime/index.js';
import {
  ARM64_FLAVOURS,
  type Arm64Build,
  type Arm64Flavour,
  arm64Tools,
  linkArm64,
  plainTarget,
  runArm64,
  traceArm64,
} from './support/arm64-runtime.js';
import { combined, programPaths, scratch } from './support/c-programs.js';
import { isLong, isWhole, sampled } from './support/long.js';
import { PROGRAMS, startTraced } from './support/runtime-harness.js';
import { describeWith } from './support/tools.js';
import { conventionNames, conventionRow } from './support/conventions.js';

const imageOf = (flavour: Arm64Flavour) => readElf(runtimeObject('arm64', flavour)!);

function wordsAt(flavour: Arm64Flavour, from: string, to: string): string[] {
  const image = imageOf(flavour);
  const text = image.contents(image.section('.text')!);
  const view = new DataView(text.buffer, text.byteOffset, text.length);
  const at = (name: string): number => Number(image.symbols.value[image.symbols.find(name)]!);
  const words: string[] = [];
  for (let place = at(from); place < at(to); place += 4)
    words.push(view.getUint32(place, true).toString(16).padStart(8, '0'));
  return words;
}

describe('objects', () => {
  test('RT-1: flavours and their symbols; nothing undefined, no GOT, no unwind tables', () => {
    expect(conventionNames('arm64')).toEqual(['callops', 'regs', 'args', 'pg']);
    for (const flavour of ARM64_FLAVOURS) {
      const image = imageOf(flavour);
      const names = Object.values(conventionRow('arm64', flavour).symbols).flat();
      expect([flavour, names.filter((name) => image.symbols.find(name) <= 0)]).toEqual([flavour, []]);
      const absent = [...image.symbols.sectionIndex].flatMap((section, i) =>
        i > 0 && section === 0 ? [image.symbols.name(i)] : [],
      );
      expect([flavour, absent]).toEqual([flavour, []]);
      const sections = image.sections.map(({ name }) => name);
      expect(sections.filter((name) => /got|plt|eh_frame|note\.gnu/.test(name))).toEqual([]);
      // ABS64, adrp and its low parts, bl, b: no GOT form, no movw group.
      const types = new Set<number>();
      for (const section of image.sections)
        for (const { count, type } of image.relocationsOf(section)) for (let i = 0; i < count; i++) types.add(type[i]!);
      expect([...types].filter((type) => ![257, 275, 277, 282, 283, 284, 285, 286].includes(type))).toEqual([]);
    }
  });

  test('C-FG-7, RT-3: general registers only, no x18, atomics of the first processors', () => {
    for (const flavour of ARM64_FLAVOURS) {
      const image = imageOf(flavour);
      const text = image.contents(image.section('.text')!);
      const view = new DataView(text.buffer, text.byteOffset, text.length);
      let x18 = 0;
      for (let at = 0; at < text.length; at += 4) {
        const decoded = arm64Table.decode(view.getUint32(at, true));
        if (decoded === null) throw new Error(`${flavour}+${at.toString(16)}`);
        const { mnemonic } = decoded.row;
        expect(mnemonic).not.toMatch(/-[bhsdqv]($|-)|^f|^ld[1-4]|^st[1-4]|^cas|^swp|^ldadd|^ldset|simd/);
        for (const [name, value] of Object.entries(decoded.operands)) {
          if (/^(x[a-z]|r[a-z])/.test(name) && value === 18 && !name.includes('sh')) x18++;
        }
      }
      // The register entry saves it.
      expect([flavour, x18 <= (flavour === 'regs' ? 1 : 0)]).toEqual([flavour, true]);
    }
  });

  test('A-ENT-2, A-CO-2: the entry of per-callsite ops, word for word as far as the rules fix them', () => {
    const words = wordsAt('callops', 'ftrace_caller', 'ftrace_caller_end');
    expect(words.slice(0, 4)).toEqual(['d503245f', '927df3cb', 'f85f016b', 'f9400971']);
    // cbnz x17 to the last word, which is br x17.
    expect(words.at(-1)).toBe('d61f0220');
    const branch = Number.parseInt(words[4]!, 16);
    expect([branch & 0xff00_001f, ((branch >> 5) & 0x7ffff) + 4]).toEqual([
      0xb500_0011 & 0xff00_001f,
      words.length - 1,
    ]);
    expect(words.slice(5)).toEqual(
      expect.arrayContaining([
        'd10243ff',
        // stp x8, xzr, [sp, #64]: the word of the direct caller is 0.
        'a9047fe8',
        'd10013c0',
        'aa0903e1',
        '910003e3',
        'f9400044',
        'd63f0080',
        'd65f0120',
      ]),
    );
    expect(OPS_WORDS.directCall * 8).toBe(16);
    expect(OPS_WORDS.func).toBe(0);
  });

  test('A-ENT-1, A-ENT-4, A-ENT-5: first words of the others', () => {
    const regs = wordsAt('regs', 'ftrace_caller', 'ftrace_regs_caller_end');
    expect(regs.filter((word) => word === 'd10583ff').length).toBe(2);
    expect(regs.filter((word) => word.startsWith('94')).length).toBe(1);
    expect(regs.at(-1)).toBe('d65f0120');
    const pg = wordsAt('pg', 'ftrace_caller', 'ftrace_caller_end');
    expect([pg[1], pg.at(-2), pg.at(-1)]).toEqual(['a9bf7bfd', 'a8c17bfd', 'd65f03c0']);
    const first = (flavour: Arm64Flavour): string =>
      wordsAt(flavour, 'return_to_handler', 'ftrace_stub').concat(handler(flavour))[0]!;
    expect([first('pg'), first('regs'), first('args'), first('callops')]).toEqual([
      'd10103ff',
      'd10103ff',
      'd101c3ff',
      'd101c3ff',
    ]);
    // 6.2 and 6.3 differ in what is called, not in the frame.
    const [args, callops] = [
      wordsAt('args', 'ftrace_caller', 'ftrace_caller_end'),
      wordsAt('callops', 'ftrace_caller', 'ftrace_caller_end'),
    ];
    expect(args.slice(1, 16)).toEqual(callops.slice(5, 20));
    expect(args.slice(-14)).toEqual(callops.slice(-14));
    expect(args.filter((word) => word.startsWith('94') || word === 'd63f0080').length).toBe(1);
    for (const flavour of ARM64_FLAVOURS) {
      for (const entry of conventionRow('arm64', flavour).symbols.entries) {
        expect([flavour, entry, wordsAt(flavour, entry, 'ftrace_caller_end').concat(at(flavour, entry))[0]]).toEqual([
          flavour,
          entry,
          'd503245f',
        ]);
      }
    }
  });
});

/** The first word at a symbol. */
function at(flavour: Arm64Flavour, name: string): string[] {
  const image = imageOf(flavour);
  const text = image.contents(image.section('.text')!);
  const place = Number(image.symbols.value[image.symbols.find(name)]!);
  return [new DataView(text.buffer, text.byteOffset, text.length).getUint32(place, true).toString(16).padStart(8, '0')];
}
const handler = (flavour: Arm64Flavour): string[] => at(flavour, 'return_to_handler');

const pattern = (n: number): bigint =>
  (0x1234n << 48n) | (BigInt(0x5600 + n) << 32n) | 0x7abc_0000n | BigInt(0x100 + n);

describeWith(arm64Tools, 'registers', () => {
  const programs = ['preserve-arm64.c', 'preserve-arm64.S'].map((each) => join(PROGRAMS, 'runtime', each));
  test.each([
    ['regs', false, false],
    ['regs', false, true],
    ['args', false, false],
    ['args', false, true],
    ['callops', true, false],
    ['callops', true, true],
  ] as const)(
    'A-SITE-3, A-CO-2: %s, literal %s, landing pad %s: what is live at an entry is as it was',
    (flavour, literal, pad) => {
      const flags = [...(literal ? ['-DLITERAL'] : []), ...(pad ? ['-DLANDING_PAD'] : [])];
      const bytes = linkArm64({ flavour, sources: [], plain: programs, flags, bti: pad });
      for (const tracer of ['function', 'function_graph', 'counter'] as const) {
        for (const outcome of Object.values(runArm64(traceArm64(bytes, tracer)))) {
          expect(outcome.end).toBe(0);
          const got = outcome.output.trim().split('\n').map((each) => BigInt(`0x${each}`)); // prettier-ignore
          // x9 to x17 are free, x30 is the return address; x8 is free after a return, which the
          // graph tracer sees.
          const free = tracer === 'function_graph' ? 8 : 9;
          const live = Array.from({ length: 30 }, (_, n) => n).filter((n) => n < free || n > 17);
          expect(live.map((n) => got[n])).toEqual(live.map(pattern));
          expect(got[31]).toBe(0n);
          // The graph tracer has put its own.
          if (tracer !== 'function_graph') expect(got[32]).toBe(0n);
          else expect(got[32]).not.toBe(0n);
          expect(outcome.report).toMatchObject({
            head: { function: 1, function_graph: 2, counter: 0 }[tracer],
            count: tracer === 'counter' ? 1 : 0,
            'wrong-site': 0,
            'wrong-parent': 0,
            stopped: 0,
          });
        }
      }
    },
  );
});

/** What a callback finds in its frame, by the offsets of A-ENT-7 and A-ENT-8. */
describeWith(arm64Tools, 'frames', () => {
  const programs = ['preserve-arm64.c', 'preserve-arm64.S'].map((each) => join(PROGRAMS, 'runtime', each));
  test.each([
    [
      'regs',
      'ftrace_caller',
      336,
      [...Array(10).keys()],
      { fp: 232, lr: 240, sp: 248, pc: 256, traced: 336, own: 304 },
    ],
    [
      'regs',
      'ftrace_regs_caller',
      336,
      [...Array(30).keys()],
      { fp: 232, lr: 240, sp: 248, pc: 256, traced: 336, own: 304 },
    ],
    ['args', 'ftrace_caller', 112, [...Array(9).keys()], { fp: 80, lr: 88, sp: 96, pc: 104, traced: 128, own: 112 }],
    ['callops', 'ftrace_caller', 112, [...Array(9).keys()], { fp: 80, lr: 88, sp: 96, pc: 104, traced: 128, own: 112 }],
  ] as const)('A-ENT-1, A-ENT-2, C-TGT-7: %s, %s', (flavour, entry, bytes, numbers, at) => {
    const linked = traceArm64(
      linkArm64({ flavour, sources: [], plain: programs, flags: flavour === 'callops' ? ['-DLITERAL'] : [] }),
      'function',
    );
    const image = readElf(linked);
    const valueOf = (name: string): bigint => image.symbols.value[image.symbols.find(name)]!;
    const site = valueOf('probe_site');
    new DataView(linked.buffer, linked.byteOffset).setUint32(
      image.fileOffsetOf(site),
      encodeBl(site, valueOf(entry)),
      true,
    );
    const path = scratch('frame');
    writeFileSync(path, linked);
    const { machine } = startTraced(plainTarget, path).process;
    let stack = 0n;
    machine.hook(site, () => {
      stack = machine.register('sp');
      return 'continue';
    });
    machine.hook(valueOf('elftrace_function_tracer'), () => 'stop');
    expect(machine.run({ budget: 1_000_000 }).kind).toBe('hook');
    const [ip, parent, ops, regs] = ['x0', 'x1', 'x2', 'x3'].map((name) => machine.register(name));
    const word = (address: bigint): bigint => machine.readWord(address, 8)!;
    const slot = (offset: number): bigint => word(regs! + BigInt(offset));
    expect([ip, parent, ops]).toEqual([site, valueOf('returned'), valueOf('elftrace_data')]);
    // x9 is the parent; x29 has a slot of its own in the small frame.
    expect(numbers.map((n) => slot(8 * n))).toEqual(numbers.map((n) => (n === 9 ? parent : pattern(n))));
    expect([slot(at.fp), slot(at.lr), slot(at.sp), slot(at.pc)]).toEqual([pattern(29), parent, stack, site + 4n]);
    if (flavour !== 'regs') expect(slot(72)).toBe(0n);
    else expect(slot(280) !== 0n).toBe(entry === 'ftrace_regs_caller');
    // Unwinders: the entry, the traced function, its caller.
    expect(machine.register('x29')).toBe(regs! + BigInt(at.own));
    expect([slot(at.own), slot(at.own + 8)]).toEqual([regs! + BigInt(at.traced), site + 4n]);
    expect([slot(at.traced), slot(at.traced + 8)]).toEqual([pattern(29), parent]);
    expect(stack - regs!).toBe(BigInt(bytes + 16 * (flavour === 'regs' ? 1 : 2)));
  });
});

describeWith(arm64Tools, 'frame pointers', () => {
  test('C-FG-2, A-ENT-3: a function that loses the frame pointer returns, and the graph tracer stops for good', () => {
    const text = (body: string): string => `
	.text
	.globl	traced_main
	.type	traced_main, %function
	.type	callee, %function
traced_main: stp x29, x30, [sp, #-16]!
	bl	callee
	bl	callee
	ldp	x29, x30, [sp], #16
	mov	w0, #5
	ret
callee:	nop
	nop
	${body}
	ret
	.section __patchable_function_entries, "awo", %progbits, traced_main
	.balign	8
	.quad	callee
`;
    for (const [body, records, stopped] of [
      ['nop', 4, 0],
      ['add x29, x29, #16', 2, 1],
    ] as const) {
      const path = scratch('frame.S');
      writeFileSync(path, text(body));
      const linked = linkArm64({ flavour: 'regs', sources: [], plain: [path] });
      for (const outcome of Object.values(runArm64(traceArm64(linked, 'function_graph')))) {
        expect([outcome.end, outcome.report]).toMatchObject([5, { head: records, stopped, depth: 0 }]);
      }
    }
  });
});

/**
 * One build untraced and with each tracer: the same output, records that hold together, tracers
 * that agree on the number of calls.
 */
function check(build: Arm64Build): number {
  const linked = linkArm64(build);
  const { qemu: expected } = runArm64(linked);
  expect(expected.report).toMatchObject({ head: 0, count: 0 });
  const counts: number[] = [];
  for (const tracer of ['function', 'function_graph', 'counter'] as const) {
    const { qemu, here } = runArm64(traceArm64(linked, tracer));
    for (const outcome of [qemu, here]) {
      expect([tracer, outcome.end, outcome.output === expected.output]).toEqual([tracer, expected.end, true]);
      expect([tracer, outcome.report]).toMatchObject([
        tracer,
        { dropped: 0, 'wrong-site': 0, 'wrong-parent': 0, backwards: 0, depth: 0, stopped: 0 },
      ]);
      const { head = 0, count = 0, overrun = 0, abandoned = 0 } = outcome.report;
      counts.push({ function: head, function_graph: (head + abandoned) / 2 + overrun, counter: count }[tracer]);
    }
  }
  expect([...new Set(counts)]).toEqual([counts[0]]);
  return counts[0]!;
}

let calls = 0;

describeWith(arm64Tools, 'programs', () => {
  const features = [join(PROGRAMS, 'runtime/features.c')];
  test.each(ARM64_FLAVOURS)(
    'C-FG-1, C-FG-2, C-FG-3: %s: arguments, results, nested functions, tail calls, deep recursion',
    (flavour) => {
      for (const level of isWhole || (isLong && flavour === 'callops') ? ['0', '2', 's'] : ['2']) {
        // Functions of -Os are 4-aligned unless asked (A-CO-8): their sites are dropped.
        const counted = check({ flavour, sources: features, level, flags: ['-std=gnu11'] });
        expect(counted).toBeGreaterThan(level === 's' && flavour === 'callops' ? 100 : 500);
        calls += counted;
      }
    },
  );

  test.each(isWhole ? ARM64_FLAVOURS : ARM64_FLAVOURS.slice(-1))(
    'A-SITE-4: %s with landing pads that are checked',
    (flavour) => {
      const counted = check({ flavour, sources: features, flags: ['-std=gnu11'], bti: true });
      expect(counted).toBeGreaterThan(500);
      calls += counted;
    },
  );

  test('A-SITE-4: without the landing pad of a callback neither machine goes on', () => {
    const bytes = traceArm64(
      linkArm64({ flavour: 'callops', sources: features, flags: ['-std=gnu11'], bti: true }),
      'function',
    );
    const image = readElf(bytes);
    const at = image.fileOffsetOf(image.symbols.value[image.symbols.find('elftrace_function_tracer')]!);
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    expect(view.getUint32(at, true)).toBe(0xd503_245f);
    view.setUint32(at, 0xd503_201f, true);
    const { qemu, here } = runArm64(bytes);
    expect([qemu.end, String(here.end)]).toEqual([
      'signal SIGILL',
      expect.stringMatching(/^(fault|illegal|trap|signal)/),
    ]);
  });

  test.each(ARM64_FLAVOURS)(
    'C-FG-7: %s: eight doubles, mixed and variable arguments, complex results (qemu)',
    (flavour) => {
      const linked = linkArm64({ flavour, sources: [join(PROGRAMS, 'runtime/doubles.c')], flags: ['-std=gnu11'] });
      const expected = runArm64(linked).qemu;
      for (const tracer of ['function', 'function_graph', 'counter'] as const) {
        const { qemu } = runArm64(traceArm64(linked, tracer));
        expect([tracer, qemu.end, qemu.output]).toEqual([tracer, expected.end, expected.output]);
      }
    },
  );

  test('PAC: signed return addresses: sites precede the signature; -pg, whose sites follow it, is traced and not hooked', () => {
    const flags = ['-std=gnu11', '-mbranch-protection=pac-ret'];
    for (const flavour of isWhole ? ARM64_FLAVOURS : (['pg', 'callops'] as const)) {
      const linked = linkArm64({ flavour, sources: features, flags });
      const expected = runArm64(linked).qemu;
      for (const tracer of ['function', 'function_graph'] as const) {
        const { qemu, here } = runArm64(traceArm64(linked, tracer));
        for (const each of [qemu, here])
          expect([flavour, tracer, each.end, each.output]).toEqual([flavour, tracer, expected.end, expected.output]);
        expect(qemu.report).toMatchObject({ 'wrong-parent': 0, 'wrong-site': 0 });
        expect(qemu.report['head']).toBe(here.report['head']);
        expect(qemu.report['head']! > 500).toBe(!(flavour === 'pg' && tracer === 'function_graph'));
      }
    }
  });

  // The entries of args have the frame of callops and the callee of regs; the other programs
  // above run through all entries.
  test.each(isWhole ? ARM64_FLAVOURS.filter((each) => each !== 'args') : (['callops'] as const))(
    'F-11: the collection of C programs, %s',
    (flavour) => {
      const source = scratch('all.c');
      writeFileSync(source, combined(sampled(programPaths(), 3)), 'latin1');
      calls += check({ flavour, sources: [source], flags: ['-std=gnu11'] });
    },
  );

  test('measured', () => {
    process.stdout.write(`traced calls on arm64: ${calls}\n`);
    expect(calls).toBeGreaterThan(isLong ? 10_000 : 3000);
  });
});

test('abi: offsets that entry.h and the core of the rules agree on', () => {
  const text = readFileSync(join(PROGRAMS, '../../src/arch-arm64/entry.h'), 'utf8');
  for (const [name, value] of [
    ['F_DIRECT', 72],
    ['F_FP', 80],
    ['F_LR', 88],
    ['F_SP', 96],
    ['F_PC', 104],
  ] as const)
    // prettier-ignore
    expect(text).toContain(`#define ${name} ${value}\n`);
});
