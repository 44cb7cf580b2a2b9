/**
 * Probes of a session on an image with the runtime: definitions become probes of a state machine,
 * and what they need in the image is written (`probe-image.ts`). Probes on ftrace sites become ops
 * of the core (`ftrace-probes.ts`).
 *
 * The same operations on the same image give the same bytes and the same addresses, so the code
 * that runs a patched image performs them once more and knows what each breakpoint stands for
 * (run.ts).
 */
import type { Arch } from '../machine/arch.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError, hex } from '../errors.js';
import type { Outcome } from '../ftrace/index.js';
import type { GoneProbe } from '../record/gone-modules.js';
import type { ReplacedCode } from '../patch/kept-relocations.js';
import type { Session } from '../tracing/session.js';
import type { ProbeHost } from '../tracing/session-plan.js';
import type { ProbeOperation } from '../tracing/session-file.js';
import { findSites } from '../sites/sites.js';
import { recordIp } from '../tracing/site-state.js';
import { load, type Program } from '../program/program.js';
import type { Address } from '../units.js';
import { compileArguments, type Fetched, parseProbe, type ProbeDefinition } from './events.js';
import { whyNotFtrace } from './explain.js';
import { type ProbeCpu, type ProbeRefusal, refuse } from '../machine/probes.js';
import { FLAGS, FLAGS_2009, isOff, Kprobe, type KprobeResult, type ProbeState } from './objects.js';
import { FtraceProbes } from './ftrace-probes.js';
import type { ProbeEvent, ProbePlace } from './probe-event.js';
import { ProbeImage } from './probe-image.js';
import { compileProgram, decodeWords } from './program.js';
import { Kprobes2009 } from './state-2009.js';
import { KprobesModern } from './state-modern.js';
import { type DetourPart, type ProbeStoreReason, TextMachine, type TextWatcher } from './text-machine.js';
import { ProbeText, refusalError, type ValidProbe } from './validate.js';

/** A probed address for listings. */
export interface ListedProbe {
  readonly address: Address;
  readonly symbol: string;
  readonly offset: number;
  readonly state: ProbeState;
  readonly events: readonly ProbeEvent[];
  /** Their text is gone (K-OPT-8); others may be at the address. */
  readonly gone: boolean;
  /** Why it is no jump although it was asked for; null otherwise. */
  readonly refusal: ProbeRefusal | null;
}

const backWithModule: ProbeStoreReason = { rule: 'K-OPT-8', reason: 'a module came without the probe it had' };
/** Runs of the optimizer after which everything has come to rest. */
const RUNS = 4;

/**
 * Room that a runtime gets for a number of probes: every one may have a copy and a buffer, and an
 * event of ordinary size; with some to spare.
 */
export function probeRoomFor(probes: number): { readonly text: number; readonly data: number } {
  const pages = (bytes: number): number => Math.ceil(bytes / 0x1000) * 0x1000;
  return { text: pages(0x4000 + 0x200 * probes), data: pages(0x4000 + 0x180 * probes) };
}

const isGone = ({ probe }: Pick<ProbeEvent, 'probe'>): boolean => (probe.flags & FLAGS.GONE) !== 0;

/** What a state machine of either version is asked for here. */
type Core = Kprobes2009<DetourPart> | KprobesModern<DetourPart>;

/**
 * True for a definition of a return probe.
 * @throws ElftraceError 'bad-probe'
 */
export function isReturnProbe(define: string, { target }: Arch): boolean {
  return parseProbe(define, target.wordBytes === 8 ? 64 : 32).isReturn;
}

/** Probes on an image: definitions in, breakpoints, jumps and their copies in the image out. */
export class ProbeSession implements ProbeHost {
  /** Called at breakpoints, in the order of the handlers; `run.ts` sets it. */
  recorder: ((event: ProbeEvent, regs: ProbeCpu) => void) | null = null;
  readonly machine: TextMachine;
  readonly text: ProbeText;
  /** Where functions with return probes go back to: a breakpoint. */
  readonly trampoline: Address;
  /** Events by the address of their object. */
  readonly eventAddresses: Map<bigint, ProbeEvent>;
  private readonly image: ProbeImage;
  private readonly ftrace: FtraceProbes;
  private readonly program: Program;
  /** By number. */
  private readonly list = new Map<number, ProbeEvent>();
  private readonly names = new Map<string, ProbeEvent>();
  /** Those that were removed since, too. */
  private readonly all: ProbeEvent[] = [];
  private readonly byProbe = new Map<Kprobe, ProbeEvent>();
  private readonly refusals = new Map<Address, ProbeRefusal>();
  /** Probes that are set and whose text is in the image no more. */
  private readonly absent = new Map<Address, ProbePlace>();
  /** Bytes of ours in the text of modules that went and are in the image. */
  private readonly stale = new Map<string, { readonly address: Address; readonly size: number }[]>();
  /** The number of events at each probed address. */
  private readonly probed = new Map<Address, number>();
  private readonly wanted = new Set<Address>();
  private started: Core | null = null;
  private version: '2009' | 'modern' | null = null;
  private preempt: 'none' | 'full' | null = null;
  private nextId = 1;
  /**
   * @param original  the image before anything was patched, with the runtime in it
   * @param watcher  told of every store
   * @throws ElftraceError 'probe-refused' (`not-served`) where the machine has no probes,
   *   'no-runtime' where the runtime serves none
   */
  constructor(
    private readonly session: Session,
    original: ElfImage,
    private readonly arch: Arch,
    private readonly watcher: TextWatcher | null = null,
  ) {
    const { program } = session.sites;
    this.program = program;
    const own = load(readElf(original.bytes.slice()), arch);
    this.text = new ProbeText(own, findSites(own));
    const isNeeded = (address: Address): boolean => this.ftrace.has(address) || (this.probed.get(address) ?? 0) > 0;
    this.image = new ProbeImage(program, arch, this.text.support, session.ledger, isNeeded);
    this.trampoline = this.image.trampoline;
    this.eventAddresses = this.image.eventAddresses;
    this.ftrace = new FtraceProbes(session, this.image, (address) => this.whyNotFtrace(address));
    this.machine = this.textMachine(watcher);
  }

  /** Address of the object of a probed address; null: it has none. */
  objectAt(address: Address): Address | null {
    return this.image.objectAt(address);
  }

  /** How the state machines see the text of the session's image. */
  private textMachine(watcher: TextWatcher | null): TextMachine {
    const { image } = this;
    return new TextMachine({
      support: this.text.support,
      slots: image.slots,
      watcher,
      store: {
        isFile: true,
        read: (address, size) => image.bytes(address, size)?.slice() ?? null,
        store: (address, bytes, why) => {
          image.put(address, bytes, why);
        },
        sync: () => undefined,
      },
      check: (address) => {
        const absent = this.absent.get(address);
        if (absent) return { kind: 'absent', address, ftrace: absent.site !== null };
        const found = this.placeOf(address);
        if (found.kind === 'refused') return found;
        const { code, instruction, site } = found;
        return { kind: 'valid', address: found.address, code, instruction, ftrace: site !== null };
      },
      op: (address) => image.opOf(address, 1),
      freeOp: (op) => {
        image.freeOp(op);
      },
      callees: image.callees,
      calleesFrom: (buffer) => image.calleesFrom(buffer),
      toc: image.toc,
      redZone: this.program.loadMap?.base !== 'kernel',
      armFtrace: (address) => {
        const absent = this.absent.get(address);
        this.ftrace.arm(address, absent?.site ?? this.siteIp(address), absent === undefined);
      },
      disarmFtrace: (address) => {
        this.ftrace.disarm(address);
      },
    });
  }

  /** What validation says of an address. */
  placeOf(address: Address): ValidProbe | ProbeRefusal {
    const range = this.text.program.codeAt(address);
    if (range === undefined) {
      return refuse('EINVAL', 'not-text', 'K-ADDR-2', `${hex(address)} is not in text`);
    }
    return this.text.validateAt(range, address);
  }

  /** The site's ip as callbacks are told it. */
  private siteIp(address: Address): Address {
    const { sites } = this.session;
    for (let i = 0; i < sites.count; i++) if (sites.ip(i) === address) return recordIp(sites, i);
    return address;
  }

  private whyNotFtrace(address: Address): string {
    const place = this.placeOf(address);
    const site = place.kind === 'valid' ? place.site : null;
    const refusal = site === null ? null : whyNotFtrace(this.text.sites!, site);
    return refusal?.reason ?? 'the entries of the image have no callback for probes (elftrace_probe_ftrace)';
  }

  // ------------------------------------------------------------------------------------ operations

  /** The state machine of this session. */
  core(): Core {
    if (this.started !== null) return this.started;
    const version = this.version ?? 'modern';
    const preempt = this.preempt ?? 'none';
    const options = {
      onRefusal: (address: Address, refusal: ProbeRefusal) => {
        if (!this.absent.has(address)) this.refusals.set(address, refusal);
      },
    };
    this.started =
      version === '2009'
        ? // T-10: quiescence does not cover preempted tasks there.
          new Kprobes2009(this.machine, { ...options, optimization: preempt === 'none' })
        : new KprobesModern(this.machine, {
            ...options,
            optimization: true,
            // There is no wish of single probes in this version: who is not asked for has no
            // memory.
            faults: { allocate: (address) => this.wanted.has(address) },
          });
    return this.started;
  }

  replacesReturns({ define }: Extract<ProbeOperation, { readonly kind: 'probe' }>): boolean {
    return isReturnProbe(define, this.arch);
  }

  /**
   * @throws ElftraceError 'bad-probe' for a definition that cannot be understood, 'probe-refused'
   *   with `reason`, `errno` and `rule`
   */
  perform(operation: ProbeOperation): Outcome {
    switch (operation.kind) {
      case 'probe':
        this.choose(operation);
        return this.add(operation.define, operation.optimize);
      case 'no-probe':
        return this.remove(operation.event);
      case 'disable-probe': {
        const event = this.eventNamed(operation.event);
        return this.settled(event.probe.name, (core) => core.disable(event.probe));
      }
      case 'enable-probe': {
        const event = this.eventNamed(operation.event);
        return this.settled(event.probe.name, (core) => core.enable(event.probe));
      }
      case 'probes':
        return this.settled('probes', (core) => (operation.on ? core.armAll() : core.disarmAll()));
      default:
        return operation satisfies never;
    }
  }

  /**
   * An operation on probes that are there, and all that time brings behind it: no thread executes a
   * file.
   */
  private settled(what: string, operation: (core: Core) => KprobeResult): Outcome {
    // What waited for its jump has it by then, as it had at the end of an earlier call.
    this.rest();
    this.ftrace.outcome = null;
    const refused = this.outcomeOf(operation(this.core()), what);
    if (refused === null) this.rest();
    return refused ?? { kind: 'done', steps: [], warnings: [] };
  }

  /** @param name  GROUP/EVENT, or EVENT of the default group */
  private eventNamed(name: string): ProbeEvent {
    const full = name.includes('/') ? name : `kprobes/${name}`;
    const event = this.names.get(full);
    if (event === undefined) throw refusalError(refuse('ENOENT', 'no-symbol', 'grammar', `there is no event ${full}`));
    return event;
  }

  /** One session is about one kernel. */
  private choose({ version, preempt }: Extract<ProbeOperation, { readonly kind: 'probe' }>): void {
    if (this.started === null) {
      this.version ??= version;
      this.preempt ??= preempt;
      return;
    }
    const is = { version: this.version ?? 'modern', preempt: this.preempt ?? 'none' };
    if ((version ?? is.version) !== is.version || (preempt ?? is.preempt) !== is.preempt) {
      throw new ElftraceError(
        'usage',
        `the image's probes are of --kprobe-opt=${is.version} --preempt=${is.preempt}: revert it first`,
        { value: version ?? preempt ?? '' },
      );
    }
  }

  private add(text: string, optimize: boolean): Outcome {
    const { arch } = this;
    const definition = parseProbe(text, arch.target.wordBytes === 8 ? 64 : 32);
    const name = `${definition.group}/${definition.event}`;
    if (this.names.has(name)) {
      throw refusalError(refuse('EEXIST', 'registered-twice', 'grammar', `there is an event ${name} already`));
    }
    const gone = this.session.goneProbe(this.nextId);
    const place = gone === null ? this.placeFor(definition, text) : { ...gone.probe, module: gone.module };
    if (gone !== null) this.absent.set(place.address, place);
    if (definition.isReturn && !place.atEntry) {
      throw refusalError(
        refuse('EINVAL', 'not-a-boundary', 'grammar', 'a return probe is set at the entry of a function'),
        { symbol: text },
      );
    }
    const { support } = this.text;
    const compiled =
      gone !== null
        ? []
        : compileArguments(definition, {
            abi: support.abi,
            symbol: (name) => this.text.symbolAddress(name),
            atEntry: place.atEntry,
          });
    compileProgram(compiled, this.program.image.wordBytes);
    const is2009 = this.version === '2009';
    const probe = new Kprobe(
      place.address,
      {
        pre: (_probe, regs) => {
          this.recorder?.(made, regs);
          return 0;
        },
      },
      is2009 && optimize ? FLAGS_2009.OPTIMIZE : 0,
      name,
    );
    const made: ProbeEvent = { id: this.nextId++, definition, place, arguments: compiled, probe, optimize };
    if (optimize) this.wanted.add(place.address);
    this.ftrace.outcome = null;
    const result = this.core().register(probe);
    const refused = this.outcomeOf(result, text);
    if (refused !== null) return refused;
    this.keep(made, name);
    return { kind: 'done', steps: [], warnings: [] };
  }

  /** Makes an event known that was registered. */
  private keep(made: ProbeEvent, name: string): void {
    const { place, probe, optimize } = made;
    this.list.set(made.id, made);
    this.probed.set(place.address, (this.probed.get(place.address) ?? 0) + 1);
    this.names.set(name, made);
    this.all.push(made);
    this.byProbe.set(probe, made);
    if (optimize && place.site !== null) {
      this.refusals.set(
        place.address,
        refuse(
          'EINVAL',
          'site-in-window',
          'K-ADDR-7',
          'probes on ftrace sites are served by ftrace, without a breakpoint or jump',
        ),
      );
    }
  }

  /**
   * A module that is not loaded yet, or no more, has no text and no symbols, whatever lies in the
   * image.
   */
  private placeFor(definition: ProbeDefinition, text: string): ProbePlace {
    const { where } = definition;
    const found = this.text.validate(where);
    if (found.kind === 'refused') throw refusalError(found, { symbol: text });
    const { address, symbol, offset, atEntry } = found;
    const module = this.moduleAt(address);
    if (module !== null && !this.session.isLoaded(module)) {
      const reason = `${symbol} is in module ${module}, which is not loaded`;
      throw refusalError(
        where.kind === 'symbol'
          ? refuse('ENOENT', 'no-symbol', 'K-ADDR-1', reason)
          : refuse('EINVAL', 'not-text', 'K-ADDR-2', reason),
        { symbol: text },
      );
    }
    return { address, symbol, offset, atEntry, module, site: found.site === null ? null : this.siteIp(address) };
  }

  /** The module whose code is at an address of the image. */
  private moduleAt(address: Address): string | null {
    const part = this.program.partOf(address);
    return part?.kind === 'module' ? part.name : null;
  }

  /** Null: it is done. */
  private outcomeOf(result: KprobeResult, text: string): Outcome | null {
    if (typeof result !== 'string') {
      const refusal = result.refusal ?? refuse(result.errno, 'arch-refused', 'T-KP-32', 'the machine refused');
      throw refusalError(refusal, { symbol: text });
    }
    const outcome = this.ftrace.outcome;
    if (outcome === null || outcome.kind === 'done') return null;
    if (outcome.kind === 'refused') {
      throw refusalError(
        refuse(outcome.errno === 'ENOMEM' ? 'ENOMEM' : 'EINVAL', 'no-ftrace-support', 'K-ADDR-7', outcome.reason),
        { symbol: text },
      );
    }
    return outcome;
  }

  private remove(name: string): Outcome {
    const event = this.eventNamed(name);
    const { address } = event.place;
    this.core().unregister(event.probe);
    this.list.delete(event.id);
    this.names.delete(event.probe.name);
    this.probed.set(address, (this.probed.get(address) ?? 1) - 1);
    // No thread executes a file: what the probe had is free for the next one at once.
    this.rest();
    this.image.forget(address);
    return { kind: 'done', steps: [], warnings: [] };
  }

  // --------------------------------------------------------------------------------------- modules

  moduleUse(name: string): string | null {
    const ranges = this.program.loadMap?.parts.find((part) => part.name === name)?.ranges ?? [];
    const inside = (value: bigint): boolean => ranges.some(({ start, end }) => value >= start && value < end);
    const user = this.events.find(
      (event) =>
        event.place.module !== name &&
        !isGone(event) &&
        event.arguments.some(
          ({ steps, memory }) =>
            (memory !== null || steps.some(({ kind }) => kind === 'load')) &&
            steps.some((step) => step.kind === 'constant' && inside(step.value)),
        ),
    );
    return user === undefined ? null : `${name} has data that the probe ${user.probe.name} reads`;
  }

  /** Time passes until nothing changes any more. */
  rest(): void {
    const core = this.core();
    for (let i = 0; i < RUNS; i++) {
      core.tick(10);
      this.watcher?.waited();
      core.quiescence();
    }
  }

  unloadModule(name: string): void {
    // What waited for its jump has it by then, as it had at the end of an earlier call.
    if (this.started !== null) this.rest();
    const stale: { address: Address; size: number }[] = [];
    for (const { address, flags, part, text } of this.started?.states() ?? []) {
      const absent = this.absent.get(address);
      if ((flags & FLAGS.GONE) !== 0 || (absent?.module ?? this.moduleAt(address)) !== name) continue;
      const execution = this.machine.execution(address, false);
      if (absent === undefined && text !== 'ftrace' && execution !== null && 'instruction' in execution) {
        stale.push({ address, size: part?.length ?? execution.instruction.bytes.length });
      }
      this.started?.kill(address, address + 1n);
      this.absent.delete(address);
    }
    this.stale.set(name, stale);
  }

  loadModule(name: string): void {
    const { image } = this.text.program;
    for (const { address, size } of this.stale.get(name) ?? []) {
      const offset = image.fileOffsetOf(address);
      this.image.put(address, image.bytes.subarray(offset, offset + size), backWithModule);
    }
    this.stale.delete(name);
  }

  placesIn(module: string): readonly GoneProbe[] {
    return this.all
      .filter(({ place }) => place.module === module)
      .map(({ id, place: { address, symbol, offset, atEntry, site } }) => ({
        id,
        address,
        symbol,
        offset,
        atEntry,
        site,
      }));
  }

  // --------------------------------------------------------------------------------------- the end

  /** Time passes until nothing changes any more; then the objects are written. */
  finish(): void {
    if (this.started === null) return;
    this.rest();
    this.write();
  }

  replacedCode(): readonly ReplacedCode[] {
    return this.states().flatMap((state): ReplacedCode[] => {
      const { address: start, text } = state;
      if (this.absent.has(start)) return [];
      if (text === 'jump') {
        const { window, buffer } = state.part as DetourPart;
        const end = start + BigInt(window.bytes.length);
        return [{ start, end, copy: buffer.address + BigInt(buffer.copiedOffset) }];
      }
      const execution = text === 'breakpoint' ? this.machine.execution(start, false) : null;
      if (execution === null || 'code' in execution) return [];
      const { length } = this.text.support.breakpoint(execution.instruction.bytes);
      return [{ start, end: start + BigInt(length), copy: execution.slot }];
    });
  }

  /** What handlers need in the image. */
  write(): void {
    const core = this.core();
    this.image.clear();
    const live = core.states().filter((state) => this.eventsOf(state).some((event) => !isGone(event)));
    // F-3: with the last probe everything goes.
    if (live.length === 0) return;
    this.image.writeTrampoline();
    this.ftrace.write();
    for (const state of live) {
      this.image.writeProbe(
        state,
        this.eventsOf(state).filter(({ probe }) => !isOff(probe.flags)),
      );
    }
  }

  // -------------------------------------------------------------------------------------- listings

  private eventsOf({ probes }: ProbeState): ProbeEvent[] {
    return probes.flatMap((probe) => this.byProbe.get(probe) ?? []);
  }

  get events(): readonly ProbeEvent[] {
    return [...this.list.values()];
  }

  /** What was recorded under an event's id. Null: there is no such event. */
  recorded(
    id: number,
    words: readonly bigint[],
    comm: string,
  ): { readonly event: ProbeEvent; readonly values: readonly Fetched[]; readonly parent: Address } | null {
    const event = this.list.get(id);
    if (event === undefined) return null;
    const { isReturn } = event.definition;
    const littleEndian = this.arch.target.dataEndian === 'little';
    return {
      event,
      values: decodeWords(event.arguments, isReturn ? words.slice(1) : words, { littleEndian, comm }),
      parent: isReturn ? (words[0] ?? 0n) : 0n,
    };
  }

  /** A breakpoint was hit: see the state machines. */
  hit(address: Address, regs: ProbeCpu): number | 'resume-in-buffer' | null {
    return this.started?.hit(address, regs) ?? null;
  }

  states(): readonly ProbeState[] {
    return this.started?.states() ?? [];
  }

  /** Probed addresses, ascending. */
  probes(): readonly ListedProbe[] {
    return this.states().flatMap((state) => {
      const all = this.eventsOf(state);
      return [false, true].flatMap((gone) => {
        const events = all.filter((event) => isGone(event) === gone);
        const [first] = events;
        if (first === undefined) return [];
        const { symbol, offset } = first.place;
        const wants = !gone && state.text !== 'jump' && events.some(({ optimize }) => optimize);
        const refusal = wants ? this.whyNot(state) : null;
        return [{ address: state.address, symbol, offset, state, events, gone, refusal }];
      });
    });
  }

  private whyNot({ address, text }: ProbeState): ProbeRefusal {
    if (text === 'original') return refuse('EINVAL', 'disabled', 'K-OPT-2', 'the probe is not armed');
    const known = this.refusals.get(address);
    if (known !== undefined) return known;
    const now = this.started instanceof KprobesModern ? this.started.reason(address) : null;
    return now ?? refuse('EEXIST', 'other-probe', 'T-1', 'another probe made it fall back to a breakpoint');
  }
}
