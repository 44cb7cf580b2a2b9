/** Standard output and error, colour only on a terminal. */
import { writeSync } from 'node:fs';
import { visible, visibleJson } from '../visible.js';

/** Writes everything even to a pipe that takes it in pieces; a reader that went away ends the program quietly. */
function writeAll(descriptor: 1 | 2, data: Uint8Array): void {
  let at = 0;
  while (at < data.length) {
    try {
      at += writeSync(descriptor, data, at);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : '';
      if (code === 'EAGAIN') continue;
      if (code === 'EPIPE') process.exit(0);
      throw error;
    }
  }
}

const encoder = new TextEncoder();
let pending: string[] = [];
let pendingSize = 0;

/** Standard output is a file of the command's (`-o -`): what is said about it goes to standard error. */
let saysOnError = false;

export function claimStandardOutput(): void {
  saysOnError = true;
}

/** A command begins: standard output is for what it says. */
export function freeStandardOutput(): void {
  saysOnError = false;
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
  writeAll(1, encoder.encode(text));
}

export function outBytes(bytes: Uint8Array): void {
  flush();
  writeAll(1, bytes);
}

export function err(line: string): void {
  flush();
  writeAll(2, encoder.encode(`${shownLine(line)}\n`));
}

export function errBytes(bytes: Uint8Array): void {
  flush();
  writeAll(2, bytes);
}

const colours = { red: '31', green: '32', yellow: '33', dim: '2', bold: '1' } as const;

/** Marks of colours inside lines, until they are shown: characters that Unicode keeps for such use. */
const COLOUR_MARKS: Readonly<Record<string, string>> = Object.fromEntries(
  ['0', ...Object.values(colours)].map((code, i) => [String.fromCharCode(0xfdd0 + i), `\u001b[${code}m`]),
);
const markOf = (code: string): string =>
  Object.keys(COLOUR_MARKS).find((mark) => COLOUR_MARKS[mark] === `\u001b[${code}m`)!;

function isColoured(): boolean {
  return process.stdout.isTTY && process.env['NO_COLOR'] === undefined;
}

/** A line as it is written: whatever it quotes is visible, and only our own colours are colours. */
function shownLine(line: string): string {
  if (line.startsWith('{')) return visibleJson(line);
  const text = visible(line);
  if (!isColoured()) return text;
  return text.replace(/[\ufdd0-\ufdd5]/g, (mark) => COLOUR_MARKS[mark]!);
}

/** Marks text for a colour where standard output is a terminal and NO_COLOR is not set. */
export function paint(colour: keyof typeof colours, text: string): string {
  return isColoured() ? markOf(colours[colour]) + text + markOf('0') : text;
}
