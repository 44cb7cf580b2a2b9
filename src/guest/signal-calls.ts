/**
 * System calls about signals: actions, masks, stacks, sending and waiting. What a signal does is in
 * `signals.ts`.
 *
 * Source: Linux, sigaction(2), sigaltstack(2), kill(2), rt_sigqueueinfo(2), sigtimedwait(2).
 */
import { SIGNAL } from '../machine/signals.js';
import type { Address } from '../units.js';
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import { deadlineOf } from './guest-times.js';
import { INIT, type KnownProcess } from './processes.js';
import { bit, type Sent, SIGNALS } from './signals.js';
import type { Thread } from './thread.js';

// prettier-ignore
export type SignalCallName =
  | 'kill' | 'pause' | 'rt_sigaction' | 'rt_sigpending' | 'rt_sigprocmask' | 'rt_sigqueueinfo'
  | 'rt_sigreturn' | 'rt_sigsuspend' | 'rt_sigtimedwait' | 'rt_tgsigqueueinfo' | 'sigaltstack'
  | 'sigreturn' | 'swapcontext' | 'tgkill' | 'tkill';

/** Codes of `siginfo` of signals that the process sends. */
const SI_USER = 0;
const SI_TKILL = -6;

export class SignalCalls implements Readonly<Record<SignalCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  /** What a system call answers that sent a signal. */
  private sent(sent: Sent, signal: number): Answer {
    switch (sent) {
      case 'done':
        return 0n;
      case 'full':
        return 'EAGAIN';
      case 'kills':
        return { kind: 'signal', signal };
      default:
        return sent satisfies never;
    }
  }

  /** `to` null: the process, whichever of its threads. */
  private raise(signal: number, info: Uint8Array, to: Thread | null): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    return signal === 0 ? 0n : this.sent(this.context.signals.send(signal, info, to), signal);
  }

  /**
   * Sends to other processes, of which there is one at least: it takes the signal when it goes on.
   */
  private toProcesses(guests: readonly KnownProcess[], signal: number, info: Uint8Array): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    if (guests.length === 0) return 'ESRCH';
    if (signal === 0) return 0n;
    let own: Answer = 0n;
    for (const each of guests) {
      if (each === this.context) own = this.raise(signal, info, null);
      else each.signals.post(signal, info, null);
    }
    return own;
  }

  /** A process, or the processes of a group. */
  kill(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    const { world, identity } = this.context;
    const isWanted = (each: KnownProcess): boolean => {
      if (id > 0) return each.identity.id === id;
      if (id === -1) return each !== this.context;
      return each.identity.group === (id === 0 ? identity.group : -id);
    };
    if (id > 0 && world.isZombie(id)) return signal < 0 || signal > SIGNALS ? 'EINVAL' : 0n;
    if (id === INIT) return signal < 0 || signal > SIGNALS ? 'EINVAL' : 'EPERM';
    return this.toProcesses(world.guests.filter(isWanted), signal, this.context.signals.ownInfo(signal, SI_USER));
  }

  tkill(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    if (id <= 0) return 'EINVAL';
    return this.toThread(id, signal, this.context.signals.ownInfo(signal, SI_TKILL));
  }

  tgkill(args: Arguments): Answer {
    const [group, id, signal] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if (group <= 0 || id <= 0) return 'EINVAL';
    return this.toThread(id, signal, this.context.signals.ownInfo(signal, SI_TKILL), group);
  }

  /** A signal for one thread, of any process or of the one that is named. */
  private toThread(id: number, signal: number, info: Uint8Array, process: number | null = null): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    for (const each of this.context.world.guests) {
      const to = process === null || process === each.identity.id ? each.signals.find(id) : null;
      if (!to) continue;
      if (each === this.context) return this.raise(signal, info, to);
      if (signal !== 0) each.signals.post(signal, info, to);
      return 0n;
    }
    return 'ESRCH';
  }

  /** `siginfo` that a program gives. */
  private infoAt(signal: number, address: Address): Uint8Array | null {
    const info = this.context.load(address, 128);
    if (info) putNumber(info, 0, 4, BigInt(Math.max(0, signal)), this.context.endian);
    return info;
  }

  rt_sigqueueinfo(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    const info = this.infoAt(signal, arg(args, 2));
    if (!info) return 'EFAULT';
    return this.toProcesses(
      this.context.world.guests.filter((each) => each.identity.id === id),
      signal,
      info,
    );
  }

  rt_tgsigqueueinfo(args: Arguments): Answer {
    const [group, id, signal] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if (group <= 0 || id <= 0) return 'EINVAL';
    const info = this.infoAt(signal, arg(args, 3));
    if (!info) return 'EFAULT';
    return this.toThread(id, signal, info, group);
  }

  rt_sigaction(args: Arguments): Answer {
    const [signal, next, old, size] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3)];
    if (size !== 8n || signal < 1 || signal > SIGNALS) return 'EINVAL';
    const action = next === 0n ? null : this.context.load(next, this.context.signals.actionBytes);
    if (next !== 0n) {
      if (!action) return 'EFAULT';
      if (signal === SIGNAL.KILL || signal === SIGNAL.STOP) return 'EINVAL';
    }
    if (old !== 0n && !this.context.store(old, this.context.signals.actionOf(signal))) return 'EFAULT';
    if (action) this.context.signals.setAction(signal, action);
    return 0n;
  }

  private storeSet(address: Address, set: bigint): boolean {
    return this.context.storeNumbers(address, this.context.wordBytes === 8 ? [set] : [set & 0xffff_ffffn, set >> 32n]);
  }

  rt_sigprocmask(args: Arguments): Answer {
    const [how, set, old, size] = [int(args[0]!), args[1]!, args[2]!, args[3]!];
    if (size !== 8n) return 'EINVAL';
    const before = this.context.signals.blocked;
    if (set !== 0n) {
      const wanted = this.context.loadSet(set);
      if (wanted === null) return 'EFAULT';
      if (how < 0 || how > 2) return 'EINVAL';
      this.context.signals.setMask(how === 0 ? before | wanted : how === 1 ? before & ~wanted : wanted);
    }
    if (old !== 0n && !this.storeSet(old, before)) return 'EFAULT';
    const { fatal } = this.context.signals;
    return fatal === null ? 0n : { kind: 'signal', signal: fatal };
  }

  rt_sigpending(args: Arguments): Answer {
    // Linux takes smaller sets, too.
    if (arg(args, 1) !== 8n) return 'EINVAL';
    return storeOr(this.storeSet(arg(args, 0), this.context.signals.pendingSet & this.context.signals.blocked));
  }

  rt_sigsuspend(args: Arguments): Answer {
    if (arg(args, 1) !== 8n) return 'EINVAL';
    const set = this.context.loadSet(arg(args, 0));
    if (set === null) return 'EFAULT';
    const mask = this.context.signals.blocked;
    this.context.signals.setMask(set);
    return this.context.waitFor({ deadline: null, mask });
  }

  pause(): Answer {
    return this.context.waitFor({ deadline: null });
  }

  rt_sigtimedwait(args: Arguments, words: 4 | 8): Answer {
    const [wanted, info, time, size] = [arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3)];
    if (size !== 8n) return 'EINVAL';
    const set = this.context.loadSet(wanted);
    if (set === null) return 'EFAULT';
    const deadline = time === 0n ? null : deadlineOf(this.context, time, words, null);
    if (typeof deadline === 'string') return deadline;
    const accepted = (signal: number, found: Uint8Array): bigint | Errno =>
      storeOr(info === 0n || this.context.store(info, found), BigInt(signal));
    const accepts = set & ~(bit(SIGNAL.KILL) | bit(SIGNAL.STOP));
    const here = this.context.signals.take(accepts);
    if (here) return accepted(here.signal, here.info);
    if (deadline !== null && deadline <= this.context.machine.time) return 'EAGAIN';
    return this.context.waitFor({
      deadline,
      accepts,
      endsByStop: true,
      expired: () => {
        this.context.answer('EAGAIN');
      },
      accepted: (signal, found) => {
        this.context.answer(accepted(signal, found));
      },
    });
  }

  rt_sigreturn(): Answer {
    return this.context.signals.leave(false) ? { kind: 'resumed' } : { kind: 'signal', signal: SIGNAL.SEGV };
  }

  sigreturn(): Answer {
    if (this.context.model.signals.leaveOld === undefined) return 'ENOSYS';
    return this.context.signals.leave(true) ? { kind: 'resumed' } : { kind: 'signal', signal: SIGNAL.SEGV };
  }

  swapcontext(args: Arguments): Answer {
    const { signals, model } = this.context;
    const { contexts, contextBytes = 0 } = model.signals;
    const [old, next, size] = [arg(args, 0), arg(args, 1), arg(args, 2)];
    if (BigInt.asIntN(8 * this.context.wordBytes, size) < BigInt(contextBytes)) return 'EINVAL';
    if (!contexts) {
      this.context.deviate('contexts');
      return 'ENOSYS';
    }
    if (old !== 0n && !signals.saveContext(contexts, old)) return 'EFAULT';
    if (next === 0n) return 0n;
    return signals.takeContext(contexts, next) ? { kind: 'resumed' } : 'EFAULT';
  }

  sigaltstack(args: Arguments): Answer {
    const [next, old] = [arg(args, 0), arg(args, 1)];
    const word = this.context.wordBytes;
    const before = this.context.signals.shownStack;
    if (next !== 0n) {
      const pointer = this.context.loadNumber(next);
      const flags = this.context.loadNumber(next + BigInt(word), 4);
      const size = this.context.loadNumber(next + BigInt(2 * word));
      if (pointer === null || flags === null || size === null) return 'EFAULT';
      const refusal = this.context.signals.setStack({ pointer, flags, size });
      if (refusal) return refusal;
    }
    if (old === 0n) return 0n;
    const bytes = new Uint8Array(3 * word);
    putNumber(bytes, 0, word, before.pointer, this.context.endian);
    putNumber(bytes, word, 4, before.flags, this.context.endian);
    putNumber(bytes, 2 * word, word, before.size, this.context.endian);
    return storeOr(this.context.store(old, bytes));
  }
}
