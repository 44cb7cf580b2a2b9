/**
 * A SiteView over plain arrays, for unit tests of site shapes: one piece of code, its relocations,
 * function starts, and an answer for branch targets. `at` moves the anchor, as the real view does.
 * Also applies a SiteChange to the fake's bytes, checking `before` as the real writer does.
 */
import type { CalleeKind, SiteChange, SiteRefusal, SiteRelocation, SiteView } from '../../src/machine/sites.js';
import type { StubReading } from '../../src/machine/stubs.js';
import type { Address, Endian } from '../../src/units.js';

export interface FakeViewSpec {
  readonly code: Uint8Array;
  readonly endian: Endian;
  /** Address (linked) or section offset (relocatable) of code[0]; 0 by default. */
  readonly base?: Address;
  /** Default true: relocations are consulted. */
  readonly relocatable?: boolean;
  /** Key: offset in `code`. `addend` defaults to null (undefined symbol). */
  readonly relocations?: ReadonlyMap<number, { type: number; symbolName: string; addend?: bigint | null }>;
  /** Offsets in `code` at which functions start. */
  readonly functions?: readonly number[];
  /** Offsets at which every call of a function arrives, where that is not its symbol. */
  readonly entries?: readonly number[];
  /** What a branch of a linked file leads to. */
  readonly callee?: (address: Address) => CalleeKind;
  /** Direct callers that the image's table names. */
  readonly directCallers?: readonly Address[];
  /** Names of the profiling entry; default `_mcount`, `mcount`, `__fentry__`. */
  readonly mcountNames?: readonly string[];
}

/**
 * `SiteRelocation.addend` may be null for undefined symbols according to its documentation; the
 * type says bigint, so the fake gives 0n where the spec has null.
 */
export class FakeView implements SiteView {
  readonly code: Uint8Array;
  relocatable: boolean;
  positionIndependent = false;
  private readonly data: DataView;
  private readonly little: boolean;
  private readonly base: Address;
  private readonly relocations: Map<number, { type: number; symbolName: string; addend?: bigint | null }>;
  private readonly functions: ReadonlySet<number>;
  private readonly entries: ReadonlySet<number> | null;
  private readonly calleeOf: (address: Address) => CalleeKind;
  private readonly mcountNames: readonly string[];
  private readonly directCallers: readonly Address[];
  private anchor = 0;
  /** Stubs of a linked file by address. */
  readonly stubs = new Map<Address, StubReading>();

  constructor(spec: FakeViewSpec) {
    // Not slice(): a Buffer would share its memory.
    this.code = Uint8Array.from(spec.code);
    this.data = new DataView(this.code.buffer);
    this.little = spec.endian === 'little';
    this.base = spec.base ?? 0n;
    this.relocatable = spec.relocatable ?? true;
    this.relocations = new Map(spec.relocations ?? []);
    this.functions = new Set(spec.functions ?? [0]);
    this.entries = spec.entries ? new Set(spec.entries) : null;
    this.calleeOf = spec.callee ?? (() => 'other');
    this.directCallers = spec.directCallers ?? [];
    this.mcountNames = spec.mcountNames ?? ['_mcount', 'mcount', '__fentry__'];
  }

  /** Moves the anchor to an offset in the code. */
  at(offset: number): this {
    this.anchor = offset;
    return this;
  }

  get address(): Address {
    return this.base + BigInt(this.anchor);
  }

  private inside(delta: number, size: number): boolean {
    const at = this.anchor + delta;
    return at >= 0 && at + size <= this.code.length;
  }

  u8(delta: number): number {
    return this.inside(delta, 1) ? this.data.getUint8(this.anchor + delta) : -1;
  }

  u16(delta: number): number {
    return this.inside(delta, 2) ? this.data.getUint16(this.anchor + delta, this.little) : -1;
  }

  u32(delta: number): number {
    return this.inside(delta, 4) ? this.data.getUint32(this.anchor + delta, this.little) : -1;
  }

  bytes(delta: number, size: number): Uint8Array {
    const start = Math.max(0, this.anchor + delta);
    return this.code.slice(start, Math.max(start, Math.min(this.anchor + delta + size, this.code.length)));
  }

  relocation(delta: number): SiteRelocation | null {
    if (!this.relocatable) return null;
    const found = this.relocations.get(this.anchor + delta);
    return found ? { type: found.type, symbolName: found.symbolName, addend: found.addend ?? 0n } : null;
  }

  functionAt(delta: number): boolean {
    return this.functions.has(this.anchor + delta);
  }

  unwindsFrom(): boolean {
    return false;
  }

  calledFrom(): null {
    return null;
  }

  entryAt(delta: number): boolean {
    return this.entries?.has(this.anchor + delta) ?? this.functionAt(delta);
  }

  isDirectCaller(address: Address): boolean {
    return this.directCallers.includes(address);
  }

  covered(): boolean {
    return [...this.functions].some((start) => start <= this.anchor);
  }

  wordAt(address: Address): number {
    return this.relocatable ? -1 : this.u32(Number(address - this.address));
  }

  bytesAt(address: Address, size: number): Uint8Array {
    return this.bytes(Number(address - this.address), size);
  }

  ownStub(): null {
    return null;
  }

  stub(address: Address): StubReading | null {
    return this.stubs.get(address) ?? null;
  }

  callee(address: Address): CalleeKind {
    return this.calleeOf(address);
  }

  isMcountName(name: string): boolean {
    return this.mcountNames.includes(name.startsWith('.') ? name.slice(1) : name);
  }

  /**
   * Stores a change into the fake's bytes and drops its neutralised relocations; throws where
   * `before` differs.
   */
  apply(change: SiteChange): void {
    for (const { delta, before, after } of change.stores) {
      const at = this.anchor + delta;
      const found = this.code.slice(at, at + before.length);
      if (before.length !== after.length || found.some((byte, i) => byte !== before[i])) {
        throw new Error(`store at ${delta}: before is ${String(before)}, found ${String(found)}`);
      }
      this.code.set(after, at);
    }
    for (const delta of change.neutralise) {
      if (!this.relocations.delete(this.anchor + delta)) throw new Error(`no relocation at ${delta} to neutralise`);
    }
  }
}

/** The change, or an error that shows the refusal. */
export function asChange(result: SiteChange | SiteRefusal): SiteChange {
  if ('refused' in result) throw new Error(`refused: ${result.refused}: ${result.reason}`);
  return result;
}

/** Bytes from hexadecimal text; blanks are ignored. */
export function fromHex(text: string): Uint8Array {
  const digits = text.replace(/\s+/g, '');
  const out = new Uint8Array(digits.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return out;
}

/** 32-bit words as bytes in the given order. */
export function fromWords(words: readonly number[], endian: Endian): Uint8Array {
  const out = new Uint8Array(words.length * 4);
  const view = new DataView(out.buffer);
  words.forEach((word, i) => {
    view.setUint32(4 * i, word >>> 0, endian === 'little');
  });
  return out;
}
