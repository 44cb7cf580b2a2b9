/**
 * `elftrace info FILE…`: what a file is, its site tables, its sites by shape and state, what is odd
 * about it.
 */
import * as elf from '../elf/constants.js';
import { compareWithElfy } from '../elf/elfy.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { namelessRelocations } from '../relocs/read.js';
import { readModuleSignature } from '../elf/signature.js';
import { machineName } from '../targets.js';
import { ElftraceError } from '../errors.js';
import { infoJson, type InfoExtras, type Json, jsonSchema, kindOf } from '../report/json.js';
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
const siteFlags: Readonly<Record<string, string>> = {
  'x86-64': '-pg -mfentry -mrecord-mcount (GCC), or -fpatchable-function-entry=5',
  ppc32: '-pg, or -fpatchable-function-entry=2 (GCC)',
  'ppc64-elfv1': '-pg, or -pg -mprofile-kernel (GCC)',
  'ppc64-elfv2-be': '-pg -mprofile-kernel (GCC), or -fpatchable-function-entry=2 (GCC 13 and later)',
  'ppc64-elfv2-le': '-pg -mprofile-kernel (GCC), or -fpatchable-function-entry=2 (GCC 13 and later)',
  riscv64: '-fpatchable-function-entry=4 (with C) or =2 (without), or -pg',
  arm64: '-fpatchable-function-entry=2, or =4,2 for per-callsite ops, or -pg',
};

function oddities(opened: Opened): string[] {
  const { image, sites, arch, record } = opened;
  const remarks = [...image.remarks, ...namelessRelocations(image)];
  const trailing = image.bytes.length - image.elfSize;
  if (trailing > 0 && !readModuleSignature(image.bytes)) remarks.push(`${trailing} bytes behind the ELF image`);
  for (const table of sites.tables) {
    remarks.push(...table.remarks);
    if (table.role === 'padding') remarks.push(`${table.name} names call padding, not patch sites of ftrace`);
    else if (!table.sorted) remarks.push(`${table.name} is not sorted`);
  }
  if (sites.count === 0 && record !== null && record.untraced.length > 0) {
    remarks.push('no patch sites: all of them were untraced');
  } else if (sites.count === 0) {
    remarks.push(`no patch sites: compile with ${siteFlags[arch.target.id] ?? '-pg'} to have some`);
  }
  if (!image.section('.symtab') && image.header.type !== elf.ET_REL) {
    remarks.push('stripped: name functions with --symbols FILE (System.map or an ELF file with symbols)');
  }
  if (record && opened.recorded) {
    for (const edit of record.edits) {
      if (opened.recorded(edit.offset, edit.after.length)) {
        remarks.push('the record and the bytes disagree: run verify');
        break;
      }
    }
  }
  return remarks;
}

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
    opened = await open(input, args);
  } catch (error) {
    if (error instanceof ElftraceError && error.code === 'unsupported-machine') {
      printUnserved(input, args, error);
    }
    throw error;
  }
  const { image, sites, arch, record } = opened;
  const signature = readModuleSignature(image.bytes);
  const second = await compareWithElfy(image);
  const extras: InfoExtras = {
    module: opened.module,
    remarks: oddities(opened),
    record,
    compressed: input.form,
    wrapped: input.wrapped,
    signature: signature ? signature.size : 0,
    secondReader: { checked: second.checked, differences: second.differences },
  };
  if (args.json) {
    out(JSON.stringify(infoJson(input.name, sites, extras)));
    return 0;
  }
  const totals = sites.totals();
  out(
    `${paint('bold', input.name)}: ${arch.target.title}, ${kindOf(sites, opened.module)}${input.form === 'none' ? '' : `, ${input.form}`}`,
  );
  if (opened.module !== null) out(`  module   ${opened.module}`);
  sites.tables.forEach((table, index) => {
    const zero = table.zero > 0 ? `, ${table.zero} empty` : '';
    const role = table.role === 'padding' ? ' (call padding)' : '';
    out(
      `  table    ${table.name}: ${table.count} entries${zero}, from ${table.origin}, ${sites.sources[index] ?? ''}${role}`,
    );
  });
  out(`  sites    ${totals.total}`);
  for (const [shape, count] of Object.entries(totals.byShape)) out(`    shape  ${shape}: ${count}`);
  for (const [state, count] of Object.entries(totals.byState)) out(`    state  ${state}: ${count}`);
  if (signature) out(`  signed   module signature of ${signature.size} bytes behind the ELF image`);
  if (record) {
    const untraced = record.untraced.length > 0 ? `, ${record.untraced.length} functions untraced` : '';
    out(
      `  record   ${record.requests.join(', ')} by elftrace ${record.tool}: ${record.edits.length} places changed${untraced}`,
    );
  }
  out(`  checked  ${second.checked} header fields against a second reader, ${second.differences.length} differences`);
  for (const difference of second.differences) out(`  odd      second reader: ${difference}`);
  for (const remark of extras.remarks) out(`  note     ${remark}`);
  return 0;
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
