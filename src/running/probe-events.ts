/** Records that probes wrote into the ring of a program. */
import type { ProbeRun } from '../kprobes/index.js';
import type { ProbeReader, RingRecord } from '../trace/index.js';

/** What a record of the ring says, in the words of the probe that wrote it. */
export function probeEvent(
  run: ProbeRun | null,
  { parent: id, words = [] }: RingRecord,
  comm: string,
  nameOf: (address: bigint) => string,
): ReturnType<ProbeReader> {
  if (run === null) return null;
  const found = run.recorded(Number(id), words, comm);
  if (found === null) return null;
  const { event, values, parent } = found;
  const { group, event: name, isReturn } = event.definition;
  const fetched = event.arguments.map((each, i) => ({
    name: each.name,
    value: run.format(each.type, values[i]!, nameOf),
  }));
  return { data: { group, event: name, isReturn, arguments: fetched }, parent };
}
