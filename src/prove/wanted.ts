/**
 * What must happen at a site (PV-1, 4), read from the objects of the patched image: the callbacks
 * of the list whose filters take the site, its direct caller, the function in its place. Read from
 * the words themselves, not from the code that walks them, which is what is proved.
 */
import { entryPoint } from '../program/entry-points.js';
import { entriesOf } from '../tracing/entries.js';
import type { Program } from '../program/program.js';
import { OPS_FLAGS, OPS_WORDS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import type { FrameRow, ProofModel } from '../machine/proof.js';
import type { WantedFrame } from './frames.js';

/** A callback with what tells its calls. */
export interface WantedCall {
  readonly name: string;
  /** Where all ways in come by: its local entry, where it has one. */
  readonly place: Address;
  /** Where it is entered from elsewhere: with ELFv2 its global entry, `place` is the local one. */
  readonly entry: Address;
  /** The ops that it is told; null: nothing is known of that. */
  readonly ops: Address | null;
  /** The ops that it is of; 0n: none. */
  readonly self: Address;
  /** Left out while RCU does not watch. */
  readonly needsRcu: boolean;
}

export interface Wanted {
  readonly calls: readonly WantedCall[];
  /** The return address is replaced: the graph tracer is there. */
  readonly hijack: boolean;
  /** The function signed its return address: the graph tracer leaves it alone, filter or not. */
  readonly isBound?: boolean;
  /** A return probe replaces it. */
  readonly trap: boolean;
  /** Where the site goes on to in the end instead of the code behind it. */
  readonly direct: WantedCall | null;
  readonly replacement: WantedCall | null;
  /** The register frame that callbacks are handed; null: they get ip and parent alone. */
  readonly frame: WantedFrame | null;
}

interface ListedOps {
  readonly address: Address;
  readonly func: Address;
  readonly flags: number;
  readonly data: bigint;
  readonly filter: ReadonlySet<Address> | null;
  readonly notrace: ReadonlySet<Address> | null;
}

/** An ops that the list holds more often than this is a circle. */
const LONGEST_LIST = 4096;

export class WantedCalls {
  private readonly ops: readonly ListedOps[];
  private readonly direct: ReadonlyMap<Address, Address>;
  private readonly graph: readonly Address[];
  private readonly livepatch: Address | null;
  /** Entries hand on ops and registers, not ip and parent alone. */
  private readonly passesOps: boolean;
  private readonly frames: FrameRow | null;

  constructor(
    private readonly program: Program,
    proof: ProofModel,
  ) {
    this.ops = this.list();
    this.direct = this.directRows();
    this.graph = ['ftrace_graph_func'].flatMap((name) => entryPoint(program, name)?.identity ?? []);
    const convention = this.known ? entriesOf(program).convention : null;
    this.passesOps = convention?.capabilities.passes === 4;
    this.frames = convention === null ? null : (proof.frames[convention.name] ?? null);
    this.livepatch = entryPoint(program, 'elftrace_livepatch')?.identity ?? null;
  }

  /** True where the image has the runtime whose objects these are. */
  get known(): boolean {
    return entryPoint(this.program, 'ftrace_ops_list') !== null && entryPoint(this.program, 'elftrace_data') !== null;
  }

  private word(address: Address): bigint {
    const { reader, image } = this.program;
    const value = image.wordBytes === 8 ? reader.u64(address) : BigInt(reader.u32(address));
    return value === null || value < 0n ? 0n : value;
  }

  private hash(address: Address): ReadonlySet<Address> | null {
    if (address === 0n) return null;
    const size = BigInt(this.program.image.wordBytes);
    const count = Number(this.word(address));
    return new Set(Array.from({ length: count }, (_, i) => this.word(address + BigInt(1 + i) * size)));
  }

  private list(): ListedOps[] {
    const head = entryPoint(this.program, 'ftrace_ops_list');
    const end = entryPoint(this.program, 'ftrace_list_end');
    if (head === null || end === null) return [];
    const size = BigInt(this.program.image.wordBytes);
    const found: ListedOps[] = [];
    let at = this.word(head.identity);
    while (at !== 0n && at !== end.identity && found.length < LONGEST_LIST) {
      const field = (name: keyof typeof OPS_WORDS): bigint => this.word(at + BigInt(OPS_WORDS[name]) * size);
      found.push({
        address: at,
        func: field('func'),
        flags: Number(field('flags')),
        data: field('private'),
        filter: this.hash(field('filter')),
        notrace: this.hash(field('notrace')),
      });
      at = field('next');
    }
    return found;
  }

  private directRows(): ReadonlyMap<Address, Address> {
    const pointer = entryPoint(this.program, 'ftrace_direct_table');
    const table = pointer === null ? 0n : this.word(pointer.identity);
    const rows = new Map<Address, Address>();
    if (table === 0n) return rows;
    const size = BigInt(this.program.image.wordBytes);
    const count = Number(this.word(table));
    for (let i = 0; i < count; i++) {
      const at = table + BigInt(1 + 2 * i) * size;
      rows.set(this.word(at), this.word(at + size));
    }
    return rows;
  }

  private call(address: Address, ops: Address | null = null, self = 0n, needsRcu = false): WantedCall {
    const { program } = this;
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionStarting(range, address);
    const local = symbol < 0 ? 0n : BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    const name = symbol < 0 ? `0x${address.toString(16)}` : program.symbolName(symbol);
    return { name, place: address + local, entry: address, ops, self, needsRcu };
  }

  /** A direct caller, as the table has it: bit 0 says that the site jumps, unless it is its own. */
  private callerOf(caller: Address): Address {
    const range = this.program.codeAt(caller);
    return range !== undefined && this.program.functionStarting(range, caller) >= 0 ? caller : caller & ~1n;
  }

  /** The text address of a pointer to a function, which is a descriptor on some machines. */
  private text(pointer: bigint): Address {
    return this.program.codeAt(pointer) === undefined ? this.word(pointer) : pointer;
  }

  /**
   * What a site that is on must do.
   * @param ip       the site as its record has it
   * @param isBound  the function signed its return address: the graph tracer leaves it alone
   */
  at(ip: Address, isBound: boolean): Wanted {
    const calls: WantedCall[] = [];
    let hijack = false;
    let full = false;
    let replacement: WantedCall | null = null;
    for (const ops of this.ops) {
      // C-HASH-2: a filter without entries waits for a module, and takes nothing.
      const takes = (ops.filter === null || ops.filter.has(ip)) && ops.notrace?.has(ip) !== true;
      if (!takes) continue;
      full ||= (ops.flags & OPS_FLAGS.SAVE_REGS) !== 0;
      if ((ops.flags & OPS_FLAGS.DIRECT) !== 0) continue;
      if ((ops.flags & OPS_FLAGS.STUB) !== 0) {
        hijack = true;
        continue;
      }
      if (this.graph.includes(ops.func)) hijack = true;
      if (ops.func === this.livepatch) replacement = this.call(this.text(ops.data));
      const needsRcu = (ops.flags & OPS_FLAGS.RCU) !== 0;
      calls.push(this.call(ops.func, this.passesOps ? ops.address : null, ops.address, needsRcu));
    }
    const caller = this.direct.get(ip);
    const direct = caller === undefined ? null : this.call(this.callerOf(caller));
    const frame = this.frames === null ? null : { row: this.frames, full };
    return { calls, hijack: hijack && !isBound, isBound, trap: false, direct, replacement, frame };
  }
}
