/**
 * What sockets of one run are called, and who is where: names without a place, names in the tree,
 * ports of the loopback addresses. Nothing leaves the run, and the only networks are 127.0.0.0/8
 * and ::1.
 *
 * Also here is what has to be remembered of things that no descriptor leads to: sockets on their
 * way, files in memory, timers.
 *
 * Source: Linux, unix(7), ip(7), ipv6(7).
 */
import { type Channel, Queues } from './channels.js';
import type { Errno } from './errno.js';
import type { SpecialStatus } from './files.js';
import type { Socket, SocketHome, SocketKind } from './sockets.js';
import type { Endian } from '../units.js';
import { type InetName, isLoopback, LOOPBACK, type SocketName } from './socket-names.js';

/** Ports that are given to sockets without one (`net.ipv4.ip_local_port_range`). */
const FIRST_PORT = 32_768;
const LAST_PORT = 60_999;
/** Ports below are those of users with rights. */
const PORT_OF_USERS = 1024;
/** Most places in the tree that are sockets or pipes. */
const NODES_MOST = 4096;

/** A place in the tree that is a socket, or a pipe. */
export interface TreeNode {
  /** Null: the socket that made it is gone, or it is a pipe. */
  socket: Socket | null;
  /** Null: it is a socket. */
  readonly pipe: Channel | null;
  readonly inode: number;
  permissions: number;
  /** When it was made: nanoseconds since 1970. */
  readonly made: bigint;
}

/** Something that the run has to remember. */
export interface Remembered {
  save(): () => void;
}

/** Something that happens at a time. */
export interface Alarm extends Remembered {
  /** The time at which it changes next; null: never. */
  readonly due: bigint | null;
}

const textOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

export class Network implements SocketHome {
  readonly queues: Queues;
  private sockets: ReadonlySet<Socket> = new Set();
  private abstract: ReadonlyMap<string, Socket> = new Map();
  private nodes: ReadonlyMap<string, TreeNode> = new Map();
  /** Sockets with a port. */
  private ports: readonly Socket[] = [];
  private lastPort = FIRST_PORT - 1;
  private lastName = 0;
  private alarms: ReadonlySet<Alarm> = new Set();
  private others: ReadonlySet<Remembered> = new Set();

  /** @param now  nanoseconds since 1970 */
  constructor(
    now: () => bigint,
    readonly endian: Endian,
  ) {
    this.queues = new Queues(now);
  }

  // -------------------------------------------------------------------------------- what there is

  add(socket: Socket): void {
    this.sockets = new Set([...this.sockets, socket]);
  }

  remove(socket: Socket): void {
    this.sockets = new Set([...this.sockets].filter((each) => each !== socket));
    this.ports = this.ports.filter((each) => each !== socket);
    const { local } = socket;
    if (local?.family === 'unix' && this.abstract.get(textOf(local.path)) === socket) {
      this.abstract = new Map([...this.abstract].filter(([, each]) => each !== socket));
    }
    for (const node of this.nodes.values()) if (node.socket === socket) node.socket = null;
  }

  addAlarm(alarm: Alarm): void {
    this.alarms = new Set([...this.alarms, alarm]);
  }

  removeAlarm(alarm: Alarm): void {
    this.alarms = new Set([...this.alarms].filter((each) => each !== alarm));
  }

  remember(other: Remembered): void {
    this.others = new Set([...this.others, other]);
  }

  forget(other: Remembered): void {
    this.others = new Set([...this.others].filter((each) => each !== other));
  }

  /** The next time at which an alarm changes; null: none will. */
  get due(): bigint | null {
    let least: bigint | null = null;
    for (const { due } of this.alarms) if (due !== null && (least === null || due < least)) least = due;
    return least;
  }

  // ----------------------------------------------------------------------------- names of AF_UNIX

  /** The socket that has a name without a place; null: none has it. */
  nameless(path: Uint8Array): Socket | null {
    return this.abstract.get(textOf(path)) ?? null;
  }

  bindNameless(socket: Socket, path: Uint8Array): Errno | null {
    const key = textOf(path);
    if (this.abstract.has(key)) return 'EADDRINUSE';
    this.abstract = new Map([...this.abstract, [key, socket]]);
    socket.local = { family: 'unix', path };
    return null;
  }

  /** A name that no socket has: a zero and five digits. */
  freeName(): Uint8Array {
    for (;;) {
      const text = `\0${(++this.lastName).toString(16).padStart(5, '0')}`;
      if (!this.abstract.has(text)) return Uint8Array.from(text, (each) => each.charCodeAt(0));
    }
  }

  /** `path`: in the tree, without links. */
  nodeAt(path: string): TreeNode | null {
    return this.nodes.get(path) ?? null;
  }

  get hasNodes(): boolean {
    return this.nodes.size > 0;
  }

  addNode(path: string, node: Omit<TreeNode, 'made'>): Errno | null {
    if (this.nodes.size >= NODES_MOST) return 'ENOSPC';
    this.nodes = new Map([...this.nodes, [path, { ...node, made: this.queues.now() }]]);
    return null;
  }

  removeNode(path: string): void {
    this.nodes = new Map([...this.nodes].filter(([each]) => each !== path));
  }

  /** Names in a directory. */
  nodesIn(folder: string): readonly string[] {
    const begin = folder === '/' ? '/' : `${folder}/`;
    return [...this.nodes.keys()]
      .filter((each) => each.startsWith(begin) && !each.slice(begin.length).includes('/'))
      .map((each) => each.slice(begin.length));
  }

  /** What was at `from`, or below it, is at `to`. */
  renamed(from: string, to: string): void {
    const moved = (each: string): string =>
      each === from || each.startsWith(`${from}/`) ? `${to}${each.slice(from.length)}` : each;
    this.nodes = new Map([...this.nodes].map(([path, node]) => [moved(path), node]));
  }

  // ----------------------------------------------------------------------------- ports

  /** Gives a socket a port, or the address that it asks for; null: it is done. */
  bindPort(socket: Socket, name: InetName): Errno | null {
    if (name.address !== 0 && !isLoopback(name.address)) return 'EADDRNOTAVAIL';
    if (name.port > 0 && name.port < PORT_OF_USERS) return 'EACCES';
    const port = name.port === 0 ? this.freePort(socket) : name.port;
    if (port === null || !this.isFree(socket, { ...name, port })) return 'EADDRINUSE';
    socket.local = { ...name, port };
    this.ports = [...this.ports, socket];
    return null;
  }

  /** A name for a socket that connects without one. */
  bindAny(socket: Socket, six: boolean): Errno | null {
    return socket.local ? null : this.bindPort(socket, { family: 'inet', six, address: LOOPBACK, port: 0 });
  }

  /** Gives a socket of AF_NETLINK a port: that of its process, or one that no process has. */
  bindNetlink(socket: Socket, port: number, groups: number): Errno | null {
    const isTaken = (wanted: number): boolean =>
      [...this.sockets].some(({ local }) => local?.family === 'netlink' && local.port === wanted);
    if (port !== 0 && isTaken(port)) return 'EADDRINUSE';
    let free = port === 0 ? socket.process : port;
    for (let next = 0xffff_f000; isTaken(free); next--) free = next;
    socket.local = { family: 'netlink', port: free, groups };
    return null;
  }

  private freePort(socket: Socket): number | null {
    for (let tries = FIRST_PORT; tries <= LAST_PORT; tries++) {
      this.lastPort = this.lastPort >= LAST_PORT ? FIRST_PORT : this.lastPort + 1;
      if (this.isFree(socket, { family: 'inet', six: socket.kind.family === 'inet6', address: 0, port: this.lastPort }))
        return this.lastPort;
    }
    return null;
  }

  private isFree(socket: Socket, name: InetName): boolean {
    return this.ports.every((each) => {
      const { local, kind } = each;
      if (!isAlike(kind, socket.kind) || local?.family !== 'inet' || local.port !== name.port) return true;
      if (!covers(each, local, name) && !covers(socket, name, local)) return true;
      if (each.reuses('port') && socket.reuses('port')) return true;
      return each.reuses('address') && socket.reuses('address') && each.state !== 'listening';
    });
  }

  listenerOf(sender: SocketKind, name: SocketName): Socket | null {
    const { family, type } = sender;
    if (family === 'unix' || name.family !== 'inet') return null;
    const wanted = name.address === 0 ? { ...name, address: LOOPBACK } : name;
    const fits = this.ports.filter((each) => {
      const { kind, local, state } = each;
      if (!isAlike(kind, sender) || local?.family !== 'inet' || local.port !== name.port) return false;
      if (type === 'stream' && state !== 'listening') return false;
      return covers(each, local, wanted);
    });
    // The address itself comes before all addresses, the last that came before others.
    const exact = fits.filter(({ local }) => local?.family === 'inet' && local.address !== 0);
    const own = fits.filter(({ kind }) => (kind.family === 'inet6') === name.six);
    return exact.at(-1) ?? own.at(-1) ?? fits.at(-1) ?? null;
  }

  // ----------------------------------------------------------------------------------------- state

  save(): () => void {
    const { sockets, abstract, nodes, ports, lastPort, lastName, alarms, others } = this;
    const copies = [...nodes].map(([path, node]) => [path, node, { ...node }] as const);
    const pipes = [...nodes.values()].flatMap(({ pipe }) => pipe ?? []);
    const parts = [this.queues, ...sockets, ...pipes, ...alarms, ...others].map((each) => each.save());
    return () => {
      Object.assign(this, { sockets, abstract, ports, lastPort, lastName, alarms, others });
      for (const [, node, copy] of copies) Object.assign(node, copy);
      this.nodes = new Map(copies.map(([path, node]) => [path, node]));
      for (const each of parts) each();
    };
  }
}

/** True when sockets have the same ports. */
function isAlike(one: SocketKind, other: SocketKind): boolean {
  return one.type === other.type && one.isLite === other.isLite;
}

/** True when what goes to `name` comes to a socket that is called `local`. */
function covers(socket: Socket, local: InetName, name: InetName): boolean {
  if (local.six === name.six) return local.address === 0 || local.address === name.address;
  // All addresses of IPv6 are those of IPv4, too.
  return local.six && local.address === 0 && !socket.isSixOnly;
}

export function nodeStatus({ inode, permissions, pipe, made }: TreeNode): SpecialStatus {
  return { kind: pipe ? 'pipe' : 'socket', permissions, inode, device: 0, made };
}
