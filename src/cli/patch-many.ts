/**
 * `elftrace patch --files-from LIST -o PATTERN`: each file of a list in turn, in one process. A
 * file that is refused is named and leaves the others alone; where two files would get one output,
 * or an output would be another input, nothing is begun.
 */
import { basename, resolve } from 'node:path';
import { ElftraceError } from '../errors.js';
import { OutputBatch } from '../output/batch.js';
import { compileLateForFiles } from './compile-late.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { readFileList } from './files.js';
import { checkRequest, type PatchArguments, patchFile } from './patch.js';
import { err, out } from './terminal.js';

export interface PatchManyArguments extends Omit<PatchArguments, 'path'> {
  readonly filesFrom: readonly string[];
  /** Of a file besides, which is refused. */
  readonly path?: string | undefined;
}

/** `{}` in a pattern is the path as it was listed, `{/}` the file's name. */
function named(option: string, pattern: string, path: string): string {
  if (!/\{\/?\}/.test(pattern)) {
    throw new ElftraceError(
      'usage',
      `${option} ${pattern}: with --files-from write {} for the path, or {/} for the name`,
    );
  }
  return pattern.replaceAll('{}', path).replaceAll('{/}', basename(path));
}

/**
 * What is asked of each file.
 * @throws ElftraceError 'usage' where outputs would meet
 */
function requests({ filesFrom, ...args }: Omit<PatchManyArguments, 'path'>): PatchArguments[] {
  if (args.output === undefined && !args.inPlace && !args.dryRun) {
    throw new ElftraceError('usage', 'name outputs with -o PATTERN, or change the files themselves with --in-place');
  }
  if (args.planOnly) throw new ElftraceError('usage', 'plan writes one plan: --files-from is of patch');
  const paths = filesFrom.flatMap(readFileList);
  const requested = paths.map((path): PatchArguments => {
    const output = args.output === undefined ? undefined : named('-o', args.output, path);
    const journal = args.journal === undefined ? undefined : named('--journal', args.journal, path);
    return { ...args, path, output, journal };
  });
  const taken = new Map(paths.map((path) => [resolve(path), `${path} is read`]));
  for (const { path, output, journal } of requested) {
    for (const file of [output, journal]) {
      if (file === undefined) continue;
      const known = taken.get(resolve(file));
      if (known !== undefined)
        throw new ElftraceError('usage', `${file} would be written for ${path}: ${known}`, { file });
      taken.set(resolve(file), `it is written for ${path}`);
    }
  }
  return requested;
}

/** @returns the greatest exit code of a file */
export async function runPatchMany({ path, ...args }: PatchManyArguments): Promise<number> {
  if (path !== undefined) throw new ElftraceError('usage', `${path} and --files-from exclude each other`);
  checkRequest(args);
  let code: number = exitCodes.ok;
  let failed = 0;
  const requested = requests(args);
  const batch = new OutputBatch(
    args.dryRun
      ? []
      : requested.flatMap(({ path, output = path, journal }) => [
          path,
          output,
          ...(journal === undefined ? [] : [journal]),
        ]),
  );
  const patched = compileLateForFiles(requested.length);
  for (const request of requested) {
    // What comes out of a plan does not say of what.
    if (args.dryRun && !args.json) out(`${request.path}:`);
    try {
      code = Math.max(code, await patchFile({ ...request, batch }));
    } catch (error) {
      failed++;
      err(errorLine(error, request.path));
      code = Math.max(code, exitCodeOf(error));
    }
    patched();
  }
  batch.end();
  if (!args.json) out(`${requested.length} files: ${requested.length - failed} as asked, ${failed} refused`);
  return code;
}
