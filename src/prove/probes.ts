/**
 * Probes of a patched image, proved one by one: from the entry of their function, and from the
 * probed instruction itself, where everything is live (PV-1). Breakpoints are served as a kernel's
 * trap handler serves them; jumps run through their buffers.
 */
import { equalBytes } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import type { StopReason } from '../emulator/index.js';
import type { JumpWindow } from '../machine/probes.js';
import {
  type FetchSource,
  type ListedProbe,
  type ProbeEvent,
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
  BELOW_STACK,
  type Difference,
  firstRegister,
  hijackedWords,
  memory,
  neverEnds,
  openReason,
  type Outcome,
  type Pair,
  type Phase,
  type RegisterDifference,
  type ReturnTrap,
  registers,
  stopText,
  type Trial,
  wordAt,
} from './compare.js';
import type { Begun, Entry } from './state.js';
import type { OwnData } from './own-data.js';
import type { ReturnPlaces } from './waiting-calls.js';
import { callOf, comeBack, type OwnCheck } from './way-back.js';
import { ProofWorld, type Registers } from './world.js';
import { TAILS } from './tracer-states.js';
import type { FetchedWords, ProbeHit } from './writes.js';

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

/** What becomes of what may hold anything, by the bits of a byte; the first leaves it as it is. */
interface Change {
  readonly keeps: bigint;
  readonly flips: bigint;
}
const CHANGES: readonly Change[] = [
  { keeps: 0xffn, flips: 0n },
  { keeps: 0n, flips: 0n },
  { keeps: 0xffn, flips: 0x55n },
];
/** Such a byte in each of the widest register's. */
const EACH_BYTE = (2n ** 128n - 1n) / 0xffn;

/** A value of which all but the bits of `mask` may be anything. */
function changed(value: bigint, mask: bigint, { keeps, flips }: Change): bigint {
  return (value & mask) | (((value & (keeps * EACH_BYTE)) ^ (flips * EACH_BYTE)) & ~mask);
}

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

/** What a probe that was hit leaves in the tracer's data. */
class HitData {
  /** An event waits for the return. */
  readonly waits: boolean;

  constructor(
    private readonly data: OwnData,
    private readonly world: ProofWorld,
    private readonly hit: ProbeHit,
    private readonly name: string,
  ) {
    this.waits = data.hitBy(world, hit);
  }

  wrong(places: ReturnPlaces | null, phase: Phase): string | null {
    return this.data.wrongHit(this.world, this.hit, places, phase);
  }

  onWayBack(places: ReturnPlaces | null): OwnCheck {
    return {
      begin: () => {
        this.data.comeBack(this.world);
      },
      wrong: () => {
        const reason = this.wrong(places, 'return');
        return reason === null ? null : { what: 'event', name: this.name, reason };
      },
    };
  }
}

const NOTHING_KNOWN: OwnCheck = { begin: () => undefined, wrong: () => null };

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
          read: (address, size) => patched.readable(address, size),
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

  /** A return probe on a site, or on the way to it; null: none is there. */
  returnsFrom({ ip, start, end }: Pick<Trial, 'ip' | 'start' | 'end'>): ReturnTrap | null {
    const onSite = this.session
      .probes()
      .find(
        ({ gone, state, events }) =>
          !gone &&
          state.text === 'ftrace' &&
          events.some(({ definition, place }) => definition.isReturn && place.site === ip),
      );
    if (onSite !== undefined) return this.trapOf(onSite.address);
    const onWay = this.within(start, end).find(({ takesReturn }) => takesReturn);
    return onWay === undefined ? null : this.trapOf(onWay.address);
  }

  /** The return probe of an address; null: none of its events is of returns. */
  private trapOf(address: Address): ReturnTrap | null {
    const events = this.session.probes().find((each) => each.address === address)?.events ?? [];
    const ofReturns = events.filter(({ definition }) => definition.isReturn);
    if (ofReturns.length === 0) return null;
    const wanted = ofReturns.find(({ definition }) => definition.maxActive > 0) ?? ofReturns[0];
    const found = [...this.session.eventAddresses].find(([, event]) => event === wanted);
    return { address: this.session.trampoline, event: found?.[0] ?? 0n };
  }

  /** The probe of a site that ftrace serves. */
  private atSite(ip: Address): ListedProbe | undefined {
    return this.session
      .probes()
      .find(
        ({ gone, state, events }) => !gone && state.text === 'ftrace' && events.some(({ place }) => place.site === ip),
      );
  }

  /** The object of the probe of a site; 0n: none is there. */
  handledAt(ip: Address): Address {
    const found = this.atSite(ip);
    return found === undefined ? 0n : (this.session.objectAt(found.address) ?? 0n);
  }

  /** What is hit at a site whose probe ftrace serves; null: not all of it is known. */
  hitAtSite(ip: Address, before: Registers): ProbeHit | null {
    const found = this.atSite(ip);
    return found === undefined ? null : this.hitOf(found.address, true, before);
  }

  /** Whether all that a probe records is known. */
  get knows(): boolean {
    return this.data !== null;
  }

  /**
   * What a hit records (PV-1, 4), from what the probe's definition says: the values of its
   * arguments in the original.
   * @param before  registers where the hit happens
   */
  private hitOf(address: Address, isServed: boolean, before: Registers): ProbeHit | null {
    const { session } = this;
    const op = session.objectAt(address);
    if (op === null) return null;
    const events = session.probes().find((each) => each.address === address)?.events ?? [];
    const places = new Map([...session.eventAddresses].map(([at, event]) => [event, at]));
    // Handlers see an instruction pointer behind the breakpoint, wherever the probe is served.
    const pc = address + BigInt(session.machine.support.trapDelta);
    const stack = before.get(this.pair.abi.stackPointer);
    const atHit = this.fetched({ start: stack, end: stack }, (name) => (name === 'pc' ? pc : before.get(name)));
    return {
      ...{ op, address, isServed },
      events: events.flatMap((event) => {
        const at = places.get(event);
        // One that is off has no object.
        if (at === undefined) return [];
        const { isReturn, maxActive } = event.definition;
        const atReturn = isReturn ? { most: maxActive, words: () => this.returned(event) } : null;
        return [{ at, id: BigInt(event.id), words: isReturn ? [] : atHit(event.arguments), atReturn }];
      }),
    };
  }

  /** What a return event fetches: the original has just returned. */
  private returned({ arguments: wanted }: ProbeEvent): FetchedWords {
    const { original, proof, abi } = this.pair;
    const { machine } = original;
    const stack = machine.register(abi.stackPointer);
    return this.fetched({ start: stack - BELOW_STACK, end: stack }, (name, change) => {
      const value = machine.register(name);
      const isFree = name === 'pc' || name === abi.linkRegister || proof.volatile.includes(name);
      const mask = isFree ? 0n : proof.compared[name];
      return mask === undefined || proof.results.includes(name) ? value : changed(value, mask, change);
    })(wanted);
  }

  /**
   * Fetches words of arguments; null: what anything may stand for.
   * @param free      what may hold anything below the stack pointer; above it there are the words
   *   that the ABI gives to callees
   * @param register  its value, as `change` says where it may hold anything
   */
  private fetched(
    free: { readonly start: Address; readonly end: Address },
    register: (name: RegisterName, change: Change) => bigint,
  ): (list: ProbeEvent['arguments']) => FetchedWords {
    const { original, patched, program, proof } = this.pair;
    const wordBytes = program.image.wordBytes;
    const words = proof.calleeWords.map((offset) => free.end + BigInt(offset));
    const dead = [free, ...words.map((start) => ({ start, end: start + BigInt(wordBytes) }))];
    // What the tracer brought with it may have changed since the hit.
    const isTracers = (place: Address): boolean => patched.layout.owns(place) && !original.layout.owns(place);
    const blurred = (bytes: Uint8Array, at: Address, change: Change): Uint8Array =>
      bytes.map((byte, i) => {
        const place = at + BigInt(i);
        const isFree = isTracers(place) || dead.some(({ start, end }) => place >= start && place < end);
        return isFree ? Number(changed(BigInt(byte), 0n, change) & 0xffn) : byte;
      });
    const source = (change: Change): FetchSource => ({
      register: (found) => registerValue(found, (name) => register(name, change)),
      // Text that was changed is read as it is.
      read: (at, size) => {
        const world = isTracers(at) || isChanged(original, patched, at, size) ? patched : original;
        const bytes = world.readable(at, size);
        return bytes === null ? null : blurred(bytes, at, change);
      },
      wordBytes,
      littleEndian: program.arch.target.dataEndian === 'little',
      comm: '',
    });
    return (list) => {
      // What depends on such words is another value with each of these.
      const [words = [], ...others] = CHANGES.map((change) => runProgram(list, source(change)));
      return words.map((word, i) => (others.every((other) => other[i] === word) ? word : null));
    };
  }

  /** A probe as the trials of sites know their sites. */
  trial({ address, end, kind }: ProbeSubject): Trial {
    return {
      ...{ start: address, end, ip: address, wanted: null, own: this.own },
      ...{ ordinaryCall: false, callerBy: null, profiles: false, handler: null, probed: false, body: null },
      steps: new Map(),
      trap: this.trapOf(address),
      // A kernel's handler serves a breakpoint.
      handled: kind === 'jump' ? (this.session.objectAt(address) ?? 0n) : 0n,
    };
  }

  /** One trial. Both worlds are in the state that it begins with. */
  once(probe: ProbeSubject, begun: Begun): Outcome {
    const { original, patched } = this.pair;
    const isThere = begun.entry === probe.address;
    // On the way from the entry the site of the function may have been hit.
    const data = isThere ? this.data : null;
    data?.begin(patched, begun.tracer, begun, callOf(this.pair, this.trial(probe), begun));
    ProofWorld.sameTime([original, patched]);
    if (!isThere) {
      const [a, b] = [original, patched].map((world) => runTo(world, probe.address, BUDGET));
      if (a!.kind !== 'hook' || b!.kind !== 'hook') return this.apart(a!, b!, probe.address);
    }
    const hits = this.hits(probe.address);
    const hit = data === null ? null : this.hitOf(probe.address, probe.kind === 'jump', begun.registers);
    const own = data === null || hit === null ? null : new HitData(data, patched, hit, probe.name);
    const live = original.machine.register(this.pair.abi.stackPointer) - BigInt(this.redZoneBytes);
    const next = pastWindow(original, probe);
    if (next.kind === 'stop') return this.apart(next.stop, patched.run(this.pair.budget), probe.end);
    if (next.address === probe.address) return open({ kind: 'step-limit' });
    const stop = runTo(patched, next.address, this.pair.budget);
    if (stop.kind !== 'hook') return this.apart({ kind: 'hook', address: next.address }, stop, next.address);
    return this.compare(probe, begun, isThere, own ?? hits, live);
  }

  /** Ways that ended before the place behind the probe, or at other places. */
  private apart(original: StopReason, patched: StopReason, end: Address): Outcome {
    const why = original.kind === 'hook' && patched.kind === 'step-limit' ? neverEnds(this.pair, end) : null;
    if (why !== null) return different({ what: 'stop', original: stopText(original), patched: why });
    const told =
      'instruction' in patched
        ? { ...patched, instruction: this.session.machine.originOf(patched.instruction) }
        : patched;
    if (stopText(original) === stopText(told as StopReason)) return open(original);
    if (openReason(patched) !== null) return open(patched);
    if (openReason(original) !== null) return open(original);
    return different({ what: 'stop', original: stopText(original), patched: stopText(patched) });
  }

  /** @param own  what the hit leaves; a number: all that is known is how often it was hit before */
  private compare(probe: ProbeSubject, begun: Begun, isThere: boolean, own: HitData | bigint, live: Address): Outcome {
    const { pair } = this;
    const trial = this.trial(probe);
    const isKnown = typeof own !== 'bigint';
    const taken = trial.trap !== null && (!isKnown || own.waits) ? trial.trap.address : null;
    const isTaken = (a: bigint, b: bigint): boolean => taken !== null && a === begun.returnAddress && b === taken;
    const words = taken === null ? [] : hijackedWords(pair, begun, taken);
    // Calls that were left are taken off by a hit that is missed, too.
    const places: ReturnPlaces | null =
      trial.trap === null ? null : { parents: [begun.returnAddress], trap: trial.trap.address, isLast: true };
    const count = isKnown ? 0n : this.hits(probe.address) - own;
    const event = isKnown ? own.wrong(places, 'enter') : count === 1n ? null : `hit ${count} times, not once`;
    if (event !== null) return different({ what: 'event', name: probe.name, reason: event });
    const differing = isThere ? liveRegisters(pair, probe, isTaken) : registers(pair, null, false, isTaken);
    const difference = firstRegister(differing) ?? memory(pair, trial, begun, words, live);
    if (difference !== null) return different(difference, differing);
    // Behind a tail call the tracer is the caller.
    if (taken === null || TAILS.has(begun.tracer)) return { kind: 'equal' };
    return comeBack(pair, trial, begun, taken, words, isKnown ? own.onWayBack(places) : NOTHING_KNOWN);
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

/** Whether the files differ in bytes at an address. */
function isChanged(original: ProofWorld, patched: ProofWorld, at: Address, size: number): boolean {
  const bytesIn = ({ layout }: ProofWorld): Uint8Array => {
    const { image } = layout.program;
    const offset = image.fileOffsetOf(at);
    return offset < 0 ? new Uint8Array(0) : image.bytes.subarray(offset, offset + size);
  };
  return !equalBytes(bytesIn(original), bytesIn(patched));
}
