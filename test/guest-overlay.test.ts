/**
 * The tree that a guest may change (`run --write`): random changes of it and of a copy of the lower
 * tree on the host leave the same files, and the lower tree stays as it was. And nothing leads out.
 */
import * as fs from 'node:fs';
import hostFiles, { mkdtempSync, rmSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, jest, test } from '@jest/globals';
import { filesBelow } from '../src/output/guest-files.js';
import { overlayOf } from '../src/output/guest-overlay.js';
import type { FileChanges, FileSystem } from '../src/guest/index.js';
import { elftrace } from './support/cli.js';
import { randomNumbers } from './support/tiers.js';
import { repeats } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'overlay-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** How often the host is asked what is at a path. */
function questions(act: () => void): number {
  const asked = jest.spyOn(hostFiles, 'lstatSync');
  syncBuiltinESMExports();
  act();
  const count = asked.mock.calls.length;
  asked.mockRestore();
  syncBuiltinESMExports();
  return count;
}

let trees = 0;
/** A new lower tree, an empty directory above it, and a copy to compare with. */
function makeTrees(): { lower: string; upper: string; copy: string } {
  const base = join(folder, String(trees++));
  const [lower, upper, copy] = ['lower', 'upper', 'copy'].map((name) => join(base, name)) as [string, string, string];
  fs.mkdirSync(join(lower, 'a', 'b'), { recursive: true });
  fs.mkdirSync(upper);
  for (const [name, text] of [['x', 'one'], ['a/y', 'two'], ['a/b/z', 'three']] as const) fs.writeFileSync(join(lower, name), text); // prettier-ignore
  fs.symlinkSync('a', join(lower, 'link'));
  fs.cpSync(lower, copy, { recursive: true, verbatimSymlinks: true });
  return { lower, upper, copy };
}

/** Paths with their kinds and contents, ascending. */
function contents(files: FileSystem, path = '/'): string[] {
  const names = files.list(path);
  if (typeof names === 'string') throw new Error(`${path}: ${names}`);
  return names.flatMap((name) => {
    const inside = path === '/' ? `/${name}` : `${path}/${name}`;
    const status = files.status(inside, false);
    if (typeof status === 'string') throw new Error(`${inside}: ${status}`);
    if (status.kind === 'directory') return [`${inside}/`, ...contents(files, inside)];
    if (status.kind === 'link') return [`${inside} -> ${JSON.stringify(files.readLink(inside))}`];
    const file = files.open(inside);
    if (typeof file === 'string') throw new Error(`${inside}: ${file}`);
    const text = Buffer.from(file.read(0, status.sizeBytes)).toString();
    file.close();
    return [`${inside} ${text}`];
  });
}

const codeOf = (act: () => void): string | null => {
  try {
    act();
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'none';
  }
};

/** One change of both; the answers, null where it was made. */
function change(changes: FileChanges, copy: string, pick: (below: number) => number): readonly (string | null)[] {
  const paths = ['/x', '/n', '/a', '/a/y', '/a/m', '/a/b', '/a/b/z', '/a/b/k', '/link/y', '/c', '/c/d'];
  const [path, other] = [paths[pick(paths.length)]!, paths[pick(paths.length)]!];
  const host = (name: string): string => join(copy, name);
  switch (pick(5)) {
    case 0: {
      const text = `text ${pick(100)}`;
      const file = changes.open(path, 0o644, true);
      if (typeof file !== 'string') file.write(0, Buffer.from(text));
      if (typeof file !== 'string') file.close();
      return [typeof file === 'string' ? file : null, codeOf(() => { fs.writeFileSync(host(path), text); })]; // prettier-ignore
    }
    case 1:
      return [changes.makeDirectory(path, 0o755), codeOf(() => fs.mkdirSync(host(path)))];
    case 2:
      return [changes.remove(path, 'file'), codeOf(() => { fs.unlinkSync(host(path)); })]; // prettier-ignore
    case 3:
      return [changes.remove(path, 'directory'), codeOf(() => { fs.rmdirSync(host(path)); })]; // prettier-ignore
    default: {
      const answer = changes.rename(path, other);
      // Directories of the lower tree are not moved.
      return answer === 'EXDEV' ? [] : [answer, codeOf(() => { fs.renameSync(host(path), host(other)); })]; // prettier-ignore
    }
  }
}

test.each(repeats([1, 2, 3, 4, 5, 6, 7, 8], 3))(
  'seed %i: what changes, and what is refused, is as on the host',
  (seed) => {
    const { lower, upper, copy } = makeTrees();
    const before = contents(filesBelow(lower));
    const overlay = overlayOf(filesBelow(lower), upper, 1 << 20);
    const pick = randomNumbers(seed);
    for (let i = 0; i < 200; i++) {
      const [here, there] = change(overlay.changes!, copy, pick);
      expect({ i, code: here }).toEqual({ i, code: there });
      if (i % 10 === 0) expect(contents(overlay)).toEqual(contents(filesBelow(copy)));
    }
    expect(contents(overlayOf(filesBelow(lower), upper, 0))).toEqual(contents(filesBelow(copy)));
    expect(contents(filesBelow(lower))).toEqual(before);
  },
);

test('nothing leads out, whiteouts have no names, and there is an end to it', () => {
  const { lower, upper } = makeTrees();
  fs.symlinkSync('/', join(upper, 'out'));
  fs.symlinkSync('../../../../..', join(upper, 'up'));
  const outside = join(folder, 'outside');
  const { changes, ...files } = overlayOf(filesBelow(lower), upper, 100) as FileSystem & { changes: FileChanges };
  void files;
  for (const path of [`/out${outside}`, `/up${outside}`, `/../..${outside}`]) changes.open(path, 0o644, true);
  expect(fs.existsSync(outside)).toBe(false);
  expect(changes.open('/.wh.x', 0o644, false)).toBe('EACCES');
  expect(changes.makeDirectory('/a/.wh..wh..opq', 0o755)).toBe('EACCES');
  const file = changes.open('/new', 0o644, false);
  if (typeof file === 'string') throw new Error(file);
  expect([file.write(0, new Uint8Array(60)), file.write(60, new Uint8Array(60)), file.resize(2 ** 45)]).toEqual([60, 'ENOSPC', 'ENOSPC']); // prettier-ignore
  file.close();
});

test('a program that makes its user another one is seen as such, and its copy makes nobody anything', () => {
  const { lower, upper } = makeTrees();
  fs.chmodSync(join(lower, 'x'), 0o6755);
  fs.chmodSync(join(lower, 'a'), 0o555);
  const files = overlayOf(filesBelow(lower), upper, 1000);
  const permissionsOf = (path: string): unknown => {
    const status = files.status(path, true);
    return typeof status === 'string' ? status : status.permissions.toString(8);
  };
  expect([permissionsOf('/x'), permissionsOf('/a')]).toEqual(['6755', '555']);
  for (const path of ['/x', '/a/y']) {
    const file = files.changes!.open(path, 0, false);
    if (typeof file === 'string') throw new Error(file);
    file.write(0, Buffer.from('written'));
    file.close();
  }
  expect([permissionsOf('/x'), permissionsOf('/a')]).toEqual(['6755', '555']);
  expect(fs.statSync(join(upper, 'x')).mode & 0o7000).toBe(0);
  expect(files.changes!.open('/a/new', 0o644, false)).toBe('EACCES');
  expect(files.changes!.setPermissions('/x', 0o4711)).toBeNull();
  expect([permissionsOf('/x'), fs.statSync(join(upper, 'x')).mode & 0o7777]).toEqual(['711', 0o711]);
});

test('--write needs --root, and no --compare', () => {
  const { lower, upper } = makeTrees();
  const image = 'samples/built/riscv64/program-mcount';
  expect(elftrace(['run', '--write', upper, image]).stderr).toContain('--write goes with --root');
  const both = elftrace(['run', '--root', lower, '--write', upper, '--compare', image, image]);
  expect(both.stderr).toContain('--write does not go with --compare');
});

test('each name of a path is asked for once in each tree, with what may hide it', () => {
  const { lower, upper } = makeTrees();
  const names = Array.from({ length: 30 }, (_, i) => `d${i}`);
  const path = `/${names.join('/')}`;
  fs.mkdirSync(join(lower, ...names), { recursive: true });
  const files = overlayOf(filesBelow(lower), upper, 1 << 20);
  const below = questions(() => {
    expect(files.status(path, true)).toMatchObject({ kind: 'directory' });
  });
  expect(below).toBeGreaterThanOrEqual(names.length);
  expect(below).toBeLessThan(2 * names.length);
  expect(files.changes!.makeDirectory(`${path}/new`, 0o755)).toBeNull();
  const above = questions(() => {
    expect(files.status(`${path}/new`, true)).toMatchObject({ kind: 'directory' });
  });
  expect(above).toBeLessThan(5 * names.length);
});
