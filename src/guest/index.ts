/** The public surface of processes: what Linux is for a guest. */
export { backtrace, beginCall, callFunction } from './call.js';
export type { CallOutcome } from './call.js';
export { NO_FILES } from './files.js';
export type { FileChanges, FileError, FileStatus, FileSystem, WritableFile } from './files.js';
export { interpreterPath } from './load.js';
export type { ProcessImage, RelativeRelocation } from './load.js';
export { executableFile, isScript, throughScripts } from './scripts.js';
export type { ExecutableFile } from './scripts.js';
export { startProcess } from './process.js';
export type { Process, ProcessOptions } from './process.js';
export { signalOf } from './world.js';
export type { ProcessEvent } from './world.js';
export { systemCalls } from '../machine/calls.js';
export type { CallClass, SystemCall } from '../machine/calls.js';
export { PID } from './guest.js';
export type { GuestInput } from './guest.js';
export type { Slices } from './scheduler.js';
