/**
 * Definitions of kprobe events, in the words of `kprobe_events`:
 *
 *   p[:[GRP/][EVENT]] [MOD:]SYM[+OFFS] | ADDRESS   [ARGS]      a probe
 *   p[:[GRP/][EVENT]] [MOD:]SYM[+0]%return         [ARGS]      the same as r
 *   r[MAXACTIVE][:[GRP/][EVENT]] [MOD:]SYM[+0]     [ARGS]      a return probe
 *
 *   ARG = [NAME=]FETCH[:TYPE] FETCH = %REG | $argN | $retval | $stackN | $stack | $comm | @ADDRESS
 *   | @SYM[+|-OFFS] | \IMM | \"text" | +|-[u]OFFS(FETCH) TYPE = u8 … u64 | s8 … s64 | x8 … x64 |
 *   char | string | ustring | symbol | symstr | b<width>@<offset>/<container>, each with [N]
 *
 * Owns the parsing and the compilation into steps that need no names any more; executes nothing.
 * Errors carry the column (from 0) at which the definition stops making sense, as the kernel's
 * error_log does.
 */
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import type { ProbeAbi, ProbeRegister } from '../machine/probes.js';

/** Limits of the kernel. */
const MAX_ARGUMENTS = 128;
const MAX_NAME = 63;
const MAX_ACTIVE = 4096;
const MAX_ARRAY = 64;
/** Bytes of a recorded string, its end included. */
const MAX_STRING = 64;

export type ProbeWhere =
  | { readonly kind: 'symbol'; readonly module: string | null; readonly name: string; readonly offset: bigint }
  | { readonly kind: 'address'; readonly address: Address };

/** What is fetched, as written. */
export type Fetch =
  | { readonly kind: 'register'; readonly name: string }
  | { readonly kind: 'argument'; readonly index: number }
  | { readonly kind: 'result' }
  | { readonly kind: 'stack-pointer' }
  | { readonly kind: 'stack-word'; readonly index: number }
  | { readonly kind: 'comm' }
  | { readonly kind: 'memory'; readonly address: Address }
  | { readonly kind: 'symbol-memory'; readonly symbol: string; readonly offset: bigint }
  | { readonly kind: 'immediate'; readonly value: bigint }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'deref'; readonly offset: bigint; readonly user: boolean; readonly of: Fetch };

export type ElementType =
  | { readonly kind: 'integer'; readonly base: 'unsigned' | 'signed' | 'hex' | 'char'; readonly bits: 8 | 16 | 32 | 64 }
  | { readonly kind: 'bitfield'; readonly width: number; readonly offset: number; readonly container: 8 | 16 | 32 | 64 }
  | { readonly kind: 'string'; readonly user: boolean }
  /**
   * An address, printed as symbol+offset: `symbol` when the trace is read, `symstr` when it is
   * recorded. Here the same.
   */
  | { readonly kind: 'symbol' };

export interface ProbeArgument {
  readonly name: string;
  readonly fetch: Fetch;
  readonly type: ElementType;
  /** As written, `x64` where nothing was. */
  readonly typeName: string;
  /** Elements of an array; null: no array. */
  readonly count: number | null;
  /** As written, without name. */
  readonly text: string;
  readonly column: number;
}

export interface ProbeDefinition {
  /** The whole text, blanks trimmed. */
  readonly text: string;
  readonly isReturn: boolean;
  /** Instances of a return probe at once; 0: the default. */
  readonly maxActive: number;
  readonly group: string;
  readonly event: string;
  readonly where: ProbeWhere;
  readonly arguments: readonly ProbeArgument[];
}

/** Patterns that match at one place, by their text: definitions come by the thousand. */
const stickies = new Map<string, RegExp>();

class Cursor {
  at = 0;
  constructor(readonly text: string) {}

  fail(reason: string, message: string, column = this.at): never {
    throw new ElftraceError('bad-probe', `column ${column}: ${message}\n  ${this.text}\n  ${' '.repeat(column)}^`, {
      column,
      reason,
      errno: 'EINVAL',
      value: this.text,
    });
  }

  get done(): boolean {
    return this.at >= this.text.length;
  }

  peek(): string {
    return this.text[this.at] ?? '';
  }

  /** The text that matches at this place, consumed; null: it does not match. */
  take(pattern: RegExp): RegExpExecArray | null {
    let sticky = stickies.get(pattern.source);
    if (sticky === undefined) {
      sticky = new RegExp(pattern.source, 'y');
      stickies.set(pattern.source, sticky);
    }
    sticky.lastIndex = this.at;
    const match = sticky.exec(this.text);
    if (match) this.at += match[0].length;
    return match;
  }

  blanks(): void {
    this.take(/\s*/);
  }
}

const NAME = /[A-Za-z_][A-Za-z0-9_]*/;
/** Symbols of compilers: clones, C++ and assembler names. */
const SYMBOL = /[A-Za-z_.$][A-Za-z0-9_.$@]*/;
const NUMBER = /0[xX][0-9a-fA-F]+|[0-9]+/;
const RESERVED = new Set(['__probe_ip', '__probe_func', '__probe_ret_ip', '__probe_nargs']);

const numberOf = (text: string): bigint => BigInt(text.toLowerCase());

/**
 * Parses a definition.
 * @param wordBits  of the target: what `x64` is where no type is given
 * @throws ElftraceError 'bad-probe' with `column` and a word in `reason`
 */
export function parseProbe(source: string, wordBits: 32 | 64): ProbeDefinition {
  const text = source.trim();
  const c: Cursor = new Cursor(text);
  const head = c.take(/[pr]/);
  if (!head) c.fail('bad-command', 'a definition begins with p or r');
  let isReturn = head[0] === 'r';
  let maxActive = 0;
  const count = c.take(/[0-9]+/);
  if (count) {
    if (!isReturn) c.fail('maxactive-not-return', 'MAXACTIVE is for return probes only', 1);
    if (count[0].length > 5 || Number(count[0]) > MAX_ACTIVE)
      c.fail('bad-maxactive', `MAXACTIVE is at most ${MAX_ACTIVE}`, 1);
    maxActive = Number(count[0]);
  }
  let group = 'kprobes';
  let event: string | null = null;
  if (c.take(/:/)) {
    const start = c.at;
    const first = c.take(NAME);
    if (c.take(/\//)) {
      if (!first) c.fail('no-group-name', 'a group has a name', start);
      if (first[0].length > MAX_NAME)
        c.fail('group-too-long', `a group name has at most ${MAX_NAME} characters`, start);
      group = first[0];
      event = c.take(NAME)?.[0] ?? null;
    } else if (first) event = first[0];
    else
      c.fail('no-event-name', 'an event name is made of letters, digits and _, and does not begin with a digit', start);
    if (event !== null && event.length > MAX_NAME)
      c.fail('event-too-long', `an event name has at most ${MAX_NAME} characters`);
    if (!c.done && !/\s/.test(c.peek())) {
      c.fail('bad-event-name', 'a name is made of letters, digits and _', c.at);
    }
  }
  if (!c.done && !/\s/.test(c.peek())) c.fail('bad-command', 'a blank or a colon comes behind p and r');
  c.blanks();
  if (c.done) c.fail('no-probe-point', 'the place of the probe is missing');
  const whereColumn = c.at;
  const where = parseWhere(c);
  if (c.take(/%return(?=\s|$)/)) {
    if (where.kind === 'address') c.fail('bad-probe-address', '%return wants a symbol', whereColumn);
    isReturn = true;
  }
  if (!c.done && !/\s/.test(c.peek()))
    c.fail('bad-probe-address', 'this is neither SYMBOL+OFFSET nor an address', c.at);
  if (isReturn && (where.kind === 'address' || where.offset !== 0n)) {
    c.fail('bad-return-place', 'a return probe is set at the entry of a function', whereColumn);
  }
  const list: ProbeArgument[] = [];
  const names = new Set<string>();
  for (c.blanks(); !c.done; c.blanks()) {
    if (list.length === MAX_ARGUMENTS) c.fail('too-many-arguments', `at most ${MAX_ARGUMENTS} arguments`);
    const argument = parseArgument(c, list.length + 1, isReturn, wordBits);
    if (names.has(argument.name)) c.fail('argument-twice', `a second argument ${argument.name}`, argument.column);
    names.add(argument.name);
    list.push(argument);
  }
  return { text, isReturn, maxActive, group, event: event ?? eventName(isReturn, where), where, arguments: list };
}

/** `p_vfs_read_0`, `r_vfs_read_0`, `p_0xc0001234`. */
function eventName(isReturn: boolean, where: ProbeWhere): string {
  const letter = isReturn ? 'r' : 'p';
  const place = where.kind === 'symbol' ? `${where.name}_${where.offset}` : `0x${where.address.toString(16)}`;
  return `${letter}_${place}`.replaceAll(/[^A-Za-z0-9_]/g, '_').slice(0, MAX_NAME);
}

function parseWhere(c: Cursor): ProbeWhere {
  const start = c.at;
  const number = c.take(NUMBER);
  if (number) {
    if (!c.done && !/[\s%]/.test(c.peek())) c.fail('bad-probe-address', 'this is no address', start);
    return { kind: 'address', address: numberOf(number[0]) };
  }
  let name = c.take(SYMBOL)?.[0];
  let module: string | null = null;
  if (name !== undefined && c.take(/:/)) {
    module = name;
    name = c.take(SYMBOL)?.[0];
  }
  if (name === undefined) c.fail('bad-probe-address', 'this is neither a symbol nor an address', start);
  let offset = 0n;
  if (c.take(/\+/)) {
    const distance = c.take(NUMBER);
    if (!distance) c.fail('bad-probe-address', 'a number comes behind +');
    offset = numberOf(distance[0]);
  } else if (c.peek() === '-') c.fail('bad-probe-address', 'an offset in front of a symbol is in another function');
  return { kind: 'symbol', module, name, offset };
}

function parseArgument(c: Cursor, index: number, isReturn: boolean, wordBits: 32 | 64): ProbeArgument {
  const column = c.at;
  let name = `arg${index}`;
  const given = c.take(/([A-Za-z_][A-Za-z0-9_]*)=/);
  if (given) {
    name = given[1]!;
    if (name.length > MAX_NAME) c.fail('argument-name-too-long', `a name has at most ${MAX_NAME} characters`, column);
    if (RESERVED.has(name) || name.startsWith('common_'))
      c.fail('reserved-name', `${name} is a field of every event`, column);
  } else if (c.take(/[^\s="\\]*=/)) c.fail('bad-argument-name', 'a name is made of letters, digits and _', column);
  const start = c.at;
  const fetch = parseFetch(c, isReturn, 0);
  let typeName = `x${wordBits}`;
  let type: ElementType = { kind: 'integer', base: 'hex', bits: wordBits };
  if (fetch.kind === 'comm' || fetch.kind === 'text') {
    typeName = 'string';
    type = { kind: 'string', user: false };
  }
  let count: number | null = null;
  if (c.take(/:/)) {
    const typeColumn = c.at;
    const word = c.take(/[^\s[]+/)?.[0] ?? '';
    const parsed = parseType(c, word, typeColumn, wordBits);
    typeName = word;
    type = parsed;
    const array = c.take(/\[([^\]\s]*)\]?/);
    if (array) {
      const n = Number(array[1]);
      if (!array[0].endsWith(']')) c.fail('array-no-close', 'an array ends with ]', typeColumn);
      if (!/^[0-9]+$/.test(array[1]!) || n < 1)
        c.fail('bad-array-count', 'an array has at least one element', typeColumn);
      if (n > MAX_ARRAY) c.fail('array-too-big', `an array has at most ${MAX_ARRAY} elements`, typeColumn);
      count = n;
      typeName += `[${n}]`;
    }
    checkType(c, fetch, type, count, typeColumn);
  }
  if (!c.done && !/\s/.test(c.peek())) c.fail('bad-fetch-argument', 'the argument should end here');
  return { name, fetch, type, typeName, count, text: c.text.slice(start, c.at), column };
}

/** Which values can be of which type. */
function checkType(c: Cursor, fetch: Fetch, type: ElementType, count: number | null, column: number): void {
  const inMemory = fetch.kind === 'deref' || fetch.kind === 'memory' || fetch.kind === 'symbol-memory';
  if (count !== null && !inMemory) c.fail('array-not-memory', 'an array lies in memory: +0(…) or @…', column);
  if (fetch.kind === 'comm' || fetch.kind === 'text') {
    if (type.kind !== 'string' || count !== null) c.fail('text-type', 'this is a string', column);
  } else if (type.kind === 'string' && !inMemory) {
    c.fail('string-not-memory', 'a string lies in memory: +0(…) or @…', column);
  }
}

function parseType(c: Cursor, word: string, column: number, wordBits: 32 | 64): ElementType {
  const integer = /^([usx])(8|16|32|64)$/.exec(word);
  const bits = (text: string): 8 | 16 | 32 | 64 => {
    const found = ([8, 16, 32, 64] as const).find((each) => String(each) === text);
    if (found === undefined) c.fail('bad-bitfield', 'a container has 8, 16, 32 or 64 bits', column);
    return found;
  };
  if (integer) {
    const base = integer[1] === 'u' ? 'unsigned' : integer[1] === 's' ? 'signed' : 'hex';
    return { kind: 'integer', base, bits: bits(integer[2]!) };
  }
  switch (word) {
    case 'char':
      return { kind: 'integer', base: 'char', bits: 8 };
    case 'string':
    case 'ustring':
      return { kind: 'string', user: word === 'ustring' };
    case 'symbol':
    case 'symstr':
      return { kind: 'symbol' };
    default:
  }
  const field = /^b(\d+)@(\d+)\/(\d+)$/.exec(word);
  if (field) {
    const width = Number(field[1]);
    const offset = Number(field[2]);
    const container = bits(field[3]!);
    if (width < 1 || width + offset > container) {
      c.fail('bad-bitfield', `${width} bits at ${offset} are not in a container of ${container}`, column);
    }
    return { kind: 'bitfield', width, offset, container };
  }
  return c.fail('bad-type', `${word === '' ? 'nothing' : word} is no type (the machine has ${wordBits} bits)`, column);
}

/** Depth of nested dereferences that a kernel's program of 16 instructions holds. */
const MAX_DEPTH = 12;

function parseFetch(c: Cursor, isReturn: boolean, depth: number): Fetch {
  const column = c.at;
  if (depth > MAX_DEPTH) c.fail('too-many-operations', `at most ${MAX_DEPTH} dereferences in each other`, column);
  switch (c.peek()) {
    case '%': {
      c.at++;
      const name = c.take(/[A-Za-z][A-Za-z0-9_]*/);
      if (!name) c.fail('bad-register', 'a register name comes behind %', column);
      return { kind: 'register', name: name[0] };
    }
    case '$':
      c.at++;
      return parseVariable(c, isReturn, column);
    case '@': {
      c.at++;
      const number = c.take(NUMBER);
      if (number) return { kind: 'memory', address: numberOf(number[0]) };
      if (c.take(/\+/)) c.fail('file-offset', 'offsets in files are for uprobes', column);
      const symbol = c.take(SYMBOL);
      if (!symbol) c.fail('bad-memory-address', 'an address or a symbol comes behind @', column);
      const sign = c.take(/[-+]/);
      const offset = sign ? c.take(NUMBER) : null;
      if (sign && !offset) c.fail('bad-memory-address', `a number comes behind ${sign[0]}`);
      const distance = offset ? numberOf(offset[0]) : 0n;
      return { kind: 'symbol-memory', symbol: symbol[0], offset: sign?.[0] === '-' ? -distance : distance };
    }
    case '\\': {
      c.at++;
      const text = c.take(/"([^"]*)"/);
      if (text) return { kind: 'text', text: text[1]! };
      if (c.peek() === '"') c.fail('immediate-no-close', 'a text ends with "', column);
      const number = c.take(/-?(?:0[xX][0-9a-fA-F]+|[0-9]+)/);
      if (!number) c.fail('bad-immediate', 'a number or "text" comes behind \\', column);
      const negative = number[0].startsWith('-');
      const value = numberOf(negative ? number[0].slice(1) : number[0]);
      return { kind: 'immediate', value: BigInt.asUintN(64, negative ? -value : value) };
    }
    case '+':
    case '-': {
      const negative = c.peek() === '-';
      c.at++;
      const user = c.take(/u/) !== null;
      const number = c.take(NUMBER);
      if (!number) c.fail('bad-deref-offset', 'an offset comes behind + and -');
      if (!c.take(/\(/)) c.fail('deref-need-brace', 'what is dereferenced stands in brackets');
      const of = parseFetch(c, isReturn, depth + 1);
      if (!c.take(/\)/)) c.fail('deref-open-brace', 'the bracket is not closed');
      if (of.kind === 'comm' || of.kind === 'text') c.fail('comm-cannot-deref', 'a string is no address', column);
      const distance = numberOf(number[0]);
      return { kind: 'deref', offset: negative ? -distance : distance, user, of };
    }
    default:
      return c.fail('bad-fetch-argument', 'a value begins with %, $, @, \\, + or -', column);
  }
}

function parseVariable(c: Cursor, isReturn: boolean, column: number): Fetch {
  const word = c.take(/[A-Za-z]+/)?.[0] ?? '';
  const number = c.take(/[0-9]+/)?.[0];
  if (number === undefined) {
    if (word === 'retval') {
      if (!isReturn) c.fail('retval-on-probe', '$retval is for return probes only', column);
      return { kind: 'result' };
    }
    if (word === 'stack') return { kind: 'stack-pointer' };
    if (word === 'comm') return { kind: 'comm' };
  } else if (word === 'arg') {
    const index = Number(number);
    if (index < 1 || index > MAX_ARGUMENTS)
      c.fail('bad-argument-number', `arguments have the numbers 1 to ${MAX_ARGUMENTS}`, column);
    // The registers of the entry are not kept for the return.
    if (isReturn) c.fail('argument-at-return', 'arguments are known at the entry of a function only', column);
    return { kind: 'argument', index };
  } else if (word === 'stack') {
    const index = Number(number);
    if (index > 1024) c.fail('bad-stack-number', 'at most 1024 words of the stack', column);
    return { kind: 'stack-word', index };
  }
  return c.fail('bad-variable', `$${word}${number ?? ''} is not known`, column);
}

// ------------------------------------------------------------------------------------- compilation

/** A step of fetching: the value so far goes in, another comes out. */
export type FetchStep =
  | { readonly kind: 'register'; readonly register: ProbeRegister }
  | { readonly kind: 'constant'; readonly value: bigint }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'comm' }
  /** Reads a word at value + offset. */
  | { readonly kind: 'load'; readonly offset: bigint };

export interface CompiledArgument {
  readonly name: string;
  readonly typeName: string;
  readonly type: ElementType;
  readonly steps: readonly FetchStep[];
  /** Elements are read at value + `memory`; null: the value is the element. */
  readonly memory: bigint | null;
  readonly count: number | null;
}

/** What compiling asks for. */
export interface CompileContext {
  readonly abi: ProbeAbi;
  /** Address of a data or code symbol, or null. */
  readonly symbol: (name: string) => Address | null;
  /**
   * The probe is at the first instruction of a function, its landing pad left out: `$argN` means
   * something.
   */
  readonly atEntry: boolean;
}

/**
 * Turns the arguments of a definition into steps on a machine's registers.
 * @throws ElftraceError 'bad-probe' with the column of the argument for what the machine or the
 *   place does not have
 */
export function compileArguments(definition: ProbeDefinition, context: CompileContext): readonly CompiledArgument[] {
  return definition.arguments.map((argument) => {
    const fail = (reason: string, message: string): never => {
      throw new ElftraceError('bad-probe', `column ${argument.column}: ${argument.text}: ${message}`, {
        column: argument.column,
        reason,
        errno: 'EINVAL',
        value: definition.text,
      });
    };
    const { fetch, name, type, typeName, count } = argument;
    const common = { name, type, typeName, count };
    const isBytes = fetch.kind === 'deref' || fetch.kind === 'memory' || fetch.kind === 'symbol-memory';
    if (!isBytes) return { ...common, steps: compile(fetch, context, fail), memory: null };
    // The last load has the width of the element.
    if (fetch.kind === 'deref') return { ...common, steps: compile(fetch.of, context, fail), memory: fetch.offset };
    return { ...common, steps: [{ kind: 'constant', value: addressOf(fetch, context, fail) }], memory: 0n };
  });
}

function addressOf(
  fetch: Extract<Fetch, { kind: 'memory' | 'symbol-memory' }>,
  context: CompileContext,
  fail: (reason: string, message: string) => never,
): Address {
  if (fetch.kind === 'memory') return fetch.address;
  const value = context.symbol(fetch.symbol);
  return value === null ? fail('no-symbol', `no symbol ${fetch.symbol}`) : value + fetch.offset;
}

function compile(
  fetch: Fetch,
  context: CompileContext,
  fail: (reason: string, message: string) => never,
): readonly FetchStep[] {
  const { abi } = context;
  const register = (name: string): FetchStep => {
    const found = abi.registers.get(name);
    return found ? { kind: 'register', register: found } : fail('bad-register', `no register is named %${name}`);
  };
  const stackPointer = abi.registers.get(abi.stackPointer);
  const word = stackPointer?.bytes ?? 8;
  switch (fetch.kind) {
    case 'register':
      return [register(fetch.name)];
    case 'argument': {
      if (!context.atEntry)
        return fail('argument-not-at-entry', 'arguments are in registers at the entry of a function only');
      const name = abi.arguments[fetch.index - 1];
      if (name !== undefined) return [register(name)];
      if (abi.stackArgumentOffset === null) {
        return fail('bad-argument-number', `arguments from ${abi.arguments.length + 1} on are not in registers`);
      }
      const offset = abi.stackArgumentOffset + (fetch.index - 1 - abi.arguments.length) * word;
      return [register(abi.stackPointer), { kind: 'load', offset: BigInt(offset) }];
    }
    case 'result':
      return [register(abi.result)];
    case 'stack-pointer':
      return [register(abi.stackPointer)];
    case 'stack-word':
      return [register(abi.stackPointer), { kind: 'load', offset: BigInt(fetch.index * word) }];
    case 'comm':
      return [{ kind: 'comm' }];
    case 'text':
      return [{ kind: 'text', text: fetch.text }];
    case 'immediate':
      return [{ kind: 'constant', value: fetch.value }];
    case 'memory':
    case 'symbol-memory':
      return [
        { kind: 'constant', value: addressOf(fetch, context, fail) },
        { kind: 'load', offset: 0n },
      ];
    case 'deref':
      return [...compile(fetch.of, context, fail), { kind: 'load', offset: fetch.offset }];
    default:
      return fetch satisfies never;
  }
}

// ------------------------------------------------------------------------------------------ values

/** Reading of what steps need. */
export interface FetchSource {
  register(register: ProbeRegister): bigint;
  read(address: Address, size: number): Uint8Array | null;
  readonly wordBytes: 4 | 8;
  readonly littleEndian: boolean;
  readonly comm: string;
}

/** A fetched value; `fault`: it lies where nothing is mapped. */
export type Fetched =
  | { readonly kind: 'fault' }
  | { readonly kind: 'number'; readonly value: bigint }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly Fetched[] };

function unsigned(bytes: Uint8Array, littleEndian: boolean): bigint {
  let value = 0n;
  for (let i = 0; i < bytes.length; i++)
    value = (value << 8n) | BigInt(bytes[littleEndian ? bytes.length - 1 - i : i]!);
  return value;
}

/** Bytes of an element in memory; strings have none. */
export function elementBytes(type: ElementType, wordBytes: 4 | 8): number {
  switch (type.kind) {
    case 'integer':
      return type.bits / 8;
    case 'bitfield':
      return type.container / 8;
    case 'symbol':
      return wordBytes;
    case 'string':
      return 0;
    default:
      return type satisfies never;
  }
}

/** An element's value from the unsigned number that was fetched. */
export function elementValue(type: ElementType, raw: bigint, littleEndian: boolean): bigint {
  switch (type.kind) {
    case 'integer': {
      const cut = BigInt.asUintN(type.bits, raw);
      return type.base === 'signed' ? BigInt.asIntN(type.bits, cut) : cut;
    }
    case 'bitfield': {
      // Bit 0 of a field is where the machine's compilers put it: the lowest, or the highest in
      // big-endian order.
      const shift = littleEndian ? type.offset : type.container - type.offset - type.width;
      return BigInt.asUintN(type.width, BigInt.asUintN(type.container, raw) >> BigInt(shift));
    }
    default:
      return raw;
  }
}

/** Fetches an argument. Never throws: memory that is not there gives `fault`. */
export function fetchArgument(argument: CompiledArgument, source: FetchSource): Fetched {
  const { wordBytes, littleEndian } = source;
  const bits = 8 * wordBytes;
  let value = 0n;
  for (const step of argument.steps) {
    switch (step.kind) {
      case 'register':
        value = source.register(step.register);
        break;
      case 'constant':
        value = step.value;
        break;
      case 'comm':
        return { kind: 'text', text: source.comm };
      case 'text':
        return { kind: 'text', text: step.text };
      case 'load': {
        const bytes = source.read(BigInt.asUintN(bits, value + step.offset), wordBytes);
        if (bytes === null) return { kind: 'fault' };
        value = unsigned(bytes, littleEndian);
        break;
      }
      default:
        step satisfies never;
    }
  }
  const { type, memory, count } = argument;
  if (memory === null) return { kind: 'number', value: elementValue(type, value, littleEndian) };
  const base = BigInt.asUintN(bits, value + memory);
  const size = elementBytes(type, wordBytes);
  const one = (index: number): Fetched => {
    if (type.kind === 'string') {
      // An array of strings is an array of pointers to them.
      if (count === null) return readString(source, base);
      const pointer = source.read(base + BigInt(index * wordBytes), wordBytes);
      return pointer === null ? { kind: 'fault' } : readString(source, unsigned(pointer, littleEndian));
    }
    const bytes = source.read(BigInt.asUintN(bits, base + BigInt(index * size)), size);
    if (bytes === null) return { kind: 'fault' };
    return { kind: 'number', value: elementValue(type, unsigned(bytes, littleEndian), littleEndian) };
  };
  return count === null ? one(0) : { kind: 'list', items: Array.from({ length: count }, (_, i) => one(i)) };
}

function readString(source: FetchSource, address: Address): Fetched {
  const bytes: number[] = [];
  for (let at = address; bytes.length < MAX_STRING - 1; at++) {
    const byte = source.read(at, 1);
    if (byte === null) return { kind: 'fault' };
    if (byte[0] === 0) break;
    bytes.push(byte[0]!);
  }
  return { kind: 'text', text: new TextDecoder().decode(Uint8Array.from(bytes)) };
}

/** A fetched value as traces print it. */
export function formatFetched(
  type: ElementType,
  value: Fetched,
  symbolAt: (address: Address) => string = () => '',
): string {
  switch (value.kind) {
    case 'fault':
      return '(fault)';
    case 'text':
      return JSON.stringify(value.text);
    case 'list':
      return `{${value.items.map((each) => formatFetched(type, each, symbolAt)).join(',')}}`;
    case 'number': {
      if (type.kind === 'symbol') return symbolAt(value.value) || `0x${value.value.toString(16)}`;
      if (type.kind === 'integer' && type.base === 'hex') return `0x${value.value.toString(16)}`;
      if (type.kind === 'integer' && type.base === 'char') return `'${String.fromCharCode(Number(value.value))}'`;
      return value.value.toString();
    }
    default:
      return value satisfies never;
  }
}
