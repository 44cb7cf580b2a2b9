/**
 * The library: re-exports only. No side effects on import, no native code, no process exits.
 *
 *   readElf -> load -> findSites -> verify | planSites | planTracing -> applyPlan -> (revert)
 *   readElf… -> loadImages: core and modules as one image
 */
export { ElftraceError, hex, hexBytes, type ErrorCode, type ErrorContext } from './errors.js';
export type { Address, Endian, FileOffset, RegisterName } from './units.js';
export { version } from './version.js';
export { demangle } from './demangle/index.js';

export { readElf } from './elf/read.js';
export { writeElf, type Edits, type NewSection, type Patch, type Written } from './elf/write.js';
export type {
  ElfGroup,
  ElfHeader,
  ElfImage,
  ElfNote,
  ElfSection,
  ElfSegment,
  RelocationTable,
  SymbolTable,
} from './elf/image.js';
export { isArchive, memberBytes, readArchive, type ArchiveMember } from './elf/archive.js';
export { type Assembler, type AssemblerMachine, loadAssembler } from './isa/assembler.js';
export { compressedForm, unpack, type CompressedForm, type Unpacked, type UnpackLimits } from './elf/compressed.js';
export { Deadline, defaultLimits, limits, type Limits } from './limits/index.js';
export { unwrapKernel, type UnwrappedKernel } from './elf/wrapped.js';
export { readModuleSignature, type ModuleSignature } from './elf/signature.js';
export { indexFunctions, type FunctionIndex } from './elf/functions.js';

export type { Abi } from './machine/abi.js';
export type { Arch } from './machine/arch.js';
export { type ConventionName, conventionMark, conventionNamed, type EntryConvention } from './machine/conventions.js';
export type {
  SiteChange,
  SiteReading,
  SiteRefusal,
  SiteShape,
  SiteSource,
  SiteStateKind,
  SiteView,
  WritableState,
} from './machine/sites.js';
export type { StubForm, StubReading } from './machine/stubs.js';
export type { Target } from './machine/target.js';
export { arches, archOf } from './arches.js';
export type { TargetId } from './targets.js';
export { machineName } from './targets.js';
export type { Flow, Instruction, Isa } from './isa/instruction.js';
export { loadDisassembler, type Disassembler } from './isa/disassembler.js';
export type { RelocationRow } from './relocs/kinds.js';
export { applyRelocation, computeRelocation, extractRelocation, relocationRow } from './relocs/apply.js';

export { load, type CodeRange, type LoadOptions, type Program } from './program/program.js';
export { type Origin, type OriginKind, originOf } from './program/origin.js';
export { symbolTableOf } from './program/symbols.js';
export {
  loadImages,
  loadMore,
  originalCore,
  unload,
  type LoaderOptions,
  type LoadMoreRequest,
  type LoadRequest,
  type LoadResult,
  type Source,
} from './program/loader.js';
export {
  partAt,
  readLoadMap,
  type AddressRange,
  type EntryStub,
  type LoadBase,
  type LoadedPart,
  type LoadMap,
  type PartKind,
  type StubArea,
} from './program/load-map.js';
export { conventionsOf } from './program/conventions.js';
export { findSites, type FindOptions, type Site, type Sites } from './sites/sites.js';
export type { SiteState } from './sites/site-states.js';
export { type ImageInfo, imageInfo, type ImageInfoOptions, type SiteTotals, type TableInfo } from './sites/about.js';
export { type FunctionListing, functionListings, type ListedInstruction } from './sites/listing.js';
export { readTables, type SlotTable, type TableOptions } from './sites/tables.js';
export {
  verify,
  verdictSeverity,
  type Finding,
  type Severity,
  type Verdict,
  type Verification,
  type VerifyOptions,
} from './sites/verdicts.js';
export { recordTable, type Recorded, type RecordOptions } from './patch/record-table.js';
export { repairTables, type Repaired } from './patch/repair-table.js';
export { decodePlanFile, encodePlanFile, type PlanFile } from './patch/plan-file.js';
export { sha256 } from './sha256.js';
export { planSleds, type SledRequest } from './patch/sleds.js';
export { findSleds, type Sled } from './sites/sleds.js';
export { type SledKind, type SledReading } from './machine/sleds.js';
export { type TableLint } from './sites/table-lint.js';
export { planSites } from './patch/plan-sites.js';
export {
  checkAcceptance,
  type Acceptance,
  type Plan,
  type PlanRequest,
  type Refusal,
  type Step,
} from './patch/plan.js';
export type { Preemption } from './patch/hazards.js';
export type { Hazard, HazardousSite } from './patch/plan.js';
export { runtimeImage, withRuntime } from './tracing/inject.js';
export { waysTo } from './patch/routes.js';
export { entryPoint, type EntryPoint } from './program/entry-points.js';
export { planTracing, type Tracer, type TracingPlan, type TracingRequest } from './tracing/tracing.js';
export { runtimeObject } from './runtime/index.js';
export {
  type HostCall,
  type HostGates,
  Session,
  type SessionHit,
  type SessionListener,
  type SessionOptions,
} from './tracing/session.js';
export { prove, type Proof, type ProofSummary, type ProveOptions, type SiteProof } from './prove/index.js';
export {
  type Certificate,
  certificateDifference,
  type CertificateMethod,
  certificateText,
  CertificateWriter,
  readCertificate,
  type ReadCertificate,
} from './prove/index.js';
export { planUntrace, untracedFunctions, type UntracedFunction, type UntraceRequest } from './patch/untrace.js';
export { planDirect, registerRequest, type DirectRequest } from './tracing/direct.js';
export { planSession, type SessionPlan, type SessionText } from './tracing/session-plan.js';
export { parseSession, type SessionFile, type SessionOperation } from './tracing/session-file.js';
export {
  compileArguments,
  decodeWords,
  explainProbe,
  FLAGS,
  FLAGS_2009,
  formatFetched,
  Kprobe,
  Kprobes2009,
  KprobesModern,
  parseProbe,
  planProbes,
  probeRoomFor,
  ProbeRun,
  ProbeSession,
  probeSupport,
  ProbeText,
  SlotPool,
  TextMachine,
  type CompiledArgument,
  type DetourBuffer,
  type DetourPart,
  type Fetched,
  type JumpWindow,
  type KprobeEvent,
  type KprobeFaults,
  type KprobeHandlers,
  type KprobeMachine,
  type KprobeResult,
  type ListedProbe,
  type OptimizedPart,
  type Options2009,
  type OptionsModern,
  type ProbeCode,
  type ProbeCpu,
  type ProbeDefinition,
  type ProbeErrno,
  type ProbeEvent,
  type ProbeExplanation,
  type ProbeInstruction,
  type ProbeMachine,
  type ProbeModel,
  type ProbeProfile,
  type ProbeRefusal,
  type ProbeRefusalCode,
  type ProbeSessionPlan,
  type ProbeState,
  type ProbeStop,
  type ProbeStore,
  type ProbeSupport,
  type SlotArea,
  type TextMachineOptions,
  type ValidProbe,
  type WayIn,
  type WayInKind,
} from './kprobes/index.js';
export { liveText, outsideTracer, type LiveMachine, type LiveOptions } from './tracing/live.js';
export {
  formatFunctions,
  FtraceCore,
  GraphUser,
  Ops,
  type Errno,
  type FailureReport,
  type ListedFunction,
  type Outcome,
} from './ftrace/index.js';
export { applyPlan, type Applied, type ApplyOptions } from './patch/apply.js';
export { revert } from './patch/revert.js';
export {
  decodeRecord,
  decodeRecords,
  disagreements,
  readRecord,
  recordedState,
  type Disagreement,
  type FileRecord,
} from './record/journal.js';
export { encodeRecord } from './record/encode.js';
export type { JournalEdit } from './record/edit-columns.js';
export { filterNames } from './sites/filter-names.js';
export { applyFilter, select, type FilterNames, type Selection, type SelectRequest } from './sites/filter.js';
export { type Btf, btfKind, readBtf } from './elf/btf.js';
export { DebugInfo, type InlinedFunction } from './elf/dwarf.js';
export {
  kernelProbes,
  whyFunction,
  type KernelProbes,
  type Mechanism,
  type WhyAnswer,
  type WhyFunction,
  type WhyOptions,
  type WhyReason,
} from './why/index.js';
export {
  comparedImage,
  diffSites,
  type ComparedFunction,
  type ComparedImage,
  type ChangeKind,
  type DebugKnowledge,
  type DiffReason,
  type DiffReasonCode,
  type DiffSite,
  type Sides,
  type SiteDifference,
  type SitesDiff,
} from './diff/index.js';
export { siteChain, type ChainHop, type SiteChain } from './sites/chain.js';
export {
  functionLookup,
  readRing,
  replayRing,
  ringClock,
  ringIsNested,
  ringLosses,
  ringNotices,
  tracedFunctions,
  traceFormats,
  traceWithOracle,
  traceWriter,
  type ClockUnit,
  type MemoryReader,
  type ReplayResult,
  type Ring,
  type RingRecord,
  type TracedFunction,
  type TraceEvent,
  type TraceFormat,
  type TraceHeader,
  type TraceLosses,
  type TraceSink,
} from './trace/index.js';
export { readTrace, type ReadEvent, type ReadHeader } from './trace/read.js';
export { watchRepeats, type Repeats } from './trace/repeats.js';
export {
  broken,
  hazards,
  imageRace,
  multinomial,
  parseProbeStates,
  parseRaceState,
  probeRace,
  race,
  startRace,
  tell,
  textSteps,
  wordBytes,
  type Breakage,
  type Hazard as RaceHazard,
  type HazardForm,
  type ImageRace,
  type ImageRaceRequest,
  type Patcher,
  type ProbeEntry,
  type ProbeRaceRequest,
  type ProbeRaceState,
  type Property,
  type RaceCase,
  type RaceOptions,
  type RaceProgress,
  type RaceResult,
  type RaceSearch,
  type RaceState,
  type RaceStep,
  type RaceThread,
  type RaceVariant,
  type Scene,
  type Sequence,
  type Story,
  type Violation,
} from './race/index.js';
export { raceJson, raceLines, type RaceReport } from './report/race.js';
export {
  htmlPage,
  type HtmlDiff,
  type HtmlDifference,
  type HtmlFile,
  type HtmlPage,
  type HtmlPageRequest,
  type RaceText,
} from './page/index.js';
export { ruleText } from './report/rules.js';
export { verdictPages, type VerdictPage } from './report/verdict-pages.js';
export { diffJson, diffLines } from './report/diff.js';
export { whyJson, whyLines } from './report/why.js';
export { costJson, costLines } from './report/cost.js';
export { callCosts, type CallCost, type Cost, type CostOptions, type CostWay } from './cost/index.js';
export {
  findingJson,
  functionJson,
  infoJson,
  type InputForm,
  type Json,
  listingJson,
  planJson,
  verificationJson,
} from './report/json.js';

export {
  compareStates,
  firstDivergence,
  Gates,
  KeptTranslations,
  Machine,
  registersOf,
  runSchedule,
  scanCode,
  TIME_HZ,
  type AccessKind,
  type CallConvention,
  type CallResult,
  type CompareOptions,
  type Deviation,
  type Difference,
  type Divergence,
  type DivergenceOptions,
  type EmulationModel,
  type FetchMode,
  type Gate,
  type GateCall,
  type GateFunction,
  type GateOptions,
  type Hook,
  type Inconclusive,
  type IrEmulation,
  type MachineOptions,
  type MapRequest,
  type PatcherStep,
  type Permission,
  type ScannedCall,
  type ScannedCode,
  type ScanResult,
  type ScheduleResult,
  type ScheduleStep,
  type Snapshot,
  type StatePart,
  type StopReason,
  type SyscallHandler,
  type SyscallResult,
  type WatchEvent,
  type UnservedInstruction,
  type WatchHook,
  type WatchRequest,
} from './emulator/index.js';
export {
  signalOf,
  startProcess,
  systemCalls,
  type CallClass,
  type Process,
  type ProcessImage,
  type ProcessOptions,
  type SystemCall,
} from './guest/index.js';

export { type LaidIn, layIn, type LayInOptions } from './native/lay-in.js';
export { NativeTrace, type TraceDoubts, type TraceThread } from './native/trace.js';
export { type NativeFunction, TracedObject } from './native/objects.js';
export { readThreadHeader, type ThreadHeader, ThreadReader, type TraceSource } from './native/reader.js';
export { type CallListener, CallTree } from './native/tree.js';
export { exportTrace, type NativeFormat, nativeFormats } from './native/export.js';
export { type FileSink, writeUftrace } from './native/uftrace.js';
export { functionTotals, type FunctionTotal, type StackNode, stackTotals } from './native/totals.js';
