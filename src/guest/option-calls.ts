/**
 * System calls on options of sockets. An option that says how packets travel, or how long something
 * takes, is kept and changes nothing.
 *
 * Source: Linux, socket(7), tcp(7), ip(7), ipv6(7), asm/socket.h, linux/tcp.h, linux/in.h.
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import { ERRNO } from './errno.js';
import { putNumber } from './files.js';
import { NANOSECONDS } from './guest-times.js';
import { type KnownProcess, USER } from './processes.js';
import { BUFFER_BYTES, type Socket, socketAt } from './sockets.js';
import { FAMILY_NUMBER, UDPLITE } from './socket-names.js';
import type { Address } from '../units.js';

export type OptionCallName = 'getsockopt' | 'setsockopt';

const SOL = { IP: 0, SOCKET: 1, TCP: 6, IPV6: 41, UDPLITE, NETLINK: 270 } as const;
const V6ONLY = 26;
/** Options of any socket; others have the machine's numbers (`ProcessModel.socketOptions`). */
const SO = { REUSEADDR: 2, TYPE: 3, ERROR: 4, SNDBUF: 7, RCVBUF: 8, LINGER: 13, REUSEPORT: 15, ACCEPTCONN: 30, SNDBUFFORCE: 32, RCVBUFFORCE: 33, PROTOCOL: 38, DOMAIN: 39, RCVTIMEO_NEW: 66, SNDTIMEO_NEW: 67 } as const; // prettier-ignore
/**
 * What is kept, and its value at first: BROADCAST, KEEPALIVE, OOBINLINE, NO_CHECK, PRIORITY,
 * TIMESTAMP.
 */
const KEPT_SOCKET: ReadonlyMap<number, number> = new Map([[6, 0], [9, 0], [10, 0], [11, 0], [12, 0], [29, 0]]); // prettier-ignore
/**
 * NODELAY, CORK, KEEPIDLE, KEEPINTVL, KEEPCNT, SYNCNT, LINGER2, DEFER_ACCEPT, QUICKACK,
 * USER_TIMEOUT, FASTOPEN, NOTSENT_LOWAT.
 */
const KEPT_TCP: ReadonlyMap<number, number> = new Map([[1, 0], [3, 0], [4, 7200], [5, 75], [6, 9], [7, 6], [8, 60], [9, 0], [12, 1], [18, 0], [23, 0], [25, 0]]); // prettier-ignore
/** TOS, TTL, RECVERR, MTU_DISCOVER, FREEBIND, PKTINFO, RECVTTL, RECVTOS, BIND_ADDRESS_NO_PORT. */
const KEPT_IP: ReadonlyMap<number, number> = new Map([[1, 0], [2, 64], [8, 0], [10, 1], [11, 0], [12, 0], [13, 0], [15, 0], [24, 0]]); // prettier-ignore
/**
 * UNICAST_HOPS, MULTICAST_HOPS, MULTICAST_LOOP, MTU_DISCOVER, RECVERR, RECVPKTINFO, RECVHOPLIMIT,
 * RECVTCLASS, TCLASS.
 */
const KEPT_IPV6: ReadonlyMap<number, number> = new Map([
  [16, 64],
  [18, 1],
  [19, 1],
  [23, 1],
  [25, 0],
  [49, 0],
  [51, 0],
  [66, 0],
  [67, 0],
]);
/** PKTINFO, NO_ENOBUFS, CAP_ACK, EXT_ACK, GET_STRICT_CHK. */
const KEPT_NETLINK: ReadonlyMap<number, number> = new Map([
  [3, 0],
  [5, 0],
  [10, 0],
  [11, 0],
  [12, 0],
]);
/** SEND_CSCOV, RECV_CSCOV: how much is covered by a sum, which nothing here changes. */
const KEPT_LITE: ReadonlyMap<number, number> = new Map([
  [10, 0],
  [11, 0],
]);
const KEPT: Readonly<Record<number, ReadonlyMap<number, number>>> = {
  [SOL.IP]: KEPT_IP,
  [SOL.SOCKET]: KEPT_SOCKET,
  [SOL.TCP]: KEPT_TCP,
  [SOL.IPV6]: KEPT_IPV6,
  [SOL.UDPLITE]: KEPT_LITE,
  [SOL.NETLINK]: KEPT_NETLINK,
};
/** `net.core.rmem_max`. */
const BUFFER_MOST = 212_992;
const BUFFER_LEAST = { [SO.SNDBUF]: 4608, [SO.RCVBUF]: 2304 } as const;
const TYPE_NUMBERS = { stream: 1, datagram: 2, sequence: 5 } as const;

export class OptionCalls implements Readonly<Record<OptionCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  private numbers(values: readonly (number | bigint)[], size = 4): Uint8Array {
    const bytes = new Uint8Array(values.length * size);
    values.forEach((value, i) => {
      putNumber(bytes, i * size, size, value, this.context.endian);
    });
    return bytes;
  }

  /** Seconds and microseconds of a limit. */
  private limitBytes(limit: bigint | null, size: number): Uint8Array {
    const time = limit ?? 0n;
    return this.numbers([time / NANOSECONDS, (time % NANOSECONDS) / 1000n], size);
  }

  private ownOption(socket: Socket, option: number): Uint8Array | null {
    const { kind } = socket;
    const own = this.context.model.socketOptions;
    switch (option) {
      case SO.TYPE:
        return this.numbers([TYPE_NUMBERS[kind.type]]);
      case SO.DOMAIN:
        return this.numbers([FAMILY_NUMBER[kind.family]]);
      case SO.PROTOCOL:
        return this.numbers([
          kind.family === 'unix' || kind.family === 'netlink'
            ? 0
            : kind.isLite
              ? UDPLITE
              : kind.type === 'stream'
                ? 6
                : 17,
        ]);
      case SO.ERROR: {
        const error = socket.takeError();
        return this.numbers([error ? ERRNO[error] : 0]);
      }
      case SO.ACCEPTCONN:
        return this.numbers([Number(socket.state === 'listening')]);
      case SO.REUSEADDR:
        return this.numbers([Number(socket.reuses('address'))]);
      case SO.REUSEPORT:
        return this.numbers([Number(socket.reuses('port'))]);
      case SO.SNDBUF:
      case SO.RCVBUF:
        return socket.options.get(`${SOL.SOCKET}:${option}`) ?? this.bufferBytes(socket, option);
      case SO.LINGER:
        return socket.options.get(`${SOL.SOCKET}:${option}`) ?? this.numbers([0, 0]);
      case own.passCredentials:
        return this.numbers([Number(socket.tellsSender)]);
      case own.peerCredentials:
        return socket.peerProcess === 0 ? this.numbers([0, 0xffff_ffff, 0xffff_ffff]) : this.numbers([socket.peerProcess, USER, USER]); // prettier-ignore
      case own.receiveLeast:
        return this.numbers([1]);
      case own.receiveTime:
        return this.limitBytes(socket.patience.receive, this.context.wordBytes);
      case own.sendTime:
        return this.limitBytes(socket.patience.send, this.context.wordBytes);
      case SO.RCVTIMEO_NEW:
        return this.limitBytes(socket.patience.receive, 8);
      case SO.SNDTIMEO_NEW:
        return this.limitBytes(socket.patience.send, 8);
      default:
        return null;
    }
  }

  /** Where TCP begins: `tcp_wmem`, `tcp_rmem`. */
  private bufferBytes({ kind }: Socket, option: number): Uint8Array {
    const isTcp = kind.family !== 'unix' && kind.type === 'stream';
    return this.numbers([!isTcp ? BUFFER_BYTES : option === SO.SNDBUF ? 16_384 : 131_072]);
  }

  /** True when a socket has options of a level. */
  private hasLevel({ kind }: Socket, level: number): boolean {
    if (level === SOL.SOCKET) return true;
    if (level === SOL.IPV6) return kind.family === 'inet6';
    if (level === SOL.UDPLITE) return kind.isLite === true;
    if (kind.family === 'netlink') return level === SOL.NETLINK;
    return kind.family !== 'unix' && (level === SOL.IP || (level === SOL.TCP && kind.type === 'stream'));
  }

  getsockopt(args: Arguments): Answer {
    const { context } = this;
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const [level, option] = [int(arg(args, 1)), int(arg(args, 2))];
    const room = context.loadNumber(arg(args, 4), 4);
    if (room === null) return 'EFAULT';
    if (int(room) < 0) return 'EINVAL';
    if (!this.hasLevel(socket, level)) return 'EOPNOTSUPP';
    const first = KEPT[level]!.get(option);
    const kept = first === undefined ? null : (socket.options.get(`${level}:${option}`) ?? this.numbers([first]));
    const own = level === SOL.IPV6 && option === V6ONLY ? this.numbers([Number(socket.isSixOnly)]) : null;
    const value = (level === SOL.SOCKET ? this.ownOption(socket, option) : own) ?? kept;
    if (value === null) {
      context.deviate('socket-options');
      return 'ENOPROTOOPT';
    }
    const bytes = value.subarray(0, Number(room));
    if (bytes.length > 0 && !context.store(arg(args, 3), bytes)) return 'EFAULT';
    return context.storeNumbers(arg(args, 4), [BigInt(bytes.length)], 4) ? 0n : 'EFAULT';
  }

  setsockopt(args: Arguments): Answer {
    const { context } = this;
    const socket = socketAt(this.context, int(arg(args, 0)));
    if (typeof socket === 'string') return socket;
    const [level, option, place, size] = [int(arg(args, 1)), int(arg(args, 2)), arg(args, 3), int(arg(args, 4))];
    if (size < 0) return 'EINVAL';
    if (!this.hasLevel(socket, level)) return socket.isUnix ? 'EOPNOTSUPP' : 'ENOPROTOOPT';
    // Some options of IP are single bytes.
    const width = level === SOL.IP && size === 1 ? 1 : 4;
    if (size < width) return 'EINVAL';
    const value = context.loadNumber(place, width);
    if (value === null) return 'EFAULT';
    if (level === SOL.SOCKET) {
      const set = this.setOwn(socket, option, int(value), place, size);
      if (set !== null) return set;
    }
    if (level === SOL.IPV6 && option === V6ONLY) {
      if (socket.local) return 'EINVAL';
      socket.isSixOnly = value !== 0n;
      return 0n;
    }
    if (!KEPT[level]!.has(option)) {
      context.deviate('socket-options');
      return 'ENOPROTOOPT';
    }
    const isSwitch = level === SOL.SOCKET && option !== 12;
    this.keep(socket, level, option, this.numbers([isSwitch ? Number(value !== 0n) : value]));
    return 0n;
  }

  private keep(socket: Socket, level: number, option: number, bytes: Uint8Array): void {
    socket.options = new Map([...socket.options, [`${level}:${option}`, bytes]]);
  }

  /** Null: it is none of these. */
  private setOwn(socket: Socket, option: number, value: number, place: Address, size: number): Answer | null {
    const { context } = this;
    const own = context.model.socketOptions;
    switch (option) {
      case SO.TYPE:
      case SO.ERROR:
      case SO.ACCEPTCONN:
      case SO.PROTOCOL:
      case SO.DOMAIN:
        return 'ENOPROTOOPT';
      case SO.REUSEADDR:
      case SO.REUSEPORT:
        socket.setReuse(option === SO.REUSEADDR ? 'address' : 'port', value !== 0);
        return 0n;
      case SO.SNDBUF:
      case SO.RCVBUF: {
        const bytes = Math.max(BUFFER_LEAST[option], 2 * Math.min(value < 0 ? BUFFER_MOST : value, BUFFER_MOST));
        this.keep(socket, SOL.SOCKET, option, this.numbers([bytes]));
        return 0n;
      }
      case SO.SNDBUFFORCE:
      case SO.RCVBUFFORCE:
        return 'EPERM';
      case SO.LINGER: {
        const bytes = size < 8 ? null : context.load(place, 8);
        if (!bytes) return size < 8 ? 'EINVAL' : 'EFAULT';
        this.keep(socket, SOL.SOCKET, option, bytes);
        return 0n;
      }
      case own.passCredentials:
        socket.tellsSender = value !== 0;
        return 0n;
      case own.receiveTime:
      case own.sendTime:
        return this.setTime(socket, option === own.receiveTime ? 'receive' : 'send', place, size, context.wordBytes);
      case SO.RCVTIMEO_NEW:
      case SO.SNDTIMEO_NEW:
        return this.setTime(socket, option === SO.RCVTIMEO_NEW ? 'receive' : 'send', place, size, 8);
      default:
        return null;
    }
  }

  /** `struct timeval` of words of `word` bytes; 0: no limit. */
  private setTime(socket: Socket, what: 'receive' | 'send', place: Address, size: number, word: 4 | 8): Answer {
    if (size < 2 * word) return 'EINVAL';
    const [seconds, rest] = [0, word].map((at) => this.context.loadNumber(place + BigInt(at), word));
    if (typeof seconds !== 'bigint' || typeof rest !== 'bigint') return 'EFAULT';
    const [whole, part] = [BigInt.asIntN(8 * word, seconds), BigInt.asIntN(8 * word, rest)];
    if (part < 0n || part >= 1_000_000n) return 'EINVAL';
    const limit = whole < 0n ? 1n : whole * NANOSECONDS + part * 1000n;
    socket.patience = { ...socket.patience, [what]: limit === 0n ? null : limit };
    return 0n;
  }
}
