/**
 * Random C programs of csmith with floating point and the C library, on every machine at three
 * levels, in both tiers: `node build/scripts/soak-floats.js [COUNT] [FIRST SEED]`, COUNT programs
 * of each machine. Output and exit status must be those under qemu-user, on x86-64 those of the
 * processor, whose NaNs qemu does not know. Programs that run too long are left out.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { environment, execute, inEmulator, MACHINES } from './census/machines.js';

const HEADERS = '/usr/include/csmith';
const LEVELS = ['0', '2', '3'] as const;
const TIERS = ['0', 'auto'] as const;
/** Random programs may loop for ever; most end at once. */
const OUTSIDE_MS = 3000;
const count = Number(process.argv[2] ?? 200);
const first = Number(process.argv[3] ?? 1);
const folder = mkdtempSync(join(tmpdir(), 'soak-floats-'));

let different = 0;
for (const { name, tools, qemu, cpu } of MACHINES) {
  let compared = 0;
  let long = 0;
  for (let seed = first; compared < count; seed++) {
    const [source, program] = [join(folder, 'program.c'), join(folder, 'program')];
    const level = LEVELS[seed % LEVELS.length]!;
    const made = execute(
      'csmith',
      ['--seed', String(seed), '--concise', '--float', '-o', source],
      '',
      undefined,
      folder,
    );
    const flags = ['-w', `-O${level}`, '-static', '-I', HEADERS, '-o', program, source, '-lm'];
    const built = made.status === 0 ? execute(`${tools}gcc`, flags) : made;
    if (built.status !== 0) throw new Error(`seed ${seed}, ${name}: ${built.stderr}`);
    const outside = name === 'x86-64' && process.arch === 'x64' ? [] : [qemu, '-cpu', cpu];
    const [command = '', ...args] = [...outside, program];
    const there = execute(command, args, '', environment, folder, OUTSIDE_MS);
    if (there.status === null) {
      long++;
      continue;
    }
    compared++;
    for (const tier of TIERS) {
      const here = inEmulator(program, [], null, '', ['--tier', tier]);
      if (here.status === there.status && here.stdout === there.stdout) continue;
      different++;
      process.stdout.write(
        `${name}, seed ${seed}, -O${level}, tier ${tier}: exit ${here.status}, not ${there.status}\n`,
      );
    }
  }
  process.stdout.write(`${name}: ${compared} programs compared, ${long} left out\n`);
}
rmSync(folder, { recursive: true });
process.stdout.write(`${different} different\n`);
process.exitCode = different === 0 ? 0 : 1;
