/**
 * The register frame that a callback is handed (PV-1, 4): each word that its convention lists holds
 * what the machine had at the site, when the callback is called.
 */
import type { FrameRow, FrameValue, FrameWord } from '../machine/proof.js';
import type { Address } from '../units.js';
import type { Registers } from './world.js';

/** Frames at a site. */
export interface WantedFrame {
  readonly row: FrameRow;
  /** A callback needs all registers. */
  readonly full: boolean;
}

/** What a frame is compared with, and how it is read. */
export interface FrameContext {
  /** Registers where the site began. */
  readonly before: Registers;
  /** The ip that the callback was told. */
  readonly ip: Address;
  readonly behind: Address;
  readonly returnAddress: Address;
  /** What may be there instead of the return address: where those send it that took it. */
  readonly handlers: readonly (Address | null)[];
  /** Kinds of callbacks of the site that write words of their own. */
  readonly writers: ReadonlySet<FrameWord['writer']>;
  readonly wordBytes: 4 | 8;
  /** The original's site itself overwrites a register: nothing can need it. */
  overwritten(name: string): boolean;
  register(name: string): bigint;
  word(address: Address): bigint;
}

const hex = (value: bigint): string => `0x${value.toString(16)}`;

function valuesOf(holds: FrameValue, frame: Address, context: FrameContext): readonly bigint[] {
  switch (holds.is) {
    case 'register':
      return [context.before.get(holds.name)];
    case 'return':
      return [context.returnAddress];
    case 'behind':
      return [holds.ip === null ? context.behind : context.ip + holds.ip];
    case 'frame':
      return [BigInt.asUintN(8 * context.wordBytes, frame + holds.at)];
    default:
      return holds.values;
  }
}

const nameOf = (holds: FrameValue): string =>
  holds.is === 'register'
    ? holds.name
    : holds.is === 'return'
      ? 'the return address'
      : holds.is === 'behind'
        ? 'the way back'
        : holds.is === 'frame'
          ? 'a link to a frame'
          : 'a constant';

/** The first word of a list that is not as it must be, in a sentence; null: all are. */
function wrongWord(words: readonly FrameWord[], frame: Address, context: FrameContext): string | null {
  for (const { at, holds, writer } of words) {
    const found = context.word(frame + BigInt(at));
    const wanted = valuesOf(holds, frame, context);
    if (wanted.includes(found)) continue;
    if (holds.is === 'register' && context.overwritten(holds.name)) continue;
    if (writer === 'graph' && context.handlers.includes(found)) continue;
    if (writer !== undefined && writer !== 'graph' && context.writers.has(writer)) continue;
    return `word ${at} of the frame (${nameOf(holds)}) is ${hex(found)}, not ${hex(wanted[0]!)}`;
  }
  return null;
}

/** Frames of the list function, and of what it calls callbacks by. */
const FRAMES_BETWEEN = 3;

/** Whether a chain of frames, each with the address of the next in its first word, comes to one. */
function leadsTo(frame: Address, wanted: Address, { word }: FrameContext): boolean {
  for (let i = 0, at = frame; i <= FRAMES_BETWEEN; i++, at = word(at)) if (at === wanted) return true;
  return false;
}

/**
 * What is wrong with a frame, in a sentence; null: nothing.
 * @param frame  what the callback was handed as its fourth argument
 * Source: PV-1, 4
 */
export function wrongFrame({ row, full }: WantedFrame, frame: Address, context: FrameContext): string | null {
  if (frame === 0n) {
    if (row.plain !== null) return 'got no frame';
    return full ? 'got no frame, and asked for all registers' : null;
  }
  const isFull =
    row.full !== null &&
    (full || row.plain === null || (row.mark !== null && context.word(frame + BigInt(row.mark)) !== 0n));
  const wrong = wrongWord(isFull ? row.full! : row.plain!, frame, context);
  if (wrong !== null) return wrong;
  for (const { name, holds } of row.registers) {
    const [found, wanted] = [context.register(name), valuesOf(holds, frame, context)];
    if (!wanted.some((each) => leadsTo(found, each, context)))
      return `found ${name} = ${hex(found)}, not ${hex(wanted[0]!)}`;
  }
  return null;
}
