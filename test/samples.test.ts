/**
 * The bundled samples: all there, small, unchanged; built again the same; and doing what the
 * sources say. Site counts and trace counts are derived here from the sources by hand;
 * samples/expected was made by objdump, readelf, the machine itself and qemu-user.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  builtFolder,
  checkSamples,
  countSites,
  expectedFile,
  givenBy,
  isExecutable,
  readExpected,
  readRecipes,
  recordedSums,
  recordedVersions,
  runSample,
  runsNatively,
  runToolsWith,
  sumsOf,
  targetOf,
  toolsOf,
  type Recipe,
} from '../scripts/build-samples.js';
import { spawnSync } from './support/spawn.js';
import { describeWith } from './support/tools.js';
import { longTest } from './support/long.js';

runToolsWith((tool, args, options) => {
  const { status, signal, stdout, stderr, error } = spawnSync(tool, args, options);
  if (error === undefined && status === 0) return Promise.resolve(stdout);
  const how = error?.message ?? String(signal ?? status);
  return Promise.reject(new Error(`${tool} ${args.join(' ')}\n${how}\n${stderr.toString()}`));
});

const recipes = readRecipes();
const executables = recipes.samples.filter((recipe) => isExecutable(recipes, recipe));

/** Recipe of what a derived sample was made from, or the recipe itself. */
function origin(recipe: Recipe): Recipe {
  const from = recipes.samples.find((each) => each.name === recipe.from);
  return from ? origin(from) : recipe;
}

describe('samples', () => {
  test('every recipe has its file, every file its recipe, and the sums are those recorded', () => {
    const names = recipes.samples.map((recipe) => recipe.name).sort();
    expect(new Set(names).size).toBe(names.length);
    const sums = sumsOf(builtFolder);
    expect([...sums.keys()].sort()).toEqual(names);
    expect(Object.fromEntries(sums)).toEqual(Object.fromEntries(recordedSums()));
  });

  test('all together are smaller than 3 MB', () => {
    const sizes = recipes.samples.map((recipe) => statSync(join(builtFolder, recipe.name)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(3_000_000);
  });

  test('each target has a program with calls, one with nops, and modules with and without a table', () => {
    const sites = readExpected('sites.txt');
    for (const target of Object.keys(recipes.targets)) {
      const of = (kind: string): string[] =>
        recipes.samples
          .filter((recipe) => recipe.name.startsWith(`${target}/`) && recipe.kind === kind)
          .map((recipe) => sites.get(recipe.name) ?? '');
      expect(of('program')).toContain('calls=18 recorded=0 patchable=0 range=0');
      expect(of('program')).toContain('calls=0 recorded=0 patchable=19 range=0');
      expect(of('module')).toContain('calls=11 recorded=0 patchable=0 range=0');
      expect(of('module')).toContain('calls=11 recorded=11 patchable=0 range=0');
      expect(of('module')).toContain('calls=0 recorded=0 patchable=11 range=0');
    }
  });

  test('no sample names the place where it was built', () => {
    for (const recipe of recipes.samples) {
      const text = readFileSync(join(builtFolder, recipe.name)).toString('latin1');
      expect([recipe.name, /\/(tmp|home|root|work|build)\//.exec(text)?.[0]]).toEqual([recipe.name, undefined]);
    }
  });

  test('the versions of all tools are recorded', () => {
    const tools = new Set(recipes.samples.flatMap((recipe) => toolsOf(recipes, recipe)));
    expect([...recordedVersions().keys()].sort()).toEqual([...tools].sort());
  });

  test('M-TAB-1 M-WEAK-1: site counts follow from the sources', () => {
    // program.c: 17 functions with a call, override.c: 1; `quiet` has nops only, for its attribute
    // concerns calls. module.c: 6, module-util.c: 5. patchable-*.S: 6. core.c: 9, far-one.c: 9,
    // far-two.c: 8. direct.c: 3. The core of program.c has no override.c.
    const whole = { functions: 18, withNops: 19 };
    const numbers = {
      program: whole,
      pie: whole,
      shared: whole,
      module: { functions: 11, withNops: 11 },
      patchable: { functions: 0, withNops: 6 },
      'loaded-core': { functions: 9, withNops: 9 },
      'loaded-module': { functions: 9, withNops: 9 },
      direct: { functions: 3, withNops: 3 },
      derived: { functions: 0, withNops: 0 },
    };
    const ofSource: Readonly<Record<string, { functions: number; withNops: number }>> = {
      'far-two.c': { functions: 8, withNops: 8 },
      'program.c': { functions: 17, withNops: 18 },
    };
    const sites = readExpected('sites.txt');
    expect([...sites.keys()].sort()).toEqual(recipes.samples.map((recipe) => recipe.name).sort());
    for (const recipe of recipes.samples) {
      if (recipe.step === 'archive') {
        expect(sites.get(recipe.name)).toBe('calls=11 recorded=22 patchable=0 range=0');
        continue;
      }
      const { kind, sites: flags = [], recordCalls = false } = origin(recipe);
      const calling = flags.includes('-pg');
      const nops = flags.some((flag) => flag.startsWith('-fpatchable-function-entry='));
      const table = flags.includes('-mrecord-mcount') || recordCalls;
      const { functions, withNops } = ofSource[origin(recipe).source ?? ''] ?? numbers[kind];
      const calls = calling && !flags.includes('-mnop-mcount') ? functions : 0;
      const recorded = table ? functions : 0;
      const patchable = nops || kind === 'patchable' ? withNops : 0;
      // core.lds puts either table into .init.data, where no section but a range of symbols tells
      // it.
      const core = (origin(recipe).link ?? []).includes('core.lds');
      const tables = core
        ? `recorded=0 patchable=0 range=${String(recorded + patchable)}`
        : `recorded=${String(recorded)} patchable=${String(patchable)} range=0`;
      expect([recipe.name, sites.get(recipe.name)]).toEqual([recipe.name, `calls=${String(calls)} ${tables}`]);
    }
  });

  test('trace counts follow from the sources', () => {
    // program 1, leaf 1 (called directly) + 1 (bump) + 1 (classify) + 1 (forward), bump 1, recurse
    // 10 + 4, sum 2, many 1, make_triple 1, mix64 1, classify 10, guard 2, cold_path 1, hook 2,
    // forward 1, apply 4, outer 1, inner 2, checksum 1.
    const traces = readExpected('trace.txt');
    expect([...traces.keys()].sort()).toEqual(executables.map((recipe) => recipe.name).sort());
    for (const recipe of executables) {
      const flags = origin(recipe).sites ?? [];
      const counted = flags.includes('-pg') && !flags.includes('-mnop-mcount');
      expect([recipe.name, traces.get(recipe.name)]).toEqual([recipe.name, counted ? 'trace=49' : 'trace=0']);
    }
  });

  test('the signed module is the module, a message, its description and the line at the end', () => {
    const plain = readFileSync(join(builtFolder, 'x86-64/module-fentry.ko'));
    const signed = readFileSync(join(builtFolder, 'x86-64/module-fentry-signed.ko'));
    const line = '~Module signature appended~\n';
    expect(signed.subarray(0, plain.length).equals(plain)).toBe(true);
    expect(signed.subarray(-line.length).toString('latin1')).toBe(line);
    const header = signed.subarray(-line.length - 12, -line.length);
    expect([...header.subarray(0, 8)]).toEqual([0, 0, 2, 0, 0, 0, 0, 0]);
    expect(header.readUInt32BE(8)).toBe(signed.length - plain.length - line.length - 12);
  });
});

const allTools = [...new Set(recipes.samples.flatMap((recipe) => toolsOf(recipes, recipe)))];

describeWith([...allTools, 'readelf'], 'samples built again', () => {
  longTest(
    'are the same, byte for byte with the recorded tools, in structure with others',
    async () => {
      const result = await checkSamples(recipes);
      // With other tools than those recorded the differences are for a person to read; the script's
      // --check fails on them, and so does CI.
      for (const line of [...result.versions, ...result.differences]) process.stderr.write(`samples: ${line}\n`);
      expect(result.problems).toEqual([]);
      if (process.env['ELFTRACE_REQUIRE_TOOLS'] === '1') expect(result.differences).toEqual([]);
      expect(result.leftOut).toEqual([]);
      // Those that no installed compiler makes are kept, and the reason says so.
      const given = recipes.samples.filter((recipe) => givenBy(recipes, recipe) !== null);
      for (const line of result.given) process.stderr.write(`samples: not built again: ${line}\n`);
      expect(result.given.map((line) => line.split(':')[0])).toEqual(given.map(({ name }) => name));
      const built = recipes.samples.length - given.length;
      expect(result.identical + result.alike + result.differences.length).toBe(built);
      if (result.versions.length === 0) expect(result.identical).toBe(built);
    },
    120_000,
  );

  longTest(
    'have the recorded numbers of sites',
    async () => {
      const sites = readExpected('sites.txt');
      for (const recipe of recipes.samples) {
        // Counted by the tools that they were made with when they came.
        if (givenBy(recipes, recipe) !== null) continue;
        expect([recipe.name, await countSites(recipes, recipe, builtFolder)]).toEqual([
          recipe.name,
          sites.get(recipe.name),
        ]);
      }
    },
    120_000,
  );
});

for (const [name, target] of Object.entries(recipes.targets)) {
  const here = executables.filter((recipe) => targetOf(recipes, recipe) === target);
  describeWith(runsNatively(target) ? [] : [target.emulator], `samples of ${name} run`, () => {
    const traces = readExpected('trace.txt');
    test.each(here.map((recipe) => [recipe.name, recipe] as const))(
      '%s prints the expected lines',
      async (_, recipe) => {
        expect(existsSync(expectedFile(recipe))).toBe(true);
        const expected = readFileSync(expectedFile(recipe), 'utf8') + String(traces.get(recipe.name)) + '\n';
        expect(await runSample(recipes, recipe, builtFolder)).toBe(expected);
      },
    );
  });
}
