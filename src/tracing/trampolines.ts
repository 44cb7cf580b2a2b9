/**
 * Private trampolines in an image: which ops has one, where there is room for another, and the
 * stores that make them. Owns the room (`.elftrace.text`, RT-4) and nothing of the bytes, which are
 * the machine's (`Arch.trampolines`).
 *
 * Nothing but the image says what is there: an ops object with ALLOC_TRAMP names its trampoline,
 * and the bytes at that address say which entry it is a copy of. So a file that was patched twice
 * needs no memory of the first time.
 */
import type {
  OwnTrampoline,
  PrivateTrampolines,
  TextSeam,
  TrampolinePlace,
  TrampolineWarning,
} from '../machine/trampolines.js';
import { alignUpBig } from '../bits.js';
import { equalBytes } from '../bytes.js';
import { ElftraceError, hex } from '../errors.js';
import { type Program, trampolineSection } from '../program/program.js';
import { OPS_FLAGS, OPS_WORD_COUNT, OPS_WORDS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import type { Step } from '../patch/plan.js';

/** Trampolines begin at a multiple of this, as functions do. */
const ALIGN = 16n;

interface Range {
  readonly start: Address;
  readonly end: Address;
}

/**
 * An image's text as trampolines see it: reads give what was stored before, stores become steps of
 * a plan.
 */
export class ImageText implements TextSeam {
  readonly warnings: TrampolineWarning[] = [];
  private readonly room: Range | null;
  private readonly stored = new Map<Address, number>();
  private readonly used: Range[] = [];

  constructor(
    private readonly program: Program,
    private readonly fillByte: number,
    private readonly forbidden: readonly { readonly start: number; readonly end: number }[],
  ) {
    const section = program.image.section(trampolineSection);
    this.room = section ? { start: section.address, end: section.address + BigInt(section.size) } : null;
  }

  /** Where trampolines can be; null: nowhere. */
  get area(): { readonly address: Address; readonly sizeBytes: number } | null {
    const { room } = this;
    return room === null ? null : { address: room.start, sizeBytes: Number(room.end - room.start) };
  }

  /** Bytes that an ops uses already. */
  occupy(address: Address, sizeBytes: number): void {
    this.used.push({ start: address, end: address + BigInt(sizeBytes) });
  }

  /**
   * The first place that is free; `near` is in the same image, and the machine checks what it must
   * reach.
   */
  allocate(sizeBytes: number): Address | null {
    if (this.room === null) return null;
    let at = alignUpBig(this.room.start, ALIGN);
    this.used.sort((a, b) => (a.start < b.start ? -1 : 1));
    for (const { start, end } of this.used) {
      if (at + BigInt(sizeBytes) <= start) break;
      if (end > at) at = alignUpBig(end, ALIGN);
    }
    if (at + BigInt(sizeBytes) > this.room.end) return null;
    this.occupy(at, sizeBytes);
    return at;
  }

  free(address: Address, sizeBytes: number): void {
    const index = this.used.findIndex(({ start }) => start === address);
    if (index >= 0) this.used.splice(index, 1);
    // What may not be written keeps its bytes: no site names them any more.
    if (this.isForbidden(this.offsetOf(address, sizeBytes), sizeBytes)) return;
    for (let i = 0; i < sizeBytes; i++) this.stored.set(address + BigInt(i), this.fillByte);
  }

  read(address: Address, sizeBytes: number): Uint8Array | null {
    const offset = this.offsetOf(address, sizeBytes);
    if (offset < 0) return null;
    const bytes = this.program.image.bytes.slice(offset, offset + sizeBytes);
    for (let i = 0; i < sizeBytes; i++) bytes[i] = this.stored.get(address + BigInt(i)) ?? bytes[i]!;
    return bytes;
  }

  fill(address: Address, bytes: Uint8Array): boolean {
    return this.store(address, bytes);
  }

  /** A file at rest: no thread executes it. */
  patch(address: Address, before: Uint8Array, after: Uint8Array): boolean {
    const now = this.read(address, before.length);
    return now !== null && equalBytes(now, before) && this.store(address, after);
  }

  seal(): void {
    // The room is in a segment that cannot be written.
  }

  warn(warning: TrampolineWarning): void {
    this.warnings.push(warning);
  }

  private offsetOf(address: Address, sizeBytes: number): number {
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    const last = image.fileOffsetOf(address + BigInt(sizeBytes - 1));
    return last === offset + sizeBytes - 1 && last < image.bytes.length ? offset : -1;
  }

  private isForbidden(offset: number, sizeBytes: number): boolean {
    return this.forbidden.some(({ start, end }) => offset < end && start < offset + sizeBytes);
  }

  private store(address: Address, bytes: Uint8Array): boolean {
    const offset = this.offsetOf(address, bytes.length);
    if (offset < 0) return false;
    if (this.isForbidden(offset, bytes.length)) return false;
    bytes.forEach((byte, i) => this.stored.set(address + BigInt(i), byte));
    return true;
  }

  /** What was stored, as steps: one for each run of bytes. */
  steps(): Step[] {
    const { image } = this.program;
    const addresses = [...this.stored.keys()].sort((a, b) => (a < b ? -1 : 1));
    const steps: Step[] = [];
    for (let i = 0; i < addresses.length;) {
      let end = i + 1;
      while (end < addresses.length && addresses[end] === addresses[end - 1]! + 1n) end++;
      const address = addresses[i]!;
      const fileOffset = image.fileOffsetOf(address);
      const before = image.bytes.slice(fileOffset, fileOffset + end - i);
      const after = Uint8Array.from({ length: end - i }, (_, k) => this.stored.get(addresses[i + k]!)!);
      if (!equalBytes(before, after)) {
        const rule = 'C-TRAMP-2';
        steps.push({ kind: 'store', site: -1, section: trampolineSection, address, fileOffset, before, after, rule });
      }
      i = end;
    }
    return steps;
  }
}

/** Ops objects at the start of `elftrace_data`; what follows are hashes and tables. */
export const opsSlots = 16;

/** An ops object as the image holds it. */
export interface OpsObject {
  readonly index: number;
  readonly address: Address;
  readonly func: Address;
  readonly flags: bigint;
  readonly trampoline: Address;
}

/** The ops objects of an image that are in use. Empty where the image has none of ours. */
export function opsObjects(program: Program): readonly OpsObject[] {
  const base = program.definedAt(program.symbols.find('elftrace_data'));
  if (base === null) return [];
  const word = program.image.wordBytes;
  const at = (address: Address): bigint => {
    const value = word === 8 ? program.reader.u64(address) : BigInt(program.reader.u32(address));
    return value === null || value < 0n ? 0n : value;
  };
  const found: OpsObject[] = [];
  for (let index = 0; index < opsSlots; index++) {
    const address = base + BigInt(index * OPS_WORD_COUNT * word);
    const field = (name: keyof typeof OPS_WORDS): bigint => at(address + BigInt(OPS_WORDS[name] * word));
    const flags = field('flags');
    const trampoline = field('trampoline');
    if (flags !== 0n || trampoline !== 0n) found.push({ index, address, func: field('func'), flags, trampoline });
  }
  return found;
}

export const isAllocated = (ops: OpsObject): boolean => (ops.flags & BigInt(OPS_FLAGS.ALLOC_TRAMP)) !== 0n;

/** A trampoline of ours with the ops that has it. */
export interface FoundTrampoline {
  readonly ops: OpsObject;
  readonly trampoline: OwnTrampoline;
}

/**
 * The trampolines of ours in an image.
 * @throws ElftraceError 'state-mismatch' where an ops object says that it has one and the bytes say
 *   otherwise (RT-6)
 */
export function foundTrampolines(
  program: Program,
  model: PrivateTrampolines,
  place: Pick<TrampolinePlace, 'variant' | 'find' | 'seam'>,
): readonly FoundTrampoline[] {
  const wrappers = ['ftrace_ops_assist_func', 'ftrace_ops_list_func'].flatMap((name) => {
    const address = program.definedAt(program.symbols.find(name));
    return address === null ? [] : [address];
  });
  return opsObjects(program)
    .filter((ops) => isAllocated(ops) && ops.trampoline !== 0n)
    .map((ops) => {
      const callees = [ops.func, ...wrappers];
      const trampoline = model.recognise(ops.trampoline, ops.address, callees, place);
      if (trampoline === null) {
        throw new ElftraceError(
          'state-mismatch',
          `ops ${String(ops.index)} says that its trampoline is at ${hex(ops.trampoline)}, and none for it stands there`,
          { address: ops.trampoline, symbol: `ops[${String(ops.index)}]` },
        );
      }
      return { ops, trampoline };
    });
}
