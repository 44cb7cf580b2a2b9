/** What an instruction table comes to as plain numbers. Types only. */

/**
 * How the row of a word is found: some bits of the word choose a list of rows, of which the first
 * that matches is it.
 */
export interface DecoderData {
  /** shift, mask, place, shift, …: runs of bits that are put together to a number. */
  readonly key: readonly number[];
  /** Numbers of rows; those to be tried for key k are at starts[k] to starts[k + 1]. */
  readonly list: readonly number[];
  readonly starts: readonly number[];
}

/**
 * What the patterns of a table come to, as plain numbers: a new process takes 5 ms to parse the
 * patterns of one machine, for which it has executed nothing yet. The bundle brings them along
 * (`prebuilt.ts`).
 */
export interface TableData {
  /** name, then high, low, at of each slice: the fields of all rows, equal ones once. */
  readonly fields: readonly (readonly [name: string, ...slices: number[]])[];
  /** In the order of the table: bytes, mask, match, numbers of fields. */
  readonly rows: readonly (readonly number[])[];
  readonly decoders: { readonly 2: DecoderData; readonly 4: DecoderData };
}
