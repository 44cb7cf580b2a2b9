/**
 * Objects and programs of current compilers: the folder that ELFTRACE_MODERN names (without it the
 * folder `modern` beside ELFTRACE_CORPUS), with MANIFEST.tsv, whose truth other programs computed
 * from symbols, tables and bytes. Counted for each compiler: right, false errors, false oks,
 * refusals with the right and with another reason. Skipped, with the reason, where it is absent.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { verify, type Finding, type Verification } from '../src/sites/verdicts.js';
import { openBytes } from './support/pipeline.js';

interface Row {
  readonly file: string;
  readonly sites: number;
  readonly expected: string;
}

const outcomes = ['right', 'false error', 'false ok', 'right refusal', 'wrong refusal'] as const;
type Outcome = (typeof outcomes)[number];

const corpus = process.env['ELFTRACE_CORPUS'] ?? '';
const folder = process.env['ELFTRACE_MODERN'] ?? (corpus === '' ? '' : join(corpus, '..', 'modern'));
const manifest = folder === '' ? '' : join(folder, 'MANIFEST.tsv');

function readManifest(): Row[] {
  const lines = readFileSync(manifest, 'utf8').trim().split('\n').slice(1);
  return lines.map((line) => {
    const [file = '', , , sites, , expected = ''] = line.split('\t');
    return { file, sites: Number(sites), expected };
  });
}

/** What must be said where a refusal is expected: beginning of the expectation, reason. */
const reasons: readonly (readonly [RegExp, RegExp])[] = [
  [/^refuse with reason: one nop, two are needed/, /two nops are needed, there is one|no room for a call/],
  [/^refuse with reason: pad too short for a 5-byte call/, /cannot hold a 5-byte call|no room for a call/],
  [/^refuse with reason: too short for auipc/, /auipc and jalr need 8|no room for a call/],
  [/^refuse with reason: pad (lies )?before the entry only/, /padding/],
  [/^name the landing pad: no-landing-pad/, /landing pad stands behind the nops/],
  [/^say that XRay sleds/, /XRay sleds \(xray_instr_map\)/],
  [/^say that the file contradicts itself/, /ABI 2 .*\.opd/],
  [/^defect: .*pad-without-slot/, /pad-without-slot/],
  [/^defect: .*slots name the global entry/, /(at|before) the local entry/],
];

const isError = ({ severity }: Finding): boolean => severity === 'error' || severity === 'warning';

/** Verdict of a row where sites are expected. */
function ofSites({ expected, sites }: Row, { verdicts, findings, remarks, sites: judged }: Verification): Outcome {
  const { ok = 0, 'weak-leftover': weak = 0 } = verdicts;
  const [, good] = /(\d+) ok/.exec(expected) ?? [];
  const [, leftovers] = /(\d+) weak-leftover/.exec(expected) ?? [];
  if (judged !== sites || findings.some(isError)) return 'false error';
  if (/with a warning: .*sh_link/.test(expected) && !remarks.some((each) => /COMDAT/.test(each))) return 'false ok';
  if (good === undefined) return ok + weak === sites ? 'right' : 'false error';
  return ok === Number(good) && weak === Number(leftovers ?? 0) ? 'right' : 'false error';
}

/** Verdict of a row where something must be refused, or said. */
function ofRefusal({ expected, sites }: Row, result: Verification | ElftraceError): Outcome {
  const reason = reasons.find(([beginning]) => beginning.test(expected))?.[1];
  if (reason === undefined) throw new Error(`no reason is known for '${expected}'`);
  if (result instanceof Error) return reason.test(result.message) ? 'right refusal' : 'wrong refusal';
  const errors = result.findings.filter(({ severity }) => severity === 'error');
  if (result.sites === 0) return reason.test(result.incomplete?.message ?? '') ? 'right refusal' : 'wrong refusal';
  if (errors.length === 0) return 'false ok';
  // Static helpers have no landing pad, and need none.
  if (expected.startsWith('name'))
    return errors.some(({ message }) => reason.test(message)) ? 'right refusal' : 'wrong refusal';
  if (expected.startsWith('refuse') && (result.verdicts.ok ?? 0) > 0) return 'false ok';
  const [, wrong] = /^defect: (\d+) slots/.exec(expected) ?? [];
  if (wrong !== undefined && errors.length !== Number(wrong)) return 'wrong refusal';
  const others = result.findings.filter(isError);
  const named = others.every(({ verdict, message }) => reason.test(`${verdict}: ${message}`));
  return named && result.sites === sites ? 'right refusal' : 'wrong refusal';
}

function judge(row: Row, result: Verification | ElftraceError): Outcome {
  const { expected } = row;
  if (expected.startsWith('name the landing pad: site behind lpad')) {
    // A pad with room behind it holds a site; one without must be refused for what stands there.
    if (result instanceof Error) return 'wrong refusal';
    if (!result.findings.some(isError)) return result.verdicts.ok === row.sites ? 'right' : 'false ok';
    return result.findings.every(({ message }) => /behind the landing pad/.test(message))
      ? 'right refusal'
      : 'wrong refusal';
  }
  const [, misaligned] = /^misaligned (\d+)/.exec(expected) ?? [];
  if (misaligned !== undefined && !(result instanceof Error)) {
    const { ok = 0, misaligned: found = 0, 'weak-leftover': weak = 0 } = result.verdicts;
    return found === Number(misaligned) && ok + weak + found === row.sites ? 'right refusal' : 'wrong refusal';
  }
  if (!/^ok|^must be read/.test(expected)) return ofRefusal(row, result);
  if (result instanceof Error) return 'false error';
  if (!/no sites?$/.test(expected)) return ofSites(row, result);
  const isSaid = !expected.includes('padding') || result.incomplete?.message.includes('padding') === true;
  return result.sites > 0 ? 'false error' : isSaid ? 'right' : 'wrong refusal';
}

function look(path: string): Verification | ElftraceError {
  try {
    return verify(openBytes(new Uint8Array(readFileSync(path))).sites);
  } catch (error) {
    if (error instanceof ElftraceError) return error;
    throw error;
  }
}

/**
 * Files that are not judged as they should be, with what is said of them today. Nothing may be
 * added, and a file that is right must go.
 */
const known: ReadonlyMap<string, Outcome> = new Map<string, Outcome>();

if (folder === '' || !existsSync(manifest)) {
  const reason = folder === '' ? 'ELFTRACE_MODERN and ELFTRACE_CORPUS are not set' : `${manifest} is not there`;
  process.stderr.write(`skipped: objects of current compilers: ${reason}\n`);
  describe.skip(`objects of current compilers (${reason})`, () => {
    test('nothing to read', () => undefined);
  });
} else {
  const rows = readManifest();
  /** `clang22`, `gcc15`; modules by their machine. */
  const maker = ({ file }: Row): string =>
    file.startsWith('modules/') ? file.split('/', 2).join('/') : file.replace(/^.*\//, '').replace(/-.*$/, '');
  const makers = [...new Set(rows.map(maker))].sort();
  describe('objects of current compilers', () => {
    test.each(makers)(
      'M-VAL-1 M-PAD-1 M-PAD-2 M-PAD-3 M-PROD-1 M-LINK-1 P-ABI-1 %s: no false error, no false ok, refusals give the true reason',
      (name) => {
        const counts = Object.fromEntries(outcomes.map((each) => [each, 0])) as Record<Outcome, number>;
        const found: (readonly [string, Outcome])[] = [];
        const own = rows.filter((row) => maker(row) === name);
        for (const row of own) {
          const outcome = judge(row, look(join(folder, row.file)));
          counts[outcome]++;
          if (outcome !== 'right' && outcome !== 'right refusal') found.push([row.file, outcome]);
        }
        const text = outcomes.map((each) => `${counts[each]} ${each}`).join(', ');
        process.stdout.write(`modern: ${name}: ${own.length} files: ${text}\n`);
        const listed = [...known].filter(([file]) => own.some((row) => row.file === file));
        expect(found.sort()).toEqual(listed.sort());
      },
      60_000,
    );
  });
}
