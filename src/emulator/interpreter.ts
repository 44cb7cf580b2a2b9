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
import { buildFunctions } from './functions.js';
import {
  ADDRESS,
  FUEL,
  HANDLER_NUMBERS,
  handlers,
  HEADER,
  HEADER_BYTES,
  HOST,
  hotKeys,
  isForOthers,
  OUTSIDE,
  POINTER,
  REASON,
  reasonNumber,
  RECORD_BYTES,
} from './handlers.js';
import type { Context, Handler, ModuleShape, Place, PlacedHandler } from './handlers.js';
import {
  BLOCK_TABLE,
  CODE_MAP,
  compileModule,
  CONTROL,
  instantiate,
  MOVES,
  PAGE_MARK,
  WINDOW,
  WINDOW_FLAG,
} from './host.js';
import type { HostMemory } from './host.js';
import { LookupTable } from './lookup-table.js';
import { I32, I64, isFloatOp, isLaneOp, isX87Op } from '../machine/ir.js';
import type { Lifter } from '../machine/ir.js';
import { PREBUILT } from './prebuilt.js';
import { Code, writeModule } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';
import { ElftraceError } from '../errors.js';

/**
 * Counts that the access of a record goes to another window than before, up to 255, unless it is
 * its first. What moves about is compiled as an access that may go to any window.
 */
function countMove(code: Code, record: number): void {
  const at = (): Code =>
    code
      .get(record)
      .i32(4)
      .op(I32.shr)
      .i32(MOVES.count - 1)
      .op(I32.and);
  code.get(record).memory([I32.load16u], 6).i32(WINDOW.start).op(I32.ne).if();
  at();
  at().memory([I32.load8u], MOVES.start);
  at().memory([I32.load8u], MOVES.start).i32(255).op(I32.ne).op(I32.add);
  code.memory([I32.store8], MOVES.start);
  code.end();
}

/**
 * Finds the window of an access that the predicted one does not serve. Parameters: address, bytes,
 * offset of the limit in a descriptor, record. Returns the host address or 0. Windows that may be
 * written and executed, or that hold a watched range, serve accesses only here, and only where the
 * page map is clear. `counts`: moves to other windows are counted for the record.
 */
export function resolveFunction({ counts }: { readonly counts: boolean }): WasmFunction {
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
  if (counts) countMove(code, record);
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
  countMove(code, record);
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
  context: Pick<Context, 'calls' | 'resolve' | 'is32'>,
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
  if (floats) locals.push('f64', 'f32', 'v128');
  return { parameters: ['i32', 'i32', 'i32'], results: ['i32'], locals, code };
}

/** The same for lifters whose machines can have the same module. */
export function moduleKey({ addressBits, lanes, floats, x87, endian, conditionRecords }: ModuleShape): string {
  return [addressBits, endian, lanes === true, floats === true, x87 === true, conditionRecords !== false].join('/');
}

/** What all handlers of a module are written with. */
type Common = Pick<Context, 'calls' | 'resolve' | 'is32'>;

/** The module for machines of such a shape. */
export function generateInterpreter(shape: ModuleShape): Uint8Array<ArrayBuffer> {
  const { addressBits, lanes } = shape;
  const floats = shape.floats === true;
  const { names, functions } = buildFunctions(shape);
  const calls = new Map<string, number>(names.map((name, index) => [name, index]));
  const common = { calls, resolve: functions.length, is32: addressBits === 32 };
  const hot = hotKeys();
  const all = handlers();
  const placeOf = ({ key, place }: PlacedHandler): Place =>
    hot.has(key) && !isForOthers(key, shape) ? 'inside' : place;
  const used = all.filter(
    ({ key }) =>
      (lanes === true || !isLaneOp(key)) && (floats || !isFloatOp(key)) && (shape.x87 === true || !isX87Op(key)),
  );
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
  const run = new RunFunction(common, all, placeOf, rooms).write();
  return writeModule([...functions, resolveFunction({ counts: true }), predictFunction(), ...others, run]);
}

/** The function `run`: one dispatching branch, the hot handlers, and calls of the others. */
class RunFunction {
  private readonly code = new Code(0x8000);
  // The blocks, from the outermost to the innermost.
  /** Leaves with a reason. */
  private readonly leave = this.code.block();
  /** The fuel does not suffice. */
  private readonly poor = this.code.block();
  /** As `miss`, with the address in the control block. */
  private readonly missed = this.code.block();
  /** No window serves an access. */
  private readonly miss = this.code.block();
  private readonly dispatch: number;
  /** Enters the block in `HEADER`. */
  private readonly entering: number;
  /** A handler outside has come back; how much further the record is that follows is in `HOST`. */
  private readonly far: number;
  /** An access that the predicted window does not serve. */
  private readonly unexpected: number;
  /** Where handlers are called that are not inside. */
  private readonly places: Readonly<Record<Place, number>>;

  constructor(
    private readonly common: Common,
    private readonly all: readonly PlacedHandler[],
    private readonly placeOf: (handler: PlacedHandler) => Place,
    private readonly rooms: readonly Exclude<Place, 'inside'>[],
  ) {
    const { code } = this;
    this.pay();
    // The only loop: V8 keeps constants of the handlers, byte orders, in registers or on the stack
    // from in front of it.
    this.dispatch = code.loop();
    this.entering = code.block();
    this.far = code.block();
    const float = rooms.includes('float') ? code.block() : this.far;
    const branch = code.block();
    const op = code.block();
    const access = code.block();
    this.unexpected = code.block();
    this.places = { inside: op, access, op, branch, float };
  }

  write(): WasmFunction {
    this.writeInside();
    this.callRooms();
    this.writeWays();
    const locals: ValueType[] = ['i32', 'i32', 'i32', 'i32', 'i64', 'i64'];
    return { parameters: ['i32', 'i32'], results: ['i32'], locals, code: this.code, export: 'run' };
  }

  /** Pays for the block in `HEADER` and stands at its first record. */
  private pay(): void {
    const { code } = this;
    code.get(FUEL).get(HEADER).memory([I32.load], 12).op(I32.sub).tee(FUEL).i32(0).op(I32.lt).brIf(this.poor);
    code.get(HEADER).i32(HEADER_BYTES).op(I32.add).set(POINTER);
  }

  /** The branch on the handler of a record, and the handlers that are here. */
  private writeInside(): void {
    const { code, all, placeOf, places } = this;
    const inside = all.filter((each) => placeOf(each) === 'inside');
    const blocks = new Map([...inside].reverse().map((each) => [each, code.block()]));
    const labels = all.map((each) => blocks.get(each) ?? places[placeOf(each)]);
    code.get(POINTER).memory([I32.load16u], 0).brTable(labels, places.op);
    const context = this.context();
    for (const handler of inside) {
      code.end();
      handler.write(context);
    }
    code.unreachable();
    code.end();
  }

  private context(): Context {
    const { code } = this;
    return {
      ...this.common,
      code,
      miss: this.miss,
      unexpected: this.unexpected,
      enter: () => {
        code.set(HEADER).br(this.entering);
      },
      next: (records = 1) => {
        code
          .get(POINTER)
          .i32(RECORD_BYTES * records)
          .op(I32.add)
          .set(POINTER)
          .br(this.dispatch);
      },
      resume: () => {
        code.set(POINTER).br(this.dispatch);
      },
      exit: (reason) => {
        // `exit` records have set the reason themselves.
        if (reason !== 'untranslated') code.i32(reasonNumber(reason)).set(REASON);
        code.br(this.leave);
      },
    };
  }

  /** Calls of the functions of other handlers. */
  private callRooms(): void {
    const { code } = this;
    const { resolve } = this.common;
    code
      .get(ADDRESS)
      .get(POINTER)
      .call(resolve + 1)
      .brIf(this.dispatch);
    for (const place of this.rooms) {
      code.end();
      code.get(HEADER).get(FUEL).get(POINTER).call(resolve + 2 + OUTSIDE.indexOf(place)); // prettier-ignore
      if (place === 'branch') code.set(HEADER).br(this.entering);
      else if (place === 'float') {
        code.tee(HOST).brIf(this.far);
        code.i32(reasonNumber('slow')).set(REASON).br(this.leave);
      } else code.set(HOST).br(this.far);
    }
    code.end();
  }

  /** The ways on from handlers, and out. */
  private writeWays(): void {
    const { code } = this;
    code.get(HOST).op(I32.eqz).brIf(this.missed);
    code.get(POINTER).get(HOST).op(I32.add).set(POINTER).br(this.dispatch);
    code.end();
    this.pay();
    code.br(this.dispatch);
    code.end();
    code.unreachable();
    code.end();
    code.i32(0).get(ADDRESS).memory([I64.store], CONTROL.value);
    code.end();
    code.i32(reasonNumber('miss')).set(REASON).br(this.leave);
    code.end();
    code.get(FUEL).get(HEADER).memory([I32.load], 12).op(I32.add).set(FUEL);
    code.get(HEADER).set(POINTER).i32(reasonNumber('fuel')).set(REASON);
    code.end();
    code.i32(0).get(POINTER).memory([I32.store], CONTROL.pointer);
    code.i32(0).get(FUEL).memory([I32.store], CONTROL.fuel);
    code.get(REASON);
  }
}

const modules = new Map<string, object>();

/** An instance of the interpreter on one memory. */
export class Interpreter {
  /** Executes from a block header with so much fuel; the number of an exit reason. */
  readonly run: (header: number, fuel: number) => number;
  /** The same as a function of WebAssembly, for a table. */
  readonly code: unknown;
  /** Headers of blocks, by which indirect branches find them. */
  readonly blocks: LookupTable;

  constructor(host: HostMemory, lifter: Lifter) {
    this.blocks = new LookupTable(host, BLOCK_TABLE);
    const key = moduleKey(lifter);
    let module = modules.get(key);
    if (module === undefined) {
      module = compileModule(PREBUILT.get(key)?.() ?? generateInterpreter(lifter));
      modules.set(key, module);
    }
    const { run } = instantiate(module, host);
    if (typeof run !== 'function') throw new ElftraceError('internal', 'the interpreter exports no run');
    this.code = run;
    this.run = (header, fuel) => Number(run(header, fuel));
  }
}
