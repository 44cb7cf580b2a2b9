/**
 * Relocations of a laid-out object: every one is applied and none remains. Calls are bound as the
 * machine says, directly or through a stub. Owns no symbol resolution (scope.ts) and no relocation
 * arithmetic (relocs/).
 */
import type { MachineOptions, ModuleLoader, SkippedBranch, StubKind } from '../machine/loader.js';
import { ByteView } from '../bytes.js';
import { ElftraceError, type ErrorContext, hex } from '../errors.js';
import { applyRelocation, computeRelocation, extractRelocation } from '../relocs/apply.js';
import type { RelocationRow } from '../relocs/kinds.js';
import type { Address, SymbolIndex } from '../units.js';
import type { LoadBase } from './load-map.js';
import type { ObjectPart } from './object-part.js';
import type { PartSection } from './part.js';
import { relocationsOf, type Resolved, type Scope } from './scope.js';
import type { StubAreas } from './stub-areas.js';

export interface LinkContext {
  readonly scope: Scope;
  readonly stubs: StubAreas;
  readonly base: LoadBase;
  readonly options: MachineOptions;
  readonly coreToc: Address | null;
  /** Why a stub's branch to a function of any part traps; null: it does not. */
  readonly landing: (name: string, address: Address) => string | null;
}

/** Which relocations are applied: descriptors come first, for calls are bound by what they hold. */
export type Pass = 'descriptors' | 'rest';

/** Bytes of a stub at an address. */
export function stubWriter(
  context: Pick<LinkContext, 'base' | 'options' | 'coreToc'> & { readonly loader: ModuleLoader },
  kind: StubKind,
  target: Address,
  targetToc: Address | null,
  toc: Address | null,
): (address: Address) => Uint8Array {
  const { base, options, coreToc, loader } = context;
  return (address) => loader.writeStub(kind, { address, target, targetToc, toc, coreToc, base, options });
}

/**
 * Applies the relocations of an object.
 * @throws ElftraceError 'unknown-relocation', 'unsupported-form' for values that only a linker
 *   makes, 'relocation-out-of-range' and
 *         the errors of binding calls, each with part, section and offset
 */
export function linkPart(part: ObjectPart, context: LinkContext, pass: Pass): void {
  const { scope } = context;
  const { arch } = scope;
  const orders = { code: arch.target.codeEndian, data: arch.target.dataEndian };
  const pairs = new Pairs(part, context);
  for (const { section, table, row } of relocationsOf(part)) {
    const own = part.sectionOf[section]!;
    if ((own.name === scope.loader.descriptors) !== (pass === 'descriptors')) continue;
    const offset = Number(table.offset[row]!);
    const rule = arch.relocations.get(table.type[row]!);
    const where: ErrorContext = { section: own.name, offset: BigInt(offset) };
    if (rule === undefined) {
      throw new ElftraceError('unknown-relocation', `${part.name}: relocation type ${table.type[row]!} is not known`, {
        ...where,
        value: table.type[row]!,
      });
    }
    const isUleb = rule.rule === 'uleb-set' || rule.rule === 'uleb-sub';
    if (rule.rule === 'align') checkAligned(part, own, offset, table.addend[row]!, where);
    if (rule.rule === 'none' || (rule.field.slices.length === 0 && !isUleb)) continue;
    if (own.contents === null) {
      throw new ElftraceError('elf-malformed', `${part.name}: ${rule.name} in a section without bytes`, where);
    }
    const addend = table.addends === 'place' ? heldAddend(own.contents, offset, rule, orders.data) : table.addend[row]!;
    const place: Place = { part, section: own, offset, rule, addend, where };
    const symbol = table.symbol[row]!;
    const resolved = scope.resolve(part, symbol);
    try {
      if (isUleb) pairs.uleb(place, resolved);
      else if (rule.branch !== undefined && rule.rule === 'pcrel') bindBranch(place, resolved, context);
      else applyValue(place, symbol, resolved, context, pairs);
    } catch (error) {
      throw located(error, place, resolved);
    }
  }
}

interface Place {
  readonly part: ObjectPart;
  readonly section: PartSection;
  readonly offset: number;
  readonly rule: RelocationRow;
  readonly addend: bigint;
  readonly where: ErrorContext;
}

const addressOf = ({ section, offset }: Place): Address => section.address + BigInt(offset);
const nameOf = (resolved: Resolved): string =>
  resolved.kind === 'absent' ? 'an undefined weak symbol' : resolved.name;

/** Puts part and place before the message of an error that does not have them. */
function located(error: unknown, place: Place, resolved: Resolved): unknown {
  if (!(error instanceof ElftraceError) || error.message.startsWith(place.part.name)) return error;
  let hint = '';
  if (place.rule.rule === 'toc-relative' && error.code === 'relocation-out-of-range') {
    hint =
      ': the TOC of the module is larger than 64 KB and this code addresses it with 16 bits (compile with -mcmodel=medium)';
  }
  return new ElftraceError(
    error.code,
    `${place.part.name}: ${place.section.name}+${hex(place.offset)} (${nameOf(resolved)}): ${error.message}${hint}`,
    { ...place.where, ...error.context, symbol: nameOf(resolved) },
  );
}

function heldAddend(bytes: Uint8Array, offset: number, rule: RelocationRow, endian: 'little' | 'big'): bigint {
  const view = new ByteView(bytes, endian, rule.name);
  if (rule.field.sizeBytes === 8) return view.i64(offset);
  if (rule.field.sizeBytes === 4) return BigInt(view.i32(offset));
  throw new ElftraceError('unsupported-form', `${rule.name} without an addend of its own is not applied`);
}

/** Address of the GOT slot of a symbol; its word is written. */
function fillSlot(part: ObjectPart, symbol: SymbolIndex, resolved: Resolved, context: LinkContext): Address | null {
  const { arch } = context.scope;
  const offset = part.got?.offsetOf.get(symbol);
  if (part.got === null || offset === undefined) return null;
  const value =
    resolved.kind === 'absent'
      ? 0n
      : resolved.kind === 'code'
        ? context.scope.callTarget(resolved, 0n).code
        : resolved.value;
  new ByteView(part.got.section.contents!, arch.target.dataEndian, '.got').insertWord(
    offset,
    value,
    arch.target.wordBytes,
  );
  return part.got.section.address + BigInt(offset);
}

/**
 * ALIGN says how many bytes of nops the assembler put so that a linker can leave what alignment
 * needs. Nothing is deleted here: they must fit as they are. The alignment is the power of two
 * above that number (psABI 8.4).
 */
function checkAligned(
  part: ObjectPart,
  section: PartSection,
  offset: number,
  bytes: bigint,
  where: ErrorContext,
): void {
  let align = 2n;
  while (align <= bytes) align *= 2n;
  const behind = section.address + BigInt(offset) + bytes;
  if (behind % align === 0n) return;
  throw new ElftraceError(
    'relocation-misaligned',
    `${part.name}: ${section.name}+${hex(offset)}: what follows must be aligned to ${align} and is at ${hex(behind)}: a linker would delete nops, ` +
      'a module loader does not (compile with -mno-relax)',
    { ...where, value: behind, expected: `multiple of ${align}` },
  );
}

/** Relocations of a part that need another one. */
class Pairs {
  /** Upper parts by the address of their instruction; made when the first lower part asks. */
  private highs: Map<Address, { readonly place: Place; readonly symbol: SymbolIndex }> | null = null;
  /** The value of a SET_ULEB128 until the SUB_ULEB128 at the same place comes. */
  private readonly ulebs = new Map<Address, bigint>();

  constructor(
    private readonly part: ObjectPart,
    private readonly context: LinkContext,
  ) {}

  /**
   * The value of the upper part at `label`.
   * @throws ElftraceError 'bad-reference' when there is none
   */
  high(label: Address): bigint {
    const { scope } = this.context;
    if (this.highs === null) {
      this.highs = new Map();
      for (const { section, table, row } of relocationsOf(this.part)) {
        const rule = scope.arch.relocations.get(table.type[row]!);
        if (rule?.part !== 'hi20' || (rule.rule !== 'pcrel' && rule.rule !== 'got-pcrel')) continue;
        const own = this.part.sectionOf[section]!;
        const offset = Number(table.offset[row]!);
        const where = { section: own.name, offset: BigInt(offset) };
        const place: Place = { part: this.part, section: own, offset, rule, addend: table.addend[row]!, where };
        this.highs.set(addressOf(place), { place, symbol: table.symbol[row]! });
      }
    }
    const found = this.highs.get(label);
    if (found === undefined) {
      throw new ElftraceError('bad-reference', `no upper part of an address stands at ${hex(label)}`, {
        address: label,
      });
    }
    const resolved = scope.resolve(this.part, found.symbol);
    return valueOf(found.place, found.symbol, resolved, this.context, this) ?? 0n;
  }

  /** ULEB128 data keep their length: the assembler made it long enough. */
  uleb(place: Place, resolved: Resolved): void {
    const { rule, section, offset } = place;
    const value = (resolved.kind === 'absent' ? 0n : this.context.scope.callTarget(resolved, 0n).code) + place.addend;
    const at = addressOf(place);
    if (rule.rule === 'uleb-set') {
      this.ulebs.set(at, value);
      return;
    }
    const set = this.ulebs.get(at);
    const bytes = section.contents!;
    if (set === undefined || set < value) {
      throw new ElftraceError('unsupported-form', `${rule.name} without a SET_ULEB128 that is not less`);
    }
    let rest = set - value;
    let position = offset;
    for (;;) {
      const last = bytes[position];
      if (last === undefined) throw new ElftraceError('elf-malformed', `${rule.name}: the number has no end`);
      bytes[position++] = Number(rest & 0x7fn) | (last & 0x80);
      rest >>= 7n;
      if ((last & 0x80) === 0) break;
    }
    if (rest !== 0n) {
      const room = 7n * BigInt(position - offset);
      throw new ElftraceError(
        'relocation-out-of-range',
        `${rule.name}: ${hex(set - value)} has more than ${room} bits`,
        {
          value: set - value,
        },
      );
    }
  }
}

function applyValue(place: Place, number: number, resolved: Resolved, context: LinkContext, pairs: Pairs): void {
  const { section, offset, rule } = place;
  const { target } = context.scope.arch;
  const value = valueOf(place, number, resolved, context, pairs);
  if (value === null || section.contents === null) return;
  applyRelocation(rule, section.contents, offset, value, { code: target.codeEndian, data: target.dataEndian });
}

function valueOf(place: Place, number: number, resolved: Resolved, context: LinkContext, pairs: Pairs): bigint | null {
  const { part, section, offset, rule, addend } = place;
  const { arch } = context.scope;
  const { target } = arch;
  const gotSlot = rule.rule.startsWith('got-') ? fillSlot(part, number, resolved, context) : null;
  // A weak symbol that no part defines is 0; what is relative to the place stays relative to it.
  const symbol =
    resolved.kind === 'absent'
      ? 0n
      : resolved.kind === 'code' || rule.branch !== undefined
        ? context.scope.callTarget(resolved, 0n).code
        : resolved.value;
  const orders = { code: target.codeEndian, data: target.dataEndian };
  return computeRelocation(
    rule,
    {
      symbol,
      addend,
      ...(rule.rule === 'pcrel-low' ? { paired: pairs.high(symbol) } : {}),
      ...(rule.rule === 'add' || rule.rule === 'sub'
        ? { held: extractRelocation(rule, section.contents!, offset, orders) }
        : {}),
      place: addressOf(place),
      base: 0n,
      ...(part.toc === null ? {} : { toc: part.toc }),
      ...(gotSlot === null ? {} : { gotSlot }),
      ...(resolved.kind === 'defined' ? { symbolSize: resolved.size } : {}),
    },
    target.wordBytes,
  );
}

/**
 * Makes a branch to an undefined weak function go nowhere.
 * @throws ElftraceError 'unsupported-form' where the branch has no room for what does nothing
 */
function skipBranch(bytes: Uint8Array, offset: number, rule: RelocationRow, forms: readonly SkippedBranch[]): void {
  const form = forms.find(({ over, delta }) => over === null || bytes[offset + delta] === over);
  if (form === undefined || form.delta + form.bytes.length > rule.field.sizeBytes) {
    throw new ElftraceError('unsupported-form', `${rule.name} to an undefined weak symbol`);
  }
  const { delta, bytes: nothing } = form;
  for (let at = delta; at < rule.field.sizeBytes; at += nothing.length) bytes.set(nothing, offset + at);
}

function bindBranch(place: Place, resolved: Resolved, context: LinkContext): void {
  const { part, section, offset, rule } = place;
  const { scope, stubs } = context;
  const { arch, loader } = scope;
  const bytes = section.contents!;
  const from = addressOf(place);
  const view = new ByteView(bytes, arch.target.codeEndian, section.name);
  const word = (delta: number): number => {
    const at = offset + delta;
    return at < 0 || at + 4 > bytes.length ? -1 : view.u32(at);
  };
  const bias = loader.branchBias;
  const store = (target: Address): void => {
    applyRelocation(rule, bytes, offset, BigInt.asIntN(arch.target.wordBytes * 8, target - bias - from), {
      code: arch.target.codeEndian,
      data: arch.target.dataEndian,
    });
  };
  if (resolved.kind === 'absent') {
    skipBranch(bytes, offset, rule, loader.skippedBranches);
    return;
  }
  const target = scope.callTarget(resolved, rule.addendIgnored === true ? 0n : place.addend + bias);
  if (rule.stubAllowed !== true) {
    store(target.code + BigInt(target.toc === part.toc ? target.localEntry : 0));
    return;
  }
  const binding = loader.bindCall({ type: rule.type, place: from, word, target, toc: part.toc });
  switch (binding.kind) {
    case 'direct':
      store(binding.target);
      return;
    case 'refused':
      throw new ElftraceError(binding.code, `the call of ${target.name}: ${binding.reason}`, { address: from });
    case 'stub': {
      const problem = context.landing(target.name, target.code);
      if (problem !== null) {
        throw new ElftraceError('no-landing-pad', `the call of ${target.name} needs a stub: ${problem} [M-PAD-5]`, {
          address: from,
          symbol: target.name,
        });
      }
      const init = loader.stubs.initSection !== null && part.isInit.has(section);
      const write = stubWriter({ ...context, loader }, binding.stub, target.code, target.toc, part.toc);
      store(stubs.get(binding.stub, target.code, from, init, target.name, write));
      if (binding.restore !== null) view.insertU32(offset + binding.restore.delta, binding.restore.word);
      return;
    }
    default:
      binding satisfies never;
  }
}
