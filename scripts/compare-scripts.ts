/**
 * Evaluates each script of the bundle, and prints where what it gives is something else than what
 * its module exports; and how many were compared.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Script } from 'node:vm';

const dist = process.argv[2]!;
const urlOf = (name: string): string => pathToFileURL(join(dist, name)).href;
const require = createRequire(urlOf('cli.cjs'));
const known = new Map<string, Readonly<Record<string, unknown>>>();

function evaluate(name: string): Readonly<Record<string, unknown>> {
  const given = known.get(name);
  if (given !== undefined) return given;
  const filename = join(dist, 'scripts', name.replace(/\.js$/, '.cjs'));
  const script = new Script(readFileSync(filename, 'latin1'), { filename }).runInThisContext() as (
    ...scope: readonly unknown[]
  ) => void;
  const later = (): never => {
    throw new Error(`${name} imports while it is evaluated`);
  };
  const load = (other: string): readonly unknown[] => Object.values(evaluate(other));
  const give = (values: readonly unknown[], names: string): void => {
    const all = names === '' ? [] : names.split(',');
    known.set(name, Object.fromEntries(all.map((each, at) => [each, values[at]])));
  };
  script(require, later, load, give, () => urlOf('cli.cjs'));
  return known.get(name)!;
}

/** What can be said of a value that two evaluations make; esbuild may rename what collides. */
function shapeOf(value: unknown): unknown {
  if (typeof value === 'function') return `${value.length} ${Object.getOwnPropertyNames(value.prototype ?? {}).join()}`;
  return typeof value === 'object' && value !== null ? Object.keys(value).join() : value;
}

const files = readdirSync(join(dist, 'scripts'));
for (const file of files) {
  const name = file.replace(/\.cjs$/, '.js');
  const script = evaluate(name);
  const module = (await import(urlOf(name))) as Readonly<Record<string, unknown>>;
  for (const each of new Set([...Object.keys(script), ...Object.keys(module)])) {
    if (!Object.is(String(shapeOf(script[each])), String(shapeOf(module[each]))))
      process.stdout.write(`${name}: ${each}\n`);
  }
}
process.stdout.write(`${files.length} scripts\n`);
