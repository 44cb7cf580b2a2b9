/**
 * System calls that change the address space of a process.
 *
 * Source: Linux, brk(2), mmap(2), mremap(2), madvise(2).
 */
import { alignUpBig } from '../bits.js';
import { type AddressSpace, ranged, SHARED_NAME, type SharedMapping } from './address-space.js';
import { type Answer, arg, type Arguments, type CallContext, int, type Service } from './call-context.js';
import type { Errno } from './errno.js';
import { FileDescription, O } from './descriptions.js';
import { isSpecial } from './files.js';
import { MemoryFile, SEAL } from './memory-file.js';
import type { GuestMemory } from '../emulator/memory.js';
import { PAGE, type Permission } from '../emulator/windows.js';
import type { Address } from '../units.js';

const PROT_READ = 1n;
const PROT_WRITE = 2n;
const PROT_EXEC = 4n;
/** Read, write, execute, and PROT_SEM, which means nothing today. */
const PROT_KNOWN = 0xfn;
const MAP_SHARED = 1n;
const MAP_PRIVATE = 2n;
const MAP_SHARED_VALIDATE = 3n;
const MAP_TYPE = 0xfn;
const MAP_FIXED = 0x10n;
const MAP_ANONYMOUS = 0x20n;
const MAP_FIXED_NOREPLACE = 0x10_0000n;
/**
 * MAP_GROWSDOWN, MAP_HUGETLB, MAP_SYNC. Other flags say how and when memory is provided, which a
 * program does not see.
 */
const MAP_OTHER_KINDS = 0x100n | 0x4_0000n | 0x8_0000n;
/**
 * Kinds of advice that change nothing but speed; MADV_DONTNEED is 4. Source: Linux
 * asm-generic/mman-common.h.
 */
const ADVICE_WITHOUT_EFFECT: ReadonlySet<number> = new Set([
  0, 1, 2, 3, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25,
]);
const MADV_DONTNEED = 4;

/**
 * Lowest address that a process may map. Source: Linux, `vm.mmap_min_addr` of Debian and others.
 */
const LOWEST_MAPPING = 0x1_0000n;
const ZEROS_AT_ONCE = 0x10_0000n;

function permissionOf(protection: bigint): Permission {
  if (protection === 0n) return 'none';
  const write = (protection & PROT_WRITE) !== 0n;
  const execute = (protection & PROT_EXEC) !== 0n;
  return write ? (execute ? 'rwx' : 'rw') : execute ? 'rx' : 'r';
}

export type MemoryCallName =
  | 'brk' | 'flush_icache' | 'madvise' | 'mincore' | 'mlock' | 'mlock2' | 'mlockall' | 'mmap' | 'mmap2' | 'mprotect' | 'mremap' | 'msync' | 'munlock' | 'munlockall' | 'munmap'; // prettier-ignore

export class MemoryCalls implements Readonly<Record<MemoryCallName, Service>> {
  constructor(private readonly context: CallContext) {}

  private get space(): AddressSpace {
    return this.context.space;
  }

  private get memory(): GuestMemory {
    return this.context.machine.memory;
  }

  /** Code of the kernel in the process, such as its vDSO holds; null: there is no room. */
  mapCode(code: Uint8Array): Address | null {
    const address = this.placeFor(0n, PAGE, 0n);
    if (typeof address === 'string') return null;
    const request = { address, size: Number(PAGE), permission: 'rx', name: 'vdso' } as const;
    if (this.memory.tryMap(request) !== null) return null;
    this.memory.write(address, code);
    return address;
  }

  brk(args: Arguments): Answer {
    const wanted = arg(args, 0);
    const { memory, space } = this;
    const { heapStart, mappingTop } = space;
    if (wanted < heapStart || wanted > mappingTop) return space.heapEnd;
    const refused = (): bigint => {
      this.context.deviate('limits');
      return this.space.heapEnd;
    };
    const oldSize = Number(alignUpBig(this.space.heapEnd, PAGE) - heapStart);
    const newSize = Number(alignUpBig(wanted, PAGE) - heapStart);
    if (newSize > oldSize) {
      if (oldSize === 0) {
        if (memory.check(heapStart, 1, 'read') === null) return this.space.heapEnd;
        if (memory.isMapped(heapStart, newSize)) return this.space.heapEnd;
        const heap = {
          address: heapStart,
          size: newSize,
          permission: 'rw',
          name: 'heap',
          reserve: 0x10_0000,
        } as const;
        if (memory.tryMap(heap) !== null) return refused();
      } else if (memory.isMapped(heapStart + BigInt(oldSize), newSize - oldSize)) return this.space.heapEnd;
      else if (!this.growHeap(oldSize, newSize)) return refused();
    } else if (newSize < oldSize && !memory.unmap(heapStart + BigInt(newSize), oldSize - newSize)) return refused();
    this.space.heapEnd = wanted;
    return wanted;
  }

  /** Parts of the heap that are protected otherwise are mappings of their own. */
  private growHeap(oldSize: number, newSize: number): boolean {
    const { memory, space } = this;
    if (memory.resize(space.heapStart, newSize)) return true;
    const address = space.heapStart + BigInt(oldSize);
    return memory.tryMap({ address, size: newSize - oldSize, permission: 'rw', name: 'heap' }) === null;
  }

  private guards(protection: bigint): boolean {
    const { guard } = this.context.model;
    return guard !== null && (protection & guard.protection) !== 0n;
  }

  private isMapped(address: Address, size: bigint): boolean {
    return this.memory.isMapped(address, Number(size));
  }

  private outOfMemory(): Errno {
    this.context.deviate('limits');
    return 'ENOMEM';
  }

  /** Bits of protection that mean something here. */
  private checkProtection(protection: bigint): void {
    const known = PROT_KNOWN | (this.context.model.guard?.protection ?? 0n);
    if ((protection & ~known) !== 0n) this.context.deviate('protection');
  }

  /** What is mapped of an open file; an error where it cannot be. */
  private mappedFile(number: number, protection: bigint, type: bigint): FileDescription | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    if ((description.flags & O.PATH) !== 0) return 'EBADF';
    if (!(description instanceof FileDescription)) return isSpecial(description.status) ? 'ENODEV' : 'EACCES';
    if (!description.isReadable) return 'EACCES';
    if (type === MAP_PRIVATE) return description;
    const { file } = description;
    const isSealed = file instanceof MemoryFile && (file.seals & (SEAL.WRITE | SEAL.FUTURE_WRITE)) !== 0;
    if (isSealed && (protection & PROT_WRITE) !== 0n) return 'EPERM';
    if ((protection & PROT_WRITE) === 0n) return description;
    return description.isWritable ? description : 'EACCES';
  }

  /** Nothing that lies in a range is there any more: what was stored there for others is theirs. */
  private leave(from: Address, to: Address): void {
    const { space, context } = this;
    space.locked = ranged(space.locked, from, to, false);
    space.unread = ranged(space.unread, from, to, false);
    if (!space.shared.some((each) => each.from < to && each.to > from)) return;
    context.sharing.publish(context);
    space.unshare(from, to);
    context.sharing.settle();
  }

  /** Notes that what was mapped is shared. `file`: null: it is anonymous. */
  private share(
    file: FileDescription | null,
    mapping: Pick<SharedMapping, 'from' | 'to' | 'offset' | 'permission'>,
  ): void {
    const { space, context } = this;
    const object = context.sharing.objectFor(file);
    const [begin, end] = [mapping.offset, mapping.offset + Number(mapping.to - mapping.from)];
    const isTwice = ({ object: other, offset, from, to }: SharedMapping): boolean =>
      other === object && offset < end && offset + Number(to - from) > begin;
    if (space.shared.some(isTwice)) context.deviate('shared-twice');
    const isSealed = file?.file instanceof MemoryFile && (file.file.seals & (SEAL.WRITE | SEAL.FUTURE_WRITE)) !== 0;
    const mayWrite = file?.isWritable !== false && !isSealed;
    space.shared = [...space.shared, { ...mapping, object, mayWrite, seen: object.version }];
    if (!file) return;
    const contents = this.memory.read(mapping.from, Math.min(object.end - begin, end - begin));
    if (contents) object.cover(begin, contents);
  }

  /**
   * Where `size` bytes, a multiple of pages, are mapped; an error where they cannot be. The order
   * of the checks is that of Linux, `get_unmapped_area` and `do_mmap`.
   */
  private placeFor(hint: Address, size: bigint, flags: bigint): Address | Errno {
    const { userEnd } = this.context.model;
    if (size > userEnd) return 'ENOMEM';
    if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) !== 0n) {
      if (hint > userEnd - size) return 'ENOMEM';
      if (hint % PAGE !== 0n) return 'EINVAL';
      if (hint < LOWEST_MAPPING) return 'EPERM';
      if ((flags & MAP_FIXED_NOREPLACE) !== 0n && this.isMapped(hint, size)) return 'EEXIST';
      return hint;
    }
    const wanted = hint & -PAGE;
    if (wanted >= LOWEST_MAPPING && wanted <= userEnd - size && !this.isMapped(wanted, size)) return wanted;
    // From the top down, into the first gap that is large enough.
    let top = this.space.mappingBottom;
    for (let first = true; top - size >= LOWEST_MAPPING; first = false) {
      const below = this.memory.lastBelow(top);
      if (below === null || top - below.end >= size) {
        if (first) this.space.mappingBottom = top - size;
        return top - size;
      }
      if (first && below.end === top) this.space.mappingBottom = below.address;
      top = below.address;
    }
    return 'ENOMEM';
  }

  /** The least mapping of a length; 0 where rounding it up to pages leaves the address space. */
  private pagesOf(length: bigint): bigint {
    return BigInt.asUintN(8 * this.context.wordBytes, alignUpBig(length, PAGE));
  }

  /**
   * `offset` in bytes. Files are copied; where files may change, what is shared of them is noted.
   * `given`: the file, in place of a descriptor.
   */
  private map(args: Arguments, offset: bigint, given: FileDescription | null = null): bigint | Errno {
    const { memory } = this;
    const [hint, length, protection, flags] = [args[0]!, args[1]!, args[2]!, args[3]!];
    const type = flags & MAP_TYPE;
    if (offset % PAGE !== 0n) return 'EINVAL';
    const isAnonymous = (flags & MAP_ANONYMOUS) !== 0n;
    const file = isAnonymous ? null : (given ?? this.mappedFile(int(args[4]!), protection, type));
    if (file === 'EBADF') return file;
    if (length === 0n) return 'EINVAL';
    const size = this.pagesOf(length);
    if (size === 0n) return 'ENOMEM';
    if (offset / PAGE + size / PAGE >= 1n << BigInt(8 * this.context.wordBytes)) return 'EOVERFLOW';
    if (memory.hasMostAreas) return 'ENOMEM';
    const address = this.placeFor(hint, size, flags);
    if (typeof address === 'string') return address;
    if (type !== MAP_SHARED && type !== MAP_PRIVATE && type !== MAP_SHARED_VALIDATE) return 'EINVAL';
    if (typeof file === 'string') return file;
    if ((flags & MAP_OTHER_KINDS) !== 0n) this.context.deviate('mapping-kind');
    this.checkProtection(protection);
    const permission = permissionOf(protection);
    if (permission !== 'none' && !memory.hasRoom(Number(size))) return this.outOfMemory();
    // What a fixed mapping lies on is gone.
    this.leave(address, address + size);
    if (!memory.unmap(address, Number(size))) return 'ENOMEM';
    const guarded = this.guards(protection);
    const name = !isAnonymous ? 'file' : type === MAP_PRIVATE ? 'mapping' : SHARED_NAME;
    const refusal = memory.tryMap({ address, size: Number(size), permission, guarded, name });
    if (refusal !== null) return refusal.code === 'areas' ? 'ENOMEM' : this.outOfMemory();
    this.mark(address, address + size, protection);
    if (this.space.locksNew) this.space.locked = ranged(this.space.locked, address, address + size, true);
    if (file) {
      if (this.context.files.isWatched(file.path)) this.context.deviate('watches');
      const contents = file.contents(Number(offset), Number(size));
      this.space.noteFile({ from: address, to: address + size, path: file.path, offset });
      memory.write(address, contents);
      const end = alignUpBig(BigInt(contents.length), PAGE);
      if (end < size) this.hide(address + end, address + size);
    }
    const isShared = type !== MAP_PRIVATE && (!file || file.file instanceof MemoryFile || this.context.files.changes !== undefined); // prettier-ignore
    if (isShared)
      this.share(file, { from: address, to: address + size, offset: file ? Number(offset) : 0, permission });
    return address;
  }

  /** Notes that a range may be accessed, but not read. */
  private mark(from: Address, to: Address, protection: bigint): void {
    const isUnread = (protection & PROT_READ) === 0n && (protection & (PROT_WRITE | PROT_EXEC)) !== 0n;
    if (isUnread || this.space.unread.length > 0) this.space.unread = ranged(this.space.unread, from, to, isUnread);
  }

  /** Nothing of the range can be accessed: it lies behind the end of the file that is mapped. */
  private hide(from: Address, to: Address): void {
    if (!this.memory.protect(from, Number(to - from), 'none')) this.context.deviate('limits');
    this.space.behindFiles = [...this.space.behindFiles, [from, to]];
  }

  /** Maps a file as shared at an address, 0: anywhere. `replaces`: what is there goes. */
  attach(file: FileDescription, at: Address, size: number, protection: number, replaces: boolean): bigint | Errno {
    const place = at === 0n ? 0n : replaces ? MAP_FIXED : MAP_FIXED_NOREPLACE;
    const answer = this.map([at, BigInt(size), BigInt(protection), MAP_SHARED | place], 0n, file);
    return answer === 'EEXIST' ? 'EINVAL' : answer;
  }

  mmap(args: Arguments): Answer {
    return this.map(args, arg(args, 5));
  }

  mmap2(args: Arguments): Answer {
    return this.map(args, arg(args, 5) * PAGE);
  }

  munmap(args: Arguments): Answer {
    const [address, length] = [arg(args, 0), arg(args, 1)];
    const { userEnd } = this.context.model;
    if (address % PAGE !== 0n || address > userEnd || length > userEnd - address) return 'EINVAL';
    const size = alignUpBig(length, PAGE);
    if (size === 0n) return 'EINVAL';
    this.leave(address, address + size);
    if (!this.memory.unmap(address, Number(size))) return 'ENOMEM';
    const end = address + size;
    if (end > this.space.mappingBottom && address < this.space.mappingTop) {
      this.space.mappingBottom = end < this.space.mappingTop ? end : this.space.mappingTop;
    }
    return 0n;
  }

  /** What is mapped in front of the first gap changes, as in Linux, before that gap is an error. */
  mprotect(args: Arguments): Answer {
    const [address, length, protection] = [arg(args, 0), arg(args, 1), arg(args, 2)];
    if (address % PAGE !== 0n) return 'EINVAL';
    if (length === 0n) return 0n;
    const size = this.pagesOf(length);
    const end = BigInt.asUintN(8 * this.context.wordBytes, address + size);
    if (end <= address) return 'ENOMEM';
    this.checkProtection(protection);
    const shared = this.space.shared.filter((each) => each.from < end && each.to > address);
    if ((protection & PROT_WRITE) !== 0n && shared.some(({ mayWrite }) => !mayWrite)) return 'EACCES';
    if (shared.length > 0) this.context.sharing.publish(this.context);
    const mapped = this.memory.mappedFrom(address, Number(size));
    const refusal =
      mapped > 0 ? this.memory.tryProtect(address, mapped, permissionOf(protection), this.guards(protection)) : null;
    if (refusal === null) this.mark(address, address + BigInt(mapped), protection);
    // Pages that could not be accessed may have memory now.
    for (const each of shared) Object.assign(each, { seen: -1, permission: permissionOf(protection) });
    if (shared.length > 0) this.context.sharing.fetch(this.context);
    if (refusal !== null) return refusal.code === 'areas' ? 'ENOMEM' : this.outOfMemory();
    return BigInt(mapped) === size ? 0n : 'ENOMEM';
  }

  madvise(args: Arguments): Answer {
    const [address, length, advice] = [arg(args, 0), arg(args, 1), int(arg(args, 2))];
    if (!ADVICE_WITHOUT_EFFECT.has(advice) && advice !== MADV_DONTNEED) {
      if (advice !== 9 && advice < 100) return 'EINVAL';
      this.context.deviate('keeps-contents');
      return 'EINVAL';
    }
    if (address % PAGE !== 0n) return 'EINVAL';
    const size = this.pagesOf(length);
    if (length !== 0n && size === 0n) return 'EINVAL';
    const end = BigInt.asUintN(8 * this.context.wordBytes, address + size);
    if (end < address) return 'EINVAL';
    let at = address;
    for (const window of this.memory.windowsIn(address, Number(end - address))) {
      const from = window.address > at ? window.address : at;
      if (from > at) at = -1n;
      const windowEnd = window.address + BigInt(window.size);
      const to = windowEnd < end ? windowEnd : end;
      if (advice === MADV_DONTNEED) {
        // What is shared comes from its object again.
        const isShared = window.name === SHARED_NAME || this.space.sharedAt(window.address) !== null;
        if (!isShared && (window.name === 'file' || window.name === 'segment')) this.context.deviate('keeps-contents');
        else if (!isShared) this.clear(from < address ? address : from, to);
      }
      if (at >= 0n) at = to;
    }
    // Holes are left out, and said at the end.
    return at === end ? 0n : 'ENOMEM';
  }

  /** Stores zeros in a range of one window. */
  private clear(from: Address, to: Address): void {
    const zeros = new Uint8Array(Number(to - from < ZEROS_AT_ONCE ? to - from : ZEROS_AT_ONCE));
    for (let at = from; at < to; at += ZEROS_AT_ONCE) {
      this.memory.write(at, to - at < ZEROS_AT_ONCE ? zeros.subarray(0, Number(to - at)) : zeros);
    }
  }

  /** Which pages are in memory: what is mapped is. */
  mincore(args: Arguments): Answer {
    const [address, length, place] = [arg(args, 0), arg(args, 1), arg(args, 2)];
    if (address % PAGE !== 0n) return 'EINVAL';
    if (length === 0n) return 0n;
    const size = this.pagesOf(length);
    const { userEnd } = this.context.model;
    if (address > userEnd || size > userEnd - address || size === 0n) return 'ENOMEM';
    if (BigInt(this.memory.mappedFrom(address, Number(size))) < size) return 'ENOMEM';
    this.context.deviate('resident');
    return this.context.store(place, new Uint8Array(Number(size / PAGE)).fill(1)) ? 0n : 'EFAULT';
  }

  /** A system call synchronises the CPU by itself. */
  flush_icache(): Answer {
    return 0n;
  }

  /** MREMAP_MAYMOVE is served, other flags are not. */
  mremap(args: Arguments): Answer {
    const { memory } = this;
    const [address, oldLength, newLength, flags] = [arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3)];
    const MAYMOVE = 1n;
    if ((flags & ~7n) !== 0n || address % PAGE !== 0n) return 'EINVAL';
    const [oldSize, newSize] = [this.pagesOf(oldLength), this.pagesOf(newLength)];
    if (newSize === 0n) return 'EINVAL';
    if (flags > MAYMOVE || oldSize === 0n) {
      this.context.deviate('remapping');
      return 'EINVAL';
    }
    if (newSize > this.context.model.userEnd) return 'ENOMEM';
    const window = memory.windowAt(address);
    if (!window || memory.mappedFrom(address, Number(oldSize)) !== Number(oldSize)) return 'EFAULT';
    if (newSize <= oldSize) {
      this.leave(address + newSize, address + oldSize);
      return memory.unmap(address + newSize, Number(oldSize - newSize)) ? address : 'ENOMEM';
    }
    if (BigInt(window.size) - (address - window.address) < oldSize) return 'EFAULT';
    const { permission, guarded, name } = window;
    if (name === 'file' || name === 'segment' || name === SHARED_NAME) this.context.deviate('remapping');
    const more = Number(newSize - oldSize);
    if (permission !== 'none' && !memory.hasRoom(more)) return this.outOfMemory();
    const end = address + oldSize;
    if (!memory.isMapped(end, more) && end + BigInt(more) <= this.context.model.userEnd) {
      const refusal = memory.tryMap({ address: end, size: more, permission, guarded, name });
      return refusal === null ? address : this.outOfMemory();
    }
    if ((flags & MAYMOVE) === 0n) return 'ENOMEM';
    const place = this.placeFor(0n, newSize, 0n);
    if (typeof place === 'string') return place;
    const refusal = memory.tryMap({ address: place, size: Number(newSize), permission, guarded, name });
    if (refusal !== null) return this.outOfMemory();
    if (permission !== 'none') memory.write(place, memory.read(address, Number(oldSize))!);
    const moved = this.sharedIn(address, address + oldSize, place - address);
    this.leave(address, address + oldSize);
    this.space.shared = [...this.space.shared, ...moved];
    memory.unmap(address, Number(oldSize));
    return place;
  }

  /** What is shared of a range, moved by `by`. */
  private sharedIn(from: Address, to: Address, by: bigint): SharedMapping[] {
    return this.space.shared.flatMap((each) => {
      const [low, high] = [each.from > from ? each.from : from, each.to < to ? each.to : to];
      if (low >= high) return [];
      return [{ ...each, from: low + by, to: high + by, offset: each.offset + Number(low - each.from) }];
    });
  }

  /** Memory is always there; that it is locked is known to `msync`. */
  private lock(args: Arguments, isLocked: boolean): Answer {
    const begin = arg(args, 0) & -PAGE;
    const size = this.pagesOf(arg(args, 1) + (arg(args, 0) - begin));
    if (BigInt.asUintN(8 * this.context.wordBytes, begin + size) < begin) return 'EINVAL';
    const mapped = this.memory.mappedFrom(begin, Number(size));
    const { space } = this;
    space.locked = ranged(space.locked, begin, begin + BigInt(mapped), isLocked);
    return mapped === Number(size) ? 0n : 'ENOMEM';
  }

  mlock(args: Arguments): Answer {
    return this.lock(args, true);
  }

  mlock2(args: Arguments): Answer {
    const ONFAULT = 1;
    return (int(arg(args, 2)) & ~ONFAULT) !== 0 ? 'EINVAL' : this.mlock(args);
  }

  munlock(args: Arguments): Answer {
    return this.lock(args, false);
  }

  mlockall(args: Arguments): Answer {
    const [CURRENT, FUTURE] = [1, 2];
    const flags = int(arg(args, 0));
    // MCL_ONFAULT alone, or what Linux does not know.
    if (flags === 4 || flags <= 0 || flags > 7) return 'EINVAL';
    const all = [...this.memory.windows].map(({ address, size }) => [address, address + BigInt(size)] as const);
    if ((flags & CURRENT) !== 0) this.space.locked = all;
    this.space.locksNew = (flags & FUTURE) !== 0;
    return 0n;
  }

  munlockall(): Answer {
    this.space.locked = [];
    this.space.locksNew = false;
    return 0n;
  }

  /** What is shared of files is theirs when anything looks at them. */
  msync(args: Arguments): Answer {
    const [address, length, flags] = [arg(args, 0), arg(args, 1), arg(args, 2)];
    if (address % PAGE !== 0n || (flags & ~7n) !== 0n || (flags & 5n) === 5n) return 'EINVAL';
    const size = this.pagesOf(length);
    const INVALIDATE = 2n;
    const mapped = BigInt(this.memory.mappedFrom(address, Number(size)));
    const isLocked = this.space.locked.some(([from, to]) => from < address + mapped && to > address);
    if ((flags & INVALIDATE) !== 0n && isLocked) return 'EBUSY';
    return mapped === size ? 0n : 'ENOMEM';
  }
}
