/** Which shape the bytes of a site have, of those that its source and its table may have. */
import type { SiteReading, SiteShape, SiteSource, SiteView } from '../machine/sites.js';
import type { Program } from '../program/program.js';
import { noShape } from './site-states.js';

export const none: ReadonlySet<SiteShape> = new Set();

/**
 * Shapes that a table has no sites of: those of a family in which another has more
 * (`SiteShape.family`). Sites of the shapes are counted where their bytes are as the shape wants.
 */
export function minorities(
  shapes: readonly SiteShape[],
  votes: ReadonlyMap<SiteShape, number>,
): ReadonlySet<SiteShape> {
  const votesOf = (shape: SiteShape): number => votes.get(shape) ?? 0;
  const lost = shapes.filter(({ family }, i) => {
    if (family === undefined) return false;
    return shapes.some((other, k) => {
      if (other.family !== family || k === i) return false;
      const more = votesOf(other) - votesOf(shapes[i]!);
      return more > 0 || (more === 0 && k < i);
    });
  });
  return lost.length > 0 ? new Set(lost) : none;
}

/** Shapes and their positions in a list of them. */
interface NumberedShapes {
  readonly shapes: readonly SiteShape[];
  readonly numbers: readonly number[];
}

/** Of each machine, by sources; made once, for a tree of modules asks file by file. */
const knownShapes = new WeakMap<readonly SiteShape[], Map<SiteSource, NumberedShapes>>();

function shapesOf(all: readonly SiteShape[], source: SiteSource): NumberedShapes {
  let bySource = knownShapes.get(all);
  if (bySource === undefined) knownShapes.set(all, (bySource = new Map()));
  let found = bySource.get(source);
  if (found === undefined) {
    const numbers = [...all.keys()].filter((i) => all[i]!.sources.includes(source));
    bySource.set(source, (found = { numbers, shapes: numbers.map((i) => all[i]!) }));
  }
  return found;
}

/** The shapes that sites of a source may have, asked one after the other. */
export class ShapeReader {
  private readonly shapes: readonly SiteShape[];
  private readonly numbers: readonly number[];
  /** Position in `Arch.siteShapes` of the shape of the last reading. */
  number = noShape;

  constructor(
    { arch }: Program,
    private readonly source: SiteSource,
    excluded: ReadonlySet<SiteShape> = none,
  ) {
    const { siteShapes } = arch;
    const { numbers, shapes } = shapesOf(siteShapes, source);
    this.numbers = excluded.size === 0 ? numbers : numbers.filter((i) => !excluded.has(siteShapes[i]!));
    this.shapes = excluded.size === 0 ? shapes : this.numbers.map((i) => siteShapes[i]!);
  }

  /** What the bytes at the view's place are; null: no shape knows them. */
  read(view: SiteView): SiteReading | null {
    let fallback: SiteReading | null = null;
    this.number = noShape;
    for (let i = 0; i < this.shapes.length; i++) {
      const reading = this.shapes[i]!.read(view, this.source);
      if (reading === null) continue;
      // A misaligned literal is that shape's business alone: its words would pass for plain nops.
      const isAnswer = reading.state !== 'foreign' || reading.fault === 'misaligned';
      // A foreign reading is only the answer when no other shape recognises the bytes.
      if (isAnswer || fallback === null) this.number = this.numbers[i]!;
      if (isAnswer) return reading;
      fallback ??= reading;
    }
    return fallback;
  }
}
