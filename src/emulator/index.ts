/** The public surface of the emulator. */
export { Machine, TIME_HZ } from './machine.js';
export type {
  FetchMode,
  Hook,
  MachineOptions,
  SyscallHandler,
  SyscallResult,
  WatchHook,
  WatchRequest,
} from './machine.js';
export type { Deviation, StopReason, WatchEvent } from './stops.js';
export type { AccessKind, MapRequest } from './memory.js';
export type { Permission } from './windows.js';
export { compareStates, registersOf } from './snapshot.js';
export { firstDivergence } from './divergence.js';
export type { CompareOptions, CpuState, Difference, Snapshot, StatePart } from './snapshot.js';
export type { Divergence, DivergenceOptions, Inconclusive } from './divergence.js';
export { runSchedule } from './schedule.js';
export type { PatcherStep, ScheduleResult, ScheduleStep } from './schedule.js';
export { Gates } from './gates.js';
export type { CallConvention, CallResult, Gate, GateCall, GateFunction, GateOptions } from './gates.js';
export { backtrace, beginCall, callFunction } from './call.js';
export type { CallOutcome } from './call.js';
export { NO_FILES } from './files.js';
export type { FileChanges, FileError, FileStatus, FileSystem, WritableFile } from './files.js';
export { interpreterPath } from './load.js';
export type { ProcessImage, RelativeRelocation } from './load.js';
export { startProcess } from './process.js';
export type { Process, ProcessOptions } from './process.js';
export { signalOf } from './world.js';
export type { ProcessEvent } from './world.js';
export { systemCalls } from '../machine/calls.js';
export type { CallClass, SystemCall } from '../machine/calls.js';
export { scanCode } from './scan.js';
export type { ScanResult, ScannedCall, ScannedCode, UnservedInstruction } from './scan.js';
export { PID } from './syscalls.js';
export type { GuestInput } from './syscalls.js';
export type { EmulationModel, IrEmulation } from '../machine/emulation.js';
export type { Lifter, TrapKind } from '../machine/ir.js';
export type { Slices } from './scheduler.js';
