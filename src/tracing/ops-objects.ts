/**
 * Ops objects and their hashes in the image's room: which slot an ops has, where each hash lies,
 * and when a hash that no object names any more gives its room back (RT-4).
 */
import { OPS_WORD_COUNT, OPS_WORDS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import type { NamedOps, Ops, OpsImage, SiteHash, StepProblem } from '../ftrace/index.js';
import type { DataRoom } from './data-room.js';
import { type ImageMemory, refused, type Room } from './image-memory.js';
import { opsSlots } from './trampolines.js';

export class OpsObjects {
  private readonly slots = new Map<NamedOps, number>();
  /** What each object in memory says, to know which hashes are in use. */
  private readonly images = new Map<Ops, OpsImage>();
  private readonly hashes = new Map<SiteHash, Room>();
  /** Slots of ops objects, then the room for the rest. */
  private readonly data: Address;
  /** Bytes of an object. */
  readonly sizeBytes: number;

  constructor(
    private readonly memory: ImageMemory,
    private readonly room: DataRoom,
  ) {
    this.data = memory.need('elftrace_data').identity;
    this.sizeBytes = OPS_WORD_COUNT * memory.word;
  }

  /** Ops with an object, in the order in which they got it. */
  get present(): readonly NamedOps[] {
    return [...this.slots.keys()];
  }

  /** The ops whose object was written first; null: there is none. */
  get first(): Ops | null {
    const [first] = this.images.keys();
    return first ?? null;
  }

  /** The ops that names a trampoline at an address; null: none does. */
  ownerOf(trampoline: Address): Ops | null {
    if (trampoline === 0n) return null;
    return [...this.images].find(([, each]) => each.trampoline === trampoline)?.[0] ?? null;
  }

  private slotOf(ops: NamedOps): number | null {
    const known = this.slots.get(ops);
    if (known !== undefined) return known;
    const used = new Set(this.slots.values());
    for (let slot = 0; slot < opsSlots; slot++) if (!used.has(slot)) return slot;
    return null;
  }

  /** Address of an ops object: the one it has, or the one that it would get. */
  addressOf(ops: NamedOps): Address {
    return this.data + BigInt((this.slotOf(ops) ?? 0) * this.sizeBytes);
  }

  check(ops: Ops, { filter, notrace }: OpsImage): StepProblem | null {
    if (this.slotOf(ops) === null) return refused('ENOMEM', `there is room for ${opsSlots} ops objects`);
    const hashes = [filter, notrace].filter((hash): hash is SiteHash => hash !== null);
    return this.room.has(this.sizesOf(hashes)) ? null : refused('ENOMEM', 'the image has no room for the filter');
  }

  /** Writes an object with its hashes; null: it goes. */
  write(ops: Ops, image: OpsImage | null): StepProblem | null {
    const { memory } = this;
    const slot = this.slotOf(ops)!;
    const at = this.data + BigInt(slot * this.sizeBytes);
    if (image === null) {
      this.room.retire('ops', { address: at, size: this.sizeBytes });
      this.slots.delete(ops);
      this.images.delete(ops);
      return memory.words(at, new Array<bigint>(OPS_WORD_COUNT).fill(0n));
    }
    const filter = this.hashAddress(image.filter);
    if (typeof filter !== 'bigint') return filter;
    const notrace = this.hashAddress(image.notrace);
    if (typeof notrace !== 'bigint') return notrace;
    const isNew = !this.slots.has(ops);
    this.slots.set(ops, slot);
    this.images.set(ops, image);
    const values: [keyof typeof OPS_WORDS, bigint][] = [
      ...(isNew ? [['private', image.data] as [keyof typeof OPS_WORDS, bigint]] : []),
      ['filter', filter],
      ['notrace', notrace],
      ['directCall', image.directCall],
      ['trampoline', image.trampoline],
      ['flags', BigInt(image.flags)],
      ['func', image.func],
    ];
    for (const [name, value] of values) {
      const problem = memory.words(at + BigInt(OPS_WORDS[name] * memory.word), [value]);
      if (problem) return problem;
    }
    return null;
  }

  /** Chains the objects: from the last to the first, and the head when all behind it is there. */
  writeList(after: readonly Ops[]): StepProblem | null {
    const { memory } = this;
    const end = memory.need('ftrace_list_end').identity;
    const next = BigInt(OPS_WORDS.next * memory.word);
    for (let i = after.length - 1; i >= 0; i--) {
      const behind = after[i + 1];
      const problem = memory.words(this.addressOf(after[i]!) + next, [behind ? this.addressOf(behind) : end]);
      if (problem) return problem;
    }
    const head = after[0];
    return memory.words(memory.need('ftrace_ops_list').identity, [head ? this.addressOf(head) : end]);
  }

  /** Address of a hash, which is written when it is asked for first; 0 for none. */
  hashAddress(hash: SiteHash | null): Address | StepProblem {
    if (hash === null) return 0n;
    const known = this.hashes.get(hash);
    if (known) return known.address;
    const size = this.sizeOf(hash);
    const address = this.room.take(size);
    if (typeof address !== 'bigint') return address;
    this.hashes.set(hash, { address, size });
    const sites = [...hash.sites].map(({ ip }) => ip).sort((a, b) => (a < b ? -1 : 1));
    return this.memory.words(address, [BigInt(sites.length), ...sites]) ?? address;
  }

  private sizeOf(hash: SiteHash): number {
    return (1 + hash.sites.size) * this.memory.word;
  }

  /** Bytes of those hashes that are not there yet. */
  sizesOf(hashes: readonly SiteHash[]): readonly number[] {
    return hashes.filter((hash) => !this.hashes.has(hash)).map((hash) => this.sizeOf(hash));
  }

  /**
   * Hashes that no object names give their room back.
   * @param others  hashes that something else than an ops names
   */
  sweep(others: Iterable<SiteHash | null>): void {
    const used = new Set<SiteHash | null>(others);
    for (const { filter, notrace } of this.images.values()) used.add(filter).add(notrace);
    for (const [hash, place] of this.hashes) {
      if (used.has(hash)) continue;
      this.hashes.delete(hash);
      this.room.release(place);
      this.room.retire('hash', place);
    }
  }
}
