/** `elftrace cost IMAGE`: what a traced call costs, in instructions, by the way to the callback. */
import { callCosts } from '../cost/index.js';
import { ElftraceError } from '../errors.js';
import { costJson, costLines } from '../report/cost.js';
import { compileLate, LATE_FOR_PROGRAMS } from './compile-late.js';
import { exitCodes } from './exit.js';
import { readInput } from './files.js';
import { commandDeadline, commandLimits } from './limits.js';
import { hash } from './hash.js';
import { open, type OpenOptions } from './open.js';
import { out } from './terminal.js';

export interface CostArguments extends OpenOptions {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly tracers: readonly number[];
  readonly json: boolean;
}

export async function runCost(args: CostArguments): Promise<number> {
  compileLate(LATE_FOR_PROGRAMS);
  const { arch, sites, record } = await open(await readInput(args.path, 'read'), args);
  if (record !== null) {
    throw new ElftraceError('unsupported-form', 'the file is patched: revert it, cost lays its own tracers in');
  }
  const cost = callCosts(sites, {
    tracers: args.tracers,
    args: [args.path, ...args.arguments],
    hash,
    instructions: commandLimits().instructions,
    deadline: commandDeadline(),
  });
  if (args.json) out(JSON.stringify(costJson(args.path, arch.target.id, cost)));
  else for (const line of costLines(arch.target.title, cost)) out(line);
  return exitCodes.ok;
}
