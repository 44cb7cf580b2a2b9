/**
 * Traces for timeline viewers: the JSON of Chrome's trace viewer, and the protobuf packets of
 * Perfetto. Their times are times: viewers print a unit of seconds behind them, and no field says
 * otherwise. A clock that counts instructions (or ticks) is written as the number that it is, one
 * instruction one unit of the file's `ts` or `timestamp`, and the names of the process and of every
 * track say what it counts, as does `otherData` of the JSON, which names no unit to display.
 *
 * Perfetto reads both. The packets are about a quarter of the size, because names are sent once,
 * and every number is exact. Source of the field numbers: Perfetto's `protos/perfetto/trace`
 * (trace_packet, track_event/track_event, track_event/track_descriptor,
 * track_event/process_descriptor, track_event/thread_descriptor, interned_data/interned_data).
 */
import type { TraceEvent, TraceHeader, TraceSink } from './events.js';
import { hex } from '../errors.js';
import type { TextSink } from './ndjson.js';

const PIECE = 0x1_0000;

function processName(header: TraceHeader): string {
  return header.clock === 'nanoseconds' ? header.image : `${header.image} (time is ${header.clock})`;
}

function trackName(cpu: number, header: TraceHeader): string {
  return header.clock === 'nanoseconds' ? `CPU ${cpu}` : `CPU ${cpu} (time is ${header.clock})`;
}

/** Title of an event that is no function. */
function pointName(event: TraceEvent): string {
  if (event.kind === 'entry' || event.kind === 'return') return event.function.name;
  return event.probe ? event.probe.event : `${event.kind}: ${event.function.name}`;
}

// ------------------------------------------------------------------------------------------ chrome

/** Nanoseconds as microseconds with three digits; anything else is the number that it is. */
function timestamp(time: number, { clock }: TraceHeader): string {
  if (clock !== 'nanoseconds') return String(time);
  return `${Math.floor(time / 1000)}.${String(time % 1000).padStart(3, '0')}`;
}

/**
 * An object with `traceEvents`: duration events B and E by thread, instants for what has no end.
 * One event a line.
 */
export function chromeWriter(write: TextSink, header: TraceHeader): TraceSink {
  const { process } = header;
  const about = {
    clock: header.clock,
    ...(header.clock === 'nanoseconds' ? {} : { time: `ts and durations are ${header.clock}, one each` }),
    source: header.source,
    image: header.image,
    ...(header.losses ?? {}),
  };
  const unit = header.clock === 'nanoseconds' ? '"displayTimeUnit":"ns",' : '';
  let text = `{${unit}"otherData":${JSON.stringify(about)},"traceEvents":[\n`;
  text += JSON.stringify({ ph: 'M', pid: process, name: 'process_name', args: { name: processName(header) } });
  const seen: boolean[] = [];
  const add = (line: string): void => {
    text += `,\n${line}`;
    if (text.length >= PIECE) {
      write(text);
      text = '';
    }
  };
  return {
    event(event) {
      const { cpu } = event;
      if (seen[cpu] !== true) {
        seen[cpu] = true;
        add(
          JSON.stringify({
            ph: 'M',
            pid: process,
            tid: cpu,
            name: 'thread_name',
            args: { name: trackName(cpu, header) },
          }),
        );
      }
      const where = `"pid":${process},"tid":${cpu},"ts":${timestamp(event.time, header)}`;
      const name = JSON.stringify(pointName(event));
      if (event.kind === 'return') {
        add(`{"ph":"E",${where},"name":${name}${event.unwound ? ',"args":{"unwound":true}' : ''}}`);
        return;
      }
      const fetched = event.kind === 'entry' ? undefined : event.probe?.arguments;
      const more = (fetched ?? []).map(({ name: key, value }) => `,${JSON.stringify(key)}:${JSON.stringify(value)}`);
      const args = `"args":{"parent":"${hex(event.parent)}"${more.join('')}}`;
      if (event.kind === 'entry' && header.nested) add(`{"ph":"B",${where},"name":${name},"cat":"function",${args}}`);
      else add(`{"ph":"i","s":"t",${where},"name":${name},"cat":"${event.kind}",${args}}`);
    },
    end() {
      write(`${text}\n]}\n`);
      text = '';
    },
  };
}

// ---------------------------------------------------------------------------------------- perfetto

/** Receives bytes; called again and again until the end of the run. */
export type ByteSink = (bytes: Uint8Array) => void;

const WIRE_VARINT = 0;
const WIRE_BYTES = 2;

/** Protobuf messages as lists of bytes. */
class Message {
  readonly bytes: number[] = [];

  private raw(value: number): void {
    let rest = value;
    while (rest >= 0x80) {
      this.bytes.push((rest % 0x80) | 0x80);
      rest = Math.floor(rest / 0x80);
    }
    this.bytes.push(rest);
  }

  /** An unsigned number up to 2^53. */
  number(field: number, value: number): this {
    this.raw(field * 8 + WIRE_VARINT);
    this.raw(value);
    return this;
  }

  text(field: number, value: string): this {
    return this.block(field, new TextEncoder().encode(value));
  }

  message(field: number, value: Message): this {
    return this.block(field, value.bytes);
  }

  private block(field: number, value: ArrayLike<number>): this {
    this.raw(field * 8 + WIRE_BYTES);
    this.raw(value.length);
    for (let i = 0; i < value.length; i++) this.bytes.push(value[i]!);
    return this;
  }
}

// Field numbers by message.
const TRACE = { packet: 1 } as const;
const PACKET = { timestamp: 8, sequence: 10, event: 11, interned: 12, flags: 13, descriptor: 60 } as const;
const EVENT = { categories: 22, nameId: 10, track: 11, type: 9 } as const;
const TRACK = { uuid: 1, process: 3, thread: 4, parent: 5 } as const;
const PROCESS = { pid: 1, name: 6 } as const;
const THREAD = { pid: 1, tid: 2, name: 5 } as const;
const INTERNED = { eventNames: 2 } as const;
const NAME = { id: 1, name: 2 } as const;
const SLICE_BEGIN = 1;
const SLICE_END = 2;
const INSTANT = 3;
const FLAG_CLEARED = 1;
const FLAG_NEEDS_STATE = 2;
/** All packets are of one writer. */
const SEQUENCE = 1;
/** Tracks need unique numbers that are not 0. */
const PROCESS_TRACK = 1;
const CPU_TRACK = 2;

/**
 * A stream of packets: a track for each CPU, slices for functions, instants for what has no end.
 */
export function perfettoWriter(write: ByteSink, header: TraceHeader): TraceSink {
  return new PacketStream(write, header);
}

const packet = (flags: number): Message => new Message().number(PACKET.sequence, SEQUENCE).number(PACKET.flags, flags);

class PacketStream implements TraceSink {
  /** Numbers of the names that were sent. */
  private readonly names = new Map<string, number>();
  /** CPUs whose tracks were sent. */
  private readonly seen: boolean[] = [];
  private pending: number[] = [];

  constructor(
    private readonly write: ByteSink,
    private readonly header: TraceHeader,
  ) {
    const about = new Message().number(PROCESS.pid, header.process).text(PROCESS.name, processName(header));
    const track = new Message().number(TRACK.uuid, PROCESS_TRACK).message(TRACK.process, about);
    this.send(packet(FLAG_CLEARED).message(PACKET.descriptor, track));
  }

  private send(sent: Message): void {
    for (const byte of new Message().message(TRACE.packet, sent).bytes) this.pending.push(byte);
    if (this.pending.length >= PIECE) this.flush();
  }

  private flush(): void {
    this.write(Uint8Array.from(this.pending));
    this.pending = [];
  }

  private sendTrack(cpu: number): void {
    const { header } = this;
    const thread = new Message()
      .number(THREAD.pid, header.process)
      .number(THREAD.tid, header.process + cpu)
      .text(THREAD.name, trackName(cpu, header));
    const track = new Message()
      .number(TRACK.uuid, CPU_TRACK + cpu)
      .number(TRACK.parent, PROCESS_TRACK)
      .message(TRACK.thread, thread);
    this.send(packet(FLAG_NEEDS_STATE).message(PACKET.descriptor, track));
  }

  /** The number of a name, which goes along with the packet that has it first. */
  private nameId(name: string, made: Message): number {
    const known = this.names.get(name);
    if (known !== undefined) return known;
    const id = this.names.size + 1;
    this.names.set(name, id);
    const entry = new Message().number(NAME.id, id).text(NAME.name, name);
    made.message(PACKET.interned, new Message().message(INTERNED.eventNames, entry));
    return id;
  }

  event(event: TraceEvent): void {
    const { cpu } = event;
    if (this.seen[cpu] !== true) {
      this.seen[cpu] = true;
      this.sendTrack(cpu);
    }
    const made = packet(FLAG_NEEDS_STATE).number(PACKET.timestamp, event.time);
    const body = new Message().number(EVENT.track, CPU_TRACK + cpu);
    if (event.kind === 'return') body.number(EVENT.type, SLICE_END);
    else {
      const id = this.nameId(pointName(event), made);
      const slice = event.kind === 'entry' && this.header.nested;
      body
        .number(EVENT.type, slice ? SLICE_BEGIN : INSTANT)
        .number(EVENT.nameId, id)
        .text(EVENT.categories, event.kind === 'entry' ? 'function' : event.kind);
    }
    this.send(made.message(PACKET.event, body));
  }

  end(): void {
    if (this.pending.length > 0) this.flush();
  }
}
