/**
 * Pages about images, without a browser: the block of data, the rows of sites against objdump, nm
 * and the other verbs, traces against folded stacks, and that nothing foreign is markup.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { packBlock, unpackBlock, unsigned } from '../src/page/columns.js';
import { pageAround, pageData } from '../src/page/index.js';
import type { PageHead } from '../src/page/model.js';
import { escapeHtml, htmlFrame } from '../src/report/html.js';
import { readTrace } from '../src/trace/read.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, errorOf, openBytes, readSample, root } from './support/pipeline.js';
import { type ReadPage, readPage } from './support/page.js';
import { describeWith, run } from './support/tools.js';
import { repeats } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'page-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);

/** Runs the verb; the page that it wrote. */
function pageOf(...args: string[]): ReadPage {
  const output = at('page.html');
  const result = elftrace(['html', ...args, '-o', output]);
  expect([args, result.status, result.stderr]).toEqual([args, 0, '']);
  return readPage(readFileSync(output, 'utf8'));
}

const verdictsOf = ({ columns, head }: ReadPage): Record<string, number> => {
  const found: Record<string, number> = {};
  for (const each of columns['site.verdict']!)
    found[head.verdicts[each]!.name] = (found[head.verdicts[each]!.name] ?? 0) + 1;
  return found;
};

describe('the block of data', () => {
  test('comes back as it was packed', () => {
    const columns = fc.record({
      a: fc.array(fc.nat(0xff)).map((each) => Uint8Array.from(each)),
      b: fc.array(fc.nat(0xffff)).map((each) => Uint16Array.from(each)),
      c: fc.array(fc.nat(0xffff_ffff)).map((each) => Uint32Array.from(each)),
      d: fc.array(fc.integer()).map((each) => Int32Array.from(each)),
      e: fc.array(fc.double({ noNaN: true })).map((each) => Float64Array.from(each)),
    });
    fc.assert(
      fc.property(columns, fc.string({ unit: 'binary' }), (all, head) => {
        const back = unpackBlock<string>(packBlock({ head, columns: all }));
        expect([back.head, back.columns]).toEqual([head, all]);
      }),
      { seed: 1, numRuns: 100 },
    );
    expect([[255], [256], [0x1_0000]].map((each) => unsigned(each).BYTES_PER_ELEMENT)).toEqual([1, 2, 4]);
  });
});

describe('frame', () => {
  test('foreign text is text: five characters are escaped, what hides or reorders is shown', () => {
    expect(escapeHtml(`<a href='x' title="y">&\u202e\u0000\u001b`)).toBe(
      '&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;\\u202e\\x00\\x1b',
    );
    const html = htmlFrame({ title: '</title><script>alert(1)</script>', style: 'a{}', body: '' });
    expect(html).toContain('<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>');
    expect(html).toContain("script-src 'none'");
  });

  test('the policy names the hash of the one script and style, and nothing else may load or run', () => {
    const html = htmlFrame({ title: '', style: 'a{}', body: '', script: 'let a' });
    const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)![1]!;
    const hash = (text: string): string => createHash('sha256').update(text).digest('base64');
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `style-src 'sha256-${hash('a{}')}'`,
      `script-src 'sha256-${hash('let a')}'`,
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
    ]);
    expect(() => htmlFrame({ title: '', style: 'a{}</style>', body: '' })).toThrow(RangeError);
    expect(() => htmlFrame({ title: '', style: '', body: '', script: '"</script>"' })).toThrow(RangeError);
  });

  test('hostile names of files and symbols are in no markup of a page', async () => {
    const attack = '<img src=x onerror=alert(1)>"\'</script>';
    const { sites } = openBytes(readSample('x86-64/program-fentry'));
    const { bytes, head } = await pageData({ title: attack, files: [{ name: attack, sites, remarks: [attack] }] });
    const html = await pageAround(bytes, head.title, 'let a');
    expect(html).not.toContain('<img');
    expect(html.match(/<\/script>/g)).toHaveLength(2);
    expect(readPage(html).head.files[0]!.name).toBe(attack);
  });
});

describe('rows', () => {
  const names = [
    'x86-64/module-fentry.ko',
    'ppc64-elfv1/program-mcount',
    'riscv64/program-patchable-8-4',
    'arm64/core-patchable-2',
  ];
  test.each(names)('%s: verdicts and sites are those of verify and list', (name) => {
    const page = pageOf(sample(name));
    const verified = JSON.parse(elftrace(['verify', '--json', sample(name)]).stdout) as { verdicts: Record<string, number> };
    const wanted = Object.fromEntries(Object.entries(verified.verdicts).filter(([, count]) => count > 0));
    expect(verdictsOf(page)).toEqual(wanted);
    const listed = JSON.parse(elftrace(['list', '--json', sample(name)]).stdout) as { functions: { name: string; site: string; siteOffset: number | null; shape: string; state: string }[] };
    const rows = new Map([...page.columns['site.low']!.keys()].map((row) => [`${page.text('site.section', row)} ${page.address(row)}`, row]));
    for (const each of listed.functions) {
      const row = [...rows].find(([key, found]) => key.endsWith(` ${BigInt(each.site)}`) && page.text('site.function', found) === each.name)?.[1];
      expect([each.name, row]).toEqual([each.name, expect.any(Number)]);
      expect([page.columns['site.offset']![row!], page.text('site.shape', row!), page.text('site.state', row!)]).toEqual([each.siteOffset, each.shape, each.state]);
    }
  }); // prettier-ignore

  test('the record of a patched file is the code before, its bytes are the code after', () => {
    const original = sample('x86-64/program-fentry');
    const patched = at('patched');
    elftrace(['patch', '--nop', original, '-o', patched]);
    const bytes = readSample('x86-64/program-fentry');
    const { sites } = openBytes(bytes);
    const page = pageOf(patched);
    const now = readFileSync(patched);
    let changed = 0;
    for (let row = 0; row < sites.count; row++) {
      const offset = sites.fileOffset(row);
      const [was, is] = [bytes, now].map((each) => Buffer.from(each.subarray(offset, offset + 5)).toString('hex').replace(/..(?=.)/g, '$& '));
      expect(page.text('site.now', row).split('\t')[0]).toBe(is);
      expect(page.text('site.before', row).split('\t')[0]).toBe(was === is ? '' : was);
      if (was === is) continue;
      changed++;
      expect([page.text('site.before', row).split('\t')[1], page.text('site.now', row)]).toEqual([expect.stringMatching(/^call 0x/), '0f 1f 44 00 00\tnop dword ptr [rax + rax]']);
    }
    expect(changed).toBeGreaterThan(5);
    const fresh = pageOf(original);
    expect([fresh.text('site.before', 0), fresh.text('site.nop', 0)]).toEqual(['', page.text('site.now', 0)]);
  }); // prettier-ignore

  test('a site that is wrong has its verdict, its rule, and what was expected', () => {
    const bytes = readSample('x86-64/module-fentry.ko');
    bytes[openBytes(bytes).sites.fileOffset(3)] = 0xcc;
    writeFileSync(at('bad.ko'), bytes);
    const page = pageOf(at('bad.ko'));
    const row = [...page.columns['site.verdict']!].findIndex((each) => page.head.verdicts[each]!.name === 'wrong-bytes');
    expect([row, page.text('site.rule', row), page.text('site.expected', row).split('\t')[0]]).toEqual([3, 'C-UPD-2', 'e8 00 00 00 00']);
    expect(verdictsOf(page)['wrong-bytes']).toBe(1);
  }); // prettier-ignore

  test('functions that no table names are rows, too', () => {
    const bytes = readSample('x86-64/module-mcount.ko');
    const { sites } = openBytes(bytes);
    const finding = { site: -1, verdict: 'pad-without-slot', severity: 'error', rule: 'M-PAD-3', address: 0x40n, section: '.text', offset: 0x40n, function: 'gone', expected: new Uint8Array(), actual: new Uint8Array([0x90]), message: 'no table names it' } as const;
    const verification = { sites: 0, verdicts: {}, findings: [finding], lint: [], remarks: [], incomplete: null };
    return pageData({ files: [{ name: 'a', sites, verification }] }).then(({ head, page, bytes: block }) => {
      const { columns } = unpackBlock<PageHead>(block);
      expect([page.rows, page.verdicts['pad-without-slot']]).toEqual([sites.count + 1, 1]);
      expect(head.strings[columns['site.function']!.at(-1)!]).toBe('gone');
    });
  }); // prettier-ignore
});

describeWith(['objdump', 'nm'], 'against binutils', () => {
  test.each(['x86-64/program-fentry', 'arm64/program-patchable-2', 'ppc64-elfv2-le/program-mprofile', 'riscv64/program-patchable-8'])('%s: the code of each site is at its address', (name) => {
    const page = pageOf(sample(name));
    const lines = new Map<bigint, string>();
    for (const [, place, bytes] of run('objdump', ['-d', '--insn-width=16', sample(name)]).toString().matchAll(/^ *([0-9a-f]+):\t([0-9a-f ]+?) *(?:\t|$)/gm)) lines.set(BigInt(`0x${place!}`), bytes!.replaceAll(' ', ''));
    let checked = 0;
    for (const row of page.columns['site.low']!.keys()) {
      const code = page.text('site.now', row).split('\n').map((line) => line.split('\t')[0]!.replaceAll(' ', ''));
      // objdump prints words of machines with words of one size as numbers.
      const same = (bytes: string, shown: string | undefined): boolean => shown === bytes || shown === bytes.match(/../g)!.reverse().join('');
      const first = [...lines].find(([place, shown]) => place <= page.address(row) && page.address(row) - place < 16n && same(code[0]!, shown));
      expect([name, page.text('site.function', row), first !== undefined]).toEqual([name, page.text('site.function', row), true]);
      checked++;
    }
    expect(checked).toBeGreaterThan(5);
  }); // prettier-ignore

  test.each(repeats(['ppc64-elfv2-le', 'arm64', 'riscv64', 'x86-64'], 2))('%s: far sites lead over a stub and an entry to the tracer', (target) => {
    const [image, traced] = [at(`image-${target}`), at(`traced-${target}`)];
    const parts = ['core.o', 'far-one.ko', 'far-two.ko'].map((each) => sample(`${target}/${each}`));
    expect(elftrace(['load', ...parts, '-o', image]).status).toBe(0);
    expect(elftrace(['patch', '--enable', image, '-o', traced]).status).toBe(0);
    const page = pageOf(traced, '--diff', image);
    const symbols = new Map(run('nm', [traced]).toString().split('\n').map((line) => line.split(' ')).map(([value, , name]) => [name, BigInt(`0x${value || '0'}`)]));
    const row = [...page.columns['site.function']!.keys()].find((each) => page.text('site.function', each).replace(/^\./, '') === 'far_one_sum')!;
    const { hops } = page.head.ways[page.columns['site.way']![row]!]!;
    const kinds = hops.map(({ kind }) => kind);
    expect([kinds[0] === 'stub' || target === 'arm64' || target === 'riscv64', kinds.at(-1)]).toEqual([true, 'tracer']);
    const tracer = hops.at(-1)!;
    // ELFv2: calls within the image go to the local entry, 8 bytes on.
    const local = target.startsWith('ppc64-elfv2') ? 8n : 0n;
    expect([tracer.name.split('+')[0], BigInt(tracer.address)]).toEqual(['elftrace_function_tracer', symbols.get('elftrace_function_tracer')! + local]);
    expect(page.head.files[0]!.arcs.reduce((sum, { count }) => sum + count, 0)).toBe(page.columns['site.way']!.length);
    const changes = [...page.columns['diff.change']!.keys()].map((each) => page.text('diff.change', each));
    const told = JSON.parse(elftrace(['diff', '--json', image, traced]).stdout) as { counts: Record<string, number> };
    for (const [change, count] of Object.entries(told.counts)) expect([change, changes.filter((each) => each === change).length]).toEqual([change, count]);
  }); // prettier-ignore
});

describe('traces', () => {
  const program = sample('x86-64/program-fentry');
  test('the flame graph has the stacks of --format folded, with their instructions', () => {
    const [ndjson, folded] = [at('t.ndjson'), at('t.folded')];
    elftrace(['run', '--trace-source=oracle', '--trace', ndjson, program]);
    elftrace(['run', '--trace-source=oracle', '--trace', folded, '--format', 'folded', program]);
    const page = pageOf(program, '--trace', ndjson);
    const { 'flame.parent': parent, 'flame.self': self } = page.columns;
    const path = (node: number): string =>
      node === 0 ? '' : `${path(parent![node]!)};${page.text('flame.function', node)}`;
    const sums = new Map([...self!.keys()].slice(1).map((node) => [path(node).slice(1), self![node]!]));
    const lines = readFileSync(folded, 'utf8').trim().split('\n').map((line) => /^(.*) (\d+)$/.exec(line)!);
    expect(lines.length).toBeGreaterThan(5);
    // What ran outside of every function is no stack of the trace; the last function ends with it.
    for (const [, stack, count] of lines) {
      if (stack!.startsWith('[outside]')) continue;
      expect([stack, Math.abs(sums.get(stack!)! - Number(count)) <= (stack!.includes(';') ? 0 : 20)]).toEqual([stack, true]);
    }
    const events = readFileSync(ndjson, 'utf8').trim().split('\n').length - 1;
    expect(page.head.trace).toMatchObject({ events, clock: 'instructions', source: 'oracle', nested: true });
    expect(page.columns['slice.start']!.length).toBe(page.head.trace!.functions.reduce((sum, [, calls]) => sum + calls, 0));
  }); // prettier-ignore

  const head = '{"schema":1,"clock":"ticks","source":"guest","image":"a"';
  const event = (kind: string, name: string, time: number, depth = 0): string =>
    JSON.stringify({ kind, function: name, address: '0x0', site: null, cpu: 0, depth, time });

  test('slices, own time and recursion, by hand; what did not return and what was lost is said', () => {
    const text = [
      `${head},"written":9,"kept":7,"dropped":1}`,
      event('entry', 'a', 10),
      event('entry', 'b', 12, 1),
      event('entry', 'a', 13, 2),
      event('return', 'a', 15, 2),
      event('return', 'b', 20, 1),
      event('probe', 'a', 21),
      event('entry', 'c', 22, 1),
    ].join('\n');
    const { sites } = openBytes(readSample('x86-64/program-fentry'));
    return pageData({ files: [{ name: 'f', sites }], trace: { name: 't', text } }).then(({ head: made, bytes }) => {
      const { columns } = unpackBlock<PageHead>(bytes);
      const sums = made.trace!.functions.map(([name, ...rest]) => [made.strings[name], ...rest]);
      expect(sums).toEqual([
        ['a', 2, 6, 12],
        ['b', 1, 6, 8],
        ['c', 1, 0, 0],
      ]);
      expect([[...columns['slice.start']!], [...columns['slice.length']!]]).toEqual([
        [10, 12, 13, 22],
        [12, 8, 2, 0],
      ]);
      expect(made.trace!.notices.map((each) => each.replace(/:.*/, ''))).toEqual([
        '1 events could not be recorded',
        '2 events were overwritten before the trace was read',
        '1 events that are no call (probes, direct calls, marks) are counted, not drawn',
        '2 functions did not return',
      ]);
    });
  });

  test.each([
    ['', 1, /no JSON/],
    ['[]', 1, /no JSON object/],
    ['{"schema":2}', 1, /"schema":1/],
    [`${head.replace('ticks', 'days')}}`, 1, /clock/],
    [`${head.replace('guest', 'nobody')}}`, 1, /source/],
    [`${head}}\n${event('entry', 'a', -1)}`, 2, /whole numbers/],
    [`${head}}\n${event('entry', 'a', 1)}\n${event('leap', 'a', 1)}`, 3, /no kind/],
    [`${head}}\n{"kind":"entry","cpu":0,"depth":0,"time":0}`, 2, /without a function/],
  ])('%j is no trace', (text, line, why) => {
    const error = errorOf(() => {
      for (const _ of readTrace(text).events);
    });
    expect([error.code, error.context.value]).toEqual(['bad-record', line]);
    expect(error.message).toMatch(why);
  });
});

describe('proofs', () => {
  const [image, traced] = [at('proof-image'), at('proof-traced')];
  let lines: string[] = [];

  test('each site has what prove said of it', () => {
    const parts = ['core.o', 'far-one.ko'].map((each) => sample(`arm64/${each}`));
    elftrace(['load', ...parts, '-o', image]);
    expect(elftrace(['patch', '--enable', '-l', 'core_*', image, '-o', traced]).status).toBe(0);
    lines = elftrace(['prove', '--json', traced]).stdout.trim().split('\n');
    writeFileSync(at('proof.ndjson'), lines.join('\n'));
    const page = pageOf(traced, '--prove', at('proof.ndjson'));
    const told = new Map(
      lines.slice(0, -1).map((line) => {
        const { address, verdict } = JSON.parse(line) as { address: string; verdict: string };
        return [BigInt(address), verdict];
      }),
    );
    const rows = [...page.columns['site.low']!.keys()];
    for (const row of rows) expect(page.text('proof.verdict', row)).toBe(told.get(page.address(row)) ?? '');
    expect(rows.filter((row) => page.text('proof.verdict', row) === 'proved')).toHaveLength(told.size);
    expect(told.size).toBeGreaterThan(3);
    const { summary } = JSON.parse(lines.at(-1)!) as { summary: { sites: number; proved: number } };
    expect(page.head.proof!.summary).toContain(`${summary.sites} sites: ${summary.proved} proved`);
  });

  test('PV-4: both ways of a difference are in the page; sites of several sections, and probes', () => {
    const program = sample('arm64/program-patchable-2');
    const [on, probed] = [at('proof-on'), at('proof-probed')];
    expect(elftrace(['patch', program, '--enable', '-o', on]).status).toBe(0);
    const bytes = readFileSync(on);
    // mov x9, x30 of a site becomes mov x10, x30.
    bytes[bytes.indexOf(Buffer.from([0xe9, 0x03, 0x1e, 0xaa]))] = 0xea;
    writeFileSync(on, bytes);
    writeFileSync(at('on.ndjson'), elftrace(['prove', '--json', on, program]).stdout);
    const page = pageOf(on, '--prove', at('on.ndjson'));
    const rows = [...page.columns['site.low']!.keys()];
    const accounts = rows.map((row) => page.text('proof.account', row)).filter((text) => text !== '');
    expect(accounts).toEqual([expect.stringMatching(/^behind the site: [^]*\nrule PV-1: [^]*\| ftrace_caller:\n/)]);
    // Offsets in .text and .init.text may be the same.
    const module = sample('x86-64/module-fentry.ko');
    elftrace(['patch', module, '--nop', '-o', at('proof.ko')]);
    writeFileSync(at('ko.ndjson'), elftrace(['prove', '--json', at('proof.ko'), module]).stdout);
    const ofModule = pageOf(at('proof.ko'), '--prove', at('ko.ndjson'));
    const verdicts = [...ofModule.columns['site.low']!.keys()].map((row) => ofModule.text('proof.verdict', row));
    expect(new Set(verdicts)).toEqual(new Set(['proved']));
    elftrace(['patch', program, '--probe', 'p:x outer+8', '-o', probed]);
    writeFileSync(at('probed.ndjson'), elftrace(['prove', '--json', probed]).stdout);
    expect(pageOf(probed, '--prove', at('probed.ndjson')).head.proof!.notices.join()).toContain(
      'outer+0x8: probe.breakpoint: proved',
    );
  });

  test('a proof that is cut, of another image, or none is refused', () => {
    const cases: readonly (readonly [string[], string[], RegExp])[] = [
      [lines.slice(0, -1), [traced], /no summary: the proof has no end/],
      [[], [traced], /line 1 of the proof: no summary/],
      [lines, [sample('arm64/program-mcount')], /line 1 of the proof: no site of the image is at 0x/],
      [[lines[0]!.replace('"proved"', '"fine"'), ...lines.slice(1)], [traced], /without a verdict that is known/],
      [[lines.at(-1)!.replace('"skipped"', '"left"')], [traced], /no number of skipped/],
      [['no JSON'], [traced], /no JSON, as prove/],
      [
        [lines[0]!.replace('}', ',"account":{"rows":[{"original":1}]}}'), ...lines.slice(1)],
        [traced],
        /an account that is not as prove/,
      ],
      [lines, [traced, traced], /about one file/],
    ];
    for (const [text, files, why] of cases) {
      writeFileSync(at('bad.ndjson'), text.join('\n'));
      const { status, stderr } = elftrace(['html', ...files, '--prove', at('bad.ndjson'), '-o', at('no.html')]);
      expect([String(why), status, why.test(stderr)]).toEqual([String(why), 2, true]);
      expect(existsSync(at('no.html'))).toBe(false);
    }
  });
});

describe('races', () => {
  const [torn, held] = [at('torn.json'), at('held.json')];
  let lines: string[] = [];

  test('stand beside files, from several outputs, one a line or one a file', () => {
    const race = (form: string): string => elftrace(['race', '--demo', form, '--json']).stdout;
    lines = [race('H1'), race('H3')];
    writeFileSync(torn, lines.join(''));
    writeFileSync(held, lines[1]!);
    const page = pageOf(sample('x86-64/program-fentry'), '--race', torn, '--race', held);
    const told = [...lines, lines[1]!].flatMap((line) => (JSON.parse(line) as { races: { title: string; verdict: string }[] }).races);
    expect(page.head.races.map(({ title, verdict }) => [title, verdict])).toEqual(told.map(({ title, verdict }) => [title, verdict]));
    expect([page.head.files.length, page.head.title]).toEqual([1, sample('x86-64/program-fentry')]);
    expect(page.head.races[0]!.facts.map(([name]) => name)).toEqual(['Target', 'Form', 'Orders of all events', 'Explored', 'Violated']);
    expect(page.head.races[0]!.schedule!.events.at(-1)).toMatchObject({ kind: 'instruction', watched: 'e8 1f 44 00 00' });
  }); // prettier-ignore

  test('what is no output of race --json is refused, with the place', () => {
    const edit = (change: (race: Record<string, unknown>) => void): string => {
      const json = JSON.parse(lines[0]!) as { races: Record<string, unknown>[] };
      change(json.races[0]!);
      return JSON.stringify(json);
    };
    const cases: readonly (readonly [string, RegExp])[] = [
      ['', /no race is in it/],
      ['no JSON', /line 1: no JSON, as race --json writes/],
      ['[]', /line 1: no object/],
      ['{"schema":1}', /line 1\.races: no list/],
      ['{"races":[]}', /no race is in it/],
      [edit((race) => { race['verdict'] = 'fine'; }), /races\[0\]\.verdict: none of holds, violated, undecided/],
      [edit((race) => { race['counts'] = { slots: [], total: '1e5' }; }), /counts\.total: no number of schedules/],
      [`${lines[1]!}${edit((race) => { delete race['outcomes']; })}`, /line 2\.races\[0\]\.outcomes: no list/],
    ];
    for (const [text, why] of cases) {
      writeFileSync(torn, text);
      const { status, stderr } = elftrace(['html', '--race', torn, '-o', at('none.html')]);
      expect([String(why), status, why.test(stderr)]).toEqual([String(why), 2, true]);
      expect(existsSync(at('none.html'))).toBe(false);
    }
  }); // prettier-ignore

  test('without a file neither a trace nor a proof nor differences have a place; the story is an input', () => {
    for (const args of [[], ...['--trace', '--prove', '--diff'].map((each) => ['--race', held, each, held])]) {
      const { status, stderr } = elftrace(['html', ...args, '-o', at('none.html')]);
      expect([args, status, /name a file/.test(stderr)]).toEqual([args, 2, true]);
    }
    expect(elftrace(['html', '--race', held, '-o', held]).stderr).toContain('is the input');
  });
});

describe('the verb', () => {
  test('bad input is said, and there is no page', () => {
    const good = sample('x86-64/program-fentry');
    writeFileSync(at('garbage'), 'no ELF');
    const output = at('none.html');
    const cases: readonly (readonly [string[], RegExp])[] = [
      [[good], /-o/],
      [[good, at('garbage'), '-o', output], /garbage/],
      [[good, '--trace', at('garbage'), '-o', output], /line 1 of the trace: no JSON; .*ndjson/],
      [[good, '--trace', at('missing'), '-o', output], /missing/],
      [[good, good, '--diff', good, '-o', output], /--diff compares OLD with one file or tree/],
      [[good, '--diff', sample('arm64/program-mcount'), '-o', output], /old image is of arm64/],
      [[good, '-o', good], /is the input/],
      [[good, '--diff', output, '-o', output], /none.html/],
    ];
    for (const [args, why] of cases) {
      const { status, stderr } = elftrace(['html', ...args]);
      expect([args, status, why.test(stderr)]).toEqual([args, 2, true]);
      expect([args, existsSync(output)]).toEqual([args, false]);
    }
  });

  test('--json says what is in the page, by its schema; files of a tree are all there', () => {
    const output = at('tree.html');
    const tree = join(builtSamples, 'x86-64');
    const { stdout, status } = elftrace(['html', tree, '--title', 'all <b>', '--json', '-o', output]);
    expect(status).toBe(0);
    const schema = JSON.parse(readFileSync(join(root, 'schemas', 'html.schema.json'), 'utf8')) as object;
    const validate = new Ajv2020({ strict: true, strictTypes: false }).compile(schema);
    const said = JSON.parse(stdout) as { files: number; rows: number; bytes: number };
    expect(validate(said) ? [] : validate.errors).toEqual([]);
    const page = readPage(readFileSync(output, 'utf8'));
    expect([page.head.title, page.head.files.length, page.columns['site.verdict']!.length]).toEqual(['all <b>', said.files, said.rows]);
    expect(said.bytes).toBe(Buffer.byteLength(page.html));
    // One file: nothing is fetched, linked or embedded; the licence of what is in it travels along.
    expect(page.html.replace(/<script>[^]*/, '')).not.toMatch(/src=|href=|url\(|@import/);
    expect(page.html).toContain('Copyright (c) 2021-present Tanner Linsley');
  }); // prettier-ignore
});
