/**
 * The libraries that a linked file asks for (DT_NEEDED), read as a dynamic loader reads them: from
 * PT_DYNAMIC, without sections.
 */
import { ByteView } from '../bytes.js';
import { DT_NEEDED, DT_NULL, DT_STRSZ, DT_STRTAB, PT_DYNAMIC, PT_LOAD } from './constants.js';
import type { ElfImage } from './image.js';

/** Names of libraries in the order of the file; empty for static files. */
export function neededLibraries(image: ElfImage): readonly string[] {
  const dynamic = image.segments.find((each) => each.type === PT_DYNAMIC);
  if (!dynamic) return [];
  const { wordBytes } = image;
  const view = new ByteView(image.bytes, image.header.endian);
  const end = Math.min(dynamic.offset + dynamic.fileSize, image.bytes.length);
  const entries: (readonly [bigint, bigint])[] = [];
  for (let at = dynamic.offset; at + 2 * wordBytes <= end; at += 2 * wordBytes) {
    const tag = view.word(at, wordBytes);
    if (tag === DT_NULL) break;
    entries.push([tag, view.word(at + wordBytes, wordBytes)]);
  }
  const valueOf = (wanted: bigint): bigint | undefined => entries.find(([tag]) => tag === wanted)?.[1];
  const [table, size] = [valueOf(DT_STRTAB), valueOf(DT_STRSZ)];
  const home = image.segments.find(
    (each) =>
      each.type === PT_LOAD &&
      table !== undefined &&
      table >= each.address &&
      table < each.address + BigInt(each.fileSize),
  );
  if (table === undefined || size === undefined || !home) return [];
  const start = home.offset + Number(table - home.address);
  const text = image.bytes.subarray(start, start + Number(size));
  return entries.flatMap(([tag, value]) => {
    if (tag !== DT_NEEDED || value >= BigInt(text.length)) return [];
    const from = Number(value);
    const to = text.indexOf(0, from);
    return to === -1 ? [] : [new TextDecoder().decode(text.subarray(from, to))];
  });
}
