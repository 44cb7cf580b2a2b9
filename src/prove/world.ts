/**
 * A machine for one trial after another. Memory appears when it is accessed first: bytes of the
 * image where it has some, else bytes that follow from seed and address. Afterwards everything is
 * put back, in time that what was touched decides (PV-7).
 */
import { ElftraceError } from '../errors.js';
import { type AccessKind, Machine, type StopReason } from '../emulator/index.js';
import type { IrEmulation } from '../machine/emulation.js';
import type { Address, RegisterName } from '../units.js';
import { type ImageLayout, PAGE_BYTES } from './layout.js';
import { mix, Random } from './random.js';

/** Pages that stay mapped from trial to trial: tracer, stubs and stacks are used by all. */
const PAGES_KEPT = 128;
/** Pages whose first contents are remembered. */
const INITIALS = 512;
/** Instructions of the longest circle that is looked for. */
const CIRCLE = 2048;
/** A trial that touches more is none. */
const PAGES_MAX = 4096;

/** Bytes on either side of the stack pointer that are the stack. */
const AROUND_STACK = 0x20_0000n;

/** Bytes that a pointer of 0 leads to. */
const FIRST = 1n << 36n;

const OFFSET = BigInt(PAGE_BYTES - 1);
const pageOf = (address: Address): Address => address - (address & OFFSET);
/** As marks name a page. */
const numberOf = (page: Address): number => Number(page / BigInt(PAGE_BYTES));

/** Who wants to see each instruction, and where the way back begins. */
export interface Recorder {
  step(world: ProofWorld): void;
  turn(): void;
}

/** Registers as they were at a moment; valid until memory is put back. */
export interface Registers {
  get(name: RegisterName): bigint;
}

class SavedRegisters implements Registers {
  readonly words: Uint32Array;
  private readonly wide: BigUint64Array;
  private pc = 0n;

  constructor(private readonly machine: Machine) {
    this.words = new Uint32Array(machine.stateWords.length);
    this.wide = new BigUint64Array(this.words.buffer);
  }

  save(): this {
    this.words.set(this.machine.stateWords);
    this.pc = this.machine.pc;
    return this;
  }

  get(name: RegisterName): bigint {
    if (name === 'pc') return this.pc;
    const places = this.machine.statePlaces(name);
    if (places?.length === 1) return this.wide[places[0]! >> 1]!;
    return this.machine.registerIn(this.words, name);
  }
}

/** A page that is mapped. */
interface Page {
  readonly address: Address;
  readonly number: number;
  /** As it was at first. */
  readonly before: Uint8Array;
  /** As it is: a view, which is empty where the host's memory has grown since. */
  now: Uint8Array;
  /** Code may store to it. */
  readonly isWritable: boolean;
  readonly isCode: boolean;
  /** Something was stored to it since memory was put back. */
  isTouched: boolean;
}

const NOT_VIEWED = new Uint8Array(0);

export class ProofWorld {
  readonly machine: Machine;
  private readonly pages = new Map<Address, Page>();
  /** Pages that were stored to since memory was put back. */
  private touched: Page[] = [];
  private readonly fresh: SavedRegisters;
  /** Sets of registers of a trial, which the next one writes over. */
  private readonly saved: SavedRegisters[] = [];
  private inUse = 0;
  /** Where code was made to be there last; null: some of it may be gone. */
  private prepared: Address | null = null;
  /** Names of registers without pc, in order. */
  private readonly names: readonly RegisterName[];
  /**
   * For each word of the state the registers that have it, by their places in `names`; a word of
   * none is of all those that are put together.
   */
  private readonly ownersOf: readonly (readonly number[])[];
  /** Registers that are put together. */
  private readonly composed: ReadonlySet<number>;
  /** Pages as they are at first, of those that were asked for last. */
  private readonly initials = new Map<Address, Uint8Array>();
  private readonly wordView = new DataView(new ArrayBuffer(8));
  /** Sees each instruction before it is executed; null: there is none. */
  recorder: Recorder | null = null;
  /** Pages that do not appear, beside those that no program has; null: all others do. */
  private absent: ((page: Address) => boolean) | null = null;
  /**
   * Pages on which no program and no kernel has anything: the first one of the addresses, where
   * pointers of 0 lead, and the last one, where negative error numbers lead. Without those of them
   * that the image has.
   */
  private readonly nowhere: readonly Address[];
  /** Serves stops of the machine, as a kernel would; true: it goes on. */
  serve: ((stop: StopReason) => boolean) | null = null;

  constructor(
    readonly layout: ImageLayout,
    emulation: IrEmulation,
    private readonly seed: number,
  ) {
    this.machine = new Machine({
      lifter: emulation.lifter,
      tier: 0,
      onFault: (_machine, address, access) => this.appear(address, access),
    });
    this.machine.observeStores((address, size) => {
      this.touch(address, size);
    });
    const last = (1n << BigInt(this.machine.lifter.addressBits)) - BigInt(PAGE_BYTES);
    this.nowhere = [0n, last].filter((page) => !layout.touches(page));
    this.fresh = new SavedRegisters(this.machine).save();
    this.names = this.machine.registerNames.filter((name) => name !== 'pc');
    const places = this.names.map((name) => this.machine.statePlaces(name));
    const owners = Array.from(this.fresh.words, (): number[] => []);
    for (const [i, own] of places.entries()) {
      for (const at of own ?? []) for (const word of [at, at + 1]) owners[word]!.push(i);
    }
    const composed = [...places.keys()].filter((i) => places[i] === null);
    this.ownersOf = owners.map((own) => (own.length === 0 ? composed : own));
    this.composed = new Set(composed);
  }

  /** What a page holds at first: the same in every world of a seed, but for what its image has. */
  private initial(page: Address): Uint8Array {
    const known = this.initials.get(page);
    if (known !== undefined) return known;
    if (this.initials.size >= INITIALS) this.initials.clear();
    const bytes = this.make(page);
    this.initials.set(page, bytes);
    return bytes;
  }

  private make(page: Address): Uint8Array {
    const bytes = this.layout.whole(page);
    if (bytes !== null) return bytes;
    const random = new Random(mix(this.seed, Number(page & 0xffff_ffffn), Number((page >> 32n) & 0xffff_ffffn)));
    const words = new Uint32Array(PAGE_BYTES / 4);
    for (let i = 0; i < words.length; i++) words[i] = random.word();
    const mixed = new Uint8Array(words.buffer);
    this.layout.fill(page, mixed);
    return mixed;
  }

  /** Maps a page with the bytes that it has at first; one that cannot be mapped stays away. */
  private map(page: Address): void {
    const { memory } = this.machine;
    const permission = this.layout.permission(page);
    const [isWritable, isCode] = [permission.includes('w'), permission.includes('x')];
    if (memory.tryMap({ address: page, size: PAGE_BYTES, permission, marked: isWritable }) !== null) return;
    const before = this.initial(page);
    memory.write(page, before);
    const [number, now] = [numberOf(page), NOT_VIEWED];
    this.pages.set(page, { address: page, number, before, now, isWritable, isCode, isTouched: false });
    if (isWritable) memory.mark(number, 'write', 1);
  }

  /**
   * Bytes are about to be stored. The first store to a page is told, because the page is marked;
   * those after it are not.
   */
  private touch(address: Address, size: number): void {
    const step = BigInt(PAGE_BYTES);
    const end = address + BigInt(size);
    for (let at = pageOf(address); at < end; at += step) {
      const page = this.pages.get(BigInt.asUintN(this.machine.lifter.addressBits, at));
      if (page?.isTouched === false) this.touchPage(page);
    }
  }

  private touchPage(page: Page): void {
    page.isTouched = true;
    this.touched.push(page);
    if (page.isWritable) this.machine.memory.mark(page.number, 'write', -1);
  }

  /** What a page holds. It stays where it is in the host's memory as long as it is mapped. */
  private now(page: Page): Uint8Array {
    if (page.now.length === 0) {
      const { memory } = this.machine;
      page.now = memory.view(page.address, PAGE_BYTES) ?? memory.read(page.address, PAGE_BYTES)!;
    }
    return page.now;
  }

  private appear(address: Address, access: AccessKind): boolean {
    const page = pageOf(address);
    if (this.pages.has(page) || this.pages.size >= PAGES_MAX) return false;
    if (this.nowhere.includes(page) || this.absent?.(page) === true) return false;
    if (access === 'execute' && !this.layout.executes(address)) return false;
    this.map(page);
    return this.machine.memory.check(address, 1, access) === null;
  }

  /**
   * Every other page is not mapped: none of either image or of the stack.
   * @param stack  the stack pointer; null: every page appears
   * @param words  words that are always there
   */
  static leaveOut(worlds: readonly ProofWorld[], stack: Address | null, words: readonly Address[] = []): void {
    const kept = new Set(words.flatMap((at) => [pageOf(at), pageOf(at + 7n)]));
    const isThere = (page: Address): boolean => worlds.some(({ layout }) => layout.touches(page));
    const isStack = (page: Address): boolean => page > stack! - AROUND_STACK && page < stack! + AROUND_STACK;
    const absent = (page: Address): boolean =>
      (numberOf(page) & 1) === 0 && !isStack(page) && !isThere(page) && !kept.has(page);
    for (const world of worlds) world.keepAway(stack === null ? null : absent);
  }

  /**
   * Nothing is where a pointer of 0 leads to with an index of 32 bits, where words have 64, but
   * where an image is laid out.
   */
  static leaveOutFirst(worlds: readonly ProofWorld[]): void {
    const isThere = (page: Address): boolean => worlds.some(({ layout }) => layout.touches(page));
    if (isThere(0n) || worlds.some(({ machine }) => machine.lifter.addressBits < 64)) return;
    for (const world of worlds) world.keepAway((page) => page < FIRST && !isThere(page));
  }

  /**
   * Pages that do not appear until others are named. Those that trials before this one mapped go:
   * what a trial finds is decided by its own state, in both worlds alike.
   */
  private keepAway(absent: ((page: Address) => boolean) | null): void {
    this.absent = absent;
    if (absent === null) return;
    for (const page of [...this.pages.keys()]) if (absent(page)) this.forget(page);
  }

  /** A page that nothing was stored to appears anew. */
  private forget(address: Address): void {
    const page = this.pages.get(address);
    if (page === undefined || page.isTouched) return;
    const { memory } = this.machine;
    if (page.isWritable) memory.mark(page.number, 'write', -1);
    memory.unmap(address, PAGE_BYTES);
    this.pages.delete(address);
  }

  /** Both have the later of their times: what reads the clock from here on finds the same. */
  static sameTime([a, b]: readonly [ProofWorld, ProofWorld]): void {
    const ahead = a.machine.time - b.machine.time;
    if (ahead > 0n) b.machine.skipTime(ahead);
    else if (ahead < 0n) a.machine.skipTime(-ahead);
  }

  /**
   * Code of the image around an address is there: where a trial stops, an instruction may begin on
   * one page and end on the next.
   */
  prepare(address: Address): void {
    if (address === this.prepared) return;
    this.prepared = address;
    this.appear(address, 'execute');
    const last = address + 16n;
    if (pageOf(last) !== pageOf(address)) this.appear(last, 'execute');
  }

  /** Bytes as they are now. */
  read(address: Address, size: number): Uint8Array {
    const out = new Uint8Array(size);
    for (let done = 0; done < size;) {
      const at = BigInt.asUintN(this.machine.lifter.addressBits, address + BigInt(done));
      const page = pageOf(at);
      const skip = Number(at - page);
      const length = Math.min(size - done, PAGE_BYTES - skip);
      const mapped = this.pages.get(page);
      const now = mapped === undefined ? this.initial(page) : this.now(mapped);
      out.set(now.subarray(skip, skip + length), done);
      done += length;
    }
    return out;
  }

  /** Bytes as code would read them; null: not all of them can be read. */
  readable(address: Address, size: number): Uint8Array | null {
    const { memory, lifter } = this.machine;
    for (let i = 0; i < size; i++) {
      const at = BigInt.asUintN(lifter.addressBits, address + BigInt(i));
      if (i > 0 && pageOf(at) !== at) continue;
      if (memory.check(at, 1, 'read') !== null && !this.appear(at, 'read')) return null;
    }
    return this.read(address, size);
  }

  /** Writes before a trial, as the state of the trial asks for. */
  write(address: Address, bytes: Uint8Array): void {
    const page = pageOf(address);
    const skip = Number(address - page);
    const isInside = skip + bytes.length <= PAGE_BYTES;
    let mapped = isInside ? this.pages.get(page) : undefined;
    if (mapped === undefined) {
      for (const at of isInside ? [address] : [address, address + BigInt(bytes.length - 1)]) this.appear(at, 'write');
      if (isInside) mapped = this.pages.get(page);
    }
    if (mapped?.isCode === false) {
      if (!mapped.isTouched) this.touchPage(mapped);
      this.now(mapped).set(bytes, skip);
    } else if (!this.machine.memory.write(address, bytes)) {
      throw new ElftraceError('internal', 'the state of a trial has no memory', { address });
    }
  }

  /** A word in the byte order of the target. */
  word(address: Address): bigint {
    const { addressBits, endian } = this.machine.lifter;
    const page = this.pages.get(pageOf(address));
    const skip = Number(address & OFFSET);
    const isInside = page !== undefined && skip + addressBits / 8 <= PAGE_BYTES;
    const bytes = isInside ? this.now(page) : this.read(address, addressBits / 8);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const [at, isLittle] = [isInside ? skip : 0, endian === 'little'];
    return addressBits === 64 ? view.getBigUint64(at, isLittle) : BigInt(view.getUint32(at, isLittle));
  }

  /** Changes the image itself: all trials from now on find these bytes. */
  rewrite(address: Address, bytes: Uint8Array): void {
    const { image } = this.layout.program;
    image.bytes.set(bytes, image.fileOffsetOf(address));
    for (const [i, byte] of bytes.entries()) {
      const at = address + BigInt(i);
      this.initials.delete(pageOf(at));
      const page = this.pages.get(pageOf(at));
      if (page !== undefined) page.before[Number(at - page.address)] = byte;
    }
    this.machine.memory.write(address, bytes);
  }

  /** Writes a word in the byte order of the target. */
  writeWord(at: Address, word: bigint): void {
    const { addressBits, endian } = this.machine.lifter;
    const isLittle = endian === 'little';
    if (addressBits === 64) this.wordView.setBigUint64(0, word, isLittle);
    else this.wordView.setUint32(0, Number(word & 0xffff_ffffn), isLittle);
    this.write(at, new Uint8Array(this.wordView.buffer, 0, addressBits / 8));
  }

  /**
   * Runs until something stops it that is no page of the image which was not there yet.
   * @param budget  most instructions
   */
  run(budget: number): StopReason {
    const begin = this.machine.instructions;
    for (;;) {
      const left = budget - (this.machine.instructions - begin);
      if (left <= 0) return { kind: 'step-limit' };
      this.recorder?.step(this);
      const stop = this.machine.run({ budget: this.recorder === null ? left : 1 });
      if (stop.kind === 'step-limit' && left > 1) continue;
      if (this.serve?.(stop) === true) continue;
      if (stop.kind !== 'fault' || stop.access !== 'execute' || !this.appear(stop.address, 'execute')) return stop;
    }
  }

  /**
   * Whether what runs comes back to where it was, in the state in which it was: then it never ends.
   * The machine is a few instructions further on afterwards.
   * @param end  the place that it was to come to
   */
  circles(end: Address): boolean {
    const { machine } = this;
    const state = (): string =>
      [
        machine.pc,
        ...machine.stateWords,
        ...this.touched.map((page) => Buffer.from(this.now(page)).toString('latin1')),
      ].join();
    const [pc, before] = [machine.pc, state()];
    for (let n = 0; n < CIRCLE; n++) {
      if (machine.pc === end || this.run(1).kind !== 'step-limit') return false;
      if (machine.pc === pc && state() === before) return true;
    }
    return false;
  }

  /** Pages that are not as they were at first. */
  changed(): Address[] {
    const found: Address[] = [];
    for (const page of this.touched) {
      if (Buffer.compare(this.now(page), page.before) !== 0) found.push(page.address);
    }
    return found;
  }

  /** Pages to which something was stored; they may be as they were at first. */
  get stored(): readonly { readonly address: Address }[] {
    return this.touched;
  }

  hasStored(page: Address): boolean {
    return this.pages.get(page)?.isTouched === true;
  }

  /**
   * A page as it was at first and as it is; one that was never touched is as it was. Valid until
   * something runs.
   */
  page(page: Address): { readonly before: Uint8Array; readonly now: Uint8Array } {
    const mapped = this.pages.get(page);
    if (mapped !== undefined) {
      this.now(mapped);
      return mapped;
    }
    const bytes = this.initial(page);
    return { before: bytes, now: bytes };
  }

  /** Puts all memory back. */
  reset(): void {
    this.inUse = 0;
    const { memory } = this.machine;
    for (const page of this.touched) {
      if (page.isCode) memory.write(page.address, page.before);
      else this.now(page).set(page.before);
      page.isTouched = false;
      if (page.isWritable) memory.mark(page.number, 'write', 1);
    }
    this.touched = [];
    if (this.pages.size <= PAGES_KEPT) return;
    for (const { address, number, isWritable } of this.pages.values()) {
      if (isWritable) memory.mark(number, 'write', -1);
      memory.unmap(address, PAGE_BYTES);
    }
    this.pages.clear();
    this.prepared = null;
    this.machine.dropAll();
  }

  /** Registers as they are now. */
  registers(): Registers {
    if (this.inUse === this.saved.length) this.saved.push(new SavedRegisters(this.machine));
    return this.saved[this.inUse++]!.save();
  }

  /** Names of the registers that differ in another world, pc the last. */
  differingRegisters({ machine: other }: ProofWorld): RegisterName[] {
    const { machine, names, ownersOf, composed } = this;
    const [a, b] = [machine.stateWords, other.stateWords];
    const differing: number[] = [];
    for (let word = 0; word < a.length; word++) {
      if (a[word] === b[word]) continue;
      for (const i of ownersOf[word]!) if (!differing.includes(i)) differing.push(i);
    }
    const found: RegisterName[] = [];
    for (const i of differing.sort((x, y) => x - y)) {
      const name = names[i]!;
      if (!composed.has(i) || machine.register(name) !== other.register(name)) found.push(name);
    }
    if (machine.pc !== other.pc) found.push('pc');
    return found;
  }

  /** The processor is as it was made. */
  refresh(): void {
    this.machine.setState(this.fresh.words, 0n);
  }

  /** The processor is in the state of another world's. */
  takeCpu({ machine }: ProofWorld): void {
    this.machine.setState(machine.stateWords, machine.pc);
  }
}
