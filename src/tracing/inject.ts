/**
 * Lays the tracing runtime into a linked program that has no entries of its own (RT-2), so that its
 * sites can call a tracer. Owns the choice of the runtime's convention; the laying out is the
 * loader's.
 */
import { runtimeFor } from '../program/conventions.js';
import { type ConventionName, conventionNamed, type EntryConvention } from '../machine/conventions.js';
import type { Arch } from '../machine/arch.js';
import type { MachineOptions } from '../machine/loader.js';
import { ByteView, holdsAt } from '../bytes.js';
import { readElf } from '../elf/read.js';
import type { ElfImage } from '../elf/image.js';
import * as elf from '../elf/constants.js';
import { ElftraceError } from '../errors.js';
import { loadImages, type LoaderOptions } from '../program/loader.js';
import { checkedPads } from '../program/landing.js';
import { load, type Program } from '../program/program.js';
import { planSites } from '../patch/plan-sites.js';
import { runtimeObject } from '../runtime/index.js';
import type { Sha256 } from '../sha256.js';
import type { Address } from '../units.js';
import { findSites, type Sites } from '../sites/sites.js';

/**
 * The convention whose entries serve most of the selected sites; of two that serve the same number
 * the one that passes more.
 * @param preferred  is taken when it serves any
 * @param without    is taken where there is no site to serve
 * @throws ElftraceError 'no-runtime' when none serves any, also when the preferred one does not
 *   where it was asked for by an option that must hold; 'usage' for a name that the machine does
 *   not have
 */
export function conventionFor(
  sites: Sites,
  selection?: Uint8Array,
  preferred?: ConventionName,
  without: EntryConvention | null = null,
): EntryConvention {
  const { conventions, target } = sites.program.arch;
  const counts = new Map<string, number>();
  for (let i = 0; i < sites.count; i++) {
    if (selection && !selection[i]) continue;
    const reading = sites.reading(i);
    if (reading === null || reading.state === 'foreign') continue;
    for (const entry of sites.entriesOf(i, reading)) counts.set(entry, (counts.get(entry) ?? 0) + 1);
  }
  if (preferred !== undefined) {
    const row = conventionNamed(conventions, preferred);
    if (row === null) throw unknownConvention(target.title, preferred, conventions);
    if ((counts.get(preferred) ?? 0) > 0) return row;
    if (row.mustServe) {
      throw new ElftraceError(
        'no-runtime',
        `no site of the file has a shape that the tracing entry '${preferred}' serves`,
        {},
      );
    }
  }
  let best: EntryConvention | null = null;
  for (const each of conventions) {
    const count = counts.get(each.name) ?? 0;
    if (count > 0 && (best === null || count > (counts.get(best.name) ?? 0))) best = each;
  }
  best ??= without;
  if (best === null) {
    const nameless = sites.count > 0 && !sites.program.namesFunctions;
    throw new ElftraceError(
      'no-runtime',
      `no site of the file has a shape that a tracing entry serves${nameless ? ': where functions begin decides it here, so name them with --symbols FILE' : ''}`,
      {},
    );
  }
  return best;
}

/** A name that came from outside, and that no convention of the machine has. */
function unknownConvention(title: string, name: string, conventions: readonly EntryConvention[]): ElftraceError {
  const names = conventions.map((each) => each.name).join(', ');
  return new ElftraceError('usage', `${title} has no entry convention '${name}', only ${names}`, { value: name });
}

/** Section of the runtime in which the tool keeps ops objects, hashes and tables. */
export const dataSection = '.elftrace.data';

/** An object whose section is longer, by zeros; it moves to the end of the file. */
function withLonger(image: ElfImage, name: string, size: number): ElfImage {
  const section = image.section(name);
  if (!section || section.fileSize >= size) return image;
  const offset = Math.ceil(image.bytes.length / 64) * 64;
  const out = new Uint8Array(offset + size);
  out.set(image.bytes);
  out.set(image.contents(section), offset);
  const { shoff, shentsize, endian } = image.header;
  const view = new ByteView(out, endian);
  const at = shoff + section.index * shentsize;
  const word = image.wordBytes;
  view.insertWord(at + 8 + 2 * word, BigInt(offset), word);
  view.insertWord(at + 8 + 3 * word, BigInt(size), word);
  return readElf(out);
}

/**
 * The runtime with room for the filters of an image: a few hashes that name every site. An image
 * with few sites keeps the room that the runtime was built with.
 * @param bytes  relocatable file; it stays as it is
 */
export function withRoomFor(bytes: Uint8Array, sites: number): ElfImage {
  const image = readElf(bytes);
  return withLonger(image, dataSection, 4096 + 4 * image.wordBytes * sites);
}

/**
 * The runtime with an area of stubs out of line for the sites of an image, where its entries are
 * called through such stubs: their number is the first word of the area's section.
 */
function withStubsFor(image: ElfImage, { outOfLine }: Arch, sites: number): ElfImage {
  const area = outOfLine?.areas.find(({ stubs }) => image.symbols.find(stubs) > 0);
  if (!outOfLine || area === undefined) return image;
  const { symbols } = image;
  const [stubs, count] = [symbols.find(area.stubs), symbols.find(area.count)];
  const home = image.sections[symbols.sectionIndex[stubs]!]!;
  const stubBytes = outOfLine.codeBytes + (symbols.find(outOfLine.idleOps) > 0 ? image.wordBytes : 0);
  const grown = withLonger(image, home.name, Number(symbols.value[stubs]!) + sites * stubBytes);
  const { bytes, header } = grown;
  const place = grown.section(home.name)!.offset + Number(symbols.value[count]!);
  new ByteView(bytes, header.endian).insertU32(place, sites);
  return grown;
}

/**
 * Writes the stubs out of line of an image with a runtime as start-up would: each site has its
 * own, which calls the entry and comes back.
 * @param bytes  the image; written in place
 */
function fillStubs(bytes: Uint8Array, arch: Arch): void {
  const image = readElf(bytes);
  const sites = findSites(load(image, arch));
  if (sites.stubs?.exist !== true) return;
  const plan = planSites(sites, { to: { kind: 'init' }, leftovers: true });
  for (const { fileOffset, after } of plan.steps) bytes.set(after, fileOffset);
}

/**
 * The runtime for an image whose indirect branches are checked: those of its own that would trap
 * are other ones there.
 */
function withUncheckedBranches(runtime: ElfImage, { image, arch }: Program): ElfImage {
  const pads = checkedPads(image, arch);
  if (pads === null || pads.unchecked.length === 0) return runtime;
  const bytes = new Uint8Array(runtime.bytes);
  for (const { label, before, after } of pads.unchecked) {
    const symbol = runtime.symbols.find(label);
    if (symbol <= 0) continue;
    const section = runtime.sections[runtime.symbols.sectionIndex[symbol]!]!;
    const offset = section.offset + Number(runtime.symbols.value[symbol]!);
    if (!holdsAt(bytes, offset, before)) {
      throw new ElftraceError('internal', `${label} of the runtime is not as it was built`, { symbol: label });
    }
    bytes.set(after, offset);
  }
  return readElf(bytes);
}

/**
 * The object to lay in.
 * @throws ElftraceError 'no-runtime' where there is none for the target
 */
export function runtimeImage(program: Program, convention: ConventionName, sites = 0, probes = false): ElfImage {
  const { target } = program.arch;
  const bytes = runtimeObject(target.id, convention, probes);
  if (bytes === null && probes) {
    throw new ElftraceError('no-runtime', `the runtime (${convention}) of ${target.id} serves no probes`, {
      what: target.id,
      reason: 'not-served',
    });
  }
  if (bytes === null) {
    throw new ElftraceError('no-runtime', `there is no tracing runtime (${convention}) for ${target.id} yet`, {
      what: target.id,
    });
  }
  return withStubsFor(withUncheckedBranches(withRoomFor(bytes, sites), program), program.arch, sites);
}

/**
 * An image of the program with the runtime in it; the program's own bytes keep their places.
 * @throws ElftraceError 'no-runtime' for files that cannot take one: relocatable files (they are
 *   loaded first), position-independent ones (the runtime lies at fixed addresses, RT-3)
 * @param machine    options of the machine's loader (`x86-tramp`)
 * @param probeRoom  the runtime serves probes and has this room for them; the image may then be one
 *                   without sites
 */
export function withRuntime(
  sites: Sites,
  selection: Uint8Array | undefined,
  hash?: Sha256,
  preferred?: ConventionName,
  machine: MachineOptions = {},
  probeRoom?: LoaderOptions['probeRoom'],
): ElfImage {
  const { program } = sites;
  const { image, arch } = program;
  const missing = 'it has no tracing entries (missing: ftrace_caller, ftrace_call, ftrace_ops_list, …)';
  if (program.relocatable) {
    throw new ElftraceError(
      'no-runtime',
      `${missing}, and a relocatable file is loaded first (elftrace load), or names what its sites call (--entry SYMBOL)`,
      { reason: 'relocatable' },
    );
  }
  if (image.header.type !== elf.ET_EXEC) {
    throw new ElftraceError(
      'no-runtime',
      `${missing}, and the runtime cannot be laid into a position-independent file`,
      { reason: 'position-independent' },
    );
  }
  const without = probeRoom === undefined ? null : (arch.conventions[0] ?? null);
  const best = conventionFor(sites, selection, preferred, without).name;
  const convention = arch.loader.kind === 'modules' ? runtimeFor(arch.loader, best, machine) : best;
  const coreSites: Address[] = [];
  for (let i = 0; i < sites.count; i++) {
    if ((!selection || selection[i]) && sites.codeRange(i)) coreSites.push(sites.ip(i));
  }
  const { bytes } = loadImages(
    {
      core: { name: 'core', image },
      modules: [],
      base: 'user',
      runtime: {
        name: `runtime-${convention}`,
        image: runtimeImage(program, convention, sites.count, probeRoom !== undefined),
      },
      options: {
        ...(probeRoom ? { probeRoom } : {}),
        coreSites,
        convention,
        machine,
        ...(hash ? { sha256: hash } : {}),
      },
    },
    arch,
  );
  fillStubs(bytes, arch);
  return readElf(bytes);
}
