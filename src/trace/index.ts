/** The public surface of the trace room. */
export type { ClockUnit, TracedFunction, TraceEvent, TraceHeader, TraceLosses, TraceSink } from './events.js';
export { foldedWriter, profile } from './folded.js';
export type { ProfileRow } from './folded.js';
export { isTraceFormat, traceFormats, traceWriter } from './formats.js';
export type { TraceFormat } from './formats.js';
export { functionLookup, tracedFunctions } from './functions.js';
export { ndjsonWriter } from './ndjson.js';
export { traceWithOracle } from './oracle.js';
export type { Oracle } from './oracle.js';
export {
  readRing,
  replayRing,
  RING_HEADER_BYTES,
  RING_KEEPS_OLDEST,
  RING_MAGIC,
  RING_RECORD_BYTES,
  ringClock,
  ringIsNested,
  ringLosses,
  ringNotices,
} from './ring.js';
export type { MemoryReader, ProbeReader, ReplayResult, Ring, RingRecord } from './ring.js';
export { graphWriter, taskName } from './text.js';
