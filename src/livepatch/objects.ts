/**
 * Kernels and modules that a livepatch module is held against: their symbols as the kernel finds
 * them when it loads the livepatch, and the site of a function.
 *
 * Positions count the symbols of a name: in the kernel in ascending order of address, in a module
 * in the order of its symbol table.
 */
import { conventionNamed } from '../machine/conventions.js';
import * as elf from '../elf/constants.js';
import { ElftraceError } from '../errors.js';
import type { Arch } from '../machine/arch.js';
import { moduleName } from '../program/module-name.js';
import type { Sites } from '../sites/sites.js';
import { judge } from '../sites/verdicts.js';
import { KERNEL } from './module.js';
import type { SiteIndex, SymbolIndex } from '../units.js';

/** What stands for a name and position: a symbol, or why none does. */
export type Found = { readonly symbol: SymbolIndex } | { readonly missing: string };

/** Whether the site of a function serves a redirect. */
export type Redirect = { readonly site: SiteIndex } | { readonly rule: string; readonly reason: string };

export class PatchedObject {
  #names: ReadonlyMap<string, readonly number[]> | undefined;
  #entries: ReadonlyMap<string, number> | undefined;

  constructor(
    /** `vmlinux`, or the name of a module. */
    readonly name: string,
    readonly file: string,
    readonly sites: Sites,
  ) {}

  /** Symbols that kernels keep, by name and in the order of positions. */
  get #symbols(): ReadonlyMap<string, readonly number[]> {
    if (this.#names) return this.#names;
    const { symbols, image } = this.sites.program;
    const { info, sectionIndex, value } = symbols;
    const names = new Map<string, number[]>();
    for (let i = 1; i < symbols.count; i++) {
      const section = image.sections[sectionIndex[i]!];
      const type = info[i]! & 15;
      if (section === undefined || sectionIndex[i] === 0 || type === elf.STT_SECTION || type === elf.STT_FILE) continue;
      if ((section.flags & elf.SHF_ALLOC) === 0n) continue;
      const name = symbols.name(i);
      const known = names.get(name);
      if (known) known.push(i);
      else names.set(name, [i]);
    }
    if (this.name === KERNEL) {
      for (const list of names.values()) {
        if (list.length > 1) list.sort((a, b) => (value[a]! < value[b]! ? -1 : value[a]! > value[b]! ? 1 : a - b));
      }
    }
    this.#names = names;
    return names;
  }

  /** Symbols of a name in the order of positions. */
  named(name: string): readonly number[] {
    return this.#symbols.get(name) ?? [];
  }

  /**
   * The symbol of a name at a position.
   * Source: M-KLP-3
   */
  find(name: string, position: bigint): Found {
    const list = this.named(name);
    if (list.length === 0) return { missing: `${this.name} has no symbol '${name}'` };
    if (position === 0n && list.length > 1) {
      return { missing: `${this.name} has ${list.length} symbols '${name}', and the position 0 says that it has one` };
    }
    if (position > BigInt(list.length)) {
      return { missing: `position ${position} of '${name}': ${this.name} has ${list.length} of that name` };
    }
    return { symbol: list[position === 0n ? 0 : Number(position) - 1]! };
  }

  /** The first site of each function, by its place. */
  get #sitesByPlace(): ReadonlyMap<string, number> {
    if (this.#entries) return this.#entries;
    const { sites } = this;
    const { functions } = sites.program;
    const entries = new Map<string, number>();
    for (let i = 0; i < sites.count; i++) {
      const symbol = sites.functionSymbol(i);
      const place = symbol < 0 ? undefined : functions.placeOf(symbol);
      if (place === undefined) continue;
      const key = `${place.section}:${place.value}`;
      if (!entries.has(key)) entries.set(key, i);
    }
    this.#entries = entries;
    return entries;
  }

  /**
   * The site that redirects a function.
   * Source: M-KLP-4
   */
  redirect(symbol: SymbolIndex): Redirect {
    const { sites } = this;
    const { program } = sites;
    const rule = 'M-KLP-4';
    if (!isFunction(program.symbols.info[symbol]!)) return { rule, reason: 'it is no function' };
    const place = program.functions.placeOf(symbol);
    const site = place === undefined ? undefined : this.#sitesByPlace.get(`${place.section}:${place.value}`);
    if (site === undefined) return { rule, reason: 'it has no site: it cannot be traced' };
    const home = program.image.sections[program.symbols.sectionIndex[symbol]!]!.name;
    if (/^\.(?:init|exit)\./.test(home)) return { rule, reason: `it is in ${home}, which is gone when it is patched` };
    const reading = sites.reading(site);
    const judgement = judge(sites, site, {}, reading);
    if (judgement.verdict !== 'ok') {
      return { rule: judgement.rule, reason: `its site is ${judgement.verdict}: ${judgement.message}` };
    }
    const { conventions } = program.arch;
    const serves = (name: string): boolean => conventionNamed(conventions, name)?.atEntry === true;
    if (reading && !sites.entriesOf(site, reading).some(serves)) {
      return { rule, reason: 'its site calls behind the prologue: nothing there can go on elsewhere' };
    }
    return { site };
  }
}

const isFunction = (info: number): boolean => (info & 15) === elf.STT_FUNC || (info & 15) === elf.STT_NOTYPE;

/**
 * A file as what a livepatch patches.
 * @param wanted  `name`: KERNEL, or of a module; `arch`: of the livepatch
 * @throws ElftraceError 'usage' for a file that is something else; 'bad-reference' where it has no
 *   symbols
 */
export function patchedObject(
  sites: Sites,
  { name, path, arch }: { readonly name: string; readonly path: string; readonly arch: Arch },
): PatchedObject {
  const { program } = sites;
  const { image, symbols } = program;
  const refuse = (what: string): ElftraceError => new ElftraceError('usage', what, { file: path });
  const { target } = program.arch;
  if (target.id !== arch.target.id) {
    throw refuse(`${path} is of ${target.title}, the livepatch of ${arch.target.title}`);
  }
  const isModule = name !== KERNEL;
  if (isModule !== (image.header.type === elf.ET_REL)) {
    throw refuse(`--against: ${path} is no ${isModule ? 'module' : 'linked kernel'}`);
  }
  const actual = moduleName(image, path);
  if (isModule && actual !== name) throw refuse(`--against: ${path} is the module ${actual ?? '?'}, not ${name}`);
  if (symbols === image.dynamicSymbols || symbols.count <= 1) {
    throw new ElftraceError('bad-reference', `${path} has no symbols: name the file that was not stripped`, {
      file: path,
    });
  }
  return new PatchedObject(name, path, sites);
}
