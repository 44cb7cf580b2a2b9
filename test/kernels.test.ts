/**
 * Linked kernels, those that keep the relocations of their linker (--emit-relocs) too: what verbs
 * make of them that were made for programs.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { conventionsOf } from '../src/program/conventions.js';
import { keptTables } from '../src/program/kept-tables.js';
import { load } from '../src/program/program.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { buildKernel, kernelTargets, kernelTools } from './support/kernels.js';
import { sampled } from './support/long.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-kernels-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);

describeWith(kernelTools, 'linked kernels', () => {
  describe.each(sampled(kernelTargets, 3).map((target) => [target.name, target] as const))('%s', (name, target) => {
    const vmlinux = at(`${name}.vmlinux`);
    let bytes: Uint8Array;
    beforeAll(() => {
      bytes = buildKernel(target);
      writeFileSync(vmlinux, bytes);
    });

    test('run --call: relocations that the linker kept are applied already', () => {
      const image = readElf(bytes);
      expect(keptTables(image).map(({ section }) => image.sections[section]!.name)).toEqual(
        expect.arrayContaining(['.rela.text', '.rela.data', '.rela.debug_info']),
      );
      for (const [call, value] of [
        ['twice(3)', 12],
        ['through(2)', 8],
        ['through(3)', 15],
      ] as const) {
        const { status, stdout, stderr } = elftrace(['run', '--call', call, vmlinux]);
        expect([status, stdout, stderr]).toEqual([0, `${call} = ${value} (0x${value.toString(16)})\n`, '']);
      }
    });

    test('run --call: the words of the file win over what the linker kept', () => {
      const image = readElf(bytes.slice());
      const { definedAt, symbols } = ((program) => ({
        definedAt: (each: string) => program.definedAt(program.symbols.find(each))!,
        symbols: program.symbols,
      }))(load(image, archOf(image.header)));
      expect(symbols.find('handlers')).toBeGreaterThan(0);
      const offset = image.fileOffsetOf(definedAt('handlers'));
      const word = image.wordBytes;
      // Both handlers are the second now.
      image.bytes.copyWithin(offset, offset + word, offset + 2 * word);
      writeFileSync(at(`${name}.changed`), image.bytes);
      expect(elftrace(['run', '--call', 'through(2)', at(`${name}.changed`)]).stdout).toBe('through(2) = 15 (0xf)\n');
    });

    test('run: a kernel is no program: 125, with the reason', () => {
      const status = at(`${name}.json`);
      const runs = [
        ['run', '--json-status', status, vmlinux],
        ['run', '--compare', vmlinux, '--json-status', status, vmlinux],
      ];
      for (const args of runs) {
        const result = elftrace(args);
        expect([result.status, result.stdout, result.stderr]).toEqual([
          125,
          '',
          `${vmlinux}: this is a kernel, linked at ${target.base}: it starts on a machine of its own, not as a program; ` +
            `--call 'F(…)' runs one of its functions\n`,
        ]);
        expect(JSON.parse(readFileSync(status, 'utf8'))).toMatchObject({ exit: 125, stop: { reason: 'kernel' } });
      }
    });

    test('what needs the objects of a runtime says so: exit 2, never a fault of ours', () => {
      const out = at(`${name}.out`);
      writeFileSync(
        at('session.yaml'),
        'version: 1\nsteps:\n  - ops: { name: m, call: step, filter: twice }\n  - register: m\n',
      );
      const patches = [
        ...[
          ['--probe', 'p:x twice'],
          ['--probe', 'p:x twice', '--optimize'],
          ['--direct', 'twice=step'],
        ],
        ...[
          ['--direct', 'twice=step', '--enable'],
          ['--livepatch', 'twice=step'],
          ['--session', at('session.yaml')],
        ],
      ];
      const requests = [
        ...patches.map((each) => ['patch', vmlinux, ...each, '-o', out]),
        ...[
          ['cost', vmlinux],
          ['race', vmlinux, '--site', 'twice'],
          ['race', vmlinux, '--probe', 'twice'],
        ],
      ];
      for (const args of requests) {
        const { status, stdout, stderr } = elftrace(args);
        expect([args, status, stdout, stderr]).toEqual([
          args,
          2,
          '',
          expect.stringMatching(
            /need the objects of elftrace's runtime.* \(missing: .*elftrace_data.*\).*\[no-runtime\]\n$/,
          ),
        ]);
      }
      for (const tracer of ['function_graph', 'counter', 'step']) {
        const { status, stderr } = elftrace(['patch', vmlinux, '--enable', '--tracer', tracer, '-o', out]);
        expect([status, stderr]).toEqual([4, expect.stringContaining(`not the tracer ${tracer} [unsupported-form]`)]);
      }
      expect(existsSync(out)).toBe(false);
    });

    test('load: one convention, that of the sites', () => {
      const image = readElf(bytes);
      expect(conventionsOf(image, archOf(image.header))).toEqual([target.convention]);
      const loaded = elftrace(['load', vmlinux, '-o', at(`${name}.image`)]);
      expect([loaded.status, loaded.stderr]).toEqual([
        0,
        `${vmlinux}: notice: the core has the entries of a tracer itself: no runtime is laid in\n`,
      ]);
      expect(elftrace(['run', '--call', 'through(3)', at(`${name}.image`)]).stdout).toBe('through(3) = 15 (0xf)\n');
      expect(elftrace(['run', at(`${name}.image`)]).status).toBe(125);
    });
  });
});
