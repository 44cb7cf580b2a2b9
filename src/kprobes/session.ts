/**
 * Probes of a session on an image with the runtime: definitions become probes of a state machine,
 * and what they need in the image is written: breakpoints and jumps, out-of-line copies and detour
 * buffers (`.elftrace.slots`), objects for the callback (`.elftrace.probes`). Probes on ftrace
 * sites become ops of the core.
 *
 * The same operations on the same image give the same bytes and the same addresses, so the code
 * that runs a patched image performs them once more and knows what each breakpoint stands for
 * (run.ts).
 */
import type { Arch } from '../machine/arch.js';
import { alignUpBig, type Reach, reaches } from '../bits.js';
import { ByteView, equalBytes } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError, hex } from '../errors.js';
import type { Ops, Outcome } from '../ftrace/index.js';
import type { GoneProbe } from '../record/gone-modules.js';
import type { ReplacedCode } from '../patch/kept-relocations.js';
import { entryPoint } from '../program/entry-points.js';
import type { Session } from '../tracing/session.js';
import type { ProbeHost } from '../tracing/session-plan.js';
import type { ProbeOperation } from '../tracing/session-file.js';
import { findSites } from '../sites/sites.js';
import { recordIp } from '../tracing/site-state.js';
import { farStub } from '../program/loader.js';
import { load, probeSections, type Program } from '../program/program.js';
import {
  PROBE_EVENT_FLAGS,
  PROBE_EVENT_WORD_COUNT,
  PROBE_EVENT_WORDS,
  PROBE_OP_WORD_COUNT,
  PROBE_OP_WORDS,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import { type CompiledArgument, compileArguments, type Fetched, parseProbe, type ProbeDefinition } from './events.js';
import { whyNotFtrace } from './explain.js';
import { type ProbeCpu, type ProbeRefusal, type ProbeSupport, refuse } from '../machine/probes.js';
import { FLAGS, FLAGS_2009, isOff, Kprobe, type KprobeResult, type ProbeState } from './objects.js';
import { compileProgram, decodeWords } from './program.js';
import { type SlotArea, SlotPool } from './slots.js';
import { Kprobes2009 } from './state-2009.js';
import { KprobesModern } from './state-modern.js';
import { type DetourPart, type ProbeStoreReason, TextMachine, type TextWatcher } from './text-machine.js';
import { ProbeText, refusalError, type ValidProbe } from './validate.js';

/** Where a probe is: in text of the image, or of a module that has gone from it. */
export interface ProbePlace extends Pick<ValidProbe, 'address' | 'symbol' | 'offset' | 'atEntry'> {
  readonly module: string | null;
  /** Of the ftrace site that serves it: the ip that callbacks are told. */
  readonly site: Address | null;
}

/** An event as it was registered. */
export interface ProbeEvent {
  /** Recorded with every hit. */
  readonly id: number;
  readonly definition: ProbeDefinition;
  readonly place: ProbePlace;
  readonly arguments: readonly CompiledArgument[];
  readonly probe: Kprobe;
  readonly optimize: boolean;
}

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

/** Room for the trap of return probes, in front of all slots. */
const TRAMPOLINE_BYTES = 16;
const objectsOfProbes: ProbeStoreReason = { rule: 'K-SLOT-3', reason: 'object of a probe or event' };
const roomOfProbes: ProbeStoreReason = { rule: 'K-SLOT-2', reason: 'room that no probe has' };
const backWithModule: ProbeStoreReason = { rule: 'K-OPT-8', reason: 'a module came without the probe it had' };
/** Objects are found by their addresses. */
const ANYWHERE: Reach = { min: 0n, max: 1n << 64n, alignBytes: 1 };
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

/** Room for slots, and how buffers in it get to their callees. */
interface SlotRoom extends SlotArea {
  readonly callees: readonly Address[];
  /**
   * Stubs in front of the slots, with what they lead to: in modules, which lie out of the runtime's
   * reach.
   */
  readonly stubs: readonly { readonly address: Address; readonly target: Address }[];
}

function roomAt(
  address: Address,
  size: number,
  isFirst: boolean,
  support: ProbeSupport,
  callees: readonly Address[],
  reach: Reach | null,
  arch: Arch,
): SlotRoom {
  const end = address + BigInt(size);
  const isNear = (callee: Address): boolean =>
    reach === null || [address, end].every((from) => reaches(reach, from, callee));
  const stubBytes = arch.loader.kind === 'none' ? 0 : arch.loader.stubs.entryBytes;
  const stubs: { address: Address; target: Address }[] = [];
  let at = alignUpBig(address + BigInt(isFirst ? TRAMPOLINE_BYTES : 0), 16n);
  const ways = callees.map((target) => {
    if (isNear(target)) return target;
    stubs.push({ address: at, target });
    at += BigInt(stubBytes);
    return stubs[stubs.length - 1]!.address;
  });
  return { start: alignUpBig(at, BigInt(support.slots.alignBytes)), end, callees: ways, stubs };
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
  private readonly program: Program;
  /** By number. */
  private readonly list = new Map<number, ProbeEvent>();
  private readonly names = new Map<string, ProbeEvent>();
  /** Those that were removed since, too. */
  private readonly all: ProbeEvent[] = [];
  private readonly byProbe = new Map<Kprobe, ProbeEvent>();
  private readonly refusals = new Map<Address, ProbeRefusal>();
  /** Objects by probed address, and how many buffers hand them over. */
  private readonly ops = new Map<Address, { readonly at: Address; uses: number }>();
  /** Probes that are set and whose text is in the image no more. */
  private readonly absent = new Map<Address, ProbePlace>();
  /** Bytes of ours in the text of modules that went and are in the image. */
  private readonly stale = new Map<string, { readonly address: Address; readonly size: number }[]>();
  /** Probed addresses by object, and the number of events at each. */
  private readonly owners = new Map<Address, Address>();
  private readonly probed = new Map<Address, number>();
  /** Probed sites, with their ips. */
  private readonly ftraceSites = new Map<Address, Address>();
  private ftraceOps: Ops | null = null;
  /** Word that points to the table of the callback. */
  private ftraceTable: Address | null = null;
  /** What the core says to the ops that a registration made. */
  private ftraceOutcome: Outcome | null = null;
  private readonly wanted = new Set<Address>();
  private started: Core | null = null;
  private version: '2009' | 'modern' | null = null;
  private preempt: 'none' | 'full' | null = null;
  /** Objects of probes. */
  private readonly data: SlotArea;
  private readonly room: SlotPool;
  /** Events and tables, which are written anew each time. */
  private written: Address[] = [];
  private nextId = 1;
  private readonly word: 4 | 8;
  /** The runtime's room, and those of modules. */
  private readonly rooms: readonly SlotRoom[];
  private readonly pool: SlotPool;
  private readonly toc: Address | null;

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
    this.word = program.image.wordBytes;
    const own = load(readElf(original.bytes.slice()), arch);
    this.text = new ProbeText(own, findSites(own));
    const slots = program.image.sectionsNamed(probeSections.text);
    const data = program.image.section(probeSections.data);
    if (slots[0] === undefined || data === undefined) {
      throw new ElftraceError(
        'no-runtime',
        'the image was laid out without room for probes: lay it out with load --probes',
        { section: probeSections.text, reason: 'no-memory' },
      );
    }
    const { support } = this.text;
    this.trampoline = slots[0].address;
    this.data = { start: data.address, end: data.address + BigInt(data.size) };
    this.room = new SlotPool([this.data]);
    const { optimization } = support;
    const callees =
      optimization.kind === 'none'
        ? []
        : optimization.callees.flatMap((name) => entryPoint(program, name)?.address ?? []);
    const reach = optimization.kind === 'none' ? null : optimization.calleeReach;
    this.rooms = slots.map(({ address, size }, i) => roomAt(address, size, i === 0, support, callees, reach, arch));
    this.pool = new SlotPool(this.rooms);
    const runtime = program.loadMap?.parts.find(({ kind }) => kind === 'runtime');
    this.toc = runtime?.toc ?? program.toc;
    this.machine = this.textMachine(watcher, callees);
  }

  /** How the state machines see the text of the session's image. */
  private textMachine(watcher: TextWatcher | null, callees: readonly Address[]): TextMachine {
    const { program } = this;
    const { support } = this.text;
    const { optimization } = support;
    return new TextMachine({
      support,
      slots: this.pool,
      watcher,
      store: {
        isFile: true,
        read: (address, size) => this.bytes(address, size)?.slice() ?? null,
        store: (address, bytes, why) => {
          this.put(address, bytes, why);
        },
        sync: () => undefined,
      },
      check: (address) => {
        const absent = this.absent.get(address);
        if (absent) return { kind: 'absent', address, ftrace: absent.site !== null };
        const found = this.placeOf(address);
        return found.kind === 'refused'
          ? found
          : {
              kind: 'valid',
              address: found.address,
              code: found.code,
              instruction: found.instruction,
              ftrace: found.site !== null,
            };
      },
      op: (address) => this.opOf(address, 1),
      freeOp: (op) => {
        this.freeOp(op);
      },
      callees: optimization.kind === 'none' || callees.length < optimization.callees.length ? null : callees,
      calleesFrom: (buffer) => this.rooms.find(({ start, end }) => buffer >= start && buffer < end)?.callees ?? callees,
      toc: this.toc,
      redZone: program.loadMap?.base !== 'kernel',
      armFtrace: (address) => {
        this.armFtrace(address);
      },
      disarmFtrace: (address) => {
        this.disarmFtrace(address);
      },
    });
  }

  private bytes(address: Address, size: number): Uint8Array | null {
    const { image } = this.program;
    const offset = image.fileOffsetOf(address);
    return offset < 0 || offset + size > image.bytes.length ? null : image.bytes.subarray(offset, offset + size);
  }

  /** The single store: plans name its rule and reason. */
  private put(address: Address, bytes: Uint8Array, why: ProbeStoreReason): void {
    const now = this.bytes(address, bytes.length);
    if (now === null || equalBytes(now, bytes)) return;
    this.session.ledger.note(this.program.image.fileOffsetOf(address), bytes.length, { ...why, site: -1 });
    now.set(bytes);
  }

  /** What validation says of an address. */
  placeOf(address: Address): ValidProbe | ProbeRefusal {
    const range = this.text.program.codeAt(address);
    if (range === undefined) {
      return refuse('EINVAL', 'not-text', 'K-ADDR-2', `${hex(address)} is not in text`);
    }
    return this.text.validateAt(range, address);
  }

  // ---------------------------------------------------------------------------------------- ftrace

  /** The site's ip as callbacks are told it. */
  private siteIp(address: Address): Address {
    const { sites } = this.session;
    for (let i = 0; i < sites.count; i++) if (sites.ip(i) === address) return recordIp(sites, i);
    return address;
  }

  /** K-ADDR-7: all probes on ftrace sites share one ops, whose filter holds their sites. */
  private armFtrace(address: Address): void {
    const { core } = this.session;
    const func = this.session.functionAddress('elftrace_probe_ftrace');
    this.ftraceTable ??= this.allocate(1);
    const data = this.ftraceTable;
    const absent = this.absent.get(address);
    if (func === null || data === null || (absent === undefined && this.opOf(address) === null)) {
      const reason = func === null ? this.whyNotFtrace(address) : 'no room for the object of the probe';
      this.ftraceOutcome = { kind: 'refused', errno: func === null ? 'EINVAL' : 'ENOMEM', reason };
      return;
    }
    const isFirst = this.ftraceSites.size === 0;
    const ops = isFirst
      ? core.createOps({ name: 'probes', func, data, flags: ['SAVE_REGS'] })
      : (this.ftraceOps ?? core.createOps({ name: 'probes', func, data, flags: ['SAVE_REGS'] }));
    const ip = absent?.site ?? this.siteIp(address);
    const filtered = core.setFilterAddresses(ops, 'filter', [ip]);
    this.ftraceOutcome = filtered.kind === 'done' && isFirst ? core.register(ops) : filtered;
    if (this.ftraceOutcome.kind !== 'done') return;
    this.ftraceOps = ops;
    this.ftraceSites.set(address, ip);
  }

  private whyNotFtrace(address: Address): string {
    const place = this.placeOf(address);
    const site = place.kind === 'valid' ? place.site : null;
    const refusal = site === null ? null : whyNotFtrace(this.text.sites!, site);
    return refusal?.reason ?? 'the entries of the image have no callback for probes (elftrace_probe_ftrace)';
  }

  private disarmFtrace(address: Address): void {
    const { core } = this.session;
    const ip = this.ftraceSites.get(address);
    if (ip === undefined || this.ftraceOps === null) return;
    this.ftraceSites.delete(address);
    // A filter without sites would be everything.
    if (this.ftraceSites.size > 0) core.setFilterAddresses(this.ftraceOps, 'filter', [ip], { remove: true });
    else {
      core.unregister(this.ftraceOps);
      if (this.ftraceTable !== null) this.room.free(this.ftraceTable);
      this.ftraceTable = null;
    }
  }

  private writeFtraceTable(): void {
    if (this.ftraceTable === null) return;
    const rows = [...this.ftraceSites].sort(([, a], [, b]) => (a < b ? -1 : 1));
    const words = [BigInt(rows.length), ...rows.flatMap(([address, ip]) => [ip, this.opOf(address) ?? 0n])];
    const table = this.allocate(words.length);
    if (table === null) throw this.full(rows[0]?.[0] ?? 0n);
    this.written.push(table);
    this.writeWords(table, words);
    this.writeWords(this.ftraceTable, [table]);
  }

  // --------------------------------------------------------------------------------------- objects

  private allocate(words: number): Address | null {
    return this.room.allocate(words * this.word, 8, this.data.start, ANYWHERE);
  }

  /** The object of a probed address. */
  private opOf(address: Address, uses = 0): Address | null {
    let op = this.ops.get(address);
    if (op === undefined) {
      const at = this.allocate(PROBE_OP_WORD_COUNT);
      if (at === null) return null;
      op = { at, uses: 0 };
      this.ops.set(address, op);
      this.owners.set(at, address);
    }
    op.uses += uses;
    return op.at;
  }

  /** A buffer that handed it over is gone. */
  private freeOp(at: Address): void {
    const address = this.owners.get(at);
    const op = address === undefined ? undefined : this.ops.get(address);
    if (address === undefined || op === undefined) return;
    op.uses--;
    this.forget(address);
  }

  /** F-3: the object goes when no probe needs it any more. */
  private forget(address: Address): void {
    const op = this.ops.get(address);
    if (op === undefined || op.uses > 0 || this.ftraceSites.has(address) || (this.probed.get(address) ?? 0) > 0) return;
    this.ops.delete(address);
    this.owners.delete(op.at);
    this.room.free(op.at);
  }

  /** Address of the object of a probed address; null: it has none. */
  objectAt(address: Address): Address | null {
    return this.ops.get(address)?.at ?? null;
  }

  private writeWords(address: Address, words: readonly (bigint | number)[]): void {
    const bytes = new Uint8Array(words.length * this.word);
    const view = new ByteView(bytes, this.program.image.header.endian, probeSections.data);
    words.forEach((word, i) => {
      view.insertWord(i * this.word, BigInt.asUintN(8 * this.word, BigInt(word)), this.word);
    });
    this.put(address, bytes, objectsOfProbes);
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
    this.ftraceOutcome = null;
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
    compileProgram(compiled, this.word);
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
    this.ftraceOutcome = null;
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
    const outcome = this.ftraceOutcome;
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
    this.forget(address);
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
      this.put(address, image.bytes.subarray(offset, offset + size), backWithModule);
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
    this.tidySlots();
    this.put(this.data.start, new Uint8Array(Number(this.data.end - this.data.start)), roomOfProbes);
    for (const each of this.written) this.room.free(each);
    this.written = [];
    this.eventAddresses.clear();
    const live = core.states().filter((state) => this.eventsOf(state).some((event) => !isGone(event)));
    // F-3: with the last probe everything goes.
    if (live.length === 0) return;
    this.writeTrampoline();
    this.writeFtraceTable();
    for (const state of live) {
      const { address, part } = state;
      const op = this.opOf(address);
      if (op === null) throw this.full(address);
      let next = 0n;
      // Handlers run in the order of the list.
      for (const event of this.eventsOf(state).reverse()) {
        if (!isOff(event.probe.flags)) next = this.writeEvent(event, next);
      }
      const words: (bigint | number)[] = Array.from({ length: PROBE_OP_WORD_COUNT }, () => 0n);
      words[PROBE_OP_WORDS.address] = address;
      words[PROBE_OP_WORDS.ip] = address + BigInt(this.text.support.trapDelta);
      words[PROBE_OP_WORDS.adjust] = (part as DetourPart | null)?.buffer.stackAdjust ?? 0;
      words[PROBE_OP_WORDS.events] = next;
      this.writeWords(op, words);
    }
  }

  /**
   * Copies and buffers that were given back leave nothing, since no thread executes a file; those
   * that stay find their callees.
   */
  private tidySlots(): void {
    const map = this.program.loadMap;
    for (const { start, end, stubs } of this.rooms) {
      let at = start;
      const clear = (to: Address): void => {
        if (to > at) this.put(at, new Uint8Array(Number(to - at)), roomOfProbes);
      };
      const taken = this.pool.taken.filter(({ address }) => address >= start && address < end);
      for (const { address, sizeBytes } of taken) {
        clear(address);
        at = address + BigInt(sizeBytes);
      }
      clear(end);
      if (taken.length === 0 || map === null) continue;
      for (const { address, target } of stubs) {
        const bytes = farStub(map, this.arch, address, target, this.toc);
        this.put(address, bytes, { rule: 'K-OPT-1', reason: 'the way of buffers to their callback' });
      }
    }
  }

  private full(address: Address): ElftraceError {
    return refusalError(refuse('ENOMEM', 'no-memory', 'K-SLOT-3', `no room for the events at ${hex(address)}`));
  }

  private writeEvent(event: ProbeEvent, next: Address): Address {
    const program = compileProgram(event.arguments, this.word);
    const at = this.allocate(PROBE_EVENT_WORD_COUNT + program.length);
    if (at === null) throw this.full(event.place.address);
    const words: (bigint | number)[] = Array.from({ length: PROBE_EVENT_WORD_COUNT }, () => 0n);
    const { isReturn, maxActive } = event.definition;
    words[PROBE_EVENT_WORDS.next] = next;
    words[PROBE_EVENT_WORDS.id] = event.id;
    words[PROBE_EVENT_WORDS.flags] = isReturn
      ? PROBE_EVENT_FLAGS.return | (maxActive << PROBE_EVENT_FLAGS.activeShift)
      : 0;
    this.writeWords(at, [...words, ...program]);
    this.eventAddresses.set(at, event);
    this.written.push(at);
    return at;
  }

  /** Events by the address of their object. */
  readonly eventAddresses = new Map<Address, ProbeEvent>();

  private writeTrampoline(): void {
    const symbol = entryPoint(this.program, 'elftrace_probe_trampoline');
    const shortest = this.arch.target.codeAlignBytes;
    const bytes = this.text.support.breakpoint(new Uint8Array(shortest === 1 ? 1 : 4));
    this.put(this.trampoline, bytes, { rule: 'K-BP-1', reason: 'where return probes come back' });
    if (symbol !== null) this.writeWords(symbol.identity, [this.trampoline]);
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
