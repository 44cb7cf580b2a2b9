/**
 * Edits of a file as columns: a million of them in tens of megabytes, where as objects they are
 * hundreds and take longer to collect than to write. Sites of one kind change the same bytes into
 * the same, so each edit has an offset and the number of its **pair**, the bytes before and after.
 *
 * After `push`: a pair's two halves have equal length. Equal pairs are mostly one, but need not be.
 */
/** One range of the original that was changed; sizes are equal. */
export interface JournalEdit {
  readonly offset: number;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

/** Pairs that a new one is compared with. */
const RECENT = 8;

/** File positions: four bytes each where the file has less than 4 GiB. */
export type FilePositions = Uint32Array | Float64Array;

/** Room for positions in a file of so many bytes, its end among them. */
export const filePositions = (count: number, fileBytes: number): FilePositions =>
  fileBytes < 2 ** 32 ? new Uint32Array(count) : new Float64Array(count);

/** A column that is full, with room for twice as much. */
export function grown<T extends Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array>(
  column: T,
  wanted: number,
): T {
  if (wanted <= column.length) return column;
  const larger = new (column.constructor as new (length: number) => T)(Math.max(wanted, 2 * column.length));
  larger.set(column);
  return larger;
}

/** Pairs of bytes before and after, in one array. */
export class BytePairs {
  count = 0;
  /** Of each pair: what was before, what is after. */
  private bytes: Uint8Array = new Uint8Array(256);
  private used = 0;
  private start: Uint32Array = new Uint32Array(16);
  private size: Uint32Array = new Uint32Array(16);
  private readonly arrays: (JournalEdit | undefined)[] = [];

  /** Number of the pair of `after.length` bytes at `offset` of `before`, and `after`. */
  add(before: Uint8Array, offset: number, after: Uint8Array): number {
    for (let pair = this.count - 1; pair >= 0 && pair >= this.count - RECENT; pair--) {
      if (this.is(pair, before, offset, after)) return pair;
    }
    const { length } = after;
    this.bytes = grown(this.bytes, this.used + 2 * length);
    this.start = grown(this.start, this.count + 1);
    this.size = grown(this.size, this.count + 1);
    for (let i = 0; i < length; i++) {
      this.bytes[this.used + i] = before[offset + i]!;
      this.bytes[this.used + length + i] = after[i]!;
    }
    this.start[this.count] = this.used;
    this.size[this.count] = length;
    this.used += 2 * length;
    return this.count++;
  }

  private is(pair: number, before: Uint8Array, offset: number, after: Uint8Array): boolean {
    const { length } = after;
    if (this.size[pair] !== length) return false;
    const start = this.start[pair]!;
    for (let i = 0; i < length; i++) {
      if (this.bytes[start + i] !== before[offset + i] || this.bytes[start + length + i] !== after[i]) return false;
    }
    return true;
  }

  /** Bytes of either half. */
  sizeOf(pair: number): number {
    return this.size[pair]!;
  }

  /** Whether `bytes` holds at `offset` what a pair has before. */
  holds(pair: number, bytes: Uint8Array, offset: number): boolean {
    const start = this.start[pair]!;
    const size = this.size[pair]!;
    if (offset < 0 || offset + size > bytes.length) return false;
    for (let i = 0; i < size; i++) if (bytes[offset + i] !== this.bytes[start + i]) return false;
    return true;
  }

  /** Puts what a pair has after into `bytes` at `offset`. A loop: they are a few bytes each. */
  put(pair: number, bytes: Uint8Array, offset: number): void {
    const size = this.size[pair]!;
    const start = this.start[pair]! + size;
    if (size > 32) bytes.set(this.bytes.subarray(start, start + size), offset);
    else for (let i = 0; i < size; i++) bytes[offset + i] = this.bytes[start + i]!;
  }

  /** What a pair has before, and behind it what it has after: both as one view, until `add`. */
  both(pair: number): Uint8Array {
    const start = this.start[pair]!;
    return this.bytes.subarray(start, start + 2 * this.size[pair]!);
  }

  /** A number that equal pairs share (FNV-1a). */
  hashOf(pair: number): number {
    const end = this.start[pair]! + 2 * this.size[pair]!;
    let hash = 0x811c9dc5;
    for (let i = this.start[pair]!; i < end; i++) hash = Math.imul(hash ^ this.bytes[i]!, 0x01000193);
    return hash >>> 0;
  }

  areEqual(a: number, b: number): boolean {
    const size = this.size[a]!;
    if (this.size[b] !== size) return false;
    const from = this.start[a]!;
    const other = this.start[b]!;
    for (let i = 0; i < 2 * size; i++) if (this.bytes[from + i] !== this.bytes[other + i]) return false;
    return true;
  }

  /** Both halves as arrays, which those who ask for the same pair share. */
  of(pair: number): Omit<JournalEdit, 'offset'> {
    const known = this.arrays[pair];
    if (known !== undefined) return known;
    const [start, size] = [this.start[pair]!, this.size[pair]!];
    const made = {
      offset: 0,
      before: this.bytes.slice(start, start + size),
      after: this.bytes.slice(start + size, start + 2 * size),
    };
    this.arrays[pair] = made;
    return made;
  }
}

/** Edits sorted by offset, not overlapping. */
export class EditColumns {
  private edits: readonly JournalEdit[] | undefined;

  constructor(
    readonly count: number,
    /** File positions, and the numbers of pairs; `count` entries each. */
    readonly offset: FilePositions,
    readonly pair: Uint32Array,
    readonly pairs: BytePairs,
  ) {}

  static of(edits: readonly JournalEdit[]): EditColumns {
    const pairs = new BytePairs();
    const columns = new EditColumns(edits.length, new Float64Array(edits.length), new Uint32Array(edits.length), pairs);
    edits.forEach(({ offset, before, after }, i) => {
      columns.offset[i] = offset;
      columns.pair[i] = pairs.add(before, 0, after);
    });
    columns.edits = edits;
    return columns;
  }

  /** Bytes of an edit. */
  size(i: number): number {
    return this.pairs.sizeOf(this.pair[i]!);
  }

  /** The first edit whose place does not hold what was before; `count`: each does. */
  firstOther(bytes: Uint8Array): number {
    const { count, offset, pair, pairs } = this;
    let i = 0;
    while (i < count && pairs.holds(pair[i]!, bytes, offset[i]!)) i++;
    return i;
  }

  /** Puts an edit into a file, or into its part from `start` on. */
  put(i: number, bytes: Uint8Array, start = 0): void {
    this.pairs.put(this.pair[i]!, bytes, this.offset[i]! - start);
  }

  /** The edits as objects, made when they are first asked for. */
  get asEdits(): readonly JournalEdit[] {
    this.edits ??= Array.from({ length: this.count }, (_, i): JournalEdit => {
      const { before, after } = this.pairs.of(this.pair[i]!);
      return { offset: this.offset[i]!, before, after };
    });
    return this.edits;
  }
}
