/**
 * Probes: definitions, where they may go, the state machines of 2009 and today, sessions on images,
 * and the handling of hits.
 */
export {
  compileArguments,
  type CompiledArgument,
  type Fetched,
  type FetchSource,
  formatFetched,
  parseProbe,
  type ProbeDefinition,
} from './events.js';
export { explainProbe, type ProbeExplanation, refusalText } from './explain.js';
export { explainPlace } from './places.js';
export type {
  DetourBuffer,
  JumpWindow,
  ProbeCode,
  ProbeCpu,
  ProbeErrno,
  ProbeInstruction,
  ProbeModel,
  ProbeRefusal,
  ProbeRefusalCode,
  ProbeSupport,
  WayIn,
  WayInKind,
} from '../machine/probes.js';
export {
  FLAGS,
  FLAGS_2009,
  Kprobe,
  type KprobeEvent,
  type KprobeFaults,
  type KprobeHandlers,
  type KprobeMachine,
  type KprobeResult,
  type OptimizedPart,
  type ProbeState,
} from './objects.js';
export { planProbes, probeServer, type ProbeSessionPlan, replayProbes, unoptimised } from './plan.js';
export { decodeWords, registerValue, runProgram } from './program.js';
export { type ProbeMachine, type ProbeProfile, ProbeRun, type ProbeStop } from './run.js';
export type { ProbeEvent } from './probe-event.js';
export { type ListedProbe, probeRoomFor, ProbeSession } from './session.js';
export { type SlotArea, SlotPool } from './slots.js';
export { Kprobes2009, type Options2009 } from './state-2009.js';
export { KprobesModern, type OptionsModern } from './state-modern.js';
export { type DetourPart, type ProbeStore, TextMachine, type TextMachineOptions } from './text-machine.js';
export { probeSupport, ProbeText, type ValidProbe } from './validate.js';
