/**
 * Which tier executes what: when compiling begins, what is hot enough for it, what a stay in
 * compiled code means for the run, and which pages are left to tier 0 for good.
 */
import { LEAST_COMPILED, STAYS, STOPPED } from './alternation.js';
import { CompiledTier, SAMPLE } from './compiled.js';
import type { CodeSource, CompiledCounts } from './compiled.js';
import type { Cpus } from './cpus.js';
import { CONTROL } from './host.js';
import type { HostMemory } from './host.js';
import type { Hooks } from './hooks.js';
import { predictions } from './encoder.js';
import { EXIT_REASONS } from './handlers.js';
import type { ExitReason } from './handlers.js';
import type { Interpreter } from './interpreter.js';
import type { StopName } from './region-frames.js';
import { stopOf } from './region-modules.js';
import type { KeptTranslations } from './kept-translations.js';
import type { Lifter } from '../machine/ir.js';
import { CODE_PAGE_BITS } from './memory.js';
import type { GuestMemory } from './memory.js';
import { eliminateDeadOps } from './passes.js';
import { RestlessPages } from './restless-pages.js';
import type { Running } from './running.js';
import { MAX_BLOCK_INSTRUCTIONS } from './translations.js';
import type { Translated, Translations } from './translations.js';
import type { Address } from '../units.js';

/**
 * Instructions after which generated code returns even when nothing happened: V8 replaces baseline
 * code on calls only.
 */
const SLICE = 2_000_000;
/** Instructions after which something is compiled at first, or taken that was kept. */
const COMPILED_AFTER = 1_000_000;
const TAKEN_AFTER = 100_000;
/** Indirect calls, and as many jumps, that are remembered until compiling begins. */
const BRANCHES_KEPT = 4096;

/** Stays in compiled code that are alike. */
interface Stay {
  readonly from: Address;
  /** Instructions of each. */
  readonly used: number;
  readonly times: number;
}

export interface TiersOptions {
  readonly host: HostMemory;
  readonly interpreter: Interpreter;
  readonly lifter: Lifter;
  readonly memory: GuestMemory;
  readonly cpus: Cpus;
  readonly hooks: Hooks;
  readonly translations: Translations;
  readonly tier: 'auto' | 0 | 1;
  /** Instructions that all CPUs together execute before something is compiled, for `auto`. */
  readonly tierUpAfter: number | undefined;
  readonly kept: KeptTranslations | undefined;
}

export class Tiers {
  private readonly tier: 'auto' | 0 | 1;
  private readonly tierUpAfter: number;
  /** The compiled tier; null where it is not used (yet). */
  private compiled: CompiledTier | null = null;
  private readonly restless = new RestlessPages();
  /** Compiled code has executed something. */
  private compiledRan = false;
  /** Indirect calls and jumps and where they went, as tier 0 saw them. */
  private readonly indirectCalls: (readonly [Address, Address])[] = [];
  private readonly indirectJumps: (readonly [Address, Address])[] = [];
  /** State of the sequence that spreads samples, so that they fall on no loop's period. */
  private sampleSeed = 1;
  /** Instructions that tier 0 executes before the machine looks where it is. */
  private untilSample = 0;

  constructor(private readonly options: TiersOptions) {
    this.tier = options.tier;
    const usual = options.kept?.regions.isEmpty === false ? TAKEN_AFTER : COMPILED_AFTER;
    this.tierUpAfter = this.tier === 1 ? 0 : (options.tierUpAfter ?? usual);
  }

  /** The highest tier that has executed an instruction. */
  get reached(): 0 | 1 {
    return this.compiledRan ? 1 : 0;
  }

  get counts(): CompiledCounts | null {
    return this.compiled?.counts ?? null;
  }

  // ------------------------------------------------------------------------------------- compiling

  /** The compiled tier, if this machine has one and it is time for it. */
  private compiledTier(): CompiledTier | null {
    if (this.tier === 0) return null;
    if (this.compiled) return this.compiled;
    return this.options.cpus.totalInstructions < this.tierUpAfter ? null : this.beginCompiling();
  }

  private beginCompiling(): CompiledTier {
    const { lifter, host, interpreter, memory, translations } = this.options;
    const compiled = new CompiledTier(host, lifter, memory, this.codeSource(), interpreter, this.options.kept?.regions);
    for (const each of translations.blocks.values()) compiled.translated(each);
    for (const [site, target] of this.indirectCalls) compiled.calledFrom(site, target);
    for (const [site, target] of this.indirectJumps) compiled.jumped(site, target);
    this.compiled = compiled;
    translations.compiled = compiled;
    return compiled;
  }

  private codeSource(): CodeSource {
    const { lifter, host, hooks, translations, cpus } = this.options;
    const { blocks } = translations;
    return {
      lift: (address, leaders) => translations.liftForRegion(address, leaders),
      excluded: (address) => hooks.has(address) || this.restless.has(address),
      targets: () => [],
      simplify: (block) => eliminateDeadOps(block, lifter.slots),
      predictions: (address) => {
        const known = blocks.get(address);
        if (!known) return [];
        const { block, records } = translations.describe(known);
        return predictions(host, known.header, records).map(({ op, descriptor, moves }) => ({
          instruction: block.instructions[op.at]!,
          descriptor,
          moves,
        }));
      },
      known: (address) => this.tier === 1 || blocks.has(address),
      instructions: () => cpus.totalInstructions,
      mayTake: () => !hooks.any,
      entered: (address) => {
        const known = blocks.get(address);
        if (known && known.prefix !== 'region') translations.drop(known);
      },
    };
  }

  // ----------------------------------------------------------------------------- what is executed

  /** Instructions that tier 0 executes at most before it comes back. */
  fuel(remaining: number): number {
    if (this.tier !== 'auto') return Math.min(remaining, SLICE);
    const left = this.compiled ? this.untilSample : this.tierUpAfter - this.options.cpus.totalInstructions;
    return Math.min(remaining, SLICE, Math.max(MAX_BLOCK_INSTRUCTIONS, left));
  }

  /**
   * Executes from the block header `run.entry` in tier 0, and in compiled code where that leads.
   * @returns why tier 0 has left; null: compiled code was left last, at `pc`
   */
  execute(run: Running): ExitReason | null {
    const { host, interpreter, cpus } = this.options;
    const own = this.fuel(run.remaining);
    const compiled = this.alternates(run);
    if (!compiled) {
      const reason = EXIT_REASONS[interpreter.run(run.entry, own)]!;
      this.completed(run, own - host.u32[CONTROL.fuel >> 2]!);
      return reason;
    }
    const left = Math.min(run.remaining, SLICE);
    host.u32[CONTROL.left >> 2] = left;
    host.u32[CONTROL.own >> 2] = own;
    if (host.u32[CONTROL.stays >> 2] === 0) host.u32[CONTROL.stays >> 2] = STAYS;
    const result = compiled.alternate(run.entry);
    const byItself = own - host.u32[CONTROL.own >> 2]!;
    this.completed(run, byItself);
    const others = left - host.u32[CONTROL.left >> 2]! - byItself;
    if (others > 0) {
      run.remaining -= others;
      run.cpu.instructions += others;
      run.cpu.passHook = null;
      this.compiledRan = true;
      compiled.executed(others);
    }
    if (result < STOPPED) return EXIT_REASONS[result]!;
    const times = host.u32[CONTROL.stays >> 2] === 0 ? STAYS : 1;
    cpus.pc = host.u64[CONTROL.place >> 3]!;
    const stay = { from: host.u64[CONTROL.from >> 3]!, used: host.u32[CONTROL.used >> 2]!, times };
    this.left(run, compiled, stay, stopOf(result - STOPPED));
    return null;
  }

  /** Tier 0 has completed so many instructions. */
  private completed(run: Running, instructions: number): void {
    run.remaining -= instructions;
    run.cpu.instructions += instructions;
    this.untilSample -= instructions;
  }

  /** The compiled tier, where it may take turns with tier 0. */
  private alternates(run: Running): CompiledTier | null {
    const { compiled } = this;
    if (!compiled || this.tier !== 'auto' || run.remaining < LEAST_COMPILED) return null;
    return (run.stack ??= compiled.hasStack()) ? compiled : null;
  }

  /** The block may follow on compiled code without that anyone asks. */
  mayFollow({ address, header, prefix }: Translated): void {
    if (this.compiled && prefix === null) this.options.interpreter.blocks.set(address, header);
  }

  /** Tier 0 has used up its fuel at `pc`: it is looked at from time to time where that is. */
  ranOut(): void {
    if (this.tier !== 'auto' || !this.compiled || this.untilSample >= MAX_BLOCK_INSTRUCTIONS) return;
    this.sampleSeed = (Math.imul(this.sampleSeed, 1_664_525) + 1_013_904_223) >>> 0;
    this.untilSample = SAMPLE - (SAMPLE >> 2) + Math.floor((this.sampleSeed / 0x1_0000_0000) * (SAMPLE >> 1));
    this.compiled.sample(this.options.cpus.pc);
  }

  isCompiled(address: Address): boolean {
    return this.compiled !== null && this.compiled.find(address) !== 0;
  }

  /** There may be a region at the address: one that is there, or no tier to ask. */
  hasRegion(address: Address): boolean {
    return this.compiled?.find(address) !== 0;
  }

  /** Whether tier 0 alone executes the code there, for good. */
  isRestless(address: Address): boolean {
    return this.restless.has(address);
  }

  /** An indirect branch went to `pc` for the first time, as tier 0 knows. */
  noteJump(pointer: number): void {
    if (this.tier === 0) return;
    const { cpus, translations } = this.options;
    const { terminator, last: site } = translations.ownerOf(pointer);
    const { kind } = terminator;
    if (kind === 'calli') {
      if (this.compiled) this.compiled.calledFrom(site, cpus.pc);
      else if (this.indirectCalls.length < BRANCHES_KEPT) this.indirectCalls.push([site, cpus.pc]);
    } else if (kind === 'ind') {
      if (this.compiled) this.compiled.jumped(site, cpus.pc);
      else if (this.indirectJumps.length < BRANCHES_KEPT) this.indirectJumps.push([site, cpus.pc]);
    }
  }

  /** Whether compiled code, if it may run, was executed at `pc`; false: tier 0 goes on. */
  enter(run: Running, mayRun: boolean): boolean {
    const compiled = this.compiledTier();
    return compiled !== null && mayRun && this.enterCompiled(run, compiled);
  }

  /**
   * Executes compiled code at `pc` where there is some and it is worthwhile; false: tier 0 goes on.
   */
  private enterCompiled(run: Running, compiled: CompiledTier): boolean {
    const { cpus, host } = this.options;
    if (run.remaining < LEAST_COMPILED && this.tier !== 1) return false;
    if (this.restless.has(cpus.pc)) return false;
    if (this.tier === 1 && compiled.find(cpus.pc) === 0) compiled.compile(cpus.pc);
    const place = run.asked ? compiled.wanted(cpus.pc, run.asked) : compiled.find(cpus.pc);
    run.asked = 0;
    if (place === 0 || !(run.stack ??= compiled.hasStack())) return false;
    const fuel = Math.min(run.remaining, SLICE);
    const from = cpus.pc;
    const stop = compiled.enter(place, from, fuel);
    const used = fuel - host.u32[CONTROL.fuel >> 2]!;
    run.remaining -= used;
    run.cpu.instructions += used;
    cpus.pc = host.u64[CONTROL.place >> 3]!;
    if (used > 0) this.compiledRan = true;
    this.left(run, compiled, { from, used, times: 1 }, stop);
    return true;
  }

  /** Compiled code was left for `stop`; `pc` is where it was left for. */
  private left(run: Running, compiled: CompiledTier, { from, used, times }: Stay, stop: StopName): void {
    const { cpus, host } = this.options;
    run.interpret = used === 0;
    if (stop !== 'fuel' && this.restless.countShortRun(from, used, times)) {
      compiled.dropRange(from & -(1n << CODE_PAGE_BITS), 1 << Number(CODE_PAGE_BITS));
    }
    switch (stop) {
      case 'fuel':
        break;
      case 'jump':
        compiled.jumped(host.u64[CONTROL.site >> 3]!, cpus.pc, times);
        run.asked = times;
        break;
      case 'lookup':
        run.asked = times;
        break;
      case 'miss':
        compiled.missed(cpus.pc, times);
        run.interpret = true;
        break;
      case 'exit':
        run.interpret = true;
        break;
      default:
        stop satisfies never;
    }
  }

  // -------------------------------------------------------------------------------------- dropping

  /** Code in the range is stale, in both tiers; `only` as for `Translations.dropRange`. */
  dropRange(address: Address, size: number, only: boolean): void {
    if (size === 0) return;
    if (!this.restless.has(address) && this.compiled?.holds(address, size)) this.restless.countRewrite(address, size);
    this.compiled?.dropRange(address, size);
    this.options.translations.dropRange(address, size, only);
  }

  /** Code that has an instruction at the address is stale, in both tiers. */
  dropCovering(address: Address): void {
    this.compiled?.dropCovering(address);
    this.options.translations.dropCovering(address);
  }
}
