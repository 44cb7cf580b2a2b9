/**
 * What a process finds about itself below `/proc/self`, and about the others of its run below
 * `/proc/ID`: made when it is asked for.
 *
 * Source: Linux, proc(5), fs/proc/array.c, fs/proc/task_mmu.c.
 */
import { type Ranges, SHARED_NAME } from './address-space.js';
import type { Description } from './descriptions.js';
import { linkFile, listFile, type ProcFile, textFile } from './proc-files.js';
import { mountinfo, mounts, type ProcSystem } from './proc-system.js';
import type { Window } from '../emulator/memory.js';

const STATES = { R: 'R (running)', S: 'S (sleeping)', T: 'T (stopped)', Z: 'Z (zombie)' } as const;
export type TaskState = keyof typeof STATES;

/** What is told of a process. */
export interface ProcSubject {
  readonly id: number;
  /**
   * Of a thread: it could run (R), waits (S), was stopped (T), or has ended while others go on (Z),
   * as only the first may.
   */
  stateOf(thread: number): TaskState;
  /** There are others, which have what it has not written since. */
  readonly hasOthers: boolean;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** The path of the program, in the tree. */
  readonly program: string;
  /** What the process called itself, else the file that was executed: a script, too. */
  readonly name: string;
  readonly args: readonly string[];
  readonly env: readonly string[];
  /** The bytes of the auxiliary vector. */
  readonly auxiliary: Uint8Array;
  readonly threads: readonly number[];
  readonly windows: readonly Window[];
  /** What has no right to be read. */
  readonly unread: Ranges;
  /** Sets of signals. */
  readonly blocked: bigint;
  readonly ignored: bigint;
  readonly caught: bigint;
  readonly umask: number;
  /** -20 to 19. */
  readonly nice: number;
  /** Instructions that it has executed. */
  readonly instructions: bigint;
  /** Soft and hard limit of a resource. */
  limits(resource: number): readonly [bigint, bigint];
  readonly stackTop: bigint;
  readonly cwd: string;
  /** The path of a file without links, as Linux tells of what is open, mapped or executed. */
  real(path: string): string;
  /** The path and offset of what is mapped from a file at an address. */
  mappedAt(address: bigint): { readonly path: string; readonly offset: bigint } | null;
  readonly descriptors: { readonly numbers: readonly number[]; get(number: number): Description | undefined };
}

const strings = (values: readonly string[]): ProcFile => textFile(values.map((each) => `${each}\0`).join(''));

const commOf = ({ name }: ProcSubject): string => name.slice(0, 15);

/** Nanoseconds, one an instruction, in which processes are counted. */
const TICK = 10_000_000n;

/** Column at which the name of a mapping begins. */
const NAME_COLUMN = 73;

const isUnread = ({ unread }: ProcSubject, address: bigint): boolean =>
  unread.some(([from, to]) => from <= address && to > address);

/** The parts of a window that may be read, and those that may not. */
function partsOf(window: Window, unread: Ranges): readonly Window[] {
  const end = window.address + BigInt(window.size);
  const inside = unread.flat().filter((each) => each > window.address && each < end);
  const cuts = [window.address, ...inside.sort((a, b) => (a < b ? -1 : 1)), end];
  return cuts.slice(1).map((to, i) => ({ ...window, address: cuts[i]!, size: Number(to - cuts[i]!) }));
}

/** The line of each mapping; behind it what `more` tells. */
function mapsOf(subject: ProcSubject, more: (window: Window) => string = () => ''): string {
  const hex = (value: bigint): string => value.toString(16).padStart(8, '0');
  return subject.windows
    .flatMap((window) => partsOf(window, subject.unread))
    .map((window) => {
      const { address, size, permission, name } = window;
      const end = address + BigInt(size);
      const has = (letter: string): string => (permission.includes(letter) ? letter : '-');
      const read = permission === 'none' || isUnread(subject, address) ? '-' : 'r';
      const rights = `${read}${has('w')}${has('x')}${name === SHARED_NAME ? 's' : 'p'}`;
      const file = name === 'segment' || name === 'file' ? subject.mappedAt(address) : null;
      const special: Readonly<Record<string, string>> = { heap: '[heap]', stack: '[stack]', vdso: '[vdso]' };
      const shown = file ? subject.real(file.path) : (special[name] ?? '');
      const head = `${hex(address)}-${hex(end)} ${rights} ${hex(file?.offset ?? 0n)} 00:00 ${file ? 1 : 0}`;
      const line = shown === '' ? head : `${head.padEnd(NAME_COLUMN)}${shown}`;
      return `${line}\n${more(window)}`;
    })
    .join('');
}

/**
 * Sizes of a mapping in KiB. All of it is told to be there, and to be written: what is of a file,
 * where it may be. Memory that processes share is so while there are others.
 */
function smapsOf(subject: ProcSubject): string {
  return mapsOf(subject, ({ address, size, permission, name }) => {
    const all = Math.ceil(size / 1024);
    const isThere = permission !== 'none';
    const isFile = name === 'segment' || subject.mappedAt(address) !== null;
    const isCommon = name === SHARED_NAME;
    const isDirty = permission.includes('w') || (!isFile && !isCommon);
    const of = (dirty: boolean, shared: boolean): number =>
      isThere && dirty === isDirty && shared === subject.hasOthers ? all : 0;
    const rss = isThere ? all : 0;
    const rows: readonly (readonly [string, number])[] = [
      ['Size', all], ['KernelPageSize', 4], ['MMUPageSize', 4], ['Rss', rss], ['Pss', rss], ['Shared_Clean', of(false, true)],
      ['Shared_Dirty', of(true, true)], ['Private_Clean', of(false, false)], ['Private_Dirty', of(true, false)], ['Referenced', rss],
      ['Anonymous', isDirty && !isCommon ? rss : 0], ['LazyFree', 0], ['AnonHugePages', 0], ['ShmemPmdMapped', 0], ['FilePmdMapped', 0], ['Shared_Hugetlb', 0],
      ['Private_Hugetlb', 0], ['Swap', 0], ['SwapPss', 0], ['Locked', 0],
    ]; // prettier-ignore
    const lines = rows.map(([row, value]) => `${`${row}:`.padEnd(16)}${String(value).padStart(8)} kB\n`);
    const flags = [['r', 'rd'], ['w', 'wr'], ['x', 'ex']].flatMap(([letter, flag]) =>
      isThere && (letter === 'r' ? !isUnread(subject, address) : permission.includes(letter!)) ? [flag] : [],
    ); // prettier-ignore
    return `${lines.join('')}THPeligible:           0\nVmFlags: ${[...flags, ...(isCommon ? ['sh', 'mr', 'mw', 'me', 'ms'] : ['mr', 'mw', 'me'])].join(' ')} \n`;
  });
}

/** Pages: all, there, shared, text, 0, data, 0. */
function statmOf({ windows }: ProcSubject): string {
  const pages = (of: (window: Window) => boolean): number =>
    windows.filter(of).reduce((sum, { size }) => sum + Math.ceil(size / 4096), 0);
  const all = pages(() => true);
  const shared = pages(({ name }) => name === SHARED_NAME || name === 'file');
  const text = pages(({ name, permission }) => name === 'segment' && permission.includes('x'));
  const data = pages(({ name, permission }) => name !== SHARED_NAME && permission.includes('w'));
  return `${all} ${pages(({ permission }) => permission !== 'none')} ${shared} ${text} 0 ${data} 0\n`;
}

/** Fields of `stat` behind the state; those that nothing here measures are 0. */
function statOf(subject: ProcSubject, task: number): string {
  const { parent, group, session, threads, windows, stackTop } = subject;
  const bytes = windows.reduce((sum, { size }) => sum + size, 0);
  const used = subject.instructions / TICK;
  const { nice } = subject;
  const before = [
    parent,
    group,
    session,
    0,
    -1,
    0,
    0,
    0,
    0,
    0,
    used,
    0,
    0,
    0,
    20 + nice,
    nice,
    threads.length,
    0,
    0,
    bytes,
  ];
  const after = [Math.ceil(bytes / 4096), '18446744073709551615', 1, 1, stackTop - 1n, 0, 0];
  const rest = Array<number>(52 - 3 - before.length - after.length).fill(0);
  return `${task} (${commOf(subject)}) ${subject.stateOf(task)} ${[...before, ...after, ...rest].join(' ')}\n`;
}

function statusOf(subject: ProcSubject, task: number): string {
  const { id, parent, threads, windows, blocked, ignored, caught, umask } = subject;
  const kilobytes = (of: (window: Window) => boolean): string => {
    const bytes = windows.filter(of).reduce((sum, { size }) => sum + size, 0);
    return `${String(Math.ceil(bytes / 1024)).padStart(8)} kB`;
  };
  const set = (signals: bigint): string => signals.toString(16).padStart(16, '0');
  const size = kilobytes(() => true);
  const resident = kilobytes(({ permission }) => permission !== 'none');
  const none = '       0 kB';
  const noRights = '0000000000000000';
  const rows: readonly (readonly [string, string | number])[] = [
    ['Name', commOf(subject)], ['Umask', umask.toString(8).padStart(4, '0')],
    ['State', STATES[subject.stateOf(task)]], ['Tgid', id], ['Ngid', 0], ['Pid', task],
    ['PPid', parent], ['TracerPid', 0], ['Uid', '1000\t1000\t1000\t1000'],
    ['Gid', '1000\t1000\t1000\t1000'], ['FDSize', 64], ['Groups', '1000 '],
    ['VmPeak', size], ['VmSize', size], ['VmLck', none], ['VmPin', none], ['VmHWM', resident],
    ['VmRSS', resident],
    ['VmData', kilobytes(({ permission, name }) => permission.includes('w') && name !== 'stack' && name !== SHARED_NAME)],
    ['VmStk', kilobytes(({ name }) => name === 'stack')],
    ['VmExe', kilobytes(({ name, permission }) => name === 'segment' && permission.includes('x'))],
    ['VmLib', kilobytes(({ name, permission }) => name === 'file' && permission.includes('x'))],
    ['VmPTE', none], ['VmSwap', none], ['Threads', threads.length], ['SigPnd', noRights],
    ['ShdPnd', noRights], ['SigBlk', set(blocked)],
    ['SigIgn', set(ignored)], ['SigCgt', set(caught)], ['CapInh', noRights], ['CapPrm', noRights],
    ['CapEff', noRights], ['CapBnd', noRights],
    ['CapAmb', noRights], ['NoNewPrivs', 0], ['Seccomp', 0], ['Cpus_allowed', 1], ['Cpus_allowed_list', 0],
    ['Mems_allowed', 1], ['Mems_allowed_list', 0],
    ['voluntary_ctxt_switches', 0], ['nonvoluntary_ctxt_switches', 0],
  ]; // prettier-ignore
  return rows.map(([name, value]) => `${name}:\t${value}\n`).join('');
}

/** Names and units of limits, by number. Source: Linux fs/proc/base.c. */
const LIMITS: readonly (readonly [name: string, unit: string])[] = [
  ['cpu time', 'seconds'], ['file size', 'bytes'], ['data size', 'bytes'], ['stack size', 'bytes'],
  ['core file size', 'bytes'], ['resident set', 'bytes'],
  ['processes', 'processes'], ['open files', 'files'], ['locked memory', 'bytes'],
  ['address space', 'bytes'], ['file locks', 'locks'],
  ['pending signals', 'signals'], ['msgqueue size', 'bytes'], ['nice priority', ''],
  ['realtime priority', ''], ['realtime timeout', 'us'],
]; // prettier-ignore

function limitsOf(limits: ProcSubject['limits']): string {
  const row = (name: string, soft: string, hard: string, unit: string): string =>
    `${name.padEnd(25)} ${soft.padEnd(20)} ${hard.padEnd(20)} ${unit.padEnd(10)}\n`;
  const shown = (value: bigint): string => (value === (1n << 64n) - 1n ? 'unlimited' : String(value));
  const rows = LIMITS.map(([name, unit], i) => {
    const [soft, hard] = limits(i);
    return row(`Max ${name}`, shown(soft), shown(hard), unit);
  });
  return row('Limit', 'Soft Limit', 'Hard Limit', 'Units') + rows.join('');
}

/** Files by their names. `task`: the thread that they are asked of. */
const FILES: Readonly<Record<string, (subject: ProcSubject, system: ProcSystem, task: number) => ProcFile>> = {
  auxv: ({ auxiliary }) => ({ kind: 'text', bytes: auxiliary }),
  cmdline: ({ args }) => strings(args),
  comm: (subject) => textFile(`${commOf(subject)}\n`),
  cgroup: () => textFile('0::/\n'),
  cwd: ({ cwd }) => linkFile(cwd),
  environ: ({ env }) => strings(env),
  exe: ({ program, real }) => linkFile(real(program.startsWith('/') ? program : `/${program}`)),
  fd: ({ descriptors }) => listFile(descriptors.numbers.map(String)),
  limits: ({ limits }) => textFile(limitsOf(limits)),
  maps: (subject) => textFile(mapsOf(subject)),
  mountinfo: (_, system) => textFile(mountinfo(system)),
  mounts: (_, system) => textFile(mounts(system)),
  oom_score: () => textFile('0\n'),
  oom_score_adj: () => textFile('0\n'),
  root: () => linkFile('/'),
  smaps: (subject) => textFile(smapsOf(subject)),
  stat: (subject, _, task) => textFile(statOf(subject, task)),
  statm: (subject) => textFile(statmOf(subject)),
  status: (subject, _, task) => textFile(statusOf(subject, task)),
  task: ({ threads }) => listFile(threads.map(String)),
};

/** Other names of places below `/proc/self`. */
const ALIASES: Readonly<Record<string, string>> = {
  '/dev/fd': '/proc/self/fd', '/dev/stdin': '/proc/self/fd/0', '/dev/stdout': '/proc/self/fd/1', '/dev/stderr': '/proc/self/fd/2',
}; // prettier-ignore

/** The path below the folder of the process, or of one of its threads; null: it is elsewhere. */
function ownPath(
  path: string,
  { id, threads }: ProcSubject,
  { caller }: ProcSystem,
): { readonly name: string; readonly task: number } | null {
  const whole = ALIASES[path] ?? path.replace(/^\/dev\/fd\//, '/proc/self/fd/');
  const found = /^\/proc\/(self|thread-self|\d+)(?:\/task\/(\d+))?(?:\/(.+))?$/.exec(whole);
  if (!found) return null;
  const [, process, thread, name = ''] = found;
  if (/^\d/.test(process!) && Number(process) !== id) return null;
  const task = Number(thread ?? (process === 'thread-self' ? caller.thread : id));
  return thread === undefined || threads.includes(task) ? { name, task } : null;
}

/** The process that a path below `/proc` names by its id; null: none. */
export function processOf(path: string): number | null {
  const id = /^\/proc\/(\d{1,9})(?:\/|$)/.exec(path)?.[1];
  return id === undefined ? null : Number(id);
}

/** The file of a path about a process; null: none of these. */
export function procFileAt(path: string, subject: ProcSubject, system: ProcSystem): ProcFile | null {
  const found = ownPath(path, subject, system);
  if (found === null) return null;
  const { name: own, task } = found;
  if (own === '') return listFile(Object.keys(FILES));
  const number = /^fd\/(\d{1,4})$/.exec(own)?.[1];
  if (number !== undefined) {
    const description = subject.descriptors.get(Number(number));
    return description ? { kind: 'descriptor', description } : null;
  }
  return Object.hasOwn(FILES, own) ? FILES[own]!(subject, system, task) : null;
}
