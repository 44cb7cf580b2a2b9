/**
 * `npm run soak -- traced [MACHINE…] [--only PROGRAM…]`: programs of Debian's sources, built with
 * call sites, with `patch --enable` on all of these, in the emulator: each run prints what it
 * printed unpatched, ends as it did, and records calls. Tools write to a folder of the soak.
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

function soak(machine: string, program: string): boolean {
  const plain = buildCross(program, machine, FLAGS);
  const patched = join(mkdtempSync(join(folder, 'traced-')), basename(plain));
  const said = must('patch', shell(`${cli} patch '${plain}' --enable -o '${patched}'`, folder))
    .toString()
    .trim();
  const named = ({ status, text }: Ran): string =>
    `${status}: ${text.replaceAll(patched, 'P').replaceAll(plain, 'P').replaceAll(basename(plain), 'P')}`;
  const [before, after] = [plain, patched].map((each) => runs(program, inEmulator(each), {}).map(named));
  const differing = before!.flatMap((each, i) => (each === after![i] ? [] : [i]));
  const calls = callsOf(patched);
  const isServed = before!.every((each) => !each.startsWith('125'));
  console.log(
    `${machine}: ${program}: ${before!.length} runs, ${differing.length} differ, ${calls} calls of the first; ${said.split('\n').at(-1) ?? ''}`,
  );
  for (const i of differing) console.log(`  ${before![i]!.slice(0, 300)}\n  ${after![i]!.slice(0, 300)}`);
  if (!isServed)
    console.log(`  a run that is not served: ${before!.find((each) => each.startsWith('125'))!.slice(0, 300)}`);
  return differing.length === 0 && calls > 0 && isServed;
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
