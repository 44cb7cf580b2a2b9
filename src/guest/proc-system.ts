/**
 * What a process finds about the system below `/proc`, and about its CPUs below `/sys`: the machine
 * that system calls tell of, with one CPU of 1 GHz, whose uptime is the time of the run, and the
 * file systems that there are. The rest of `/proc` is in `proc.ts`.
 *
 * Source: Linux, proc(5), fs/proc.
 */
import { OPEN_MAX } from './descriptions.js';
import { QUEUE_MOST } from './message-queues.js';
import { IPC_TABLES, type IpcTableName } from './ipc-tables.js';
import { IPC_LIMITS } from './ipc-told.js';
import { linkFile, listFile, type ProcFile, textFile } from './proc-files.js';

/** Names that `uname` tells. */
export const NODE_NAME = 'elftrace';
export const RELEASE = '6.1.0';
export const VERSION = '#1';

/** Bytes of memory that the machine says it has, and of those that are free. */
export const MEMORY_BYTES = 0x4000_0000n;
export const FREE_BYTES = MEMORY_BYTES / 2n;

/** What is told of the system. */
export interface ProcSystem {
  /** Nanoseconds since the run began, and when that was, since 1970. */
  readonly time: bigint;
  /** That in which the CPU had something to do: instructions. */
  readonly used: bigint;
  readonly date: bigint;
  /** Ids of the processes that have not ended, of the caller, and the last that was given. */
  readonly processes: readonly number[];
  readonly caller: { readonly process: number; readonly thread: number };
  readonly last: number;
  /** The tree may be changed. */
  readonly isWritable: boolean;
  /** A file of `/proc/sysvipc`. */
  systemV(name: IpcTableName): string;
  /** The largest segment, as `shmctl` tells it: bytes. */
  readonly segmentMost: bigint;
  /** Bytes that repeat from run to run. */
  randomBytes(size: number): Uint8Array;
}

/** In nanoseconds. */
const SECOND = 1_000_000_000n;
const TICKS = 100n;

/** Seconds and hundredths, of which there is one at least: programs take none for a mistake. */
const hundredths = (time: bigint): string => {
  const all = (time * 100n) / SECOND || 1n;
  return `${all / 100n}.${String(all % 100n).padStart(2, '0')}`;
};

function stat({ time, used, date, last, processes }: ProcSystem): string {
  const [user, idle] = [used, time - used].map((each) => (each * TICKS) / SECOND);
  const cpu = `${user} 0 0 ${idle} 0 0 0 0 0 0`;
  return [
    `cpu  ${cpu}`, `cpu0 ${cpu}`, 'intr 0', 'ctxt 0', `btime ${date / SECOND}`, `processes ${last}`,
    `procs_running ${Math.min(1, processes.length)}`,
    'procs_blocked 0', 'softirq 0 0 0 0 0 0 0 0 0 0 0', '',
  ].join('\n'); // prettier-ignore
}

function meminfo(): string {
  const [all, free] = [MEMORY_BYTES / 1024n, FREE_BYTES / 1024n];
  const rows: readonly (readonly [string, bigint])[] = [
    ['MemTotal', all], ['MemFree', free], ['MemAvailable', free], ['Buffers', 0n], ['Cached', 0n],
    ['SwapCached', 0n], ['Active', all - free], ['Inactive', 0n],
    ['Unevictable', 0n], ['Mlocked', 0n], ['SwapTotal', 0n], ['SwapFree', 0n], ['Dirty', 0n],
    ['Writeback', 0n], ['AnonPages', all - free], ['Mapped', 0n],
    ['Shmem', 0n], ['KReclaimable', 0n], ['Slab', 0n], ['SReclaimable', 0n], ['SUnreclaim', 0n],
    ['CommitLimit', all / 2n], ['Committed_AS', all - free],
  ]; // prettier-ignore
  return rows.map(([name, value]) => `${`${name}:`.padEnd(16)}${String(value).padStart(8)} kB\n`).join('');
}

const PAGE = 4096n;
const NO_EVENTS = [
  'pgpgin',
  'pgpgout',
  'pswpin',
  'pswpout',
  'pgalloc_normal',
  'pgfree',
  'pgfault',
  'pgmajfault',
  'oom_kill',
];

function vmstat(): string {
  const events = NO_EVENTS.map((name) => `${name} 0\n`);
  return `nr_free_pages ${FREE_BYTES / PAGE}\nnr_dirty 0\nnr_writeback 0\nnr_mapped 0\n${events.join('')}`;
}

interface Mount {
  readonly source: string;
  readonly place: string;
  readonly kind: string;
  readonly options: string;
}

/** The tree, and what is there whatever the tree is. */
const mountsOf = ({ isWritable }: ProcSystem): readonly Mount[] => [
  { source: 'none', place: '/', kind: 'overlay', options: isWritable ? 'rw,noatime' : 'ro,noatime' },
  { source: 'proc', place: '/proc', kind: 'proc', options: 'rw,nosuid,nodev,noexec,relatime' },
  { source: 'devpts', place: '/dev/pts', kind: 'devpts', options: 'rw,nosuid,noexec,relatime' },
];

export const mounts = (system: ProcSystem): string =>
  mountsOf(system)
    .map(({ source, place, kind, options }) => `${source} ${place} ${kind} ${options} 0 0\n`)
    .join('');

/** Each with its number and that of the one that it is mounted on, the first on itself. */
export const mountinfo = (system: ProcSystem): string =>
  mountsOf(system)
    .map(
      ({ source, place, kind, options }, i) =>
        `${20 + i} ${i === 0 ? 1 : 20} 0:${i + 1} / ${place} ${options} - ${kind} ${source} ${options.slice(0, 2)}\n`,
    )
    .join('');

/** A random number of version 4, as text. */
function uuid(bytes: Uint8Array): string {
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((each) => each.toString(16).padStart(2, '0')).join('');
  return `${[hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')}\n`;
}

const constant = (value: string | number) => (): string => `${value}\n`;
type Text = (system: ProcSystem) => string;

const TEXTS: Readonly<Record<string, Text>> = {
  // What the processor has is told by `cpuid` and the auxiliary vector.
  cpuinfo: constant('processor\t: 0\n'),
  filesystems: constant('nodev\tproc\nnodev\tdevpts\nnodev\toverlay'),
  loadavg: ({ processes, last }) => `0.00 0.00 0.00 1/${processes.length} ${last}\n`,
  meminfo,
  stat,
  swaps: constant('Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority'),
  uptime: ({ time, used }) => `${hundredths(time)} ${hundredths(time - used)}\n`,
  locks: () => '',
  version: constant(`Linux version ${RELEASE} (${NODE_NAME}) ${VERSION}`),
  vmstat: () => vmstat(),
  'sys/fs/file-max': constant('9223372036854775807'),
  'sys/fs/mqueue/msg_default': constant(QUEUE_MOST.messages),
  'sys/fs/mqueue/msg_max': constant(QUEUE_MOST.messages),
  'sys/fs/mqueue/msgsize_default': constant(QUEUE_MOST.bytes),
  'sys/fs/mqueue/msgsize_max': constant(QUEUE_MOST.bytes),
  'sys/fs/mqueue/queues_max': constant(QUEUE_MOST.queues),
  'sys/fs/nr_open': constant(OPEN_MAX),
  'sys/fs/pipe-max-size': constant(1_048_576),
  'sys/kernel/cap_last_cap': constant(40),
  'sys/kernel/hostname': constant(NODE_NAME),
  'sys/kernel/ngroups_max': constant(65_536),
  'sys/kernel/osrelease': constant(RELEASE),
  'sys/kernel/ostype': constant('Linux'),
  'sys/kernel/overflowgid': constant(65_534),
  'sys/kernel/overflowuid': constant(65_534),
  'sys/kernel/pid_max': constant(4_194_304),
  'sys/kernel/random/boot_id': constant('00000000-0000-4000-8000-000000000000'),
  'sys/kernel/random/entropy_avail': constant(256),
  'sys/kernel/random/poolsize': constant(256),
  'sys/kernel/random/uuid': ({ randomBytes }) => uuid(randomBytes(16)),
  'sys/kernel/randomize_va_space': constant(0),
  'sys/kernel/msgmax': constant(String(IPC_LIMITS.message)),
  'sys/kernel/msgmnb': constant(String(IPC_LIMITS.queue)),
  'sys/kernel/msgmni': constant(String(IPC_LIMITS.queues)),
  'sys/kernel/sem': constant(IPC_LIMITS.semaphores.join('\t')),
  'sys/kernel/shmall': ({ segmentMost }) => `${segmentMost}\n`,
  'sys/kernel/shmmax': ({ segmentMost }) => `${segmentMost}\n`,
  'sys/kernel/shmmni': constant(String(IPC_LIMITS.segments)),
  'sys/kernel/tainted': constant(0),
  'sys/kernel/version': constant(VERSION),
  'sys/vm/max_map_count': constant(65_530),
  'sys/vm/overcommit_memory': constant(0),
  ...Object.fromEntries(IPC_TABLES.map((name) => [`sysvipc/${name}`, (system: ProcSystem) => system.systemV(name)])),
};

/** Names in the folders. */
const FOLDERS = new Map<string, Set<string>>();
for (const path of Object.keys(TEXTS)) {
  const parts = path.split('/');
  parts.forEach((name, i) => {
    const folder = parts.slice(0, i).join('/');
    FOLDERS.set(folder, (FOLDERS.get(folder) ?? new Set()).add(name));
  });
}

/** Lists of the CPUs. Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu. */
const CPUS = '/sys/devices/system/cpu';
const CPU_LISTS = ['online', 'possible', 'present'];

/** A file about the system, or the folder of all; null: none of these. */
export function systemFileAt(path: string, system: ProcSystem): ProcFile | null {
  if (path === CPUS) return listFile(CPU_LISTS);
  if (CPU_LISTS.some((name) => path === `${CPUS}/${name}`)) return textFile('0\n');
  if (!path.startsWith('/proc')) return null;
  if (path === '/proc') {
    const ids = system.processes.map(String);
    return listFile([...ids, ...FOLDERS.get('')!, 'mounts', 'self', 'thread-self']);
  }
  const name = path.slice('/proc/'.length);
  const { process, thread } = system.caller;
  if (name === 'self') return linkFile(String(process));
  if (name === 'thread-self') return linkFile(`${process}/task/${thread}`);
  if (name === 'mounts') return linkFile('self/mounts');
  if (Object.hasOwn(TEXTS, name)) return textFile(TEXTS[name]!(system));
  const folder = FOLDERS.get(name);
  return folder ? listFile([...folder]) : null;
}
