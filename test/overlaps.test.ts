/**
 * Sites and the places of other patching mechanisms (F-6): objects with tables made by hand in the
 * formats of each machine, and real modules, both held against a second reader that is made of
 * readelf's output.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { otherRanges } from '../src/sites/overlaps.js';
import { planSites } from '../src/patch/plan-sites.js';
import { verify } from '../src/sites/verdicts.js';
import { confirmedOverlaps, decodeRanges } from './support/patch-decoder.js';
import { openBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';
import { longTest, sampled } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-overlaps-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface Machine {
  readonly assembler: readonly string[];
  /** A site, with the slot that names it. */
  readonly site: string;
  readonly slot: string;
  /** One instruction of four bytes (five on x86-64) and one of half as many, or of four. */
  readonly long: string;
  readonly short: string;
  /** The entry of an alternative: `1` to `2` is replaced by `3` to `4`. */
  readonly alternative: string;
  readonly jumpLabel: string;
}

/** Distances from the field that holds them, two words of 32 bits. */
const pair = (first: string, second: string): string => `.4byte ${first} - .\n.4byte ${second} - .\n`;
const ownJumpLabel = (word: 4 | 8): string =>
  `.section __jump_table,"aw"\n${pair('site_label', 'jump_target')}.${word}byte 0\n`;
const slots = (word: 4 | 8): string => `.section __patchable_function_entries,"aw"\n.balign ${word}\n.${word}byte g\n`;
const fixup = (word: 4 | 8): string =>
  `.section __ftr_fixup,"a"\n5: .${word}byte 1\n.${word}byte 1\n` +
  ['1b', '2b', '3b', '4b'].map((label) => `.${word}byte ${label} - 5b\n`).join('');

const machines: Readonly<Record<string, Machine>> = {
  'x86-64': {
    assembler: ['x86_64-linux-gnu-as', '--64'],
    site: 'call __fentry__\n',
    slot: '.section __mcount_loc,"a"\n.8byte g\n',
    long: '.byte 0x0f, 0x1f, 0x44, 0, 0\n',
    short: 'xchg %ax,%ax\n',
    alternative: `.section .altinstructions,"a"\n${pair('1b', '3b')}.4byte 9\n.byte 2b - 1b\n.byte 4b - 3b\n`,
    jumpLabel: ownJumpLabel(8),
  },
  riscv64: {
    assembler: ['riscv64-linux-gnu-as', '-march=rv64gc'],
    site: 'c.nop\nc.nop\nc.nop\nc.nop\n',
    slot: slots(8),
    long: '.option push\n.option norvc\nli t0, 1\n.option pop\n',
    short: 'c.nop\n',
    alternative: `.section .alternative,"a"\n${pair('1b', '3b')}.2byte 0x5b7\n.2byte 4b - 3b\n.4byte 0\n`,
    jumpLabel: ownJumpLabel(8),
  },
  arm64: {
    assembler: ['aarch64-linux-gnu-as'],
    site: 'nop\nnop\n',
    slot: slots(8),
    long: 'mov x1, 1\n',
    short: 'mov x1, 1\n',
    alternative: `.section .altinstructions,"a"\n${pair('1b', '3b')}.2byte 5\n.byte 2b - 1b\n.byte 4b - 3b\n`,
    jumpLabel: ownJumpLabel(8),
  },
  'ppc64-elfv2-le': {
    assembler: ['powerpc64le-linux-gnu-as', '-mpower8', '-a64', '-mlittle'],
    site: 'nop\nnop\n',
    slot: slots(8),
    long: 'li 5, 1\n',
    short: 'li 5, 1\n',
    alternative: fixup(8),
    jumpLabel: ownJumpLabel(8),
  },
  ppc32: {
    assembler: ['powerpc-linux-gnu-as', '-a32', '-mbig'],
    site: 'nop\nnop\n',
    slot: slots(4),
    long: 'li 5, 1\n',
    short: 'li 5, 1\n',
    alternative: fixup(4),
    jumpLabel: ownJumpLabel(4),
  },
};

/**
 * The text of an object: what stands in front of the site, the site with a label at its second
 * instruction, what stands behind.
 */
function object({ site, slot }: Machine, before: string, labelled: string, after: string, table: string): string {
  const [first, ...rest] = site.split('\n');
  const inside = `${first!}\n${labelled}${rest.join('\n')}`;
  return `.text\n.globl f\n.type f, %function\nf: ${before}\n.globl g\n.type g, %function\ng: ${inside}\n${after}\n${slot}${table}`;
}

let serial = 0;

/** Assembles, and plans to initialise (on x86-64 to nop) all sites. */
function planOf({ assembler }: Machine, source: string): { readonly file: string; readonly refused: string[] } {
  const file = join(folder, `${serial++}.o`);
  writeFileSync(`${file}.s`, source.replaceAll('%function', '@function'));
  run(assembler[0]!, [...assembler.slice(1), '-o', file, `${file}.s`]);
  const { sites, arch } = openBytes(new Uint8Array(readFileSync(file)));
  expect(sites.count).toBe(1);
  const plan = planSites(sites, { to: { kind: arch.target.id === 'x86-64' ? 'nop' : 'init' } });
  expect(plan.changed).toBe(1 - plan.refusals.length);
  return { file, refused: plan.refusals.map(({ code, reason }) => `${code}: ${reason}`) };
}

/** What a plan refuses, and what the second reader finds. */
function outcome(machine: Machine, source: string): { readonly refused: string[]; readonly confirmed: string[] } {
  const { file, refused } = planOf(machine, source);
  return { refused, confirmed: confirmedOverlaps(file) };
}

const withTools = [...Object.values(machines).map(({ assembler }) => assembler[0]!), 'readelf'];

describeWith(withTools, 'tables made by hand', () => {
  for (const [name, machine] of sampled(Object.entries(machines), 2)) {
    const { long, short, alternative, jumpLabel } = machine;
    const apart = `4:\n.section .other,"ax"\n3: ${long}4:\n`;

    test(`F-6 ${name}: what is replaced ends where the site begins, and what replaces it too`, () => {
      // Both blocks lie in front of the site: the label behind the second is the site's address.
      const fine = outcome(machine, object(machine, `1: ${long}2: 3: ${long}4:`, '', '', alternative));
      expect(fine).toEqual({ refused: [], confirmed: [] });
    });

    test(`F-6 ${name}: places in the distance of the table's own fields are no places`, () => {
      // With the offset of the field in the entry added, start and end would lie in the site.
      for (const filling of [2, 3, 4, 5, 6, 7]) {
        const source = object(machine, `1: ${long}2: ${long.repeat(filling)}`, '', apart, alternative);
        expect(outcome(machine, source)).toEqual({ refused: [], confirmed: [] });
      }
    });

    test(`F-6 ${name}: a range that begins in front of the site and reaches into it`, () => {
      if (name === 'riscv64') {
        // Its length is that of what replaces it: four bytes, two of them the site's.
        const { refused, confirmed } = outcome(machine, object(machine, `1: ${short}2:`, '', apart, alternative));
        expect(refused).toEqual(['overlaps-patch-range: an alternative lies inside the site']);
        expect(confirmed).toHaveLength(1);
        return;
      }
      if (name === 'x86-64') {
        const wide = alternative.replace('.byte 2b - 1b', '.byte 5');
        const { refused, confirmed } = outcome(machine, object(machine, `1: ${short}2:`, '', apart, wide));
        expect(refused).toEqual(['overlaps-patch-range: an alternative lies inside the site']);
        expect(confirmed).toHaveLength(1);
        return;
      }
      const wide = alternative.replace('2b - 1b', '8');
      const { refused, confirmed } = outcome(machine, object(machine, `1: ${long}`, '2:', apart, wide));
      const what = name.startsWith('ppc') ? 'a feature fix-up' : 'an alternative';
      expect(refused).toEqual([`overlaps-patch-range: ${what} lies inside the site`]);
      expect(confirmed).toHaveLength(1);
    });

    test(`F-6 ${name}: a jump label in the site, and one that only leads there`, () => {
      const at = (label: string, target: string): string =>
        object(machine, `${target}${long}`, '', `${label}${long}jump_target: ${long}`, jumpLabel);
      expect(outcome(machine, at('site_label: ', ''))).toEqual({ refused: [], confirmed: [] });
      const inside = object(machine, 'jump_target: ' + long, '', '', jumpLabel.replace('site_label', 'g'));
      expect(outcome(machine, inside).refused).toEqual(['overlaps-patch-range: a jump label lies inside the site']);
      expect(outcome(machine, inside).confirmed).toHaveLength(1);
      const leads = object(machine, `site_label: ${long}`, '', '', jumpLabel.replace('jump_target', 'g'));
      expect(outcome(machine, leads)).toEqual({ refused: [], confirmed: [] });
    });
  }

  test('F-6 a table in no known form: every place that it names counts', () => {
    const machine = machines['x86-64']!;
    const table = `.section .altinstructions,"a"\n.4byte 0\n${pair('g', 'f')}`;
    expect(planOf(machine, object(machine, machine.long, '', '', table)).refused).toEqual([
      'overlaps-patch-range: an alternative of a form that is not known lies inside the site',
    ]);
  });
});

/**
 * Functions as kernels with call padding have them, that begin with a nop of a static key: two
 * bytes, or five as older jump labels are.
 */
const padded = (nops: readonly string[], table: string): string =>
  nops
    .map(
      (nop, i) =>
        `.section __patchable_function_entries,"awo",@progbits,.text\n.8byte __pfx_f${i}\n.text\n.p2align 4\n` +
        `.type __pfx_f${i}, @function\n__pfx_f${i}: .skip 16, 0x90\n.globl f${i}\n.type f${i}, @function\nf${i}: endbr64\n` +
        `key${i}: ${nop}\nret\n.size f${i}, . - f${i}\n${table.replaceAll('%', String(i))}`,
    )
    .join('');

describeWith(['x86_64-linux-gnu-as'], 'call padding', () => {
  const label = `.section __jump_table,"aw"\n${pair('key%', 'f%')}.8byte 0\n.text\n`;
  const twoBytes = '.byte 0x66, 0x90';
  const fiveBytes = '.byte 0x0f, 0x1f, 0x44, 0, 0';
  const open = (source: string): ReturnType<typeof openBytes> => {
    const file = join(folder, `${serial++}.o`);
    writeFileSync(`${file}.s`, source);
    run('x86_64-linux-gnu-as', ['--64', '-o', file, `${file}.s`]);
    return openBytes(new Uint8Array(readFileSync(file)));
  };

  test('X-SITE-1 a nop of a static key behind the pad is no site', () => {
    for (const nops of [[twoBytes], [fiveBytes], [twoBytes, 'nop; nop; nop; nop; nop', fiveBytes]]) {
      const { sites } = open(padded(nops, label));
      expect(sites.tables.map(({ name, role }) => [name, role])).toEqual([['__patchable_function_entries', 'padding']]);
      expect(sites.count).toBe(0);
    }
  });

  test('X-SITE-1 the same nops without a jump label are the rest of a pad', () => {
    expect(verify(open(padded([twoBytes], '')).sites).verdicts).toEqual({ 'unsupported-shape': 1 });
    expect(verify(open(padded([fiveBytes], '')).sites).verdicts).toEqual({ ok: 1 });
  });
});

const corpus = process.env['ELFTRACE_CORPUS'] ?? '';

(corpus !== '' && existsSync(corpus) ? describe : describe.skip)('real modules', () => {
  longTest(
    'F-6 places by our reader are those of the second one, and no site is refused that it does not confirm',
    () => {
      const files = readdirSync(corpus, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ko'));
      const counts = { files: 0, places: 0, sites: 0 };
      for (const file of files.map((each) => join(corpus, each))) {
        // Printing all that is in the largest takes readelf seconds.
        if (statSync(file).size > 500_000) continue;
        const { program, sites } = openBytes(new Uint8Array(readFileSync(file)));
        const ours = otherRanges(program).list.filter(({ kind }) => kind === 'patched');
        if (ours.length === 0) continue;
        const decoded = decodeRanges(file);
        const theirs = decoded.filter(({ start, end }) => end > start);
        const shown = ours.map(({ section, offset, end }) => ({ section, start: Number(offset), end: Number(end) }));
        const known = new Map(shown.map((each) => [`${each.section}+${each.start}`, each.end]));
        expect([file, shown.map(({ section, start }) => `${section}+${start}`).sort()]).toEqual([
          file,
          theirs.map(({ section, start }) => `${section}+${start}`).sort(),
        ]);
        // Where the second reader knows the length, it is the same.
        for (const { section, start, end } of theirs) {
          if (end > start + 1) expect([file, start, known.get(`${section}+${start}`)]).toEqual([file, start, end]);
        }
        const plan = planSites(sites, { to: { kind: 'init' } });
        const refused = plan.refusals.filter(({ code }) => code === 'overlaps-patch-range');
        expect([file, refused.length]).toEqual([file, confirmedOverlaps(file, decoded).length]);
        counts.files++;
        counts.places += ours.length;
        counts.sites += sites.count;
      }
      process.stdout.write(
        `overlaps: ${counts.sites} sites and ${counts.places} places of ${counts.files} modules, as the second reader has them\n`,
      );
      expect(counts.files).toBeGreaterThan(40);
    },
    60_000,
  );
});

describeWith(['aarch64-linux-gnu-as', 'aarch64-linux-gnu-ld'], 'tables of a linked kernel', () => {
  /** f and h have slots; g begins with a jump label that is off, and a nop of its own. */
  const linked = (bounds: boolean): ReturnType<typeof openBytes> => {
    const code = ['f', 'g', 'h'].map((name) => `.type ${name}, @function\n${name}: nop\nnop\nret\nret\n.size ${name}, . - ${name}\n`); // prettier-ignore
    const [start, stop] = ['start', 'stop'].map(
      (which) => `.globl __${which}___jump_table\n__${which}___jump_table:\n`,
    );
    const table = `.data\n${bounds ? start : ''}${pair('g', 'h')}.8byte 0\n${bounds ? stop : ''}`;
    const listed = '.section __patchable_function_entries,"aw"\n.balign 8\n.8byte f, h\n';
    const [s, o, out] = ['k.s', 'k.o', 'k'].map((name) => join(folder, name)) as [string, string, string];
    writeFileSync(s, `.text\n${code.join('')}${table}${listed}`);
    run('aarch64-linux-gnu-as', [s, '-o', o]);
    run('aarch64-linux-gnu-ld', ['--entry=f', o, '-o', out]);
    return openBytes(new Uint8Array(readFileSync(out)));
  };

  test('F-6 M-PAD-3 a table that symbols delimit in the data is read as the section is', () => {
    const { program, sites } = linked(true);
    const at = program.symbols.value[program.symbols.find('g')]!;
    expect(otherRanges(program).overlapping(-1, at, at + 4n)).toBe('a jump label');
    expect(otherRanges(program).overlapping(-1, at + 4n, at + 8n)).toBeNull();
    expect(verify(sites).verdicts).toEqual({ ok: 2 });
    // Where nothing says that the nop is a jump label's it is a pad.
    expect(verify(linked(false).sites).verdicts).toEqual({ ok: 2, 'pad-without-slot': 1 });
  });
});
