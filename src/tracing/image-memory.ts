/**
 * The bytes of an image with the runtime in it, as the core's steps read and write them. Owns the
 * single store: every other file of this room writes through it, so that each store is compared,
 * named in the ledger and repeated in the machine that runs the image, if there is one.
 */
import type { Branches } from '../machine/branches.js';
import { ByteView, equalBytes } from '../bytes.js';
import { ElftraceError, hex } from '../errors.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { Step, StepProblem } from '../ftrace/index.js';
import { type EntryPoint, entryPoint } from '../program/entry-points.js';
import type { StoreLedger, StoreReason } from './ledger.js';

/** Memory of the tool's. */
export interface Room {
  readonly address: Address;
  readonly size: number;
}

/** Where bytes are read and written: the copy of a file, or a machine's memory beside it. */
export interface Text {
  /** Brings the copy that shapes look at up to date with what really is there. */
  refresh(address: Address, size: number): void;
  /**
   * One store; false: it may not be written. `words`: of data, each of which every processor sees
   * whole; else of instructions.
   */
  store(address: Address, bytes: Uint8Array, what?: 'words'): boolean;
  /**
   * Waits and frees, in order, for a caller that runs threads; `freed` is the memory that a free
   * gives back.
   */
  event(step: Extract<Step, { readonly kind: 'sync' | 'quiesce' | 'free' }>, freed?: readonly Room[]): void;
}

/** A request that cannot be expressed in the image: nothing is wrong with it. */
export const refused = (errno: 'ENOMEM' | 'ERANGE' | 'EINVAL' | 'EBUSY', reason: string): StepProblem => ({
  kind: 'refused',
  errno,
  reason,
});

/** The image is not what the core knows it to be. */
export const failed = (errno: 'EFAULT' | 'EINVAL' | 'EPERM', reason: string): StepProblem => ({
  kind: 'failed',
  errno,
  reason,
});

export class ImageMemory {
  readonly branches: Branches;
  readonly word: 4 | 8;
  /** Why the next stores are made; the backend says it in front of each step. */
  why: StoreReason = { rule: 'C-UPD-1', site: -1, reason: '' };

  constructor(
    readonly program: Program,
    readonly text: Text | undefined,
    private readonly ledger: StoreLedger | undefined,
  ) {
    this.branches = program.arch.branches;
    this.word = program.image.wordBytes;
  }

  /** A symbol of the runtime; null where it has none. */
  find(symbol: string): EntryPoint | null {
    return entryPoint(this.program, symbol);
  }

  /**
   * A symbol of the runtime. A runtime that is not ours may lack what only some operations need.
   * @throws ElftraceError 'no-runtime'
   */
  need(symbol: string): EntryPoint {
    const found = this.find(symbol);
    if (found === null)
      throw new ElftraceError('no-runtime', `the image's runtime has no symbol ${symbol}`, { symbol });
    return found;
  }

  /** A copy of bytes as they are now; null where the file has none. */
  bytes(address: Address, size: number): Uint8Array | null {
    this.text?.refresh(address, size);
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    if (offset < 0 || offset + size > image.bytes.length) return null;
    return image.bytes.slice(offset, offset + size);
  }

  /** The number that a word holds now; null where the file has no bytes. */
  wordAt(address: Address): { readonly bytes: Uint8Array; readonly value: bigint } | null {
    const bytes = this.bytes(address, this.word);
    return bytes && { bytes, value: new ByteView(bytes, this.program.image.header.endian).word(0, this.word) };
  }

  /** Bytes that are there already are not stored again. */
  store(address: Address, bytes: Uint8Array, what?: 'words'): StepProblem | null {
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    if (offset < 0 || offset + bytes.length > image.bytes.length)
      return failed('EFAULT', `${hex(address)} is not in the file`);
    if (equalBytes(image.bytes.subarray(offset, offset + bytes.length), bytes)) return null;
    this.ledger?.note(offset, bytes.length, this.why);
    if (this.text?.store(address, bytes, what) === false) return failed('EPERM', `${hex(address)} may not be written`);
    image.bytes.set(bytes, offset);
    return null;
  }

  /** Stores words one behind another. */
  words(address: Address, values: readonly bigint[]): StepProblem | null {
    const bytes = new Uint8Array(values.length * this.word);
    const view = new ByteView(bytes, this.program.image.header.endian);
    values.forEach((value, i) => {
      view.insertWord(i * this.word, value, this.word);
    });
    return this.store(address, bytes, 'words');
  }

  /**
   * A function's identity from where a branch leads: its global entry, when it is the local one.
   */
  identityOf(address: Address): Address {
    const { program } = this;
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionAt(range, address);
    const start = symbol < 0 ? undefined : program.functions.placeOf(symbol)?.value;
    if (start === undefined) return address;
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    return address === start + local ? start : address;
  }

  /** Where a branch to a function from code with its TOC goes. */
  branchTo(identity: Address): Address {
    const { program } = this;
    const range = program.codeAt(identity);
    const symbol = range === undefined ? -1 : program.functionStarting(range, identity);
    return symbol < 0 ? identity : identity + BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
  }

  /** Whether a call at an address reaches another, as a problem; null: it does. */
  reachProblem(from: Address, to: Address): StepProblem | null {
    const distance = to - from;
    const { min, max } = this.branches.call.reach;
    return distance < min || distance > max ? refused('ERANGE', `the callee is ${hex(distance)} bytes away`) : null;
  }
}
