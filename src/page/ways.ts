/**
 * Where sites lead, for a page: the hops of `siteChain`, and behind an entry the function that its
 * patched call names, or the ops of a private trampoline. Sites that lead the same way share it.
 */
import { hex } from '../errors.js';
import type { Program } from '../program/program.js';
import { type ChainHop, describeHop, siteChain } from '../sites/chain.js';
import type { Sites } from '../sites/sites.js';
import { isAllocated, opsObjects } from '../tracing/trampolines.js';
import type { Address } from '../units.js';
import { visibleLine } from '../visible.js';
import type { PageHop, PageWay } from './model.js';

/** Instructions as `BYTES\tTEXT` a line. */
export type CodeText = (code: Uint8Array, address: Address) => string;

/** What entries call now, by the address of the entry; and functions of ops, by that of the ops. */
function tracersOf(program: Program): ReadonlyMap<Address, PageHop> {
  const found = new Map<Address, PageHop>();
  if (program.relocatable) return found;
  const defined = (name: string): Address | null => program.definedAt(program.symbols.find(name));
  const tracer = (address: Address, note: string): PageHop => {
    const range = program.codeAt(address);
    const name = range === undefined ? '' : program.describe(range, address);
    const part = program.partOf(address)?.name ?? '';
    return { kind: 'tracer', address: hex(address), name: visibleLine(name), part: visibleLine(part), note, code: '' };
  };
  const { call } = program.arch.branches;
  for (const { symbols } of program.arch.conventions) {
    symbols.entries.forEach((name, i) => {
      const [entry, place] = [defined(name), defined(symbols.calls[i] ?? '')];
      if (entry === null || place === null) return;
      const bytes = Array.from({ length: call.sizeBytes }, (_, at) => program.reader.u8(place + BigInt(at)));
      const target = bytes.includes(-1) ? null : call.target(Uint8Array.from(bytes), place);
      if (target === null) return;
      const to = program.finalTarget(target);
      found.set(entry, tracer(to, `what ${name} calls at ${hex(place)}`));
    });
  }
  for (const ops of opsObjects(program)) {
    const callee = program.finalTarget(ops.func);
    // What a word in front of a function names is data, never an entry.
    found.set(ops.address, tracer(callee, `function of ops ${ops.index}, which the word in front of the site names`));
    if (!isAllocated(ops) || ops.trampoline === 0n) continue;
    found.set(ops.trampoline, tracer(callee, `what its trampoline calls, ops ${ops.index}`));
  }
  return found;
}

/** Ways of the sites of a file, numbered through all files of a page. */
export class Ways {
  readonly all: PageWay[] = [];
  private readonly known = new Map<string, number>();
  private tracers: ReadonlyMap<Address, PageHop> = new Map();
  private sites: Sites | null = null;

  /** The file that `of` is asked about from now on. */
  begin(sites: Sites): void {
    this.sites = sites;
    this.tracers = tracersOf(sites.program);
  }

  private hop(hop: ChainHop, text: CodeText): PageHop {
    const { kind } = hop;
    if (kind === 'call') throw new RangeError('a site is no hop of its own way');
    const isOwn = kind === 'restore';
    return {
      kind,
      address: isOwn ? '' : hex(hop.address),
      name: isOwn ? '' : visibleLine(hop.name),
      part: isOwn ? '' : visibleLine(hop.part ?? ''),
      note: visibleLine(describeHop(hop)),
      code: kind === 'stub' ? text(hop.bytes, hop.address) : '',
    };
  }

  /**
   * The way of a site.
   * @returns its number, and where the branch of the site leads; null: nowhere that is known
   */
  of(index: number, text: CodeText): { readonly way: number; readonly to: Address | null } {
    const [first, ...rest] = siteChain(this.sites!, index).hops;
    if (first === undefined) return { way: this.none(), to: null };
    const hops = rest.map((hop) => this.hop(hop, text));
    const last = rest.at(-1);
    const named = last?.kind === 'target' ? this.sites!.reading(index)?.literal : undefined;
    const tracer =
      last?.kind === 'target' ? (this.tracers.get(named ?? 0n) ?? this.tracers.get(last.address)) : undefined;
    const way = { note: visibleLine(describeHop(first)), hops: tracer ? [...hops, tracer] : hops };
    return { way: this.number(way), to: first.kind === 'call' ? first.target : null };
  }

  /** The way of what has none. */
  none(): number {
    return this.number({ note: '', hops: [] });
  }

  private number(way: PageWay): number {
    const key = JSON.stringify(way);
    const known = this.known.get(key);
    if (known !== undefined) return known;
    this.known.set(key, this.all.length);
    return this.all.push(way) - 1;
  }
}
