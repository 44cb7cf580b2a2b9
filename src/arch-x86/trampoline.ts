/**
 * Private trampolines of x86-64: a copy of a shared entry that finds its own ops and calls that
 * ops' function straight. Owns their bytes (X-TR-1 to 12), the change of
 * their inner call, and what can be read back from them. Where memory comes from, how text is read
 * and how it is written while processors run is the business of a `TextSeam`.
 *
 *            2014                                     today
 *   0        the entry, label to `end`                the entry, label to `end`
 *   o          48 8b 15 …  mov ops(%rip),%rdx           the same
 *   c          e8 …        call ops.func                the same
 *   j          —                                        66 90 for the jnz of the register entry
 *   S        e9 …          jmp ftrace_return          c3 [cc] or e9 … (return thunk)
 *   S+5 …    address of the ops, 8 bytes              the same, behind the return
 *
 * A copy of code works elsewhere only where nothing in it depends on the place. Two things here do
 * and are made anew: the load of the ops word, whose word moves with the block, and the call. 2014
 * trusted that there is nothing else; here the copy is decoded, and an operand relative to rip or a
 * branch that leaves it refuses the copy (today such displacements are adjusted). For the same
 * reason a finished block cannot be moved: its load would be right, its call and its last jump off
 * by the distance (T-X86-39).
 *
 * The copy of 2014 holds the template's own call displacement until the call is set (X-TR-10): such
 * a block must not be reachable.
 */
import type {
  OpsTrampoline,
  OwnTrampoline,
  PrivateTrampolines,
  TemplateKind,
  TextSeam,
  TrampolineLayout,
  TrampolineOps,
  TrampolinePlace,
  TrampolineUpdate,
  TrampolineVariant,
} from '../machine/trampolines.js';
import { reaches } from '../bits.js';
import { ByteView, concatBytes } from '../bytes.js';
import { hex, hexBytes } from '../errors.js';
import type { Address } from '../units.js';
import { decodeInto, X86Instruction } from './isa.js';
import { CALL5_REACH, encodeBranch5 } from './sites.js';

export type {
  OpsTrampoline,
  OwnTrampoline,
  TemplateKind,
  TextSeam,
  TrampolineOps,
  TrampolineVariant,
} from '../machine/trampolines.js';

/**
 * Places of an entry that a trampoline is made from, as offsets from `start`; the copy is [start,
 * start + size).
 */
export interface TrampolineTemplate {
  readonly kind: TemplateKind;
  readonly variant: TrampolineVariant;
  readonly start: Address;
  /** S: bytes up to the `end` label. */
  readonly size: number;
  /** o: the load of the ops word. */
  readonly opsLoad: number;
  /** The patched call. */
  readonly call: number;
  /** The jump to a direct caller; null where the entry has none. */
  readonly directJump: number | null;
  /** Where the 2014 form jumps to behind the copy; null in the modern form. */
  readonly returnTo: Address | null;
}

/** How a trampoline of today ends. */
export type TrampolineReturn =
  /** `c3`, with `cc` behind it where straight-line speculation is stopped. */
  | { readonly kind: 'ret'; readonly sizeBytes: 1 | 2 }
  /** `e9` to the return thunk. */
  | { readonly kind: 'thunk'; readonly address: Address };

export type TrampolineRefusalCode =
  /** A label of the entry is not there (T-X86-28). */
  | 'label-missing'
  /** The labels do not lie in the order that an entry has. */
  | 'label-order'
  /** The template cannot be read (X-TR-3). */
  | 'template-unreadable'
  /** No memory (T-X86-9). */
  | 'no-memory'
  /** No `48 8b 15` at the ops label (X-TR-4). */
  | 'ops-load'
  /** No call at the call label. */
  | 'inner-call'
  /** No short jump at the label of the direct jump (X-TR-11). */
  | 'direct-jump'
  /** Bytes of the template that are no instruction, or a label inside one. */
  | 'undecodable'
  /** Another operand relative to rip (X-TR-9). */
  | 'rip-relative'
  /** A branch that leaves the copy (X-TR-9). */
  | 'branch-leaves'
  /** A displacement that does not fit 32 bits (T-X86-41). */
  | 'out-of-reach'
  /** The block could not be written. */
  | 'write-failed';

export interface TrampolineRefusal {
  readonly kind: 'refused';
  readonly code: TrampolineRefusalCode;
  readonly reason: string;
}

export interface BuiltTrampoline extends TrampolineLayout {
  readonly kind: 'built';
  readonly bytes: Uint8Array;
}

export interface TrampolineRequest {
  readonly template: TrampolineTemplate;
  /** Bytes of the template, [start, start + size). */
  readonly bytes: Uint8Array;
  /** Where the block will lie. */
  readonly address: Address;
  readonly ops: Address;
  /**
   * What the inner call goes to; null leaves the displacement as copied, which only the 2014 form
   * does (X-TR-10).
   */
  readonly callee: Address | null;
  /** Modern form; default: one `c3`. */
  readonly returns?: TrampolineReturn;
  /** First and last site that will call the block: both must reach it. */
  readonly callers?: { readonly first: Address; readonly last: Address };
}

/** The load that the ops label stands at; a displacement of four bytes follows. */
const OPS_LOAD = Uint8Array.of(0x48, 0x8b, 0x15);
const OPS_LOAD_BYTES = 7;
const OPS_WORD_BYTES = 8;
const CALL_BYTES = 5;
const NOP2 = Uint8Array.of(0x66, 0x90);
const MIN_32 = -0x8000_0000n;
const MAX_32 = 0x7fff_ffffn;

function refused(code: TrampolineRefusalCode, reason: string): TrampolineRefusal {
  return { kind: 'refused', code, reason };
}

const LABELS: Readonly<Record<TemplateKind, { readonly start: string; readonly call: string }>> = {
  plain: { start: 'ftrace_caller', call: 'ftrace_call' },
  regs: { start: 'ftrace_regs_caller', call: 'ftrace_regs_call' },
};

/**
 * Finds the template of an entry through its labels, which must be global (T-X86-28).
 * @param find  address of a global symbol, or null
 */
export function findTemplate(
  kind: TemplateKind,
  variant: TrampolineVariant,
  find: (symbol: string) => Address | null,
): TrampolineTemplate | TrampolineRefusal {
  const { start, call } = LABELS[kind];
  const names = [start, `${start}_op_ptr`, call, `${start}_end`];
  if (variant === '2014') names.push('ftrace_return');
  else if (kind === 'regs') names.push(`${start}_jmp`);
  const places: Address[] = [];
  const missing: string[] = [];
  for (const name of names) {
    const place = find(name);
    if (place === null) missing.push(name);
    else places.push(place);
  }
  if (missing.length > 0) {
    return refused('label-missing', `the ${kind} entry has no global label ${missing.join(', ')}`);
  }
  const [first, opsLoad, callAt, end] = places;
  const last = places[4];
  return checkOrder({
    kind,
    variant,
    start: first!,
    size: Number(end! - first!),
    opsLoad: Number(opsLoad! - first!),
    call: Number(callAt! - first!),
    directJump: variant === 'modern' && last !== undefined ? Number(last - first!) : null,
    returnTo: variant === '2014' ? last! : null,
  });
}

/** start ≤ ops load < call < direct jump < end, none overlapping another. */
function checkOrder(template: TrampolineTemplate): TrampolineTemplate | TrampolineRefusal {
  const { opsLoad, call, directJump, size } = template;
  const afterCall = call + CALL_BYTES;
  const ordered =
    opsLoad >= 0 &&
    opsLoad + OPS_LOAD_BYTES <= call &&
    (directJump === null ? afterCall <= size : afterCall <= directJump && directJump + NOP2.length <= size) &&
    size <= MAX_TEMPLATE_BYTES;
  if (ordered) return template;
  const jump = directJump === null ? '' : `, direct jump ${hex(directJump)}`;
  return refused(
    'label-order',
    `labels of the ${template.kind} entry: ops load ${hex(opsLoad)}, call ${hex(call)}${jump}, end ${hex(size)}`,
  );
}

/**
 * Entries have some hundred bytes; a label that lies elsewhere would make a template of anything.
 */
const MAX_TEMPLATE_BYTES = 4096;

function holds(bytes: Uint8Array, offset: number, expected: Uint8Array): boolean {
  for (let i = 0; i < expected.length; i++) if (bytes[offset + i] !== expected[i]) return false;
  return true;
}

/** Bytes of the generated end: X-TR-2, X-TR-11. */
function tailBytes(variant: TrampolineVariant, returns: TrampolineReturn): number {
  return variant === '2014' || returns.kind === 'thunk' ? 5 : returns.sizeBytes;
}

const PLAIN_RETURN: TrampolineReturn = { kind: 'ret', sizeBytes: 1 };

/** Where everything lies in a block that would be made of a template. */
export function trampolineLayout(
  template: TrampolineTemplate,
  returns: TrampolineReturn = PLAIN_RETURN,
): TrampolineLayout {
  const opsOffset = template.size + tailBytes(template.variant, returns);
  return {
    template: template.kind,
    variant: template.variant,
    sizeBytes: opsOffset + OPS_WORD_BYTES,
    bodyBytes: template.size,
    opsLoadOffset: template.opsLoad,
    callOffset: template.call,
    opsOffset,
  };
}

/**
 * X-TR-4: what stands at the places of a template, looked for in the copy, which is what will run.
 */
function checkPlaces(bytes: Uint8Array, { opsLoad, call, directJump }: TrampolineTemplate): TrampolineRefusal | null {
  const shown = (at: number, size: number): string => `at ${hex(at)} stands ${hexBytes(bytes.slice(at, at + size))}`;
  if (!holds(bytes, opsLoad, OPS_LOAD)) return refused('ops-load', `${shown(opsLoad, 3)}, not 48 8b 15`);
  if (bytes[call] !== 0xe8) return refused('inner-call', `${shown(call, 1)}, not a call`);
  if (directJump !== null && bytes[directJump] !== 0x75) {
    return refused('direct-jump', `${shown(directJump, 1)}, not 75`);
  }
  return null;
}

/**
 * Makes the bytes of a trampoline; writes nothing anywhere.
 * @returns the block, or why there can be none; never throws for bad templates
 * Source: X-TR-1 to 11
 */
export function buildTrampoline(request: TrampolineRequest): BuiltTrampoline | TrampolineRefusal {
  const { template, address, ops, callee } = request;
  const { variant, size, opsLoad, call, directJump } = template;
  const returns = request.returns ?? PLAIN_RETURN;
  const wrong = checkOrder(template);
  if (wrong.kind === 'refused') return wrong;
  if (request.bytes.length !== size) {
    return refused(
      'template-unreadable',
      `the template has ${String(size)} bytes, ${String(request.bytes.length)} could be read`,
    );
  }
  const layout = trampolineLayout(template, returns);
  const bytes = new Uint8Array(layout.sizeBytes);
  const view = new DisplacementWriter(bytes, address);
  bytes.set(request.bytes);

  const misplaced = checkPlaces(bytes, template);
  if (misplaced !== null) return misplaced;
  // No direct call gets here: a site with a direct caller and no other ops calls that one.
  if (directJump !== null) bytes.set(NOP2, directJump);
  const moved = fixCopy(bytes, request);
  if (moved !== null) return moved;

  // The end. Two bytes are always written, so a return of one is followed by the ops word (section
  // 7).
  if (template.returnTo !== null) {
    if (!view.branch(size, 0xe9, template.returnTo)) return outOfReach('ftrace_return', template.returnTo, address);
  } else if (returns.kind === 'thunk') {
    if (!view.branch(size, 0xe9, returns.address)) return outOfReach('the return thunk', returns.address, address);
  } else {
    bytes.set([0xc3, 0xcc], size);
  }
  // X-TR-5: both ends move together, so this does not depend on the address.
  view.set32(opsLoad + 3, BigInt(layout.opsOffset - opsLoad - OPS_LOAD_BYTES));
  new ByteView(bytes, 'little').insertU64(layout.opsOffset, BigInt.asUintN(64, ops));
  if (callee !== null) {
    if (!view.branch(call, 0xe8, callee)) return outOfReach('the callback', callee, address);
  } else if (variant === 'modern') {
    return refused('inner-call', 'a trampoline of today is made with its call');
  }
  for (const site of request.callers ? [request.callers.first, request.callers.last] : []) {
    if (!reaches(CALL5_REACH, site, address)) {
      return refused('out-of-reach', `the site at ${hex(site)} does not reach a trampoline at ${hex(address)}`);
    }
  }
  return { kind: 'built', bytes, ...layout };
}

function outOfReach(what: string, target: Address, address: Address): TrampolineRefusal {
  return refused('out-of-reach', `${what} at ${hex(target)} is more than 2 GiB from a trampoline at ${hex(address)}`);
}

/** Writes branches and displacements of a block that will lie at `address`. */
class DisplacementWriter {
  private readonly view: ByteView;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly address: Address,
  ) {
    this.view = new ByteView(bytes, 'little');
  }

  set32(offset: number, value: bigint): void {
    this.view.insertU32(offset, Number(BigInt.asUintN(32, value)));
  }

  /** False where the branch does not reach. */
  branch(offset: number, opcode: 0xe8 | 0xe9, target: Address): boolean {
    const from = this.address + BigInt(offset);
    if (!reaches(CALL5_REACH, from, target)) return false;
    this.bytes.set(encodeBranch5(opcode, from, target), offset);
    return true;
  }
}

/**
 * Everything else in the copy that depends on the place: 2014 has nothing to mend it with, today
 * displacements are adjusted by the distance. A branch to the end of the copy stays: there stands
 * the generated end, which does what stood behind the template.
 */
function fixCopy(bytes: Uint8Array, request: TrampolineRequest): TrampolineRefusal | null {
  const { template, address } = request;
  const { size, opsLoad, call, directJump } = template;
  const shift = template.start - address;
  const instruction = new X86Instruction();
  const writer = new DisplacementWriter(bytes, address);
  const marks = new Set([opsLoad, call, ...(directJump === null ? [] : [directJump])]);
  let at = 0;
  while (at < size) {
    const length = decodeInto(instruction, bytes, at, size);
    if (length === 0) return refused('undecodable', `no instruction at ${hex(at)} of the ${template.kind} entry`);
    marks.delete(at);
    const next = at + length;
    if (at !== opsLoad && at !== call) {
      const branch = isRelativeBranch(instruction);
      const field = branch ? instruction.immOffset : instruction.ripRelative ? instruction.dispOffset : -1;
      const width = branch ? instruction.immBytes : instruction.dispBytes;
      const value = branch ? instruction.imm : instruction.disp;
      const target = next + value;
      if (field >= 0 && (target < 0 || target > size)) {
        const what = branch ? 'branch' : 'operand relative to rip';
        const place = `${what} at ${hex(at)} of the ${template.kind} entry to ${hex(template.start + BigInt(target))}`;
        if (template.variant === '2014') {
          return refused(branch ? 'branch-leaves' : 'rip-relative', `${place}: it would lead elsewhere in a copy`);
        }
        const adjusted = BigInt(value) + shift;
        if (width !== 4 || adjusted < MIN_32 || adjusted > MAX_32) {
          return refused(
            width === 4 ? 'out-of-reach' : 'branch-leaves',
            `${place}: it cannot be adjusted for a copy at ${hex(address)}`,
          );
        }
        writer.set32(at + field, adjusted);
      }
    }
    at = next;
  }
  if (marks.size === 0) return null;
  const inside = [...marks].map((each) => hex(each)).join(', ');
  return refused('undecodable', `labels of the ${template.kind} entry inside instructions: ${inside}`);
}

function isRelativeBranch(instruction: X86Instruction): boolean {
  const code = instruction.row?.immediates[0];
  return code === 'J8' || code === 'J32' || code === 'Jz';
}

// -------------------------------------------------------------------------------------- inner call

/** One store into the field of a call: four bytes; the opcode stays. */
export interface CallStore {
  readonly kind: 'store';
  /** Address of the call's first byte; live writes go over the whole instruction. */
  readonly address: Address;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

/**
 * The change of a call instruction, e.g. the inner call of a trampoline (X-TR-7, T-X86-18): all
 * five bytes, of which the opcode is the same.
 * @param instruction  the five bytes that stand there
 */
export function retargetCall(
  instruction: Uint8Array,
  address: Address,
  target: Address,
): CallStore | TrampolineRefusal {
  if (instruction.length !== CALL_BYTES || instruction[0] !== 0xe8) {
    return refused('inner-call', `at ${hex(address)} stands ${hexBytes(instruction)}, not a call (EINVAL)`);
  }
  if (!reaches(CALL5_REACH, address, target)) return outOfReach('the callback', target, address);
  return { kind: 'store', address, before: instruction.slice(), after: encodeBranch5(0xe8, address, target) };
}

/** Where a call or jump of five bytes goes; null where none of that opcode stands there. */
export function branchTarget(instruction: Uint8Array, address: Address, opcode: 0xe8 | 0xe9 = 0xe8): Address | null {
  if (instruction.length < CALL_BYTES || instruction[0] !== opcode) return null;
  const displacement = new ByteView(instruction, 'little').u32(1) | 0;
  return BigInt.asUintN(64, address + 5n + BigInt(displacement));
}

// ------------------------------------------------------------------------------------ reading back

/** What a finished block does where it lies. */
export interface TrampolineReading {
  /**
   * Address of the ops that its load finds; null where the load does not lead to the block's own
   * word.
   */
  readonly ops: Address | null;
  readonly callee: Address | null;
  readonly end:
    { readonly kind: 'jump'; readonly target: Address } | { readonly kind: 'ret' } | { readonly kind: 'unknown' };
}

/** Reads a finished block at an address. */
export function readTrampoline(bytes: Uint8Array, address: Address, layout: TrampolineLayout): TrampolineReading {
  const view = new ByteView(bytes, 'little');
  const { opsLoadOffset: load, opsOffset, callOffset, bodyBytes } = layout;
  const loads = holds(bytes, load, OPS_LOAD) && load + OPS_LOAD_BYTES + (view.u32(load + 3) | 0) === opsOffset;
  const jump = branchTarget(bytes.subarray(bodyBytes), address + BigInt(bodyBytes), 0xe9);
  return {
    ops: loads ? view.u64(opsOffset) : null,
    callee: branchTarget(bytes.subarray(callOffset), address + BigInt(callOffset)),
    end:
      jump !== null
        ? { kind: 'jump', target: jump }
        : bytes[bodyBytes] === 0xc3
          ? { kind: 'ret' }
          : { kind: 'unknown' },
  };
}

function isJumpTo({ end }: TrampolineReading, target: Address): boolean {
  return end.kind === 'jump' && end.target === target;
}

/**
 * Whether a block does what it was made for; a moved one does not (T-X86-39): it must be made anew
 * at its place.
 * @returns one line per difference
 */
export function checkTrampoline(reading: TrampolineReading, made: TrampolineReading): readonly string[] {
  const problems: string[] = [];
  const text = (value: Address | null): string => (value === null ? 'nothing' : hex(value));
  if (reading.ops !== made.ops) problems.push(`loads ${text(reading.ops)}, expected the ops at ${text(made.ops)}`);
  if (reading.callee !== made.callee) problems.push(`calls ${text(reading.callee)}, expected ${text(made.callee)}`);
  const endOf = ({ end }: TrampolineReading): string => (end.kind === 'jump' ? `jmp ${hex(end.target)}` : end.kind);
  if (endOf(reading) !== endOf(made)) problems.push(`ends in ${endOf(reading)}, expected ${endOf(made)}`);
  return problems;
}

/** What a site's target may be, for the question what it calls in the end. */
export type CalleeQuestion =
  /** A trampoline that we made (ALLOC_TRAMP). */
  | { readonly kind: 'trampoline'; readonly address: Address; readonly layout: TrampolineLayout }
  /** A shared entry: its patched call, chosen by REGS_EN. */
  | { readonly kind: 'entry'; readonly call: Address }
  /** A trampoline that the user gave; only that of the graph tracer is known. */
  | {
      readonly kind: 'static';
      readonly address: Address;
      readonly graphEntry: Address | null;
      readonly graphHook: Address;
    };

/** Reverse lookup (X-TR-12): what is called in the end, or null where that cannot be said. */
export function calleeOf(question: CalleeQuestion, read: TextSeam['read']): Address | null {
  switch (question.kind) {
    case 'trampoline':
      return callAt(question.address + BigInt(question.layout.callOffset), read);
    case 'entry':
      return callAt(question.call, read);
    case 'static':
      return question.address === question.graphEntry ? question.graphHook : null;
    default:
      return question satisfies never;
  }
}

function callAt(address: Address, read: TextSeam['read']): Address | null {
  const bytes = read(address, CALL_BYTES);
  return bytes === null ? null : branchTarget(bytes, address);
}

// -------------------------------------------------------------------------------------------- life

export interface TrampolineMaker extends TrampolinePlace {
  readonly returns?: TrampolineReturn;
}

const NONE: OpsTrampoline = { kind: 'none' };

/**
 * What registration does with an ops' trampoline (C-TRAMP-2): makes one, re-points the call of
 * ours, leaves a user's alone. Failure is no error (C-TRAMP-4): a warning, and no trampoline, so
 * that sites use the shared entry. Ours is made anew when SAVE_REGS changed since, which 2014
 * forgets (T-X86-44).
 */
export function updateTrampoline(ops: TrampolineOps, maker: TrampolineMaker): TrampolineUpdate {
  const { trampoline } = ops;
  switch (trampoline.kind) {
    case 'user':
      return { trampoline, did: 'nothing' };
    case 'none':
      return create(ops, maker, 'created');
    case 'own': {
      if (trampoline.layout.template === kindOf(ops)) {
        const did = setCall(trampoline, ops.callee, maker.seam);
        return { trampoline, did };
      }
      return { ...create(ops, maker, 'rebuilt'), retired: trampoline };
    }
    default:
      return trampoline satisfies never;
  }
}

/**
 * Gives the memory of ours back; a user's stays. The caller has waited until no thread can be in it
 * (C-Q-5).
 */
export function freeTrampoline(trampoline: OpsTrampoline, seam: TextSeam): OpsTrampoline {
  if (trampoline.kind !== 'own') return trampoline;
  seam.free(trampoline.address, trampoline.layout.sizeBytes);
  return NONE;
}

function kindOf(ops: TrampolineOps): TemplateKind {
  return ops.saveRegs ? 'regs' : 'plain';
}

function create(ops: TrampolineOps, maker: TrampolineMaker, did: 'created' | 'rebuilt'): TrampolineUpdate {
  const { seam, variant } = maker;
  const fail = (refusal: TrampolineRefusal): TrampolineUpdate => {
    seam.warn({ code: refusal.code, reason: refusal.reason });
    return { trampoline: NONE, did: 'failed' };
  };
  const template = findTemplate(kindOf(ops), variant, maker.find);
  if (template.kind === 'refused') return fail(template);
  const { sizeBytes } = trampolineLayout(template, maker.returns);
  const address = seam.allocate(sizeBytes, template.start);
  // T-X86-9: no memory is no reason for a warning.
  if (address === null) return { trampoline: NONE, did: 'failed' };
  const giveUp = (refusal: TrampolineRefusal): TrampolineUpdate => {
    seam.free(address, sizeBytes);
    return fail(refusal);
  };
  const bytes = seam.read(template.start, template.size);
  if (bytes === null) {
    const { start, size, kind } = template;
    return giveUp(
      refused('template-unreadable', `the ${kind} entry, ${String(size)} bytes at ${hex(start)}, cannot be read`),
    );
  }
  const built = buildTrampoline({
    template,
    bytes,
    address,
    ops: ops.address,
    callee: variant === '2014' ? null : ops.callee,
    ...(maker.returns && { returns: maker.returns }),
    ...(maker.callers && { callers: maker.callers }),
  });
  if (built.kind === 'refused') return giveUp(built);
  if (variant === '2014' && !reaches(CALL5_REACH, address + BigInt(built.callOffset), ops.callee)) {
    return giveUp(outOfReach('the callback', ops.callee, address));
  }
  if (!seam.fill(address, built.bytes)) {
    return giveUp(refused('write-failed', `${String(sizeBytes)} bytes at ${hex(address)} cannot be written`));
  }
  const { kind: _kind, bytes: _bytes, ...layout } = built;
  const trampoline: OwnTrampoline = { kind: 'own', address, layout };
  // X-TR-7, X-TR-10: the block is not published, but 2014 uses the live method here as well.
  if (variant === '2014' && setCall(trampoline, ops.callee, seam) === 'failed') {
    // Its call leads nowhere: such a block must never be called.
    return giveUp(refused('write-failed', `the call of the trampoline at ${hex(address)} could not be set`));
  }
  seam.seal(address, sizeBytes);
  return { trampoline, did };
}

/** T-X86-22: a failure is reported and changes nothing; the call still goes where it went. */
function setCall(trampoline: OwnTrampoline, callee: Address, seam: TextSeam): 'nothing' | 'retargeted' | 'failed' {
  const address = trampoline.address + BigInt(trampoline.layout.callOffset);
  const now = seam.read(address, CALL_BYTES);
  const store =
    now === null
      ? refused('inner-call', `the call at ${hex(address)} cannot be read (EFAULT)`)
      : retargetCall(now, address, callee);
  if (store.kind === 'refused') {
    seam.warn({ code: 'call-not-changed', reason: store.reason });
    return 'failed';
  }
  if (holds(store.before, 0, store.after)) return 'nothing';
  if (seam.patch(address, store.before, store.after)) return 'retargeted';
  seam.warn({ code: 'call-not-changed', reason: `the call at ${hex(address)} cannot be written (EPERM)` });
  return 'failed';
}

/** The jump that T-X86-38 names: `e9` from an address to another one. */
export function jumpBytes(address: Address, target: Address): Uint8Array | TrampolineRefusal {
  return reaches(CALL5_REACH, address, target)
    ? concatBytes([encodeBranch5(0xe9, address, target)])
    : outOfReach('the target', target, address);
}

/**
 * Trampolines of programs and kernels of this machine, for what knows no machine. A template that
 * cannot be found says nothing about what stands at an address, so nothing is recognised then.
 */
export const x86Trampolines: PrivateTrampolines = {
  kind: 'private',
  // Only the entries of today have the labels and the return of today's form.
  variantOf: (convention) => (convention === 'modern' ? 'modern' : '2014'),
  update: updateTrampoline,
  recognise(address, ops, callees, { variant, find, seam }) {
    for (const kind of ['plain', 'regs'] as const) {
      const template = findTemplate(kind, variant, find);
      if (template.kind === 'refused') continue;
      const layout = trampolineLayout(template);
      const bytes = seam.read(address, layout.sizeBytes);
      const entry = seam.read(template.start, template.opsLoad);
      if (bytes === null || entry === null || !holds(bytes, 0, entry)) continue;
      const found = readTrampoline(bytes, address, layout);
      // A block that was moved calls and ends elsewhere (T-X86-39): it is made anew, not
      // mended.
      const ends = template.returnTo === null ? found.end.kind === 'ret' : isJumpTo(found, template.returnTo);
      const calls = found.callee !== null && callees.includes(found.callee);
      if (found.ops === ops && ends && calls) return { kind: 'own', address, layout };
    }
    return null;
  },
  fill: 0xcc,
};
