/** An event of a probe, as a session and its parts know it: types alone. */
import type { Address } from '../units.js';
import type { CompiledArgument, ProbeDefinition } from './events.js';
import type { Kprobe } from './objects.js';
import type { ValidProbe } from './validate.js';

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
