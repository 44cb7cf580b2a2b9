/**
 * The module loader: core, runtime and modules in one address space, as an ET_EXEC image. All functions are pure and all or nothing.
 */
import type { Arch } from '../arch.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import type { Sha256 } from '../sha256.js';
import type { Address } from '../units.js';
import type { LoadBase, LoadMap } from './load-map.js';

/** A file to load. */
export interface Source {
  /** Name of the part: of a module its own name, else that of the file. */
  readonly name: string;
  readonly image: ElfImage;
}

export interface LoaderOptions {
  /** Options of the machine by their names (`ppc-stubs`); defaults otherwise. */
  readonly machine?: Readonly<Record<string, string>>;
  /** Symbol that the image starts at instead of `_start`. */
  readonly entry?: string;
  /**
   * Entries more (or, negative, fewer) than the rule reserves in every stub area. For tests of what happens when an area is
   * full (T-PPC-28).
   */
  readonly stubSpare?: number;
  /** Sites of a linked core: places that must reach the tracer's entries. Without them all its code is taken. */
  readonly coreSites?: readonly Address[];
  readonly sha256?: Sha256;
}

export interface LoadRequest {
  readonly core: Source;
  readonly modules: readonly Source[];
  readonly base: LoadBase | Address;
  readonly moduleBase?: Address;
  /** Laid in unless the core has the tracer's entries itself or no part has sites. */
  readonly runtime: Source | null;
  readonly options: LoaderOptions;
}

export interface LoadResult {
  readonly bytes: Uint8Array;
  readonly map: LoadMap;
  readonly notices: readonly string[];
}

/**
 * Lays core and modules out in one address space.
 * @throws ElftraceError 'undefined-symbols', 'duplicate-symbols', 'branch-out-of-range', 'toc-restore-missing', 'stub-area-full', …
 */
export function loadImages(request: LoadRequest, arch: Arch): LoadResult {
  throw new ElftraceError('internal', `loader of ${arch.target.id}: ${request.core.name} not built yet`);
}

export interface LoadMoreRequest {
  readonly image: ElfImage;
  readonly modules: readonly Source[];
  readonly runtime: Source | null;
  readonly options: LoaderOptions;
}

/** Adds modules to a loaded image. Throws as `loadImages`. */
export function loadMore(request: LoadMoreRequest, arch: Arch): LoadResult {
  throw new ElftraceError('internal', `loader of ${arch.target.id}: ${request.modules.length} not built yet`);
}

/**
 * Takes a module out of a loaded image.
 * @throws ElftraceError 'no-match' when there is no such module, 'module-in-use' when another part uses its symbols
 */
export function unload(image: ElfImage, name: string, arch: Arch): LoadResult {
  throw new ElftraceError('internal', `loader of ${arch.target.id}: ${name} of ${image.bytes.length} not built yet`);
}
