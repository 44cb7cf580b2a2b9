/** Who uses the graph tracer: callbacks with the functions that they want to see. */
import type { Address } from '../units.js';
import type { HashPair, HashSnapshot } from './hash.js';

/** A user of the graph tracer, which hears of entries and returns. */
export class GraphUser {
  constructor(
    readonly name: string,
    /** Text addresses of the callbacks. */
    readonly callbacks: { readonly entry: Address; readonly return: Address },
    readonly pair: HashPair = { filter: null, notrace: null },
  ) {}
}

/** A user as guest code sees it: with several users each callback tests its own hashes. */
export interface GraphUserImage {
  readonly user: GraphUser;
  readonly hashes: HashSnapshot;
}
