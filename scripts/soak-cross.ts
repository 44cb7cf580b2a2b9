/**
 * Programs of Debian's sources for other machines, with Debian's flags and call sites: how they are
 * built.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cli, flag, folder, must, programs, repairing, shell, unpack } from './soak-programs.js';

export interface CrossMachine {
  readonly triple: string;
  readonly emulator: string;
  readonly sites: string;
  /** Whether tables of sites are made by `elftrace mcount`. */
  readonly hasTables?: boolean;
}

export const crossMachines: Readonly<Record<string, CrossMachine>> = {
  'x86-64': {
    triple: 'x86_64-linux-gnu',
    emulator: 'qemu-x86_64',
    sites: '-fpatchable-function-entry=5',
  },
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

/** What calls of -mprofile-kernel lead to while they are on. */
const MCOUNT = `.abiversion 2\n.text\n.globl _mcount\n.type _mcount, @function
_mcount: mflr 12\nmtctr 12\nmtlr 0\nbctr\n.size _mcount, .-_mcount\n.section .note.GNU-stack,"",@progbits\n`;

/** A compiler that makes tables of sites behind each object, and links without what -pg brings. */
function compiler({ triple, hasTables }: CrossMachine, tool: string, ending: string): string {
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

/**
 * Builds a program of `programs` for a machine of the table.
 * @param more  further flags of compilers and of the link
 * @returns its path
 */
export function buildCross(
  program: string,
  name: string,
  more: { readonly compile?: string; readonly link?: string } = {},
): string {
  const machine = crossMachines[name]!;
  const { triple, emulator, sites } = machine;
  const { source, build: own, cross, program: file } = programs[program]!;
  const place = unpack(source, join(folder, `${program}-${name}`));
  const steps = cross ?? own.replace('./configure', `./configure --host=${triple}`);
  const flags = (language: string): string =>
    `${flag(language)} ${flag('CPPFLAGS')} ${sites} ${more.compile ?? ''}`.replaceAll('-fcf-protection', '');
  const env = {
    CROSS: `${triple}-`,
    EMULATOR: `${emulator} -L /usr/${triple}`,
    CC: compiler(machine, 'gcc', 'c'),
    CXX: compiler(machine, 'g++', 'cc'),
    CFLAGS: flags('CFLAGS'),
    CXXFLAGS: flags('CXXFLAGS'),
    LDFLAGS: `${flag('LDFLAGS')} ${more.link ?? ''}`,
  };
  must(`building ${program}`, shell(steps, place, env));
  return join(place, file);
}
