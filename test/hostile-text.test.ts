/**
 * Foreign text that attacks a terminal, in every place that text comes from, and every verb:
 * nothing of it leaves as it is. Bytes are put into string tables of samples in place of names as
 * long as themselves, so that every tool still reads the files.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { readSample } from './support/pipeline.js';
import { note } from './support/elf-builder.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'hostile-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/**
 * ESC, C1, DEL, a bidi override, a line feed, a byte that is no UTF-8. NUL ends names: it stands
 * where text has a length.
 */
const ATTACK = '\u001b[2J\u009b1m\u007f\u202e\nforged: 0 errors\r';
const RAW: readonly (readonly number[])[] = [
  [0x1b, 0x5b, 0x32, 0x4a],
  [0xc2, 0x9b],
  [0x0a],
  [0xff],
  [0x7f],
  [0xe2, 0x80, 0xae],
  [0x08],
];

/** The bytes with every attack in turn in the name, from its third byte on; its length stays. */
function poisoned(bytes: Uint8Array, names: readonly string[]): Uint8Array {
  const out = Buffer.from(bytes);
  names.forEach((name, i) => {
    const attack = RAW[i % RAW.length]!;
    if (name.length < attack.length + 2) throw new Error(`${name} is too short`);
    let found = 0;
    for (let at = out.indexOf(`\0${name}\0`, 0, 'latin1'); at >= 0; at = out.indexOf(`\0${name}\0`, at + 1, 'latin1')) {
      out.set(attack, at + 3);
      found++;
    }
    if (found === 0) throw new Error(`${name} does not occur`);
  });
  return new Uint8Array(out);
}

/** What may not be in text that people read. */
const RAW_TEXT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
/** @returns where raw bytes or a forged line are; '' where none is */
function rawIn(bytes: Uint8Array): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return 'no UTF-8';
  }
  // The command line's helper has decoded already.
  if (text.includes('\ufffd')) return 'no UTF-8';
  const raw = RAW_TEXT.exec(text);
  if (raw) return JSON.stringify(text.slice(Math.max(0, raw.index - 30), raw.index + 30));
  return text.split('\n').find((line) => line.startsWith('forged')) ?? '';
}

const directory = join(folder, `dir${ATTACK}`);
mkdirSync(directory);
const put = (name: string, bytes: Uint8Array | string): string => {
  const path = join(directory, name);
  writeFileSync(path, bytes, { mode: 0o755 });
  return path;
};

const symbols = (bytes: Uint8Array): string[] => {
  const path = put('plain', bytes);
  const { stdout } = elftrace(['list', path]);
  return stdout
    .trim()
    .split('\n')
    .filter((name) => name.length > 6 && !/main|_start/.test(name));
};

describeWith(['objcopy', 'ar'], 'hostile text', () => {
  const moduleBytes = readSample('x86-64/module-fentry.ko');
  const programBytes = readSample('x86-64/program-fentry');
  const moduleNames = symbols(moduleBytes);
  const programNames = symbols(programBytes);
  const attackedModule = poisoned(moduleBytes, moduleNames);
  const sections = join(folder, 'sections.ko');
  const plain = join(folder, 'plain.ko');
  writeFileSync(plain, attackedModule);
  writeFileSync(join(folder, 'note'), note({ is64: true, endian: 'little' }, 'G\u001b[2J', 3, Buffer.from(ATTACK)));
  run('objcopy', [
    `--add-section=.text.${'\u001b[31m\u009b'}=${plain}`,
    `--add-section=.note.x=${join(folder, 'note')}`,
    `--add-section=.modinfo.x=${plain}`,
    plain,
    sections,
  ]);
  const ko = put('module.ko', readFileSync(sections));
  const program = put('program', poisoned(programBytes, programNames));
  const map = put('System.map', `0000000000401000 T a${ATTACK.replace('\n', '')}\n0000000000401100 t b\u202e\n`);
  const info = put('named.ko', Buffer.from(attackedModule.buffer));
  const archive = put('x.a', '');
  rmSync(archive);
  run('ar', ['qc', archive, ko]);
  const member = Buffer.from(readFileSync(archive));
  // The name of the member, up to its '/'.
  member.set([0x1b, 0x5b, 0x4a], member.indexOf('module.ko/'));
  writeFileSync(archive, member);
  const linked = put('linked', programBytes);
  run('objcopy', ['--strip-all', linked]);
  run('objcopy', [`--add-gnu-debuglink=${plain}`, linked]);
  const debuglink = Buffer.from(readFileSync(linked));
  debuglink.set([0x1b, 0x5b, 0x4a], debuglink.indexOf('plain.ko\0'));
  const stripped = put('stripped', debuglink);
  const yaml = put(
    'session.yaml',
    `version: 1\nsteps:\n  - ops: { name: "m\\e[2J\\x9b", call: "x\\e[1m", filter: "a\\u202e*" }\n`,
  );
  const yamlKey = put('key.yaml', `version: 1\nsteps:\n  - "\\e[2J\\nforged": { }\n`);
  const broken = put('broken.yaml', `version: 1\u001b[2J\nsteps: [\u009b\n`);
  const junk = put('junk', Buffer.from([0x7f, 0x45, 0x4c, 0x46, ...Buffer.from(ATTACK)]));
  const output = join(directory, 'output');
  const [first] = elftrace(['list', '--json', program]).stdout.match(/"name":"[^"]*\\[^"]*"/) ?? ['"name":"main"'];
  const hostileName = (JSON.parse(`{${first}}`) as { name: string }).name;

  elftrace(['plan', program, '--nop', '-o', `${output}.json`]);

  const commands: readonly (readonly string[])[] = [
    ...['info', 'list', 'verify', 'status'].flatMap((verb) =>
      [ko, program, archive, stripped, junk, info, `${ATTACK}`].map((path) => [verb, path]),
    ),
    ...['info', 'list', 'verify', 'status'].map((verb) => [verb, stripped, '--symbols', map]),
    ['info', '--json', ko, program],
    ['list', '--json', ko],
    ['verify', '--json', ko, program],
    ['verify', '--jobs', '2', directory],
    ['list', ko, '-l', ATTACK],
    ['list', ko, '--format', ATTACK],
    ['disasm', ko, 'module_run'],
    ['disasm', program, ATTACK],
    ['explain', program, hostileName],
    ['explain', program, ATTACK],
    ['why', ATTACK, ko],
    ['why', hostileName, program, archive],
    ['diff', ko, program],
    ['diff', program, archive],
    ['diff', ko, `${output}1`],
    ['patch', ko, '--nop', '--dry-run'],
    ['patch', ko, '--nop', '-o', `${output}1`],
    ['status', `${output}1`],
    ['info', `${output}1`],
    ['revert', `${output}1`, '-o', `${output}2`],
    ['patch', program, '--enable', '-o', `${output}3`],
    ['status', `${output}3`],
    ['patch', program, '--enable', '--tracer', ATTACK, '-o', `${output}4`],
    ['patch', program, '--probe', `p:${ATTACK} ${ATTACK}`, '-o', `${output}4`],
    ['patch', program, '--direct', `${ATTACK}=${ATTACK}`, '-o', `${output}4`],
    ['patch', program, '--livepatch', `main=${ATTACK}`, '-o', `${output}4`],
    ...[yaml, yamlKey, broken].map((each) => ['patch', program, '--session', each, '-o', `${output}4`]),
    ['plan', program, '--nop'],
    ['apply', program, `${output}.json`, '-o', `${output}5`],
    ['apply', program, yaml, '-o', `${output}5`],
    ['mcount', ko, '-o', `${output}6`],
    ['load', ko, ko, '-o', `${output}7`],
    ['load', junk, '-o', `${output}7`],
    ['unload', program, ATTACK, '-o', `${output}7`],
    ['unwrap', junk, '-o', `${output}8`],
    ['cost', program],
    ['race', program, '--site', hostileName, '--max-seconds', '1'],
    ['race', program, '--site', ATTACK],
    ...['ndjson', 'folded', 'ftrace', 'graph', 'chrome'].map((format) => [
      ...[
        'run',
        '--trace',
        '-',
        '--trace-source=oracle',
        '--format',
        format,
        '--guest-output',
        join(folder, 'guest'),
        program,
      ],
    ]),
    ['run', '--profile', '--guest-output', join(folder, 'guest'), program],
    ['run', '--trace', '-', '--format', 'ftrace', '--guest-output', join(folder, 'guest'), `${output}3`],
    ['run', '--call', ATTACK, program],
    [ATTACK],
    ['info', `--${ATTACK}`, ko],
    ['explain', ATTACK],
  ];

  test.each(
    commands.map(
      (command) =>
        [
          command
            .map((word) => JSON.stringify(word.replace(folder, '')))
            .join(' ')
            .slice(0, 90),
          command,
        ] as const,
    ),
  )('%s', (_, command) => {
    const { status, stdout, stderr } = elftrace(command);
    expect([rawIn(Buffer.from(stdout)), rawIn(Buffer.from(stderr))]).toEqual(['', '']);
    expect(status).not.toBe(3);
    expect(stdout.length + stderr.length).toBeGreaterThan(0);
  });

  test('a plan is a text file too', () => {
    expect(rawIn(readFileSync(`${output}.json`))).toBe('');
    expect(JSON.parse(readFileSync(`${output}.json`, 'utf8'))).toMatchObject({});
  });

  test('the names are there: what is said is shown by its number', () => {
    expect(elftrace(['list', program]).stdout).toMatch(/\\x1b\[2J|\\x9b|\\xff/);
    expect(elftrace(['list', ko]).stdout).toContain('\\x1b[2J');
    expect(elftrace(['verify', program]).stdout).toContain('\\x1b[2J\\x9b1m\\x7f\\u202e\\x0aforged');
    expect(elftrace(['verify', archive]).stdout).toContain('(\\x1b[Jule.ko)');
    const trace = ['run', '--trace', '-', '--trace-source=oracle', '--format', 'ftrace'];
    expect(elftrace([...trace, '--guest-output', join(folder, 'guest'), program]).stdout).toMatch(/\\x1b\[2J|\\xff/);
  });
});

describe('the places', () => {
  test('attacks are found by what looks for them', () => {
    expect(rawIn(Buffer.from('a\u001bb'))).not.toBe('');
    expect(rawIn(Buffer.from([0xff]))).not.toBe('');
    expect(rawIn(Buffer.from('a\u202e'))).not.toBe('');
    expect(rawIn(Buffer.from('a\nforged: 0'))).not.toBe('');
    expect(rawIn(Buffer.from('plain\ttext, ä\n'))).toBe('');
  });
});
