/**
 * What sockets tell of network interfaces by `ioctl`: there is one, `lo`.
 *
 * Source: Linux, netdevice(7), uapi/linux/if.h, uapi/linux/sockios.h.
 */
import type { Answer, CallContext } from './call-context.js';
import { putNumber } from './files.js';
import { INTERFACE } from './netlink.js';
import { AF, LOOPBACK, nameBytes } from './socket-names.js';
import type { Socket } from './sockets.js';
import type { Address } from '../units.js';

const NAME_BYTES = 16;
const REQUEST = {
  NAME: 0x8910, LIST: 0x8912, FLAGS: 0x8913, ADDRESS: 0x8915, BROADCAST: 0x8919, MASK: 0x891b, METRIC: 0x891d, MTU: 0x8921, HARDWARE: 0x8927,
  INDEX: 0x8933, QUEUE: 0x8942,
} as const; // prettier-ignore
const TYPE_LOOPBACK = 772;

/** The answer to a request; null: it is none about interfaces. */
export function interfaceRequest(context: CallContext, socket: Socket, request: number, place: Address): Answer | null {
  if (!(Object.values(REQUEST) as number[]).includes(request)) return null;
  const { wordBytes, endian } = context;
  const address = (value: number): Uint8Array =>
    nameBytes({ family: 'inet', six: false, address: value, port: 0 }, 'inet', endian);
  const name = Uint8Array.from({ length: NAME_BYTES }, (_, i) => INTERFACE.name.charCodeAt(i) || 0);
  if (request === REQUEST.LIST) {
    if (socket.kind.family !== 'inet') return 'ENOTTY';
    const [length, list] = [context.loadNumber(place, 4), context.loadNumber(place + BigInt(wordBytes))];
    if (length === null || list === null) return 'EFAULT';
    const entry = new Uint8Array(NAME_BYTES + (wordBytes === 8 ? 24 : 16));
    entry.set(name);
    entry.set(address(LOOPBACK), NAME_BYTES);
    const fits = list === 0n || length >= BigInt(entry.length);
    if (list !== 0n && fits && !context.store(list, entry)) return 'EFAULT';
    return context.storeNumbers(place, [fits ? BigInt(entry.length) : 0n], 4) ? 0n : 'EFAULT';
  }
  const value = place + BigInt(NAME_BYTES);
  if (request === REQUEST.NAME) {
    const index = context.loadNumber(value, 4);
    if (index === null) return 'EFAULT';
    if (index !== BigInt(INTERFACE.index)) return 'ENODEV';
    return context.store(place, name) ? 0n : 'EFAULT';
  }
  const given = context.load(place, NAME_BYTES);
  if (!given) return 'EFAULT';
  const isOfAddress = request === REQUEST.ADDRESS || request === REQUEST.BROADCAST || request === REQUEST.MASK;
  if (isOfAddress && socket.kind.family !== 'inet') return 'ENOTTY';
  const end = given.indexOf(0);
  if (String.fromCharCode(...given.subarray(0, end < 0 ? NAME_BYTES : end)) !== INTERFACE.name) return 'ENODEV';
  return context.store(value, valueOf(request, address, endian)) ? 0n : 'EFAULT';
}

/** What stands behind the name. */
function valueOf(request: number, address: (value: number) => Uint8Array, endian: CallContext['endian']): Uint8Array {
  const number = (size: number, of: number): Uint8Array => {
    const bytes = new Uint8Array(size);
    putNumber(bytes, 0, size, of, endian);
    return bytes;
  };
  switch (request) {
    case REQUEST.FLAGS:
      return number(2, INTERFACE.flags);
    case REQUEST.ADDRESS:
      return address(LOOPBACK);
    case REQUEST.MASK:
      return address(0xff00_0000);
    case REQUEST.BROADCAST: {
      const none = address(0);
      putNumber(none, 0, 2, AF.INET, endian);
      return none;
    }
    case REQUEST.MTU:
      return number(4, INTERFACE.mtu);
    case REQUEST.INDEX:
      return number(4, INTERFACE.index);
    case REQUEST.QUEUE:
      return number(4, 1000);
    case REQUEST.HARDWARE: {
      const hardware = new Uint8Array(16);
      putNumber(hardware, 0, 2, TYPE_LOOPBACK, endian);
      return hardware;
    }
    default:
      return number(4, 0);
  }
}
