/**
 * `verify --format`: each report is read by a program that is not ours. SARIF is held against the
 * schema of OASIS, JUnit XML against the one of Jenkins and read by junit2json, KTAP by the
 * kernel's kunit_parser.py, annotations compared with those that @actions/core prints.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { parse } from 'junit2json';
import { afterAll, describe, expect, test } from '@jest/globals';
import { groupFindings, type ReportContext } from '../src/report/formats/model.js';
import { reportWriter, type ReportFormat } from '../src/report/formats/index.js';
import { rulePages, verdictsPage } from '../src/report/rule-pages.js';
import { type Finding, verdictSeverity } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, edited, openBytes, readSample, root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'formats-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Names that attack each of the formats, in files whose verdicts differ. */
const HOSTILE = ['a%0A,b:c#d.ko', '::error::forged.ko', '<&"\'>]]>\u0007\u202e.ko', '\u001b[2J\n1..2\nok 1 forged.ko'];
const tree = join(folder, 'tree');
mkdirSync(tree);
const sample = readSample('x86-64/module-fentry.ko');
const { sites } = openBytes(sample);
const damaged = (...indices: number[]): Uint8Array =>
  indices.reduce((bytes, index) => edited(bytes, sites.fileOffset(index), [0xcc]), sample);
const names = ['bad.ko', ...HOSTILE];
names.forEach((name, i) => {
  writeFileSync(join(tree, name), damaged(...Array.from({ length: i + 1 }, (_, at) => at)));
});
copyFileSync(join(builtSamples, 'x86-64/module-fentry.ko'), join(tree, 'good.ko'));
copyFileSync(join(builtSamples, 'x86-64/modules.a'), join(tree, 'modules.a'));
writeFileSync(join(tree, 'garbage.ko'), 'not an ELF file');

const reports = new Map<string, string>();
const report = (format: string, ...args: string[]): string => {
  const known = reports.get([format, ...args].join());
  if (known !== undefined) return known;
  const { status, stdout } = elftrace(['verify', '--format', format, ...args, '.'], { cwd: tree });
  expect([format, status]).toEqual([format, 2]);
  reports.set([format, ...args].join(), stdout);
  return stdout;
};
const json = elftrace(['verify', '--json', '.'], { cwd: tree })
  .stdout.trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Record<string, unknown>);
const summary = json.at(-1)!['summary'] as { files: number; failed: number; sites: number };

interface SarifSite {
  readonly physicalLocation: { readonly artifactLocation: { readonly uri: string } };
  readonly logicalLocations?: readonly { readonly name: string; readonly kind: string }[];
}
interface SarifResult {
  readonly ruleId: string;
  readonly ruleIndex: number;
  readonly level: string;
  readonly occurrenceCount: number;
  readonly locations: readonly SarifSite[];
  readonly partialFingerprints: Readonly<Record<string, string>>;
}
interface SarifRun {
  readonly tool: { readonly driver: { readonly rules: readonly { readonly id: string; readonly helpUri: string }[] } };
  readonly results: readonly SarifResult[];
  readonly invocations: readonly {
    readonly exitCode: number;
    readonly executionSuccessful: boolean;
    readonly toolExecutionNotifications: readonly unknown[];
  }[];
}

const schemaPath = createRequire(import.meta.url).resolve('@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json');
// It is of draft 4, whose names for itself the validator no longer knows.
const {
  $schema: _dialect,
  id: _id,
  ...sarifSchema
} = JSON.parse(readFileSync(schemaPath, 'utf8')) as object & {
  $schema: string;
  id?: string;
};
const validSarif = new Ajv({ strict: false, validateFormats: false, unicodeRegExp: false }).compile(sarifSchema);
function sarifRun(text: string): SarifRun {
  const log = JSON.parse(text) as { runs: [SarifRun] };
  expect(validSarif(log) ? [] : validSarif.errors).toEqual([]);
  return log.runs[0];
}

/** What a writer makes of files that are given to it. */
function written(format: ReportFormat, work: (writer: ReturnType<typeof reportWriter>) => void): string[] {
  const lines: string[] = [];
  const context: ReportContext = {
    version: '0.0.0',
    pages: rulePages(verdictSeverity),
    location: (path) => ({ uri: path, path }),
    hash: (text) => text,
    print: (line) => lines.push(line),
  };
  work(reportWriter(format, context));
  return lines;
}

describe('SARIF', () => {
  test('is valid, and has one result for each rule and file', () => {
    const { results, invocations, tool } = sarifRun(report('sarif'));
    const wrong = json.flatMap((each) => {
      const findings = (each['findings'] ?? []) as Record<string, string>[];
      return [...new Set(findings.filter(({ severity }) => severity !== 'note').map(({ verdict }) => verdict))];
    });
    expect(results).toHaveLength(wrong.length);
    expect(results.map(({ occurrenceCount }) => occurrenceCount).sort()).toEqual([1, 2, 3, 4, 5]);
    for (const { ruleId, ruleIndex, locations, occurrenceCount, partialFingerprints } of results) {
      expect(tool.driver.rules[ruleIndex]!.id).toBe(ruleId);
      expect(locations).toHaveLength(occurrenceCount);
      for (const { logicalLocations } of locations) expect(logicalLocations![0]).toMatchObject({ kind: 'function' });
      expect(Object.values(partialFingerprints)).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)]);
    }
    expect(new Set(results.map((each) => JSON.stringify(each.partialFingerprints))).size).toBe(results.length);
    // Readers find the files again.
    const found = results.map(({ locations }) =>
      decodeURIComponent(locations[0]!.physicalLocation.artifactLocation.uri),
    );
    expect(found.sort()).toEqual([...names].sort());
    expect(invocations[0]).toMatchObject({ exitCode: 2, executionSuccessful: false });
    expect(invocations[0]!.toolExecutionNotifications).toHaveLength(1);
  });

  test('fingerprints do not depend on addresses, on the folder or on workers', () => {
    const other = join(folder, 'other', 'tree');
    mkdirSync(other, { recursive: true });
    // Another site is wrong, and there are more of them.
    writeFileSync(join(other, 'bad.ko'), damaged(3, 4, 5));
    const again = sarifRun(elftrace(['verify', '--format', 'sarif', other], { cwd: other }).stdout).results;
    const first = sarifRun(report('sarif', '--jobs', '2')).results.find(
      ({ locations }) => locations[0]!.physicalLocation.artifactLocation.uri === 'bad.ko',
    );
    expect(again.map(({ partialFingerprints }) => partialFingerprints)).toEqual([first!.partialFingerprints]);
  });

  test('rule pages: each helpUri names a section of docs/verdicts.md, which is made of the pages', () => {
    const page = readFileSync(join(root, 'docs', 'verdicts.md'), 'utf8');
    expect(verdictsPage(rulePages(verdictSeverity))).toBe(page);
    const anchors = new Set([...page.matchAll(/^## (\S+)$/gm)].map(([, name]) => name));
    const { rules } = sarifRun(report('sarif')).tool.driver;
    expect(rules.length).toBeGreaterThan(15);
    for (const { id, helpUri } of rules) {
      const url = new URL(helpUri);
      expect([id, url.pathname.endsWith('/docs/verdicts.md'), url.hash]).toEqual([id, true, `#${id}`]);
      expect(anchors).toContain(id);
    }
  });

  test('a tree with 60,000 findings stays under 5,000 results, none of which is lost', () => {
    const finding = (site: number): Finding => ({
      site,
      verdict: site % 2 === 0 ? 'wrong-bytes' : 'wrong-target',
      severity: 'error',
      rule: 'C-UPD-2',
      address: 0xffffffff81000000n + BigInt(site),
      section: '.text',
      offset: BigInt(site),
      function: 'f+0x4',
      expected: new Uint8Array(),
      actual: new Uint8Array(),
      message: 'other bytes',
    });
    const lines = written('sarif', (writer) => {
      writer.begin(4000);
      for (let i = 0; i < 4000; i++) {
        const groups = groupFindings(
          Array.from({ length: 15 }, (_, at) => finding(at)),
          () => true,
        );
        const name = `f${i}.ko`;
        writer.path(name, [{ name, path: name, sites: 15, groups, remarks: [], error: null, noSites: null }], []);
      }
      writer.end({ files: 4000, failed: 4000, sites: 60_000, verdicts: {}, exit: 1, nothing: null });
    });
    const { results } = sarifRun(lines.join('\n'));
    expect(results.length).toBeLessThan(5000);
    expect(results.reduce((sum, { occurrenceCount }) => sum + occurrenceCount, 0)).toBe(60_000);
    // No line is larger for there being more files.
    expect(Math.max(...lines.slice(1).map(({ length }) => length))).toBeLessThan(20_000);
  });
});

test('a group tells 20 of its sites', () => {
  const { results } = sarifRun(
    written('sarif', (writer) => {
      const opened = openBytes(sample);
      const site: Finding = {
        site: 0,
        verdict: 'wrong-bytes',
        severity: 'error',
        rule: 'C-UPD-2',
        address: opened.sites.ip(0),
        section: '.text',
        offset: 0n,
        function: '',
        expected: new Uint8Array(),
        actual: new Uint8Array(),
        message: '',
      };
      const groups = groupFindings(
        Array.from({ length: 50 }, () => site),
        () => true,
      );
      writer.begin(1);
      writer.path('a', [{ name: 'a', path: 'a', sites: 50, groups, remarks: [], error: null, noSites: null }], []);
      writer.end({ files: 1, failed: 1, sites: 50, verdicts: {}, exit: 1, nothing: null });
    }).join('\n'),
  );
  expect(results.map(({ occurrenceCount, locations }) => [occurrenceCount, locations.length])).toEqual([[50, 20]]);
});

describeWith(['xmllint'], 'JUnit', () => {
  test('is valid by the schema of Jenkins, and its reader finds each failure', async () => {
    const text = report('junit');
    const file = join(folder, 'junit.xml');
    writeFileSync(file, text);
    run('xmllint', ['--noout', '--schema', join(root, 'test/fixtures/junit-10.xsd'), file]);
    const { testsuite } = (await parse(text)) as unknown as {
      testsuite: readonly {
        name: string;
        tests: number;
        failures: number;
        errors: number;
        testcase: readonly { name: string; failure?: readonly { inner: string }[] }[];
      }[];
    };
    // One is about the run.
    expect(testsuite).toHaveLength(summary.files + 1);
    const failed = testsuite.filter(({ failures, errors }) => failures + errors > 0);
    expect(failed).toHaveLength(summary.failed);
    for (const { tests, testcase } of testsuite) expect(testcase).toHaveLength(tests);
    const bad = testsuite.find(({ name }) => name === 'bad.ko')!.testcase.filter(({ failure }) => failure);
    expect(bad).toHaveLength(1);
    expect(bad[0]!.failure![0]!.inner).toContain('[C-UPD-2]'.slice(1, -1));
  });
});

const kunit = process.env['ELFTRACE_KUNIT'];
/** Present where somebody fetched a kernel's sources; nothing of them is kept here. */
(kunit === undefined ? describe.skip : describe)('KTAP', () => {
  test('kunit_parser.py reads every test, and fails those that are wrong', () => {
    const file = join(folder, 'report.ktap');
    writeFileSync(file, report('ktap'));
    const script = join(folder, 'read.py');
    writeFileSync(
      script,
      [
        'import io, json, sys, contextlib',
        'import kunit_parser as k',
        'with contextlib.redirect_stdout(io.StringIO()):',
        "  t = k.parse_run_tests(open(sys.argv[1], encoding='utf8').read().split('\\n'))",
        'def bad(t): return t.status in (k.TestStatus.FAILURE, k.TestStatus.TEST_CRASHED)',
        'c = t.counts',
        "print(json.dumps({'top': len(t.subtests), 'bad': [s.name for s in t.subtests if bad(s)],",
        "  'counts': [c.passed, c.failed, c.crashed, c.errors]}))",
      ].join('\n'),
    );
    const { stdout, stderr } = spawnSync('python3', [script, file], {
      encoding: 'utf8',
      env: { ...process.env, PYTHONPATH: kunit, PYTHONDONTWRITEBYTECODE: '1' },
    });
    expect(stderr).toBe('');
    const read = JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as { top: number; bad: string[]; counts: number[] };
    const paths = names.length + 3;
    expect(read.top).toBe(paths + 1);
    expect(read.bad).toHaveLength(names.length + 1);
    expect(read.bad).toContain('bad.ko');
    expect(read.counts.slice(1)).toEqual([names.length + 1, 0, 0]);
  });
});

describe('KTAP', () => {
  test('what was not looked at is not ok, and the plan holds', () => {
    const lines = written('ktap', (writer) => {
      writer.begin(3);
      writer.path('empty.a', [], []);
      writer.end({ files: 0, failed: 0, sites: 0, verdicts: {}, exit: 2, nothing: 'nothing' });
    });
    expect(lines).toEqual([
      'KTAP version 1',
      '1..4',
      'ok 1 empty.a # SKIP no ELF file in it',
      'not ok 2 file 2 was not looked at',
      'not ok 3 file 3 was not looked at',
      '# nothing',
      'not ok 4 some file has patch sites',
    ]);
  });
});

describe('GitHub', () => {
  test('annotations are those that @actions/core prints of the same text', () => {
    const lines = report('github').trimEnd().split('\n');
    const commands = lines.filter((line) => line.startsWith('::'));
    expect(commands).toHaveLength(names.length + 1);
    // Nothing but the sum stands beside them.
    expect(lines.filter((line) => !line.startsWith('::'))).toEqual([
      expect.stringMatching(new RegExp(`^${summary.files} files, ${summary.failed} failed, \\d+ sites$`)),
    ]);
    const decoded = commands.map((line) => {
      const [, level = '', file = '', title = '', data = ''] = /^::(\w+) file=(.*?),title=(.*?)::(.*)$/.exec(line)!;
      const plain = (text: string): string =>
        text
          .replaceAll('%3A', ':')
          .replaceAll('%2C', ',')
          .replaceAll('%0D', '\r')
          .replaceAll('%0A', '\n')
          .replaceAll('%25', '%');
      return { level, file: plain(file), title: plain(title), message: plain(data) };
    });
    const script = join(folder, 'core.mjs');
    writeFileSync(
      script,
      `import { createRequire } from 'node:module';
       const { issueCommand } = createRequire(${JSON.stringify(join(root, 'package.json'))})('@actions/core/lib/command.js');
       for (const { level, file, title, message } of ${JSON.stringify(decoded)}) issueCommand(level, { file, title }, message);`,
    );
    const { stdout } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
    expect(stdout.trimEnd().split('\n')).toEqual(commands);
    expect(decoded.map(({ file }) => file)).toContain('a%0A,b:c#d.ko');
    expect(decoded.map(({ file }) => file)).toContain('::error::forged.ko');
  });
});

describe('ndjson, json, text', () => {
  test('ndjson: each line is valid, and findings are those of json', () => {
    const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(
      JSON.parse(readFileSync(join(root, 'schemas/verify-ndjson.schema.json'), 'utf8')) as object,
    );
    const lines = report('ndjson')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    for (const line of lines) expect([line, validate(line)]).toEqual([line, true]);
    const findings = lines.filter(({ kind }) => kind === 'finding');
    expect(findings.map(({ kind: _kind, file: _file, ...rest }) => rest)).toEqual(
      json.flatMap((each) => (each['findings'] ?? []) as unknown[]),
    );
    expect(lines.at(-1)).toMatchObject({ kind: 'summary', exit: 2, ...summary });
  });

  test('the schema of ndjson knows the verdicts of that of json', () => {
    const verdictsOf = (name: string): string[] =>
      [...readFileSync(join(root, 'schemas', `${name}.schema.json`), 'utf8').matchAll(/"([a-z]+(?:-[a-z]+)+)"/g)]
        .map(([, word]) => word!)
        .sort();
    expect(verdictsOf('verify-ndjson')).toEqual(verdictsOf('verify'));
    for (const verdict of Object.keys(verdictSeverity).filter((each) => each.includes('-'))) {
      expect(verdictsOf('verify-ndjson')).toContain(verdict);
    }
  });

  test('--json is --format json; another format beside it is refused', () => {
    expect(report('json')).toBe(elftrace(['verify', '--json', '.'], { cwd: tree }).stdout);
    const { status, stderr } = elftrace(['verify', '--json', '--format', 'sarif', tree]);
    expect([status, stderr]).toEqual([2, expect.stringContaining('contradict each other')]);
  });

  test('no format prints what terminals would carry out', () => {
    for (const format of ['text', 'json', 'ndjson', 'sarif', 'junit', 'ktap', 'github']) {
      expect([format, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/.exec(report(format))?.[0]]).toEqual([
        format,
        undefined,
      ]);
    }
  });
});

describeWith(['gcc'], 'objects without sites', () => {
  test('where nothing has a site every format fails', () => {
    const empty = join(folder, 'plain.o');
    writeFileSync(`${empty}.c`, 'int f(void) { return 0; }\n');
    run('gcc', ['-c', '-o', empty, `${empty}.c`]);
    for (const format of ['text', 'json', 'ndjson', 'sarif', 'junit', 'ktap', 'github']) {
      const { status, stdout, stderr } = elftrace(['verify', '--format', format, empty]);
      expect([format, status, /no.site|no patch site|no-sites/i.test(stdout + stderr)]).toEqual([format, 1, true]);
      if (format === 'junit') expect(stdout).toContain('failures="1"');
      if (format === 'ktap') expect(stdout).toMatch(/^not ok 2 /m);
      if (format === 'sarif') expect(sarifRun(stdout).invocations[0]!.toolExecutionNotifications).toHaveLength(1);
    }
  });
});
