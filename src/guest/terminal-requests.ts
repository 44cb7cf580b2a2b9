/**
 * What terminals are asked and told by `ioctl`.
 *
 * Source: Linux, ioctl_tty(2), asm-generic/ioctls.h, arch/powerpc/include/uapi/asm/ioctls.h.
 */
import { GENERIC_TERMINAL, type TerminalModel } from '../machine/terminals.js';
import type { Address } from '../units.js';
import { type Answer, type CallContext, int, storeOr } from './call-context.js';
import { O } from './descriptions.js';
import { putNumber } from './files.js';
import type { Modes } from './line-discipline.js';
import { Master, Slave, type TerminalSide, type WindowSize } from './terminals.js';

type Request =
  | 'modes' | 'set' | 'set-drained' | 'set-flushed' | 'long-modes' | 'long-set' | 'long-set-drained' | 'long-set-flushed' | 'size' | 'resize' | 'group'
  | 'set-group' | 'session' | 'take' | 'leave' | 'number' | 'lock' | 'is-locked' | 'peer' | 'flush' | 'flow' | 'drain' | 'break' | 'queued' | 'available'
  | 'discipline' | 'exclusive' | 'packets'; // prettier-ignore

/** Those that have other numbers on PowerPC have them behind the others'. */
const REQUESTS: ReadonlyMap<number, Request> = new Map<number, Request>([
  [0x5401, 'modes'], [0x5402, 'set'], [0x5403, 'set-drained'], [0x5404, 'set-flushed'], [0x802c_542a, 'long-modes'], [0x402c_542b, 'long-set'],
  [0x402c_542c, 'long-set-drained'], [0x402c_542d, 'long-set-flushed'], [0x5413, 'size'], [0x5414, 'resize'], [0x540f, 'group'], [0x5410, 'set-group'],
  [0x5429, 'session'], [0x540e, 'take'], [0x5422, 'leave'], [0x8004_5430, 'number'], [0x4004_5431, 'lock'], [0x8004_5439, 'is-locked'],
  [0x5441, 'peer'], [0x540b, 'flush'], [0x540a, 'flow'], [0x5409, 'drain'], [0x5425, 'break'], [0x5427, 'break'], [0x5428, 'break'], [0x5411, 'queued'], [0x541b, 'available'],
  [0x5424, 'discipline'], [0x540c, 'exclusive'], [0x540d, 'exclusive'], [0x5420, 'packets'],
  [0x402c_7413, 'modes'], [0x802c_7414, 'set'], [0x802c_7415, 'set-drained'], [0x802c_7416, 'set-flushed'], [0x4008_7468, 'size'], [0x8008_7467, 'resize'],
  [0x4004_7477, 'group'], [0x8004_7476, 'set-group'], [0x4004_5430, 'number'], [0x8004_5431, 'lock'], [0x4004_5439, 'is-locked'], [0x2000_5441, 'peer'],
  [0x2000_741f, 'flush'], [0x2000_741e, 'flow'], [0x2000_741d, 'drain'], [0x4004_7473, 'queued'], [0x4004_667f, 'available'],
]); // prettier-ignore

const SIGTTOU = 22;
/** `struct termios` with speeds; without them it ends there. */
const LONG_BYTES = 44;
const CHARACTERS = 19;

const WORDS = ['input', 'output', 'control', 'local'] as const;

class TerminalRequests {
  private readonly model: TerminalModel;

  constructor(
    private readonly context: CallContext,
    private readonly side: TerminalSide,
    /** The third argument: a place, or a number. */
    private readonly value: Address,
  ) {
    this.model = context.model.terminal ?? GENERIC_TERMINAL;
  }

  private get terminal(): TerminalSide['terminal'] {
    return this.side.terminal;
  }

  private store(...values: readonly number[]): Answer {
    return storeOr(this.context.storeNumbers(this.value, values.map(BigInt), 4));
  }

  // ----------------------------------------------------------------------------------------- modes

  private bytesOf(isLong: boolean): number {
    return isLong || this.model.hasSpeed ? LONG_BYTES : this.model.speedAt;
  }

  private modes(isLong: boolean): Answer {
    const { model, context } = this;
    const { modes } = this.terminal.discipline;
    const bytes = new Uint8Array(this.bytesOf(isLong));
    WORDS.forEach((name, i) => {
      putNumber(bytes, 4 * i, 4, BigInt(modes[name] >>> 0), context.endian);
    });
    bytes[model.lineAt] = modes.line;
    bytes.set(modes.characters, model.charactersAt);
    if (bytes.length === LONG_BYTES) {
      modes.speeds.forEach((speed, i) => {
        putNumber(bytes, model.speedAt + 4 * i, 4, BigInt(speed), context.endian);
      });
    }
    return storeOr(context.store(this.value, bytes));
  }

  private setModes(isLong: boolean, flushes: boolean): Answer {
    const { model, context } = this;
    const bytes = context.load(this.value, this.bytesOf(isLong));
    if (!bytes) return 'EFAULT';
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const word = (at: number): number => view.getUint32(at, context.endian === 'little');
    const hasSpeed = bytes.length === LONG_BYTES;
    const { discipline } = this.terminal;
    const modes: Modes = {
      ...(Object.fromEntries(WORDS.map((name, i) => [name, word(4 * i)])) as Record<(typeof WORDS)[number], number>),
      line: bytes[model.lineAt]!,
      characters: bytes.slice(model.charactersAt, model.charactersAt + CHARACTERS),
      speeds: hasSpeed ? [word(model.speedAt), word(model.speedAt + 4)] : discipline.modes.speeds,
    };
    const isTimed = (modes.local & model.local.ICANON) === 0 && modes.characters[model.characters.VTIME] !== 0;
    if (isTimed) context.deviate('terminal-time');
    if (flushes) discipline.flushTyped();
    discipline.setModes(modes);
    return 0n;
  }

  // ------------------------------------------------------------------------------ sizes and queues

  private resize(): Answer {
    const sizes = [0n, 2n, 4n, 6n].map((at) => this.context.loadNumber(this.value + at, 2));
    if (sizes.includes(null)) return 'EFAULT';
    this.terminal.resize(sizes.map(Number) as unknown as WindowSize);
    return 0n;
  }

  /** 0: what was typed, 1: what was printed, 2: both. */
  private flush(): Answer {
    const what = int(this.value);
    if (what < 0 || what > 2) return 'EINVAL';
    const { discipline } = this.terminal;
    const [typed, printed] = [what !== 1, what !== 0];
    // The other side types what this one prints.
    if (this.side instanceof Master ? printed : typed) discipline.flushTyped();
    if (this.side instanceof Master ? typed : printed) discipline.flushPrinted();
    return 0n;
  }

  private flow(): Answer {
    const { discipline } = this.terminal;
    switch (int(this.value)) {
      case 0:
        discipline.stop();
        return 0n;
      case 1:
        discipline.start();
        return 0n;
      case 2:
      case 3:
        this.context.deviate('requests');
        return 0n;
      default:
        return 'EINVAL';
    }
  }

  // -------------------------------------------------------------------------- sessions and groups

  private setGroup(): Answer {
    const { terminal, context } = this;
    const { current, guests } = context.terminals.users;
    if (!terminal.isOwn) return 'ENOTTY';
    const refusal = terminal.refusal(SIGTTOU);
    if (refusal) return refusal === 'EIO' ? 'ENOTTY' : refusal;
    const group = context.loadNumber(this.value, 4);
    if (group === null) return 'EFAULT';
    const wanted = int(group);
    if (wanted < 0) return 'EINVAL';
    const members = guests.filter(({ identity }) => identity.group === wanted);
    if (members.length === 0) return 'ESRCH';
    if (members.every(({ identity }) => identity.session !== current.identity.session)) return 'EPERM';
    terminal.foreground = wanted;
    return 0n;
  }

  private take(): Answer {
    const { terminal, context } = this;
    const { identity } = context.terminals.users.current;
    if (terminal.isOwn && identity.id === identity.session) return 0n;
    if (identity.id !== identity.session || context.terminals.own) return 'EPERM';
    if (terminal.session !== null) return 'EPERM';
    terminal.own();
    return 0n;
  }

  private leave(): Answer {
    const { terminal, context } = this;
    if (!terminal.isOwn) return 'ENOTTY';
    const { identity } = context.terminals.users.current;
    // Others of the session keep it: what a process has, its session has.
    if (identity.id !== identity.session) context.deviate('requests');
    else {
      for (const signal of [1, 18]) terminal.signal(terminal.foreground, signal);
      terminal.disown();
    }
    return 0n;
  }

  /** Of one's own terminal, or at a master. */
  private told(what: number | null): Answer {
    if (!(this.side instanceof Master) && !this.terminal.isOwn) return 'ENOTTY';
    return this.store(what ?? 0);
  }

  // -------------------------------------------------------------------------------------- masters

  private ofMaster(request: 'number' | 'lock' | 'is-locked' | 'peer' | 'packets'): Answer {
    const { terminal, context } = this;
    if (!(this.side instanceof Master)) return 'ENOTTY';
    switch (request) {
      case 'number':
        return this.store(terminal.number);
      case 'is-locked':
        return this.store(Number(terminal.isLocked));
      case 'lock': {
        const value = context.loadNumber(this.value, 4);
        if (value === null) return 'EFAULT';
        terminal.isLocked = value !== 0n;
        return 0n;
      }
      case 'packets': {
        const value = context.loadNumber(this.value, 4);
        if (value === null) return 'EFAULT';
        if (value !== 0n) context.deviate('requests');
        return value === 0n ? 0n : 'EINVAL';
      }
      case 'peer': {
        if (!context.descriptors.hasRoom(1)) return 'EMFILE';
        const flags = int(this.value);
        const slave = context.terminals.openSlave(terminal, flags & (O.ACCMODE | O.NONBLOCK), (flags & O.NOCTTY) === 0);
        if (typeof slave === 'string') return slave;
        return BigInt(context.descriptors.add(slave, (flags & O.CLOEXEC) !== 0));
      }
      default:
        return request satisfies never;
    }
  }

  serve(request: Request): Answer {
    const { terminal, side } = this;
    const { discipline } = terminal;
    if (side instanceof Slave && side.isOver) return request === 'set-group' ? 'ENOTTY' : 'EIO';
    switch (request) {
      case 'modes':
      case 'long-modes':
        return this.modes(request === 'long-modes');
      case 'set':
      case 'set-drained':
      case 'set-flushed':
      case 'long-set':
      case 'long-set-drained':
      case 'long-set-flushed': {
        const refusal = side instanceof Slave ? terminal.refusal(SIGTTOU) : null;
        return refusal ?? this.setModes(request.startsWith('long'), request.endsWith('flushed'));
      }
      case 'size':
        return storeOr(this.context.storeNumbers(this.value, terminal.size.map(BigInt), 2));
      case 'resize':
        return this.resize();
      case 'group':
        return this.told(terminal.foreground);
      case 'session':
        return terminal.session === null ? 'ENOTTY' : this.told(terminal.session);
      case 'set-group':
        return this.setGroup();
      case 'take':
        return side instanceof Master ? 'ENOTTY' : this.take();
      case 'leave':
        return this.leave();
      case 'number':
      case 'lock':
      case 'is-locked':
      case 'peer':
      case 'packets':
        return this.ofMaster(request);
      case 'flush':
        return this.flush();
      case 'flow':
        return this.flow();
      case 'drain':
      case 'break':
      case 'exclusive':
        return 0n;
      case 'queued':
      case 'discipline':
        return this.store(0);
      case 'available':
        return this.store(side instanceof Master ? discipline.printedBytes : discipline.readable);
      default:
        return request satisfies never;
    }
  }
}

/** Answers a request to a terminal; null: it is none of these. */
export function terminalRequest(
  context: CallContext,
  side: TerminalSide,
  whole: number,
  value: Address,
): Answer | null {
  const request = REQUESTS.get(whole);
  return request === undefined ? null : new TerminalRequests(context, side, value).serve(request);
}
