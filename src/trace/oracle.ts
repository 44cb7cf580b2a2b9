/**
 * Calls and returns as the machine executes them, whatever the program does to record its own: hooks on the first
 * instruction of every function and on every address that one of them will return to. The oracle of traces that patched
 * code writes.
 *
 * How activations are told apart, from the stack pointer (sp) and the return address at a function's entry:
 *
 *   entry     push {function, return address, sp when it will have returned}
 *   return    the instruction at a return address, sp as it must be then: pop that activation and all above it
 *   tail call entry with the same return address and sp as the activation on top: nested in it, and both return at once;
 *             a chain of them that comes back to one of its functions (mutual recursion without frames) begins anew there
 *   loop      a jump to the own entry, local entry behind the global one: same function, address, sp as on top: no event
 *   unwinding activations whose sp is below the present one cannot return any more (longjmp, exceptions): popped, `unwound`
 *
 * Stacks grow down. Programs that switch stacks inside one CPU (coroutines) make activations look abandoned.
 */
import type { Machine } from '../emulator/index.js';
import type { Address, RegisterName } from '../units.js';
import type { TracedFunction, TraceSink } from './events.js';

export interface OracleOptions {
  readonly functions: readonly TracedFunction[];
  readonly stackPointer: RegisterName;
  /** null: the return address is on the stack. */
  readonly linkRegister: RegisterName | null;
  readonly sinks: readonly TraceSink[];
}

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
  const { stackPointer, linkRegister, sinks } = options;
  const wordBytes = machine.lifter.addressBits / 8;
  const stacks: Frame[][] = [];
  const times: number[] = [];
  const removers: (() => void)[] = [];
  const returnHooks = new Set<Address>();
  let events = 0;

  const stack = (): Frame[] => {
    for (let cpu = stacks.length; cpu <= machine.cpu; cpu++) {
      stacks.push([]);
      times.push(0);
    }
    times[machine.cpu] = machine.instructions;
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
        time: machine.instructions,
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

  const onReturn = (): 'continue' => {
    const frames = stack();
    if (frames.length === 0) return 'continue';
    const sp = machine.register(stackPointer);
    const { pc } = machine;
    const alive = aliveAt(frames, sp);
    let depth = alive;
    while (depth > 0 && frames[depth - 1]!.sp === sp && frames[depth - 1]!.back === pc) depth--;
    // Without a frame that returns here, what lies below was left by a jump.
    popTo(frames, depth < alive ? depth : alive, depth === alive);
    return 'continue';
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
    popTo(frames, aliveAt(frames, sp), true);
    const top = frames.at(-1);
    if (top && top.sp === sp && top.back === back) {
      if (top.function === entered) return;
      for (let i = frames.length - 1; i >= 0; i--) {
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
      time: machine.instructions,
      parent: back,
    } as const;
    frames.push({ function: entered, back, sp });
    for (const sink of sinks) sink.event(event);
    if (!returnHooks.has(back)) {
      returnHooks.add(back);
      removers.push(machine.hook(back, onReturn));
    }
  };

  for (const each of options.functions) {
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
      for (const sink of sinks) sink.end(times);
    },
  };
}
