/**
 * `why`: by what functions can be traced, of objects and kernels that are compiled here. BTF is
 * gcc's own (-gbtf); that of a kernel and its module is laid out by the format.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { comparedImage } from '../src/diff/index.js';
import { readBtf } from '../src/elf/btf.js';
import { readElf } from '../src/elf/read.js';
import { whyFunction, type WhyOptions } from '../src/why/index.js';
import { warmElftrace } from './support/cli.js';
import { codeOf, openBytes, root } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'why-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const read = (name: string): Uint8Array => new Uint8Array(readFileSync(at(name)));
const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(
  JSON.parse(readFileSync(join(root, 'schemas', 'why.schema.json'), 'utf8')) as object,
);

interface Answer {
  readonly answer: string;
  readonly code: string;
}
type Found = { file: string; functions: { name: string; source?: string; by: Record<string, Answer> }[] }[];

function why(name: string, ...args: string[]): { readonly status: number | null; readonly found: Found } {
  const { status, stdout, stderr } = warmElftrace(['why', '--json', name, ...args], { cwd: folder });
  expect(stderr).toBe('');
  const found = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Found[number]);
  for (const each of found) expect([validate(each), validate.errors]).toEqual([true, null]);
  return { status, found };
}
/** `yes site`, by ftrace, kprobe and fentry, of the only function. */
function brief(name: string, ...args: string[]): string[] {
  const { found } = why(name, ...args);
  expect(found.map(({ functions }) => functions.length)).toEqual([1]);
  const { by } = found[0]!.functions[0]!;
  return ['ftrace', 'kprobe', 'fentry'].map((each) => `${by[each]!.answer} ${by[each]!.code}`);
}

const GCC = 'x86_64-linux-gnu-gcc';
const traced = ['-pg', '-mfentry', '-mrecord-mcount', '-fno-pie'];
const SOURCE = `
#define NOINLINE __attribute__((noinline))
int table[16];
static inline __attribute__((always_inline)) int swallowed(int x) { for (int i = 0; i < x; i++) table[i & 15] += x; return table[x & 15]; }
NOINLINE int plain(int x) { return swallowed(x) + 1; }
static NOINLINE int local_one(int x) { return x * 3; }
NOINLINE __attribute__((no_instrument_function)) int quiet(int x) { return x - table[1]; }
NOINLINE int hidden(int x) { return x + table[0]; }
NOINLINE __attribute__((section(".init.text"))) int at_start(int x) { return x + 2; }
NOINLINE __attribute__((section(".noinstr.text"), no_instrument_function)) int forbidden(int x) { return x ^ 1; }
__attribute__((weak)) int overridden(int x) { return x + 9; }
int outside(int);
int user(int x) { return plain(x) + local_one(x) + quiet(x) + hidden(x) + at_start(x) + forbidden(x) + overridden(x) + outside(x); }
`;
const LIST = 'void *const list __attribute__((section("_kprobe_blacklist"), used)) = (void *)hidden;';
/** The list as a linked kernel has it. */
const KERNEL_LIST = `asm(".section .init.data,\\"aw\\"; .globl __start_kprobe_blacklist, __stop_kprobe_blacklist;"
  "__start_kprobe_blacklist: .quad hidden, restart; __stop_kprobe_blacklist: .text");
asm(".globl open_ended, restart; .type open_ended,@function; open_ended: nop; nop; restart: nop; ret");
int outside(int x) { return x; } void __fentry__(void) {} void _start(void) {}
int register_kprobe(void) { return 0; } int kprobe_ftrace_handler(void) { return 0; }`;

const compile = (name: string, source: string, ...options: string[]): void => {
  writeFileSync(at(`${name}.c`), source);
  run(GCC, ['-O2', ...traced, ...options, '-o', at(name), at(`${name}.c`)]);
};

describeWith([GCC, 'objcopy'], 'an object', () => {
  beforeAll(() => {
    compile('object.o', SOURCE + LIST, '-g', '-c');
    compile('btf.o', SOURCE + LIST, '-gbtf', '-c');
    compile('strong.o', 'int overridden(int x) { return x * 2; }', '-c');
  });

  test.each([
    ['plain', 'yes site', 'yes probe', 'yes btf'],
    ['local_one', 'yes site', 'yes probe', 'yes btf'],
    ['quiet', 'no notrace', 'unknown kernel-missing', 'no notrace'],
    ['hidden', 'yes site', 'no probe-blacklisted', 'yes btf'],
    ['forbidden', 'no notrace', 'no probe-blacklisted', 'no notrace'],
    ['at_start', 'early init', 'early init', 'early btf'],
    ['outside', 'no elsewhere', 'no elsewhere', 'no elsewhere'],
    ['nothing', 'no no-symbol', 'no no-symbol', 'no no-symbol'],
  ])('%s: %s, %s, %s', (name, ...answers) => {
    expect(brief(name, 'btf.o')).toEqual(answers);
  });

  test('inlined, as DWARF says; without BTF no fentry', () => {
    expect(brief('swallowed', 'object.o')).toEqual(['no inlined', 'no inlined', 'no inlined']);
    expect(brief('plain', 'object.o')).toEqual(['yes site', 'yes probe', 'no no-btf']);
    const { stdout } = warmElftrace(['why', 'swallowed', 'object.o'], { cwd: folder });
    expect(stdout).toContain('no: inlined into plain');
  });

  test('a weak function loses to one of another file that is named', () => {
    expect(brief('overridden', 'btf.o')[0]).toBe('yes site');
    const { found, status } = why('overridden', 'btf.o', 'strong.o');
    expect(found.map(({ file, functions }) => [file, functions[0]!.by['ftrace']!.code])).toEqual([
      ['btf.o', 'weak-loser'],
      ['strong.o', 'site'],
    ]);
    expect(status).toBe(0);
  });

  test('a site that was taken out of the table is patched away', () => {
    warmElftrace(['patch', 'btf.o', '--untrace', '-l', 'plain', '-o', 'untraced.o'], { cwd: folder });
    expect(brief('plain', 'untraced.o')).toEqual(['no untraced', 'unknown kernel-missing', 'no untraced']);
  });

  test('status: 0 only where all that --by names is possible now', () => {
    const status = (name: string, ...by: string[]): number | null =>
      why(name, 'btf.o', ...by.flatMap((each) => ['--by', each])).status;
    expect([status('plain'), status('quiet'), status('at_start'), status('nothing')]).toEqual([0, 1, 1, 1]);
    expect([status('hidden'), status('hidden', 'kprobe'), status('hidden', 'ftrace', 'kprobe')]).toEqual([0, 1, 1]);
    const bad = warmElftrace(['why', 'plain', 'btf.o', 'nowhere.o'], { cwd: folder });
    expect([bad.status, bad.stderr]).toEqual([2, expect.stringContaining('nowhere.o')]);
  });
});

/** BTF with functions of these names. @param base  bytes of strings in front of its own */
function btf(names: readonly string[], base = 0): Uint8Array {
  const strings = Buffer.from(`${base === 0 ? '\0' : ''}${names.map((name) => `${name}\0`).join('')}`);
  const types = Buffer.alloc(12 * names.length);
  let offset = base === 0 ? 1 : base;
  names.forEach((name, i) => {
    types.writeUInt32LE(offset, 12 * i);
    types.writeUInt32LE(12 << 24, 12 * i + 4);
    offset += name.length + 1;
  });
  const header = Buffer.alloc(24);
  header.writeUInt16LE(0xeb9f, 0);
  header.writeUInt8(1, 2);
  [24, 0, types.length, types.length, strings.length].forEach((value, i) => header.writeUInt32LE(value, 4 + 4 * i));
  return new Uint8Array(Buffer.concat([header, types, strings]));
}

describeWith([GCC, 'objcopy'], 'a kernel and its module', () => {
  beforeAll(() => {
    const table = ['start', 'stop'].map((each) => `-Wl,--defsym=__${each}_mcount_loc=__${each}___mcount_loc`);
    compile('kernel.plain', SOURCE + KERNEL_LIST, '-nostdlib', '-static', ...table);
    compile('module.plain', `${SOURCE.replace('int outside(int);', '')}`.replace('+ outside(x)', ''), '-c');
    writeFileSync(at('base'), btf(['plain', 'hidden', 'quiet']));
    writeFileSync(at('split'), btf(['local_one', 'user'], 1 + 'plain hidden quiet '.length));
    writeFileSync(at('info'), 'name=module\0');
    const add = (from: string, to: string, ...sections: string[]): void => {
      run('objcopy', [...sections.map((each) => `--add-section=${each}`), at(from), at(to)]);
    };
    add('kernel.plain', 'vmlinux', `.BTF=${at('base')}`);
    add('module.plain', 'module.ko', `.BTF=${at('split')}`, `.modinfo=${at('info')}`);
    add('module.plain', 'own.ko', `.BTF=${at('split')}`, `.BTF.base=${at('base')}`, `.modinfo=${at('info')}`);
    add('kernel.plain', 'broken', `.BTF=${at('info')}`);
  });

  test('the kernel: its list of functions that no probe may be in is read between its symbols', () => {
    expect(brief('plain', 'vmlinux')).toEqual(['yes site', 'yes probe', 'yes btf']);
    expect(brief('hidden', 'vmlinux')).toEqual(['yes site', 'no probe-blacklisted', 'yes btf']);
    expect(brief('user', 'vmlinux')).toEqual(['yes site', 'yes probe', 'no not-in-btf']);
  });

  test('K-ADDR-3: the list is also read where the kernel writes its words when it starts', () => {
    const table = ['start', 'stop'].map((each) => `-Wl,--defsym=__${each}_mcount_loc=__${each}___mcount_loc`);
    compile('kernel.pie', SOURCE + KERNEL_LIST, '-fpie', '-nostdlib', '-static-pie', '-Wl,-z,notext', ...table);
    expect(brief('plain', 'kernel.pie').slice(0, 2)).toEqual(['yes site', 'yes probe']);
    expect(brief('hidden', 'kernel.pie').slice(0, 2)).toEqual(['yes site', 'no probe-blacklisted']);
  });

  test('K-ADDR-3: a label that is listed ends what is in front of it', () => {
    expect(brief('open_ended', 'vmlinux')[1]).toBe('yes probe');
    expect(brief('restart', 'vmlinux')[1]).toBe('no probe-blacklisted');
  });

  test('a module is read with the BTF of its kernel, and without it nobody can tell', () => {
    expect(brief('local_one', 'module.ko')).toEqual(['yes site', 'yes probe', 'unknown btf-base-missing']);
    expect(why('local_one', 'module.ko', '--by', 'fentry').status).toBe(1);
    const answers = (...files: string[]): [string, string][] =>
      why('local_one', ...files).found.map(({ file, functions }) => [file, functions[0]!.by['fentry']!.code]);
    expect(answers('vmlinux', 'module.ko')).toContainEqual(['module.ko', 'btf']);
    expect(answers('module.ko', 'vmlinux')).toContainEqual(['module.ko', 'btf']);
    expect(answers('own.ko')).toEqual([['own.ko', 'btf']]);
  });

  test('K-ADDR-9: whether events take a function without a site, the kernel among the images says', () => {
    // A text of Linux, which is there only with the check; a clone and a part by the names of GCC.
    const check = 'const char refusal[] = "\\0014trace_kprobe: Could not probe notrace function %s\\n";';
    const names = ['quiet.cold', 'plain.cold'].map((name) => `asm(".type ${name},@function; ${name}: nop; ret; .size ${name}, .-${name}");`); // prettier-ignore
    const table = ['start', 'stop'].map((each) => `-Wl,--defsym=__${each}_mcount_loc=__${each}___mcount_loc`);
    const source = `${SOURCE}${KERNEL_LIST}${names.join('\n')}`;
    for (const [name, more] of [['checks', check], ['takes', '']] as const) compile(name, source + more, '-nostdlib', '-static', ...table); // prettier-ignore
    const kprobe = (name: string, ...files: string[]): string => {
      const { by } = why(name, ...files).found.at(-1)!.functions[0]!;
      return `${by['kprobe']!.answer} ${by['kprobe']!.code}`;
    };
    const asked = ['plain', 'plain.cold', 'quiet', 'quiet.cold'];
    const no = 'no probe-notrace';
    expect(asked.map((name) => kprobe(name, 'checks'))).toEqual(['yes probe', 'yes probe', no, no]);
    expect(asked.map((name) => kprobe(name, 'takes'))).toEqual(['yes probe', 'yes probe', 'yes probe', 'yes probe']);
    expect([kprobe('quiet', 'checks', 'module.ko'), kprobe('quiet', 'takes', 'module.ko')]).toEqual([no, 'yes probe']);
    expect(kprobe('quiet', 'module.ko')).toBe('unknown kernel-missing');
  });

  test('damaged BTF is an error, with its place', () => {
    const result = warmElftrace(['why', 'plain', 'broken'], { cwd: folder });
    expect([result.status, result.stderr]).toEqual([2, expect.stringContaining('.BTF')]);
    const image = (bytes: Uint8Array): Uint8Array => {
      writeFileSync(at('cut'), bytes);
      run('objcopy', [`--add-section=.BTF=${at('cut')}`, at('module.plain'), at('cut.o')]);
      return read('cut.o');
    };
    const good = btf(['plain']);
    for (const [position, value] of [
      [0, 0],
      [4, 4],
      [12, 200],
      [20, 255],
      [31, 31],
    ] as const) {
      const bytes = good.slice();
      bytes[position] = value;
      const bad = readElf(image(bytes));
      expect([position, codeOf(() => readBtf(bad))]).toEqual([position, expect.stringMatching(/^elf-/)]);
    }
  });
});

describeWith(['riscv64-linux-gnu-gcc', 'aarch64-linux-gnu-gcc', 's390x-linux-gnu-gcc'], 'other machines', () => {
  const ask = (compiler: string, flags: readonly string[], name: string, options: WhyOptions = {}): string[] => {
    writeFileSync(at('other.c'), SOURCE);
    run(compiler, ['-O2', ...flags, '-c', '-o', at('other.o'), at('other.c')]);
    const [found] = whyFunction(comparedImage(openBytes(read('other.o')).sites), name, options);
    return [found!.by.ftrace.answer, found!.by.kprobe.answer, found!.by.kprobe.code];
  };

  test('K-ADDR-7: whether a probe on a site is taken, the kernel among the images says', () => {
    const area = ['-fpatchable-function-entry=4'];
    writeFileSync(at('rv.c'), SOURCE);
    const compileKernel = (name: string, more: string): void => {
      writeFileSync(at(`${name}.c`), `${SOURCE}\nint outside(int x) { return x; }\nint register_kprobe(void) { return 0; }\n${more}`);
      const linked = ['-nostdlib', '-static', '-Wl,-e,plain'];
      run('riscv64-linux-gnu-gcc', ['-O2', ...area, ...linked, '-o', at(name), at(`${name}.c`)]);
    };
    compileKernel('rv-6.12', '');
    compileKernel('rv-6.1', 'int kprobe_ftrace_handler(void) { return 0; }');
    run('riscv64-linux-gnu-gcc', ['-O2', ...area, '-c', '-o', at('rv.o'), at('rv.c')]);
    const refused = ['yes site', 'no probe-no-ftrace-support', 'no no-btf'];
    expect(brief('plain', 'rv-6.12')).toEqual(refused);
    expect(brief('plain', 'rv-6.1')).toEqual(['yes site', 'yes probe', 'no no-btf']);
    expect(brief('plain', 'rv.o')).toEqual(['yes site', 'unknown kernel-missing', 'no no-btf']);
    const [, module] = why('plain', 'rv-6.12', 'rv.o').found;
    expect(module!.functions[0]!.by['kprobe']!.code).toBe('probe-no-ftrace-support');
  }); // prettier-ignore

  test('K-ADDR-7: a kernel without such probes takes one in front of the site, where arm64 functions begin', () => {
    writeFileSync(at('a64.c'), `${SOURCE}\nint outside(int x) { return x; }\nint register_kprobe(void) { return 0; }`);
    const area = ['-fpatchable-function-entry=2', '-nostdlib', '-static', '-Wl,-e,plain'];
    run('aarch64-linux-gnu-gcc', ['-O2', ...area, '-o', at('a64-6.1'), at('a64.c')]);
    expect(brief('plain', 'a64-6.1')).toEqual(['yes site', 'yes probe', 'no no-btf']);
  });

  test.each(['idmap', 'hyp', 'hyp_idmap'])('K-ADDR-3: code of arm64 between __%s_text_start and _end', (name) => {
    const section = `.${name.replace('_', '.')}.text`;
    const area = (mark: string): string => `asm(".section ${section},\\"ax\\"; .globl __${name}_text_${mark}; __${name}_text_${mark}:");`;
    const source = `int register_kprobe(void) { return 0; } int plain(void) { return 1; }
${area('start')} __attribute__((section("${section}"))) int inside(void) { return 2; } ${area('end')}`;
    writeFileSync(at(`${name}.c`), source);
    const flags = ['-O2', '-fno-toplevel-reorder', '-fpatchable-function-entry=2', '-nostdlib', '-static', '-Wl,-e,plain'];
    run('aarch64-linux-gnu-gcc', [...flags, '-o', at(name), at(`${name}.c`)]);
    const answers = ['plain', 'inside'].map((each) => brief(each, name)[1]);
    expect(answers).toEqual(['yes probe', 'no probe-blacklisted']);
  }); // prettier-ignore

  test('RISC-V as x86-64; of s390x nothing is known of probes, and that is no yes', () => {
    const kernel = { kernel: { onSites: true, withoutSite: true } };
    expect(ask('riscv64-linux-gnu-gcc', ['-fpatchable-function-entry=4'], 'plain', kernel)).toEqual([
      'yes',
      'yes',
      'probe',
    ]);
    expect(
      ask('s390x-linux-gnu-gcc', ['-pg', '-mfentry', '-mrecord-mcount', '-mnop-mcount', '-fno-pie'], 'plain'),
    ).toEqual(['yes', 'unknown', 'not-served']);
  });
});

describeWith(['powerpc64le-linux-gnu-gcc', 'powerpc64le-linux-gnu-objcopy'], 'init code of modules', () => {
  test('stays on 64-bit PowerPC, whose loader takes it for other code; of an object it goes', () => {
    writeFileSync(at('init.c'), '__attribute__((section(".init.text"))) int at_start(int x) { return x + 2; }');
    run('powerpc64le-linux-gnu-gcc', ['-O2', '-fpatchable-function-entry=2', '-c', '-o', at('init.o'), at('init.c')]);
    writeFileSync(at('name'), 'name=init\0');
    run('powerpc64le-linux-gnu-objcopy', [`--add-section=.modinfo=${at('name')}`, at('init.o'), at('init.ko')]);
    expect(brief('at_start', 'init.o').slice(0, 2)).toEqual(['early init', 'early init']);
    expect(brief('at_start', 'init.ko').slice(0, 2)).toEqual(['yes site', 'yes probe']);
  });
});

describe('the command', () => {
  test('needs a function and files', () => {
    const { status, stderr } = warmElftrace(['why', 'plain']);
    expect([status, stderr]).toEqual([2, expect.stringContaining('why needs')]);
  });
});
