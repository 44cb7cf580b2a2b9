/**
 * Small images for tests of the core that run: a core and two modules far away, compiled from
 * generated C for every convention of every target, and a machine whose functions are called one by
 * one. What a call does is logged as it happens in the machine: callbacks behind gates, direct
 * callers, records of the graph tracer, the result.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Arch } from '../../src/machine/arch.js';
import type { ConventionName } from '../../src/machine/conventions.js';
import type { TargetId } from '../../src/targets.js';
import { archOf } from '../../src/arches.js';
import { readElf } from '../../src/elf/read.js';
import { Gates, type Machine } from '../../src/emulator/index.js';
import { callFunction, type Process, startProcess } from '../../src/guest/index.js';
import { returnAddress } from '../../src/guest/call.js';
import type { Policy } from '../../src/ftrace/index.js';
import type { ProfileName } from './profiles.js';
import { liveText } from '../../src/tracing/live.js';
import { entryPoint } from '../../src/program/entry-points.js';
import { Session } from '../../src/tracing/session.js';
import { loadImages, type Source } from '../../src/program/loader.js';
import { runtimeObject } from '../../src/runtime/index.js';
import { type Event, PARENT } from './fake-ftrace.js';
import { run } from './tools.js';

export interface GeneratedCase {
  readonly name: string;
  readonly target: GeneratedTarget;
  readonly flavour: ConventionName;
  /** What the core must find that the entries offer. */
  readonly profile: ProfileName;
  readonly sites: readonly string[];
  readonly graph: Policy['graph'];
  readonly trampolines: Policy['trampolines'];
  readonly moduleBase?: bigint;
}

const mprofile = ['-pg', '-mprofile-kernel'];
const fentry = ['-pg', '-mfentry', '-mrecord-mcount'];
const none = { graph: 'multi', trampolines: 'none' } as const;

export const generatedCases: readonly GeneratedCase[] = [
  {
    ...none, name: 'x86-64', target: 'x86-64', flavour: 'modern', profile: 'x86-64', sites: fentry,
    trampolines: 'modern', moduleBase: 0x2000_0000n,
  },
  // Modules beyond every branch: stubs lead to the entries, and no trampoline is in reach of them.
  { ...none, name: 'x86-64 far', target: 'x86-64', flavour: 'modern', profile: 'x86-64', sites: fentry, trampolines: 'modern' },
  {
    name: 'x86-64 2014', target: 'x86-64', flavour: 'y2014', profile: 'x86-64 2014', sites: fentry, graph: '2014',
    trampolines: '2014', moduleBase: 0x2000_0000n,
  },
  { ...none, name: 'ppc32', target: 'ppc32', flavour: 'regs', profile: 'ppc32', sites: ['-pg'] },
  { ...none, name: 'ppc32 2008', target: 'ppc32', flavour: 'pg', profile: 'ppc32 2008', sites: ['-pg'], graph: 'single' },
  { ...none, name: 'ppc64-elfv1', target: 'ppc64-elfv1', flavour: 'pg', profile: 'ppc64-elfv1', sites: ['-pg'], graph: 'single' },
  { ...none, name: 'ppc64-elfv1 regs', target: 'ppc64-elfv1', flavour: 'regs', profile: 'ppc64-elfv2-be', sites: mprofile },
  { ...none, name: 'ppc64-elfv2-be', target: 'ppc64-elfv2-be', flavour: 'regs', profile: 'ppc64-elfv2-be', sites: mprofile },
  { ...none, name: 'ppc64-elfv2-le', target: 'ppc64-elfv2-le', flavour: 'regs', profile: 'ppc64-elfv2-le', sites: mprofile },
  { ...none, name: 'ppc32 callops', target: 'ppc32', flavour: 'callops', profile: 'ppc callops', sites: ['-fpatchable-function-entry=3,1'] },
  { ...none, name: 'ppc32 ool-ops', target: 'ppc32', flavour: 'ool-ops', profile: 'ppc ool-ops', sites: ['-fpatchable-function-entry=1'] },
  { ...none, name: 'ppc64-elfv1 ool-ops', target: 'ppc64-elfv1', flavour: 'ool-ops', profile: 'ppc ool-ops', sites: ['-fpatchable-function-entry=1'] },
  { ...none, name: 'riscv64', target: 'riscv64', flavour: 'g2', profile: 'riscv64', sites: ['-fpatchable-function-entry=4'] },
  {
    ...none, name: 'riscv64 merged', target: 'riscv64', flavour: 'g2-merged', profile: 'riscv64 merged',
    sites: ['-fpatchable-function-entry=4'],
  },
  {
    ...none, name: 'riscv64 g3', target: 'riscv64', flavour: 'g3', profile: 'riscv64 merged',
    moduleBase: 0x2000_0000n, sites: ['-fpatchable-function-entry=4', '-falign-functions=4'],
  },
  {
    ...none, name: 'riscv64 g3c', target: 'riscv64', flavour: 'g3c', profile: 'riscv64 g3c',
    moduleBase: 0x2000_0000n, sites: ['-fpatchable-function-entry=8,4', '-falign-functions=8'],
  },
  {
    ...none, name: 'arm64', target: 'arm64', flavour: 'callops', profile: 'arm64',
    sites: ['-fpatchable-function-entry=4,2', '-falign-functions=8'],
  },
  { ...none, name: 'arm64 regs', target: 'arm64', flavour: 'regs', profile: 'arm64 regs', sites: ['-fpatchable-function-entry=2'] },
]; // prettier-ignore

/** The machines that have a runtime and a loader. */
type GeneratedTarget = Exclude<TargetId, 's390x' | 'loongarch64'>;

interface Machinery {
  readonly prefix: string;
  readonly flags: readonly string[];
  readonly moduleFlags: readonly string[];
  /** Code of a direct caller that changes nothing (C-DIR-1); null where sites have none. */
  readonly direct: readonly string[] | null;
}

const ppcDirect = ['mflr 12', 'mtctr 12', 'mtlr 0', 'bctr'];

const noVectors = ['-mno-altivec', '-mno-vsx'];
const machinery: Readonly<Record<GeneratedTarget, Machinery>> = {
  'x86-64': { prefix: '', flags: ['-fcf-protection=none'], moduleFlags: ['-fPIC'], direct: ['ret'] },
  ppc32: { prefix: 'powerpc-linux-gnu-', flags: [], moduleFlags: [], direct: ppcDirect },
  'ppc64-elfv1': { prefix: 'powerpc64-linux-gnu-', flags: noVectors, moduleFlags: [], direct: ppcDirect },
  'ppc64-elfv2-be': { prefix: 'powerpc64-linux-gnu-', flags: ['-mabi=elfv2', ...noVectors], moduleFlags: [], direct: null },
  'ppc64-elfv2-le': { prefix: 'powerpc64le-linux-gnu-', flags: noVectors, moduleFlags: [], direct: null },
  riscv64: {
    prefix: 'riscv64-linux-gnu-', flags: ['-mno-relax', '-mcmodel=medany'],
    moduleFlags: ['-fPIC', '-fno-semantic-interposition'], direct: ['jr t0'],
  },
  arm64: {
    prefix: 'aarch64-linux-gnu-', flags: ['-mbranch-protection=none'], moduleFlags: [],
    direct: ['hint #34', 'mov x10, x30', 'mov x30, x9', 'ret x10'],
  },
}; // prettier-ignore

/** Tools that images of all cases need. */
export const generatedTools: readonly string[] = [
  ...new Set(Object.values(machinery).map(({ prefix }) => `${prefix}gcc`)),
];

/**
 * A function with a site: what it calls, and what it makes of its argument and of what that
 * returns.
 */
export interface GeneratedFunction {
  readonly name: string;
  readonly module: 'm0' | 'm1' | null;
  readonly calls: string | null;
  readonly factor: number;
  readonly offset: number;
  /**
   * What it calls last, in place of a return (C-FG-3): then that gets `argument * factor + offset`.
   */
  readonly tail?: boolean;
}

/** A seed whose functions are those of 1, with a tail call in f3. */
export const TAIL_SEED = 1000;

/** The functions of an image; numbers from a seed. */
export function generateFunctions(seed: number): readonly GeneratedFunction[] {
  if (seed === TAIL_SEED) return generateFunctions(1).map((each) => ({ ...each, tail: each.name === 'f3' }));
  let state = seed * 2654435761 + 12345;
  const number = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % below;
  };
  const make = (name: string, module: 'm0' | 'm1' | null, callees: readonly string[]): GeneratedFunction => ({
    name,
    module,
    calls: callees.length === 0 ? null : callees[number(callees.length)]!,
    factor: 2 + number(9),
    offset: number(1000),
  });
  const leaves = ['f0', 'f1', 'f2'];
  return [
    ...leaves.map((name) => make(name, null, [])),
    make('f3', null, leaves),
    make('f4', null, leaves),
    make('a0', 'm0', []),
    make('a1', 'm0', [...leaves, 'f3', 'a0']),
    make('b0', 'm1', [...leaves, 'f4']),
    make('b1', 'm1', ['b0']),
  ];
}

/** What runs in place of a replaced function. */
export const REPLACEMENT = { factor: 13, offset: 7 } as const;

function sourceOf(
  functions: readonly GeneratedFunction[],
  module: 'm0' | 'm1' | null,
  direct: readonly string[] | null,
  descriptors: boolean,
): string {
  const lines = ['typedef unsigned long word;', '#define TRACED __attribute__((noinline, noclone, noipa))'];
  lines.push('#if PATCHABLE\n#define UNTRACED __attribute__((noinline, patchable_function_entry(0, 0)))');
  lines.push('#else\n#define UNTRACED __attribute__((noinline, no_instrument_function))\n#endif');
  for (const { name } of functions) lines.push(`word ${name}(word);`);
  for (const { name, module: own, calls, factor, offset, tail } of functions) {
    if (own !== module) continue;
    if (tail === true && calls !== null) {
      lines.push(`TRACED word ${name}(word a) { return ${calls}(a * ${factor} + ${offset}); }`);
      continue;
    }
    const value = calls === null ? 'a' : `(a + ${calls}(a + 1))`;
    lines.push(`TRACED word ${name}(word a) { return ${value} * ${factor} + ${offset}; }`);
  }
  if (module === null) {
    const { factor, offset } = REPLACEMENT;
    lines.push(`UNTRACED word replacement(word a) { return a * ${factor} + ${offset}; }`);
    lines.push('UNTRACED void _start(void) { for (;;); }');
    for (const name of direct === null ? [] : ['direct_a', 'direct_b']) {
      const text = descriptors ? `.${name}` : name;
      const body = [
        ...(descriptors
          ? [
              `.section .opd,\\"aw\\"`,
              `.globl ${name}`,
              '.balign 8',
              `${name}:`,
              `.quad ${text}, .TOC.@tocbase, 0`,
              '.previous',
            ]
          : []),
        `.globl ${text}`,
        `.type ${text}, @function`.replace('@', '%'),
        '.balign 8',
        `${text}:`,
        ...direct!,
      ];
      lines.push(`__asm__(".text\\n${body.join('\\n')}\\n.size ${text}, .-${text}\\n");`);
    }
  }
  return `${lines.join('\n')}\n`;
}

/** Calls of `_mcount` with the table that the kernel's build adds. */
function recordCalls(assembly: string, word: 4 | 8): string {
  let count = 0;
  return assembly.replace(/^\tbl\s+_mcount$/gm, (call) => {
    const label = `.Lsite${count++}`;
    const table = [
      '\t.pushsection __mcount_loc, "a", %progbits',
      `\t.p2align ${word === 4 ? 2 : 3}`,
      `\t${word === 4 ? '.long' : '.quad'} ${label}`,
      '\t.popsection',
    ];
    return [`${label}:`, call, ...table].join('\n');
  });
}

const objects = new Map<string, Uint8Array>();
function objectOf(each: GeneratedCase, module: 'm0' | 'm1' | null, seed: number): Uint8Array {
  const { target, sites } = each;
  const { prefix, flags, moduleFlags, direct } = machinery[target];
  const key = [target, ...sites, module, seed].join(' ');
  const known = objects.get(key);
  if (known) return known;
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-generated-'));
  try {
    const common = [
      '-O2',
      '-ffreestanding',
      '-fno-stack-protector',
      '-fno-pie',
      '-fno-asynchronous-unwind-tables',
      '-w',
    ];
    const patchable = sites.some((flag) => flag.startsWith('-fpatchable'));
    const all = [
      ...common,
      ...flags,
      ...sites,
      ...(module === null ? [] : moduleFlags),
      `-DPATCHABLE=${patchable ? 1 : 0}`,
    ];
    const output = join(folder, 'a.o');
    const source = sourceOf(generateFunctions(seed), module, direct, target === 'ppc64-elfv1');
    if (!target.startsWith('ppc')) run(`${prefix}gcc`, [...all, '-x', 'c', '-', '-c', '-o', output], source);
    else {
      const assembly = join(folder, 'a.s');
      run(`${prefix}gcc`, [...all, '-x', 'c', '-', '-S', '-o', assembly], source);
      writeFileSync(assembly, recordCalls(readFileSync(assembly, 'utf8'), target === 'ppc32' ? 4 : 8));
      run(`${prefix}gcc`, [...flags, '-c', assembly, '-o', output]);
    }
    const bytes = new Uint8Array(readFileSync(output));
    objects.set(key, bytes);
    return bytes;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const images = new Map<string, Uint8Array>();
/** Core, modules and runtime of a case, laid out. */
export function generatedImage(each: GeneratedCase, seed = 1): Uint8Array {
  const key = `${each.name} ${seed}`;
  const known = images.get(key);
  if (known) return known;
  const source = (name: string, bytes: Uint8Array): Source => ({ name, image: readElf(bytes) });
  const moduleSeed = seed === TAIL_SEED ? 1 : seed;
  const core = source('core', objectOf(each, null, seed));
  const tramp = each.trampolines === 'none' ? {} : { machine: { 'x86-tramp': each.trampolines } };
  const { bytes } = loadImages(
    {
      core,
      modules: [source('m0', objectOf(each, 'm0', moduleSeed)), source('m1', objectOf(each, 'm1', moduleSeed))],
      base: 'user',
      ...(each.moduleBase === undefined ? {} : { moduleBase: each.moduleBase }),
      runtime: source(`runtime-${each.flavour}`, runtimeObject(each.target, each.flavour)!),
      options: tramp,
    },
    archOf(core.image.header),
  );
  images.set(key, bytes);
  return bytes;
}

/** What a call did. */
export interface CallLog {
  /** In the order in which it happened; callbacks name the function whose site they are told. */
  readonly events: readonly (Event & { readonly at: string; readonly from: string })[];
  /** User and function of each return that the graph tracer heard of, in order. */
  readonly returns: readonly string[];
  readonly result: bigint;
}

const GATES = 0x1080_0000n;

/** A machine with the image, a session on its memory, and calls of its functions. */
export class GeneratedMachine {
  readonly arch: Arch;
  readonly process: Process;
  readonly machine: Machine;
  readonly session: Session;
  /** Addresses of callbacks; an event says which was called. */
  readonly callbacks: readonly bigint[];
  readonly image: Uint8Array;
  /** Callbacks of users of the graph tracer, at entries and at returns. */
  readonly graphCallbacks: { readonly entry: bigint; readonly return: bigint };
  /** Whether a user wants a function, by its name and the function's; null: always. */
  wants: ((user: string, name: string) => boolean) | null = null;
  /** Stores of the session, before each of which this is called. */
  onStore: ((address: bigint, bytes: Uint8Array) => boolean) | null = null;
  #log: CallLog['events'][number][] = [];
  readonly #gates: Gates;
  readonly #stack: bigint;
  readonly #pointers = new Map<string, bigint>();
  readonly #ring: { readonly header: bigint; readonly records: bigint };
  #head = 0n;
  readonly #owners = new Map<bigint, string>();

  constructor(
    readonly each: GeneratedCase,
    readonly functions: readonly GeneratedFunction[],
    bytes: Uint8Array,
    policy: Partial<Policy> = {},
  ) {
    const image = readElf(bytes);
    this.arch = archOf(image.header);
    const { arch } = this;
    if (arch.emulation.kind !== 'ir') throw new Error('not executed');
    this.process = startProcess({ image, abi: arch.abi, emulation: arch.emulation });
    this.machine = this.process.machine;
    const { machine } = this;
    this.#stack = machine.register(arch.abi.stackPointer);
    this.#gates = new Gates({
      machine,
      abi: arch.abi,
      address: GATES,
      ...(each.target === 'x86-64' ? { fill: 0xcc } : {}),
    });
    this.callbacks = Array.from({ length: 8 }, (_, index) => {
      const gate: { address: bigint } = this.#gates.add((call) => {
        this.#callback(gate.address, (at) => call.argument(at), call.returnAddress);
        return undefined;
      });
      void index;
      return gate.address;
    });
    const user = (object: bigint): string => {
      const { backend, core } = this.session;
      return core.state.graph.known.find((one) => backend.graphUserAddress(one) === object)?.name ?? 'nobody';
    };
    this.graphCallbacks = {
      entry: this.#gates.add((call) => {
        this.#drain();
        const [name, at] = [user(call.argument(2)), this.#siteName(call.argument(0))];
        if (this.wants?.(name, at) === false) return 0n;
        this.#log.push({ kind: 'graph', user: name, at, from: '' });
        return 1n;
      }).address,
      return: this.#gates.add((call) => {
        this.#drain();
        this.#returns.push(`${user(call.argument(2))} ${this.#siteName(call.argument(0))}`);
        return undefined;
      }).address,
    };
    const live = liveText(machine);
    this.session = Session.open(bytes, arch, {
      policy: { graph: each.graph, ...policy },
      absent: new Set(['m0', 'm1']),
      text: (opened) => {
        const text = live(opened);
        return {
          ...text,
          store: (address, stored) => this.onStore?.(address, stored) !== false && text.store(address, stored),
        };
      },
    });
    this.image = this.session.bytes();
    const { program } = this.session.sites;
    for (const { name } of functions) this.#pointers.set(name, this.session.pointerTo(name)!);
    for (const name of ['direct_a', 'direct_b']) {
      const address = this.session.functionAddress(name);
      if (address === null) continue;
      machine.hook(address, () => {
        this.#drain();
        this.#log.push({ kind: 'direct', address, at: '', from: '' });
        return 'continue';
      });
    }
    const livepatch = entryPoint(program, 'elftrace_livepatch');
    const { argumentRegisters } = arch.abi;
    if (livepatch !== null) {
      machine.hook(livepatch.address, () => {
        this.#callback(livepatch.identity, (at) => machine.register(argumentRegisters[at]!), null);
        return 'continue';
      });
    }
    const header = program.definedAt(program.symbols.find('elftrace_ring_memory'))!;
    this.#ring = { header, records: program.definedAt(program.symbols.find('elftrace_ring_records'))! };
  }

  #word(address: bigint, size: 4 | 8): bigint {
    return this.machine.readWord(address, size)!;
  }

  #siteName(ip: bigint): string {
    return this.session.core.location(ip)?.name ?? 'unknown';
  }

  #callback(func: bigint, argument: (index: number) => bigint, _back: bigint | null): void {
    this.#drain();
    const [ip, parent, ops, regs] = [argument(0), argument(1), argument(2), argument(3)];
    const { backend, core } = this.session;
    // In the middle of an operation the books are those of its end, and objects that go are still
    // there.
    if (this.onStore === null) this.#owners.clear();
    for (const one of core.state.known) {
      if (core.state.objects.has(one)) this.#owners.set(backend.addressOf(one), one.name);
    }
    const from = parent === returnAddress(this.machine) ? 'host' : this.#functionAt(parent);
    const event: Event = {
      kind: 'callback',
      func,
      ip,
      parent: PARENT,
      ops: this.#owners.get(ops) ?? null,
      regs: regs !== 0n,
    };
    this.#log.push({ ...event, at: this.#siteName(ip), from });
  }

  #functionAt(address: bigint): string {
    const { program } = this.session.sites;
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionAt(range, address);
    return symbol < 0 ? 'unknown' : program.symbolName(symbol).replace(/^\./, '');
  }

  #returns: string[] = [];

  /** What the graph tracer recorded since the last time. */
  #drain(): void {
    const head = this.#word(this.#ring.header + 24n, 8);
    for (; this.#head < head; this.#head++) {
      const { header } = this.#ring;
      const record = this.#ring.records + 16n * (this.#head & 65535n);
      const event = this.#word(record, 8);
      const kind = event & 7n;
      // The upper halves of the record in front.
      if (kind === 6n) continue;
      const isFar = (event & 8n) !== 0n;
      const next = this.#ring.records + 16n * ((this.#head + 1n) & 65535n);
      const upper = isFar ? this.#word(next + 8n, 4) : header >> 32n;
      const ip = (upper << 32n) | this.#word(record + 8n, 4);
      if (kind === 1n) this.#log.push({ kind: 'graph', user: 'g0', at: this.#siteName(ip), from: '' });
      else this.#returns.push(`g0 ${this.#siteName(ip)}`);
    }
  }

  /** Calls a function of the image. */
  call(name: string, argument: bigint): CallLog {
    const { machine, arch } = this;
    this.#log = [];
    this.#returns = [];
    machine.setRegister(arch.abi.stackPointer, this.#stack);
    const { emulation } = arch;
    if (emulation.kind !== 'ir') throw new Error('not executed');
    const descriptor = arch.target.abiName === 'elfv1';
    const outcome = callFunction(
      this.process,
      {
        abi: arch.abi,
        emulation,
        target: { kind: descriptor ? 'descriptor' : 'code', address: this.#pointers.get(name)! },
        args: [argument],
      },
      () => machine.run({ budget: 200_000 }),
    );
    this.#drain();
    if (outcome.kind !== 'returned') {
      const stop = JSON.stringify(outcome.stop, (_, value: unknown) =>
        typeof value === 'bigint' ? value.toString(16) : value,
      );
      throw new Error(`${name} does not return: ${stop}`);
    }
    return { events: this.#log, returns: this.#returns, result: outcome.result };
  }

  /** What the runtime keeps about the graph tracer, for messages. */
  graphState(): string {
    const { program } = this.session.sites;
    const size = program.image.wordBytes;
    const at = (symbol: string, index = 0): string => {
      const place = program.definedAt(program.symbols.find(symbol));
      return place === null ? '-' : String(this.#word(place + BigInt(index * size), size));
    };
    const words = ['owner', 'active', 'depth', 'overrun', 'abandoned'].map(
      (name, i) => `${name} ${at('elftrace_graph_stack', i)}`,
    );
    return `${words.join(', ')}, stopped ${at('elftrace_graph_stopped')}, filter ${at('elftrace_graph_ops')}`;
  }

  set watching(on: boolean) {
    const { program } = this.session.sites;
    const place = program.definedAt(program.symbols.find('elftrace_rcu_watching'))!;
    this.machine.writeWord(place, program.image.wordBytes, on ? 1n : 0n);
  }

  /**
   * Places of the image, outside the room of the core, that differ from how it was; code as the
   * machine has it.
   */
  leftovers(): string[] {
    const { image } = this.session.sites.program;
    const now = this.session.bytes();
    const data = image.section('.elftrace.data')!;
    const found: string[] = [];
    for (let at = 0; at < now.length; at++) {
      if (at >= data.offset && at < data.offset + data.fileSize) continue;
      if (now[at] !== this.image[at]) found.push(`file +0x${at.toString(16)}`);
    }
    for (const section of image.sections) {
      if ((section.flags & 4n) === 0n || section.fileSize === 0) continue;
      const there = this.machine.memory.read(section.address, section.fileSize)!;
      const wanted = this.image.subarray(section.offset, section.offset + section.fileSize);
      there.forEach((byte, at) => {
        if (byte !== wanted[at]) found.push(`${section.name}+0x${at.toString(16)}`);
      });
    }
    return found;
  }
}
