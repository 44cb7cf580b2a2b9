/**
 * Moments while a site's text is written (PV-3): all else is as in the patched image, the text is
 * not yet, or no more. A site is written last, and off first, so that at each moment it does what
 * it does when it is off or when it is on:
 *
 *   one word            off
 *   several words       off: while they are written the machine stands still
 *   behind a breakpoint off, and between its stores what comes: the handler does that already
 */
import { equalBytes } from '../bytes.js';
import type { LivePatch } from '../machine/live-patching.js';
import type { SiteReading } from '../machine/sites.js';
import type { Sites } from '../sites/sites.js';
import { initialState } from '../tracing/site-state.js';
import type { Address, SiteIndex } from '../units.js';
import type { ProofWorld } from './world.js';

export interface Moment {
  /** What of the site is written. */
  readonly what: string;
  readonly address: Address;
  /** The text then. */
  readonly bytes: Uint8Array;
  /** What the handler of breakpoints knows. */
  readonly published: readonly LivePatch[];
  /** The site does what it does when it is on. */
  readonly isOn: boolean;
}

const PHASES = { int3: 'a breakpoint is set', tail: 'all but the first byte is written', head: 'it is written' };

/** The text of a site that is off, and as it is now; null: it has no such state. */
function texts(
  sites: Sites,
  index: SiteIndex,
  reading: SiteReading,
): { readonly address: Address; readonly off: Uint8Array; readonly on: Uint8Array } | null {
  const { image } = sites.program;
  const { kind, form, target } = initialState(sites.program) as Extract<
    ReturnType<typeof initialState>,
    { kind: 'init' }
  >;
  const state = { kind, ...(form === undefined ? {} : { form }), ...(target === undefined ? {} : { target }) };
  const change = reading.shape.write(reading, state, sites.viewOf(index));
  if ('refused' in change) return null;
  const address = sites.anchor[index]! + BigInt(reading.startDelta);
  const offset = image.fileOffsetOf(address);
  if (offset < 0) return null;
  const on = image.bytes.slice(offset, offset + reading.sizeBytes);
  const off = on.slice();
  for (const { at, delta, after } of change.stores) {
    const from = delta - reading.startDelta;
    if (at === undefined && from >= 0 && from + after.length <= off.length) off.set(after, from);
  }
  return equalBytes(off, on) ? null : { address, off, on };
}

/** All moments of a site that is on; none where it has no text for when it is off. */
export function momentsOf(sites: Sites, index: SiteIndex): readonly Moment[] {
  const reading = sites.reading(index);
  const found = reading === null ? null : texts(sites, index, reading);
  if (found === null) return [];
  const { address, off, on } = found;
  const moments: Moment[] = [{ what: 'it is off', address, bytes: off, published: [], isOn: false }];
  const { livePatching } = sites.program.arch;
  if (livePatching.kind !== 'breakpoint') return moments;
  for (const [from, to, isOn] of [
    [off, on, true],
    [on, off, false],
  ] as const) {
    const patch = { address, after: to };
    if (!livePatching.canWrite(patch)) continue;
    const bytes = from.slice();
    let published: readonly LivePatch[] = [];
    for (const step of livePatching.steps([patch])) {
      if (step.kind === 'publish') published = step.entries;
      if (step.kind !== 'store') continue;
      bytes.set(step.bytes, Number(step.address - address));
      if (step.phase === 'head') break;
      const what = `it goes ${isOn ? 'on' : 'off'}: ${PHASES[step.phase]}`;
      moments.push({ what, address, bytes: bytes.slice(), published, isOn });
    }
  }
  return moments;
}

/** Brings the patched image into a moment; what is returned brings it back. */
export function enterMoment(world: ProofWorld, { address, bytes, published }: Moment): () => void {
  const { image, arch } = world.layout.program;
  const offset = image.fileOffsetOf(address);
  const before = image.bytes.slice(offset, offset + bytes.length);
  const { serve } = world;
  const { livePatching } = arch;
  world.rewrite(address, bytes);
  world.serve = (stop) => {
    const isOurs =
      stop.kind === 'trap' &&
      livePatching.kind === 'breakpoint' &&
      livePatching.handle(published, stop.instruction, livePatching.trapped(world.machine));
    return isOurs || serve?.(stop) === true;
  };
  return () => {
    world.serve = serve;
    world.rewrite(address, before);
  };
}
