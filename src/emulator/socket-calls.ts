/**
 * System calls on sockets. There are pairs of them and such as are connected to nothing
 * (`pipes.ts`), which have no names.
 *
 * Source: Linux, socketpair(2), unix(7), socket(7), sendmsg(2), asm/socket.h.
 */
import { type Answer, arg, type Arguments, type CallContext, int, type Service } from './call-context.js';
import { type DescriptorCalls, isReadable } from './descriptor-calls.js';
import { O } from './descriptions.js';
import type { Errno } from './errno.js';
import { LooseSocket, makeSocketPair, SocketEnd } from './pipes.js';
import type { Address } from '../units.js';

// prettier-ignore
export type SocketCallName =
  | 'connect' | 'getpeername' | 'getsockname' | 'getsockopt' | 'recv' | 'recvfrom' | 'recvmsg' | 'send' | 'sendmsg' | 'sendto' | 'setsockopt'
  | 'shutdown' | 'socket' | 'socketpair';

/** Of `socket` and `socketpair`. Source: Linux linux/socket.h, linux/net.h. */
const SOCKET = {
  UNIX: 1,
  STREAM: 1,
  DGRAM: 2,
  SEQPACKET: 5,
  TYPE: 0xf,
  MSG_NOSIGNAL: 0x4000,
  MSG_DONTWAIT: 0x40,
} as const;

const UNIX = 1n;
const SOL_SOCKET = 1;
/** Options; those from RCVLOWAT to PEERCRED have other numbers on PowerPC. */
const SO = { REUSEADDR: 2, TYPE: 3, ERROR: 4, BROADCAST: 6, SNDBUF: 7, RCVBUF: 8, KEEPALIVE: 9, LINGER: 13, REUSEPORT: 15, ACCEPTCONN: 30, SNDBUFFORCE: 32, RCVBUFFORCE: 33, PROTOCOL: 38, DOMAIN: 39 } as const; // prettier-ignore
/** Options that change nothing that a pair of sockets does. */
const WITHOUT_EFFECT: ReadonlySet<number> = new Set([SO.REUSEADDR, SO.BROADCAST, SO.SNDBUF, SO.RCVBUF, SO.KEEPALIVE, SO.REUSEPORT]); // prettier-ignore
/** What Linux gives a buffer (`net.core.wmem_default`). */
const BUFFER_BYTES = 212_992n;
const STREAM = 1n;
const MSG_CMSG_CLOEXEC = 0x4000_0000;

interface Message {
  /** There is a name, or room for control data. */
  readonly hasMore: boolean;
  /** Address and count of the pieces. */
  readonly pieces: Address;
  readonly count: bigint;
}

export class SocketCalls implements Readonly<Record<SocketCallName, Service>> {
  private readonly decoder = new TextDecoder();

  constructor(
    private readonly context: CallContext,
    private readonly descriptors: DescriptorCalls,
  ) {}

  // ------------------------------------------------------------------ making, sending, receiving

  private checkSocket(args: Arguments): Errno | null {
    const [family, type, protocol] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if (family !== SOCKET.UNIX) {
      this.context.deviate('sockets');
      return 'EAFNOSUPPORT';
    }
    if ((type & ~(SOCKET.TYPE | O.NONBLOCK | O.CLOEXEC)) !== 0) return 'EINVAL';
    const kind = type & SOCKET.TYPE;
    if (kind !== SOCKET.STREAM && kind !== SOCKET.DGRAM && kind !== SOCKET.SEQPACKET) return 'ESOCKTNOSUPPORT';
    return protocol === 0 || protocol === SOCKET.UNIX ? null : 'EPROTONOSUPPORT';
  }

  socketpair(args: Arguments): Answer {
    const wrong = this.checkSocket(args);
    if (wrong !== null) return wrong;
    const type = int(arg(args, 1));
    const inodes = [this.context.nextInode(), this.context.nextInode()] as const;
    const ends = makeSocketPair(type & O.NONBLOCK, (type & SOCKET.TYPE) !== SOCKET.STREAM, inodes);
    return this.descriptors.pair(ends, arg(args, 3), (type & O.CLOEXEC) !== 0);
  }

  socket(args: Arguments): Answer {
    const wrong = this.checkSocket(args);
    if (wrong !== null) return wrong;
    const type = int(arg(args, 1));
    const description = new LooseSocket(type & O.NONBLOCK, this.context.nextInode());
    const number = this.context.descriptors.add(description, (type & O.CLOEXEC) !== 0);
    return number < 0 ? 'EMFILE' : BigInt(number);
  }

  /** No process listens anywhere. `struct sockaddr_un`: the family in 2 bytes, a path. */
  connect(args: Arguments): Answer {
    const { context } = this;
    const description = context.descriptors.get(int(arg(args, 0)));
    if (!description) return 'EBADF';
    const size = int(arg(args, 2));
    if (size < 3 || size > 110) return 'EINVAL';
    if (!(description instanceof LooseSocket)) return description instanceof SocketEnd ? 'EISCONN' : 'ENOTSOCK';
    const bytes = context.load(arg(args, 1), size);
    if (!bytes) return 'EFAULT';
    if (context.loadNumber(arg(args, 1), 2) !== BigInt(SOCKET.UNIX)) return 'EINVAL';
    // A name that begins with a zero is in no tree.
    if (bytes[2] === 0) return 'ECONNREFUSED';
    const end = bytes.indexOf(0, 2);
    const text = this.decoder.decode(bytes.subarray(2, end < 0 ? size : end));
    const status = context.statusOfPath(text);
    return typeof status === 'string' ? status : 'ECONNREFUSED';
  }

  private connectedAt(number: number): SocketEnd | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    return description instanceof SocketEnd ? description : 'ENOTSOCK';
  }

  shutdown(args: Arguments): Answer {
    const socket = this.connectedAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const how = int(arg(args, 1));
    if (how < 0 || how > 2) return 'EINVAL';
    socket.shutdown(how);
    return 0n;
  }

  /** `send` and `recv` are these two without an address. */
  sendto(args: Arguments): Answer {
    const socket = this.connectedAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const flags = int(arg(args, 3));
    if ((flags & ~SOCKET.MSG_NOSIGNAL) !== 0 || arg(args, 4) !== 0n) this.context.deviate('messages');
    return this.descriptors.writeAll(socket, [[arg(args, 1), arg(args, 2)]], (flags & SOCKET.MSG_NOSIGNAL) !== 0);
  }

  send(args: Arguments): Answer {
    return this.sendto(args.slice(0, 4));
  }

  recv(args: Arguments): Answer {
    return this.recvfrom(args.slice(0, 4));
  }

  recvfrom(args: Arguments): Answer {
    const socket = this.connectedAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    if (int(arg(args, 3)) !== 0 || arg(args, 4) !== 0n) this.context.deviate('messages');
    const [address, size] = [arg(args, 1), arg(args, 2)];
    return this.context.attempt(socket, isReadable(socket), () =>
      this.descriptors.tryRead(socket, address, size, null),
    );
  }

  // ---------------------------------------------------------------------------- names and options

  private socketAt(number: number): SocketEnd | LooseSocket | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    return description instanceof SocketEnd || description instanceof LooseSocket ? description : 'ENOTSOCK';
  }

  /** Stores bytes, of which there is room for as many as stand at `length`; how many there are. */
  private storeSized(place: Address, length: Address, bytes: Uint8Array): Answer {
    const { context } = this;
    const room = context.loadNumber(length, 4);
    if (room === null) return 'EFAULT';
    if (int(room) < 0) return 'EINVAL';
    const stored = bytes.subarray(0, Number(room));
    if (stored.length > 0 && !context.store(place, stored)) return 'EFAULT';
    return context.storeNumbers(length, [BigInt(bytes.length)], 4) ? 0n : 'EFAULT';
  }

  /** A family, and no path. */
  private get name(): Uint8Array {
    return Uint8Array.from(this.context.endian === 'little' ? [Number(UNIX), 0] : [0, Number(UNIX)]);
  }

  getsockname(args: Arguments): Answer {
    const socket = this.socketAt(int(arg(args, 0)));
    return typeof socket === 'string' ? socket : this.storeSized(arg(args, 1), arg(args, 2), this.name);
  }

  getpeername(args: Arguments): Answer {
    const socket = this.socketAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    if (socket instanceof LooseSocket) return 'ENOTCONN';
    return this.storeSized(arg(args, 1), arg(args, 2), this.name);
  }

  private option(socket: SocketEnd | LooseSocket, option: number): bigint | null {
    switch (option) {
      case SO.TYPE:
        return socket instanceof LooseSocket || socket.hasMessages ? null : STREAM;
      case SO.DOMAIN:
        return UNIX;
      case SO.SNDBUF:
      case SO.RCVBUF:
        return BUFFER_BYTES;
      case SO.ERROR:
      case SO.ACCEPTCONN:
      case SO.PROTOCOL:
      case SO.REUSEADDR:
      case SO.REUSEPORT:
      case SO.BROADCAST:
      case SO.KEEPALIVE:
        return 0n;
      default:
        return null;
    }
  }

  getsockopt(args: Arguments): Answer {
    const { context } = this;
    const socket = this.socketAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    if (int(arg(args, 1)) !== SOL_SOCKET) return 'EOPNOTSUPP';
    const value = this.option(socket, int(arg(args, 2)));
    if (value === null) {
      context.deviate('socket-options');
      return 'ENOPROTOOPT';
    }
    const room = context.loadNumber(arg(args, 4), 4);
    if (room === null) return 'EFAULT';
    if (int(room) < 0) return 'EINVAL';
    const size = Math.min(4, Number(room));
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setUint32(0, Number(value), context.endian === 'little');
    if (size > 0 && !context.store(arg(args, 3), bytes.subarray(0, size))) return 'EFAULT';
    return context.storeNumbers(arg(args, 4), [BigInt(size)], 4) ? 0n : 'EFAULT';
  }

  /** Options that would be asked for again are not kept, which is said. */
  setsockopt(args: Arguments): Answer {
    const { context } = this;
    const socket = this.socketAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    if (int(arg(args, 1)) !== SOL_SOCKET) return 'EOPNOTSUPP';
    const option = int(arg(args, 2));
    if (int(arg(args, 4)) < 4) return 'EINVAL';
    if (context.loadNumber(arg(args, 3), 4) === null) return 'EFAULT';
    context.deviate('socket-options');
    return WITHOUT_EFFECT.has(option) ? 0n : 'ENOPROTOOPT';
  }

  /** `struct msghdr`: a name and its size, pieces and their count, control data and its size. */
  private messageAt(address: Address): Message | Errno {
    const { context } = this;
    const word = BigInt(context.wordBytes);
    const [name, pieces, count, control] = [0n, 2n, 3n, 5n].map((i) => context.loadNumber(address + i * word));
    if (name === null || pieces === null || count === null || control === null) return 'EFAULT';
    return { hasMore: name !== 0n || control !== 0n, pieces: pieces ?? 0n, count: count ?? 0n };
  }

  sendmsg(args: Arguments): Answer {
    const socket = this.socketAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const flags = int(arg(args, 2));
    const message = this.messageAt(arg(args, 1));
    if (typeof message === 'string') return message;
    if (message.hasMore || (flags & ~SOCKET.MSG_NOSIGNAL) !== 0) this.context.deviate('messages');
    return this.descriptors.writePieces([arg(args, 0), message.pieces, message.count], null, (flags & SOCKET.MSG_NOSIGNAL) !== 0); // prettier-ignore
  }

  /** Nothing comes beside the bytes: sizes of name and control data are 0, and no flag is set. */
  recvmsg(args: Arguments): Answer {
    const { context } = this;
    const socket = this.socketAt(int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    if (socket instanceof LooseSocket) return 'EINVAL';
    const header = arg(args, 1);
    const word = BigInt(context.wordBytes);
    const message = this.messageAt(header);
    if (typeof message === 'string') return message;
    if (socket.hasMessages || (int(arg(args, 2)) & ~MSG_CMSG_CLOEXEC) !== 0) context.deviate('messages');
    if (!context.storeNumbers(header + word, [0n], 4) || !context.storeNumbers(header + 5n * word, [0n])) return 'EFAULT'; // prettier-ignore
    if (!context.storeNumbers(header + 6n * word, [0n], 4)) return 'EFAULT';
    return this.descriptors.readPieces([arg(args, 0), message.pieces, message.count], null);
  }
}
