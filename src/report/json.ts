/**
 * Results as plain data for JSON: schema version first, addresses as hex strings, stable key order.
 * The schemas are the files `schemas/*.schema.json`; a test holds every output against them.
 */
import { demangle } from '../demangle/index.js';
import type { UnsavedUse } from '../tracing/callback-code.js';
import { hex, hexBytes } from '../errors.js';
import type { GraphHazard } from '../tracing/graph-safety.js';
import type { FileRecord } from '../record/journal.js';
import type { Plan, Step } from '../patch/plan.js';
import type { ImageInfo } from '../sites/about.js';
import type { FunctionListing } from '../sites/listing.js';
import type { Sites } from '../sites/sites.js';
import type { LoadResult } from '../program/loader.js';
import type { Finding, Verification } from '../sites/verdicts.js';

/** Version of every JSON output of the package. */
export const jsonSchema = 1;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** How an image came: compressed, and what was around it, the outermost first. */
export interface InputForm {
  readonly compressed: string;
  readonly wrapped: readonly string[];
}

/** An image as `info --json` prints it. */
export function infoJson(file: string, info: ImageInfo, { compressed, wrapped }: InputForm): Json {
  return {
    schema: jsonSchema,
    file,
    target: info.target,
    kind: info.kind,
    tables: info.tables.map((table) => ({ ...table })),
    sites: info.sites,
    module: info.module,
    compressed,
    ...(wrapped.length > 0 ? { wrapped: [...wrapped] } : {}),
    signatureBytes: info.signatureBytes,
    record: recordJson(info.record),
    secondReader: { ...info.secondReader },
    remarks: info.remarks,
  };
}

/** A function as `disasm --json` prints it. */
export function listingJson({ name, section, address, lines }: FunctionListing): Json {
  return {
    name,
    section,
    address: hex(address),
    lines: lines.map((line) => ({
      address: hex(line.address),
      bytes: hexBytes(line.bytes),
      text: line.text,
      notes: line.notes,
    })),
  };
}

export function recordJson(record: FileRecord | null): Json {
  if (!record) return null;
  return {
    tool: record.tool,
    sha256: record.sha256,
    originalSize: record.originalSize,
    requests: record.requests,
    edits: record.edits.length,
    cutBytes: record.cut.length,
    untraced: record.untraced.length,
  };
}

/** Beside a symbol of C++ or Rust, the name that it stands for. */
export function demangledJson(symbol: string): { demangled?: string } {
  const name = demangle(symbol);
  return name === null ? {} : { demangled: name };
}

/** One traceable function of `list`. */
export function functionJson(sites: Sites, index: number, module: string | null): Json {
  const { program } = sites;
  const symbol = sites.functionSymbol(index);
  const place = symbol < 0 ? undefined : program.functions.placeOf(symbol);
  const ip = sites.ip(index);
  const anchor = sites.anchor[index]!;
  return {
    name: program.symbolName(symbol),
    ...demangledJson(program.symbolName(symbol)),
    section: sites.codeRange(index)?.name ?? '',
    address: place ? hex(place.value) : null,
    site: hex(ip),
    siteOffset: place ? Number(ip - place.value) : null,
    fileOffset: sites.fileOffset(index) < 0 ? null : sites.fileOffset(index) + Number(ip - anchor),
    shape: sites.shape(index),
    state: sites.state(index),
    ...moduleJson(sites.module(index) ?? module),
  };
}

function moduleJson(module: string | null): { module?: string } {
  return module === null ? {} : { module };
}

/** A finding as `verify --json` prints it (schemas/verify.schema.json). */
export function findingJson(finding: Finding): Json {
  return {
    address: hex(finding.address),
    section: finding.section,
    offset: hex(finding.offset),
    function: finding.function,
    ...demangledJson(finding.function),
    verdict: finding.verdict,
    severity: finding.severity,
    rule: finding.rule,
    expected: hexBytes(finding.expected),
    actual: hexBytes(finding.actual),
    message: finding.message,
  };
}

/**
 * A verified file as `verify --json` prints it.
 * @param file    its name, as it is to be shown
 * @param unsaved  registers that tracing entries do not save
 */
export function verificationJson(file: string, result: Verification, unsaved: readonly UnsavedUse[] = []): Json {
  return {
    schema: jsonSchema,
    file,
    sites: result.sites,
    verdicts: { ok: 0, ...result.verdicts },
    findings: result.findings.map(findingJson),
    remarks: result.remarks,
    ...(result.lint.length === 0 ? {} : { lint: result.lint.map((each) => ({ ...each })) }),
    ...(result.incomplete === null ? {} : { incomplete: result.incomplete }),
    ...(unsaved.length === 0
      ? {}
      : {
          unsaved: unsaved.map(({ function: name, section, offset, text }) => ({
            function: name,
            section,
            offset: hex(offset),
            text,
          })),
        }),
  };
}

export function stepJson(step: Step): Json {
  return {
    kind: step.kind,
    section: step.section,
    address: hex(step.address),
    fileOffset: step.fileOffset,
    before: hexBytes(step.before),
    after: hexBytes(step.after),
    rule: step.rule,
    ...(step.site >= 0 ? { site: step.site } : {}),
    ...(step.kind === 'store' && step.reason !== undefined ? { reason: step.reason } : {}),
    ...(step.kind === 'table' ? { part: step.part } : {}),
    ...(step.kind === 'reloc' ? { row: step.row, type: step.type, becomes: step.becomes, symbol: step.symbol } : {}),
  };
}

export function refusalsJson(plan: Plan): Json {
  return plan.refusals.map((refusal) => ({
    section: refusal.section,
    address: hex(refusal.address),
    function: refusal.function,
    code: refusal.code,
    errno: refusal.errno,
    reason: refusal.reason,
    expected: refusal.expected,
    actual: refusal.actual,
  }));
}

/** Why return addresses are not replaced, in the form of refusals: one for each finding. */
export function unsafeGraphJson(hazards: readonly GraphHazard[]): Json {
  return hazards.map((each) => ({
    section: each.section,
    address: each.address === null ? null : hex(each.address),
    function: each.function,
    code: 'unsafe-graph',
    errno: 'EOPNOTSUPP',
    reason: each.reason,
    expected: '',
    actual: '',
    hazard: each.kind,
    by: each.by,
    reference: each.reference,
  }));
}

/** Relocations that a relocatable file gets. */
export function newRelocationsJson({ additions }: Plan): { newRelocations?: Json } {
  if (additions === undefined) return {};
  return {
    newRelocations: additions.relocations.map(({ section, offset, type, symbol }) => ({
      section,
      offset: hex(offset),
      type,
      symbol,
    })),
  };
}

/** Functions whose sites became nops without being asked for (C-INIT-2). */
export function initialisedJson({ initialised = [] }: Plan): { initialised?: Json } {
  return initialised.length === 0 ? {} : { initialised };
}

export function hazardsJson({ hazards }: Plan): Json {
  return (hazards ?? []).map(({ rule, reason, sites }) => ({
    rule,
    reason,
    sites: sites.map((each) => ({ section: each.section, address: hex(each.address), function: each.function })),
  }));
}

/** The hazards of a plan for people, one line each. */
export function hazardNotices({ hazards }: Plan): string[] {
  return (hazards ?? []).map(
    ({ rule, reason, sites }) => `${rule}, ${sites.length} ${sites.length === 1 ? 'site' : 'sites'}: ${reason}`,
  );
}

/** A plan as `patch --dry-run --json` prints it. */
export function planJson(file: string, sha256: string, plan: Plan): Json {
  return {
    schema: jsonSchema,
    file,
    sha256,
    target: plan.target,
    request: plan.request,
    selected: plan.selected,
    changed: plan.changed,
    unchanged: plan.unchanged,
    steps: plan.steps.map(stepJson),
    ...newRelocationsJson(plan),
    refusals: refusalsJson(plan),
    ...initialisedJson(plan),
    hazards: hazardsJson(plan),
  };
}

/** What `load` and `unload` made: the parts of the image. */
export function loadJson(file: string, output: string, result: LoadResult): Json {
  const { map } = result;
  return {
    schema: jsonSchema,
    file,
    output,
    target: map.target,
    base: map.base,
    options: map.options,
    registers: Object.fromEntries(Object.entries(map.registers).map(([name, value]) => [name, hex(value)])),
    parts: map.parts.map((part) => ({
      kind: part.kind,
      name: part.name,
      sha256: part.sha256,
      toc: part.toc === null ? null : hex(part.toc),
      ranges: part.ranges.map(({ start, end }) => ({ start: hex(start), end: hex(end) })),
      stubs: part.stubs.map(({ address, sizeBytes, count }) => ({ address: hex(address), sizeBytes, count })),
      entryStubs: part.entryStubs.map(({ symbol, address }) => ({ symbol, address: hex(address) })),
      uses: part.uses,
    })),
    notices: result.notices,
  };
}
