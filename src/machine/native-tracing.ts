/** What a machine brings for programs that write their own trace. */
import type { ElfImage } from '../elf/image.js';
import type { Address } from '../units.js';
import type { Abi } from './abi.js';
import type { LoadedBytes } from './address-pairs.js';
import type { ConventionName } from './conventions.js';
import type { SiteReading, SiteStore, SiteView } from './sites.js';

/** How the runtime tells threads apart: by words of a C library's control blocks. */
export interface ThreadSlots {
  readonly library: 'glibc' | 'musl';
  /** Behind the names of the runtimes. */
  readonly suffix: string;
  /** File names of the dynamic loaders whose C library has such words. */
  readonly loaders: readonly string[];
  /** Libraries of which one is needed by every shared object that runs beside it. */
  readonly libraries: readonly string[];
  /** Number of the words. */
  readonly count: number;
  /**
   * The library's function, as it is assembled, that gives a thread its control block: static
   * programs have it without symbols, too. null: they are told by something else.
   */
  readonly threadSetter: Uint8Array | null;
}

/** A musl whose word is found as native-blocks.h says; `name` as it names the machine. */
export const muslSlots = (name: string, threadSetter: Uint8Array): ThreadSlots => ({
  library: 'musl',
  suffix: '',
  loaders: [`ld-musl-${name}.so.1`],
  libraries: [`libc.musl-${name}.so.1`, 'libc.so'],
  count: 1,
  threadSetter,
});

/** One store of a site, by its address. */
export interface PlacedStore {
  readonly address: Address;
  readonly after: Uint8Array;
}

/**
 * Stubs through which sites enter their functions, one for each: the call in it meets the
 * function's return, and leaves it to us.
 */
export interface GraphStubs {
  /** Where the first one lies, and its size. */
  readonly symbol: string;
  readonly bytes: number;
  /** A site's stores as they are for a stub, and where the stub goes on; null: out of reach. */
  readonly site: (
    stores: readonly PlacedStore[],
    stub: Address,
  ) => { readonly stores: readonly Uint8Array[]; readonly body: Address } | null;
  /** Symbols that a stub names, in the order in which `make` takes them. */
  readonly names: readonly string[];
  readonly make: (stub: Address, body: Address, named: readonly Address[]) => Uint8Array | null;
}

/** Stubs that sites call where calls are counted, one for each: it says which number is theirs. */
export interface CounterStubs {
  readonly bytes: number;
  /** `place`: of the number, in bytes; goes on to the runtime's entry. null: out of reach. */
  readonly make: (stub: Address, place: number, entry: Address) => Uint8Array | null;
}

/** How calls and returns are recorded. */
export interface GraphTracing {
  readonly runtime: string;
  readonly entry: string;
  /** null: sites call the entry, as where calls alone are recorded. */
  readonly stubs: GraphStubs | null;
  /**
   * Property of programs that asks the processor for shadow stacks, and its bit; unwinding through
   * what is laid in was not tried under them.
   */
  readonly shadowStacks: { readonly property: number; readonly bit: number } | null;
  /**
   * Whether what a program loads, code and data, may hold one of some addresses, or compute it.
   */
  readonly holds: (loads: readonly LoadedBytes[], some: ReadonlySet<Address>) => boolean;
}

/** How `long double` is made and passed. */
export interface LongDoubles {
  /** 80 bits of x87; binary128; a pair of numbers of double precision, whose sum it is. */
  readonly format: 'x87' | 'binary128' | 'pair';
  /**
   * On the stack; in one register of floating point, or in two that follow each other; in two for
   * integers.
   */
  readonly are: 'stack' | 'floating' | 'floating-pair' | 'integer-pair';
  readonly result: { readonly kind: 'register' | 'floating'; readonly place: number };
}

/** Where functions find their arguments, and leave what they return, as the runtime sees it. */
export interface ValuePlaces {
  readonly wordBytes: 4 | 8;
  /** Places of the registers for integers, in order, in what the entry saves. */
  readonly registers: readonly number[];
  readonly result: number;
  /** Registers by their names. */
  readonly named: Readonly<Record<string, { readonly kind: 'register' | 'floating'; readonly place: number }>>;
  readonly floatRegisters: number;
  /** Where values of floating point are that have no such register. */
  readonly floatsBeyond: 'stack' | 'integers';
  /** Whether a value of floating point takes a word from those of integers, too. */
  readonly isOneList: boolean;
  /** `long double` of more than 64 bits; null: not known. */
  readonly longDoubles: LongDoubles | null;
  /**
   * Structures of more than so many bytes: copied on the stack, or elsewhere and passed by address;
   * of others, and where it is null, it is not known.
   */
  readonly aggregates: { readonly above: number; readonly are: 'stack' | 'reference' } | null;
  /**
   * Of how many bytes structures are that are returned where the first argument says: all of more
   * than `always`, none of up to `never`; null: no argument says it.
   */
  readonly hiddenResult: { readonly never: number; readonly always: number } | null;
}

export type NativeTracing =
  | {
      readonly kind: 'runtime';
      /** Name of the runtime's object, after the target's. */
      readonly runtime: string;
      /** The symbols that sites call, and the one of the words that are filled in. */
      readonly entries: {
        readonly function: string;
        /** Without times. */
        readonly noClock: string;
        readonly counter: string;
      };
      readonly counterStubs: CounterStubs;
      readonly config: string;
      /** ABI of the runtime where it is not the program's, which calls nothing but the entry. */
      readonly abi: Abi | null;
      /** null: it records calls only. */
      readonly graph: GraphTracing | null;
      /** Conventions of entries of which a site must serve one. */
      readonly conventions: readonly ConventionName[];
      /** By C library. */
      readonly slots: readonly ThreadSlots[];
      /** By the ABI that a file says it has; null: no values are recorded of it. */
      readonly valuesOf: (image: ElfImage) => ValuePlaces | null;
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
