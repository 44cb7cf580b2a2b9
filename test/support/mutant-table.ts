/**
 * The table of mutants (PV-5): by object how many were made, found, equivalent, and why. A mutant
 * that all its trials prove needs a row of `mutant-arguments.ts`.
 */
import { arches } from '../../src/arches.js';
import { mix } from '../../src/prove/random.js';
import { type MutantArgument, mutantArguments } from './mutant-arguments.js';
import type { MutantImage } from './mutant-images.js';
import { makeImage } from './mutant-images.js';
import { textOf } from './mutants.js';
import type { DrawnMutant, DrawnSaid } from './mutant-drawn.js';
import type { MutantNote } from './mutant-notes.js';
import { MutantRun, type MutantVerdict, type Tested } from './mutant-run.js';

/** What is known of a mutant; `idle`: no trial of any image comes to it. */
export type Standing = MutantVerdict | 'idle';

export interface MutantState {
  readonly tested: Pick<Tested, 'object' | 'symbol' | 'offset' | 'kind' | 'content'>;
  /** All objects that have the same code. */
  readonly objects: string[];
  readonly text: string;
  note: MutantNote | null;
  standing: Standing;
  /** Objects in which the code does the same, whatever the state, as far as they were asked. */
  sameIn?: readonly string[];
  /** The same, but for ways on which the graph tracer stops for good. */
  elseIn?: readonly string[];
  /** What runs from drawn states say of it. */
  drawn?: DrawnSaid;
}

/** A row of the table. */
export interface ObjectRow {
  readonly made: number;
  readonly found: number;
  /** No trial counts: the proof is not a yes. */
  readonly open: number;
  /** Alone it does what it stands for. */
  readonly alike: number;
  /** By the name of the argument. */
  readonly argued: Readonly<Record<string, number>>;
  /** Proved, and runs from drawn states tell it from its code in none of the objects. */
  readonly drawn: number;
  /** Proved, and without an argument. */
  readonly bare: number;
  /** No trial of the images that were tried comes there, and there is no argument. */
  readonly idle: number;
}

const archNamed = (target: string) => arches.find(({ target: { id } }) => id === target)!;

/** Trials where whose entries into the tracer runs begin: states of all kinds. */
const DRAWN_TRIALS = [0, 1, 3, 5, 6, 9, 12, 15, 16, 26, 27, 33, 40];
/** Runs that say nothing against a mutant, and ways of them, so that they count. */
const DRAWN_RUNS = 200;
const DRAWN_WAYS = 2;
/** Runs after which no more are made. */
const DRAWN_MOST = 600;

/** Whether runs from drawn states, enough of them, tell a mutant from its code in no way. */
export const isDrawnSame = ({ drawn }: MutantState): boolean =>
  drawn?.difference === null && drawn.runs >= DRAWN_RUNS && drawn.ways >= DRAWN_WAYS;

/** A row while it is counted. */
type Counts = { -readonly [K in keyof ObjectRow]: ObjectRow[K] } & { argued: Record<string, number> };

const keyOf = ({ object, symbol, offset, kind, content }: MutantState['tested']): string =>
  `${object.split(/[/ ]/)[0]!} ${symbol}+${offset} ${kind} ${content}`;

/** One of so many parts of all mutants, by what they are called: the same in each run. */
export interface Share {
  readonly index: number;
  readonly of: number;
}

function isIn(key: string, { index, of }: Share): boolean {
  let hash = 1;
  for (let i = 0; i < key.length; i++) hash = mix(hash, key.charCodeAt(i));
  return hash % of === index;
}

/** Whether all objects that have a mutant say that it does the same. */
const isSameCode = ({ objects, sameIn = [] }: MutantState): boolean => objects.every((each) => sameIn.includes(each));

/** Whether they say so of all ways but those on which the graph tracer stops for good. */
const isSameElse = ({ objects, sameIn = [], elseIn = [] }: MutantState): boolean =>
  objects.every((each) => sameIn.includes(each) || elseIn.includes(each));

/** An argument fits a mutant. */
function fits(argument: MutantArgument, each: MutantState): boolean {
  const { standing, isSame } = argument;
  // What is computed needs no trial.
  return isSaidOf(argument, each) && (isSame !== undefined || (standing ?? 'survived') === each.standing);
}

/** An argument says that a mutant changes nothing, whatever trials say. */
function isSaidOf(argument: MutantArgument, each: MutantState): boolean {
  const { object, symbol, text, kinds, note, places, range, isSame } = argument;
  const { offset } = each.tested;
  if (isSame !== undefined) return isSame === 'always' ? isSameCode(each) : isSameElse(each);
  return (
    (note === undefined || note === each.note) &&
    (kinds === undefined || kinds.includes(each.tested.kind)) &&
    (places === undefined || places.includes(keyOf(each.tested))) &&
    (range === undefined || (offset >= range[0] && offset < range[1])) &&
    object.test(each.tested.object) &&
    symbol.test(each.tested.symbol) &&
    (text === undefined || text.test(each.text))
  );
}

/** Mutants of a function of the runtime that are left, each counted once. */
export interface FunctionRow {
  readonly name: string;
  readonly open: number;
  readonly bare: number;
  readonly idle: number;
}

/** Notes whether the code of an object does the same with a mutant. */
function askCode(state: MutantState, run: MutantRun, tested: Tested): void {
  const { sameIn = [], elseIn = [] } = state;
  const { object } = tested;
  if (sameIn.includes(object)) return;
  if (run.isSame(tested)) state.sameIn = [...sameIn, object];
  else if (!elseIn.includes(object) && run.isSameUnlessStopped(tested)) state.elseIn = [...elseIn, object];
}

export class MutantTable {
  readonly states = new Map<string, MutantState>();
  /** Images that were refused, or prove nothing: with the reason. */
  readonly left = new Map<string, string>();

  constructor(private readonly share: Share) {}

  /**
   * Tries the mutants of an image.
   * @param isTried  which of them
   */
  add(image: MutantImage, isTried: (state: MutantState) => boolean = () => true): void {
    const pair = makeImage(image);
    if (typeof pair === 'string') {
      this.left.set(image.name, pair.trim().split('\n').at(-1)!);
      return;
    }
    const run = new MutantRun(pair.original, pair.patched);
    if (run.flaw !== null) {
      this.left.set(image.name, run.flaw);
      return;
    }
    for (const tested of run.reached()) {
      const state = this.stateOf(tested);
      if (state === null || state.standing === 'found' || state.standing === 'alike' || !isTried(state)) continue;
      // What the code says of it needs no more trials.
      if (state.standing === 'survived' && state.sameIn?.includes(tested.object) === true) continue;
      const verdict = run.judge(tested);
      // What no trial counts for is no yes, whatever trials of another image say.
      if (state.standing !== 'open' || verdict === 'found' || verdict === 'alike') state.standing = verdict;
      if (verdict === 'survived') askCode(state, run, tested);
    }
    for (const tested of run.unreached()) this.stateOf(tested);
  }

  /**
   * Asks the code of an image which known mutants do the same, whatever trials say of them.
   * @param isAsked  of which mutants
   * @returns whether the image could be made
   */
  ask(image: MutantImage, isAsked: (state: MutantState) => boolean): boolean {
    const pair = makeImage(image);
    if (typeof pair === 'string') return false;
    const run = new MutantRun(pair.original, pair.patched, []);
    for (const tested of run.unreached()) {
      const state = this.states.get(keyOf(tested));
      if (state === undefined) continue;
      state.note = tested.note;
      if (isAsked(state)) askCode(state, run, tested);
    }
    return true;
  }

  /**
   * Runs an image from drawn states, with each mutant of which nothing else is known.
   * @param isDrawn  which mutants
   * @param count    runs of the code without a mutant
   */
  draw(image: MutantImage, isDrawn: (state: MutantState) => boolean, count: number): void {
    const [object] = image.name.split(' ') as [string];
    const isOpen = (state: MutantState): boolean =>
      isDrawn(state) &&
      (state.drawn === undefined || (state.drawn.difference === null && state.drawn.runs < DRAWN_MOST));
    if (![...this.states.values()].some((state) => state.objects.includes(object) && isOpen(state))) return;
    const pair = makeImage(image);
    if (typeof pair === 'string') return;
    const run = new MutantRun(pair.original, pair.patched, DRAWN_TRIALS);
    if (run.flaw !== null) return;
    const states = new Map<string, MutantState>();
    const mutants: DrawnMutant[] = [];
    for (const { address, mutant, ...tested } of [...run.reached(), ...run.unreached()]) {
      const key = keyOf(tested);
      const state = this.states.get(key);
      if (state === undefined || !isOpen(state)) continue;
      states.set(key, state);
      mutants.push({ key, address, mutant });
    }
    if (mutants.length === 0) return;
    for (const [key, { runs, ways, difference }] of run.draw(mutants, count)) {
      const state = states.get(key)!;
      const before = state.drawn ?? { runs: 0, ways: 0, difference: null };
      const said = difference === null ? null : `${image.name}: ${difference}`;
      state.drawn = { runs: before.runs + runs, ways: Math.max(before.ways, ways), difference: said };
    }
  }

  /** Mutants that a trial found, though an argument says that none can: one of both is wrong. */
  contradictions(): readonly MutantState[] {
    return [...this.states.values()].filter(
      (each) => each.standing === 'found' && mutantArguments.some((argument) => isSaidOf(argument, each)),
    );
  }

  private stateOf(tested: Tested): MutantState | null {
    const key = keyOf(tested);
    const known = this.states.get(key);
    if (known !== undefined) known.note = tested.note;
    if (known?.objects.includes(tested.object) === false) known.objects.push(tested.object);
    if (known !== undefined || !isIn(key, this.share)) return known ?? null;
    const target = tested.object.split(/[/ ]/)[0]!;
    const { object, symbol, offset, kind, content, mutant } = tested;
    const text = textOf(target, archNamed(target).isa, mutant.before);
    const place = { object, symbol, offset, kind, content };
    const state: MutantState = { tested: place, objects: [object], text, note: tested.note, standing: 'idle' };
    this.states.set(key, state);
    return state;
  }

  /** Mutants that trials came to, that are proved, and have no argument: by their keys. */
  bare(): string[] {
    return this.survivors()
      .map(({ tested }) => keyOf(tested))
      .sort();
  }

  /** Tries those that `bare` names in a further image, and no others. */
  addBare(image: MutantImage): void {
    const bare = new Set(this.survivors());
    this.add(image, (state) => bare.has(state));
  }

  private survivors(): MutantState[] {
    return this.result().bare.filter(({ standing }) => standing === 'survived');
  }

  /** Takes what another run found. */
  take(states: readonly MutantState[]): void {
    for (const each of states) {
      const known = this.states.get(keyOf(each.tested));
      for (const object of known?.objects ?? []) if (!each.objects.includes(object)) each.objects.push(object);
      const isDone = known?.standing === 'found' || known?.standing === 'alike';
      if (!isDone && (known === undefined || each.standing !== 'idle')) this.states.set(keyOf(each.tested), each);
    }
  }

  /** What is left by function, the most first. */
  private functions(bare: readonly MutantState[]): readonly FunctionRow[] {
    const rows = new Map<string, { name: string; open: number; bare: number; idle: number }>();
    const isOpen = [...this.states.values()].filter(({ standing }) => standing === 'open');
    for (const { tested, standing } of [...bare, ...isOpen]) {
      const name = tested.symbol.replace(/^\./, '') || tested.object;
      const row = rows.get(name) ?? { name, open: 0, bare: 0, idle: 0 };
      rows.set(name, row);
      row[standing === 'open' ? 'open' : standing === 'idle' ? 'idle' : 'bare']++;
    }
    const sum = ({ open, bare, idle }: FunctionRow): number => open + bare + idle;
    return [...rows.values()].sort((a, b) => sum(b) - sum(a) || (a.name < b.name ? -1 : 1));
  }

  /** Rows by object, mutants without an argument, arguments that nothing needs. */
  result(): {
    readonly rows: Readonly<Record<string, ObjectRow>>;
    readonly bare: readonly MutantState[];
    readonly unneeded: readonly MutantArgument[];
    readonly functions: readonly FunctionRow[];
  } {
    const rows: Record<string, Counts> = {};
    const bare: MutantState[] = [];
    const needed = new Set<MutantArgument>();
    const rowOf = (object: string): Counts =>
      (rows[object] ??= { made: 0, found: 0, open: 0, alike: 0, argued: {}, drawn: 0, bare: 0, idle: 0 });
    for (const state of this.states.values()) {
      const { standing } = state;
      const isPlain = standing === 'found' || standing === 'open' || standing === 'alike';
      const argument = isPlain ? undefined : mutantArguments.find((each) => fits(each, state));
      const isDrawn = !isPlain && argument === undefined && isDrawnSame(state);
      if (argument !== undefined) needed.add(argument);
      else if (!isPlain && !isDrawn) bare.push(state);
      for (const object of state.objects) {
        const row = rowOf(object);
        row.made++;
        if (isPlain) row[standing]++;
        else if (isDrawn) row.drawn++;
        else if (argument === undefined) row[standing === 'idle' ? 'idle' : 'bare']++;
        else row.argued[argument.name] = (row.argued[argument.name] ?? 0) + 1;
      }
    }
    return {
      rows,
      bare,
      unneeded: mutantArguments.filter((each) => !needed.has(each)),
      functions: this.functions(bare),
    };
  }
}
