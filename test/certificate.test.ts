/** Certificates of proofs: what they hold, that they repeat, and what is none. */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { type Certificate } from '../src/prove/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-certificate-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const sample = (name: string): string => join(builtSamples, name);
const at = (name: string): string => join(folder, name);
const textOf = (path: string): string => readFileSync(path, 'utf8');
const parsed = (path: string): Certificate => JSON.parse(textOf(path)) as Certificate;
const sha256 = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

/** Runs a command that must end with a code; what it said. */
function done(status: number, ...words: readonly string[]): string {
  const result = elftrace(words);
  const said = result.stdout + result.stderr;
  expect([words, result.status, result.status === status ? '' : said]).toEqual([words, status, '']);
  return said;
}

const name = 'x86-64/program-fentry';
const traced = at('traced');
const certificate = at('traced.json');

/** A certificate that is not what its type says any more. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Broken = Record<string, any>;

done(0, 'patch', sample(name), '--nop', '-o', traced);
const written = done(0, 'prove', traced, '--certificate', certificate);

/** A certificate that was changed. */
function changed(to: (text: string) => string): string {
  const path = at('changed.json');
  writeFileSync(path, to(textOf(certificate)));
  return path;
}

/** The same as an object that may be changed. */
function edited(edit: (statement: Broken) => void): string {
  return changed((text) => {
    const statement = JSON.parse(text) as Broken;
    edit(statement);
    return `${JSON.stringify(statement, null, 2)}\n`;
  });
}

/** Addresses of a list as docs/spec/prove.md has it, without the code that made it. */
function addressesOf(text: string): bigint[] {
  const [first, ...rest] = text.split(' ');
  const found = [BigInt(first!)];
  for (const each of rest) {
    const [distance, times = '1'] = each.slice(1).split('*');
    for (let n = 0; n < Number(times); n++) found.push(found.at(-1)! + BigInt(`0x${distance!}`));
  }
  return found;
}

describe('what a certificate holds', () => {
  test('PV-6: the fields that in-toto asks of a Statement v1', () => {
    // spec/v1/statement.md, field_types.md and digest_set.md of in-toto/attestation.
    const statement = parsed(certificate) as unknown as Record<string, unknown>;
    expect(Object.keys(statement).sort()).toEqual(['_type', 'predicate', 'predicateType', 'subject']);
    expect(statement['_type']).toBe('https://in-toto.io/Statement/v1');
    const subjects = statement['subject'] as { name: string; digest: Record<string, string> }[];
    expect(subjects.map(({ digest }) => Object.entries(digest))).toEqual([
      [['sha256', sha256(sample(name))]],
      [['sha256', sha256(traced)]],
    ]);
    expect(new Set(subjects.map((each) => each.name)).size).toBe(subjects.length);
    // A URI with its scheme in lower case, and a version.
    expect(new URL(statement['predicateType'] as string).href).toBe(statement['predicateType']);
    expect(statement['predicateType']).toMatch(/\/v\d+$/);
    expect(typeof statement['predicate']).toBe('object');
    expect(written).toContain(`${certificate}: certificate written`);
  });

  test('PV-6: it fits its schema, and has each site with its verdict', () => {
    const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false });
    const path = join(root, 'schemas', 'certificate.schema.json');
    const validate = ajv.compile(JSON.parse(textOf(path)) as object);
    const { predicate } = parsed(certificate);
    expect([validate(parsed(certificate)), validate.errors]).toEqual([true, null]);
    const lines = done(0, 'prove', traced, '--all', '--json').trim().split('\n');
    const told = lines.slice(0, -1).map((line) => {
      const { address, shape, verdict, reason = null } = JSON.parse(line) as Record<string, string>;
      return `${address} ${shape} ${verdict} ${reason}`;
    });
    const held = predicate.sites.flatMap(({ addresses, shape, verdict, reason }) =>
      addressesOf(addresses).map((each) => `0x${each.toString(16)} ${shape} ${verdict} ${reason}`),
    );
    expect(held.sort()).toEqual(told.sort());
    const { summary } = JSON.parse(lines.at(-1)!) as { summary: Record<string, number> };
    for (const key of ['sites', 'proved', 'unchanged', 'different', 'inconclusive', 'skipped'] as const) {
      expect([key, predicate.counts[key]]).toEqual([key, summary[key]]);
    }
    expect(predicate).toMatchObject({ result: 'proved', method: { seed: 1, trials: 2, sample: null } });
    expect(predicate.request).toEqual({ requests: ['nop'], sessions: [], forms: {} });
  });

  test('PV-6: the same bytes with any number of threads, of files anywhere, against a file or the record', () => {
    mkdirSync(at('else where'));
    copyFileSync(traced, at('else where/a.out'));
    const runs = [
      [traced, '--jobs', '3'],
      [traced, sample(name)],
      [at('else where/a.out'), '--json'],
    ];
    for (const [i, words] of runs.entries()) {
      done(0, 'prove', ...words, '--certificate', at(`${i}.json`));
      expect([words, textOf(at(`${i}.json`))]).toEqual([words, textOf(certificate)]);
    }
    done(0, 'prove', traced, '--seed', '7', '--trials', '3', '--certificate', at('seed.json'));
    expect(parsed(at('seed.json')).predicate.method).toMatchObject({ seed: 7, trials: 3 });
    expect(textOf(at('seed.json'))).not.toBe(textOf(certificate));
    expect(done(0, 'prove', traced, '--check', at('seed.json'))).toContain('repeated, and is the same');
  });

  test('PV-6: sites of a relocatable file have the addresses that its sections give them', () => {
    done(0, 'patch', sample('riscv64/module-mcount.ko'), '--nop', '-o', at('m.ko'));
    done(0, 'prove', at('m.ko'), '--certificate', at('m.json'));
    const { sites } = parsed(at('m.json')).predicate;
    expect(sites.map(({ section }) => section)).toContain('.text');
    expect(sites.every(({ addresses }) => addressesOf(addresses)[0]! < 0x1000n)).toBe(true);
    expect(done(0, 'prove', at('m.ko'), '--check', at('m.json'))).toContain('the same');
  });

  test('PV-6: what is not proved is written down as that, and its repetition is no yes', () => {
    done(125, 'prove', traced, '--sample', '3', '--certificate', at('sample.json'));
    expect(parsed(at('sample.json')).predicate.result).toBe('inconclusive');
    expect(done(125, 'prove', traced, '--check', at('sample.json'))).toContain('the same');
    const bytes = readFileSync(traced);
    // The nop of a site becomes `mov $1, %eax`.
    const listed = JSON.parse(done(0, 'list', '--json', traced)) as {
      functions: { name: string; fileOffset: number }[];
    };
    bytes.set([0xb8, 1, 0, 0, 0], listed.functions.find((each) => each.name === 'leaf')!.fileOffset);
    writeFileSync(at('broken'), bytes);
    const status = elftrace(['prove', at('broken'), sample(name), '--certificate', at('broken.json')]).status;
    expect(status).not.toBe(0);
    expect(parsed(at('broken.json')).predicate.result).not.toBe('proved');
    expect(done(status!, 'prove', at('broken'), sample(name), '--check', at('broken.json'))).toContain('the same');
  });
});

describe('what --check finds', () => {
  test.each<[string, (statement: Broken) => void, RegExp]>([
    ['a count', ({ predicate }) => predicate.counts.proved++, /predicate\.counts\.proved is \d+ there, and \d+ now/],
    ['a verdict', ({ predicate }) => (predicate.sites[0].verdict = 'different'), /predicate\.sites\[0\]\.verdict is/],
    ['a site more', ({ predicate }) => (predicate.sites[0].addresses += ' +4'), /predicate\.sites\[0\]\.addresses/],
    ['a word more', ({ predicate }) => (predicate.approved = true), /predicate\.approved is true there, and not there/],
    ['a word less', ({ predicate }) => delete predicate.reasons, /predicate\.reasons is not there there/],
    ['a result', ({ predicate }) => (predicate.result = 'different'), /predicate\.result is "different" there/],
    ['another version', ({ predicate }) => (predicate.tool.version = '9.9.9'), /tool\.version is "9\.9\.9" there/],
    ['names from elsewhere', ({ predicate }) => (predicate.method.symbols = 'given'), /method\.symbols is "given"/],
    ['a request', ({ predicate }) => predicate.request.requests.push('x'), /predicate\.request\.requests\[\d\] is "x"/],
    ['a subject more', ({ subject }) => (subject[0].uri = 'x:y'), /subject\[0\]\.uri is "x:y" there/],
    ['a deep value', ({ predicate }) => (predicate.reasons = { x: { y: [1] } }), /reasons\.x is an object there/],
    ['a prototype', ({ predicate }) => (predicate.sites[0] = JSON.parse('{"__proto__":[]}')), /sites\[0\]/],
  ])('PV-6: %s that was changed is exit 1', (_, edit, text) => {
    expect(done(1, 'prove', traced, '--check', edited(edit))).toMatch(text);
  });

  test('PV-6: another file is exit 1, before anything is executed', () => {
    done(0, 'patch', sample(name), '--untrace', '-o', at('other'));
    expect(done(1, 'prove', at('other'), '--check', certificate)).toContain('it is about another patched file');
    const json = done(1, 'prove', at('other'), '--json', '--check', certificate);
    expect(JSON.parse(json)).toMatchObject({ certificate: { outcome: 'different' } });
    const original = edited(({ subject }) => (subject[0].digest.sha256 = '0'.repeat(64)));
    expect(done(1, 'prove', traced, '--check', original)).toContain('it is about another original file');
  });

  test('PV-6: the same said in other bytes is exit 1: a key may be there twice', () => {
    const spaced = changed((text) => JSON.stringify(JSON.parse(text)));
    expect(done(1, 'prove', traced, '--check', spaced)).toContain('the same in other bytes');
    const twice = changed((text) => text.replace('"result": "proved"', '"result": "different", "result": "proved"'));
    expect(done(1, 'prove', traced, '--check', twice)).toContain('a key that is there twice');
  });
});

describe('what is no certificate', () => {
  const cases: [string, string, RegExp][] = [
    ['nothing', '', /is no JSON/],
    ['cut off', textOf(certificate).slice(0, 900), /is no JSON/],
    ['a list', '[]', /file is no object/],
    ['null', 'null', /file is no object/],
    ['deep', '['.repeat(200_000), /is no JSON/],
    ['an older statement', textOf(certificate).replace('Statement/v1', 'Statement/v0.1'), /_type is not/],
    ['another predicate', textOf(certificate).replace('#proof/v1', '#proof/v2'), /predicateType is not/],
  ];
  const edits: [string, (statement: Broken) => void, RegExp][] = [
    ['no subject', (each) => delete each['subject'], /subject is no list/],
    ['one subject', ({ subject }) => subject.pop(), /subject does not have two entries/],
    ['subjects exchanged', ({ subject }) => subject.reverse(), /subject\[0\]\.name is not original/],
    ['a short digest', ({ subject }) => (subject[1].digest.sha256 = 'abc'), /subject\[1\]\.digest\.sha256 is not 64/],
    ['another digest', ({ subject }) => (subject[1].digest = { md5: 'a' }), /subject\[1\]\.digest\.sha256/],
    ['no predicate', (each) => delete each['predicate'], /predicate is no object/],
    ['no method', ({ predicate }) => (predicate.method = null), /predicate\.method is no object/],
    ['a seed of text', ({ predicate }) => (predicate.method.seed = '1'), /method\.seed is not a whole number/],
    ['endless trials', ({ predicate }) => (predicate.method.trials = 1e9), /method\.trials is not a whole number/],
    ['no trials', ({ predicate }) => (predicate.method.trials = 0), /method\.trials is not a whole number/],
    ['half a sample', ({ predicate }) => (predicate.method.sample = 0.5), /method\.sample is not a whole number/],
    ['names of numbers', ({ predicate }) => (predicate.method.mcount = [1]), /method\.mcount\[0\] is no text/],
  ];

  test.each(cases)('PV-6: %s is exit 2', (_, text, why) => {
    expect(
      done(
        2,
        'prove',
        traced,
        '--check',
        changed(() => text),
      ),
    ).toMatch(why);
  });
  test.each(edits)('PV-6: %s is exit 2', (_, edit, why) => {
    expect(done(2, 'prove', traced, '--check', edited(edit))).toMatch(why);
  });

  test('PV-6: bytes that are no text, a file that is not there, options that do not fit', () => {
    writeFileSync(at('latin'), Buffer.from([0x7b, 0xff, 0x7d]));
    expect(done(2, 'prove', traced, '--check', at('latin'))).toContain('is not UTF-8');
    done(2, 'prove', traced, '--check', at('nowhere'));
    expect(done(2, 'prove', traced, '--check', certificate, '--seed', '1')).toContain('those of the certificate');
    expect(done(2, 'prove', traced, '--check', certificate, '--certificate', at('x'))).toContain('not both');
    expect(done(2, 'prove', traced, '--certificate', traced)).toContain('is the input');
    for (const words of [['--seed=-1'], ['--trials', '0'], ['--sample', '0']]) {
      expect(done(2, 'prove', traced, ...words, '--certificate', at('x'))).toContain('takes a whole number');
    }
    done(2, 'prove', sample(name), '--certificate', at('x'));
    expect(existsSync(at('x'))).toBe(false);
  });

  test('PV-6: an envelope with signatures is recognised, and not served', () => {
    const payload = Buffer.from(textOf(certificate)).toString('base64');
    const envelope = { payloadType: 'application/vnd.in-toto+json', payload, signatures: [{ sig: '' }] };
    const path = changed(() => JSON.stringify(envelope));
    expect(done(4, 'prove', traced, '--check', path)).toContain('take out the payload');
  });
});
