/**
 * A machine for one trial after another. Memory appears when it is accessed first: bytes of the
 * image where it has some, else bytes that follow from seed and address. Afterwards everything is
 * put back, in time that what was touched decides (PV-7).
 */
import { ElftraceError } from '../errors.js';
import { type AccessKind, type CpuState, Machine, type StopReason } from '../emulator/index.js';
import type { IrEmulation } from '../machine/emulation.js';
import type { Address, RegisterName } from '../units.js';
import { type ImageLayout, PAGE_BYTES } from './layout.js';
import { mix, Random } from './random.js';

/** Pages that stay mapped from trial to trial: tracer, stubs and stacks are used by all. */
const PAGES_KEPT = 128;
/** Each of those that may be written is compared after each trial. */
const WRITABLE_KEPT = 32;
/** Pages whose first contents are remembered. */
const INITIALS = 512;
/** A trial that touches more is none. */
const PAGES_MAX = 4096;

const pageOf = (address: Address): Address => address & ~BigInt(PAGE_BYTES - 1);

/** Who wants to see each instruction, and where the way back begins. */
export interface Recorder {
  step(world: ProofWorld): void;
  turn(): void;
}

/** Registers as they were at a moment. */
export interface Registers {
  get(name: RegisterName): bigint;
}

/** A page that is mapped. */
interface Page {
  readonly address: Address;
  /** As it was at first. */
  readonly before: Uint8Array;
  /** As it is: a view, which is empty where the host's memory has grown since. */
  now: Uint8Array;
}

export class ProofWorld {
  readonly machine: Machine;
  private readonly pages = new Map<Address, Page>();
  /** Pages that code may write. */
  private writable: Page[] = [];
  private readonly fresh: CpuState;
  /** Pages as they are at first, of those that were asked for last. */
  private readonly initials = new Map<Address, Uint8Array>();
  /** Sees each instruction before it is executed; null: there is none. */
  recorder: Recorder | null = null;
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
    this.fresh = this.machine.saveCpu(0);
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
    const random = new Random(mix(this.seed, Number(page & 0xffff_ffffn), Number((page >> 32n) & 0xffff_ffffn)));
    const words = new Uint32Array(PAGE_BYTES / 4);
    for (let i = 0; i < words.length; i++) words[i] = random.word();
    const bytes = new Uint8Array(words.buffer);
    this.layout.fill(page, bytes);
    return bytes;
  }

  /** Maps a page with the bytes that it has at first; one that cannot be mapped stays away. */
  private map(page: Address): void {
    const { memory } = this.machine;
    const permission = this.layout.permission(page);
    if (memory.tryMap({ address: page, size: PAGE_BYTES, permission }) !== null) return;
    const before = this.initial(page);
    memory.write(page, before);
    const mapped: Page = { address: page, before, now: new Uint8Array(0) };
    this.pages.set(page, mapped);
    if (permission.includes('w')) this.writable.push(mapped);
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
    if (access === 'execute' && !this.layout.executes(address)) return false;
    this.map(page);
    return this.machine.memory.check(address, 1, access) === null;
  }

  /**
   * Code of the image around an address is there: where a trial stops, an instruction may begin on
   * one page and end on the next.
   */
  prepare(address: Address): void {
    for (const at of [address, address + 16n]) this.appear(at, 'execute');
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

  /** Writes before a trial, as the state of the trial asks for. */
  write(address: Address, bytes: Uint8Array): void {
    for (const at of [address, address + BigInt(bytes.length - 1)]) this.appear(at, 'write');
    if (!this.machine.memory.write(address, bytes)) {
      throw new ElftraceError('internal', 'the state of a trial has no memory', { address });
    }
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
    const bytes = Uint8Array.from({ length: addressBits / 8 }, (_, i) => Number((word >> BigInt(8 * i)) & 0xffn));
    this.write(at, endian === 'little' ? bytes : bytes.reverse());
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

  private changedPages(): Page[] {
    return this.writable.filter((page) => Buffer.compare(this.now(page), page.before) !== 0);
  }

  /** Pages that are not as they were at first. */
  changed(): Address[] {
    return this.changedPages().map(({ address }) => address);
  }

  /**
   * A page as it was at first and as it is; one that was never touched is as it was. Valid until
   * something runs.
   */
  page(page: Address): { readonly before: Uint8Array; readonly now: Uint8Array } {
    const mapped = this.pages.get(page);
    if (mapped !== undefined) return { before: mapped.before, now: this.now(mapped) };
    const bytes = this.initial(page);
    return { before: bytes, now: bytes };
  }

  /** Puts all memory back. */
  reset(): void {
    const { memory } = this.machine;
    for (const { address, before } of this.changedPages()) memory.write(address, before);
    if (this.pages.size <= PAGES_KEPT && this.writable.length <= WRITABLE_KEPT) return;
    for (const page of this.pages.keys()) memory.unmap(page, PAGE_BYTES);
    this.pages.clear();
    this.writable = [];
    this.machine.dropAll();
  }

  /** Registers as they are now. */
  registers(): Registers {
    const { machine } = this;
    const saved = machine.saveCpu(0);
    return { get: (name) => machine.registerOf(saved, name) };
  }

  /** True where all registers are those of another world; false says nothing. */
  hasRegistersOf(other: ProofWorld): boolean {
    const [a, b] = [this.machine.saveCpu(0), other.machine.saveCpu(0)];
    return a.pc === b.pc && Buffer.compare(a.state, b.state) === 0;
  }

  /** The processor is as it was made. */
  refresh(): void {
    this.machine.restoreCpus([this.fresh]);
  }

  /** The processor is in the state of another world's. */
  takeCpu(other: ProofWorld): void {
    this.machine.restoreCpus([other.machine.saveCpu(0)]);
  }
}
