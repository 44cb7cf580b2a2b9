/**
 * The guest runtime as bytes: what patched code calls, prebuilt per target and entry convention. Owns the choice of the object and the names
 * in it; laying it out is the loader's work.
 */
import type { EntryFlavour } from '../machine/loader.js';
import type { TargetId } from '../machine/target.js';
import { objectBytes } from './object-bytes.js';
import { OBJECTS } from './objects.js';

export * from './abi.js';

/** Names in the runtime, by what a request needs (the rules' section 2). */
export interface RuntimeSymbols {
  /** Entries that a site may call. */
  readonly entries: readonly string[];
  /** Patched calls, in the order of `entries`. */
  readonly calls: readonly string[];
  readonly common: readonly string[];
  readonly graph: readonly string[];
  readonly tracers: readonly string[];
  /** Labels that private trampolines are made from; empty where there are none. */
  readonly templates: readonly string[];
  /** Helper of direct callers and its table; empty where a site cannot have one beside other tracers. */
  readonly direct: readonly string[];
}

const COMMON = [
  'ftrace_stub',
  'function_trace_op',
  'ftrace_ops_list',
  'ftrace_ops_list_func',
  'ftrace_ops_assist_func',
  'ftrace_list_end',
] as const;
/** x86-64 besides: how threads are told apart, and a callback that calls one of ordinary C. */
const X86_COMMON = [...COMMON, 'elftrace_thread_mode', 'elftrace_vector_func'] as const;
const X86_TEMPLATES = [
  'ftrace_caller', 'ftrace_caller_op_ptr', 'ftrace_call', 'ftrace_caller_end',
  'ftrace_regs_caller', 'ftrace_regs_caller_op_ptr', 'ftrace_regs_call', 'ftrace_regs_caller_end',
] as const; // prettier-ignore
const TRACERS = ['elftrace_function_tracer', 'elftrace_counter', 'elftrace_ring'] as const;

const X86_2014: RuntimeSymbols = {
  entries: ['ftrace_caller', 'ftrace_regs_caller'],
  calls: ['ftrace_call', 'ftrace_regs_call'],
  common: X86_COMMON,
  graph: ['ftrace_graph_call', 'ftrace_graph_caller', 'return_to_handler'],
  tracers: TRACERS,
  templates: [...X86_TEMPLATES, 'ftrace_return'],
  direct: [],
};

const RISCV_2021: RuntimeSymbols = {
  entries: ['ftrace_caller', 'ftrace_regs_caller'],
  calls: ['ftrace_call', 'ftrace_regs_call'],
  common: COMMON,
  graph: ['ftrace_graph_func', 'return_to_handler'],
  tracers: TRACERS,
  templates: [],
  direct: [],
};
const RISCV: RuntimeSymbols = {
  ...RISCV_2021,
  direct: ['ftrace_direct_func', 'ftrace_direct_table', 'elftrace_direct_slot'],
};

const SYMBOLS: Readonly<Record<EntryFlavour, RuntimeSymbols>> = {
  pg: {
    entries: ['ftrace_caller'],
    calls: ['ftrace_call'],
    common: COMMON,
    graph: ['ftrace_graph_call', 'ftrace_graph_caller', 'return_to_handler'],
    tracers: TRACERS,
    templates: [],
    direct: [],
  },
  regs: {
    entries: ['ftrace_caller', 'ftrace_regs_caller'],
    calls: ['ftrace_call', 'ftrace_regs_call'],
    common: COMMON,
    graph: ['ftrace_graph_func', 'return_to_handler'],
    tracers: TRACERS,
    templates: [],
    direct: [],
  },
  args: {
    entries: ['ftrace_caller'],
    calls: ['ftrace_call'],
    common: COMMON,
    graph: ['ftrace_graph_func', 'return_to_handler'],
    tracers: TRACERS,
    templates: [],
    direct: ['ftrace_direct_func', 'ftrace_direct_table'],
  },
  callops: {
    entries: ['ftrace_caller'],
    calls: [],
    common: [...COMMON, 'ftrace_nop_ops', 'ftrace_list_ops', 'ftrace_list_caller'],
    graph: ['ftrace_graph_func', 'return_to_handler'],
    tracers: TRACERS,
    templates: [],
    direct: ['ftrace_direct_func', 'ftrace_direct_table'],
  },
  modern: {
    entries: ['ftrace_caller', 'ftrace_regs_caller'],
    calls: ['ftrace_call', 'ftrace_regs_call'],
    common: X86_COMMON,
    graph: ['ftrace_graph_func', 'return_to_handler'],
    tracers: TRACERS,
    templates: [...X86_TEMPLATES, 'ftrace_regs_caller_jmp'],
    direct: ['ftrace_direct_func', 'ftrace_direct_table'],
  },
  y2014: X86_2014,
  mcount: X86_2014,
  g0: RISCV_2021,
  g1: RISCV_2021,
  g2: {
    ...RISCV,
    graph: [...RISCV.graph, 'ftrace_graph_call', 'ftrace_graph_regs_call', 'ftrace_graph_caller'],
  },
  'g2-plain': {
    ...RISCV_2021,
    entries: ['ftrace_caller'],
    calls: ['ftrace_call'],
    graph: ['ftrace_graph_call', 'ftrace_graph_caller', 'return_to_handler'],
  },
  'g2-merged': RISCV,
  g3: { ...RISCV, calls: ['ftrace_call_dest'] },
  g3c: { ...RISCV, calls: [], common: [...COMMON, 'ftrace_nop_ops', 'ftrace_list_ops'] },
};

const PPC_FLAVOURS = ['regs', 'pg'] as const;
const FLAVOURS: Readonly<Record<TargetId, readonly EntryFlavour[]>> = {
  'x86-64': ['modern', 'y2014', 'mcount'],
  ppc32: PPC_FLAVOURS,
  'ppc64-elfv1': PPC_FLAVOURS,
  'ppc64-elfv2-be': PPC_FLAVOURS,
  'ppc64-elfv2-le': PPC_FLAVOURS,
  riscv64: ['g2', 'g2-merged', 'g1', 'g3', 'g3c', 'g0', 'g2-plain'],
  arm64: ['callops', 'regs', 'args', 'pg'],
};

/** The conventions of a target; of those that serve the same sites, the one that passes more comes first. */
export function runtimeFlavours(target: TargetId): readonly EntryFlavour[] {
  return FLAVOURS[target];
}

/**
 * The symbol by which an object of ours says its flavour; on PowerPC and x86-64 the other symbols tell.
 */
export function flavourMark(flavour: EntryFlavour): string {
  return `elftrace_entry_${flavour.replace('-', '_')}`;
}

/** The names that the runtime of a flavour has. */
export function runtimeSymbols(flavour: EntryFlavour): RuntimeSymbols {
  return SYMBOLS[flavour];
}

/**
 * Bytes of the relocatable object (ET_REL) for a target and flavour, fresh on each call; null where there is none.
 * @param probes  with the functions that probes call
 */
export function runtimeObject(target: TargetId, flavour: EntryFlavour, probes = false): Uint8Array | null {
  const key = `${target}/${flavour}${probes ? '+probes' : ''}`;
  return OBJECTS[key] === undefined ? null : objectBytes(key);
}
