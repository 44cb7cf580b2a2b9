/**
 * Sessions on the RISC-V sample with direct callers, and runs of what they make: the exit status is
 * 10 times the runs of the traced function's body, 100 times those of its replacement, and the runs
 * of the direct caller.
 */
import { expect } from '@jest/globals';
import { archOf } from '../../src/arches.js';
import { readElf } from '../../src/elf/read.js';
import { type Process, startProcess } from '../../src/guest/index.js';
import type { Ops, Outcome } from '../../src/ftrace/index.js';
import { withRuntime } from '../../src/tracing/inject.js';
import { Session, type SessionOptions } from '../../src/tracing/session.js';
import type { OPS_FLAGS } from '../../src/runtime/index.js';
import { openBytes, readSample } from './pipeline.js';
import type { RiscvFlavour } from './riscv-runtime.js';

export type Flavour = RiscvFlavour;
const images = new Map<string, Uint8Array>();

/** Functions of rv64g are 4-aligned, which G3 needs; G3c needs eight bytes in front of them. */
export function sampleOf(flavour: Flavour): string {
  const names: Partial<Record<Flavour, string>> = { g3: 'riscv64/direct-rv64g', g3c: 'riscv64/direct-8-4-aligned' };
  return names[flavour] ?? 'riscv64/direct';
}

/** The sample with a runtime in it. */
export function imageOf(flavour: Flavour): Uint8Array {
  const name = sampleOf(flavour);
  const known = images.get(flavour);
  if (known !== undefined) return known;
  const { bytes } = withRuntime(openBytes(readSample(name)).sites, undefined, undefined, flavour);
  images.set(flavour, bytes);
  return bytes;
}

export function openDirect(flavour: Flavour, options: SessionOptions = {}): Session {
  const bytes = imageOf(flavour);
  return Session.open(bytes, archOf(readElf(bytes).header), options);
}

export function done(outcome: Outcome): Extract<Outcome, { kind: 'done' }> {
  expect(outcome).toMatchObject({ kind: 'done' });
  if (outcome.kind !== 'done') throw new Error('unreachable');
  return outcome;
}

/** Registers a callback of the image for one function. */
export function callback(
  session: Session,
  name: string,
  functions = 'traced',
  flags: readonly (keyof typeof OPS_FLAGS)[] = [],
): Ops {
  const ops = session.core.createOps({ name, func: session.functionAddress(name)!, flags });
  done(session.core.setFilter(ops, 'filter', functions));
  done(session.core.register(ops));
  return ops;
}

export function direct(session: Session, functions = 'traced', caller = 'my_direct_caller', negotiate?: () => 0): Ops {
  const ops = session.core.createOps({ name: caller, func: 0n, ...(negotiate ? { negotiate } : {}) });
  done(session.core.setFilter(ops, 'filter', functions));
  done(session.core.registerDirect(ops, session.functionAddress(caller)!));
  return ops;
}

export interface Guest {
  readonly process: Process;
  address(symbol: string): bigint;
  word(symbol: string, index?: number, size?: 4 | 8): bigint;
}

export function start(bytes: Uint8Array): Guest {
  const { image, arch, program } = openBytes(bytes);
  if (arch.emulation.kind !== 'ir') throw new Error('not executed');
  const process = startProcess({ image, abi: arch.abi, emulation: arch.emulation });
  const address = (symbol: string): bigint => {
    const found = program.definedAt(program.symbols.find(symbol));
    if (found === null) throw new Error(`no symbol ${symbol}`);
    return found;
  };
  return {
    process,
    address,
    word: (symbol, index = 0, size = 4) => process.machine.readWord(address(symbol) + BigInt(index * size), size)!,
  };
}

/** Exit status of an image, or why it stops. */
export function exitOf(bytes: Uint8Array): number | string {
  const { process } = start(bytes);
  const stop = process.run({ budget: 1_000_000 });
  return stop.kind === 'exit' ? stop.code : stop.kind;
}

/** Names of the places that a run comes by, in order. */
export function passed(bytes: Uint8Array, symbols: readonly string[]): string[] {
  const guest = start(bytes);
  const order: string[] = [];
  for (const symbol of symbols) {
    guest.process.machine.hook(guest.address(symbol), () => {
      order.push(symbol);
      return order.length > 50 ? 'stop' : 'continue';
    });
  }
  guest.process.run({ budget: 1_000_000 });
  return order;
}

/** A direct caller and a second user of its function, so that the register entry is in between. */
export function both(variant: string, flavour: Flavour = 'g2'): Session {
  const session = openDirect(flavour, { directVariant: variant });
  direct(session);
  callback(session, 'callback');
  return session;
}

export const runsOf = (guest: Guest): Record<string, bigint> =>
  Object.fromEntries(
    ['bodies', 'directs', 'callbacks', 'replacements', 'others'].map((name) => [name, guest.word(name)]),
  );
