/**
 * System calls that move bytes between a pipe and something else, or copy them between pipes.
 *
 * Source: Linux, splice(2), tee(2), vmsplice(2), fs/splice.c.
 */
import { type Answer, arg, type Arguments, type CallContext, int, offsetAt, type Service } from './call-context.js';
import { type DescriptorCalls, raiseBroken } from './descriptor-calls.js';
import { type Description, FileDescription, O } from './descriptions.js';
import type { Errno } from './errno.js';
import { PipeEnd } from './pipes.js';
import { Socket } from './sockets.js';
import type { Address } from '../units.js';

export type SpliceCallName = 'splice' | 'tee' | 'vmsplice';

/** SPLICE_F_MOVE, NONBLOCK, MORE, GIFT. */
const FLAGS = 0xf;
const NONBLOCK = 2;
/** Bytes that are moved at once. */
const MOST = 0x1_0000;

export class SpliceCalls implements Readonly<Record<SpliceCallName, Service>> {
  constructor(
    private readonly context: CallContext,
    private readonly descriptors: DescriptorCalls,
  ) {}

  private at(number: number): Description | undefined {
    return this.context.descriptors.get(number);
  }

  /** Where a transfer begins; null: where the description is. */
  private offsetOf(description: Description, address: Address): number | null | Errno {
    if (address !== 0n && (description instanceof PipeEnd || description instanceof Socket)) return 'ESPIPE';
    return offsetAt(this.context, address, 8);
  }

  /** The transfer of `count` bytes was made. */
  private moved(description: Description, address: Address, offset: number | null, count: number): Errno | null {
    if (offset === null) {
      description.seek((position) => position + count);
      return null;
    }
    return this.context.storeNumbers(address, [BigInt(offset + count)], 8) ? null : 'EFAULT';
  }

  splice(args: Arguments): Answer {
    const [from, to] = [this.at(int(arg(args, 0))), this.at(int(arg(args, 2)))];
    const [fromPlace, toPlace, flags] = [arg(args, 1), arg(args, 3), int(arg(args, 5))];
    if (arg(args, 4) === 0n) return 0n;
    if ((flags & ~FLAGS) !== 0) return 'EINVAL';
    if (from?.isReadable !== true || to?.isWritable !== true) return 'EBADF';
    if (!(from instanceof PipeEnd) && !(to instanceof PipeEnd)) return 'EINVAL';
    const offsets = [this.offsetOf(from, fromPlace), this.offsetOf(to, toPlace)] as const;
    const wrong = offsets.find((each) => typeof each === 'string');
    if (typeof wrong === 'string') return wrong;
    if ((to.flags & O.APPEND) !== 0 || (from instanceof PipeEnd && to instanceof PipeEnd && from.isOf(to)))
      return 'EINVAL';
    const [first, second] = offsets as readonly [number | null, number | null];
    const size = Number(arg(args, 4) > BigInt(MOST) ? BigInt(MOST) : arg(args, 4));
    const attempt = (): bigint | Errno | null => {
      const done = this.move(from, first, to, second, size);
      if (typeof done !== 'number') return done;
      const failed = (from instanceof FileDescription ? this.moved(from, fromPlace, first, done) : null)
        ?? (to instanceof FileDescription && second !== null ? this.moved(to, toPlace, second, done) : null); // prettier-ignore
      return failed ?? BigInt(done);
    };
    return this.waiting(from, to, flags, attempt);
  }

  /** Waits until the source has something and the goal has room. */
  private waiting(from: Description, to: Description, flags: number, attempt: () => bigint | Errno | null): Answer {
    const isHasty = (flags & NONBLOCK) !== 0 || [from, to].some((each) => each.isNonBlocking);
    return this.context.attempt(from, () => attemptIsWorth(from, to), attempt, { isHasty });
  }

  /** How many bytes were moved; null: none can be yet. */
  private move(
    from: Description,
    first: number | null,
    to: Description,
    second: number | null,
    size: number,
  ): number | Errno | null {
    if (to instanceof PipeEnd && to.isBroken) {
      raiseBroken(this.context);
      return 'EPIPE';
    }
    const room = to instanceof PipeEnd ? Math.min(size, to.room) : size;
    if (room === 0) return null;
    if (from instanceof PipeEnd) {
      const bytes = from.peek(room);
      if (bytes.length === 0) return from.isBroken ? 0 : null;
      const written = second === null ? to.write(bytes) : to.writeAt(second, bytes);
      if (written === 'EPIPE') raiseBroken(this.context);
      if (typeof written === 'number') from.read(written);
      return written;
    }
    if (from instanceof FileDescription) {
      const bytes = from.readAt(first ?? this.positionOf(from), room);
      return typeof bytes === 'string' || bytes.length === 0
        ? typeof bytes === 'string'
          ? bytes
          : 0
        : to.write(bytes);
    }
    if (first !== null) return 'EINVAL';
    const bytes = from.read(room);
    return bytes === null || typeof bytes === 'string' ? bytes : bytes.length === 0 ? 0 : to.write(bytes);
  }

  private positionOf(description: Description): number {
    let at = 0;
    description.seek((position) => (at = position));
    return at;
  }

  /** Copies from one pipe to another, without reading. */
  tee(args: Arguments): Answer {
    const [from, to] = [this.at(int(arg(args, 0))), this.at(int(arg(args, 1)))];
    const flags = int(arg(args, 3));
    if ((flags & ~FLAGS) !== 0) return 'EINVAL';
    if (arg(args, 2) === 0n) return 0n;
    if (!from || !to) return 'EBADF';
    if (!(from instanceof PipeEnd) || !(to instanceof PipeEnd) || !from.isReadable || !to.isWritable) {
      return from.isReadable && to.isWritable ? 'EINVAL' : 'EBADF';
    }
    if (from.isOf(to)) return 'EINVAL';
    const size = Number(arg(args, 2) > BigInt(MOST) ? BigInt(MOST) : arg(args, 2));
    return this.waiting(from, to, flags, () => {
      const bytes = from.peek(Math.min(size, to.room));
      if (bytes.length === 0) return from.isBroken ? 0n : null;
      const written = to.write(bytes);
      if (written === 'EPIPE') raiseBroken(this.context);
      return typeof written === 'number' ? BigInt(written) : written;
    });
  }

  vmsplice(args: Arguments): Answer {
    const description = this.at(int(arg(args, 0)));
    if (!description) return 'EBADF';
    if ((int(arg(args, 3)) & ~FLAGS) !== 0) return 'EINVAL';
    if (!(description instanceof PipeEnd)) return 'EBADF';
    const pieces = args.slice(0, 3);
    if (description.isReadable) return this.descriptors.readPieces(pieces, null);
    return this.descriptors.writePieces(pieces, null);
  }
}

function attemptIsWorth(from: Description, to: Description): boolean {
  const hasSource = from.events() !== 0;
  return hasSource && (!(to instanceof PipeEnd) || to.room > 0 || to.isBroken);
}
