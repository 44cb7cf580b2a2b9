/**
 * A few x86-64 functions at fixed addresses with a probe machine over them, for tests of the state
 * machines: bytes are really written, and every store is logged. The instructions are those of the
 * manual, given as bytes.
 */
import { x86Probes } from '../../src/arch-x86/kprobes.js';
import { equalBytes } from '../../src/bytes.js';
import { type ProbeCode, type ProbeCpu, refuse } from '../../src/machine/probes.js';
import { Kprobe, type KprobeEvent, type KprobeHandlers, type KprobeResult } from '../../src/kprobes/objects.js';
import { SlotPool } from '../../src/kprobes/slots.js';
import { TextMachine } from '../../src/kprobes/text-machine.js';
import { codeOf, compact } from './probe-code.js';

const BASE = 0x40_1000n;
/** One function every 0x40 bytes. */
export const functionAt = (index: number): bigint => BASE + BigInt(index) * 0x40n;

/**
 * f+0   8d 40 01             lea 1(%rax),%eax
 * f+3   8b 0d 00 10 00 00    mov 0x1000(%rip),%ecx
 * f+9   11 c8                adc %ecx,%eax
 * f+11  90 … (17)            nop
 * f+28  c3                   ret
 */
const BODY: readonly number[] = [
  0x8d, 0x40, 0x01, 0x8b, 0x0d, 0x00, 0x10, 0x00, 0x00, 0x11, 0xc8,
  ...Array.from({ length: 17 }, () => 0x90), 0xc3,
]; // prettier-ignore
/** Bytes that a jump at f covers: lea and mov. */
export const WINDOW = 9;

export interface World {
  readonly machine: TextMachine;
  readonly slots: SlotPool;
  /** Current text from an address on. */
  bytes(address: bigint, size: number): string;
  /** `401000 cc`, in order. */
  readonly stores: string[];
  readonly events: string[];
  /** Addresses that ftrace was asked to serve, and to serve no more. */
  readonly armed: bigint[];
  readonly disarmed: bigint[];
  readonly onEvent: (event: KprobeEvent) => void;
  /** All text is what it was at the start. */
  readonly isOriginal: boolean;
  /** The same text comes again, as a module that is loaded anew at its place. */
  reload(): void;
}

export interface WorldOptions {
  readonly functions?: number;
  readonly body?: readonly number[];
  readonly isFile?: boolean;
  readonly callees?: readonly bigint[] | null;
  /** Addresses that ftrace serves. */
  readonly ftrace?: readonly bigint[];
  /** Room for slots and buffers. */
  readonly room?: bigint;
}

export function world(options: WorldOptions = {}): World {
  const { functions = 4, body = BODY, room = 0x1000n, ftrace = [] } = options;
  const size = 0x40 * functions;
  const text = new Uint8Array(size).fill(0xcc);
  for (let i = 0; i < functions; i++) text.set(body, 0x40 * i);
  const original = text.slice();
  const areas = new Map<bigint, number>();
  const stores: string[] = [];
  const [armed, disarmed]: [bigint[], bigint[]] = [[], []];
  const slots = new SlotPool([{ start: 0x50_0000n, end: 0x50_0000n + room }]);
  const codeAt = (address: bigint): ProbeCode | null => {
    const index = Number((address - BASE) / 0x40n);
    if (address < BASE || index >= functions || address >= functionAt(index) + BigInt(body.length)) return null;
    const bytes = original.subarray(0x40 * index, 0x40 * index + body.length);
    return codeOf(bytes, functionAt(index), { name: `f${index}` });
  };
  const machine = new TextMachine({
    support: x86Probes,
    slots,
    redZone: false,
    callees: options.callees === undefined ? [0x60_0000n] : options.callees,
    store: {
      isFile: options.isFile ?? true,
      read: (address, count) => {
        const at = Number(address - BASE);
        return at >= 0 && at + count <= size ? text.slice(at, at + count) : null;
      },
      store(address, bytes) {
        const at = Number(address - BASE);
        if (at >= 0 && at + bytes.length <= size) {
          text.set(bytes, at);
          stores.push(`${address.toString(16)} ${compact(bytes)}`);
        } else areas.set(address, bytes.length);
      },
      sync: () => undefined,
    },
    check(address) {
      const code = codeAt(address);
      if (code === null) return refuse('EINVAL', 'not-text', 'K-ADDR-2', 'not in text');
      const instruction = x86Probes.decode(code, address);
      if (instruction.kind === 'refused') return instruction;
      return { kind: 'valid', address, code, instruction, ftrace: ftrace.includes(address) };
    },
    armFtrace: (address) => armed.push(address),
    disarmFtrace: (address) => disarmed.push(address),
  });
  const events: string[] = [];
  return {
    machine,
    slots,
    bytes: (address, count) => {
      const at = Number(address - BASE);
      return compact(text.subarray(at, at + count));
    },
    stores,
    events,
    armed,
    disarmed,
    onEvent: ({ what, address }) => {
      events.push(address === 0n ? what : `${what} ${address.toString(16)}`);
    },
    get isOriginal() {
      return equalBytes(text, original);
    },
    reload() {
      text.set(original);
    },
  };
}

/** Registers that handlers may look at: pc only. */
export function registers(): ProbeCpu {
  const values = new Map<string, bigint>();
  return {
    register: (name) => values.get(name) ?? 0n,
    setRegister: (name, value) => {
      values.set(name, value);
    },
    read: () => null,
    write: () => false,
  };
}

/** `done`, `waiting`, or the errno and the machine-readable reason of a failure. */
export function outcome(result: KprobeResult): string {
  if (typeof result === 'string') return result;
  return result.refusal === null ? result.errno : `${result.errno} ${result.refusal.code}`;
}

/** A world with a state machine over it. */
export interface Setup<Core> extends World {
  readonly core: Core;
  /** Registers a probe, which must succeed. */
  add(address: bigint, flags?: number, handlers?: KprobeHandlers): Kprobe;
}

/** Probes are added with `defaultFlags` where nothing else is said. */
export function setupOf<Core extends { register(probe: Kprobe): KprobeResult }>(
  made: World,
  core: Core,
  defaultFlags: number,
): Setup<Core> {
  // The getter of `isOriginal` must stay one.
  return Object.assign(Object.create(made) as World, {
    core,
    add(address: bigint, flags = defaultFlags, handlers: KprobeHandlers = {}): Kprobe {
      const probe = new Kprobe(address, handlers, flags);
      const result = core.register(probe);
      if (result !== 'done') throw new Error(`at ${address.toString(16)}: ${outcome(result)}`);
      return probe;
    },
  });
}
