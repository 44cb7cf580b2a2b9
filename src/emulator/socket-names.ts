/**
 * Names of sockets: paths and names without a place in the tree (AF_UNIX), addresses and ports
 * (AF_INET), as programs give and get them.
 *
 * Source: Linux, unix(7), ip(7), uapi/linux/un.h, uapi/linux/in.h.
 */
import type { Endian } from '../units.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';

/** Address families. */
export const AF = { UNSPEC: 0, UNIX: 1, INET: 2 } as const;
export type Family = 'unix' | 'inet';

export type SocketName =
  /** `path`: bytes as they were given; one that begins with a zero is in no tree. */
  | { readonly family: 'unix'; readonly path: Uint8Array }
  | { readonly family: 'inet'; readonly address: number; readonly port: number };
export type InetName = Extract<SocketName, { family: 'inet' }>;

/** 127.0.0.1, and the network that it is of. */
export const LOOPBACK = 0x7f00_0001;
export const isLoopback = (address: number): boolean => address >>> 24 === 0x7f;

const UNIX_BYTES = 110;
const INET_BYTES = 16;
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
  if (given === AF.UNSPEC) return 'unspecified';
  if (bytes.length < INET_BYTES) return 'EINVAL';
  if (given !== AF.INET) return 'EAFNOSUPPORT';
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return { family, address: view.getUint32(4), port: view.getUint16(2) };
}

/** The bytes of a name; null: of a socket that has none. */
export function nameBytes(name: SocketName | null, family: Family, endian: Endian): Uint8Array {
  const isPath = name?.family === 'unix' && name.path.length > 0 && name.path[0] !== 0;
  const size = family === 'inet' ? INET_BYTES : 2 + (name?.family === 'unix' ? name.path.length : 0) + Number(isPath);
  const bytes = new Uint8Array(size);
  putNumber(bytes, 0, 2, family === 'inet' ? AF.INET : AF.UNIX, endian);
  if (name?.family === 'unix') bytes.set(name.path, 2);
  if (name?.family === 'inet') {
    putNumber(bytes, 2, 2, name.port, 'big');
    putNumber(bytes, 4, 4, name.address, 'big');
  }
  return bytes;
}
