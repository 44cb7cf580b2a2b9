/**
 * A small encoder of WebAssembly binary modules: LEB128 numbers, the sections that the emulator
 * uses, and a writer of function bodies that knows how deep labels are nested. Owns no semantics of
 * any machine. The opcodes of values (add, load, …) are with the op table in `ir.ts`; the opcodes
 * here are those of control and of locals.
 *
 * Source: WebAssembly Core Specification 2.0, chapter 5 (binary format).
 */

/** Value types as they stand in a module. */
const VALUE_TYPE = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b } as const;
export type ValueType = keyof typeof VALUE_TYPE;

/** Type of a block without a value. */
const EMPTY = 0x40;

/**
 * Bytes being written. A typed array that doubles, for the module of tier 0 is made while a user
 * waits.
 */
class Bytes {
  protected buffer: Uint8Array<ArrayBuffer>;
  length = 0;

  constructor(capacity = 256) {
    this.buffer = new Uint8Array(capacity);
  }

  protected reserve(count: number): void {
    if (this.length + count <= this.buffer.length) return;
    const grown = new Uint8Array(Math.max(this.buffer.length * 2, this.length + count));
    grown.set(this.buffer.subarray(0, this.length));
    this.buffer = grown;
  }

  push(byte: number): void {
    if (this.length === this.buffer.length) this.reserve(1);
    this.buffer[this.length++] = byte;
  }

  pushAll(bytes: readonly number[] | Uint8Array): void {
    this.reserve(bytes.length);
    this.buffer.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** Unsigned LEB128; `value` at most 2^32 - 1. */
  unsigned(value: number): void {
    let rest = value;
    while (rest >= 0x80) {
      this.push((rest & 0x7f) | 0x80);
      rest >>>= 7;
    }
    this.push(rest);
  }

  /** Signed LEB128 of a 32-bit value. */
  signed32(value: number): void {
    let rest = value | 0;
    for (;;) {
      const low = rest & 0x7f;
      rest >>= 7;
      if ((rest === 0 && (low & 0x40) === 0) || (rest === -1 && (low & 0x40) !== 0)) {
        this.push(low);
        return;
      }
      this.push(low | 0x80);
    }
  }

  /** Signed LEB128 of a 64-bit value. */
  signed64(value: bigint): void {
    let rest = BigInt.asIntN(64, value);
    if (rest === BigInt.asIntN(32, rest)) {
      this.signed32(Number(rest));
      return;
    }
    for (;;) {
      const low = Number(rest & 0x7fn);
      rest >>= 7n;
      if ((rest === 0n && (low & 0x40) === 0) || (rest === -1n && (low & 0x40) !== 0)) {
        this.push(low);
        return;
      }
      this.push(low | 0x80);
    }
  }

  view(): Uint8Array<ArrayBuffer> {
    return this.buffer.subarray(0, this.length);
  }
}

/**
 * The bytes of a function body. Labels are objects, not depths: `br` computes the depth from where
 * it stands.
 */
export class Code extends Bytes {
  /** Where branches are that are rarely taken. */
  readonly rare: number[] = [];
  private depth = 0;
  /** Length just behind the last `write`. */
  private setEnd = -1;

  get bytes(): Uint8Array {
    return this.view();
  }

  raw(bytes: readonly number[]): this {
    for (let i = 0; i < bytes.length; i++) this.push(bytes[i]!);
    return this;
  }

  op(opcode: number): this {
    this.push(opcode);
    return this;
  }

  i32(value: number): this {
    this.push(0x41);
    this.signed32(value);
    return this;
  }

  i64(value: bigint): this {
    this.push(0x42);
    this.signed64(value);
    return this;
  }

  /** An instruction with one index below 128 as its operand: the common case, in one step. */
  private indexed(opcode: number, index: number): this {
    if (index >= 0x80) {
      this.push(opcode);
      this.unsigned(index);
      return this;
    }
    if (this.length + 2 > this.buffer.length) this.reserve(2);
    this.buffer[this.length] = opcode;
    this.buffer[this.length + 1] = index;
    this.length += 2;
    return this;
  }

  get(local: number): this {
    return this.indexed(0x20, local);
  }

  set(local: number): this {
    return this.indexed(0x21, local);
  }

  tee(local: number): this {
    return this.indexed(0x22, local);
  }

  /** As `get`; directly behind a `set` of the same local both become one `tee`. */
  read(local: number): this {
    const { buffer, length } = this;
    if (local < 0x80 && length >= 2 && length === this.setEnd && buffer[length - 1] === local) {
      buffer[length - 2] = 0x22;
      this.setEnd = -1;
      return this;
    }
    return this.get(local);
  }

  /** As `set`, for `read`. */
  write(local: number): this {
    this.set(local);
    if (local < 0x80) this.setEnd = this.length;
    return this;
  }

  /**
   * A load or store: opcode, alignment hint 0 (guest accesses have any alignment), constant offset,
   * lane where it has one.
   */
  memory(opcode: readonly number[], offset = 0, lane?: number): this {
    this.push(opcode[0]!);
    if (opcode.length > 1) this.push(opcode[1]!);
    this.push(0);
    if (offset < 0x80) this.push(offset);
    else this.unsigned(offset);
    if (lane !== undefined) this.push(lane);
    return this;
  }

  call(index: number): this {
    return this.indexed(0x10, index);
  }

  /** Calls through table 0 a function of type `type`; the index is on the stack. */
  callIndirect(type: number): this {
    this.push(0x11);
    this.unsigned(type);
    this.push(0);
    return this;
  }

  private open(opcode: number, type: number): number {
    this.push(opcode);
    this.push(type);
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
    this.push(0x05);
    return this;
  }

  end(): this {
    this.push(0x0b);
    this.depth--;
    return this;
  }

  /** The `if` that follows is rarely taken: engines keep that code apart. */
  rarely(): this {
    this.rare.push(this.length);
    return this;
  }

  br(label: number): this {
    this.push(0x0c);
    this.unsigned(this.depth - label);
    return this;
  }

  brIf(label: number): this {
    this.push(0x0d);
    this.unsigned(this.depth - label);
    return this;
  }

  brTable(labels: readonly number[], otherwise: number): this {
    this.push(0x0e);
    this.unsigned(labels.length);
    for (const label of labels) this.unsigned(this.depth - label);
    this.unsigned(this.depth - otherwise);
    return this;
  }

  select(): this {
    this.push(0x1b);
    return this;
  }

  drop(): this {
    this.push(0x1a);
    return this;
  }

  return(): this {
    this.push(0x0f);
    return this;
  }

  unreachable(): this {
    this.push(0x00);
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

function pushName(out: Bytes, name: string): void {
  out.unsigned(name.length);
  for (let i = 0; i < name.length; i++) out.push(name.charCodeAt(i));
}

const signatureOf = ({ parameters, results }: Pick<WasmFunction, 'parameters' | 'results'>): string =>
  `${parameters.join()}:${results.join()}`;

/** The sections of a module as they grow. */
class ModuleWriter {
  private readonly signatures = new Map<string, number>();
  private readonly types = new Bytes();
  private readonly indices = new Bytes();
  private readonly exports = new Bytes();
  private readonly bodies = new Bytes();
  // Small arrays are not cheap: those that are needed for each function are made once.
  private readonly locals = new Bytes();
  private readonly head = new Bytes();
  private readonly out = new Bytes();
  private count = 0;
  private exportCount = 0;
  private readonly hints = new Bytes();
  private hintedCount = 0;

  /** Number of the type of a function. */
  typeOf(each: WasmFunction): number {
    const { signatures, types } = this;
    const key = signatureOf(each);
    const known = signatures.get(key);
    if (known !== undefined) return known;
    signatures.set(key, signatures.size);
    types.push(0x60);
    types.unsigned(each.parameters.length);
    for (const name of each.parameters) types.push(VALUE_TYPE[name]);
    types.unsigned(each.results.length);
    for (const name of each.results) types.push(VALUE_TYPE[name]);
    return signatures.size - 1;
  }

  add(each: WasmFunction): void {
    const { indices, exports, bodies, locals } = this;
    indices.unsigned(this.typeOf(each));
    if (each.export !== undefined) {
      pushName(exports, each.export);
      exports.push(0x00);
      exports.unsigned(this.count);
      this.exportCount++;
    }
    locals.length = 0;
    const groups: { readonly name: ValueType; count: number }[] = [];
    for (const name of each.locals) {
      const last = groups.at(-1);
      if (last?.name === name) last.count++;
      else groups.push({ name, count: 1 });
    }
    locals.unsigned(groups.length);
    for (const { name, count } of groups) {
      locals.unsigned(count);
      locals.push(VALUE_TYPE[name]);
    }
    const code = each.code.bytes;
    this.addHints(each.code.rare, locals.length);
    bodies.unsigned(locals.length + code.length + 1);
    bodies.pushAll(locals.view());
    bodies.pushAll(code);
    bodies.push(0x0b);
    this.count++;
  }

  /** @param before  bytes of the body in front of its code */
  private addHints(rare: readonly number[], before: number): void {
    const { hints } = this;
    if (rare.length === 0) return;
    this.hintedCount++;
    hints.unsigned(this.count);
    hints.unsigned(rare.length);
    for (const at of rare) {
      hints.unsigned(before + at);
      hints.push(1);
      hints.push(0);
    }
  }

  /** The module; `indirect`: with a table. */
  finish(indirect: boolean): Uint8Array<ArrayBuffer> {
    const imports = new Bytes();
    pushName(imports, 'env');
    pushName(imports, 'memory');
    imports.pushAll([0x02, 0x00, 0x01]);
    if (indirect) {
      pushName(imports, 'env');
      pushName(imports, 'table');
      imports.pushAll([0x01, 0x70, 0x00, 0x00]);
    }
    this.out.pushAll([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]);
    this.section(1, this.signatures.size, this.types);
    this.section(2, indirect ? 2 : 1, imports);
    this.section(3, this.count, this.indices);
    this.section(7, this.exportCount, this.exports);
    if (this.hintedCount > 0) this.hintSection();
    this.section(10, this.count, this.bodies);
    return this.out.view();
  }

  /**
   * Branches that are rarely taken: of each function that has some their places in its body.
   * Source: the proposal for branch hinting of WebAssembly.
   */
  private hintSection(): void {
    const { out, head, hints } = this;
    const name = new Bytes();
    pushName(name, 'metadata.code.branch_hint');
    head.length = 0;
    head.unsigned(this.hintedCount);
    out.push(0);
    out.unsigned(name.length + head.length + hints.length);
    for (const each of [name, head, hints]) out.pushAll(each.view());
  }

  private section(id: number, count: number, body: Bytes): void {
    const { head, out } = this;
    head.length = 0;
    head.unsigned(count);
    out.push(id);
    out.unsigned(head.length + body.length);
    out.pushAll(head.view());
    out.pushAll(body.view());
  }
}

/**
 * A module that imports the memory `env.memory` and holds `functions`, numbered in order from 0.
 * `indirect`: it also imports the table `env.table`, and calls functions of the type of
 * `functions[indirect]`, which is type 0, through it.
 */
export function writeModule(functions: readonly WasmFunction[], indirect?: number): Uint8Array<ArrayBuffer> {
  const writer = new ModuleWriter();
  if (indirect !== undefined) writer.typeOf(functions[indirect]!);
  for (const each of functions) writer.add(each);
  return writer.finish(indirect !== undefined);
}
