/**
 * Sockets: streams, messages in order and datagrams between the threads and processes of one run.
 * Each has an inbox; what it sends is put into that of the other end:
 *
 *   connect -> [client] inbox <--- put ---- [server] <- accept
 *                  '------ put ------> inbox -'
 *
 * Which names lead to which sockets is in `network.ts`.
 *
 * Source: Linux, socket(7), unix(7), tcp(7), udp(7), net/unix/af_unix.c, net/ipv4/tcp.c.
 */
import { Channel, type Parcel, type Queues, type Taken } from './channels.js';
import { Description, type Descriptors, O, POLL, READABLE, WRITABLE } from './descriptions.js';
import type { Errno } from './errno.js';
import { nodeOf } from './pipes.js';
import type { Family, SocketName } from './socket-names.js';
import { NOTHING_WANTED, travelOf } from './travel.js';
import type { Endian } from '../units.js';

export type SocketType = 'stream' | 'sequence' | 'datagram';

/** What Linux gives a buffer (`net.core.wmem_default`): what waits in a socket of AF_UNIX. */
export const BUFFER_BYTES = 212_992;
/** What Linux lets wait in a connection of TCP, roughly. */
const TCP_BYTES = 0x20_0000;
/** Largest datagram of UDP. */
const UDP_MOST = 65_507;
/** Datagrams that wait for one who answers others (`net.unix.max_dgram_qlen`). */
const WAITING_MOST = 10;
const NOTHING: Taken = { bytes: new Uint8Array(), whole: 0, parcel: null };

/** What a socket is made as. */
export interface SocketKind {
  readonly family: Family;
  readonly type: SocketType;
  /** Datagrams of UDP-Lite, which has ports of its own. */
  readonly isLite?: true;
}

/** What knows all sockets of a run. */
export interface SocketHome {
  readonly queues: Queues;
  /** That of the program. */
  readonly endian: Endian;
  add(socket: Socket): void;
  remove(socket: Socket): void;
  /** The socket to which a name leads that a socket of this kind sends to; null: none. */
  listenerOf(kind: SocketKind, name: SocketName): Socket | null;
}

/** Where a datagram goes: to the other end, or to a name; an error: no socket is there. */
export type Target = Socket | Errno | null;

export class Socket extends Description {
  readonly path: string;
  readonly inbox: Channel;
  /**
   * `connecting`: a call did not wait for the connection, which is made, or `error` says why not.
   */
  state: 'new' | 'listening' | 'connecting' | 'connected' = 'new';
  /** The other end, or where datagrams go. */
  peer: Socket | null = null;
  local: SocketName | null = null;
  remote: SocketName | null = null;
  /** Told once, by the next call. */
  error: Errno | null = null;
  /** Nothing comes any more; nothing may be sent any more; no descriptor leads here any more. */
  hasEnd = false;
  isShut = false;
  isGone = false;
  /** Connections that were not accepted, and how many may wait. */
  waiting: readonly Socket[] = [];
  backlog = 0;
  /** Values of options that were set, by level and number. */
  options: ReadonlyMap<string, Uint8Array> = new Map();
  /** PASSCRED: messages tell of the process that sent them. */
  tellsSender = false;
  /** V6ONLY: addresses of IPv4 are not its own. */
  isSixOnly = false;
  /** Nanoseconds that a call waits; null: for ever. */
  patience: { readonly receive: bigint | null; readonly send: bigint | null } = { receive: null, send: null };
  /** REUSEADDR, REUSEPORT. */
  private readonly reused = new Set<'address' | 'port'>();
  private moves = 0;
  /** The process at the other end, as PEERCRED tells. */
  peerProcess = 0;

  constructor(
    readonly kind: SocketKind,
    flags: number,
    inode: number,
    readonly network: SocketHome,
    public process: number,
  ) {
    super(O.RDWR | flags, nodeOf('socket', inode));
    this.path = `socket:[${inode}]`;
    const isTcp = kind.family !== 'unix' && kind.type === 'stream';
    this.inbox = new Channel(kind.type === 'stream' ? 'bytes' : 'messages', network.queues, isTcp ? TCP_BYTES : BUFFER_BYTES); // prettier-ignore
    network.add(this);
  }

  get isStream(): boolean {
    return this.kind.type === 'stream';
  }

  get isUnix(): boolean {
    return this.kind.family === 'unix';
  }

  /** What is written together is read together. */
  get hasMessages(): boolean {
    return !this.isStream;
  }

  /** Nothing of a connection is there. */
  private get isLoose(): boolean {
    const isJoined = this.state === 'connected' || (this.state === 'connecting' && this.peer !== null);
    return this.kind.type !== 'datagram' && !isJoined;
  }

  private touch(): void {
    this.moves++;
  }

  /** A name that another socket has may be taken. */
  reuses(what: 'address' | 'port'): boolean {
    return this.reused.has(what);
  }

  setReuse(what: 'address' | 'port', isSet: boolean): void {
    if (isSet) this.reused.add(what);
    else this.reused.delete(what);
  }

  /** Something became of it that a waiting `epoll` is told. */
  fail(error: Errno): void {
    this.error = error;
    this.touch();
  }

  takeError(): Errno | null {
    const { error } = this;
    this.error = null;
    return error;
  }

  // ------------------------------------------------------------------------------------- receiving

  override available(size: number): number {
    return this.hasMessages ? Math.min(size, this.inbox.nextSize) : Math.min(size, this.inbox.size);
  }

  override read(size: number): Uint8Array | Errno | null {
    const taken = this.receive(size, false);
    if (taken === null || typeof taken === 'string') return taken;
    // A plain read takes no descriptions.
    for (const each of taken.parcel?.rights ?? []) each.release();
    return taken.bytes;
  }

  /** `keeps`: what is read stays. Null: there is nothing yet. */
  receive(size: number, keeps: boolean): Taken | Errno | null {
    const { inbox } = this;
    if (this.isLoose) {
      if (this.error) return this.takeError();
      return this.isUnix && this.isStream ? 'EINVAL' : 'ENOTCONN';
    }
    if (this.isStream && size === 0) return NOTHING;
    if (this.hasMessages && this.error) return this.takeError();
    if (!inbox.isEmpty) return inbox.take(size, keeps);
    if (this.error && !(this.error === 'EPIPE' && this.hasEnd)) return this.takeError();
    return this.hasEnd ? NOTHING : null;
  }

  // --------------------------------------------------------------------------------------- sending

  override write(bytes: Uint8Array): number | Errno | null {
    const travel = this.isUnix || this.isStream ? null : travelOf(this, null, NOTHING_WANTED, this.network.endian);
    return this.send(bytes, { rights: [], process: this.process, from: this, travel }, null);
  }

  /** `to`: where a datagram goes that does not go to the other end. Null: there is no room. */
  send(bytes: Uint8Array, parcel: Parcel, to: Target): number | Errno | null {
    if (typeof to === 'string') return to;
    if (this.error && (this.hasMessages || !this.isUnix)) return this.takeError();
    return this.kind.type === 'datagram' ? this.sendDatagram(bytes, parcel, to) : this.sendInOrder(bytes, parcel);
  }

  private sendInOrder(bytes: Uint8Array, parcel: Parcel): number | Errno | null {
    const { peer } = this;
    if (this.isLoose || !peer) return this.isUnix ? 'ENOTCONN' : 'EPIPE';
    if (this.isShut) return 'EPIPE';
    if (this.isStream && bytes.length === 0) return 0;
    if (peer.isGone) {
      // No socket is there any more: the answer comes behind what was sent.
      this.fail('EPIPE');
      return bytes.length;
    }
    if (this.hasMessages && bytes.length > BUFFER_BYTES - 32) return 'EMSGSIZE';
    return this.deliver(peer, bytes, parcel);
  }

  private deliver(to: Socket, bytes: Uint8Array, parcel: Parcel): number | Errno | null {
    if (!to.inbox.hasRoom(bytes.length)) return null;
    if (!this.network.queues.hasRoom(bytes.length)) return 'ENOBUFS';
    for (const each of parcel.rights) each.hold();
    return to.inbox.put(bytes, parcel);
  }

  private sendDatagram(bytes: Uint8Array, parcel: Parcel, to: Socket | null): number | Errno | null {
    if (this.isShut) return 'EPIPE';
    if (!this.isUnix) return this.sendUdp(bytes, parcel, to);
    const target = to ?? this.peer;
    if (!target) return 'ENOTCONN';
    if (bytes.length > BUFFER_BYTES - 32) return 'EMSGSIZE';
    if (target.isGone) {
      if (target === this.peer) this.peer = null;
      return 'ECONNREFUSED';
    }
    if (target.hasEnd) return 'EPIPE';
    if (target.peer !== null && target.peer !== this) return 'EPERM';
    return this.isFull(target) ? null : this.deliver(target, bytes, parcel);
  }

  /** Too many datagrams wait there; who talks to one alone has room for all. */
  private isFull(target: Socket): boolean {
    return target.peer !== this && target.inbox.count > WAITING_MOST;
  }

  private sendUdp(bytes: Uint8Array, parcel: Parcel, to: Socket | null): number | Errno {
    if (bytes.length > UDP_MOST) return 'EMSGSIZE';
    const target = to ?? (this.remote ? this.network.listenerOf(this.kind, this.remote) : null);
    const listens = target !== null && !target.isGone && (target.remote === null || target.hears(this.local));
    if (listens) {
      // What finds no room is lost.
      const put = target.inbox.count < BUFFER_BYTES / 256 ? this.deliver(target, bytes, parcel) : null;
      return put === 'ENOBUFS' ? put : bytes.length;
    }
    if (this.remote) this.fail('ECONNREFUSED');
    return bytes.length;
  }

  /** True when it is connected to that name. */
  private hears(name: SocketName | null): boolean {
    const { remote } = this;
    return name?.family === 'inet' && remote?.family === 'inet' && name.port === remote.port;
  }

  override accepts(bytes: Uint8Array): boolean {
    const { peer } = this;
    if (this.error || this.isShut || !peer || peer.isGone || peer.hasEnd) return true;
    if (this.kind.type === 'datagram' && this.isFull(peer)) return false;
    return bytes.length > BUFFER_BYTES - 32 && this.hasMessages ? true : peer.inbox.hasRoom(bytes.length);
  }

  // ------------------------------------------------------------------------------------ connecting

  /**
   * Becomes the other end of `client`, for which a listening socket has room. `inode`: the new
   * socket's.
   */
  static connect(client: Socket, listener: Socket, inode: number): void {
    const server = new Socket(listener.kind, 0, inode, listener.network, listener.process);
    join(client, server);
    server.local = client.isUnix ? listener.local : client.remote;
    server.remote = client.local;
    client.remote ??= listener.local;
    server.options = listener.options;
    server.tellsSender = listener.tellsSender;
    server.isSixOnly = listener.isSixOnly;
    listener.waiting = [...listener.waiting, server];
    listener.touch();
  }

  /** The next connection that waits to be accepted. */
  accept(): Socket | null {
    const [next, ...rest] = this.waiting;
    if (!next) return null;
    this.waiting = rest;
    return next;
  }

  /** One more connection may wait. */
  get hasPlace(): boolean {
    return this.waiting.length <= this.backlog;
  }

  /** One direction ends, or both; `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`. */
  shutdown(how: number): void {
    const { peer } = this;
    const isPair = this.kind.type !== 'datagram' && peer !== null;
    if (how !== 1) {
      this.hasEnd = true;
      if (isPair && this.isUnix) peer.isShut = true;
    }
    if (how !== 0) {
      this.isShut = true;
      if (isPair) peer.hasEnd = true;
    }
    this.touch();
    if (isPair) peer.touch();
  }

  /** No descriptor will lead to it. */
  abandon(): void {
    this.closed();
  }

  protected override closed(): void {
    const { peer, inbox } = this;
    this.isGone = true;
    this.network.remove(this);
    for (const each of this.waiting) {
      each.peer?.fail('ECONNRESET');
      each.abandon();
    }
    this.waiting = [];
    if (this.kind.type !== 'datagram' && peer && !peer.isGone) {
      const isReset = !inbox.isEmpty;
      if (isReset) peer.fail(!this.isUnix && peer.hasEnd ? 'EPIPE' : 'ECONNRESET');
      peer.hasEnd = true;
      if (this.isUnix || isReset) peer.isShut = true;
      peer.touch();
    }
    inbox.drain();
  }

  // ---------------------------------------------------------------------------------------- events

  override get changes(): number {
    return this.inbox.puts + (this.peer?.inbox.takes ?? 0) + this.moves;
  }

  override events(): number {
    if (this.state === 'listening') return this.waiting.length > 0 ? READABLE : 0;
    let out = this.error ? POLL.ERR : 0;
    if (this.isLoose) {
      // A connection that could not be made.
      if (this.error) out |= READABLE | POLL.RDHUP;
      return out | POLL.HUP | WRITABLE;
    }
    const { hasEnd, isShut, peer } = this;
    if (!this.inbox.isEmpty || hasEnd) out |= READABLE;
    if (hasEnd) out |= POLL.RDHUP;
    if (hasEnd && isShut) out |= POLL.HUP;
    const isWritable = isShut || !peer || peer.isGone || peer.inbox.isOpen;
    return isWritable && !(this.isUnix && this.kind.type === 'datagram' && peer && this.isFull(peer)) ? out | WRITABLE : out; // prettier-ignore
  }

  // ----------------------------------------------------------------------------------------- state

  /** The network remembers all sockets. */
  override savePassed(): () => void {
    return () => undefined;
  }

  override save(): () => void {
    const before = Object.assign({}, this);
    const putBack = [super.save(), this.inbox.save()];
    const reused = [...this.reused];
    return () => {
      this.reused.clear();
      for (const each of reused) this.reused.add(each);
      Object.assign(this, before);
      for (const each of putBack) each();
    };
  }
}

/** Makes two sockets each other's ends. */
export function join(one: Socket, other: Socket): void {
  for (const [a, b] of [[one, other], [other, one]] as const) {
    a.peer = b;
    a.state = 'connected';
    a.peerProcess = b.process;
  } // prettier-ignore
}

/** The socket of a descriptor. */
export function socketAt({ descriptors }: { readonly descriptors: Descriptors }, number: number): Socket | Errno {
  const description = descriptors.used(number);
  if (!description) return 'EBADF';
  return description instanceof Socket ? description : 'ENOTSOCK';
}
