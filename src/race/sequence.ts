/**
 * Sequences of steps from what planners give: the breakpoint protocol of a machine, words, and the
 * variants of a sequence that leave out what makes it safe. Owns no order: orders come in, and are
 * kept or, on request, broken.
 */
import type { LivePatching, LiveStep, LivePatch } from '../machine/live-patching.js';
import type { Isa } from '../isa/instruction.js';
import type { Address } from '../units.js';
import type { RaceStep, Sequence } from './model.js';

/** The steps of a breakpoint protocol. */
export function pokeSequence(steps: readonly LiveStep[]): RaceStep[] {
  const out: RaceStep[] = [];
  let published: Extract<LiveStep, { kind: 'publish' }>['entries'] = [];
  for (const step of steps) {
    switch (step.kind) {
      case 'publish':
        published = step.entries;
        out.push({ kind: 'publish', entries: published, label: 'the handler knows what is about to be there' });
        break;
      case 'store':
        out.push({ kind: 'store', address: step.address, bytes: step.bytes, label: phases[step.phase], phase: 'part' });
        break;
      case 'sync':
        out.push({ kind: 'synchronise', thread: 'all' });
        break;
      case 'retract':
        out.push({ kind: 'retract', entries: published, label: 'the handler forgets it' });
        break;
      case 'wait-handlers':
        out.push({ kind: 'wait', until: 'handlers' });
        break;
      default:
        step satisfies never;
    }
  }
  return out;
}

const phases = { int3: 'breakpoint', tail: 'all bytes but the first', head: 'first byte' } as const;

/**
 * Text changed as the machine does it while CPUs run: behind breakpoints, or word by word in the
 * order of addresses.
 */
export function textSteps(livePatching: LivePatching, patches: readonly LivePatch[], wordSize = 4): RaceStep[] {
  if (livePatching.kind === 'breakpoint') return pokeSequence(livePatching.steps(patches));
  return patches.flatMap(({ address, after }) => splitStores(address, after, wordSize));
}

/** One store for each aligned piece of `size` bytes. */
export function splitStores(address: Address, bytes: Uint8Array, size: number, label?: string): RaceStep[] {
  const out: RaceStep[] = [];
  for (let from = 0; from < bytes.length;) {
    const to = Math.min(bytes.length, from + size - Number((address + BigInt(from)) % BigInt(size)));
    const step = { kind: 'store', address: address + BigInt(from), bytes: bytes.slice(from, to) } as const;
    out.push(label === undefined ? step : { ...step, label });
    from = to;
  }
  return out;
}

/** Offsets at which instructions begin. */
export function startsOf(isa: Isa, bytes: Uint8Array, address: Address): number[] {
  const starts: number[] = [];
  for (let at = 0; at < bytes.length;) {
    starts.push(at);
    at += Math.max(1, isa.decode(bytes, at, address + BigInt(at)).sizeBytes);
  }
  return starts;
}

/** What a broken variant leaves out or changes. */
export type Breakage = 'no-sync' | 'no-wait' | 'no-breakpoint' | 'bytes' | 'reversed';

/** What each breakage is, for people. */
export const breakages: Readonly<Record<Breakage, string>> = {
  'no-sync': 'without making other CPUs fetch anew',
  'no-wait': 'without waiting for threads that are inside before something is freed',
  'no-breakpoint': 'instructions of several bytes in one store that is not atomic: byte by byte, without breakpoints',
  bytes: 'every store byte by byte',
  reversed: 'stores in the opposite order',
};

const isText = (step: RaceStep): boolean => step.kind === 'publish' || step.kind === 'retract';

/** The same sequence, broken. */
export function broken(sequence: Sequence, how: Breakage): Sequence {
  const patchers = sequence.patchers.map(({ name, steps }) => ({ name, steps: breakSteps(steps, how) }));
  return { ...sequence, name: `${sequence.name}, ${how}`, patchers };
}

function breakSteps(steps: readonly RaceStep[], how: Breakage): RaceStep[] {
  switch (how) {
    case 'no-sync':
      return steps.filter(({ kind }) => kind !== 'synchronise');
    case 'no-wait':
      return steps.filter((step) => step.kind !== 'wait' || step.until !== 'outside');
    case 'bytes':
      return steps.flatMap((step): RaceStep[] => {
        if (step.kind !== 'store') return [step];
        return splitStores(step.address, step.bytes, 1, step.label).map((each) => {
          if (each.kind !== 'store') return each;
          return { ...step, address: each.address, bytes: each.bytes };
        });
      });
    case 'no-breakpoint': {
      const plain: RaceStep[] = [];
      let inside = false;
      let tail: RaceStep[] = [];
      for (const step of steps) {
        if (step.kind === 'publish') inside = true;
        if (!inside) plain.push(step);
        else if (step.kind === 'store' && step.label !== phases.int3) tail.push(step);
        if (step.kind !== 'retract') continue;
        // The first byte is the last that the protocol stores; without breakpoints bytes are stored
        // as they come.
        const stores = breakSteps(tail, 'bytes');
        plain.push(
          ...stores.sort((a, b) => (a.kind === 'store' && b.kind === 'store' && a.address < b.address ? -1 : 1)),
        );
        inside = false;
        tail = [];
      }
      return plain.filter((step) => !isText(step) && !(step.kind === 'wait' && step.until === 'handlers'));
    }
    case 'reversed': {
      const stores = steps.filter(({ kind }) => kind === 'store').reverse();
      return steps.map((step) => (step.kind === 'store' ? stores.shift()! : step));
    }
    default:
      return how satisfies never;
  }
}
