/**
 * The way from bytes to sites, plans and back, for tests of the whole pipeline; and the bundled
 * samples as bytes.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { archOf } from '../../src/arches.js';
import type { Arch } from '../../src/machine/arch.js';
import { isArchive, memberBytes, readArchive } from '../../src/elf/archive.js';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { ElftraceError, type ErrorCode } from '../../src/errors.js';
import type { Plan, PlanRequest } from '../../src/patch/plan.js';
import { planSites } from '../../src/patch/plan-sites.js';
import { findSites, type FindOptions, type Sites } from '../../src/sites/sites.js';
import { verify, type Verdict, type Verification } from '../../src/sites/verdicts.js';
import { load, type LoadOptions, type Program } from '../../src/program/program.js';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');
export const builtSamples = join(root, 'samples', 'built');

export interface Opened {
  readonly image: ElfImage;
  readonly arch: Arch;
  readonly program: Program;
  readonly sites: Sites;
}

export function openBytes(bytes: Uint8Array, options: LoadOptions & FindOptions = {}): Opened {
  const image = readElf(bytes);
  const arch = archOf(image.header);
  const program = load(image, arch, options);
  return { image, arch, program, sites: findSites(program, options) };
}

export function planNop(sites: Sites, request: Partial<PlanRequest> = {}): Plan {
  return planSites(sites, { to: { kind: 'nop' }, ...request });
}

export function verdictsOf(bytes: Uint8Array): Verification {
  return verify(openBytes(bytes).sites);
}

/** The verdicts of a file without `ok`, as `verdict: count`. */
export function badVerdicts(bytes: Uint8Array): Partial<Record<Verdict, number>> {
  const { ok: _, ...rest } = verdictsOf(bytes).verdicts;
  return rest;
}

export function readSample(name: string): Uint8Array {
  return new Uint8Array(readFileSync(join(builtSamples, name)));
}

/** Names of the built samples, `target/file`. */
export function sampleNames(): string[] {
  return readdirSync(builtSamples, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.includes('/'))
    .sort();
}

/**
 * Every sample that is an ELF file, and the members of the archive; the compressed ones hold the
 * same module.
 */
export function sampleFiles(): { readonly name: string; readonly bytes: Uint8Array }[] {
  const files: { name: string; bytes: Uint8Array }[] = [];
  for (const name of sampleNames()) {
    const bytes = readSample(name);
    if (isArchive(bytes)) {
      for (const member of readArchive(bytes)) {
        if (member.kind === 'file')
          files.push({ name: `${name}(${member.name})`, bytes: memberBytes(bytes, member).slice() });
      }
    } else if (bytes[0] === 0x7f) files.push({ name, bytes });
    else if (name.endsWith('.gz')) files.push({ name, bytes: new Uint8Array(gunzipSync(bytes)) });
  }
  return files;
}

/** Positions at which two arrays differ, up to the shorter length. Knows nothing of plans. */
export function differences(a: Uint8Array, b: Uint8Array, limit = Math.min(a.length, b.length)): number[] {
  const found: number[] = [];
  for (let i = 0; i < limit; i++) if (a[i] !== b[i]) found.push(i);
  return found;
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}

/** A copy with bytes replaced. */
export function edited(bytes: Uint8Array, offset: number, replacement: readonly number[] | Uint8Array): Uint8Array {
  const copy = bytes.slice();
  copy.set(replacement, offset);
  return copy;
}

/** The error that `body` throws; anything else than an ElftraceError is thrown on. */
export function errorOf(body: () => unknown): ElftraceError {
  try {
    body();
  } catch (error) {
    if (error instanceof ElftraceError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

export function codeOf(body: () => unknown): ErrorCode {
  return errorOf(body).code;
}
