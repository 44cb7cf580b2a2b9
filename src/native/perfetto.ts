/**
 * A trace as packets of Perfetto: a track for each thread, below one for its process. Messages are
 * encoded by a library, by the names of the published protos. Those of events are the same but for
 * the time: each is encoded once, and written with a time in front of it, which is the distance
 * from the event before it in a clock of the sequence.
 *
 * Categories are the files that functions are in; names, categories and places in sources are sent
 * once for each thread.
 */
import protobuf from 'protobufjs';
import { type Block, blockOf, ByteWriter, type ByteSink } from './byte-writer.js';
import { baseOf, perFunction, threadTitle, titleOf } from './names.js';
import type { NativeFunction } from './objects.js';
import { PERFETTO_PROTO } from './perfetto-proto.js';
import type { NativeTrace, TraceThread } from './trace.js';
import type { Values } from './tree.js';
import { floatOf, isFloat, jsonOf, nameOf, type RecordedValue } from './values.js';

/** A clock of our own, whose times are distances. */
const DISTANCES = 64;
const MONOTONIC = 3;
const CLEARED = 1;
const NEEDS_STATE = 2;
/** Tags of `Trace.packet`, which holds bytes, and of `TracePacket.timestamp`, a number. */
const PACKET_TAG = (1 << 3) | 2;
const TIME_TAG = 8 << 3;

type Fields = Readonly<Record<string, unknown>>;

const TracePacket = protobuf.parse(PERFETTO_PROTO).root.lookupType('perfetto.protos.TracePacket');

function encoded(fields: Fields): Uint8Array {
  const wrong = TracePacket.verify(fields);
  if (wrong !== null) throw new TypeError(wrong);
  return TracePacket.encode(TracePacket.create(fields)).finish();
}

const varintBytes = (value: number): number => {
  let count = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) count++;
  return count;
};

/** The event of a function, and its fields for those that have more. */
interface Begin {
  readonly block: Block;
  readonly fields: Fields;
}

/** A value by its name; what a number of JavaScript does not hold is text. */
function annotation(value: RecordedValue): Fields {
  const { format, bits } = value;
  const name = nameOf(value);
  const json = jsonOf(value);
  if (isFloat(value)) return { name, doubleValue: floatOf(value) };
  if (typeof json === 'number') return format === 'u' ? { name, uintValue: json } : { name, intValue: json };
  const isAddress = value.text === null && format !== 'c' && bits <= BigInt(Number.MAX_SAFE_INTEGER);
  return isAddress ? { name, pointerValue: Number(bits) } : { name, stringValue: json ?? '' };
}

/** Writes packets of one sequence: that of one thread. */
class Sequence {
  private last = 0;
  private readonly end: Block;
  private readonly begins: (Begin | undefined)[] = [];
  private readonly categories = new Set<number>();

  constructor(
    private readonly out: ByteWriter,
    private readonly id: number,
    private readonly categoryOf: (called: NativeFunction) => number,
  ) {
    this.end = this.event({ type: 2 });
  }

  /** A packet as it is. */
  packet(fields: Fields): void {
    const bytes = encoded({ trustedPacketSequenceId: this.id, ...fields });
    this.out.u8(PACKET_TAG);
    this.out.varint(bytes.length);
    this.out.text(bytes);
  }

  enter(called: NativeFunction, time: number, values: Values): void {
    const { block, fields } = (this.begins[called.index] ??= this.begin(called));
    this.timed(values === null ? block : this.event({ ...fields, debugAnnotations: values.map(annotation) }), time);
  }

  leave(time: number, values: Values): void {
    this.timed(values === null ? this.end : this.event({ type: 2, debugAnnotations: values.map(annotation) }), time);
  }

  private timed(rest: Block, time: number): void {
    const { out } = this;
    const distance = time - this.last;
    this.last = time;
    out.u8(PACKET_TAG);
    out.varint(rest.bytes.length + 1 + (distance < 128 ? 1 : varintBytes(distance)));
    out.u8(TIME_TAG);
    out.varint(distance);
    out.block(rest);
  }

  private event(trackEvent: Fields): Block {
    return blockOf(encoded({ trustedPacketSequenceId: this.id, sequenceFlags: NEEDS_STATE, trackEvent }));
  }

  /** The event of a function, whose names are sent first. */
  private begin(called: NativeFunction): Begin {
    const iid = called.index + 1;
    const category = this.categoryOf(called);
    const { source } = called;
    const place = source === null ? [] : [{ iid, fileName: source.file, lineNumber: source.line }];
    const eventCategories = this.categories.has(category) ? [] : [{ iid: category, name: baseOf(called.object) }];
    this.categories.add(category);
    const internedData = {
      eventNames: [{ iid, name: titleOf(called) }],
      ...(place.length > 0 ? { sourceLocations: place } : {}),
      ...(eventCategories.length > 0 ? { eventCategories } : {}),
    };
    this.packet({ sequenceFlags: NEEDS_STATE, internedData });
    const fields = {
      type: 1,
      nameIid: iid,
      categoryIids: [category],
      ...(place.length > 0 ? { sourceLocationIid: iid } : {}),
    };
    return { block: this.event(fields), fields };
  }
}

/** Numbers from 1 on, in order of first use. */
function numbers(): (name: string) => number {
  const known = new Map<string, number>();
  return (name) => {
    const number = known.get(name) ?? known.size + 1;
    known.set(name, number);
    return number;
  };
}

export function writePerfetto(trace: NativeTrace, sink: ByteSink): void {
  const out = new ByteWriter(sink);
  const track = numbers();
  const category = numbers();
  const categoryOf = perFunction(({ object }) => category(object));
  const origin = trace.clock.origin.nanoseconds;
  const named = new Set<number>();
  trace.byTask((thread) => {
    const sequence = new Sequence(out, thread.task + 1, categoryOf);
    begin(sequence, thread, track, origin, named);
    return {
      enter: (called, _depth, time, values = null) => {
        sequence.enter(called, time, values);
      },
      leave: (_called, _depth, time, _isExact, values = null) => {
        sequence.leave(time, values);
      },
    };
  });
  out.flush();
}

/** Clock, process and thread of a sequence. */
function begin(
  sequence: Sequence,
  thread: TraceThread,
  track: (name: string) => number,
  origin: bigint,
  named: Set<number>,
): void {
  const { process: pid, thread: tid, object } = thread.header;
  const uuid = track(`thread ${pid}.${tid}`);
  const parentUuid = track(`process ${pid}`);
  // Nanoseconds since the start of the machine are exact.
  const timestamp = Number(origin);
  sequence.packet({
    sequenceFlags: CLEARED,
    firstPacketOnSequence: true,
    clockSnapshot: {
      primaryTraceClock: MONOTONIC,
      clocks: [
        { clockId: DISTANCES, timestamp, isIncremental: true },
        { clockId: MONOTONIC, timestamp },
      ],
    },
    tracePacketDefaults: { timestampClockId: DISTANCES, trackEventDefaults: { trackUuid: uuid } },
  });
  if (!named.has(pid)) {
    named.add(pid);
    sequence.packet({ trackDescriptor: { uuid: parentUuid, process: { pid, processName: baseOf(object) } } });
  }
  const about = { pid, tid, threadName: threadTitle(thread) };
  sequence.packet({ trackDescriptor: { uuid, parentUuid, thread: about } });
}
