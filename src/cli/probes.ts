/** What several verbs say about probes: those that the record of a file has, what they recorded, whether a place can have one. */
import type { Arch } from '../arch.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { unpatched } from '../ftrace/apply.js';
import type { FileRecord } from '../ftrace/journal.js';
import { formatFetched, planProbes, type ProbeRun, type ProbeSessionPlan } from '../kprobes/index.js';
import type { ProbeReader, RingRecord } from '../trace/index.js';
import { hash } from './open.js';

/** The sessions of a record, performed on the image as it was. */
export function recordedProbes(image: ElfImage, arch: Arch, record: FileRecord): ProbeSessionPlan {
  return planProbes(
    readElf(unpatched(image, null, hash)),
    arch,
    record.session.map((text, i) => ({ name: `recorded session ${i + 1}`, text })),
  );
}

/** What a record of the ring says, in the words of the probe that wrote it. */
export function probeEvent(
  run: ProbeRun | null,
  { parent: id, words = [] }: RingRecord,
  comm: string,
  nameOf: (address: bigint) => string,
): ReturnType<ProbeReader> {
  const found = run?.recorded(Number(id), words, comm) ?? null;
  if (found === null) return null;
  const { event, values, parent } = found;
  const { group, event: name, isReturn } = event.definition;
  const fetched = event.arguments.map((each, i) => ({
    name: each.name,
    value: formatFetched(each.type, values[i]!, nameOf),
  }));
  return { data: { group, event: name, isReturn, arguments: fetched }, parent };
}
