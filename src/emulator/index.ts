/** The public surface of the emulator. */
export { Machine } from './machine.js';
export type { Hook, MachineOptions, StopReason, SyscallHandler, SyscallResult } from './machine.js';
export { GuestMemory } from './memory.js';
export type { AccessKind, MapRequest, Permission, Window } from './memory.js';
export { backtrace, callFunction } from './call.js';
export type { CallOptions, CallOutcome } from './call.js';
export { NO_FILES } from './files.js';
export type { FileError, FileStatus, FileSystem, OpenFile } from './files.js';
export { startProcess } from './process.js';
export type { Process, ProcessImage, ProcessOptions, RelativeRelocation } from './process.js';
export { createSyscalls } from './syscalls.js';
export type { GuestInput, GuestOutput, ProcessLayout, SyscallOptions } from './syscalls.js';
export type { EmulationModel, IrEmulation, ProcessModel, SyscallName } from './model.js';
export type { Lifter, TrapKind } from './ir.js';
