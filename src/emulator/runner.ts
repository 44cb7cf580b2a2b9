/**
 * The loop that runs a machine: it enters translated code at `pc` and acts on what that leaves for.
 * A stop leaves the state exactly before the instruction that stopped (after it for a budget). No
 * generated code is on the call stack while TypeScript runs, so code can be dropped here.
 */
import { runHelper } from './helper-calls.js';
import { CONTROL } from './host.js';
import { writeForward, writeTrampoline } from './encoder.js';
import { HEADER_BYTES, RECORD_BYTES } from './handlers.js';
import type { ExitReason } from './handlers.js';
import type { TrapKind } from '../machine/ir.js';
import { serveMiss } from './missed-accesses.js';
import { checkCpu, synchronise } from './parts.js';
import type { MachineParts } from './parts.js';
import { beginRun, rewind } from './running.js';
import type { Running } from './running.js';
import type { StopReason } from './stops.js';
import { BLOCKS_START } from './translations.js';
import type { Translated } from './translations.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

/** What a program leaves tier 0 for beside what every program does. */
type RareExit = Exclude<ExitReason, 'fuel' | 'lookup' | 'untranslated'>;

export class Runner {
  constructor(private readonly parts: MachineParts) {}

  /** Runs until something stops it, or `budget` instructions are completed (exactly). */
  run(budget: number): StopReason {
    const { host, cpus, tiers } = this.parts;
    const cpu = cpus.running;
    const run = beginRun(cpu, budget);
    for (;;) {
      if (run.entry === 0) {
        const stop = this.enter(run);
        if (stop) return stop;
        if (run.entry === 0) continue;
      }
      const reason = tiers.execute(run);
      run.entry = 0;
      if (reason === null) continue;
      const pointer = host.u32[CONTROL.pointer >> 2]!;
      // What every program leaves for is here; V8 need not compile the rest for most.
      if (reason === 'fuel') this.ranOut(run, pointer);
      else if (reason === 'lookup') this.lookUp(run, pointer);
      else if (reason === 'untranslated') this.link(run, pointer);
      else {
        const stop = this.serveExit(run, reason, pointer);
        if (stop) return stop;
      }
    }
  }

  // -------------------------------------------------------------------------------------- entering

  /**
   * Finds what is executed at `pc` and makes it `run.entry`; 0: compiled code, hooks or a gate were
   * there, and something else is next.
   */
  private enter(run: Running): StopReason | null {
    const { cpus, hooks, tiers } = this.parts;
    const { cpu } = run;
    if (run.remaining <= 0) return { kind: 'step-limit' };
    let passing = cpu.passHook === cpus.pc;
    if (!passing) cpu.passHook = null;
    run.watched = 0;
    // What tier 0 would come back for after its first record.
    const isServed = !passing && (run.isOnlyHooked || (hooks.has(cpus.pc) && this.asksForHooks(run, cpus.pc)));
    run.isOnlyHooked = false;
    if (isServed) {
      const stop = this.serveHooks(run, cpus.pc);
      if (stop) return stop;
      if (cpu.passHook === null) return null;
      passing = true;
    }
    if (tiers.enter(run, !run.interpret && !passing && !run.alone)) return null;
    run.asked = 0;
    const gate = passing ? hooks.gateAt(cpus.pc) : undefined;
    if (gate) return this.passGate(run, gate);
    const block = this.blockToRun(run, passing);
    if (!block) return { kind: 'fault', address: cpus.pc, access: 'execute', instruction: cpus.pc };
    const { header } = block;
    const skips = (passing && block.prefix === 'hook') || block.prefix === 'region';
    run.entry = skips ? writeTrampoline(this.parts.host, header + HEADER_BYTES + RECORD_BYTES, block.count) : header;
    return null;
  }

  /** The block at `pc`, or as much of it as may run; null where nothing may be executed. */
  private blockToRun(run: Running, passing: boolean): Translated | null {
    const { cpus, hooks, tiers, translations } = this.parts;
    const { alone, slow } = run;
    let block = alone ? null : translations.translate(cpus.pc);
    if (block) tiers.mayFollow(block);
    if (alone || (block && block.count > run.remaining)) {
      const hooked = !passing && hooks.has(cpus.pc);
      block = translations.translateOnce(cpus.pc, alone ? 1 : run.remaining, hooked, slow);
    }
    run.alone = false;
    run.slow = false;
    run.interpret = false;
    return block;
  }

  private passGate(run: Running, gate: () => 'continue' | 'stop'): StopReason | null {
    const address = this.parts.cpus.pc;
    const result = gate();
    checkCpu(this.parts, run.cpu);
    run.cpu.instructions++;
    run.remaining--;
    run.cpu.passHook = null;
    return result === 'stop' ? { kind: 'hook', address } : null;
  }

  /** Hooks are at an address, and tier 0 would leave there for them. */
  private asksForHooks({ alone }: Running, address: Address): boolean {
    if (alone) return false;
    const known = this.parts.translations.blocks.get(address);
    return known ? known.prefix === 'hook' : this.isOnlyHooked(address);
  }

  /**
   * Hooks are at an address whose code was not translated yet: they may stop the run, and then it
   * need not be. False where nothing can be executed.
   */
  private isOnlyHooked(address: Address): boolean {
    const { fetch, hooks, memory, translations } = this.parts;
    return (
      !fetch && hooks.has(address) && !translations.blocks.has(address) && memory.check(address, 1, 'execute') === null
    );
  }

  /**
   * Calls the hooks of an address, at which `pc` is. They are behind it (`passHook`) unless one of
   * them went elsewhere.
   */
  private serveHooks({ cpu }: Running, address: Address): StopReason | null {
    cpu.passHook = address;
    let stop = false;
    for (const each of [...this.parts.hooks.at(address)]) if (each() === 'stop') stop = true;
    if (this.parts.cpus.pc !== address) cpu.passHook = null;
    if (stop) return { kind: 'hook', address };
    checkCpu(this.parts, cpu);
    return null;
  }

  // --------------------------------------------------------------------------------------- leaving

  private ranOut(run: Running, pointer: number): void {
    const { cpus, tiers, translations } = this.parts;
    cpus.pc = translations.ownerOf(pointer).address;
    run.cpu.passHook = null;
    tiers.ranOut();
  }

  /** The block that the code goes on to, at which `pc` is; null: `enter` finds what is there. */
  private found(run: Running): Translated | null {
    const { cpus, fetch, translations } = this.parts;
    // What is not executed yet is not fetched.
    if (fetch && run.remaining <= 0) return null;
    run.isOnlyHooked = this.isOnlyHooked(cpus.pc);
    return run.isOnlyHooked ? null : translations.translate(cpus.pc);
  }

  /** An indirect branch went where tier 0 knows no block yet. */
  private lookUp(run: Running, pointer: number): void {
    const { cpus, host, interpreter, tiers } = this.parts;
    cpus.pc = host.u64[CONTROL.value >> 3]!;
    run.cpu.passHook = null;
    // Restless code is not compiled: where it is called from and whether it is there need not be
    // asked.
    if (!tiers.isRestless(cpus.pc)) {
      tiers.noteJump(pointer);
      if (tiers.isCompiled(cpus.pc)) return;
    }
    const block = this.found(run);
    if (block) interpreter.blocks.set(cpus.pc, block.header);
  }

  /** A direct branch to a block that it is not linked with yet. */
  private link(run: Running, pointer: number): void {
    const { cpus, host, tiers, translations } = this.parts;
    cpus.pc = host.u64[(pointer + 8) >> 3]!;
    run.cpu.passHook = null;
    const header = pointer - HEADER_BYTES;
    const link = host.u32[header >> 2]!;
    const { generation } = translations;
    if (!tiers.isRestless(cpus.pc) && tiers.isCompiled(cpus.pc)) return;
    const block = this.found(run);
    if (!block || generation !== translations.generation || pointer < BLOCKS_START) return;
    if (link === 0) writeForward(host, header, block.header);
    else host.u32[link >> 2] = block.header;
  }

  /** `pointer`: the record that tier 0 has left from. */
  private serveExit(run: Running, reason: RareExit, pointer: number): StopReason | null {
    const { parts } = this;
    const { cpus, tiers, translations } = parts;
    const owner = translations.ownerOf(pointer);
    const { terminator } = owner;
    /** Index of the record in the block. */
    const index = (pointer - owner.header - HEADER_BYTES) / RECORD_BYTES;
    switch (reason) {
      case 'region':
        rewind(parts, run, owner, 0);
        // A region that is gone left this behind.
        if (!tiers.hasRegion(cpus.pc)) translations.drop(owner);
        return null;
      case 'hook':
        rewind(parts, run, owner, 0);
        // A block without instructions costs nothing, so it can be reached with nothing left.
        return run.remaining > 0 ? this.serveHooks(run, owner.address) : null;
      case 'helper':
        return runHelper(this.parts, run, owner);
      case 'trap':
        if (terminator.kind !== 'trap') throw new ElftraceError('internal', 'a trap without a trap');
        return this.trap(run, owner, owner.count - 1, terminator.trap);
      case 'check': {
        const { ops, at } = translations.describe(owner).records;
        const op = ops[index];
        const row = op?.row;
        if (row?.form !== 'check') throw new ElftraceError('internal', 'a check that failed without a check');
        return this.trap(run, owner, at[index]!, row.trap);
      }
      case 'sync':
      case 'unknown':
      case 'fetch':
        return this.serveEnd(run, owner, reason);
      case 'slow':
        // Its hooks were served when the block was entered, or it is not the first.
        run.cpu.passHook = rewind(parts, run, owner, translations.describe(owner).records.at[index]!);
        run.alone = true;
        run.slow = true;
        return null;
      case 'miss':
        return serveMiss(this.parts, run, owner, index);
      default:
        return reason satisfies never;
    }
  }

  /** `at`: the instruction of the block that traps. */
  private trap(run: Running, owner: Translated, at: number, trap: TrapKind): StopReason {
    const instruction = rewind(this.parts, run, owner, at);
    synchronise(this.parts, this.parts.cpus.index);
    return { kind: 'trap', trap, instruction };
  }

  /** All of the block is done; what is behind it cannot simply follow. */
  private serveEnd(run: Running, owner: Translated, reason: 'sync' | 'unknown' | 'fetch'): StopReason | null {
    const { cpus, memory, translations } = this.parts;
    const { terminator, end } = owner;
    if (reason === 'sync') {
      if (terminator.kind !== 'sync') throw new ElftraceError('internal', 'a synchronisation without a cause');
      cpus.pc = terminator.next;
      run.cpu.passHook = null;
      synchronise(this.parts, cpus.index);
      return null;
    }
    cpus.pc = end;
    if (reason === 'fetch') {
      // Its last bytes may be mapped by the next time.
      translations.dropFound(owner);
      if (run.remaining <= 0) return null;
      const bad = memory.check(end, 16, 'execute') ?? end;
      return { kind: 'fault', address: bad, access: 'execute', instruction: end };
    }
    if (terminator.kind !== 'unknown') throw new ElftraceError('internal', 'unknown without a cause');
    if (run.remaining <= 0) return null;
    const bytes = translations.codeBytes(end, terminator.sizeBytes);
    return { kind: 'unknown-instruction', instruction: end, bytes, mnemonic: terminator.mnemonic };
  }
}
