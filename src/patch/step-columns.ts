/**
 * The steps of a plan as columns. A relocatable file of a million sites has two million steps: as
 * objects they are most of what a patch takes, in time and memory, and hardly anyone looks at them.
 * So plans of many sites keep columns (`planSites`), and `Plan.steps` makes objects of them when it
 * is read. What writes goes by the columns; a plan that was made of another one, with steps of its
 * own, has none, and they are made of its steps.
 */
import { ElftraceError } from '../errors.js';
import type { Sites } from '../sites/sites.js';
import { BytePairs, EditColumns, type FilePositions, filePositions, grown } from '../record/edit-columns.js';
import type { RelocationPlace } from '../sites/view.js';
import type { Plan, Step } from './plan.js';
import type { SiteIndex } from '../units.js';

/** A relocation table, and what rows of it become. */
interface Becoming {
  readonly table: RelocationPlace['table'];
  readonly becomes: number;
}

/** What a step is beyond its bytes: a store at a site, a row of a table, or an object. */
type Detail =
  | { readonly kind: 'store'; readonly rule: string }
  | ({ readonly kind: 'row' } & Becoming)
  | { readonly kind: 'step'; readonly step: Step };

/** Details that a new one is compared with. */
const RECENT = 8;

type Columns = Pick<GrowingSteps, 'site' | 'detail'>;

const COLUMNS = ['site', 'offset', 'pair', 'detail'] as const;

/** Steps that have room behind those of the sites: of the tables that name these. */
const SPARE = 64;

/** Columns that grow as sites are planned. */
export class GrowingSteps {
  count = 0;
  site: Int32Array;
  offset: FilePositions;
  pair: Uint32Array;
  detail: Uint32Array;

  /**
   * @param room  for so many steps at first
   * @param fileBytes  of the file that they change
   */
  constructor(room: number, fileBytes: number) {
    this.site = new Int32Array(room);
    this.offset = filePositions(room, fileBytes);
    this.pair = new Uint32Array(room);
    this.detail = new Uint32Array(room);
  }

  /** Columns of half the room each, one list in front of the other: joined without a copy. */
  static two(room: number, fileBytes: number): readonly [GrowingSteps, GrowingSteps] {
    const both = new GrowingSteps(2 * room + SPARE, fileBytes);
    const [first, second] = [new GrowingSteps(0, fileBytes), new GrowingSteps(0, fileBytes)];
    for (const key of COLUMNS) {
      Object.assign(first, { [key]: both[key].subarray(0, room) });
      Object.assign(second, { [key]: both[key].subarray(room) });
    }
    return [first, second];
  }

  /**
   * Begins with columns that there are.
   * @param withRest  what is behind their ends in their memory is free, and taken first
   */
  take({ count, offset, pair }: EditColumns, { site, detail }: Columns, withRest: boolean): void {
    Object.assign(this, { count, offset, pair, site, detail });
    if (withRest) for (const key of COLUMNS) Object.assign(this, { [key]: extended(this[key]) });
  }

  private reserve(count: number): void {
    if (count <= this.site.length) return;
    this.site = grown(this.site, count);
    this.offset = grown(this.offset, count);
    this.pair = grown(this.pair, count);
    this.detail = grown(this.detail, count);
  }

  /**
   * Room behind the last step for so many more that have its pair and detail. Sites and offsets are
   * for the caller to fill in, and to `count` them.
   */
  more(count: number): void {
    const from = this.count;
    this.reserve(from + count);
    for (const column of [this.pair, this.detail]) column.fill(column[from - 1]!, from, from + count);
  }

  push(site: SiteIndex, offset: number, pair: number, detail: number): void {
    const { count } = this;
    this.reserve(count + 1);
    this.site[count] = site;
    this.offset[count] = offset;
    if (this.offset[count] !== offset) throw new ElftraceError('internal', `a step at ${offset}`, { value: offset });
    this.pair[count] = pair;
    this.detail[count] = detail;
    this.count++;
  }
}

/** Steps in the order in which sites are planned. */
export class StepWriter {
  readonly pairs = new BytePairs();
  /**
   * Stores and relocation entries lie in different sections: each list comes out in order, or
   * nearly so.
   */
  readonly stores: GrowingSteps;
  readonly rows: GrowingSteps;
  private readonly details: Detail[] = [];
  /** Steps of the site that is being planned begin here. */
  private readonly began = { stores: 0, rows: 0 };

  constructor(private readonly sites: Sites) {
    const room = Math.max(16, sites.count);
    const fileBytes = sites.program.image.bytes.length;
    // The rows come behind the stores in the end.
    const [stores, rows] = sites.program.relocatable
      ? GrowingSteps.two(room, fileBytes)
      : [new GrowingSteps(room, fileBytes), new GrowingSteps(16, fileBytes)];
    this.stores = stores;
    this.rows = rows;
  }

  /** What is written from here on belongs to another site. */
  begin(): void {
    this.began.stores = this.stores.count;
    this.began.rows = this.rows.count;
  }

  /** How many steps the site has. */
  get size(): number {
    return this.stores.count - this.began.stores + this.rows.count - this.began.rows;
  }

  /** Whether the site has one store, and one row of a table where `rows` is 1. */
  isPlain(rows: number): boolean {
    return this.stores.count === this.began.stores + 1 && this.rows.count === this.began.rows + rows;
  }

  /** The table of the last row. */
  lastTable(): RelocationPlace['table'] | null {
    const detail = this.rows.count === 0 ? undefined : this.details[this.rows.detail[this.rows.count - 1]!];
    return detail?.kind === 'row' ? detail.table : null;
  }

  /** Takes the steps of the site back. */
  forget(): void {
    this.stores.count = this.began.stores;
    this.rows.count = this.began.rows;
  }

  /** The first step of the site that has bytes in one of the ranges, as [start, end); or null. */
  within(ranges: readonly { readonly start: number; readonly end: number }[]): readonly [number, number] | null {
    for (const list of [this.stores, this.rows]) {
      for (let i = list === this.stores ? this.began.stores : this.began.rows; i < list.count; i++) {
        const start = list.offset[i]!;
        const end = start + this.pairs.sizeOf(list.pair[i]!);
        for (const each of ranges) if (start < each.end && end > each.start) return [start, end];
      }
    }
    return null;
  }

  /** A store at a site. */
  store(site: SiteIndex, offset: number, before: Uint8Array, after: Uint8Array, rule: string): void {
    this.stores.push(site, offset, this.pairs.add(before, 0, after), this.storeBy(rule));
  }

  /** A row of a table that becomes another one: its r_info, and r_addend where `after` has both. */
  row(site: SiteIndex, table: RelocationPlace['table'], row: number, becomes: number, after: Uint8Array): void {
    const { image } = this.sites.program;
    const offset = table.fileOffset(row) + image.wordBytes;
    this.rows.push(site, offset, this.pairs.add(image.bytes, offset, after), this.rowOf(table, becomes));
  }

  /** A step of another kind. */
  step(step: Step): void {
    const list = step.kind === 'store' ? this.stores : this.rows;
    const pair = this.pairs.add(step.before, 0, step.after);
    list.push(step.site, step.fileOffset, pair, this.details.push({ kind: 'step', step }) - 1);
  }

  /** The number of a store's detail; mostly it is one of the last, as that of a row is. */
  private storeBy(rule: string): number {
    const { details } = this;
    for (let i = details.length - 1; i >= 0 && i >= details.length - RECENT; i--) {
      const each = details[i]!;
      if (each.kind === 'store' && each.rule === rule) return i;
    }
    return details.push({ kind: 'store', rule }) - 1;
  }

  private rowOf(table: RelocationPlace['table'], becomes: number): number {
    const { details } = this;
    for (let i = details.length - 1; i >= 0 && i >= details.length - RECENT; i--) {
      const each = details[i]!;
      if (each.kind === 'row' && each.table === table && each.becomes === becomes) return i;
    }
    return details.push({ kind: 'row', table, becomes }) - 1;
  }

  /** All of it, sorted by file position. */
  finish(): StepColumns {
    const { stores, rows, pairs, details, sites } = this;
    const rowsFirst = stores.count > 0 && rows.count > 0 && rows.offset[0]! < stores.offset[0]!;
    return StepColumns.sorted(sites, rowsFirst ? [rows, stores] : [stores, rows], pairs, details);
  }
}

/** A column, and what is behind its end in its memory. */
function extended<T extends Uint32Array | Int32Array | Float64Array>(column: T): T {
  const Column = column.constructor as new (buffer: ArrayBufferLike, offset: number) => T;
  return new Column(column.buffer, column.byteOffset);
}

/** From one row of a table to the next, bytes; 0 where there is one. */
export function rowBytes(table: RelocationPlace['table']): number {
  return table.count > 1 ? table.fileOffset(1) - table.fileOffset(0) : 0;
}

/** Two columns as one, where they are parts of one array, the first in front; null elsewhere. */
function besides<T extends Uint32Array | Int32Array | Float64Array>(
  first: T,
  count: number,
  second: T,
  more: number,
): T | null {
  if (first.buffer !== second.buffer || first.byteOffset > second.byteOffset) return null;
  const gap = (second.byteOffset - first.byteOffset) / first.BYTES_PER_ELEMENT;
  const Column = first.constructor as new (buffer: ArrayBufferLike, offset: number, length: number) => T;
  const both = new Column(first.buffer, first.byteOffset, gap + more);
  both.copyWithin(count, gap, gap + more);
  return both.subarray(0, count + more) as T;
}

function isAscending(numbers: FilePositions): boolean {
  for (let i = 1; i < numbers.length; i++) if (numbers[i]! < numbers[i - 1]!) return false;
  return true;
}

/**
 * The order by position of two lists one behind the other, of which each mostly is in order; what
 * is at one position stays as it is.
 */
function orderOf(offset: FilePositions, split: number): Uint32Array {
  const order = Uint32Array.from(offset.keys());
  if (!isAscending(offset.subarray(0, split)) || !isAscending(offset.subarray(split))) {
    return order.sort((a, b) => offset[a]! - offset[b]!);
  }
  let [first, second] = [0, split];
  for (let i = 0; i < order.length; i++) {
    const isFirst = second === offset.length || (first < split && offset[first]! <= offset[second]!);
    order[i] = isFirst ? first++ : second++;
  }
  return order;
}

/** The steps of a plan. */
export class StepColumns {
  private made: readonly Step[] | undefined;
  /** What is behind the columns in their memory is no steps of another plan. */
  private isRestFree = true;

  private constructor(
    private readonly sites: Sites,
    readonly edits: EditColumns,
    private readonly details: readonly Detail[],
    private readonly columns: Columns,
  ) {}

  private get fileBytes(): number {
    return this.sites.program.image.bytes.length;
  }

  static sorted(
    sites: Sites,
    lists: readonly GrowingSteps[],
    pairs: BytePairs,
    details: readonly Detail[],
    /** Of the steps in front of the first that may be out of order. */
    split = lists[0]!.count,
  ): StepColumns {
    const count = lists.reduce((sum, each) => sum + each.count, 0);
    const joined = <K extends (typeof COLUMNS)[number]>(key: K): GrowingSteps[K] => {
      const first = lists[0]![key];
      const [, second] = lists;
      if (second === undefined) return first.subarray(0, count) as GrowingSteps[K];
      const together = besides(first, lists[0]!.count, second[key], second.count);
      if (together !== null) return together;
      const column = new (first.constructor as new (length: number) => GrowingSteps[K])(count);
      let at = 0;
      for (const list of lists) {
        column.set(list[key].subarray(0, list.count), at);
        at += list.count;
      }
      return column;
    };
    const edits = new EditColumns(count, joined('offset'), joined('pair'), pairs);
    const columns = { site: joined('site'), detail: joined('detail') };
    const steps = new StepColumns(sites, edits, details, columns);
    return isAscending(edits.offset) ? steps : steps.picked(orderOf(edits.offset, split));
  }

  /** The steps of an order. */
  private picked(order: Uint32Array): StepColumns {
    const { edits, columns } = this;
    const offset = filePositions(order.length, this.fileBytes);
    for (let i = 0; i < order.length; i++) offset[i] = edits.offset[order[i]!]!;
    const pair = Uint32Array.from(order, (i) => edits.pair[i]!);
    return new StepColumns(this.sites, new EditColumns(order.length, offset, pair, edits.pairs), this.details, {
      site: Int32Array.from(order, (i) => columns.site[i]!),
      detail: Uint32Array.from(order, (i) => columns.detail[i]!),
    });
  }

  /** Without the steps of some sites. */
  without(sites: ReadonlyMap<SiteIndex, unknown>): StepColumns {
    if (sites.size === 0) return this;
    return this.picked(Uint32Array.from(this.columns.site.keys()).filter((i) => !sites.has(this.columns.site[i]!)));
  }

  /** With steps that no site has, each as an object. */
  with(more: readonly Step[]): StepColumns {
    const { pairs } = this.edits;
    const all = new GrowingSteps(0, this.fileBytes);
    all.take(this.edits, this.columns, this.isRestFree);
    this.isRestFree = false;
    const details = [...this.details];
    for (const step of more) {
      const detail = details.push({ kind: 'step', step }) - 1;
      all.push(step.site, step.fileOffset, pairs.add(step.before, 0, step.after), detail);
    }
    return StepColumns.sorted(this.sites, [all], pairs, details, this.count);
  }

  get count(): number {
    return this.edits.count;
  }

  siteOf(i: number): SiteIndex {
    return this.columns.site[i]!;
  }

  /** A step as an object. */
  at(i: number): Step {
    const { sites, edits, columns } = this;
    const detail = this.details[columns.detail[i]!]!;
    if (detail.kind === 'step') return detail.step;
    const { program } = sites;
    const site = columns.site[i]!;
    const { before, after } = edits.pairs.of(edits.pair[i]!);
    const fileOffset = edits.offset[i]!;
    if (detail.kind === 'store') {
      const range = sites.codeRange(site)!;
      const address = range.address + BigInt(fileOffset - range.fileOffset);
      const { rule } = detail;
      return { kind: 'store', site, section: range.name, address, fileOffset, before, after, rule };
    }
    const { table, becomes } = detail;
    const row = (fileOffset - program.image.wordBytes - table.fileOffset(0)) / (rowBytes(table) || 1);
    const section = program.image.sections[table.section]?.name ?? '';
    const address = table.offset[row]!;
    const symbol = program.labelOf(table.symbols, table.symbol[row]!);
    const about = { section, row, type: table.type[row]!, becomes, symbol };
    return { kind: 'reloc', site, ...about, address, fileOffset, before, after, rule: 'F-2' };
  }

  /** All of them as objects, made when they are first asked for. */
  get steps(): readonly Step[] {
    this.made ??= Array.from({ length: this.count }, (_, i) => this.at(i));
    return this.made;
  }
}

const columnsOf = new WeakMap<Plan, StepColumns>();

/** A plan whose steps are made when they are read. */
export function planOf(columns: StepColumns, rest: Omit<Plan, 'steps'>): Plan {
  const plan: Plan = {
    ...rest,
    get steps() {
      return columns.steps;
    },
  };
  columnsOf.set(plan, columns);
  return plan;
}

/** A plan with the steps of another one, and more. */
export function planWith(plan: Plan, more: readonly Step[], rest: Omit<Plan, 'steps'>): Plan {
  const columns = columnsOf.get(plan);
  if (columns !== undefined) return planOf(columns.with(more), rest);
  return { ...rest, steps: [...plan.steps, ...more].sort((a, b) => a.fileOffset - b.fileOffset) };
}

/** Nonzero for each of so many sites that a step of a plan is about. */
export function sitesWritten(plan: Plan, count: number): Uint8Array {
  const written = new Uint8Array(count);
  const columns = columnsOf.get(plan);
  if (columns === undefined) for (const { site } of plan.steps) written[site] = 1;
  else for (let i = 0; i < columns.count; i++) written[columns.siteOf(i)] = 1;
  return written;
}

/** How many steps a plan has. */
export function stepCount(plan: Plan): number {
  return columnsOf.get(plan)?.count ?? plan.steps.length;
}

/** Whether a step of a plan is such a one. */
export function someStep(plan: Plan, isSuch: (step: Step) => boolean): boolean {
  const columns = columnsOf.get(plan);
  if (columns === undefined) return plan.steps.some(isSuch);
  for (let i = 0; i < columns.count; i++) if (isSuch(columns.at(i))) return true;
  return false;
}

/** The step of a plan with that number. */
export function stepAt(plan: Plan, i: number): Step {
  return columnsOf.get(plan)?.at(i) ?? plan.steps[i]!;
}

/** What a plan writes, in the order of its steps. */
export function editsOf(plan: Plan): EditColumns {
  const columns = columnsOf.get(plan);
  if (columns !== undefined) return columns.edits;
  return EditColumns.of(plan.steps.map(({ fileOffset, before, after }) => ({ offset: fileOffset, before, after })));
}
