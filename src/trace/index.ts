/** The public surface of the trace room. */
export { traceSchema } from './events.js';
export type { EntryEvent, ReturnEvent, TracedFunction, TraceEvent, TraceSink } from './events.js';
export { foldedWriter, profile } from './folded.js';
export type { Profile, ProfileRow } from './folded.js';
export { tracedFunctions } from './functions.js';
export type { FunctionListOptions } from './functions.js';
export { ndjsonWriter } from './ndjson.js';
export type { NdjsonOptions, TextSink } from './ndjson.js';
export { traceWithOracle } from './oracle.js';
export type { Oracle, OracleOptions } from './oracle.js';
