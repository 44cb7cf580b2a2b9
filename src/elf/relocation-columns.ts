/**
 * Between the bytes of a relocation table and its columns: what readers of its forms get and give.
 * Types only.
 */
import type { ByteView } from '../bytes.js';
import type { RelocationForm, SymbolTable } from './image.js';
import type { SectionIndex } from '../units.js';

/** A relocation table whose extents were checked against the file. */
export interface RelocationSource {
  readonly view: ByteView;
  readonly is64: boolean;
  readonly form: RelocationForm;
  /** Section that holds the table, -1 for one of the dynamic section. */
  readonly section: SectionIndex;
  readonly target: number;
  readonly what: string;
  readonly offset: number;
  readonly sizeBytes: number;
  readonly symbols: SymbolTable | null;
  /**
   * Numbers of symbols may lead nowhere: kernels link their start-up's relocations with a symbol
   * table that they throw away, and apply those only that name none.
   */
  readonly namesNobody?: boolean;
}

/** The rows of a table, one array a column. */
export interface Columns {
  readonly offset: BigUint64Array;
  readonly type: Uint32Array;
  readonly symbol: Uint32Array;
  readonly addend: BigInt64Array;
}
