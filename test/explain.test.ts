/**
 * `explain`: chains of sites against the files' own bytes, objdump and ld; pages of verdicts; what
 * cannot be found.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { verdictJson, verdictLines } from '../src/cli/explain.js';
import { findNamedSites } from '../src/sites/named.js';
import { type ChainHop, describeHop, siteChain } from '../src/sites/chain.js';
import { type Verdict, verdictSeverity } from '../src/sites/verdicts.js';
import { rules, ruleText } from '../src/report/rules.js';
import { verdictPages } from '../src/report/verdict-pages.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { loadSample } from './support/loaded-samples.js';
import { builtSamples, edited, openBytes, readSample, root, sampleFiles } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'explain-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const sample = (name: string): string => join(builtSamples, name);

const schema = JSON.parse(readFileSync(join(root, 'schemas', 'explain.schema.json'), 'utf8')) as object;
const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(schema);

interface Hop {
  readonly kind: string;
  readonly address: string;
  readonly bytes: string;
  readonly name: string;
  readonly target?: string | null;
  readonly form?: string;
  readonly is?: string;
  readonly symbol?: string;
  readonly lines: readonly { readonly text: string }[];
}
interface ExplainedSite {
  readonly function: string;
  readonly address: string;
  readonly state: string;
  readonly verdict: string;
  readonly ruleText: string;
  readonly chain: readonly Hop[];
  readonly expected: string;
  readonly actual: string;
  readonly nop: { readonly stores: readonly { readonly after: string }[] } | null;
}

function explained(args: readonly string[]): readonly ExplainedSite[] {
  const result = elftrace(['explain', '--json', ...args]);
  expect([result.status, result.stderr]).toEqual([0, '']);
  const value = JSON.parse(result.stdout) as { sites: ExplainedSite[] };
  expect(validate(value) ? [] : validate.errors).toEqual([]);
  return value.sites;
}

describe('chains', () => {
  test('of every sample: hops hang together, bytes are those of the file, calls as compiled end at the profiling entry', () => {
    let chains = 0;
    let calls = 0;
    const kinds: Record<string, number> = {};
    for (const { name, bytes } of sampleFiles()) {
      const { image, program, sites } = openBytes(bytes);
      for (let i = 0; i < sites.count; i++) {
        const { hops } = siteChain(sites, i);
        if (!sites.codeRange(i)) {
          expect(hops).toEqual([]);
          continue;
        }
        chains++;
        for (const hop of hops) kinds[hop.kind] = (kinds[hop.kind] ?? 0) + 1;
        const branches = hops.filter((hop) => hop.kind !== 'restore');
        branches.forEach((hop, at) => {
          const next = branches[at + 1];
          if (next && 'target' in hop && hop.target !== null) expect([name, hop.target]).toEqual([name, next.address]);
        });
        if (program.relocatable) continue;
        for (const hop of hops) {
          const offset = image.fileOffsetOf(hop.address);
          if (offset >= 0)
            expect(Buffer.from(hop.bytes)).toEqual(
              Buffer.from(image.bytes.subarray(offset, offset + hop.bytes.length)),
            );
        }
        if (sites.state(i) !== 'compiled' || hops[0]?.kind !== 'call' || hops[0].target === null) continue;
        calls++;
        const last: ChainHop = hops.at(-1)!;
        if (last.kind === 'target')
          expect([name, last.is, program.isMcountName(last.name.replace(/\+.*/, ''))]).toEqual([name, 'mcount', true]);
        else expect([name, last.kind === 'slot' && program.isMcountName(last.symbol)]).toEqual([name, true]);
      }
    }
    expect(chains).toBeGreaterThan(500);
    expect(calls).toBeGreaterThan(100);
    process.stdout.write(`${chains} chains, ${calls} calls followed; hops ${JSON.stringify(kinds)}\n`);
  });

  test('JSON keeps to its schema, on every kind of machine and file', () => {
    for (const [name, site] of [
      ['x86-64/shared-fentry.so', 'leaf'],
      ['x86-64/module-fentry.ko', 'module_run'],
      ['x86-64/program-fentry-indirect', 'leaf'],
      ['ppc32/core-mcount', 'leaf'],
      ['ppc64-elfv1/program-mcount', '.leaf'],
      ['ppc64-elfv1/module-mcount-recorded.ko', 'module_leaf'],
      ['ppc64-elfv2-le/core-mprofile', 'leaf'],
      ['riscv64/program-patchable-8', 'leaf'],
      ['arm64/core-patchable-4-2', 'leaf'],
    ] as const) {
      const [first] = explained([sample(name), site]);
      expect([name, first!.function.replace(/^\.|\+.*/g, '')]).toEqual([name, site.replace(/^\./, '')]);
      expect([name, first!.verdict]).toEqual([name, 'ok']);
    }
  });

  test('a call through a pointer: the slot, and what the dynamic linker puts there', () => {
    const [site] = explained([sample('x86-64/shared-fentry.so'), 'leaf']);
    expect(site!.chain.map(({ kind }) => kind)).toEqual(['call', 'slot']);
    expect(site!.chain[1]!.symbol).toBe('__fentry__');
    const [indirect] = explained([sample('x86-64/program-fentry-indirect'), 'leaf']);
    expect(indirect!.chain.map(({ kind }) => kind)).toEqual(['call', 'slot', 'target']);
    expect(indirect!.chain[2]!.name).toBe('__fentry__');
  });

  test('a damaged site: expected and actual bytes, and the rule in words', () => {
    const bytes = readSample('ppc64-elfv1/core-mcount');
    const { sites } = openBytes(bytes);
    const [index] = findNamedSites(sites, 'leaf');
    // A call of the function itself instead of the profiling entry.
    const damaged = join(folder, 'damaged');
    writeFileSync(damaged, edited(bytes, sites.fileOffset(index!), [0x48, 0x00, 0x00, 0x01]));
    const [site] = explained([damaged, 'leaf']);
    expect([site!.verdict, site!.actual, site!.ruleText]).toEqual(['wrong-target', '48 00 00 01', ruleText('C-TGT-2')]);
    expect(site!.chain.at(-1)!.is).toBe('other');
    const text = elftrace(['explain', damaged, 'leaf']).stdout;
    expect(text).toMatch(
      /^ {2}verdict {2}wrong-target: the call leads to 0x\w+ \(\.?leaf\+0x\w+\), which is no tracing entry$/m,
    );
    expect(text).toMatch(/^ {2}actual {3}48 00 00 01 {2}bl /m);
    expect(text).toMatch(/^ {2}rule {5}C-TGT-2: a site calls the profiling entry/m);
  });
});

describe('a hop in words', () => {
  const place = { address: 0x1000n, bytes: new Uint8Array(), name: '', part: null };
  const relocation = (addend: bigint) => ({ type: 'R_PPC_REL24', symbol: '_mcount', addend });
  const stub = { kind: 'stub', form: 'ppc64.module', target: 0x20n } as const;

  test.each<readonly [string, ChainHop]>([
    ['R_PPC_REL24 _mcount', { ...place, kind: 'call', target: 8n, relocation: relocation(0n) }],
    ['R_PPC_REL24 _mcount+0x4', { ...place, kind: 'call', target: 8n, relocation: relocation(4n) }],
    ['R_PPC_REL24 _mcount-0x4', { ...place, kind: 'call', target: 8n, relocation: relocation(-4n) }],
    ['leads to 0x8', { ...place, kind: 'call', target: 8n, relocation: null }],
    ['calls nothing', { ...place, kind: 'call', target: null, relocation: null }],
    ['ppc64.module, leads to 0x20', { ...place, ...stub, savesToc: false, targetToc: null }],
    [
      "ppc64.module, leads to 0x20, saves the caller's TOC pointer",
      { ...place, ...stub, savesToc: true, targetToc: null },
    ],
    [
      'ppc64.module, leads to 0x20, sets the TOC pointer to 0x8000',
      { ...place, ...stub, savesToc: false, targetToc: 0x8000n },
    ],
    ['holds 0x20', { ...place, kind: 'slot', target: 0x20n, symbol: '' }],
    ['filled by the dynamic linker with __fentry__', { ...place, kind: 'slot', target: 0n, symbol: '__fentry__' }],
    ['no entry of a tracer', { ...place, kind: 'target', is: 'other' }],
  ])('%s', (text, hop) => {
    expect(describeHop(hop)).toBe(text);
  });
});

describe('a loaded image whose stub was led astray', () => {
  test.each(['2008', 'modern'])(
    'stubs of the form %s: the slot shows what is stored, the verdict what should be',
    (stubs) => {
      const bytes = loadSample({ target: 'ppc64-elfv1', flavour: 'pg', suffix: '' }, { 'ppc-stubs': stubs });
      const { image, program, sites } = openBytes(bytes);
      const [index] = findNamedSites(sites, 'one_data');
      const slot = siteChain(sites, index!).hops.find(({ kind }) => kind === 'slot')!;
      // The stub of the profiling entry now leads to another function of the core.
      const other = program.definedAt(program.symbols.find('core_callback'))!;
      const word = [...Array(8).keys()].map((i) => Number((other >> BigInt(56 - 8 * i)) & 0xffn));
      const damaged = join(folder, `astray-${stubs}`);
      writeFileSync(damaged, edited(bytes, image.fileOffsetOf(slot.address), word));
      const [site] = explained([damaged, 'one_data']);
      expect([site!.verdict, site!.ruleText]).toEqual(['stub-wrong-target', ruleText('P-STUB-1')]);
      const hops = site!.chain.map(({ kind }) => kind);
      expect(hops).toEqual(['call', 'restore', 'stub', 'slot', 'target']);
      const [, , stub, read, target] = site!.chain;
      expect([stub!.target, read!.target, target!.address]).toEqual(Array(3).fill(`0x${other.toString(16)}`));
      expect(read!.bytes.slice(0, 23)).toBe(word.map((byte) => byte.toString(16).padStart(2, '0')).join(' '));
      expect([target!.name.replace(/^\./, ''), target!.is]).toEqual(['core_callback', 'other']);
      const text = elftrace(['explain', damaged, 'one_data']).stdout;
      expect(text).toMatch(/^ {2}expected a call that ends at _mcount 0x[0-9a-f]+, ftrace_caller 0x[0-9a-f]+$/m);
      expect(elftrace(['verify', damaged]).status).toBe(1);
    },
  );
});

describe('what is meant by SITE', () => {
  const name = 'ppc64-elfv2-le/program-mcount';
  const { sites, program } = openBytes(readSample(name));
  const [leaf] = findNamedSites(sites, 'leaf');
  const place = program.functions.placeOf(sites.functionSymbol(leaf!))!.value;

  test('function, function with offset, section with offset, address, a place near by', () => {
    const ip = sites.ip(leaf!);
    const range = sites.codeRange(leaf!)!;
    for (const text of [
      `leaf+0x${(ip - place).toString(16)}`,
      `0x${ip.toString(16)}`,
      `${range.name}+0x${(ip - range.address).toString(16)}`,
      // Inside the function and no site: the site of the function.
      `0x${place.toString(16)}`,
      'leaf+0x0',
    ]) {
      expect([text, findNamedSites(sites, text)]).toEqual([text, [leaf]]);
    }
    const module = openBytes(readSample('riscv64/module-mcount.ko')).sites;
    expect(findNamedSites(module, '.text+0xa')).toEqual(findNamedSites(module, 'module_leaf'));
  });

  test.each([
    ['nothing_of_the_kind', /no function is named nothing_of_the_kind/],
    ['_start', /_start has no site: compiled without the option/],
    ['nothing+0x10', /no function or section of code is named nothing/],
    ['0x10', /no code is at 0x10/],
  ])('%s', (text, message) => {
    expect(() => findNamedSites(sites, text)).toThrow(message);
    const result = elftrace(['explain', sample(name), text]);
    expect([result.status, result.stdout]).toEqual([2, '']);
    expect(result.stderr).toMatch(message);
  });
});

describe('verdicts', () => {
  test('each has a page, which names rules that are explained', () => {
    expect(Object.keys(verdictPages).sort()).toEqual(Object.keys(verdictSeverity).sort());
    for (const verdict of Object.keys(verdictPages) as Verdict[]) {
      const value = verdictJson(verdict);
      expect([verdict, validate(value) ? [] : validate.errors]).toEqual([verdict, []]);
      const page = verdictPages[verdict];
      for (const rule of page.rules) expect([verdict, rule, ruleText(rule) !== '']).toEqual([verdict, rule, true]);
      const lines = verdictLines(verdict);
      expect(lines[0]!.startsWith(verdict)).toBe(true);
      expect(lines[1]).toContain(page.meaning.slice(0, 40));
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(110);
    }
    const printed = elftrace(['explain', 'stub-wrong-target']);
    expect([printed.status, printed.stdout]).toEqual([0, `${verdictLines('stub-wrong-target').join('\n')}\n`]);
    const json = elftrace(['explain', '--json', 'ok']);
    expect(JSON.parse(json.stdout)).toEqual(verdictJson('ok'));
    const none = elftrace(['explain', 'wrong']);
    expect([none.status, none.stdout]).toEqual([2, '']);
    expect(none.stderr).toContain('stub-wrong-target');
  });

  test('every rule that the sources name in a verdict or a change is explained', () => {
    const missing: string[] = [];
    for (const path of readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })) {
      if (!path.endsWith('.ts') || path.startsWith('report')) continue;
      for (const [, rule] of readFileSync(join(root, 'src', path), 'utf8').matchAll(
        /'([A-Z]+(?:-[A-Z0-9]+)+-\d+|RT-\d+|F-\d+|H\d+)'/g,
      )) {
        if (!Object.hasOwn(rules, rule!)) missing.push(`${path}: ${rule!}`);
      }
    }
    expect(missing).toEqual([]);
    expect([ruleText('nonsense'), ruleText('toString')]).toEqual(['', '']);
  });
});

describeWith(['objdump'], 'against objdump', () => {
  test.each(['ppc32/program-mcount', 'ppc64-elfv1/program-mcount', 'ppc64-elfv2-le/program-mprofile', 'x86-64/program-fentry', 'arm64/program-mcount'])(
    '%s: every call and its target',
    (name) => {
      const lines = run('objdump', ['-d', '--no-show-raw-insn', sample(name)]).toString().split('\n');
      const { sites } = openBytes(readSample(name));
      let seen = 0;
      for (let i = 0; i < sites.count; i++) {
        const { hops } = siteChain(sites, i);
        const [call] = hops;
        const target = hops.at(-1)!;
        if (call?.kind !== 'call' || target.kind !== 'target') continue;
        const ip = sites.ip(i).toString(16);
        const line = lines.find((each) => each.startsWith(`${ip}:`.padStart(each.indexOf(':') + 1)) && each.includes(ip));
        const [, address, symbol] = /\s([0-9a-f]+) <([^>]+)>/.exec(line!)!;
        expect([line, address]).toEqual([line, target.address.toString(16)]);
        expect(symbol!.replace(/^\./, '')).toBe(target.name.replace(/^\./, ''));
        seen++;
      }
      expect(seen).toBeGreaterThan(15);
    },
  ); // prettier-ignore
});

describeWith(['powerpc64-linux-gnu-gcc', 'powerpc64-linux-gnu-objdump'], "ld's far stubs", () => {
  test('call, stub, slot and target, as objdump names them', () => {
    const source = join(folder, 'far.c');
    writeFileSync(
      source,
      `void _mcount(void) {}
       __attribute__((section(".far"))) int far(int a) { return a + 1; }
       __attribute__((no_instrument_function)) void _start(void) { far(2); }`,
    );
    const image = join(folder, 'far');
    run('powerpc64-linux-gnu-gcc', [
      '-mabi=elfv1', '-O1', '-pg', '-nostdlib', '-static', '-ffreestanding', '-Wl,--section-start=.far=0x18000000', '-o', image, source,
    ]); // prettier-ignore
    const [site] = explained([image, 'far']);
    expect(site!.verdict).toBe('ok');
    const { chain } = site!;
    const stub = chain.find(({ kind }) => kind === 'stub')!;
    const symbols = run('powerpc64-linux-gnu-objdump', ['-d', '-j', '.far', image]).toString();
    const named = new RegExp(`^0*${stub.address.slice(2)} <([^>]+)>:`, 'm').exec(symbols);
    expect(named?.[1]).toMatch(/(plt|long)_branch.*_mcount/);
    expect(chain[0]!.kind).toBe('call');
    expect(chain.at(-1)).toMatchObject({ kind: 'target', is: 'mcount' });
    expect(chain.at(-1)!.name.replace(/^\./, '')).toBe('_mcount');
    expect(stub.lines.at(-1)!.text).toBe('bctr');
  });
});
