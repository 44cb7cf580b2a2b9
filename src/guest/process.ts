/**
 * Starts a program as Linux would (`load.ts`), in a world of its own (`world.ts`). With `start:
 * 'none'` nothing runs at first: that is for functions called from outside (`callFunction`), also
 * of shared objects, whose relative relocations are applied here since no start-up code will.
 */
import type { Abi } from '../machine/abi.js';
import { type FileSystem, NO_FILES } from './files.js';
import { DEFAULT_DATE } from './guest-times.js';
import { checkForm, loadProgram, type ProcessImage, type RelativeRelocation } from './load.js';
import type { Machine, MachineOptions } from '../emulator/machine.js';
import type { StopReason } from '../emulator/stops.js';
import type { IrEmulation } from '../machine/emulation.js';
import type { Slices } from './scheduler.js';
import type { GuestInput, GuestOutput } from './guest.js';
import { type OnStop, type ProcessEvent, signalOf, World } from './world.js';
import type { Address } from '../units.js';

export interface ProcessOptions {
  readonly image: ProcessImage;
  readonly abi: Pick<Abi, 'stackPointer' | 'syscall'>;
  readonly emulation: IrEmulation;
  /** The path of the program in `files`. Default: its name. */
  readonly path?: string;
  /** How the file was called that was executed, which may be a script. Default: as the program. */
  readonly name?: string;
  /** argv, the program's name first. Default: `['program']`. */
  readonly args?: readonly string[];
  /** `NAME=value`. Default: none. */
  readonly env?: readonly string[];
  readonly onOutput?: GuestOutput;
  /** Standard input. Default: empty. */
  readonly onInput?: GuestInput;
  /**
   * Most bytes of memory that the process, and those that it makes, may have together. Default: no
   * limit but the emulator's, 4 GiB each.
   */
  readonly memoryBytes?: number;
  /** Most processes at a time, the first included. Default: 128. */
  readonly processes?: number;
  /**
   * Reads a program that takes the place of another (`execve`); null: it is none for this machine.
   * Default: none is.
   */
  readonly program?: (bytes: Uint8Array) => ProcessImage | null;
  /** Called when a process was made, or became another program. */
  readonly onProcess?: (event: ProcessEvent) => void;
  /** Files that the program may read. Default: none. */
  readonly files?: FileSystem;
  /** The current directory at the start, in `files`. Default: `/`. */
  readonly directory?: string;
  /** The file that `interpreterPath` names, which is started in place of the program. */
  readonly interpreter?: ProcessImage;
  /** `none`: nothing is started; pc is 0 and `callFunction` decides. Default: `entry`. */
  readonly start?: 'entry' | 'none';
  /** Whether hot code is compiled (`MachineOptions`). */
  readonly tier?: MachineOptions['tier'];
  readonly tierUpAfter?: number;
  /** Translations that the machines of all processes share (`MachineOptions`). */
  readonly kept?: MachineOptions['kept'];
  /** What the wall clock shows at the start: nanoseconds since 1970. Default: 2030-01-01 (UTC). */
  readonly date?: bigint;
  /** How threads share the CPU. Default: in turn. */
  readonly slices?: Slices;
  /** Applied before anything runs; for `start: 'none'`. */
  readonly relocations?: Iterable<RelativeRelocation>;
}

/** A started program. */
export interface Process {
  /** That of the first process. */
  readonly machine: Machine;
  /** Completed by all processes together. */
  readonly instructions: number;
  /** What was added to every address of the file; 0 for ET_EXEC. */
  readonly bias: Address;
  /**
   * Runs until something stops the processes, or `budget` instructions are completed (exactly):
   * handlers of signals run, timers expire. `onStop` is asked before a signal is raised; true: go
   * on.
   */
  run(options?: { readonly budget?: number; readonly onStop?: OnStop }): StopReason;
  /**
   * Says that the process ends here: notes where Linux would have raised another signal than the
   * stop does, or none.
   */
  ended(stop: StopReason): void;
}

/**
 * Creates the machine and the process in it.
 * @throws ElftraceError 'unsupported-form' when the file is no executable, or one that asks for a
 *   loader which was not given; 'usage' when its segments cannot be mapped, or `directory` is none
 */
export function startProcess(options: ProcessOptions): Process {
  const { image, abi, emulation, interpreter, start = 'entry', args = ['program'], env = [] } = options;
  checkForm(image, start, interpreter);
  const world = new World({
    abi,
    emulation,
    wordBytes: image.header.is64 ? 8 : 4,
    endian: image.header.endian,
    files: options.files ?? NO_FILES,
    input: options.onInput ?? ((): Uint8Array => new Uint8Array()),
    output: options.onOutput ?? ((): void => undefined),
    date: options.date ?? DEFAULT_DATE,
    slices: options.slices ?? {},
    machine: {
      ...(options.tier !== undefined && { tier: options.tier }),
      ...(options.tierUpAfter !== undefined && { tierUpAfter: options.tierUpAfter }),
      ...(options.kept && { kept: options.kept }),
    },
    memoryBytes: options.memoryBytes ?? Infinity,
    processes: options.processes,
    program: options.program,
    onProcess: options.onProcess,
  });
  const machine = world.newMachine();
  const path = options.path ?? args[0] ?? '';
  const name = options.name ?? args[0] ?? '';
  const loaded = loadProgram(machine, {
    ...{ image, abi, emulation, interpreter, args, env, start },
    path,
    name,
    relocations: options.relocations,
  });
  const guest = world.start(machine, loaded, { path, name, args, env, auxiliary: loaded.auxiliary });
  if (options.directory !== undefined) guest.begin(options.directory);
  return {
    machine,
    bias: loaded.bias,
    get instructions() {
      return world.instructions;
    },
    run: ({ budget = Number.MAX_SAFE_INTEGER, onStop } = {}) => world.run(budget, onStop),
    ended: (stop) => {
      const signal = signalOf(stop);
      if (signal !== null) guest.faulted(signal, stop.kind === 'fault' ? stop.address : null);
    },
  };
}
