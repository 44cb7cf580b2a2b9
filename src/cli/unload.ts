/**
 * `elftrace unload IMAGE PART -o OUT`: the image without a module; of a linked core its name gives
 * back the file that it was.
 */
import { loadArch } from '../targets.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { readRecord } from '../record/journal.js';
import { unloadFromSession } from '../tracing/session-parts.js';
import { probeServer } from '../kprobes/index.js';
import { readLoadMap } from '../program/load-map.js';
import { originalCore, unload } from '../program/loader.js';
import { jsonSchema, loadJson } from '../report/json.js';
import { exitCodes } from './exit.js';
import { outputPath, readInput, writeOutput } from './files.js';
import { hash } from './open.js';
import { err, out } from './terminal.js';

export interface UnloadArguments {
  readonly path: string;
  readonly part: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly json: boolean;
}

export async function runUnload(args: UnloadArguments): Promise<number> {
  const output = outputPath(args.path, args.output, args.inPlace);
  const { bytes: input } = await readInput(args.path);
  const image = readElf(input);
  const arch = await loadArch(image.header);
  const map = readLoadMap(image);
  if (map === null) throw new ElftraceError('usage', `${args.path} is no image of 'load'`, { file: args.path });
  const target = { output, like: args.path, form: 'none' } as const;
  if (map.parts[0]?.name === args.part) {
    const original = originalCore(image, map, hash);
    if (original === null) {
      throw new ElftraceError(
        'usage',
        `${args.part} is the core, which 'load' laid out: only modules can be taken out`,
      );
    }
    for (const notice of await writeOutput(target, original, true)) err(`${args.path}: notice: ${notice}`);
    if (args.json) out(JSON.stringify({ schema: jsonSchema, file: args.path, output, parts: [], notices: [] }));
    else out(`${output}: ${args.part} as it was before it was loaded`);
    return exitCodes.ok;
  }
  const record = readRecord(image);
  const result =
    record !== null && record.session.length > 0
      ? unloadFromSession({ image, record, hash, probes: probeServer(arch).hosts }, args.part, arch)
      : unload(image, args.part, arch, { sha256: hash });
  for (const notice of await writeOutput(target, result.bytes, true)) err(`${args.path}: notice: ${notice}`);
  if (args.json) out(JSON.stringify(loadJson(args.path, output, result)));
  else out(`${output}: without ${args.part}`);
  return exitCodes.ok;
}
