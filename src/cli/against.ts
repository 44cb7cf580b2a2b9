/**
 * `verify --against`: the kernel and modules that livepatch modules patch, opened once for all
 * files, and only those that one names.
 */
import { basename } from 'node:path';
import { statSync } from 'node:fs';
import type { Arch } from '../machine/arch.js';
import * as elf from '../elf/constants.js';
import { ElftraceError } from '../errors.js';
import { checkLivepatch } from '../livepatch/check.js';
import { isLivepatch, KERNEL, type LivepatchModule, readLivepatch } from '../livepatch/module.js';
import { PatchedObject } from '../livepatch/objects.js';
import { moduleName } from '../program/module-name.js';
import type { Finding, Verification } from '../sites/verdicts.js';
import { expandPaths, readInput } from './files.js';
import { open, type Opened } from './open.js';

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
  const opened = await open(await readInput(path, 'read'));
  const { program } = opened;
  if (opened.arch.target.id !== arch.target.id) {
    const what = `${path} is of ${opened.arch.target.title}, the livepatch of ${arch.target.title}`;
    throw new ElftraceError('usage', what, { file: path });
  }
  const isModule = name !== KERNEL;
  if (isModule !== (opened.image.header.type === elf.ET_REL)) {
    throw new ElftraceError('usage', `--against: ${path} is no ${isModule ? 'module' : 'linked kernel'}`, {
      file: path,
    });
  }
  const actual = moduleName(opened.image, path);
  if (isModule && actual !== name) {
    throw new ElftraceError('usage', `--against: ${path} is the module ${actual ?? '?'}, not ${name}`, { file: path });
  }
  if (program.symbols === opened.image.dynamicSymbols || program.symbols.count <= 1) {
    throw new ElftraceError('bad-reference', `${path} has no symbols: name the file that was not stripped`, {
      file: path,
    });
  }
  return new PatchedObject(name, path, opened.sites);
}

const openObjects = new Map<string, Promise<PatchedObject>>();

/** Objects that a livepatch needs, of those that were given. */
async function objectsFor(
  module: LivepatchModule,
  { kernel, modules }: Candidates,
  arch: Arch,
): Promise<ReadonlyMap<string, PatchedObject>> {
  const { symbols } = module.image;
  const wanted = new Set([KERNEL, ...module.objects.map(({ name }) => name)]);
  for (let i = 1; i < symbols.count; i++) {
    const [, name] = symbols.nameStartsWith(i, '.klp.sym.')
      ? (/^\.klp\.sym\.([^.]+)\./.exec(symbols.name(i)) ?? [])
      : [];
    if (name !== undefined) wanted.add(name);
  }
  const objects = new Map<string, PatchedObject>();
  for (const name of wanted) {
    const path = name === KERNEL ? kernel : modules.get(name);
    if (path === null || path === undefined) continue;
    const opening = openObjects.get(path) ?? openObject(path, name, arch);
    openObjects.set(path, opening);
    objects.set(name, await opening);
  }
  return objects;
}

export interface AgainstOptions {
  readonly files: readonly string[];
  /** Kernel, modules and folders of modules. */
  readonly against?: readonly string[] | undefined;
}

const counted = (findings: readonly Finding[]): Verification['verdicts'] => {
  const counts: Record<string, number> = {};
  for (const { verdict } of findings) counts[verdict] = (counts[verdict] ?? 0) + 1;
  return counts;
};

/** The verification of a file with what its being a livepatch module adds; of others the same. */
export async function withLivepatch(
  { image, arch, sites }: Opened,
  result: Verification,
  { files, against }: AgainstOptions,
): Promise<Verification> {
  if (!isLivepatch(image)) {
    if (against === undefined) return result;
    // Who expects a livepatch to be judged must not read silence as a yes.
    return { ...result, remarks: [...result.remarks, 'no livepatch module: --against says nothing of it'] };
  }
  const module = readLivepatch(image, arch.relocationRoles.word);
  const objects = against === undefined ? null : await objectsFor(module, candidatesOf(against, files), arch);
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
