/**
 * What keeps a file from writing its own trace, decided before anything is made of it. Each refusal
 * has a word for programs in `context.reason`.
 */
import { ByteView, cString } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import type { NativeTracing, ThreadSlots } from '../machine/native-tracing.js';
import { readRecord } from '../record/journal.js';
import type { Sites } from '../sites/sites.js';
import { guardOf } from './guarded.js';

/** Words for programs: why a file is refused. */
export type NativeRefusal =
  | 'machine'
  | 'relocatable'
  | 'already-patched'
  | 'trailing-data'
  | 'no-sections'
  | 'no-sites'
  | 'no-thread-slot'
  | 'no-room'
  | 'too-small'
  | 'no-unwind-tables'
  | 'tracer'
  | 'text-too-large'
  | 'values'
  | 'returns'
  | 'trigger'
  | 'too-many'
  | 'counts'
  | 'no-times'
  | 'no-records'
  | 'set-id'
  | 'packed'
  | 'signed'
  | 'self-checking'
  | 'other-machine'
  | 'origin';

export function refused(reason: NativeRefusal, message: string): ElftraceError {
  const code = reason === 'machine' || reason === 'other-machine' ? 'unsupported-machine' : 'unsupported-form';
  return new ElftraceError(code, message, { reason });
}

/** Strings that entries of the dynamic section with a tag name. */
export function dynamicStrings(image: ElfImage, tag: bigint): string[] {
  const segment = image.segments.find(({ type }) => type === elf.PT_DYNAMIC);
  if (segment === undefined) return [];
  const view = new ByteView(image.bytes, image.header.endian);
  const word = image.wordBytes;
  const entries: [bigint, bigint][] = [];
  for (let at = segment.offset; at + 2 * word <= segment.offset + segment.fileSize; at += 2 * word) {
    entries.push([view.word(at, word), view.word(at + word, word)]);
    if (entries.at(-1)![0] === elf.DT_NULL) break;
  }
  const table = entries.find(([key]) => key === elf.DT_STRTAB)?.[1];
  const start = table === undefined ? -1 : image.fileOffsetOf(table);
  if (start < 0) return [];
  return entries.flatMap(([key, value]) =>
    key === tag && start + Number(value) < image.bytes.length
      ? [cString(image.bytes, start + Number(value), image.bytes.length)]
      : [],
  );
}

/** Functions of a static program that only musl has. */
const MUSL_SYMBOLS = ['__init_libc', '__init_tp'] as const;

/** Whether bytes stand in what is executed. */
function hasCode({ segments, bytes }: ElfImage, code: Uint8Array): boolean {
  return segments
    .filter(({ type, flags }) => type === elf.PT_LOAD && (flags & elf.PF_X) !== 0)
    .some(({ offset, fileSize }) =>
      Buffer.from(bytes.buffer, bytes.byteOffset + offset, fileSize).includes(Buffer.from(code)),
    );
}

/** The C library in whose control blocks the runtime may keep a word; null: it is none of these. */
function slotsOf(image: ElfImage, all: AnyTracing['slots']): ThreadSlots | null {
  const interpreter = image.segments.find(({ type }) => type === elf.PT_INTERP);
  if (interpreter !== undefined) {
    const path = cString(image.bytes, interpreter.offset, interpreter.offset + interpreter.fileSize);
    return all.find(({ loaders }) => loaders.includes(path.split('/').at(-1)!)) ?? null;
  }
  const needed = dynamicStrings(image, elf.DT_NEEDED);
  const linked = all.find(({ libraries, loaders }) => needed.some((name) => [...libraries, ...loaders].includes(name)));
  if (linked !== undefined) return linked;
  // A static program: start-up files of the GNU C library say for which system they are.
  const isDynamic = image.segments.some(({ type }) => type === elf.PT_DYNAMIC);
  const isProgram = image.header.type === elf.ET_EXEC || (isDynamic && image.header.entry !== 0n);
  if (!isProgram) return null;
  const NT_GNU_ABI_TAG = 1;
  const isGlibc = image.notes().some(({ owner, type }) => owner === 'GNU' && type === NT_GNU_ABI_TAG);
  if (isGlibc) return all.find(({ library }) => library === 'glibc') ?? null;
  const isNamed = MUSL_SYMBOLS.every((name) => image.symbols.find(name) > 0);
  return all.find(({ threadSetter }) => threadSetter !== null && (isNamed || hasCode(image, threadSetter))) ?? null;
}

type AnyTracing = Extract<NativeTracing, { kind: 'runtime' }>;

/** What the machine brings for a C library. */
export type RuntimeTracing = Omit<AnyTracing, 'slots'> & { readonly slots: ThreadSlots };

/**
 * What the machine brings, for a file that can take it.
 * @throws ElftraceError 'unsupported-form', 'unsupported-machine'; `context.reason` is a
 *   NativeRefusal
 */
export function tracingOf({ program, count }: Sites): RuntimeTracing {
  const { image, arch } = program;
  const { nativeTracing } = arch;
  if (nativeTracing.kind === 'none') {
    throw refused('machine', `${arch.target.title}: programs do not write their own trace: ${nativeTracing.reason}`);
  }
  if (program.relocatable)
    throw refused('relocatable', 'a relocatable file is linked first; tables of objects are made by elftrace mcount');
  if (readRecord(image) !== null) throw refused('already-patched', 'the file carries a record: revert it first');
  const guard = guardOf(image);
  if (guard !== null) throw refused(guard.reason, guard.message);
  if (image.bytes.length > image.elfSize) {
    throw refused('trailing-data', 'data lies behind the ELF file, which the program may look for at its end');
  }
  if (count === 0 && image.header.shnum === 0) {
    const told = 'neither calls of a profiling entry nor words in its data tell its sites without doubt';
    throw refused(
      'no-sections',
      `the file has no section headers, and ${told}: keep them, or compile with ${nativeTracing.options.shortest}`,
    );
  }
  if (count === 0) {
    throw refused('no-sites', `the file has no sites: compile with ${nativeTracing.options.all}`);
  }
  const slots = slotsOf(image, nativeTracing.slots);
  if (slots === null) {
    const libraries = nativeTracing.slots.map(({ library }) => library).join(' or ');
    throw refused(
      'no-thread-slot',
      `the runtime keeps a word for each thread where ${libraries} leaves room, and this file uses another C library or none`,
    );
  }
  const { runtime, graph } = nativeTracing;
  return {
    ...nativeTracing,
    slots,
    runtime: runtime + slots.suffix,
    graph: graph && { ...graph, runtime: graph.runtime + slots.suffix },
  };
}
