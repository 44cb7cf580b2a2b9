/**
 * What a terminal makes of what is typed and of what is printed: lines that can be edited, echo,
 * characters that are signals, ends of lines. Bytes come in from the master (`typed`) and from
 * programs (`printed`), and wait for those who read them (`take`, `takePrinted`).
 *
 *   master -- typed --> [edited line | lines] -- take --> programs
 *   master <- takePrinted -- [printed, echo] <-- printed -- programs
 *
 * Source: Linux, termios(3), drivers/tty/n_tty.c.
 */
import type { InputFlag, LocalFlag, OutputFlag, SpecialCharacter, TerminalModel } from '../machine/terminals.js';
import { CHARACTERS } from '../machine/terminals.js';

/** Bytes that lines hold, and that wait in front of them; bytes that wait for the master. */
const LINES_MOST = 4095;
const BYTES_MOST = 0x1_0000;
const [TAB, NEWLINE, RETURN, BACKSPACE, SPACE, CARET, DELETE] = [9, 10, 13, 8, 32, 0x5e, 0x7f];
/** The character that is none. */
const DISABLED = 0;
const TABS = 8;

/** The four words of `struct termios`, its characters, line and speeds. */
export interface Modes {
  readonly input: number;
  readonly output: number;
  readonly control: number;
  readonly local: number;
  readonly line: number;
  readonly characters: Uint8Array;
  readonly speeds: readonly [input: number, output: number];
}

const FIRST_CHARACTERS: Readonly<Partial<Record<SpecialCharacter, number>>> = {
  VINTR: 3, VQUIT: 28, VERASE: 127, VKILL: 21, VEOF: 4, VMIN: 1, VSTART: 17, VSTOP: 19, VSUSP: 26,
  VREPRINT: 18, VDISCARD: 15, VWERASE: 23, VLNEXT: 22,
}; // prettier-ignore

/** Modes of a new terminal. */
function firstModes({ input, output, control, local, characters }: TerminalModel): Modes {
  const first = new Uint8Array(CHARACTERS);
  for (const [name, value] of Object.entries(FIRST_CHARACTERS)) first[characters[name as SpecialCharacter]] = value;
  const { ISIG, ICANON, ECHO, ECHOE, ECHOK, ECHOCTL, ECHOKE, IEXTEN } = local;
  return {
    input: input.ICRNL | input.IXON,
    output: output.OPOST | output.ONLCR,
    control: control.B38400 | control.CS8 | control.CREAD,
    local: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
    line: 0,
    characters: first,
    speeds: [38_400, 38_400],
  };
}

/** The signals of characters. */
const SIGNALS = [['VINTR', 2], ['VQUIT', 3], ['VSUSP', 20]] as const; // prettier-ignore

const isWord = (byte: number): boolean => /[A-Za-z0-9_]/.test(String.fromCharCode(byte));
const isControl = (byte: number): boolean => (byte < SPACE && byte !== TAB) || byte === DELETE;
const isContinued = (byte: number): boolean => (byte & 0xc0) === 0x80;
const isLower = (byte: number): boolean => byte >= 0x61 && byte <= 0x7a;
const isUpper = (byte: number): boolean => byte >= 0x41 && byte <= 0x5a;

export class LineDiscipline {
  private modesNow: Modes;
  /** Lines that are complete: with their ends, but for that of an end of file. */
  private lines: readonly (readonly number[])[] = [];
  /** The one that is edited; without lines all that there is. */
  private edited: number[] = [];
  /** What was typed and does not fit yet. */
  private waiting: readonly number[] = [];
  private shown: readonly number[] = [];
  /** Echo of what is being typed; it waits while output is stopped. */
  private echoes: readonly number[] = [];
  isStopped = false;
  private isLiteral = false;
  private column = 0;
  /** The column at which the line that is edited began. */
  private lineColumn = 0;
  /** Counts what became readable or writable. */
  changes = 0;

  /** @param raise  sends a signal to those in the foreground */
  constructor(
    private readonly model: TerminalModel,
    private readonly raise: (signal: number) => void,
  ) {
    this.modesNow = firstModes(model);
  }

  // ----------------------------------------------------------------------------------------- modes

  get modes(): Modes {
    return this.modesNow;
  }

  /** What was typed so far is a line, or no lines any more, where the modes say so. */
  setModes(modes: Modes): void {
    const wasEdited = this.isEdited;
    const { CSIZE, CS8, CREAD, PARENB } = this.model.control;
    this.modesNow = { ...modes, control: (modes.control & ~(CSIZE | PARENB)) | CS8 | CREAD };
    if (wasEdited && !this.isEdited) {
      this.edited = [...this.lines.flat(), ...this.edited];
      this.lines = [];
    } else if (!wasEdited && this.isEdited && this.edited.length > 0) {
      this.lines = [this.edited];
      this.edited = [];
    }
    if (!this.input('IXON')) this.start();
    this.changed();
  }

  private input(flag: InputFlag): boolean {
    return (this.modesNow.input & this.model.input[flag]) !== 0;
  }

  private output(flag: OutputFlag): boolean {
    return (this.modesNow.output & this.model.output[flag]) !== 0;
  }

  local(flag: LocalFlag): boolean {
    // A sign may be among the bits.
    return (this.modesNow.local & this.model.local[flag]) !== 0;
  }

  character(name: SpecialCharacter): number {
    return this.modesNow.characters[this.model.characters[name]]!;
  }

  private is(byte: number, ...names: readonly SpecialCharacter[]): boolean {
    return byte !== DISABLED && names.some((name) => this.character(name) === byte);
  }

  private get isEdited(): boolean {
    return this.local('ICANON');
  }

  private changed(): void {
    this.changes++;
  }

  // ----------------------------------------------------------------------------------------- typed

  /** How many bytes were taken. */
  typed(bytes: Uint8Array): number {
    const taken = bytes.subarray(0, BYTES_MOST - this.waiting.length);
    this.waiting = [...this.waiting, ...taken];
    this.proceed();
    return taken.length;
  }

  get hasTypingRoom(): boolean {
    return this.waiting.length < BYTES_MOST;
  }

  private get held(): number {
    return this.lines.reduce((sum, line) => sum + line.length, 0) + this.edited.length;
  }

  /** Looks at what was typed, as far as it fits. */
  private proceed(): void {
    let done = 0;
    for (; done < this.waiting.length; done++) {
      const isFull = this.held >= LINES_MOST;
      // Without a line that can be read its end must come through.
      if (isFull && (!this.isEdited || this.lines.length > 0)) break;
      this.type(this.waiting[done]!);
    }
    if (done === 0) return;
    this.waiting = this.waiting.slice(done);
    this.commit();
    this.changed();
  }

  private type(typed: number): void {
    let byte = this.input('ISTRIP') ? typed & 0x7f : typed;
    if (this.input('IUCLC') && this.local('IEXTEN') && isUpper(byte)) byte |= 0x20;
    if (this.isLiteral) {
      this.isLiteral = false;
      this.add(byte);
      return;
    }
    if (this.input('IXON')) {
      if (this.is(byte, 'VSTART')) return this.start();
      if (this.is(byte, 'VSTOP')) {
        this.isStopped = true;
        return;
      }
      if (this.isStopped && this.input('IXANY')) this.start();
    }
    const signal = this.local('ISIG') ? SIGNALS.find(([name]) => this.is(byte, name)) : undefined;
    if (signal) return this.signal(byte, signal[1]);
    if (byte === RETURN) {
      if (this.input('IGNCR')) return;
      if (this.input('ICRNL')) byte = NEWLINE;
    } else if (byte === NEWLINE && this.input('INLCR')) byte = RETURN;
    if (this.isEdited) this.edit(byte);
    else this.add(byte);
  }

  private signal(byte: number, signal: number): void {
    if (!this.local('NOFLSH')) {
      this.lines = [];
      this.edited = [];
      this.echoes = [];
    }
    this.raise(signal);
    if (this.input('IXON')) this.start();
    if (this.local('ECHO')) this.echo(byte);
  }

  private edit(byte: number): void {
    const isExtended = this.local('IEXTEN');
    if (this.is(byte, 'VERASE')) return this.erase('character');
    if (this.is(byte, 'VKILL')) return this.kill(byte);
    if (isExtended && this.is(byte, 'VWERASE')) return this.erase('word');
    if (isExtended && this.is(byte, 'VLNEXT')) {
      this.isLiteral = true;
      if (this.local('ECHO') && this.local('ECHOCTL')) this.put([CARET, BACKSPACE]);
      return;
    }
    if (isExtended && this.is(byte, 'VREPRINT') && this.local('ECHO')) {
      this.echo(byte);
      this.put([NEWLINE]);
      for (const each of this.edited) this.echo(each);
      return;
    }
    if (byte === NEWLINE) {
      if (this.local('ECHO') || this.local('ECHONL')) this.put([NEWLINE]);
      return this.end([...this.edited, byte]);
    }
    if (this.is(byte, 'VEOF')) return this.end(this.edited);
    if (this.is(byte, 'VEOL') || (isExtended && this.is(byte, 'VEOL2'))) {
      if (this.local('ECHO')) this.echo(byte);
      return this.end([...this.edited, byte]);
    }
    if (this.held < LINES_MOST) this.add(byte);
  }

  private add(byte: number): void {
    if (this.edited.length === 0) this.lineColumn = this.column;
    if (this.local('ECHO')) this.echo(byte);
    this.edited.push(byte);
  }

  private end(line: readonly number[]): void {
    this.lines = [...this.lines, line];
    this.edited = [];
  }

  private kill(byte: number): void {
    if (!this.local('ECHO')) this.edited = [];
    else if (this.local('ECHOK') && this.local('ECHOKE') && this.local('ECHOE')) this.erase('line');
    else {
      this.edited = [];
      this.echo(byte);
      if (this.local('ECHOK')) this.put([NEWLINE]);
    }
  }

  private erase(what: 'character' | 'word' | 'line'): void {
    let hasWord = false;
    while (this.edited.length > 0) {
      let from = this.edited.length - 1;
      if (this.input('IUTF8')) while (from > 0 && isContinued(this.edited[from]!)) from--;
      const byte = this.edited[from]!;
      if (what === 'word') {
        if (isWord(byte)) hasWord = true;
        else if (hasWord) break;
      }
      this.edited = this.edited.slice(0, from);
      if (this.local('ECHO')) this.unecho(byte);
      if (what === 'character') break;
    }
  }

  /** Takes a character off the screen that is off the line. */
  private unecho(byte: number): void {
    if (!this.local('ECHOE')) return this.echo(this.character('VERASE'));
    if (byte === TAB) {
      let columns = 0;
      let isBehindTab = false;
      for (const each of [...this.edited].reverse()) {
        if (each === TAB) {
          isBehindTab = true;
          break;
        }
        if (isControl(each)) columns += this.local('ECHOCTL') ? 2 : 0;
        else if (!this.input('IUTF8') || !isContinued(each)) columns++;
      }
      if (!isBehindTab) columns += this.lineColumn;
      this.put(Array<number>(TABS - (columns % TABS)).fill(BACKSPACE));
      return;
    }
    const erased = [BACKSPACE, SPACE, BACKSPACE];
    if (!isControl(byte)) this.put(erased);
    else if (this.local('ECHOCTL')) this.put([...erased, ...erased]);
  }

  // ---------------------------------------------------------------------------------- what is read

  /** Bytes that a program can read now. */
  get readable(): number {
    return this.isEdited ? this.lines.reduce((sum, line) => sum + line.length, 0) : this.edited.length;
  }

  /** True when a read of so many bytes need not wait. */
  isReady(size: number): boolean {
    if (this.isEdited) return this.lines.length > 0;
    return this.edited.length >= Math.min(size, this.character('VMIN'));
  }

  /** How many bytes a read of so many would bring now. */
  brings(size: number): number {
    if (!this.isReady(size)) return 0;
    return Math.min(size, this.isEdited ? this.lines[0]!.length : this.edited.length);
  }

  /** Bytes of one line, or what there is; none at an end of file. */
  take(size: number): Uint8Array {
    let out: readonly number[];
    if (this.isEdited) {
      const [line = [], ...rest] = this.lines;
      out = line.slice(0, size);
      this.lines = line.length > size ? [line.slice(size), ...rest] : rest;
    } else {
      out = this.edited.slice(0, size);
      this.edited = this.edited.slice(size);
    }
    this.proceed();
    this.changed();
    return Uint8Array.from(out);
  }

  /** What was typed is gone. */
  flushTyped(): void {
    this.lines = [];
    this.edited = [];
    this.waiting = [];
    this.changed();
  }

  // --------------------------------------------------------------------------------------- printed

  /** Output stands still until `start`. */
  stop(): void {
    this.isStopped = true;
  }

  start(): void {
    if (!this.isStopped) return;
    this.isStopped = false;
    this.commit();
    this.changed();
  }

  get hasRoom(): boolean {
    return !this.isStopped && this.shown.length < BYTES_MOST;
  }

  /** How many bytes a program printed of these; 0: there is no room. */
  printed(bytes: Uint8Array): number {
    if (!this.hasRoom) return 0;
    const out: number[] = [];
    let done = 0;
    for (; done < bytes.length && this.shown.length + out.length < BYTES_MOST; done++) {
      out.push(...this.processed(bytes[done]!));
    }
    this.shown = [...this.shown, ...out];
    this.changed();
    return done;
  }

  /** What the master gets of a byte. */
  private processed(byte: number): readonly number[] {
    if (!this.output('OPOST')) return [byte];
    const before = this.column;
    switch (byte) {
      case NEWLINE:
        if (this.output('ONLRET') || this.output('ONLCR')) this.column = 0;
        return this.output('ONLCR') ? [RETURN, NEWLINE] : [NEWLINE];
      case RETURN:
        if (this.output('ONOCR') && before === 0) return [];
        if (!this.output('OCRNL')) {
          this.column = 0;
          return [RETURN];
        }
        if (this.output('ONLRET')) this.column = 0;
        return [NEWLINE];
      case TAB: {
        const spaces = TABS - (before % TABS);
        this.column += spaces;
        return (this.modesNow.output & this.model.output.XTABS) === this.model.output.XTABS
          ? Array<number>(spaces).fill(SPACE)
          : [TAB];
      }
      case BACKSPACE:
        if (this.column > 0) this.column--;
        return [byte];
      default:
        if (byte >= SPACE && byte !== DELETE && !(this.input('IUTF8') && isContinued(byte))) this.column++;
        return [this.output('OLCUC') && isLower(byte) ? byte & ~0x20 : byte];
    }
  }

  /** Prints what the terminal adds by itself. */
  private put(bytes: readonly number[]): void {
    this.echoes = [...this.echoes, ...bytes.flatMap((byte) => this.processed(byte))];
  }

  /** Shows the echo of what was typed at once, unless a signal has taken that away. */
  private commit(): void {
    if (this.isStopped) return;
    this.shown = [...this.shown, ...this.echoes];
    this.echoes = [];
  }

  private echo(byte: number): void {
    if (isControl(byte) && byte !== NEWLINE && this.local('ECHOCTL')) this.put([CARET, byte ^ 0x40]);
    else this.put([byte]);
  }

  /** Bytes that the master can read now. */
  get printedBytes(): number {
    return this.shown.length;
  }

  takePrinted(size: number): Uint8Array {
    const out = Uint8Array.from(this.shown.slice(0, size));
    this.shown = this.shown.slice(size);
    this.changed();
    return out;
  }

  /** What was printed and not read is gone. */
  flushPrinted(): void {
    this.shown = [];
    this.echoes = [];
    this.changed();
  }

  save(): () => void {
    const { modesNow, lines, waiting, shown, echoes, isStopped, isLiteral, column, lineColumn, changes } = this;
    const state = { modesNow, lines, waiting, shown, echoes, isStopped, isLiteral, column, lineColumn, changes };
    const edited = [...this.edited];
    return () => {
      Object.assign(this, state);
      this.edited = [...edited];
    };
  }
}
