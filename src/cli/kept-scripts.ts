/**
 * The scripts of the bundle (`scripts/bundle-scripts.ts`), loaded with the code that is kept of
 * them (`kept-code.ts`), and V8's code of those that were loaded.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Script } from 'node:vm';
import type { PiecesFile } from './kept-pieces.js';

/** Loaded where it is needed. */
export const engineTag = (): number => process.getBuiltinModule('node:v8').cachedDataVersionTag();

/** What a file of the bundle exports, and the names of that, with commas. */
interface Exports {
  readonly values: readonly unknown[];
  readonly names: string;
}

type Give = (values: readonly unknown[], names: string) => void;

/** Scripts are functions of this. */
type Evaluate = (
  require: (name: string) => unknown,
  importLate: (what: string | ((give: Give) => void)) => Promise<unknown>,
  load: (name: string) => readonly unknown[],
  give: Give,
  url: () => string,
) => void;

function givenBy(evaluate: (give: Give) => void): Exports {
  let given: Exports = { values: [], names: '' };
  evaluate((values, names) => {
    given = { values, names };
  });
  return given;
}

const namespaceOf = ({ values, names }: Exports): unknown =>
  Object.fromEntries(names.split(',').map((name, at) => [name, values[at]]));

/** Of a file beside those of the bundle. */
const here = (): string => pathToFileURL(join(import.meta.dirname, 'cli.cjs')).href;

/** What makes a `require` is loaded for packages, which few verbs have. */
const requireLate = (name: string): unknown =>
  name.startsWith('node:')
    ? process.getBuiltinModule(name)
    : process.getBuiltinModule('node:module').createRequire(here())(name);

/** The command line begins with it. */
const FIRST = 'main.js';

export class KeptScripts {
  /** V8 had no code for a script, or did not take it. */
  isNew = false;
  /** Performs something with the options that V8 had at first. */
  asUsual = <T>(act: () => T): T => act();
  private readonly made = new Map<string, Script>();
  /** Of those that were evaluated; null: under way. */
  private readonly loaded = new Map<string, Exports | null>();
  private readonly folder = join(import.meta.dirname, 'scripts');

  private constructor(
    private readonly kept: PiecesFile | null,
    /** What V8 and its options are at the start. */
    readonly tag: number,
  ) {
    this.make(FIRST);
  }

  /** At the start of a command; with `kept` where V8 takes it. */
  static of(kept: PiecesFile | null): KeptScripts {
    const scripts = kept && new KeptScripts(kept, kept.tag);
    return scripts?.isNew === false ? scripts : new KeptScripts(null, engineTag());
  }

  /** Machines of which the code was executed before. */
  get machines(): number {
    return this.kept?.machines ?? 0;
  }

  /** What the file exports that the command line begins with. */
  begin(): unknown {
    return namespaceOf(this.exportsOf(FIRST));
  }

  private make(name: string): Script {
    const filename = join(this.folder, name.replace(/\.js$/, '.cjs'));
    const cachedData = this.kept?.piece(name) ?? undefined;
    const text = readFileSync(filename, 'latin1');
    const script = this.asUsual(() => new Script(text, { filename, cachedData }));
    if (cachedData === undefined || script.cachedDataRejected === true) this.isNew = true;
    this.made.set(name, script);
    return script;
  }

  /** What a file of the bundle exports; it is evaluated when it is asked for first. */
  private exportsOf(name: string): Exports {
    const known = this.loaded.get(name);
    if (known !== undefined) {
      if (known === null) throw new Error(`${name} loads itself`);
      return known;
    }
    this.loaded.set(name, null);
    const evaluate = (this.made.get(name) ?? this.make(name)).runInThisContext() as Evaluate;
    const given = givenBy((give) => {
      evaluate(requireLate, this.importLate, this.load, give, here);
    });
    this.loaded.set(name, given);
    return given;
  }

  private readonly load = (name: string): readonly unknown[] => this.exportsOf(name).values;

  /** `import()`: V8 does not keep who loads modules for a script. */
  private readonly importLate = async (what: string | ((give: Give) => void)): Promise<unknown> => {
    if (typeof what !== 'string') return namespaceOf(givenBy(what));
    return what.startsWith('./') ? namespaceOf(this.exportsOf(what.slice(2))) : ((await import(what)) as unknown);
  };

  /** V8's code of all scripts that are known, with what was executed of them. */
  pieces(): ReadonlyMap<string, Buffer> {
    const all = this.kept?.pieces() ?? new Map<string, Buffer>();
    for (const [name, script] of this.made) all.set(name, script.createCachedData());
    return all;
  }
}
