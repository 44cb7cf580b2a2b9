/** What a run counted at its probed places; a run without any loads no code of probes for it. */
import { hex } from '../errors.js';
import type { ProbeProfile, ProbeRun } from '../kprobes/index.js';
import type { Json } from '../report/json.js';

/** What a run counted at a probed place, for scripts. */
export function profileJson({ address, symbol, offset, events, hits, missed }: ProbeProfile): Json {
  return {
    address: hex(address),
    symbol,
    offset,
    events: events.map(({ definition: { group, event } }) => `${group}/${event}`),
    hits: Number(hits),
    missed: Number(missed),
  };
}

/** What a trace does not have. */
export function profileNotices(run: ProbeRun | null): readonly string[] {
  return (run?.profile() ?? []).flatMap(({ symbol, offset, missed }) =>
    missed === 0n ? [] : [`${symbol}+${hex(offset)}: ${missed.toString()} hits were missed`],
  );
}
