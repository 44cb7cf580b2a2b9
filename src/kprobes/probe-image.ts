/**
 * What probes have in an image: the bytes of its text, copies and buffers in the room for slots
 * (`.elftrace.slots`), objects for the callback and events in the room for data
 * (`.elftrace.probes`). All stores go through one method, which tells the ledger of plans.
 */
import type { Arch } from '../machine/arch.js';
import { alignUpBig, type Reach, reaches } from '../bits.js';
import { ByteView, equalBytes } from '../bytes.js';
import { ElftraceError, hex } from '../errors.js';
import { type ProbeSupport, refuse } from '../machine/probes.js';
import { entryPoint } from '../program/entry-points.js';
import { farStub } from '../program/loader.js';
import { probeSections, type Program } from '../program/program.js';
import {
  PROBE_EVENT_FLAGS,
  PROBE_EVENT_WORD_COUNT,
  PROBE_EVENT_WORDS,
  PROBE_OP_WORD_COUNT,
  PROBE_OP_WORDS,
} from '../runtime/abi.js';
import type { StoreLedger } from '../tracing/ledger.js';
import type { Address } from '../units.js';
import type { ProbeState } from './objects.js';
import type { ProbeEvent } from './probe-event.js';
import { compileProgram } from './program.js';
import { type SlotArea, SlotPool } from './slots.js';
import type { DetourPart, ProbeStoreReason } from './text-machine.js';
import { refusalError } from './validate.js';

/** Room for the trap of return probes, in front of all slots. */
const TRAMPOLINE_BYTES = 16;
const objectsOfProbes: ProbeStoreReason = { rule: 'K-SLOT-3', reason: 'object of a probe or event' };
const roomOfProbes: ProbeStoreReason = { rule: 'K-SLOT-2', reason: 'room that no probe has' };
/** Objects are found by their addresses. */
const ANYWHERE: Reach = { min: 0n, max: 1n << 64n, alignBytes: 1 };

/** Room for slots, and how buffers in it get to their callees. */
interface SlotRoom extends SlotArea {
  readonly callees: readonly Address[];
  /**
   * Stubs in front of the slots, with what they lead to: in modules, which lie out of the runtime's
   * reach.
   */
  readonly stubs: readonly { readonly address: Address; readonly target: Address }[];
}

function roomAt(
  address: Address,
  size: number,
  isFirst: boolean,
  support: ProbeSupport,
  callees: readonly Address[],
  reach: Reach | null,
  arch: Arch,
): SlotRoom {
  const end = address + BigInt(size);
  const isNear = (callee: Address): boolean =>
    reach === null || [address, end].every((from) => reaches(reach, from, callee));
  const stubBytes = arch.loader.kind === 'none' ? 0 : arch.loader.stubs.entryBytes;
  const stubs: { address: Address; target: Address }[] = [];
  let at = alignUpBig(address + BigInt(isFirst ? TRAMPOLINE_BYTES : 0), 16n);
  const ways = callees.map((target) => {
    if (isNear(target)) return target;
    stubs.push({ address: at, target });
    at += BigInt(stubBytes);
    return stubs[stubs.length - 1]!.address;
  });
  return { start: alignUpBig(at, BigInt(support.slots.alignBytes)), end, callees: ways, stubs };
}

/** What a probed address has for its callback. */
interface OpObject {
  readonly at: Address;
  /** Buffers that hand it over. */
  uses: number;
}

export class ProbeImage {
  /** Where functions with return probes go back to: a breakpoint. */
  readonly trampoline: Address;
  /** Room for copies and buffers. */
  readonly slots: SlotPool;
  readonly toc: Address | null;
  /** What buffers call; null: the machine has no buffers, or the runtime not all that they call. */
  readonly callees: readonly Address[] | null;
  /** Events by the address of their object. */
  readonly eventAddresses = new Map<Address, ProbeEvent>();
  /** The runtime's room, and those of modules. */
  private readonly rooms: readonly SlotRoom[];
  private readonly data: SlotArea;
  /** Room for objects of probes. */
  private readonly room: SlotPool;
  /** Objects by probed address, and probed addresses by object. */
  private readonly ops = new Map<Address, OpObject>();
  private readonly owners = new Map<Address, Address>();
  /** Events and tables, which are written anew each time. */
  private written: Address[] = [];
  private readonly word: 4 | 8;

  /**
   * @param isNeeded  a probe needs the object of the probed address
   * @throws ElftraceError 'no-runtime' where the image has no room for probes
   */
  constructor(
    private readonly program: Program,
    private readonly arch: Arch,
    private readonly support: ProbeSupport,
    private readonly ledger: StoreLedger,
    private readonly isNeeded: (address: Address) => boolean,
  ) {
    const { image } = program;
    this.word = image.wordBytes;
    const slots = image.sectionsNamed(probeSections.text);
    const data = image.section(probeSections.data);
    if (slots[0] === undefined || data === undefined) {
      throw new ElftraceError(
        'no-runtime',
        'the image was laid out without room for probes: lay it out with load --probes',
        { section: probeSections.text, reason: 'no-memory' },
      );
    }
    this.trampoline = slots[0].address;
    this.data = { start: data.address, end: data.address + BigInt(data.size) };
    this.room = new SlotPool([this.data]);
    const { optimization } = support;
    const names = optimization.kind === 'none' ? [] : optimization.callees;
    const callees = names.flatMap((name) => entryPoint(program, name)?.address ?? []);
    this.callees = optimization.kind === 'none' || callees.length < names.length ? null : callees;
    const reach = optimization.kind === 'none' ? null : optimization.calleeReach;
    this.rooms = slots.map(({ address, size }, i) => roomAt(address, size, i === 0, support, callees, reach, arch));
    this.slots = new SlotPool(this.rooms);
    const runtime = program.loadMap?.parts.find(({ kind }) => kind === 'runtime');
    this.toc = runtime?.toc ?? program.toc;
  }

  bytes(address: Address, size: number): Uint8Array | null {
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    return offset < 0 || offset + size > image.bytes.length ? null : image.bytes.subarray(offset, offset + size);
  }

  /** The single store: plans name its rule and reason. */
  put(address: Address, bytes: Uint8Array, why: ProbeStoreReason): void {
    const now = this.bytes(address, bytes.length);
    if (now === null || equalBytes(now, bytes)) return;
    this.ledger.note(this.program.image.fileOffsetOf(address), bytes.length, { ...why, site: -1 });
    now.set(bytes);
  }

  /** How a buffer gets to what it calls: near ones at once, others through stubs of its room. */
  calleesFrom(buffer: Address): readonly Address[] {
    const room = this.rooms.find(({ start, end }) => buffer >= start && buffer < end);
    return room?.callees ?? this.callees ?? [];
  }

  // --------------------------------------------------------------------------------------- objects

  /** Room for some words; null: there is none. */
  allocate(words: number): Address | null {
    return this.room.allocate(words * this.word, 8, this.data.start, ANYWHERE);
  }

  free(address: Address): void {
    this.room.free(address);
  }

  /** The object of a probed address, made where it has none; null: there is no room. */
  opOf(address: Address, uses = 0): Address | null {
    let op = this.ops.get(address);
    if (op === undefined) {
      const at = this.allocate(PROBE_OP_WORD_COUNT);
      if (at === null) return null;
      op = { at, uses: 0 };
      this.ops.set(address, op);
      this.owners.set(at, address);
    }
    op.uses += uses;
    return op.at;
  }

  /** A buffer that handed it over is gone. */
  freeOp(at: Address): void {
    const address = this.owners.get(at);
    const op = address === undefined ? undefined : this.ops.get(address);
    if (address === undefined || op === undefined) return;
    op.uses--;
    this.forget(address);
  }

  /** F-3: the object goes when no probe needs it any more. */
  forget(address: Address): void {
    const op = this.ops.get(address);
    if (op === undefined || op.uses > 0 || this.isNeeded(address)) return;
    this.ops.delete(address);
    this.owners.delete(op.at);
    this.room.free(op.at);
  }

  /** Address of the object of a probed address; null: it has none. */
  objectAt(address: Address): Address | null {
    return this.ops.get(address)?.at ?? null;
  }

  // ------------------------------------------------------------------------------ what is written

  writeWords(address: Address, words: readonly (bigint | number)[]): void {
    const bytes = new Uint8Array(words.length * this.word);
    const view = new ByteView(bytes, this.program.image.header.endian, probeSections.data);
    words.forEach((word, i) => {
      view.insertWord(i * this.word, BigInt.asUintN(8 * this.word, BigInt(word)), this.word);
    });
    this.put(address, bytes, objectsOfProbes);
  }

  /** Words of a table that is written anew each time. @throws ElftraceError: there is no room */
  writeTable(words: readonly (bigint | number)[], probed: Address): Address {
    const at = this.allocate(words.length);
    if (at === null) throw this.full(probed);
    this.writeWords(at, words);
    this.written.push(at);
    return at;
  }

  /** Before all objects are written anew: what is written each time goes. */
  clear(): void {
    this.tidySlots();
    this.put(this.data.start, new Uint8Array(Number(this.data.end - this.data.start)), roomOfProbes);
    for (const each of this.written) this.room.free(each);
    this.written = [];
    this.eventAddresses.clear();
  }

  /**
   * Copies and buffers that were given back leave nothing, since no thread executes a file; those
   * that stay find their callees.
   */
  private tidySlots(): void {
    const map = this.program.loadMap;
    for (const { start, end, stubs } of this.rooms) {
      let at = start;
      const clear = (to: Address): void => {
        if (to > at) this.put(at, new Uint8Array(Number(to - at)), roomOfProbes);
      };
      const taken = this.slots.taken.filter(({ address }) => address >= start && address < end);
      for (const { address, sizeBytes } of taken) {
        clear(address);
        at = address + BigInt(sizeBytes);
      }
      clear(end);
      if (taken.length === 0 || map === null) continue;
      for (const { address, target } of stubs) {
        const bytes = farStub(map, this.arch, address, target, this.toc);
        this.put(address, bytes, { rule: 'K-OPT-1', reason: 'the way of buffers to their callback' });
      }
    }
  }

  writeTrampoline(): void {
    const symbol = entryPoint(this.program, 'elftrace_probe_trampoline');
    const shortest = this.arch.target.codeAlignBytes;
    const bytes = this.support.breakpoint(new Uint8Array(shortest === 1 ? 1 : 4));
    this.put(this.trampoline, bytes, { rule: 'K-BP-1', reason: 'where return probes come back' });
    if (symbol !== null) this.writeWords(symbol.identity, [this.trampoline]);
  }

  /**
   * The object of a probed address with its events, in the order in which their handlers run.
   * @throws ElftraceError 'probe-refused': there is no room
   */
  writeProbe({ address, part }: ProbeState, events: readonly ProbeEvent[]): void {
    const op = this.opOf(address);
    if (op === null) throw this.full(address);
    let next = 0n;
    for (const event of [...events].reverse()) next = this.writeEvent(event, next);
    const words: (bigint | number)[] = Array.from({ length: PROBE_OP_WORD_COUNT }, () => 0n);
    words[PROBE_OP_WORDS.address] = address;
    words[PROBE_OP_WORDS.ip] = address + BigInt(this.support.trapDelta);
    words[PROBE_OP_WORDS.adjust] = (part as DetourPart | null)?.buffer.stackAdjust ?? 0;
    words[PROBE_OP_WORDS.events] = next;
    this.writeWords(op, words);
  }

  private writeEvent(event: ProbeEvent, next: Address): Address {
    const program = compileProgram(event.arguments, this.word);
    const words: (bigint | number)[] = Array.from({ length: PROBE_EVENT_WORD_COUNT }, () => 0n);
    const { isReturn, maxActive } = event.definition;
    words[PROBE_EVENT_WORDS.next] = next;
    words[PROBE_EVENT_WORDS.id] = event.id;
    words[PROBE_EVENT_WORDS.flags] = isReturn
      ? PROBE_EVENT_FLAGS.return | (maxActive << PROBE_EVENT_FLAGS.activeShift)
      : 0;
    const at = this.writeTable([...words, ...program], event.place.address);
    this.eventAddresses.set(at, event);
    return at;
  }

  private full(address: Address): ElftraceError {
    return refusalError(refuse('ENOMEM', 'no-memory', 'K-SLOT-3', `no room for the events at ${hex(address)}`));
  }
}
