/**
 * A small encoder of WebAssembly binary modules: LEB128 numbers, the sections that the emulator uses, and a writer of
 * function bodies that knows how deep labels are nested. Owns no semantics of any machine. The opcodes of values (add,
 * load, …) are with the op table in `ir.ts`; the opcodes here are those of control and of locals.
 *
 * Source: WebAssembly Core Specification 2.0, chapter 5 (binary format).
 */

/** Value types as they stand in a module. */
export const VALUE_TYPE = { i32: 0x7f, i64: 0x7e, f64: 0x7c, v128: 0x7b } as const;
export type ValueType = keyof typeof VALUE_TYPE;

/** Type of a block without a value. */
const EMPTY = 0x40;

/** Unsigned LEB128 appended to `out`; `value` at most 2^32 - 1. */
export function pushUnsigned(out: number[], value: number): void {
  let rest = value >>> 0;
  while (rest >= 0x80) {
    out.push((rest & 0x7f) | 0x80);
    rest >>>= 7;
  }
  out.push(rest);
}

/** Signed LEB128 of a 64-bit value, appended to `out`. */
export function pushSigned(out: number[], value: bigint): void {
  let rest = BigInt.asIntN(64, value);
  for (;;) {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    if ((rest === 0n && (low & 0x40) === 0) || (rest === -1n && (low & 0x40) !== 0)) {
      out.push(low);
      return;
    }
    out.push(low | 0x80);
  }
}

/** The bytes of a function body. Labels are objects, not depths: `br` computes the depth from where it stands. */
export class Code {
  readonly bytes: number[] = [];
  private depth = 0;

  raw(bytes: readonly number[]): this {
    for (const byte of bytes) this.bytes.push(byte);
    return this;
  }

  op(opcode: number): this {
    this.bytes.push(opcode);
    return this;
  }

  i32(value: number): this {
    this.bytes.push(0x41);
    pushSigned(this.bytes, BigInt(value | 0));
    return this;
  }

  i64(value: bigint): this {
    this.bytes.push(0x42);
    pushSigned(this.bytes, value);
    return this;
  }

  get(local: number): this {
    this.bytes.push(0x20);
    pushUnsigned(this.bytes, local);
    return this;
  }

  set(local: number): this {
    this.bytes.push(0x21);
    pushUnsigned(this.bytes, local);
    return this;
  }

  tee(local: number): this {
    this.bytes.push(0x22);
    pushUnsigned(this.bytes, local);
    return this;
  }

  /** A load or store: opcode, alignment hint 0 (guest accesses have any alignment), constant offset. */
  memory(opcode: readonly number[], offset = 0): this {
    this.raw(opcode);
    this.bytes.push(0);
    pushUnsigned(this.bytes, offset);
    return this;
  }

  call(index: number): this {
    this.bytes.push(0x10);
    pushUnsigned(this.bytes, index);
    return this;
  }

  private open(opcode: number, type: number): number {
    this.bytes.push(opcode, type);
    this.depth++;
    return this.depth;
  }

  /** Opens a block and returns its label. */
  block(): number {
    return this.open(0x02, EMPTY);
  }

  /** Opens a loop and returns its label: a branch to it starts it again. */
  loop(): number {
    return this.open(0x03, EMPTY);
  }

  /** Opens `if`, with a value of `type` on the stack at the end where one is named. */
  if(type?: ValueType): number {
    return this.open(0x04, type === undefined ? EMPTY : VALUE_TYPE[type]);
  }

  else(): this {
    this.bytes.push(0x05);
    return this;
  }

  end(): this {
    this.bytes.push(0x0b);
    this.depth--;
    return this;
  }

  br(label: number): this {
    this.bytes.push(0x0c);
    pushUnsigned(this.bytes, this.depth - label);
    return this;
  }

  brIf(label: number): this {
    this.bytes.push(0x0d);
    pushUnsigned(this.bytes, this.depth - label);
    return this;
  }

  brTable(labels: readonly number[], otherwise: number): this {
    this.bytes.push(0x0e);
    pushUnsigned(this.bytes, labels.length);
    for (const label of labels) pushUnsigned(this.bytes, this.depth - label);
    pushUnsigned(this.bytes, this.depth - otherwise);
    return this;
  }

  select(): this {
    this.bytes.push(0x1b);
    return this;
  }

  return(): this {
    this.bytes.push(0x0f);
    return this;
  }

  unreachable(): this {
    this.bytes.push(0x00);
    return this;
  }
}

export interface WasmFunction {
  readonly parameters: readonly ValueType[];
  readonly results: readonly ValueType[];
  readonly locals: readonly ValueType[];
  readonly code: Code;
  /** Name under which it is exported, if it is. */
  readonly export?: string;
}

function section(out: number[], id: number, body: readonly number[]): void {
  out.push(id);
  pushUnsigned(out, body.length);
  for (const byte of body) out.push(byte);
}

function pushName(out: number[], name: string): void {
  pushUnsigned(out, name.length);
  for (let i = 0; i < name.length; i++) out.push(name.charCodeAt(i));
}

/** A module that imports the memory `env.memory` and holds `functions`, numbered in order from 0. */
export function writeModule(functions: readonly WasmFunction[]): Uint8Array<ArrayBuffer> {
  const signatures = new Map<string, number>();
  const types: number[] = [];
  const indices: number[] = [];
  const exports: number[] = [];
  let exportCount = 0;
  const bodies: number[] = [];
  functions.forEach((each, index) => {
    const key = `${each.parameters.join()}:${each.results.join()}`;
    let type = signatures.get(key);
    if (type === undefined) {
      type = signatures.size;
      signatures.set(key, type);
      types.push(0x60);
      pushUnsigned(types, each.parameters.length);
      for (const name of each.parameters) types.push(VALUE_TYPE[name]);
      pushUnsigned(types, each.results.length);
      for (const name of each.results) types.push(VALUE_TYPE[name]);
    }
    pushUnsigned(indices, type);
    if (each.export !== undefined) {
      pushName(exports, each.export);
      exports.push(0x00);
      pushUnsigned(exports, index);
      exportCount++;
    }
    const body: number[] = [];
    pushUnsigned(body, each.locals.length);
    for (const name of each.locals) body.push(1, VALUE_TYPE[name]);
    const size = body.length + each.code.bytes.length + 1;
    pushUnsigned(bodies, size);
    for (const byte of body) bodies.push(byte);
    for (const byte of each.code.bytes) bodies.push(byte);
    bodies.push(0x0b);
  });
  const counted = (count: number, body: readonly number[]): number[] => {
    const out: number[] = [];
    pushUnsigned(out, count);
    for (const byte of body) out.push(byte);
    return out;
  };
  const imports: number[] = [1];
  pushName(imports, 'env');
  pushName(imports, 'memory');
  imports.push(0x02, 0x00, 0x01);
  const out: number[] = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];
  section(out, 1, counted(signatures.size, types));
  section(out, 2, imports);
  section(out, 3, counted(functions.length, indices));
  section(out, 7, counted(exportCount, exports));
  section(out, 10, counted(functions.length, bodies));
  return Uint8Array.from(out);
}
