/**
 * Live sessions: the memory of a running machine as the text that a session writes. The copy of the
 * image stays beside it, because shapes read files; before anything is compared it is brought up to
 * date with the machine. Knows a machine by what it needs of it only.
 */
import type { BreakpointPatching, LivePatch } from '../machine/live-patching.js';
import type { ElfImage } from '../elf/image.js';
import { type LoadMap, partAt } from '../program/load-map.js';
import type { Address } from '../units.js';
import type { Text } from './image-memory.js';

/** No stub is larger. */
const stubBytes = 64n;

/** What a session needs of a machine. */
export interface LiveMachine {
  readonly memory: {
    read(address: Address, size: number): Uint8Array | null;
    /**
     * Writes whatever the permissions are, as a kernel does through its own mapping; false where
     * nothing is mapped.
     */
    write(address: Address, bytes: Uint8Array): boolean;
  };
  readonly cpuCount: number;
  /** Makes a CPU see what was stored to code. */
  synchronise(cpu: number): unknown;
}

export interface LiveOptions {
  /**
   * Called for waits: the machine's CPUs must have got past what the wait is for when it returns.
   * Without it a wait is taken to be over, which is right for machines whose CPUs stand outside the
   * tracer.
   */
  readonly quiesce?: (grace: 'read' | 'rude' | 'tasks') => void;
  /**
   * Machines whose instructions have several bytes: stores to code go by the breakpoint protocol.
   * `between` is called after each of its steps with what is published; a caller that lets
   * processors run there serves their breakpoints (`BreakpointPatching.handle`).
   */
  readonly breakpoints?: {
    readonly model: BreakpointPatching;
    readonly isCode: (address: Address) => boolean;
    readonly between: (published: readonly LivePatch[]) => void;
  };
  /** Called for every store before it is made, in order. */
  readonly onStore?: (address: Address, bytes: Uint8Array) => void;
}

/** The text of a machine that runs an image. */
export function liveText(machine: LiveMachine, options: LiveOptions = {}): (image: ElfImage) => Text {
  return (image) => ({
    refresh(address, size) {
      // Bytes that the file has; guests write their data elsewhere, and what they wrote counts.
      for (let at = address; at < address + BigInt(size); at++) {
        const offset = image.fileOffsetOf(at);
        const byte = offset < 0 ? null : machine.memory.read(at, 1);
        if (byte !== null) image.bytes[offset] = byte[0]!;
      }
    },
    store(address, bytes) {
      options.onStore?.(address, bytes);
      const patch = { address, after: bytes };
      const { breakpoints } = options;
      if (!breakpoints?.isCode(address) || !breakpoints.model.canWrite(patch)) {
        return machine.memory.write(address, bytes);
      }
      let published: readonly LivePatch[] = [];
      for (const step of breakpoints.model.steps([patch])) {
        if (step.kind === 'publish') published = step.entries;
        else if (step.kind === 'retract') published = [];
        else if (step.kind === 'store' && !machine.memory.write(step.address, step.bytes)) return false;
        else if (step.kind === 'sync') for (let cpu = 0; cpu < machine.cpuCount; cpu++) machine.synchronise(cpu);
        breakpoints.between(published);
      }
      return true;
    },
    event(step) {
      if (step.kind === 'sync') for (let cpu = 0; cpu < machine.cpuCount; cpu++) machine.synchronise(cpu);
      if (step.kind === 'quiesce') options.quiesce?.(step.grace);
    },
  });
}

/**
 * Whether a CPU at an address is in no tracer: neither in the runtime nor in a stub on the way to
 * it. A thread of which this holds has loaded no ops and will enter none through sites that are off
 * (C-Q-1).
 */
export function outsideTracer(map: LoadMap): (address: Address) => boolean {
  const stubs = map.parts.flatMap(({ stubs: areas, entryStubs }) => [
    ...areas.map(({ address, sizeBytes, count }) => ({ start: address, end: address + BigInt(sizeBytes * count) })),
    ...entryStubs.map(({ address }) => ({ start: address, end: address + stubBytes })),
  ]);
  return (address) =>
    partAt(map, address)?.kind !== 'runtime' && !stubs.some(({ start, end }) => address >= start && address < end);
}
