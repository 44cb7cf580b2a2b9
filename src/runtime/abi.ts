/**
 * How what the tool and guest code share lies in guest memory: ops objects, hashes, the ring, the
 * stacks of the graph tracer. The same as `abi.h`, in numbers. Knows no machine: words are 4 or 8
 * bytes in the byte order of the target's data.
 */

/** Words of an ops object, in this order; aligned to a word. */
export const OPS_WORDS = {
  /** Text address of the callback, on ELFv1 too. */
  func: 0,
  flags: 1,
  directCall: 2,
  /** Free for the callback; `elftrace_counter` counts here. */
  private: 3,
  next: 4,
  /** Address of a hash, or 0: everything. */
  filter: 5,
  /** Address of a hash, or 0: nothing excluded. */
  notrace: 6,
  trampoline: 7,
} as const;

/** Words of one ops object. */
export const OPS_WORD_COUNT = 8;

/** Ops objects that fit into `elftrace_data` (section `.elftrace.data`). */
export const OPS_ROOM = 64;

/** Flags of an ops object, with the kernel's numbers. */
export const OPS_FLAGS = {
  ENABLED: 1 << 0,
  DYNAMIC: 1 << 1,
  SAVE_REGS: 1 << 2,
  SAVE_REGS_IF_SUPPORTED: 1 << 3,
  RECURSION: 1 << 4,
  STUB: 1 << 5,
  INITIALIZED: 1 << 6,
  DELETED: 1 << 7,
  ADDING: 1 << 8,
  REMOVING: 1 << 9,
  MODIFYING: 1 << 10,
  ALLOC_TRAMP: 1 << 11,
  IPMODIFY: 1 << 12,
  RCU: 1 << 14,
  PERMANENT: 1 << 16,
  DIRECT: 1 << 17,
  SUBOP: 1 << 18,
} as const;

/** Words of a hash: the count, then that many site addresses in ascending order. */
export const HASH_WORDS = { count: 0, sites: 1 } as const;

/** The first eight bytes of a ring. */
export const RING_MAGIC = 'ELFTRCE1';

/** Versions: of runtimes with probes, and of the others. */
export const RING_VERSIONS = { long: 1, short: 2 } as const;

/** Bytes of the ring's header; the records follow it. */
export const RING_HEADER_BYTES = 64;

/** Bytes of one record, in the two versions. */
export const RING_RECORD_BYTES = 32;
export const RING_SHORT_BYTES = 16;

/** Records in the prebuilt runtime: a power of two. */
export const RING_CAPACITY = 65536;

/**
 * Byte offsets in the header. `head`, `dropped` and `clockKind` are 64-bit words on every target,
 * the others 32-bit.
 */
export const RING_HEADER = {
  magic: 0,
  version: 8,
  recordBytes: 12,
  capacity: 16,
  flags: 20,
  /** Records ever written: the next goes to `head` modulo capacity. */
  head: 24,
  dropped: 32,
  clockKind: 40,
} as const;

/** Bits of the header's flags. */
export const RING_FLAGS = {
  /** Records beyond the capacity are dropped and counted; else they overwrite the oldest. */
  keepOldest: 1,
  /** Records have no times; in the short version alone. */
  noTimes: 2,
} as const;

/** Byte offsets in a record of the long version. The first three are 64-bit, the others 32-bit. */
export const RING_RECORD = { time: 0, ip: 8, parentIp: 16, kind: 24, thread: 28 } as const;

/** The same of the short version: 64 bits, and twice 32. */
export const RING_SHORT = { event: 0, ip: 8, parentIp: 12 } as const;

/**
 * The 64 bits of an event: kind, from bit 0; `far`: the next record, of kind data, has the upper
 * halves of the addresses, which else are that of the ring's address; thread; lower bits of the
 * time.
 */
export const RING_SHORT_EVENT = { kindMask: 7, far: 8, threadShift: 4, threadMask: 15, timeShift: 8 } as const;

/**
 * Kinds of a record; 0 is one whose writer had not finished. `entry` is one that a return may
 * follow; `data` belongs to the record of a probe in front of it; `call` is what a tracer records
 * that hears of no returns.
 */
export const RING_KINDS = { entry: 1, return: 2, direct: 3, probe: 4, user: 5, data: 6, call: 7 } as const;

/** Words of what a probed address has: `struct probe_op`. */
export const PROBE_OP_WORDS = { address: 0, ip: 1, adjust: 2, flags: 3, hits: 4, missed: 5, events: 6 } as const;
export const PROBE_OP_WORD_COUNT = 8;
export const PROBE_OP_FLAGS = { off: 1 } as const;

/** Words of what is recorded there, before its program: `struct probe_event`. */
export const PROBE_EVENT_WORDS = { next: 0, id: 1, flags: 2, hits: 3 } as const;
export const PROBE_EVENT_WORD_COUNT = 4;

/** Flags of an event, as in abi.h. */
export const PROBE_EVENT_FLAGS = { return: 1, activeShift: 8 } as const;

/**
 * Words of a call that a return probe waits for: `struct probe_instance`, a stack of them for each
 * thread.
 */
export const PROBE_INSTANCE_WORDS = { event: 0, op: 1, parentIp: 2, frame: 3 } as const;
export const PROBE_INSTANCE_WORD_COUNT = 4;
export const PROBE_INSTANCE_COUNT = 64;

/** Programs of events: a word for the operation, then its operands. */
export const PROBE_OPERATIONS = { end: 0, register: 1, constant: 2, load: 3, put: 4, memory: 5, string: 6 } as const;
export const PROBE_STRING_BYTES = 64;
/**
 * The function that reads memory for arguments. Where an access of it faults, what serves faults
 * makes it return 1 to its caller.
 */
export const PROBE_PEEK = 'elftrace_probe_peek';
/** Words of 64 bits that an event may have. */
export const PROBE_DATA = 96;

/** Kinds of clock: 1 is the machine's own counter; in the emulator the number of instructions. */
export const RING_CLOCKS = { machine: 1 } as const;

/** `elftrace_graph_stack`: blocks of this many threads. */
export const THREAD_COUNT = 8;

/** Frames farther apart than this lie on different stacks. */
export const ONE_STACK = 1n << 20n;

/** Words at the head of a thread's block. */
export const THREAD_WORDS = { owner: 0, active: 1, depth: 2, overrun: 3, abandoned: 4, sideDepth: 5 } as const;

/** Words of that head. */
export const THREAD_HEAD_WORDS = 6;

/** Entries of the shadow stack of a thread: after the six words of its head. */
export const GRAPH_ENTRY_COUNT = 64;

/** Bytes of a graph entry: six words and a 64-bit time. */
export function graphEntryBytes(wordBytes: 4 | 8): number {
  return 6 * wordBytes + 8;
}

/** Words of a graph entry, before its time. */
export const GRAPH_ENTRY_WORDS = { parentIp: 0, ip: 1, frame: 2, users: 4 } as const;

/** `elftrace_graph_users`: pointers to so many ops objects. */
export const GRAPH_USER_COUNT = 16;

/** Entries of the stack of replaced functions, three words each, behind the shadow stack. */
export const SIDE_ENTRY_COUNT = 64;
export const SIDE_ENTRY_WORDS = { saved: 0, parentIp: 1, frame: 2 } as const;
export const SIDE_ENTRY_WORD_COUNT = 3;

/** Bytes of a thread's block. */
export function threadBytes(wordBytes: 4 | 8): number {
  const side = SIDE_ENTRY_COUNT * SIDE_ENTRY_WORD_COUNT * wordBytes;
  const bytes = THREAD_HEAD_WORDS * wordBytes + GRAPH_ENTRY_COUNT * graphEntryBytes(wordBytes) + side;
  return Math.ceil(bytes / 8) * 8;
}

/** Sections of the prebuilt object that must lie side by side, in this order. */
export const RING_SECTIONS = { header: '.data.elftrace_ring', records: '.bss.elftrace_ring' } as const;

/**
 * `elftrace_thread_mode` (x86-64): what tells threads apart. The tool writes `fs` for programs with
 * a C library (they have PT_TLS or PT_INTERP). All others keep `one`, which the object holds, those
 * at kernel addresses among them: where no base is set, a look at it would fault, and one CPU
 * executes them. `gs` is for who sets that base to a block of the processor, and writes it.
 */
export const THREAD_MODES = { one: 0, fs: 1, gs: 2 } as const;

/**
 * Words of the table of direct callers, behind its count: pairs in ascending order of the site.
 * `ftrace_direct_table` holds its address or 0.
 */
export const DIRECT_WORDS = { count: 0, pairs: 1 } as const;
