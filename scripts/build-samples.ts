/**
 * Builds the samples from samples/src by the table samples/recipes.json, and compares them with the
 * built ones that are committed: byte for byte where the recorded tools are installed, else by
 * sections, relocations and symbols.
 *
 *   node build/scripts/build-samples.js --out DIR     builds into DIR
 *   node build/scripts/build-samples.js --check       builds into a temporary folder and compares
 *                                                     with samples/built
 *   node build/scripts/build-samples.js --write       replaces samples/built, the sums, the
 *                                                     versions and the expected output
 *
 * Nothing of the place or the time of a build gets into a sample: sources are named relative to
 * samples/src, there is no debug information and no build id, archives and gzip files carry no time
 * stamp.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Root of the package, from build/scripts. */
const root = fileURLToPath(new URL('../..', import.meta.url));
export const samplesFolder = join(root, 'samples');
export const builtFolder = join(samplesFolder, 'built');
const sourceFolder = join(samplesFolder, 'src');

/** How the sources of a sample become a file. */
export type SampleKind =
  'program' | 'patchable' | 'pie' | 'shared' | 'module' | 'loaded-core' | 'loaded-module' | 'direct' | 'derived';

/** What is done to another sample: `from` of a recipe names it. */
export type Step = 'strip' | 'sign' | 'xz' | 'gz' | 'zst' | 'archive';

export interface Target {
  /** Prefix of the GNU tools and target of clang. */
  readonly triple: string;
  /** Selects start-*.S and tracer-*.S. */
  readonly startup: string;
  /** User-mode emulator. */
  readonly emulator: string;
  /** Flags of every compilation. */
  readonly flags: readonly string[];
  /** Directive of a word and its alignment in a table that we add, as a power of two. */
  readonly word: string;
  readonly wordAlignLog2: number;
  /**
   * Tools that the samples were made with, where they cannot be installed beside the others: the
   * samples are kept as they are and not built again.
   */
  readonly given?: string;
}

export interface Recipe {
  /** Target and file name below samples/built. */
  readonly name: string;
  readonly kind: SampleKind;
  /** The source with sites, of a core and modules for the loader. */
  readonly source?: string;
  readonly compiler?: 'gcc' | 'clang';
  /** Flags for everything, assembly included. */
  readonly abi?: readonly string[];
  /** Flags for the files that have sites. */
  readonly sites?: readonly string[];
  /** Flags for start and tracer. */
  readonly assembly?: readonly string[];
  readonly linker?: 'bfd' | 'lld';
  readonly link?: readonly string[];
  /**
   * Names each call of mcount in a `__mcount_loc` section, as kernel builds do where the compiler
   * does not.
   */
  readonly recordCalls?: boolean;
  readonly from?: string;
  readonly step?: Step;
  readonly emulatorFlags?: readonly string[];
  readonly shows: string;
}

export interface Recipes {
  readonly flags: Readonly<Record<'gcc' | 'clang', readonly string[]>>;
  readonly targets: Readonly<Record<string, Target>>;
  readonly samples: readonly Recipe[];
}

/** The table samples/recipes.json. */
export function readRecipes(): Recipes {
  const recipes: Recipes = JSON.parse(readFileSync(join(samplesFolder, 'recipes.json'), 'utf8'));
  return recipes;
}

export function targetOf(recipes: Recipes, recipe: Recipe): Target {
  const name = recipe.name.slice(0, recipe.name.indexOf('/'));
  const target = recipes.targets[name];
  if (target === undefined) throw new Error(`samples/recipes.json: no target ${name} (${recipe.name})`);
  return target;
}

/** Why a sample is not built again, or null. */
export function givenBy(recipes: Recipes, recipe: Recipe): string | null {
  return targetOf(recipes, recipe).given ?? null;
}

/** Whether the sample runs as a process of its own. */
export function isExecutable(recipes: Recipes, recipe: Recipe): boolean {
  if (recipe.kind === 'program' || recipe.kind === 'patchable' || recipe.kind === 'pie') return true;
  const from = recipes.samples.find((each) => each.name === recipe.from);
  return recipe.step === 'strip' && from !== undefined && isExecutable(recipes, from);
}

export interface ToolOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly maxBuffer: number;
  readonly input?: string;
}

/** Runs a tool; what it prints. The reason of a failure is its standard error. */
export type ToolRunner = (tool: string, args: readonly string[], options: ToolOptions) => Promise<Buffer>;

const runHere: ToolRunner = (tool, args, { input, ...options }) =>
  new Promise((resolve, reject) => {
    const child = execFile(tool, [...args], { ...options, encoding: 'buffer' }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${tool} ${args.join(' ')}\n${error.message}\n${stderr.toString()}`));
      else resolve(stdout);
    });
    if (input !== undefined) child.stdin?.end(input);
  });

let runner = runHere;

/** For processes that are too large to start programs themselves. */
export function runToolsWith(other: ToolRunner): void {
  runner = other;
}

/** Runs a tool in samples/src. */
function run(tool: string, args: readonly string[], input?: string): Promise<Buffer> {
  return runner(tool, args, {
    cwd: sourceFolder,
    maxBuffer: 1 << 26,
    env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
    ...(input === undefined ? {} : { input }),
  });
}

function compilerOf(recipe: Recipe, target: Target): readonly [string, ...string[]] {
  return recipe.compiler === 'clang' ? ['clang', `--target=${target.triple}`] : [`${target.triple}-gcc`];
}

/** Names of all tools that one sample is made with; their versions decide how it is compared. */
export function toolsOf(recipes: Recipes, recipe: Recipe): readonly string[] {
  const target = targetOf(recipes, recipe);
  if (target.given !== undefined) return [];
  const tools = new Set<string>();
  if (recipe.kind === 'derived') {
    const from = recipes.samples.find((each) => each.name === recipe.from);
    if (from) for (const tool of toolsOf(recipes, from)) tools.add(tool);
    if (recipe.step === 'strip') tools.add(`${target.triple}-strip`);
    if (recipe.step === 'xz') tools.add('xz');
    if (recipe.step === 'gz') tools.add('gzip');
    if (recipe.step === 'zst') tools.add('zstd');
    if (recipe.step === 'archive') tools.add(`${target.triple}-ar`);
    return [...tools];
  }
  tools.add(compilerOf(recipe, target)[0]);
  tools.add(`${target.triple}-gcc`);
  tools.add(`${target.triple}-as`);
  tools.add(recipe.linker === 'lld' ? 'ld.lld' : `${target.triple}-ld`);
  return [...tools];
}

/** First line of `tool --version`, or null where the tool is not installed. */
async function versionOf(tool: string): Promise<string | null> {
  try {
    const text = (await run(tool, ['--version'])).toString();
    return (/^.*\d+\.\d+.*$/m.exec(text)?.[0] ?? text).trim();
  } catch {
    return null;
  }
}

/** Versions of every tool of the table as installed here. */
export async function installedVersions(recipes: Recipes): Promise<ReadonlyMap<string, string | null>> {
  const tools = new Set(recipes.samples.flatMap((recipe) => toolsOf(recipes, recipe)));
  const versions = new Map<string, string | null>();
  await Promise.all([...tools].sort().map(async (tool) => versions.set(tool, await versionOf(tool))));
  return versions;
}

/** samples/VERSIONS: what the committed files were built with. */
export function recordedVersions(): ReadonlyMap<string, string> {
  const versions = new Map<string, string>();
  for (const line of readFileSync(join(samplesFolder, 'VERSIONS'), 'utf8').split('\n')) {
    const at = line.indexOf(': ');
    if (at > 0 && !line.startsWith('#')) versions.set(line.slice(0, at), line.slice(at + 2));
  }
  return versions;
}

/**
 * Names every call of mcount of an assembly text in `__mcount_loc`, by a label in front of it: what
 * kernel builds add after compilation where the compiler makes no table.
 */
function recordCalls(assembly: string, target: Target): string {
  let count = 0;
  return assembly.replace(/^\t(?:bl|call)\s+(?:%plt\()?_mcount\)?$/gm, (call) => {
    const label = `.Lsite${String(count++)}`;
    return [
      `${label}:`,
      call,
      '\t.pushsection __mcount_loc, "a", %progbits',
      `\t.p2align ${String(target.wordAlignLog2)}`,
      `\t${target.word} ${label}`,
      '\t.popsection',
    ].join('\n');
  });
}

/** Builds samples into one folder; equal commands of several samples run once. */
class Builder {
  readonly #recipes: Recipes;
  readonly #folder: string;
  readonly #objects: string;
  readonly #commands = new Map<string, Promise<string>>();
  readonly #done = new Map<string, Promise<void>>();
  #waiting: (() => void)[] = [];
  #free = Math.min(4, availableParallelism());

  constructor(recipes: Recipes, folder: string, objects: string) {
    this.#recipes = recipes;
    this.#folder = folder;
    this.#objects = objects;
  }

  async #run(tool: string, args: readonly string[], input?: string): Promise<Buffer> {
    if (this.#free === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#free--;
    try {
      return await run(tool, args, input);
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }

  /** The object file of a compilation. */
  #compile(command: readonly [string, ...string[]], source: string, record?: Target): Promise<string> {
    const key = JSON.stringify([command, source, record !== undefined]);
    let object = this.#commands.get(key);
    if (object === undefined) {
      const path = join(this.#objects, `${createHash('sha256').update(key).digest('hex').slice(0, 16)}.o`);
      const [tool, ...flags] = command;
      const compile = async (): Promise<string> => {
        if (record === undefined) {
          await this.#run(tool, [...flags, '-c', source, '-o', path]);
        } else {
          const assembly = (await this.#run(tool, [...flags, '-S', source, '-o', '-'])).toString();
          await this.#run(tool, [...flags, '-c', '-x', 'assembler', '-', '-o', path], recordCalls(assembly, record));
        }
        return path;
      };
      object = compile();
      this.#commands.set(key, object);
    }
    return object;
  }

  build(recipe: Recipe): Promise<void> {
    let done = this.#done.get(recipe.name);
    if (done === undefined) {
      done = recipe.kind === 'derived' ? this.#derive(recipe) : this.#link(recipe);
      this.#done.set(recipe.name, done);
    }
    return done;
  }

  /** Compiles the sources of a sample, all at once. */
  #objectsOf(recipe: Recipe): Promise<string>[] {
    const target = targetOf(this.#recipes, recipe);
    const compiler = recipe.compiler ?? 'gcc';
    const common = [...this.#recipes.flags[compiler], ...target.flags, ...(recipe.abi ?? [])];
    const plain: readonly [string, ...string[]] = [...compilerOf(recipe, target), ...common];
    const traced: readonly [string, ...string[]] = [...plain, ...(recipe.sites ?? [])];
    // Assembly always goes through GNU as: the tracers use its directives.
    const gnuFlags = [...this.#recipes.flags.gcc, ...target.flags, ...(recipe.abi ?? []), ...(recipe.assembly ?? [])];
    const assembler: readonly [string, ...string[]] = [`${target.triple}-gcc`, ...gnuFlags];
    const record = recipe.recordCalls === true ? target : undefined;
    const start = `start-${target.startup}.S`;
    const tracer = `tracer-${target.startup}.S`;
    const objects: Promise<string>[] = [];
    switch (recipe.kind) {
      case 'program':
      case 'pie':
        objects.push(this.#compile(assembler, start), this.#compile(traced, 'program.c', record));
        objects.push(this.#compile(traced, 'override.c', record));
        objects.push(this.#compile(plain, 'output.c'), this.#compile(assembler, tracer));
        break;
      case 'patchable': {
        const source = target.startup === 'ppc64' ? 'patchable-elfv2.S' : `patchable-${target.startup}.S`;
        objects.push(this.#compile(assembler, start), this.#compile(plain, 'patchable.c'));
        objects.push(this.#compile(assembler, source), this.#compile(plain, 'output.c'));
        objects.push(this.#compile(assembler, tracer));
        break;
      }
      case 'shared':
        objects.push(this.#compile(traced, 'program.c', record), this.#compile(traced, 'override.c', record));
        break;
      case 'module':
        objects.push(this.#compile(traced, 'module.c', record), this.#compile(traced, 'module-util.c', record));
        break;
      case 'loaded-core':
        objects.push(this.#compile(assembler, start), this.#compile(traced, recipe.source ?? '', record));
        objects.push(this.#compile([...plain, '-DLOADED_CORE'], 'output.c'));
        break;
      case 'loaded-module':
        objects.push(this.#compile(traced, recipe.source ?? '', record));
        break;
      case 'direct':
        objects.push(this.#compile(assembler, start), this.#compile(traced, 'direct.c', record));
        objects.push(this.#compile(assembler, `direct-${target.startup}.S`));
        objects.push(this.#compile([...plain, '-DLOADED_CORE'], 'output.c'));
        break;
      case 'derived':
        throw new Error(`${recipe.name}: a derived sample has no sources`);
      default:
        recipe.kind satisfies never;
    }
    return objects;
  }

  async #link(recipe: Recipe): Promise<void> {
    const target = targetOf(this.#recipes, recipe);
    const out = join(this.#folder, recipe.name);
    mkdirSync(dirname(out), { recursive: true });
    const objects = this.#objectsOf(recipe);
    // Without RELRO the data follows the text in the file; with it the file grows by a page of up
    // to 64 KiB.
    const mode = {
      program: ['-static', '-z', 'norelro'],
      patchable: ['-static', '-z', 'norelro'],
      pie: ['-pie', '--no-dynamic-linker'],
      shared: ['-shared'],
      module: ['-r'],
      'loaded-core': ['-r'],
      'loaded-module': ['-r'],
      direct: ['-static', '-z', 'norelro'],
      derived: [],
    }[recipe.kind];
    const image = mode[0] === '-r' ? [] : ['--build-id=none', '-z', 'noseparate-code'];
    const linker = recipe.linker === 'lld' ? 'ld.lld' : `${target.triple}-ld`;
    await this.#run(linker, [...mode, ...image, ...(recipe.link ?? []), ...(await Promise.all(objects)), '-o', out]);
  }

  async #derive(recipe: Recipe): Promise<void> {
    const from = this.#recipes.samples.find((each) => each.name === recipe.from);
    if (from === undefined) throw new Error(`${recipe.name}: no sample ${String(recipe.from)}`);
    await this.build(from);
    const target = targetOf(this.#recipes, recipe);
    const input = join(this.#folder, from.name);
    const out = join(this.#folder, recipe.name);
    mkdirSync(dirname(out), { recursive: true });
    switch (recipe.step) {
      case 'strip':
        await this.#run(`${target.triple}-strip`, ['-s', '-o', out, input]);
        break;
      case 'sign':
        writeFileSync(out, Buffer.concat([readFileSync(input), signatureTrailer()]));
        break;
      case 'xz':
        writeFileSync(out, await this.#run('xz', ['-c', '-T1', '--check=crc32', '--lzma2=dict=1MiB', input]));
        break;
      case 'gz':
        writeFileSync(out, await this.#run('gzip', ['-9', '-n', '-c', input]));
        break;
      case 'zst':
        writeFileSync(out, await this.#run('zstd', ['-q', '-19', '--no-progress', '-c', input]));
        break;
      case 'archive': {
        // Members keep their file names; `D` zeroes times and owners.
        const second = this.#recipes.samples.find(
          (each) => each.name === `${recipe.name.slice(0, recipe.name.indexOf('/'))}/module-nop.ko`,
        );
        const members = [input];
        if (second) {
          await this.build(second);
          members.push(join(this.#folder, second.name));
        }
        rmSync(out, { force: true });
        await this.#run(`${target.triple}-ar`, ['rcsD', out, ...members]);
        break;
      }
      case undefined:
        throw new Error(`${recipe.name}: no step`);
      default:
        recipe.step satisfies never;
    }
  }
}

/**
 * What a signed module has behind the last byte of the ELF file: a PKCS#7 message (here only
 * something of that form, signed by nobody), a 12-byte structure whose third byte is the kind (2 =
 * PKCS#7) and whose last word is the big-endian length of the message, and a line of text.
 */
function signatureTrailer(): Buffer {
  const body = Buffer.alloc(96, 0x30);
  body.set([0x30, 0x5e, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02]);
  const header = Buffer.from([0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, body.length]);
  return Buffer.concat([body, header, Buffer.from('~Module signature appended~\n')]);
}

/**
 * Builds every sample of the table whose tools are installed; given ones are copied.
 * @param given  builds those, too
 * @returns names of the samples that were left out, with the missing tools
 */
export async function buildSamples(
  recipes: Recipes,
  folder: string,
  given = false,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const versions = await installedVersions(recipes);
  const left = new Map<string, readonly string[]>();
  const objects = mkdtempSync(join(tmpdir(), 'elftrace-samples-'));
  try {
    const builder = new Builder(recipes, folder, objects);
    const jobs: Promise<void>[] = [];
    for (const recipe of recipes.samples) {
      const missing = toolsOf(recipes, recipe).filter((tool) => versions.get(tool) === null);
      if (missing.length > 0) left.set(recipe.name, missing);
      else if (given || givenBy(recipes, recipe) === null) jobs.push(builder.build(recipe));
      else copyGiven(recipe, folder);
    }
    const failed = (await Promise.allSettled(jobs)).filter((each) => each.status === 'rejected');
    if (failed.length > 0) throw new Error(failed.map((each) => String(each.reason)).join('\n'));
  } finally {
    rmSync(objects, { recursive: true, force: true });
  }
  return left;
}

function copyGiven(recipe: Recipe, folder: string): void {
  mkdirSync(dirname(join(folder, recipe.name)), { recursive: true });
  cpSync(join(builtFolder, recipe.name), join(folder, recipe.name));
}

/** SHA-256 of the files below a folder, by relative name in byte order. */
export function sumsOf(folder: string): ReadonlyMap<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && each.name !== 'SHA256SUMS')
    .map((each) => join(each.parentPath, each.name).slice(folder.length + 1))
    .sort();
  return new Map(
    names.map((name) => [
      name,
      createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex'),
    ]),
  );
}

/** samples/built/SHA256SUMS, in the form of `sha256sum`. */
export function recordedSums(): ReadonlyMap<string, string> {
  const lines = readFileSync(join(builtFolder, 'SHA256SUMS'), 'utf8')
    .split('\n')
    .filter((line) => line !== '');
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
}

/** The ELF file inside a compressed sample, or the file itself. */
async function plainFile(path: string, temporary: string): Promise<string> {
  const tool = { xz: 'xz', gz: 'gzip', zst: 'zstd' }[path.slice(path.lastIndexOf('.') + 1)];
  if (tool === undefined) return path;
  const out = join(temporary, `${basename(path)}.elf`);
  writeFileSync(out, await run(tool, ['-d', '-c', path]));
  return out;
}

/**
 * What a patcher depends on, as lines without addresses: code, data and table sections with type
 * and flags, the number of relocations by section, type and (for mcount) symbol, the named
 * functions and objects.
 */
async function structureOf(path: string): Promise<readonly string[]> {
  const temporary = mkdtempSync(join(tmpdir(), 'elftrace-structure-'));
  try {
    const text = (await run('readelf', ['-W', '-S', '-r', '-s', await plainFile(path, temporary)])).toString();
    const counts = new Map<string, number>();
    const add = (line: string): void => void counts.set(line, (counts.get(line) ?? 0) + 1);
    let relocated = '';
    for (const line of text.split('\n')) {
      const section = /^ +\[ *\d+\] (\S+) +(PROGBITS|NOBITS|REL|RELA|RELR) +\S+ +\S+ +\S+ +\S+ +([A-Z]+)? /.exec(line);
      // Notes, unwind tables, constants and what a linker makes for itself differ by version and
      // are nothing to patch.
      const incidental = /^(\.rela?)?\.(comment|note|eh_frame|rodata|got|plt|dyn)/.test(section?.[1] ?? '');
      if (section && !incidental) add(`section ${String(section[1])} ${String(section[2])} ${section[3] ?? ''}`);
      relocated = /^Relocation section '(\S+)'/.exec(line)?.[1] ?? relocated;
      const relocation = /^[0-9a-f]+ +[0-9a-f]+ (R_\S+) +(?:[0-9a-f]+ +)?(\S+)?/.exec(line);
      // Code may be scheduled in another way; its calls of mcount and every slot of a table are
      // what must not change.
      const mcount =
        relocation && /^(_?mcount|__fentry__)$/.test(relocation[2] ?? '') ? ` ${String(relocation[2])}` : '';
      if (relocation && (mcount !== '' || /mcount_loc|patchable/.test(relocated)))
        add(`${relocated} ${String(relocation[1])}${mcount}`);
      const symbol = /^ +\d+: [0-9a-f]+ +\S+ (FUNC|OBJECT) +(GLOBAL|WEAK|LOCAL) +\S+ .*?(\S+)$/.exec(line);
      if (symbol && symbol[2] !== 'LOCAL') add(`symbol ${String(symbol[3])} ${String(symbol[1])} ${String(symbol[2])}`);
    }
    return [...counts].map(([line, count]) => `${line} x${String(count)}`).sort();
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

export interface Comparison {
  /** Samples that were equal byte for byte. */
  readonly identical: number;
  /** Samples built by other tools and equal in structure. */
  readonly alike: number;
  /** Samples that are not built again, with the reason. */
  readonly given: readonly string[];
  /** Samples whose tools are not here. */
  readonly leftOut: readonly string[];
  /** Tools whose version is not the recorded one. */
  readonly versions: readonly string[];
  /** What other tools than the recorded ones made in another way. */
  readonly differences: readonly string[];
  /**
   * What is wrong whatever the tools: other bytes from the recorded ones, a sample without file or
   * recipe.
   */
  readonly problems: readonly string[];
}

/** Rebuilds everything into a temporary folder and compares with samples/built. */
export async function checkSamples(recipes: Recipes): Promise<Comparison> {
  const recorded = recordedVersions();
  const installed = await installedVersions(recipes);
  const versions: string[] = [];
  for (const [tool, version] of recorded) {
    const here = installed.get(tool);
    if (here !== undefined && here !== version)
      versions.push(`${tool}: recorded ${version}, installed ${here ?? 'none'}`);
  }
  const problems: string[] = [];
  const differences: string[] = [];
  const given: string[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-rebuilt-'));
  let identical = 0;
  let alike = 0;
  try {
    const left = await buildSamples(recipes, folder);
    for (const recipe of recipes.samples) {
      if (left.has(recipe.name)) continue;
      const reason = givenBy(recipes, recipe);
      if (reason !== null) {
        given.push(`${recipe.name}: by ${reason}`);
        continue;
      }
      const built = join(builtFolder, recipe.name);
      if (!existsSync(built)) {
        problems.push(`${recipe.name}: not in samples/built`);
        continue;
      }
      const rebuilt = join(folder, recipe.name);
      if (readFileSync(built).equals(readFileSync(rebuilt))) {
        identical++;
      } else if (toolsOf(recipes, recipe).every((tool) => installed.get(tool) === recorded.get(tool))) {
        problems.push(`${recipe.name}: other bytes from the recorded tools`);
      } else {
        const before = await structureOf(built);
        const after = await structureOf(rebuilt);
        const gone = before.filter((line) => !after.includes(line)).map((line) => `  - ${line}`);
        const come = after.filter((line) => !before.includes(line)).map((line) => `  + ${line}`);
        if (gone.length + come.length === 0) alike++;
        else differences.push([`${recipe.name}: other structure`, ...gone, ...come].join('\n'));
      }
    }
    const names = new Set(recipes.samples.map((recipe) => recipe.name));
    for (const name of sumsOf(builtFolder).keys()) if (!names.has(name)) problems.push(`${name}: without a recipe`);
    return { identical, alike, given, leftOut: [...left.keys()], versions, differences, problems };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Runs an executable sample, natively where the machine is this one; returns its standard output.
 */
export async function runSample(recipes: Recipes, recipe: Recipe, folder: string): Promise<string> {
  const target = targetOf(recipes, recipe);
  const path = join(folder, recipe.name);
  if (runsNatively(target)) return (await run(path, [])).toString();
  return (await run(target.emulator, [...(recipe.emulatorFlags ?? []), path])).toString();
}

export function runsNatively(target: Target): boolean {
  return target.startup === 'x86-64' && process.arch === 'x64' && process.platform === 'linux';
}

/**
 * Counts the sites of a built sample with readelf and objdump: `calls` of mcount in code (by
 * relocation in relocatable files, by branch target in linked ones), entries of `__mcount_loc`
 * (`recorded`) and of `__patchable_function_entries` (`patchable`), words between
 * `__start_mcount_loc` and `__stop_mcount_loc` (`range`). Compressed files count as what is in
 * them, a stripped one as what it was made of, archives by member.
 */
export async function countSites(recipes: Recipes, recipe: Recipe, folder: string): Promise<string> {
  const target = targetOf(recipes, recipe);
  const named =
    recipe.step === 'strip' ? (recipes.samples.find((each) => each.name === recipe.from) ?? recipe) : recipe;
  const temporary = mkdtempSync(join(tmpdir(), 'elftrace-count-'));
  try {
    const path = await plainFile(join(folder, named.name), temporary);
    const elf = (await run(`${target.triple}-readelf`, ['-W', '-h', '-S', '-r', '-s', path])).toString();
    const slots = { __mcount_loc: 0, __patchable_function_entries: 0 };
    for (const [, name, size] of elf.matchAll(
      / (__mcount_loc|__patchable_function_entries) +PROGBITS +[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+)/g,
    )) {
      if (name === '__mcount_loc' || name === '__patchable_function_entries') {
        slots[name] += parseInt(size ?? '0', 16) / (1 << target.wordAlignLog2);
      }
    }
    const bound = (name: string): number =>
      parseInt(new RegExp(`: ([0-9a-f]+) .* ${name}$`, 'm').exec(elf)?.[1] ?? '0', 16);
    const range = (bound('__stop_mcount_loc') - bound('__start_mcount_loc')) / (1 << target.wordAlignLog2);
    let calls = 0;
    if (/Type: +REL /.test(elf)) {
      calls = [...elf.matchAll(/ R_\S+ +[0-9a-f]+ +(?:_?mcount|__fentry__)\b/g)].length;
    } else {
      // The large code model loads the address; an unrelaxed call goes through a slot of the GOT.
      const address = /: 0*([0-9a-f]+) +\d+ FUNC +GLOBAL +\S+ +\d+ __fentry__/.exec(elf)?.[1] ?? 'none';
      const call = new RegExp(
        `\\t(?:(?:addr32 )?call|bl|jalr?|brasl)\\s.*<_?\\.?_?(?:mcount|__fentry__|_fentry__)(?:[+@][^>]*)?>|` +
          `\\tmovabs +\\$0x${address},|\\tcall +\\*0x[0-9a-f]+\\(%rip\\)`,
      );
      const code = (await run(`${target.triple}-objdump`, ['-d', '--no-show-raw-insn', path])).toString();
      calls = code.split('\n').filter((line) => call.test(line)).length;
    }
    const tables = `recorded=${String(slots.__mcount_loc)} patchable=${String(slots.__patchable_function_entries)}`;
    return `calls=${String(calls)} ${tables} range=${String(range)}`;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** samples/expected/sites.txt and trace.txt: what is known of each sample, by name. */
export function readExpected(file: 'sites.txt' | 'trace.txt'): ReadonlyMap<string, string> {
  const lines = readFileSync(join(samplesFolder, 'expected', file), 'utf8').split('\n');
  return new Map(
    lines
      .filter((line) => line !== '')
      .map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]),
  );
}

/** Name below samples/expected of the lines that a sample prints before `trace=N`. */
export function expectedFile(recipe: Recipe): string {
  return join(samplesFolder, 'expected', recipe.kind === 'patchable' ? 'patchable.txt' : 'program.txt');
}

/** Replaces the committed samples and everything that describes them. */
async function writeSamples(recipes: Recipes): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-built-'));
  const left = await buildSamples(recipes, folder);
  if (left.size > 0) throw new Error(`tools are missing: ${[...new Set([...left.values()].flat())].join(', ')}`);
  rmSync(builtFolder, { recursive: true, force: true });
  cpSync(folder, builtFolder, { recursive: true });
  rmSync(folder, { recursive: true, force: true });
  const sums = [...sumsOf(builtFolder)].map(([name, sum]) => `${sum}  ${name}\n`);
  writeFileSync(join(builtFolder, 'SHA256SUMS'), sums.join(''));
  const versions = [...(await installedVersions(recipes))]
    .sort()
    .map(([tool, version]) => `${tool}: ${String(version)}\n`);
  writeFileSync(
    join(samplesFolder, 'VERSIONS'),
    `# Tools that samples/built was made with: first line of --version.\n${versions.join('')}`,
  );
  const sites: string[] = [];
  const counted = readExpected('sites.txt');
  for (const recipe of recipes.samples) {
    const known = givenBy(recipes, recipe) === null ? undefined : counted.get(recipe.name);
    sites.push(`${recipe.name} ${known ?? (await countSites(recipes, recipe, builtFolder))}\n`);
  }
  mkdirSync(join(samplesFolder, 'expected'), { recursive: true });
  writeFileSync(join(samplesFolder, 'expected', 'sites.txt'), sites.join(''));
  const traces: string[] = [];
  const texts = new Map<string, { text: string; first: string }>();
  const emulators = new Set<string>();
  for (const recipe of recipes.samples) {
    if (!isExecutable(recipes, recipe)) continue;
    const target = targetOf(recipes, recipe);
    emulators.add(runsNatively(target) ? 'natively (x86-64)' : String(await versionOf(target.emulator)));
    const output = await runSample(recipes, recipe, builtFolder);
    const at = output.lastIndexOf('trace=');
    traces.push(`${recipe.name} ${output.slice(at).trim()}\n`);
    const file = expectedFile(recipe);
    const known = texts.get(file);
    if (known === undefined) texts.set(file, { text: output.slice(0, at), first: recipe.name });
    else if (known.text !== output.slice(0, at))
      throw new Error(`${recipe.name} prints other lines than ${known.first}:\n${output}`);
  }
  for (const [file, { text }] of texts) writeFileSync(file, text);
  writeFileSync(join(samplesFolder, 'expected', 'trace.txt'), traces.join(''));
  writeFileSync(
    join(samplesFolder, 'expected', 'ORIGIN'),
    [
      'Standard output of the executables of samples/built, as they ran under these:',
      ...[...emulators].sort().map((each) => `  ${each}`),
      'program.txt, patchable.txt: the lines before the last, the same for every target and kind.',
      'trace.txt: the last line of each, the number of calls that the tracer counted.',
      'loaded.txt: core.o, far-one.ko and far-two.ko with a runtime, linked by GNU ld, the same for every target.',
      `sites.txt: counted with ${String(await versionOf('x86_64-linux-gnu-objdump'))} and readelf of each target.`,
      '',
    ].join('\n'),
  );
}

async function main(args: readonly string[]): Promise<number> {
  const recipes = readRecipes();
  const out = args[args.indexOf('--out') + 1];
  if (args.includes('--check')) {
    const result = await checkSamples(recipes);
    for (const line of result.versions) console.log(`version: ${line}`);
    for (const line of result.given) console.log(`not built again: ${line}`);
    for (const line of result.leftOut) console.log(`left out: ${line}`);
    for (const line of [...result.differences, ...result.problems]) console.log(line);
    console.log(
      `samples: ${String(result.identical)} byte for byte, ${String(result.alike)} alike, ` +
        `${String(result.given.length)} given, ${String(result.leftOut.length)} left out, ${String(result.differences.length)} different, ${String(result.problems.length)} wrong`,
    );
    const incomplete = process.env['ELFTRACE_REQUIRE_TOOLS'] === '1' && result.leftOut.length > 0;
    return result.problems.length + result.differences.length > 0 || incomplete ? 1 : 0;
  }
  if (args.includes('--write')) {
    await writeSamples(recipes);
    return 0;
  }
  if (!args.includes('--out') || out === undefined) {
    console.error('usage: build-samples --out DIR | --check | --write');
    return 2;
  }
  const left = await buildSamples(recipes, join(process.cwd(), out));
  for (const [name, tools] of left) console.log(`left out: ${name}: needs ${tools.join(', ')}`);
  return 0;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = await main(process.argv.slice(2));
}
