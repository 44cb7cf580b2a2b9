/**
 * Names of sockets, as programs give and get them: paths and names without a place in the tree
 * (AF_UNIX), addresses and ports (AF_INET, AF_INET6), ports for the kernel (AF_NETLINK).
 *
 * Source: Linux, unix(7), ip(7), ipv6(7), uapi/linux/un.h, uapi/linux/in.h, uapi/linux/in6.h.
 */
import type { Endian } from '../units.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';

/** The protocol, and the level of its options. */
export const UDPLITE = 136;

/** Address families. */
export const AF = { UNSPEC: 0, UNIX: 1, INET: 2, INET6: 10, NETLINK: 16 } as const;
export type Family = 'unix' | 'inet' | 'inet6' | 'netlink';
export const FAMILY_NUMBER = { unix: AF.UNIX, inet: AF.INET, inet6: AF.INET6, netlink: AF.NETLINK } as const;

export type SocketName =
  /** `path`: bytes as they were given; one that begins with a zero is in no tree. */
  | { readonly family: 'unix'; readonly path: Uint8Array }
  | InetName
  /** Port 0 is the kernel's. */
  | { readonly family: 'netlink'; readonly port: number; readonly groups: number };
/**
 * An address and a port. `six`: of IPv6, whose `address` is 0 for `::`, `LOOPBACK` for `::1`, and
 * else `ELSEWHERE`; an address of IPv4 in a name of IPv6 is one of IPv4.
 */
export interface InetName {
  readonly family: 'inet';
  readonly six: boolean;
  readonly address: number;
  readonly port: number;
}

/** How a datagram of UDP travels. */
export interface Travel {
  /** Where it was sent to. */
  readonly to: InetName;
  readonly hops: number;
  readonly trafficClass: number;
}

/** 127.0.0.1, and the network that it is of. */
export const LOOPBACK = 0x7f00_0001;
export const isLoopback = (address: number): boolean => address >>> 24 === 0x7f;
/** An address of IPv6 that is not the machine's. */
const ELSEWHERE = 1;

const UNIX_BYTES = 110;
const NETLINK_BYTES = 12;
const INET_BYTES = 16;
const INET6_BYTES = 28;
/** A name of IPv6 without its scope is one, too. */
const INET6_LEAST = 24;
/** The third word of an address of IPv4 in one of IPv6. */
const MAPPED = 0xffff;
/** Longest `struct sockaddr` that is looked at. */
export const NAME_BYTES = 128;

function familyOf(bytes: Uint8Array, endian: Endian): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint16(0, endian === 'little');
}

/** The name in `bytes`, which are as many as the program said. `unspecified`: AF_UNSPEC is one. */
export function parseName(bytes: Uint8Array, family: Family, endian: Endian): SocketName | 'unspecified' | Errno {
  if (bytes.length < 2) return 'EINVAL';
  const given = familyOf(bytes, endian);
  if (family === 'unix') {
    if (bytes.length > UNIX_BYTES || given !== AF.UNIX) return given === AF.UNSPEC ? 'unspecified' : 'EINVAL';
    const path = bytes.slice(2);
    // A path ends at its zero.
    const end = path[0] === 0 ? path.length : path.indexOf(0);
    return { family, path: end < 0 ? path : path.subarray(0, end) };
  }
  if (family === 'netlink') {
    if (bytes.length < NETLINK_BYTES || given !== AF.NETLINK) return 'EINVAL';
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const [port, groups] = [view.getUint32(4, endian === 'little'), view.getUint32(8, endian === 'little')];
    return { family, port, groups };
  }
  if (given === AF.UNSPEC) return 'unspecified';
  if (bytes.length < (family === 'inet6' ? INET6_LEAST : INET_BYTES)) return 'EINVAL';
  if (given !== FAMILY_NUMBER[family]) return 'EAFNOSUPPORT';
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const port = view.getUint16(2);
  if (family === 'inet') return { family: 'inet', six: false, address: view.getUint32(4), port };
  const words = [8, 12, 16, 20].map((at) => view.getUint32(at)) as [number, number, number, number];
  const [first, second, third, last] = words;
  if (first === 0 && second === 0 && third === MAPPED) return { family: 'inet', six: false, address: last, port };
  const isOwn = first === 0 && second === 0 && third === 0 && last < 2;
  return { family: 'inet', six: true, address: !isOwn ? ELSEWHERE : last === 0 ? 0 : LOOPBACK, port };
}

/** The bytes of an address and a port. */
function inetBytes(name: InetName | null, family: 'inet' | 'inet6', endian: Endian): Uint8Array {
  const bytes = new Uint8Array(family === 'inet' ? INET_BYTES : INET6_BYTES);
  putNumber(bytes, 0, 2, FAMILY_NUMBER[family], endian);
  if (!name) return bytes;
  putNumber(bytes, 2, 2, name.port, 'big');
  if (family === 'inet') putNumber(bytes, 4, 4, name.address, 'big');
  else if (name.six) putNumber(bytes, 20, 4, name.address === 0 ? 0 : 1, 'big');
  else {
    putNumber(bytes, 16, 4, MAPPED, 'big');
    putNumber(bytes, 20, 4, name.address, 'big');
  }
  return bytes;
}

/** The bytes of a name; null: of a socket that has none. */
export function nameBytes(name: SocketName | null, family: Family, endian: Endian): Uint8Array {
  if (family === 'netlink') {
    const bytes = new Uint8Array(NETLINK_BYTES);
    const values = name?.family === 'netlink' ? [name.port, name.groups] : [0, 0];
    putNumber(bytes, 0, 2, AF.NETLINK, endian);
    values.forEach((value, i) => {
      putNumber(bytes, 4 + 4 * i, 4, value, endian);
    });
    return bytes;
  }
  if (family !== 'unix') return inetBytes(name?.family === 'inet' ? name : null, family, endian);
  const path = name?.family === 'unix' ? name.path : new Uint8Array();
  const isPath = path.length > 0 && path[0] !== 0;
  const bytes = new Uint8Array(2 + path.length + Number(isPath));
  putNumber(bytes, 0, 2, AF.UNIX, endian);
  bytes.set(path, 2);
  return bytes;
}
