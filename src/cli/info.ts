/**
 * `elftrace info FILE…`: what a file is, its site tables, its sites by shape and state, what is odd
 * about it.
 */
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { machineName } from '../targets.js';
import { ElftraceError } from '../errors.js';
import { infoJson, type Json, jsonSchema } from '../report/json.js';
import { type ImageInfo, imageInfo } from '../sites/about.js';
import { errorLine, exitCodeOf } from './exit.js';
import { expandPaths, type InputFile, readInputs } from './files.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { err, out, paint } from './terminal.js';
import { worst } from './verify.js';

export interface InfoArguments extends OpenOptions {
  readonly files: readonly string[];
  readonly json: boolean;
}

/** Which compiler flags would give a file of this target sites. */
const siteFlagsOf: Readonly<Record<string, string>> = {
  'x86-64': '-pg -mfentry -mrecord-mcount (GCC), or -fpatchable-function-entry=5',
  ppc32: '-pg, or -fpatchable-function-entry=2 (GCC)',
  'ppc64-elfv1': '-pg, or -pg -mprofile-kernel (GCC)',
  'ppc64-elfv2-be': '-pg -mprofile-kernel (GCC), or -fpatchable-function-entry=2 (GCC 13 and later)',
  'ppc64-elfv2-le': '-pg -mprofile-kernel (GCC), or -fpatchable-function-entry=2 (GCC 13 and later)',
  riscv64: '-fpatchable-function-entry=4 (with C) or =2 (without), or -pg',
  arm64: '-fpatchable-function-entry=2, or =4,2 for per-callsite ops, or -pg',
};

/**
 * What can be said of a file whose machine is recognised and not served: its header, and how long
 * its tables are.
 */
function unservedJson(file: string, image: ElfImage, error: ElftraceError): Json {
  const tables: Json[] = [];
  for (const name of ['__mcount_loc', '__patchable_function_entries']) {
    const size = image.sectionsNamed(name).reduce((sum, section) => sum + section.size, 0);
    if (size > 0) tables.push({ name, entries: Math.floor(size / image.wordBytes), zero: 0 });
  }
  return {
    schema: jsonSchema,
    file,
    target: null,
    machine: machineName(image.header.machine),
    kind: image.header.type === elf.ET_REL ? 'relocatable' : 'linked',
    tables,
    sites: { total: 0, byState: {}, byShape: {} },
    unsupported: error.message,
  };
}

/** A file of a machine that is recognised and not served. */
function printUnserved(input: InputFile, args: InfoArguments, error: ElftraceError): void {
  const image = readElf(input.bytes);
  const json = unservedJson(input.name, image, error);
  if (args.json) out(JSON.stringify(json));
  else {
    out(`${paint('bold', input.name)}: ${machineName(image.header.machine)}, not served`);
    for (const section of image.sections) {
      if (section.name === '__mcount_loc' || section.name === '__patchable_function_entries') {
        out(`  table    ${section.name}: ${Math.floor(section.size / image.wordBytes)} entries`);
      }
    }
  }
}

async function describe(input: InputFile, args: InfoArguments): Promise<number> {
  let opened: Opened;
  try {
    opened = await open(input, args, 'read');
  } catch (error) {
    if (error instanceof ElftraceError && error.code === 'unsupported-machine') {
      printUnserved(input, args, error);
    }
    throw error;
  }
  const { arch, sites, module, record } = opened;
  const siteFlags = siteFlagsOf[arch.target.id] ?? '-pg';
  const info = await imageInfo(sites, { module, record, siteFlags });
  if (args.json) out(JSON.stringify(infoJson(input.name, info, { compressed: input.form, wrapped: input.wrapped })));
  else print(input, arch.target.title, info);
  return 0;
}

function print(input: InputFile, title: string, info: ImageInfo): void {
  const { module, record, secondReader, signatureBytes, sites } = info;
  const form = input.form === 'none' ? '' : `, ${input.form}`;
  out(`${paint('bold', input.name)}: ${title}, ${info.kind}${form}`);
  if (module !== null) out(`  module   ${module}`);
  for (const table of info.tables) {
    const zero = table.zero > 0 ? `, ${table.zero} empty` : '';
    const role = table.role === 'padding' ? ' (call padding)' : '';
    out(`  table    ${table.name}: ${table.entries} entries${zero}, from ${table.origin}, ${table.source}${role}`);
  }
  out(`  sites    ${sites.total}`);
  for (const [shape, count] of Object.entries(sites.byShape)) out(`    shape  ${shape}: ${count}`);
  for (const [state, count] of Object.entries(sites.byState)) out(`    state  ${state}: ${count}`);
  if (signatureBytes > 0) out(`  signed   module signature of ${signatureBytes} bytes behind the ELF image`);
  if (record) {
    const untraced = record.untraced.length > 0 ? `, ${record.untraced.length} functions untraced` : '';
    out(
      `  record   ${record.requests.join(', ')} by elftrace ${record.tool}: ${record.edits.length} places changed${untraced}`,
    );
  }
  const { checked, differences } = secondReader;
  out(`  checked  ${checked} header fields against a second reader, ${differences.length} differences`);
  for (const difference of differences) out(`  odd      second reader: ${difference}`);
  for (const remark of info.remarks) out(`  note     ${remark}`);
}

export async function runInfo(args: InfoArguments): Promise<number> {
  const codes: number[] = [];
  for (const path of expandPaths(args.files)) {
    try {
      for await (const input of readInputs(path)) {
        try {
          codes.push(await describe(input, args));
        } catch (error) {
          err(errorLine(error, input.name));
          codes.push(exitCodeOf(error));
        }
      }
    } catch (error) {
      err(errorLine(error, path));
      codes.push(exitCodeOf(error));
    }
  }
  return worst(codes);
}
