/**
 * System calls by which a process reads and writes the memory of another, or its own.
 *
 * Source: Linux, process_vm_readv(2).
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import type { Errno } from './errno.js';
import { INIT, type KnownProcess, processWith } from './processes.js';
import type { Address } from '../units.js';

export type ForeignMemoryCallName = 'process_vm_readv' | 'process_vm_writev';

/** Most pieces of a list; most bytes that are moved before it is looked whether more can be. */
const PIECES_MOST = 1024n;
const STEP_BYTES = 4096;

type Piece = readonly [at: Address, size: bigint];

export class ForeignMemoryCalls implements Readonly<Record<ForeignMemoryCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  private piecesAt(list: Address, count: bigint): readonly Piece[] | Errno {
    const { context } = this;
    const word = BigInt(context.wordBytes);
    if (count > PIECES_MOST) return 'EINVAL';
    const pieces: Piece[] = [];
    for (let i = 0n; i < count; i++) {
      const [at, size] = [0n, 1n].map((field) => context.loadNumber(list + (2n * i + field) * word));
      if (at === null || size === null || at === undefined || size === undefined) return 'EFAULT';
      if (BigInt.asIntN(8 * context.wordBytes, size) < 0n) return 'EINVAL';
      pieces.push([at, size]);
    }
    return pieces;
  }

  /** Moves bytes piece by piece, up to the first that one side may not access. */
  private move(args: Arguments, writes: boolean): Answer {
    const { context } = this;
    const [id, flags] = [int(arg(args, 0)), arg(args, 5)];
    if (flags !== 0n) return 'EINVAL';
    const [own, theirs] = [this.piecesAt(arg(args, 1), arg(args, 2)), this.piecesAt(arg(args, 3), arg(args, 4))];
    if (typeof own === 'string') return own;
    if (typeof theirs === 'string') return theirs;
    if (own.every(([, size]) => size === 0n)) return 0n;
    const other = id === 0 ? null : processWith(context, id);
    if (!other) return id === INIT ? 'EPERM' : 'ESRCH';
    if (other !== context && other.space.shared.length > 0) context.deviate('foreign-memory');
    const [from, to] = writes ? [context, other] : [other, context];
    const [sources, targets] = writes ? [own, theirs] : [theirs, own];
    const moved = this.moved({ from, sources, to, targets });
    return moved === 0n && theirs.some(([, size]) => size > 0n) ? 'EFAULT' : moved;
  }

  private moved(way: {
    readonly from: KnownProcess;
    readonly sources: readonly Piece[];
    readonly to: KnownProcess;
    readonly targets: readonly Piece[];
  }): bigint {
    const [sources, targets] = [[...way.sources], [...way.targets]];
    let moved = 0n;
    while (sources.length > 0 && targets.length > 0) {
      const [[source, left], [target, room]] = [sources[0]!, targets[0]!];
      const most = [left, room, BigInt(STEP_BYTES)].reduce((a, b) => (a < b ? a : b));
      const bytes = way.from.load(source, Number(most));
      if (!bytes || !way.to.store(target, bytes)) return moved;
      moved += most;
      if (left === most) sources.shift();
      else sources[0] = [source + most, left - most];
      if (room === most) targets.shift();
      else targets[0] = [target + most, room - most];
    }
    return moved;
  }

  process_vm_readv(args: Arguments): Answer {
    return this.move(args, false);
  }

  process_vm_writev(args: Arguments): Answer {
    return this.move(args, true);
  }
}
