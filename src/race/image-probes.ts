/**
 * Races of probes on real images: what a session's probes store, wait for and give back while a
 * probe goes from state to state is the sequence, and threads that call the function are those of
 * the program. Decides nothing: the state machines of the kprobe room do.
 */
import { ElftraceError, hex } from '../errors.js';
import { readElf } from '../elf/read.js';
import { Session } from '../tracing/session.js';
import { entryPoint } from '../program/entry-points.js';
import { KprobesModern } from '../kprobes/state-modern.js';
import type { ProbeEvent } from '../kprobes/probe-event.js';
import { probeRoomFor, ProbeSession } from '../kprobes/session.js';
import { refusalError } from '../kprobes/validate.js';
import { probeSections } from '../program/program.js';
import type { Address } from '../units.js';
import { type ImageRace, type ImageRaceRequest, prepared } from './image.js';
import { BUDGET, stageOf } from './image-stage.js';
import type { Property, Scene, Sequence } from './model.js';
import { ProbeRecorder } from './probes.js';
import { type Breakage, broken } from './sequence.js';

/**
 * What stands at the probed address: what the program has, a breakpoint (queued, where a jump comes
 * later), a jump.
 */
export type ProbeRaceState = 'none' | 'probe' | 'jump';

/**
 * States of a probe from words: none, probe, jump, with commas between them.
 * @throws ElftraceError 'usage'
 */
export function parseProbeStates(text: string): ProbeRaceState[] {
  return text.split(',').map((each) => {
    if (each === 'none' || each === 'probe' || each === 'jump') return each;
    throw new ElftraceError('usage', `'${each}' is no state of a probe: none, probe, jump`, { value: each });
  });
}

export interface ProbeRaceRequest extends Pick<
  ImageRaceRequest,
  'image' | 'cpus' | 'call' | 'preempt' | 'staleFetch' | 'entries' | 'machine' | 'budget'
> {
  /** Where, or what, as `patch --probe` takes it: `leaf+4`, `p leaf+4 $arg1`. */
  readonly probe: string;
  /** Gone through before the race; no thread is there. */
  readonly from: readonly ProbeRaceState[];
  /** Gone through in the race. */
  readonly to: readonly ProbeRaceState[];
  /** Default: modern. */
  readonly version?: '2009' | 'modern';
  readonly variants?: readonly Breakage[];
}

const EVENT = 'race/probe';
const MARK = 'probe';
/** Operations of sessions have a place in a file. */
const NOWHERE = { line: 1, column: 1 } as const;
const FREED = Uint8Array.of(0xde, 0xad, 0xfe, 0xed);

/** Takes a probe from state to state. */
class ProbeStates {
  private at: ProbeRaceState = 'none';
  /** As it was registered first. */
  event: ProbeEvent | null = null;
  /** Objects of the probe, as they were when it was last there. */
  data: Uint8Array | null = null;
  /** What buffers hand to their callback. */
  object: Address | null = null;

  constructor(
    private readonly host: ProbeSession,
    private readonly recorder: ProbeRecorder,
    private readonly request: ProbeRaceRequest,
    private readonly objects: () => Uint8Array,
  ) {}

  private register(): void {
    const { probe, from, to, version = 'modern', preempt = 'full' } = this.request;
    const define = /^[pr][\d:]*\s|^[pr]\d*:/.test(probe) ? probe : `p:${EVENT} ${probe}`;
    const optimize = [...from, ...to].includes('jump');
    this.host.perform({ at: NOWHERE, kind: 'probe', define, optimize, version, preempt });
    const { definition, place } = (this.event = this.host.events[0]!);
    if (definition.isReturn || place.site !== null) {
      const what = definition.isReturn ? 'a return probe' : 'a probe on an ftrace site';
      throw new ElftraceError('usage', `${what} is no matter of text alone: race the site with --site`, {
        value: probe,
      });
    }
    this.recorder.settle();
  }

  go(to: ProbeRaceState): void {
    const { host, at } = this;
    if (to === at) throw new ElftraceError('usage', `the probe is in the state ${to} already`, { value: to });
    if (at === 'none') this.register();
    const core = host.core();
    if (to === 'none') {
      const { definition } = this.event!;
      host.perform({ at: NOWHERE, kind: 'no-probe', event: `${definition.group}/${definition.event}` });
    } else if (to === 'jump') {
      if (core instanceof KprobesModern) core.allowOptimization();
      host.rest();
      const [listed] = host.probes();
      if (listed!.state.text !== 'jump') throw refusalError(listed!.refusal!, { symbol: this.request.probe });
    } else if (at === 'jump') {
      if (!(core instanceof KprobesModern)) {
        const reason = 'in 2009 a jump becomes a breakpoint again only for a probe in its window';
        throw new ElftraceError('plan-refused', reason, { what: this.request.probe });
      }
      core.forbidOptimization();
      host.rest();
    }
    this.recorder.settle();
    this.at = to;
    if (to === 'none') return;
    host.write();
    this.data = this.objects();
    this.object = host.objectAt(this.event!.place.address);
  }
}

/**
 * The race of a request.
 * @throws ElftraceError as `imageRace`; 'bad-probe', 'probe-refused'
 */
export function probeRace(request: ProbeRaceRequest): ImageRace {
  const { from, to, cpus = 1, preempt = 'full', variants = [] } = request;
  const { image, arch, emulation } = prepared(request, probeRoomFor(1));
  const session = Session.open(image.bytes, arch, { policy: { preempt } });
  const { program } = session.sites;
  const recorder = new ProbeRecorder({ mark: MARK, fill: FREED, isa: arch.isa });
  const host = new ProbeSession(session, readElf(image.bytes.slice()), arch, recorder);
  recorder.attach(host, host.machine);
  const section = program.image.section(probeSections.data)!;
  const states = new ProbeStates(host, recorder, request, () => program.image.contents(section).slice());
  for (const each of from[0] === 'none' ? from.slice(1) : from) states.go(each);
  recorder.begin();
  const before = readElf(session.bytes());
  for (const each of to) states.go(each);

  const { address } = states.event!.place;
  const place = host.placeOf(address);
  if (place.kind === 'refused') throw new ElftraceError('internal', place.reason);
  const { code } = place;
  const original = [{ address: code.start, bytes: code.bytes }];
  const stage = stageOf({
    before, program, arch, emulation, name: code.name, at: address, cpus, staleFetch: request.staleFetch ?? true,
    call: request.call ?? null, budget: request.budget ?? BUDGET, then: original, later: original,
  });
  // No thread looks at objects before the jump that leads to them: they may be there from the
  // start.
  stage.scene.machine.memory.write(section.address, states.data!);

  const marks = new Map<Address, string>();
  const checks = new Map<Address, NonNullable<ReturnType<NonNullable<Scene['checks']>['get']>>>();
  const callee = entryPoint(program, 'elftrace_probe_hit')?.address;
  if (callee !== undefined) {
    marks.set(callee, MARK);
    checks.set(callee, ({ register }) => {
      const op = register(arch.abi.argumentRegisters[0]!);
      return op === states.object ? null : `the callback is called with ${hex(op)}, which is not the object of the probe`;
    });
  }
  const scene: Scene = { ...stage.scene, marks, checks, units: recorder.units() };
  const where = `${code.name}${address === code.start ? '' : `+${hex(address - code.start)}`}`;
  let sequence: Sequence = {
    name: `probe ${where}: ${[from.at(-1), ...to].join(' to ')}`,
    patchers: [{ name: 'patcher', steps: recorder.steps }],
    serves: recorder.first,
  };
  for (const each of variants) sequence = broken(sequence, each);
  const always = from.at(-1) !== 'none' && !to.includes('none');
  return {
    scene, sequence, labels: new Map(), arch, image: before, program,
    options: { ...stage.options, ...(cpus === 1 ? { properties: [hits(stage.visits(address), always)] } : {}) },
    site: { function: code.name, address },
    placeOf: (of) => stage.placeOf(of, () => null),
    isCode: (of) => program.codeAt(of) !== undefined,
  };
} // prettier-ignore

/** Handlers run once each time the program comes to the probe: as often as it does without one. */
function hits(times: number, always: boolean): Property {
  return {
    name: 'hits',
    title: 'handlers run once for each hit',
    atReturn: ({ marks }) => {
      const count = marks.filter((each) => each === MARK).length;
      if (count === times || (!always && count < times)) return null;
      return `handlers ran ${count} times, and the call came there ${times} times`;
    },
  };
}
