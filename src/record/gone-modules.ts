/**
 * Modules that a recorded session knew and that are no longer in the image. A session is performed
 * again from its beginning at every call, and what happened before a module went must happen again;
 * so the record keeps what was seen of it: its sites, the places of the symbols that the session
 * used, and those of its probes. Owns that form; the bytes of such a module are kept nowhere.
 */
import { hex } from '../errors.js';
import type { Address } from '../units.js';

/** A site of a module, with what the core was told of it. */
export interface GoneSite {
  /** Address of the first byte that is rewritten. */
  readonly ip: Address;
  /** Name of the function. */
  readonly name: string;
  /** Bytes from the start of the function's symbol to the site; 0 when absent. */
  readonly siteOffset?: bigint;
  /** Size of that symbol in bytes; unknown when absent. */
  readonly symbolSize?: bigint;
  /** The body of an overridden weak function. */
  readonly weak?: boolean;
}

/** A symbol of a module that a session named. */
export interface GoneSymbol {
  readonly name: string;
  /** Text address. */
  readonly address: Address;
  /** What a function pointer held. */
  readonly pointer: Address;
}

/** A probe that was in a module (K-OPT-8). */
export interface GoneProbe {
  /** The number of its event: `probe` steps are counted from the beginning of the session. */
  readonly id: number;
  readonly address: Address;
  readonly symbol: string;
  readonly offset: number;
  /** It was the first instruction of its function. */
  readonly atEntry: boolean;
  /** The record's ip where ftrace served it; null elsewhere. */
  readonly site: Address | null;
}

export interface GoneModule {
  readonly name: string;
  /**
   * How many of the session's `unload` steps of this module were before the one with which its code
   * went.
   */
  readonly unload: number;
  readonly sites: readonly GoneSite[];
  readonly symbols: readonly GoneSymbol[];
  readonly probes: readonly GoneProbe[];
}

/** JSON: addresses in hexadecimal, what is absent left out. */
export interface SavedGone {
  readonly name: string;
  readonly unload: number;
  readonly sites: readonly (readonly [ip: string, name: string, offset: string, size: string | null, weak: boolean])[];
  readonly symbols: readonly (readonly [name: string, address: string, pointer: string])[];
  /** Absent: there were none. */
  readonly probes?: readonly (readonly [
    id: number,
    address: string,
    symbol: string,
    offset: number,
    atEntry: boolean,
    site: string | null,
  ])[];
}

export function encodeGone({ name, unload, sites, symbols, probes }: GoneModule): SavedGone {
  return {
    name,
    unload,
    sites: sites.map((site) => [
      hex(site.ip),
      site.name,
      String(site.siteOffset ?? 0n),
      site.symbolSize === undefined ? null : hex(site.symbolSize),
      site.weak ?? false,
    ]),
    symbols: symbols.map((each) => [each.name, hex(each.address), hex(each.pointer)]),
    ...(probes.length === 0
      ? {}
      : {
          probes: probes.map(({ id, address, symbol, offset, atEntry, site }) => [
            id,
            hex(address),
            symbol,
            offset,
            atEntry,
            site === null ? null : hex(site),
          ]),
        }),
  };
}

export function decodeGone({ name, unload, sites, symbols, probes = [] }: SavedGone): GoneModule {
  return {
    name,
    unload,
    sites: sites.map(([ip, site, offset, size, weak]) => ({
      ip: BigInt(ip),
      name: site,
      siteOffset: BigInt(offset),
      ...(size === null ? {} : { symbolSize: BigInt(size) }),
      weak,
    })),
    symbols: symbols.map(([symbol, address, pointer]) => ({
      name: symbol,
      address: BigInt(address),
      pointer: BigInt(pointer),
    })),
    probes: probes.map(([id, address, symbol, offset, atEntry, site]) => ({
      id,
      address: BigInt(address),
      symbol,
      offset,
      atEntry,
      site: site === null ? null : BigInt(site),
    })),
  };
}

const isHex = (value: unknown): boolean => typeof value === 'string' && /^0x[0-9a-f]{1,16}$/.test(value);

/** Sites before their function's symbol have a negative offset. */
const isDecimal = (value: unknown): boolean => typeof value === 'string' && /^-?\d{1,20}$/.test(value);

/** Whether a value of a record is one of these. */
export function isSavedGone(value: unknown): value is SavedGone {
  if (typeof value !== 'object' || value === null) return false;
  const { name, unload, sites, symbols, probes = [] } = value as Partial<SavedGone>;
  return (
    typeof name === 'string' &&
    Number.isSafeInteger(unload) &&
    Array.isArray(sites) &&
    sites.every(
      (each: unknown) =>
        Array.isArray(each) &&
        each.length === 5 &&
        isHex(each[0]) &&
        typeof each[1] === 'string' &&
        isDecimal(each[2]) &&
        (each[3] === null || isHex(each[3])) &&
        typeof each[4] === 'boolean',
    ) &&
    Array.isArray(symbols) &&
    symbols.every(
      (each: unknown) =>
        Array.isArray(each) && each.length === 3 && typeof each[0] === 'string' && isHex(each[1]) && isHex(each[2]),
    ) &&
    Array.isArray(probes) &&
    probes.every(
      (each: unknown) =>
        Array.isArray(each) &&
        each.length === 6 &&
        Number.isSafeInteger(each[0]) &&
        isHex(each[1]) &&
        typeof each[2] === 'string' &&
        Number.isSafeInteger(each[3]) &&
        typeof each[4] === 'boolean' &&
        (each[5] === null || isHex(each[5])),
    )
  );
}
