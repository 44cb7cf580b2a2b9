/**
 * System calls by which a process asks who it is and what the system is; the way it ends.
 *
 * Source: Linux, uname(2), sysinfo(2), getrandom(2), arch_prctl(2).
 */
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import { putNumber } from './files.js';
import { NANOSECONDS } from './guest-times.js';
import { FREE_BYTES, MEMORY_BYTES, NODE_NAME, RELEASE, VERSION } from './proc-system.js';
import { type KnownProcess, USER } from './processes.js';

// prettier-ignore
export type FactCallName =
  | 'absent' | 'arch_prctl' | 'exit_group' | 'getpid' | 'getppid' | 'getrandom' | 'getuid'
  | 'sysinfo' | 'uname';

/**
 * ARCH_GET_CPUID, ARCH_SET_CPUID, permissions of extended state, mapping of the vDSO. Source: Linux
 * asm/prctl.h of x86.
 */
const OTHER_CODES: ReadonlySet<number> = new Set([
  0x1011, 0x1012, 0x1021, 0x1022, 0x1023, 0x1024, 0x1025, 0x2001, 0x2002, 0x2003,
]); // prettier-ignore

/** Longest piece that `getrandom` gives at once. */
const RANDOM_MAX = 0x1ff_ffffn;

export class FactCalls implements Readonly<Record<FactCallName, Service>> {
  private readonly encoder = new TextEncoder();

  constructor(private readonly context: KnownProcess) {}

  /** What Linux may be built without. */
  absent(): Answer {
    return 'ENOSYS';
  }

  exit_group(args: Arguments): Answer {
    return { kind: 'exit', code: Number(arg(args, 0) & 0xffn) };
  }

  getpid(): Answer {
    return BigInt(this.context.identity.id);
  }

  getppid(): Answer {
    return BigInt(this.context.identity.parent);
  }

  /** Source: Linux uapi/linux/sysinfo.h. */
  sysinfo(args: Arguments): Answer {
    const word = this.context.wordBytes;
    const seconds = this.context.machine.time / NANOSECONDS;
    const memory = [MEMORY_BYTES, FREE_BYTES, 0n, 0n, 0n, 0n];
    const bytes = new Uint8Array(word === 8 ? 112 : 64);
    [seconds, 0n, 0n, 0n, ...memory].forEach((value, i) => {
      putNumber(bytes, i * word, word, value, this.context.endian);
    });
    putNumber(bytes, 10 * word, 2, 1, this.context.endian);
    // Behind the number of processes, padding, and two words for high memory.
    putNumber(bytes, word === 8 ? 104 : 52, 4, 1, this.context.endian);
    return storeOr(this.context.store(arg(args, 0), bytes));
  }

  getuid(): Answer {
    return USER;
  }

  uname(args: Arguments): Answer {
    const FIELD_BYTES = 65;
    const bytes = new Uint8Array(6 * FIELD_BYTES);
    ['Linux', NODE_NAME, RELEASE, VERSION, this.context.model.machineName, '(none)'].forEach((text, i) => {
      bytes.set(this.encoder.encode(text), i * FIELD_BYTES);
    });
    return storeOr(this.context.store(arg(args, 0), bytes));
  }

  getrandom(args: Arguments): Answer {
    const [address, size, flags] = [arg(args, 0), arg(args, 1), BigInt.asUintN(32, arg(args, 2))];
    // GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE; the last two exclude each other.
    if (flags > 7n || (flags & 6n) === 6n) return 'EINVAL';
    const length = Number(size > RANDOM_MAX ? RANDOM_MAX : size);
    if (!this.context.usableBuffer(address, length, 'write')) return 'EFAULT';
    const bytes = this.context.randomBytes(length);
    this.context.machine.memory.write(address, bytes);
    return BigInt(length);
  }

  arch_prctl(args: Arguments): Answer {
    const names: Readonly<Record<number, 'gs_base' | 'fs_base'>> = {
      0x1001: 'gs_base',
      0x1002: 'fs_base',
      0x1003: 'fs_base',
      0x1004: 'gs_base',
    };
    const code = int(arg(args, 0));
    const name = names[code];
    if (name === undefined) {
      if (OTHER_CODES.has(code)) this.context.deviate('codes');
      return 'EINVAL';
    }
    if (code >= 0x1003) return storeOr(this.context.storeNumbers(arg(args, 1), [this.context.machine.register(name)]));
    // TASK_SIZE_MAX
    if (arg(args, 1) >= 0x7fff_ffff_f000n) return 'EPERM';
    this.context.machine.setRegister(name, arg(args, 1));
    return 0n;
  }
}
