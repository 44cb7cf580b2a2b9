/**
 * Calls as an emulator of user mode logs them itself (qemu, `-d exec,nochain`): blocks of code that
 * it executed, of which those count that begin where a function does. The log is of the same run as
 * the trace, so what a program does may depend on addresses and on the time.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { spawnSync } from './spawn.js';

/** A tool's output; soaks have no test runner, so `run` of the tests is none for them. */
function output(tool: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(tool, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${tool}: ${stderr}`);
  return stdout;
}

/** Functions by where they are entered, of ELFv2 at two places. */
export function functionEntries(program: string, triple: string): Map<number, string> {
  const entries = new Map<number, string>();
  // Symbols of ELFv1 are those of descriptors; nm makes one for the code of each.
  if (triple === 'powerpc64-linux-gnu') {
    const text = output(`${triple}-nm`, ['--synthetic', program]);
    for (const [, at, name] of text.matchAll(/^([0-9a-f]+) [tTwW] \.(\S+)$/gm)) {
      entries.set(Number.parseInt(at!, 16), name!);
    }
    return entries;
  }
  const text = output(`${triple}-readelf`, ['-sW', program]);
  const rows = /^ *\d+: ([0-9a-f]+) +\S+ FUNC +\S+ +\S+ +(?:\[<localentry>: (\d+)\] +)?(\S+) (\S+)$/gm;
  for (const [, at, local, section, name] of text.matchAll(rows)) {
    if (section === 'UND') continue;
    const start = Number.parseInt(at!, 16);
    entries.set(start, name!);
    if (local !== undefined) entries.set(start + Number(local), name!);
  }
  return entries;
}

/** What the emulator is told by its environment, to log these entries alone, below `base`. */
export const logSettings = (entries: ReadonlyMap<number, string>, base: number): Readonly<Record<string, string>> => ({
  QEMU_LOG: 'exec,nochain',
  QEMU_DFILTER: [...entries.keys()].map((at) => `0x${(base + at).toString(16)}+0x1`).join(','),
});

/** Calls by function in logs of a folder; a block in front of which it stopped did not run. */
export function loggedCalls(
  folder: string,
  entries: ReadonlyMap<number, string>,
  base: number,
  isOurs: (name: string) => boolean,
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const file of readdirSync(folder)) {
    let last: string | undefined;
    for (const line of readFileSync(join(folder, file), 'latin1').split('\n')) {
      const isStopped = line.startsWith('Stopped execution');
      const [, place] = /^Trace .*?\/([0-9a-f]{8,16})\//.exec(line) ?? [];
      if (!isStopped && place === undefined) continue;
      if (!isStopped) last = entries.get(Number.parseInt(place!, 16) - base);
      if (last !== undefined && isOurs(last)) counts.set(last, (counts.get(last) ?? 0) + (isStopped ? -1 : 1));
    }
  }
  return counts;
}
