/**
 * Programs of musl on other machines than x86-64 that write their own trace, under an emulator of
 * their user mode, against an independent log. The libraries are built by `scripts/musl.sh`, and
 * named by ELFTRACE_MUSL; without it, and where not everything is tried, there is nothing here.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { scratch } from './support/c-programs.js';
import { CONFIG, LIBRARIES } from '../src/native/layout.js';
import { isWhole, sampled } from './support/long.js';
import { machines, ROOM, withTables } from './support/native-machines.js';
import { forks, nativePrograms, SAME_CALLS } from './support/native-programs.js';
import { compile, countsOf, type NativeMachine, patched, report, traced, truth } from './support/native-run.js';
import { describeWith, run } from './support/tools.js';

const root = process.env['ELFTRACE_MUSL'] ?? '';
const MODES = [[], ['--tracer', 'function_graph'], ['--tracer', 'counter'], ['--clock', 'none']] as const;
const FORMS = ['static', 'dynamic', 'PIE'] as const;
/** There is no unwinder of C, no coroutine, and no other program to execute. */
const LEFT_OUT = ['coroutines', 'fork, vfork, exec, exit in children'];
const programs = [
  ...nativePrograms.filter(({ name, language }) => !LEFT_OUT.includes(name) && language === undefined),
  forks,
];

/** Big-endian ELFv2 has musl alone. */
const names: Readonly<
  Record<string, { readonly loader: string; readonly flags?: readonly string[]; readonly helpers: readonly string[] }>
> = {
  arm64: { loader: 'aarch64', helpers: ['-lgcc'] },
  riscv64: { loader: 'riscv64', helpers: ['-lgcc'] },
  ppc64le: { loader: 'powerpc64le', flags: ['-mlong-double-64'], helpers: ['-lgcc'] },
  ppc64: { loader: 'powerpc64', flags: ['-mlong-double-64', '-mabi=elfv2'], helpers: [] },
  ppc32: { loader: 'powerpc', flags: ['-mlong-double-64'], helpers: ['-lgcc'] },
};

function muslMachine(name: string, form: (typeof FORMS)[number]): NativeMachine {
  const machine = machines.find((each) => each.name === name)!;
  const { loader, flags = [], helpers } = names[name]!;
  const { triple } = machine;
  const folder = join(root, name);
  const at = (file: string): string => join(folder, 'lib', file);
  const headers = run(`${triple}-gcc`, ['-print-file-name=include']).toString().trim();
  const kinds = {
    static: ['-static', '-no-pie', '-fno-pie'],
    dynamic: ['-no-pie', '-fno-pie'],
    PIE: ['-pie', '-fPIE'],
  };
  const library =
    form === 'static'
      ? [at('libc.a')]
      : ['-L', join(folder, 'lib'), '-lc', `-Wl,-dynamic-linker,/lib/ld-musl-${loader}.so.1`];
  const isElfV2Be = name === 'ppc64';
  return {
    ...machine,
    name: `${name} ${form}`,
    sites: isElfV2Be ? ['-pg', '-mprofile-kernel'] : machine.sites,
    run: machine.run.map((word) => (word === `/usr/${triple}` ? folder : word)),
    flags: [
      ...flags,
      ...kinds[form],
      '-nostdlib',
      '-nostdinc',
      '-isystem',
      join(folder, 'include'),
      '-isystem',
      headers,
      '-fno-stack-protector',
    ],
    libraries: [at(form === 'PIE' ? 'Scrt1.o' : 'crt1.o'), at('crti.o'), ...library, ...helpers, at('crtn.o')],
    ...(isElfV2Be ? { finish: (object: string) => withTables(object, triple, ['-mabi=elfv2']) } : {}),
  };
}

if (isWhole && existsSync(root))
  describe.each(Object.keys(names))('%s', (name) => {
    // Tables of calls in read-only memory, which musl's loader cannot relocate.
    const forms = FORMS.filter((form) => form !== 'PIE' || !muslMachine(name, form).sites.includes('-mprofile-kernel'));
    test.each(forms.flatMap((form) => programs.map((program) => [form, program.name, program] as const)))(
      'RT-52, RT-54, RT-55: %s: %s',
      (form, _, program) => {
        const machine = muslMachine(name, form);
        const expected = truth(program, SAME_CALLS, machine);
        const flags = [...SAME_CALLS, ...(program.flags ?? []), ...machine.sites];
        const plain = compile(program.source, flags, 'c', [], machine);
        for (const mode of MODES) {
          const ran = traced(patched(plain, ...mode), [], ROOM, machine);
          expect([mode, ran.status, ran.stdout]).toEqual([mode, expected.status, expected.stdout]);
          const found = report(ran.dir);
          expect([mode, found.dropped, found.damaged, found.unknown]).toEqual([mode, 0, 0, 0]);
          expect([mode, countsOf(found)]).toEqual([mode, expected.counts]);
        }
      },
      120_000,
    );
  });

const STRIPPED = `#include <stdio.h>\n#include <string.h>\nint half(int n) { return n / 2; }
int fib(int n) { return n < 2 ? n + half(n) : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%d %s\\n", fib(12), strerror(2)); return 3; }`;

if (isWhole && existsSync(root))
  describe.each(Object.keys(names))('%s', (name) => {
    test.each(MODES.map((mode) => [mode]))('RT-44, RT-52: a static program without symbols: %j', (mode) => {
      const machine = muslMachine(name, 'static');
      const flags = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', '-fasynchronous-unwind-tables'];
      const plain = compile(STRIPPED, [...flags, ...machine.sites], 'c', [], machine);
      const stripped = scratch('stripped');
      run(`${machine.triple}-strip`, ['-o', stripped, plain]);
      const ran = traced(patched(stripped, ...mode), [], ROOM, machine);
      expect([ran.status, ran.stdout]).toEqual([3, '144 No such file or directory\n']);
      expect(Object.values(countsOf(report(ran.dir))).sort()).toEqual([1, 233, 465]);
    });
  });

/** Beginning of what the runtime is told. */
const MAGIC = Buffer.from('ELFTRCN1');

describe.each(sampled(machines, 2))('$name', (machine) => {
  // What is dynamic of 64-bit big-endian PowerPC here is ELFv1, which musl has not.
  const libraries = machine.name === 'ppc64' ? (['glibc'] as const) : (['glibc', 'musl'] as const);
  describeWith([`${machine.triple}-gcc`], 'the C library is told by the loader', () => {
    test.each(libraries)('RT-52: %s', (library) => {
      const loader = library === 'musl' ? [`-Wl,-dynamic-linker,/lib/ld-musl-${names[machine.name]!.loader}.so.1`] : [];
      const flags = ['-O1', ...machine.sites, ...loader];
      const bytes = readFileSync(patched(compile('int main(void) { return 0; }', flags, 'c', [], machine)));
      const at = bytes.indexOf(MAGIC) + CONFIG.library;
      const told = machine.words?.endian === 'big' ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at);
      expect(told).toBe(LIBRARIES[library]);
    });
  });
});
