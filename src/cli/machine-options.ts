/** Options of single machines, made from the rows that the machines have of them. */
import type { MachineOption } from '../machine/options.js';
import { machineOptions } from '../targets.js';

interface OptionText {
  readonly type: 'string';
  readonly choices: readonly string[];
  readonly describe: string;
  readonly hidden: boolean;
}

/** Options of yargs for a verb. `machineOptionsIn` has their values. */
export function machineOptionsOf(
  verb: MachineOption['verbs'][number],
  hidden = false,
): Readonly<Record<never, OptionText>> {
  return Object.fromEntries(
    machineOptions
      .filter(({ verbs }) => verbs.includes(verb))
      .map(({ name, about, title, choices, raced }) => [
        name,
        {
          type: 'string',
          choices: verb === 'race' ? (raced ?? choices) : choices,
          describe: `${about}: ${title}`,
          hidden,
        },
      ]),
  );
}

/** The options of single machines that were given, by name. */
export function machineOptionsIn(args: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const given = machineOptions.flatMap(({ name }): (readonly [string, string])[] => {
    const value = args[name];
    return typeof value === 'string' ? [[name, value]] : [];
  });
  return Object.fromEntries(given);
}
