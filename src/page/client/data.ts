/** The data of the page: unpacked once, then asked by position. */
import { type Columns, unpackBlock } from '../columns.js';
import type { PageHead } from '../model.js';

export interface Data {
  readonly head: PageHead;
  readonly columns: Columns;
  /** A text by its position. */
  readonly text: (at: number) => string;
  /** The name to show of a symbol: demangled where it is. */
  readonly name: (at: number) => string;
  readonly column: (name: string) => Columns[string];
}

/** @throws where the block is damaged, or the browser cannot unpack it */
export async function readData(): Promise<Data> {
  const holder = document.getElementById('data')!;
  const letters = atob(holder.textContent);
  holder.remove();
  const small = new Uint8Array(letters.length);
  for (let i = 0; i < small.length; i++) small[i] = letters.charCodeAt(i);
  const stream = new Blob([small]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const { head, columns } = unpackBlock<PageHead>(new Uint8Array(await new Response(stream).arrayBuffer()));
  const names = new Map<number, number>();
  for (let i = 0; i < head.demangled.length; i += 2) names.set(head.demangled[i]!, head.demangled[i + 1]!);
  const empty = new Uint8Array(0);
  return {
    head,
    columns,
    text: (at) => head.strings[at]!,
    name: (at) => head.strings[names.get(at) ?? at]!,
    column: (name) => columns[name] ?? empty,
  };
}

/** Ranks of texts: their order without comparing them again. */
export function ranksOf(column: Columns[string], text: (at: number) => string): Float64Array {
  const used = [...new Set(column)].map((at) => ({ at, text: text(at) }));
  used.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0));
  const rank = new Map(used.map(({ at }, i) => [at, i]));
  return Float64Array.from(column, (at) => rank.get(at)!);
}

/** `0x…` of two halves. */
export const address = (high: number, low: number): string =>
  high === 0 ? `0x${low.toString(16)}` : `0x${high.toString(16)}${low.toString(16).padStart(8, '0')}`;
