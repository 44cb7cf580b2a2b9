/**
 * The guest runtime as bytes: what patched code calls, prebuilt per target and entry convention. Owns the choice of the object and the names
 * in it; laying it out is the loader's work.
 */
import type { TargetId } from '../arch.js';
import { OBJECTS } from './objects.js';

export * from './abi.js';

/**
 * Entry conventions. `pg`: the site is a call behind the prologue (64 bits) or as it was in 2008 (32 bits); the entry passes ip and
 * parent_ip, and the graph tracer is a branch in it. `regs`: the site is at the function's entry; the entries pass a register
 * frame, and the graph tracer is a callback.
 */
export type EntryFlavour = 'pg' | 'regs';

/** Names in the runtime, by what a request needs (the rules' section 2). */
export interface RuntimeSymbols {
  /** Entries that a site may call. */
  readonly entries: readonly string[];
  /** Patched calls, in the order of `entries`. */
  readonly calls: readonly string[];
  readonly common: readonly string[];
  readonly graph: readonly string[];
  readonly tracers: readonly string[];
}

const COMMON = [
  'ftrace_stub',
  'function_trace_op',
  'ftrace_ops_list',
  'ftrace_ops_list_func',
  'ftrace_ops_assist_func',
  'ftrace_list_end',
] as const;
const TRACERS = ['elftrace_function_tracer', 'elftrace_counter', 'elftrace_ring'] as const;

const SYMBOLS: Readonly<Record<EntryFlavour, RuntimeSymbols>> = {
  pg: {
    entries: ['ftrace_caller'],
    calls: ['ftrace_call'],
    common: COMMON,
    graph: ['ftrace_graph_call', 'ftrace_graph_caller', 'return_to_handler'],
    tracers: TRACERS,
  },
  regs: {
    entries: ['ftrace_caller', 'ftrace_regs_caller'],
    calls: ['ftrace_call', 'ftrace_regs_call'],
    common: COMMON,
    graph: ['ftrace_graph_func', 'return_to_handler'],
    tracers: TRACERS,
  },
};

/** The names that the runtime of a flavour has. */
export function runtimeSymbols(flavour: EntryFlavour): RuntimeSymbols {
  return SYMBOLS[flavour];
}

/** Bytes of the relocatable object (ET_REL) for a target and flavour, fresh on each call; null where there is none. */
export function runtimeObject(target: TargetId, flavour: EntryFlavour): Uint8Array | null {
  const object = OBJECTS[`${target}/${flavour}`];
  return object === undefined ? null : Uint8Array.from(atob(object.base64), (each) => each.charCodeAt(0));
}
