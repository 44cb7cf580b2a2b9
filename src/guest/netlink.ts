/**
 * What the kernel tells of networks by messages (AF_NETLINK, NETLINK_ROUTE): one interface, `lo`,
 * with its two addresses. Programs ask so for names of interfaces and for addresses (`getifaddrs`,
 * `if_nameindex`); a request for something else fails, which is said.
 *
 * Source: Linux, netlink(7), rtnetlink(7), uapi/linux/netlink.h, rtnetlink.h, if_link.h, if_addr.h.
 */
import type { Parcel } from './channels.js';
import { ERRNO, type Errno } from './errno.js';
import { putNumber } from './files.js';
import { AF, LOOPBACK } from './socket-names.js';
import { Socket, type SocketHome } from './sockets.js';
import type { Endian } from '../units.js';

/** The interface, as ioctls tell of it, too. */
export const INTERFACE = { name: 'lo', index: 1, flags: 0x49, mtu: 65_536 } as const;

const MESSAGE = { ERROR: 2, DONE: 3, NEWLINK: 16, GETLINK: 18, NEWADDR: 20, GETADDR: 22 } as const;
/** REQUEST, MULTI, ACK; ROOT and MATCH: all that there are. */
const FLAG = { REQUEST: 1, MULTI: 2, ACK: 4, DUMP: 0x300 } as const;
const HEADER_BYTES = 16;
/** Running, and a carrier is there. */
const LINK_FLAGS = 0x10000 | INTERFACE.flags;
const TYPE_LOOPBACK = 772;
/** Scope of addresses of the machine alone; they stay. */
const SCOPE_HOST = 254;
const PERMANENT = 0x80;
const STATISTICS = { words: 24, wideWords: 25 } as const;

interface Request {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly port: number;
  readonly family: number;
  /** Index of an interface, in a request for one; 0: none. */
  readonly index: number;
  /** The whole of it. */
  readonly bytes: Uint8Array;
}

/** Writes structures in the byte order of the program. */
class Writer {
  constructor(private readonly endian: Endian) {}

  /** Numbers of so many bytes each: pairs of size and value. */
  numbers(...fields: readonly (readonly [size: number, value: number])[]): Uint8Array {
    const bytes = new Uint8Array(fields.reduce((sum, [size]) => sum + size, 0));
    let at = 0;
    for (const [size, value] of fields) {
      putNumber(bytes, at, size, value, this.endian);
      at += size;
    }
    return bytes;
  }

  attribute(type: number, value: Uint8Array): Uint8Array {
    return aligned([this.numbers([2, 4 + value.length], [2, type]), value]);
  }

  text(type: number, value: string): Uint8Array {
    return this.attribute(
      type,
      Uint8Array.from(`${value}\0`, (each) => each.charCodeAt(0)),
    );
  }

  word(type: number, value: number): Uint8Array {
    return this.attribute(type, this.numbers([4, value]));
  }

  message(
    type: number,
    flags: number,
    { sequence, port }: Pick<Request, 'sequence' | 'port'>,
    body: Uint8Array,
  ): Uint8Array {
    // prettier-ignore
    const header = this.numbers([4, HEADER_BYTES + body.length], [2, type], [2, flags], [4, sequence], [4, port]);
    return aligned([header, body]);
  }
}

/** Parts one after the other, filled to a multiple of 4. */
function aligned(parts: readonly Uint8Array[]): Uint8Array {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const out = new Uint8Array(Math.ceil(size / 4) * 4);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** The interface: name, queue, sizes, hardware addresses, counters. */
function link(to: Writer): Uint8Array {
  const zeros = (count: number): Uint8Array => new Uint8Array(count);
  return aligned([
    to.numbers([1, 0], [1, 0], [2, TYPE_LOOPBACK], [4, INTERFACE.index], [4, LINK_FLAGS], [4, 0]),
    to.text(3, INTERFACE.name),
    to.word(13, 1000),
    to.attribute(16, zeros(1)),
    to.attribute(17, zeros(1)),
    to.word(4, INTERFACE.mtu),
    to.text(6, 'noqueue'),
    to.attribute(1, zeros(6)),
    to.attribute(2, zeros(6)),
    to.attribute(23, zeros(8 * STATISTICS.wideWords)),
    to.attribute(7, zeros(4 * STATISTICS.words)),
  ]);
}

function address(to: Writer, family: number): Uint8Array {
  const isSix = family === AF.INET6;
  const bytes = new Uint8Array(isSix ? 16 : 4);
  putNumber(bytes, isSix ? 12 : 0, 4, isSix ? 1 : LOOPBACK, 'big');
  const head = to.numbers([1, family], [1, isSix ? 128 : 8], [1, PERMANENT], [1, SCOPE_HOST], [4, INTERFACE.index]);
  const lasts = to.attribute(6, to.numbers([4, 0xffff_ffff], [4, 0xffff_ffff], [4, 0], [4, 0]));
  const own = isSix
    ? [to.attribute(1, bytes)]
    : [to.attribute(1, bytes), to.attribute(2, bytes), to.text(3, INTERFACE.name)];
  return aligned([head, ...own, to.word(8, PERMANENT), lasts]);
}

/** What answers a request: bodies of messages; an error; null: nothing here knows it. */
function answersTo(
  { type, flags, family, index }: Request,
  to: Writer,
): readonly [number, Uint8Array][] | Errno | null {
  const isDump = (flags & FLAG.DUMP) !== 0;
  if (type === MESSAGE.GETLINK) {
    if (!isDump && index !== INTERFACE.index) return index === 0 ? 'EINVAL' : 'ENODEV';
    return [[MESSAGE.NEWLINK, link(to)]];
  }
  if (type !== MESSAGE.GETADDR || !isDump) return null;
  const families = [AF.INET, AF.INET6].filter((each) => family === AF.UNSPEC || family === each);
  return families.map((each) => [MESSAGE.NEWADDR, address(to, each)]);
}

/** A socket at whose other end is the kernel. */
export class NetlinkSocket extends Socket {
  constructor(
    flags: number,
    inode: number,
    network: SocketHome,
    process: number,
    private readonly endian: Endian,
    /** Called where a request is not served as Linux serves it. */
    private readonly onUnserved: () => void,
  ) {
    super({ family: 'netlink', type: 'datagram' }, flags, inode, network, process);
  }

  override send(bytes: Uint8Array, _parcel: Parcel): number | Errno | null {
    const { endian } = this;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const little = endian === 'little';
    for (let at = 0; at + HEADER_BYTES <= bytes.length;) {
      const length = view.getUint32(at, little);
      if (length < HEADER_BYTES || at + length > bytes.length) break;
      const read = (place: number, size: 1 | 4): number => {
        if (place + size > length) return 0;
        return size === 1 ? view.getUint8(at + place) : view.getUint32(at + place, little);
      };
      this.serve({
        type: view.getUint16(at + 4, little),
        flags: view.getUint16(at + 6, little),
        sequence: view.getUint32(at + 8, little),
        port: this.local?.family === 'netlink' ? this.local.port : 0,
        family: read(HEADER_BYTES, 1),
        index: read(HEADER_BYTES + 4, 4),
        bytes: bytes.slice(at, at + length),
      });
      at += Math.ceil(length / 4) * 4;
    }
    return bytes.length;
  }

  private serve(request: Request): void {
    if ((request.flags & FLAG.REQUEST) === 0 || request.type < HEADER_BYTES) return;
    const to = new Writer(this.endian);
    const isDump = (request.flags & FLAG.DUMP) !== 0;
    const answers = answersTo(request, to);
    if (answers === null) this.onUnserved();
    if (answers === null || typeof answers === 'string') {
      this.put(to.message(MESSAGE.ERROR, 0, request, this.failure(to, ERRNO[answers ?? 'EOPNOTSUPP'], request.bytes)));
      return;
    }
    const multi = isDump ? FLAG.MULTI : 0;
    this.put(aligned(answers.map(([type, body]) => to.message(type, multi, request, body))));
    if (isDump) this.put(to.message(MESSAGE.DONE, FLAG.MULTI, request, to.numbers([4, 0])));
    else if ((request.flags & FLAG.ACK) !== 0)
      this.put(to.message(MESSAGE.ERROR, 0x100, request, this.failure(to, 0, request.bytes.subarray(0, HEADER_BYTES))));
  }

  /** An error, 0 for none, with the request that it is about. */
  private failure(to: Writer, number: number, request: Uint8Array): Uint8Array {
    return aligned([to.numbers([4, -number >>> 0]), request]);
  }

  private put(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.inbox.put(bytes, { rights: [], process: 0, from: { local: { family: 'netlink', port: 0, groups: 0 } } });
  }
}
