/**
 * Real PowerPC kernel modules of the folder that ELFTRACE_CORPUS names: each is laid out with a
 * core that defines every symbol it wants, at the addresses of a kernel, and judged by readelf.
 * Skipped, with the reason, where the variable is not set.
 */
import { spawnSync } from './support/spawn.js';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { hash } from '../src/cli/hash.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { findSites } from '../src/sites/sites.js';
import { conventionsOf } from '../src/program/conventions.js';
import { loadImages, unload } from '../src/program/loader.js';
import { load as loadProgram } from '../src/program/program.js';
import { assemble, file, type LoaderTarget, loaderTargets, loaderTools, source } from './support/loader-build.js';
import { ppcTargets } from './support/ppc-build.js';
import { describeWith } from './support/tools.js';

const folder = process.env['ELFTRACE_CORPUS'] ?? '';
const manifest = folder === '' ? '' : join(folder, 'MANIFEST.tsv');

/** A core that defines names as functions, with what a tracer brings. */
function coreOf(target: LoaderTarget, names: ReadonlySet<string>): Uint8Array {
  const v2 = target === 'v2be' || target === 'v2le';
  const all = [...new Set([...names, 'ftrace_caller', 'ftrace_call', 'ftrace_regs_caller'])];
  const one = (name: string): string => {
    const quoted = `"${name}"`;
    if (target !== 'v1') return `\t.globl ${quoted}\n\t.type ${quoted},@function\n${quoted}:\tblr\n`;
    return `\t.section .opd,"aw"\n\t.globl ${quoted}\n\t.type ${quoted},@function\n${quoted}:\t.quad ".L.${name}",.TOC.@tocbase,0\n\t.text\n".L.${name}":\tblr\n`;
  };
  return assemble(target, `${v2 ? '\t.abiversion 2\n' : ''}\t.text\n${all.map(one).join('')}`);
}

/** Undefined names, those of code as functions. */
function wanted(image: ElfImage): Set<string> {
  const names = new Set<string>();
  const { symbols } = image;
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] !== 0 || symbols.name(i) === '' || symbols.name(i) === '.TOC.') continue;
    names.add(symbols.name(i).replace(/^\./, ''));
  }
  return names;
}

const targetOf = (image: ElfImage): LoaderTarget =>
  loaderTargets.find((name) => ppcTargets[name].arch === archOf(image.header))!;

if (!existsSync(manifest)) {
  process.stderr.write(
    `skipped: loading of kernel modules: ${folder === '' ? 'ELFTRACE_CORPUS is not set' : manifest}\n`,
  );
  test('kernel modules are loaded where ELFTRACE_CORPUS names them', () => {
    expect(existsSync(manifest)).toBe(false);
  });
} else {
  const rows = readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.split('\t'))
    .filter(([set, , kind]) => /^ppc/.test(set!) && kind === 'module');
  const counts = { modules: 0, sites: 0, stubs: 0, relocations: 0 };
  describeWith(loaderTools, 'real modules', () => {
    describe('laid out as a kernel does', () => {
      const sets = [...new Set(rows.map(([set]) => set!))];
      for (const set of sets) {
        test(set, () => {
          for (const [, path] of rows.filter(([own]) => own === set)) {
            const bytes = new Uint8Array(readFileSync(join(folder, path!)));
            const module = readElf(bytes);
            const target = targetOf(module);
            const { arch } = ppcTargets[target];
            const core = source('core', coreOf(target, wanted(module)));
            const request = { core, base: 'kernel', runtime: null, options: { sha256: hash } } as const;
            const result = loadImages({ ...request, modules: [{ name: 'module', image: module }] }, arch);
            const image = readElf(result.bytes);
            expect([path, image.relocations.length]).toEqual([path, 0]);
            const program = loadProgram(image, arch);
            const before = findSites(loadProgram(module, arch)).totals().total;
            const after = findSites(program);
            expect([path, after.totals().total]).toEqual([path, before]);
            expect([path, after.totals().byState['compiled'] ?? 0]).toEqual([path, before]);
            const part = result.map.parts[1]!;
            for (const { address, sizeBytes, count } of part.stubs) {
              for (let i = 0; i < count; i++)
                if (program.stub(address + BigInt(i * sizeBytes)) !== null) counts.stubs++;
            }
            expect(conventionsOf(module, arch).length).toBeLessThanOrEqual(1);
            const readelf = spawnSync('powerpc64-linux-gnu-readelf', ['-aW', file('image', result.bytes)], {
              maxBuffer: 1 << 28,
              encoding: 'utf8',
            });
            expect([path, readelf.status, readelf.stderr]).toEqual([path, 0, '']);
            const without = loadImages({ ...request, modules: [] }, arch);
            expect(hash(unload(image, 'module', arch).bytes)).toBe(hash(without.bytes));
            counts.modules++;
            counts.sites += before;
            for (const table of module.relocations) counts.relocations += table.count;
          }
        });
      }
      test('counts', () => {
        process.stderr.write(`kernel modules loaded: ${JSON.stringify(counts)}\n`);
        expect(counts.modules).toBe(rows.length);
        expect(counts.modules).toBeGreaterThanOrEqual(66);
      });
    });
  });
}
