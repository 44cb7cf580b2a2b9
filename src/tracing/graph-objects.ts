/**
 * Objects of the users of the graph tracer (C-FG-5). Each user has one; another one when its hashes
 * change, so that what a thread sees of it is the old or the new one.
 */
import { OPS_FLAGS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import { type GraphUser, type GraphUserImage, isEmpty, type SiteHash, type StepProblem } from '../ftrace/index.js';
import type { DataRoom } from './data-room.js';
import { type ImageMemory, refused, type Room } from './image-memory.js';
import type { OpsObjects } from './ops-objects.js';

type Users = readonly (GraphUserImage | null)[];

export class GraphObjects {
  /** By index of the table of users. */
  private readonly objects: ({ readonly image: GraphUserImage; readonly address: Address } | null)[] = [];
  /** Objects that were replaced and may still be read. */
  private readonly retired: Room[] = [];

  constructor(
    private readonly memory: ImageMemory,
    private readonly room: DataRoom,
    private readonly ops: OpsObjects,
  ) {}

  check(users: Users): StepProblem | null {
    const there = users.filter((image): image is GraphUserImage => image !== null);
    if (this.memory.find('elftrace_graph_users') === null) {
      const special =
        there.length > 1 || there.some(({ user }) => user.callbacks.entry !== 0n || user.callbacks.return !== 0n);
      return special ? refused('EINVAL', 'the runtime of the image knows one graph tracer, which records') : null;
    }
    const sizes = there.flatMap(({ hashes }) => {
      const named = [hashes.filter, hashes.notrace].filter((hash): hash is SiteHash => !isEmpty(hash));
      return [this.ops.sizeBytes, ...this.ops.sizesOf(named)];
    });
    return this.room.has(sizes) ? null : refused('ENOMEM', 'the image has no room for the users of the graph tracer');
  }

  /** Address of the object of a user; null where it has none. */
  addressOf(user: GraphUser): Address | null {
    return this.objects.find((each) => each?.image.user === user)?.address ?? null;
  }

  write(users: Users): StepProblem | null {
    const { memory } = this;
    const table = memory.find('elftrace_graph_users');
    if (table === null) return null;
    for (let index = 0; index < Math.max(users.length, this.objects.length); index++) {
      const image = users[index] ?? null;
      const old = this.objects[index] ?? null;
      const same =
        image !== null &&
        image.user === old?.image.user &&
        image.hashes.filter === old.image.hashes.filter &&
        image.hashes.notrace === old.image.hashes.notrace;
      if (same || (image === null && old === null)) continue;
      const address = image === null ? 0n : this.placed(image);
      if (typeof address !== 'bigint') return address;
      const problem = memory.words(table.identity + BigInt(index * memory.word), [address]);
      if (problem) return problem;
      this.objects[index] = image === null ? null : { image, address };
      if (old !== null) this.retired.push({ address: old.address, size: this.ops.sizeBytes });
    }
    return null;
  }

  /** Writes an object where there is room for it. */
  private placed({ user, hashes }: GraphUserImage): Address | StepProblem {
    const address = this.room.take(this.ops.sizeBytes);
    if (typeof address !== 'bigint') return address;
    const filter = this.ops.hashAddress(isEmpty(hashes.filter) ? null : hashes.filter);
    if (typeof filter !== 'bigint') return filter;
    const notrace = this.ops.hashAddress(isEmpty(hashes.notrace) ? null : hashes.notrace);
    if (typeof notrace !== 'bigint') return notrace;
    const { entry, return: back } = user.callbacks;
    return this.memory.words(address, [entry, BigInt(OPS_FLAGS.SUBOP), back, 0n, 0n, filter, notrace, 0n]) ?? address;
  }

  /** Hashes that objects name. */
  get hashes(): readonly (SiteHash | null)[] {
    return this.objects.flatMap((each) => [each?.image.hashes.filter ?? null, each?.image.hashes.notrace ?? null]);
  }

  /** No thread reads replaced objects any more. */
  sweep(): void {
    for (const place of this.retired.splice(0)) this.room.release(place);
  }
}
