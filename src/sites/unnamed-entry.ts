/**
 * The profiling entry of a linked file that names none (RT-58): a static program without symbols,
 * or one whose own `_mcount` is in no dynamic table. It is told by what its code does, which no
 * other function does that is called in front of a frame (`SiteShape.leadsToEntry`), and by its
 * callers: each call of it stands as the compiler's, and at least one where a function is known to
 * begin.
 */
import type { SiteReading, SiteView } from '../machine/sites.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import { ProgramView } from './view.js';

/** Landing pad, or the set-up of a register, between the start of a function and its site. */
const BEFORE_SITE_BYTES = 8;

function beginsFunction(view: SiteView, { startDelta }: SiteReading): boolean {
  for (let delta = startDelta - BEFORE_SITE_BYTES; delta <= startDelta; delta++) {
    if (view.unwindsFrom(delta) || view.functionAt(delta) || view.calledFrom(delta) !== null) return true;
  }
  return false;
}

/** How a place is called. */
interface Calls {
  begins: boolean;
  differs: boolean;
}

/** @param edited  file positions that a record says were changed: what is called there is ours */
function entryOf(program: Program, edited: ReadonlySet<number>): Address | null {
  const view = new ProgramView(program);
  const shapes = program.arch.siteShapes.filter(({ leadsToEntry }) => leadsToEntry !== undefined);
  const isEntry = new Map<Address, boolean>();
  const found = new Map<Address, Calls>();
  for (const range of shapes.length === 0 ? [] : program.code) {
    const targets: Address[] = [];
    const offsets = program.arch.mcount.findCalls(range.bytes, 0, range.bytes.length, range.address, (called) => {
      const target = program.finalTarget(called);
      const known = isEntry.get(target) ?? shapes.some(({ leadsToEntry }) => leadsToEntry!(view, target));
      isEntry.set(target, known);
      if (known) targets.push(target);
      return known;
    });
    for (const [i, offset] of offsets.entries()) {
      if (edited.has(range.fileOffset + offset)) continue;
      const calls = found.get(targets[i]!) ?? { begins: false, differs: false };
      found.set(targets[i]!, calls);
      view.move(range, offset);
      const readings = shapes.map((shape) => shape.read(view, 'mcount-table'));
      const reading = readings.find((each) => each?.state === 'call');
      if (reading === null || reading === undefined) calls.differs = true;
      else calls.begins ||= beginsFunction(view, reading);
    }
  }
  // What is called so where nothing tells of a function is a doubt, too.
  const entries = [...found].filter(([, { differs }]) => !differs);
  return entries.length === 1 && entries[0]![1].begins ? entries[0]![0] : null;
}

/**
 * From now on calls of such an entry are those of a profiling entry.
 * @param edited  file positions of what the file's record says was changed
 */
export function tellUnnamedEntry(program: Program, edited: readonly number[]): void {
  if (program.relocatable || program.hasMcountEntry || !program.isUnnamedProcess) return;
  program.derived('unnamed-entry', () => {
    const entry = entryOf(program, new Set(edited));
    if (entry !== null) program.takeProfilingEntry(entry);
    return entry;
  });
}
