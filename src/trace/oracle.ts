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
import type { TracedFunction, TraceSink } from './events.js';

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
  const { functions, stackPointer, linkRegister, sinks, keepChains = false } = options;
  const wordBytes = machine.lifter.addressBits / 8;
  const stacks: Frame[][] = [];
  const counts: number[] = [];
  const removers: (() => void)[] = [];
  /** Return addresses that are hooked, and whose code is there. */
  const backs = new Map<Address, TracedFunction | null>();
  let events = 0;

  const stack = (): Frame[] => {
    for (let cpu = stacks.length; cpu <= machine.cpu; cpu++) {
      stacks.push([]);
      counts.push(0);
    }
    counts[machine.cpu] = machine.instructions;
    return stacks[machine.cpu]!;
  };

  const popTo = (frames: Frame[], depth: number, unwound: boolean): void => {
    while (frames.length > depth) {
      const frame = frames.pop()!;
      events++;
      const event = {
        kind: 'return',
        function: frame.function,
        cpu: machine.cpu,
        depth: frames.length,
        time: machine.totalInstructions,
        instructions: machine.instructions,
        unwound,
      } as const;
      for (const sink of sinks) sink.event(event);
    }
  };

  /** Number of frames that are left when those below `sp` are gone. */
  const aliveAt = (frames: readonly Frame[], sp: bigint): number => {
    let depth = frames.length;
    while (depth > 0 && frames[depth - 1]!.sp < sp) depth--;
    return depth;
  };

  /**
   * `aliveAt`, without the frames at `sp` that stand between the code of `owner` and its own frame.
   */
  const aliveIn = (frames: readonly Frame[], sp: bigint, owner: TracedFunction | null): number => {
    const alive = aliveAt(frames, sp);
    let depth = alive;
    while (depth > 0 && frames[depth - 1]!.function !== owner) {
      // The first frame of a caller: what runs there has lowered its stack pointer already.
      if (frames[depth - 1]!.sp !== sp) return alive;
      depth--;
    }
    return depth > 0 ? depth : alive;
  };

  /** The function that an address is in, as far as symbols tell. */
  const ownerOf = (address: Address): TracedFunction | null => {
    let low = 0;
    let high = functions.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (functions[middle]!.address <= address) low = middle + 1;
      else high = middle;
    }
    return functions[low - 1] ?? null;
  };

  const onReturn = (owner: TracedFunction | null): void => {
    const frames = stack();
    if (frames.length === 0) return;
    const sp = machine.register(stackPointer);
    const { pc } = machine;
    let top = aliveAt(frames, sp);
    // Code that a function returned to on its way here (return_to_handler of a graph tracer) looks
    // like a function on top of it.
    while (top > 0 && frames[top - 1]!.sp === sp && frames[top - 1]!.back !== pc) top--;
    let depth = top;
    while (depth > 0 && frames[depth - 1]!.sp === sp && frames[depth - 1]!.back === pc) depth--;
    if (depth < top) {
      popTo(frames, top, true);
      popTo(frames, depth, false);
    }
    // No frame returns here: a jump, perhaps out of what lies above.
    else popTo(frames, aliveIn(frames, sp, owner), true);
  };

  /** The return address and the stack pointer after the return. */
  const linkage = (): { readonly back: Address; readonly sp: bigint } => {
    const sp = machine.register(stackPointer);
    if (linkRegister !== null) return { back: machine.register(linkRegister), sp };
    const bytes = machine.memory.read(sp, wordBytes) ?? new Uint8Array();
    if (machine.lifter.endian === 'little') bytes.reverse();
    return { back: bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n), sp: sp + BigInt(wordBytes) };
  };

  const onEntry = (entered: TracedFunction): void => {
    const frames = stack();
    const { back, sp } = linkage();
    const dead = frames.length > 0 && frames.at(-1)!.sp < sp;
    if (dead) popTo(frames, aliveAt(frames, sp), true);
    let top = frames.at(-1);
    // Called from further out, with frames at this sp left over.
    if (top && top.sp === sp && top.back !== back) {
      const alive = aliveIn(frames, sp, backs.get(back) ?? ownerOf(back));
      if (alive < frames.length) {
        popTo(frames, alive, true);
        top = frames.at(-1);
      }
    }
    if (top && top.sp === sp && top.back === back) {
      if (top.function === entered) return;
      for (let i = frames.length - 1; i >= 0 && !keepChains; i--) {
        const frame = frames[i]!;
        if (frame.sp !== sp || frame.back !== back) break;
        if (frame.function !== entered) continue;
        popTo(frames, i, false);
        break;
      }
    }
    events++;
    const event = {
      kind: 'entry',
      function: entered,
      cpu: machine.cpu,
      depth: frames.length,
      time: machine.totalInstructions,
      instructions: machine.instructions,
      parent: back,
    } as const;
    frames.push({ function: entered, back, sp });
    for (const sink of sinks) sink.event(event);
    if (!backs.has(back)) {
      const owner = ownerOf(back);
      backs.set(back, owner);
      const hook = (): 'continue' => {
        onReturn(owner);
        return 'continue';
      };
      removers.push(machine.hook(back, hook));
    }
  };

  for (const each of functions) {
    // It is never called: a return goes there, with the return address taken off the stack already.
    if (linkRegister === null && each.name === returnHandler) continue;
    const hook = (): 'continue' => {
      onEntry(each);
      return 'continue';
    };
    for (const address of [each.address, ...each.otherEntries]) removers.push(machine.hook(address, hook));
  }

  return {
    get events() {
      return events;
    },
    finish() {
      const running = machine.cpu;
      for (let cpu = 0; cpu < machine.cpuCount; cpu++) {
        if (machine.cpuCount > 1) machine.switchTo(cpu);
        popTo(stack(), 0, true);
      }
      if (machine.cpuCount > 1) machine.switchTo(running);
      for (const remove of removers) remove();
      for (const sink of sinks) sink.end(counts);
    },
  };
}
