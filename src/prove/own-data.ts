/**
 * What the tracer's own data holds behind a site (PV-1, 4): the records, counts and calls under way
 * that the callbacks of the site leave, and nothing else. Written down from `runtime/abi.ts`, not
 * from the code that is proved.
 */
import { entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import {
  GRAPH_ENTRY_WORDS,
  GRAPH_USER_COUNT,
  graphEntryBytes,
  OPS_WORDS,
  RING_FLAGS,
  RING_HEADER,
  RING_HEADER_BYTES,
  RING_KINDS,
  RING_RECORD,
  RING_RECORD_BYTES,
  THREAD_COUNT,
  THREAD_WORDS,
  threadBytes,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import { differing, PAGE_BYTES } from './layout.js';
import type { Random } from './random.js';
import type { Wanted } from './wanted.js';
import type { ProofWorld } from './world.js';

/** Bytes that callbacks write. */
interface Write {
  readonly address: Address;
  readonly size: number;
  /** What may stand there afterwards; null: anything. */
  readonly holds: readonly bigint[] | null;
  readonly what: string;
}

/** What is known of a call for which the tracer writes something down. */
export interface OwnCall {
  readonly ip: Address;
  /** Where the function returns to, as callbacks may be told. */
  readonly parents: readonly Address[];
  /** What tells the function's frame from others: as a rule the stack pointer behind the return. */
  readonly frame: bigint;
}

/** A function that takes all sites that its hashes match. */
interface GraphUser {
  readonly bit: bigint;
  readonly isRecorded: boolean;
  readonly takes: (ip: Address) => boolean;
}

/** Words that a graph entry has between those that are compared. */
const SPARE_WORD = 3;

export class OwnData {
  private readonly word: number;
  private readonly ring: Address;
  private readonly threads: Address;
  private readonly count: Address | null;
  private readonly tracer: Address | null;
  private readonly counter: Address | null;
  private readonly silent: readonly (Address | null)[];
  private readonly graph: Address | null;
  /** Pages as they were when the trial began, where that is not as they are in the image. */
  private readonly before = new Map<Address, Uint8Array>();
  /** The block of the thread that runs. */
  private thread = 0n;
  private isAgain = false;

  private constructor(
    private readonly program: Program,
    private readonly own: readonly { readonly start: Address; readonly end: Address }[],
    private readonly users: readonly GraphUser[],
    { ring, threads }: { ring: Address; threads: Address },
  ) {
    this.word = program.image.wordBytes;
    this.ring = ring;
    this.threads = threads;
    this.count = program.definedAt(program.symbols.find('elftrace_count'));
    const place = (name: string): Address | null => entryPoint(program, name)?.address ?? null;
    this.tracer = place('elftrace_function_tracer');
    this.counter = place('elftrace_counter');
    this.graph = place('ftrace_graph_func');
    this.silent = [place('ftrace_direct_func'), place('elftrace_livepatch')];
  }

  /** @param own  ranges of the tracer; null where the image has no ring and no threads */
  static of(program: Program, own: readonly { readonly start: Address; readonly end: Address }[]): OwnData | null {
    const at = (name: string): Address | null => program.definedAt(program.symbols.find(name));
    const [pointer, threads, users] = ['elftrace_ring', 'elftrace_graph_stack', 'elftrace_graph_users'].map(at);
    const word = wordReader(program);
    const ring = (pointer ?? null) === null ? 0n : word(pointer!);
    if (ring === 0n || (threads ?? null) === null) return null;
    return new OwnData(program, own, (users ?? null) === null ? [] : graphUsers(program, users!), {
      ring,
      threads: threads!,
    });
  }

  /**
   * Brings the data into a state that a program can have (PV-3): its first records, a ring at its
   * end or full, blocks of other threads.
   */
  vary(world: ProofWorld, random: Random): void {
    const { ring, word } = this;
    const capacity = this.number(world, ring + BigInt(RING_HEADER.capacity), 4);
    const state = random.below(4);
    if (state === 0 || capacity === 0n) return;
    if (state === 3) {
      const others = 1 + random.below(THREAD_COUNT - 1);
      for (let i = 0; i < others; i++) {
        world.writeWord(this.threads + BigInt(i * threadBytes(word as 4 | 8)), BigInt(0x1000 + random.below(0x1000)));
      }
      return;
    }
    // One record fits, or none; where the oldest go, the next one is at the ring's beginning.
    const head = capacity - BigInt(random.below(2));
    this.store(world, ring + BigInt(RING_HEADER.head), head, 8);
    if (state === 2) this.store(world, ring + BigInt(RING_HEADER.flags), BigInt(RING_FLAGS.keepOldest), 4);
  }

  private store(world: ProofWorld, at: Address, value: bigint, size: number): void {
    const bytes = Uint8Array.from({ length: size }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
    world.write(at, this.program.image.header.endian === 'little' ? bytes : bytes.reverse());
  }

  /** The next trial is a call of the thread that the last one was of. */
  again(): void {
    this.isAgain = true;
  }

  /** Notes what is there when a trial begins. */
  begin(world: ProofWorld): void {
    this.before.clear();
    for (const page of world.changed()) if (this.isOwn(page)) this.before.set(page, world.read(page, PAGE_BYTES));
    if (!this.isAgain) this.thread = this.threadOf(world);
    this.isAgain = false;
  }

  private isOwn(page: Address): boolean {
    return this.own.some(({ start, end }) => start < page + BigInt(PAGE_BYTES) && end > page);
  }

  private number(world: ProofWorld, address: Address, size: number): bigint {
    return numberOf(world.read(address, size), this.program.image.header.endian);
  }

  /** As it was when the trial began. */
  private was(world: ProofWorld, address: Address, size: number): bigint {
    const page = address & ~BigInt(PAGE_BYTES - 1);
    const skip = Number(address - page);
    const bytes = this.before.get(page) ?? world.page(page).before;
    return numberOf(bytes.slice(skip, skip + size), this.program.image.header.endian);
  }

  private threadWord(name: keyof typeof THREAD_WORDS): Address {
    return this.thread + BigInt(THREAD_WORDS[name] * this.word);
  }

  /** Whether the callbacks of a site are those that the runtime has, so that all is known. */
  private isKnown({ calls, hijack }: Wanted): boolean {
    const known = [this.tracer, this.counter, this.graph, ...this.silent];
    return (
      calls.every(({ place }) => known.includes(place)) && (!hijack || this.users.every((each) => each.isRecorded))
    );
  }

  /**
   * What is not as the callbacks of a site must have left it, in a sentence; null: all is.
   * @param wanted  null: the site calls nothing
   * @param phase   `return`: the function has come back, too
   */
  wrong(world: ProofWorld, wanted: Wanted | null, call: OwnCall, phase: 'enter' | 'return'): string | null {
    if (wanted !== null && !this.isKnown(wanted)) return null;
    const writes = wanted === null ? [] : this.writes(world, wanted, call, phase);
    for (const { address, size, holds, what } of writes) {
      const found = this.number(world, address, size);
      if (holds !== null && !holds.includes(found)) return `${what} is ${hex(found)}, not ${hex(holds[0]!)}`;
    }
    const stray = this.strayWrite(world, writes);
    return stray === null ? null : `data of the tracer at ${hex(stray)} changed`;
  }

  /** The first block that belongs to no other thread: the one that runs takes it. */
  private threadOf(world: ProofWorld): Address {
    for (let i = 0; i < THREAD_COUNT; i++) {
      const at = this.threads + BigInt(i * threadBytes(this.word as 4 | 8));
      if (this.was(world, at, this.word) === 0n) return at;
    }
    return this.threads;
  }

  private writes(world: ProofWorld, wanted: Wanted, call: OwnCall, phase: 'enter' | 'return'): Write[] {
    const owner = this.threadWord('owner');
    const writes: Write[] = [];
    // A block is taken once.
    if (this.was(world, owner, this.word) === 0n) {
      writes.push({ address: owner, size: this.word, holds: null, what: 'the owner of a thread' });
    }
    const records: { kind: number; parents: readonly Address[] }[] = [];
    let counted = 0n;
    let isPushed = false;
    const push = (): void => {
      isPushed = true;
      records.push({ kind: RING_KINDS.entry, parents: call.parents });
      writes.push(...this.pushed(world, call, phase));
    };
    for (const { place, self } of wanted.calls) {
      if (place === this.tracer) records.push({ kind: RING_KINDS.call, parents: call.parents });
      else if (place === this.counter) {
        counted++;
        const at = self + BigInt(OPS_WORDS.private * this.word);
        writes.push(this.more(world, at, 1n, 'the count of the ops'));
      } else if (place === this.graph) push();
    }
    if (wanted.hijack && !isPushed) push();
    if (wanted.hijack && phase === 'return') records.push({ kind: RING_KINDS.return, parents: call.parents });
    if (counted > 0n && this.count !== null) writes.push(this.more(world, this.count, counted, 'the count of calls'));
    const side = threadBytes(this.word as 4 | 8);
    // What a function in the place of another one keeps is read by its way back.
    if (wanted.replacement !== null) writes.push({ address: this.thread, size: side, holds: null, what: '' });
    return [...writes, ...this.recorded(world, call, records)];
  }

  /** A word that grows. */
  private more(world: ProofWorld, address: Address, by: bigint, what: string): Write {
    const size = this.word;
    return { address, size, holds: [BigInt.asUintN(8 * size, this.was(world, address, size) + by)], what };
  }

  /** A call under way; behind its return only what was written for it is left. */
  private pushed(world: ProofWorld, { ip, parents, frame }: OwnCall, phase: 'enter' | 'return'): Write[] {
    const size = this.word;
    const depth = this.was(world, this.threadWord('depth'), size);
    const entry = this.thread + BigInt(6 * size) + depth * BigInt(graphEntryBytes(size as 4 | 8));
    const at = (index: number): Address => entry + BigInt(index * size);
    const users = this.users.reduce((sum, { bit, takes }) => (takes(ip) ? sum | bit : sum), 0n);
    const now = phase === 'enter' ? depth + 1n : depth;
    return [
      { address: this.threadWord('depth'), size, holds: [now], what: 'the number of calls under way' },
      { address: at(GRAPH_ENTRY_WORDS.parentIp), size, holds: parents, what: 'the return address of a call' },
      { address: at(GRAPH_ENTRY_WORDS.ip), size, holds: [ip], what: 'the ip of a call' },
      { address: at(GRAPH_ENTRY_WORDS.frame), size, holds: [frame], what: 'the frame of a call' },
      { address: at(SPARE_WORD), size, holds: null, what: 'the frame pointer of a call' },
      { address: at(GRAPH_ENTRY_WORDS.users), size, holds: [users], what: 'the users of a call' },
      { address: at(6), size: 8, holds: null, what: 'the time of a call' },
    ];
  }

  /** Records in the ring, and the words that count them. */
  private recorded(
    world: ProofWorld,
    { ip }: OwnCall,
    records: readonly { kind: number; parents: readonly Address[] }[],
  ): Write[] {
    const { ring } = this;
    const field = (name: keyof typeof RING_HEADER): Address => ring + BigInt(RING_HEADER[name]);
    const capacity = this.was(world, field('capacity'), 4);
    const keepsOldest = (this.was(world, field('flags'), 4) & BigInt(RING_FLAGS.keepOldest)) !== 0n;
    let head = this.was(world, field('head'), 8);
    let dropped = this.was(world, field('dropped'), 8);
    const low = BigInt(8 * this.word);
    const number = this.thread === 0n ? 0n : (this.thread - this.threads) / BigInt(threadBytes(this.word as 4 | 8));
    const writes: Write[] = [];
    for (const { kind, parents } of records) {
      if (keepsOldest && BigInt.asUintN(Number(low), head) >= capacity) {
        dropped++;
        continue;
      }
      const at = ring + BigInt(RING_HEADER_BYTES) + (head & (capacity - 1n)) * BigInt(RING_RECORD_BYTES);
      const part = (name: keyof typeof RING_RECORD): Address => at + BigInt(RING_RECORD[name]);
      writes.push(
        { address: part('time'), size: 8, holds: null, what: 'the time of a record' },
        { address: part('ip'), size: 8, holds: [ip], what: 'the ip of a record' },
        { address: part('parentIp'), size: 8, holds: parents, what: 'the parent of a record' },
        { address: part('kind'), size: 4, holds: [BigInt(kind)], what: 'the kind of a record' },
        { address: part('thread'), size: 4, holds: [number], what: 'the thread of a record' },
      );
      head = BigInt.asUintN(64, head + 1n);
    }
    return [
      ...writes,
      { address: field('head'), size: 8, holds: [head], what: 'the number of records' },
      { address: field('dropped'), size: 8, holds: [dropped], what: 'the number of records dropped' },
    ];
  }

  /** The first byte that changed and that no callback writes; null: there is none. */
  private strayWrite(world: ProofWorld, writes: readonly Write[]): Address | null {
    for (const page of world.changed()) {
      if (!this.isOwn(page)) continue;
      const { before, now } = world.page(page);
      const was = this.before.get(page) ?? before;
      if (Buffer.compare(was, now) === 0) continue;
      const inside = writes.map(({ address, size }) => ({ from: Number(address - page), size }));
      for (const i of differing(was, now)) {
        if (inside.some(({ from, size }) => i >= from && i < from + size)) continue;
        const address = page + BigInt(i);
        if (this.own.some(({ start, end }) => address >= start && address < end)) return address;
      }
    }
    return null;
  }
}

const hex = (value: bigint): string => `0x${value.toString(16)}`;

function numberOf(bytes: Uint8Array, endian: 'little' | 'big'): bigint {
  const read = endian === 'little' ? bytes.slice().reverse() : bytes;
  return read.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

function wordReader({ reader, image }: Program): (address: Address) => bigint {
  return (address) => {
    const value = image.wordBytes === 8 ? reader.u64(address) : BigInt(reader.u32(address));
    return value === null || value < 0n ? 0n : value;
  };
}

/** Users of the graph tracer, as the image lists them. */
function graphUsers(program: Program, users: Address): GraphUser[] {
  const word = wordReader(program);
  const size = BigInt(program.image.wordBytes);
  const sitesOf = (hash: Address): ReadonlySet<Address> =>
    new Set(Array.from({ length: Number(word(hash)) }, (_, i) => word(hash + BigInt(1 + i) * size)));
  return Array.from({ length: GRAPH_USER_COUNT }, (_, i) => {
    const ops = word(users + BigInt(i) * size);
    if (ops === 0n) return null;
    const field = (name: keyof typeof OPS_WORDS): bigint => word(ops + BigInt(OPS_WORDS[name]) * size);
    const [filter, notrace] = [field('filter'), field('notrace')];
    const [taken, left] = [filter === 0n ? null : sitesOf(filter), notrace === 0n ? null : sitesOf(notrace)];
    return {
      bit: 1n << BigInt(i),
      isRecorded: field('func') === 0n && field('directCall') === 0n,
      takes: (ip: Address) => (taken?.has(ip) ?? true) && left?.has(ip) !== true,
    };
  }).filter((each) => each !== null);
}
