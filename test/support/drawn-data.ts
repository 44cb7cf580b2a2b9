/**
 * Words of the tracer's data that running code writes, and numbers that they may hold (PV-5). What
 * the tool writes, ops and tables and pointers to them, is as the image has it.
 */
import type { Random } from '../../src/prove/random.js';
import type { ProofWorld } from '../../src/prove/world.js';
import type { Program } from '../../src/program/program.js';
import {
  GRAPH_ENTRY_COUNT,
  GRAPH_ENTRY_WORDS,
  graphEntryBytes,
  ONE_STACK,
  PROBE_INSTANCE_COUNT,
  PROBE_INSTANCE_WORD_COUNT,
  RING_FLAGS,
  RING_HEADER,
  RING_RECORD_BYTES,
  RING_SHORT_BYTES,
  SIDE_ENTRY_COUNT,
  SIDE_ENTRY_WORD_COUNT,
  THREAD_COUNT,
  THREAD_HEAD_WORDS,
  THREAD_WORDS,
  threadBytes,
} from '../../src/runtime/abi.js';
import type { Address } from '../../src/units.js';

/** What a word may hold: a count up to so much, some bits, or any number. */
type Holds = { readonly most: number } | { readonly bits: bigint } | 'any';

interface Field {
  readonly at: Address;
  readonly size: 4 | 8;
  readonly holds: Holds;
}

/** A word with the number that it gets. */
export interface DrawnWord {
  readonly at: Address;
  readonly size: 4 | 8;
  readonly value: bigint;
}

/** Bytes, and how many of them in each so many have the time. */
export interface TimedRange {
  readonly start: Address;
  readonly end: Address;
  readonly step: number;
  readonly at: number;
  readonly size: number;
}

const USERS = 0xffffn;

export class DrawnData {
  private readonly fields = new Map<Address, Field>();
  /** Where the data lies that code reads. */
  readonly ranges: readonly { readonly start: Address; readonly size: number }[];
  /** What holds times, which differ between two runs. */
  readonly times: readonly TimedRange[];
  private readonly word: 4 | 8;

  constructor(private readonly program: Program) {
    this.word = program.image.wordBytes;
    const { word } = this;
    const ring = this.at('elftrace_ring_memory');
    const threads = this.at('elftrace_graph_stack');
    const [depths, calls] = [this.at('elftrace_probe_depth'), this.at('elftrace_probe_instances')];
    const bytes = threadBytes(word);
    const waiting = THREAD_COUNT * PROBE_INSTANCE_COUNT * PROBE_INSTANCE_WORD_COUNT * word;
    if (ring !== null) this.addRing(ring);
    for (let i = 0; threads !== null && i < THREAD_COUNT; i++) this.addThread(threads + BigInt(i * bytes));
    for (let i = 0; depths !== null && i < THREAD_COUNT; i++)
      this.add(depths + BigInt(i * word), word, { most: PROBE_INSTANCE_COUNT });
    for (let i = 0; calls !== null && i < waiting; i += word) this.add(calls + BigInt(i), word, 'any');
    for (const name of ['elftrace_graph_stopped', 'elftrace_rcu_watching']) {
      const at = this.at(name);
      if (at !== null) this.add(at, 4, { bits: 1n });
    }
    this.ranges = [...this.fields.values()].reduce<{ start: Address; size: number }[]>((all, { at, size }) => {
      const last = all.at(-1);
      if (last !== undefined && last.start + BigInt(last.size) === at) last.size += size;
      else all.push({ start: at, size });
      return all;
    }, []);
    this.times = this.timed(ring, threads);
  }

  private at(name: string): Address | null {
    return this.program.definedAt(this.program.symbols.find(name));
  }

  private add(at: Address, size: 4 | 8, holds: Holds): void {
    this.fields.set(at, { at, size, holds });
  }

  private addRing(ring: Address): void {
    const { word } = this;
    this.add(ring + BigInt(RING_HEADER.flags), 4, { bits: BigInt(RING_FLAGS.keepOldest) });
    for (const name of ['head', 'dropped'] as const)
      for (let i = 0; i < 8; i += word) this.add(ring + BigInt(RING_HEADER[name] + i), word, 'any');
  }

  private addThread(block: Address): void {
    const { word } = this;
    const holds: Partial<Record<number, Holds>> = {
      [THREAD_WORDS.active]: { bits: 1n },
      [THREAD_WORDS.depth]: { most: GRAPH_ENTRY_COUNT },
      [THREAD_WORDS.sideDepth]: { most: SIDE_ENTRY_COUNT },
    };
    for (let i = 0; i < THREAD_HEAD_WORDS; i++) this.add(block + BigInt(i * word), word, holds[i] ?? 'any');
    const entries = block + BigInt(THREAD_HEAD_WORDS * word);
    const bytes = graphEntryBytes(word);
    for (let i = 0; i < GRAPH_ENTRY_COUNT; i++) {
      for (let at = 0; at < bytes; at += word) {
        const isUsers = at === GRAPH_ENTRY_WORDS.users * word;
        this.add(entries + BigInt(i * bytes + at), word, isUsers ? { bits: USERS } : 'any');
      }
    }
    const side = entries + BigInt(GRAPH_ENTRY_COUNT * bytes);
    for (let i = 0; i < SIDE_ENTRY_COUNT * SIDE_ENTRY_WORD_COUNT; i++) this.add(side + BigInt(i * word), word, 'any');
  }

  private timed(ring: Address | null, threads: Address | null): TimedRange[] {
    const { program, word } = this;
    const { image } = program;
    const found: TimedRange[] = [];
    const isLittle = image.header.endian === 'little';
    const records = this.at('elftrace_ring_records') ?? (ring === null ? null : ring + 64n);
    if (ring !== null && records !== null) {
      const read = (offset: number): number => {
        const from = image.fileOffsetOf(ring) + offset;
        return new DataView(image.bytes.buffer, image.bytes.byteOffset).getUint32(from, isLittle);
      };
      const [step, capacity] = [read(RING_HEADER.recordBytes), read(RING_HEADER.capacity)];
      const end = records + BigInt(step * capacity);
      // The lowest byte of a short event says kind and thread.
      const isShort = step === RING_SHORT_BYTES;
      if (isShort) found.push({ start: records, end, step, at: isLittle ? 1 : 0, size: 7 });
      else if (step === RING_RECORD_BYTES) found.push({ start: records, end, step, at: 0, size: 8 });
    }
    for (let i = 0; threads !== null && i < THREAD_COUNT; i++) {
      const start = threads + BigInt(i * threadBytes(word) + THREAD_HEAD_WORDS * word);
      const step = graphEntryBytes(word);
      found.push({ start, end: start + BigInt(GRAPH_ENTRY_COUNT * step), step, at: step - 8, size: 8 });
    }
    return found;
  }

  /** Whether a byte is one of a time. */
  isTime(address: Address): boolean {
    return this.times.some(({ start, end, step, at, size }) => {
      if (address < start || address >= end) return false;
      const inside = Number((address - start) % BigInt(step));
      return inside >= at && inside < at + size;
    });
  }

  /** The word at an address, where running code writes it; null: it does not. */
  fieldAt(address: Address): Address | null {
    const { word } = this;
    for (const size of [4n, 8n]) {
      const at = address - (address % size);
      const field = this.fields.get(at);
      if (field !== undefined && address < at + BigInt(field.size) && (size <= BigInt(word) || field.size === 8))
        return at;
    }
    return null;
  }

  /**
   * A number for a word: one near what it holds, that of another word, or of a register.
   * @param others  words that code reads with it
   */
  draw(world: ProofWorld, at: Address, others: readonly Address[], random: Random): DrawnWord {
    const { size, holds } = this.fields.get(at)!;
    const now = this.read(world, at, size);
    return { at, size, value: BigInt.asUintN(8 * size, this.number(world, now, holds, others, random)) };
  }

  private number(world: ProofWorld, now: bigint, holds: Holds, others: readonly Address[], random: Random): bigint {
    if (holds !== 'any') {
      if ('bits' in holds)
        return now ^ (holds.bits & (random.below(2) === 0 ? 1n << BigInt(random.below(16)) : random.double()));
      const { most } = holds;
      const near = [0, 1, 2, most - 1, most, Number(now) + 1, Number(now) - 1, random.below(most + 1)];
      return BigInt(Math.min(most, Math.max(0, near[random.below(near.length)]!)));
    }
    const { machine } = world;
    switch (random.below(10)) {
      case 0:
        return BigInt(random.below(2));
      case 1:
        return -1n;
      case 2:
        return now + 1n;
      case 3:
        return now - 1n;
      case 4:
        return now ^ (1n << BigInt(random.below(64)));
      case 5: {
        const { registers } = machine.lifter;
        return machine.register(registers[random.below(registers.length)]!.name);
      }
      case 6:
        return now + (random.below(2) === 0 ? ONE_STACK : -ONE_STACK) + BigInt(random.below(3) - 1);
      case 7:
        return random.double();
      default: {
        const other = others[random.below(others.length)]!;
        return this.read(world, other, this.fields.get(other)!.size);
      }
    }
  }

  private read(world: ProofWorld, at: Address, size: 4 | 8): bigint {
    const bytes = world.read(at, size);
    if (this.program.image.header.endian === 'little') bytes.reverse();
    return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  }

  write(world: ProofWorld, { at, size, value }: DrawnWord): void {
    const bytes = Uint8Array.from({ length: size }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
    if (this.program.image.header.endian === 'big') bytes.reverse();
    world.write(at, bytes);
  }
}
