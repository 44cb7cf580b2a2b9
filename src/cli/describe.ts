/**
 * The command line as data, for `help --json`: what manual pages are made of. Read from the same
 * builders as the help texts.
 */
import type { Argv } from 'yargs';
import { type Json, jsonSchema } from '../report/json.js';
import { DeclaredOptions, type DeclaredVerbs, type OptionRow } from './declared.js';

/** Options with what yargs is told of each verb besides. */
class DescribedOptions extends DeclaredOptions {
  readonly examples: { readonly command: string; readonly text: string }[] = [];

  override example(command = '', text = ''): this {
    this.examples.push({ command: command.replaceAll('$0', 'elftrace'), text });
    return this;
  }
}

const described = ([name, row]: readonly [string, OptionRow]): Json => ({
  name,
  aliases: row.alias === undefined ? [] : [row.alias],
  type: row.type ?? 'string',
  several: row.array === true,
  choices: row.choices ?? null,
  default: (row.default ?? null) as Json,
  special: row.hidden === true,
  text: row.describe ?? '',
});

/**
 * All verbs with words, options and examples.
 * @param everywhere  options of every verb
 */
export function describeCommands({ all }: DeclaredVerbs, everywhere: Readonly<Record<string, OptionRow>>): Json {
  const verbs = [...all].map(([name, { usage, aliases, text, builder }]) => {
    const options = new DescribedOptions().options(everywhere);
    builder(options as unknown as Argv);
    return {
      name,
      also: [...aliases],
      usage,
      text,
      options: [...options.rows].map(described),
      examples: options.examples,
    };
  });
  return { schema: jsonSchema, verbs };
}
