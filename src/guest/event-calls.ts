/**
 * System calls that wait for events of several descriptors: `poll`, `select` and `epoll`.
 *
 * Source: Linux, poll(2), select(2), epoll(7), uapi/linux/eventpoll.h.
 */
import { type Answer, arg, type Arguments, type CallContext, int, type Service } from './call-context.js';
import type { Errno } from './errno.js';
import { Description, InputDescription, O, OPEN_MAX, POLL, READABLE, WRITABLE } from './descriptions.js';
import { putNumber } from './files.js';
import { deadlineOf } from './guest-times.js';
import { SignalDescription } from './special-descriptions.js';
import type { Address } from '../units.js';

export type EventCallName =
  | 'epoll_create' | 'epoll_create1' | 'epoll_ctl' | 'epoll_pwait' | 'epoll_pwait2' | 'epoll_wait' | 'poll' | 'ppoll' | 'pselect6' | 'select'; // prettier-ignore

/** Always told, whether asked for or not. */
const ALWAYS = POLL.ERR | POLL.HUP;
const EPOLL = { ONESHOT: 0x4000_0000, EDGE: 0x8000_0000, WAKEUP: 0x2000_0000, EXCLUSIVE: 0x1000_0000, ADD: 1, DELETE: 2, MODIFY: 3 } as const; // prettier-ignore
const MILLISECOND = 1_000_000n;
const MICROSECOND = 1000n;
const SECOND = 1_000_000_000n;
/** Most of them that are in one another. */
const POLLERS_DEEP = 5;
/** Most descriptors that an `epoll` looks at. */
const INTERESTS_MOST = OPEN_MAX;

/** What an `epoll` was told about a descriptor. */
interface Interest {
  readonly number: number;
  readonly description: Description;
  readonly events: number;
  readonly data: Uint8Array;
  /** Changes of the description that were told already. */
  readonly told: number;
  /** It was told once and is not asked about any more. */
  readonly isDone: boolean;
}

/** The description behind an `epoll`. */
class Poller extends Description {
  readonly path = 'anon_inode:[eventpoll]';
  /** In the order in which they came; those that were told go to the end. */
  interests: readonly Interest[] = [];
  /** Those that were told of this one. */
  private outer: readonly Poller[] = [];

  constructor(inode: number) {
    super(O.RDWR, { kind: 'anonymous', permissions: 0o600, inode, device: 0 });
  }

  /** Those with something to tell, and what. */
  *ready(): Generator<readonly [Interest, number]> {
    for (const each of this.interests) {
      const { description, events, told, isDone } = each;
      if (isDone || !description.isOpen) continue;
      if ((events & EPOLL.EDGE) !== 0 && told === description.changes) continue;
      const came = description.events() & (events | ALWAYS);
      if (came !== 0) yield [each, came];
    }
  }

  /** How many are in one another from here on inwards, this one included. */
  private get depth(): number {
    const inner = this.interests.map(({ description }) => (description instanceof Poller ? description.depth : 0));
    return 1 + Math.max(0, ...inner);
  }

  /** The same outwards. */
  private get height(): number {
    const watches = ({ interests }: Poller): boolean => interests.some((each) => each.description === this);
    const outer = this.outer.filter((each) => each.isOpen && watches(each));
    return 1 + Math.max(0, ...outer.map(({ height }) => height));
  }

  private leadsTo(other: Poller): boolean {
    if (this === other) return true;
    return this.interests.some(({ description }) => description instanceof Poller && description.leadsTo(other));
  }

  /** Is to be told of by another; false: they would go round, or too deep. */
  enter(outer: Poller): boolean {
    if (this.leadsTo(outer) || this.depth + outer.height > POLLERS_DEEP) return false;
    this.outer = [...this.outer.filter((each) => each !== outer), outer];
    return true;
  }

  override get changes(): number {
    return this.interests.reduce((sum, { description }) => sum + description.changes, 0);
  }

  override events(): number {
    return this.ready().next().done === true ? 0 : READABLE;
  }

  override save(): () => void {
    const { interests, outer } = this;
    const putBack = super.save();
    return () => {
      Object.assign(this, { interests, outer });
      putBack();
    };
  }
}

/** What a call waits with. */
interface Patience {
  /** Null: for ever. */
  readonly deadline: bigint | null;
  /** Signals that are blocked meanwhile; null: those that are. */
  readonly mask: bigint | null;
  /** A stop of the process interrupts it. */
  readonly endsByStop?: boolean;
}

export class EventCalls implements Readonly<Record<EventCallName, Service>> {
  constructor(private readonly context: CallContext) {}

  /**
   * Asks until something is ready, or the time has come: then the answer is `none`. `isOver`: it is
   * the last time.
   */
  private wait(
    look: (isOver: boolean) => bigint | Errno,
    isReady: () => boolean,
    { deadline, mask, endsByStop = false }: Patience,
  ): Answer {
    const { context } = this;
    const isOver = deadline !== null && deadline <= context.machine.time;
    const first = look(isOver);
    if (first !== 0n || isOver) return first;
    const { blocked } = context.signals;
    if (mask !== null) context.signals.setMask(mask);
    return context.waitFor({
      deadline,
      endsByStop,
      mask: mask === null ? null : blocked,
      ready: isReady,
      woken: () => {
        context.answer(look(false));
      },
      expired: () => {
        context.answer(look(true));
      },
    });
  }

  /** What of `events` a descriptor is ready for. */
  private readiness(number: number, events: number): number {
    const description = this.context.descriptors.get(number);
    if (!description) return POLL.NVAL;
    const came = description.events() & (events | ALWAYS);
    if (description instanceof InputDescription && (came & READABLE) !== 0) this.context.deviate('input-ready');
    if (description instanceof SignalDescription && description.owner !== this.context.signals) this.context.deviate('signal-owner'); // prettier-ignore
    return came;
  }

  /** `struct pollfd`: descriptor of 4 bytes, events and what came of 2 each. */
  private pollFor(args: Arguments, patience: Patience): Answer {
    const { context } = this;
    const [address, count] = [arg(args, 0), BigInt.asUintN(32, arg(args, 1))];
    if (count > BigInt(this.context.descriptors.most)) return 'EINVAL';
    const rows: { readonly at: Address; readonly number: number; readonly events: number }[] = [];
    for (let at = address; at < address + 8n * count; at += 8n) {
      const descriptor = context.loadNumber(at, 4);
      const events = context.loadNumber(at + 4n, 2);
      if (descriptor === null || events === null) return 'EFAULT';
      rows.push({ at, number: int(descriptor), events: Number(events) });
    }
    const came = ({ number, events }: { number: number; events: number }): number =>
      number < 0 ? 0 : this.readiness(number, events);
    const look = (): bigint | Errno => {
      let ready = 0n;
      for (const row of rows) {
        const now = came(row);
        if (!context.storeNumbers(row.at + 6n, [BigInt(now)], 2)) return 'EFAULT';
        if (now !== 0) ready++;
      }
      return ready;
    };
    return this.wait(look, () => rows.some((row) => came(row) !== 0), patience);
  }

  private after(milliseconds: number): bigint | null {
    return milliseconds < 0 ? null : this.context.machine.time + BigInt(milliseconds) * MILLISECOND;
  }

  /** The mask at an address; 0: none. */
  private maskAt(address: Address, size: bigint): bigint | null | Errno {
    if (address === 0n) return null;
    if (size !== 8n) return 'EINVAL';
    return this.context.loadSet(address) ?? 'EFAULT';
  }

  poll(args: Arguments): Answer {
    return this.pollFor(args, { deadline: this.after(int(arg(args, 2))), mask: null });
  }

  /** A time that is given by its length; 0: none. */
  private untilTime(address: Address, words: 4 | 8): bigint | null | Errno {
    return address === 0n ? null : deadlineOf(this.context, address, words, null);
  }

  ppoll(args: Arguments, words: 4 | 8): Answer {
    const deadline = this.untilTime(arg(args, 2), words);
    if (typeof deadline === 'string') return deadline;
    const mask = this.maskAt(arg(args, 3), arg(args, 4));
    return typeof mask === 'string' ? mask : this.pollFor(args, { deadline, mask });
  }

  // ---------------------------------------------------------------------------------------- select

  private loadBits(address: Address, count: number): Set<number> | null {
    const { wordBytes } = this.context;
    const bits = new Set<number>();
    if (address === 0n) return bits;
    for (let word = 0; word * 8 * wordBytes < count; word++) {
      const value = this.context.loadNumber(address + BigInt(word * wordBytes));
      if (value === null) return null;
      for (let i = 0; i < 8 * wordBytes; i++) {
        const number = word * 8 * wordBytes + i;
        if (number < count && ((value >> BigInt(i)) & 1n) !== 0n) bits.add(number);
      }
    }
    return bits;
  }

  private storeBits(address: Address, count: number, bits: ReadonlySet<number>): boolean {
    const { wordBytes } = this.context;
    if (address === 0n) return true;
    const words = Array<bigint>(Math.ceil(count / (8 * wordBytes))).fill(0n);
    for (const each of bits) words[Math.floor(each / (8 * wordBytes))]! |= 1n << BigInt(each % (8 * wordBytes));
    return this.context.storeNumbers(address, words);
  }

  private selectFor(args: Arguments, patience: Patience): Answer {
    const count = Math.min(int(arg(args, 0)), OPEN_MAX);
    if (count < 0) return 'EINVAL';
    const kinds = [READABLE | ALWAYS, WRITABLE | POLL.ERR, POLL.PRI];
    const places = [1, 2, 3].map((i) => arg(args, i));
    const wanted = places.map((place) => this.loadBits(place, count));
    if (wanted.includes(null)) return 'EFAULT';
    const numbers = wanted.map((each) => [...each!]);
    if (numbers.flat().some((each) => !this.context.descriptors.get(each))) return 'EBADF';
    const came = (): readonly Set<number>[] =>
      numbers.map((each, i) => new Set(each.filter((number) => (this.readiness(number, kinds[i]!) & kinds[i]!) !== 0)));
    const look = (isOver: boolean): bigint | Errno => {
      const now = came();
      const found = BigInt(now.reduce((sum, { size }) => sum + size, 0));
      // A handler that interrupts it leaves the sets as they were.
      if (found === 0n && !isOver) return 0n;
      return now.every((each, i) => this.storeBits(places[i]!, count, each)) ? found : 'EFAULT';
    };
    return this.wait(look, () => came().some(({ size }) => size > 0), patience);
  }

  /** `struct timeval`, in which Linux leaves what is left; see the condition `time-left`. */
  select(args: Arguments): Answer {
    const { context } = this;
    const address = arg(args, 4);
    if (address === 0n) return this.selectFor(args, { deadline: null, mask: null });
    const word = context.wordBytes;
    const seconds = context.loadNumber(address);
    const rest = context.loadNumber(address + BigInt(word));
    if (seconds === null || rest === null) return 'EFAULT';
    const [whole, part] = [BigInt.asIntN(8 * word, seconds), BigInt.asIntN(8 * word, rest)];
    if (whole < 0n || part < 0n) return 'EINVAL';
    context.deviate('time-left');
    const deadline = context.machine.time + whole * SECOND + part * MICROSECOND;
    return this.selectFor(args, { deadline, mask: null });
  }

  /** The sixth argument leads to the mask and its size. */
  pselect6(args: Arguments, words: 4 | 8): Answer {
    const { context } = this;
    const deadline = this.untilTime(arg(args, 4), words);
    if (typeof deadline === 'string') return deadline;
    const place = arg(args, 5);
    if (place === 0n) return this.selectFor(args, { deadline, mask: null });
    const address = context.loadNumber(place);
    const size = context.loadNumber(place + BigInt(context.wordBytes));
    if (address === null || size === null) return 'EFAULT';
    const mask = this.maskAt(address, size);
    return typeof mask === 'string' ? mask : this.selectFor(args, { deadline, mask });
  }

  // ----------------------------------------------------------------------------------------- epoll

  private create(closeOnExec: boolean): Answer {
    const number = this.context.descriptors.add(new Poller(this.context.nextInode()), closeOnExec);
    return number < 0 ? 'EMFILE' : BigInt(number);
  }

  epoll_create(args: Arguments): Answer {
    return int(arg(args, 0)) <= 0 ? 'EINVAL' : this.create(false);
  }

  epoll_create1(args: Arguments): Answer {
    const flags = int(arg(args, 0));
    return (flags & ~O.CLOEXEC) !== 0 ? 'EINVAL' : this.create(flags !== 0);
  }

  private pollerAt(number: number): Poller | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    return description instanceof Poller ? description : 'EINVAL';
  }

  /** Bytes of a `struct epoll_event`, and where its 8 bytes of data are. */
  private get eventLayout(): { readonly bytes: number; readonly data: number } {
    return this.context.model.packedEvents ? { bytes: 12, data: 4 } : { bytes: 16, data: 8 };
  }

  epoll_ctl(args: Arguments): Answer {
    const { context } = this;
    const [operation, number] = [int(arg(args, 1)), int(arg(args, 2))];
    const { bytes, data } = this.eventLayout;
    const event = operation === EPOLL.DELETE ? null : context.load(arg(args, 3), bytes);
    if (operation !== EPOLL.DELETE && !event) return 'EFAULT';
    const poller = this.pollerAt(int(arg(args, 0)));
    const description = context.descriptors.get(number);
    if (!description || (description.flags & O.PATH) !== 0) return 'EBADF';
    if (poller === 'EBADF') return poller;
    if (!description.isPolled) return 'EPERM';
    if (typeof poller === 'string') return poller;
    if (description === poller) return 'EINVAL';
    if (operation === EPOLL.ADD && description instanceof Poller && !description.enter(poller)) return 'ELOOP';
    if (operation !== EPOLL.ADD && operation !== EPOLL.DELETE && operation !== EPOLL.MODIFY) return 'EINVAL';
    const isKnown = (each: Interest): boolean => each.number === number && each.description === description;
    const known = poller.interests.find(isKnown);
    if (operation === EPOLL.ADD ? known !== undefined : known === undefined) return known ? 'EEXIST' : 'ENOENT';
    const others = poller.interests.filter((each) => !isKnown(each) && each.description.isOpen);
    if (!event) {
      poller.interests = others;
      return 0n;
    }
    if (others.length >= INTERESTS_MOST) return 'ENOSPC';
    const events = Number(context.loadNumber(arg(args, 3), 4)!);
    if ((events & EPOLL.EXCLUSIVE) !== 0) context.deviate('epoll-flags');
    const interest = { number, description, events, data: event.slice(data, data + 8), told: -1, isDone: false };
    poller.interests = [...others, interest];
    return 0n;
  }

  private epollFor(args: Arguments, patience: Patience): Answer {
    const { context } = this;
    const poller = this.pollerAt(int(arg(args, 0)));
    if (typeof poller === 'string') return poller;
    const [address, most] = [arg(args, 1), int(arg(args, 2))];
    if (most <= 0) return 'EINVAL';
    const layout = this.eventLayout;
    const look = (): bigint | Errno => {
      const told: Interest[] = [];
      for (const [each, came] of poller.ready()) {
        if (told.length === most) break;
        const bytes = new Uint8Array(layout.bytes);
        putNumber(bytes, 0, 4, came, context.endian);
        bytes.set(each.data, layout.data);
        if (!context.store(address + BigInt(told.length * layout.bytes), bytes)) {
          if (told.length === 0) return 'EFAULT';
          break;
        }
        if (each.description instanceof InputDescription) context.deviate('input-ready');
        told.push(each);
      }
      const again = told.map((each) => ({
        ...each,
        told: each.description.changes,
        isDone: (each.events & EPOLL.ONESHOT) !== 0,
      }));
      poller.interests = [...poller.interests.filter((each) => !told.includes(each)), ...again];
      return BigInt(told.length);
    };
    return this.wait(look, () => poller.events() !== 0, { ...patience, endsByStop: true });
  }

  epoll_wait(args: Arguments): Answer {
    return this.epollFor(args, { deadline: this.after(int(arg(args, 3))), mask: null });
  }

  epoll_pwait(args: Arguments): Answer {
    const mask = this.maskAt(arg(args, 4), arg(args, 5));
    return typeof mask === 'string' ? mask : this.epollFor(args, { deadline: this.after(int(arg(args, 3))), mask });
  }

  epoll_pwait2(args: Arguments): Answer {
    const deadline = this.untilTime(arg(args, 3), 8);
    if (typeof deadline === 'string') return deadline;
    const mask = this.maskAt(arg(args, 4), arg(args, 5));
    return typeof mask === 'string' ? mask : this.epollFor(args, { deadline, mask });
  }
}
