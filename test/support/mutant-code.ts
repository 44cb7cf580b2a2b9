/** The tracer's code in an image, for mutants (PV-5): what is where, and which ways lead there. */
import * as elf from '../../src/elf/constants.js';
import { PROBE_PEEK } from '../../src/runtime/abi.js';
import { type Program, siteStubSection, trampolineSection } from '../../src/program/program.js';
import { entriesOf } from '../../src/tracing/entries.js';
import type { Address } from '../../src/units.js';
import { Equality } from './mutant-equal.js';
import { CodeFlow, type CodeRange } from './mutant-flow.js';
import { Liveness } from './mutant-liveness.js';
import { type Called, calledIn, contentsOf, usesOf } from './mutant-twins.js';

/** Where functions with the graph tracer return to. */
const HANDLER = /^\.?(?:return_to_handler|elftrace_return_text)$/;
/** Entries of sites. */
const ENTRY = /^(?:ftrace_(?:regs_)?caller|_?mcount)$/;

/** Labels that say where code is: the tool writes nothing there. */
const READ = /^elftrace_return_(?:text|end)$|^ftrace_(?:regs_)?caller_end$/;

/** Callbacks of sites: of their four arguments the last is the frame. */
const CALLBACK =
  /^(?:ftrace_(?:ops_list|ops_assist|graph|direct)_func|elftrace_(?:probe_ftrace|function_tracer|counter|livepatch))$/;

/** Where an instruction is: the same in all images that have the code. */
export interface Place {
  /** Object of the runtime, or what else holds code of the tracer. */
  readonly object: string;
  readonly symbol: string;
  /** From the symbol on, in bytes. */
  readonly offset: number;
  /** What tells the code of the symbol from others of the machine: equal where the code is. */
  readonly content: string;
}

/** Code of the tracer in an image. */
export class TracerCode {
  private readonly names: {
    readonly address: Address;
    readonly name: string;
    /** It is of a function, and has a local entry so many bytes on; null: a label. */
    readonly local: bigint | null;
  }[] = [];
  private readonly ranges: {
    readonly start: Address;
    readonly end: Address;
    readonly object: string;
    readonly isTrampoline: boolean;
    /** Bytes after which the same code comes again; 0: never. */
    readonly period?: number;
  }[] = [];
  private readonly contents: ReadonlyMap<string, string>;

  constructor(
    private readonly program: Program,
    readonly object: string,
  ) {
    const { image, symbols, arch } = program;
    this.contents = contentsOf(object);
    const part = program.loadMap?.parts.find(({ kind }) => kind === 'runtime');
    for (const [i, section] of image.sections.entries()) {
      if ((section.flags & elf.SHF_EXECINSTR) === 0n || section.size === 0) continue;
      const range = { start: section.address, end: section.address + BigInt(section.size) };
      const isPart = part !== undefined && i >= part.sections.first && i < part.sections.first + part.sections.count;
      if (section.name === trampolineSection)
        this.ranges.push({ ...range, object: `${object} trampoline`, isTrampoline: true });
      else if (section.name === siteStubSection)
        this.ranges.push({ ...range, object: `${arch.target.id} site stub`, isTrampoline: true });
      else if (isPart && section.name.startsWith('.text')) this.ranges.push({ ...range, object, isTrampoline: false });
    }
    for (const each of program.loadMap?.parts ?? []) {
      for (const { address, sizeBytes, count } of each.stubs) {
        this.ranges.push({
          start: address,
          end: address + BigInt(sizeBytes * count),
          object: `${arch.target.id} stub`,
          isTrampoline: true,
          period: sizeBytes,
        });
      }
    }
    for (let i = 1; i < symbols.count; i++) {
      const name = symbols.name(i);
      if ((symbols.info[i]! & 15) === elf.STT_SECTION || name === '' || name.startsWith('$') || name.startsWith('.L'))
        continue;
      const address = program.definedAt(i);
      if (address === null || this.rangeOf(address) === undefined) continue;
      const isFunction = (symbols.info[i]! & 15) === elf.STT_FUNC;
      const local = isFunction ? BigInt(arch.abi.localEntryOffset(symbols.other[i]!)) : null;
      this.names.push({ address, name, local });
    }
    this.names.sort((a, b) => (a.address < b.address ? -1 : a.address > b.address ? 1 : a.name < b.name ? -1 : 1));
  }

  private rangeOf(address: Address) {
    return this.ranges.find(({ start, end }) => address >= start && address < end);
  }

  placeOf(address: Address): Place | null {
    const range = this.rangeOf(address);
    if (range === undefined) return null;
    let found: { readonly address: Address; readonly name: string } | null = null;
    if (!range.isTrampoline) {
      for (const each of this.names) {
        if (each.address > address) break;
        if (each.address >= range.start && (found === null || each.address > found.address)) found = each;
      }
    }
    const offset = Number(address - (found?.address ?? range.start));
    return {
      object: range.object,
      symbol: found?.name ?? '',
      offset: range.period === undefined ? offset : offset % range.period,
      content: (range.isTrampoline ? undefined : this.contents.get(found?.name ?? '')) ?? range.object,
    };
  }

  private codeRanges(): readonly CodeRange[] {
    const { image } = this.program;
    return this.ranges
      .filter(({ object }) => object === this.object)
      .map(({ start, end }) => {
        const offset = image.fileOffsetOf(start);
        return { start, end, bytes: image.bytes.slice(offset, offset + Number(end - start)) };
      });
  }

  private made: CodeFlow | null = null;

  /** Ways through the object's code. */
  get flow(): CodeFlow {
    const names = this.names.map(({ address }) => address);
    return (this.made ??= new CodeFlow(this.program.arch.isa, this.codeRanges(), names, this.jumps()));
  }

  /** Where tables of jumps lead, by the function that has them. */
  private jumps(): ReadonlyMap<Address, readonly Address[]> {
    const called = calledIn(this.object);
    return new Map(
      this.names.flatMap(({ address, name }) => {
        const jumps = called.get(name)?.jumps ?? null;
        return jumps === null ? [] : [[address, jumps.map((offset) => address + BigInt(offset))] as const];
      }),
    );
  }

  private same: Equality | null = null;

  /** What says of changed code that it does the same. */
  get equality(): Equality {
    if (this.same !== null) return this.same;
    const { arch } = this.program;
    const { emulation, abi } = arch;
    if (emulation.kind !== 'ir') throw new Error(`${arch.target.id} has no emulation`);
    const machine = { lifter: emulation.lifter, proof: emulation.proof, abi };
    const called = calledIn(this.object);
    const unknown: Called = { callers: 'any', isCompiled: false, calls: 0, isVoid: false, jumps: null };
    const jumps = this.jumps();
    const { convention } = entriesOf(this.program);
    const isOrdinary = convention?.ordinaryCall === true;
    // Where plain entries have a frame, too, every callback gets one.
    const frame = convention === null ? undefined : machine.proof.frames[convention.name];
    const framed = (frame?.plain ?? null) === null ? [] : [abi.argumentRegisters[3]!];
    const functions = this.names.flatMap(({ address, name, local }) => {
      if (local === null) return [];
      const said = called.get(name) ?? unknown;
      const starts = local === 0n ? [address] : [address, address + local];
      const goals = jumps.get(address) ?? null;
      const isEntry = isOrdinary && !said.isCompiled && ENTRY.test(name);
      const set = CALLBACK.test(name) ? framed : [];
      const hands = name === 'elftrace_invoke' ? abi.argumentRegisters.slice(0, 4) : null;
      const faults = name === PROBE_PEEK;
      return [{ ...said, starts, jumps: goals, isOrdinary: isEntry, set, hands, faults }];
    });
    const labels = this.names.filter(({ local }) => local === null);
    const omits = (convention?.directWays?.omits ?? []).map(({ symbol }) => symbol);
    const written = labels.filter(({ name }) => omits.includes(name) || !READ.test(name));
    const [all, some] = [labels, written].map((each) => each.map(({ address }) => address)) as [Address[], Address[]];
    const liveness = new Liveness(machine, this.codeRanges(), functions, all, some);
    return (this.same = new Equality(machine, liveness));
  }

  private givesUp: ReadonlySet<Address> | null = null;

  /** Instructions of ways on which the graph tracer stops for good: a return is not found. */
  get stops(): ReadonlySet<Address> {
    if (this.givesUp !== null) return this.givesUp;
    const found = new Set<Address>();
    const uses = usesOf(this.object, ['elftrace_graph_return', 'pop'], 'elftrace_graph_stopped');
    for (const [name, offsets] of uses) {
      const entry = this.names.find((each) => each.name === name)?.address;
      if (entry === undefined) continue;
      const cuts = new Set(offsets.flatMap((offset) => this.flow.at(entry + BigInt(offset)) ?? []));
      for (const each of this.flow.onlyWith(entry, cuts)) found.add(each);
    }
    return (this.givesUp = found);
  }

  private trapping: readonly Address[] | null = null;

  /** Traps behind a return that is not known. */
  get traps(): readonly Address[] {
    return (this.trapping ??= this.findTraps());
  }

  private findTraps(): readonly Address[] {
    const isTrap = (at: Address): boolean => this.equality.liveness.at(at)?.block.terminator.kind === 'trap';
    return [...this.instructions()].filter((at) => isTrap(at) && HANDLER.test(this.placeOf(at)!.symbol));
  }

  /** Every instruction of the runtime's object. */
  *instructions(): Generator<Address> {
    const { arch, image } = this.program;
    for (const { start, end, object } of this.ranges) {
      if (object !== this.object) continue;
      const offset = image.fileOffsetOf(start);
      for (let at = 0; at < Number(end - start);) {
        const { sizeBytes, mnemonic } = arch.isa.decode(image.bytes, offset + at, start + BigInt(at));
        if (mnemonic !== 'unknown') yield start + BigInt(at);
        at += sizeBytes;
      }
    }
  }
}
