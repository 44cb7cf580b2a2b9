/**
 * What `why` says of every function of a kernel and of modules, against what the booted kernel
 * lists (`available_filter_functions`, `kprobes/blacklist`) and where it takes probes.
 */
import { archOf } from '../../src/arches.js';
import { comparedImage } from '../../src/diff/index.js';
import { readElf } from '../../src/elf/read.js';
import { load } from '../../src/program/program.js';
import { findSites } from '../../src/sites/sites.js';
import { verify } from '../../src/sites/verdicts.js';
import { type WhyFunction, whyFunction } from '../../src/why/index.js';
import type { ListDifference, Report } from './guest.js';

/** `untraced`: refused, and the kernel's log says that it is for want of a site. */
type Wanted = 'probe' | 'refused' | 'untraced';

/** One image, with names as the kernel lists them: `name`, or `name [module]`. */
interface Answers {
  /** Functions that ftrace can trace once init code is gone; a name may come several times. */
  readonly traced: readonly string[];
  /** Functions that no probe may be in. */
  readonly blacklisted: readonly string[];
  /** Every name of every function with the others of the same function, its own included. */
  readonly names: ReadonlyMap<string, readonly string[]>;
  /** Functions of a name of their own, and what becomes of an event with a probe in them. */
  readonly probed: readonly (readonly [string, Wanted])[];
  /** Bodies of overridden weak functions with a site: listed under the name of a neighbour. */
  readonly leftovers: number;
}

/** What a booted kernel does; null: init and exit code, which is gone, or no try would tell. */
function wantedOf({ section, by: { ftrace, kprobe } }: WhyFunction): Wanted | null {
  if (/^\.(init|exit)/.test(section ?? '')) return null;
  if (kprobe.code === 'probe-notrace') return 'untraced';
  if (ftrace.answer !== 'yes') return null;
  if (kprobe.code === 'probe') return 'probe';
  return kprobe.code === 'probe-no-ftrace-support' || kprobe.code === 'probe-blacklisted' ? 'refused' : null;
}

function answersOf(bytes: Uint8Array, module: string | null): Answers {
  const image = readElf(bytes);
  const sites = findSites(load(image, archOf(image.header)));
  const compared = comparedImage(sites);
  const listed = (name: string): string => (module === null ? name : `${name} [${module}]`);
  const traced: string[] = [];
  const blacklisted: string[] = [];
  const probed: (readonly [string, Wanted])[] = [];
  const names = new Map<string, string[]>();
  // Any symbol where a function begins is a name of it to a kernel.
  const there = new Map<string, string[]>();
  const { symbols } = image;
  const keyOf = (section: number, value: bigint): string => `${String(section)}+${String(value)}`;
  for (let i = 1; i < symbols.count; i++) {
    const key = keyOf(symbols.sectionIndex[i]!, symbols.value[i]!);
    if (symbols.name(i) !== '') there.set(key, [...(there.get(key) ?? []), listed(symbols.name(i))]);
  }
  for (const { name, symbol, section, address } of compared.functions) {
    const found = whyFunction(compared, name).find((each) => each.section === section && each.address === address);
    if (found === undefined) throw new Error(`why says nothing of ${name} at ${section} ${String(address)}`);
    if (found.by.ftrace.answer === 'yes') traced.push(listed(name));
    // A kernel lists what lies in its text: it takes no probe elsewhere anyhow.
    const isText = !/^\.rodata/.test(found.section ?? '');
    if (found.by.kprobe.code === 'probe-blacklisted' && isText) blacklisted.push(listed(name));
    const wanted = wantedOf(found);
    if (wanted !== null) probed.push([listed(name), wanted]);
    const all = there.get(keyOf(symbols.sectionIndex[symbol]!, symbols.value[symbol]!)) ?? [];
    for (const each of new Set(all)) names.set(each, [...(names.get(each) ?? []), ...all]);
  }
  const left = verify(sites).findings.filter(({ verdict, section }) => verdict === 'weak-leftover' && !/init/.test(section)); // prettier-ignore
  const isOne = ([name]: readonly [string, Wanted]): boolean => names.get(name)?.length === 1;
  return { traced, blacklisted, probed: probed.filter(isOne), names, leftovers: left.length };
}

/** What a boot is held against. */
export interface WhyLists {
  /** Functions that are traced, of the kernel and the modules; null: the kernel's are not known. */
  readonly functions: readonly string[] | null;
  readonly blacklist: readonly string[];
  /** Functions of the kernel where a probe is tried, and what becomes of it. */
  readonly probes: ReadonlyMap<string, Wanted>;
  readonly names: ReadonlyMap<string, readonly string[]>;
  readonly leftovers: number;
  /** By module. */
  readonly modules: ReadonlyMap<string, readonly string[]>;
}

/**
 * A part of a function that a compiler split off, `do_trap.cold`, is not in the kernel's list. It
 * may have no probe where its function may not: only a try tells.
 */
const isPart = (name: string): boolean => /^[^.]+\..*[^.]$/.test(name);

/** So many functions of each kind, from all over the kernel. */
function probesOf({ blacklisted, probed }: Answers, tried: number): ReadonlyMap<string, Wanted> {
  const some = (kind: Wanted): (readonly [string, Wanted])[] => {
    const all = probed.filter(([, wanted]) => wanted === kind);
    const every = Math.max(1, Math.floor(all.length / tried));
    return all.filter((_, at) => at % every === 0);
  };
  return new Map([
    ...some('probe'),
    ...some('refused'),
    ...some('untraced'),
    ...blacklisted.filter(isPart).map((name) => [name, 'refused'] as const),
  ]);
}

/**
 * @param vmlinux  null: no file of the kernel has its symbols, and only modules are compared
 * @param tried  functions of each kind of answer at which a probe is tried
 */
export function whyLists(
  vmlinux: Uint8Array | null,
  modules: ReadonlyMap<string, Uint8Array>,
  tried: number,
): WhyLists {
  const own = new Map([...modules].map(([name, bytes]) => [name, answersOf(bytes, name)]));
  const kernel = vmlinux === null ? null : answersOf(vmlinux, null);
  const all = [...(kernel === null ? [] : [kernel]), ...own.values()];
  return {
    functions: kernel === null ? null : all.flatMap(({ traced }) => traced),
    blacklist: all.flatMap(({ blacklisted }) => blacklisted),
    probes: kernel === null ? new Map() : probesOf(kernel, tried),
    names: new Map(all.flatMap(({ names }) => [...names])),
    leftovers: kernel?.leftovers ?? 0,
    modules: new Map([...own].map(([name, { traced }]) => [name, traced])),
  };
}

const shown = (names: readonly string[]): string =>
  `${String(names.length)} (${names.slice(0, 8).join(', ')}${names.length > 8 ? ', …' : ''})`;

/** What only one of two lists has; a name may come several times. */
function differenceOf(listed: readonly string[], expected: readonly string[]): ListDifference {
  const left = [...expected];
  const surplus = listed.filter((name) => {
    const at = left.indexOf(name);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  return { surplus, missing: left };
}

/** Without the pairs that are two names of one function: a kernel lists only one of them. */
function withoutAliases({ surplus, missing }: ListDifference, lists: WhyLists): ListDifference {
  const more = [...surplus];
  const less = missing.filter((name) => {
    const at = more.findIndex((each) => each !== name && lists.names.get(name)?.includes(each));
    if (at >= 0) more.splice(at, 1);
    return at < 0;
  });
  return { surplus: more, missing: less };
}

function functionProblems(report: Report, lists: WhyLists): readonly string[] {
  const problems: string[] = [];
  for (const [module, traced] of lists.modules) {
    const listed = (report.names.get('original')?.get(module) ?? []).map((name) => `${name} [${module}]`);
    const { surplus, missing } = withoutAliases(differenceOf(listed, traced), lists);
    if (surplus.length > 0) problems.push(`why: ${module}: not traced, and the kernel lists ${shown(surplus)}`);
    if (missing.length > 0) problems.push(`why: ${module}: traced, and the kernel does not list ${shown(missing)}`);
  }
  if (lists.functions === null) return problems;
  const difference = report.lists.get('/why/functions');
  if (difference === undefined) return [...problems, 'why: the functions of the kernel were not compared'];
  const { surplus, missing } = withoutAliases(difference, lists);
  if (missing.length > 0) problems.push(`why: traced, and the kernel does not list them: ${shown(missing)}`);
  if (surplus.length !== lists.leftovers) {
    problems.push(`why: ${String(lists.leftovers)} bodies without a name, and the kernel lists ${shown(surplus)} more`);
  }
  return problems;
}

function blacklistProblems(report: Report, lists: WhyLists): readonly string[] {
  const difference = report.lists.get('/why/blacklist');
  if (difference === undefined) return ['why: the list of functions without probes was not compared'];
  const { surplus, missing: unlisted } = withoutAliases(difference, lists);
  const missing = unlisted.filter((name) => lists.probes.get(name) !== 'refused');
  const known = new Set(lists.blacklist.flatMap((name) => lists.names.get(name) ?? []));
  // Two lines of one function, and labels that are no function, say nothing.
  const more = surplus.filter((name) => lists.names.has(name) && !known.has(name));
  return [
    ...(missing.length > 0 ? [`why: no probe, and the kernel's list does not have them: ${shown(missing)}`] : []),
    ...(more.length > 0 ? [`why: a probe, and the kernel's list has them: ${shown(more)}`] : []),
  ];
}

const EINVAL = 22;

/**
 * Events refuse functions that are not traced, too, and log it; without that line it is the list of
 * functions without probes that was asked. With it the try tells nothing, and the list must have
 * the name, or that of the function of which it is a part.
 */
function probeProblems(report: Report, { probes, blacklist }: WhyLists): readonly string[] {
  const { surplus = [], missing = [] } = report.lists.get('/why/blacklist') ?? {};
  const listed = new Set([...blacklist.filter((name) => !missing.includes(name)), ...surplus]);
  const untraced = new Set(report.log.map(({ text }) => /Could not probe notrace function (\S+)/.exec(text)?.[1]));
  return [...probes].flatMap(([name, wanted]) => {
    const error = report.probes.get(name);
    if (error === undefined) return [`why: no probe was tried in ${name}`];
    if (wanted === 'probe')
      return error === 0 ? [] : [`why: a probe, and the kernel has errno ${String(error)} for ${name}`];
    if (wanted === 'untraced') {
      const isSo = error === EINVAL && untraced.has(name);
      return isSo ? [] : [`why: no site, and the kernel has errno ${String(error)} for ${name}`];
    }
    const isListed = listed.has(name) || listed.has(name.slice(0, name.indexOf('.')));
    const isAsExpected = error === EINVAL && (!untraced.has(name) || isListed);
    return isAsExpected ? [] : [`why: no probe, and the kernel has errno ${String(error)} for ${name}`];
  });
}

/** Where a booted kernel and `why` differ. */
export function whyProblems(report: Report, lists: WhyLists): readonly string[] {
  return [...functionProblems(report, lists), ...blacklistProblems(report, lists), ...probeProblems(report, lists)];
}
