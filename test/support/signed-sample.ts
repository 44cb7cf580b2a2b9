/**
 * Functions of arm64 samples that sign their return address in front of their call of `_mcount`: in
 * the place of the instruction that takes a signature off there.
 */
import { copyOfSample } from './edited-sample.js';

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
  const { bytes, code: codeOf } = copyOfSample(sample);
  for (const [name, [how, site]] of Object.entries(functions)) {
    const code = codeOf(name);
    const words = Array.from({ length: code.length / 4 }, (_, i) => 4 * i);
    const at = words.find((each) => code.toString('hex', each, each + 4) === XPACLRI);
    if (at === undefined) throw new Error(`${sample}: ${name} takes no signature off`);
    code.set(Buffer.from(SIGNS[how], 'hex'), at);
    if (site === 'site') continue;
    // The call is the next branch: without it only the function's end tells it from the next one.
    const call = words.find((each) => each > at && code[each + 3] === BL);
    code.set(Buffer.from(NOP, 'hex'), call!);
  }
  return bytes;
}
