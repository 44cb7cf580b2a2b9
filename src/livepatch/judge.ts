/** A livepatch module judged as what it is: its own tables, and what they say of others. */
import type { Arch } from '../machine/arch.js';
import type { Finding, Verification } from '../sites/verdicts.js';
import type { ElfImage } from '../elf/image.js';
import type { Sites } from '../sites/sites.js';
import { checkLivepatch } from './check.js';
import { KERNEL, type LivepatchModule, readLivepatch } from './module.js';
import type { PatchedObject } from './objects.js';

/** Opens what a livepatch patches, by name (KERNEL, or a module's); null: it was not given. */
export type ObjectSource = (name: string, arch: Arch) => Promise<PatchedObject | null>;

export interface OpenedSites {
  readonly image: ElfImage;
  readonly arch: Arch;
  readonly sites: Sites;
}

/** The kernel and the modules whose functions or symbols a livepatch names. */
function objectNames({ image, objects }: LivepatchModule): ReadonlySet<string> {
  const { symbols } = image;
  const names = new Set([KERNEL, ...objects.map(({ name }) => name)]);
  for (let i = 1; i < symbols.count; i++) {
    const [, name] = symbols.nameStartsWith(i, '.klp.sym.')
      ? (/^\.klp\.sym\.([^.]+)\./.exec(symbols.name(i)) ?? [])
      : [];
    if (name !== undefined) names.add(name);
  }
  return names;
}

async function objectsFor(
  module: LivepatchModule,
  source: ObjectSource,
  arch: Arch,
): Promise<ReadonlyMap<string, PatchedObject>> {
  const objects = new Map<string, PatchedObject>();
  for (const name of objectNames(module)) {
    const object = await source(name, arch);
    if (object !== null) objects.set(name, object);
  }
  return objects;
}

const counted = (findings: readonly Finding[]): Verification['verdicts'] => {
  const counts: Record<string, number> = {};
  for (const { verdict } of findings) counts[verdict] = (counts[verdict] ?? 0) + 1;
  return counts;
};

/** The verification of a livepatch module with what its being one adds. */
export async function judgeLivepatch(
  { image, arch, sites }: OpenedSites,
  result: Verification,
  source: ObjectSource | null,
): Promise<Verification> {
  const module = readLivepatch(image, arch.relocationRoles.word);
  const objects = source === null ? null : await objectsFor(module, source, arch);
  const findings = checkLivepatch(module, sites, objects);
  const functions = module.objects.reduce((sum, each) => sum + each.functions.length, 0);
  const what = `livepatch of ${functions} ${functions === 1 ? 'function' : 'functions'}`;
  const names = module.objects.map(({ name }) => name).join(', ');
  const remark =
    objects === null
      ? `${what}: nobody looked for what it patches and refers to (--against VMLINUX)`
      : `${what} of ${names}`;
  return {
    ...result,
    verdicts: { ...result.verdicts, ...counted(findings) },
    findings: [...result.findings, ...findings],
    remarks: [...result.remarks, remark],
    // The functions that run in place of others need no sites.
    incomplete: objects !== null && functions > 0 ? null : result.incomplete,
  };
}
