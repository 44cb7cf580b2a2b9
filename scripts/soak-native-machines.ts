/**
 * `npm run soak -- native --machine NAME [PROGRAM …]`: programs of Debian's sources for another
 * machine, with its flags and one option more, record their own calls under qemu-user. What they
 * print and how they end is what they did before, and each function was called as often as qemu's
 * log of the same run says: of blocks that are executed, those that begin where a function does. Of
 * the same run, for what is called may depend on addresses and on the time (lua seeds its hashes
 * so).
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { functionEntries, loggedCalls, logSettings } from '../test/support/exec-log.js';
import {
  cli, differences, flag, folder, must, programs, recorded, repairing, runs, shell, soakAll, unpack,
} from './soak-programs.js'; // prettier-ignore

interface Machine {
  readonly triple: string;
  readonly emulator: string;
  readonly sites: string;
  /** Whether tables of sites are made by `elftrace mcount`. */
  readonly hasTables?: boolean;
}

const machines: Readonly<Record<string, Machine>> = {
  arm64: {
    triple: 'aarch64-linux-gnu',
    emulator: 'qemu-aarch64',
    sites: '-fpatchable-function-entry=2',
  },
  riscv64: {
    triple: 'riscv64-linux-gnu',
    emulator: 'qemu-riscv64',
    sites: '-fpatchable-function-entry=4',
  },
  ppc64le: {
    triple: 'powerpc64le-linux-gnu',
    emulator: 'qemu-ppc64le',
    sites: '-pg -mprofile-kernel',
    hasTables: true,
  },
  ppc64: {
    triple: 'powerpc64-linux-gnu',
    emulator: 'qemu-ppc64',
    sites: '-fpatchable-function-entry=2',
  },
  ppc32: {
    triple: 'powerpc-linux-gnu',
    emulator: 'qemu-ppc',
    sites: '-fpatchable-function-entry=2',
  },
};

const [name = '', ...wanted] = process.argv.slice(2);
const machine = machines[name];
if (machine === undefined) throw new Error(`--machine takes ${Object.keys(machines).join(', ')}`);
const { triple, emulator, sites, hasTables } = machine;
const under = `${emulator} -L /usr/${triple}`;

/** What calls of -mprofile-kernel lead to while they are on. */
const MCOUNT = `.abiversion 2\n.text\n.globl _mcount\n.type _mcount, @function
_mcount: mflr 12\nmtctr 12\nmtlr 0\nbctr\n.size _mcount, .-_mcount\n.section .note.GNU-stack,"",@progbits\n`;

/** A compiler that makes tables of sites behind each object, and links without what -pg brings. */
function compiler(tool: string, ending: string): string {
  const own = `${triple}-${tool}`;
  if (hasTables !== true) return tool === 'gcc' ? own : repairing(own);
  const script = join(folder, `compiler-${tool}`);
  writeFileSync(join(folder, 'mcount.s'), MCOUNT);
  must('mcount', shell(`${triple}-gcc -c mcount.s -o mcount.o`, folder));
  const text = `#!/bin/bash
last= out= source= compiles= asks= words=()
for word in "$@"; do
  case "$last" in -o) out="$word" ;; esac
  case "$word" in -c) compiles=1 ;; -E | -S | -M | -MM | -r) asks=1 ;; *.${ending}) source="$word" ;; esac
  [ "$word" = -pg ] || words+=("$word")
  last="$word"
done
[ -n "$asks" ] && exec ${own} "$@"
if [ -z "$compiles" ]; then
  [ -n "$source" ] && exec ${own} "\${words[@]}"
  # Builds ask with the source as the input (-x c -), which would be the language of the object, too.
  exec ${own} "\${words[@]}" -x none "${folder}/mcount.o"
fi
${own} "$@" || exit $?
[[ "$source" = *conftest.${ending} ]] && exit 0
out="\${out:-$(basename "\${source%.${ending}}").o}"
${cli} mcount "$out" -o "$out.tables" > /dev/null 2>&1 && mv "$out.tables" "$out"
${cli} mcount --repair "$out" --in-place > /dev/null 2>&1
exit 0
`;
  writeFileSync(script, text, { mode: 0o755 });
  return script;
}

function build(program: string): string {
  const { source, build: own, cross, program: file } = programs[program]!;
  const place = unpack(source, join(folder, `${program}-${name}`));
  const steps = cross ?? own.replace('./configure', `./configure --host=${triple}`);
  const flags = (language: string): string =>
    `${flag(language)} ${flag('CPPFLAGS')} ${sites}`.replaceAll('-fcf-protection', '');
  const env = {
    CROSS: `${triple}-`,
    CC: compiler('gcc', 'c'),
    CXX: compiler('g++', 'cc'),
    CFLAGS: flags('CFLAGS'),
    CXXFLAGS: flags('CXXFLAGS'),
    LDFLAGS: flag('LDFLAGS'),
  };
  must(`building ${program}`, shell(steps, place, env));
  return join(place, file);
}

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
  const plain = existsSync(kept) && process.env['ELFTRACE_SOAK_KEEP'] !== undefined ? kept : build(program);
  return ['function', 'function_graph'].map((tracer) => soakWith(program, plain, tracer)).every(Boolean);
});
