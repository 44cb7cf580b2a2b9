/**
 * `elftrace html FILE… -o page.html`: one page about images, with a trace, differences and races
 * where they are asked for. All or nothing: where a file cannot be read there is no page.
 */
import { ElftraceError } from '../errors.js';
import { disagreements } from '../record/journal.js';
import { isRuntimeObject, unsavedUses } from '../tracing/callback-code.js';
import { writeOutputs } from '../output/commit.js';
import { type HtmlDiff, type HtmlFile, htmlPage, type HtmlPage, type HtmlPageRequest } from '../page/index.js';
import { jsonSchema } from '../report/json.js';
import { verify } from '../sites/verdicts.js';
import { withLivepatch } from '../livepatch/against.js';
import { comparison } from './diff.js';
import { disassemblerOf } from './disassembly.js';
import { exitCodes, ofFile } from './exit.js';
import { expandPaths, outputPath, readBytes, readInputs } from './files.js';
import { commandDeadline } from './limits.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { progress } from './progress.js';
import { STANDARD_INPUT } from './standard-input.js';
import { out } from './terminal.js';

export interface HtmlArguments extends OpenOptions {
  readonly files: readonly string[];
  readonly trace?: string | undefined;
  readonly diff?: string | undefined;
  readonly prove?: string | undefined;
  readonly race?: readonly string[] | undefined;
  readonly oldSymbols?: string | undefined;
  readonly title?: string | undefined;
  readonly output: string | undefined;
  readonly json: boolean;
}

/**
 * Files of the arguments, one after the other, judged as `verify` judges them.
 * @param begin  told of the file that is worked on from now on
 */
async function* filesOf(args: HtmlArguments, begin: (file: string) => void): AsyncGenerator<HtmlFile> {
  if (args.files.length === 0) return;
  for (const path of expandPaths(args.files)) {
    begin(path);
    for await (const input of readInputs(path)) {
      commandDeadline().check(`reading ${input.name}`, { file: input.name });
      progress(`html ${input.name}`);
      begin(input.name);
      const opened = await open(input, args);
      const { sites, record, recorded } = opened;
      const verification = await withLivepatch(opened, verify(sites, recorded ? { recorded } : {}), null);
      yield { name: input.name, sites, verification, record, remarks: await remarksOf(opened) };
    }
  }
  // What is wrong from here on is of the trace, or of the proof, which says so.
  begin('');
}

/** What is to be said of a file besides its sites. */
async function remarksOf({ record, image, program, arch }: Opened): Promise<string[]> {
  const untraced = record?.untraced.length ?? 0;
  const isChanged = record !== null && disagreements(record, image.bytes).length > 0;
  const unsaved = isRuntimeObject(program) ? unsavedUses(program, await disassemblerOf(arch)) : [];
  return [
    ...(untraced > 0 ? [`${untraced} functions were untraced: no table names them`] : []),
    ...(isChanged ? ['the record and the bytes disagree: elftrace status says where'] : []),
    ...unsaved.map(
      ({ function: name, text }) => `error: ${name}: the tracing entries do not save what '${text}' changes`,
    ),
  ];
}

/** @throws ElftraceError 'usage' where it is not said what is compared with what */
async function diffOf(args: HtmlArguments): Promise<HtmlDiff | undefined> {
  if (args.diff === undefined) return undefined;
  const [path] = args.files;
  if (args.files.length !== 1) {
    throw new ElftraceError('usage', '--diff compares OLD with one file or tree: name one', { value: args.diff });
  }
  return comparison({ ...args, old: args.diff, new: path!, newSymbols: args.symbols });
}

/** A file that another verb wrote. */
const textOf = (name: string) => ({ name, text: new TextDecoder().decode(readBytes(name)) });

function say(args: HtmlArguments, output: string, { html: _, ...page }: HtmlPage, bytes: number): void {
  if (args.json) {
    out(JSON.stringify({ schema: jsonSchema, paths: args.files, output, ...page, bytes }));
    return;
  }
  const verdicts = Object.entries(page.verdicts).map(([verdict, count]) => `${count} ${verdict}`);
  const ofFiles = [
    `${page.files} ${page.files === 1 ? 'file' : 'files'}`,
    `${page.rows} sites${verdicts.length > 0 ? ` (${verdicts.join(', ')})` : ''}`,
  ];
  const parts = [
    ...(page.files === 0 ? [] : ofFiles),
    ...(page.events === null ? [] : [`${page.events} events`]),
    ...(page.differences === null ? [] : [`${page.differences} differences`]),
    ...(page.races === null ? [] : [`${page.races} ${page.races === 1 ? 'race' : 'races'}`]),
    `${bytes} bytes`,
  ];
  out(`${output}: ${parts.join(', ')}`);
}

export async function runHtml(args: HtmlArguments): Promise<number> {
  if (args.output === undefined) throw new ElftraceError('usage', 'name the page with -o PAGE.html');
  const races = args.race ?? [];
  const isOfFiles = [args.trace, args.prove, args.diff].some((each) => each !== undefined);
  if (args.files.length === 0 && (races.length === 0 || isOfFiles)) {
    throw new ElftraceError('usage', 'name a file: elftrace html FILE… -o PAGE.html');
  }
  const inputs = [...args.files, ...races, ...[args.trace, args.prove].filter((each) => each !== undefined)];
  for (const input of inputs.filter((each) => each !== STANDARD_INPUT)) outputPath(input, args.output, false);
  const diff = await diffOf(args);
  let file = '';
  const begin = (next: string): void => {
    file = next;
  };
  const request: HtmlPageRequest = {
    files: filesOf(args, begin),
    ...(args.title === undefined ? {} : { title: args.title }),
    ...(args.trace === undefined ? {} : { trace: textOf(args.trace) }),
    ...(args.prove === undefined ? {} : { proof: textOf(args.prove) }),
    ...(diff === undefined ? {} : { diff }),
    ...(races.length === 0 ? {} : { races: races.map(textOf) }),
  };
  const page = await htmlPage(request).catch((error: unknown) => {
    throw file === '' ? error : ofFile(error, file);
  });
  const bytes = new TextEncoder().encode(page.html);
  await writeOutputs([{ path: args.output, bytes }]);
  say(args, args.output, page, bytes.length);
  return exitCodes.ok;
}
