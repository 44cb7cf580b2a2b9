/** Programs of x86-64 that write their own trace: the runtime of native.S and runtime/native.c. */
import { ByteView, concatBytes } from '../bytes.js';
import type { LoadedBytes } from '../machine/address-pairs.js';
import type { CounterStubs, GraphStubs, NativeTracing, ValuePlaces } from '../machine/native-tracing.js';
import type { SiteReading, SiteStore, SiteView } from '../machine/sites.js';
import type { Address } from '../units.js';
import { CALL5_REACH, encodeBranch5 } from './sites.js';
import { reaches } from '../bits.js';

const NOP = 0x90;
const INT3 = 0xcc;
const ENDBR64 = 0xfa1e_0ff3;
/** A call of five bytes and a jump of two. */
const FRONT_BYTES = 7;
const JUMP_BYTES = 2;

/** `jmp` of two bytes, between deltas from the anchor. */
const shortJump = (from: number, to: number): Uint8Array => Uint8Array.of(0xeb, (to - from - JUMP_BYTES) & 0xff);

/**
 * -fpatchable-function-entry=16,14 and its like (RT-32):
 *
 *   address    compiled       traced
 *   symbol-7   90 90 90 90 90 e8 d0..d3  call entry
 *   symbol-2   90 90          eb ..      jmp  over the entry's nops
 *   symbol     [f3 0f 1e fa]
 *   ip         90 90          eb ..      jmp  symbol-7
 *
 * No return address points into what changes, for the nops in front are never executed.
 */
function callInFront(view: SiteView, reading: SiteReading, entry: Address): readonly SiteStore[] | null {
  const ip = reading.ipDelta;
  if (reading.form !== 'small' || view.u8(ip) !== NOP || view.u8(ip + 1) !== NOP) return null;
  const symbol = view.u32(ip - 4) === ENDBR64 ? ip - 4 : ip;
  if (!view.functionAt(symbol) && !view.unwindsFrom(symbol) && view.calledFrom(symbol) === null) return null;
  const start = symbol - FRONT_BYTES;
  for (let delta = start; delta < symbol; delta++) if (delta < 0 || view.u8(delta) !== NOP) return null;
  const address = view.address + BigInt(start);
  if (!reaches(CALL5_REACH, address, entry)) return null;
  const call = concatBytes([encodeBranch5(0xe8, address, entry), shortJump(symbol - JUMP_BYTES, ip + JUMP_BYTES)]);
  return [
    { delta: start, before: view.bytes(start, FRONT_BYTES), after: call },
    { delta: ip, before: view.bytes(ip, JUMP_BYTES), after: shortJump(ip, start) },
  ];
}

/** Of the jump that takes the place of a site's call; the byte behind it is never executed. */
const JUMP5_BYTES = 5;

/** As native-hook.h and the picture in native-graph.S have it. */
const STUB = { bytes: 32, carry: 5, call: 15, hook: 20, spans: 25, mark: [0x66, 0x74, 0x67] } as const;

const LEA = 0x8d;
/** ModRM of a distance from the end of the instruction, whatever the register is. */
const isRelative = (modRm: number): boolean => (modRm & 0xc7) === 5;

/**
 * An address stands in code and data as its lower 32 bits, or is computed by
 * `lea distance(%rip),%reg`; wherever an instruction begins.
 */
function holdsIn({ bytes, address }: LoadedBytes, low: ReadonlySet<number>): boolean {
  const start = Number(address & 0xffff_ffffn) + 1;
  if (low.size === 0) return false;
  let word = 0;
  for (let at = 0; at < bytes.length; at++) {
    word = ((word >>> 8) | (bytes[at]! << 24)) >>> 0;
    if (at < 3) continue;
    if (low.has(word)) return true;
    const isLea = at >= 5 && isRelative(bytes[at - 4]!) && bytes[at - 5] === LEA;
    if (isLea && low.has((start + at + word) >>> 0)) return true;
  }
  return false;
}

function holds(loads: readonly LoadedBytes[], some: ReadonlySet<Address>): boolean {
  const low = new Set(Array.from(some, (each) => Number(each & 0xffff_ffffn)));
  return loads.some((each) => holdsIn(each, low));
}

const graphStubs: GraphStubs = {
  symbol: 'native_stubs',
  bytes: STUB.bytes,
  site: (stores, stub) => {
    const [first, second] = stores;
    if (first === undefined || !reaches(CALL5_REACH, first.address, stub)) return null;
    const rest = second === undefined ? first.after.slice(JUMP5_BYTES).fill(NOP) : first.after.slice(JUMP5_BYTES);
    const jump = concatBytes([encodeBranch5(0xe9, first.address, stub), rest]);
    // Where the call lies in front of the function, the site jumps there as before.
    if (second === undefined) return { stores: [jump], body: first.address + BigInt(first.after.length) };
    return { stores: [jump, second.after], body: second.address + BigInt(JUMP_BYTES) };
  },
  names: ['elftrace_native_graph', 'native_return', 'native_spans'],
  make: (stub, body, [entry, leave, spans]) => {
    const at = (offset: number): Address => stub + BigInt(offset);
    if (!reaches(CALL5_REACH, stub, body)) return null;
    const out = new Uint8Array(STUB.bytes);
    const view = new ByteView(out, 'little');
    out.set(encodeBranch5(0xe8, stub, entry!));
    // jc body: two bytes of opcode.
    out.set([0x0f], STUB.carry);
    out.set(encodeBranch5(0xe8, at(STUB.carry + 1), body), STUB.carry + 1);
    out.set([0x82], STUB.carry + 1);
    out.set([0x48, 0x83, 0xc4, 0x08], STUB.call - 4);
    out.set(encodeBranch5(0xe8, at(STUB.call), body), STUB.call);
    out.set(encodeBranch5(0xe9, at(STUB.hook), leave!), STUB.hook);
    view.insertU32(STUB.spans, Number(BigInt.asUintN(32, at(STUB.hook) - spans!)));
    out.set(STUB.mark, STUB.spans + 4);
    return out;
  },
};

/** `mov $place, %r11d; jmp entry` */
const counterStubs: CounterStubs = {
  bytes: 16,
  make: (stub, place, entry) => {
    const jumpAt = 6;
    if (!reaches(CALL5_REACH, stub + BigInt(jumpAt), entry)) return null;
    const out = new Uint8Array(16).fill(INT3);
    out.set([0x41, 0xbb]);
    new ByteView(out, 'little').insertU32(2, place);
    out.set(encodeBranch5(0xe9, stub + BigInt(jumpAt), entry), jumpAt);
    return out;
  },
};

/** GNU_PROPERTY_X86_FEATURE_1_AND, and its bit SHSTK. */
const SHADOW_STACKS = { property: 0xc000_0002, bit: 2 } as const;

/** As the slow way of native.S saves them, from the last push on. */
const SAVED = ['r10', 'r9', 'r8', 'rdi', 'rsi', 'rcx', 'rdx', 'rax'] as const;
const ARGUMENTS = ['rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9'] as const;
const VECTORS = [0, 1, 2, 3, 4, 5, 6, 7] as const;
/** What native-machine.h takes st0 for. */
const ST0 = 8;

/** __set_thread_area of musl: mov %rdi,%rsi; mov $ARCH_SET_FS,%edi; mov $158,%eax; syscall; ret. */
const MUSL_SETTER = Uint8Array.of(0x48, 0x89, 0xfe, 0xbf, 2, 0x10, 0, 0, 0xb8, 0x9e, 0, 0, 0, 0x0f, 5, 0xc3);

/** System V ABI, 3.2.3. */
const VALUES: ValuePlaces = {
  wordBytes: 8,
  registers: ARGUMENTS.map((each) => SAVED.indexOf(each)),
  result: SAVED.indexOf('rax'),
  named: Object.fromEntries([
    ...SAVED.map((name, place) => [name, { kind: 'register' as const, place }] as const),
    ...VECTORS.map((place) => [`xmm${place}`, { kind: 'floating' as const, place }] as const),
  ]),
  floatRegisters: VECTORS.length,
  longDoubles: { format: 'x87', are: 'stack', result: { kind: 'floating', place: ST0 } },
  floatsBeyond: 'stack',
  isOneList: false,
  aggregates: { above: 16, are: 'stack' },
  hiddenResult: { never: 16, always: 16 },
};

export const x86NativeTracing: NativeTracing = {
  kind: 'runtime',
  runtime: 'native',
  entries: {
    function: 'elftrace_native_function',
    noClock: 'elftrace_native_no_clock',
    counter: 'elftrace_native_counter',
  },
  counterStubs,
  config: 'native_config',
  abi: null,
  graph: {
    runtime: 'native-graph',
    entry: 'elftrace_native_graph',
    stubs: graphStubs,
    shadowStacks: SHADOW_STACKS,
    holds,
  },
  // Sites at the function's entry: behind a prologue neither the stack pointer nor the registers
  // are what the entry takes them for.
  conventions: ['modern'],
  slots: [
    {
      library: 'glibc',
      suffix: '',
      loaders: ['ld-linux-x86-64.so.2'],
      libraries: ['libc.so.6'],
      count: 32,
      threadSetter: null,
    },
    {
      library: 'musl',
      suffix: '-musl',
      loaders: ['ld-musl-x86_64.so.1'],
      libraries: ['libc.musl-x86_64.so.1', 'libc.so'],
      count: 1,
      threadSetter: MUSL_SETTER,
    },
  ],
  valuesOf: () => VALUES,
  callInFront,
  options: {
    shortest: '-fpatchable-function-entry=5',
    all: '-fpatchable-function-entry=5, or -pg -mfentry -mrecord-mcount',
  },
  reach: 1 << 26,
};
