/**
 * The command line as data, for `help --json`: what manual pages are made of. Read from the same
 * builders as the help texts.
 */
import yargs, { type Argv } from 'yargs';
import { type Json, jsonSchema } from '../report/json.js';
import type { CommandHandler } from './grammar.js';

interface Described {
  readonly getOptions: () => {
    readonly key: Readonly<Record<string, unknown>>;
    readonly alias: Readonly<Record<string, readonly string[]>>;
    readonly boolean: readonly string[];
    readonly number: readonly string[];
    readonly array: readonly string[];
    readonly choices: Readonly<Record<string, readonly string[]>>;
    readonly default: Readonly<Record<string, unknown>>;
    readonly hiddenOptions: readonly string[];
  };
  readonly getInternalMethods: () => {
    readonly getUsageInstance: () => { readonly getDescriptions: () => Readonly<Record<string, string>> };
  };
}

/** What yargs knows of a command, besides what `grammar.ts` needs. */
interface DescribedHandler extends CommandHandler {
  readonly original: string;
  readonly description: string | false;
}

function optionsOf(built: Argv, positional: ReadonlySet<string>): Json[] {
  const described = built as unknown as Described;
  const options = described.getOptions();
  const texts = described.getInternalMethods().getUsageInstance().getDescriptions();
  const secondary = new Set(Object.values(options.alias).flat());
  const names = Object.keys(options.key).filter((name) => !positional.has(name) && !secondary.has(name));
  const isShown = (name: string): boolean => !['help', 'version', 'h'].includes(name);
  return names.filter(isShown).map((name) => ({
    name,
    aliases: options.alias[name] ?? [],
    type: options.boolean.includes(name) ? 'boolean' : options.number.includes(name) ? 'number' : 'string',
    several: options.array.includes(name),
    choices: options.choices[name] ?? null,
    default: (options.default[name] ?? null) as Json,
    special: options.hiddenOptions.includes(name),
    text: (texts[name] ?? '').replace('__yargsString__:', ''),
  }));
}

/**
 * All verbs with words, options and examples.
 * @param everywhere  options of every verb
 */
export function describeCommands(
  handlers: Readonly<Record<string, CommandHandler>>,
  aliases: Readonly<Record<string, string>>,
  everywhere: Readonly<Record<string, object>>,
): Json {
  const verbs = Object.entries(handlers as Readonly<Record<string, DescribedHandler>>)
    .filter(([name]) => name !== 'completion' && name !== '$0')
    .map(([name, handler]) => {
      const examples: { readonly command: string; readonly text: string }[] = [];
      const built = yargs([]).options(everywhere) as Argv;
      const recording = Object.assign(built, {
        example(command: string, text: string): Argv {
          examples.push({ command: command.replaceAll('$0', 'elftrace'), text });
          return built;
        },
      });
      handler.builder(recording, false);
      const words = [...handler.demanded, ...handler.optional].flatMap(({ cmd }) => cmd);
      return {
        name,
        also: Object.keys(aliases).filter((each) => aliases[each] === name),
        usage: handler.original,
        text: handler.description === false ? '' : handler.description,
        options: optionsOf(built, new Set(words)),
        examples,
      };
    });
  return { schema: jsonSchema, verbs };
}
