/**
 * `elftrace run IMAGE [ARGS]`: executes a program in the emulator. The guest's output is ours, its exit status too; a run that could
 * not be done ends with 125 and says where it stopped.
 */
import { writeFileSync } from 'node:fs';
import { archOf } from '../arches.js';
import { readElf } from '../elf/read.js';
import { startProcess, type StopReason } from '../emulator/index.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { load, type Program } from '../program/program.js';
import { jsonSchema, type Json } from '../report/json.js';
import { exitCodes } from './exit.js';
import { readInput } from './files.js';
import { err, errBytes, outBytes } from './terminal.js';

export interface RunArguments {
  readonly path: string;
  readonly arguments: readonly string[];
  readonly maxInstructions: string;
  readonly jsonStatus?: string | undefined;
}

/** Signals that Linux would send for a stop; a guest killed by one ends with 128 + N. */
const signals = { fault: 11, trap: 5, unknown: 4 } as const;

function place(program: Program, address: bigint): string {
  const range = program.codeAt(address);
  const name = range ? program.describe(range, address) : '';
  return name === '' ? hex(address) : `${hex(address)} (${name})`;
}

interface Outcome {
  readonly exit: number;
  readonly signal: number | null;
  readonly message: string | null;
  readonly stop: Json;
}

function outcomeOf(stop: StopReason, program: Program): Outcome {
  switch (stop.kind) {
    case 'exit':
      return { exit: stop.code, signal: null, message: null, stop: { reason: 'exit' } };
    case 'fault':
      return {
        exit: 128 + signals.fault,
        signal: signals.fault,
        message: `${stop.access} fault at ${hex(stop.address)}, instruction ${place(program, stop.instruction)}`,
        stop: { reason: 'fault', access: stop.access, address: hex(stop.address), instruction: hex(stop.instruction) },
      };
    case 'trap':
      return {
        exit: 128 + signals.trap,
        signal: signals.trap,
        message: `trap ${String(stop.trap)} at ${place(program, stop.instruction)}`,
        stop: { reason: 'trap', instruction: hex(stop.instruction) },
      };
    case 'unknown-instruction':
      return {
        exit: exitCodes.runFailed,
        signal: null,
        message:
          stop.mnemonic === null
            ? `unknown instruction ${hexBytes(stop.bytes)} at ${place(program, stop.instruction)}`
            : `instruction ${stop.mnemonic} at ${place(program, stop.instruction)} is decoded and not executed yet`,
        stop: { reason: 'unknown-instruction', instruction: hex(stop.instruction), bytes: hexBytes(stop.bytes) },
      };
    case 'syscall':
      return {
        exit: exitCodes.runFailed,
        signal: null,
        message: `system call at ${place(program, stop.instruction)} is not served`,
        stop: { reason: 'syscall', instruction: hex(stop.instruction) },
      };
    case 'hook':
      return {
        exit: exitCodes.runFailed,
        signal: null,
        message: `stopped at ${place(program, stop.address)}`,
        stop: { reason: 'hook', address: hex(stop.address) },
      };
    case 'step-limit':
      return {
        exit: exitCodes.runFailed,
        signal: null,
        message: 'stopped by --max-instructions',
        stop: { reason: 'step-limit' },
      };
    default:
      return stop satisfies never;
  }
}

export async function runRun(args: RunArguments): Promise<number> {
  const budget = Number(args.maxInstructions);
  if (!Number.isSafeInteger(budget) || budget <= 0) {
    throw new ElftraceError('usage', '--max-instructions takes a positive whole number');
  }
  const input = await readInput(args.path);
  const image = readElf(input.bytes);
  const arch = archOf(image.header);
  const { emulation } = arch;
  if (emulation.kind === 'none') {
    throw new ElftraceError('unsupported-form', `${arch.target.title}: ${emulation.reason}`, { file: args.path });
  }
  const program = load(image, arch);
  const begin = process.hrtime.bigint();
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation,
    args: [args.path, ...args.arguments],
    onOutput: (descriptor, bytes) => {
      if (descriptor === 2) errBytes(bytes);
      else outBytes(bytes);
    },
  });
  const stop = guest.run({ budget });
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  const outcome = outcomeOf(stop, program);
  if (outcome.message !== null) err(`${input.name}: ${outcome.message}`);
  if (args.jsonStatus !== undefined) {
    const status: Json = {
      schema: jsonSchema,
      exit: outcome.signal === null ? outcome.exit : null,
      ...(outcome.signal === null ? {} : { signal: outcome.signal }),
      instructions: guest.machine.instructions,
      seconds,
      tier: 0,
      stop: outcome.stop,
    };
    writeFileSync(args.jsonStatus, `${JSON.stringify(status)}\n`);
  }
  return outcome.exit;
}
