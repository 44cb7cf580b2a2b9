/**
 * What leaves the command line as files: every moment in which a writer may die, every write that
 * may fail, and everything that a path may be. The writer runs with a library in front of libc
 * (`support/faults.c`), which kills it, or lets a call fail, at each of its calls in turn.
 */
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import { concatBytes } from '../src/bytes.js';
import { isLong, isWhole, repeats, sampled } from './support/long.js';
import { builtSamples, root } from './support/pipeline.js';
import { journalOutput } from '../src/cli/journal.js';
import { encodeRecord } from '../src/record/encode.js';
import { decodeRecord } from '../src/record/journal.js';
import { writeOutputs } from '../src/output/commit.js';
import { outputsOf } from './support/output-writer.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { spawnSync } from './support/spawn.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'output-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const writer = fileURLToPath(new URL('support/output-writer.js', import.meta.url));
const faults = join(root, 'test/support/faults.c');
const sample = join(builtSamples, 'x86-64/module-fentry.ko');

const contents = (text: string): Readonly<Record<string, string>> => ({
  file: `file ${text}`.repeat(5000),
  journal: `journal ${text}`,
});

function at(name: string): string {
  return join(folder, name);
}

/** A new folder that holds the old outputs. */
function prepared(name: string): string {
  const path = at(name);
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path);
  for (const [file, text] of Object.entries(contents('old'))) writeFileSync(join(path, file), text);
  return path;
}

/**
 * Runs the writer with the library that counts its calls on files of the folder, and may make one
 * of them fail.
 */
function faulty(kind: string, path: string, settings: Readonly<Record<string, string>>) {
  const env = { ...process.env, LD_PRELOAD: at('faults.so'), FAULT_DIR: path, ...settings };
  return spawnSync(process.execPath, [writer, kind, path, 'new'], { encoding: 'utf8', timeout: 60_000, env });
}

/** The writer's calls on files of the folder, a letter each. */
function callsOf(kind: string): string {
  const built = spawnSync('gcc', ['-shared', '-fPIC', '-O1', '-o', at('faults.so'), faults, '-ldl'], {
    encoding: 'utf8',
  });
  expect([built.status, built.stderr]).toEqual([0, '']);
  const result = faulty(kind, prepared('dry'), { FAULT_COUNT: at('calls') });
  expect([result.status, result.stderr]).toEqual([0, '']);
  return readFileSync(at('calls'), 'utf8');
}

function stateOf(path: string, kind: string): string {
  const which = (name: string): string => {
    const text = readFileSync(join(path, name), 'utf8');
    if (text === 'journal of both') return 'both';
    return text === contents('old')[name] ? 'old' : text === contents('new')[name] ? 'new' : 'torn';
  };
  return kind === 'pair' ? `${which('journal')} ${which('file')}` : which('file');
}

const whole: Readonly<Record<string, readonly string[]>> = {
  single: ['old', 'new'],
  pair: ['old old', 'both old', 'both new', 'new new'],
};

describeWith(['gcc'], 'a writer that dies', () => {
  for (const kind of repeats(['pair', 'single'])) {
    test(`${kind}: kill -9 at each call on a file leaves old or new, and the next writer is not hindered`, async () => {
      const states = new Map<string, number>();
      const calls = callsOf(kind);
      for (const i of sampled([...calls.split('').keys()], 3)) {
        const path = prepared('killed');
        faulty(kind, path, { FAULT_AT: String(i + 1), FAULT_KIND: 'kill' });
        const state = stateOf(path, kind);
        states.set(state, (states.get(state) ?? 0) + 1);
        await writeOutputs(outputsOf(kind, path, 'new'));
        expect([i, stateOf(path, kind)]).toEqual([i, whole[kind]!.at(-1)]);
        expect([i, ...readdirSync(path).sort()]).toEqual([i, 'file', 'journal']);
      }
      const counted = [...states].map((each) => each.join(': ')).join(', ');
      process.stdout.write(`${kind}: killed at ${calls.length} calls (${calls}): ${counted}\n`);
      if (isLong) expect([...states.keys()].sort()).toEqual([...whole[kind]!].sort());
      else for (const state of states.keys()) expect(whole[kind]).toContain(state);
    }, 120_000);

    // A pair has the calls of a single file too.
    if (kind === 'single' && !isWhole) continue;
    test(`${kind}: a full disk at each call leaves the old files alone, or the new ones complete`, () => {
      const calls = callsOf(kind);
      let failed = 0;
      for (const [i, letter] of [...calls].entries()) {
        if (letter === 'u' || (!isLong && i % 3 !== 0)) continue;
        const path = prepared('full');
        const { status } = faulty(kind, path, { FAULT_AT: String(i + 1), FAULT_KIND: 'full' });
        if (status === 2) failed++;
        // A folder that cannot be synchronised is no reason to fail: the new files are in place.
        else expect([i, status, letter]).toEqual([i, 0, 's']);
        const state = stateOf(path, kind);
        expect([i, whole[kind]!.includes(state)]).toEqual([i, true]);
        if (status === 0) expect([i, state]).toEqual([i, whole[kind]!.at(-1)]);
        expect([i, ...readdirSync(path).sort()]).toEqual([i, 'file', 'journal']);
      }
      process.stdout.write(`${kind}: no space at ${calls.length} calls, ${failed} of them ended the writer\n`);
      expect(failed).toBeGreaterThan(5);
    }, 120_000);
  }
});

describe('locks', () => {
  test('an output that another process is writing is refused; a dead holder does not hold it', () => {
    const path = prepared('locked');
    const lock = join(path, '.file.elftrace-lock');
    const write = () => spawnSync(process.execPath, [writer, 'single', path, 'new'], { encoding: 'utf8' });
    const here = JSON.parse(readLockOf(path)) as Record<string, unknown>;
    writeFileSync(lock, JSON.stringify({ ...here, pid: process.pid, began: '' }));
    const refused = write();
    expect([refused.status, stateOf(path, 'single')]).toEqual([2, 'old']);
    expect(refused.stderr).toContain(`process ${process.pid}`);
    // The number belongs to another process now.
    writeFileSync(lock, JSON.stringify({ ...here, pid: process.pid, began: '1' }));
    expect([write().status, stateOf(path, 'single')]).toEqual([0, 'new']);
    // Another host's processes cannot be asked.
    writeFileSync(lock, JSON.stringify({ ...here, pid: 1, host: 'elsewhere' }));
    expect(write().status).toBe(2);
    writeFileSync(lock, 'something else');
    expect(write().stderr).toContain('no lock of elftrace');
  });

  test('many writers at once: each is served or refused, and the file is always one of theirs', () => {
    const path = prepared('crowd');
    const script = Array.from({ length: 8 }, (_, i) => `"${process.execPath}" "${writer}" single "${path}" w${i} &`);
    spawnSync('sh', ['-c', `${script.join('\n')}\nwait`], { encoding: 'utf8' });
    const text = readFileSync(join(path, 'file'), 'utf8');
    expect(Array.from({ length: 8 }, (_, i) => `file w${i}`.repeat(5000))).toContain(text);
    expect(readdirSync(path).sort()).toEqual(['file', 'journal']);
  });
});

/**
 * What a lock of this machine looks like: taken from a writer that is killed while it holds one.
 */
function readLockOf(path: string): string {
  const script = `
    import { takeLock } from ${JSON.stringify(new URL('../src/output/lock.js', import.meta.url).href)};
    takeLock(${JSON.stringify(join(path, 'file'))});`;
  spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  return readFileSync(join(path, '.file.elftrace-lock'), 'utf8');
}

describe('what a path may be', () => {
  const patched = (): Buffer => {
    expect(elftrace(['patch', '--nop', sample, '-o', at('plain.ko')]).status).toBe(0);
    return readFileSync(at('plain.ko'));
  };

  test('standard input and output', () => {
    const cli = fileURLToPath(new URL('../../dist/cli.cjs', import.meta.url));
    const piped = spawnSync(process.execPath, [cli, 'patch', '--nop', '-', '-o', '-'], { input: readFileSync(sample) });
    expect(piped.status).toBe(0);
    expect(piped.stdout.equals(patched())).toBe(true);
    expect(piped.stderr.toString()).toContain('11 of 11 sites changed');
    const back = spawnSync(process.execPath, [cli, 'revert', '-', '-o', '-'], { input: piped.stdout });
    expect(back.stdout.equals(readFileSync(sample))).toBe(true);
    expect(spawnSync(process.execPath, [cli, 'patch', '--nop', '-', '--in-place'], { input: '' }).status).toBe(2);
  });

  test('a device stays a device, a FIFO gets the bytes', () => {
    expect(elftrace(['patch', '--nop', sample, '-o', '/dev/null']).status).toBe(0);
    expect(lstatSync('/dev/null').isCharacterDevice()).toBe(true);
    const fifo = at('fifo');
    expect(spawnSync('mkfifo', [fifo]).status).toBe(0);
    const cli = fileURLToPath(new URL('../../dist/cli.cjs', import.meta.url));
    const script = `cat "${fifo}" > "${at('from-fifo')}" & "${process.execPath}" "${cli}" patch --nop "${sample}" -o "${fifo}"; wait`;
    expect(spawnSync('sh', ['-c', script]).status).toBe(0);
    expect(lstatSync(fifo).isFIFO()).toBe(true);
    expect(readFileSync(at('from-fifo')).equals(patched())).toBe(true);
  });

  const hasSharedMemory = existsSync('/dev/shm');
  (hasSharedMemory ? test : test.skip)('files of /dev/shm are files: made anew, or replaced as a whole', () => {
    const shared = mkdtempSync('/dev/shm/elftrace-output-');
    try {
      const output = join(shared, 'out.ko');
      const longer = Buffer.concat([readFileSync(sample), Buffer.alloc(1000, 1)]);
      for (const before of [null, longer]) {
        if (before !== null) writeFileSync(output, before);
        expect(elftrace(['patch', '--nop', sample, '-o', output]).status).toBe(0);
        expect(readFileSync(output).equals(patched())).toBe(true);
        expect(readdirSync(shared)).toEqual(['out.ko']);
      }
    } finally {
      rmSync(shared, { recursive: true });
    }
    expect(elftrace(['patch', '--nop', sample, '-o', '/dev/no-such-device']).status).toBe(2);
    expect(existsSync('/dev/no-such-device')).toBe(false);
  });

  test('a link is written through, also one that names nothing yet', () => {
    symlinkSync('not-yet.ko', at('dangling.ko'));
    expect(elftrace(['patch', '--nop', sample, '-o', at('dangling.ko')]).status).toBe(0);
    expect(lstatSync(at('dangling.ko')).isSymbolicLink()).toBe(true);
    expect(readFileSync(at('not-yet.ko')).equals(patched())).toBe(true);
    symlinkSync('loop', at('loop'));
    expect(elftrace(['patch', '--nop', sample, '-o', at('loop')]).status).toBe(2);
  });

  test('other names of a file in place are said', () => {
    writeFileSync(at('linked.ko'), readFileSync(sample));
    linkSync(at('linked.ko'), at('other-name.ko'));
    const { status, stderr } = elftrace(['patch', '--nop', at('linked.ko'), '--in-place']);
    expect([status, stderr.includes('2 names (hard links)')]).toEqual([0, true]);
    expect(readFileSync(at('other-name.ko')).equals(readFileSync(sample))).toBe(true);
  });

  test('a new file is like its input, an existing one stays like itself, set-id bits included', () => {
    writeFileSync(at('input.ko'), readFileSync(sample));
    const mode = (name: string): number => statSync(at(name)).mode & 0o7777;
    chmodSync(at('input.ko'), 0o4750);
    expect(elftrace(['patch', '--nop', at('input.ko'), '-o', at('like-input.ko')]).status).toBe(0);
    expect(mode('like-input.ko')).toBe(0o4750);
    chmodSync(at('like-input.ko'), 0o600);
    expect(elftrace(['patch', '--nop', at('input.ko'), '-o', at('like-input.ko')]).status).toBe(0);
    expect(mode('like-input.ko')).toBe(0o600);
    chmodSync(at('input.ko'), 0o6755);
    expect(elftrace(['patch', '--nop', at('input.ko'), '--in-place']).status).toBe(0);
    expect(mode('input.ko')).toBe(0o6755);
  });
});

describeWith(['setfattr', 'getfattr', 'setfacl', 'getfacl'], 'attributes', () => {
  test('access lists and extended attributes go along', () => {
    const file = at('attributes.ko');
    writeFileSync(file, readFileSync(sample));
    const set = [
      spawnSync('setfattr', ['-n', 'user.origin', '-v', 'build 7', file]).status,
      spawnSync('setfacl', ['-m', 'u:12345:r', file]).status,
    ];
    expect(set).toEqual([0, 0]);
    for (const output of ['attributes-new.ko', 'attributes.ko']) {
      const place = output === 'attributes.ko' ? ['--in-place'] : ['-o', at(output)];
      expect(elftrace(['patch', '--nop', file, ...place]).status).toBe(0);
      expect(spawnSync('getfattr', ['-n', 'user.origin', at(output)], { encoding: 'utf8' }).stdout).toContain(
        'build 7',
      );
      expect(spawnSync('getfacl', [at(output)], { encoding: 'utf8' }).stdout).toContain('user:12345:r');
    }
  });
});

describe('nothing is lost', () => {
  test('an output that is an input or another output', () => {
    const put = (name: string): string => {
      writeFileSync(at(name), readFileSync(sample));
      return at(name);
    };
    const before = readFileSync(sample);
    const file = put('self.ko');
    for (const args of [
      ['plan', '--nop', file, '-o', file],
      ['patch', '--nop', file, '-o', at('twice'), '--journal', at('twice')],
      ['patch', '--nop', sample, '-o', at('fresh.ko'), '--journal', file],
      ['patch', '--nop', sample, '-o', file, '--symbols', file],
    ]) {
      const { status } = elftrace(args);
      expect([args.join(' '), status]).toEqual([args.join(' '), 2]);
      expect(readFileSync(file).equals(before)).toBe(true);
      expect(existsSync(at('twice'))).toBe(false);
    }
  });

  test('RT-7 the journal of another file is not replaced', () => {
    const other = join(builtSamples, 'riscv64/module-mcount.ko');
    expect(elftrace(['patch', '--nop', sample, '-o', at('a.ko'), '--journal', at('a.journal')]).status).toBe(0);
    const kept = readFileSync(at('a.journal'));
    const { status, stderr } = elftrace(['patch', '--nop', other, '-o', at('b.ko'), '--journal', at('a.journal')]);
    expect([status === 0, readFileSync(at('a.journal')).equals(kept)]).toEqual([false, true]);
    expect(stderr).not.toBe('');
  });

  test('RT-7 a journal is written with the record of the file that it replaces', async () => {
    const name = (text: string): string => at(`meanwhile-${text}`);
    for (const selection of [['-l', 'module_run'], []]) {
      const input = selection.length > 0 ? sample : name('file.ko');
      const journal = ['--journal', name('journal')];
      const place = selection.length > 0 ? ['-o', name('file.ko')] : ['--dry-run'];
      expect(elftrace(['patch', '--nop', ...selection, input, ...place, ...journal]).status).toBe(0);
    }
    const old = new Uint8Array(readFileSync(name('journal')));
    const fresh = encodeRecord({ ...decodeRecord(old), edits: [] });
    const output = await journalOutput(name('journal'), fresh, name('file.ko'));
    expect([output.bytes, output.meanwhile]).toEqual([fresh, concatBytes([fresh, old])]);
    const other = encodeRecord({ ...decodeRecord(old), sha256: 'f'.repeat(64) });
    await expect(journalOutput(name('journal'), other, name('file.ko'))).rejects.toThrow(/record of another file/);
    writeFileSync(name('notes'), 'no record');
    await expect(journalOutput(name('notes'), fresh, name('file.ko'))).rejects.toThrow(/no record of elftrace/);
  });

  test('RT-7 between the two renames the journal reverts the old file and the new one', () => {
    const name = (text: string): string => at(`between-${text}`);
    const patch = (selection: readonly string[], from: string, to: string, journal: string): void => {
      const { status } = elftrace(['patch', '--nop', ...selection, from, '-o', to, '--journal', journal]);
      expect(status).toBe(0);
    };
    patch(['-l', 'module_run'], sample, name('1.ko'), name('1.journal'));
    writeFileSync(name('2.journal'), readFileSync(name('1.journal')));
    patch([], name('1.ko'), name('2.ko'), name('2.journal'));
    const records = [2, 1].map((i) => new Uint8Array(readFileSync(name(`${i}.journal`))));
    writeFileSync(name('both.journal'), concatBytes(records));
    for (const each of ['1.ko', '2.ko']) {
      const journal = ['--journal', name('both.journal')];
      expect(elftrace(['revert', name(each), '-o', name('back.ko'), ...journal]).status).toBe(0);
      expect(readFileSync(name('back.ko')).equals(readFileSync(sample))).toBe(true);
      expect(elftrace(['status', name(each), ...journal]).stdout).toContain('record: nop');
    }
  });

  test('a signal while an output grows, and nothing looks at signals yet, leaves nothing of it', () => {
    const path = prepared('signal');
    const script = `
      import { openOutput } from ${JSON.stringify(new URL('../src/output/stream.js', import.meta.url).href)};
      openOutput(${JSON.stringify(join(path, 'file'))}).write(new Uint8Array(3));
      process.kill(process.pid, 'SIGINT');
      setTimeout(() => {}, 10_000);`;
    const { signal } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect(signal).toBe('SIGINT');
    expect(readdirSync(path).sort()).toEqual(['file', 'journal']);
  });

  test('a file that changed since it was read is not replaced', () => {
    const path = prepared('changed');
    const script = `
      import { statSync, writeFileSync } from 'node:fs';
      import { noteInput } from ${JSON.stringify(new URL('../src/output/inputs.js', import.meta.url).href)};
      import { writeOutputs } from ${JSON.stringify(new URL('../src/output/commit.js', import.meta.url).href)};
      const path = ${JSON.stringify(join(path, 'file'))};
      noteInput(path, statSync(path, { bigint: true }));
      writeFileSync(path, 'somebody else');
      await writeOutputs([{ path, bytes: new Uint8Array(3), replacesInput: true }]).catch((error) => console.log(error.code));`;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect(stdout.trim()).toBe('output-changed');
    expect(readFileSync(join(path, 'file'), 'utf8')).toBe('somebody else');
    expect(readdirSync(path).sort()).toEqual(['file', 'journal']);
  });
});
