/** The public surface of the emulator. */
export { Machine, TIME_HZ } from './machine.js';
export type {
  FetchMode,
  Hook,
  MachineOptions,
  StopReason,
  SwitchHook,
  SyscallHandler,
  SyscallResult,
  WatchEvent,
  WatchHook,
  WatchRequest,
} from './machine.js';
export { GuestMemory } from './memory.js';
export type { AccessKind, MapRequest, Permission, SavedWindow, Window } from './memory.js';
export { compareStates, firstDivergence, registersOf } from './snapshot.js';
export type {
  CompareOptions,
  CpuState,
  Difference,
  Divergence,
  DivergenceOptions,
  DivergentSide,
  NoDivergence,
  Snapshot,
  StatePart,
} from './snapshot.js';
export { interleavings, runSchedule } from './schedule.js';
export type { InterleavingRequest, PatcherStep, ScheduleOptions, ScheduleResult, ScheduleStep } from './schedule.js';
export { Gates } from './gates.js';
export type { CallConvention, CallResult, Gate, GateCall, GateFunction, GateOptions } from './gates.js';
export { startProcess } from './process.js';
export type { Process, ProcessImage, ProcessOptions } from './process.js';
export { createSyscalls } from './syscalls.js';
export type { GuestOutput, ProcessLayout } from './syscalls.js';
export type { EmulationModel, IrEmulation, ProcessModel, SyscallName } from './model.js';
export type { Lifter, TrapKind } from './ir.js';
