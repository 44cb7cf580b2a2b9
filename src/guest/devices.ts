/**
 * What exists whatever the tree is: devices without hardware below `/dev`.
 *
 * Source: Linux, null(4), full(4), random(4), Documentation/admin-guide/devices.txt.
 */
import type { Errno } from './errno.js';
import { Description, O } from './descriptions.js';
import type { SpecialStatus } from './files.js';

/** Bytes that repeat from run to run. */
export type RandomBytes = (size: number) => Uint8Array;

/** Most bytes that one read brings. */
const READ_MAX = 0x10_0000;

const NUMBERS = { null: 3, zero: 5, full: 7, random: 8, urandom: 9 } as const;
type DeviceName = keyof typeof NUMBERS;
const MEMORY_MAJOR = 1;

class Device extends Description {
  readonly path: string;

  constructor(
    private readonly name: DeviceName,
    flags: number,
    private readonly random: RandomBytes,
  ) {
    super(flags, deviceStatus(name));
    this.path = `/dev/${name}`;
  }

  override get isPolled(): boolean {
    return this.name === 'random';
  }

  override available(size: number): number {
    return this.name === 'null' ? 0 : Math.min(size, READ_MAX);
  }

  override read(size: number): Uint8Array {
    const most = this.available(size);
    return this.name === 'random' || this.name === 'urandom' ? this.random(most) : new Uint8Array(most);
  }

  override readAt(_offset: number, size: number): Uint8Array {
    return this.read(size);
  }

  override write(bytes: Uint8Array): number | Errno {
    return this.name === 'full' && bytes.length > 0 ? 'ENOSPC' : bytes.length;
  }

  override writeAt(_offset: number, bytes: Uint8Array): number | Errno {
    return this.write(bytes);
  }

  override seek(move: (position: number, size: number) => number | Errno): number | Errno {
    const to = move(0, 0);
    return typeof to === 'number' ? 0 : to;
  }
}

function deviceStatus(name: DeviceName): SpecialStatus {
  const number = NUMBERS[name];
  return { kind: 'character', permissions: 0o666, inode: 100 + number, device: (MEMORY_MAJOR << 8) | number };
}

function isDevice(name: string): name is DeviceName {
  return Object.hasOwn(NUMBERS, name);
}

/** What there is below `/dev` whatever the tree is. */
export const DEVICE_NAMES: readonly string[] = [
  ...Object.keys(NUMBERS), 'fd', 'ptmx', 'pts', 'stderr', 'stdin', 'stdout', 'tty',
]; // prettier-ignore

/** The device of a path; null: there is none. */
export function deviceAt(
  path: string,
  random: RandomBytes,
): { readonly path: string; readonly status: SpecialStatus; open(flags: number): Device } | null {
  const name = path.startsWith('/dev/') ? path.slice('/dev/'.length) : '';
  if (!isDevice(name)) return null;
  return {
    path,
    status: deviceStatus(name),
    open: (flags) => new Device(name, flags & (O.ACCMODE | O.NONBLOCK | O.APPEND), random),
  };
}
