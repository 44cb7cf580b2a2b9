/**
 * Accesses that no window serves in the fast path of tier 0: misaligned, a fault, watched, of code,
 * or across windows.
 */
import { CONTROL, STATE } from './host.js';
import { writeTrampoline } from './encoder.js';
import { HEADER_BYTES, RECORD_BYTES } from './handlers.js';
import type { AccessRow, Op } from '../machine/ir.js';
import { checkCpu, synchronise } from './parts.js';
import type { MachineParts } from './parts.js';
import { rewind } from './running.js';
import type { Running } from './running.js';
import type { StopReason } from './stops.js';
import type { Translated } from './translations.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

/** An access of a block that tier 0 left for. */
interface Missed {
  readonly owner: Translated;
  /** Its record in the block. */
  readonly index: number;
  /** Its instruction in the block. */
  readonly at: number;
  readonly op: Op;
  readonly row: AccessRow;
  readonly address: Address;
  readonly access: 'read' | 'write';
}

/** `index`: the record of the access. */
export function serveMiss(parts: MachineParts, run: Running, owner: Translated, index: number): StopReason | null {
  const { records } = parts.translations.describe(owner);
  const op = records.ops[index];
  const at = records.at[index]!;
  const row = op?.row;
  if (row?.form === 'aligned') {
    const instruction = rewind(parts, run, owner, at);
    synchronise(parts, parts.cpus.index);
    return { kind: 'trap', trap: 'alignment', instruction };
  }
  if (!row || (row.form !== 'load' && row.form !== 'store')) {
    throw new ElftraceError('internal', 'a missed access without an access');
  }
  const address = parts.host.u64[CONTROL.value >> 3]!;
  const access = row.form === 'load' ? 'read' : 'write';
  const missed: Missed = { owner, index, at, op, row, address, access };
  const bad = parts.memory.check(address, row.bytes, access);
  if (bad !== null) return serveFault(parts, run, missed, bad);
  if (parts.watches.covers({ address, size: row.bytes, access })) {
    const served = serveWatches(parts, run, missed);
    if (served !== 'seen') return served;
  }
  if (access === 'write' && parts.translations.changesWith(address, row.bytes)) {
    rewind(parts, run, owner, at);
    parts.stores.toCode(address, row.bytes);
    run.alone = true;
    return null;
  }
  // Where there are many windows, the one that is accessed now gets a descriptor.
  parts.memory.touch(address);
  perform(parts, missed);
  const record = owner.header + HEADER_BYTES + RECORD_BYTES * (index + 1);
  run.entry = writeTrampoline(parts.host, record, 0);
  return null;
}

function serveFault(parts: MachineParts, run: Running, missed: Missed, bad: Address): StopReason | null {
  const instruction = rewind(parts, run, missed.owner, missed.at);
  const access = missed.row.update === true ? 'write' : missed.access;
  synchronise(parts, parts.cpus.index);
  if (!parts.onFault(bad, access)) return { kind: 'fault', address: bad, access, instruction };
  checkCpu(parts, run.cpu);
  return null;
}

/**
 * Calls the watches of an access. `seen`: they were called before; null: the instruction begins
 * anew behind the hooks, and passes those accesses that the watches have seen.
 */
function serveWatches(parts: MachineParts, run: Running, missed: Missed): StopReason | null | 'seen' {
  const { cpu } = run;
  const { owner, at, op, row, address, access } = missed;
  const instructions = cpu.instructions - (owner.count - at);
  const instruction = parts.translations.describe(owner).block.instructions[at]!;
  let pass = cpu.passWatch;
  if (pass?.pc !== instruction || pass.instructions !== instructions) {
    pass = { pc: instruction, instructions, served: 0 };
    run.watched = 0;
  }
  if (++run.watched <= pass.served) return 'seen';
  rewind(parts, run, owner, at);
  cpu.passWatch = { ...pass, served: run.watched };
  const bytes = access === 'write' ? bytesOfStore(parts, op, row) : null;
  const event = { address, size: row.bytes, access, instruction, bytes } as const;
  const stop = parts.watches.serve(event);
  checkCpu(parts, cpu);
  return stop ? { kind: 'hook', address: instruction, watch: event } : null;
}

function bytesOfStore({ host, lifter }: MachineParts, op: Op, row: AccessRow): Uint8Array {
  let bytes: Uint8Array;
  if (typeof op.c === 'number') {
    const place = STATE + lifter.slots.offset(op.c);
    bytes = host.u8.slice(place, place + row.bytes);
  } else bytes = new Uint8Array(BigUint64Array.of(BigInt.asUintN(64, op.c)).buffer).slice(0, row.bytes);
  return row.endian === 'big' ? bytes.reverse() : bytes;
}

/** Performs an access that crosses windows, or that is watched, and is allowed. */
function perform(parts: MachineParts, { op, row, address }: Missed): void {
  const { memory, host, lifter, stores } = parts;
  if (row.form === 'load') {
    const bytes = memory.read(address, row.bytes)!;
    if (row.endian === 'big') bytes.reverse();
    const wide = new Uint8Array(row.type === 'v128' ? 16 : 8);
    wide.set(bytes);
    if (row.signed && bytes.at(-1)! >= 0x80) wide.fill(0xff, row.bytes);
    host.u8.set(wide, STATE + lifter.slots.offset(op.d));
  } else {
    stores.byCpu(() => memory.write(address, bytesOfStore(parts, op, row)));
  }
}
