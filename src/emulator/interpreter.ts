/**
 * Tier 0: a WebAssembly module, generated from the op table when a machine is made, that executes
 * decoded records.
 *
 * A record is 16 bytes:
 *
 *   0 u16 handler | 2 u16 d | 4 u16 a | 6 u16 b | 8 i64 constant
 *
 * d, a, b are host addresses of slots (the state block lies below 64 KiB). Accesses keep in `b` the
 * descriptor of the window that the last execution hit, so the fast path is one subtraction and one
 * comparison; a miss looks through the windows and, if one serves, remembers it. Branches keep two
 * block headers in the constant.
 *
 * A block is a header of 16 bytes, whose last word is the number of guest instructions, and its
 * records. Entering a block takes that number from the fuel; the code leaves instead when the fuel
 * would become negative. Code that leaves in mid-block (a fault) has paid too much; TypeScript
 * gives back what was not executed. So counts are exact and cost one subtraction per block.
 *
 * A branch that is not linked yet leads to a stub: a header with count 0 and, in its first word,
 * the host address of the link to patch, then an `exit` record with the guest address.
 *
 * Every handler ends by going back to one dispatching `br_table`. JavaScript is never called from
 * here: whatever the records cannot do ends the call with an exit reason, and TypeScript decides.
 */
import type { HostMemory } from './host.js';
import {
  CODE_MAP,
  CONTROL,
  compileModule,
  instantiate,
  LOOKUP,
  PAGE_MARK,
  STATE,
  WINDOW,
  WINDOW_FLAG,
} from './host.js';
import { emitFloat } from './float-code.js';
import { buildFunctions, compareOpcode, recordTest } from './functions.js';
import {
  F64,
  I32,
  I64,
  inverse,
  isFloatOp,
  isLaneOp,
  mirrored,
  OPS,
  OP_NAMES,
  recordCode,
  V128,
} from '../machine/ir.js';
import type { FloatRow } from '../machine/float-ops.js';
import type {
  AccessRow,
  Condition,
  Lifter,
  Op,
  OpName,
  Operand,
  SlotLayout,
  SlotType,
  Terminator,
} from '../machine/ir.js';
import { Code, writeModule } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';
import { PREBUILT, PREBUILT_HANDLERS } from './prebuilt.js';
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
const reasonNumber = (reason: ExitReason): number => EXIT_REASONS.indexOf(reason);

export const RECORD_BYTES = 16;
export const HEADER_BYTES = 16;
/** Operand `a` is constant and the operation does not mind the order. */
const COMMUTATIVE = new Set<OpName>([
  'add', 'mul', 'mulsx32', 'mulzx32', 'mulhu', 'mulhs', 'and', 'or', 'xor', 'add32', 'mul32', 'and32', 'or32', 'xor32',
  'seteq', 'setne', 'seteq32', 'setne32',
]); // prettier-ignore

// Locals of `run`.
const HEADER = 0;
const FUEL = 1;
const POINTER = 2;
const REASON = 3;
const DESCRIPTOR = 4;
const HOST = 5;
const ADDRESS = 6;
const OFFSET = 7;
/** Of the function of float ops only. */
const RESULT_64 = 8;
const RESULT_32 = 9;

const LOAD: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.load], f64: [F64.load], v128: V128.load };
const STORE: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.store], f64: [F64.store], v128: V128.store };

interface Context {
  readonly code: Code;
  readonly calls: ReadonlyMap<string, number>;
  readonly resolve: number;
  readonly is32: boolean;
  readonly codeShift: number;
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

interface Handler {
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
const UPDATING: ReadonlySet<OpName> = new Set<OpName>([
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
      return (name === 'mov' ? (['s', 'k'] as const) : (['s'] as const)).map((variant) => ({
        key: `${name}:${variant}`,
        write: ({ code, next, calls }) => {
          field(code, 2);
          if (variant === 's') slotValue(code, 4, row.type);
          else constantValue(code);
          code.raw(row.a);
          if (row.call !== undefined) code.call(calls.get(row.call)!);
          code.raw(row.both).memory(STORE[row.d]);
          next();
        },
      }));
    case 'binary':
      // There are no constants of other types.
      return ((row.second ?? row.type) === 'i64' ? (['ss', 'sk'] as const) : (['ss'] as const)).map((variant) => ({
        key: `${name}:${variant}`,
        write: ({ code, next, calls }) => {
          field(code, 2);
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
    case 'select':
      return [
        {
          key: name,
          write: ({ code, next }) => {
            field(code, 2);
            slotValue(code, 4);
            slotValue(code, 6);
            slotValue(code, 8);
            code.i64(0n).op(I64.ne).select().memory([I64.store]);
            next();
          },
        },
      ];
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
      return [
        {
          key: name,
          write: ({ code, next, miss }) => {
            slotValue(code, 4);
            code.tee(ADDRESS);
            constantValue(code);
            code.op(I64.and).op(I64.eqz).op(I32.eqz).brIf(miss);
            next();
          },
        },
      ];
    case 'record':
      // slot operand b: the kind is the constant; constant b: the kind is in field b
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
    case 'leave':
      return [
        {
          key: name,
          write: ({ code, next, enter, exit }) => {
            slotValue(code, 4);
            code.op(I64.eqz).if();
            if (name === 'guard') exit('slow');
            else {
              code.get(POINTER).memory([I32.load], 8);
              enter();
            }
            code.end();
            next();
          },
        },
      ];
    case 'float':
      return [{ key: name, write: floatHandler(row) }];
    case 'slots':
      return [
        {
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
        },
      ];
    case 'check':
      return [
        {
          key: name,
          write: ({ code, next, exit }) => {
            slotValue(code, 4);
            constantValue(code);
            code.op(I64.and).i64(0n).op(I64.ne).if();
            exit('check');
            code.end();
            next();
          },
        },
      ];
    default:
      return row satisfies never;
  }
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
      scratch: (type) => ({ i32: HOST, i64: ADDRESS, f32: RESULT_32, f64: RESULT_64, v128: -1 })[type],
      call: (name) => code.call(calls.get(name)!),
      demand: () => {
        code.op(I32.eqz).if();
        exit('slow');
        code.end();
      },
    });
    // The address comes first.
    const place = row.d === 'f64' ? RESULT_64 : ADDRESS;
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
const isBranchCondition: ReadonlySet<string> = new Set(BRANCH_CONDITIONS);

/** The same branch with one of those conditions. */
function plainBranch(terminator: Terminator): Terminator {
  if (terminator.kind !== 'br' || isBranchCondition.has(terminator.condition)) return terminator;
  const { condition, pc, next } = terminator;
  return { ...terminator, condition: inverse(condition), pc: next, next: pc };
}

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
const isResultCondition: ReadonlySet<string> = new Set(RESULT_CONDITIONS);

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
const isCounting: ReadonlySet<string> = new Set(COUNTING);

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
const isFieldOp: ReadonlySet<string> = new Set(FIELD_OPS);

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
function enterIndirect({ code, enter, exit, codeShift }: Context, at: number): void {
  slotValue(code, at + 4);
  constantValue(code, at + 8);
  code.op(I64.and).tee(ADDRESS);
  // The entry of the hash; see lookupEntry.
  code.op(I32.wrap).tee(HOST).i32(codeShift).op(I32.shr);
  code
    .get(HOST)
    .i32(codeShift + 11)
    .op(I32.shr)
    .op(I32.xor);
  code
    .i32(LOOKUP.entries - 1)
    .op(I32.and)
    .i32(4)
    .op(I32.shl)
    .set(HOST);
  code.get(HOST).memory([I64.load], LOOKUP.start).get(ADDRESS).op(I64.eq).if();
  code
    .get(HOST)
    .memory([I32.load], LOOKUP.start + 8)
    .tee(HOST);
  code.if();
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
const BRANCH_TESTS = ['lt', 'gt', 'eq'] as const;

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
type ModuleShape = Pick<Lifter, 'addressBits' | 'codeAlignBytes' | 'lanes' | 'floats' | 'endian' | 'conditionRecords'>;

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
function hotKeys(): ReadonlySet<string> {
  return new Set(
    HOT.split(';').flatMap((line) => {
      const [op, ...variants] = line.trim().split(' ');
      return variants.length === 0 ? [op!] : variants.map((each) => `${op!}:${each}`);
    }),
  );
}

/** True for handlers of `HOT` that machines of this shape have no use for, or next to none. */
function isForOthers(key: string, { endian, conditionRecords, lanes }: ModuleShape): boolean {
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
const OUTSIDE = ['access', 'op', 'branch', 'float'] as const;
type Place = 'inside' | (typeof OUTSIDE)[number];
interface PlacedHandler extends Handler {
  /** Where it is unless it is hot. */
  readonly place: Place;
}

const placed = (handlers: readonly Handler[], place: Place): readonly PlacedHandler[] =>
  handlers.map((each) => ({ ...each, place }));

function placedOps(name: OpName): readonly PlacedHandler[] {
  const { form } = OPS[name];
  const leaves = form === 'check' || form === 'leave';
  const isAccess = form === 'load' || form === 'store';
  return placed(opHandlers(name), leaves ? 'inside' : isAccess ? 'access' : form === 'float' ? 'float' : 'op');
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
const handlers = (): readonly PlacedHandler[] => (made ??= makeHandlers());

/** The key of each handler by its number. */
export const HANDLER_KEYS: readonly string[] = PREBUILT_HANDLERS ?? handlers().map(({ key }) => key);
const HANDLER_NUMBERS = new Map(HANDLER_KEYS.map((key, index) => [key, index]));

/** What a handler's key ends with behind `NAME:`; empty where the name is all of it. */
type Variant = '' | 's' | 'k' | 'i' | 'kk' | 'u' | 'ss' | 'sk';
/** Numbers that were asked for, by name and variant: translating puts no keys together. */
const NUMBERS = new Map<string, Partial<Record<Variant, number>>>();

function handlerNumber(name: string, variant: Variant = ''): number {
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
const EXIT_HANDLER = handlerNumber('exit');
const JMP_HANDLER = handlerNumber('jmp');
const GOTO_HANDLER = handlerNumber('goto');

/** Host address of the lookup entry of a guest address. The code above computes the same. */
function lookupEntry(address: bigint, codeShift: number): number {
  const low = Number(address & 0xffff_ffffn);
  const hash = ((low >>> codeShift) ^ (low >>> (codeShift + 11))) & (LOOKUP.entries - 1);
  return LOOKUP.start + hash * LOOKUP.entryBytes;
}

/**
 * Finds the window of an access that the predicted one does not serve. Parameters: address, bytes,
 * offset of the limit in a descriptor, record. Returns the host address or 0. Windows that may be
 * written and executed, or that hold a watched range, serve accesses only here, and only where the
 * page map is clear.
 */
export function resolveFunction(): WasmFunction {
  const code = new Code();
  const [address, bytes, limit, record, window, offset, flag, marks] = [0, 1, 2, 3, 4, 5, 6, 7];
  code.i32(WINDOW.start).set(window);
  code.i32(WINDOW_FLAG.checkRead).i32(WINDOW_FLAG.checkWrite);
  code.get(limit).i32(WINDOW.writeLimits).op(I32.ltu).select().set(flag);
  code.i32(PAGE_MARK.read).i32(PAGE_MARK.code | PAGE_MARK.write);
  code.get(limit).i32(WINDOW.writeLimits).op(I32.ltu).select().set(marks);
  const done = code.block();
  const loop = code.loop();
  code.get(window).i32(0).memory([I32.load], CONTROL.windowsEnd).op(I32.geu).brIf(done);
  code.get(address).get(window).memory([I64.load], WINDOW.base).op(I64.sub).tee(offset);
  code.get(window).get(limit).op(I32.add).memory([I64.load]).op(I64.ltu).if();
  code.get(record).get(window).memory([I32.store16], 6);
  code.get(window).memory([I32.load], WINDOW.host).get(offset).op(I32.wrap).op(I32.add).return();
  code.end();
  // An access that the page map decides.
  const mixed = code.block();
  code.get(window).memory([I32.load], WINDOW.flags).get(flag).op(I32.and).op(I32.eqz).brIf(mixed);
  code.get(offset).get(window).memory([I64.load], WINDOW.size).op(I64.geu).brIf(mixed);
  code.get(window).memory([I64.load], WINDOW.size).get(offset).op(I64.sub).get(bytes).op(I64.extendU);
  code.op(I64.ltu).brIf(mixed);
  for (const last of [false, true]) {
    code.get(address);
    if (last) code.get(bytes).op(I64.extendU).op(I64.add).i64(1n).op(I64.sub);
    code.i64(12n).op(I64.shr).op(I32.wrap).i32(0xffff).op(I32.and).memory([I32.load8u], CODE_MAP);
    code.get(marks).op(I32.and).brIf(mixed);
  }
  code.get(window).memory([I32.load], WINDOW.host).get(offset).op(I32.wrap).op(I32.add).return();
  code.end();
  code.get(window).i32(WINDOW.bytes).op(I32.add).set(window).br(loop);
  code.end();
  code.end();
  code.i32(0);
  return { parameters: ['i64', 'i32', 'i32', 'i32'], results: ['i32'], locals: ['i32', 'i64', 'i32', 'i32'], code };
}

/**
 * Remembers in a record the window that holds an address: accesses that are executed first, or now
 * somewhere else, try again with it. Parameters: address, record. Returns 0 when that window was
 * tried, when the page map decides, and where there is none.
 */
function predictFunction(): WasmFunction {
  const code = new Code();
  const [address, record, window] = [0, 1, 2];
  code.i32(WINDOW.start).set(window);
  const done = code.block();
  const loop = code.loop();
  code.get(window).i32(0).memory([I32.load], CONTROL.windowsEnd).op(I32.geu).brIf(done);
  code.get(address).get(window).memory([I64.load], WINDOW.base).op(I64.sub);
  code.get(window).memory([I64.load], WINDOW.size).op(I64.ltu).if();
  code.get(window).memory([I32.load], WINDOW.flags);
  code
    .i32(WINDOW_FLAG.checkRead | WINDOW_FLAG.checkWrite)
    .op(I32.and)
    .brIf(done);
  code.get(window).get(record).memory([I32.load16u], 6).op(I32.eq).brIf(done);
  code.get(record).get(window).memory([I32.store16], 6).i32(1).return();
  code.end();
  code.get(window).i32(WINDOW.bytes).op(I32.add).set(window).br(loop);
  code.end();
  code.end();
  code.i32(0);
  return { parameters: ['i64', 'i32'], results: ['i32'], locals: ['i32'], code };
}

/**
 * The function of handlers that are outside; it gets the first locals of `run`. The address of a
 * missed access is in `CONTROL.value`.
 */
function outside(
  handlers: readonly Handler[],
  context: Pick<Context, 'calls' | 'resolve' | 'is32' | 'codeShift'>,
  floats: boolean,
): WasmFunction {
  const code = new Code(128);
  const miss = code.block();
  // The first handler stands behind the innermost block.
  const labels = new Map([...handlers].reverse().map((each) => [HANDLER_NUMBERS.get(each.key)!, code.block()]));
  const table = Array.from({ length: Math.max(...labels.keys()) + 1 }, (_, number) => labels.get(number) ?? miss);
  code.get(POINTER).memory([I32.load16u], 0).brTable(table, miss);
  for (const handler of handlers) {
    code.end();
    const never = (): never => {
      throw new ElftraceError('internal', `tier 0 cannot leave from ${handler.key}`);
    };
    handler.write({
      ...context,
      code,
      miss,
      unexpected: null,
      next: (records = 1) => {
        code.i32(RECORD_BYTES * records).return();
      },
      enter: () => {
        code.return();
      },
      resume: never,
      exit: floats
        ? () => {
            code.i32(0).return();
          }
        : never,
    });
  }
  code.unreachable().end();
  code.i32(0).get(ADDRESS).memory([I64.store], CONTROL.value).i32(0);
  const locals: ValueType[] = ['i32', 'i32', 'i32', 'i64', 'i64'];
  if (floats) locals.push('f64', 'f32');
  return { parameters: ['i32', 'i32', 'i32'], results: ['i32'], locals, code };
}

/** The same for lifters whose machines can have the same module. */
export function moduleKey({
  addressBits,
  codeAlignBytes,
  lanes,
  floats,
  endian,
  conditionRecords,
}: ModuleShape): string {
  return [addressBits, codeAlignBytes, endian, lanes === true, floats === true, conditionRecords !== false].join('/');
}

/** The module for machines of such a shape. */
export function generateInterpreter(shape: ModuleShape): Uint8Array<ArrayBuffer> {
  const { addressBits, codeAlignBytes, lanes } = shape;
  const floats = shape.floats === true;
  const { names, functions } = buildFunctions(floats);
  const calls = new Map<string, number>(names.map((name, index) => [name, index]));
  const resolve = functions.length;
  const code = new Code(0x8000);
  const leave = code.block();
  const poor = code.block();
  const missed = code.block();
  const miss = code.block();
  const codeShift = ({ 1: 0, 2: 1, 4: 2 } as const)[codeAlignBytes];
  const common = { calls, resolve, is32: addressBits === 32, codeShift };
  const hot = hotKeys();
  const all = handlers();
  const placeOf = ({ key, place }: PlacedHandler): Place =>
    hot.has(key) && !isForOthers(key, shape) ? 'inside' : place;
  const used = all.filter(({ key }) => (lanes === true || !isLaneOp(key)) && (floats || !isFloatOp(key)));
  const rooms = OUTSIDE.filter((place) => floats || place !== 'float');
  // Accesses that their window does not serve are tried again with another, then in the function of
  // accesses.
  const others = rooms.map((place) =>
    outside(
      used.filter((each) => placeOf(each) === place || (place === 'access' && each.place === place)),
      common,
      place === 'float',
    ),
  );
  /** Pays for the block in `HEADER` and stands at its first record. */
  const pay = (): void => {
    code.get(FUEL).get(HEADER).memory([I32.load], 12).op(I32.sub).tee(FUEL).i32(0).op(I32.lt).brIf(poor);
    code.get(HEADER).i32(HEADER_BYTES).op(I32.add).set(POINTER);
  };
  pay();
  // The only loop: V8 keeps constants of the handlers, byte orders, in registers or on the stack
  // from in front of it.
  const dispatch = code.loop();
  const entering = code.block();
  const far = code.block();
  const float = floats ? code.block() : far;
  const branch = code.block();
  const op = code.block();
  const access = code.block();
  const unexpected = code.block();
  const inside = all.filter((each) => placeOf(each) === 'inside');
  const blocks = new Map([...inside].reverse().map((each) => [each, code.block()]));
  const places = { inside: op, access, op, branch, float };
  const labels = all.map((each) => blocks.get(each) ?? places[placeOf(each)]);
  code.get(POINTER).memory([I32.load16u], 0).brTable(labels, op);
  for (const handler of inside) {
    code.end();
    handler.write({
      ...common,
      code,
      miss,
      unexpected,
      enter: () => {
        code.set(HEADER).br(entering);
      },
      next: (records = 1) => {
        code
          .get(POINTER)
          .i32(RECORD_BYTES * records)
          .op(I32.add)
          .set(POINTER)
          .br(dispatch);
      },
      resume: () => {
        code.set(POINTER).br(dispatch);
      },
      exit: (reason) => {
        // `exit` records have set the reason themselves.
        if (reason !== 'untranslated') code.i32(reasonNumber(reason)).set(REASON);
        code.br(leave);
      },
    });
  }
  code.unreachable();
  code.end();
  code
    .get(ADDRESS)
    .get(POINTER)
    .call(resolve + 1)
    .brIf(dispatch);
  for (const place of rooms) {
    code.end();
    code.get(HEADER).get(FUEL).get(POINTER).call(resolve + 2 + OUTSIDE.indexOf(place)); // prettier-ignore
    if (place === 'branch') code.set(HEADER).br(entering);
    else if (place === 'float') {
      code.tee(HOST).brIf(far);
      code.i32(reasonNumber('slow')).set(REASON).br(leave);
    } else code.set(HOST).br(far);
  }
  code.end();
  code.get(HOST).op(I32.eqz).brIf(missed);
  code.get(POINTER).get(HOST).op(I32.add).set(POINTER).br(dispatch);
  code.end();
  pay();
  code.br(dispatch);
  code.end();
  code.unreachable();
  code.end();
  code.i32(0).get(ADDRESS).memory([I64.store], CONTROL.value);
  code.end();
  code.i32(reasonNumber('miss')).set(REASON).br(leave);
  code.end();
  code.get(FUEL).get(HEADER).memory([I32.load], 12).op(I32.add).set(FUEL);
  code.get(HEADER).set(POINTER).i32(reasonNumber('fuel')).set(REASON);
  code.end();
  code.i32(0).get(POINTER).memory([I32.store], CONTROL.pointer);
  code.i32(0).get(FUEL).memory([I32.store], CONTROL.fuel);
  code.get(REASON);
  return writeModule([
    ...functions,
    resolveFunction(),
    predictFunction(),
    ...others,
    {
      parameters: ['i32', 'i32'],
      results: ['i32'],
      locals: ['i32', 'i32', 'i32', 'i32', 'i64', 'i64'],
      code,
      export: 'run',
    },
  ]);
}

const modules = new Map<string, object>();

/** An instance of the interpreter on one memory. */
export class Interpreter {
  /** Executes from a block header with so much fuel; the number of an exit reason. */
  readonly run: (header: number, fuel: number) => number;
  private readonly codeShift: number;

  constructor(
    private readonly host: HostMemory,
    lifter: Lifter,
  ) {
    const key = moduleKey(lifter);
    let module = modules.get(key);
    if (module === undefined) {
      module = compileModule(PREBUILT.get(key)?.() ?? generateInterpreter(lifter));
      modules.set(key, module);
    }
    const { run } = instantiate(module, host);
    if (typeof run !== 'function') throw new ElftraceError('internal', 'the interpreter exports no run');
    this.run = (header, fuel) => Number(run(header, fuel));
    this.codeShift = { 1: 0, 2: 1, 4: 2 }[lifter.codeAlignBytes];
  }

  /** Makes an indirect branch to `address` find the block. */
  enterLookup(address: bigint, header: number): void {
    const entry = lookupEntry(address, this.codeShift);
    this.host.u64[entry >> 3] = address;
    this.host.u32[(entry + 8) >> 2] = header;
  }

  removeLookup(address: bigint): void {
    const entry = lookupEntry(address, this.codeShift);
    if (this.host.u64[entry >> 3] === address) this.host.u32[(entry + 8) >> 2] = 0;
  }

  clearLookup(): void {
    this.host.u8.fill(0, LOOKUP.start, LOOKUP.start + LOOKUP.entries * LOOKUP.entryBytes);
  }
}

/** What tier 0 knows of an encoded block beside its records. */
export interface EncodedBlock {
  /** Host address of the header. */
  readonly header: number;
  /** Host address after the last byte. */
  readonly end: number;
  /** Instruction index of each record. */
  readonly at: readonly number[];
  /** The op of each record; undefined for terminators and stubs. */
  readonly ops: readonly (Op | undefined)[];
}

/** True when one handler does the op and the branch that compares what it has just written. */
function fusible(op: Op, branch: Extract<Terminator, { kind: 'br' }>): boolean {
  if (isCounting.has(op.op)) {
    const { condition, width, a, b } = branch;
    const compares = a === op.d && b === 0n && width === 64 && condition === 'eq';
    return compares && typeof op.a === 'number' && typeof op.b === 'bigint';
  }
  if (op.op !== 'rec' || branch.a !== op.d + 1) return false;
  return (typeof op.b === 'bigint' ? branch.b === op.b : branch.b === op.d + 2) || comparesResult(op, branch);
}

/** True for a branch that compares A of the record with 0 where B is something else. */
function comparesResult(op: Op, { condition, b }: Extract<Terminator, { kind: 'br' }>): boolean {
  return op.op === 'rec' && b === 0n && op.b !== 0n && isResultCondition.has(condition);
}

/**
 * The condition on the sum and the slot it is compared with, when one handler does the addition and
 * the branch; else null.
 */
function stepping(op: Op, branch: Extract<Terminator, { kind: 'br' }>): { condition: Condition; other: number } | null {
  const { condition, width, a, b } = branch;
  if (op.op !== 'add' || typeof op.a !== 'number' || typeof op.b !== 'bigint') return null;
  if (width !== 64 || typeof b !== 'number' || a === b) return null;
  if (a === op.d) return { condition, other: b };
  return b === op.d ? { condition: mirrored(condition), other: a } : null;
}

/**
 * The test whose answer, a temporary, the branch alone goes by, when one handler does both; else
 * null.
 */
function testing(
  op: Op,
  { condition, width, a, b }: Extract<Terminator, { kind: 'br' }>,
  slots: SlotLayout,
): string | null {
  const asks = a === op.d && b === 0n && width === 64 && condition === 'eq';
  return asks && op.d >= slots.firstTemporary && BRANCH_TESTS.some((test) => `test${test}` === op.op)
    ? `${op.op}+br`
    : null;
}

/**
 * True when the op at `index` and the `and` behind it are one record: what is between them is a
 * temporary that no other op reads.
 */
function takesField(ops: readonly Op[], index: number, terminator: Terminator, slots: SlotLayout): boolean {
  const op = ops[index]!;
  const and = ops[index + 1];
  if (and?.op !== 'and' || and.a !== op.d || typeof and.b !== 'bigint') return false;
  if (!isFieldOp.has(op.op) || typeof op.a !== 'number' || typeof op.b !== 'bigint') return false;
  if (op.b >= 64n || op.d < slots.firstTemporary) return false;
  for (let i = index + 2; i < ops.length; i++) {
    const each = ops[i]!;
    if (each.a === op.d || each.b === op.d || each.c === op.d) return false;
    if (each.d === op.d) return true;
  }
  if (terminator.kind === 'br') return terminator.a !== op.d && terminator.b !== op.d;
  return !('s' in terminator) || terminator.s !== op.d;
}

/** The most bytes that a block of so many ops takes: constants may need a record of their own. */
export function encodedBound(ops: number): number {
  return HEADER_BYTES + (ops * 4 + 16) * RECORD_BYTES;
}

/** Writes the records of a block to the memory at `start`. */
export class Encoder {
  private pointer: number;
  private readonly at: number[] = [];
  private readonly ops: (Op | undefined)[] = [];
  private index = 0;
  private op: Op | undefined;
  /** Stubs that side exits need behind the block. */
  private readonly pending: { readonly address: bigint; readonly link: number }[] = [];
  /** The op that computes addresses. */
  private readonly addition: 'add' | 'add32';
  /** Slots behind the layout's, for constants in places that have no constant form. */
  private readonly scratch: number;

  constructor(
    private readonly host: HostMemory,
    private readonly slots: SlotLayout,
    addressBits: 32 | 64,
    private readonly header: number,
  ) {
    this.addition = addressBits === 32 ? 'add32' : 'add';
    this.pointer = header + HEADER_BYTES;
    this.scratch = STATE + Math.ceil(slots.sizeBytes / 8) * 8;
  }

  private record(name: string, variant: Variant, d: number, a: number, b: number, constant: bigint): number {
    const { host, pointer } = this;
    const half = pointer >> 1;
    host.u16[half] = handlerNumber(name, variant);
    host.u16[half + 1] = d;
    host.u16[half + 2] = a;
    host.u16[half + 3] = b;
    host.i64[(pointer + 8) >> 3] = BigInt.asIntN(64, constant);
    this.pointer += RECORD_BYTES;
    this.at.push(this.index);
    this.ops.push(this.op);
    return pointer;
  }

  private address(slot: number): number {
    return STATE + this.slots.offset(slot);
  }

  /** Host address of an operand's value; a constant is moved to a scratch slot. */
  private place(operand: Operand, which: number): number {
    if (typeof operand === 'number') return this.address(operand);
    const place = this.scratch + 8 * which;
    this.record('mov', 'k', place, 0, 0, operand);
    return place;
  }

  /** True when `next` writes the address of the access `op` to its base. */
  private updates(op: Op, next: Op | undefined): boolean {
    if (next?.op !== this.addition || next.d !== op.a || next.a !== op.a || next.b !== op.b) return false;
    if (!UPDATING.has(op.op) || typeof op.b !== 'bigint') return false;
    return OPS[op.op].form === 'load' ? op.d !== op.a : typeof op.c === 'number';
  }

  /**
   * Writes the records of an op; `suffix` names the branch that it is fused with, and `next` is the
   * op behind it.
   */
  private encode(op: Op, next: Op | undefined, suffix = ''): void {
    this.op = op;
    this.index = op.at;
    const row = OPS[op.op];
    switch (row.form) {
      case 'unary':
        if (op.op === 'mov' && typeof op.a === 'bigint') this.record('mov', 'k', this.address(op.d), 0, 0, op.a);
        else this.record(op.op, 's', this.address(op.d), this.place(op.a, 0), 0, 0n);
        break;
      case 'binary': {
        const swap = typeof op.a === 'bigint' && COMMUTATIVE.has(op.op);
        const a = swap ? op.b : op.a;
        const b = swap ? op.a : op.b;
        const first = this.place(a, 0);
        if (typeof b === 'bigint') this.record(`${op.op}${suffix}`, 'sk', this.address(op.d), first, 0, b);
        else this.record(op.op, 'ss', this.address(op.d), first, this.address(b), 0n);
        break;
      }
      case 'select': {
        const [a, b, c] = [this.place(op.a, 0), this.place(op.b, 1), this.place(op.c, 2)];
        this.record('select', '', this.address(op.d), a, b, BigInt(c));
        break;
      }
      case 'load':
      case 'store': {
        if (row.form === 'store' && typeof op.c === 'bigint' && typeof op.b === 'bigint') {
          const to = this.place(op.a, 0);
          this.record(op.op, 'kk', 0, to, WINDOW.start, op.b);
          this.record('more', '', 0, 0, 0, op.c);
          break;
        }
        const value = row.form === 'load' ? this.address(op.d) : this.place(op.c, 2);
        const base = this.place(op.a, 0);
        if (typeof op.b === 'bigint')
          this.record(op.op, this.updates(op, next) ? 'u' : 'k', value, base, WINDOW.start, op.b);
        else this.record(op.op, 'i', value, base, WINDOW.start, BigInt(this.address(op.b)));
        break;
      }
      case 'aligned':
        this.record(op.op, '', 0, this.place(op.a, 0), 0, BigInt(op.b));
        break;
      case 'record': {
        const kind = recordCode(op.kind);
        const a = this.place(op.a, 0);
        const condition = row.guarded ? this.place(op.c, 2) : 0;
        const name = row.guarded ? 'recif' : 'rec';
        if (typeof op.b === 'bigint') this.record(`${name}${suffix}`, 'sk', this.address(op.d), a, kind, op.b);
        else this.record(`${name}${suffix}`, 'ss', this.address(op.d), a, this.address(op.b), BigInt(kind));
        if (row.guarded) this.record('more', '', condition, 0, 0, 0n);
        break;
      }
      case 'leave': {
        const record = this.record(op.op, '', 0, this.place(op.a, 0), 0, 0n);
        if (op.op === 'leavez') this.pending.push({ address: BigInt(op.c), link: record + 8 });
        break;
      }
      case 'slots':
        this.record(op.op, '', this.address(op.d), this.place(op.a, 0), 0, 0n);
        break;
      case 'float': {
        const [a, b, c] = [op.a, op.b, op.c].map((each, i) => (i < row.operands ? this.place(each, i) : 0));
        this.record(op.op, '', this.address(op.d), a!, b!, BigInt(c!) | (BigInt(this.address(op.mode)) << 16n));
        break;
      }
      case 'check':
        this.record(op.op, '', 0, this.place(op.a, 0), 0, typeof op.b === 'bigint' ? op.b : 0n);
        break;
      default:
        row satisfies never;
    }
  }

  private encodeField(op: Op, and: Op): void {
    if (typeof op.a !== 'number' || typeof and.b !== 'bigint') throw new ElftraceError('internal', 'not a field');
    this.op = op;
    this.index = op.at;
    this.record(`${op.op}+and`, '', this.address(and.d), this.address(op.a), Number(op.b), and.b);
  }

  /** The first record of `step+br`. */
  private encodeStep(op: Op, { condition, other }: { condition: Condition; other: number }): void {
    if (typeof op.a !== 'number' || typeof op.b !== 'bigint') throw new ElftraceError('internal', 'not a step');
    this.op = op;
    this.index = op.at;
    this.record(`step+br:${condition}`, '', this.address(op.d), this.address(op.a), this.address(other), op.b);
  }

  /** An `exit` record; the constant goes to the handler of the exit. */
  exit(reason: ExitReason, constant: bigint): void {
    this.op = undefined;
    this.record('exit', '', reasonNumber(reason), 0, 0, constant);
  }

  /**
   * A stub for a guest address; `link` is the host address of the word that gets the header once it
   * exists.
   */
  private stub(address: bigint, link: number): void {
    const header = this.pointer;
    this.host.u32[header >> 2] = link;
    this.host.u32[(header + 12) >> 2] = 0;
    this.host.u32[link >> 2] = header;
    this.pointer += HEADER_BYTES;
    this.at.push(this.index);
    this.ops.push(undefined);
    this.exit('untranslated', address);
  }

  /** Writes everything and the header. `prefix` runs before the first op. */
  write(ops: readonly Op[], ending: Terminator, count: number, prefix: 'hook' | 'region' | null): EncodedBlock {
    const terminator = plainBranch(ending);
    if (prefix) this.exit(prefix, 0n);
    const last = ops.at(-1);
    const fused = last && terminator.kind === 'br' && fusible(last, terminator) ? last : undefined;
    const step = last && terminator.kind === 'br' ? stepping(last, terminator) : null;
    const test = last && terminator.kind === 'br' ? testing(last, terminator, this.slots) : null;
    const moves = last?.op === 'mov';
    const isCall = (terminator.kind === 'jmp' || terminator.kind === 'call') && moves && typeof last.a === 'bigint';
    const isIndirect = moves && 's' in terminator;
    const joined = fused ?? (step || test !== null || isCall || isIndirect ? last : undefined);
    for (let index = 0; index < ops.length; index++) {
      const op = ops[index]!;
      const next = ops[index + 1] === joined ? undefined : ops[index + 1];
      if (op === joined) continue;
      if (next && takesField(ops, index, terminator, this.slots)) this.encodeField(op, ops[++index]!);
      else this.encode(op, next);
    }
    this.op = undefined;
    this.index = Math.max(0, count - 1);
    switch (terminator.kind) {
      case 'jmp':
      case 'call': {
        if (isCall && typeof last.a === 'bigint') this.record('mov+jmp', '', this.address(last.d), 0, 0, last.a);
        const record = this.record(isCall ? 'goto' : 'jmp', '', 0, 0, 0, 0n);
        this.stub(terminator.pc, record + 8);
        break;
      }
      case 'br': {
        const { condition, width, a, b } = terminator;
        if (fused || (step && last)) {
          if (fused)
            this.encode(fused, undefined, `${comparesResult(fused, terminator) ? '0' : ''}+br:${condition}:${width}`);
          else if (step && last) this.encodeStep(last, step);
          const links = this.record('goto', '', 0, 0, 0, 0n) + 8;
          this.stub(terminator.pc, links);
          this.stub(terminator.next, links + 4);
          break;
        }
        if (test !== null && last) {
          this.record(test, '', 0, this.place(last.a, 0), 0, 0n);
          const links = this.record('goto', '', 0, 0, 0, 0n) + 8;
          // The branch asks whether the answer is 0; the first link is for 1.
          this.stub(terminator.next, links);
          this.stub(terminator.pc, links + 4);
          break;
        }
        const variant = typeof b === 'bigint' ? 'sk' : 'ss';
        const second = typeof b === 'bigint' ? 0 : this.address(b);
        const record = this.record(`br:${condition}:${width}`, variant, 0, this.address(a), second, 0n);
        if (typeof b === 'bigint') this.record('goto', '', 0, 0, 0, b);
        this.stub(terminator.pc, record + 8);
        this.stub(terminator.next, record + 12);
        break;
      }
      case 'calli':
      case 'ret':
      case 'ind':
        if (isIndirect) {
          const place = this.address(last.d);
          if (typeof last.a === 'bigint') this.record('mov+ind', 'k', place, 0, 0, last.a);
          else this.record('mov+ind', 's', place, this.address(last.a), 0, 0n);
        }
        this.record('ind', '', 0, this.address(terminator.s), 0, terminator.mask);
        break;
      case 'helper':
      case 'trap':
      case 'unknown':
      case 'fetch':
      case 'sync':
        this.exit(terminator.kind, 0n);
        break;
      default:
        terminator satisfies never;
    }
    for (const { address, link } of this.pending) this.stub(address, link);
    const { header } = this;
    this.host.u32[header >> 2] = 0;
    this.host.u32[(header + 12) >> 2] = count;
    return { header, end: this.pointer, at: this.at, ops: this.ops };
  }
}

/** The window descriptor that each executed access of a block hit last, with its op. */
export function predictions(host: HostMemory, encoded: EncodedBlock): readonly { op: Op; descriptor: number }[] {
  const out: { op: Op; descriptor: number }[] = [];
  encoded.ops.forEach((op, index) => {
    const form = op && OPS[op.op].form;
    if (!op || (form !== 'load' && form !== 'store')) return;
    const record = encoded.header + HEADER_BYTES + RECORD_BYTES * index;
    const key = HANDLER_KEYS[host.u16[record >> 1]!] ?? '';
    if (!key.startsWith(`${op.op}:`)) return;
    out.push({ op, descriptor: host.u16[(record + 6) >> 1]! });
  });
  return out;
}

/**
 * Turns the first record of a dropped block into a stub for its address: links that lead here find
 * the way again.
 */
export function writeDropped(host: HostMemory, header: number, address: bigint): void {
  host.u32[header >> 2] = 0;
  host.u32[(header + 12) >> 2] = 0;
  const record = header + HEADER_BYTES;
  host.u16[record >> 1] = EXIT_HANDLER;
  host.u16[(record >> 1) + 1] = reasonNumber('untranslated');
  host.u64[(record + 8) >> 3] = address;
}

/** Turns the first record of a dropped block into a jump to the one that replaced it. */
export function writeForward(host: HostMemory, header: number, target: number): void {
  const record = header + HEADER_BYTES;
  host.u16[record >> 1] = JMP_HANDLER;
  host.u32[(record + 8) >> 2] = target;
}

/**
 * Writes the trampoline that goes on at `record` after paying for `count` instructions, and returns
 * its header.
 */
export function writeTrampoline(host: HostMemory, record: number, count: number): number {
  const header = CONTROL.trampoline;
  host.u32[(header + 12) >> 2] = count;
  const at = header + HEADER_BYTES;
  host.u16[at >> 1] = GOTO_HANDLER;
  host.u32[(at + 8) >> 2] = record;
  return header;
}
