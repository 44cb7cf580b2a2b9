/**
 * The trace that a program recorded itself against the one that the machine saw in the same run:
 * entries in their order with the place that they return to, and returns where the program records
 * them. Imports no jest, so that scripts can use it too.
 */
import type { Arch } from '../../src/machine/arch.js';
import { guestRing } from '../../src/running/guest-trace.js';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { archOf } from '../../src/arches.js';
import type { StopReason } from '../../src/emulator/index.js';
import { startProcess } from '../../src/guest/index.js';
import { findSites } from '../../src/sites/sites.js';
import { load, type LoadOptions, type Program } from '../../src/program/program.js';
import {
  replayRing,
  type ReplayResult,
  type Ring,
  type TracedFunction,
  tracedFunctions,
  type TraceEvent,
  traceWithOracle,
} from '../../src/trace/index.js';

export interface Row {
  readonly kind: 'entry' | 'return';
  readonly name: string;
  /** Entries: where it returns to. */
  readonly parent: string;
  /** Returns: false when the function was left without one. */
  readonly returned: boolean;
  readonly time: number;
}

export interface BothTraces {
  readonly ring: Ring | null;
  readonly replay: ReplayResult | null;
  readonly guest: readonly Row[];
  /** Of functions that call a tracer only; without returns where the guest records none. */
  readonly oracle: readonly Row[];
  readonly stop: StopReason;
  readonly output: string;
  readonly instructions: number;
  readonly functions: readonly TracedFunction[];
}

const rowsOf = (events: readonly TraceEvent[], nested: boolean): Row[] =>
  events.flatMap((event): Row[] => {
    const { name } = event.function;
    if (event.kind === 'entry') {
      return [{ kind: 'entry', name, parent: event.parent.toString(16), returned: false, time: event.time }];
    }
    return event.kind === 'return' && nested
      ? [{ kind: 'return', name, parent: '', returned: !event.unwound, time: event.time }]
      : [];
  });

/** Words at the start of a function among which its site is. */
const SITE_WITHIN = 128;

/** Where `auipc r; jalr r, r` at an address leads, r being ra or t0; null for other words. */
function linkedPair(bytes: Uint8Array, at: bigint, base: bigint): bigint | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const offset = Number(at - base);
  if (offset + 8 > bytes.length) return null;
  const first = view.getUint32(offset, true);
  const second = view.getUint32(offset + 4, true);
  const rd = (first >>> 7) & 31;
  if ((first & 0x7f) !== 0x17 || (rd !== 1 && rd !== 5)) return null;
  if ((second & 0xf_ffff) !== ((rd << 15) | (rd << 7) | 0x67)) return null;
  return BigInt.asUintN(64, at + BigInt((first & 0xffff_f000) | 0) + BigInt((second | 0) >> 20));
}

/** What the second instruction at a place calls: a stub keeps LR, calls, and goes back; or null. */
function calledOutOfLine(program: Program, stub: bigint | null): bigint | null {
  const range = stub === null ? undefined : program.codeAt(stub);
  if (stub === null || range === undefined || program.arch.target.codeAlignBytes !== 4) return null;
  const { flow } = program.arch.isa.decode(range.bytes, Number(stub + 4n - range.address), stub + 4n);
  return flow.kind === 'call' ? flow.target : null;
}

/**
 * Functions that call an entry of a tracer near their start, by their instructions and stubs alone:
 * no table is asked.
 */
function functionsThatCallTracers(program: Program): Set<bigint> {
  const { isa } = program.arch;
  const found = new Set<bigint>();
  const { start, symbol, count } = program.functions.functions;
  for (let i = 0; i < count; i++) {
    const range = program.codeAt(start[i]!);
    const end = program.functions.endOf(symbol[i]!) ?? start[i]! + BigInt(SITE_WITHIN);
    // An entry may lead to another one: it is none of the traced.
    if (!range || program.callee(start[i]!) !== 'other') continue;
    for (let at = start[i]!; at < end && at < start[i]! + BigInt(SITE_WITHIN);) {
      const instruction = isa.decode(range.bytes, Number(at - range.address), at);
      const pair = program.arch.target.id === 'riscv64' ? linkedPair(range.bytes, at, range.address) : null;
      const out = instruction.flow.kind === 'jump' ? calledOutOfLine(program, instruction.flow.target) : null;
      const target = instruction.flow.kind === 'call' ? instruction.flow.target : (pair ?? out);
      if (target !== null && program.callee(target) === 'tracer') found.add(start[i]!);
      at += BigInt(instruction.sizeBytes);
    }
  }
  return found;
}

/**
 * Runs an image once, with the machine's hooks on it. `traced` says which functions count; default:
 * those that call a tracer.
 */
export function runWithBoth(
  bytes: Uint8Array,
  options: LoadOptions & {
    readonly args?: readonly string[];
    readonly traced?: (each: TracedFunction) => boolean;
  } = {},
): BothTraces {
  const image: ElfImage = readElf(bytes);
  const arch: Arch = archOf(image.header);
  const program = load(image, arch, options);
  if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
  const sites = findSites(program);
  const siteOf = new Map<bigint, bigint>();
  for (let i = 0; i < sites.count; i++) {
    const start = program.functions.placeOf(sites.functionSymbol(i))?.value;
    if (start !== undefined) siteOf.set(start, sites.ip(i));
  }
  const enabled = functionsThatCallTracers(program);
  let output = '';
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    args: ['p', ...(options.args ?? [])],
    onOutput: (descriptor, data) => {
      if (descriptor === 1) output += Buffer.from(data).toString('latin1');
    },
  });
  const functions = tracedFunctions(program, { bias: guest.bias, siteOf: (address) => siteOf.get(address) ?? null });
  const events: TraceEvent[] = [];
  const oracle = traceWithOracle(guest.machine, {
    functions,
    stackPointer: arch.abi.stackPointer,
    linkRegister: arch.abi.linkRegister,
    keepChains: true,
    sinks: [{ event: (event) => events.push(event), end: () => undefined }],
  });
  const stop = guest.run({ budget: 500_000_000 });
  oracle.finish();
  const ring = guestRing(program, arch, guest);
  const recorded: TraceEvent[] = [];
  const replay = ring
    ? replayRing(ring, functions, [{ event: (event) => recorded.push(event), end: () => undefined }])
    : null;
  const nested = recorded.some((event) => event.kind === 'return');
  const traced = options.traced ?? ((each) => enabled.has(each.address - guest.bias));
  return {
    ring,
    replay,
    guest: rowsOf(recorded, nested),
    oracle: rowsOf(events.filter((event) => traced(event.function)), nested),
    stop,
    output,
    instructions: guest.machine.instructions,
    functions,
  }; // prettier-ignore
}

/**
 * What must be equal in both: `> name <- parent`, `< name`, and `! name` for a function that did
 * not return. Times differ, because tracers record when they are called.
 */
export function comparable(rows: readonly Row[]): string[] {
  return rows.map(({ kind, name, parent, returned }) =>
    kind === 'entry' ? `> ${name} <- ${parent}` : `${returned ? '<' : '!'} ${name}`,
  );
}

/** What is wrong with a pair of traces; empty when both say the same. */
export function traceDifferences(both: BothTraces): string[] {
  const [guest, oracle] = [comparable(both.guest), comparable(both.oracle)];
  const problems: string[] = [];
  if (guest.length === 0) problems.push('the program recorded no events');
  for (let i = 0; i < Math.max(guest.length, oracle.length) && problems.length < 5; i++) {
    if (guest[i] !== oracle[i])
      problems.push(`event ${i}: program ${guest[i] ?? 'none'}, machine ${oracle[i] ?? 'none'}`);
  }
  both.guest.forEach((row, i) => {
    // Entered before it is recorded, and recorded before the next is entered.
    const other = both.oracle[i];
    if (other && row.kind === 'entry' && row.time < other.time)
      problems.push(`event ${i} is recorded before it happened`);
  });
  return problems;
}
