/**
 * The private trampoline of the one tracer of an image (C-TRAMP-2): the one that stands there goes
 * on where it can, else there is another one, or none. One that cannot be made is no fault
 * (C-TRAMP-4): the shared entry serves as well. The same holds for one whose call cannot be
 * changed: it would still call the tracer of before, so it is not used.
 */
import type { TextSeam } from '../machine/trampolines.js';
import type { TrampolineRequest } from '../ftrace/index.js';
import type { TrampolineBlock } from '../ftrace/ops.js';
import { entryPoint, globalAt } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import { type FoundTrampoline, foundTrampolines, ImageText, isAllocated, opsObjects } from './trampolines.js';
import type { Entries } from './entries.js';

export class OwnTrampoline {
  /** The stores of the trampoline, and what was said about it. */
  readonly text: ImageText;
  private readonly seam: TextSeam;
  private readonly mine: FoundTrampoline | undefined;

  /** @throws ElftraceError 'state-mismatch' where an object names a trampoline that is none */
  constructor(
    private readonly program: Program,
    private readonly entries: Entries,
    forbidden: readonly { readonly start: number; readonly end: number }[],
    seamOf: ((own: TextSeam) => TextSeam) | undefined,
  ) {
    const model = program.arch.trampolines;
    this.text = new ImageText(program, model.kind === 'private' ? model.fill : 0, forbidden);
    this.seam = seamOf?.(this.text) ?? this.text;
    if (model.kind === 'none' || !entries.hasObjects) return;
    const present = foundTrampolines(program, model, { ...this.place(model.variantOf(entries.kind)), seam: this.text });
    for (const { trampoline } of present) this.text.occupy(trampoline.address, trampoline.layout.sizeBytes);
    this.mine = present.find(({ ops }) => ops.index === 0);
  }

  private place<V>(variant: V): {
    readonly variant: V;
    readonly find: (symbol: string) => Address | null;
    readonly seam: TextSeam;
  } {
    return { variant, find: (symbol) => globalAt(this.program, symbol), seam: this.seam };
  }

  /** A trampoline that the first ops names and that is not ours: null where there is none. */
  get user(): Address | null {
    const { program, entries } = this;
    if (program.arch.trampolines.kind === 'none' || !entries.hasObjects) return null;
    const now = opsObjects(program).find(({ index }) => index === 0);
    const graphEntry = entries.graph === 'branch' ? entryPoint(program, 'ftrace_graph_caller')?.identity : undefined;
    const given = now !== undefined && !isAllocated(now) && now.trampoline !== graphEntry;
    return given && now.trampoline !== 0n ? now.trampoline : null;
  }

  /** Nothing calls it any more. */
  drop(): void {
    const { mine } = this;
    if (mine) this.seam.free(mine.trampoline.address, mine.trampoline.layout.sizeBytes);
  }

  /** What the core asks for; the bytes are stored in `text`. */
  plan({ template, callee }: TrampolineRequest): TrampolineBlock | { readonly refused: string } {
    const model = this.program.arch.trampolines;
    if (model.kind === 'none') return { refused: model.reason };
    if (callee.kind !== 'function') return { refused: 'a tracer that is alone is called by its address' };
    const { mine, seam } = this;
    const update = model.update(
      {
        address: globalAt(this.program, 'elftrace_data') ?? 0n,
        saveRegs: template === 'regs',
        callee: callee.address,
        trampoline: mine ? mine.trampoline : { kind: 'none' },
      },
      this.place(model.variantOf(this.entries.kind)),
    );
    if (update.retired) seam.free(update.retired.address, update.retired.layout.sizeBytes);
    const { trampoline } = update;
    if (update.did === 'failed') {
      this.drop();
      return { refused: 'its call cannot be changed' };
    }
    if (trampoline.kind !== 'own') return { refused: 'there is no room for it' };
    return { address: trampoline.address, sizeBytes: trampoline.layout.sizeBytes };
  }
}
