/**
 * Private trampolines that are planned or there (C-TRAMP-2), by the blocks under which the core
 * knows them; the machine's model makes their bytes.
 */
import type { OwnTrampoline, TextSeam } from '../machine/trampolines.js';
import type { Address } from '../units.js';
import type { Callee, Ops, StepProblem, TrampolineBlock, TrampolineImage, TrampolineRequest } from '../ftrace/index.js';
import { globalAt } from '../program/entry-points.js';
import type { DataRoom } from './data-room.js';
import { failed, type ImageMemory } from './image-memory.js';
import type { OpsObjects } from './ops-objects.js';
import { ImageText } from './trampolines.js';

export interface TrampolineBlocksOptions {
  /** Name of the convention of the image's entries, which are copied. */
  readonly convention: string;
  /** Places of the sites that may call a trampoline, ascending. */
  readonly sites: () => readonly Address[];
  readonly calleeAddress: (callee: Callee) => Address;
  /** What stands between trampolines and the image; nothing when absent. */
  readonly seam?: ((own: TextSeam) => TextSeam) | undefined;
}

interface Built {
  readonly own: OwnTrampoline;
  readonly bytes: Uint8Array;
}

export class TrampolineBlocks {
  private readonly blocks = new Map<TrampolineBlock, OwnTrampoline>();

  constructor(
    private readonly memory: ImageMemory,
    private readonly room: DataRoom,
    private readonly ops: OpsObjects,
    private readonly options: TrampolineBlocksOptions,
  ) {}

  /**
   * A trampoline as bytes.
   * @param block  where it lies; null: where there is room
   */
  private built(ops: Ops, image: TrampolineImage, block: TrampolineBlock | null): Built | { readonly refused: string } {
    const { program } = this.memory;
    const { convention, calleeAddress, seam } = this.options;
    const sites = this.options.sites();
    const model = program.arch.trampolines;
    if (model.kind === 'none') return { refused: model.reason };
    const text = new ImageText(program, model.fill, []);
    for (const [{ address, sizeBytes }] of this.blocks) text.occupy(address, sizeBytes);
    if (block !== null) text.allocate = () => block.address;
    // Modules of programs lie where no branch reaches: their sites use the shared entry, and are no
    // reason against a trampoline for others.
    const room = text.area;
    const near = room === null ? sites : sites.filter((ip) => this.inReachOf(ip, room));
    const ips = near.length > 0 ? near : sites;
    const update = model.update(
      {
        address: this.ops.addressOf(ops),
        saveRegs: image.template === 'regs',
        callee: calleeAddress(image.callee),
        trampoline: { kind: 'none' },
      },
      {
        variant: model.variantOf(convention),
        find: (symbol) => globalAt(program, symbol),
        seam: seam?.(text) ?? text,
        ...(ips.length > 0 ? { callers: { first: ips[0]!, last: ips.at(-1)! } } : {}),
      },
    );
    const own = update.trampoline;
    if (own.kind !== 'own') return { refused: text.warnings[0]?.reason ?? 'there is no memory for a trampoline' };
    return { own, bytes: text.read(own.address, own.layout.sizeBytes)! };
  }

  /** Decides a trampoline; nothing is written. */
  plan({ ops, template, callee }: TrampolineRequest): TrampolineBlock | { readonly refused: string } {
    const built = this.built(ops, { template, callee }, null);
    if ('refused' in built) return built;
    const { own } = built;
    const block = { address: own.address, sizeBytes: own.layout.sizeBytes };
    this.blocks.set(block, own);
    return block;
  }

  drop(block: TrampolineBlock): void {
    this.blocks.delete(block);
  }

  /** Writes a trampoline; null: its memory is filled again. */
  write(ops: Ops, block: TrampolineBlock, image: TrampolineImage | null): StepProblem | null {
    const { memory } = this;
    if (image === null) {
      const model = memory.program.arch.trampolines;
      this.room.retire('trampoline', { address: block.address, size: block.sizeBytes });
      this.blocks.delete(block);
      return memory.store(block.address, new Uint8Array(block.sizeBytes).fill(model.kind === 'none' ? 0 : model.fill));
    }
    const known = this.blocks.get(block);
    this.blocks.delete(block);
    const built = this.built(ops, image, block);
    if ('refused' in built) {
      if (known) this.blocks.set(block, known);
      return failed('EINVAL', built.refused);
    }
    this.blocks.set(block, built.own);
    return memory.store(block.address, built.bytes);
  }

  /** Where the call of a trampoline is; null for one that is not there. */
  callAt(block: TrampolineBlock): Address | null {
    const own = this.blocks.get(block);
    return own === undefined ? null : own.address + BigInt(own.layout.callOffset);
  }

  /**
   * T-X86-19: the call is where that of the entry is. `template` is the entry that the core takes
   * the copy to be of (T-X86-44).
   */
  callOf(block: TrampolineBlock, template: 'plain' | 'regs'): Address | null {
    const own = this.blocks.get(block);
    if (own === undefined) return null;
    if (own.layout.template === template) return block.address + BigInt(own.layout.callOffset);
    const [start, call] =
      template === 'plain' ? ['ftrace_caller', 'ftrace_call'] : ['ftrace_regs_caller', 'ftrace_regs_call'];
    return block.address + this.memory.need(call!).identity - this.memory.need(start!).identity;
  }

  inReachOf(from: Address, { address, sizeBytes }: TrampolineBlock): boolean {
    const { min, max } = this.memory.branches.call.reach;
    // From any byte of a site to any of the block.
    const margin = BigInt(sizeBytes) + 64n;
    const distance = address - from;
    return distance - margin >= min && distance + margin <= max;
  }
}
