/**
 * System calls that make sockets, name them and connect them: within the run, and nowhere else
 * (`network.ts`). A machine without other networks than its own answers so.
 *
 * Source: Linux, socket(2), bind(2), listen(2), accept(2), connect(2), unix(7), ip(7), ipv6(7).
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import { deadlineOf, type DescriptorCalls, isTimed } from './descriptor-calls.js';
import { O } from './descriptions.js';
import type { Errno } from './errno.js';
import { EVENT } from './file-events.js';
import { NetlinkSocket } from './netlink.js';
import type { KnownProcess } from './processes.js';
import {
  AF,
  type InetName,
  isLoopback,
  LOOPBACK,
  NAME_BYTES,
  nameBytes,
  parseName,
  type SocketName,
  UDPLITE,
} from './socket-names.js';
import { join, Socket, socketAt, type SocketKind, type SocketType } from './sockets.js';
import type { Address } from '../units.js';
import { textOf } from '../bytes.js';

// prettier-ignore
export type SocketCallName =
  | 'accept' | 'accept4' | 'bind' | 'connect' | 'getpeername' | 'getsockname' | 'listen' | 'shutdown' | 'socket' | 'socketpair';

/** Of `socket` and `socketpair`. Source: Linux linux/net.h; equal on all targets. */
const TYPE_MASK = 0xf;
const TYPES: Readonly<Record<number, SocketType>> = { 1: 'stream', 2: 'datagram', 5: 'sequence' };
const RAW = 3;
/** The protocol of AF_NETLINK that tells of networks. */
const NETLINK_ROUTE = 0;
/** Protocols of AF_INET and AF_INET6 by the type that they have. */
const PROTOCOLS: Readonly<Record<SocketType, number>> = { stream: 6, datagram: 17, sequence: -1 };
/** Families above this number are none. */
const FAMILY_MOST = 46;
/** `net.core.somaxconn`. */
const BACKLOG_MOST = 4096;

/** Of permissions: who owns the place of a socket may send to it. */
const OWNER_WRITES = 0o200;

export class SocketCalls implements Readonly<Record<SocketCallName, Service>> {
  constructor(
    private readonly context: KnownProcess,
    private readonly descriptors: DescriptorCalls,
  ) {}

  // ---------------------------------------------------------------------------------------- making

  private kindOf(args: Arguments): SocketKind | Errno {
    const [family, type, protocol] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if ((type & ~(TYPE_MASK | O.NONBLOCK | O.CLOEXEC)) !== 0) return 'EINVAL';
    const number = type & TYPE_MASK;
    const kind = TYPES[number];
    if (family === AF.UNIX) {
      // SOCK_RAW is another name of datagrams there.
      const known = number === RAW ? 'datagram' : kind;
      if (protocol !== 0 && protocol !== AF.UNIX) return 'EPROTONOSUPPORT';
      return known ? { family: 'unix', type: known } : 'ESOCKTNOSUPPORT';
    }
    if (family === AF.INET || family === AF.INET6) {
      if (number === RAW) return 'EPERM';
      if (kind === undefined || kind === 'sequence') return 'ESOCKTNOSUPPORT';
      const isLite = kind === 'datagram' && protocol === UDPLITE;
      if (protocol !== 0 && protocol !== PROTOCOLS[kind] && !isLite) return 'EPROTONOSUPPORT';
      return { family: family === AF.INET ? 'inet' : 'inet6', type: kind, ...(isLite && { isLite }) };
    }
    if (family === AF.NETLINK) {
      if (number !== RAW && kind !== 'datagram') return 'ESOCKTNOSUPPORT';
      if (protocol === NETLINK_ROUTE) return { family: 'netlink', type: 'datagram' };
      this.context.deviate('sockets');
      return 'EPROTONOSUPPORT';
    }
    if (family > 0 && family < FAMILY_MOST) this.context.deviate('sockets');
    return 'EAFNOSUPPORT';
  }

  private make(kind: SocketKind, type: number): Socket {
    const { context } = this;
    if (kind.family === 'netlink') {
      return new NetlinkSocket(type & O.NONBLOCK, context.nextInode(), context.network, context.identity.id, context.endian, () => {
        context.deviate('netlink');
      }); // prettier-ignore
    }
    return new Socket(kind, type & O.NONBLOCK, context.nextInode(), context.network, context.identity.id);
  }

  socketpair(args: Arguments): Answer {
    const kind = this.kindOf(args);
    if (typeof kind === 'string') return kind;
    if (kind.family !== 'unix') return 'EOPNOTSUPP';
    if (!this.context.descriptors.hasRoom(2)) return 'EMFILE';
    const type = int(arg(args, 1));
    const ends = [this.make(kind, type), this.make(kind, type)] as const;
    join(...ends);
    return this.descriptors.pair(ends, arg(args, 3), (type & O.CLOEXEC) !== 0);
  }

  socket(args: Arguments): Answer {
    const kind = this.kindOf(args);
    if (typeof kind === 'string') return kind;
    if (!this.context.descriptors.hasRoom(1)) return 'EMFILE';
    const type = int(arg(args, 1));
    return BigInt(this.context.descriptors.add(this.make(kind, type), (type & O.CLOEXEC) !== 0));
  }

  // ----------------------------------------------------------------------------------------- names

  /** The name at an address. */
  nameAt(socket: Socket, address: Address, length: bigint): SocketName | 'unspecified' | Errno {
    const size = int(length);
    if (size < 0 || size > NAME_BYTES) return 'EINVAL';
    const bytes = this.context.load(address, size);
    return bytes ? parseName(bytes, socket.kind.family, this.context.endian) : 'EFAULT';
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

  private storeName(socket: Socket, name: SocketName | null, args: Arguments): Answer {
    return this.storeSized(arg(args, 1), arg(args, 2), nameBytes(name, socket.kind.family, this.context.endian));
  }

  getsockname(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    return this.storeName(socket, socket.local, args);
  }

  getpeername(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    // Who did not wait for a connection has it once the other side has.
    const isComing = socket.state === 'connecting' && socket.peer === null;
    const isConnected = socket.isUnix ? socket.peer !== null : socket.remote !== null && !isComing;
    if (!isConnected || (socket.hasEnd && socket.isShut && !socket.isUnix)) return 'ENOTCONN';
    return this.storeName(socket, socket.remote, args);
  }

  bind(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const name = this.nameAt(socket, arg(args, 1), arg(args, 2));
    if (typeof name === 'string' && name !== 'unspecified') return name;
    // A place in the tree is made first, whatever name the socket has.
    const isPlace = name !== 'unspecified' && name.family === 'unix' && name.path.length > 0 && name.path[0] !== 0;
    if (socket.local && !isPlace) return 'EINVAL';
    if (name === 'unspecified') return socket.isUnix ? 'EINVAL' : 'EAFNOSUPPORT';
    if (name.family === 'inet') return this.context.network.bindPort(socket, name) ?? 0n;
    if (name.family === 'netlink') return this.context.network.bindNetlink(socket, name.port, name.groups) ?? 0n;
    return this.bindPath(socket, name.path) ?? 0n;
  }

  private bindPath(socket: Socket, path: Uint8Array): Errno | null {
    const { context } = this;
    const { network, paths } = context;
    if (path.length === 0) return network.bindNameless(socket, network.freeName());
    if (path[0] === 0) return network.bindNameless(socket, path);
    const changes = paths.changes();
    if (typeof changes === 'string') return changes;
    const place = paths.nodePath(textOf(path));
    if (typeof place === 'string') return place;
    const status = paths.status(place.path, false);
    if (status !== 'ENOENT') return typeof status === 'string' ? status : 'EADDRINUSE';
    if (socket.local) return 'EINVAL';
    const permissions = 0o777 & ~paths.mask;
    const node = { socket, pipe: null, inode: context.nextInode(), permissions };
    const wrong = paths.refusedAt(place.path) ?? network.addNode(place.path, node);
    if (wrong !== null) return wrong;
    socket.local = { family: 'unix', path };
    context.files.nodeChanged(place.path, EVENT.CREATE);
    return null;
  }

  /** The socket of AF_UNIX that a name leads to. */
  private socketNamed(path: Uint8Array): Socket | Errno {
    const { network, paths } = this.context;
    if (path[0] === 0) return network.nameless(path) ?? 'ECONNREFUSED';
    if (path.length === 0) return 'ECONNREFUSED';
    const place = paths.nodePath(textOf(path));
    if (typeof place === 'string') return place;
    const node = network.nodeAt(place.path);
    const status = node ?? paths.status(place.path, true);
    if (typeof status === 'string') return status;
    return (status.permissions & OWNER_WRITES) === 0 ? 'EACCES' : (node?.socket ?? 'ECONNREFUSED');
  }

  /** Where a datagram to a name goes; null: no socket is there, which is not said. */
  destination(socket: Socket, address: Address, length: bigint): Socket | Errno | null {
    const name = this.nameAt(socket, address, length);
    if (name === 'unspecified') return 'EINVAL';
    if (typeof name === 'string') return name;
    if (name.family === 'inet') {
      if (name.port === 0) return 'EINVAL';
      if (name.address !== 0 && !isLoopback(name.address)) return 'ENETUNREACH';
      return this.context.network.bindAny(socket, name.six) ?? this.context.network.listenerOf(socket.kind, name);
    }
    // The kernel is at the other end.
    if (name.family === 'netlink') return name.port === 0 ? socket : 'ECONNREFUSED';
    const target = this.socketNamed(name.path);
    if (typeof target === 'string') return target;
    return target.kind.type === socket.kind.type ? target : 'EPROTOTYPE';
  }

  // ------------------------------------------------------------------------------------ connecting

  listen(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    if (socket.kind.type === 'datagram') return 'EOPNOTSUPP';
    if (socket.state !== 'new' && socket.state !== 'listening') return 'EINVAL';
    if (socket.isUnix && !socket.local) return 'EINVAL';
    if (!socket.local) {
      const wrong = this.context.network.bindPort(socket, {
        family: 'inet',
        six: socket.kind.family === 'inet6',
        address: 0,
        port: 0,
      });
      if (wrong !== null) return wrong;
    }
    const wanted = Number(BigInt.asUintN(32, arg(args, 1)));
    socket.backlog = Math.min(wanted, BACKLOG_MOST);
    socket.state = 'listening';
    socket.process = this.context.identity.id;
    return 0n;
  }

  private acceptWith(args: Arguments, flags: number): Answer {
    const { context } = this;
    const { descriptors } = context;
    if ((flags & ~(O.NONBLOCK | O.CLOEXEC)) !== 0) return 'EINVAL';
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    if (socket.kind.type === 'datagram') return 'EOPNOTSUPP';
    if (socket.state !== 'listening') return 'EINVAL';
    const attempt = (): bigint | Errno | null => {
      if (socket.state !== 'listening') return 'EINVAL';
      if (!descriptors.hasRoom(1)) return 'EMFILE';
      const next = socket.accept();
      if (!next) return null;
      next.flags |= flags & O.NONBLOCK;
      const number = descriptors.add(next, (flags & O.CLOEXEC) !== 0);
      const stored = arg(args, 1) === 0n ? 0n : this.storeName(next, next.remote, args);
      if (typeof stored !== 'string') return BigInt(number);
      descriptors.close(number);
      return stored;
    };
    const isReady = (): boolean => socket.waiting.length > 0 || socket.state !== 'listening';
    const patience = { deadline: deadlineOf(context, socket, 'receive'), isBrittle: isTimed(socket, 'receive') };
    return context.attempt(socket, isReady, attempt, patience);
  }

  accept(args: Arguments): Answer {
    return this.acceptWith(args, 0);
  }

  accept4(args: Arguments): Answer {
    return this.acceptWith(args, int(arg(args, 3)));
  }

  connect(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const name = this.nameAt(socket, arg(args, 1), arg(args, 2));
    if (typeof name === 'string' && name !== 'unspecified') return name;
    if (socket.kind.type === 'datagram') return this.connectDatagrams(socket, name);
    if (name === 'unspecified') {
      if (!socket.isUnix && socket.state !== 'new') this.context.deviate('disconnect');
      return socket.isUnix ? 'EINVAL' : 0n;
    }
    if (socket.state === 'connecting') return this.connected(socket);
    if (socket.state === 'connected') return 'EISCONN';
    if (socket.state === 'listening') return socket.isUnix ? 'EINVAL' : 'EISCONN';
    if (name.family === 'netlink') return 'EINVAL';
    return name.family === 'unix' ? this.connectUnix(socket, name.path) : this.connectTcp(socket, name);
  }

  /** The answer about a connection that a call did not wait for. */
  private connected(socket: Socket): Answer {
    const error = socket.takeError();
    socket.state = error || !socket.peer ? 'new' : 'connected';
    return error ?? 0n;
  }

  private connectDatagrams(socket: Socket, name: SocketName | 'unspecified'): Answer {
    if (name === 'unspecified') {
      Object.assign(socket, { peer: null, remote: null, state: 'new' });
      return 0n;
    }
    if (name.family === 'unix') {
      const target = this.socketNamed(name.path);
      if (typeof target === 'string') return target;
      if (target.kind.type !== socket.kind.type) return 'EPROTOTYPE';
      if (target.peer !== null && target.peer !== socket) return 'EPERM';
      socket.peer = target;
    } else if (name.family === 'netlink') {
      if (!socket.local) this.context.network.bindNetlink(socket, 0, 0);
    } else if (name.address !== 0 && !isLoopback(name.address)) return 'ENETUNREACH';
    else {
      const wrong = this.context.network.bindAny(socket, name.six);
      if (wrong !== null) return wrong;
      settle(socket, name.six);
    }
    socket.remote = name;
    socket.state = 'connected';
    return 0n;
  }

  private connectUnix(socket: Socket, path: Uint8Array): Answer {
    const { context } = this;
    const attempt = (): bigint | Errno | null => {
      const target = this.socketNamed(path);
      if (typeof target === 'string') return target;
      if (target.kind.type !== socket.kind.type) return 'EPROTOTYPE';
      if (target.state !== 'listening' || target.hasEnd) return 'ECONNREFUSED';
      if (!target.hasPlace) return null;
      Socket.connect(socket, target, context.nextInode());
      return 0n;
    };
    const isReady = (): boolean => {
      const target = this.socketNamed(path);
      return typeof target === 'string' || target.state !== 'listening' || target.hasPlace;
    };
    return context.attempt(socket, isReady, attempt, { deadline: deadlineOf(context, socket, 'send') });
  }

  private connectTcp(socket: Socket, { six, address, port }: InetName): Answer {
    const { context } = this;
    const { network } = context;
    if (address !== 0 && !isLoopback(address)) return 'ENETUNREACH';
    const wrong = network.bindAny(socket, six);
    if (wrong !== null) return wrong;
    const remote = { family: 'inet', six, address: address === 0 ? LOOPBACK : address, port } as const;
    settle(socket, six);
    const attempt = (): bigint | Errno | null => {
      const target = network.listenerOf(socket.kind, remote);
      if (!target) return 'ECONNREFUSED';
      if (!target.hasPlace) return null;
      socket.remote = remote;
      Socket.connect(socket, target, context.nextInode());
      return 0n;
    };
    if (socket.isNonBlocking) {
      // It is made behind the answer, which is when the call lets go of the socket.
      const answer = attempt();
      socket.state = 'connecting';
      socket.remote = remote;
      if (answer === null) context.deviate('connect-queue');
      if (answer !== 0n) socket.fail(typeof answer === 'string' ? answer : 'ETIMEDOUT');
      return 'EINPROGRESS';
    }
    const isReady = (): boolean => network.listenerOf(socket.kind, remote)?.hasPlace !== false;
    return context.attempt(socket, isReady, attempt, { deadline: deadlineOf(context, socket, 'send') });
  }

  shutdown(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const how = int(arg(args, 1));
    if (how < 0 || how > 2) return 'EINVAL';
    if (socket.kind.family === 'netlink') return 'EOPNOTSUPP';
    if (!socket.isUnix && socket.state === 'new') return 'ENOTCONN';
    if (!socket.isUnix && socket.state === 'listening') {
      if (how === 1) return 0n;
      for (let next = socket.accept(); next; next = socket.accept()) {
        next.peer?.fail('ECONNRESET');
        next.abandon();
      }
      socket.state = 'new';
      return 0n;
    }
    socket.shutdown(how);
    return 0n;
  }
}

/** A socket that all addresses lead to has one address once it is connected. */
function settle(socket: Socket, six: boolean): void {
  const { local } = socket;
  if (local?.family === 'inet' && local.address === 0) socket.local = { ...local, six, address: LOOPBACK };
}
