/**
 * Where a site leads, hop by hop: the call, the stubs behind it, the slots that they load from, the
 * target. Reads and names; decides nothing. The verdict on a site is in `verdicts.ts`.
 *
 *   call         the site's branch, with its relocation in relocatable files
 *   restore      what stands behind the branch and belongs to the site (the word that brings a TOC
 *                pointer back)
 *   stub         a branch island; its slot follows it
 *   slot         a word in memory that a stub (or an indirect call) takes its target from
 *   target       where the chain ends
 */
import { hex } from '../errors.js';
import type { CalleeKind, SiteReading } from '../machine/sites.js';
import type { CodeRange, Program } from '../program/program.js';
import type { Address, SiteIndex } from '../units.js';
import type { Sites } from './sites.js';

interface Hop {
  readonly address: Address;
  readonly bytes: Uint8Array;
  /** Function (with offset) or object at the address; '' where no symbol is. */
  readonly name: string;
  /** Name of the loaded part that owns the address; null in files that `load` did not make. */
  readonly part: string | null;
}

export type ChainHop =
  | (Hop & {
      readonly kind: 'call';
      readonly target: Address | null;
      /** Relocatable files: what decides the target. */
      readonly relocation: { readonly type: string; readonly symbol: string; readonly addend: bigint } | null;
    })
  | (Hop & { readonly kind: 'restore' })
  | (Hop & {
      readonly kind: 'stub';
      readonly form: string;
      readonly target: Address;
      /**
       * True when the stub saves the caller's TOC pointer, so that a restore must stand behind the
       * call.
       */
      readonly savesToc: boolean;
      /** The TOC pointer that the stub hands to its target; null where it sets none. */
      readonly targetToc: Address | null;
    })
  | (Hop & {
      readonly kind: 'slot';
      readonly target: Address;
      /** Symbol that the dynamic linker puts there; '' where the file has the contents. */
      readonly symbol: string;
    })
  | (Hop & { readonly kind: 'target'; readonly is: CalleeKind });

export interface SiteChain {
  /**
   * The TOC pointer of the code at the site; null where there is none, or where the chain does not
   * depend on it.
   */
  readonly toc: Address | null;
  readonly hops: readonly ChainHop[];
}

/** Longer chains do not occur and would be loops. */
const HOPS_MAX = 8;
/** Bytes of a target that are shown. */
const SHOWN_BYTES = 16;

function bytesAt(program: Program, address: Address, size: number): Uint8Array {
  const bytes: number[] = [];
  for (let i = 0; i < size; i++) {
    const byte = program.reader.u8(address + BigInt(i));
    if (byte < 0) break;
    bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

/** Name of the function or object symbol at an address of a linked file. */
function nameOf(program: Program, address: Address): string {
  const range = program.codeAt(address);
  if (range) return program.describe(range, address);
  const { symbols } = program;
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.value[i] === address && symbols.sectionIndex[i] !== 0 && symbols.name(i) !== '') return symbols.name(i);
  }
  return '';
}

function partOf(program: Program, address: Address): string | null {
  return program.partOf(address)?.name ?? null;
}

/** What the dynamic linker puts at an address; '' when it puts nothing. */
function importedAt(program: Program, address: Address): string {
  const { dynamicRelocations } = program;
  const rank = dynamicRelocations.at(address);
  if (rank < 0) return '';
  const table = dynamicRelocations.tables[dynamicRelocations.table[rank]!];
  const row = dynamicRelocations.row[rank]!;
  return table?.symbols ? table.symbols.name(table.symbol[row]!) : '';
}

/** Code of a stub: instructions up to the one that leaves it; what follows is its data. */
function stubCode(program: Program, address: Address, sizeBytes: number): Uint8Array {
  const { isa } = program.arch;
  const bytes = bytesAt(program, address, sizeBytes);
  let size = 0;
  while (size < bytes.length) {
    const { sizeBytes: step, flow } = isa.decode(bytes, size, address + BigInt(size));
    size += step;
    if (flow.kind === 'jump' || flow.kind === 'indirect-jump' || flow.kind === 'return') break;
  }
  return bytes.subarray(0, size);
}

/** Bytes to show of the code at an address: no more than its function has. */
function shownOf(program: Program, address: Address): number {
  const range = program.codeAt(address);
  const symbol = range ? program.functionAt(range, address) : -1;
  const end = symbol < 0 ? undefined : program.functions.endOf(symbol);
  return end !== undefined && end > address ? Math.min(SHOWN_BYTES, Number(end - address)) : SHOWN_BYTES;
}

function follow(program: Program, first: Address): ChainHop[] {
  const hops: ChainHop[] = [];
  const here = (address: Address, bytes: Uint8Array): Hop => ({
    address,
    bytes,
    name: nameOf(program, address),
    part: partOf(program, address),
  });
  let at = first;
  for (let hop = 0; hop < HOPS_MAX; hop++) {
    // An entry of a tracer may look like a stub (a single branch): it is the end all the same.
    const known = program.finalTarget(at) === at;
    const stub = known ? null : program.stub(at);
    if (stub) {
      const { form, target, savesToc, targetToc } = stub;
      const code = stubCode(program, at, stub.sizeBytes);
      hops.push({ kind: 'stub', ...here(at, code), form, target, savesToc, targetToc });
      if (stub.slot !== null) {
        const bytes = bytesAt(program, stub.slot, stub.slotBytes);
        hops.push({ kind: 'slot', ...here(stub.slot, bytes), target, symbol: importedAt(program, stub.slot) });
      }
      at = target;
      continue;
    }
    const imported = importedAt(program, at);
    if (!known || imported !== '') {
      const { wordBytes } = program.image;
      const bytes = bytesAt(program, at, wordBytes);
      const next = wordBytes === 8 ? program.reader.u64(at) : BigInt(program.reader.u32(at));
      if (next === null) break;
      hops.push({ kind: 'slot', ...here(at, bytes), target: next, symbol: imported });
      if (imported !== '') return hops;
      at = next;
      continue;
    }
    break;
  }
  hops.push({ kind: 'target', ...here(at, bytesAt(program, at, shownOf(program, at))), is: program.callee(at) });
  return hops;
}

/** What decides the target of the call of a relocatable file. */
function relocationOf(
  sites: Sites,
  index: number,
  reading: SiteReading,
): { type: string; symbol: string; addend: bigint } | null {
  const view = sites.viewOf(index);
  const { program } = sites;
  for (const delta of reading.relocationDeltas) {
    for (const { table, row } of view.relocationsAt(delta)) {
      const type = table.type[row]!;
      if (program.isCompanion(type) || program.isNeutral(type, table.symbol[row]!)) continue;
      return {
        type: program.arch.relocations.get(type)?.name ?? String(type),
        symbol: program.labelOf(table.symbols, table.symbol[row]!),
        addend: table.addend[row]!,
      };
    }
  }
  return null;
}

/**
 * The chain of a site whose bytes a shape knows; a site of no shape has its bytes as the only hop.
 */
export function siteChain(sites: Sites, index: SiteIndex): SiteChain {
  const { program } = sites;
  const range: CodeRange | undefined = sites.codeRange(index);
  if (!range) return { toc: null, hops: [] };
  const reading = sites.reading(index);
  const anchor = sites.anchor[index]!;
  const linked = !program.relocatable;
  const here = (address: Address, bytes: Uint8Array): Hop => ({
    address,
    bytes,
    name: program.describe(range, address),
    part: linked ? partOf(program, address) : null,
  });
  const toc = linked ? program.tocAt(anchor) : null;
  if (!reading) {
    const bytes = sites.viewOf(index).bytes(0, SHOWN_BYTES);
    return { toc, hops: [{ kind: 'call', ...here(anchor, bytes), target: null, relocation: null }] };
  }
  const { isa } = program.arch;
  const bytes = sites.viewOf(index).bytes(reading.startDelta, reading.sizeBytes);
  const start = anchor + BigInt(reading.startDelta);
  // The branch ends what belongs to the call; what follows it in the site is the restore.
  let size = reading.ipDelta - reading.startDelta;
  let { target } = reading;
  const relocation = linked ? null : relocationOf(sites, index, reading);
  while (size < bytes.length) {
    const { sizeBytes, flow } = isa.decode(bytes, size, start + BigInt(size));
    size += sizeBytes;
    if (flow.kind === 'call' || flow.kind === 'indirect-call') {
      if (flow.kind === 'call' && linked && reading.state !== 'nop') target ??= flow.target;
      break;
    }
    if (flow.kind === 'jump') break;
  }
  const hops: ChainHop[] = [{ kind: 'call', ...here(start, bytes.slice(0, size)), target, relocation }];
  if (size < bytes.length) hops.push({ kind: 'restore', ...here(start + BigInt(size), bytes.slice(size)) });
  if (target !== null && linked) hops.push(...follow(program, target));
  const depends = hops.some((hop) => hop.kind === 'restore' || (hop.kind === 'stub' && hop.savesToc));
  return { toc: depends ? toc : null, hops };
}

/** What a hop does, in a few words. */
export function describeHop(hop: ChainHop): string {
  switch (hop.kind) {
    case 'call': {
      if (hop.relocation) {
        const { type, symbol, addend } = hop.relocation;
        return `${type} ${symbol}${addend === 0n ? '' : addend > 0n ? `+${hex(addend)}` : hex(addend)}`;
      }
      return hop.target === null ? 'calls nothing' : `leads to ${hex(hop.target)}`;
    }
    case 'restore':
      return 'brings the TOC pointer of the caller back';
    case 'stub': {
      const parts = [`${hop.form}, leads to ${hex(hop.target)}`];
      if (hop.savesToc) parts.push("saves the caller's TOC pointer");
      if (hop.targetToc !== null) parts.push(`sets the TOC pointer to ${hex(hop.targetToc)}`);
      return parts.join(', ');
    }
    case 'slot':
      return hop.symbol === '' ? `holds ${hex(hop.target)}` : `filled by the dynamic linker with ${hop.symbol}`;
    case 'target':
      return { mcount: 'the profiling entry', tracer: 'an entry of the tracer', other: 'no entry of a tracer' }[hop.is];
    default:
      return hop satisfies never;
  }
}
