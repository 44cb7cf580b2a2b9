/**
 * System calls about memory and messages of System V (`ipc.ts`). PowerPC has them, and those about
 * semaphores, behind one call, `ipc`, too.
 *
 * Source: Linux, shmget(2), shmat(2), shmctl(2), msgget(2), msgop(2), msgctl(2), ipc(2),
 * uapi/linux/msg.h, shm.h.
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import { FileDescription, O } from './descriptions.js';
import type { Errno } from './errno.js';
import { bytesOf, IPC_MOST, type IpcObject, type Message, type Queue, type Segment } from './ipc.js';
import { FORM_64, IPC, IpcBase } from './ipc-base.js';
import { memoryLimits, memoryUse, queueLimits } from './ipc-told.js';
import type { MemoryCalls } from './memory-calls.js';
import { MemoryFile } from './memory-file.js';
import { type KnownProcess, USER } from './processes.js';
import type { SemaphoreCalls } from './semaphore-calls.js';
import { alignUpBig } from '../bits.js';
import type { Address } from '../units.js';

// prettier-ignore
export type IpcCallName =
  | 'ipc' | 'msgctl' | 'msgget' | 'msgrcv' | 'msgsnd' | 'shmat' | 'shmctl' | 'shmdt' | 'shmget';

const SHM = {
  READ_ONLY: 0o10000,
  ROUND: 0o20000,
  REMAP: 0o40000,
  EXECUTE: 0o100000,
  HUGE: 0o4000,
  GONE: 0o1000,
} as const;
const MSG = { NOERROR: 0o10000, EXCEPT: 0o20000, COPY: 0o40000 } as const;
const PAGE = 4096n;
const COMMANDS: readonly number[] = [IPC.REMOVE, IPC.SET, IPC.STATUS];
/** Of all objects, and of one by its index; ANY: whatever its permissions are. */
const SEGMENTS = { LOCK: 11, UNLOCK: 12, STAT: 13, INFO: 14, STAT_ANY: 15 } as const;
const QUEUES = { STAT: 11, INFO: 12, STAT_ANY: 13 } as const;
/** Codes of `ipc`. */
const MULTIPLEXED = {
  semop: 1,
  semget: 2,
  semctl: 3,
  semtimedop: 4,
  msgsnd: 11,
  msgrcv: 12,
  msgget: 13,
  msgctl: 14,
  shmat: 21,
  shmdt: 22,
  shmget: 23,
  shmctl: 24,
} as const;

/** How often a segment is attached. */
export const attachmentsOf = ({ file }: Segment, guests: readonly KnownProcess[]): number =>
  guests.flatMap(({ space }) => space.shared).filter(({ object }) => object.isOf(file.file)).length;

export class IpcCalls extends IpcBase implements Readonly<Record<IpcCallName, Service>> {
  constructor(
    context: KnownProcess,
    private readonly memory: MemoryCalls,
    private readonly semaphores: SemaphoreCalls,
  ) {
    super(context);
  }

  // ---------------------------------------------------------------------------------------- memory

  private attachments(segment: Segment): number {
    return attachmentsOf(segment, this.context.world.guests);
  }

  /** Segments that were removed and that nothing has attached any more go. */
  private settle(): void {
    const { segments } = this.context.world.ipc;
    for (const each of segments.all) {
      if (!each.isGone || this.attachments(each) > 0) continue;
      segments.remove(each);
      each.file.release();
    }
  }

  private segment(id: number): Segment | null {
    this.settle();
    return this.context.world.ipc.segments.byId(id);
  }

  /** A segment whose pages are zeros. */
  private made(common: IpcObject, size: bigint, flags: number): Segment | Errno {
    const { context } = this;
    if (size < 1n || size > BigInt(Number.MAX_SAFE_INTEGER)) return 'EINVAL';
    if ((flags & SHM.HUGE) !== 0) return 'EPERM';
    if (context.world.ipc.segments.all.length >= IPC_MOST.segments) return 'ENOSPC';
    const { network, fileMemory } = context.world;
    const memory = new MemoryFile(fileMemory, context.nextInode(), false, (each) => {
      network.forget(each);
    });
    network.remember(memory);
    if (memory.resize(Number(alignUpBig(size, PAGE))) !== null) return 'ENOMEM';
    const path = `/SYSV${(common.key >>> 0).toString(16).padStart(8, '0')} (deleted)`;
    const file = new FileDescription(path, memory, O.RDWR, context.sharing);
    file.hold();
    return { ...common, file, size: Number(size), maker: this.self, attached: 0n, detached: 0n, last: 0 };
  }

  shmget(args: Arguments): Answer {
    const [key, size, flags] = [int(arg(args, 0)), arg(args, 1), int(arg(args, 2))];
    this.settle();
    return this.get(
      this.context.world.ipc.segments,
      key,
      flags,
      (there) => (BigInt(there.size) < size ? 'EINVAL' : null),
      (common) => this.made(common, size, flags),
    );
  }

  shmat(args: Arguments): Answer {
    const [id, wanted, flags] = [int(arg(args, 0)), arg(args, 1), int(arg(args, 2))];
    const segment = id < 0 ? null : this.segment(id);
    let address = wanted;
    if (address % PAGE !== 0n) {
      if ((flags & SHM.ROUND) === 0) return 'EINVAL';
      address -= address % PAGE;
    }
    if (address === 0n && (flags & SHM.REMAP) !== 0) return 'EINVAL';
    if (!segment) return 'EINVAL';
    const isReadOnly = (flags & SHM.READ_ONLY) !== 0;
    if (!this.allows(segment, isReadOnly ? 4 : 6)) return 'EACCES';
    const protection = 1 | (isReadOnly ? 0 : 2) | ((flags & SHM.EXECUTE) === 0 ? 0 : 4);
    const at = this.memory.attach(segment.file, address, segment.size, protection, (flags & SHM.REMAP) !== 0);
    if (typeof at === 'string') return at;
    segment.attached = this.now;
    segment.last = this.self;
    return at;
  }

  shmdt(args: Arguments): Answer {
    const { context } = this;
    const address = arg(args, 0);
    const mapping = context.space.shared.find(({ from }) => from === address);
    const segment = mapping && context.world.ipc.segments.all.find(({ file }) => mapping.object.isOf(file.file));
    if (!segment) return 'EINVAL';
    segment.detached = this.now;
    segment.last = this.self;
    const answer = this.memory.munmap([address, mapping.to - mapping.from]);
    this.settle();
    return answer;
  }

  shmctl(args: Arguments): Answer {
    const { context } = this;
    const [id, command, place] = [int(arg(args, 0)), int(arg(args, 1)) & ~FORM_64, arg(args, 2)];
    if (id < 0 || command < 0) return 'EINVAL';
    this.settle();
    const { ipc } = context.world;
    if (command === IPC.INFO) return this.tell(ipc.segments, place, memoryLimits(context.wordBytes, context.endian));
    if (command === SEGMENTS.INFO)
      return this.tell(ipc.segments, place, memoryUse(ipc, context.wordBytes, context.endian));
    if (command === SEGMENTS.STAT || command === SEGMENTS.STAT_ANY)
      return this.byIndex(ipc.segments, id, command === SEGMENTS.STAT, (each) => this.storeSegment(place, each));
    const segment = this.segment(id);
    const locks = command === SEGMENTS.LOCK || command === SEGMENTS.UNLOCK;
    if (!segment || !(locks || COMMANDS.includes(command))) return 'EINVAL';
    if (locks) return segment.owner === Number(USER) ? 0n : 'EPERM';
    if (command === IPC.REMOVE) {
      Object.assign(segment, { isGone: true, key: 0 });
      this.settle();
      return 0n;
    }
    if (command === IPC.SET) {
      const set = this.set(segment, place, null);
      return typeof set === 'string' ? set : 0n;
    }
    return this.allows(segment, 4) ? this.storeSegment(place, segment) : 'EACCES';
  }

  private storeSegment(place: Address, segment: Segment): Answer {
    const { context } = this;
    const { shm } = context.model.ipc;
    const word = context.wordBytes;
    const gone = segment.isGone ? SHM.GONE : 0;
    return this.storeStatus(place, { ...segment, mode: segment.mode | gone }, shm.bytes, [
      [shm.size, word, segment.size], [shm.attached, word, segment.attached], [shm.detached, word, segment.detached],
      [shm.changed, word, segment.changed], [shm.maker, 4, segment.maker], [shm.last, 4, segment.last],
      [shm.count, word, this.attachments(segment)],
    ]); // prettier-ignore
  }

  // -------------------------------------------------------------------------------------- messages

  msgget(args: Arguments): Answer {
    const { queues } = this.context.world.ipc;
    return this.get(
      queues,
      int(arg(args, 0)),
      int(arg(args, 1)),
      () => null,
      (common): Queue | Errno => {
        if (queues.all.length >= IPC_MOST.queues) return 'ENOSPC';
        return { ...common, messages: [], most: IPC_MOST.queue, sent: 0n, received: 0n, sender: 0, receiver: 0 };
      },
    );
  }

  msgsnd(args: Arguments): Answer {
    const { context } = this;
    const [id, place, size, flags] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), int(arg(args, 3))];
    const type = context.loadNumber(place);
    if (type === null) return 'EFAULT';
    const signed = BigInt.asIntN(8 * context.wordBytes, type);
    if (size > BigInt(IPC_MOST.message) || id < 0 || signed < 1n) return 'EINVAL';
    const bytes = context.load(place + BigInt(context.wordBytes), Number(size));
    if (!bytes) return 'EFAULT';
    const queue = context.world.ipc.queues.byId(id);
    if (!queue) return 'EINVAL';
    if (!this.allows(queue, 2)) return 'EACCES';
    const hasRoom = (): boolean =>
      bytesOf(queue) + bytes.length <= queue.most && queue.messages.length + 1 <= queue.most;
    const attempt = (): bigint | Errno | null => {
      if (queue.isGone) return 'EIDRM';
      if (!hasRoom()) return (flags & IPC.NOWAIT) !== 0 ? 'EAGAIN' : null;
      queue.messages = [...queue.messages, { type: signed, bytes }];
      Object.assign(queue, { sent: this.now, sender: this.self });
      return 0n;
    };
    return attempt() ?? context.retry(() => queue.isGone || hasRoom(), attempt, { isBrittle: true, endsByStop: false });
  }

  /** The message that a call asks for by its type. */
  private wanted({ messages }: Queue, type: bigint, isExcept: boolean): Message | null {
    if (type === 0n) return messages[0] ?? null;
    if (type > 0n) return messages.find((each) => (each.type === type) !== isExcept) ?? null;
    const fitting = messages.filter((each) => each.type <= -type);
    return fitting.reduce<Message | null>((least, each) => (least && least.type <= each.type ? least : each), null);
  }

  msgrcv(args: Arguments): Answer {
    const { context } = this;
    const [id, place, size, flags] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), int(arg(args, 4))];
    const type = BigInt.asIntN(8 * context.wordBytes, arg(args, 3));
    if (id < 0 || BigInt.asIntN(8 * context.wordBytes, size) < 0n) return 'EINVAL';
    if ((flags & MSG.COPY) !== 0) {
      context.deviate('message-copies');
      return 'EINVAL';
    }
    const queue = context.world.ipc.queues.byId(id);
    if (!queue) return 'EINVAL';
    if (!this.allows(queue, 4)) return 'EACCES';
    const find = (): Message | null => this.wanted(queue, type, (flags & MSG.EXCEPT) !== 0);
    const most = Number(size < BigInt(IPC_MOST.message) ? size : BigInt(IPC_MOST.message));
    const attempt = (): bigint | Errno | null => {
      if (queue.isGone) return 'EIDRM';
      const message = find();
      if (!message) return (flags & IPC.NOWAIT) !== 0 ? 'ENOMSG' : null;
      if (message.bytes.length > most && (flags & MSG.NOERROR) === 0) return 'E2BIG';
      queue.messages = queue.messages.filter((each) => each !== message);
      Object.assign(queue, { received: this.now, receiver: this.self });
      const bytes = message.bytes.subarray(0, most);
      if (!context.storeNumbers(place, [message.type])) return 'EFAULT';
      if (bytes.length > 0 && !context.store(place + BigInt(context.wordBytes), bytes)) return 'EFAULT';
      return BigInt(bytes.length);
    };
    return (
      attempt() ?? context.retry(() => queue.isGone || find() !== null, attempt, { isBrittle: true, endsByStop: false })
    );
  }

  msgctl(args: Arguments): Answer {
    const { context } = this;
    const [id, command, place] = [int(arg(args, 0)), int(arg(args, 1)) & ~FORM_64, arg(args, 2)];
    if (id < 0 || command < 0) return 'EINVAL';
    const { ipc } = context.world;
    if (command === IPC.INFO || command === QUEUES.INFO)
      return this.tell(ipc.queues, place, queueLimits(ipc, command === QUEUES.INFO, context.endian));
    if (command === QUEUES.STAT || command === QUEUES.STAT_ANY)
      return this.byIndex(ipc.queues, id, command === QUEUES.STAT, (each) => this.storeQueue(place, each));
    const queue = ipc.queues.byId(id);
    if (!queue || !COMMANDS.includes(command)) return 'EINVAL';
    const { msg } = context.model.ipc;
    if (command === IPC.REMOVE) {
      context.world.ipc.queues.remove(queue);
      return 0n;
    }
    if (command === IPC.SET) {
      const before = { ...queue };
      const most = this.set(queue, place, msg.most);
      if (typeof most === 'string') return most;
      if (most > BigInt(IPC_MOST.queue)) Object.assign(queue, before);
      if (most > BigInt(IPC_MOST.queue)) return 'EPERM';
      queue.most = Number(most);
      return 0n;
    }
    return this.allows(queue, 4) ? this.storeQueue(place, queue) : 'EACCES';
  }

  private storeQueue(place: Address, queue: Queue): Answer {
    const { msg } = this.context.model.ipc;
    const word = this.context.wordBytes;
    return this.storeStatus(place, queue, msg.bytes, [
      [msg.sent, word, queue.sent], [msg.received, word, queue.received], [msg.changed, word, queue.changed],
      [msg.size, word, bytesOf(queue)], [msg.count, word, queue.messages.length], [msg.most, word, queue.most],
      [msg.sender, 4, queue.sender], [msg.receiver, 4, queue.receiver],
    ]); // prettier-ignore
  }

  // ------------------------------------------------------------------------------- behind one call

  ipc(args: Arguments): Answer {
    const { context, semaphores } = this;
    const [version, code] = [int(arg(args, 0)) >> 16, int(arg(args, 0)) & 0xffff];
    const [first, second, third, place, fifth] = [1, 2, 3, 4, 5].map((i) => arg(args, i)) as [
      bigint,
      bigint,
      bigint,
      bigint,
      bigint,
    ];
    switch (code) {
      case MULTIPLEXED.semop:
        return semaphores.semop([first, place, second]);
      case MULTIPLEXED.semtimedop:
        return semaphores.semtimedop([first, place, second, fifth], context.wordBytes);
      case MULTIPLEXED.semget:
        return semaphores.semget([first, second, third]);
      case MULTIPLEXED.semctl: {
        const value = place === 0n ? null : context.loadNumber(place);
        if (value === null) return place === 0n ? 'EINVAL' : 'EFAULT';
        return semaphores.semctl([first, second, third, value]);
      }
      case MULTIPLEXED.msgsnd:
        return this.msgsnd([first, place, second, third]);
      case MULTIPLEXED.msgrcv: {
        if (version !== 0) return this.msgrcv([first, place, second, fifth, third]);
        const [message, type] = [0n, BigInt(context.wordBytes)].map((at) => context.loadNumber(place + at));
        if (place === 0n) return 'EINVAL';
        if (typeof message !== 'bigint' || typeof type !== 'bigint') return 'EFAULT';
        return this.msgrcv([first, message, second, type, third]);
      }
      case MULTIPLEXED.msgget:
        return this.msgget([first, second]);
      case MULTIPLEXED.msgctl:
        return this.msgctl([first, second, place]);
      case MULTIPLEXED.shmat: {
        const at = version === 1 ? 'EINVAL' : this.shmat([first, place, second]);
        if (typeof at !== 'bigint') return at;
        return context.storeNumbers(third, [at]) ? 0n : 'EFAULT';
      }
      case MULTIPLEXED.shmdt:
        return this.shmdt([place]);
      case MULTIPLEXED.shmget:
        return this.shmget([first, second, third]);
      case MULTIPLEXED.shmctl:
        return this.shmctl([first, second, place]);
      default:
        return 'ENOSYS';
    }
  }
}
