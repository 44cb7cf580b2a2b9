/**
 * Pseudo terminals: `/dev/ptmx` makes one, whose other side is `/dev/pts/N`; `/dev/tty` is that of
 * the session. What is typed at the master comes to programs as the line discipline makes it
 * (`line-discipline.ts`), sessions and groups say who reads and who gets signals.
 *
 * Source: Linux, pty(7), credentials(7), drivers/tty/pty.c, tty_io.c, tty_jobctrl.c.
 */
import type { TerminalModel } from '../machine/terminals.js';
import { Description, POLL, READABLE, WRITABLE } from './descriptions.js';
import type { Errno } from './errno.js';
import type { SpecialStatus } from './files.js';
import { isOrphaned, SIGCONT } from './halt.js';
import { LineDiscipline } from './line-discipline.js';
import type { Signals } from './signals.js';

const MASTER_MAJOR = 5;
const SLAVE_MAJOR = 136;
/** Most at a time (`kernel.pty.max` is 4096). */
const TERMINALS_MOST = 256;
export const FOLDER = '/dev/pts';
const [SIGHUP, SIGTTIN, SIGTTOU, SIGWINCH] = [1, 21, 22, 28];
const SI_KERNEL = 0x80;

/** Who a process is: ids. */
interface Identity {
  readonly id: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
}

/** A process, as terminals know it. */
export interface TerminalUser {
  readonly identity: Identity;
  readonly signals: Pick<Signals, 'info' | 'post' | 'holds'>;
  /** The system call that it makes is made again behind the signals that interrupt it. */
  restarts(): void;
}

/** The processes of a run. */
export interface TerminalUsers {
  readonly current: TerminalUser;
  readonly guests: readonly TerminalUser[];
}

/** Rows, columns, and both in pixels. */
export type WindowSize = readonly [number, number, number, number];

/** One terminal, with both of its sides. */
class Terminal {
  readonly discipline: LineDiscipline;
  size: WindowSize = [0, 0, 0, 0];
  isLocked = true;
  /** The session of which it is the terminal, and the group in its foreground; null: none. */
  session: number | null = null;
  foreground: number | null = null;
  /** Slaves that are open, and whether one ever was. */
  slaves = 0;
  wasOpen = false;
  hasMaster = true;
  /** Slaves that were open before the last time that it was hung up lead nowhere. */
  hangUps = 0;

  constructor(
    readonly number: number,
    readonly inode: number,
    private readonly users: TerminalUsers,
    model: TerminalModel,
  ) {
    this.discipline = new LineDiscipline(model, (signal) => {
      this.signal(this.foreground, signal);
    });
  }

  get path(): string {
    return `${FOLDER}/${this.number}`;
  }

  get status(): SpecialStatus {
    return { kind: 'character', permissions: 0o620, inode: this.number + 3, device: (SLAVE_MAJOR << 8) | this.number };
  }

  /** Sends a signal to a group. */
  signal(group: number | null, signal: number): void {
    for (const { identity, signals } of this.users.guests) {
      if (identity.group === group) signals.post(signal, signals.info(signal, SI_KERNEL), null);
    }
  }

  resize(size: WindowSize): void {
    if (size.every((each, i) => each === this.size[i])) return;
    this.size = size;
    this.signal(this.foreground, SIGWINCH);
  }

  /** It is the terminal of the process's session. */
  get isOwn(): boolean {
    return this.session !== null && this.session === this.users.current.identity.session;
  }

  /** The session of the process gets it. */
  own(): void {
    const { session, group } = this.users.current.identity;
    this.session = session;
    this.foreground = group;
  }

  disown(): void {
    this.session = null;
    this.foreground = null;
  }

  /**
   * Whether a process in the background may use it: null: it may, or it is not its terminal;
   * otherwise the group has got the signal.
   */
  refusal(signal: typeof SIGTTIN | typeof SIGTTOU): Errno | null {
    const { identity, signals } = this.users.current;
    if (!this.isOwn || this.foreground === null || identity.group === this.foreground) return null;
    if (signals.holds(signal)) return signal === SIGTTIN ? 'EIO' : null;
    const identities = this.users.guests.map((each) => each.identity);
    if (isOrphaned(identity, identities)) return 'EIO';
    this.signal(identity.group, signal);
    this.users.current.restarts();
    return 'EINTR';
  }

  /** The master is gone: programs find an end. */
  hangUp(): void {
    for (const { identity, signals } of this.users.guests) {
      if (identity.id !== this.session) continue;
      for (const each of [SIGHUP, SIGCONT]) signals.post(each, signals.info(each, SI_KERNEL), null);
    }
    this.disown();
    this.hangUps++;
    this.discipline.changes++;
  }

  /** The session's leader has ended. */
  left(): void {
    for (const each of [SIGHUP, SIGCONT]) this.signal(this.foreground, each);
    this.disown();
  }

  save(): () => void {
    const { size, isLocked, session, foreground, slaves, wasOpen, hasMaster, hangUps } = this;
    const state = { size, isLocked, session, foreground, slaves, wasOpen, hasMaster, hangUps };
    const putBack = this.discipline.save();
    return () => {
      Object.assign(this, state);
      putBack();
    };
  }
}

/** Either side. */
export abstract class TerminalSide extends Description {
  constructor(
    readonly terminal: Terminal,
    flags: number,
    status: SpecialStatus,
  ) {
    super(flags, status);
  }

  override get changes(): number {
    return this.terminal.discipline.changes;
  }
}

export class Master extends TerminalSide {
  readonly path = '/dev/ptmx';

  constructor(
    terminal: Terminal,
    flags: number,
    private readonly closes: (terminal: Terminal) => void,
  ) {
    super(terminal, flags, masterStatus);
  }

  private get isOver(): boolean {
    return this.terminal.wasOpen && this.terminal.slaves === 0;
  }

  override available(size: number): number {
    return Math.min(size, this.terminal.discipline.printedBytes);
  }

  override read(size: number): Uint8Array | Errno | null {
    const { discipline } = this.terminal;
    if (size === 0) return new Uint8Array();
    if (discipline.printedBytes > 0) return discipline.takePrinted(size);
    return this.isOver ? 'EIO' : null;
  }

  override write(bytes: Uint8Array): number | null {
    const written = this.terminal.discipline.typed(bytes);
    return written === 0 && bytes.length > 0 ? null : written;
  }

  override accepts(): boolean {
    return this.terminal.discipline.hasTypingRoom;
  }

  override events(): number {
    const { discipline } = this.terminal;
    const out = (discipline.printedBytes > 0 ? READABLE : 0) | (discipline.hasTypingRoom ? WRITABLE : 0);
    return this.isOver ? out | POLL.HUP : out;
  }

  protected override closed(): void {
    this.terminal.hasMaster = false;
    this.terminal.hangUp();
    this.closes(this.terminal);
  }
}

export class Slave extends TerminalSide {
  private readonly hangUps: number;
  /** A read has found nothing yet. */
  private isAwaited = false;

  constructor(
    terminal: Terminal,
    flags: number,
    /** `/dev/tty` stays what it was opened as. */
    readonly path = terminal.path,
  ) {
    super(terminal, flags, terminal.status);
    this.hangUps = terminal.hangUps;
    terminal.slaves++;
    terminal.wasOpen = true;
    terminal.discipline.changes++;
  }

  get isOver(): boolean {
    return this.hangUps !== this.terminal.hangUps;
  }

  override available(size: number): number {
    return this.isOver ? 0 : this.terminal.discipline.brings(size);
  }

  /** Whether a read of so many bytes has something. */
  isReady(size: number): boolean {
    return this.isOver || this.terminal.discipline.isReady(size);
  }

  override read(size: number): Uint8Array | Errno | null {
    const wasAwaited = this.isAwaited;
    this.isAwaited = false;
    // Who waits for it learns of the end otherwise than who comes later.
    if (this.isOver) return wasAwaited ? 'EIO' : new Uint8Array();
    const { discipline } = this.terminal;
    if (size === 0) return new Uint8Array();
    const refusal = this.terminal.refusal(SIGTTIN);
    if (refusal) return refusal;
    if (discipline.isReady(size)) return discipline.take(size);
    this.isAwaited = true;
    return null;
  }

  override write(bytes: Uint8Array): number | Errno | null {
    if (this.isOver) return 'EIO';
    const { discipline } = this.terminal;
    const refusal = discipline.local('TOSTOP') ? this.terminal.refusal(SIGTTOU) : null;
    if (refusal) return refusal;
    const written = discipline.printed(bytes);
    return written === 0 && bytes.length > 0 ? null : written;
  }

  override accepts(): boolean {
    return this.isOver || this.terminal.discipline.hasRoom;
  }

  override events(): number {
    if (this.isOver) return READABLE | WRITABLE | POLL.ERR | POLL.HUP;
    const { discipline } = this.terminal;
    const least = discipline.character('VTIME') === 0 ? Math.max(1, discipline.character('VMIN')) : 1;
    const isReadable = discipline.local('ICANON') ? discipline.isReady(1) : discipline.readable >= least;
    return (isReadable ? READABLE : 0) | (discipline.hasRoom ? WRITABLE : 0);
  }

  protected override closed(): void {
    this.terminal.slaves--;
    this.terminal.discipline.changes++;
  }

  override save(): () => void {
    const { isAwaited } = this;
    const putBack = super.save();
    return () => {
      this.isAwaited = isAwaited;
      putBack();
    };
  }
}

const masterStatus: SpecialStatus = {
  kind: 'character',
  permissions: 0o666,
  inode: 2,
  device: (MASTER_MAJOR << 8) | 2,
};
const ttyStatus: SpecialStatus = { kind: 'character', permissions: 0o666, inode: 108, device: MASTER_MAJOR << 8 };

/** A place below `/dev` that is a terminal, or makes one. */
export interface TerminalPlace {
  readonly path: string;
  readonly status: SpecialStatus;
  /** `takes`: the session gets the terminal, where it has none. */
  open(flags: number, takes: boolean): Description | Errno;
}

/** All of a run. */
export class Terminals {
  private terminals: readonly Terminal[] = [];

  constructor(
    readonly users: TerminalUsers,
    private readonly model: TerminalModel,
    private readonly nextInode: () => number,
  ) {}

  /** Numbers in use, ascending. */
  get numbers(): readonly number[] {
    return this.terminals.map(({ number }) => number).sort((a, b) => a - b);
  }

  /** That of the process's session. */
  get own(): Terminal | null {
    return this.terminals.find(({ isOwn }) => isOwn) ?? null;
  }

  /** What a path without links leads to; null: nothing of these. */
  placeOf(path: string): TerminalPlace | null {
    if (path === '/dev/ptmx' || path === `${FOLDER}/ptmx`)
      return { path, status: masterStatus, open: (flags) => this.make(flags) };
    if (path === '/dev/tty') return { path, status: ttyStatus, open: (flags) => this.openOwn(flags) };
    const number = path.startsWith(`${FOLDER}/`) ? path.slice(FOLDER.length + 1) : '';
    const terminal = this.terminals.find((each) => String(each.number) === number);
    if (!terminal) return null;
    return { path, status: terminal.status, open: (flags, takes) => this.openSlave(terminal, flags, takes) };
  }

  private make(flags: number): Master | Errno {
    const numbers = new Set(this.numbers);
    const free = Array.from({ length: TERMINALS_MOST }, (_, i) => i).find((each) => !numbers.has(each));
    if (free === undefined) return 'ENOSPC';
    const terminal = new Terminal(free, this.nextInode(), this.users, this.model);
    this.terminals = [...this.terminals, terminal];
    return new Master(terminal, flags, (each) => {
      this.terminals = this.terminals.filter((other) => other !== each);
    });
  }

  openSlave(terminal: Terminal, flags: number, takes: boolean): Slave | Errno {
    if (terminal.isLocked) return 'EIO';
    const slave = new Slave(terminal, flags);
    const { identity } = this.users.current;
    if (takes && terminal.session === null && identity.session === identity.id && !this.own) terminal.own();
    return slave;
  }

  private openOwn(flags: number): Slave | Errno {
    const { own } = this;
    return own ? new Slave(own, flags, '/dev/tty') : 'ENXIO';
  }

  /** A session has no terminal any more, since its leader has ended. */
  left({ id, session }: Identity): void {
    if (id !== session) return;
    for (const each of this.terminals) if (each.session === session) each.left();
  }

  save(): () => void {
    const { terminals } = this;
    const parts = terminals.map((each) => each.save());
    return () => {
      this.terminals = terminals;
      for (const each of parts) each();
    };
  }
}
