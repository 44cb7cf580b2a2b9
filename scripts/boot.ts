/**
 * `npm run test:boot [-- MACHINE… --boots N …]`: boots Debian's kernels under qemu-system with
 * modules and a vmlinux that `patch --untrace` changed, turns both tracers on and off, and compares
 * what the kernels list and record with what they list and record of the originals.
 *
 *   MACHINE          amd64-12 arm64-12 ppc64el-12 amd64-13 …, or an architecture; default: all
 *   --boots N        boots of each kind (5)
 *   --probes N       functions of each kind of answer at which a probe is tried (60)
 *   --no-debug       no packages of debugging symbols (1 GB each): a vmlinux is changed only where
 *                    the kernel's package holds it as ELF
 *   --seconds N      limit of one boot (600)
 *   --json FILE      results as JSON
 *   --keep DIR       initrds, commands and consoles stay there; else only those of failed boots
 *
 * Two kinds: with the kernel as delivered, and with a vmlinux untraced in part. Each boot loads
 * modules of which every second one is untraced wholly and the others in part. Which ones, the
 * number of processors and address space randomisation change from boot to boot.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { boot, type Lists, type Outcome, type Report } from './boot/guest.js';
import { compileInit, minixImage } from './boot/initrd.js';
import { type Expected, kernelLines, moduleLines, problemsOf } from './boot/judge.js';
import {
  MACHINES,
  MODULES,
  VMLINUX_GLOBS,
  variantIn,
  type Machine,
  type ModuleRow,
  type Phase,
  type Variant,
} from './boot/machines.js';
import { type Kernel, kernelOf, moduleFile } from './boot/packages.js';
import { whyLists, type WhyLists, whyProblems } from './boot/why.js';

/** Root of the package, from build/scripts. */
const root = fileURLToPath(new URL('../..', import.meta.url));

type Kind = 'modules' | 'vmlinux';

/** One boot, as it is reported. */
interface Result {
  readonly machine: string;
  readonly kernel: string;
  readonly kind: Kind;
  readonly boot: number;
  readonly kaslr: boolean;
  readonly processors: number;
  readonly phases: readonly Phase[];
  readonly seconds: number;
  /** Functions of the kernel itself that can be traced, now and as delivered. */
  readonly functions: number;
  readonly delivered: number;
  /** Functions of all loaded modules that can be traced, by phase. */
  readonly modules: Readonly<Partial<Record<Phase, number>>>;
  readonly events: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

interface Settings {
  readonly machines: readonly Machine[];
  readonly boots: number;
  readonly probes: number;
  readonly seconds: number;
  readonly debug: boolean;
  readonly json: string | null;
  readonly keep: string | null;
}

/** What a tool prints as bytes. */
const bytesOf = (command: string, args: readonly string[]): Buffer =>
  execFileSync(command, [...args], { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] });

/** The bytes of a module's file, unpacked by the packer's own tool. */
function unpacked(path: string): Uint8Array {
  const tool = { xz: 'xz', zst: 'zstd', gz: 'gzip' }[path.slice(path.lastIndexOf('.') + 1)];
  return tool === undefined ? readFileSync(path) : bytesOf(tool, ['-dc', path]);
}

/** `patch --untrace` as a user calls it. */
function untrace(input: string, globs: readonly string[], output: string): void {
  const selection = globs.flatMap((each) => ['-l', each]);
  const args = [join(root, 'dist', 'cli.cjs'), 'patch', input, '--untrace', ...selection, '-o', output];
  const result = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (result.status !== 0) {
    throw new Error(`patch ${input} --untrace: exit ${String(result.status)}\n${result.stderr}${result.stdout}`);
  }
}

/** The files of all modules in a phase. */
function makeModules(kernel: Kernel, folder: string): (phase: Phase, row: ModuleRow) => Uint8Array {
  const pathOf = (variant: Variant, name: string): string => join(folder, variant, `${name}.ko`);
  for (const each of ['original', 'part', 'whole']) mkdirSync(join(folder, each), { recursive: true });
  for (const { name, part } of MODULES) {
    const original = pathOf('original', name);
    writeFileSync(original, unpacked(moduleFile(kernel, name)));
    if (part.length === 0) continue;
    untrace(original, part, pathOf('part', name));
    untrace(original, [], pathOf('whole', name));
  }
  return (phase, row) => readFileSync(pathOf(variantIn(phase, row), row.name));
}

/** How many functions have a name. */
function functionsByName(machine: Machine, path: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const [, name] of bytesOf(`${machine.tools}nm`, [path])
    .toString('latin1')
    .matchAll(/^\S+ [tTwW] (\S+)$/gm)) {
    counts.set(name!, (counts.get(name!) ?? 0) + 1);
  }
  return counts;
}

/** A kernel whose vmlinux is untraced in part, in the form that qemu boots. */
function makeVmlinux(machine: Machine, vmlinux: string, folder: string): string {
  const [plain, untraced, image] = ['plain', 'untraced', 'image'].map((name) => join(folder, name));
  bytesOf(`${machine.tools}objcopy`, ['--strip-debug', vmlinux, plain!]);
  untrace(plain!, VMLINUX_GLOBS, untraced!);
  rmSync(plain!);
  if (machine.vmlinuxForm === 'elf') return untraced!;
  const notes = ['.note', '.note.gnu.build-id', '.comment'].flatMap((name) => ['-R', name]);
  bytesOf(`${machine.tools}objcopy`, ['-O', 'binary', '-S', ...notes, untraced!, image!]);
  rmSync(untraced!);
  return image!;
}

/**
 * The first boot of a kernel says what the originals have, and the others are compared with it. One
 * boot of a changed vmlinux loads the originals too. The first boot of each kind takes what that of
 * the other one does not.
 */
function phasesOf(kind: Kind, number: number): readonly Phase[] {
  if (kind === 'modules' && number === 1) return ['original', 'mixed'];
  if (kind === 'vmlinux' && number === 3) return ['original'];
  return [(number % 2 === 0) === (kind === 'modules') ? 'swapped' : 'mixed'];
}

const variantOf = (kind: Kind, number: number): { readonly kaslr: boolean; readonly processors: number } => ({
  kaslr: (number % 2 === 1) === (kind === 'modules'),
  processors: number % 5 === 4 ? 2 : 1,
});

/**
 * Boots one machine; the kernel as delivered comes first and says what the changed one must have.
 */
async function bootMachine(machine: Machine, settings: Settings, work: string): Promise<readonly Result[]> {
  const kernel = kernelOf(machine, MODULES.map(({ name }) => name), settings.debug); // prettier-ignore
  const folder = join(work, machine.name);
  const module = makeModules(kernel, join(folder, 'modules'));
  const { seconds } = settings;
  const why = whyOf(kernel, module, settings.probes);
  const fixed = { machine, init: compileInit(machine), minix: minixImage(), module, globs: VMLINUX_GLOBS, seconds };
  const results: Result[] = [];
  let original: Report | null = null;
  const kinds: readonly Kind[] = kernel.vmlinux === null ? ['modules'] : ['modules', 'vmlinux'];
  for (const kind of kinds) {
    const isVmlinuxChanged = kind === 'vmlinux';
    const image = isVmlinuxChanged ? makeVmlinux(machine, kernel.vmlinux!, folder) : kernel.image;
    const symbols = isVmlinuxChanged ? functionsByName(machine, kernel.vmlinux!) : new Map<string, number>();
    for (let number = 1; number <= settings.boots; number++) {
      const own = join(folder, `${kind}-${String(number)}`);
      mkdirSync(own, { recursive: true });
      const phases = phasesOf(kind, number);
      // The first boot is of the kernel and the modules as delivered.
      const isFirst = original === null;
      const asked = { lists: isFirst ? listsOf(why) : new Map(), probed: isFirst ? [...why.probes.keys()] : [] };
      const outcome = await boot({
        ...fixed,
        ...variantOf(kind, number),
        ...asked,
        phases,
        folder: own,
        kernel: image,
      });
      original ??= outcome.report;
      const expected = { original, phases, globs: VMLINUX_GLOBS, isVmlinuxChanged, symbols };
      const about = { machine: machine.name, kernel: kernel.version, kind, boot: number };
      const result = resultOf(about, outcome, expected, isFirst && outcome.report.ended ? why : null);
      results.push(result);
      tell(result, own);
      if (result.problems.length === 0 && settings.keep === null) rmSync(own, { recursive: true });
    }
  }
  return results;
}

/** What `why` says of the kernel and the modules as delivered. */
function whyOf(kernel: Kernel, module: (phase: Phase, row: ModuleRow) => Uint8Array, probes: number): WhyLists {
  const modules = new Map(MODULES.map((row) => [row.name, module('original', row)]));
  return whyLists(kernel.vmlinux === null ? null : new Uint8Array(readFileSync(kernel.vmlinux)), modules, probes);
}

function listsOf({ functions, blacklist }: WhyLists): Lists {
  return new Map([
    ...(functions === null ? [] : [['/why/functions', functions] as const]),
    ['/why/blacklist', blacklist] as const,
  ]);
}

function resultOf(
  name: Pick<Result, 'machine' | 'kernel' | 'kind' | 'boot'>,
  outcome: Outcome,
  expected: Expected,
  why: WhyLists | null,
): Result {
  const { report, seconds } = outcome;
  const lines = kernelLines(report);
  return {
    ...name,
    ...variantOf(name.kind, name.boot),
    phases: expected.phases,
    seconds: Math.round(seconds * 10) / 10,
    functions: lines?.lines ?? 0,
    delivered: kernelLines(expected.original)?.lines ?? 0,
    modules: Object.fromEntries(expected.phases.map((phase) => [phase, moduleLines(report, phase)])),
    events: Object.fromEntries([...report.traces].map(([label, { events }]) => [label, events])),
    problems: [...problemsOf(outcome, expected), ...(why === null ? [] : whyProblems(report, why))],
  };
}

function tell(result: Result, folder: string): void {
  const { machine, kind, boot: number, seconds, problems, kaslr, processors } = result;
  const how = `${String(processors)} CPU${processors > 1 ? 's' : ''}${kaslr ? '' : ', nokaslr'}`;
  const verdict = problems.length === 0 ? 'ok' : `${String(problems.length)} problems, console in ${folder}`;
  console.log(`${machine} ${kind} ${String(number)} (${how}): ${seconds.toFixed(1)} s: ${verdict}`);
  for (const each of problems.slice(0, 20)) console.log(`  ${each}`);
}

/** One line for each kind of each machine. */
function printTable(results: readonly Result[]): void {
  const groups = new Map<string, Result[]>();
  for (const each of results) {
    const key = `${each.machine} ${each.kind}`;
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  const rows = [...groups.values()].map((all) => {
    const first = all.find(({ problems }) => problems.length === 0) ?? all[0]!;
    const modules = Object.assign({}, ...all.map((each) => each.modules)) as Result['modules'];
    const { original = '?', mixed = '?', swapped = '?' } = modules;
    const good = all.filter(({ problems }) => problems.length === 0).length;
    return {
      machine: first.machine,
      kernel: first.kernel,
      changed: first.kind === 'modules' ? 'modules' : 'vmlinux and modules',
      'boots as they must be': `${String(good)} of ${String(all.length)}`,
      "kernel's functions":
        first.kind === 'modules' ? String(first.delivered) : `${String(first.delivered)} -> ${String(first.functions)}`,
      "modules' functions": `${String(original)} -> ${String(mixed)}, ${String(swapped)}`,
      'seconds each': (all.reduce((sum, { seconds }) => sum + seconds, 0) / all.length).toFixed(0),
    };
  });
  console.table(rows);
}

function settingsOf(args: readonly string[]): Settings {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    allowNegative: true,
    options: {
      boots: { type: 'string', default: '5' },
      probes: { type: 'string', default: '60' },
      seconds: { type: 'string', default: '600' },
      debug: { type: 'boolean', default: true },
      json: { type: 'string' },
      keep: { type: 'string' },
    },
  });
  const unknown = positionals.filter((each) => !MACHINES.some((one) => one.name === each || one.architecture === each));
  if (unknown.length > 0)
    throw new Error(`no such machine: ${unknown.join(' ')}; there are ${MACHINES.map(({ name }) => name).join(' ')}`);
  const number = (text: string): number => {
    if (!/^[1-9]\d{0,4}$/.test(text)) throw new Error(`not a number above 0: ${text}`);
    return Number(text);
  };
  const chosen = MACHINES.filter(
    ({ name, architecture }) => positionals.includes(name) || positionals.includes(architecture),
  );
  return {
    machines: positionals.length === 0 ? MACHINES : chosen,
    boots: number(values.boots),
    probes: number(values.probes),
    seconds: number(values.seconds),
    debug: values.debug,
    json: values.json ?? null,
    keep: values.keep ?? null,
  };
}

async function main(args: readonly string[]): Promise<number> {
  const settings = settingsOf(args);
  if (settings.keep !== null) mkdirSync(settings.keep, { recursive: true });
  const work = settings.keep ?? mkdtempSync(join(tmpdir(), 'elftrace-boot-'));
  const results: Result[] = [];
  const broken: { readonly machine: string; readonly error: string }[] = [];
  for (const machine of settings.machines) {
    try {
      results.push(...(await bootMachine(machine, settings, work)));
    } catch (error) {
      // The other machines are booted all the same.
      broken.push({ machine: machine.name, error: error instanceof Error ? error.message : String(error) });
      console.error(`${machine.name}: ${broken.at(-1)!.error}`);
    }
    const isClean = results.every(({ problems }) => problems.length === 0);
    if (settings.keep === null && isClean && existsSync(work))
      rmSync(join(work, machine.name), { recursive: true, force: true });
  }
  // What a machine with problems left stays, for people.
  if (settings.keep === null && readdirSync(work).length === 0) rmSync(work, { recursive: true });
  if (results.length > 0) printTable(results);
  if (settings.json !== null)
    writeFileSync(settings.json, `${JSON.stringify({ schema: 1, results, broken }, null, 2)}\n`);
  const bad = results.filter(({ problems }) => problems.length > 0).length;
  console.log(
    `${String(results.length)} boots, ${String(bad)} with problems, ${String(broken.length)} machines not booted`,
  );
  return bad === 0 && broken.length === 0 && results.length > 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
