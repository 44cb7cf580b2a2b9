/** `elftrace prove PATCHED [ORIGINAL]`: each patched site executed against its original (PV-4). */
import { availableParallelism } from 'node:os';
import type { Arch } from '../machine/arch.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import {
  type Account,
  checkPair,
  type Difference,
  differenceText,
  type Executed,
  prove,
  type ProofSummary,
  resultOf,
  ruleOf,
  type SiteProof,
  TRIALS_MAX,
  waysOf,
  whyOpen,
} from '../prove/index.js';
import { revert } from '../patch/revert.js';
import type { Program } from '../program/program.js';
import { type Json, jsonSchema } from '../report/json.js';
import { accountLines, type AccountRow, type AccountStep, type AccountText } from '../report/proof-account.js';
import { CertificateWork, type Certified } from './certificate.js';
import { compileLate, LATE_FOR_PROGRAMS } from './compile-late.js';
import { oneLine } from './disassembly.js';
import { exitCodes, ofFile } from './exit.js';
import { type InputFile, readBytes, readInput } from './files.js';
import { digestLike, digestOf, isInParts, readLoadedParts } from './loaded-parts.js';
import { open, type Opened } from './open.js';
import { progress } from './progress.js';
import type { Part, ProveArguments } from './prove-arguments.js';
import { proofInParts } from './prove-parts.js';
import { out } from './terminal.js';

/** Addresses of each way that JSON has in front of the place of comparison. */
const SHOWN = 24;
/** Sites between two lines of progress. */
const TICK = 256;
/** Sites that one thread has proved before others are there to help. */
const FEW = 4000;

/** What is proved: the file, and what it was before. */
interface Pair {
  readonly before: ElfImage;
  readonly after: Opened;
}

/** A file as proofs need it: what debuggers alone read is left out of large ones. */
async function readForProof(path: string): Promise<InputFile> {
  const bytes = readLoadedParts(path);
  return bytes === null ? readInput(path) : { name: path, path, bytes, form: 'none', member: null, wrapped: [] };
}

/** The original as the record gives it. */
async function restored({ image, arch, record }: Opened, { patched, journal }: ProveArguments): Promise<ElfImage> {
  const beside = journal === undefined ? null : readBytes(journal);
  // Parts of an image of `load` have digests of their own.
  const hasParts = record !== null && (record.injected || record.brought.length > 0);
  const whole = hasParts && isInParts(image.bytes) ? readElf((await readInput(patched)).bytes) : image;
  try {
    return readElf(revert(whole, beside, digestLike(whole.bytes), arch));
  } catch (error) {
    if (!(error instanceof ElftraceError) || error.code === 'no-record') throw error;
    // Reverting says that it wrote nothing.
    const why = error.message.replace(/; nothing was written$/, '');
    const message = `the record does not lead to the original, which may be named: ${why}`;
    throw new ElftraceError(error.code, message, error.context, { cause: error });
  }
}

/**
 * Under a runtime that was laid in first the map names the original, so that nothing has asked for
 * the digest of the record. A file of which all is proved must lead back by its record, too.
 * @throws ElftraceError 'bad-record' where it does not
 */
async function checkLeadsBack(after: Opened, args: ProveArguments, said: ProofSummary): Promise<void> {
  const isYes = said.different === 0 && said.inconclusive === 0 && said.unexplained.length === 0;
  if (!isYes || args.original === undefined || after.record?.injected !== true) return;
  try {
    await restored(after, args);
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    const message = `what its sites execute is proved, but its record does not lead back: ${error.message}`;
    throw new ElftraceError(error.code, message, error.context, { cause: error });
  }
}

/** The original that is named. @throws ElftraceError with the file */
async function named(file: string): Promise<ElfImage> {
  const { bytes } = await readForProof(file);
  try {
    return readElf(bytes);
  } catch (error) {
    throw ofFile(error, file);
  }
}

async function openPair(args: ProveArguments): Promise<Pair> {
  const after = await open(await readForProof(args.patched), args);
  const before = args.original === undefined ? await restored(after, args) : await named(args.original);
  if (args.original !== undefined) checkPair(before, after, args.original, digestOf);
  return { before, after };
}

function proofOf({ before, after }: Pair, args: ProveArguments, part?: Part): Results {
  const { seed, trials, sample, mcount, table } = args;
  return prove(before, after.image, after.arch, {
    ...(seed === undefined ? {} : { seed }),
    ...(trials === undefined ? {} : { trials }),
    ...(sample === undefined ? {} : { sample }),
    ...(part === undefined ? {} : { part }),
    load: {
      ...(mcount === undefined ? {} : { mcountNames: mcount }),
      ...(after.symbols === undefined ? {} : { symbols: after.symbols }),
    },
    ...(table === undefined ? {} : { tableSections: table }),
    sites: after.sites,
  });
}

type Results = AsyncGenerator<SiteProof, ProofSummary>;

/** A part of a proof, for one of several threads. */
export async function proofOfPart(args: ProveArguments, part: Part): Promise<Results> {
  return proofOf(await openPair(args), args, part);
}

/** @throws ElftraceError 'usage' for numbers that are none of states, trials or sites */
function checkNumbers({ seed, trials, sample }: ProveArguments): void {
  const check = (option: string, value: number | undefined, least: number, most: number): void => {
    if (value === undefined || (Number.isSafeInteger(value) && value >= least && value <= most)) return;
    throw new ElftraceError('usage', `--${option} takes a whole number from ${least} to ${most}`, { value });
  };
  check('seed', seed, 0, 0xffff_ffff);
  check('trials', trials, 1, TRIALS_MAX);
  check('sample', sample, 1, Number.MAX_SAFE_INTEGER);
}

export async function runProve(given: ProveArguments): Promise<number> {
  compileLate(LATE_FOR_PROGRAMS);
  checkNumbers(given);
  const certificate = new CertificateWork(given);
  const args = certificate.arguments;
  const pair = await openPair(args);
  const { sites } = pair.after;
  const other = certificate.begin(pair.before, pair.after);
  if (other !== null) return reportOther(args, other);
  // Another thread reads both files again: for few sites that takes longer than the proof.
  const few = args.jobs === 0 && sites.count < FEW;
  const jobs = few ? 1 : args.jobs === 0 ? availableParallelism() : args.jobs;
  const results = jobs === 1 ? proofOf(pair, args) : proofInParts(args, jobs);
  const told = new Map<string, string>();
  let count = 0;
  for (;;) {
    const { done, value } = await results.next();
    if (done === true) {
      await checkLeadsBack(pair.after, args, value);
      return report(args, value, await certificate.end(value));
    }
    certificate.add(value);
    if (++count % TICK === 0) progress(`prove ${args.patched}: ${count} sites`);
    if (args.json) {
      if (args.all || value.reason !== 'unchanged')
        out(JSON.stringify(await siteJson(args.patched, value, pair.after)));
    } else if (args.all || value.verdict !== 'proved') await print(args.patched, value, pair.after, told);
  }
}

/** What became of a certificate, in a sentence. */
function certifiedText({ file, outcome, difference }: Certified): string {
  if (outcome === 'written') return `${file}: certificate written`;
  return outcome === 'repeated' ? `${file}: the proof was repeated, and is the same` : `${file}: ${difference} [PV-6]`;
}

/** Nothing was proved: the certificate that was to be repeated is about other files. */
function reportOther({ patched, json }: ProveArguments, certificate: Certified): number {
  out(json ? JSON.stringify({ schema: jsonSchema, file: patched, certificate }) : certifiedText(certificate));
  return exitCodes.failed;
}

function report({ patched, json }: ProveArguments, summary: ProofSummary, certificate: Certified | null): number {
  const { sites, unchanged, proved, different, inconclusive, skipped, unexplained } = summary;
  if (json) {
    const changes = unexplained.map(({ address, size, section }) => ({ address: hex(address), size, section }));
    const certified = certificate === null ? {} : { certificate };
    out(
      JSON.stringify({
        summary: { schema: jsonSchema, file: patched, ...summary, unexplained: changes, ...certified },
      }),
    );
  } else {
    for (const { address, size, section } of unexplained) {
      out(
        `${patched}: ${section} ${hex(address)}: ${size} changed bytes belong to no site: nothing is proved of them [PV-4]`,
      );
    }
    const rest = skipped > 0 ? `, ${skipped} not tried` : '';
    out(
      `${patched}: ${sites} sites: ${proved} proved, ${unchanged} unchanged, ${different} different, ${inconclusive} inconclusive${rest}`,
    );
    if (certificate !== null) out(certifiedText(certificate));
  }
  const result = certificate?.outcome === 'different' ? 'different' : resultOf(summary);
  return { proved: exitCodes.ok, different: exitCodes.failed, inconclusive: exitCodes.runFailed }[result];
}

function differenceJson(difference: Difference): Json {
  return Object.fromEntries(
    Object.entries(difference).map(([key, value]) => [key, typeof value === 'bigint' ? hex(value) : (value as Json)]),
  );
}

const wayJson = (way: readonly Executed[]): Json => way.slice(-SHOWN).map(({ address }) => hex(address));

async function stepText(step: Executed | null, arch: Arch): Promise<AccountStep | null> {
  if (step === null) return null;
  const { address, bytes, place } = step;
  const size = arch.isa.decode(bytes, 0, address)?.sizeBytes ?? arch.isa.minInstructionBytes;
  const code = bytes.subarray(0, size);
  return { address: hex(address), place, code: hexBytes(code), text: await oneLine(arch, code, address) };
}

/** Bytes on either side of the stack pointer of a trial that are told by their distance from it. */
const NEAR_STACK = 0x1000n;

/** What a number of a trial is that an instruction may have made; undefined: any number. */
function nameOf(value: bigint, { returnAddress, stackPointer }: Account, program: Program): string | undefined {
  if (value === returnAddress) return 'where the function returns to';
  const distance = value - stackPointer;
  if (distance === 0n) return 'the stack pointer of the caller';
  if (distance > -NEAR_STACK && distance < NEAR_STACK)
    return `the stack pointer of the caller ${distance < 0n ? '-' : '+'} ${hex(distance < 0n ? -distance : distance)}`;
  const range = program.relocatable ? undefined : program.codeAt(value);
  return range === undefined ? undefined : program.describe(range, value) || undefined;
}

/** What a trial begins with, for who never saw one. */
function beginText({ entry, seed, returnAddress, stackPointer, state }: Account): string {
  const data = state === null ? '' : `; the tracer's data: ${state}`;
  return (
    `the trial begins at ${hex(entry)} with registers and memory made up from the number ${seed}, ` +
    `returns to ${hex(returnAddress)}, stack pointer ${hex(stackPointer)}${data}`
  );
}

/** What is marked. */
function markText({ difference }: Account): string {
  if (difference.what === 'event') return 'where that was seen';
  return difference.what === 'stop' ? 'the last instruction' : 'wrote what differs';
}

/** An account in words and with disassembly. */
async function accountText(account: Account, { arch, sites: { program } }: Opened): Promise<AccountText> {
  const named = (key: string, value: bigint): Record<string, string> => {
    const name = nameOf(value, account, program);
    return name === undefined ? {} : { [key]: name };
  };
  const rows: AccountRow[] = [];
  for (const row of waysOf(account)) {
    if ('skipped' in row) rows.push(row);
    else {
      const [original, patched] = [await stepText(row.original, arch), await stepText(row.patched, arch)];
      rows.push({ original, patched, writes: row.writes });
    }
  }
  return {
    seed: account.seed,
    entry: hex(account.entry),
    begins: beginText(account),
    phase: account.phase,
    says: `${differenceText(account.difference)}${account.during === null ? '' : `, while ${account.during}`}`,
    rule: ruleOf(account),
    registers: account.registers.map(({ name, original, patched }) => ({
      name,
      original: hex(original),
      patched: hex(patched),
      ...named('originalIs', original),
      ...named('patchedIs', patched),
    })),
    mark: markText(account),
    rows,
  };
}

async function siteJson(file: string, site: SiteProof, after: Opened): Promise<Json> {
  const { address, section, function: name, shape, verdict, trials, reason, detail, account } = site;
  const told = account === undefined ? null : await accountText(account, after);
  return {
    schema: jsonSchema,
    file,
    function: name,
    section,
    address: hex(address),
    shape,
    verdict,
    trials,
    ...(reason === undefined ? {} : { reason }),
    ...(detail === undefined ? {} : { detail }),
    ...(account === undefined || told === null
      ? {}
      : {
          account: {
            ...(told as unknown as { readonly [key: string]: Json }),
            difference: differenceJson(account.difference),
            original: wayJson(account.original),
            patched: wayJson(account.patched),
          },
        }),
  };
}

/** What tells an account from others that say the same of other sites. */
function kindOf({ shape, account }: SiteProof): string {
  const { phase, during, difference } = account!;
  const name = 'name' in difference ? difference.name : '';
  const reason = 'reason' in difference ? difference.reason.replace(/0x[0-9a-f]+/g, '') : '';
  return [shape, phase, during, difference.what, name, reason].join(' ');
}

/** @param told  kinds of accounts that were printed, each with the site that has it */
async function print(file: string, site: SiteProof, after: Opened, told: Map<string, string>): Promise<void> {
  const { account } = site;
  const why = account === undefined ? whyOpen(site) : '';
  out(`${file}: ${site.function} ${hex(site.address)} (${site.shape}): ${site.verdict}${why === '' ? '' : `: ${why}`}`);
  if (account === undefined) return;
  const lines = accountLines(await accountText(account, after));
  const same = told.get(kindOf(site));
  if (same !== undefined) out(`  ${lines[0]} (as at ${same} above)`);
  else for (const line of lines) out(`  ${line}`);
  told.set(kindOf(site), same ?? hex(site.address));
}
