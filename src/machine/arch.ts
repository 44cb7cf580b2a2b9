/**
 * The `Arch` interface: everything that differs between machines, and nothing else. One file beside
 * this one for each topic. One object per target; the objects are built in `arch-*` folders and
 * found through `arches.ts`. No member is optional and none may refuse.
 */
import type { Isa } from '../isa/instruction.js';
import type { Address } from '../units.js';
import type { RelocationRow } from '../relocs/kinds.js';
import type { Abi } from './abi.js';
import type { Branches } from './branches.js';
import type { EntryConvention } from './conventions.js';
import type { EmulationModel } from './emulation.js';
import type { LandingPads } from './landing-pads.js';
import type { LivePatching } from './live-patching.js';
import type { MachineOption } from './options.js';
import type { LoaderModel } from './loader.js';
import type { NativeTracing } from './native-tracing.js';
import type { OutOfLineModel } from './out-of-line.js';
import type { ProbeModel } from './probes.js';
import type { SiteShape } from './sites.js';
import type { StubForm } from './stubs.js';
import type { SledModel } from './sleds.js';
import type { McountRules, PatchTable, RelocationRoles } from './tables.js';
import type { Target } from './target.js';
import type { DirectCallers, TrampolineModel } from './trampolines.js';

export interface Arch {
  readonly target: Target;
  readonly abi: Abi;
  readonly isa: Isa;
  /**
   * Key: r_type. Every type that occurs in the inputs we know; an unknown one is an error that
   * names it.
   */
  readonly relocations: ReadonlyMap<number, RelocationRow>;
  readonly relocationRoles: RelocationRoles;
  readonly mcount: McountRules;
  /** Of those that serve the same sites, the one that passes more comes first. */
  readonly conventions: readonly EntryConvention[];
  /** What users may choose about them. */
  readonly options: readonly MachineOption[];
  /** Tried in order; the first that does not return null wins. */
  readonly siteShapes: readonly SiteShape[];
  readonly stubForms: readonly StubForm[];
  /** Stubs of the sites themselves, where the machine has such sites. */
  readonly outOfLine: OutOfLineModel | null;
  readonly branches: Branches;
  /**
   * The address that the instruction at `at`, which lies at `address`, computes with the one behind
   * it; null: none. Absent where a sweep of `probes` tells more.
   */
  readonly computedAddress?: (code: Uint8Array, at: number, address: Address) => Address | null;
  /** null: no indirect branch of a process is checked, or none of ours is. */
  readonly landingPads: LandingPads | null;
  /** Sleds of XRay; null: they are not read. */
  readonly sleds: SledModel | null;
  readonly loader: LoaderModel;
  readonly trampolines: TrampolineModel;
  readonly directCallers: DirectCallers;
  readonly livePatching: LivePatching;
  /** Tables of the kernel's other patching mechanisms; of one section the newest format first. */
  readonly patchTables: readonly PatchTable[];
  /**
   * Where probes can be set, how probed instructions are executed, and what a jump in their place
   * needs.
   */
  readonly probes: ProbeModel;
  /** What programs need that write their own trace, or why there is none. */
  readonly nativeTracing: NativeTracing;
  /** How to run code of this target, or why it cannot be run. */
  readonly emulation: EmulationModel;
}

/**
 * A target as files need it. What runs its code is as large as all the rest, and is loaded apart
 * (`still.ts` of a machine).
 */
export type StillArch = Omit<Arch, 'emulation'>;
