/**
 * The file system that a kernel starts with: the init of init.c, its plan, and modules, as a
 * `newc` archive of cpio.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Machine } from './machines.js';

/** Root of the package, from build/scripts/boot. */
const root = fileURLToPath(new URL('../../..', import.meta.url));

const FOLDER = 0o040755;
const PROGRAM = 0o100755;
const CONSOLE = 0o020600;

function padded(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
}

function entry(name: string, mode: number, data: Uint8Array, device: readonly [number, number] = [0, 0]): Buffer {
  // inode, mode, uid, gid, links, time, size, device of the file system (2), device of a node (2),
  // length of the name, sum
  const values = [0, mode, 0, 0, 1, 0, data.length, 0, 0, ...device, name.length + 1, 0];
  const header = `070701${values.map((value) => value.toString(16).padStart(8, '0')).join('')}${name}\0`;
  return Buffer.concat([padded(Buffer.from(header, 'latin1')), padded(data)]);
}

/** These files, each a program, with their folders and the node that the init needs first. */
export function archive(files: ReadonlyMap<string, Uint8Array>): Buffer {
  const none = new Uint8Array();
  const parents = [...files.keys()].flatMap((path) =>
    path
      .split('/')
      .slice(0, -1)
      .map((_, at, parts) => parts.slice(0, at + 1).join('/')),
  );
  const folders = [...new Set(['dev', 'proc', 'sys', 'mnt', ...parents])];
  return Buffer.concat([
    ...folders.map((name) => entry(name, FOLDER, none)),
    entry('dev/console', CONSOLE, none, [5, 1]),
    ...[...files].map(([name, data]) => entry(name, PROGRAM, data)),
    entry('TRAILER!!!', 0, none),
  ]);
}

const FLAGS = [
  '-O2', '-Wall', '-Wextra', '-Werror', '-ffreestanding', '-fno-builtin', '-fno-tree-loop-distribute-patterns',
  '-fno-stack-protector', '-fno-pie', '-no-pie', '-static', '-nostdlib',
]; // prettier-ignore

/** The init for a machine. */
export function compileInit(machine: Machine): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-init-'));
  try {
    const out = join(folder, 'init');
    const source = join(root, 'scripts', 'boot', 'init.c');
    execFileSync(`${machine.tools}gcc`, [...FLAGS, source, '-o', out], { stdio: ['ignore', 'inherit', 'inherit'] });
    return new Uint8Array(readFileSync(out));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A file system of the kind minix, empty, to lie in the loop device. */
export function minixImage(): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-minix-'));
  try {
    const path = join(folder, 'image');
    writeFileSync(path, '');
    truncateSync(path, 256 * 1024);
    // In sbin, which is not in every user's PATH.
    execFileSync('mkfs.minix', [path], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, PATH: `${process.env['PATH'] ?? ''}:/sbin:/usr/sbin` },
    });
    return new Uint8Array(readFileSync(path));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
