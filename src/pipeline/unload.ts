/** A loaded image without one of its parts; of a linked core its name gives back the file. */
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { probeServer } from '../kprobes/index.js';
import { readLoadMap } from '../program/load-map.js';
import { type LoadResult, originalCore, unload } from '../program/loader.js';
import { readRecord } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';
import { loadArch } from '../targets.js';
import { unloadFromSession } from '../tracing/session-parts.js';

/** The image without a module; or the core as it was before it was loaded. */
export type Unloaded =
  { readonly kind: 'without'; readonly result: LoadResult } | { readonly kind: 'core'; readonly bytes: Uint8Array };

/**
 * @param path  for messages
 * @throws ElftraceError 'usage' for what is no image of `load`, and for a core that `load` laid
 *   out; and as `unload`
 */
export async function unloadPart(bytes: Uint8Array, part: string, path: string, hash: Sha256): Promise<Unloaded> {
  const image = readElf(bytes);
  const arch = await loadArch(image.header);
  const map = readLoadMap(image);
  if (map === null) throw new ElftraceError('usage', `${path} is no image of 'load'`, { file: path });
  if (map.parts[0]?.name === part) {
    const original = originalCore(image, map, hash);
    if (original !== null) return { kind: 'core', bytes: original };
    throw new ElftraceError('usage', `${part} is the core, which 'load' laid out: only modules can be taken out`);
  }
  const record = readRecord(image);
  const result =
    record !== null && record.session.length > 0
      ? unloadFromSession({ image, record, hash, probes: probeServer(arch).hosts }, part, arch)
      : unload(image, part, arch, { sha256: hash });
  return { kind: 'without', result };
}
