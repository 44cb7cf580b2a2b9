/** Standard output and error, colour only on a terminal. */
import { fstatSync } from 'node:fs';
import { demangledText } from '../demangle/index.js';
import { visible, visibleJson, visibleLine } from '../visible.js';
import { writeAll } from './write-all.js';

/** Stands around what is written while a line of progress may be shown. */
let guard: ((write: () => void) => void) | null = null;

export function guardLines(around: ((write: () => void) => void) | null): void {
  guard = around;
}

function write(descriptor: 1 | 2, data: Uint8Array): void {
  if (guard === null) writeAll(descriptor, data);
  else {
    guard(() => {
      writeAll(descriptor, data);
    });
  }
}

const encoder = new TextEncoder();
let pending: string[] = [];
let pendingSize = 0;

/**
 * Standard output is a file of the command's (`-o -`): what is said about it goes to standard
 * error.
 */
let saysOnError = false;

export function claimStandardOutput(): void {
  saysOnError = true;
}

/** A command begins: standard output is for what it says. */
export function freeStandardOutput(): void {
  saysOnError = false;
  terminals.clear();
}

export function out(line: string): void {
  if (saysOnError) {
    err(line);
    return;
  }
  const shown = shownLine(line);
  pending.push(shown, '\n');
  pendingSize += shown.length + 1;
  if (pendingSize > 1 << 16) flush();
}

/** Sends buffered lines; called before the program ends and before bytes of a guest. */
export function flush(): void {
  if (pending.length === 0) return;
  const text = pending.join('');
  pending = [];
  pendingSize = 0;
  write(1, encoder.encode(text));
}

export function outBytes(bytes: Uint8Array): void {
  flush();
  write(1, bytes);
}

export function err(line: string): void {
  flush();
  write(2, encoder.encode(`${shownLine(line)}\n`));
}

export function errBytes(bytes: Uint8Array): void {
  flush();
  write(2, bytes);
}

const colours = {
  red: '31', green: '32', yellow: '33', blue: '34', magenta: '35', cyan: '36', gray: '90', dim: '2', bold: '1',
} as const; // prettier-ignore

/**
 * In front of the code of a colour inside of lines, until they are shown: no other text can hold
 * it.
 */
const COLOUR_MARK = `\ufdd0${Math.random().toString(36).slice(2)}:`;
const markOf = (code: string): string => `${COLOUR_MARK}${code};`;
const COLOUR_MARKS = new RegExp(`${COLOUR_MARK.replace('.', '\\.')}(\\d+);`);

/** What was found of standard output and error by this command: it is asked for at each line. */
const terminals = new Map<number, boolean>();

/** Whether standard output (1) or error (2) is a terminal. */
export function isTerminal(descriptor: 1 | 2): boolean {
  let is = terminals.get(descriptor);
  if (is === undefined) terminals.set(descriptor, (is = leadsToTerminal(descriptor)));
  return is;
}

/** The major number of `/dev/null` and its kin on Linux. */
const MEMORY_DEVICES = 1;

/**
 * Node makes a stream to say so, which most starts need for nothing else: what is no device is no
 * terminal, nor is `/dev/null`.
 */
function leadsToTerminal(descriptor: 1 | 2): boolean {
  try {
    const stats = fstatSync(descriptor);
    const isMemory = process.platform === 'linux' && ((stats.rdev >> 8) & 0xfff) === MEMORY_DEVICES;
    if (!stats.isCharacterDevice() || isMemory) return false;
  } catch {
    return false;
  }
  return (descriptor === 1 ? process.stdout : process.stderr).isTTY;
}

function isColoured(): boolean {
  return process.env['NO_COLOR'] === undefined && isTerminal(1);
}

/** Whether symbols of C++ and Rust are shown as the names that they stand for. */
let isDemangled = false;

/** A command begins. @param is  what it prints is text for people */
export function showNames(is: boolean): void {
  isDemangled = is;
}

/** A line feed of ours has an indented line behind it; any other comes from a name. */
const shownText = (text: string): string =>
  visible(isDemangled ? demangledText(text) : text).replace(/\n(?![ \t])/g, '\\x0a');

/** A line as it is written: whatever it quotes is visible, and only our own colours are colours. */
function shownLine(line: string): string {
  if (/^\{["\n}]/.test(line)) return visibleJson(line);
  if (!isColoured()) return shownText(line);
  // Text and codes by turns.
  return line
    .split(COLOUR_MARKS)
    .map((piece, i) => (i % 2 === 0 ? shownText(piece) : `\u001b[${piece}m`))
    .join('');
}

let progressShown = false;

/** True where standard error is a terminal. */
export function watched(): boolean {
  return isTerminal(2);
}

/**
 * Shows how far a command is, in one line of a terminal that the next call writes over; '' takes it
 * away.
 */
export function progress(text: string): void {
  if (!watched() || (text === '' && !progressShown)) return;
  progressShown = text !== '';
  flush();
  write(2, encoder.encode(`\r${visibleLine(text).slice(0, 110)}\u001b[K`));
}

/** Marks text for a colour where standard output is a terminal and NO_COLOR is not set. */
export function paint(colour: keyof typeof colours, text: string): string {
  return isColoured() ? markOf(colours[colour]) + text + markOf('0') : text;
}
