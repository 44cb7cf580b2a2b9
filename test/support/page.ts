/** Pages of `elftrace html`, read as their script reads them. */
import { inflateRawSync } from 'node:zlib';
import { type Columns, unpackBlock } from '../../src/page/columns.js';
import type { PageHead } from '../../src/page/model.js';

/** A page with its data. */
export interface ReadPage {
  readonly html: string;
  readonly head: PageHead;
  readonly columns: Columns;
  /** Text of a column at a row. */
  readonly text: (column: string, row: number) => string;
  readonly address: (row: number) => bigint;
}

/** A page as its script sees it, by another unpacker. */
export function readPage(html: string): ReadPage {
  const packed = /<script type="application\/octet-stream" id="data">([A-Za-z0-9+/=]*)<\/script>/.exec(html)![1]!;
  const bytes = inflateRawSync(Buffer.from(packed, 'base64'));
  const { head, columns } = unpackBlock<PageHead>(new Uint8Array(bytes));
  const [low, high] = [columns['site.low'], columns['site.high']];
  return {
    html,
    head,
    columns,
    text: (column, row) => head.strings[columns[column]![row]!]!,
    address: (row) => (BigInt(high![row]!) << 32n) | BigInt(low![row]!),
  };
}
