/**
 * Objects of the runtime and calls inside the entries for one tracer, or for none: the words that
 * say what the core decided.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError } from '../errors.js';
import type { Content } from '../ftrace/index.js';
import { type EntryPoint, entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import { OPS_WORDS, RING_FLAGS, RING_HEADER, RING_VERSIONS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import { type Entries, graphOff } from './entries.js';
import type { EntryWords } from './entry-words.js';
import type { TracerDecision } from './one-tracer.js';

/** What times records have: those of the machine's own counter, or none. */
type RecordClock = 'machine' | 'none';

/** A tracer as the words of an image have it. */
export interface Registered {
  readonly callback: EntryPoint;
  readonly decision: TracerDecision;
}

/** Plans the objects and inner calls of one tracer, or of none. */
export function planObjects(
  program: Program,
  entries: Entries,
  registered: Registered | null,
  words: EntryWords,
  clock: RecordClock = 'machine',
): void {
  planClock(program, clock, words);
  const ops = words.address('elftrace_data');
  planOps(program, registered, ops, words);
  planCalls(program, registered, words);
  if (entries.graph !== 'branch' || entryPoint(program, 'ftrace_graph_call') === null) return;
  const graphOn = registered?.decision.graphOn === true;
  const off = graphOff(program, words.address('ftrace_graph_call'));
  words.branch('ftrace_graph_call', 'graph', graphOn ? words.entry('ftrace_graph_caller').address : off, 'C-FG-6');
  if (entryPoint(program, 'elftrace_graph_ops') !== null) {
    words.word('elftrace_graph_ops', words.address('elftrace_graph_ops'), graphOn ? ops : 0n, 'C-FG-8');
  }
}

/**
 * Whether records have times.
 * @throws ElftraceError 'unsupported-form' where the ring's version knows none without
 */
function planClock(program: Program, clock: RecordClock, words: EntryWords): void {
  const ring = program.definedAt(program.symbols.find('elftrace_ring_memory'));
  const { image } = program;
  const at = ring === null ? -1 : image.fileOffsetOf(ring);
  const version = at < 0 ? null : new ByteView(image.bytes, image.header.endian).u32(at + RING_HEADER.version);
  if (ring !== null && version === RING_VERSIONS.short) {
    words.bits('ring.flags', ring + BigInt(RING_HEADER.flags), RING_FLAGS.noTimes, clock === 'none', 'RT-11');
  } else if (clock === 'none') {
    throw new ElftraceError('unsupported-form', 'records without times: the image has a runtime that knows none', {});
  }
}

/** The object, and the words that name it. */
function planOps(program: Program, registered: Registered | null, ops: Address, words: EntryWords): void {
  const listEnd = words.address('ftrace_list_end');
  const object = registered?.decision.ops;
  const fields: Readonly<Record<keyof typeof OPS_WORDS, bigint>> = {
    // A placeholder has the function of the stub.
    func: registered?.callback.identity ?? 0n,
    flags: BigInt(object?.flags ?? 0),
    directCall: object?.directCall ?? 0n,
    private: object?.data ?? 0n,
    next: registered === null ? 0n : listEnd,
    filter: 0n,
    notrace: 0n,
    trampoline: object?.trampoline ?? 0n,
  };
  const size = BigInt(program.image.wordBytes);
  for (const [name, value] of Object.entries(fields)) {
    const index = OPS_WORDS[name as keyof typeof OPS_WORDS];
    words.word(`ops[0].${name}`, ops + size * BigInt(index), value, 'RT-4');
  }
  words.word('ftrace_ops_list', words.address('ftrace_ops_list'), registered === null ? listEnd : ops, 'C-REG-1');
  words.word('function_trace_op', words.address('function_trace_op'), registered === null ? listEnd : ops, 'C-TGT-8');
}

/** What the shared entries call. */
function planCalls(program: Program, registered: Registered | null, words: EntryWords): void {
  const stub = words.entry('ftrace_stub').address;
  const list = words.entry('ftrace_ops_list_func').address;
  if (entryPoint(program, 'ftrace_call_dest') !== null) {
    // R-MOD-4: a pointer reaches everything.
    words.word('ftrace_call_dest', words.address('ftrace_call_dest'), registered?.callback.identity ?? stub, 'R-MOD-4');
  }
  const kind = registered?.decision.callee.kind ?? 'stub';
  const callee = kind === 'stub' ? stub : kind === 'function' ? registered!.callback.address : list;
  const seen = new Set<Address>();
  for (const symbol of ['ftrace_call', 'ftrace_regs_call']) {
    const place = entryPoint(program, symbol);
    // One entry may have both names.
    if (place === null || seen.has(place.identity)) continue;
    seen.add(place.identity);
    words.branch(symbol, 'call', callee, 'C-TGT-4');
  }
}

/** Entries that a site of the tracer can call, best first: the core's choice, the shared one. */
export function entriesFor(
  program: Program,
  { caller, registers }: Entries,
  content: Content,
  regs: boolean,
): readonly EntryPoint[] {
  const shared = regs ? (registers ?? caller) : caller;
  switch (content.kind) {
    case 'trampoline': {
      const { address } = content;
      const graph = entryPoint(program, 'ftrace_graph_caller');
      const own = graph?.identity === address ? graph : { symbol: 'private trampoline', address, identity: address };
      return [own, shared];
    }
    case 'list-caller':
      return [entryPoint(program, 'ftrace_list_caller') ?? shared];
    case 'regs-caller':
      return [registers ?? caller];
    case 'caller':
    case 'nop':
    case 'direct':
      return [shared];
    default:
      return content satisfies never;
  }
}
