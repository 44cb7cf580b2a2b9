/**
 * System calls that send or receive several messages: one after the other, until one is not there
 * yet or fails; then the answer is how many were, and it fails only with the first.
 *
 * Source: Linux, sendmmsg(2), recvmmsg(2), net/socket.c.
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import { deadlineOf as limitOf, isReadable, isTimed } from './descriptor-calls.js';
import type { Errno } from './errno.js';
import { deadlineOf, NANOSECONDS } from './guest-times.js';
import { type MessageCalls, MSG } from './message-calls.js';
import type { KnownProcess } from './processes.js';
import { type Socket, socketAt } from './sockets.js';
import type { Address } from '../units.js';

export type BatchCallName = 'recvmmsg' | 'sendmmsg';

/** Most messages of one call (UIO_MAXIOV). */
const MESSAGES_MOST = 1024;
/** Only the first one is waited for. */
const WAIT_FOR_ONE = 0x10000;

export class BatchCalls implements Readonly<Record<BatchCallName, Service>> {
  constructor(
    private readonly context: KnownProcess,
    private readonly messages: MessageCalls,
  ) {}

  /** `struct mmsghdr` number `i`, and where its length is. */
  private placeOf(first: Address, i: number): { readonly header: Address; readonly length: Address } {
    const word = BigInt(this.context.wordBytes);
    const header = first + BigInt(i) * 8n * word;
    return { header, length: header + 7n * word };
  }

  private countOf(args: Arguments): number {
    return Math.min(Number(BigInt.asUintN(32, arg(args, 2))), MESSAGES_MOST);
  }

  sendmmsg(args: Arguments): Answer {
    const { context, messages } = this;
    const socket = socketAt(context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const [flags, count] = [int(arg(args, 3)), this.countOf(args)];
    const isHasty = socket.isNonBlocking || (flags & MSG.DONTWAIT) !== 0;
    let [sent, part] = [0, 0];
    const attempt = (): bigint | Errno | null => {
      while (sent < count) {
        const { header, length } = this.placeOf(arg(args, 1), sent);
        const answer = messages.sendAt(socket, header, flags | MSG.DONTWAIT, part);
        if (answer === 'EAGAIN' && !isHasty) return null;
        if (typeof answer !== 'bigint') return sent > 0 ? BigInt(sent) : typeof answer === 'string' ? answer : 'EINTR';
        part += Number(answer);
        if (socket.isStream && part < messages.sizeAt(header) && !isHasty) continue;
        if (!context.storeNumbers(length, [BigInt(part)], 4)) return sent > 0 ? BigInt(sent) : 'EFAULT';
        sent++;
        part = 0;
      }
      return BigInt(sent);
    };
    const isReady = (): boolean => socket.accepts(new Uint8Array(1));
    const done = (): bigint => BigInt(sent);
    return context.attempt(socket, isReady, attempt, { done, isHasty, deadline: limitOf(context, socket, 'send') });
  }

  recvmmsg(args: Arguments, words: 4 | 8): Answer {
    const { context, messages } = this;
    const socket = socketAt(context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const [flags, count, limit] = [int(arg(args, 3)), this.countOf(args), arg(args, 4)];
    const deadline = limit === 0n ? null : deadlineOf(context, limit, words, null);
    if (typeof deadline === 'string') return deadline;
    const isHasty = socket.isNonBlocking || (flags & MSG.DONTWAIT) !== 0;
    let taken = 0;
    const finish = (): bigint | Errno => {
      if (deadline !== null && !this.storeLeft(limit, words, deadline - context.machine.time)) return 'EFAULT';
      return BigInt(taken);
    };
    const attempt = (): bigint | Errno | null => {
      while (taken < count) {
        const { header, length } = this.placeOf(arg(args, 1), taken);
        const answer = messages.receiveAt(socket, header, (flags & ~WAIT_FOR_ONE) | MSG.DONTWAIT);
        const waits = !isHasty && !((flags & WAIT_FOR_ONE) !== 0 && taken > 0);
        if (answer === 'EAGAIN' && waits) return null;
        if (typeof answer !== 'bigint')
          return this.failed(socket, typeof answer === 'string' ? answer : 'EINTR', taken, finish);
        if (!context.storeNumbers(length, [answer], 4)) return taken > 0 ? BigInt(taken) : 'EFAULT';
        taken++;
        // The time is asked behind a message, and ends no wait for one.
        if (deadline !== null && context.machine.time >= deadline) break;
      }
      return finish();
    };
    return context.attempt(socket, isReadable(socket), attempt, {
      done: () => BigInt(taken),
      isHasty,
      deadline: limitOf(context, socket, 'receive'),
      isBrittle: isTimed(socket, 'receive'),
    });
  }

  /** An error behind messages is told by the next call. */
  private failed(socket: Socket, error: Errno, taken: number, finish: () => bigint | Errno): bigint | Errno {
    if (taken === 0) return error;
    if (error !== 'EAGAIN') socket.fail(error);
    return finish();
  }

  private storeLeft(place: Address, words: 4 | 8, left: bigint): boolean {
    const time = left > 0n ? left : 0n;
    return this.context.storeNumbers(place, [time / NANOSECONDS, time % NANOSECONDS], words);
  }
}
