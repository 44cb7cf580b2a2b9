/**
 * What a command is at, on a terminal, once it has taken more than a second. A thread of its own
 * draws it, since most work is one long step; a word of shared memory keeps the two from writing at
 * once.
 */
import { writeSync } from 'node:fs';
import { guardLines, isTerminal } from './terminal.js';

/** States of the shared word. */
const FREE = 0;
const HELD = 1;
/** Nothing is drawn any more. */
const OVER = 2;

/** Milliseconds before the first line, and between two. */
const PATIENCE = 1000;
const INTERVAL = 250;
const COLUMNS = 78;

const ERASE = '\r\u001b[K';

/**
 * The thread. Words: lock, whether a line is shown, then the length and letters of what is done.
 */
const drawer = `
const { workerData } = require('node:worker_threads');
const { writeSync } = require('node:fs');
const { words, patience, interval, columns } = workerData;
const state = new Int32Array(words);
const started = Date.now();
setTimeout(function draw() {
  const before = Atomics.compareExchange(state, 0, ${FREE}, ${HELD});
  if (before === ${OVER}) return;
  if (before === ${FREE}) {
    const text = String.fromCharCode(...state.subarray(3, 3 + state[2]));
    const seconds = ' ' + Math.round((Date.now() - started) / 1000) + ' s';
    try { writeSync(2, '\\r' + text.slice(0, columns - seconds.length) + seconds + '\\u001b[K'); } catch {}
    state[1] = 1;
    Atomics.store(state, 0, ${FREE});
    Atomics.notify(state, 0);
  }
  setTimeout(draw, interval);
}, patience);
`;

let state: Int32Array | null = null;

/** Whether a person may look: a terminal that understands, and no log of a build machine. */
function isWatched(): boolean {
  const { CI, TERM } = process.env;
  return isTerminal(2) && (CI === undefined || CI === '') && TERM !== 'dumb';
}

function withLine(work: () => void): void {
  const words = state!;
  while (Atomics.compareExchange(words, 0, FREE, HELD) !== FREE) Atomics.wait(words, 0, HELD, 10);
  if (words[1] === 1) writeSync(2, ERASE);
  words[1] = 0;
  work();
  Atomics.store(words, 0, FREE);
}

/**
 * Begins to show what is done; nothing where no person looks.
 * @returns ends it, with the line erased
 */
export function startProgress(text: string): () => void {
  if (state !== null || !isWatched()) return () => undefined;
  const { Worker } = process.getBuiltinModule('node:worker_threads');
  const words = new SharedArrayBuffer((3 + COLUMNS) * Int32Array.BYTES_PER_ELEMENT);
  state = new Int32Array(words);
  progress(text);
  const workerData = { words, patience: PATIENCE, interval: INTERVAL, columns: COLUMNS };
  const worker = new Worker(drawer, { eval: true, workerData });
  worker.unref();
  guardLines(withLine);
  return () => {
    guardLines(null);
    if (state === null) return;
    withLine(() => undefined);
    Atomics.store(state, 0, OVER);
    state = null;
    void worker.terminate();
  };
}

/** What is done now. */
export function progress(text: string): void {
  if (state === null) return;
  // Names of files may hold anything: a terminal gets printable ASCII.
  const letters = [...text.slice(0, COLUMNS).replace(/[^ -~]/g, '?')].map((each) => each.charCodeAt(0));
  state[2] = 0;
  state.set(letters, 3);
  state[2] = letters.length;
}
