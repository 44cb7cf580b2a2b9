/**
 * Relocations that a linker kept (--emit-relocs) follow what is done to the code of an image
 * (K-REL-2): each says of the bytes at its place what they are the value of. Where an
 * instruction was copied, the entry goes to the field in the copy; an entry whose field is there no
 * more becomes R_*_NONE. Owns that decision and the bytes of the entries; writes into the bytes it
 * is given only.
 */
import type { Arch } from '../machine/arch.js';
import { ByteView, equalBytes } from '../bytes.js';
import type { ElfImage, RelocationTable } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import { SHF_ALLOC } from '../elf/constants.js';
import { keptTables } from '../program/kept-tables.js';
import { load, type Program } from '../program/program.js';
import { applyRelocation, computeRelocation } from '../relocs/apply.js';
import type { RelocationRow } from '../relocs/kinds.js';
import { type SortedRelocations, sortRelocations } from '../relocs/read.js';
import type { Address, SiteIndex } from '../units.js';
import type { Plan, Step } from './plan.js';
import { stepCount } from './step-columns.js';

/** Code whose bytes are not executed at their place any more, [start, end). */
export interface ReplacedCode {
  readonly start: Address;
  readonly end: Address;
  /** Where its instructions are now, in the same order and of the same lengths; null: nowhere. */
  readonly copy: Address | null;
}

/** No field is longer. */
const MOST_BYTES = 8n;

/** A range of the file: [start, end). */
export type FileRange = readonly [start: number, end: number];

/** What became of an entry, as a store in its table. */
export interface SettledEntry {
  readonly at: number;
  readonly bytes: Uint8Array;
  readonly reason: string;
}

/**
 * A store as a step of a plan.
 * @param after  the bytes that the range gets
 * @param why    rule, site and reason of the store
 */
export function storeStep(
  image: ElfImage,
  [start, end]: FileRange,
  after: Uint8Array,
  why: { readonly rule: string; readonly site: SiteIndex; readonly reason: string },
): Step {
  const section = image.sections.find(
    (each) => each.fileSize > 0 && start >= each.offset && start < each.offset + each.fileSize,
  );
  return {
    kind: 'store',
    site: why.site,
    section: section?.name ?? '',
    address: image.addressOf(start) ?? BigInt(start),
    fileOffset: start,
    before: image.bytes.slice(start, end),
    after,
    rule: why.rule,
    reason: why.reason,
  };
}

/**
 * Kept relocations of sections that are loaded: those of debug sections are about bytes that
 * nothing here changes.
 */
function tablesOfCode(image: ElfImage): readonly RelocationTable[] {
  return keptTables(image).filter(({ target, form }) => {
    const section = image.sections[target];
    return (form === 'rel' || form === 'rela') && section !== undefined && (section.flags & SHF_ALLOC) !== 0n;
  });
}

/** What became of an entry. */
type Fate = { readonly kind: 'moved'; readonly to: Address } | { readonly kind: 'none' };

class Settling {
  private readonly image: ElfImage;
  private readonly sorted: SortedRelocations;
  /** By rank. */
  private readonly fates = new Map<number, Fate>();

  constructor(
    private readonly program: Program,
    tables: readonly RelocationTable[],
    private readonly after: Uint8Array,
    private readonly stored: readonly FileRange[],
    private readonly replaced: readonly ReplacedCode[],
  ) {
    this.image = program.image;
    this.sorted = sortRelocations(tables);
  }

  private rowOf(rank: number): RelocationRow | undefined {
    return this.program.arch.relocations.get(this.typeOf(rank));
  }

  private entry(rank: number): { readonly table: RelocationTable; readonly row: number } {
    const { tables, table, row } = this.sorted;
    return { table: tables[table[rank]!]!, row: row[rank]! };
  }

  private typeOf(rank: number): number {
    const { table, row } = this.entry(rank);
    return table.type[row]!;
  }

  private symbolOf(rank: number): Address {
    const { table, row } = this.entry(rank);
    return table.symbols?.value[table.symbol[row]!] ?? 0n;
  }

  /** Bytes of a field; markers and unknown types count as their first byte. */
  private sizeOf(rank: number): number {
    const row = this.rowOf(rank);
    return row === undefined || row.field.slices.length === 0 ? 1 : row.field.sizeBytes;
  }

  private bytes(of: Uint8Array, address: Address, size: number): Uint8Array {
    const at = this.image.fileOffsetOf(address);
    return at < 0 ? new Uint8Array(0) : of.subarray(at, at + size);
  }

  /**
   * Whether the entry is true of the field at `to`, which is a copy of the one at its place. What
   * cannot be computed here (GOT slots, thread-local values) does not depend on the place when the
   * copy has the very same field.
   */
  private holdsAt(rank: number, to: Address): boolean {
    const row = this.rowOf(rank);
    if (row === undefined || row.field.slices.length === 0) return false;
    const place = this.sorted.offset[rank]!;
    const { sizeBytes } = row.field;
    const held = this.bytes(this.after, to, sizeBytes);
    const was = this.bytes(this.image.bytes, place, sizeBytes);
    if (held.length < sizeBytes) return false;
    const { table, row: index } = this.entry(rank);
    const { target } = this.program.arch;
    const expected = was.slice();
    try {
      const toc = this.program.tocAt(place) ?? undefined;
      const value = computeRelocation(
        row,
        {
          symbol: this.symbolOf(rank),
          addend: table.addend[index]!,
          place: to,
          ...(toc === undefined ? {} : { toc }),
        },
        target.wordBytes,
      );
      if (value === null) return false;
      applyRelocation(row, expected, 0, value, { data: target.dataEndian, code: target.codeEndian });
    } catch (error) {
      if (!(error instanceof ElftraceError)) throw error;
      return (error.code === 'bad-reference' || error.code === 'unsupported-form') && equalBytes(held, was);
    }
    return equalBytes(held, expected);
  }

  /** Ranks whose fields have a byte in [start, end). */
  private *ranksIn(start: Address, end: Address): Generator<number> {
    for (let rank = this.sorted.from(start - MOST_BYTES); rank < this.sorted.count; rank++) {
      const place = this.sorted.offset[rank]!;
      if (place >= end) return;
      if (place + BigInt(this.sizeOf(rank)) > start) yield rank;
    }
  }

  private decide(rank: number, fate: Fate): void {
    if (this.typeOf(rank) !== this.program.arch.relocationRoles.none) this.fates.set(rank, fate);
  }

  /** Of code that is elsewhere now. */
  private moveCopied(): void {
    for (const { start, end, copy } of this.replaced) {
      for (const rank of this.ranksIn(start, end)) {
        const place = this.sorted.offset[rank]!;
        const inside = place >= start && place + BigInt(this.sizeOf(rank)) <= end;
        const to = copy === null || !inside ? null : copy + (place - start);
        this.decide(rank, to !== null && this.holdsAt(rank, to) ? { kind: 'moved', to } : { kind: 'none' });
      }
    }
  }

  /** Of fields that were written over: sites of ftrace. */
  private dropOverwritten(): void {
    for (const [from, to] of this.stored) {
      const start = this.image.addressOf(from);
      if (start === undefined) continue;
      for (const rank of this.ranksIn(start, start + BigInt(to - from))) {
        if (this.fates.has(rank)) continue;
        const place = this.sorted.offset[rank]!;
        const size = this.sizeOf(rank);
        if (!equalBytes(this.bytes(this.image.bytes, place, size), this.bytes(this.after, place, size))) {
          this.decide(rank, { kind: 'none' });
        }
      }
    }
  }

  /**
   * Markers go with the entry whose place they share; low halves that name the place of a high
   * half, with that.
   */
  private dropDependent(): void {
    const gone = new Set<Address>([...this.fates.keys()].map((rank) => this.sorted.offset[rank]!));
    const labels = new Set<Address>();
    for (const place of gone) {
      for (let rank = this.sorted.from(place); this.sorted.offset[rank] === place; rank++) {
        const row = this.rowOf(rank);
        if (row?.field.slices.length === 0 && !this.fates.has(rank)) this.decide(rank, { kind: 'none' });
        if (row?.part === 'hi20' && this.fates.has(rank)) labels.add(place);
      }
    }
    if (labels.size === 0) return;
    for (let rank = 0; rank < this.sorted.count; rank++) {
      if (this.rowOf(rank)?.rule === 'pcrel-low' && labels.has(this.symbolOf(rank)))
        this.decide(rank, { kind: 'none' });
    }
  }

  settle(): SettledEntry[] {
    this.moveCopied();
    this.dropOverwritten();
    this.dropDependent();
    const word = this.image.wordBytes;
    const written: SettledEntry[] = [];
    const store = (at: number, value: bigint, reason: string): void => {
      const bytes = new Uint8Array(word);
      new ByteView(bytes, this.image.header.endian, 'kept relocations').insertWord(0, value, word);
      if (!equalBytes(this.after.subarray(at, at + word), bytes)) written.push({ at, bytes, reason });
    };
    for (const [rank, fate] of this.fates) {
      const { table, row } = this.entry(rank);
      const at = table.fileOffset(row);
      if (fate.kind === 'moved') store(at, fate.to, 'the field is in the copy of its instruction now');
      else {
        const reason = 'the bytes that the entry was about are replaced';
        store(at + word, BigInt(this.program.arch.relocationRoles.none), reason);
        if (table.form === 'rela') store(at + 2 * word, 0n, reason);
      }
    }
    return written.sort((a, b) => a.at - b.at);
  }
}

/**
 * What makes the kept relocations of an image true of what it became.
 * @param image     as it was
 * @param after     its bytes now
 * @param stored    where they differ, at least
 * @param replaced  code that breakpoints or jumps stand for
 */
export function settleKeptRelocations(
  image: ElfImage,
  arch: Arch,
  after: Uint8Array,
  stored: readonly FileRange[],
  replaced: readonly ReplacedCode[],
): readonly SettledEntry[] {
  const tables = tablesOfCode(image);
  return tables.length === 0 ? [] : new Settling(load(image, arch), tables, after, stored, replaced).settle();
}

/**
 * The plan of an image that `load` or the runtime made, with the changes of its kept relocations.
 */
export function withKeptRelocations(plan: Plan, { image, arch, loadMap }: Program): Plan {
  if (loadMap === null || stepCount(plan) === 0 || tablesOfCode(image).length === 0) return plan;
  const written = image.bytes.slice();
  for (const { fileOffset, after } of plan.steps) written.set(after, fileOffset);
  const stored = plan.steps.map(({ fileOffset, after }) => [fileOffset, fileOffset + after.length] as const);
  const more = settleKeptRelocations(image, arch, written, stored, []).map(({ at, bytes, reason }) =>
    storeStep(image, [at, at + bytes.length], bytes, { rule: 'K-REL-2', site: -1, reason }),
  );
  const steps = [...plan.steps, ...more];
  return { ...plan, steps: steps.sort((a, b) => a.fileOffset - b.fileOffset) };
}
