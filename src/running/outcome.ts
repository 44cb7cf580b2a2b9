/** How a run ended, by why it stopped: what each kind of stop is called, and where it was. */
import type { StopReason } from '../emulator/index.js';
import { backtrace, type Process, signalOf } from '../guest/index.js';
import { hex, hexBytes } from '../errors.js';
import { sizeText } from '../limits/index.js';
import { visibleLine } from '../visible.js';
import { nameAt, place, type RunImage } from './image.js';

/** How a run ended: on its own accord, by a signal, or not at all. */
export type End =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: number }
  | { readonly kind: 'returned'; readonly result: bigint }
  | { readonly kind: 'failed' };

export interface Outcome {
  readonly end: End;
  /** null when there is nothing to say. */
  readonly message: string | null;
  /** Where the run stopped; null when that does not matter. */
  readonly at: bigint | null;
  /** The stop for programs. */
  readonly stop: Readonly<Record<string, unknown>>;
}

/** `output-limit`: the program wrote more than it may. */
export type Stop = StopReason | { readonly kind: 'timeout' | 'output-limit' };

/** `system call tgkill (234)`: the one that the registers ask for. */
function callName({ arch, emulation }: RunImage, guest: Process): string {
  const number = Number(BigInt.asIntN(32, guest.machine.register(arch.abi.syscall.number)));
  const name = emulation.process.syscalls.get(number);
  return name === undefined ? `system call ${number}` : `system call ${name} (${number})`;
}

/** What the words about a stop need beside it. */
interface StopView {
  readonly loaded: RunImage;
  readonly guest: Process;
  /** An address as text, with the name of its place where that is known. */
  readonly here: (address: bigint) => string;
  readonly pc: bigint;
  /** Bytes that the program may write. */
  readonly most: number;
}

/** How a run ended that a limit or a hook stopped. */
function cutShort(reason: string, message: string, at: bigint, key = 'instruction'): Outcome {
  return { end: { kind: 'failed' }, message, at, stop: { reason, [key]: hex(at) } };
}

/** What each kind of stop is called, for people and in the status. */
const outcomes: {
  readonly [Kind in Stop['kind']]: (stop: Extract<Stop, { readonly kind: Kind }>, view: StopView) => Outcome;
} = {
  exit: (stop) => ({ end: stop, message: null, at: null, stop: { reason: 'exit' } }),
  signal: (stop, { here }) => ({
    end: stop,
    message: `signal ${stop.signal} raised at ${here(stop.instruction)}`,
    at: stop.instruction,
    stop: { reason: 'signal', instruction: hex(stop.instruction) },
  }),
  fault: (stop, { here }) => ({
    end: { kind: 'signal', signal: signalOf(stop)! },
    message: `${stop.access} fault at ${hex(stop.address)}, instruction ${here(stop.instruction)}`,
    at: stop.instruction,
    stop: { reason: 'fault', access: stop.access, address: hex(stop.address), instruction: hex(stop.instruction) },
  }),
  trap: (stop, { here }) => ({
    end: { kind: 'signal', signal: signalOf(stop)! },
    message: `trap (${stop.trap}) at ${here(stop.instruction)}`,
    at: stop.instruction,
    stop: { reason: 'trap', trap: stop.trap, instruction: hex(stop.instruction) },
  }),
  'unknown-instruction': (stop, { here }) => {
    const signal = signalOf(stop);
    const illegal = signal !== null;
    return {
      end: illegal ? { kind: 'signal', signal } : { kind: 'failed' },
      message:
        stop.mnemonic !== null
          ? `instruction ${stop.mnemonic} at ${here(stop.instruction)} is decoded and not executed yet`
          : `${illegal ? 'illegal' : 'unknown'} instruction ${hexBytes(stop.bytes)} at ${here(stop.instruction)}`,
      at: stop.instruction,
      stop: {
        reason: illegal ? 'illegal-instruction' : 'unknown-instruction',
        instruction: hex(stop.instruction),
        bytes: hexBytes(stop.bytes),
      },
    };
  },
  syscall: ({ instruction }, { loaded, guest, here }) =>
    cutShort('syscall', `${callName(loaded, guest)} at ${here(instruction)} cannot be served`, instruction),
  waiting: ({ instruction }, { here }) =>
    cutShort('waiting', `stopped at ${here(instruction)}, which waits for standard input`, instruction),
  deadlock: ({ threads }, { loaded, guest, here, pc }) => {
    const at = threads[0]?.instruction ?? pc;
    const each = threads.map(({ thread, instruction, stoppedBy }) => {
      const why = stoppedBy === undefined ? '' : ` (stopped by signal ${stoppedBy})`;
      return `thread ${thread} at ${here(instruction)}${why}`;
    });
    return {
      end: { kind: 'failed' },
      message: `deadlock: ${each.join(', ')} wait${each.length > 1 ? '' : 's'} for what cannot come`,
      at,
      stop: {
        reason: 'deadlock',
        instruction: hex(at),
        threads: threads.map(({ thread, instruction, stoppedBy }) => ({
          thread,
          instruction: hex(instruction),
          ...(stoppedBy !== undefined && { stoppedBy }),
          function: nameAt(loaded, guest, instruction),
        })),
      },
    };
  },
  child: (stop, { loaded, guest, most }) => {
    // Places of another process have no names here.
    const inner = outcomeOf(stop.stop, loaded, guest, most, hex);
    const who = `process ${stop.process} (${visibleLine(stop.program)})`;
    return {
      end: { kind: 'failed' },
      message: `${who}: ${inner.message ?? 'stopped'}`,
      at: null,
      stop: { ...inner.stop, process: stop.process, program: stop.program },
    };
  },
  yield: (_, { here, pc }) => cutShort('hook', `stopped at ${here(pc)}`, pc, 'address'),
  hook: (_, { here, pc }) => cutShort('hook', `stopped at ${here(pc)}`, pc, 'address'),
  'step-limit': (_, { here, pc }) => cutShort('step-limit', `stopped by --max-instructions at ${here(pc)}`, pc),
  timeout: (_, { here, pc }) => cutShort('timeout', `stopped by --timeout at ${here(pc)}`, pc),
  'output-limit': (_, { here, pc, most }) =>
    cutShort('output-limit', `stopped by --max-output ${sizeText(most)} at ${here(pc)}`, pc),
};

/**
 * How a run ended.
 * @param most  bytes that the program may write
 * @param here  an address as text
 */
export function outcomeOf(
  stop: Stop,
  loaded: RunImage,
  guest: Process,
  most: number,
  here: (address: bigint) => string = (address) => place(loaded, guest, address),
): Outcome {
  const tell = outcomes[stop.kind] as (stop: Stop, view: StopView) => Outcome;
  return tell(stop, { loaded, guest, here, pc: guest.machine.pc, most });
}

/** An end in words, as two runs are compared by it. */
export function endText(end: End): string {
  switch (end.kind) {
    case 'exit':
      return `exit status ${end.code}`;
    case 'signal':
      return `signal ${end.signal}`;
    case 'returned':
      return `result ${hex(end.result)}`;
    case 'failed':
      return 'not finished';
    default:
      return end satisfies never;
  }
}

/** An instruction at which a run stopped, and the places that called its function. */
export interface StopPlace {
  readonly code: Uint8Array;
  readonly callers: readonly bigint[];
}

/** What stands at an address where a run stopped. */
export function stopPlace({ program, arch, emulation }: RunImage, guest: Process, at: bigint): StopPlace {
  const { memory } = guest.machine;
  const bytes = memory.read(at, 8) ?? memory.read(at, 4) ?? new Uint8Array();
  const decoded = bytes.length === 0 ? null : arch.isa.decode(bytes, 0, at);
  const functionOf = (address: bigint): number => {
    const range = program.codeAt(address - guest.bias);
    return range ? program.functionAt(range, address - guest.bias) : -1;
  };
  const startOf = (address: bigint): bigint | null => {
    const found = functionOf(address);
    return found === -1 ? null : program.symbols.value[found]! + guest.bias;
  };
  return {
    code: decoded === null ? bytes : bytes.subarray(0, Math.max(1, decoded.sizeBytes)),
    callers: backtrace(guest.machine, { abi: arch.abi, emulation }, functionOf, startOf),
  };
}
