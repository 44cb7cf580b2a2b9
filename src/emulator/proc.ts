/**
 * What a process finds about itself below `/proc/self`: made when it is asked for.
 *
 * Source: Linux, proc(5), fs/proc/array.c, fs/proc/task_mmu.c.
 */
import { SHARED_NAME } from './address-space.js';
import type { Description } from './descriptions.js';
import type { FileStatus } from './files.js';
import type { Window } from './memory.js';

/** What is told of a process. */
export interface ProcSubject {
  readonly id: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** The path of the program, in the tree. */
  readonly program: string;
  /** What the process called itself; null: nothing. */
  readonly name: string | null;
  readonly args: readonly string[];
  readonly env: readonly string[];
  /** The bytes of the auxiliary vector. */
  readonly auxiliary: Uint8Array;
  readonly threads: readonly number[];
  readonly windows: readonly Window[];
  readonly stackTop: bigint;
  readonly cwd: string;
  /** The path and offset of what is mapped from a file at an address. */
  mappedAt(address: bigint): { readonly path: string; readonly offset: bigint } | null;
  readonly descriptors: { readonly numbers: readonly number[]; get(number: number): Description | undefined };
}

/** A file below `/proc`. */
export type ProcFile =
  | { readonly kind: 'text'; readonly bytes: Uint8Array }
  | { readonly kind: 'list'; readonly names: readonly string[] }
  | { readonly kind: 'link'; readonly text: string }
  /** Opens what a descriptor leads to. */
  | { readonly kind: 'descriptor'; readonly description: Description };

const encoder = new TextEncoder();
const text = (value: string): ProcFile => ({ kind: 'text', bytes: encoder.encode(value) });
const strings = (values: readonly string[]): ProcFile => text(values.map((each) => `${each}\0`).join(''));

const commOf = ({ program, name }: ProcSubject): string => name ?? program.replace(/^.*\//, '').slice(0, 15);

/** Column at which the name of a mapping begins. */
const NAME_COLUMN = 73;

function mapsOf(subject: ProcSubject): string {
  const hex = (value: bigint): string => value.toString(16).padStart(8, '0');
  return subject.windows
    .map((window) => {
      const { address, size, permission, name } = window;
      const end = address + BigInt(size);
      const has = (letter: string): string => (permission.includes(letter) ? letter : '-');
      const rights = `${permission === 'none' ? '-' : 'r'}${has('w')}${has('x')}${name === SHARED_NAME ? 's' : 'p'}`;
      const file =
        name === 'segment' ? { path: subject.program, offset: 0n } : name === 'file' ? subject.mappedAt(address) : null;
      const special: Readonly<Record<string, string>> = { heap: '[heap]', stack: '[stack]', vdso: '[vdso]' };
      const shown = file?.path ?? special[name] ?? '';
      const head = `${hex(address)}-${hex(end)} ${rights} ${hex(file?.offset ?? 0n)} 00:00 ${file ? 1 : 0}`;
      return shown === '' ? `${head}\n` : `${head.padEnd(NAME_COLUMN)}${shown}\n`;
    })
    .join('');
}

/** Fields of `stat` behind the state; those that nothing here measures are 0. */
function statOf(subject: ProcSubject): string {
  const { id, parent, group, session, threads, windows, stackTop } = subject;
  const bytes = windows.reduce((sum, { size }) => sum + size, 0);
  const before = [parent, group, session, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, threads.length, 0, 0, bytes];
  const after = [Math.ceil(bytes / 4096), '18446744073709551615', 1, 1, stackTop - 1n, 0, 0];
  const rest = Array<number>(52 - 3 - before.length - after.length).fill(0);
  return `${id} (${commOf(subject)}) R ${[...before, ...after, ...rest].join(' ')}\n`;
}

function statusOf(subject: ProcSubject): string {
  const { id, parent, threads } = subject;
  const rows: readonly (readonly [string, string])[] = [
    ['Name', commOf(subject)],
    ['State', 'R (running)'],
    ['Tgid', String(id)],
    ['Pid', String(id)],
    ['PPid', String(parent)],
    ['Uid', '1000\t1000\t1000\t1000'],
    ['Gid', '1000\t1000\t1000\t1000'],
    ['Threads', String(threads.length)],
  ];
  return rows.map(([name, value]) => `${name}:\t${value}\n`).join('');
}

const FILES: Readonly<Record<string, (subject: ProcSubject) => ProcFile>> = {
  auxv: ({ auxiliary }) => ({ kind: 'text', bytes: auxiliary }),
  cmdline: ({ args }) => strings(args),
  comm: (subject) => text(`${commOf(subject)}\n`),
  cwd: ({ cwd }) => ({ kind: 'link', text: cwd }),
  environ: ({ env }) => strings(env),
  exe: ({ program }) => ({ kind: 'link', text: program.startsWith('/') ? program : `/${program}` }),
  fd: ({ descriptors }) => ({ kind: 'list', names: descriptors.numbers.map(String) }),
  maps: (subject) => text(mapsOf(subject)),
  root: () => ({ kind: 'link', text: '/' }),
  stat: (subject) => text(statOf(subject)),
  status: (subject) => text(statusOf(subject)),
  task: ({ threads }) => ({ kind: 'list', names: threads.map(String) }),
};

/** Other names of places below `/proc/self`. */
const ALIASES: Readonly<Record<string, string>> = {
  '/dev/fd': '/proc/self/fd', '/dev/stdin': '/proc/self/fd/0', '/dev/stdout': '/proc/self/fd/1', '/dev/stderr': '/proc/self/fd/2',
}; // prettier-ignore

/** The path below the folder of the process; null: it is somewhere else. */
function ownPath(path: string, id: number): string | null {
  const whole = ALIASES[path] ?? path.replace(/^\/dev\/fd\//, '/proc/self/fd/');
  for (const folder of ['/proc/self', '/proc/thread-self', `/proc/${id}`]) {
    if (whole === folder) return '';
    if (whole.startsWith(`${folder}/`)) return whole.slice(folder.length + 1);
  }
  return null;
}

/** The file of a path; null: none of these. */
export function procFileAt(path: string, subject: ProcSubject): ProcFile | null {
  const own = ownPath(path, subject.id);
  if (own === null) return null;
  if (own === '') return { kind: 'list', names: Object.keys(FILES) };
  const number = /^fd\/(\d{1,4})$/.exec(own)?.[1];
  if (number !== undefined) {
    const description = subject.descriptors.get(Number(number));
    return description ? { kind: 'descriptor', description } : null;
  }
  return Object.hasOwn(FILES, own) ? FILES[own]!(subject) : null;
}

/** What `stat` tells of such a file. */
export function procStatus(file: ProcFile): FileStatus {
  const kinds = { text: 'file', list: 'directory', link: 'link', descriptor: 'link' } as const;
  const permissions = { text: 0o444, list: 0o555, link: 0o777, descriptor: 0o700 } as const;
  return { kind: kinds[file.kind], permissions: permissions[file.kind], sizeBytes: 0, modified: 0, inode: 3 };
}
