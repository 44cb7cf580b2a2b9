/**
 * System calls on POSIX queues of messages.
 *
 * Source: Linux, mq_overview(7), mq_open(2), mq_timedsend(2), mq_notify(2), ipc/mqueue.c.
 */
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import { O } from './descriptions.js';
import type { Errno } from './errno.js';
import { checkTime, deadlineOf } from './guest-times.js';
import { costOf, NamedQueue, QUEUE_MOST, QueueDescription, type QueueShape } from './message-queues.js';
import { type KnownProcess, USER } from './processes.js';
import { limitOf, RLIMIT } from './rights-calls.js';
import { SIGNALS } from './signals.js';
import type { Address } from '../units.js';

// prettier-ignore
export type QueueCallName =
  | 'mq_getsetattr' | 'mq_notify' | 'mq_open' | 'mq_timedreceive' | 'mq_timedsend' | 'mq_unlink';

/** Bytes of the longest name. */
const NAME_MOST = 255;
/** What each way to open needs of the permissions. */
const WANTED: Readonly<Record<number, number>> = { [O.RDONLY]: 4, [O.WRONLY]: 2, [O.RDWR]: 6 };
const SIGEV = { SIGNAL: 0, NONE: 1, THREAD: 2 } as const;
const SI_MESGQ = -3;
/** Numbers of `struct mq_attr`, those included that mean nothing. */
const ATTRIBUTES = 8;

export class QueueCalls implements Readonly<Record<QueueCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  private get now(): bigint {
    return this.context.date + this.context.world.time;
  }

  private nameAt(address: Address): { readonly name: string } | Errno {
    const found = this.context.paths.textAt(address);
    if (typeof found === 'string') return found;
    const { text } = found;
    return text === '' ? 'ENOENT' : { name: text };
  }

  /** What is wrong with a name that is not empty. */
  private refusalOf(name: string): Errno | null {
    if (name === '.' || name === '..' || name.includes('/')) return 'EACCES';
    return new TextEncoder().encode(name).length > NAME_MOST ? 'ENAMETOOLONG' : null;
  }

  private queueAt(number: number): QueueDescription | null {
    const description = this.context.descriptors.get(number);
    return description instanceof QueueDescription ? description : null;
  }

  // ----------------------------------------------------------------------------- names, attributes

  mq_open(args: Arguments): Answer {
    const { context } = this;
    const { descriptors, world } = context;
    const { named } = world.ipc;
    const [flags, mode, place] = [int(arg(args, 1)), int(arg(args, 2)), arg(args, 3)];
    const shape = place === 0n ? { messages: QUEUE_MOST.messages, bytes: QUEUE_MOST.bytes } : this.shapeAt(place);
    if (!shape) return 'EFAULT';
    const found = this.nameAt(arg(args, 0));
    if (typeof found === 'string') return found;
    if (!descriptors.hasRoom(1)) return 'EMFILE';
    const { name } = found;
    const wrong = this.refusalOf(name);
    if (wrong !== null) return wrong;
    let queue = named.get(name);
    if (queue) {
      if ((flags & O.CREAT) !== 0 && (flags & O.EXCL) !== 0) return 'EEXIST';
      const wanted = WANTED[flags & O.ACCMODE];
      if (wanted === undefined) return 'EINVAL';
      if (((queue.permissions >> 6) & wanted) !== wanted) return 'EACCES';
    } else {
      const made = (flags & O.CREAT) === 0 ? 'ENOENT' : this.make(shape, mode);
      if (typeof made === 'string') return made;
      queue = made;
      named.add(name, queue);
    }
    return BigInt(descriptors.add(named.open(name, queue, flags), true));
  }

  /** The shape that `struct mq_attr` asks for; null: it may not be read. */
  private shapeAt(place: Address): QueueShape | null {
    const { context } = this;
    const word = BigInt(context.wordBytes);
    if (context.load(place, ATTRIBUTES * context.wordBytes) === null) return null;
    const number = (i: bigint): number =>
      Number(BigInt.asIntN(8 * context.wordBytes, context.loadNumber(place + i * word)!));
    return { messages: number(1n), bytes: number(2n) };
  }

  private make(shape: QueueShape, mode: number): NamedQueue | Errno {
    const { context } = this;
    const { wordBytes, world } = context;
    const { named } = world.ipc;
    if (named.count >= QUEUE_MOST.queues) return 'ENOSPC';
    const { messages, bytes } = shape;
    if (messages <= 0 || bytes <= 0 || messages > QUEUE_MOST.messages || bytes > QUEUE_MOST.bytes) return 'EINVAL';
    const [most] = limitOf(context.standing, RLIMIT.QUEUES);
    if (named.cost(wordBytes) + costOf(shape, wordBytes) > most) return 'EMFILE';
    return new NamedQueue(shape, mode & 0o7777 & ~context.paths.mask, context.nextInode(), this.now);
  }

  mq_unlink(args: Arguments): Answer {
    const { named } = this.context.world.ipc;
    const found = this.nameAt(arg(args, 0));
    if (typeof found === 'string') return found;
    const { name } = found;
    const wrong = this.refusalOf(name);
    if (wrong !== null) return wrong;
    const queue = named.get(name);
    if (!queue) return 'ENOENT';
    named.unlink(name, queue);
    return 0n;
  }

  mq_getsetattr(args: Arguments): Answer {
    const { context } = this;
    const [next, old] = [arg(args, 1), arg(args, 2)];
    const size = ATTRIBUTES * context.wordBytes;
    const flags = next === 0n ? 0n : context.load(next, size) && context.loadNumber(next);
    if (flags === null) return 'EFAULT';
    if ((flags & ~BigInt(O.NONBLOCK)) !== 0n) return 'EINVAL';
    const description = this.queueAt(int(arg(args, 0)));
    if (!description) return 'EBADF';
    const { shape, count } = description.queue;
    const told = [description.flags & O.NONBLOCK, shape.messages, shape.bytes, count, 0, 0, 0, 0];
    if (next !== 0n) description.flags = (description.flags & ~O.NONBLOCK) | Number(flags);
    return old === 0n ? 0n : storeOr(context.storeNumbers(old, told.map(BigInt)));
  }

  // -------------------------------------------------------------------------------------- messages

  /** When a call gives up: a time of the wall clock; null: never. */
  private deadlineAt(place: Address, words: 4 | 8): bigint | null | Errno {
    if (place === 0n) return null;
    return checkTime(this.context, place, words) ?? deadlineOf(this.context, place, words, this.context.date);
  }

  mq_timedsend(args: Arguments, words: 4 | 8): Answer {
    const { context } = this;
    const [place, size, priority] = [arg(args, 1), arg(args, 2), Number(BigInt.asUintN(32, arg(args, 3)))];
    const deadline = this.deadlineAt(arg(args, 4), words);
    if (typeof deadline === 'string') return deadline;
    if (priority >= QUEUE_MOST.priority) return 'EINVAL';
    const description = this.queueAt(int(arg(args, 0)));
    if (!description?.isWritable) return 'EBADF';
    const { queue } = description;
    if (size > BigInt(queue.shape.bytes)) return 'EMSGSIZE';
    const bytes = context.load(place, Number(size));
    if (!bytes) return 'EFAULT';
    const attempt = (): bigint | null => {
      if (queue.isFull) return null;
      queue.put({ priority, bytes }, context.identity.id, this.now);
      return 0n;
    };
    return context.attempt(description, () => !queue.isFull, attempt, { deadline, expires: 'ETIMEDOUT' });
  }

  mq_timedreceive(args: Arguments, words: 4 | 8): Answer {
    const { context } = this;
    const [place, size, priority] = [arg(args, 1), arg(args, 2), arg(args, 3)];
    const deadline = this.deadlineAt(arg(args, 4), words);
    if (typeof deadline === 'string') return deadline;
    const description = this.queueAt(int(arg(args, 0)));
    if (!description?.isReadable) return 'EBADF';
    const { queue } = description;
    if (size < BigInt(queue.shape.bytes)) return 'EMSGSIZE';
    const waiter = {};
    const over = (): void => {
      queue.receivers = new Set([...queue.receivers].filter((each) => each !== waiter));
    };
    const attempt = (): bigint | Errno | null => {
      const message = queue.take(this.now);
      if (!message) {
        if (!description.isNonBlocking) queue.receivers = new Set([...queue.receivers, waiter]);
        return null;
      }
      const isStored =
        (priority === 0n || context.storeNumbers(priority, [BigInt(message.priority)], 4)) &&
        context.store(place, message.bytes);
      return isStored ? BigInt(message.bytes.length) : 'EFAULT';
    };
    return context.attempt(description, () => queue.count > 0, attempt, { deadline, over, expires: 'ETIMEDOUT' });
  }

  // --------------------------------------------------------------------------------------- notices

  mq_notify(args: Arguments): Answer {
    const { context } = this;
    const [number, place] = [int(arg(args, 0)), arg(args, 1)];
    const word = BigInt(context.wordBytes);
    const value = place === 0n ? 0n : context.loadNumber(place);
    const numbers = [0n, 4n].map((at) => (place === 0n ? 0n : context.loadNumber(place + word + at, 4)));
    if (value === null || numbers.includes(null)) return 'EFAULT';
    const [signal, how] = numbers.map((each) => int(each!)) as [number, number];
    if (how !== SIGEV.SIGNAL && how !== SIGEV.NONE && how !== SIGEV.THREAD) return 'EINVAL';
    if (how === SIGEV.SIGNAL && (signal < 0 || signal > SIGNALS)) return 'EINVAL';
    if (how === SIGEV.THREAD) {
      context.deviate('queue-threads');
      return 'EINVAL';
    }
    const description = this.queueAt(number);
    if (!description) return 'EBADF';
    const { queue } = description;
    const { id } = context.identity;
    if (place === 0n) {
      queue.flushed(id);
      return 0n;
    }
    if (queue.notice) return 'EBUSY';
    const sends = how === SIGEV.SIGNAL && signal > 0;
    const tell = (sender: number): void => {
      if (sends) context.signals.post(signal, this.infoOf(signal, sender, value), null);
    };
    const kind = how === SIGEV.NONE ? 'none' : 'signal';
    queue.notice = { process: id, how: kind, signal: kind === 'none' ? 0 : signal, tell };
    return 0n;
  }

  private infoOf(signal: number, sender: number, value: bigint): Uint8Array {
    const { signals, wordBytes } = this.context;
    return signals.info(signal, SI_MESGQ, [
      [4, BigInt(sender)],
      [4, USER],
      [wordBytes, value],
    ]);
  }
}
