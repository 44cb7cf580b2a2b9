/** What a machine consists of, as the code that runs it sees it. */
import type { Cpu, Cpus } from './cpus.js';
import type { FetchBuffers } from './fetch.js';
import type { Hooks, Watches } from './hooks.js';
import type { HostMemory } from './host.js';
import type { Interpreter } from './interpreter.js';
import type { Lifter } from '../machine/ir.js';
import type { AccessKind, GuestMemory } from './memory.js';
import type { SyscallResult } from './stops.js';
import type { Stores } from './stores.js';
import type { Tiers } from './tiers.js';
import type { Translations } from './translations.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

export interface MachineParts {
  readonly lifter: Lifter;
  readonly host: HostMemory;
  readonly memory: GuestMemory;
  readonly interpreter: Interpreter;
  readonly cpus: Cpus;
  readonly hooks: Hooks;
  readonly watches: Watches;
  /** null: CPUs see code as memory has it. */
  readonly fetch: FetchBuffers | null;
  readonly translations: Translations;
  readonly tiers: Tiers;
  readonly stores: Stores;
  /** Performs the system call of the instruction at `pc`. */
  readonly syscall: () => SyscallResult;
  /** True: what was accessed is mapped now. */
  readonly onFault: (address: Address, access: AccessKind) => boolean;
}

/** Makes a CPU fetch anew. True: it had old bytes. */
export function synchronise({ fetch, translations }: MachineParts, index: number): boolean {
  if (!fetch) return false;
  const stale = fetch.synchronise(index);
  translations.dropOf(index);
  return stale;
}

/** What was called must not have made another CPU the running one. */
export function checkCpu({ cpus }: MachineParts, cpu: Cpu): void {
  if (cpus.running === cpu) return;
  throw new ElftraceError('usage', 'hooks and system calls must not switch CPUs: stop, and switch between runs', {
    address: cpus.pc,
  });
}
