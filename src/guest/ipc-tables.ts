/**
 * The files of `/proc/sysvipc`: a line for each segment, set of semaphores and queue, in the order
 * of their indices.
 *
 * Source: Linux, proc(5); columns as they are printed.
 */
import { bytesOf, INDEX_MOST, type Ipc, type IpcObject, type Segment } from './ipc.js';

export const IPC_TABLES = ['shm', 'sem', 'msg'] as const;
export type IpcTableName = (typeof IPC_TABLES)[number];

type Column = readonly [name: string, width: number];
const columns = (text: string): readonly Column[] =>
  text.split(' ').map((each) => {
    const [name = '', width] = each.split(':');
    return [name, Number(width)];
  });
const OWNER_COLUMNS = 'uid:6 gid:6 cuid:6 cgid:6';
const SEGMENT_COLUMNS = `cpid:6 lpid:6 nattch:7 ${OWNER_COLUMNS} atime:11 dtime:11 ctime:11`;
/** Widths, the blank in front of each but the first included. */
const COLUMNS = {
  shm: {
    4: columns(`key:10 shmid:11 perms:6 size:11 ${SEGMENT_COLUMNS} rss:11 swap:11`),
    8: columns(`key:10 shmid:11 perms:6 size:22 ${SEGMENT_COLUMNS} rss:22 swap:22`),
  },
  sem: columns(`key:10 semid:11 perms:6 nsems:11 ${OWNER_COLUMNS} otime:11 ctime:11`),
  msg: columns(`key:10 msqid:11 perms:6 cbytes:12 qnum:11 lspid:6 lrpid:6 ${OWNER_COLUMNS} stime:11 rtime:11 ctime:11`),
} as const;

const line = (of: readonly Column[], values: readonly (string | number | bigint)[]): string =>
  `${of.map(([, width], i) => String(values[i]).padStart(width)).join('')}\n`;

const head = ({ key, id, mode }: IpcObject, more = 0) => [key, id, (mode | more).toString(8)] as const;

const byIndex = <Kind extends IpcObject>(all: readonly Kind[]): Kind[] =>
  [...all].sort((a, b) => (a.id % INDEX_MOST) - (b.id % INDEX_MOST));

interface Told {
  /** How often a segment is attached. */
  readonly attachments: (each: Segment) => number;
  /** Who made all objects. */
  readonly user: bigint;
  readonly wordBytes: 4 | 8;
}
type Rows = readonly (readonly (string | number | bigint)[])[];

function rowsOf(name: IpcTableName, { segments, semaphores, queues }: Ipc, { attachments, user }: Told): Rows {
  const owners = ({ owner, group }: IpcObject) => [owner, group, user, user] as const;
  switch (name) {
    case 'shm': {
      const there = segments.all.filter((each) => !each.isGone || attachments(each) > 0);
      return byIndex(there).map((each) => {
        const { size, maker, last, attached, detached, changed } = each;
        const first = [...head(each, each.isGone ? 0o1000 : 0), size, maker, last, attachments(each)];
        return [...first, ...owners(each), attached, detached, changed, Math.ceil(size / 4096) * 4096, 0];
      });
    }
    case 'sem':
      return byIndex(semaphores.all).map((each) => {
        const { values, operated, changed } = each;
        return [...head(each), values.length, ...owners(each), operated, changed];
      });
    case 'msg':
      return byIndex(queues.all).map((each) => {
        const { messages, sender, receiver, sent, received, changed } = each;
        const first = [...head(each), bytesOf(each), messages.length, sender, receiver];
        return [...first, ...owners(each), sent, received, changed];
      });
  }
}

/** One of the files. */
export function ipcTable(name: IpcTableName, ipc: Ipc, told: Told): string {
  const of = name === 'shm' ? COLUMNS.shm[told.wordBytes] : COLUMNS[name];
  const titles = of.map(([title]) => title);
  return [titles, ...rowsOf(name, ipc, told)].map((each) => line(of, each)).join('');
}
