/** The state of the tracer's data that a trial begins with (PV-3), in words. */
import type { TracerState } from './tracer-states.js';

const texts: Readonly<Record<TracerState, string>> = {
  fresh: 'as the image has it',
  again: 'as a call of the same site before left it',
  'ring-end': 'the next record is the last one of the ring, or the first one again',
  'ring-wrapped': 'the number of the next record needs more than 32 bits',
  'ring-full': 'the ring is full, and keeps the oldest records',
  'ring-nearly-full': 'the ring has room for few records, and keeps the oldest ones',
  others: 'blocks of other threads lie in front of the own one',
  moved: 'the function comes back in another thread, with calls under way',
  'no-block': 'all blocks belong to other threads',
  'list-runs': 'a callback of the list is under way, which called the site',
  'graph-runs': 'a callback of the graph tracer is under way, or a hit that is handled',
  deep: 'the stack of the graph tracer is full',
  left: 'calls that were left (longjmp) lie on the stack of the graph tracer',
  'other-stack': 'calls of another stack are under way, and one of this frame that was left',
  tail: 'the function was called by a tail call of a traced one',
  'probed-tail': 'the same, and a return probe took the return of that one',
  'lost-tail': 'the same, of a call that this thread does not know',
  gone: 'all calls of the thread were left',
  unfiltered: 'the graph tracer has no filter, or one that does not take the site',
  stopped: 'the graph tracer is stopped',
  'not-watching': 'RCU does not watch',
  redirected: 'a callback names another place to go on at',
  rerouted: 'a callback names another place to go on at, and changes registers in its frame',
  rewritten: 'a callback changes registers in its frame',
  'side-full': 'no further replaced function, and no further call of a return probe, can be kept',
  'side-left': 'replaced functions, and calls of return probes, were left',
  filled: 'tables hold what other requests left in them',
  unmapped: 'half of what pointers lead to is not mapped',
  off: 'the probe is off',
  rowless: 'the tables have no row of the site, or are gone',
  retried: 'stores under a reservation fail once',
  overtaken: 'another thread takes a block or the number of a record first',
  stale: 'behind the last call under way lie others of its frame that came back',
  'stale-tail': 'the same behind a tail call whose return a return probe took',
  twins: 'numbers of 64 bits equal those of the call in their lower halves',
};

/** A state in words; null: no tracer is asked. */
export const stateText = (state: TracerState | null): string | null => (state === null ? null : texts[state]);
