/**
 * Bytes on their way from one description to another: what is queued, in which pieces, and what
 * comes with them. Who may read and write is said by the ends (`pipes.ts`, `sockets.ts`).
 *
 * Source: Linux, pipe(7), unix(7).
 */
import type { Description } from './descriptions.js';
import type { SocketName, Travel } from './socket-names.js';

/** Bytes that a pipe holds. */
export const PIPE_BYTES = 0x1_0000;
/** Writes of so many bytes or fewer are not torn. */
const PIPE_ATOMIC = 4096;
/** A page of a pipe: a write begins a new one where its end does not fit the last. */
export const PIPE_PAGE = PIPE_ATOMIC;
/** Small writes of a stream are kept together up to so many bytes. */
const TOGETHER = 4096;
/** Most bytes that all queues of a run hold together. */
const QUEUED_MOST = 0x400_0000;

/** What all queues of a run hold together. */
export class Queues {
  bytes = 0;
  /** Descriptions in messages that were not received. */
  rights = 0;

  /** @param now  nanoseconds since 1970 */
  constructor(readonly now: () => bigint) {}

  hasRoom(size: number): boolean {
    return this.bytes + size <= QUEUED_MOST;
  }

  save(): () => void {
    const { bytes, rights } = this;
    return () => {
      Object.assign(this, { bytes, rights });
    };
  }
}

/** What comes with the bytes of a message. */
export interface Parcel {
  /** Descriptions that are passed; each is held. */
  readonly rights: readonly Description[];
  /** Id of the process that sent it. */
  readonly process: number;
  /** The socket that it came from, which may have got a name since. */
  readonly from: { readonly local: SocketName | null };
  /** How it travelled, where it is a datagram of UDP. */
  readonly travel?: Travel | null;
}

/** Bytes that were written together, or to one page; `at`: those that were read. */
interface Piece {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly parcel: Parcel | null;
}

export interface Taken {
  readonly bytes: Uint8Array;
  /** Bytes of the message, of which those that did not fit are gone. */
  readonly whole: number;
  readonly parcel: Parcel | null;
}

/**
 * Bytes in one direction. `pages`: as a pipe keeps them; `bytes`: as a stream does; `messages`:
 * those of a write are read together.
 */
export class Channel {
  private pieces: readonly Piece[] = [];
  size = 0;
  /** How many pages a pipe has. */
  private pages = PIPE_BYTES / PIPE_PAGE;
  readers = 0;
  writers = 0;
  /** How often it was opened for reading, and for writing. */
  opensToRead = 0;
  opensToWrite = 0;
  /** How often bytes came, and how often there was room again. */
  puts = 0;
  takes = 0;
  /** When it was made: nanoseconds since 1970. */
  readonly made: bigint;

  constructor(
    readonly kind: 'pages' | 'bytes' | 'messages',
    private readonly queues: Queues,
    private readonly capacity = PIPE_BYTES,
  ) {
    this.made = queues.now();
  }

  get messages(): boolean {
    return this.kind === 'messages';
  }

  get isEmpty(): boolean {
    return this.pieces.length === 0;
  }

  /** How many messages, or other pieces, there are. */
  get count(): number {
    return this.pieces.length;
  }

  /** Bytes of the message that is read next. */
  get nextSize(): number {
    const next = this.pieces[0];
    return next ? next.bytes.length - next.at : 0;
  }

  /** True when a `poll` says that a write can begin. */
  get isOpen(): boolean {
    return this.kind === 'pages' ? this.pieces.length < this.pages : this.size <= this.capacity - PIPE_ATOMIC;
  }

  /** Bytes of a write that go to the page that is there. */
  private merged(size: number): number {
    const last = this.pieces.at(-1);
    const rest = size % PIPE_ATOMIC;
    return last && last.bytes.length + rest <= PIPE_ATOMIC ? rest : 0;
  }

  /** True when a write of so many bytes can begin, or be done where it may not be torn. */
  hasRoom(size: number): boolean {
    if (this.kind === 'pages') return this.pieces.length < this.pages || this.merged(size) > 0;
    const left = this.capacity - this.size;
    return this.messages ? left >= size : left > 0;
  }

  /** Bytes that a pipe takes without a piece that is there. */
  get freeBytes(): number {
    return (this.pages - this.pieces.length) * PIPE_PAGE;
  }

  /** Bytes of all pages of a pipe. */
  get pageBytes(): number {
    return this.pages * PIPE_PAGE;
  }

  /** False: more is queued than would fit. */
  resize(bytes: number): boolean {
    if (this.pieces.length * PIPE_PAGE > bytes) return false;
    this.pages = bytes / PIPE_PAGE;
    this.takes++;
    return true;
  }

  private counts(bytes: number): void {
    this.size += bytes;
    this.queues.bytes += bytes;
  }

  private add(bytes: Uint8Array, parcel: Parcel | null = null): void {
    this.pieces = [...this.pieces, { bytes: bytes.slice(), at: 0, parcel }];
    this.counts(bytes.length);
  }

  /** Adds bytes to the last piece. */
  private extend(bytes: Uint8Array): void {
    const last = this.pieces.at(-1)!;
    const longer = new Uint8Array(last.bytes.length + bytes.length);
    longer.set(last.bytes);
    longer.set(bytes, last.bytes.length);
    this.pieces = [...this.pieces.slice(0, -1), { ...last, bytes: longer }];
    this.counts(bytes.length);
  }

  /** How many bytes were taken. */
  put(bytes: Uint8Array, parcel: Parcel | null = null): number {
    this.puts++;
    if (this.kind !== 'pages') {
      const taken = bytes.subarray(0, this.capacity - this.size);
      const last = this.pieces.at(-1);
      const isAlike = last?.parcel?.process === parcel?.process && last?.parcel?.rights.length === 0 && parcel?.rights.length === 0; // prettier-ignore
      if (!this.messages && isAlike && last.bytes.length + taken.length <= TOGETHER) this.extend(taken);
      else this.add(taken, parcel);
      this.queues.rights += parcel?.rights.length ?? 0;
      return taken.length;
    }
    let done = this.merged(bytes.length);
    if (done > 0) this.extend(bytes.subarray(0, done));
    for (; done < bytes.length && this.pieces.length < this.pages; done += PIPE_ATOMIC) {
      this.add(bytes.subarray(done, done + PIPE_ATOMIC));
    }
    return Math.min(done, bytes.length);
  }

  /** `keeps`: what is read stays, and can be read again. */
  take(size: number, keeps = false): Taken {
    const before = { pieces: this.pieces, full: !this.isOpen };
    const taken = this.messages ? this.takeMessage(size) : this.takeBytes(size);
    if (keeps) {
      this.pieces = before.pieces;
      return taken;
    }
    const gone = this.messages ? taken.whole : taken.bytes.length;
    this.counts(-gone);
    this.queues.rights -= taken.parcel?.rights.length ?? 0;
    if (this.kind !== 'pages' || before.full) this.takes++;
    return taken;
  }

  private takeMessage(size: number): Taken {
    const [message, ...rest] = this.pieces;
    this.pieces = rest;
    const { bytes, parcel } = message!;
    return { bytes: bytes.slice(0, size), whole: bytes.length, parcel };
  }

  /** Up to the end of what came with descriptions. */
  private takeBytes(size: number): Taken {
    const out = new Uint8Array(Math.min(size, this.size));
    let [done, gone] = [0, 0];
    let head: readonly Piece[] = [];
    let parcel: Parcel | null = null;
    while (done < out.length) {
      const { bytes, at, parcel: own } = this.pieces[gone]!;
      const part = bytes.subarray(at, at + out.length - done);
      out.set(part, done);
      done += part.length;
      gone++;
      const carries = own !== null && own.rights.length > 0;
      if (parcel === null || carries) parcel = own;
      const rest = own && { ...own, rights: [] };
      if (at + part.length < bytes.length) head = [{ bytes, at: at + part.length, parcel: rest }];
      if (carries) break;
    }
    this.pieces = [...head, ...this.pieces.slice(gone)];
    return { bytes: out.subarray(0, done), whole: done, parcel };
  }

  /** What is left will not be read. */
  drain(): void {
    const { pieces } = this;
    this.pieces = [];
    this.counts(-this.size);
    for (const { parcel } of pieces) {
      this.queues.rights -= parcel?.rights.length ?? 0;
      for (const each of parcel?.rights ?? []) each.release();
    }
  }

  save(): () => void {
    const { pieces, size, pages, readers, writers, opensToRead, opensToWrite, puts, takes } = this;
    const passed = pieces.flatMap(({ parcel }) => parcel?.rights ?? []).map((each) => each.savePassed());
    return () => {
      Object.assign(this, { pieces, size, pages, readers, writers, opensToRead, opensToWrite, puts, takes });
      for (const each of passed) each();
    };
  }
}
