/**
 * Which entry of the runtime can serve a site of x86-64. Owns the rule; the site's bytes are
 * `sites.ts`'s, the entries are in `entry-2014.S` and `entry-modern.S`.
 *
 * An entry finds the return address of the traced function, which it reports and the graph tracer
 * changes, by a fixed place, and three conventions differ in it. The bytes of the call do not say
 * which it is once it is a nop: what stands before it in its function does.
 *
 *   convention     before the call                      return address  who serves it
 *   fentry         nothing, or endbr64                  8(%rsp)         modern, y2014
 *   fentry-nested  push %r10 (nested functions of gcc;  16(%rsp)        modern, y2014: see below
 *                  calls of 5, 6 or 13 bytes)
 *   mcount         push %rbp; mov %rsp,%rbp, and more   8(%rbp)         mcount
 *
 * An entry passes what is at 8(%rsp) as parent_ip; at a nested function that is the static chain.
 * The graph tracer and, where it gets a frame (modern, and the register entry of 2014), the
 * function tracer look at the code around the site and find the return address one word on; other
 * callbacks must do so themselves. So images with the entries of 2014 use the register entry where
 * a nested function is among the traced ones.
 */
import type { SiteView } from '../machine/sites.js';

export type SiteConvention = 'fentry' | 'fentry-nested' | 'mcount' | 'unknown';

const ENDBR64 = 0xfa1e_0ff3;
/** push %rbp; mov %rsp,%rbp */
const FRAME = 0xe589_4855;
/** push %r10, at a site of a nested function. */
const PUSH_R10 = 0x5241;

/**
 * A call of mcount stands 4 to 97 bytes behind the symbol in what was measured; saves of twelve
 * arguments take no more than this.
 */
const MAX_PROLOGUE = 256;

/**
 * Convention of a call site.
 * @param view     moved to the site
 * @param ipDelta  of the call or nop, from the anchor
 */
export function siteConvention(view: SiteView, ipDelta: number): SiteConvention {
  const before = (size: number): number => ipDelta - size;
  const begins = (delta: number): boolean =>
    view.functionAt(delta) || view.unwindsFrom(delta) || view.calledFrom(delta) !== null;
  const starts = (delta: number): boolean => begins(delta) || (view.u32(delta - 4) === ENDBR64 && begins(delta - 4));
  const framed = (delta: number): boolean =>
    view.u32(delta) === FRAME || (view.u32(delta) === ENDBR64 && view.u32(delta + 4) === FRAME);
  if (starts(ipDelta)) return 'fentry';
  if (view.u16(before(2)) === PUSH_R10 && starts(before(2))) return 'fentry-nested';
  for (let size = 4; size <= MAX_PROLOGUE; size++) {
    if (!begins(before(size))) continue;
    return framed(before(size)) ? 'mcount' : 'unknown';
  }
  // Without symbols: what stands directly before.
  if (view.u32(before(4)) === ENDBR64) return 'fentry';
  return view.u32(before(4)) === FRAME ? 'mcount' : 'unknown';
}

const FLAVOURS: Readonly<Record<SiteConvention, readonly string[]>> = {
  fentry: ['modern', 'y2014'],
  'fentry-nested': ['modern', 'y2014'],
  mcount: ['mcount'],
  unknown: [],
};

/**
 * Flavours of the runtime whose entries a site of that convention can call, best first; empty: none
 * can.
 */
export function flavoursFor(convention: SiteConvention): readonly string[] {
  return FLAVOURS[convention];
}
