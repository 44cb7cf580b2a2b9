/**
 * `verify --against`: the kernel and modules that livepatch modules patch, opened once for all
 * files, and only those that one names.
 */
import { basename } from 'node:path';
import { statSync } from 'node:fs';
import type { Arch } from '../machine/arch.js';
import { ElftraceError } from '../errors.js';
import type { ObjectSource } from '../livepatch/judge.js';
import { KERNEL } from '../livepatch/module.js';
import { type PatchedObject, patchedObject } from '../livepatch/objects.js';
import { expandPaths, readInput } from './files.js';
import { open } from './open.js';

const MODULE_FILE = /\.ko(\.(gz|xz|zst))?$/;

/** Files by the module name that theirs says; the kernel is what is no module. */
interface Candidates {
  readonly kernel: string | null;
  readonly modules: ReadonlyMap<string, string>;
}

/** Of folders only files that are named as modules. */
function candidatesOf(against: readonly string[], files: readonly string[]): Candidates {
  const modules = new Map<string, string>();
  let kernel: string | null = null;
  const add = (path: string): void => {
    const name = basename(path).replace(MODULE_FILE, '').replaceAll('-', '_');
    if (!modules.has(name)) modules.set(name, path);
  };
  for (const path of against) {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) {
      expandPaths([path])
        .filter((each) => MODULE_FILE.test(each))
        .forEach(add);
    } else if (MODULE_FILE.test(path)) add(path);
    else if (kernel === null) kernel = path;
    else throw new ElftraceError('usage', `--against names two kernels: ${kernel} and ${path}`, { file: path });
  }
  files.filter((path) => MODULE_FILE.test(path)).forEach(add);
  return { kernel, modules };
}

async function openObject(path: string, name: string, arch: Arch): Promise<PatchedObject> {
  return patchedObject((await open(await readInput(path, 'read'), {}, 'read')).sites, { name, path, arch });
}

const openObjects = new Map<string, Promise<PatchedObject>>();

/**
 * What livepatch modules patch, of the files that were given.
 * @param against  kernel, modules and folders of modules
 * @param files    what is verified: modules among it are objects, too
 */
export function objectSource(against: readonly string[], files: readonly string[]): ObjectSource {
  // Folders are listed when something is asked for: most files are no livepatch modules.
  let candidates: Candidates | null = null;
  return async (name, arch) => {
    const { kernel, modules } = (candidates ??= candidatesOf(against, files));
    const path = name === KERNEL ? kernel : modules.get(name);
    if (path === null || path === undefined) return null;
    const opening = openObjects.get(path) ?? openObject(path, name, arch);
    openObjects.set(path, opening);
    return opening;
  };
}
