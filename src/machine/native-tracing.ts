/** What a machine brings for programs that write their own trace. Types only. */
import type { Address } from '../units.js';
import type { ConventionName } from './conventions.js';
import type { SiteReading, SiteStore, SiteView } from './sites.js';

/** How the runtime that is laid in tells threads apart: by words of their control blocks. */
export interface ThreadSlots {
  /** File names of the dynamic loaders whose C library has such words. */
  readonly loaders: readonly string[];
  /** Libraries of which one is needed by every shared object that runs beside it. */
  readonly libraries: readonly string[];
  /** Number of the words. */
  readonly count: number;
}

export type NativeTracing =
  | {
      readonly kind: 'runtime';
      /** Name of the runtime's object, after the target's. */
      readonly runtime: string;
      /** The symbol that sites call, and the one of the words that are filled in. */
      readonly entry: string;
      readonly config: string;
      /** Conventions of entries of which a site must serve one. */
      readonly conventions: readonly ConventionName[];
      readonly slots: ThreadSlots;
      /**
       * The stores of a site whose nops behind the function's entry have room for a jump only, to
       * nops in front of it, where the call is; null: it is no such site.
       */
      readonly callInFront: (view: SiteView, reading: SiteReading, entry: Address) => readonly SiteStore[] | null;
      /** What compilers are asked for: the shortest form that serves, and all of them. */
      readonly options: { readonly shortest: string; readonly all: string };
      /** Bytes of code that the address in a record tells apart. */
      readonly reach: number;
    }
  | { readonly kind: 'none'; readonly reason: string };
