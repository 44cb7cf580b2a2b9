/**
 * Executes plans; `revert.ts` is the way back. All or nothing: every `before` is compared first,
 * then fresh bytes are written; the input is never changed. Bytes outside the
 * plan, the record and the headers that carry it are the input's bytes.
 */
import { concatBytes, type Pieces, whole } from '../bytes.js';
import { PT_LOAD, SHF_INFO_LINK, SHT_NOTE, SHT_RELA, SHT_SYMTAB } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { ascending } from '../elf/lookup.js';
import { readElf } from '../elf/read.js';
import { readModuleSignature } from '../elf/signature.js';
import { type Growth, type NewSection, whyNoNoteSegment, whyNoSections, type Written, writeElf } from '../elf/write.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { sha256, type Sha256 } from '../sha256.js';
import { version } from '../version.js';
import {
  checkAgrees,
  type FileRecord,
  mergeEdits,
  readRecord,
  recordNoteType,
  recordOwner,
  recordSchema,
  recordSection,
} from '../record/journal.js';
import type { GoneModule } from '../record/gone-modules.js';
import { EditColumns, type JournalEdit } from '../record/edit-columns.js';
import { encodeWithEdits } from '../record/encode.js';
import { type Additions, additionRows, type Plan } from './plan.js';
import { editsOf, stepAt, stepCount } from './step-columns.js';
import { withoutCarrier } from './undo.js';

/**
 * Whether a record can be a part of the file: as a section, or as a segment where it has no
 * sections.
 */
function canCarryRecord(image: ElfImage): boolean {
  return whyNoSections(image) === null || whyNoNoteSegment(image) === null;
}

export interface ApplyOptions {
  /**
   * Where the record goes: into the file as a note (default), or back to the caller, who keeps it
   * beside the file, for files whose size must not change or that will be stripped.
   */
  readonly record?: 'note' | 'beside';
  /** Record of an earlier patch that was kept beside the file. */
  readonly earlier?: FileRecord | null;
  readonly hash?: Sha256;
  /**
   * The image is one that a runtime was laid into for this plan: what was there before is what
   * `revert` gives.
   */
  readonly injected?: boolean;
  /** Texts of the session files that the plan carries out. */
  readonly session?: readonly string[];
  /** Options that decided the bytes of the session. */
  readonly forms?: Readonly<Record<string, string>>;
  /**
   * Parts that were brought into the image for the plan, and modules that sessions knew and that
   * are gone.
   */
  readonly brought?: readonly string[];
  readonly gone?: readonly GoneModule[];
  /** The record is kept even where nothing changes. */
  readonly keep?: boolean;
  /**
   * Called before every store; returning false refuses it (EPERM). What tests and read-only ranges
   * hang on.
   */
  readonly mayStore?: (fileOffset: number, bytes: Uint8Array) => boolean;
}

export interface Applied extends Pieces {
  /** The file, made as a whole when it is asked for. */
  readonly bytes: Uint8Array;
  /** Net edits of this plan, sorted by offset, not overlapping, in positions of the input. */
  readonly edits: readonly JournalEdit[];
  /** Complete record of the result; encoded for a file of its own when it was asked for beside. */
  readonly record: FileRecord | null;
  readonly recordBytes: Uint8Array | null;
  /** What was added or cut, for people. */
  readonly notices: readonly string[];
}

const padded = (size: number): number => Math.ceil(size / 4) * 4;

const noteName = new TextEncoder().encode(`${recordOwner}\0`);
/** In front of a note's descriptor: three words and the name, padded. */
const NOTE_FRONT = 12 + padded(noteName.length);

/**
 * A note as bytes: name size, descriptor size, type, padded name, padded descriptor, in the file's
 * byte order.
 */
export function noteBytes(descriptor: Uint8Array, littleEndian: boolean): Uint8Array {
  const note = new Uint8Array(padded(NOTE_FRONT + descriptor.length));
  note.set(descriptor, NOTE_FRONT);
  return completeNote(note.subarray(0, NOTE_FRONT + descriptor.length), littleEndian);
}

/** The same of a descriptor with room in front, which is written to, and zeros behind, if any. */
function completeNote(note: Uint8Array, littleEndian: boolean): Uint8Array {
  const put = (offset: number, value: number): void => {
    for (let i = 0; i < 4; i++) note[offset + (littleEndian ? i : 3 - i)] = (value >>> (8 * i)) & 0xff;
  };
  put(0, noteName.length);
  put(4, note.length - NOTE_FRONT);
  put(8, recordNoteType);
  note.set(noteName, 12);
  const { buffer, byteOffset, length } = note;
  const size = padded(length);
  if (byteOffset + size <= buffer.byteLength) return new Uint8Array(buffer, byteOffset, size);
  return concatBytes([note, new Uint8Array(size - length)]);
}

/**
 * Whether a file in which nothing is to be done gets a record all the same, so that `revert` knows
 * it: not one that has a record already, nor one that is signed or cannot carry a record, which
 * stays as it is.
 * @param beside  the record is kept in a file of its own
 */
export function keepsEmptyRecord(plan: Plan, image: ElfImage, record: FileRecord | null, beside: boolean): boolean {
  if (stepCount(plan) > 0 || plan.additions !== undefined || record !== null) return false;
  return beside || (!readModuleSignature(image.bytes) && canCarryRecord(image));
}

/** Whether every place holds its `before`, and may be stored to. */
function checkSteps(bytes: Uint8Array, plan: Plan, edits: EditColumns, mayStore: ApplyOptions['mayStore']): void {
  const other = edits.firstOther(bytes);
  if (other < edits.count) {
    const { section, address, fileOffset, before } = stepAt(plan, other);
    const actual = bytes.subarray(fileOffset, fileOffset + before.length);
    throw new ElftraceError(
      'site-mismatch',
      `${section}+${hex(address)}: expected ${hexBytes(before)}, actual ${hexBytes(actual)}; nothing was written`,
      { section, address, fileOffset, expected: hexBytes(before), actual: hexBytes(actual) },
    );
  }
  if (!mayStore) return;
  for (const { section, address, fileOffset, after } of plan.steps) {
    if (mayStore(fileOffset, after)) continue;
    throw new ElftraceError('site-mismatch', `${section}+${hex(address)}: the store was refused (EPERM)`, {
      section,
      address,
      fileOffset,
    });
  }
}

/**
 * The record of a file that was patched before: in the file, or beside it.
 * @throws ElftraceError 'state-mismatch' where it and the bytes disagree, 'unsupported-form' for
 *   what cannot be patched twice
 */
function earlierRecord(
  image: ElfImage,
  plan: Plan,
  options: ApplyOptions,
): { readonly inside: FileRecord | null; readonly earlier: FileRecord | null } {
  const inside = readRecord(image);
  const earlier = inside ?? options.earlier ?? null;
  if (earlier) checkAgrees(earlier, image.bytes);

  if ((inside !== null && hasAdditions(image, inside)) || (plan.additions && options.record === 'beside')) {
    throw new ElftraceError(
      'unsupported-form',
      inside === null
        ? 'the plan adds relocations: the record goes into the file'
        : 'the file was given relocations or code by an earlier patch: revert it first',
    );
  }
  return { inside, earlier };
}

/** The original with earlier edits in it and nothing appended, and what of it does not stay. */
interface Base {
  readonly image: ElfImage;
  readonly earlier: FileRecord | null;
  /** An appended signature goes. */
  readonly dropTrailing: boolean;
  readonly cut: Uint8Array;
  readonly keptSize: number;
  readonly notices: readonly string[];
}

function baseOf(image: ElfImage, inside: FileRecord | null, earlier: FileRecord | null): Base {
  const baseBytes = withoutCarrier(image, inside);
  const base = inside ? readElf(baseBytes) : image;
  const trailing = base.bytes.subarray(base.elfSize);
  const signature = trailing.length > 0 ? readModuleSignature(base.bytes) : null;
  // A signature over a file that was patched before is not part of the original: it goes and does
  // not come back.
  const overPatched = earlier ? (signature ?? readModuleSignature(image.bytes)) : null;
  const cut = earlier?.cut ?? (signature ? base.bytes.slice(base.elfSize) : new Uint8Array(0));
  const lost = overPatched?.size ?? (signature ? cut.length : 0);
  const notices: string[] = [];
  if (lost > 0) notices.push(`the appended module signature (${lost} bytes) was cut: it no longer holds`);
  if (hasBuildId(image)) notices.push('the build-id note no longer reflects the contents of the file');
  const keptSize = base.bytes.length - (signature ? trailing.length : 0);
  return { image: base, earlier, dropTrailing: signature !== null, cut, keptSize, notices };
}

/**
 * Whether the record needs a segment, because the file has no sections.
 * @throws ElftraceError 'unsupported-form' where it can have neither
 */
function needsSegment(base: ElfImage): boolean {
  if (whyNoSections(base) === null) return false;
  const reason = whyNoNoteSegment(base);
  if (reason === null) return true;
  throw new ElftraceError(
    'unsupported-form',
    `the file cannot carry the record (${whyNoSections(base) ?? ''}; ${reason}): keep it beside the file with --journal`,
  );
}

/** Headers of a file that carrying the record changes. */
function changedHeaders({ bytes, header }: ElfImage, useSegment: boolean): { offset: number; bytes: Uint8Array }[] {
  const { is64, phoff, phnum, phentsize } = header;
  return [
    // Its size by class: e_ehsize may say anything.
    { offset: 0, bytes: bytes.slice(0, is64 ? 64 : 52) },
    ...(useSegment ? [{ offset: phoff, bytes: bytes.slice(phoff, phoff + phnum * phentsize) }] : []),
  ];
}

/**
 * Applies a plan that was made for `image`.
 * @throws ElftraceError 'site-mismatch' when a place does not hold its `before`; nothing is written
 *   then. 'unsupported-form'
 *         when the file cannot carry the record (ask for it beside the file).
 */
export function applyPlan(image: ElfImage, plan: Plan, options: ApplyOptions = {}): Applied {
  const { bytes } = image;
  const edits = editsOf(plan);
  checkSteps(bytes, plan, edits, options.mayStore);
  if (edits.count === 0 && plan.additions === undefined && options.keep !== true) {
    const { size, pieces } = whole(bytes);
    const nothing = { edits: [], record: null, recordBytes: null, notices: [] };
    return { bytes: bytes.slice(), size, pieces, ...nothing };
  }
  const { inside, earlier } = earlierRecord(image, plan, options);
  const base = baseOf(image, inside, earlier);
  const { dropTrailing, cut, keptSize, notices } = base;
  const hash = options.hash ?? sha256;
  const wanted = options.record ?? 'note';
  const useSegment = wanted === 'note' && needsSegment(base.image);
  const before = earlier?.edits ?? [];
  const all = before.length === 0 ? edits : EditColumns.of(mergeEdits(before, edits.asEdits, bytes));
  const record: FileRecord = {
    schema: recordSchema,
    tool: version,
    sha256: earlier?.sha256 ?? hash(image.bytes),
    originalSize: earlier?.originalSize ?? image.bytes.length,
    keptSize: earlier?.keptSize ?? keptSize,
    headers: wanted === 'note' ? changedHeaders(base.image, useSegment) : [],
    requests: [...(earlier?.requests ?? []), plan.request],
    injected: earlier?.injected ?? options.injected ?? false,
    session: options.session ?? [],
    forms: options.forms ?? {},
    brought: options.brought ?? [],
    gone: options.gone ?? [],
    untraced: ascending(earlier === null ? (plan.untraced ?? []) : earlier.untraced.concat(plan.untraced ?? [])),
    get edits() {
      return all.asEdits;
    },
    cut,
  };
  const applied = (written: Written, recordBytes: Uint8Array | null): Applied => ({
    size: written.size,
    pieces: () => written.pieces(),
    get bytes() {
      return written.bytes;
    },
    get edits() {
      return edits.asEdits;
    },
    record,
    recordBytes,
    notices,
  });
  if (wanted === 'beside') {
    return applied(writeElf(base.image, { patches: edits, dropTrailing }), encodeWithEdits(record, all));
  }
  const contents = completeNote(encodeWithEdits(record, all, NOTE_FRONT), image.header.endian === 'little');
  const carrier = useSegment
    ? { noteSegment: { contents, alignBytes: 4 as const } }
    : sectionsWith(base.image, plan, contents);
  return applied(writeElf(base.image, { patches: edits, dropTrailing, ...carrier }), null);
}

/** The section of the record, and those that relocations of the plan need. */
function sectionsWith(
  base: ElfImage,
  { additions }: Plan,
  contents: Uint8Array,
): Omit<Parameters<typeof writeElf>[1], 'patches'> {
  const added = additions ? additionsOf(base, additions) : null;
  return {
    ...(added ? { growSections: added.grown, undefinedSymbols: additions!.symbols } : {}),
    appendSections: [
      ...(added?.sections ?? []),
      { name: recordSection, type: SHT_NOTE, flags: 0n, link: 0, info: 0, alignBytes: 4, entrySize: 0, contents },
    ],
  };
}

/** Sections that a plan's relocations grow, or make. */
function additionsOf(image: ElfImage, additions: Additions): { grown: Growth[]; sections: NewSection[] } {
  const grown: Growth[] = [];
  const sections: NewSection[] = [];
  for (const [target, rows] of additionRows(image, additions)) {
    const section = image.sections[target]!;
    const table = image.relocationsOf(section).find((each) => each.form === 'rela' && each.section >= 0);
    if (table !== undefined) grown.push({ index: table.section, appended: rows });
    else {
      sections.push({
        name: `.rela${section.name}`,
        type: SHT_RELA,
        flags: SHF_INFO_LINK,
        link: image.symbols.section,
        info: target,
        alignBytes: image.wordBytes,
        entrySize: 3 * image.wordBytes,
        contents: rows,
      });
    }
  }
  return { grown, sections };
}

/**
 * Whether a patch of before gave the file relocations, symbols or code: they lie behind what the
 * record keeps, where no later step reaches them, and what it kept would lose them.
 */
function hasAdditions(image: ElfImage, { keptSize }: FileRecord): boolean {
  if (image.segments.some(({ type, offset }) => type === PT_LOAD && offset >= keptSize)) return true;
  return image.sections.some(
    ({ index, type, offset }) =>
      (type === SHT_RELA || type === SHT_SYMTAB) && offset >= keptSize && index !== image.header.shstrndx,
  );
}

function hasBuildId(image: ElfImage): boolean {
  return image.section('.note.gnu.build-id') !== undefined;
}
