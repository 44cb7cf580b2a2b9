/**
 * The block of data in a page: a head of JSON and columns of numbers behind each other. Written on
 * any machine, read in a browser: numbers are little-endian, as are the processors of all browsers.
 *
 *   u32      length of the head in bytes
 *   head     JSON: what the page shows, and of each column its name, kind, length and position
 *   columns  each at a multiple of 8 from the start of the block
 *
 * Knows no DOM and nothing of Node.
 */

const KINDS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f64: Float64Array } as const;
type Kind = keyof typeof KINDS;
export type Column = InstanceType<(typeof KINDS)[Kind]>;
export type Columns = Readonly<Record<string, Column>>;

interface Place {
  readonly name: string;
  readonly kind: Kind;
  readonly length: number;
  readonly at: number;
}

export interface Block<T> {
  readonly head: T;
  readonly columns: Columns;
}

const ALIGN = 8;
const HEAD_AT = 4;

const kindOf = (column: Column): Kind => (Object.keys(KINDS) as Kind[]).find((kind) => column instanceof KINDS[kind])!;

/** Smallest kind of unsigned column that holds every number of a list. */
export function unsigned(values: readonly number[]): Column {
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  return (most < 0x100 ? Uint8Array : most < 0x1_0000 ? Uint16Array : Uint32Array).from(values);
}

/** The bytes of a block. */
export function packBlock<T>({ head, columns }: Block<T>): Uint8Array {
  const places: Place[] = [];
  let size = 0;
  for (const [name, column] of Object.entries(columns)) {
    places.push({ name, kind: kindOf(column), length: column.length, at: size });
    size += Math.ceil(column.byteLength / ALIGN) * ALIGN;
  }
  const text = new TextEncoder().encode(JSON.stringify({ head, places }));
  const start = Math.ceil((HEAD_AT + text.length) / ALIGN) * ALIGN;
  const block = new Uint8Array(start + size);
  const view = new DataView(block.buffer);
  view.setUint32(0, text.length, true);
  block.set(text, HEAD_AT);
  for (const { name, kind, at } of places) {
    const column = columns[name]!;
    for (let i = 0; i < column.length; i++) writers[kind](view, start + at + i * column.BYTES_PER_ELEMENT, column[i]!);
  }
  return block;
}

const writers: Readonly<Record<Kind, (view: DataView, at: number, value: number) => void>> = {
  u8: (view, at, value) => {
    view.setUint8(at, value);
  },
  u16: (view, at, value) => {
    view.setUint16(at, value, true);
  },
  u32: (view, at, value) => {
    view.setUint32(at, value, true);
  },
  i32: (view, at, value) => {
    view.setInt32(at, value, true);
  },
  f64: (view, at, value) => {
    view.setFloat64(at, value, true);
  },
};

/**
 * The inverse. Columns are views of the bytes, which must begin at a multiple of 8 of their buffer.
 */
export function unpackBlock<T>(block: Uint8Array): Block<T> {
  const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
  const length = view.getUint32(0, true);
  const text = new TextDecoder().decode(block.subarray(HEAD_AT, HEAD_AT + length));
  const { head, places } = JSON.parse(text) as { readonly head: T; readonly places: readonly Place[] };
  const start = block.byteOffset + Math.ceil((HEAD_AT + length) / ALIGN) * ALIGN;
  const columns: Record<string, Column> = {};
  for (const { name, kind, length: count, at } of places) {
    columns[name] = new KINDS[kind](block.buffer as ArrayBuffer, start + at, count);
  }
  return { head, columns };
}
