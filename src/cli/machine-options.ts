/** Options of single machines, made from the rows that the machines have of them. */
import type { MachineOption } from '../machine/options.js';
import { machineOptions } from '../targets.js';
import type { OptionRow } from './declared.js';

/** Options of yargs for a verb. `machineOptionsIn` has their values. */
export function machineOptionsOf(
  verb: MachineOption['verbs'][number],
  hidden = false,
): Readonly<Record<never, OptionRow>> {
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
