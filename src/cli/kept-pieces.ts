/**
 * The file of `kept-code.ts` for a verb: what V8 has compiled of each script, read script by
 * script. V8 trusts what it reads, so what is read must be whole: it is there twice. To compare
 * takes a tenth of what it costs to load the part of Node that has checksums.
 */
import { readSync } from 'node:fs';

export interface KeptPieces {
  /** Machines whose files were seen, a bit for each: the code has what was executed. */
  readonly machines: number;
  /** V8 and its options then. */
  readonly tag: number;
  /** By the name of the script. */
  readonly pieces: ReadonlyMap<string, Buffer>;
}

/** In front: a mark, the machines, V8's tag, bytes of the list of scripts, which comes next. */
const HEADER = 16;
const MARK = 0x32636c65;
/** Code begins where V8 wants it. */
const aligned = (length: number): number => (length + 7) & ~7;

type Row = readonly [name: string, bytes: number];

const twice = (bytes: Buffer): Buffer => Buffer.concat([bytes, bytes]);

export function encodePieces({ pieces, machines, tag }: KeptPieces): Buffer {
  const rows = [...pieces].map(([name, code]): Row => [name, code.length]);
  const list = Buffer.from(JSON.stringify(rows), 'latin1');
  const front = Buffer.alloc(aligned(HEADER + list.length));
  front.writeUInt32LE(MARK);
  front.writeUInt32LE(machines, 4);
  front.writeUInt32LE(tag, 8);
  front.writeUInt32LE(list.length, 12);
  list.copy(front, HEADER);
  const padded = (code: Buffer): Buffer => Buffer.concat([code], aligned(code.length));
  return Buffer.concat([front, ...[...pieces.values()].map(padded)].map(twice));
}

/** Bytes of a file that are there twice; null where they are not. */
function readTwice(descriptor: number, at: number, length: number): Buffer | null {
  const both = Buffer.allocUnsafeSlow(2 * length);
  if (readSync(descriptor, both, 0, both.length, at) !== both.length) return null;
  const once = both.subarray(0, length);
  return once.equals(both.subarray(length)) ? once : null;
}

export class PiecesFile {
  private readonly places = new Map<string, { readonly at: number; readonly length: number }>();

  private constructor(
    private readonly descriptor: number,
    readonly machines: number,
    readonly tag: number,
    rows: readonly Row[],
    begin: number,
  ) {
    let at = begin;
    for (const [name, length] of rows) {
      this.places.set(name, { at, length });
      at += 2 * aligned(length);
    }
  }

  /** Null where it is not whole in front. */
  static of(descriptor: number, fileSize: number): PiecesFile | null {
    const header = Buffer.allocUnsafe(HEADER);
    if (readSync(descriptor, header, 0, HEADER, 0) !== HEADER || header.readUInt32LE(0) !== MARK) return null;
    const end = HEADER + header.readUInt32LE(12);
    const size = aligned(end);
    const front = 2 * size <= fileSize ? readTwice(descriptor, 0, size) : null;
    if (front === null) return null;
    const rows = JSON.parse(front.toString('latin1', HEADER, end)) as readonly Row[];
    return new PiecesFile(descriptor, front.readUInt32LE(4), front.readUInt32LE(8), rows, 2 * size);
  }

  /** What is there of a script; null where it is not whole. */
  piece(name: string): Buffer | null {
    const place = this.places.get(name);
    if (place === undefined) return null;
    const code = readTwice(this.descriptor, place.at, aligned(place.length));
    return code && code.subarray(0, place.length);
  }

  /** All that is whole. */
  pieces(): Map<string, Buffer> {
    const all = new Map<string, Buffer>();
    for (const name of this.places.keys()) {
      const code = this.piece(name);
      if (code !== null) all.set(name, code);
    }
    return all;
  }
}
