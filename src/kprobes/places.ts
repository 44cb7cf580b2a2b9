/** What a probe would be at a place that a person writes. */
import type { Arch } from '../machine/arch.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { unpatched } from '../patch/undo.js';
import { load, type Program } from '../program/program.js';
import type { FileRecord } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';
import { findSites, type Sites } from '../sites/sites.js';
import { explainProbe, type ProbeExplanation } from './explain.js';
import { ProbeText } from './validate.js';

/** A file with its sites, and the record that is inside. */
interface Opened {
  readonly image: ElfImage;
  readonly arch: Arch;
  readonly program: Program;
  readonly sites: Sites;
  readonly record: FileRecord | null;
}

const PLACE = /^(?:([A-Za-z_.$][\w.$@]*?)(?:\+(0x[0-9a-fA-F]+))?|(0x[0-9a-fA-F]+))$/;

/**
 * What a probe would be at FUNCTION, FUNCTION+0xOFFSET or 0xADDRESS, in the file as it was before
 * it was patched.
 * @returns null for a text that names no place of code, and on machines without probes
 */
export function explainPlace(
  { image, arch, program, sites, record }: Opened,
  text: string,
  hash: Sha256,
): ProbeExplanation | null {
  if (arch.probes.kind === 'none') return null;
  const match = PLACE.exec(text);
  if (!match) return null;
  const original = record === null ? program : load(readElf(unpatched(image, null, hash)), arch);
  const code = new ProbeText(original, record === null ? sites : findSites(original));
  if (match[3] !== undefined) return explainProbe(code, { kind: 'address', address: BigInt(match[3]) });
  return explainProbe(code, { kind: 'symbol', module: null, name: match[1]!, offset: BigInt(match[2] ?? 0) });
}
