/** Places and contents in words: for messages, listings and reports. */
import { hex } from '../errors.js';
import type { CodePlace } from './backend.js';
import type { Callee } from './ops.js';
import type { Literal } from './records.js';

/** A place in words, for messages. */
export function describePlace(place: CodePlace): string {
  switch (place.kind) {
    case 'site':
      return `the site of ${place.site.name} at ${hex(place.site.ip)}`;
    case 'literal':
      return `the ops word of ${place.site.name}`;
    case 'callee':
      return place.entry === 'plain' ? 'ftrace_call' : 'ftrace_regs_call';
    case 'inner-call':
      return `the call of the trampoline at ${hex(place.block.address)}`;
    case 'graph-call':
      return 'ftrace_graph_call';
    default:
      return place satisfies never;
  }
}

export function describeCallee(callee: Callee): string {
  switch (callee.kind) {
    case 'stub':
      return 'ftrace_stub';
    case 'list':
      return 'ftrace_ops_list_func';
    case 'function':
      return hex(callee.address);
    case 'assist':
      return `ftrace_ops_assist_func (${callee.ops.name})`;
    default:
      return callee satisfies never;
  }
}

export function describeLiteral(literal: Literal): string {
  if (literal.kind === 'ops') return literal.ops.name;
  return literal.kind === 'nop-ops' ? 'ftrace_nop_ops' : 'ftrace_list_ops';
}
