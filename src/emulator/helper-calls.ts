/** Calls of what no op expresses: the helpers of a lifter, of which the system call is one. */
import { checkCpu, synchronise } from './parts.js';
import type { MachineParts } from './parts.js';
import { rewind } from './running.js';
import type { Running } from './running.js';
import type { StopReason } from './stops.js';
import type { Translated } from './translations.js';
import type { Terminator } from '../machine/ir.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

/** The end of a block that calls a helper. */
type HelperEnd = Extract<Terminator, { readonly kind: 'helper' }>;

/**
 * Runs the helper that ends `owner`. The block is paid; while the helper looks, its own instruction
 * is not completed yet.
 */
export function runHelper(parts: MachineParts, run: Running, owner: Translated): StopReason | null {
  const stop = callAndSettle(parts, run, owner);
  checkCpu(parts, run.cpu);
  if (!stop) run.cpu.passHook = null;
  return stop;
}

function callAndSettle(parts: MachineParts, run: Running, owner: Translated): StopReason | null {
  const { cpu } = run;
  cpu.instructions--;
  const result = callHelper(parts, owner);
  cpu.instructions++;
  if (result === null || result.kind === 'exit' || result.kind === 'signal') return result;
  if (result.kind === 'yield') {
    cpu.passHook = null;
    return result;
  }
  rewind(parts, run, owner, owner.count - 1);
  if (result.kind === 'trap' || result.kind === 'fault') synchronise(parts, parts.cpus.index);
  if (result.kind !== 'fault') return result;
  return parts.onFault(result.address, result.access) ? null : result;
}

/** A stop but for `exit` and `signal` is one before the instruction. */
function callHelper(parts: MachineParts, { terminator, last: instruction }: Translated): StopReason | null {
  const { cpus, lifter } = parts;
  if (terminator.kind !== 'helper') throw new ElftraceError('internal', 'a helper exit without a helper');
  cpus.pc = instruction;
  const isSyscall = terminator.name === 'syscall';
  if (lifter.fetch ? lifter.fetch.synchronising.has(terminator.name) : isSyscall) synchronise(parts, cpus.index);
  return isSyscall ? callKernel(parts, terminator, instruction) : callLifter(parts, terminator, instruction);
}

function callKernel(parts: MachineParts, { next }: HelperEnd, instruction: Address): StopReason | null {
  const { cpus, lifter, stores } = parts;
  // The kernel runs on this CPU: where that sees its own stores it sees those of the call.
  const result = stores.byCpu(parts.syscall, lifter.fetch?.ownStores === true);
  const isDone = result.kind !== 'unserved' && result.kind !== 'waiting' && result.kind !== 'resumed';
  if (isDone) lifter.afterSyscall?.(cpus.state, next);
  switch (result.kind) {
    case 'next':
      if (cpus.pc === instruction) cpus.pc = next;
      return result.yields === true ? { kind: 'yield', instruction } : null;
    case 'resumed':
      return { kind: 'yield', instruction };
    case 'exit':
      cpus.pc = next;
      return { kind: 'exit', code: result.code };
    case 'signal':
      cpus.pc = next;
      return { kind: 'signal', signal: result.signal, instruction };
    case 'unserved':
      return { kind: 'syscall', instruction };
    case 'waiting':
      return { kind: 'waiting', instruction };
    default:
      return result satisfies never;
  }
}

function callLifter(parts: MachineParts, terminator: HelperEnd, instruction: Address): StopReason | null {
  const { cpus, lifter, stores } = parts;
  const { name } = terminator;
  const helper = lifter.helpers[name];
  if (!helper) throw new ElftraceError('internal', `no helper is named ${name}`, { what: name });
  const result = stores.byCpu(() => helper(cpus.state, terminator.argument));
  switch (result.kind) {
    case 'next':
      cpus.pc = terminator.next;
      return null;
    case 'goto':
      cpus.pc = result.pc;
      return null;
    case 'trap':
      return { kind: 'trap', trap: result.trap, instruction };
    case 'fault':
      return { kind: 'fault', address: result.address, access: result.access, instruction };
    default:
      return result satisfies never;
  }
}
