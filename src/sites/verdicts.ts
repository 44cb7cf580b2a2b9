/**
 * One verdict per site: the first line of the table below that applies. Decides nothing about
 * patching; a plan refuses sites whose verdict is an error.
 *
 * | verdict | severity | meaning |
 * |---|---|---|
 * | zero-entry | note | empty slot of the table |
 * | outside-text, duplicate, misaligned | error | the slot names no place that can hold a site |
 * | weak-leftover | note | body of an overridden weak function: real bytes, no symbol |
 * | no-symbol | warning | no function covers the site and it is no leftover |
 * | no-landing-pad | error | the entry is no landing pad, and is or would be entered as one |
 * | bypassed-by-local-entry | error | local calls never pass the site |
 * | unsupported-shape | error | bytes that no shape knows |
 * | wrong-bytes | error | a known shape with other bytes |
 * | out-of-range, wrong-target, stub-wrong-target | error | the call does not lead where it must |
 * | toc-restore-missing | error | no restore of r2 behind a call that changes it |
 * | state-mismatch | error | the record in the file says otherwise than the bytes |
 * | ok | | |
 *
 * and, of a function that no site is in:
 *
 * | pad-without-slot | error | it begins as traced functions do, and no table names it |
 *
 * Livepatch modules have verdicts of their own (`klp-…`), which `livepatch/` gives; they name no
 * site.
 */
import type { SiteReading } from '../machine/sites.js';
import { describeSleds } from './sleds.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { directCallerAt, type DirectCaller } from './direct-table.js';
import type { Program } from '../program/program.js';
import { namelessRelocations } from '../relocs/read.js';
import { entryMisplacer, misaligner, padMisplacer, slotLoser } from './compilers.js';
import { type UnlistedSite, unlistedSites } from './complete.js';
import { missingPad } from './indirect-entries.js';
import { plainPlaces, plainSites } from './plain.js';
import type { Sites } from './sites.js';
import { lintTables, type TableLint } from './table-lint.js';
import type { SiteIndex } from '../units.js';

/** How much each verdict weighs: errors fail `verify`, warnings do with `--strict`. */
export const verdictSeverity = {
  ok: 'none',
  'zero-entry': 'note',
  'outside-text': 'error',
  duplicate: 'error',
  misaligned: 'error',
  'weak-leftover': 'note',
  'no-symbol': 'warning',
  'no-landing-pad': 'error',
  'bypassed-by-local-entry': 'error',
  'unsupported-shape': 'error',
  'wrong-bytes': 'error',
  'out-of-range': 'error',
  'wrong-target': 'error',
  'stub-wrong-target': 'error',
  'toc-restore-missing': 'error',
  'state-mismatch': 'error',
  'pad-without-slot': 'error',
  'klp-form': 'error',
  'klp-object': 'error',
  'klp-function': 'error',
  'klp-untraceable': 'error',
  'klp-symbol': 'error',
  'klp-relocation': 'error',
  'klp-stubs': 'warning',
  'klp-symid': 'error',
} as const satisfies Record<string, 'none' | 'note' | 'warning' | 'error'>;

export type Verdict = keyof typeof verdictSeverity;
/** Verdicts on a livepatch module. */
export type LivepatchVerdict = Extract<Verdict, `klp-${string}`>;
export type Severity = (typeof verdictSeverity)[Verdict];

/** A site whose verdict is not `ok`, with what a person or program needs to judge it. */
export interface Finding {
  /** Its index; -1 for `pad-without-slot` and for what is said of a livepatch module. */
  readonly site: SiteIndex;
  readonly verdict: Verdict;
  readonly severity: Severity;
  /** Rule of the specification that the verdict follows. */
  readonly rule: string;
  /** Anchor of the site: address, or offset in `section`. */
  readonly address: bigint;
  readonly section: string;
  /** Offset in the section; equal to `address` in relocatable files. */
  readonly offset: bigint;
  /** Function with offset, '' when none covers the site. */
  readonly function: string;
  /** Bytes from the site's start; empty where the verdict is not about bytes. */
  readonly expected: Uint8Array;
  readonly actual: Uint8Array;
  readonly message: string;
}

export interface Verification {
  /** Sites judged; empty slots are counted in `verdicts` only. */
  readonly sites: number;
  readonly verdicts: Readonly<Partial<Record<Verdict, number>>>;
  /** In site order, everything but `ok`. */
  readonly findings: readonly Finding[];
  /** What a link of the object may make of its tables; each is among the remarks, too. */
  readonly lint: readonly TableLint[];
  /** About the file: unsorted tables, calls of the profiling entry that no table names, … */
  readonly remarks: readonly string[];
  /**
   * Why the verdicts say little or nothing: the file has no site (`no-sites`), or of most sites the
   * function is not known (`no-functions`). Null: they say what they say.
   */
  readonly incomplete: { readonly code: 'no-sites' | 'no-functions'; readonly message: string } | null;
}

export interface VerifyOptions {
  /** What the file's own record says of a site: null when nothing or the same as the bytes. */
  readonly recorded?: (fileOffset: number, sizeBytes: number) => { expected: Uint8Array; actual: Uint8Array } | null;
  /**
   * True for sites whose bytes a session has left behind: what they call was a tracer's, or a
   * direct caller, of its time.
   */
  readonly leftBehind?: (site: SiteIndex) => boolean;
  readonly signal?: AbortSignal;
}

const none = new Uint8Array(0);
/** Bytes shown of a site that no shape knows. */
const shownBytes = 8;

export interface Judgement {
  readonly verdict: Verdict;
  readonly rule: string;
  readonly message: string;
  readonly expected?: Uint8Array;
  readonly actual?: Uint8Array;
  /** What a kernel would answer; EINVAL when absent (C-UPD-2). */
  readonly errno?: 'EFAULT';
}

/**
 * Whether a function covers the site. A label (assembly without a size) covers only what can be its
 * own entry: everything up to the next symbol would include the bodies of overridden weak functions
 * behind it. The same holds for functions of a list of names, which has no sizes, where the machine
 * tells an entry by what stands in front of it (X-SITE-2).
 */
export function isCovered(sites: Sites, index: SiteIndex): boolean {
  const { program } = sites;
  const symbol = sites.functionSymbol(index);
  if (symbol < 0) return false;
  if (!program.functions.isLabel(symbol)) return program.symbols.size[symbol] !== 0n || isEntry(sites, index);
  const limit = program.arch.mcount.maxSiteOffset;
  const place = program.functions.placeOf(symbol);
  return limit === 'any' || (place !== undefined && sites.ip(index) - place.value <= limit);
}

/** False where the machine looks for the start of a function in front of a site and finds none. */
function isEntry(sites: Sites, index: SiteIndex): boolean {
  const reading = sites.reading(index);
  if (!reading?.shape.servedAt || reading.state === 'foreign') return true;
  return sites.entriesOf(index, reading).length > 0;
}

/**
 * What is known of the functions that sites lie in: `all` symbols of the file, only those that it
 * `exports` (a stripped shared object), or `none` of most sites. Only where all are known a site
 * without one is the leftover of an overridden weak function; those are few.
 */
type Knowledge = 'all' | 'exports' | 'none';
const knowledge = new WeakMap<Sites, Knowledge>();

function knowledgeOf(sites: Sites): Knowledge {
  const known = knowledge.get(sites);
  if (known !== undefined) return known;
  const { program } = sites;
  const { image, symbols } = program;
  let placed = 0;
  let covered = 0;
  const plain = program.namesFunctions ? plainPlaces(sites) : null;
  for (let i = 0; i < sites.count && plain !== null; i++) {
    if (sites.range[i]! < 0) continue;
    placed++;
    if (plain[i] !== 0 || isCovered(sites, i)) covered++;
  }
  const onlyExports = symbols === image.symbols && symbols === image.dynamicSymbols;
  const found =
    !program.namesFunctions || covered * 2 < placed ? 'none' : onlyExports && covered < placed ? 'exports' : 'all';
  knowledge.set(sites, found);
  return found;
}

const fine: Judgement = { verdict: 'ok', rule: '', message: '' };

/** What a slot names is no place of a site, or that of another slot. */
function judgePlace(sites: Sites, index: SiteIndex): Judgement | null {
  const { program } = sites;
  const { arch } = program;
  const state = sites.state(index);
  const table = sites.table(index);
  const anchor = sites.anchor[index]!;
  if (state === 'zero') {
    return { verdict: 'zero-entry', rule: 'C-INIT-1', message: `slot ${sites.slot(index)} of ${table.name} is empty` };
  }
  if (state === 'outside') {
    const home = table.section[sites.slot(index)]!;
    const section = home >= 0 ? program.image.sections[home]?.name : undefined;
    return {
      verdict: 'outside-text',
      rule: 'M-VAL-1',
      message:
        section === undefined
          ? `slot ${sites.slot(index)} of ${table.name} names ${hex(anchor)}, where no code lies`
          : `slot ${sites.slot(index)} of ${table.name} names ${section}+${hex(anchor)}, where no code lies`,
    };
  }
  if (index > 0 && sites.range[index - 1] === sites.range[index] && sites.anchor[index - 1] === anchor) {
    return {
      verdict: 'duplicate',
      rule: 'M-SORT-3',
      message: `slots ${sites.slot(index - 1)} and ${sites.slot(index)} of ${table.name} name the same place`,
    };
  }
  if (anchor % BigInt(arch.target.codeAlignBytes) !== 0n) {
    return {
      verdict: 'misaligned',
      rule: 'M-VAL-1',
      message: `${hex(anchor)} is no multiple of ${arch.target.codeAlignBytes}, the instruction alignment`,
    };
  }
  return null;
}

/** No known function has the site. */
function judgeSymbols(sites: Sites, index: SiteIndex, reading: SiteReading | null): Judgement | null {
  const { program } = sites;
  if (!program.namesFunctions || isCovered(sites, index)) return null;
  // `unplaced`: nops of a pad whose call area only the missing symbol could tell.
  const looksFine =
    reading !== null && (reading.state !== 'foreign' || reading.form === 'unplaced' || reading.nops !== undefined);
  const functions = knowledgeOf(sites);
  if (functions !== 'all' && looksFine) {
    const why =
      functions === 'exports'
        ? 'the file is stripped and names only what it exports'
        : 'the symbols name few functions of the sites';
    return { verdict: 'no-symbol', rule: 'M-VAL-1', message: `no known function covers the site: ${why}` };
  }
  if (looksFine) {
    return {
      verdict: 'weak-leftover',
      rule: 'M-WEAK-1',
      message: 'no function symbol covers the site: body of an overridden weak function',
    };
  }
  // In a stripped file the missing symbol says nothing, and must not hide wrong bytes.
  if (functions === 'all') {
    return {
      verdict: 'no-symbol',
      rule: 'M-VAL-1',
      message: 'no function covers the place, and its bytes are no site',
      actual: sites.viewOf(index).bytes(0, shownBytes),
    };
  }
  return null;
}

/** Indirect calls of the function would trap. */
function judgePads(sites: Sites, index: SiteIndex, reading: SiteReading | null): Judgement | null {
  const { program } = sites;
  if (reading?.padBehind) {
    return {
      verdict: 'no-landing-pad',
      rule: 'M-PAD-2',
      message: `the landing pad stands behind the nops: indirect calls of the function trap at its entry${because(padMisplacer(program.image))}`,
      actual: sites.viewOf(index).bytes(reading.ipDelta, shownBytes),
    };
  }
  const missing = missingPad(sites, index);
  if (missing) {
    return {
      verdict: 'no-landing-pad',
      rule: program.relocatable ? 'M-PAD-6' : 'M-PAD-4',
      message: `${missing.pointer} names the function, which does not begin with ${missing.title}: calls through it trap`,
      actual: sites.viewOf(index).bytes(Number(missing.entry - sites.anchor[index]!), 4),
    };
  }
  return null;
}

/** The site lies where calls within the module never come by. */
function judgeLocalEntry(sites: Sites, index: SiteIndex, reading: SiteReading | null): Judgement | null {
  const { program } = sites;
  const symbol = sites.functionSymbol(index);
  if (symbol >= 0 && reading?.state !== 'call') {
    const local = program.arch.abi.localEntryOffset(program.symbols.other[symbol]!);
    const place = local > 0 ? program.functions.placeOf(symbol) : undefined;
    if (place && sites.ip(index) < place.value + BigInt(local)) {
      return {
        verdict: 'bypassed-by-local-entry',
        rule: 'P-SITE-2',
        message: `the site lies before the local entry at +${local}: calls within the module never pass it${because(
          entryMisplacer(program.image, nopsOf(sites, index, place.value + BigInt(local))),
        )}`,
      };
    }
  }
  return null;
}

/** Judges one site by its reading (null where no shape fits or no code is named). */
export function judge(
  sites: Sites,
  index: number,
  options: VerifyOptions = {},
  reading: SiteReading | null = sites.reading(index),
): Judgement {
  const placed = judgePlace(sites, index);
  if (placed) return placed;
  if (reading?.fault === 'misaligned') {
    // Its bytes are what they must be: it is their place that is wrong.
    const why =
      'a pointer there is no single store (compile with -falign-functions=8; GCC leaves out cold functions and -Os)';
    const message = `${reading.shape.name}: ${reading.reason}: ${why}${because(misaligner(sites.program.image))}`;
    return { verdict: 'misaligned', rule: 'A-SITE-1', message };
  }
  return (
    judgeSymbols(sites, index, reading) ??
    judgePads(sites, index, reading) ??
    judgeLocalEntry(sites, index, reading) ??
    judgeBytes(sites, index, options, reading) ??
    fine
  );
}

/** The bytes of the site, and what they lead to. */
function judgeBytes(
  sites: Sites,
  index: number,
  options: VerifyOptions,
  reading: SiteReading | null,
): Judgement | null {
  if (!reading) {
    return {
      verdict: 'unsupported-shape',
      rule: 'M-VAL-1',
      message: 'no known site shape has these bytes',
      actual: sites.viewOf(index).bytes(0, shownBytes),
    };
  }
  if (reading.state === 'foreign') return ofForeign(sites, index, reading);
  if (reading.state === 'call' && options.leftBehind?.(index) !== true) {
    const wrong = judgeCall(sites, index, reading);
    if (wrong) return wrong;
  }
  const stub = reading.shape.outOfLine === true ? judgeOwnStub(sites, index, reading) : null;
  if (stub) return stub;
  if (reading.target !== null && sites.program.loadMap !== null) {
    const wrong = judgeStubToc(sites, index, reading.target, reading);
    if (wrong) return wrong;
  }
  const mismatch = options.recorded?.(sites.fileOffset(index) + reading.startDelta, reading.sizeBytes);
  if (mismatch) {
    return {
      verdict: 'state-mismatch',
      rule: 'RT-6',
      message: 'the record in the file says otherwise than the bytes: something else wrote here',
      ...mismatch,
    };
  }
  return null;
}

/** What is known of who made it, behind what is wrong. */
const because = (who: string | null): string => (who === null ? '' : `; ${who}`);

/** Where the nops are of a site in front of a local entry; null: they are at neither place. */
function nopsOf(sites: Sites, index: SiteIndex, local: bigint): 'slot' | 'local' | null {
  const here = sites.reading(index);
  if (here?.state === 'compiled' || here?.nops !== undefined) return 'slot';
  const range = sites.codeRange(index);
  const there =
    range && sites.readingAt(range, Number(local - range.address), sites.tables.indexOf(sites.table(index)));
  return there?.state === 'compiled' ? 'local' : null;
}

function ofForeign(sites: Sites, index: SiteIndex, reading: SiteReading): Judgement {
  const expected = reading.expected ?? none;
  const actual = sites.viewOf(index).bytes(reading.startDelta, Math.max(expected.length, reading.sizeBytes, 1));
  const verdict: Verdict =
    reading.fault === 'unsupported'
      ? 'unsupported-shape'
      : reading.fault === 'toc-restore-missing'
        ? 'toc-restore-missing'
        : reading.fault === 'stub'
          ? 'stub-wrong-target'
          : 'wrong-bytes';
  return {
    verdict,
    rule: reading.fault === 'stub' ? 'P-OOL-2' : 'C-UPD-2',
    message: `${reading.shape.name}: ${reading.reason ?? 'other bytes than any state of the site'}`,
    expected,
    actual,
  };
}

/**
 * A call of something that is not the profiling entry: fine when it is a tracer's, else it leads to
 * the wrong place.
 */
function judgeCall(sites: Sites, index: SiteIndex, reading: SiteReading): Judgement | null {
  const { program } = sites;
  if (reading.target === null) {
    // Relocatable: the relocation names another symbol than the profiling entry.
    for (const delta of reading.relocationDeltas) {
      const relocation = sites.viewOf(index).relocation(delta);
      if (relocation && !program.isTracerName(relocation.symbolName) && !program.isMcountName(relocation.symbolName)) {
        return {
          verdict: 'wrong-target',
          rule: 'F-2',
          message: `the call's relocation names ${relocation.symbolName || 'a section'}, no profiling entry; if it is one, name it with --mcount`,
        };
      }
    }
    return null;
  }
  // A lone direct caller is what the site calls itself (C-TGT-2); the image's own table says whose
  // it is, and whether the site jumps there (X-JMP-1): what comes back from a jump comes back to
  // the function's caller.
  const direct = directCallerOf(sites, index);
  const isJump = reading.form === 'jmp';
  const leads = [reading.target, program.finalTarget(reading.target)];
  const isOwn = direct !== null && leads.includes(direct.caller) && direct.jump === isJump;
  if (isOwn) return null;
  if (isJump || (direct !== null && leads.includes(direct.caller))) return judgeJump(sites, index, reading);
  if (program.callee(reading.target) !== 'other') return null;
  if (!program.hasMcountEntry) return null;
  const range = program.codeAt(reading.target);
  if (!range) {
    return {
      verdict: 'wrong-target',
      rule: 'C-UPD-2',
      message: `the call leads to ${hex(reading.target)}, where no code can be read`,
      actual: sites.viewOf(index).bytes(reading.startDelta, reading.sizeBytes),
      errno: 'EFAULT',
    };
  }
  const stub = program.stubTarget(reading.target);
  const name = program.describe(range, reading.target);
  return {
    verdict: stub === null ? 'wrong-target' : 'stub-wrong-target',
    rule: stub === null ? 'C-TGT-2' : 'P-STUB-1',
    message:
      stub === null
        ? `the call leads to ${hex(reading.target)}${name === '' ? '' : ` (${name})`}, which is no tracing entry`
        : `the stub at ${hex(reading.target)} leads to ${hex(stub)}, which is no tracing entry`,
    actual: sites.viewOf(index).bytes(reading.startDelta, reading.sizeBytes),
  };
}

/** A site that jumps where it must call, or the other way round. */
function judgeJump(sites: Sites, index: SiteIndex, reading: SiteReading): Judgement {
  const { program } = sites;
  const target = reading.target!;
  const range = program.codeAt(target);
  const name = range === undefined ? '' : program.describe(range, target);
  const where = `${hex(target)}${name === '' ? '' : ` (${name})`}`;
  const isJump = reading.form === 'jmp';
  return {
    verdict: 'wrong-target',
    rule: 'X-JMP-1',
    message: isJump
      ? `the site jumps to ${where}, and no table names that as its direct caller to jump to`
      : `the site calls ${where}, to which its direct caller's entry says that it jumps`,
    actual: sites.viewOf(index).bytes(reading.startDelta, reading.sizeBytes),
  };
}

/** The direct caller that the image's table names for a site, or null. */
export function directCallerOf(sites: Sites, index: SiteIndex): DirectCaller | null {
  const reading = sites.reading(index);
  if (reading === null) return null;
  const anchor = sites.anchor[index]!;
  const start = anchor + BigInt(reading.startDelta);
  return directCallerAt(sites.program, start, start + BigInt(reading.sizeBytes));
}

/**
 * A stub that leads to the right code with another TOC than that code's: the callee would find
 * nothing of its own.
 */
function judgeStubToc(sites: Sites, index: SiteIndex, target: bigint, reading: SiteReading): Judgement | null {
  const { program } = sites;
  const stub = program.stub(target);
  if (stub === null || stub.targetToc === null) return null;
  const toc = program.tocAt(stub.target);
  if (toc === null || toc === stub.targetToc) return null;
  return {
    verdict: 'stub-wrong-target',
    rule: 'P-STUB-1',
    message: `the stub at ${hex(target)} loads the TOC ${hex(stub.targetToc)}, that of ${hex(stub.target)} is ${hex(toc)}`,
    actual: sites.viewOf(index).bytes(reading.startDelta, reading.sizeBytes),
  };
}

/** A site that calls through a stub of its own, against that stub. */
function judgeOwnStub(sites: Sites, index: SiteIndex, reading: SiteReading): Judgement | null {
  const problem = sites.stubs?.problemOf(sites.ip(index), reading.through ?? null);
  if (!problem) return null;
  return {
    verdict: problem.kind === 'missing' ? 'out-of-range' : 'stub-wrong-target',
    rule: problem.kind === 'missing' ? 'P-OOL-6' : 'P-OOL-7',
    message: problem.reason,
    actual: sites.viewOf(index).bytes(reading.startDelta, reading.sizeBytes),
  };
}

/** The finding of a judgement, with place and names. */
function findingOf(sites: Sites, index: SiteIndex, judgement: Judgement): Finding {
  const range = sites.codeRange(index);
  const anchor = sites.anchor[index]!;
  const table = sites.table(index);
  const home = sites.program.image.sections[range ? range.section : table.section[sites.slot(index)]!];
  const section = home?.name ?? range?.name ?? '';
  return {
    site: index,
    verdict: judgement.verdict,
    severity: verdictSeverity[judgement.verdict],
    rule: judgement.rule,
    address: anchor,
    section,
    offset: range && !sites.program.relocatable ? anchor - range.address : anchor,
    function: range ? sites.program.describe(range, sites.ip(index)) : '',
    expected: judgement.expected ?? none,
    actual: judgement.actual ?? none,
    message: judgement.message,
  };
}

/** The finding about a function that should have a slot. */
function unlistedFinding(sites: Sites, { range, anchor, symbol, shape }: UnlistedSite): Finding {
  const { program } = sites;
  const offset = program.relocatable ? anchor : anchor - range.address;
  return {
    site: -1,
    verdict: 'pad-without-slot',
    severity: verdictSeverity['pad-without-slot'],
    rule: 'M-PAD-3',
    address: anchor,
    section: program.image.sections[range.section]?.name ?? range.name,
    offset,
    function: program.symbolName(symbol),
    expected: none,
    actual: range.bytes.slice(Number(anchor - range.address), Number(anchor - range.address) + shownBytes),
    message: `the function begins as a site (${shape.name}) and no table names it: it cannot be traced${because(slotLoser(program.image))}`,
  };
}

/** The first site behind `from` that is not plain. */
function behindPlain(plain: Uint8Array, from: number): number {
  const next = plain.indexOf(0, from);
  return next < 0 ? plain.length : next;
}

/**
 * Judges every site, and the functions that should have one.
 * @returns counts by verdict and a finding for every site that is not `ok`, in site order, then one
 *   for every function that begins as a site and has no slot
 */
export function verify(sites: Sites, options: VerifyOptions = {}): Verification {
  const verdicts: Partial<Record<Verdict, number>> = {};
  const findings: Finding[] = [];
  const remarks: string[] = [];
  let judged = 0;
  // A record may say otherwise than the bytes, of any site.
  const plain = options.recorded === undefined ? plainSites(sites) : null;
  for (let i = 0; i < sites.count; i++) {
    if ((i & 0xfff) === 0) options.signal?.throwIfAborted();
    if (plain !== null && plain[i] !== 0) {
      const last = behindPlain(plain, i);
      verdicts.ok = (verdicts.ok ?? 0) + last - i;
      judged += last - i;
      i = last - 1;
      continue;
    }
    const judgement = judge(sites, i, options);
    verdicts[judgement.verdict] = (verdicts[judgement.verdict] ?? 0) + 1;
    if (judgement.verdict !== 'zero-entry') judged++;
    if (judgement.verdict !== 'ok') findings.push(findingOf(sites, i, judgement));
  }
  for (const unlisted of unlistedSites(sites)) {
    verdicts['pad-without-slot'] = (verdicts['pad-without-slot'] ?? 0) + 1;
    findings.push(unlistedFinding(sites, unlisted));
  }
  remarks.push(...namelessRelocations(sites.program.image));
  for (const table of sites.tables) {
    remarks.push(...table.remarks);
    if (table.role === 'padding') {
      remarks.push(`${table.name} names call padding (${table.count} entries), not patch sites of ftrace`);
    } else if (!table.sorted) remarks.push(`${table.name} is not sorted`);
  }
  const lint = lintTables(sites.program, sites.tables);
  remarks.push(...lint.map(({ rule, message }) => `${message} [${rule}]`));
  const others = judged === 0 ? [] : otherInstrumentation(sites.program);
  for (const each of others) remarks.push(`besides, ${each}`);
  return { sites: judged, verdicts, findings, lint, remarks, incomplete: incompleteness(sites, judged) };
}

/** What compilers put into code for other tracers than ftrace (M-PROD-1). */
function otherInstrumentation({ image, symbols }: Program): string[] {
  const found: string[] = [];
  const sleds = describeSleds(image);
  if (sleds !== null)
    found.push(`it has XRay sleds (xray_instr_map), which ftrace does not use (elftrace xray does): ${sleds}`);
  if (symbols.find('__cyg_profile_func_enter') > 0) {
    found.push('its functions call __cyg_profile_func_enter (-finstrument-functions), which ftrace does not use');
  }
  return found;
}

/** Why nothing is found: stripped kernels have no symbols, which name the table of a linked one. */
function nothingThere({ namesFunctions }: Program): string {
  const none = 'no table names any and no call of the profiling entry is there';
  return namesFunctions
    ? `${none}; -fpatchable-function-entry and -pg make them`
    : `${none}; it is stripped: symbols of another file (--symbols) show the table of a linked kernel`;
}

function incompleteness(sites: Sites, judged: number): Verification['incomplete'] {
  const { program, tables } = sites;
  if (judged === 0) {
    const why = tables.some(({ role }) => role === 'padding')
      ? 'its table names call padding only'
      : tables.some(({ count }) => count > 0)
        ? 'all slots of its table are empty'
        : otherInstrumentation(program).join(', and ') || nothingThere(program);
    return { code: 'no-sites', message: `no patch site in the file: ${why}` };
  }
  if (knowledgeOf(sites) !== 'none') return null;
  const message =
    program.namesFunctions || program.symbols !== program.image.symbols
      ? 'the symbols name the functions of less than half of the sites: they may be those of another file'
      : 'no function of the file is known (it is stripped): name a file that has its symbols with --symbols';
  return { code: 'no-functions', message };
}

/**
 * Error for a site that a request needs and that is wrong: expected and actual bytes, as ftrace_bug
 * prints them.
 */
export function siteMismatch(finding: Finding): ElftraceError {
  return new ElftraceError('site-mismatch', `${finding.section}+${hex(finding.offset)}: ${finding.message}`, {
    section: finding.section,
    offset: finding.offset,
    address: finding.address,
    symbol: finding.function,
    expected: hexBytes(finding.expected),
    actual: hexBytes(finding.actual),
  });
}
