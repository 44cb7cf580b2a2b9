/**
 * Where threads of a race may execute, and what: in code that is not freed, and of places that are
 * patched only forms of the scene, from where an instruction of them starts.
 */
import { hex, hexBytes } from '../errors.js';
import type { StopReason } from '../emulator/index.js';
import type { Address } from '../units.js';
import type { Books } from './books.js';
import type { Scene, Violation } from './model.js';

/** What an event of a thread violates. */
export type Wrong = Omit<Violation, 'thread'>;

/** What is wrong with the way in which an instruction stopped. */
export function wrongStop(stop: Exclude<StopReason, { kind: 'step-limit' }>, pc: Address): Wrong {
  if (stop.kind === 'fault' && stop.access === 'execute') {
    return { rule: 'wrong-function', message: `nothing can be executed at ${hex(stop.address)}`, address: pc, stop };
  }
  const what =
    stop.kind === 'fault'
      ? `${stop.access} of ${hex(stop.address)}, which is not mapped so`
      : stop.kind === 'trap'
        ? `trap ${stop.trap}`
        : stop.kind === 'unknown-instruction'
          ? `${hexBytes(stop.bytes)} is no instruction`
          : stop.kind;
  return { rule: 'stopped', message: `${what}, at ${hex(pc)}`, address: pc, stop };
}

export class Places {
  /** Code, sorted by start, to tell where a thread got to. */
  private readonly code: Scene['code'];

  constructor(private readonly scene: Pick<Scene, 'code' | 'machine' | 'units'>) {
    this.code = scene.code && [...scene.code].sort((a, b) => (a.start < b.start ? -1 : 1));
  }

  /** What is wrong with executing anything here, now. */
  check(pc: Address, freed: Books['freed']): Wrong | null {
    for (const each of freed) {
      if (pc < each.start || pc >= each.end) continue;
      return { rule: 'freed-memory', message: `${hex(pc)} is executed, of ${each.what}, which is freed`, address: pc };
    }
    if (this.code && !this.inCode(pc)) {
      return { rule: 'wrong-function', message: `${hex(pc)} is reached, where nobody may get`, address: pc };
    }
    for (const { address, forms } of this.scene.units) {
      const size = forms.reduce((most, { bytes }) => Math.max(most, bytes.length), 0);
      if (pc < address || pc >= address + BigInt(size)) continue;
      const seen = this.scene.machine.instructionBytes();
      const at = Number(pc - address);
      const whole = forms.some(
        ({ bytes, starts }) =>
          at < bytes.length &&
          starts.includes(at) &&
          seen.every((byte, i) => at + i >= bytes.length || byte === bytes[at + i]),
      );
      if (whole) continue;
      return {
        rule: 'torn-instruction',
        message: `${hexBytes(seen)} at ${hex(pc)} is no instruction of any of: ${forms.map(({ name }) => name).join(', ')}`,
        address: pc,
      };
    }
    return null;
  }

  private inCode(pc: Address): boolean {
    const code = this.code!;
    let low = 0;
    let high = code.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (code[middle]!.start <= pc) low = middle;
      else high = middle - 1;
    }
    // Extents may contain one another: those in front may reach further.
    for (let at = low; at >= 0; at--) if (pc >= code[at]!.start && pc < code[at]!.end) return true;
    return false;
  }
}
