/**
 * Calls and returns as the machine executes them, whatever the program does to record its own:
 * hooks on the first instruction of every function and on every address that one of them will
 * return to. The oracle of traces that patched code writes.
 *
 * How activations are told apart, from the stack pointer (sp) and the return address at a
 * function's entry:
 *
 *   entry     push {function, return address, sp when it will have returned}
 *   return    the instruction at a return address, sp as it must be then: pop that activation and
 *             all above it
 *   tail call entry with the same return address and sp as the activation on top: nested in it, and
 *   both return at once;
 *             a chain of them that comes back to one of its functions (mutual recursion without
 *             frames) begins anew there
 *   loop      a jump to the own entry, local entry behind the global one: same function, address,
 *             sp as on top: no event
 *   unwinding activations whose sp is below the present one cannot return any more (longjmp,
 *   exceptions): popped, `unwound`; so
 *             are those at the present sp when the code that runs, or that calls, is of a function
 *             further out
 *
 * Stacks grow down. Programs that switch stacks inside one CPU (coroutines) make activations look
 * abandoned.
 */
import type { Machine } from '../emulator/index.js';
import type { Address, RegisterName } from '../units.js';
import type { TracedFunction, TraceEvent, TraceSink } from './events.js';

export interface OracleOptions {
  /** In ascending order of address. */
  readonly functions: readonly TracedFunction[];
  readonly stackPointer: RegisterName;
  /** null: the return address is on the stack. */
  readonly linkRegister: RegisterName | null;
  readonly sinks: readonly TraceSink[];
  /**
   * True: a chain of tail calls that comes back to one of its functions goes on nesting, as graph
   * tracers record it, for whom each of them returns. Default false: it begins anew there, so that
   * mutual recursion without frames stays bounded.
   */
  readonly keepChains?: boolean;
}

/** Where hijacked returns of a graph tracer go (RT-9). */
const returnHandler = 'return_to_handler';

interface Frame {
  readonly function: TracedFunction;
  readonly back: Address;
  /** Stack pointer after the return. */
  readonly sp: bigint;
}

export interface Oracle {
  /** Events so far. */
  readonly events: number;
  /** Ends open activations and takes the hooks off. */
  finish(): void;
}

/** Puts the hooks on a machine whose image is mapped. Call `finish` when the run is over. */
export function traceWithOracle(machine: Machine, options: OracleOptions): Oracle {
  return new CallOracle(machine, options);
}

/** The activations of each CPU, and the hooks that change them. */
class CallOracle implements Oracle {
  private readonly stacks: Frame[][] = [];
  private readonly counts: number[] = [];
  private readonly removers: (() => void)[] = [];
  /** Return addresses that are hooked, and whose code is there. */
  private readonly backs = new Map<Address, TracedFunction | null>();
  private told = 0;

  constructor(
    private readonly machine: Machine,
    private readonly options: OracleOptions,
  ) {
    for (const each of options.functions) {
      // It is never called: a return goes there, with the return address taken off the stack
      // already.
      if (options.linkRegister === null && each.name === returnHandler) continue;
      for (const address of [each.address, ...each.otherEntries]) {
        this.hook(address, () => {
          this.onEntry(each);
        });
      }
    }
  }

  get events(): number {
    return this.told;
  }

  finish(): void {
    const { machine } = this;
    const running = machine.cpu;
    for (let cpu = 0; cpu < machine.cpuCount; cpu++) {
      if (machine.cpuCount > 1) machine.switchTo(cpu);
      this.popTo(this.stack(), 0, true);
    }
    if (machine.cpuCount > 1) machine.switchTo(running);
    for (const remove of this.removers) remove();
    for (const sink of this.options.sinks) sink.end(this.counts);
  }

  private hook(address: Address, act: () => void): void {
    const hook = (): 'continue' => {
      act();
      return 'continue';
    };
    this.removers.push(this.machine.hook(address, hook));
  }

  private tell(event: TraceEvent): void {
    this.told++;
    for (const sink of this.options.sinks) sink.event(event);
  }

  // ---------------------------------------------------------------------------------------- stacks

  /** Open activations of the running CPU. */
  private stack(): Frame[] {
    const { machine, stacks, counts } = this;
    for (let cpu = stacks.length; cpu <= machine.cpu; cpu++) {
      stacks.push([]);
      counts.push(0);
    }
    counts[machine.cpu] = machine.instructions;
    return stacks[machine.cpu]!;
  }

  private popTo(frames: Frame[], depth: number, unwound: boolean): void {
    const { machine } = this;
    while (frames.length > depth) {
      const frame = frames.pop()!;
      this.tell({
        kind: 'return',
        function: frame.function,
        cpu: machine.cpu,
        depth: frames.length,
        time: machine.totalInstructions,
        instructions: machine.instructions,
        unwound,
      });
    }
  }

  /** The function that an address is in, as far as symbols tell. */
  private ownerOf(address: Address): TracedFunction | null {
    const { functions } = this.options;
    let low = 0;
    let high = functions.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (functions[middle]!.address <= address) low = middle + 1;
      else high = middle;
    }
    return functions[low - 1] ?? null;
  }

  // ---------------------------------------------------------------------------------------- events

  private onReturn(owner: TracedFunction | null): void {
    const frames = this.stack();
    if (frames.length === 0) return;
    const sp = this.machine.register(this.options.stackPointer);
    const { pc } = this.machine;
    let top = aliveAt(frames, sp);
    // Code that a function returned to on its way here (return_to_handler of a graph tracer) looks
    // like a function on top of it.
    while (top > 0 && frames[top - 1]!.sp === sp && frames[top - 1]!.back !== pc) top--;
    let depth = top;
    while (depth > 0 && frames[depth - 1]!.sp === sp && frames[depth - 1]!.back === pc) depth--;
    if (depth < top) {
      this.popTo(frames, top, true);
      this.popTo(frames, depth, false);
    }
    // No frame returns here: a jump, perhaps out of what lies above.
    else this.popTo(frames, aliveIn(frames, sp, owner), true);
  }

  /** The return address and the stack pointer after the return. */
  private linkage(): { readonly back: Address; readonly sp: bigint } {
    const { machine } = this;
    const { stackPointer, linkRegister } = this.options;
    const wordBytes = machine.lifter.addressBits / 8;
    const sp = machine.register(stackPointer);
    if (linkRegister !== null) return { back: machine.register(linkRegister), sp };
    const bytes = machine.memory.read(sp, wordBytes) ?? new Uint8Array();
    if (machine.lifter.endian === 'little') bytes.reverse();
    return { back: bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n), sp: sp + BigInt(wordBytes) };
  }

  private onEntry(entered: TracedFunction): void {
    const { machine } = this;
    const frames = this.stack();
    const { back, sp } = this.linkage();
    this.dropAbandoned(frames, back, sp);
    const top = frames.at(-1);
    if (top && top.sp === sp && top.back === back) {
      if (top.function === entered) return;
      if (this.options.keepChains !== true) this.dropChain(frames, entered, back, sp);
    }
    const depth = frames.length;
    frames.push({ function: entered, back, sp });
    this.tell({
      kind: 'entry',
      function: entered,
      cpu: machine.cpu,
      depth,
      time: machine.totalInstructions,
      instructions: machine.instructions,
      parent: back,
    });
    if (this.backs.has(back)) return;
    const owner = this.ownerOf(back);
    this.backs.set(back, owner);
    this.hook(back, () => {
      this.onReturn(owner);
    });
  }

  /** Takes off what cannot be open where a function is called. */
  private dropAbandoned(frames: Frame[], back: Address, sp: bigint): void {
    const dead = frames.length > 0 && frames.at(-1)!.sp < sp;
    if (dead) this.popTo(frames, aliveAt(frames, sp), true);
    const top = frames.at(-1);
    // Called from further out, with frames at this sp left over.
    if (top?.sp !== sp || top.back === back) return;
    const alive = aliveIn(frames, sp, this.backs.get(back) ?? this.ownerOf(back));
    if (alive < frames.length) this.popTo(frames, alive, true);
  }

  /** A chain of tail calls that comes back to a function begins anew there. */
  private dropChain(frames: Frame[], entered: TracedFunction, back: Address, sp: bigint): void {
    for (let i = frames.length - 1; i >= 0; i--) {
      const frame = frames[i]!;
      if (frame.sp !== sp || frame.back !== back) break;
      if (frame.function !== entered) continue;
      this.popTo(frames, i, false);
      break;
    }
  }
}

/** Number of frames that are left when those below `sp` are gone. */
function aliveAt(frames: readonly Frame[], sp: bigint): number {
  let depth = frames.length;
  while (depth > 0 && frames[depth - 1]!.sp < sp) depth--;
  return depth;
}

/**
 * `aliveAt`, without the frames at `sp` that stand between the code of `owner` and its own frame.
 */
function aliveIn(frames: readonly Frame[], sp: bigint, owner: TracedFunction | null): number {
  const alive = aliveAt(frames, sp);
  let depth = alive;
  while (depth > 0 && frames[depth - 1]!.function !== owner) {
    // The first frame of a caller: what runs there has lowered its stack pointer already.
    if (frames[depth - 1]!.sp !== sp) return alive;
    depth--;
  }
  return depth > 0 ? depth : alive;
}
