/** Places and contents in words: for messages, listings and reports. */
import { hex } from '../errors.js';
import type { CodePlace, Step } from './backend.js';
import type { Callee, Content } from './ops.js';
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

function describeContent(content: Content): string {
  switch (content.kind) {
    case 'nop':
      return 'off';
    case 'caller':
      return 'a call of ftrace_caller';
    case 'regs-caller':
      return 'a call of ftrace_regs_caller';
    case 'list-caller':
      return 'a call of ftrace_list_caller';
    case 'trampoline':
      return content.ops === null
        ? `a call of ${hex(content.address)}`
        : `a call of the trampoline of ${content.ops.name}`;
    case 'direct':
      return `a call of the direct caller at ${hex(content.address)}`;
    default:
      return content satisfies never;
  }
}

/** What a step does, in words. */
export function describeStep(step: Step): string {
  switch (step.kind) {
    case 'site':
      return `the site of ${step.site.name} becomes ${describeContent(step.after)}`;
    case 'literal':
      return `the ops word of ${step.site.name} names ${describeLiteral(step.after)}`;
    case 'callee':
      return `the ${step.entry} entry calls ${describeCallee(step.after)}`;
    case 'inner-call':
      return `the trampoline at ${hex(step.block.address)} calls ${describeCallee(step.after)}`;
    case 'trace-op':
      return `entries pass on ${step.after === null ? 'no ops' : step.after.name}`;
    case 'object':
      return `the object of ${step.ops.name}${step.after === null ? ' is emptied' : ''}`;
    case 'list':
      return 'the list of ops';
    case 'direct-entry':
      return `the direct caller of ${step.site.name}`;
    case 'graph-call':
      return `the branch for the graph tracer is ${step.after ? 'on' : 'off'}`;
    case 'graph-users':
      return 'the users of the graph tracer';
    case 'trampoline':
      return `the trampoline of ${step.ops.name}${step.after === null ? ' is emptied' : ''}`;
    case 'sync':
    case 'quiesce':
    case 'free':
      return step.kind;
    default:
      return step satisfies never;
  }
}
