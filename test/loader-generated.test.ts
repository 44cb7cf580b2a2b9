/**
 * Generated modules (acceptance 8): more than 700 external functions, tail calls, addends, TOC over
 * 64 KB, several text sections and stub groups. What they must print comes from the same objects
 * linked by GNU ld under qemu-user.
 */
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { load as loadProgram } from '../src/program/program.js';
import {
  assemble,
  compile,
  link,
  load,
  loaderTargets,
  loaderTools,
  merge,
  runHere,
  runQemu,
  source,
  startObject,
} from './support/loader-build.js';
import {
  generatedAssembly,
  generatedCore,
  generatedEntry,
  generatedModule,
  largeText,
} from './support/loader-generate.js';
import { few, isWhole, repeats } from './support/long.js';
import { ppcTargets } from './support/ppc-build.js';
import { describeWith } from './support/tools.js';

const FUNCTIONS = 720;
const VARIABLES = 8400;
/** Without a TOC nothing depends on their number. */
const variablesOf = (target: string): number => (target === 'ppc32' ? 100 : VARIABLES);

describeWith(loaderTools, 'generated modules', () => {
  // All ABIs of 64 bits have stubs of one form.
  for (const target of isWhole ? loaderTargets : repeats(['v2le', 'ppc32'] as const)) {
    const { arch } = ppcTargets[target];
    describe(target, () => {
      test(`T-PPC-1 P-STUB-1 P-STUB-2 ${FUNCTIONS} external functions, tail calls, addends, a TOC over 64 KB`, () => {
        const core = [
          startObject(target),
          compile(target, generatedCore(FUNCTIONS, variablesOf(target)), ['-O1']),
          assemble(target, generatedEntry(target)),
        ];
        const module = [
          compile(target, generatedModule(FUNCTIONS, variablesOf(target)), ['-O1', '-fno-tree-ter']),
          assemble(target, generatedAssembly(target)),
        ];
        const expected = runQemu(target, link(target, [...core, ...module]));
        expect(expected.code).toBe(0);
        const merged = merge(target, module);
        const { bytes, map } = load(target, source('core', merge(target, core)), [source('module', merged)]);
        expect(runHere(arch, bytes)).toEqual(expected);
        expect(runQemu(target, bytes)).toEqual(expected);
        const part = map.parts[1]!;
        const image = readElf(bytes);
        const program = loadProgram(image, arch);
        // One stub for each distinct target, each in reach of the code, none of the targets is.
        let stubs = 0;
        let saving = 0;
        const targets = new Set<bigint>();
        for (const { address, sizeBytes, count } of part.stubs) {
          for (let i = 0; i < count; i++) {
            const reading = program.stub(address + BigInt(i * sizeBytes));
            if (reading === null) continue;
            stubs++;
            targets.add(reading.target);
            if (reading.savesToc) saving++;
          }
        }
        // ext_0 … ext_719, multi and multi+4; where the TOC changes the tail call of ext_9 has a
        // stub of its own that saves nothing.
        expect(stubs).toBe(FUNCTIONS + 2 + (target === 'ppc32' ? 0 : 1));
        expect(saving).toBe(target === 'ppc32' ? 0 : FUNCTIONS + 2);
        expect(targets.size).toBe(FUNCTIONS + 2);
        if (target !== 'ppc32') {
          const own = image.sections.slice(part.sections.first, part.sections.first + part.sections.count);
          expect(own.find((each) => each.name === '.toc')!.size).toBeGreaterThan(0x1_0000);
        }
      });

      test('text beyond the reach of any stub is refused with the distance', () => {
        const alone = assemble(target, generatedEntry(target));
        const body = target === 'ppc32' ? '' : '\tnop\n';
        const far = assemble(target, `\t.text\n\t.space 0x2200000\n\tbl multi\n${body}\t.space 0x2200000\n`);
        expect(() => load(target, source('core', alone), [source('far', far)])).toThrow(
          /^far: (.text\+0x2200000 \(multi\): )?.*the call of multi at 0x[0-9a-f]+ is -?0x2[0-9a-f]+ from the nearest stubs, a branch reaches \[-0x2000000, 0x1fffffc\]/,
        );
      });
    });
  }

  for (const target of few(['v2le', 'ppc32'] as const)) {
    test(`${target}: text larger than one reach has a stub area for each group of sections`, () => {
      const main = `
#include "lib.h"
${[0, 1, 2].map((i) => `__attribute__((noinline)) u32 ext_${i}(u32 x) { return x * 3 + ${i}; } extern u32 large_${i}(u32);`).join('\n')}
int main(void) { ${[0, 1, 2].map((i) => `line("large", large_${i}(${i + 5}));`).join(' ')} flush(); return 0; }
`;
      const core = [startObject(target), compile(target, main)];
      const large = assemble(target, largeText(target, 3, 0x100_0000));
      const expected = runQemu(target, link(target, [...core, large]));
      const { bytes, map } = load(target, source('core', merge(target, core)), [source('large', large)]);
      expect(map.parts[1]!.stubs.length).toBe(3);
      expect(expected.output).toBe('large f\nlarge 13\nlarge 17\n');
      expect(runHere(ppcTargets[target].arch, bytes)).toEqual(expected);
      expect(runQemu(target, bytes)).toEqual(expected);
    });
  }
});
