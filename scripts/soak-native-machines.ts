/**
 * `npm run soak -- native --machine NAME [PROGRAM …]`: programs of Debian's sources for another
 * machine, with its flags and one option more, record their own calls under qemu-user. What they
 * print and how they end is what they did before, and each function was called as often as qemu's
 * log of the same run says: of blocks that are executed, those that begin where a function does. Of
 * the same run, for what is called may depend on addresses and on the time (lua seeds its hashes
 * so).
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { functionEntries, loggedCalls, logSettings } from '../test/support/exec-log.js';
import { buildCross, crossMachines } from './soak-cross.js';
import { cli, differences, folder, must, programs, recorded, runs, shell, soakAll } from './soak-programs.js';

const [name = '', ...wanted] = process.argv.slice(2);
const machine = crossMachines[name];
if (machine === undefined) throw new Error(`--machine takes ${Object.keys(crossMachines).join(', ')}`);
const { triple, emulator } = machine;
const under = `${emulator} -L /usr/${triple}`;

/** Names of what compilers bring, which has no sites: of an empty program, and of their library. */
function ownNames(): ReadonlySet<string> {
  must('empty program', shell(`echo 'int main(void) { return 0; }' | ${triple}-gcc -x c - -o empty`, folder));
  const library = must('libgcc', shell(`${triple}-nm $(${triple}-gcc -print-libgcc-file-name) 2> /dev/null`, folder));
  const parts = [...library.toString().matchAll(/ T \.?(\S+)$/gm)].map(([, symbol]) => symbol!);
  const own = [...functionEntries(join(folder, 'empty'), triple).values(), ...parts, '_mcount'];
  return new Set(own.filter((each) => each !== 'main'));
}

/** Where qemu puts a program: the first mapping that its log tells of. */
function baseOf(program: string): number {
  const type = must('type', shell(`${triple}-readelf -h '${program}'`, folder)).toString();
  if (!type.includes('DYN')) return 0;
  const { stderr } = shell(`${under} -d page '${program}' --version < /dev/null`, folder);
  const [, start] = /^start .*\n([0-9a-f]+)-/m.exec(stderr.toString()) ?? [];
  if (start === undefined) throw new Error(`${emulator} does not say where the program lies`);
  return Number.parseInt(start, 16);
}

function soakWith(program: string, plain: string, tracer: string): boolean {
  // Programs say what they are called.
  const patched = join(mkdtempSync(join(folder, 'traced-')), basename(plain));
  must('record', shell(`${cli} record --tracer ${tracer} -o '${patched}' '${plain}'`, folder));
  const dir = mkdtempSync(join(folder, `trace-${program}-`));
  const logs = mkdtempSync(join(folder, `logs-${program}-`));
  const entries = functionEntries(plain, triple);
  const own = ownNames();
  const base = baseOf(plain);
  const before = runs(program, `${under} ${plain}`, {});
  const env = { ELFTRACE_DIR: dir, ELFTRACE_SIZE: String(1 << 28), ...logSettings(entries, base) };
  const traced = runs(program, `${under} -D ${logs}/%d ${patched}`, env);
  const named = (text: string): string => text.replaceAll(plain, 'P').replaceAll(patched, 'P');
  const isSame = before.every(
    ({ status, text }, i) => status === traced[i]!.status && named(text) === named(traced[i]!.text),
  );
  const { counts, dropped } = recorded(dir);
  const wrong = differences(
    loggedCalls(logs, entries, base, (name) => !own.has(name)),
    counts,
  );
  const calls = [...counts.values()].reduce((sum, each) => sum + each, 0);
  console.log(
    `${name}: ${program}, ${tracer}: ${before.length} runs, ${isSame ? 'output and status as before' : 'OUTPUT OR STATUS DIFFERS'}; ` +
      `${counts.size} functions, ${calls} calls, ${dropped} dropped, ${wrong.length} functions differ from the log of the same runs`,
  );
  for (const line of wrong.slice(0, 20)) console.log(`  ${line}`);
  rmSync(dir, { recursive: true });
  rmSync(logs, { recursive: true });
  return isSame && dropped === 0 && wrong.length === 0;
}

mkdirSync(folder, { recursive: true });
const FOREIGN = ['gzip', 'lua', 'sqlite3'];
soakAll(wanted.length > 0 ? wanted : FOREIGN, (program) => {
  const kept = join(folder, `${program}-${name}`, programs[program]!.program);
  const plain = existsSync(kept) && process.env['ELFTRACE_SOAK_KEEP'] !== undefined ? kept : buildCross(program, name);
  return ['function', 'function_graph'].map((tracer) => soakWith(program, plain, tracer)).every(Boolean);
});
