/**
 * Functions of arm64 samples that sign their return address in front of their call of `_mcount`: in
 * the place of the instruction that takes a signature off there.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readElf } from '../../src/elf/read.js';
import { builtSamples } from './pipeline.js';

// GNU as: xpaclri, nop, paciasp, pacibsp
const XPACLRI = 'ff2003d5';
const NOP = '1f2003d5';
const SIGNS = { paciasp: '3f2303d5', pacibsp: '7f2303d5' } as const;

/** The last byte of a bl forwards. */
const BL = 0x94;

/** By name how a function signs, and whether it has its site. */
export type SigningFunctions = Readonly<Record<string, readonly [how: keyof typeof SIGNS, site: 'site' | 'no site']>>;

/** A sample of which some functions sign. */
export function signedSample(sample: string, functions: SigningFunctions): Uint8Array {
  const bytes = new Uint8Array(readFileSync(join(builtSamples, sample)));
  const { symbols, sections } = readElf(bytes);
  for (const [name, [how, site]] of Object.entries(functions)) {
    const index = symbols.find(name);
    const { address, offset } = sections[symbols.sectionIndex[index]!]!;
    const start = offset + Number(symbols.value[index]! - address);
    const end = start + Number(symbols.size[index]!);
    const words = Array.from({ length: (end - start) / 4 }, (_, i) => start + 4 * i);
    const at = words.find((each) => Buffer.from(bytes.subarray(each, each + 4)).toString('hex') === XPACLRI);
    if (at === undefined) throw new Error(`${sample}: ${name} takes no signature off`);
    bytes.set(Buffer.from(SIGNS[how], 'hex'), at);
    if (site === 'site') continue;
    // The call is the next branch: without it only the function's end tells it from the next one.
    const call = words.find((each) => each > at && bytes[each + 3] === BL);
    bytes.set(Buffer.from(NOP, 'hex'), call!);
  }
  return bytes;
}
