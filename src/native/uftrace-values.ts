/**
 * Values of calls in a data directory of uftrace: behind their record, each aligned to 4 bytes, all
 * of an event to 8; of text a length of 2 bytes in front. What they are stands once for each
 * function in `info`, in the words of its options; that is what the first record shows.
 */
import { alignUp } from '../bits.js';
import { titleOf } from './names.js';
import type { NativeFunction } from './objects.js';
import { floatOf, isFloat, nameOf, type RecordedValue, textOf } from './values.js';

const isText = ({ format }: Pick<RecordedValue, 'format'>): boolean => format === 's' || format === 'S';

/** `arg1/i32`, as options have it. */
function wordOf(value: RecordedValue): string {
  const { class: kind, format, bytes } = value;
  const name = nameOf(value);
  if (format === 's' || format === 'S') return `${name}/s`;
  if (format === 'c' || format === 'p') return `${name}/${format}`;
  if (kind === 'fparg') return `${name}/${8 * bytes}`;
  return `${name}/${format}${8 * bytes}`;
}

/** It knows none of 128 bits: the nearest of 64. */
function narrowed(value: RecordedValue): RecordedValue {
  if (value.bytes !== 16 || !isFloat(value)) return value;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, floatOf(value));
  return { ...value, format: 'f', bytes: 8, bits: view.getBigUint64(0) };
}

interface Shape {
  readonly name: string;
  readonly values: readonly RecordedValue[];
}

export class UftraceValues {
  private readonly calls: (Shape | undefined)[] = [];
  private readonly returns: (Shape | undefined)[] = [];

  /** The bytes behind a record. */
  encode(called: NativeFunction, recorded: readonly RecordedValue[]): Uint8Array {
    const values = recorded.map(narrowed);
    const shapes = values[0]?.class === 'retval' ? this.returns : this.calls;
    const shape = (shapes[called.index] ??= { name: titleOf(called), values });
    const parts: Uint8Array[] = [];
    let size = 0;
    for (const each of shape.values) {
      // One that had no room in this record is none: an empty one stands there.
      const value = values.find((one) => one.class === each.class && one.number === each.number);
      const part = isText(each) ? textBytes(value) : numberBytes(each.bytes, value?.bits ?? 0n);
      parts.push(part);
      size += part.length;
    }
    const out = new Uint8Array(alignUp(size, 8));
    let at = 0;
    for (const part of parts) {
      out.set(part, at);
      at += part.length;
    }
    return out;
  }

  /** What `info` says of them; none: there are no values. */
  lines(): readonly string[] {
    const listOf = (shapes: readonly (Shape | undefined)[]): string =>
      shapes
        .filter((each) => each !== undefined)
        .map(({ name, values }) => `${name}@${values.map(wordOf).join(',')}`)
        .join(';');
    const found = [`argspec:${listOf(this.calls)}`, `retspec:${listOf(this.returns)}`].filter(
      (line) => !line.endsWith(':'),
    );
    return found.length === 0 ? [] : [`argspec:lines=${found.length}`, ...found, 'pattern_type:glob'];
  }
}

function numberBytes(bytes: number, bits: bigint): Uint8Array {
  const out = new Uint8Array(alignUp(bytes, 4));
  for (let i = 0; i < bytes; i++) out[i] = Number((bits >> BigInt(8 * i)) & 0xffn);
  return out;
}

const encoder = new TextEncoder();

/** What could not be read is shown by its address, as uftrace does. */
function textBytes(value: RecordedValue | undefined): Uint8Array {
  const text = value?.text ?? encoder.encode(value === undefined ? '' : textOf(value).replaceAll('"', ''));
  const out = new Uint8Array(alignUp(2 + text.length, 4));
  out.set([text.length & 0xff, text.length >> 8]);
  out.set(text, 2);
  return out;
}
