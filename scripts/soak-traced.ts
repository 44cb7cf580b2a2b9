/**
 * `npm run soak -- traced [MACHINE…] [--only PROGRAM…]`: programs of Debian's sources, built with
 * call sites, with `patch --nop` and with `patch --enable` on all of these, in the emulator: each
 * run prints what it printed unpatched and ends as it did, and with `--enable` records calls. Tools
 * write to a folder of the soak.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { buildCross, crossMachines } from './soak-cross.js';
import { cli, folder, must, type Ran, runs, shell, soakAll } from './soak-programs.js';

const PROGRAMS = ['bc', 'gzip', 'lua', 'busybox'];
/** Programs are static and at a fixed address: no libraries of another machine are looked for. */
const FLAGS = { compile: '-fno-pie', link: '-static -no-pie' };

/**
 * A shell's word that executes `program` in the emulator. There it is `$P`, too, for the shells of
 * busybox.
 */
function inEmulator(program: string, more = ''): string {
  const kept = mkdtempSync(join(folder, 'kept-'));
  return `${cli} run --root / --write ${kept} --env LC_ALL=C --env 'P=${program}' --max-instructions 20000000000 ${more} -- ${program}`;
}

/** Calls that a run records. */
function callsOf(program: string): number {
  const file = join(folder, 'calls.ndjson');
  rmSync(file, { force: true });
  shell(`${inEmulator(program, `--trace ${file} --format ndjson`)} < /dev/null`, folder);
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.includes('"ip"') || line.includes('"function"')).length;
}

/** What the runs of a program say, without its path. */
function sayingsOf(program: string, path: string): string[] {
  const named = (text: string): string => text.replaceAll(path, 'P').replaceAll(basename(path), 'P');
  return runs(program, inEmulator(path), {}).map(({ status, text }: Ran) => `${status}: ${named(text)}`);
}

/** A patched program, and what `patch` said last. */
function patchedBy(option: '--nop' | '--enable', plain: string): { readonly path: string; readonly said: string } {
  const path = join(mkdtempSync(join(folder, 'traced-')), basename(plain));
  const said = must('patch', shell(`${cli} patch '${plain}' ${option} -o '${path}'`, folder)).toString();
  return { path, said: said.trim().split('\n').at(-1) ?? '' };
}

function soak(machine: string, program: string): boolean {
  const plain = buildCross(program, machine, FLAGS);
  const before = sayingsOf(program, plain);
  const unserved = before.find((each) => each.startsWith('125'));
  if (unserved !== undefined) console.log(`  a run that is not served: ${unserved.slice(0, 300)}`);
  let holds = unserved === undefined;
  for (const option of ['--nop', '--enable'] as const) {
    const { path, said } = patchedBy(option, plain);
    const after = sayingsOf(program, path);
    const differing = before.flatMap((each, i) => (each === after[i] ? [] : [i]));
    const calls = option === '--enable' ? callsOf(path) : null;
    const recorded = calls === null ? '' : `, ${calls} calls of the first`;
    console.log(
      `${machine}: ${program} ${option}: ${before.length} runs, ${differing.length} differ${recorded}; ${said}`,
    );
    for (const i of differing) console.log(`  ${before[i]!.slice(0, 300)}\n  ${after[i]!.slice(0, 300)}`);
    holds &&= differing.length === 0 && calls !== 0;
  }
  return holds;
}

mkdirSync(folder, { recursive: true });
const words = process.argv.slice(2);
const at = words.indexOf('--only');
const machines = at < 0 ? words : words.slice(0, at);
const chosen = at < 0 ? PROGRAMS : words.slice(at + 1);
soakAll(
  (machines.length > 0 ? machines : Object.keys(crossMachines)).flatMap((machine) =>
    chosen.map((each) => `${machine} ${each}`),
  ),
  (name) => {
    const [machine = '', program = ''] = name.split(' ');
    return soak(machine, program);
  },
);
