/**
 * How datagrams of UDP travel, as far as programs ask for it and are told of it beside the bytes:
 * how many hops are left, the class of traffic, where they were sent to.
 *
 * Source: Linux, ip(7), ipv6(7), cmsg(3), uapi/linux/in.h, uapi/linux/in6.h; RFC 3542.
 */
import type { Endian } from '../units.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import { type Family, type InetName, isLoopback, LOOPBACK, type SocketName, type Travel } from './socket-names.js';

/** Levels of options and of control data. */
const LEVEL = { IP: 0, SOCKET: 1, IPV6: 41 } as const;
/** Control data of IP, which are options too, and options that ask for them. */
const IP = { TOS: 1, TTL: 2, PKTINFO: 8, RECVTTL: 12, RECVTOS: 13 } as const;
const IPV6 = {
  UNICAST_HOPS: 16,
  RECVPKTINFO: 49,
  PKTINFO: 50,
  RECVHOPLIMIT: 51,
  HOPLIMIT: 52,
  RECVTCLASS: 66,
  TCLASS: 67,
} as const;
const TIMESTAMP = 29;
/** Hops of what says nothing of them (`net.ipv4.ip_default_ttl`). */
const HOPS = 64;
/** The one interface, `lo`. */
const INTERFACE = 1;
const [INFO_BYTES, INFO6_BYTES] = [12, 20] as const;
const MAPPED = 0xffff;
const MICROSECOND = 1000n;
const SECOND = 1_000_000_000n;

/** What control data says of one datagram; null: what the options of its socket say. */
export interface Wanted {
  readonly hops: number | null;
  readonly trafficClass: number | null;
}
export const NOTHING_WANTED: Wanted = { hops: null, trafficClass: null };

/** A socket, as far as it says how what it sends travels, and what it is told. */
interface Travelling {
  readonly kind: { readonly family: Family };
  readonly hasMessages: boolean;
  readonly remote: SocketName | null;
  readonly options: ReadonlyMap<string, Uint8Array>;
}

/** One piece of control data. */
export interface ControlPiece {
  readonly level: number;
  readonly type: number;
  readonly bytes: Uint8Array;
}

/** A number that an option was set to; -1 is as if it was not. */
function optionOf(socket: Travelling, level: number, option: number, first: number, endian: Endian): number {
  const bytes = socket.options.get(`${level}:${option}`);
  if (!bytes) return first;
  const value = new DataView(bytes.buffer, bytes.byteOffset).getInt32(0, endian === 'little');
  return value === -1 ? first : value;
}

/** How a datagram travels that a socket sends; `name`: where to, null: to the other end. */
export function travelOf(socket: Travelling, name: InetName | null, wanted: Wanted, endian: Endian): Travel | null {
  const to = name ?? socket.remote;
  if (to?.family !== 'inet') return null;
  const option = (level: number, number: number, first: number): number =>
    optionOf(socket, level, number, first, endian);
  const [hops, trafficClass] = to.six
    ? [option(LEVEL.IPV6, IPV6.UNICAST_HOPS, HOPS), option(LEVEL.IPV6, IPV6.TCLASS, 0)]
    : [option(LEVEL.IP, IP.TTL, HOPS), option(LEVEL.IP, IP.TOS, 0)];
  return {
    to: { ...to, address: to.address === 0 ? LOOPBACK : to.address },
    hops: wanted.hops ?? hops,
    trafficClass: wanted.trafficClass ?? trafficClass,
  };
}

/**
 * What a piece of control data wants of a datagram that a socket sends, beside what others do.
 * @returns null: nothing is known of it
 */
export function wantedBy(
  { level, type, bytes }: ControlPiece,
  { kind }: Pick<Travelling, 'kind'>,
  before: Wanted,
  endian: Endian,
): Wanted | Errno | null {
  // Data for another protocol is passed over.
  if (level !== (kind.family === 'inet6' ? LEVEL.IPV6 : LEVEL.IP)) return before;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const value = bytes.length === 4 ? view.getInt32(0, endian === 'little') : null;
  if (level === LEVEL.IPV6) {
    const isKnown = type === IPV6.HOPLIMIT || type === IPV6.TCLASS;
    if (isKnown && (value === null || value < -1 || value > 255)) return 'EINVAL';
    if (type === IPV6.HOPLIMIT) return { ...before, hops: value === -1 ? null : value };
    if (type === IPV6.TCLASS) return { ...before, trafficClass: value === -1 ? 0 : value };
    if (type !== IPV6.PKTINFO) return null;
    if (bytes.length < INFO6_BYTES) return 'EINVAL';
    const words = [0, 4, 8, 12].map((at) => view.getUint32(at));
    const isOwn = words.slice(0, 3).every((each) => each === 0) && words[3]! <= 1;
    if (!isOwn) return 'EINVAL';
    const at = view.getUint32(16, endian === 'little');
    return at === 0 || at === INTERFACE ? before : 'ENODEV';
  }
  switch (type) {
    case IP.TTL:
      return value === null || value < 1 || value > 255 ? 'EINVAL' : { ...before, hops: value };
    case IP.TOS: {
      const service = bytes.length === 1 ? bytes[0]! : value;
      return service === null || service < 0 || service > 255 ? 'EINVAL' : { ...before, trafficClass: service };
    }
    case IP.PKTINFO: {
      if (bytes.length !== INFO_BYTES) return 'EINVAL';
      const [at, source] = [view.getUint32(0, endian === 'little'), view.getUint32(4)];
      return at <= INTERFACE && (source === 0 || isLoopback(source)) ? before : null;
    }
    default:
      return null;
  }
}

/** An address as IPv6 writes it, and the interface behind it. */
function info6(name: InetName, endian: Endian): Uint8Array {
  const bytes = new Uint8Array(INFO6_BYTES);
  if (!name.six) putNumber(bytes, 8, 4, MAPPED, 'big');
  putNumber(bytes, 12, 4, name.six ? 1 : name.address, 'big');
  putNumber(bytes, 16, 4, INTERFACE, endian);
  return bytes;
}

function info4(name: InetName, endian: Endian): Uint8Array {
  const bytes = new Uint8Array(INFO_BYTES);
  putNumber(bytes, 0, 4, INTERFACE, endian);
  for (const at of [4, 8]) putNumber(bytes, at, 4, name.address, 'big');
  return bytes;
}

/** What a socket has asked to be told of a datagram; `now`: nanoseconds since 1970. */
export function toldOf(
  socket: Travelling,
  travel: Travel | null,
  { now, wordBytes, endian }: { readonly now: bigint; readonly wordBytes: 4 | 8; readonly endian: Endian },
): readonly ControlPiece[] {
  const asks = (level: number, option: number): boolean => optionOf(socket, level, option, 0, endian) !== 0;
  const number = (value: number, size = 4): Uint8Array => {
    const bytes = new Uint8Array(size);
    putNumber(bytes, 0, size, value, endian);
    return bytes;
  };
  const out: ControlPiece[] = [];
  if (socket.hasMessages && asks(LEVEL.SOCKET, TIMESTAMP)) {
    const bytes = new Uint8Array(2 * wordBytes);
    putNumber(bytes, 0, wordBytes, now / SECOND, endian);
    putNumber(bytes, wordBytes, wordBytes, (now % SECOND) / MICROSECOND, endian);
    out.push({ level: LEVEL.SOCKET, type: TIMESTAMP, bytes });
  }
  if (!travel) return out;
  const { to, hops, trafficClass } = travel;
  const isSix = socket.kind.family === 'inet6';
  const tell = (level: number, option: number, type: number, make: () => Uint8Array): void => {
    if (asks(level, option)) out.push({ level, type, bytes: make() });
  };
  if (isSix) tell(LEVEL.IPV6, IPV6.RECVPKTINFO, IPV6.PKTINFO, () => info6(to, endian));
  if (to.six) {
    tell(LEVEL.IPV6, IPV6.RECVHOPLIMIT, IPV6.HOPLIMIT, () => number(hops));
    tell(LEVEL.IPV6, IPV6.RECVTCLASS, IPV6.TCLASS, () => number(trafficClass));
    return out;
  }
  tell(LEVEL.IP, IP.PKTINFO, IP.PKTINFO, () => info4(to, endian));
  tell(LEVEL.IP, IP.RECVTTL, IP.TTL, () => number(hops));
  tell(LEVEL.IP, IP.RECVTOS, IP.TOS, () => number(trafficClass, 1));
  return out;
}
