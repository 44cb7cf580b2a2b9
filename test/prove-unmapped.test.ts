/** Proofs of sites that read what no program has: the first and the last page of the addresses. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { planSites } from '../src/patch/plan-sites.js';
import { load } from '../src/program/program.js';
import { prove } from '../src/prove/index.js';
import { sha256 } from '../src/sha256.js';
import { findSites } from '../src/sites/sites.js';
import { builtSamples } from './support/pipeline.js';
import { proof } from './support/proof.js';

test.each([
  // ld t0, -8(zero) and li t0, -8
  ['riscv64/program-mcount', 0xff80_3283, 0xff80_0293],
  ['riscv64/program-patchable-8', 0xff80_3283, 0xff80_0293],
  // lwz r12, -8(0) and li r12, -8
  ['ppc32/program-mcount', 0x8180_fff8, 0x3980_fff8],
  ['ppc64-elfv2-le/program-mprofile', 0x8180_fff8, 0x3980_fff8],
  // The same with 8.
  ['riscv64/program-mcount', 0x0080_3283, 0x0080_0293],
  ['riscv64/program-patchable-8', 0x0080_3283, 0x0080_0293],
  ['ppc32/program-mcount', 0x8180_0008, 0x3980_0008],
  ['ppc64-elfv2-le/program-mprofile', 0x8180_0008, 0x3980_0008],
])('PV-1: a site of %s that reads where nothing is is different, whatever it reads into', async (name, read, set) => {
  const original = new Uint8Array(readFileSync(join(builtSamples, name)));
  const image = readElf(original);
  const arch = archOf(image.header);
  const sites = findSites(load(image, arch));
  const plan = planSites(sites, { to: { kind: 'nop' } });
  const said = async (word: number): Promise<string> => {
    const { bytes } = applyPlan(image, plan, { hash: sha256 });
    const place = image.fileOffsetOf(sites.ip(0));
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(place, word, arch.target.codeEndian === 'little');
    const { sites: found } = await proof(original, bytes);
    return found.find(({ address }) => address === sites.anchor[0] || address === sites.ip(0))!.verdict;
  };
  // A register that is dead at an entry may hold anything.
  expect([await said(set), await said(read)]).toEqual(['proved', 'different']);
});

test('PV-4: a site behind a load through a thread pointer is tried until that leads somewhere', async () => {
  const original = new Uint8Array(readFileSync(join(builtSamples, 'ppc64-elfv1/program-mcount')));
  const image = readElf(original);
  const { offset, size } = image.section('.text')!;
  const words = new DataView(original.buffer, original.byteOffset + offset, size);
  // mr r31,r3 and ld r31,0x908(r13)
  for (let at = 0; at < size; at += 4) if (words.getUint32(at) === 0x7c7f_1b78) words.setUint32(at, 0xebed_0908);
  const arch = archOf(image.header);
  const plan = planSites(findSites(load(readElf(original), arch)), { to: { kind: 'nop' } });
  const patched = readElf(applyPlan(readElf(original), plan, { hash: sha256 }).bytes);
  let tried = 0;
  const open: string[] = [];
  for (let seed = 1; seed <= 20; seed++) {
    for await (const site of prove(readElf(original), patched, arch, { seed })) {
      tried++;
      if (site.verdict !== 'proved') open.push(`${seed}: ${site.function}: ${site.verdict}, ${site.detail ?? ''}`);
    }
  }
  expect(tried).toBeGreaterThan(100);
  expect(open).toEqual([]);
});
