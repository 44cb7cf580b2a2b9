/**
 * The handlers of tier 0: what the generated code does for each kind of record, in which variants
 * (operands in slots or constants) and with what it is fused. `interpreter.ts` puts them together.
 */
import { emitFloat } from './float-code.js';
import { compareOpcode, recordTest } from './functions.js';
import { BLOCK_TABLE, CONTROL, WINDOW } from './host.js';
import { readLookup, writeLookup } from './lookup-table.js';
import { F64, I32, I64, OPS, OP_NAMES, V128 } from '../machine/ir.js';
import type { FloatRow } from '../machine/float-ops.js';
import type { AccessRow, Condition, Lifter, OpName, OpRow, PureRow, SlotType } from '../machine/ir.js';
import { PREBUILT_HANDLERS } from './prebuilt.js';
import type { Code } from './wasm.js';
import { ElftraceError } from '../errors.js';

/** Why the generated code returned. The order is the number. */
export const EXIT_REASONS = [
  'fuel',
  /** An access that no window serves in the fast path: `CONTROL.value` is its address. */
  'miss',
  /** An indirect branch whose target is not in the lookup table. */
  'lookup',
  // Reasons of `exit` records:
  'untranslated',
  'helper',
  'trap',
  'unknown',
  'fetch',
  'hook',
  /** The CPU drops what it has fetched. */
  'sync',
  /** A `guard` failed: the instruction is lifted anew. */
  'slow',
  /** A check that traps. */
  'check',
  /** The compiled tier may go on here. */
  'region',
] as const;
export type ExitReason = (typeof EXIT_REASONS)[number];
export const reasonNumber = (reason: ExitReason): number => EXIT_REASONS.indexOf(reason);

export const RECORD_BYTES = 16;
export const HEADER_BYTES = 16;
// Locals of `run`.
export const HEADER = 0;
export const FUEL = 1;
export const POINTER = 2;
export const REASON = 3;
const DESCRIPTOR = 4;
export const HOST = 5;
export const ADDRESS = 6;
const OFFSET = 7;
/** Of the function of float ops only. */
const RESULT_64 = 8;
const RESULT_32 = 9;
const RESULT_128 = 10;

const LOAD: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.load], f64: [F64.load], v128: V128.load };
const STORE: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.store], f64: [F64.store], v128: V128.store };

export interface Context {
  readonly code: Code;
  readonly calls: ReadonlyMap<string, number>;
  readonly resolve: number;
  readonly is32: boolean;
  /** Goes to the record after this one. */
  next(records?: number): void;
  /** Enters the block whose header the stack top names. */
  enter(): void;
  /** Goes on at the record that the stack top names, without paying. */
  resume(): void;
  exit(reason: ExitReason): void;
  /** Label to leave with the reason `miss`; the address is in its local. */
  readonly miss: number;
  /** Label for accesses that their window does not serve; null: look for another window. */
  readonly unexpected: number | null;
}

export interface Handler {
  readonly key: string;
  readonly write: (context: Context) => void;
}

/** Pushes the host address that a 16-bit field of the record holds. */
function field(code: Code, at: number): void {
  code.get(POINTER).memory([I32.load16u], at);
}

function slotValue(code: Code, at: number, type: SlotType = 'i64'): void {
  field(code, at);
  code.memory(LOAD[type]);
}

function constantValue(code: Code, at = 8): void {
  code.get(POINTER).memory([I64.load], at);
}

function log2(bytes: AccessRow['bytes']): number {
  return { 1: 0, 2: 1, 4: 2, 8: 3, 16: 4 }[bytes];
}

/**
 * Accesses that have a form which also writes the address to its base: what compilers make of loops
 * over arrays, and pushes.
 */
export const UPDATING: ReadonlySet<OpName> = new Set<OpName>([
  'ld8u', 'ld16u', 'ld16s', 'ld32u', 'ld64', 'ld16ube', 'ld16sbe', 'ld32ube', 'ld64be',
  'st8', 'st16', 'st32', 'st64', 'st16be', 'st32be', 'st64be',
]); // prettier-ignore

function accessHandler(name: OpName, row: AccessRow, variant: 'k' | 'i' | 'kk' | 'u'): Handler {
  const indexed = variant === 'i';
  const limits = (row.form === 'load' ? WINDOW.readLimits : WINDOW.writeLimits) + 8 * log2(row.bytes);
  return {
    key: `${name}:${variant}`,
    write: (context) => {
      const { code } = context;
      field(code, 6);
      code.set(DESCRIPTOR);
      slotValue(code, 4);
      if (indexed) slotValue(code, 8);
      else constantValue(code);
      code.op(I64.add);
      if (context.is32) code.i64(0xffff_ffffn).op(I64.and);
      code.tee(ADDRESS);
      code.get(DESCRIPTOR).memory([I64.load], WINDOW.base).op(I64.sub).tee(OFFSET);
      code.get(DESCRIPTOR).memory([I64.load], limits);
      if (context.unexpected !== null) {
        code.op(I64.geu).brIf(context.unexpected);
        code.get(DESCRIPTOR).memory([I32.load], WINDOW.host).get(OFFSET).op(I32.wrap).op(I32.add).set(HOST);
      } else {
        code.op(I64.ltu).if();
        code.get(DESCRIPTOR).memory([I32.load], WINDOW.host).get(OFFSET).op(I32.wrap).op(I32.add).set(HOST);
        code.else();
        code.get(ADDRESS).i32(row.bytes).i32(limits).get(POINTER).call(context.resolve).tee(HOST);
        code.op(I32.eqz).brIf(context.miss);
        code.end();
      }
      if (row.form === 'load') {
        field(code, 2);
        code.get(HOST).memory(row.access).raw(row.swap);
        code.memory(STORE[row.type]);
      } else {
        code.get(HOST);
        if (variant === 'kk') constantValue(code, RECORD_BYTES + 8);
        else slotValue(code, 2, row.type);
        code.raw(row.swap).memory(row.access, 0, row.lane);
      }
      // The addition is the second record, for accesses that leave from here.
      if (variant === 'u') {
        field(code, 4);
        code.get(ADDRESS).memory([I64.store]);
      }
      context.next(variant === 'kk' || variant === 'u' ? 2 : 1);
    },
  };
}

function opHandlers(name: OpName): Handler[] {
  const row = OPS[name];
  switch (row.form) {
    case 'unary':
      return unaryHandlers(name, row);
    case 'binary':
      return binaryHandlers(name, row);
    case 'select':
      return [{ key: name, write: writeSelect }];
    case 'load':
    case 'store':
      return [
        accessHandler(name, row, 'k'),
        accessHandler(name, row, 'i'),
        ...(UPDATING.has(name) ? [accessHandler(name, row, 'u')] : []),
        // A constant value is in a second record.
        ...(row.form === 'store' && row.type === 'i64' ? [accessHandler(name, row, 'kk')] : []),
      ];
    case 'aligned':
      return [{ key: name, write: writeAligned }];
    case 'record':
      return recordHandlers(name, row);
    case 'leave':
      return [{ key: name, write: name === 'guard' ? writeGuard : writeLeave }];
    case 'float':
      return [{ key: name, write: floatHandler(row) }];
    case 'slots':
      return [slotsHandler(name, row)];
    case 'unit':
      return [unitHandler(name, row)];
    case 'check':
      return [{ key: name, write: writeCheck }];
    default:
      return row satisfies never;
  }
}

type Form<F extends OpRow['form']> = Extract<OpRow, { readonly form: F }>;

function unaryHandlers(name: OpName, row: PureRow): Handler[] {
  return (name === 'mov' ? (['s', 'k'] as const) : (['s'] as const)).map((variant) => ({
    key: `${name}:${variant}`,
    write: ({ code, next, calls }) => {
      field(code, 2);
      if (row.before !== undefined) code.raw(row.before);
      if (variant === 's') slotValue(code, 4, row.type);
      else constantValue(code);
      code.raw(row.a);
      if (row.call !== undefined) code.call(calls.get(row.call)!);
      code.raw(row.both).memory(STORE[row.d]);
      next();
    },
  }));
}

function binaryHandlers(name: OpName, row: PureRow): Handler[] {
  // There are no constants of other types.
  return ((row.second ?? row.type) === 'i64' ? (['ss', 'sk'] as const) : (['ss'] as const)).map((variant) => ({
    key: `${name}:${variant}`,
    write: ({ code, next, calls }) => {
      field(code, 2);
      if (row.before !== undefined) code.raw(row.before);
      slotValue(code, 4, row.type);
      code.raw(row.a);
      if (variant === 'ss') slotValue(code, 6, row.second ?? row.type);
      else constantValue(code);
      code.raw(row.b);
      if (row.call !== undefined) code.call(calls.get(row.call)!);
      code.raw(row.both).memory(STORE[row.d]);
      next();
    },
  }));
}

function writeSelect({ code, next }: Context): void {
  field(code, 2);
  slotValue(code, 4);
  slotValue(code, 6);
  slotValue(code, 8);
  code.i64(0n).op(I64.ne).select().memory([I64.store]);
  next();
}

function writeAligned({ code, next, miss }: Context): void {
  slotValue(code, 4);
  code.tee(ADDRESS);
  constantValue(code);
  code.op(I64.and).op(I64.eqz).op(I32.eqz).brIf(miss);
  next();
}

/** Slot operand b: the kind is the constant; constant b: the kind is in field b. */
function recordHandlers(name: OpName, row: Form<'record'>): Handler[] {
  return (['ss', 'sk'] as const).map((variant) => ({
    key: `${name}:${variant}`,
    write: ({ code, next }) => {
      // The condition of a guarded record is in a second record.
      if (row.guarded) {
        slotValue(code, RECORD_BYTES + 2);
        code.i64(0n).op(I64.ne).if();
      }
      writeRecord(code, variant);
      if (row.guarded) code.end();
      next(row.guarded ? 2 : 1);
    },
  }));
}

function writeGuard({ code, next, exit }: Context): void {
  slotValue(code, 4);
  code.op(I64.eqz).if();
  exit('slow');
  code.end();
  next();
}

function writeLeave({ code, next, enter }: Context): void {
  slotValue(code, 4);
  code.op(I64.eqz).if();
  code.get(POINTER).memory([I32.load], 8);
  enter();
  code.end();
  next();
}

function slotsHandler(name: OpName, row: Form<'slots'>): Handler {
  return {
    key: name,
    write: ({ code, next, calls }) => {
      field(code, 2);
      for (let i = 0; i < row.slots; i++) {
        field(code, 4);
        code.memory([I64.load], 8 * i);
      }
      code.call(calls.get(row.call)!).memory([I64.store]);
      next();
    },
  };
}

/** Outside only, as handlers of floating point. */
function unitHandler(name: OpName, row: Form<'unit'>): Handler {
  return {
    key: name,
    write: ({ code, next, calls, exit }) => {
      slotValue(code, 4);
      constantValue(code);
      code.call(calls.get(row.call)!).tee(ADDRESS).i64(0n).op(I64.lt).if();
      exit('slow');
      code.end();
      field(code, 2);
      code.get(ADDRESS).memory([I64.store]);
      next();
    },
  };
}

function writeCheck({ code, next, exit }: Context): void {
  slotValue(code, 4);
  constantValue(code);
  code.op(I64.and).i64(0n).op(I64.ne).if();
  exit('check');
  code.end();
  next();
}

/**
 * Operands are in fields a and b, a third one and the mode in the constant. Outside only: there are
 * locals for results.
 */
const floatHandler =
  (row: FloatRow) =>
  ({ code, next, calls, exit }: Context): void => {
    emitFloat(row, {
      code,
      push: (operand) => {
        slotValue(code, [4, 6, 8][operand]!, row.type);
      },
      pushMode: () => {
        slotValue(code, 10);
      },
      scratch: (type) => ({ i32: HOST, i64: ADDRESS, f32: RESULT_32, f64: RESULT_64, v128: RESULT_128 })[type],
      call: (name) => code.call(calls.get(name)!),
      // Tier 0's modules are made before the engine is known.
      fuses: false,
      demand: () => {
        code.op(I32.eqz).if();
        exit('slow');
        code.end();
      },
    });
    // The address comes first.
    const place = ({ f64: RESULT_64, i64: ADDRESS, v128: RESULT_128 } as const)[row.d];
    code.set(place);
    field(code, 2);
    code.get(place).memory(STORE[row.d]);
    next();
  };

/** Writes the three slots of a condition record. */
function writeRecord(code: Code, variant: 'ss' | 'sk'): void {
  field(code, 2);
  if (variant === 'ss') constantValue(code);
  else code.get(POINTER).memory([I64.load16u], 6);
  code.memory([I64.store], 0);
  field(code, 2);
  slotValue(code, 4);
  code.memory([I64.store], 8);
  field(code, 2);
  if (variant === 'ss') slotValue(code, 6);
  else constantValue(code);
  code.memory([I64.store], 16);
}

/**
 * The first of two links when the i32 on the stack is not 0, else the second. A branch, not a
 * `select`: where the processor predicts it, what the next block does need not wait for the
 * comparison.
 */
function choose(code: Code, links: number): void {
  code.if('i32');
  code.get(POINTER).memory([I32.load], links);
  code.else();
  code.get(POINTER).memory([I32.load], links + 4);
  code.end();
}

/**
 * Compares operands a and b and enters the block that the comparison chooses: headers at `links`
 * (taken) and `links` + 4. A constant operand is at `constant`.
 */
function chooseAndEnter(
  { code, enter }: Context,
  condition: Condition,
  width: 32 | 64,
  variant: 'ss' | 'sk',
  links: number,
  constant: number,
): void {
  slotValue(code, 4);
  if (width === 32) code.op(I32.wrap);
  if (variant === 'ss') slotValue(code, 6);
  else constantValue(code, constant);
  if (width === 32) code.op(I32.wrap);
  code.op(compareOpcode(condition, width));
  choose(code, links);
  enter();
}

/**
 * The conditions that branches of records have: of the others the opposite is asked, and the ways
 * are exchanged.
 */
const BRANCH_CONDITIONS = ['eq', 'lt', 'gt', 'ltu', 'gtu'] as const satisfies readonly Condition[];
export const isBranchCondition: ReadonlySet<string> = new Set(BRANCH_CONDITIONS);

function branchHandlers(): Handler[] {
  const out: Handler[] = [];
  for (const width of [64, 32] as const) {
    for (const condition of BRANCH_CONDITIONS) {
      for (const variant of ['ss', 'sk'] as const) {
        out.push({
          key: `br:${condition}:${width}:${variant}`,
          write: (context) => {
            chooseAndEnter(context, condition, width, variant, 8, 24);
          },
        });
        // A comparison and the branch on it: two records, of which the second holds the links.
        out.push({
          key: `rec+br:${condition}:${width}:${variant}`,
          write: (context) => {
            writeRecord(context.code, variant);
            chooseAndEnter(context, condition, width, variant, RECORD_BYTES + 8, 8);
          },
        });
      }
    }
  }
  return out;
}

/**
 * A record of a result and the branch that compares that with 0, whatever the record's other
 * operand is.
 */
const RESULT_CONDITIONS = ['eq', 'lt'] as const;
export const isResultCondition: ReadonlySet<string> = new Set(RESULT_CONDITIONS);

function resultHandlers(): Handler[] {
  return ([64, 32] as const).flatMap((width) =>
    RESULT_CONDITIONS.flatMap((condition) =>
      (['ss', 'sk'] as const).map((variant) => ({
        key: `rec0+br:${condition}:${width}:${variant}`,
        write: ({ code, enter }: Context) => {
          writeRecord(code, variant);
          slotValue(code, 4);
          if (width === 32) code.op(I32.wrap).i32(0);
          else code.i64(0n);
          code.op(compareOpcode(condition, width));
          choose(code, RECORD_BYTES + 8);
          enter();
        },
      })),
    ),
  );
}

/** Ops that count a loop (`bdnz`, `dec; jnz`, `addi; bnez`). */
const COUNTING = ['add', 'sub', 'sub32'] as const;
export const isCounting: ReadonlySet<string> = new Set(COUNTING);

/**
 * A counting op with a constant and the branch that compares its result with 0: two records, like
 * `rec+br`.
 */
function countingHandlers(): Handler[] {
  return COUNTING.flatMap((name) =>
    (['eq'] as const).map((condition) => ({
      key: `${name}+br:${condition}:64:sk`,
      write: ({ code, enter }: Context) => {
        const row = OPS[name];
        if (row.form !== 'binary') return;
        field(code, 2);
        slotValue(code, 4);
        code.raw(row.a);
        constantValue(code);
        code.raw(row.b).raw(row.both).tee(OFFSET).memory([I64.store]);
        code.get(OFFSET).i64(0n).op(I64[condition]);
        choose(code, RECORD_BYTES + 8);
        enter();
      },
    })),
  );
}

/**
 * An addition of a constant and the branch that compares the sum with a slot (`addi; bne`): two
 * records, like `rec+br`. The slot is in field b of the first.
 */
function steppingHandlers(): Handler[] {
  return BRANCH_CONDITIONS.map((condition) => ({
    key: `step+br:${condition}`,
    write: ({ code, enter }: Context) => {
      field(code, 2);
      slotValue(code, 4);
      constantValue(code);
      code.op(I64.add).tee(OFFSET).memory([I64.store]);
      code.get(OFFSET);
      slotValue(code, 6);
      code.op(I64[condition]);
      choose(code, RECORD_BYTES + 8);
      enter();
    },
  }));
}

/**
 * Ops before an `and` with a constant that takes a field out of what they give (`rlwinm`, `rldicl`,
 * `ubfx`).
 */
const FIELD_OPS = ['rotl', 'rotl32', 'shr', 'shr32'] as const;
export const isFieldOp: ReadonlySet<string> = new Set(FIELD_OPS);

/**
 * Such an op with a constant count, which is in field b, and the `and`, whose constant is the
 * record's.
 */
function fieldHandlers(): Handler[] {
  return FIELD_OPS.map((name) => ({
    key: `${name}+and`,
    write: ({ code, next }: Context) => {
      const row = OPS[name];
      if (row.form !== 'binary') return;
      field(code, 2);
      slotValue(code, 4);
      code.raw(row.a);
      code.get(POINTER).memory([I64.load16u], 6);
      code.raw(row.b).raw(row.both);
      constantValue(code);
      code.op(I64.and).memory([I64.store]);
      next();
    },
  }));
}

/** A constant into a slot and a jump: a call. Two records, of which the second holds the link. */
function callHandler(): Handler {
  return {
    key: 'mov+jmp',
    write: ({ code, enter }) => {
      field(code, 2);
      constantValue(code);
      code.memory([I64.store]);
      code.get(POINTER).memory([I32.load], RECORD_BYTES + 8);
      enter();
    },
  };
}

/**
 * Enters the block whose guest address the slot of the record at `at` holds, where the lookup table
 * knows it.
 */
function enterIndirect({ code, enter, exit }: Context, at: number): void {
  slotValue(code, at + 4);
  constantValue(code, at + 8);
  code.op(I64.and).set(ADDRESS);
  writeLookup(code, BLOCK_TABLE, ADDRESS, HOST);
  code.if();
  readLookup(code, BLOCK_TABLE, HOST).tee(HOST).if();
  code.get(HOST);
  enter();
  code.end();
  code.end();
  code.i32(0).get(ADDRESS).memory([I64.store], CONTROL.value);
  exit('lookup');
}

/**
 * Tests of a condition record that a branch follows, which no other op asks: two records, like
 * `rec+br`; field a names the record.
 */
export const BRANCH_TESTS = ['lt', 'gt', 'eq'] as const;

function testHandlers(): Handler[] {
  return BRANCH_TESTS.map((test) => ({
    key: `test${test}+br`,
    write: ({ code, enter }: Context) => {
      field(code, 4);
      code.tee(HOST).memory([I64.load]).set(ADDRESS);
      recordTest(code, test, (part) => {
        if (part === 0) code.get(ADDRESS);
        else code.get(HOST).memory([I64.load], 8 * part);
      });
      choose(code, RECORD_BYTES + 8);
      enter();
    },
  }));
}

function controlHandlers(): Handler[] {
  return [
    {
      key: 'jmp',
      write: ({ code, enter }) => {
        code.get(POINTER).memory([I32.load], 8);
        enter();
      },
    },
    {
      key: 'goto',
      write: ({ code, resume }) => {
        code.get(POINTER).memory([I32.load], 8);
        resume();
      },
    },
    {
      key: 'ind',
      write: (context) => {
        enterIndirect(context, 0);
      },
    },
    // A move and an indirect branch: PowerPC's branches set the link register or go through CTR,
    // which was just written.
    ...(['s', 'k'] as const).map((variant) => ({
      key: `mov+ind:${variant}`,
      write: (context: Context) => {
        const { code } = context;
        field(code, 2);
        if (variant === 's') slotValue(code, 4);
        else constantValue(code);
        code.memory([I64.store]);
        enterIndirect(context, RECORD_BYTES);
      },
    })),
    {
      // What the record before it could not hold.
      key: 'more',
      write: ({ next }) => {
        next();
      },
    },
    {
      key: 'exit',
      write: ({ code, exit }) => {
        code.get(POINTER).memory([I32.load16u], 2).set(REASON);
        exit('untranslated');
      },
    },
  ];
}

/**
 * What modules depend on: address width, code alignment, whether they have the ops on lanes of
 * vectors and those of floating point, and what is hot in them.
 */
export type ModuleShape = Pick<Lifter, 'addressBits' | 'lanes' | 'floats' | 'x87' | 'endian' | 'conditionRecords'>;

/**
 * What compiled programs spend their time in: ops with their variants. All other handlers are
 * outside the interpreter's function: V8 compiles that whole, twice, the second time while the
 * program runs beside it, and with all of them takes half as long again.
 */
const HOT = `
  add sk ss; add+br eq:64:sk; add32 sk ss; add32s sk ss; addsh1 ss; addsh2 ss; addsh3 ss; aligned; and sk ss; and32 sk ss;
  br eq:32:sk eq:32:ss eq:64:sk eq:64:ss gt:32:ss gt:64:ss lt:32:ss lt:64:sk lt:64:ss ltu:32:ss ltu:64:sk ltu:64:ss; flagb; flagbe; flage; flagle;
  ins16 ss; ins8 ss; ld16s k u; ld16sbe k u; ld16u i k u; ld16ube i k u; ld32s i k; ld32sbe i k; ld32u i k u; ld32ube i k u; ld64 i k u;
  ld64be i k u; ld8s k; ld8u i k u; mov k s; mov+jmp; mul sk ss; mul32 sk ss; mul32s ss; mulsx32 ss; mulzx32 ss; or sk ss; or32 ss; rec sk ss;
  remu ss;
  rec+br eq:32:sk eq:32:ss eq:64:sk eq:64:ss gt:32:sk gt:32:ss gt:64:ss gtu:32:sk gtu:32:ss gtu:64:sk gtu:64:ss lt:32:sk lt:32:ss lt:64:sk lt:64:ss ltu:32:sk ltu:32:ss ltu:64:ss;
  rotl sk; rotl+and; rotl32 sk; rotl32+and; rotr32 sk; sar sk; sar32 sk; sar32s sk ss; select; seteq sk ss; setge32 ss; setgeu ss; setgtu sk;
  setlt ss; setltu sk ss; setltu32 ss; setne sk; setne32 sk; shl sk ss; shl32 sk; shl32s sk; shr sk ss; shr+and; shr32 sk ss; shr32+and; shr32s sk;
  signand sk; signand32 sk; st16 i k u; st16be i k u; st32 i k u; st32be i k u; st64 i k kk u; st64be i k u; st8 i k kk u; step+br eq lt ltu;
  sub sk ss; sub+br eq:64:sk; sub32 sk ss; sub32+br eq:64:sk; sub32s ss; sx16 s; sx32 s; sx8 s; testeq+br; testgt+br; testlt+br; testnzcv;
  xor sk ss; xor32 sk ss; zx16 s; zx32 s; zx8 s
`;
export function hotKeys(): ReadonlySet<string> {
  return new Set(
    HOT.split(';').flatMap((line) => {
      const [op, ...variants] = line.trim().split(' ');
      return variants.length === 0 ? [op!] : variants.map((each) => `${op!}:${each}`);
    }),
  );
}

/** True for handlers of `HOT` that machines of this shape have no use for, or next to none. */
export function isForOthers(key: string, { endian, conditionRecords, lanes }: ModuleShape): boolean {
  const isReversed = endian === 'little' ? /^(?:ld|st)\d+[us]?be:/ : /^(?:ld|st)(?:16|32|64)[us]?:/;
  // Only x86 has records of six flags, and ops on lanes so far.
  if (isReversed.test(key) || (lanes !== true && key.startsWith('flag'))) return true;
  // Words are sign-extended where there are no condition records (RISC-V), zero-extended elsewhere.
  return conditionRecords === false
    ? /^(?:rec|test|ins)|^(?:add|sub|mul|mulsx|mulzx|and|or|xor|sh[lr]|sar|rot[lr]|signand|set[a-z]+)32\b|^br:\w+:32/.test(
        key,
      )
    : /^(?:add|sub|mul|sh[lr])32s\b/.test(key);
}

/**
 * Functions outside, by what their handlers return: the way to the next record (0: an access
 * missed, or a float op does not decide), or the next block's header.
 */
export const OUTSIDE = ['access', 'op', 'branch', 'float'] as const;
export type Place = 'inside' | (typeof OUTSIDE)[number];
export interface PlacedHandler extends Handler {
  /** Where it is unless it is hot. */
  readonly place: Place;
}

const placed = (handlers: readonly Handler[], place: Place): readonly PlacedHandler[] =>
  handlers.map((each) => ({ ...each, place }));

function placedOps(name: OpName): readonly PlacedHandler[] {
  const { form } = OPS[name];
  const leaves = form === 'check' || form === 'leave';
  const isAccess = form === 'load' || form === 'store';
  const place = leaves ? 'inside' : isAccess ? 'access' : form === 'float' || form === 'unit' ? 'float' : 'op';
  return placed(opHandlers(name), place);
}

function makeHandlers(): readonly PlacedHandler[] {
  return [
    ...OP_NAMES.flatMap(placedOps),
    ...placed(branchHandlers(), 'branch'),
    ...placed(countingHandlers(), 'branch'),
    ...placed(resultHandlers(), 'branch'),
    ...placed(steppingHandlers(), 'branch'),
    ...placed(testHandlers(), 'branch'),
    ...placed([callHandler()], 'branch'),
    ...placed(fieldHandlers(), 'op'),
    ...placed(controlHandlers(), 'inside'),
  ];
}

let made: readonly PlacedHandler[] | undefined;
/**
 * Made where modules are generated; to translate, their keys are enough, which the package brings
 * along with the modules.
 */
export const handlers = (): readonly PlacedHandler[] => (made ??= makeHandlers());

/** The key of each handler by its number. */
export const HANDLER_KEYS: readonly string[] = PREBUILT_HANDLERS ?? handlers().map(({ key }) => key);
export const HANDLER_NUMBERS = new Map(HANDLER_KEYS.map((key, index) => [key, index]));

/** What a handler's key ends with behind `NAME:`; empty where the name is all of it. */
export type Variant = '' | 's' | 'k' | 'i' | 'kk' | 'u' | 'ss' | 'sk';
/** Numbers that were asked for, by name and variant: translating puts no keys together. */
const NUMBERS = new Map<string, Partial<Record<Variant, number>>>();

export function handlerNumber(name: string, variant: Variant = ''): number {
  let numbers = NUMBERS.get(name);
  if (!numbers) NUMBERS.set(name, (numbers = {}));
  const known = numbers[variant];
  if (known !== undefined) return known;
  const key = variant === '' ? name : `${name}:${variant}`;
  const number = HANDLER_NUMBERS.get(key);
  if (number === undefined) throw new ElftraceError('internal', `tier 0 has no handler ${key}`, { what: key });
  numbers[variant] = number;
  return number;
}

/** Those that are written while a program runs. */
export const EXIT_HANDLER = handlerNumber('exit');
export const JMP_HANDLER = handlerNumber('jmp');
export const GOTO_HANDLER = handlerNumber('goto');
