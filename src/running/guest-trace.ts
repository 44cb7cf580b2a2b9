/**
 * The trace that a program recorded itself: finds its ring when it has ended, and writes the events
 * in a form.
 */
import type { Arch } from '../machine/arch.js';
import { PID, type Process } from '../guest/index.js';
import { ByteView } from '../bytes.js';
import { GRAPH_ENTRY_COUNT, THREAD_COUNT, THREAD_WORDS, threadBytes } from '../runtime/index.js';
import { findSites } from '../sites/sites.js';
import type { Program } from '../program/program.js';
import {
  type ProbeReader,
  readRing,
  replayRing,
  type Ring,
  ringClock,
  ringIsNested,
  ringLosses,
  ringNotices,
  type TracedFunction,
  type TraceFormat,
  type TraceHeader,
  traceWriter,
} from '../trace/index.js';

/** The word that points to the ring (RT-11). */
const RING_SYMBOL = 'elftrace_ring';
/** Blocks of `THREAD_COUNT` threads (src/runtime/abi.ts). */
const GRAPH_STACK_SYMBOL = 'elftrace_graph_stack';

/**
 * The ring of a program that has ended, however it did; null when the image has none.
 * @throws ElftraceError 'bad-record' or 'bad-reference' when what the symbol points to is no ring
 */
export function guestRing(program: Program, arch: Arch, guest: Process): Ring | null {
  const { symbols } = program;
  const symbol = symbols.find(RING_SYMBOL);
  if (symbol <= 0 || symbols.sectionIndex[symbol] === 0) return null;
  const { memory } = guest.machine;
  const { wordBytes, dataEndian } = arch.target;
  const word = memory.read(symbols.value[symbol]! + guest.bias, wordBytes);
  if (!word) return null;
  const address = new ByteView(word, dataEndian, RING_SYMBOL).word(0, wordBytes);
  return readRing((at, size) => memory.read(at, size), address, dataEndian);
}

/**
 * Calls that the graph tracer of the program did not record because its stack was full; 0 where it
 * has none.
 */
export function graphOverruns(program: Program, arch: Arch, guest: Process): number {
  const { symbols } = program;
  const symbol = symbols.find(GRAPH_STACK_SYMBOL);
  if (symbol <= 0 || symbols.sectionIndex[symbol] === 0) return 0;
  const { wordBytes, dataEndian } = arch.target;
  let sum = 0;
  for (let i = 0; i < THREAD_COUNT; i++) {
    const at = symbols.value[symbol]! + guest.bias + BigInt(i * threadBytes(wordBytes));
    const block = guest.machine.memory.read(at, (THREAD_WORDS.overrun + 1) * wordBytes);
    if (!block) break;
    sum += Number(new ByteView(block, dataEndian, 'graph stack').word(THREAD_WORDS.overrun * wordBytes, wordBytes));
  }
  return sum;
}

/** Sites that call a tracer. */
export function enabledSites(program: Program): number {
  return findSites(program).totals().byState['call'] ?? 0;
}

export interface GuestTraceRequest {
  readonly ring: Ring | null;
  readonly format: TraceFormat;
  readonly image: string;
  readonly functions: readonly TracedFunction[];
  readonly nameOf: TraceHeader['nameOf'];
  /** Asked only when there are no events. */
  readonly enabled: () => number;
  readonly overruns: number;
  readonly probes: ProbeReader;
}

/** Writes the events; returns what the user must know of them. */
export function writeGuestTrace(write: (bytes: Uint8Array) => void, request: GuestTraceRequest): string[] {
  const { ring, format, image, functions, nameOf } = request;
  const header: TraceHeader = {
    source: 'guest',
    image,
    clock: ring ? ringClock(ring, 'emulator') : 'instructions',
    nested: ring === null || ring.records.length === 0 || ringIsNested(ring),
    losses: ring ? ringLosses(ring) : null,
    process: Number(PID),
    nameOf,
  };
  const sink = traceWriter(format, write, header);
  if (!ring) {
    sink.end([]);
    return [
      'no events: the image has no ring to record into (elftrace_ring); --trace-source=oracle records its calls and returns by the machine',
    ];
  }
  const replay = replayRing(ring, functions, [sink], request.probes);
  const notices = ringNotices(ring, replay);
  if (request.overruns > 0) {
    notices.push(`${request.overruns} calls deeper than ${GRAPH_ENTRY_COUNT} were not recorded by the graph tracer`);
  }
  if (ring.written === 0n) {
    const enabled = request.enabled();
    notices.push(
      enabled === 0
        ? 'no events: no site of the image is enabled (patch --enable)'
        : `no events: ${enabled} sites are enabled, and none was passed`,
    );
  }
  return notices;
}
