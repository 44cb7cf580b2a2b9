/**
 * System calls that move bytes between descriptors, or between memory and a place in a file, and
 * those that only say when and where bytes are to be.
 *
 * Source: Linux, sendfile(2), copy_file_range(2), preadv(2), fallocate(2), sync(2), readahead(2).
 */
import { type Answer, arg, type Arguments, type CallContext, int, offsetAt, type Service } from './call-context.js';
import { type Description, DirectoryDescription, FileDescription, O, TextDescription } from './descriptions.js';
import { raiseBroken, type DescriptorCalls } from './descriptor-calls.js';
import type { Errno } from './errno.js';
import { PipeEnd } from './pipes.js';
import { Socket } from './sockets.js';
import type { Address } from '../units.js';

// prettier-ignore
export type TransferCallName =
  | 'copy_file_range' | 'fallocate' | 'preadv' | 'preadv2' | 'pwritev' | 'pwritev2' | 'readahead' | 'sendfile' | 'sendfile64' | 'sync'
  | 'sync_file_range' | 'syncfs';

/** Bytes that are moved at a time. */
const PIECE = 0x1_0000;
/** Most bytes of one transfer (MAX_RW_COUNT). */
const TRANSFER_MAX = 0x7fff_f000n;
const FALLOC_KEEP_SIZE = 1;
/** Flags of transfers. Source: Linux uapi/linux/fs.h. */
const RWF = { NOWAIT: 8, APPEND: 0x10, ALL: 0x1f } as const;

export class TransferCalls implements Readonly<Record<TransferCallName, Service>> {
  constructor(
    private readonly context: CallContext,
    private readonly descriptors: DescriptorCalls,
  ) {}

  private at(number: number): Description | undefined {
    return this.context.descriptors.get(number);
  }

  // ------------------------------------------------------------------------ between descriptors

  /** The transfer was made: its offset, or the description's position, is behind it. */
  private moved(description: Description, address: Address, size: number, offset: number): Errno | null {
    if (address !== 0n) return this.context.storeNumbers(address, [BigInt(offset)], size) ? null : 'EFAULT';
    description.seek(() => offset);
    return null;
  }

  private positionOf(description: Description): number {
    let at = 0;
    description.seek((position) => (at = position));
    return at;
  }

  private transfer(args: Arguments, offsetBytes: number): Answer {
    const { context } = this;
    const [to, from] = [this.at(int(arg(args, 0))), this.at(int(arg(args, 1)))];
    if (from?.isReadable !== true || to?.isWritable !== true) return 'EBADF';
    if (!(from instanceof FileDescription) && !(from instanceof TextDescription)) return 'EINVAL';
    if ((to.flags & O.APPEND) !== 0) return 'EINVAL';
    const place = arg(args, 2);
    const offset = offsetAt(this.context, place, offsetBytes);
    if (typeof offset === 'string') return offset;
    const count = Number(arg(args, 3) > TRANSFER_MAX ? TRANSFER_MAX : arg(args, 3));
    const begin = offset ?? this.positionOf(from);
    let done = 0;
    let pending: Uint8Array | null = null;
    const end = (): bigint | Errno => this.moved(from, place, offsetBytes, begin + done) ?? BigInt(done);
    const attempt = (): bigint | Errno | null => {
      while (done < count) {
        const bytes: Uint8Array = pending ?? from.readAt(begin + done, Math.min(PIECE, count - done));
        pending = bytes;
        if (bytes.length === 0) break;
        const written = to.write(bytes);
        if (written === null && !(to.isNonBlocking && done > 0)) return null;
        pending = null;
        if (written === null) break;
        if (written === 'EPIPE') raiseBroken(context);
        if (typeof written === 'string') return done > 0 ? end() : written;
        done += written;
      }
      return end();
    };
    const isReady = (): boolean => pending === null || to.accepts(pending);
    return context.attempt(to, isReady, attempt, { done: () => BigInt(done) });
  }

  sendfile(args: Arguments): Answer {
    return this.transfer(args, this.context.wordBytes);
  }

  sendfile64(args: Arguments): Answer {
    return this.transfer(args, 8);
  }

  copy_file_range(args: Arguments): Answer {
    const [from, to] = [this.at(int(arg(args, 0))), this.at(int(arg(args, 2)))];
    if (!from || !to) return 'EBADF';
    if (int(arg(args, 5)) !== 0) return 'EINVAL';
    if (from instanceof DirectoryDescription || to instanceof DirectoryDescription) return 'EISDIR';
    if (!(from instanceof FileDescription) || !(to instanceof FileDescription)) return 'EINVAL';
    if (!from.isReadable || !to.isWritable || (to.flags & O.APPEND) !== 0) return 'EBADF';
    const [first, second] = [offsetAt(this.context, arg(args, 1), 8), offsetAt(this.context, arg(args, 3), 8)];
    if (typeof first === 'string') return first;
    if (typeof second === 'string') return second;
    const [source, target] = [first ?? from.position, second ?? to.position];
    const wanted = Number(arg(args, 4) > TRANSFER_MAX ? TRANSFER_MAX : arg(args, 4));
    const count = Math.max(0, Math.min(wanted, from.status.sizeBytes - source));
    if (from.inode === to.inode && source < target + count && target < source + count) return 'EINVAL';
    let done = 0;
    while (done < count) {
      const bytes = from.readAt(source + done, Math.min(PIECE, count - done));
      const written = bytes.length === 0 ? 0 : to.writeAt(target + done, bytes);
      if (typeof written === 'string' && done === 0) return written;
      if (typeof written === 'string' || written === 0) break;
      done += written;
    }
    const wrong = this.moved(from, arg(args, 1), 8, source + done) ?? this.moved(to, arg(args, 3), 8, target + done);
    return wrong ?? BigInt(done);
  }

  // --------------------------------------------------------------------- with a place in a file

  /** The offset of vectors: two words, the low one first whatever the order of bytes. */
  private placeOf(args: Arguments): bigint {
    const { wordBytes } = this.context;
    const low = arg(args, 3);
    return BigInt.asIntN(64, wordBytes === 8 ? low : BigInt.asUintN(32, low) | (arg(args, 4) << 32n));
  }

  preadv(args: Arguments): Answer {
    const place = this.placeOf(args);
    return place < 0n ? 'EINVAL' : this.descriptors.readPieces(args, place);
  }

  pwritev(args: Arguments): Answer {
    const place = this.placeOf(args);
    return place < 0n ? 'EINVAL' : this.descriptors.writePieces(args, place);
  }

  /**
   * With the place -1 the position counts. What is written is where it belongs at once, so that
   * flags of haste and of safety have nothing to do for files.
   */
  private withFlags(
    args: Arguments,
    serve: (place: bigint | null, hasty: { readonly isHasty?: true }, flags: number) => Answer,
  ): Answer {
    const place = this.placeOf(args);
    if (place < -1n) return 'EINVAL';
    const flags = int(arg(args, 5));
    if ((flags & ~RWF.ALL) !== 0) return this.at(int(arg(args, 0))) ? 'EOPNOTSUPP' : 'EBADF';
    return serve(place === -1n ? null : place, (flags & RWF.NOWAIT) === 0 ? {} : { isHasty: true }, flags);
  }

  preadv2(args: Arguments): Answer {
    return this.withFlags(args, (place, hasty) => this.descriptors.readPieces(args, place, hasty));
  }

  pwritev2(args: Arguments): Answer {
    return this.withFlags(args, (place, hasty, flags) => {
      const description = this.at(int(arg(args, 0)));
      if ((flags & RWF.APPEND) === 0 || !(description instanceof FileDescription)) {
        return this.descriptors.writePieces(args, place, hasty);
      }
      const { flags: own } = description;
      // What is written goes to the end, whatever the place; without one the position goes along.
      const end = BigInt(description.status.sizeBytes);
      if (place !== null) return this.descriptors.writePieces(args, end, hasty);
      description.flags |= O.APPEND;
      const answer = this.descriptors.writePieces(args, null, hasty);
      description.flags = own;
      return answer;
    });
  }

  /** Holes cannot be made: a file is as long as asked for, or stays as it is. */
  fallocate(args: Arguments): Answer {
    const description = this.at(int(arg(args, 0)));
    if (!description) return 'EBADF';
    const mode = int(arg(args, 1));
    const { context } = this;
    const [offset, size] = [2, context.wordBytes === 8 ? 3 : 4].map((i) => BigInt.asIntN(64, context.long(args, i))) as [bigint, bigint]; // prettier-ignore
    if (offset < 0n || size <= 0n) return 'EINVAL';
    if ((mode & ~FALLOC_KEEP_SIZE) !== 0) return 'EOPNOTSUPP';
    if (!description.isWritable) return 'EBADF';
    if (description instanceof PipeEnd) return 'ESPIPE';
    if (!(description instanceof FileDescription)) return 'ENODEV';
    const end = offset + size;
    if (end > BigInt(Number.MAX_SAFE_INTEGER)) return 'EFBIG';
    if (mode === FALLOC_KEEP_SIZE || end <= BigInt(description.status.sizeBytes)) return 0n;
    return description.resize(Number(end)) ?? 0n;
  }

  // ------------------------------------------------------------------------------------- advice

  readahead(args: Arguments): Answer {
    const description = this.at(int(arg(args, 0)));
    if (description?.isReadable !== true) return 'EBADF';
    return description instanceof FileDescription ? 0n : 'EINVAL';
  }

  sync(): Answer {
    return 0n;
  }

  syncfs(args: Arguments): Answer {
    return this.at(int(arg(args, 0))) ? 0n : 'EBADF';
  }

  sync_file_range(args: Arguments): Answer {
    const description = this.at(int(arg(args, 0)));
    if (!description) return 'EBADF';
    return description instanceof PipeEnd || description instanceof Socket ? 'ESPIPE' : 0n;
  }
}
