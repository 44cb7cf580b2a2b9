/**
 * Words of objects and branches inside entries, as steps of a plan: each is compared with what may
 * stand there before it is planned.
 */
import { ByteView, equalBytes } from '../bytes.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { Step } from '../patch/plan.js';
import { type EntryPoint, entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';

/** Stores outside sites. */
export class EntryWords {
  readonly steps: Step[] = [];

  constructor(
    private readonly program: Program,
    private readonly forbidden: readonly { readonly start: number; readonly end: number }[],
  ) {}

  /**
   * What a symbol names: `address` for branches, `identity` for words that hold it.
   * @throws ElftraceError 'no-runtime'
   */
  entry(symbol: string): EntryPoint {
    const found = entryPoint(this.program, symbol);
    if (found === null) {
      throw new ElftraceError('no-runtime', `the image's runtime has no symbol ${symbol}`, { symbol });
    }
    return found;
  }

  /** Address of a label or an object. */
  address(symbol: string): Address {
    return this.entry(symbol).identity;
  }

  private store(
    what: string,
    address: Address,
    after: Uint8Array,
    rule: string,
    check: (now: Uint8Array) => string,
  ): void {
    const { image } = this.program;
    const fileOffset = image.fileOffsetOf(address);
    if (fileOffset < 0 || fileOffset + after.length > image.bytes.length) {
      throw new ElftraceError('site-mismatch', `${what} at ${hex(address)} is not in the file (EFAULT)`, {
        symbol: what,
        address,
      });
    }
    const before = image.bytes.slice(fileOffset, fileOffset + after.length);
    const wrong = check(before);
    if (wrong !== '') {
      throw new ElftraceError(
        'site-mismatch',
        `${what} at ${hex(address)}: ${wrong}, actual ${hexBytes(before)}; nothing was written`,
        { symbol: what, address, actual: hexBytes(before) },
      );
    }
    for (const range of this.forbidden) {
      if (fileOffset < range.end && range.start < fileOffset + after.length) {
        throw new ElftraceError('site-mismatch', `${what} at ${hex(address)} may not be written (EPERM)`, {
          symbol: what,
          address,
        });
      }
    }
    if (equalBytes(before, after)) return;
    const section = image.sections.find(
      (each) => each.size > 0 && address >= each.address && address < each.address + BigInt(each.size),
    );
    this.steps.push({
      kind: 'store',
      site: -1,
      section: section?.name ?? '',
      address,
      fileOffset,
      before,
      after,
      rule,
    });
  }

  /** A word of an object of ours. */
  word(what: string, address: Address, value: bigint, rule: string): void {
    const { image } = this.program;
    const after = new Uint8Array(image.wordBytes);
    new ByteView(after, image.header.endian).insertWord(0, value, image.wordBytes);
    this.store(what, address, after, rule, () => '');
  }

  /** Bits of a word of 32 bits of an object of ours: they are set, or not. */
  bits(what: string, address: Address, mask: number, isSet: boolean, rule: string): void {
    const { image } = this.program;
    const fileOffset = image.fileOffsetOf(address);
    const before = fileOffset < 0 ? 0 : new ByteView(image.bytes, image.header.endian).u32(fileOffset);
    const after = new Uint8Array(4);
    new ByteView(after, image.header.endian).insertU32(0, isSet ? before | mask : before & ~mask);
    this.store(what, address, after, rule, () => '');
  }

  /**
   * A branch inside an entry. What is there must be a branch to a function of the image, or
   * (`graph`) one to the next instruction or the place that it leads to when it is on.
   */
  branch(symbol: string, kind: 'call' | 'graph', target: Address, rule: string): void {
    const codec = this.program.arch.branches[kind];
    const at = this.address(symbol);
    const after = codec.encode(at, target);
    this.store(symbol, at, after, rule, (now) => {
      const leads = codec.target(now, at);
      if (leads === null) return `expected a ${kind === 'call' ? 'call' : 'branch'}`;
      if (kind === 'graph' || this.isEntry(leads)) return '';
      return `the call leads to ${hex(leads)}, where no function starts`;
    });
  }

  /** True for the address of a function, its local entry included. */
  private isEntry(address: Address): boolean {
    const { program } = this;
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionAt(range, address);
    if (symbol < 0) return false;
    const start = program.functions.placeOf(symbol)?.value;
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    return start !== undefined && (address === start || address === start + local);
  }

  /** True when the branch of a symbol can lead to `target`. */
  reaches(symbol: string, target: Address): boolean {
    const { reach } = this.program.arch.branches.call;
    const distance = target - this.address(symbol);
    return distance >= reach.min && distance <= reach.max;
  }
}
