/**
 * Livepatch modules held against kernels and modules: fixtures of compilers and objcopy, finished
 * as the kernel's tools finish them (rows of livepatch relocations, SHN_LIVEPATCH), and a broken
 * twin for each rule.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { ByteView } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { checkLivepatch } from '../src/livepatch/check.js';
import { readLivepatch } from '../src/livepatch/module.js';
import { PatchedObject } from '../src/livepatch/objects.js';
import { load } from '../src/program/program.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'livepatch-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
let fileNumber = 0;
const fresh = (name: string): string => join(mkdtempSync(join(folder, `${++fileNumber}-`)), name);

const SHN_LIVEPATCH = 0xff20;
const FLAGS = 0x10_0042n;

interface Machine {
  readonly name: string;
  readonly prefix: string;
  readonly flags: readonly string[];
  /** Relocation of a pointer, of a call, and one that the module loader refuses. */
  readonly types: { readonly word: number; readonly call: number; readonly refused: number };
  /** Relocation type 0 is taken. */
  readonly takesNone: boolean;
}

const x86: Machine = {
  name: 'x86-64',
  prefix: 'x86_64-linux-gnu-',
  flags: ['-pg', '-mfentry', '-mrecord-mcount', '-fcf-protection=none', '-mcmodel=kernel', '-fno-pie'],
  types: { word: 1, call: 4, refused: 9 },
  takesNone: true,
};
const arm64: Machine = {
  name: 'arm64',
  prefix: 'aarch64-linux-gnu-',
  flags: ['-fpatchable-function-entry=2', '-fno-pie'],
  types: { word: 257, call: 283, refused: 311 },
  takesNone: true,
};
const riscv: Machine = {
  name: 'riscv64',
  prefix: 'riscv64-linux-gnu-',
  flags: ['-fpatchable-function-entry=8', '-fno-pie', '-mno-relax'],
  types: { word: 2, call: 19, refused: 43 },
  takesNone: false,
};
const ppc: Machine = {
  name: 'ppc64le',
  prefix: 'powerpc64le-linux-gnu-',
  flags: ['-pg', '-mprofile-kernel', '-mno-pcrel', '-fno-pie'],
  types: { word: 38, call: 10, refused: 73 },
  takesNone: false,
};
const machines = [x86, arm64, riscv, ppc];

const NOTRACE = '__attribute__((noinline,no_instrument_function,patchable_function_entry(0,0)))';

function compile(machine: Machine, source: string, name: string, more: readonly string[] = []): string {
  const output = fresh(name);
  const common = ['-O2', '-w', '-ffreestanding', '-fno-stack-protector', '-fno-asynchronous-unwind-tables'];
  run(`${machine.prefix}gcc`, [...common, ...machine.flags, ...more, '-c', '-x', 'c', '-', '-o', output], source);
  return output;
}

/** A kernel with what is traced, what is not, and two functions and two words of one name. */
const KERNEL_SOURCE = `
int word;
__attribute__((noinline)) int alone(int a) { return a * 3 + word; }
${NOTRACE} int hidden(int a) { return a * 5 + word; }
__attribute__((noinline,section(".init.text"))) int early(int a) { return a * 7 + word; }
int _start(int a) { return alone(a) + hidden(a) + early(a); }
#ifdef ENTRY
${NOTRACE} void ENTRY(void) {}
#endif
`;
const TWIN = (attribute: string): string => `
static int table = 3;
int *use_NAME = &table;
static ${attribute} int twin(int a) { return a + table; }
int (*call_NAME)(int) = twin;
`;

const entryOf = ({ name }: Machine): string[] =>
  name === 'x86-64' ? ['-DENTRY=__fentry__'] : name === 'ppc64le' ? ['-DENTRY=_mcount'] : [];

function link(machine: Machine, objects: readonly string[]): string {
  const output = fresh('vmlinux');
  run(`${machine.prefix}ld`, ['-e', '_start', '-Ttext=0x1000000', '-o', output, ...objects]);
  return output;
}

/** Two `twin`: the first by address is traced, the second is not. */
function buildKernel(machine: Machine, more: readonly string[] = []): string {
  const part = (name: string, attribute: string): string =>
    compile(machine, TWIN(attribute).replaceAll('NAME', name), 'part.o');
  return link(machine, [
    compile(machine, KERNEL_SOURCE, 'kernel.o', [...entryOf(machine), ...more]),
    part('a', '__attribute__((noinline))'),
    part('b', NOTRACE),
  ]);
}

function buildModule(machine: Machine): string {
  const output = fresh('widget.ko');
  const source = `
__attribute__((section(".modinfo"),used,aligned(1))) static const char info[] = "name=widget";
int word2;
__attribute__((noinline)) int turn(int a) { return a * 9 + word2; }
`;
  run(`${machine.prefix}ld`, ['-r', '-o', output, compile(machine, source, 'widget.o')]);
  return output;
}

interface Row {
  readonly name: string | null;
  /** Symbol of the new function; null for none. */
  readonly by?: string | null;
  readonly position?: number;
}

interface Rela {
  /** Name of the livepatch symbol, or of another. */
  readonly symbol: string;
  readonly type?: number;
  readonly offset?: number;
  readonly addend?: bigint;
}

interface Section {
  readonly name: string;
  readonly rows: readonly Rela[];
  readonly flags?: bigint;
  readonly type?: number;
}

interface Twin {
  readonly objects?: readonly { readonly name: string | null; readonly rows: readonly Row[] }[];
  readonly form?: 'ext' | 'classic';
  readonly info?: readonly string[];
  readonly sections?: readonly Section[];
  /** Symbols that get SHN_LIVEPATCH; the others stay absolute. */
  readonly unmarked?: readonly string[];
  /** C behind the rest. */
  readonly more?: string;
  readonly flags?: readonly string[];
  /** What the word that is relocated holds. */
  readonly held?: number;
  readonly word?: string;
  readonly count?: number;
}

const quoted = (text: string | null): string => (text === null ? '0' : JSON.stringify(text));

/** Tables as objtool makes them, and as authors write them. */
function tables({ objects = [], form = 'ext', count }: Twin): string {
  const lists = objects.map(
    ({ rows }, i) =>
      `static struct func funcs${i}[] __attribute__((used${form === 'ext' ? ',section(".init.klp_funcs")' : ''})) = {${rows
        .map(({ name, by = 'alone_new', position = 0 }) => `{${quoted(name)}, ${by ?? '0'}, ${position}}`)
        .join(', ')}${form === 'ext' ? '' : ', {0}'}};`,
  );
  const list = objects.map(
    ({ name, rows }, i) => `{${quoted(name)}, funcs${i}, {0}${form === 'ext' ? `, 0, ${count ?? rows.length}` : ''}}`,
  );
  if (form === 'ext') {
    return `struct func { const char *old_name; void *new_func; unsigned long position; };
struct object { const char *name; struct func *funcs; void *callbacks[4]; long flag; unsigned count; };
${lists.join('\n')}
static struct object objects[] __attribute__((used,section(".init.klp_objects"))) = {${list.join(', ')}};`;
  }
  return `struct func { const char *old_name; void *new_func; unsigned long position; void *old_func; long kept[15]; };
struct object { const char *name; struct func *funcs; void *callbacks[4]; long flag; long kept[12]; };
extern char __this_module[];
${lists.join('\n')}
static struct object objects[] __attribute__((used)) = {${[...list, '{0}'].join(', ')}};
static struct { void *mod; struct object *objs; int replace; } patch __attribute__((used)) = {__this_module, objects, 1};`;
}

const good: Required<Pick<Twin, 'objects' | 'sections' | 'info'>> = {
  info: ['livepatch=Y', 'name=fix', 'vermagic=7.2.0 SMP mod_unload'],
  objects: [
    { name: null, rows: [{ name: 'alone' }, { name: 'twin', position: 1 }] },
    { name: 'widget', rows: [{ name: 'turn' }] },
  ],
  sections: [
    { name: '.klp.rela.vmlinux..data.reference', rows: [{ symbol: '.klp.sym.vmlinux.table,2' }] },
    { name: '.klp.rela.widget..data.late', rows: [{ symbol: '.klp.sym.widget.word2,0' }] },
  ],
};

/** A livepatch module, finished as `objtool klp post-link` does it. */
function buildLivepatch(machine: Machine, twin: Twin = {}): string {
  const { sections = good.sections, info = good.info, unmarked = [] } = twin;
  const source = `
__attribute__((section(".modinfo"),used,aligned(1))) static const char info[] = ${info.map((each) => `"${each}\\0"`).join(' ')};
__attribute__((section(".data.reference"),used)) static unsigned long reference[2] = {${twin.held ?? 0}};
__attribute__((section(".data.late"),used)) static unsigned long late[2];
int data_new;
__attribute__((noinline)) int alone_new(int a) { return a * 4; }
${twin.more ?? ''}
${tables({ objects: good.objects, ...twin })}
`;
  const object = compile(machine, source, 'fix.o', twin.flags);
  const path = fresh('fix.ko');
  const names = [...new Set(sections.flatMap(({ rows }) => rows.map(({ symbol }) => symbol)))];
  const klp = names.filter((name) => name.startsWith('.klp.'));
  const room = sections.flatMap(({ name, rows }) => {
    const file = fresh('rows');
    writeFileSync(file, new Uint8Array(24 * rows.length));
    return ['--add-section', `${name}=${file}`, '--set-section-flags', `${name}=alloc,readonly`];
  });
  const symbols = klp.flatMap((name) => ['--add-symbol', `${name}=0,global`]);
  run(`${machine.prefix}objcopy`, [...symbols, ...room, object, path]);
  finish(path, machine, sections, unmarked);
  return path;
}

/** Fills the rows and headers that neither compiler nor objcopy makes. */
function finish(path: string, machine: Machine, sections: readonly Section[], unmarked: readonly string[]): void {
  const bytes = new Uint8Array(readFileSync(path));
  const image = readElf(bytes);
  const view = new ByteView(bytes, 'little');
  const symtab = image.section('.symtab')!;
  for (let i = 1; i < image.symbols.count; i++) {
    const name = image.symbols.name(i);
    if (name.startsWith('.klp.sym.') && !unmarked.includes(name)) {
      view.insertU16(symtab.offset + 24 * i + 6, SHN_LIVEPATCH);
    }
  }
  for (const { name, rows, flags = FLAGS, type = 4 } of sections) {
    const section = image.section(name)!;
    const target =
      image.section(name.split('.').slice(4).join('.') || '.data.reference') ?? image.section('.data.reference')!;
    rows.forEach(({ symbol, type: each = machine.types.word, offset = 0, addend = 0n }, i) => {
      const at = section.offset + 24 * i;
      view.insertU64(at, BigInt(offset));
      view.insertU64(at + 8, (BigInt(image.symbols.find(symbol)) << 32n) | BigInt(each));
      view.insertU64(at + 16, addend);
    });
    const header = image.header.shoff + 64 * section.index;
    view.insertU32(header + 4, type);
    view.insertU64(header + 8, flags);
    view.insertU32(header + 40, symtab.index);
    view.insertU32(header + 44, target.index);
    view.insertU64(header + 56, type === 9 ? 16n : 24n);
  }
  writeFileSync(path, bytes);
}

function sitesOf(path: string): Sites {
  const image = readElf(readFileSync(path));
  return findSites(load(image, archOf(image.header)));
}

/** Findings as `verdict rule: message`. */
function check(path: string, ...against: readonly PatchedObject[]): string[] {
  const sites = sitesOf(path);
  const { image, arch } = sites.program;
  const objects = against.length === 0 ? null : new Map(against.map((each) => [each.name, each]));
  const module = readLivepatch(image, arch.relocationRoles.word);
  return checkLivepatch(module, sites, objects).map(
    ({ verdict, severity, rule, message }) => `${severity} ${verdict} ${rule}: ${message}`,
  );
}

const tools = machines.flatMap(({ prefix }) => ['gcc', 'ld', 'objcopy'].map((each) => prefix + each));
describeWith(tools, 'livepatch modules', () => {
  const built = new Map<string, { readonly kernel: PatchedObject; readonly widget: PatchedObject }>();
  const objectsOf = (machine: Machine): { readonly kernel: PatchedObject; readonly widget: PatchedObject } => {
    const known = built.get(machine.name);
    if (known) return known;
    const [kernel, widget] = [buildKernel(machine), buildModule(machine)];
    const made = {
      kernel: new PatchedObject('vmlinux', kernel, sitesOf(kernel)),
      widget: new PatchedObject('widget', widget, sitesOf(widget)),
    };
    built.set(machine.name, made);
    return made;
  };
  const judge = (machine: Machine, twin: Twin): string[] => {
    const { kernel, widget } = objectsOf(machine);
    return check(buildLivepatch(machine, twin), kernel, widget);
  };

  describe.each(sampled(machines, 2).map((each) => [each.name, each] as const))('%s', (_name, machine) => {
    test.each(['ext', 'classic'] as const)('nothing is wrong with a good one (%s)', (form) => {
      const path = buildLivepatch(machine, { form });
      const module = readLivepatch(readElf(readFileSync(path)), machine.types.word);
      expect(
        module.objects.map(({ name, functions }) => [name, functions.map((each) => [each.oldName, each.position])]),
      ).toEqual([
        [
          'vmlinux',
          [
            ['alone', 0n],
            ['twin', 1n],
          ],
        ],
        ['widget', [['turn', 0n]]],
      ]);
      const { kernel, widget } = objectsOf(machine);
      expect(check(path, kernel, widget)).toEqual([]);
    });

    test('M-KLP-8: types that the module loader refuses', () => {
      const { word, refused } = machine.types;
      const rows = (type: number): Twin => ({
        sections: [
          {
            name: '.klp.rela.vmlinux..data.reference',
            rows: [{ symbol: '.klp.sym.vmlinux.table,1' }, { symbol: '.klp.sym.vmlinux.table,1', type, offset: 8 }],
          },
        ],
      });
      expect(judge(machine, rows(word))).toEqual([]);
      const message = expect.stringMatching(/^error klp-relocation M-KLP-8: module loaders do not take R_/);
      expect(judge(machine, rows(refused))).toEqual([message]);
      expect(judge(machine, rows(0))).toEqual(machine.takesNone ? [] : [message]);
    });

    test('M-KLP-4: functions without a site, of init text, and the second of a name', () => {
      const of = (name: string, position = 0): string[] =>
        judge(machine, { objects: [{ name: null, rows: [{ name, position }] }], sections: [] });
      expect(of('hidden')).toEqual([
        'error klp-untraceable M-KLP-4: vmlinux:hidden cannot be redirected: it has no site: it cannot be traced',
      ]);
      expect(of('early')).toEqual([
        'error klp-untraceable M-KLP-4: vmlinux:early cannot be redirected: it is in .init.text, which is gone when it is patched',
      ]);
      expect(of('twin', 2)).toEqual([expect.stringContaining('vmlinux:twin cannot be redirected: it has no site')]);
      expect(of('word')).toEqual([expect.stringContaining('it is no function')]);
    });
  });

  test('M-KLP-1: a module that does not say that it is one, and one that is not finished', () => {
    expect(judge(x86, { info: good.info.slice(1) })).toEqual([
      expect.stringMatching(/^error klp-form M-KLP-1: .*livepatch=/),
    ]);
    const more = '__attribute__((section("__klp_relocs.vmlinux"),used)) static long left[3];';
    expect(judge(x86, { more })).toEqual([expect.stringMatching(/^error klp-form M-KLP-1: __klp_relocs.vmlinux /)]);
  });

  test('M-KLP-2: rows without a name, with data for code, twice, and tables that nobody can read', () => {
    const rows = (...list: Row[]): string[] => judge(x86, { objects: [{ name: null, rows: list }], sections: [] });
    expect(rows({ name: null })).toEqual(['error klp-form M-KLP-2: the row names no function']);
    const noCode = 'error klp-form M-KLP-2: what runs in place of alone is no code of the module';
    expect(rows({ name: 'alone', by: '&data_new' })).toEqual([noCode]);
    expect(rows({ name: 'alone', by: null })).toEqual([noCode]);
    expect(rows({ name: 'alone' }, { name: 'alone' })).toEqual([
      'error klp-form M-KLP-2: two rows are about vmlinux:alone,0',
    ]);
    const twice = { name: 'widget', rows: [{ name: 'turn' }] };
    expect(judge(x86, { objects: [twice, twice], sections: [] })).toEqual([
      'error klp-form M-KLP-2: two rows are about widget',
    ]);
    expect(judge(x86, { count: 99, sections: [] })).toEqual([
      expect.stringMatching(
        /^error klp-form M-KLP-2: what it patches is not known: .init.klp_objects\+0x0: its 99 functions/,
      ),
    ]);
    expect(judge(x86, { objects: [], form: 'classic', sections: [] })).toEqual([
      expect.stringContaining('it has neither klp_object_ext nor a klp_patch'),
    ]);
  });

  test('M-KLP-3: functions that are not found once, and objects that nobody gave', () => {
    const of = (name: string, position = 0): string[] =>
      judge(x86, { objects: [{ name: null, rows: [{ name, position }] }], sections: [] });
    expect(of('alone', 1)).toEqual([]);
    expect(of('gone')).toEqual(["error klp-function M-KLP-3: vmlinux has no symbol 'gone'"]);
    expect(of('twin')).toEqual([
      "error klp-function M-KLP-3: vmlinux has 2 symbols 'twin', and the position 0 says that it has one",
    ]);
    expect(of('twin', 3)).toEqual(["error klp-function M-KLP-3: position 3 of 'twin': vmlinux has 2 of that name"]);
    const { kernel } = objectsOf(x86);
    expect(check(buildLivepatch(x86), kernel)).toEqual([
      'error klp-object M-KLP-3: no file of widget was given: nobody looked for turn and 1 more',
    ]);
    expect(check(buildLivepatch(x86))).toEqual([]);
  });

  test('M-KLP-3: positions count by address in a kernel, by table order in a module', () => {
    // The untraced one is first in the symbol table and behind the other in the text.
    const source = `
	.text 1
	.type other,@function
other:	ret
	.size other,1
	.text 0
	.type twin,@function
twin:	call __fentry__
	ret
	.size twin,6
	.section __mcount_loc,"a"
	.quad twin`;
    const [part, widget] = [fresh('part.o'), fresh('widget.ko')];
    run('x86_64-linux-gnu-as', ['-o', part], source);
    run('x86_64-linux-gnu-objcopy', ['--redefine-sym', 'other=twin', part, widget]);
    const object = new PatchedObject('widget', widget, sitesOf(widget));
    const { symbols } = object.sites.program;
    const [first, second] = object.named('twin');
    expect(symbols.value[first!]! > symbols.value[second!]!).toBe(true);
    const at = (position: number): string[] =>
      check(
        buildLivepatch(x86, { objects: [{ name: 'widget', rows: [{ name: 'twin', position }] }], sections: [] }),
        objectsOf(x86).kernel,
        object,
      );
    expect(at(1)).toEqual([expect.stringContaining('widget:twin cannot be redirected: it has no site')]);
    expect(at(2)).toEqual([]);
  });

  test('M-KLP-4: a site with other bytes, and one that calls behind the prologue', () => {
    const { kernel } = objectsOf(x86);
    const bytes = new Uint8Array(readFileSync(kernel.file));
    const symbol = kernel.named('alone')[0]!;
    const { image, symbols } = kernel.sites.program;
    bytes[image.fileOffsetOf(symbols.value[symbol]!)] = 0xcc;
    const broken = fresh('vmlinux');
    writeFileSync(broken, bytes);
    const path = buildLivepatch(x86, { objects: [{ name: null, rows: [{ name: 'alone' }] }], sections: [] });
    expect(check(path, new PatchedObject('vmlinux', broken, sitesOf(broken)))).toEqual([
      expect.stringMatching(/^error klp-untraceable \S+: vmlinux:alone cannot be redirected: its site is /),
    ]);
    const old: Machine = { ...x86, flags: ['-pg', '-mno-fentry', '-fcf-protection=none', '-fno-pie'] };
    const behind = link(old, [
      compile(old, KERNEL_SOURCE, 'kernel.o', ['-DENTRY=mcount']),
      compile(old, TWIN('').replaceAll('NAME', 'a'), 'a.o'),
    ]);
    expect(check(path, new PatchedObject('vmlinux', behind, sitesOf(behind)))).toEqual([
      expect.stringContaining('its site calls behind the prologue'),
    ]);
  });

  test('P-SITE-2: ppc64le: nops in front of the global entry are passed by', () => {
    const early: Machine = { ...ppc, flags: ['-fno-pie', '-mno-pcrel'] };
    const source = `
	.section .text,"ax"
	.globl alone, _start
	.type alone,@function
.Lnops:	nop
	nop
alone:
.Lglobal: addis 2,12,.TOC.-.Lglobal@ha
	addi 2,2,.TOC.-.Lglobal@l
	.localentry alone,.-alone
	blr
	.size alone,.-alone
_start:	blr
	.section __patchable_function_entries,"awo",@progbits,.text
	.align 3
	.quad alone`;
    const object = fresh('kernel.o');
    // The slot names the global entry, whose instructions calls of the kernel itself never pass.
    run(
      `${early.prefix}as`,
      ['-o', object],
      source.replace('alone:\n.Lglobal: addis', 'alone:\n\tnop\n\tnop\n.Lglobal: addis'),
    );
    const kernel = link(early, [object]);
    const path = buildLivepatch(ppc, { objects: [{ name: null, rows: [{ name: 'alone' }] }], sections: [] });
    expect(check(path, new PatchedObject('vmlinux', kernel, sitesOf(kernel)))).toEqual([
      expect.stringMatching(/^error klp-untraceable P-SITE-2: vmlinux:alone .*bypassed-by-local-entry/),
    ]);
  });

  test('M-KLP-5: sections of livepatch relocations', () => {
    const rows = [{ symbol: '.klp.sym.vmlinux.table,1' }];
    const name = '.klp.rela.vmlinux..data.reference';
    const of = (section: Partial<Section>): string[] => judge(x86, { sections: [{ name, rows, ...section }] });
    expect(of({})).toEqual([]);
    const prefix = 'error klp-relocation M-KLP-5: .klp.rela.';
    expect(of({ flags: 0x42n })).toEqual([
      expect.stringContaining('it lacks SHF_RELA_LIVEPATCH'),
      expect.stringContaining('which has no value when the loader applies it'),
    ]);
    expect(of({ flags: 0x10_0040n })).toEqual([expect.stringContaining('it lacks SHF_ALLOC')]);
    expect(of({ name: '.klp.rela.vmlinux' })).toEqual([
      `${prefix}vmlinux: its name has not the form .klp.rela.OBJECT.SECTION`,
    ]);
    expect(of({ name: '.klp.rela.gadget..data.late', rows: [{ symbol: '.klp.sym.widget.word2,0' }] })).toEqual([
      `${prefix}gadget..data.late: the module patches nothing of gadget: these relocations are never written`,
    ]);
    expect(of({ name: '.klp.rela.vmlinux..data.other' })).toEqual([
      expect.stringMatching(
        /^warning klp-relocation M-KLP-5: .*it is about .data.reference, its name says .data.other$/,
      ),
    ]);
  });

  test('M-KLP-6: what livepatch relocations name, and what names livepatch symbols', () => {
    const name = '.klp.rela.vmlinux..data.reference';
    const symbol = '.klp.sym.vmlinux.table,1';
    const of = (section: Section, more: Twin = {}): string[] => judge(x86, { sections: [section], ...more });
    expect(of({ name, rows: [{ symbol: 'alone_new' }] })).toEqual([
      `error klp-relocation M-KLP-6: ${name} names alone_new, which is no livepatch symbol`,
    ]);
    expect(of({ name, rows: [{ symbol }] }, { unmarked: [symbol] })).toEqual([
      `error klp-symbol M-KLP-6: ${symbol} is not marked: its section is not SHN_LIVEPATCH`,
      `error klp-relocation M-KLP-6: ${name} names ${symbol}, which is no livepatch symbol`,
    ]);
    for (const wrong of ['.klp.sym.vmlinux.table', '.klp.sym.vmlinux', '.klp.sym.vmlinux.table,x']) {
      expect(of({ name, rows: [{ symbol: wrong }] })).toEqual([
        `error klp-symbol M-KLP-6: ${wrong} has SHN_LIVEPATCH and not the form .klp.sym.OBJECT.SYMBOL,POSITION`,
      ]);
    }
    expect(of({ name: '.klp.rela.widget..data.late', rows: [{ symbol }] })).toEqual([
      expect.stringContaining('kernels refuse symbols of vmlinux there'),
    ]);
    expect(of({ name, rows: [{ symbol: '.klp.sym.widget.word2,0' }] })).toEqual([
      expect.stringMatching(/^warning klp-relocation M-KLP-6: .*fails unless widget is there$/),
    ]);
  });

  test('M-KLP-7: symbols that stand for nothing', () => {
    const of = (symbol: string): string[] =>
      judge(x86, { sections: [{ name: '.klp.rela.vmlinux..data.reference', rows: [{ symbol }] }] });
    expect(of('.klp.sym.vmlinux.gone,0')).toEqual(["error klp-symbol M-KLP-7: vmlinux has no symbol 'gone'"]);
    expect(of('.klp.sym.vmlinux.table,0')).toEqual([expect.stringContaining("has 2 symbols 'table'")]);
    expect(of('.klp.sym.vmlinux.table,3')).toEqual([expect.stringContaining("position 3 of 'table'")]);
  });

  test('M-KLP-8: x86-64 wants zeros at the place, 64-bit PowerPC a nop behind calls of other objects', () => {
    expect(judge(x86, { held: 7 })).toEqual([
      'error klp-relocation M-KLP-8: the place of R_X86_64_64 holds other bytes than zeros: the loader refuses it',
    ]);
    expect(judge(arm64, { held: 7 })).toEqual([]);
    const more = (behind: string): string => `
asm(".section .text.caller,\\"ax\\"\\n .globl caller\\n .type caller,@function\\ncaller: .long 0x48000001\\n ${behind}\\n blr\\n .size caller,.-caller\\n .text");`;
    const name = '.klp.rela.vmlinux..text.caller';
    const rows = [{ symbol: '.klp.sym.vmlinux.alone,0', type: ppc.types.call }];
    expect(judge(ppc, { more: more('nop'), sections: [{ name, rows }] })).toEqual([]);
    expect(judge(ppc, { more: more('mr 3,4'), sections: [{ name, rows }] })).toEqual([
      expect.stringMatching(/^error klp-relocation M-KLP-8: .*no nop to take the TOC restore$/),
    ]);
  });

  test('M-KLP-9: stubs of sites out of line: kernels that reserve the first entry, and reach', () => {
    const old: Machine = { ...ppc, flags: ['-fpatchable-function-entry=1', '-mno-pcrel', '-fno-pie'] };
    const { kernel, widget } = objectsOf(ppc);
    const functions = [1, 2, 3, 4].map((i) => `int extra${i}(int a) { return a + ${i}; }`).join('\n');
    const caller =
      'asm(".section .text.caller,\\"ax\\"\\n .globl caller\\n .type caller,@function\\ncaller: .long 0x48000001\\n nop\\n blr\\n .size caller,.-caller\\n .text");';
    const late = '.klp.rela.widget..text.caller';
    const of = (version: string, name: string, symbol: string, more = ''): string[] =>
      check(
        buildLivepatch(old, {
          info: [...good.info.slice(0, 2), `vermagic=${version} SMP`],
          more: functions + caller + more,
          sections: [{ name, rows: [{ symbol, type: ppc.types.call }] }],
        }),
        kernel,
        widget,
      );
    const warning = expect.stringMatching(/^warning klp-stubs M-KLP-9: 5 sites have stubs in 3 entries, /);
    expect(of('6.14.2', late, '.klp.sym.widget.turn,0')).toEqual([warning]);
    expect(of('6.17.0', late, '.klp.sym.widget.turn,0')).toEqual([warning]);
    expect(of('6.12.0', late, '.klp.sym.widget.turn,0')).toEqual([]);
    expect(of('6.18.0', late, '.klp.sym.widget.turn,0')).toEqual([]);
    expect(of('6.14.2', late.replace('widget', 'vmlinux'), '.klp.sym.vmlinux.alone,0')).toEqual([]);
    const long = 'asm(".section .text.long,\\"ax\\"\\n .skip 0x2000000\\n .text");';
    expect(of('7.2.0', late, '.klp.sym.widget.turn,0', long)).toEqual([
      expect.stringMatching(/^error klp-stubs M-KLP-9: its code has \d+ bytes with stubs/),
    ]);
  });

  test('M-KLP-10: the table of symbols of one name', () => {
    const { kernel } = objectsOf(x86);
    const { symbols } = kernel.sites.program;
    const addresses = kernel.named('twin').map((each) => symbols.value[each]!);
    const path = buildLivepatch(x86, { objects: [{ name: null, rows: [{ name: 'alone' }] }], sections: [] });
    const of = (...words: bigint[]): string[] => {
      const table = fresh('symid');
      const view = new ByteView(new Uint8Array(8 * words.length), 'little');
      words.forEach((word, i) => {
        view.insertU64(8 * i, word);
      });
      writeFileSync(table, view.bytes);
      const output = fresh('vmlinux');
      run('x86_64-linux-gnu-objcopy', ['--add-section', `.klp.symid=${table}`, kernel.file, output]);
      return check(path, new PatchedObject('vmlinux', output, sitesOf(output)));
    };
    expect(of(0n, addresses[0]!, 1n, addresses[1]!)).toEqual([]);
    expect(of(0n, addresses[0]!, 0n, addresses[1]!)).toEqual([
      expect.stringContaining('two entries have the number 0'),
    ]);
    expect(of(0n, 4n)).toEqual([expect.stringMatching(/klp-symid M-KLP-10: .*entry 0 says 4, where no symbol/)]);
    expect(of(0n)).toEqual([expect.stringContaining('8 bytes, no multiple of 16')]);
  });

  describe('verify --against', () => {
    const files = (): { kernel: string; widget: string } => {
      const { kernel, widget } = objectsOf(x86);
      return { kernel: kernel.file, widget: widget.file };
    };
    test('modules stand beside the livepatch, are named, or lie in a folder', () => {
      const path = buildLivepatch(x86);
      const { kernel, widget } = files();
      const ways = [
        [path, '--against', kernel, widget],
        [path, '--against', kernel, '--against', widget],
        [path, '--against', kernel, '--against', join(widget, '..')],
      ];
      for (const way of ways) {
        const { status, stdout, stderr } = elftrace(['verify', ...way]);
        expect([status, stderr]).toEqual([0, '']);
        expect(stdout).toContain('note: livepatch of 3 functions of vmlinux, widget');
      }
    });

    test('what is not given is said, and no success; without --against it is a note', () => {
      const path = buildLivepatch(x86);
      const { kernel } = files();
      const lacking = elftrace(['verify', path, '--against', kernel, '--require', '1']);
      expect([lacking.status, lacking.stdout]).toEqual([
        1,
        expect.stringContaining('error: klp-object: no file of widget'),
      ]);
      const alone = elftrace(['verify', path]);
      expect([alone.status, alone.stdout]).toEqual([0, expect.stringContaining('nobody looked for what it patches')]);
      const other = elftrace(['verify', files().widget, '--against', kernel]);
      expect(other.stdout).toContain('note: no livepatch module: --against says nothing of it');
    });

    test('findings are JSON like others, and rules like others', () => {
      const path = buildLivepatch(x86, { objects: [{ name: null, rows: [{ name: 'gone' }] }], sections: [] });
      const { kernel } = files();
      const { status, stdout } = elftrace(['verify', '--json', path, '--against', kernel]);
      expect([status, JSON.parse(stdout)]).toMatchObject([
        1,
        {
          verdicts: { 'klp-function': 1 },
          findings: [{ verdict: 'klp-function', rule: 'M-KLP-3', function: 'gone', section: '.init.klp_funcs' }],
        },
      ]);
      expect(elftrace(['verify', '--skip', 'klp-function', path, '--against', kernel]).status).toBe(0);
    });

    test('files of another kind or machine are refused', () => {
      const path = buildLivepatch(x86);
      const { kernel, widget } = files();
      const other = objectsOf(arm64).kernel.file;
      expect(elftrace(['verify', path, '--against', other])).toMatchObject({
        status: 2,
        stderr: expect.stringContaining('is of arm64 (AArch64)'),
      });
      expect(elftrace(['verify', path, '--against', kernel, '--against', other]).stderr).toContain('two kernels');
      const stripped = fresh('vmlinux');
      run('x86_64-linux-gnu-objcopy', ['--strip-all', kernel, stripped]);
      expect(elftrace(['verify', path, '--against', stripped, '--against', widget])).toMatchObject({
        status: 2,
        stderr: expect.stringContaining('has no symbols'),
      });
    });
  });
});
