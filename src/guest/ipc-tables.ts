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
/** Widths, the blank in front of each but the first included. */
const COLUMNS = {
  shm: { 4: columns('key:10 shmid:11 perms:6 size:11 cpid:6 lpid:6 nattch:7 uid:6 gid:6 cuid:6 cgid:6 atime:11 dtime:11 ctime:11 rss:11 swap:11'),
         8: columns('key:10 shmid:11 perms:6 size:22 cpid:6 lpid:6 nattch:7 uid:6 gid:6 cuid:6 cgid:6 atime:11 dtime:11 ctime:11 rss:22 swap:22') },
  sem: columns('key:10 semid:11 perms:6 nsems:11 uid:6 gid:6 cuid:6 cgid:6 otime:11 ctime:11'),
  msg: columns('key:10 msqid:11 perms:6 cbytes:12 qnum:11 lspid:6 lrpid:6 uid:6 gid:6 cuid:6 cgid:6 stime:11 rtime:11 ctime:11'),
} as const; // prettier-ignore

const line = (of: readonly Column[], values: readonly (string | number | bigint)[]): string =>
  `${of.map(([, width], i) => String(values[i]).padStart(width)).join('')}\n`;

/**
 * One of the files.
 * @param attachments  how often a segment is attached
 * @param user         who made all objects
 */
export function ipcTable(
  name: IpcTableName,
  { segments, semaphores, queues }: Ipc,
  { attachments, user, wordBytes }: { attachments: (each: Segment) => number; user: bigint; wordBytes: 4 | 8 },
): string {
  const head = ({ key, id, mode }: IpcObject, more = 0): readonly (string | number)[] => [
    key,
    id,
    (mode | more).toString(8),
  ];
  const owners = ({ owner, group }: IpcObject) => [owner, group, user, user] as const;
  const byIndex = <Kind extends IpcObject>(all: readonly Kind[]): Kind[] =>
    [...all].sort((a, b) => (a.id % INDEX_MOST) - (b.id % INDEX_MOST));
  const of = name === 'shm' ? COLUMNS.shm[wordBytes] : COLUMNS[name];
  const rows = {
    shm: () => byIndex(segments.all.filter((each) => !each.isGone || attachments(each) > 0)).map((each) => [
      ...head(each, each.isGone ? 0o1000 : 0), each.size, each.maker, each.last, attachments(each), ...owners(each),
      each.attached, each.detached, each.changed, Math.ceil(each.size / 4096) * 4096, 0,
    ]),
    sem: () => byIndex(semaphores.all).map((each) => [...head(each), each.values.length, ...owners(each), each.operated, each.changed]),
    msg: () => byIndex(queues.all).map((each) => [
      ...head(each), bytesOf(each), each.messages.length, each.sender, each.receiver, ...owners(each),
      each.sent, each.received, each.changed,
    ]),
  }[name](); // prettier-ignore
  const first = line(of, of.map(([title]) => title)); // prettier-ignore
  return first + rows.map((each) => line(of, each)).join('');
}
