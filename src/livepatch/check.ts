/**
 * The rules of livepatch modules (docs/spec/livepatch.md): what a kernel asks of the module when it
 * loads it, and of the kernel and modules that it patches. Each finding names the place in the
 * module. What was not looked at is a finding, too.
 */
import type { LoaderCall } from '../machine/loader.js';
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfSection, RelocationTable } from '../elf/image.js';
import type { Program } from '../program/program.js';
import type { Sites } from '../sites/sites.js';
import { type Finding, type LivepatchVerdict, verdictSeverity } from '../sites/verdicts.js';
import { KERNEL, type LivepatchModule, type PatchedFunction, type PatchedObjectRow, type Place } from './module.js';
import type { PatchedObject } from './objects.js';
import { stubAreaProblems } from './stub-area.js';

/** Kernel and modules by name; null: none were given. */
export type PatchedObjects = ReadonlyMap<string, PatchedObject> | null;

/** Prefixes by which kernels know relocations and symbols. */
const SECTION_PREFIX = '.klp.rela.';
const SYMBOL_PREFIX = '.klp.sym.';
/** What a build leaves in place of both until its last step. */
const UNFINISHED_PREFIX = '__klp_relocs';
/** Longest names, as kernels read them: of objects, and of symbols since 6.1. */
const SECTION_NAME = /^\.klp\.rela\.([^.]{1,55})\.(.+)$/;
const SYMBOL_NAME = /^\.klp\.sym\.([^.]{1,55})\.([^,]{1,511}),(\d+)$/;

interface Where extends Place {
  /** Function that the finding is about; '' for none. */
  readonly about?: string;
}

const nothing = new Uint8Array(0);

/** @returns in the order in which a kernel would come to them */
export function checkLivepatch(module: LivepatchModule, sites: Sites, objects: PatchedObjects): Finding[] {
  return new Checker(module, sites, objects).all();
}

class Checker {
  private readonly findings: Finding[] = [];
  private readonly program: Program;
  /** Objects that were needed and not given, with what is not known for that. */
  private readonly absent = new Map<string, { readonly where: Where; readonly wanted: string[] }>();

  constructor(
    private readonly module: LivepatchModule,
    private readonly sites: Sites,
    private readonly objects: PatchedObjects,
  ) {
    this.program = sites.program;
  }

  all(): Finding[] {
    this.form();
    this.tables();
    this.symbols();
    for (const table of this.module.image.relocations) this.relocations(table);
    for (const { message, rule, severity } of stubAreaProblems(this.module, this.sites)) {
      const section = this.module.image.section('.stubs')?.index ?? 0;
      this.report('klp-stubs', rule, { section, offset: 0 }, message, severity);
    }
    this.identifiers();
    for (const [name, { where, wanted }] of this.absent) {
      const count = wanted.length === 1 ? wanted[0]! : `${wanted[0]!} and ${wanted.length - 1} more`;
      this.report('klp-object', 'M-KLP-3', where, `no file of ${name} was given: nobody looked for ${count}`);
    }
    return this.findings;
  }

  private report(
    verdict: LivepatchVerdict,
    rule: string,
    { section, offset, about = '' }: Where,
    message: string,
    severity: Finding['severity'] = verdictSeverity[verdict],
  ): void {
    const place = BigInt(offset);
    this.findings.push({
      ...{ site: -1, verdict, severity, rule, address: place, offset: place, message },
      section: this.module.image.sections[section]?.name ?? '',
      function: about,
      expected: nothing,
      actual: nothing,
    });
  }

  /** The file named by an object's name; null where none is at hand, which is said. */
  private object(name: string, where: Where, wanted: string): PatchedObject | null {
    if (this.objects === null) return null;
    const found = this.objects.get(name);
    if (found) return found;
    const known = this.absent.get(name);
    if (known) known.wanted.push(wanted);
    else this.absent.set(name, { where, wanted: [wanted] });
    return null;
  }

  /** M-KLP-1 */
  private form(): void {
    const { image, isMarked, unread } = this.module;
    const start = { section: image.section('.modinfo')?.index ?? 0, offset: 0 };
    if (!isMarked) {
      this.report('klp-form', 'M-KLP-1', start, 'its .modinfo has no livepatch=: kernels load it as another module');
    }
    for (const { name, index } of image.sections) {
      if (!name.startsWith(UNFINISHED_PREFIX)) continue;
      const message = `${name} was not turned into livepatch relocations (objtool klp post-link)`;
      this.report('klp-form', 'M-KLP-1', { section: index, offset: 0 }, message);
    }
    if (unread !== null) {
      this.report('klp-form', 'M-KLP-2', start, `what it patches is not known: ${unread}`);
    }
  }

  /** M-KLP-2 */
  private tables(): void {
    const names = new Set<string>();
    for (const object of this.module.objects) {
      if (names.has(object.name)) {
        this.report('klp-form', 'M-KLP-2', object.place, `two rows are about ${object.name}`);
      }
      names.add(object.name);
      const functions = new Set<string>();
      for (const row of object.functions) this.functionRow(object, row, functions);
    }
  }

  private functionRow(object: PatchedObjectRow, row: PatchedFunction, known: Set<string>): void {
    const { oldName, newFunction, position } = row;
    const where = { ...row.place, about: oldName ?? '' };
    if (oldName === null || oldName === '') {
      this.report('klp-form', 'M-KLP-2', where, 'the row names no function');
      return;
    }
    const home = newFunction === null ? undefined : this.module.image.sections[newFunction.section];
    if (home === undefined || ((home.flags & elf.SHF_EXECINSTR) === 0n && home.name !== '.opd')) {
      this.report('klp-form', 'M-KLP-2', where, `what runs in place of ${oldName} is no code of the module`);
    }
    const key = `${oldName},${position}`;
    if (known.has(key)) this.report('klp-form', 'M-KLP-2', where, `two rows are about ${object.name}:${key}`);
    known.add(key);
    const patched = this.object(object.name, where, oldName);
    if (patched === null) return;
    const found = patched.find(oldName, position);
    if ('missing' in found) {
      this.report('klp-function', 'M-KLP-3', where, found.missing);
      return;
    }
    const redirect = patched.redirect(found.symbol);
    if ('site' in redirect) return;
    const message = `${object.name}:${oldName} cannot be redirected: ${redirect.reason}`;
    this.report('klp-untraceable', redirect.rule, where, message);
  }

  /** M-KLP-6, M-KLP-7 */
  private symbols(): void {
    const { symbols } = this.module.image;
    for (let i = 1; i < symbols.count; i++) {
      const isMarked = symbols.sectionIndex[i] === elf.SHN_LIVEPATCH_RESOLVED;
      if (!isMarked && !symbols.nameStartsWith(i, SYMBOL_PREFIX)) continue;
      const name = symbols.name(i);
      const where = { section: symbols.section, offset: 0, about: name };
      const parts = SYMBOL_NAME.exec(name);
      if (!isMarked) {
        this.report('klp-symbol', 'M-KLP-6', where, `${name} is not marked: its section is not SHN_LIVEPATCH`);
      } else if (parts === null) {
        const message = `${name} has SHN_LIVEPATCH and not the form .klp.sym.OBJECT.SYMBOL,POSITION`;
        this.report('klp-symbol', 'M-KLP-6', where, message);
      } else {
        const [, object = '', symbol = '', position = ''] = parts;
        const found = this.object(object, where, symbol)?.find(symbol, BigInt(position));
        if (found && 'missing' in found) this.report('klp-symbol', 'M-KLP-7', where, found.missing);
      }
    }
  }

  private relocations(table: RelocationTable): void {
    const { sections } = this.module.image;
    const own = sections[table.section];
    const target = sections[table.target];
    if (own === undefined || target === undefined) return;
    const isLivepatch = (own.flags & elf.SHF_RELA_LIVEPATCH) !== 0n;
    if (isLivepatch || own.name.startsWith(SECTION_PREFIX)) this.livepatchSection(own, target, isLivepatch);
    if ((target.flags & elf.SHF_ALLOC) === 0n) return;
    this.types(table, target);
    if (this.program.arch.relocationRoles.zeroInModules) this.zeros(table, target);
    this.rows(table, own, target, isLivepatch);
  }

  /** M-KLP-5 */
  private livepatchSection(own: ElfSection, target: ElfSection, isLivepatch: boolean): void {
    const where = { section: own.index, offset: 0 };
    const report = (message: string, severity?: Finding['severity']): void => {
      this.report('klp-relocation', 'M-KLP-5', where, `${own.name}: ${message}`, severity);
    };
    if (!isLivepatch) {
      report('it lacks SHF_RELA_LIVEPATCH: the loader applies it as others, with symbols that have no value');
      return;
    }
    if (own.type !== elf.SHT_RELA) report('livepatch relocations are SHT_RELA');
    if ((own.flags & elf.SHF_ALLOC) === 0n) report('it lacks SHF_ALLOC: it is gone when its object is loaded');
    if ((target.flags & elf.SHF_ALLOC) === 0n) report(`it is about ${target.name}, which is not in memory`);
    const [, object, section = ''] = SECTION_NAME.exec(own.name) ?? [];
    if (object === undefined) {
      report('its name has not the form .klp.rela.OBJECT.SECTION');
      return;
    }
    if (section !== target.name && `.${section}` !== target.name) {
      report(`it is about ${target.name}, its name says ${section}`, 'warning');
    }
    const { objects, unread } = this.module;
    if (object !== KERNEL && unread === null && !objects.some(({ name }) => name === object)) {
      report(`the module patches nothing of ${object}: these relocations are never written`);
    }
  }

  /** M-KLP-8: types that no list of the machine's has are refused. */
  private types(table: RelocationTable, target: ElfSection): void {
    const { relocationRoles, relocations } = this.program.arch;
    const lists = relocationRoles.takenInModules;
    const { first, counts } = this.typesOf(table);
    const fits = lists.find((list) => [...this.allTypes].every((type) => list.has(type))) ?? lists[0]!;
    for (const [type, count] of counts) {
      if (fits.has(type)) continue;
      const name = relocations.get(type)?.name ?? `type ${type}`;
      const places = count === 1 ? '' : `, the first of ${count}`;
      const where = this.place(target, first.get(type)!);
      this.report('klp-relocation', 'M-KLP-8', where, `module loaders do not take ${name}${places}`);
    }
  }

  private typesOf({ count, type, offset }: RelocationTable): {
    readonly first: ReadonlyMap<number, bigint>;
    readonly counts: ReadonlyMap<number, number>;
  } {
    const first = new Map<number, bigint>();
    const counts = new Map<number, number>();
    for (let row = 0; row < count; row++) {
      const each = type[row]!;
      if (!first.has(each)) first.set(each, offset[row]!);
      counts.set(each, (counts.get(each) ?? 0) + 1);
    }
    return { first, counts };
  }

  #types: ReadonlySet<number> | undefined;

  /** Types of all relocations that a loader applies. */
  private get allTypes(): ReadonlySet<number> {
    if (this.#types) return this.#types;
    const { relocations, sections } = this.module.image;
    const all = new Set<number>();
    for (const { target, type } of relocations) {
      if (((sections[target]?.flags ?? 0n) & elf.SHF_ALLOC) !== 0n) for (const each of type) all.add(each);
    }
    this.#types = all;
    return all;
  }

  private place(target: ElfSection, offset: bigint): Where {
    const code = this.program.codeOfSection(target.index);
    return {
      section: target.index,
      offset: Number(offset),
      about: code ? this.program.describe(code, offset) : '',
    };
  }

  /** M-KLP-8 */
  private zeros(table: RelocationTable, target: ElfSection): void {
    if (target.fileSize === 0) return;
    const bytes = this.module.image.contents(target);
    for (let row = 0; row < table.count; row++) {
      const found = this.program.arch.relocations.get(table.type[row]!);
      if (found === undefined || found.rule === 'none') continue;
      const at = Number(table.offset[row]!);
      if (bytes.subarray(at, at + found.field.sizeBytes).every((byte) => byte === 0)) continue;
      const message = `the place of ${found.name} holds other bytes than zeros: the loader refuses it`;
      this.report('klp-relocation', 'M-KLP-8', this.place(target, table.offset[row]!), message);
      return;
    }
  }

  /** M-KLP-6, and of calls M-KLP-8 */
  private rows(table: RelocationTable, own: ElfSection, target: ElfSection, isLivepatch: boolean): void {
    const { symbols } = table;
    if (symbols === null) return;
    const [, object = KERNEL] = SECTION_NAME.exec(own.name) ?? [];
    for (let row = 0; row < table.count; row++) {
      const symbol = table.symbol[row]!;
      const isMarked = symbols.sectionIndex[symbol] === elf.SHN_LIVEPATCH_RESOLVED;
      if (!isMarked && !isLivepatch) continue;
      const where = this.place(target, table.offset[row]!);
      const name = symbols.name(symbol);
      const report = (message: string, severity?: Finding['severity']): void => {
        this.report('klp-relocation', 'M-KLP-6', where, message, severity);
      };
      if (!isMarked) report(`${own.name} names ${name === '' ? 'a section' : name}, which is no livepatch symbol`);
      else if (!isLivepatch) report(`${own.name} names ${name}, which has no value when the loader applies it`);
      else {
        const [, home] = SYMBOL_NAME.exec(name) ?? [];
        if (object !== KERNEL && home === KERNEL) {
          report(`${own.name} waits for ${object} and names ${name}: kernels refuse symbols of vmlinux there`);
        } else if (object === KERNEL && home !== undefined && home !== KERNEL) {
          report(`${own.name} is written when the module loads, which fails unless ${home} is there`, 'warning');
        }
        this.call(table, row, target, where);
      }
    }
  }

  /** M-KLP-8: a call that leaves the module needs what its stub needs. */
  private call(table: RelocationTable, row: number, target: ElfSection, where: Where): void {
    const { arch } = this.program;
    const { loader } = arch;
    const found = arch.relocations.get(table.type[row]!);
    if (loader.kind === 'none' || found?.branch === undefined || target.fileSize === 0) return;
    const at = Number(table.offset[row]!);
    const view = new ByteView(this.module.image.contents(target), arch.target.codeEndian, target.name);
    const call: LoaderCall = {
      type: found.type,
      place: 0n,
      word: (delta) => (at + delta < 0 || at + delta + 4 > view.size ? -1 : view.u32(at + delta)),
      // Code of another part, with a TOC of its own.
      target: { name: '', code: 1n << 40n, localEntry: 0, other: 0, toc: 1n, isTracer: false },
      toc: 0n,
    };
    const binding = loader.bindCall(call);
    if (binding.kind === 'refused') this.report('klp-relocation', 'M-KLP-8', where, binding.reason);
  }

  /** M-KLP-10: the kernel's table that tells symbols of one name apart. */
  private identifiers(): void {
    const kernel = this.objects?.get(KERNEL);
    const section = kernel?.sites.program.image.section('.klp.symid');
    if (kernel === undefined || section === undefined) return;
    const { image, symbols } = kernel.sites.program;
    const where = { section: 0, offset: 0 };
    const report = (message: string): void => {
      this.report('klp-symid', 'M-KLP-10', where, `${kernel.file}: .klp.symid: ${message}`);
    };
    const view = new ByteView(image.contents(section), image.header.endian, section.name);
    if (view.size % 16 !== 0) {
      report(`${view.size} bytes, no multiple of 16`);
      return;
    }
    const addresses = new Set<bigint>();
    for (let i = 1; i < symbols.count; i++) {
      if (kernel.named(symbols.name(i)).length > 1) addresses.add(symbols.value[i]!);
    }
    const seen = new Set<bigint>();
    for (let at = 0; at < view.size; at += 16) {
      const [id, address] = [view.u64(at), view.u64(at + 8)];
      if (seen.has(id)) report(`two entries have the number ${id}`);
      else if (!addresses.has(address)) {
        report(`entry ${id} says ${address.toString(16)}, where no symbol of a name that occurs twice is`);
      }
      seen.add(id);
    }
  }
}
