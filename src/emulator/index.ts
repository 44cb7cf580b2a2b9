/** The public surface of the emulator. */
export { Machine, TIME_HZ } from './machine.js';
export type { FetchMode, Hook, MachineOptions, SyscallHandler, WatchHook } from './machine.js';
export type { WatchRequest } from './hooks.js';
export type { Deviation, StopReason, SyscallResult, WatchEvent } from './stops.js';
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
export { scanCode } from './scan.js';
export type { ScanResult, ScannedCall, ScannedCode, UnservedInstruction } from './scan.js';
export type { EmulationModel, IrEmulation } from '../machine/emulation.js';
export type { Lifter, TrapKind } from '../machine/ir.js';
