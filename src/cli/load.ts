/**
 * `elftrace load CORE MODULE… -o IMAGE`: core and modules in one address space;
 * `load IMAGE MODULE…` adds to a loaded image.
 */
import type { Arch } from '../machine/arch.js';
import { loadArch } from '../targets.js';
import { ElftraceError } from '../errors.js';
import { loadFiles, type LoadRequest } from '../pipeline/loading.js';
import type { LoadBase } from '../program/load-map.js';
import type { LoadResult, Source } from '../program/loader.js';
import { loadJson } from '../report/json.js';
import type { Address } from '../units.js';
import { disassemblerOf } from './disassembly.js';
import { exitCodes } from './exit.js';
import { outputPath, writeOutput } from './files.js';
import { hash } from './hash.js';
import { sourceOf } from './source.js';
import { err, out } from './terminal.js';

export interface LoadArguments {
  readonly path: string;
  readonly modules: readonly string[];
  readonly output?: string | undefined;
  readonly base?: string | undefined;
  readonly moduleBase?: string | undefined;
  readonly entry?: string | undefined;
  readonly runtime?: string | undefined;
  /** Room for so many probes. */
  readonly probes?: number | undefined;
  /** Options of single machines that were given, by name. */
  readonly machine: Readonly<Record<string, string>>;
  readonly json: boolean;
}

/** `0x…` or decimal. */
function parseAddress(text: string, option: string): Address {
  if (!/^(0x[0-9a-f]+|[0-9]+)$/i.test(text)) {
    throw new ElftraceError('usage', `${option} takes an address, not '${text}'`, { value: text });
  }
  return BigInt(text);
}

const parseBase = (text: string): LoadBase | Address =>
  text === 'user' || text === 'kernel' ? text : parseAddress(text, '--base');

/** Reads the files of a request, and the arguments about them. */
async function requestOf(args: LoadArguments, core: Source, arch: Arch): Promise<LoadRequest> {
  const { path, base, moduleBase, entry, runtime, probes } = args;
  const modules: Source[] = [];
  for (const each of args.modules) modules.push(await sourceOf(each, arch));
  return {
    ...{ path, core, modules, entry, probes, machine: args.machine },
    ...(base === undefined ? {} : { base: parseBase(base) }),
    ...(moduleBase === undefined ? {} : { moduleBase: parseAddress(moduleBase, '--module-base') }),
    ...(runtime === 'none' ? { runtime } : {}),
    ...(runtime === undefined || runtime === 'none'
      ? {}
      : { runtime: { path: runtime, source: await sourceOf(runtime, arch) } }),
  };
}

function sayLoaded({ json, path }: LoadArguments, output: string, result: LoadResult): void {
  if (json) {
    out(JSON.stringify(loadJson(path, output, result)));
    return;
  }
  for (const part of result.map.parts) {
    const where = part.ranges.map(({ start, end }) => `${start.toString(16)}-${end.toString(16)}`).join(' ');
    out(`${part.kind.padEnd(7)} ${part.name}  ${where}${part.toc === null ? '' : `  TOC ${part.toc.toString(16)}`}`);
  }
}

export async function runLoad(args: LoadArguments): Promise<number> {
  const output = outputPath(args.path, args.output, false);
  const core = await sourceOf(args.path, null);
  const arch = await loadArch(core.image.header);
  const result = await loadFiles(await requestOf(args, core, arch), arch, { hash, disassembler: disassemblerOf });
  const written = await writeOutput({ output, like: args.path, form: 'none' }, result.bytes, true);
  for (const notice of [...result.notices, ...written]) err(`${args.path}: notice: ${notice}`);
  sayLoaded(args, output, result);
  return exitCodes.ok;
}
