/** What the code around an instruction says of it, for arguments about mutants (PV-5). */
import type { Program } from '../../src/program/program.js';
import type { Address } from '../../src/units.js';
import type { TracerCode } from './mutant-code.js';
import type { Mutant } from './mutants.js';

const STORE_CONDITIONAL = /^(?:stl?xr|st[wd]cx\.?|sc\.[wd])/;
const LOAD_RESERVED = /^(?:lda?xr|l[wd]arx|lr\.[wd])/;
const CLOCK = /cntvct|rdtsc|rdtime|mftb|spr\w* r\d+,26[89]/;
/** arm64: functions of the runtime have frame pointers, and no unwinder looks at them there. */
const IDLE_FRAME = /^add\s+x29, sp, #0(?:x0)?$|^mov\s+x29, sp$/;

/**
 * What the code around an instruction says of it. `retry`: a branch behind a store with a
 * reservation. `look`: a branch in front of a load with a reservation, which looks again. `clock`:
 * it reads the clock. `idle frame`: it sets a frame pointer that no code reads. `never`: no way
 * leads to it. `gives up`: all ways through it come to where the graph tracer stops for good, or it
 * is the trap of a return that is not known.
 * `exchange`: the branch of a compare and exchange that finds another value.
 */
export type MutantNote = 'retry' | 'look' | 'clock' | 'idle frame' | 'never' | 'gives up' | 'exchange';

export class MutantNotes {
  /** @param isEntered  whether something jumps between two neighbours */
  constructor(
    private readonly program: Program,
    private readonly code: TracerCode,
    private readonly isEntered: (address: Address, end: Address) => boolean,
  ) {}

  /** What stands around an instruction, and in it. */
  of(address: Address, { before, kind }: Mutant): MutantNote | null {
    const { arch, image } = this.program;
    const codeAt = (at: Address): Uint8Array => {
      const offset = image.fileOffsetOf(at);
      return image.bytes.subarray(offset, offset + 16);
    };
    const { isa } = arch;
    const decoded = isa.decode(before, 0, address);
    const behind = isa.decode(codeAt(address + BigInt(decoded.sizeBytes)), 0, address);
    const names = [decoded.mnemonic, ...(kind === 'swap' ? [behind.mnemonic] : [])];
    const textOf = (name: string): string => `${name} ${isa.format(decoded)}`;
    // What comes to the second of both by another way has other flags, or does not read the clock.
    const isOther = kind === 'swap' && this.isEntered(address, address + BigInt(before.length));
    if (names.some((name) => CLOCK.test(name)) || CLOCK.test(textOf(decoded.mnemonic))) return isOther ? null : 'clock';
    if (IDLE_FRAME.test(isa.format(decoded))) return 'idle frame';
    const all = [address, ...(kind === 'swap' ? [address + BigInt(decoded.sizeBytes)] : [])];
    if (all.every((each) => this.code.flow.isNever(each))) return 'never';
    if (all.every((each) => this.code.stops.has(each) || this.code.traps.includes(each))) return 'gives up';
    // Instructions of x86-64 have no fixed size, and none has reservations.
    if (arch.target.id === 'x86-64') return null;
    const isBranch = decoded.flow.kind === 'branch';
    const isStore = STORE_CONDITIONAL.test(decoded.mnemonic) && kind === 'swap' && behind.flow.kind === 'branch';
    const front = isa.decode(codeAt(address - 4n), 0, address - 4n);
    if (isStore || (isBranch && STORE_CONDITIONAL.test(front.mnemonic))) return isOther ? null : 'retry';
    if (!isBranch) return null;
    if (this.isExchange(address, decoded.sizeBytes)) return 'exchange';
    for (let at = address + BigInt(decoded.sizeBytes), n = 0; n < 3; n++) {
      const next = isa.decode(codeAt(at), 0, at);
      if (LOAD_RESERVED.test(next.mnemonic)) return 'look';
      at += BigInt(next.sizeBytes);
    }
    return null;
  }

  /**
   * Whether a branch is that of a compare and exchange: between the load with a reservation and the
   * store, or behind a comparison that stands behind the store and the branch that tries again.
   */
  private isExchange(address: Address, size: number): boolean {
    const { arch, image } = this.program;
    const at = (place: Address) => {
      const offset = image.fileOffsetOf(place);
      return arch.isa.decode(image.bytes.subarray(offset, offset + 4), 0, place);
    };
    // Code with reservations has instructions of four bytes.
    const [before, first] = [at(address - 8n), at(address - 4n)];
    const isLoad =
      LOAD_RESERVED.test(first.mnemonic) || (first.flow.kind === 'next' && LOAD_RESERVED.test(before.mnemonic));
    if (isLoad && STORE_CONDITIONAL.test(at(address + BigInt(size)).mnemonic)) return true;
    return (
      /^(?:cmp|subs)/.test(first.mnemonic) &&
      before.flow.kind === 'branch' &&
      STORE_CONDITIONAL.test(at(address - 12n).mnemonic)
    );
  }
}
