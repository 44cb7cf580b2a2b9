/**
 * The text of operations, as a record keeps it: what `parseSession` reads them from. Written for
 * operations that options or other verbs make; those of session files keep the text of their file.
 */
import type { SessionOperation } from './session-file.js';

/** What is left out of a step when it is null, false or empty. */
const given = (fields: Readonly<Record<string, unknown>>): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== false));

/** One step, as an object with one key. */
function stepOf(operation: SessionOperation): object {
  const { kind } = operation;
  switch (kind) {
    case 'ops': {
      const { name, call, shared, filter, notrace, trampoline, traits } = operation;
      const regs = operation.regs === 'no' ? null : operation.regs === 'yes' ? true : operation.regs;
      const flags = Object.fromEntries(traits.map((trait) => [trait, true]));
      return { ops: given({ name, call, regs, ...flags, shared, filter, notrace, trampoline }) };
    }
    case 'filter':
    case 'notrace': {
      const { ops, words, append } = operation;
      return { [kind]: given({ ops, words, append }) };
    }
    case 'function':
      return { function: { ops: operation.ops, call: operation.call } };
    case 'direct':
    case 'modify-direct': {
      const { function: name, caller, jump } = operation;
      return { [kind]: given({ function: name, caller, jump }) };
    }
    case 'livepatch':
      return { livepatch: { function: operation.function, new: operation.replacement } };
    case 'graph': {
      const { name, callbacks, filter, notrace } = operation;
      return { graph: given({ name, ...callbacks, filter, notrace }) };
    }
    case 'probe': {
      const { define, optimize, version, preempt } = operation;
      return { probe: given({ define, optimize, version, preempt }) };
    }
    case 'load': {
      const { module, file } = operation;
      return { load: file === null ? module : { module, file } };
    }
    case 'register':
    case 'unregister':
      return { [kind]: operation.ops };
    case 'no-direct':
    case 'no-livepatch':
      return { [kind]: operation.function };
    case 'no-graph':
      return { [kind]: operation.name };
    case 'no-probe':
    case 'disable-probe':
    case 'enable-probe':
      return { [kind]: operation.event };
    case 'unload':
      return { unload: operation.module };
    case 'tracing':
    case 'probes':
      return { [kind]: operation.on ? 'on' : 'off' };
    default:
      return kind satisfies never;
  }
}

/** A session file, in one line of JSON. */
export function formatSession(operations: readonly SessionOperation[]): string {
  return JSON.stringify({ version: 1, steps: operations.map(stepOf) });
}
