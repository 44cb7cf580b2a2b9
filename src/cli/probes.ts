/**
 * What several verbs say about probes: those that the record of a file has, what they recorded,
 * whether a place can have one.
 */
import { hex, hexBytes } from '../errors.js';
import type { FileRecord } from '../record/journal.js';
import {
  FLAGS,
  type ListedProbe,
  type ProbeExplanation,
  type ProbeRefusal,
  type ProbeSessionPlan,
  refusalText,
  replayProbes,
} from '../kprobes/index.js';
import type { Json } from '../report/json.js';
import { oneLine } from './disassembly.js';
import { hash } from './hash.js';
import type { Opened } from './open.js';

/** The sessions of a record, performed on the image as it was. */
export const recordedProbes = (
  opened: Pick<Opened, 'image' | 'arch' | 'symbols'>,
  record: FileRecord,
): ProbeSessionPlan => replayProbes(opened, record, hash);

function refusalJson({ reason, code, errno, rule }: ProbeRefusal): Json {
  return { code, errno, rule, reason };
}

/** A probed address, for scripts. */
export function probeJson({ address, symbol, offset, state, events, gone, refusal }: ListedProbe): Json {
  const { part } = state;
  return {
    address: hex(address),
    symbol,
    offset,
    state: gone ? 'gone' : state.text,
    events: events.map(({ definition, probe }) => ({
      event: `${definition.group}/${definition.event}`,
      return: definition.isReturn,
      definition: definition.text,
      disabled: (probe.flags & FLAGS.DISABLED) !== 0,
    })),
    buffer: gone || part === null || state.text !== 'jump' ? null : hex(part.slot),
    replaced: gone || part === null || state.text !== 'jump' ? 0 : part.length,
    refusal: refusal === null ? null : refusalJson(refusal),
  };
}

/** Why nothing of a probe is in the text: all of it is disabled, or all probes are off. */
const original = (events: ListedProbe['events']): string =>
  events.every(({ probe }) => (probe.flags & FLAGS.DISABLED) !== 0) ? '  [DISABLED]' : '  [OFF]';

/** A probed address as a kernel lists it (`kprobes/list`), with its events. */
export function probeLine({ address, symbol, offset, state, events, gone }: ListedProbe): string {
  const flags = gone
    ? '  [GONE]'
    : { jump: '  [OPTIMIZED]', ftrace: '  [FTRACE]', breakpoint: '', original: original(events) }[state.text];
  const kind = events.some(({ definition }) => definition.isReturn) ? 'r' : 'k';
  const names = events.map(({ definition: { group, event } }) => `${group}/${event}`).join(' ');
  return `${address.toString(16).padStart(16, '0')}  ${kind}  ${symbol}+${hex(offset)}${flags}  ${names}`;
}

/** `set` of a session's probes, in a few words. */
export function probeSummary(probes: readonly ListedProbe[]): string {
  const there = probes.filter(({ gone }) => !gone);
  const count = (text: string): number => there.filter(({ state }) => state.text === text).length;
  const forms = [
    [count('jump'), 'by jumps'],
    [count('breakpoint'), 'by breakpoints'],
    [count('ftrace'), 'on ftrace sites'],
    [count('original'), 'not armed'],
  ] as const;
  const shown = forms.filter(([number]) => number > 0).map(([number, form]) => `${number} ${form}`);
  const gone = probes.length > there.length ? `, ${probes.length - there.length} gone` : '';
  return `${there.length} places probed: ${shown.join(', ')}${gone}`;
}

/** The lines of `explain` about probes. */
export async function explainLines(
  opened: Opened,
  { place, jump }: ProbeExplanation,
  width: number,
): Promise<string[]> {
  const row = (name: string, text: string): string => `  ${name.padEnd(width)} ${text}`;
  if (place.kind === 'refused') return [row('probe', `no: ${refusalText(place)}`)];
  const { instruction, site, symbol, offset } = place;
  const text = await oneLine(opened.arch, instruction.bytes, place.address);
  const how =
    site !== null
      ? 'served by ftrace'
      : instruction.method === 'simulate'
        ? 'simulated'
        : `executed as a copy${instruction.boostable ? ', which goes back by a jump' : ', with a second breakpoint behind it'}`;
  const lines = [row('probe', `yes: ${symbol}+${hex(offset)}  ${text}: ${how}`)];
  if (jump === null) return lines;
  if (jump.kind === 'refused') return [...lines, row('jump', `no: ${refusalText(jump)}`)];
  const { instructions, bytes, form } = jump;
  return [
    ...lines,
    row('jump', `yes: ${form} over ${instructions.length} instructions, ${bytes.length} bytes: ${hexBytes(bytes)}`),
  ];
}

/** The same for scripts. */
export function explanationJson({ place, jump }: ProbeExplanation): Json {
  if (place.kind === 'refused') return { probeable: false, refusal: refusalJson(place) };
  const { instruction, site, symbol, offset, address } = place;
  const common = {
    probeable: true,
    address: hex(address),
    symbol,
    offset,
    method: site !== null ? 'ftrace' : instruction.method,
    boostable: instruction.boostable,
  };
  if (jump === null) return common;
  if (jump.kind === 'refused') return { ...common, optimizable: false, refusal: refusalJson(jump) };
  return { ...common, optimizable: true, form: jump.form, window: hexBytes(jump.bytes) };
}
