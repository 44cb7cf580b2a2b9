/**
 * Probes of a patched image, proved one by one: from the entry of their function, and from the
 * probed instruction itself, where everything is live (PV-1). Breakpoints are served as a kernel's
 * trap handler serves them; jumps run through their buffers.
 */
import type { ElfImage } from '../elf/image.js';
import type { StopReason } from '../emulator/index.js';
import type { JumpWindow } from '../machine/probes.js';
import {
  type FetchSource,
  type ListedProbe,
  probeServer,
  ProbeRun,
  type ProbeSession,
  registerValue,
  runProgram,
} from '../kprobes/index.js';
import { readRecord } from '../record/journal.js';
import { PROBE_OP_WORDS } from '../runtime/abi.js';
import { sha256 } from '../sha256.js';
import { replaySessions } from '../tracing/session-parts.js';
import type { Address, RegisterName } from '../units.js';
import {
  type Difference,
  firstRegister,
  hijackedWords,
  memory,
  openReason,
  type Outcome,
  type Pair,
  type RegisterDifference,
  registers,
  stopText,
  type Trial,
  wordAt,
} from './compare.js';
import type { Begun, Entry } from './state.js';
import { comeBack } from './way-back.js';
import type { OwnData, ProbeHit } from './own-data.js';
import type { ProofWorld, Registers } from './world.js';

/** A probe that changes bytes. */
export interface ProbeSubject {
  readonly address: Address;
  /** Behind the instruction, or behind all that a jump replaces. */
  readonly end: Address;
  /** `jump`, or `breakpoint`. */
  readonly kind: 'breakpoint' | 'jump';
  /** Symbol and offset. */
  readonly name: string;
  /** The function that it lies in. */
  readonly entry: Address;
  /** Returns are probed, too. */
  readonly takesReturn: boolean;
  /** What the jump may overwrite, because nothing reads it before it is written. */
  readonly scratch: readonly RegisterName[];
}

/** Instructions from a function's entry to the probe, and of the window itself. */
const BUDGET = 10_000;
const WINDOW_INSTRUCTIONS = 64;
/** With buffer and callback. */
const PATCHED_BUDGET = 400_000;

const different = (difference: Difference, differing: readonly RegisterDifference[] = []): Outcome => ({
  kind: 'different',
  phase: 'enter',
  difference,
  registers: differing,
});
const open = (stop: StopReason): Outcome => ({
  kind: 'open',
  reason: openReason(stop) ?? 'not-reached',
  detail: stopText(stop),
  doubt: false,
});

/** What becomes of a byte that may hold anything; the first leaves it as it is. */
type Change = (byte: number) => number;
const CHANGES: readonly Change[] = [(byte) => byte, () => 0, (byte) => byte ^ 0x55];

function subjectOf({ address, symbol, offset, events, state, gone }: ListedProbe, pair: Pair): ProbeSubject | null {
  if (gone || (state.text !== 'breakpoint' && state.text !== 'jump')) return null;
  const part = state.text === 'jump' ? state.part : null;
  const window = part !== null && 'window' in part ? (part.window as JumpWindow) : null;
  const bytes = pair.original.read(address, 16);
  const size = window?.bytes.length ?? pair.program.arch.isa.decode(bytes, 0, address).sizeBytes;
  return {
    ...{ address, end: address + BigInt(size), kind: state.text },
    name: offset === 0 ? symbol : `${symbol}+0x${offset.toString(16)}`,
    entry: address - BigInt(offset),
    takesReturn: events.some(({ definition }) => definition.isReturn),
    scratch: window?.scratch ?? [],
  };
}

export class ProbeProofs {
  readonly subjects: readonly ProbeSubject[];

  private readonly pair: Pair;
  private readonly data: OwnData | null;

  private constructor(
    whole: Pair,
    private readonly session: ProbeSession,
    private readonly own: Trial['own'],
  ) {
    // What comes back from a return probe is not the graph tracer's.
    const pair = (this.pair = { ...whole, data: null });
    this.data = whole.data;
    const { patched, program } = pair;
    const { machine } = patched;
    const run = new ProbeRun({
      session,
      program,
      comm: '',
      machine: {
        register: (name) => machine.register(name),
        setRegister: (name, value) => {
          machine.setRegister(name, value);
        },
        memory: {
          read: (address, size) => patched.read(address, size),
          write: (address, bytes) => {
            patched.write(address, bytes);
            return true;
          },
        },
        get time() {
          return machine.instructions;
        },
      },
    });
    patched.serve = (stop) => (stop.kind === 'trap' || stop.kind === 'fault') && run.serve(stop);
    this.subjects = session.probes().flatMap((probe) => subjectOf(probe, pair) ?? []);
  }

  /**
   * The probes of an image; null where its record knows of none.
   * @throws ElftraceError 'state-mismatch' where the record's sessions do not give these bytes
   */
  static of(pair: Pair, image: ElfImage, own: Trial['own']): ProbeProofs | null {
    const record = image.section('.note.elftrace') === undefined ? null : readRecord(image);
    if (record === null || record.session.length === 0) return null;
    const { arch } = pair.program;
    const server = probeServer(arch);
    replaySessions(image, record, arch, sha256, { probes: server.hosts });
    return server.session === null ? null : new ProbeProofs(pair, server.session, own);
  }

  /** Probes that change bytes of a range. */
  within(start: Address, end: Address): readonly ProbeSubject[] {
    return this.subjects.filter((each) => each.address < end && each.end > start);
  }

  /** Where a return probe on a site, or on the way to it, sends the return; null: none is there. */
  returnsFrom({ ip, start, end }: Pick<Trial, 'ip' | 'start' | 'end'>): Address | null {
    const isOnSite = this.session
      .probes()
      .some(
        ({ gone, state, events }) =>
          !gone &&
          state.text === 'ftrace' &&
          events.some(({ definition, place }) => definition.isReturn && place.site === ip),
      );
    const takes = isOnSite || this.within(start, end).some(({ takesReturn }) => takesReturn);
    return takes ? this.session.trampoline : null;
  }

  /** What is hit at a site whose probe ftrace serves; null: not all of it is known. */
  hitAtSite(ip: Address, before: Registers): ProbeHit | null {
    const found = this.session
      .probes()
      .find(
        ({ gone, state, events }) => !gone && state.text === 'ftrace' && events.some(({ place }) => place.site === ip),
      );
    return found === undefined ? null : this.hitOf(found.address, true, before);
  }

  /** Whether all that a probe records is known: no function is called back on its return. */
  knows({ takesReturn }: ProbeSubject): boolean {
    return this.data !== null && !takesReturn;
  }

  /**
   * What a hit records (PV-1, 4), from what the probe's definition says: the values of its
   * arguments in the original.
   * @param before  registers where the hit happens
   */
  private hitOf(address: Address, isServed: boolean, before: Registers): ProbeHit | null {
    const { session } = this;
    const { original, patched, program, proof, abi } = this.pair;
    const op = session.objectAt(address);
    const events = session.probes().find((each) => each.address === address)?.events ?? [];
    if (op === null || events.some(({ definition }) => definition.isReturn)) return null;
    const wordBytes = program.image.wordBytes;
    const stack = before.get(abi.stackPointer);
    const ofCallee = proof.calleeWords.map((offset) => stack + BigInt(offset));
    /** Words of a frame that the ABI gives to callees: entries may keep anything there. */
    const blurred = (bytes: Uint8Array, at: Address, change: Change): Uint8Array =>
      bytes.map((byte, i) => {
        const place = at + BigInt(i);
        return ofCallee.some((word) => place >= word && place < word + BigInt(wordBytes)) ? change(byte) : byte;
      });
    const source = (change: Change): FetchSource => ({
      // Handlers see an instruction pointer behind the breakpoint, wherever the probe is served.
      register: (found) =>
        registerValue(found, (name) => {
          if (name !== 'pc') return before.get(name);
          return address + BigInt(session.machine.support.trapDelta);
        }),
      // What the tracer brought with it is in the patched image alone.
      read: (at, size) => {
        const world = patched.layout.owns(at) && !original.layout.owns(at) ? patched : original;
        const bytes = world.readable(at, size);
        return bytes === null ? null : blurred(bytes, at, change);
      },
      wordBytes,
      littleEndian: program.arch.target.dataEndian === 'little',
      comm: '',
    });
    const places = new Map([...session.eventAddresses].map(([at, event]) => [event, at]));
    return {
      ...{ op, address, isServed },
      events: events.flatMap((event) => {
        const at = places.get(event);
        // One that is off has no object.
        if (at === undefined) return [];
        // What depends on such words is another value with each of these.
        const [words = [], ...others] = CHANGES.map((change) => runProgram(event.arguments, source(change)));
        const known = words.map((word, i) => (others.every((other) => other[i] === word) ? word : null));
        return [{ at, id: BigInt(event.id), words: known }];
      }),
    };
  }

  /** A probe as the trials of sites know their sites. */
  trial({ address, end }: ProbeSubject): Trial {
    return {
      ...{ start: address, end, ip: address, wanted: null, own: this.own },
      ...{ ordinaryCall: false, profiles: false, handler: null, besides: null, body: null, steps: new Map() },
    };
  }

  /** One trial. Both worlds are in the state that it begins with. */
  once(probe: ProbeSubject, begun: Begun): Outcome {
    const { original, patched } = this.pair;
    const isThere = begun.entry === probe.address;
    // On the way from the entry the site of the function may have been hit.
    const data = isThere && this.knows(probe) ? this.data : null;
    data?.begin(patched, begun.tracer, begun, 0n);
    if (!isThere) {
      const [a, b] = [original, patched].map((world) => runTo(world, probe.address, BUDGET));
      if (a!.kind !== 'hook' || b!.kind !== 'hook') return this.apart(a!, b!);
    }
    const hits = this.hits(probe.address);
    const hit = data === null ? null : this.hitOf(probe.address, probe.kind === 'jump', begun.registers);
    const live = original.machine.register(this.pair.abi.stackPointer) - BigInt(this.redZoneBytes);
    const next = pastWindow(original, probe);
    if (next.kind === 'stop') return this.apart(next.stop, patched.run(PATCHED_BUDGET));
    if (next.address === probe.address) return open({ kind: 'step-limit' });
    const stop = runTo(patched, next.address, PATCHED_BUDGET);
    if (stop.kind !== 'hook') return this.apart({ kind: 'hook', address: next.address }, stop);
    const wrong = hit === null ? null : data!.wrongHit(patched, hit);
    if (wrong !== null) return different({ what: 'event', name: probe.name, reason: wrong });
    return this.compare(probe, begun, isThere, hit === null ? hits : null, live);
  }

  /** Ways that ended before the place behind the probe, or at other places. */
  private apart(original: StopReason, patched: StopReason): Outcome {
    const told =
      'instruction' in patched
        ? { ...patched, instruction: this.session.machine.originOf(patched.instruction) }
        : patched;
    if (stopText(original) === stopText(told as StopReason)) return open(original);
    if (openReason(patched) !== null) return open(patched);
    if (openReason(original) !== null) return open(original);
    return different({ what: 'stop', original: stopText(original), patched: stopText(patched) });
  }

  /** @param hits  of the probe before; null: they are right */
  private compare(probe: ProbeSubject, begun: Begun, isThere: boolean, hits: bigint | null, live: Address): Outcome {
    const { pair } = this;
    const handler = probe.takesReturn ? this.session.trampoline : null;
    const isTaken = (a: bigint, b: bigint): boolean => handler !== null && a === begun.returnAddress && b === handler;
    const words = handler === null ? [] : hijackedWords(pair, begun, handler);
    const trial = this.trial(probe);
    const now = this.hits(probe.address);
    if (hits !== null && now !== hits + 1n) {
      const reason = `hit ${now - hits} times, not once`;
      return different({ what: 'event', name: probe.name, reason });
    }
    const differing = isThere ? liveRegisters(pair, probe, isTaken) : registers(pair, null, false, isTaken);
    const difference = firstRegister(differing) ?? memory(pair, trial, begun, words, live);
    if (difference !== null) return different(difference, differing);
    return handler === null ? { kind: 'equal' } : comeBack(pair, trial, begun, handler, words);
  }

  private get redZoneBytes(): number {
    const { program, proof } = this.pair;
    return proof.redZoneBytes[program.loadMap?.base === 'kernel' ? 'kernel' : 'program'];
  }

  /** How often the runtime counted the probe. */
  private hits(address: Address): bigint {
    const op = this.session.objectAt(address);
    const word = BigInt(this.pair.program.image.wordBytes);
    return op === null ? 0n : wordAt(this.pair.patched, op + BigInt(PROBE_OP_WORDS.hits) * word);
  }

  /** Places where the way to a probe begins: the probe itself, and the entries of its function. */
  entries({ address, entry }: ProbeSubject): readonly Entry[] {
    const here: Entry = { address, global: null };
    const { program } = this.pair;
    const symbol = program.codeAt(entry) === undefined ? -1 : program.functionStarting(program.codeAt(entry)!, entry);
    if (entry === address || symbol < 0) return [here];
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    const global: Entry = { address: entry, global: entry };
    return local === 0n || entry + local > address
      ? [here, global]
      : [here, global, { address: entry + local, global: null }];
  }
}

/** Runs to a place. */
function runTo(world: ProofWorld, address: Address, budget: number): StopReason {
  world.prepare(address);
  const off = world.machine.hook(address, () => 'stop');
  const stop = world.run(budget);
  off();
  return stop;
}

/** Executes what the probe stands for in the original: the place that it leads to. */
function pastWindow(
  world: ProofWorld,
  { address, end }: ProbeSubject,
): { readonly kind: 'at'; readonly address: Address } | { readonly kind: 'stop'; readonly stop: StopReason } {
  for (let n = 0; n < WINDOW_INSTRUCTIONS; n++) {
    const stop = world.run(1);
    if (stop.kind !== 'step-limit') return { kind: 'stop', stop };
    const at = world.machine.register('pc');
    if (at < address || at >= end || at === address) return { kind: 'at', address: at };
  }
  return { kind: 'stop', stop: { kind: 'step-limit' } };
}

/** Registers in the middle of a function: all are live. */
function liveRegisters(
  { original, patched }: Pair,
  { scratch }: ProbeSubject,
  isTaken: (original: bigint, patched: bigint) => boolean,
): RegisterDifference[] {
  const found: RegisterDifference[] = [];
  for (const name of original.differingRegisters(patched)) {
    const [a, b] = [original.machine.register(name), patched.machine.register(name)];
    if (!scratch.includes(name) && !isTaken(a, b)) {
      found.push({ name, original: a, patched: b });
    }
  }
  return found;
}
