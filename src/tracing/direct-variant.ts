/**
 * The three ways from the register entry of RISC-V to a direct caller that the thread of 2022 argues about (30-riscv section 5). Owns what differs
 * between them: the word of the frame that the helper writes, and what the entry has for it.
 *
 *   variant   helper writes the slot of        entry
 *   t1        t1                               clears it before callbacks; `bnez t1` at the exit: the interface
 *   t0        epc, which is loaded into t0     as it was before: no store, no test (two nops here)
 *   t0slot    t0, which nobody loads           the same
 */
import { wordBytes } from '../bytes.js';
import { ElftraceError } from '../errors.js';
import { RISCV_DIRECT_SLOTS, RISCV_MERGED_DIRECT_SLOTS } from '../runtime/abi.js';
import { entryPoint } from '../patch/routes.js';
import type { Sites } from '../sites/sites.js';
import { entriesOf } from './tracing.js';

export type DirectVariant = 't1' | 't0' | 't0slot';
export const directVariants: readonly DirectVariant[] = ['t1', 't0', 't0slot'];

const NOP = 0x0000_0013;

/** Byte offset in the frame that the helper writes; null where the entries have no such word. */
function slotOf(kind: string, variant: DirectVariant): number | null {
  if (kind === 'g2') return RISCV_DIRECT_SLOTS[variant];
  // G3c finds out by the ops of the site: its entry has nothing that the proposals leave out.
  const isMerged = kind === 'g2-merged' || kind === 'g3' || (kind === 'g3c' && variant === 't1');
  return isMerged && variant !== 't0slot' ? RISCV_MERGED_DIRECT_SLOTS[variant] : null;
}

/**
 * Gives the entries of an image the way of a variant, in the image's own bytes.
 * @throws ElftraceError 'usage' where the entries of the image cannot have it, 'no-runtime' where they know no direct callers
 */
export function setDirectVariant({ program }: Sites, variant: DirectVariant): void {
  const { kind } = entriesOf(program);
  const slot = slotOf(kind, variant);
  if (slot === null) {
    throw new ElftraceError('usage', `the entries of the image (${kind}) have no direct calls through ${variant}`);
  }
  const { image } = program;
  const write = (symbol: string, word: number): void => {
    const place = entryPoint(program, symbol);
    if (place === null) {
      throw new ElftraceError('no-runtime', `the entries of the image have no ${symbol}`, { symbol });
    }
    image.bytes.set(wordBytes(word, image.header.endian), image.fileOffsetOf(place.identity));
  };
  // The word has eight bytes; offsets need the lower four.
  write('elftrace_direct_slot', slot);
  if (variant === 't1') return;
  write('elftrace_direct_clear', NOP);
  write('ftrace_regs_caller_end', NOP);
}
