/** What is asked of a race by words: variants of the change, and options of the machine. */
import { ElftraceError } from '../errors.js';
import type { Arch } from '../machine/arch.js';
import { chosen, chosenBeside, layoutChoices } from '../machine/options.js';
import type { ImageRaceRequest, RaceVariant } from './image.js';
import { type Breakage, breakages } from './sequence.js';

/** @throws ElftraceError 'usage' */
export function parseRaceVariant(text: string): RaceVariant {
  if (text === 'stopped' || text === 'torn') return text;
  const known = (Object.keys(breakages) as Breakage[]).find((each) => each === text);
  if (known === undefined) {
    throw new ElftraceError('usage', `--variant ${text}: stopped, torn, ${Object.keys(breakages).join(', ')}`, {
      value: text,
    });
  }
  return known;
}

/**
 * Variants of a change of a probe.
 * @throws ElftraceError 'usage' for those that sites alone have
 */
export function probeVariants(variants: readonly RaceVariant[]): Breakage[] {
  return variants.map((each) => {
    if (each !== 'stopped' && each !== 'torn') return each;
    const why =
      each === 'stopped' ? 'a probe is no instruction of several words' : 'a probe has no word in front of a function';
    throw new ElftraceError('usage', `--variant ${each}: ${why}`, { value: each });
  });
}

/** The entries that a race lays in. */
export function entriesAsked(
  { options }: Arch,
  given: Readonly<Record<string, string>>,
): Pick<ImageRaceRequest, 'entries' | 'machine'> {
  const entries = chosen(options, 'convention', given);
  const layout = layoutChoices(options);
  return {
    ...(entries === undefined ? {} : { entries }),
    machine: Object.fromEntries(Object.entries(given).filter(([name]) => name in layout)),
  };
}

/** What sites that are off become. */
export function idleAsked(
  { options }: Arch,
  given: Readonly<Record<string, string>>,
): Pick<ImageRaceRequest, 'nopForm' | 'literalOff'> {
  const nopForm = chosenBeside(options, 'nop-form', given);
  const literalOff = chosen(options, 'idle-ops', given) as ImageRaceRequest['literalOff'];
  return {
    ...(nopForm === undefined ? {} : { nopForm }),
    ...(literalOff === undefined ? {} : { literalOff }),
  };
}
