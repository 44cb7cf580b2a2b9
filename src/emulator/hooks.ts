/**
 * What a machine calls besides the program: hooks in front of instructions, gates in place of them,
 * and watches of ranges of memory. None is state of the machine; a snapshot leaves them alone.
 */
import type { GuestMemory, WatchedRange } from './memory.js';
import type { WatchEvent } from './stops.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';

/** A hook or gate, bound to its machine. */
export type Call = () => 'continue' | 'stop';

type WatchCall = (event: WatchEvent) => 'continue' | 'stop';

/** What to watch; `any` is reads and writes. */
export interface WatchRequest {
  readonly address: Address;
  /** Bytes, at least 1. */
  readonly size: number;
  readonly access: 'read' | 'write' | 'any';
}

interface Watch extends WatchedRange {
  readonly call: WatchCall;
}

const NONE: readonly Call[] = [];

/** Hooks and gates by their address. A block of translated code begins at each. */
export class Hooks {
  private readonly hooks = new Map<Address, Call[]>();
  private readonly gates = new Map<Address, Call>();

  /** @param changed  code that covers the address must be translated anew */
  constructor(private readonly changed: (address: Address) => void) {}

  get any(): boolean {
    return this.hooks.size + this.gates.size > 0;
  }

  has(address: Address): boolean {
    return (this.hooks.size > 0 && this.hooks.has(address)) || (this.gates.size > 0 && this.gates.has(address));
  }

  /** The hooks of an address: while there are some it is the same list, whatever comes and goes. */
  at(address: Address): readonly Call[] {
    return this.hooks.get(address) ?? NONE;
  }

  gateAt(address: Address): Call | undefined {
    return this.gates.size > 0 ? this.gates.get(address) : undefined;
  }

  /** Adds a hook behind those of its address. Returns a function that takes it off again. */
  add(address: Address, call: Call): () => void {
    const list = this.hooks.get(address);
    if (list) list.push(call);
    else {
      this.hooks.set(address, [call]);
      this.changed(address);
    }
    return () => {
      const rest = this.hooks.get(address);
      const index = rest?.indexOf(call) ?? -1;
      if (!rest || index === -1) return;
      rest.splice(index, 1);
      if (rest.length > 0) return;
      this.hooks.delete(address);
      this.changed(address);
    };
  }

  /** An address has one gate. Returns a function that takes it off again. */
  setGate(address: Address, call: Call): () => void {
    if (this.gates.has(address)) throw new ElftraceError('usage', `there is a gate at ${hex(address)}`, { address });
    this.gates.set(address, call);
    this.changed(address);
    return () => {
      if (this.gates.delete(address)) this.changed(address);
    };
  }
}

/** Watched ranges, and what is called before an access to them. */
export class Watches {
  private readonly watches = new Set<Watch>();

  constructor(private readonly memory: GuestMemory) {}

  /** Returns a function that takes the watch off again. */
  add(range: WatchRequest, call: WatchCall): () => void {
    const { address, size } = range;
    if (size <= 0) throw new ElftraceError('usage', 'a watched range has at least one byte', { address });
    const kinds = range.access === 'any' ? (['read', 'write'] as const) : [range.access];
    const watches = kinds.map((access): Watch => ({ address, size, access, call }));
    for (const each of watches) {
      this.watches.add(each);
      this.memory.watch(each);
    }
    return () => {
      for (const each of watches) {
        this.watches.delete(each);
        this.memory.unwatch(each);
      }
    };
  }

  private *of({ address, size, access }: Pick<WatchEvent, 'address' | 'size' | 'access'>): Generator<Watch> {
    for (const each of this.watches) {
      if (each.access !== access || address + BigInt(size) <= each.address) continue;
      if (address < each.address + BigInt(each.size)) yield each;
    }
  }

  covers(access: Pick<WatchEvent, 'address' | 'size' | 'access'>): boolean {
    return this.watches.size > 0 && this.of(access).next().done === false;
  }

  /** Calls every watch of the access; true: one of them said stop. */
  serve(event: WatchEvent): boolean {
    let stop = false;
    for (const each of [...this.of(event)]) if (each.call(event) === 'stop') stop = true;
    return stop;
  }
}
