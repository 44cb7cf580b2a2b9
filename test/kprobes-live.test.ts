/**
 * Probes on a machine that runs: single moments of their lives, told by hand, and the gaps of 2009
 * as a thread meets them. Every order of everything is in probes-race.test.ts. The text belongs to
 * a machine, never to a file.
 */
import { describe, expect, test } from '@jest/globals';
import { x86Probes } from '../src/arch-x86/kprobes.js';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { Machine, type StopReason } from '../src/emulator/index.js';
import { type ProbeCpu, refuse } from '../src/machine/probes.js';
import { FLAGS_2009, Kprobe, type KprobeEvent, type KprobeHandlers } from '../src/kprobes/objects.js';
import { SlotPool } from '../src/kprobes/slots.js';
import { Kprobes2009 } from '../src/kprobes/state-2009.js';
import { KprobesModern } from '../src/kprobes/state-modern.js';
import { type DetourPart, TextMachine } from '../src/kprobes/text-machine.js';
import { readSample } from './support/pipeline.js';
import { codeOf } from './support/probe-code.js';

const { emulation } = archOf(readElf(readSample('x86-64/program-fentry')).header);
if (emulation.kind !== 'ir') throw new Error('x86-64 is emulated');
const { lifter } = emulation;

const F = 0x40_1000n;
const DATA = 0x40_3000n;
const CALLBACK = 0x40_0800n;
const COUNTER = DATA + 0x100n;
const SLOTS = 0x40_8000n;
const STACK = 0x50_0000n;
const STOP = 0x40_0f00n;
/** Code of a handler, whose first instruction loads from nowhere. */
const HANDLER = 0x40_0900n;
const LOAD = 3n;

/** f: lea 1(%rax),%eax; mov DATA(%rip),%ecx; adc %ecx,%eax; lea 2(%rax),%eax; ret */
const CODE = Uint8Array.of(
  0x8d, 0x40, 0x01, 0x8b, 0x0d, 0xf7, 0x1f, 0x00, 0x00, 0x11, 0xc8, 0x8d, 0x40, 0x02, 0xc3,
); // prettier-ignore
const WINDOW = 9n;
/** With 10 in eax, 5 in memory and the carry set: 11 + 5 + 1 + 2. */
const RESULT = 19n;

type Core = Kprobes2009<DetourPart> | KprobesModern<DetourPart>;

interface Options {
  readonly core: '2009' | 'literal' | 'modern';
  /** False: nobody waits. */
  readonly quiescence?: boolean;
  /** Called before each store to the function. */
  readonly beforeStore?: (index: number) => void;
  /** Called behind each step of the state machine. */
  readonly onEvent?: (event: KprobeEvent) => void;
  /** 2009: which store comes first when an object takes the place of a probe. */
  readonly publish?: 'member' | 'table';
  /** Who goes on in a buffer goes through the whole of it. */
  readonly wholeBuffer?: boolean;
  /** Handlers run in the callback of buffers, too; else it only counts. */
  readonly inBuffer?: boolean;
}

/** One machine for all: making one takes longer than a life. */
const shared = new Machine({ lifter, fetch: 'buffered' });
shared.map({ address: 0x40_0000n, size: 0x2000, permission: 'rx' });
shared.map({ address: DATA, size: 0x1000, permission: 'rw' });
shared.map({ address: SLOTS, size: 0x1000, permission: 'rx' });
shared.map({ address: STACK - 0x2000n, size: 0x2000, permission: 'rw' });
shared.hook(STOP, () => 'stop');

class Live {
  readonly machine = shared;
  readonly text: TextMachine;
  readonly core: Core;
  stores = 0;
  /** Why the thread can go on no more. */
  failure: StopReason | 'wrong-result' | null = null;
  outside = true;
  calls = 0;
  /** Handlers that ran for a breakpoint. */
  hits = 0;
  /** Freed pieces are overwritten, as whoever gets them next would do. */
  private readonly pool: SlotPool;
  private readonly cpu: ProbeCpu;

  constructor(private readonly options: Options) {
    const { machine } = this;
    this.layOut();
    this.cpu = {
      register: (name) => machine.register(name),
      setRegister: (name, value) => {
        machine.setRegister(name, value);
      },
      read: (address, size) => machine.memory.read(address, size),
      write: (address, bytes) => machine.memory.write(address, bytes),
    };
    const code = codeOf(CODE, F);
    this.pool = new SlotPool([{ start: SLOTS, end: SLOTS + 0x1000n }]);
    this.text = new TextMachine({
      support: x86Probes,
      slots: this.pool,
      redZone: true,
      callees: [CALLBACK],
      store: {
        isFile: false,
        read: (address, size) => machine.memory.read(address, size),
        store: (address, bytes) => {
          if (address < F + 0x100n && address >= F) {
            const index = this.stores++;
            options.beforeStore?.(index);
          }
          machine.memory.write(address, bytes);
        },
        sync: () => {
          machine.synchronise(0);
        },
      },
      check(address) {
        const instruction = x86Probes.decode(code, address);
        if (address < F || address >= F + BigInt(CODE.length)) return refuse('EINVAL', 'not-text', 'K-ADDR-2', 'no');
        return instruction.kind === 'refused'
          ? instruction
          : { kind: 'valid', address, code, instruction, ftrace: false };
      },
    });
    const common = {
      optimization: true,
      onEvent: (event: KprobeEvent) => {
        options.onEvent?.(event);
      },
    };
    this.core =
      options.core === 'modern'
        ? new KprobesModern(this.text, common)
        : new Kprobes2009(this.text, {
            ...common,
            literal: options.core === 'literal',
            ...(options.publish === undefined ? {} : { publish: options.publish }),
          });
  }

  /** The function, a callback that counts, and a handler that loads through rax. */
  private layOut(): void {
    const { machine } = this;
    machine.memory.write(F, CODE);
    machine.memory.write(SLOTS, new Uint8Array(0x1000));
    machine.memory.write(DATA, new Uint8Array(0x1000));
    machine.synchronise(0);
    // incq COUNTER(%rip); ret
    const away = Number(COUNTER - (CALLBACK + 7n));
    machine.memory.write(
      CALLBACK,
      Uint8Array.of(0x48, 0xff, 0x05, away & 0xff, (away >> 8) & 0xff, (away >> 16) & 0xff, 0, 0xc3),
    );
    machine.memory.write(DATA, Uint8Array.of(5, 0, 0, 0));
    // mov (%rax),%rcx; nop
    machine.memory.write(HANDLER, Uint8Array.of(0x48, 0x8b, 0x08, 0x90));
  }

  probe(address = F, flags: number = FLAGS_2009.OPTIMIZE, handlers: KprobeHandlers = {}): Kprobe {
    const made = new Kprobe(
      address,
      {
        pre: (probe, regs) => {
          this.hits++;
          return handlers.pre?.(probe, regs) ?? 0;
        },
        ...(handlers.fault ? { fault: handlers.fault } : {}),
      },
      flags,
    );
    expect(this.core.register(made)).toBe('done');
    return made;
  }

  // ---------------------------------------------------------------------------------------- thread

  enter(): void {
    const { machine } = this;
    const sp = STACK - 0x100n;
    const back = new Uint8Array(8);
    new DataView(back.buffer).setBigUint64(0, STOP, true);
    machine.memory.write(sp, back);
    machine.setRegister('rsp', sp);
    machine.setRegister('rax', 10n);
    machine.setRegister('rflags', 3n);
    machine.setRegister('pc', F);
    this.outside = false;
  }

  /**
   * One event of the thread: an instruction of the function; what lies in slots and buffers is one
   * event with the instruction behind it.
   */
  advance(): void {
    if (this.outside || this.failure !== null) return;
    const { machine } = this;
    for (let i = 0; i < 300; i++) {
      if (this.options.inBuffer === true && machine.pc === CALLBACK) {
        this.core.detour(F, this.cpu);
        machine.setRegister('pc', CALLBACK);
        if (this.failure !== null) return;
      }
      const stop = machine.run({ budget: 1 });
      if (stop.kind === 'hook') {
        this.outside = true;
        this.calls++;
        const isRight = machine.register('rax') === RESULT && machine.register('rsp') === STACK - 0xf8n;
        if (!isRight) this.failure = 'wrong-result';
        return;
      }
      if (stop.kind !== 'step-limit' && !(stop.kind === 'trap' && this.serve(stop.instruction))) {
        this.failure = stop;
        return;
      }
      // A hook stops before STOP is executed.
      if (machine.pc === STOP || (machine.pc >= F && machine.pc < F + 0x100n)) return;
    }
    this.failure = 'wrong-result';
  }

  private serve(address: bigint): boolean {
    const { machine, text, core, cpu } = this;
    // A trap is an event at which a processor fetches anew.
    machine.synchronise(0);
    const slot = text.slotEndingAt(address);
    if (slot !== null) {
      machine.setRegister('pc', x86Probes.slots.finish(slot.instruction, slot.address, cpu));
      return true;
    }
    machine.setRegister('pc', address + 1n);
    const result = core.hit(address, cpu);
    if (result === null) {
      machine.setRegister('pc', address);
      // The breakpoint went away between the fetch and the trap: the instruction is tried again.
      const now = machine.memory.read(address, 1);
      return now !== null && now[0] !== 0xcc;
    }
    machine.setRegister('pc', address);
    const part = result === 'resume-in-buffer' ? text.partOf(address) : null;
    if (part !== null) {
      const from = this.options.wholeBuffer === true ? 0 : part.buffer.copiedOffset;
      machine.setRegister('pc', part.slot + BigInt(from));
      return true;
    }
    const found = text.execution(address, false);
    if (found === null || 'code' in found || found.slot === null) return false;
    machine.setRegister('pc', found.slot);
    return true;
  }

  /**
   * A handler as code of the machine, which loads from nowhere: whoever runs it asks the state
   * machine what to do, and goes on where the registers then say; the thread dies where nobody
   * deals with it.
   */
  readonly faulting = (): number => {
    const { machine, core, cpu } = this;
    const saved = ['rax', 'rcx', 'pc'].map((name) => [name, machine.register(name)] as const);
    machine.setRegister('rax', 0n);
    machine.setRegister('pc', HANDLER);
    const stop = machine.run({ budget: 1 });
    if (stop.kind !== 'fault') throw new Error(`a load from nowhere: ${stop.kind}`);
    const isDealtWith = core instanceof Kprobes2009 && core.fault(cpu) !== 0;
    if (!isDealtWith) this.failure = stop;
    else expect([machine.pc, machine.run({ budget: 1 }).kind]).toEqual([HANDLER + LOAD, 'step-limit']);
    for (const [name, value] of saved) machine.setRegister(name, value);
    return 0;
  };

  leave(): void {
    for (let i = 0; i < 400 && !this.outside && this.failure === null; i++) this.advance();
  }

  /** Every task was scheduled: it stands nowhere in the function. */
  wait(): void {
    if (this.options.quiescence !== false) this.leave();
    this.core.quiescence();
  }

  /** The whole life of a probe. */
  live(): void {
    const probe = this.probe();
    this.core.tick(10);
    this.wait();
    this.core.unregister(probe);
    this.core.tick(10);
    this.wait();
  }

  get bytes(): string {
    return Buffer.from(this.machine.memory.read(F, CODE.length)!).toString('hex');
  }

  get counter(): bigint {
    return this.machine.readWord(COUNTER, 8) ?? 0n;
  }
}

const ORIGINAL = Buffer.from(CODE).toString('hex');

test('the program, and the jump', () => {
  const live = new Live({ core: 'modern' });
  live.enter();
  live.leave();
  expect([live.failure, live.calls]).toEqual([null, 1]);
  live.probe();
  live.enter();
  live.leave();
  expect([live.failure, live.hits, live.counter]).toEqual([null, 1, 0n]);
  live.core.tick(10);
  live.wait();
  expect(live.bytes.startsWith('e9')).toBe(true);
  live.enter();
  live.leave();
  expect([live.failure, live.hits, live.counter]).toEqual([null, 1, 1n]);
});

test.each(['2009', 'modern'] as const)(
  'T-KP-33 X-8, %s: a thread that hits the breakpoint when the wait is over goes on in the buffer',
  (core) => {
    // Stores of the jump: breakpoint, tail, first byte; the probe's own breakpoint was store 0.
    for (const store of [1, 2, 3]) {
      const live: Live = new Live({
        core,
        beforeStore(index) {
          if (index !== store) return;
          live.enter();
          live.advance();
          // Not between the instructions that are replaced.
          expect(live.machine.pc).toBe(F + WINDOW);
        },
      });
      live.probe();
      live.core.tick(10);
      live.wait();
      live.leave();
      expect([live.failure, live.calls, live.hits]).toEqual([null, 1, 1]);
      expect(live.bytes.startsWith('e9')).toBe(true);
    }
  },
);

describe('the gaps of 2009 as a thread meets them: open, and closed', () => {
  const call = (live: Live): string => {
    live.enter();
    live.leave();
    if (live.failure === null) return 'fine';
    return live.failure === 'wrong-result' ? live.failure : live.failure.kind;
  };

  test.each(['literal', '2009'] as const)(
    'T-KP-35 (%s): undo between the jump and its entry leaving the queue',
    (core) => {
      const live = new Live({ core });
      const probe = live.probe();
      const { core: machine } = live;
      if (!(machine instanceof Kprobes2009)) throw new Error('2009');
      machine.tick(10);
      machine.quiescence({ stepwise: true });
      machine.step();
      machine.unregister(probe);
      while (machine.step()) continue;
      machine.quiescence();
      if (core === 'literal') expect([call(live) === 'fine', live.bytes === ORIGINAL]).toEqual([false, false]);
      else expect([call(live), live.bytes]).toEqual(['fine', ORIGINAL]);
    },
  );

  test.each(['literal', '2009'] as const)('T-KP-36 (%s): the undo of an object that fell back', (core) => {
    const live = new Live({ core });
    const a = live.probe();
    live.core.tick(10);
    live.wait();
    live.probe(F + 3n, 0);
    live.core.unregister(a);
    // The other probe sees the call, or has lost its breakpoint.
    expect([call(live), live.hits]).toEqual(['fine', core === 'literal' ? 0 : 1]);
  });

  test.each(['literal', '2009'] as const)('T-KP-37 (%s): a disabled object goes with its jump still there', (core) => {
    const live = new Live({ core });
    const probe = live.probe(F, FLAGS_2009.DISABLED | FLAGS_2009.OPTIMIZE);
    live.core.tick(10);
    live.wait();
    live.core.unregister(probe);
    live.wait();
    expect(live.bytes.startsWith('e9')).toBe(core === 'literal');
    // Whoever gets the freed buffer next writes over it.
    live.machine.memory.write(SLOTS, new Uint8Array(0x1000).fill(0xcc));
    live.machine.synchronise(0);
    expect(call(live)).toBe(core === 'literal' ? 'trap' : 'fine');
  });

  test.each(['literal', '2009'] as const)(
    'T-KP-38 (%s): disabling puts the first original byte over a jump',
    (core) => {
      for (const how of ['disable', 'all'] as const) {
        const live = new Live({ core });
        const probe = live.probe();
        live.core.tick(10);
        live.wait();
        if (how === 'disable') live.core.disable(probe);
        else live.core.disarmAll();
        if (core === 'literal') expect([call(live) === 'fine', live.bytes === ORIGINAL]).toEqual([false, false]);
        else expect([call(live), live.bytes]).toEqual(['fine', ORIGINAL]);
      }
    },
  );

  test('T-KP-28, H11: a buffer that is freed at once is executed by a thread that is in it', () => {
    for (const quiescence of [true, false]) {
      const live = new Live({ core: '2009', quiescence });
      const probe = live.probe();
      live.core.tick(10);
      live.wait();
      live.enter();
      // Ten instructions into the buffer.
      expect(live.machine.run({ budget: 10 }).kind).toBe('step-limit');
      live.core.unregister(probe);
      live.wait();
      live.machine.memory.write(SLOTS, new Uint8Array(0x1000).fill(0xcc));
      live.machine.synchronise(0);
      live.leave();
      expect(live.failure === null).toBe(quiescence);
    }
  });
});

/** How often the handler of a probe has seen the calls of a thread so far, by either way. */
const seen = (live: Live): number => live.hits + Number(live.counter);

/**
 * A thread calls the function behind every step and before every store of a life up to the jump:
 * how often the handler saw each call.
 */
function sightings(options: Options): { readonly before: readonly number[]; readonly after: readonly number[] } {
  const counts: { before: number[]; after: number[] } = { before: [], after: [] };
  let isArmed = false;
  let isCalling = false;
  const call = (): void => {
    // A thread is one at a time.
    if (isCalling || !live.outside) return;
    isCalling = true;
    const first = seen(live);
    live.enter();
    live.leave();
    expect(live.failure).toBeNull();
    (isArmed ? counts.after : counts.before).push(seen(live) - first);
    isCalling = false;
  };
  const live: Live = new Live({
    ...options,
    beforeStore: call,
    onEvent: ({ what }) => {
      if (what === 'armed') isArmed = true;
      call();
    },
  });
  live.probe();
  live.core.tick(10);
  live.wait();
  expect(live.bytes.startsWith('e9')).toBe(true);
  call();
  return counts;
}

describe('a registration, seen by a thread at each of its steps', () => {
  test.each(['2009', 'modern'] as const)(
    'T-KP-42 (%s): from the breakpoint to the jump the handler sees each call once',
    (core) => {
      const { before, after } = sightings({ core });
      expect(before).toEqual([0]);
      expect(after.length).toBeGreaterThan(6);
      expect(after).toEqual(after.map(() => 1));
    },
  );

  test('T-KP-42: twins: an object without its member sees nothing; who goes through the whole buffer is seen by both ways', () => {
    expect(new Set(sightings({ core: '2009', publish: 'table' }).after)).toEqual(new Set([0, 1]));
    for (const core of ['2009', 'modern'] as const) {
      expect(new Set(sightings({ core, wholeBuffer: true }).after)).toEqual(new Set([1, 2]));
    }
  });
});

describe('T-KP-30: a handler of an aggregate faults while a thread runs', () => {
  /**
   * Two probes at one address, the handler of one of which faults; what becomes of a call, and
   * whose fault handlers are asked.
   */
  const called = (
    state: 'aggregate' | 'queued' | 'jump',
    who: 'old' | 'new',
    dealsWith: boolean,
  ): readonly [end: string, asked: readonly string[]] => {
    const asked: string[] = [];
    const live: Live = new Live({ core: '2009', inBuffer: true });
    const handlers = (name: 'old' | 'new'): KprobeHandlers => ({
      pre: () => (name === who ? live.faulting() : 0),
      ...(name !== who || dealsWith
        ? {
            fault: (_probe, regs) => {
              asked.push(name);
              regs.setRegister('pc', regs.register('pc') + LOAD);
              return 1;
            },
          }
        : {}),
    });
    live.probe(F, state === 'aggregate' ? 0 : FLAGS_2009.OPTIMIZE, handlers('old'));
    live.probe(F, 0, handlers('new'));
    if (state === 'jump') {
      live.core.tick(10);
      live.wait();
      expect(live.bytes.startsWith('e9')).toBe(true);
    }
    live.enter();
    live.leave();
    const { failure } = live;
    return [failure === null ? 'fine' : failure === 'wrong-result' ? failure : failure.kind, asked];
  };

  test.each(['aggregate', 'queued', 'jump'] as const)('%s: its own fault handler is asked, and no other', (state) => {
    for (const who of ['old', 'new'] as const) {
      expect([who, called(state, who, true)]).toEqual([who, ['fine', [who]]]);
      // Twin: it has none, and that of the other does not stand in for it.
      expect([who, called(state, who, false)]).toEqual([who, ['fault', []]]);
    }
  });
});

describe('T-KP-43: a module goes away under an optimised probe, and comes again', () => {
  const call = (live: Live): string => {
    live.enter();
    live.leave();
    return live.failure === null ? 'fine' : live.failure === 'wrong-result' ? live.failure : live.failure.kind;
  };
  const reload = (live: Live): void => {
    live.core.kill(F, F + 0x40n);
    live.machine.memory.write(F, CODE);
    live.machine.synchronise(0);
  };

  test.each(['literal', '2009'] as const)(
    '%s: queued: the optimizer writes into the text of others, or not at all',
    (core) => {
      const live = new Live({ core });
      live.probe();
      const { stores } = live;
      reload(live);
      live.core.tick(10);
      live.wait();
      expect([live.stores > stores, live.bytes === ORIGINAL]).toEqual(
        core === 'literal' ? [true, false] : [false, true],
      );
      // Whoever gets the slots next writes over them.
      live.machine.memory.write(SLOTS, new Uint8Array(0x1000).fill(0xcc));
      live.machine.synchronise(0);
      expect(call(live)).toBe(core === 'literal' ? 'trap' : 'fine');
    },
  );

  test.each(['literal', '2009'] as const)(
    '%s: a jump: the next probe in its range undoes what is not there, or leaves it',
    (core) => {
      const live = new Live({ core });
      const probe = live.probe();
      live.core.tick(10);
      live.wait();
      reload(live);
      const { stores } = live;
      live.probe(F + 3n, 0);
      // One store is its own breakpoint.
      expect(live.stores - stores > 1).toBe(core === 'literal');
      expect(call(live)).toBe(core === 'literal' ? 'trap' : 'fine');
      if (core === '2009') {
        expect([live.core.enable(probe), live.hits]).toMatchObject([{ errno: 'EINVAL', refusal: { code: 'gone' } }, 1]);
      }
    },
  );
});
