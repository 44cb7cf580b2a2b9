/**
 * Options of single machines: what a user may choose about the entries, sites and stubs of one
 * machine. A machine lists them beside its conventions; load maps and records keep them by name.
 */
import type { ConventionName } from './conventions.js';

/** What an option of an image's layout means for sessions on it. */
export interface LaidPolicy {
  /** Private trampolines: none although the machine has them. */
  readonly trampolines?: 'none';
  /** Graph tracer: the one of 2014, which borrows the ops of the function tracer. */
  readonly graph?: '2014';
  /** How the word of per-callsite ops is changed (A-CO-5). */
  readonly opsEntries?: 'one' | 'two';
}

export interface MachineOption {
  /** As on the command line, without the dashes. */
  readonly name: string;
  /** The machine, as users call it. */
  readonly about: string;
  /** For `--help`. */
  readonly title: string;
  /** The first is what happens without the option. */
  readonly choices: readonly string[];
  /**
   * `layout`: bytes of entries and stubs, which a load map records. `convention`: the convention of
   * entries that are laid in. `nop-form`, `idle-ops`: what sites become that are off. `direct-way`:
   * how the entry reaches direct callers.
   */
  readonly decides: readonly ('layout' | 'convention' | 'nop-form' | 'idle-ops' | 'direct-way')[];
  /** The verbs that offer it. */
  readonly verbs: readonly ('load' | 'patch' | 'race')[];
  /** The choices that `race` offers, where these are not all. */
  readonly raced?: readonly string[];
  /** By choice. */
  readonly policy?: Readonly<Record<string, LaidPolicy>>;
  /** By choice: the convention that alone has it, and what is said where the entries are others. */
  readonly needs?: Readonly<
    Record<string, { readonly convention: ConventionName; readonly otherwise: (convention: string) => string }>
  >;
  /** By choice: what to know where a step has this rule. */
  readonly hazards?: Readonly<Record<string, { readonly rule: string; readonly text: string }>>;
}

/** The choices of options that decide a layout, by name. */
export function layoutChoices(options: readonly MachineOption[]): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    options.filter(({ decides }) => decides.includes('layout')).map(({ name, choices }) => [name, choices]),
  );
}

/** What the recorded options of an image mean for sessions on it. */
export function laidPolicy(options: readonly MachineOption[], recorded: Readonly<Record<string, string>>): LaidPolicy {
  return Object.assign({}, ...options.map(({ name, policy }) => policy?.[recorded[name] ?? ''] ?? {})) as LaidPolicy;
}

/** The value that is kept for what an option decides; undefined where none was given. */
export function chosen(
  options: readonly MachineOption[],
  decides: MachineOption['decides'][number],
  kept: Readonly<Record<string, string>>,
): string | undefined {
  const option = options.find((each) => each.decides.includes(decides) && kept[each.name] !== undefined);
  return option && kept[option.name];
}

/**
 * The choices that were given, of options that decide something, as far as they are no defaults: a
 * record keeps what decided bytes.
 */
export function chosenBeside(
  options: readonly MachineOption[],
  decides: MachineOption['decides'][number],
  given: Readonly<Record<string, string>>,
): string | undefined {
  const value = chosen(options, decides, given);
  return options.some((each) => each.decides.includes(decides) && each.choices[0] === value) ? undefined : value;
}
