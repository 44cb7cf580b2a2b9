/**
 * The text syntax of `set_ftrace_filter` and the sets it makes: words -> patterns -> a bitmap over
 * the records of an image. Owns the grammar, the globs, the queue of words for modules that are not
 * there yet, and which record an address means. Does not own the hashes that sets become
 * (`core/hash.ts`), what an enabled tracer does with a changed one, nor where names come from:
 * records arrive as columns (`FilterNames`).
 *
 *   [!] PATTERN [ : mod : [!] MODULE ]
 *
 * Rules C-FILT-1..8 and C-REC-1 of the specification; EINVAL of the kernel files is told by the
 * codes 'no-match' and 'bad-pattern'.
 */
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

// ---------------------------------------------------------------------------------------- patterns

/** How a pattern compares (C-FILT-1). `index` names a position of the record table and no name. */
export type PatternKind = 'full' | 'front' | 'end' | 'middle' | 'glob' | 'index';

export interface NamePattern {
  readonly kind: Exclude<PatternKind, 'index'>;
  /** What is compared: the text without the `*` that the kind stands for; of a glob, all of it. */
  readonly text: string;
  /** True for the whole name, both ends anchored; case matters. */
  matches(name: string): boolean;
}

export interface IndexPattern {
  readonly kind: 'index';
  readonly text: string;
  /** The number, 1-based; 0 and numbers past the end select nothing (C-FILT-3). */
  readonly index: number;
  /** Always false: an index selects by position. */
  matches(name: string): boolean;
}

export type Pattern = NamePattern | IndexPattern;

/**
 * Compiles a pattern, without the leading `!` of its word.
 * @throws ElftraceError 'bad-pattern' when it begins with a digit and is no number in C notation
 * Source: C-FILT-1, C-FILT-3
 */
export function compilePattern(text: string): Pattern {
  const first = text.charCodeAt(0);
  return first >= 0x30 && first <= 0x39 ? compileIndex(text) : compileName(text);
}

/**
 * C notation: `0x` hexadecimal, leading `0` octal, else decimal. Numbers above 2^53 lie past the
 * end of any table.
 */
function compileIndex(text: string): IndexPattern {
  const octal = /^0[0-7]*$/.test(text);
  if (!octal && !/^(?:0[xX][0-9a-fA-F]+|[1-9][0-9]*)$/.test(text)) {
    throw badPattern(text, 'begins with a digit, so it must be a number: decimal, 0x hexadecimal or 0 octal');
  }
  const index = octal ? Number(BigInt(`0o${text}`)) : Number(BigInt(text));
  return { kind: 'index', text, index, matches: () => false };
}

/**
 * The kinds that compare names; a text that begins with a digit is a name here (modules such as
 * `8021q`).
 */
function compileName(text: string): NamePattern {
  const last = text.length - 1;
  let front = false;
  let end = false;
  for (let i = 0; i <= last; i++) {
    const letter = text[i];
    if (letter === '?' || letter === '[' || letter === '\\') return compileGlob(text);
    if (letter !== '*') continue;
    if (i === 0) end = true;
    else if (i === last) front = true;
    else return compileGlob(text);
  }
  const part = text.slice(end ? 1 : 0, front ? last : last + 1);
  if (front && end) return { kind: 'middle', text: part, matches: (name) => name.includes(part) };
  if (end) return { kind: 'end', text: part, matches: (name) => name.endsWith(part) };
  if (front) return { kind: 'front', text: part, matches: (name) => name.startsWith(part) };
  return { kind: 'full', text: part, matches: (name) => name === part };
}

/** Steps of a glob: a code unit to equal, or one of these; ANY_OF - k is set number k. */
const ANY_ONE = -1;
const ANY_OF = -2;

interface CharacterSet {
  readonly inverted: boolean;
  /** Pairs of first and last code unit, both included. */
  readonly ranges: readonly number[];
}

/** What stands between two `*`: one step for each letter of a name. */
interface Chunk {
  readonly steps: readonly number[];
  /**
   * The letters it begins with, up to the first `?` or set: the engine's own search is much faster
   * than ours.
   */
  readonly lead: string;
}

/** C-FILT-10: `?`, `*`, `[set]`, `[!set]`, `\x`; no letter of a name is special. */
function compileGlob(text: string): NamePattern {
  const chunks: Chunk[] = [];
  const sets: CharacterSet[] = [];
  let steps: number[] = [];
  const close = (): void => {
    const letters = steps.findIndex((step) => step < 0);
    chunks.push({ steps, lead: String.fromCharCode(...(letters < 0 ? steps : steps.slice(0, letters))) });
    steps = [];
  };
  for (let i = 0; i < text.length; i++) {
    const letter = text[i];
    if (letter === '*') close();
    else if (letter === '?') steps.push(ANY_ONE);
    else if (letter === '[') {
      const set = readSet(text, i + 1);
      if (set === null) steps.push(text.charCodeAt(i));
      else {
        steps.push(ANY_OF - sets.length);
        sets.push(set.set);
        i = set.last;
      }
    } else {
      // A backslash at the very end has nothing to quote and stands for itself.
      if (letter === '\\' && i + 1 < text.length) i++;
      steps.push(text.charCodeAt(i));
    }
  }
  close();
  return { kind: 'glob', text, matches: (name) => runGlob(chunks, sets, name) };
}

/**
 * The set whose first letter is at `at`, and the position of its `]`; null when it is not closed.
 */
function readSet(text: string, at: number): { set: CharacterSet; last: number } | null {
  const inverted = text[at] === '!';
  let i = inverted ? at + 1 : at;
  const start = i;
  const ranges: number[] = [];
  // The first letter is a member even if it is `]`.
  while (i < text.length && (text[i] !== ']' || i === start)) {
    const low = text.charCodeAt(i);
    let high = low;
    if (text[i + 1] === '-' && text[i + 2] !== ']') {
      if (i + 2 >= text.length) return null;
      high = text.charCodeAt(i + 2);
      i += 2;
    }
    ranges.push(low, high);
    i++;
  }
  return i < text.length ? { set: { inverted, ranges }, last: i } : null;
}

function inSet(set: CharacterSet, code: number): boolean {
  const { ranges } = set;
  for (let i = 0; i < ranges.length; i += 2) {
    if (code >= ranges[i]! && code <= ranges[i + 1]!) return !set.inverted;
  }
  return set.inverted;
}

/** Do the steps from `from` on fit the letters of `name` from `at` on? */
function stepsFit(
  steps: readonly number[],
  from: number,
  sets: readonly CharacterSet[],
  name: string,
  at: number,
): boolean {
  for (let i = from; i < steps.length; i++, at++) {
    const step = steps[i]!;
    const code = name.charCodeAt(at);
    if (step !== code && step !== ANY_ONE && (step >= 0 || !inSet(sets[ANY_OF - step]!, code))) return false;
  }
  return true;
}

/**
 * The first chunk stands at the start, the last at the end, each other one at the first place
 * behind the one before it: going further right never helps what follows, so nothing is tried
 * twice.
 */
function runGlob(chunks: readonly Chunk[], sets: readonly CharacterSet[], name: string): boolean {
  const first = chunks[0]!.steps;
  const last = chunks[chunks.length - 1]!.steps;
  const end = name.length - last.length;
  if (chunks.length === 1) return end === 0 && stepsFit(first, 0, sets, name, 0);
  let at = first.length;
  if (at > end || !stepsFit(first, 0, sets, name, 0) || !stepsFit(last, 0, sets, name, end)) return false;
  for (let i = 1; i < chunks.length - 1; i++) {
    const { steps, lead } = chunks[i]!;
    for (; ; at++) {
      if (lead !== '') at = name.indexOf(lead, at);
      if (at < 0 || at + steps.length > end) return false;
      if (stepsFit(steps, lead.length, sets, name, at + lead.length)) break;
    }
    at += steps.length;
  }
  return true;
}

// ------------------------------------------------------------------------------------------- words

/** A word of the grammar, taken apart; nothing is compiled yet. */
export interface FilterWord {
  /** As written. */
  readonly word: string;
  /** `!`: remove instead of add. */
  readonly remove: boolean;
  /** PATTERN without the `!`. */
  readonly func: string;
  /** MODULE as written, its `!` included; null without `:mod:`. */
  readonly module: string | null;
}

/** Splits a text into words at ASCII white space. */
export function splitWords(text: string): string[] {
  return text.split(/[ \t\n\v\f\r]+/).filter((word) => word !== '');
}

/**
 * Takes a word apart. `::` is part of a name (C++, Rust), a single `:` begins the command; the
 * kernel, whose names have no colons, takes the first of any.
 * @throws ElftraceError 'bad-pattern' for an empty pattern and for any command but `mod:MODULE`
 */
export function parseWord(word: string): FilterWord {
  const remove = word.startsWith('!');
  const rest = remove ? word.slice(1) : word;
  let colon = rest.indexOf(':');
  while (colon >= 0 && rest[colon + 1] === ':') colon = rest.indexOf(':', colon + 2);
  if (colon < 0) {
    if (rest === '') throw badPattern(word, 'has no pattern');
    return { word, remove, func: rest, module: null };
  }
  const func = rest.slice(0, colon);
  const command = rest.slice(colon + 1);
  const end = command.indexOf(':');
  const name = end < 0 ? command : command.slice(0, end);
  if (name !== 'mod') throw badPattern(word, `knows no command '${name}' (only mod)`);
  if (end < 0) throw badPattern(word, "names no module: write 'FUNCTION:mod:MODULE'");
  return { word, remove, func, module: command.slice(end + 1) };
}

function badPattern(word: string, reason: string): ElftraceError {
  return new ElftraceError('bad-pattern', `filter '${word}': ${reason}`, { what: 'filter', value: word });
}

function noMatch(word: string, reason: string): ElftraceError {
  return new ElftraceError('no-match', `filter '${word}': ${reason}`, { what: 'filter', value: word });
}

// ----------------------------------------------------------------------------------------- records

/**
 * The records of an image as columns, in table order (sorted by address): what patterns are
 * compared with.
 */
export interface FilterNames {
  readonly count: number;
  /** Name of the symbol that contains the site, its leading dot included where it has one. */
  name(index: number): string;
  /** Other spellings of it: the name demangled, aliases. */
  aliases?(index: number): readonly string[];
  /** Address of the site (the ip). */
  address(index: number): Address;
  /** Module of the record, null for the core image. */
  module(index: number): string | null;
  /**
   * DISABLED and not ENABLED: skipped by every walk, but it keeps its index (C-REC-2, C-FILT-3).
   */
  disabled(index: number): boolean;
  /** Bytes from the start of the symbol to the site. */
  siteOffset(index: number): bigint;
  /**
   * Greatest offset of a site that is no weak leftover (`Arch.mcount.maxSiteOffset`); 'any' when
   * absent.
   */
  readonly maxSiteOffset?: bigint | 'any';
  /**
   * True where code symbols are dotted (PPC64 ELFv1): a pattern without a dot ignores that of a
   * name (C-FILT-4).
   */
  readonly dotSymbols?: boolean;
  /**
   * Modules that are loaded though they may have no record; those of the records are always known.
   */
  readonly modules?: readonly string[];
}

/**
 * True when the record lies too far behind its symbol: the body of an overridden weak function
 * (C-FILT-4, M-WEAK-1).
 */
function isWeakLeftover(names: FilterNames, index: number): boolean {
  const limit = names.maxSiteOffset ?? 'any';
  return limit !== 'any' && names.siteOffset(index) > limit;
}

/**
 * The name a list prints: that of the function, or for a weak leftover the placeholder with the
 * site's offset.
 */
export function listedName(names: FilterNames, index: number): string {
  return isWeakLeftover(names, index)
    ? `__ftrace_invalid_address___${String(names.siteOffset(index))}`
    : names.name(index);
}

// ---------------------------------------------------------------------------------------- the sets

/**
 * A word for a module that is not loaded: replayed when a module of exactly that name arrives
 * (C-FILT-6).
 */
export interface QueuedWord {
  readonly func: string;
  readonly module: string;
}

export interface FilterResult {
  /** 1 for each selected record; length `names.count`. */
  readonly selection: Uint8Array;
  /** How many are selected. */
  readonly count: number;
  readonly queued: readonly QueuedWord[];
}

export interface FilterOptions {
  /** Set to start from (append); empty when absent (truncating write). */
  readonly append?: Uint8Array;
  /** Words queued so far; they go with `append`. */
  readonly queued?: readonly QueuedWord[];
}

/**
 * A set while it is edited. Words take effect one by one and in order: when one is refused, those
 * before it stay (C-FILT-2). The image's records must not change meanwhile.
 */
export class WorkingFilter {
  readonly #names: FilterNames;
  readonly #selection: Uint8Array;
  #queued: QueuedWord[];
  readonly #usable: Uint8Array;
  /**
   * Exact names -> records, built for the second exact word: lists of thousands of names are
   * common.
   */
  #exact: Map<string, number[]> | null = null;
  #exactWords = 0;

  constructor(names: FilterNames, options: FilterOptions = {}) {
    this.#names = names;
    const append = options.append;
    if (append !== undefined && append.length !== names.count) {
      throw new ElftraceError('internal', `a selection of ${append.length} records for an image of ${names.count}`);
    }
    this.#selection = append === undefined ? new Uint8Array(names.count) : append.slice();
    this.#queued = [...(options.queued ?? [])];
    this.#usable = usableRecords(names);
  }

  /** The set as it is now, a copy. */
  result(): FilterResult {
    return { selection: this.#selection.slice(), count: countOf(this.#selection), queued: [...this.#queued] };
  }

  /**
   * Applies one word.
   * @throws ElftraceError 'bad-pattern' or 'no-match', both with the word as `context.value`; the
   *   set is then unchanged
   */
  process(word: string): void {
    const parsed = parseWord(word);
    const matched = this.#match(parsed.func, parsed.module);
    if (matched.length > 0) {
      const value = parsed.remove ? 0 : 1;
      for (const index of matched) this.#selection[index] = value;
    } else this.#unmatched(parsed);
  }

  /**
   * A module of this name arrived: its queued words are applied and leave the queue. `names` must
   * hold its records.
   */
  replay(module: string): void {
    const mine = this.#queued.filter((entry) => entry.module === module);
    this.#queued = this.#queued.filter((entry) => entry.module !== module);
    for (const { func } of mine) {
      for (const index of this.#match(func, module, module)) this.#selection[index] = 1;
    }
  }

  /**
   * Records that a word selects, ascending. `exactModule`: the module by equality instead of by
   * pattern.
   */
  #match(func: string, module: string | null, exactModule?: string): readonly number[] {
    const names = this.#names;
    // Blank FUNC: all functions of the modules that qualify (C-FILT-5).
    const pattern = func === '' || func === '*' ? null : compilePattern(func);
    const moduleOf =
      exactModule !== undefined
        ? (index: number) => names.module(index) === exactModule
        : module === null
          ? null
          : qualify(module, names);
    if (pattern !== null && pattern.kind === 'index') {
      const index = pattern.index - 1;
      const fits =
        index >= 0 && index < names.count && this.#usable[index] === 1 && (moduleOf === null || moduleOf(index));
      return fits ? [index] : [];
    }
    const matched: number[] = [];
    if (pattern !== null && pattern.kind === 'full' && ++this.#exactWords > 1) {
      this.#exact ??= indexNames(names);
      for (const index of this.#exact.get(pattern.text) ?? []) {
        if (this.#usable[index] === 1 && (moduleOf === null || moduleOf(index))) matched.push(index);
      }
      return matched;
    }
    const matches = pattern === null ? null : recordMatcher(pattern, names);
    for (let index = 0; index < names.count; index++) {
      if (this.#usable[index] === 0) continue;
      if (moduleOf !== null && !moduleOf(index)) continue;
      if (matches === null || matches(index)) matched.push(index);
    }
    return matched;
  }

  /** C-FILT-2 and C-FILT-6: what becomes of a word that matches no record. */
  #unmatched(parsed: FilterWord): void {
    const { word, func, module, remove } = parsed;
    if (module === null) throw noMatch(word, this.#whyNothing(func));
    if (remove) {
      const kept = this.#queued.filter((entry) => entry.module !== module || (func !== '*' && entry.func !== func));
      if (kept.length === this.#queued.length) {
        throw noMatch(word, `matches no function, and nothing is queued for module '${module}'`);
      }
      this.#queued = kept;
      return;
    }
    if (isLoaded(this.#names, module)) throw noMatch(word, `module '${module}' has no such function`);
    this.#queued.push({ func, module });
  }

  #whyNothing(func: string): string {
    const names = this.#names;
    const pattern = compilePattern(func);
    if (pattern.kind === 'index') {
      return pattern.index >= 1 && pattern.index <= names.count
        ? `record ${func} is disabled or a weak leftover`
        : `there is no record ${func}, the image has ${names.count} and counts from 1`;
    }
    const matches = recordMatcher(pattern, names);
    for (let index = 0; index < names.count; index++) {
      if (matches(index)) return 'matches only records that are disabled or weak leftovers';
    }
    return pattern.kind === 'full' ? 'no traceable function has this name' : 'matches no traceable function';
  }
}

function usableRecords(names: FilterNames): Uint8Array {
  const usable = new Uint8Array(names.count);
  for (let i = 0; i < names.count; i++) usable[i] = names.disabled(i) || isWeakLeftover(names, i) ? 0 : 1;
  return usable;
}

function countOf(selection: Uint8Array): number {
  let count = 0;
  for (let i = 0; i < selection.length; i++) count += selection[i]!;
  return count;
}

/**
 * C-FILT-4 and aliases: the name, without its dot where the pattern has none, or any other spelling
 * of it.
 */
function recordMatcher(pattern: NamePattern, names: FilterNames): (index: number) => boolean {
  const ignoreDot = names.dotSymbols === true && !pattern.text.startsWith('.');
  const { aliases } = names;
  if (!ignoreDot && aliases === undefined) return (index) => pattern.matches(names.name(index));
  return (index) => {
    const name = names.name(index);
    if (pattern.matches(ignoreDot && name.startsWith('.') ? name.slice(1) : name)) return true;
    return aliases !== undefined && aliases.call(names, index).some((alias) => pattern.matches(alias));
  };
}

function indexNames(names: FilterNames): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const add = (name: string, index: number): void => {
    const known = found.get(name);
    if (known === undefined) found.set(name, [index]);
    else if (known[known.length - 1] !== index) known.push(index);
  };
  for (let index = 0; index < names.count; index++) {
    const name = names.name(index);
    add(name, index);
    // The dot is ignored for patterns without one, which never look up a key that begins with a
    // dot.
    if (names.dotSymbols === true && name.startsWith('.') && !name.startsWith('..')) add(name.slice(1), index);
    if (names.aliases !== undefined) for (const alias of names.aliases(index)) add(alias, index);
  }
  return found;
}

/** C-FILT-5: which records qualify by their module. `text` is MODULE with its `!`. */
function qualify(text: string, names: FilterNames): (index: number) => boolean {
  const exclude = text.startsWith('!');
  const pattern = compileName(exclude ? text.slice(1) : text);
  if (pattern.text === '') return (index) => (names.module(index) === null) === exclude;
  const known = new Map<string, boolean>();
  return (index) => {
    const module = names.module(index);
    if (module === null) return exclude;
    let matched = known.get(module);
    if (matched === undefined) {
      matched = pattern.matches(module);
      known.set(module, matched);
    }
    return matched !== exclude;
  };
}

function isLoaded(names: FilterNames, module: string): boolean {
  if (names.modules?.includes(module) === true) return true;
  for (let index = 0; index < names.count; index++) if (names.module(index) === module) return true;
  return false;
}

/**
 * Applies a text of words in order and gives the new set.
 * @throws ElftraceError 'bad-pattern' or 'no-match' for the first word that is refused. Nothing is
 *   returned then; who needs
 *         what the words before it did (C-FILT-2) uses `WorkingFilter`.
 * Source: C-FILT-1..6, C-FILT-8
 */
export function applyFilter(words: string, names: FilterNames, options: FilterOptions = {}): FilterResult {
  const working = new WorkingFilter(names, options);
  for (const word of splitWords(words)) working.process(word);
  return working.result();
}

/** What `-l` and `-n` of the command line ask for. Each text may hold several words. */
export interface SelectRequest {
  /** Empty: everything. */
  readonly filter: readonly string[];
  /** Empty: nothing is left out. */
  readonly notrace: readonly string[];
  /** Keep words for modules that are not there, instead of refusing them. */
  readonly queue?: boolean;
}

export interface Selection {
  readonly selection: Uint8Array;
  readonly count: number;
  readonly queued: { readonly filter: readonly QueuedWord[]; readonly notrace: readonly QueuedWord[] };
}

/**
 * Selects the records that a request names: those of the filter (all where none is given) that are
 * not in notrace; never disabled ones and weak leftovers. Unlike a filter file, in which a set
 * emptied by `!` means everything, a request whose words leave nothing is an error.
 * @throws ElftraceError 'bad-pattern', or 'no-match' that names every word without a function
 */
export function select(names: FilterNames, request: SelectRequest): Selection {
  const filterWords = request.filter.flatMap(splitWords);
  const notraceWords = request.notrace.flatMap(splitWords);
  const unmatched: ElftraceError[] = [];
  const make = (words: readonly string[]): FilterResult => {
    const working = new WorkingFilter(names);
    for (const word of words) {
      try {
        working.process(word);
      } catch (error) {
        if (!(error instanceof ElftraceError) || error.code !== 'no-match') throw error;
        unmatched.push(error);
      }
    }
    const result = working.result();
    const pending = result.queued[0];
    if (pending !== undefined && request.queue !== true) {
      throw noMatch(`${pending.func}:mod:${pending.module}`, `there is no module '${pending.module}'`);
    }
    return result;
  };
  const filter = make(filterWords);
  const notrace = make(notraceWords);
  if (unmatched.length === 1) throw unmatched[0]!;
  if (unmatched.length > 1) {
    throw new ElftraceError('no-match', unmatched.map(({ message }) => message).join('; '), {
      what: 'filter',
      value: unmatched.map(({ context }) => String(context.value)).join(' '),
    });
  }
  const selection = filterWords.length === 0 ? usableRecords(names) : filter.selection.slice();
  for (let i = 0; i < selection.length; i++) if (notrace.selection[i] === 1) selection[i] = 0;
  const count = countOf(selection);
  const words = [...filterWords, ...notraceWords.map((word) => `-n ${word}`)].join(' ');
  if (count === 0 && words !== '' && filter.queued.length === 0) {
    throw noMatch(words, 'leaves no function');
  }
  return { selection, count, queued: { filter: filter.queued, notrace: notrace.queued } };
}

// --------------------------------------------------------------------------------------- addresses

/** What `locateRecord` needs of an image: record addresses ascending. */
export interface RecordAddresses {
  readonly count: number;
  address(index: number): Address;
  /** Bytes from a record's address that belong to its site. */
  readonly siteBytes: number;
  /** Size of the sized symbol that begins exactly at `address`; null when none does. */
  symbolSizeAt(address: Address): bigint | null;
}

/**
 * Record that an address means: the one whose site covers it, or else, where a sized symbol begins
 * exactly there, the first inside the symbol; -1 when there is none. So the symbol of a function
 * leads to its site behind a preamble. Source: C-REC-1
 */
export function locateRecord(records: RecordAddresses, address: Address): number {
  const covering = firstInRange(records, address, address);
  if (covering >= 0) return covering;
  const size = records.symbolSizeAt(address);
  return size === null || size <= 0n ? -1 : firstInRange(records, address, address + size - 1n);
}

/** First record with a site byte in [start, last], or -1. */
function firstInRange(records: RecordAddresses, start: Address, last: Address): number {
  // First record whose site ends behind `start`.
  let low = 0;
  let high = records.count;
  const bytes = BigInt(records.siteBytes);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (records.address(middle) + bytes > start) high = middle;
    else low = middle + 1;
  }
  return low < records.count && records.address(low) <= last ? low : -1;
}
