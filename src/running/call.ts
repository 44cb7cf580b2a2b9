/** A call of one function of an image, with nothing of the program run before it. */
import type { StopReason } from '../emulator/index.js';
import { beginCall, type CallOutcome, type Process } from '../guest/index.js';
import { ElftraceError } from '../errors.js';
import type { RunImage } from './image.js';

/** A function by its name, and what it gets. */
export interface FunctionCall {
  readonly name: string;
  readonly args: readonly (bigint | string)[];
}

/**
 * Prepares the call of a function. What is returned says how it ended, given why the run stopped.
 */
export function prepareCall(
  loaded: RunImage,
  guest: Process,
  expression: FunctionCall,
): (stop: StopReason) => CallOutcome {
  const { program, arch, emulation } = loaded;
  const { symbols } = program;
  let symbol = -1;
  for (const name of [expression.name, `.${expression.name}`]) {
    const found = symbols.find(name);
    if (found > 0 && symbols.sectionIndex[found] !== 0) {
      symbol = found;
      break;
    }
  }
  if (symbol < 0) {
    throw new ElftraceError('no-match', `no function is named ${expression.name}`, { symbol: expression.name });
  }
  const address = symbols.value[symbol]!;
  const descriptor = emulation.process.entry.kind === 'descriptor' && !program.codeAt(address);
  if (!descriptor && !program.codeAt(address)) {
    throw new ElftraceError('no-match', `${expression.name} is no function`, { symbol: expression.name });
  }
  const registers = new Map<string, bigint>();
  for (const [register, anchor] of emulation.process.anchors) {
    const found = symbols.find(anchor);
    if (found > 0) registers.set(register, symbols.value[found]! + guest.bias);
  }
  const { entry } = emulation.process;
  if (entry.kind === 'descriptor' && program.toc !== null) registers.set(entry.toc, program.toc + guest.bias);
  return beginCall(guest, {
    abi: arch.abi,
    emulation,
    target: { kind: descriptor ? 'descriptor' : 'code', address: address + guest.bias },
    args: expression.args,
    registers,
  });
}
