/**
 * System calls that send and receive on sockets, with names, descriptors and the sender beside the
 * bytes.
 *
 * Source: Linux, send(2), recv(2), cmsg(3), unix(7), linux/socket.h.
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import type { Parcel, Taken } from './channels.js';
import { deadlineOf, type DescriptorCalls, isReadable, isTimed, type Piece, sizeOf } from './descriptor-calls.js';
import type { Description } from './descriptions.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import { type KnownProcess, USER } from './processes.js';
import type { SocketCalls } from './socket-calls.js';
import { nameBytes, type Travel } from './socket-names.js';
import { Socket, socketAt, type Target } from './sockets.js';
import { type ControlPiece, NOTHING_WANTED, toldOf, travelOf, type Wanted, wantedBy } from './travel.js';
import type { Address } from '../units.js';

export type MessageCallName = 'recv' | 'recvfrom' | 'recvmsg' | 'send' | 'sendmsg' | 'sendto';

/** Flags of messages; equal on all targets. */
export const MSG = {
  PEEK: 2, CTRUNC: 8, TRUNC: 0x20, DONTWAIT: 0x40, EOR: 0x80, WAITALL: 0x100, CONFIRM: 0x800, NOSIGNAL: 0x4000, MORE: 0x8000, CMSG_CLOEXEC: 0x4000_0000,
} as const; // prettier-ignore
const SEND_FLAGS = MSG.DONTWAIT | MSG.EOR | MSG.CONFIRM | MSG.NOSIGNAL | MSG.MORE;
const RECEIVE_FLAGS = MSG.PEEK | MSG.TRUNC | MSG.DONTWAIT | MSG.WAITALL | MSG.NOSIGNAL | MSG.CMSG_CLOEXEC;
const SOL_SOCKET = 1;
const SCM = { RIGHTS: 1, CREDENTIALS: 2 } as const;
/** Most descriptors of one message (SCM_MAX_FD). */
const RIGHTS_MOST = 253;
/** Most control data of one message that is looked at (`net.core.optmem_max`). */
const CONTROL_MOST = 20_480;

/** What goes beside a message. */
interface Beside {
  readonly rights: readonly Description[];
  readonly wanted: Wanted;
}
const NOTHING_BESIDE: Beside = { rights: [], wanted: NOTHING_WANTED };

/** `struct msghdr`. */
interface Header {
  readonly name: Address;
  readonly nameLength: bigint;
  readonly pieces: readonly Piece[];
  readonly control: Address;
  readonly controlLength: number;
}

/** Where a received message goes: addresses are 0 where the program has no room for them. */
interface Room {
  readonly pieces: readonly Piece[];
  readonly name: Address;
  /** How much room there is for the name. */
  readonly nameRoom: number;
  /** Tells how long the name is, and what came beside the bytes. */
  readonly finish: (nameBytes: number, taken: Taken) => Errno | null;
}

export class MessageCalls implements Readonly<Record<MessageCallName, Service>> {
  constructor(
    private readonly context: KnownProcess,
    private readonly descriptors: DescriptorCalls,
    private readonly sockets: SocketCalls,
  ) {}

  private check(flags: number, known: number): void {
    if ((flags & ~known) !== 0) this.context.deviate('messages');
  }

  // --------------------------------------------------------------------------------------- sending

  private sendPieces(
    socket: Socket,
    pieces: readonly Piece[],
    flags: number,
    name: readonly [Address, bigint],
    { rights, wanted }: Beside = NOTHING_BESIDE,
  ): Answer {
    this.check(flags, SEND_FLAGS);
    const to = this.target(socket, name);
    if (typeof to === 'string' && to !== 'lost') return to;
    if (rights.length > 0 && this.context.network.queues.rights + rights.length > this.context.descriptors.most)
      return 'ETOOMANYREFS';
    const process = this.context.identity.id;
    const travel = this.travelTo(socket, name, wanted);
    // What is passed goes with the first bytes.
    let left = rights;
    const write = (bytes: Uint8Array): number | Errno | null => {
      if (to === 'lost') return bytes.length;
      const parcel: Parcel = { rights: left, process, from: socket, travel };
      const written = socket.send(bytes, parcel, to);
      if (typeof written === 'number') left = [];
      return written;
    };
    const how = { isSilent: (flags & MSG.NOSIGNAL) !== 0, write };
    // The inbox of another socket may have room again at any time.
    const isReady = to instanceof Socket ? { isReady: (): boolean => socket.isShut || to.isGone || to.inbox.count <= 10 } : {}; // prettier-ignore
    const hasty = (flags & MSG.DONTWAIT) !== 0 ? { isHasty: true } : {};
    return this.descriptors.writeAll(socket, pieces, { ...how, ...hasty, ...isReady });
  }

  /** How a datagram travels; null: it is none that does. */
  private travelTo(socket: Socket, [address, length]: readonly [Address, bigint], wanted: Wanted): Travel | null {
    if (socket.isUnix || socket.kind.type !== 'datagram' || socket.kind.family === 'netlink') return null;
    const name = address === 0n || length === 0n ? null : this.sockets.nameAt(socket, address, length);
    return travelOf(
      socket,
      typeof name === 'object' && name?.family === 'inet' ? name : null,
      wanted,
      this.context.endian,
    );
  }

  /** Where a message goes; `lost`: no socket is there, and it is not said. */
  private target(socket: Socket, [address, length]: readonly [Address, bigint]): Target | 'lost' {
    if (socket.kind.family === 'netlink' && !socket.local) this.context.network.bindNetlink(socket, 0, 0);
    if (address === 0n || length === 0n) {
      if (socket.kind.family === 'netlink') return null;
      if (socket.kind.type === 'datagram' && !socket.isUnix && !socket.remote) return 'EDESTADDRREQ';
      return null;
    }
    if (socket.kind.type !== 'datagram') {
      if (!socket.isUnix || !socket.isStream) return null;
      return socket.state === 'connected' ? 'EISCONN' : 'EOPNOTSUPP';
    }
    return this.sockets.destination(socket, address, length) ?? 'lost';
  }

  sendto(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    return this.sendPieces(socket, [[arg(args, 1), arg(args, 2)]], int(arg(args, 3)), [arg(args, 4), arg(args, 5)]);
  }

  send(args: Arguments): Answer {
    return this.sendto(args.slice(0, 4));
  }

  private headerAt(address: Address): Header | Errno {
    const { context } = this;
    const word = BigInt(context.wordBytes);
    const [name, list, count, control, controlLength] = [0n, 2n, 3n, 4n, 5n].map((i) => context.loadNumber(address + i * word)) as [bigint | null, bigint | null, bigint | null, bigint | null, bigint | null]; // prettier-ignore
    const nameLength = context.loadNumber(address + word, 4);
    if (name === null || list === null || count === null || control === null || controlLength === null) return 'EFAULT';
    if (nameLength === null) return 'EFAULT';
    if (int(nameLength) < 0) return 'EINVAL';
    if (count > 1024n) return 'EMSGSIZE';
    const pieces = this.descriptors.pieces(list, count);
    if (typeof pieces === 'string') return pieces;
    return { name, nameLength, pieces, control, controlLength: Number(controlLength) };
  }

  /** Bytes of the head of control data, and of what it is aligned to. */
  private get controlLayout(): { readonly head: number; readonly align: number } {
    const { wordBytes } = this.context;
    return { head: wordBytes + 8, align: wordBytes };
  }

  /** What control data passes, or wants. */
  private besideIn(socket: Socket, { control, controlLength }: Header): Beside | Errno {
    const { context } = this;
    if (control === 0n || controlLength === 0) return NOTHING_BESIDE;
    if (controlLength > CONTROL_MOST) return 'ENOBUFS';
    const { head, align } = this.controlLayout;
    const rights: Description[] = [];
    let wanted = NOTHING_WANTED;
    const isIp = !socket.isUnix && socket.kind.family !== 'netlink';
    for (let at = 0; at + head <= controlLength;) {
      const place = control + BigInt(at);
      const length = context.loadNumber(place);
      const level = context.loadNumber(place + BigInt(align), 4);
      const type = context.loadNumber(place + BigInt(align + 4), 4);
      if (length === null || level === null || type === null) return 'EFAULT';
      if (length < BigInt(head) || length > BigInt(controlLength - at)) return 'EINVAL';
      const size = Number(length) - head;
      if (int(level) === SOL_SOCKET) {
        // Descriptors and senders are nothing to other families.
        const isOver = isIp && (int(type) === SCM.RIGHTS || int(type) === SCM.CREDENTIALS);
        const wrong = isOver ? null : this.readControl(int(type), place + BigInt(head), size, rights);
        if (wrong !== null) return wrong;
      } else if (isIp && socket.kind.type === 'datagram') {
        const bytes = context.load(place + BigInt(head), size);
        if (!bytes) return 'EFAULT';
        const next = wantedBy({ level: int(level), type: int(type), bytes }, socket, wanted, context.endian);
        if (next === null) context.deviate('control-data');
        if (next === null) return 'EINVAL';
        if (typeof next === 'string') return next;
        wanted = next;
      }
      at += Math.ceil(Number(length) / align) * align;
    }
    return rights.length > RIGHTS_MOST ? 'EINVAL' : { rights, wanted };
  }

  private readControl(type: number, place: Address, size: number, out: Description[]): Errno | null {
    const { context } = this;
    if (type === SCM.CREDENTIALS) {
      const [process, user, group] = [0n, 4n, 8n].map((each) => context.loadNumber(place + each, 4));
      if (size !== 12) return 'EINVAL';
      const isOwn = process === BigInt(context.identity.id) && user === USER && group === USER;
      return isOwn ? null : 'EPERM';
    }
    if (type !== SCM.RIGHTS) return 'EINVAL';
    for (let at = 0; at + 4 <= size; at += 4) {
      const number = context.loadNumber(place + BigInt(at), 4);
      const description = number === null ? undefined : context.descriptors.get(int(number));
      if (!description) return 'EBADF';
      out.push(description);
    }
    return null;
  }

  sendmsg(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    return typeof socket === 'string' ? socket : this.sendAt(socket, arg(args, 1), int(arg(args, 2)));
  }

  /** Sends what a `struct msghdr` says, behind its first `done` bytes. */
  sendAt(socket: Socket, place: Address, flags: number, done = 0): Answer {
    const header = this.headerAt(place);
    if (typeof header === 'string') return header;
    const beside = done > 0 ? NOTHING_BESIDE : this.besideIn(socket, header);
    if (typeof beside === 'string') return beside;
    return this.sendPieces(socket, skipped(header.pieces, done), flags, [header.name, header.nameLength], beside);
  }

  /** Bytes of the message that a `struct msghdr` tells of. */
  sizeAt(place: Address): number {
    const header = this.headerAt(place);
    return typeof header === 'string' ? 0 : sizeOf(header.pieces);
  }

  // ------------------------------------------------------------------------------------- receiving

  private receive(socket: Socket, room: Room, flags: number): Answer {
    const { context } = this;
    this.check(flags, RECEIVE_FLAGS);
    const keeps = (flags & MSG.PEEK) !== 0;
    const size = sizeOf(room.pieces);
    const waitsForAll = (flags & MSG.WAITALL) !== 0 && socket.isStream && !keeps;
    const isHasty = socket.isNonBlocking || (flags & MSG.DONTWAIT) !== 0;
    let total = 0;
    const attempt = (): bigint | Errno | null => {
      if (!this.descriptors.takesAll(room.pieces, Math.min(size, total + socket.available(size)))) return 'EFAULT';
      const taken = socket.receive(size - total, keeps);
      if (taken === null) return isHasty && total > 0 ? BigInt(total) : null;
      if (typeof taken === 'string') return total > 0 ? BigInt(total) : taken;
      this.descriptors.scatter(skipped(room.pieces, total), taken.bytes);
      total += taken.bytes.length;
      if (waitsForAll && total < size && taken.bytes.length > 0 && !(taken.parcel && taken.parcel.rights.length > 0)) return attempt(); // prettier-ignore
      return (
        this.finish(socket, room, taken) ??
        BigInt((flags & MSG.TRUNC) !== 0 && socket.hasMessages ? taken.whole : total)
      );
    };
    return context.attempt(socket, isReadable(socket), attempt, {
      done: () => BigInt(total),
      isHasty,
      deadline: deadlineOf(context, socket, 'receive'),
      isBrittle: isTimed(socket, 'receive'),
    });
  }

  private finish(socket: Socket, room: Room, taken: Taken): Errno | null {
    const from = taken.parcel?.from.local ?? null;
    // A connection of TCP tells no names.
    const isTold = from !== null && (socket.isUnix || socket.hasMessages);
    const bytes = isTold ? nameBytes(from, socket.kind.family, this.context.endian) : new Uint8Array();
    if (room.name !== 0n && bytes.length > 0) {
      const stored = bytes.subarray(0, room.nameRoom);
      if (stored.length > 0 && !this.context.store(room.name, stored)) return 'EFAULT';
    }
    return room.finish(bytes.length, taken);
  }

  recvfrom(args: Arguments): Answer {
    const { context } = this;
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const [name, length] = [arg(args, 4), arg(args, 5)];
    const given = name === 0n ? 0n : context.loadNumber(length, 4);
    if (given === null) return 'EFAULT';
    if (int(given) < 0) return 'EINVAL';
    const release = ({ parcel }: Taken): void => {
      if ((int(arg(args, 3)) & MSG.PEEK) === 0) for (const each of parcel?.rights ?? []) each.release();
    };
    const finish = (bytes: number, taken: Taken): Errno | null => {
      release(taken);
      return name === 0n || context.storeNumbers(length, [BigInt(bytes)], 4) ? null : 'EFAULT';
    };
    const room = { pieces: [[arg(args, 1), arg(args, 2)]] as const, name, nameRoom: Number(given), finish };
    return this.receive(socket, room, int(arg(args, 3)));
  }

  recv(args: Arguments): Answer {
    return this.recvfrom(args.slice(0, 4));
  }

  recvmsg(args: Arguments): Answer {
    const socket = socketAt(this.context, int(arg(args, 0)));
    return typeof socket === 'string' ? socket : this.receiveAt(socket, arg(args, 1), int(arg(args, 2)));
  }

  /** Receives where a `struct msghdr` says. */
  receiveAt(socket: Socket, place: Address, flags: number): Answer {
    const { context } = this;
    const header = this.headerAt(place);
    if (typeof header === 'string') return header;
    const word = BigInt(context.wordBytes);
    const finish = (bytes: number, taken: Taken): Errno | null => {
      const control = this.storeControl(socket, header, taken, flags);
      const cut = taken.whole > taken.bytes.length ? MSG.TRUNC : 0;
      const told = control.flags | cut | (flags & MSG.CMSG_CLOEXEC);
      if (header.name !== 0n && !context.storeNumbers(place + word, [BigInt(bytes)], 4)) return 'EFAULT';
      if (!context.storeNumbers(place + 5n * word, [BigInt(control.size)])) return 'EFAULT';
      return context.storeNumbers(place + 6n * word, [BigInt(told)], 4) ? null : 'EFAULT';
    };
    const room = { pieces: header.pieces, name: header.name, nameRoom: Number(header.nameLength), finish };
    return this.receive(socket, room, flags);
  }

  /** Stores what came beside the bytes: its size, and MSG_CTRUNC where some did not fit. */
  private storeControl(
    socket: Socket,
    { control, controlLength }: Header,
    { parcel }: Taken,
    flags: number,
  ): { readonly size: number; readonly flags: number } {
    const { context } = this;
    const rights = socket.isUnix ? (parcel?.rights ?? []) : [];
    const release = (): void => {
      if ((flags & MSG.PEEK) === 0) for (const each of rights) each.release();
    };
    const { wordBytes, endian } = context;
    const now = context.date + context.machine.time;
    const told = toldOf(socket, parcel?.travel ?? null, { now, wordBytes, endian });
    const tells = socket.tellsSender && socket.isUnix;
    const room = control === 0n ? 0 : controlLength;
    const isCut = room === 0 && (tells || rights.length > 0 || told.length > 0);
    let at = 0;
    let isShort = isCut;
    const { head, align } = this.controlLayout;
    const putPiece = ({ level, type, bytes: data }: ControlPiece): void => {
      const length = head + data.length;
      if (room - at < head) isShort = true;
      if (room - at < head) return;
      const bytes = new Uint8Array(length);
      putNumber(bytes, 0, align, Math.min(length, room - at), context.endian);
      putNumber(bytes, align, 4, level, context.endian);
      putNumber(bytes, align + 4, 4, type, context.endian);
      bytes.set(data, head);
      if (length > room - at) isShort = true;
      context.store(control + BigInt(at), bytes.subarray(0, room - at));
      at += Math.min(Math.ceil(length / align) * align, room - at);
    };
    const put = (type: number, values: readonly bigint[]): void => {
      const data = new Uint8Array(4 * values.length);
      values.forEach((value, i) => {
        putNumber(data, 4 * i, 4, value, context.endian);
      });
      putPiece({ level: SOL_SOCKET, type, bytes: data });
    };
    for (const each of room > 0 ? told : []) putPiece(each);
    if (tells && room > 0) put(SCM.CREDENTIALS, parcel ? [BigInt(parcel.process), USER, USER] : [0n, 65_534n, 65_534n]);
    if (rights.length > 0 && room > 0) {
      const fit = Math.max(0, Math.floor((room - at - head) / 4));
      const numbers: bigint[] = [];
      for (const each of rights.slice(0, fit)) {
        const number = context.descriptors.add(each, (flags & MSG.CMSG_CLOEXEC) !== 0);
        if (number < 0) break;
        numbers.push(BigInt(number));
      }
      if (numbers.length < rights.length) isShort = true;
      if (numbers.length > 0) put(SCM.RIGHTS, numbers);
    }
    release();
    return { size: at, flags: isShort ? MSG.CTRUNC : 0 };
  }
}

/** Pieces behind their first `count` bytes. */
function skipped(pieces: readonly Piece[], count: number): readonly Piece[] {
  let left = BigInt(count);
  return pieces.flatMap(([base, size]): Piece[] => {
    const part = left < size ? left : size;
    left -= part;
    return [[base + part, size - part]];
  });
}
