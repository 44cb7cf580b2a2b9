/**
 * What of a program is recorded, as options in the words of uftrace say it: `-F`, `-N`, `-H`, `-L`,
 * `-D`, `-t`, `-T`, `-A`, `-R`, `-a`, `--disable` and others. They become a file that the program
 * reads.
 */
import { ElftraceError } from '../errors.js';
import { Signatures } from '../elf/dwarf-types.js';
import { isBadDebugInfo } from '../elf/dwarf.js';
import { PF_W, PT_LOAD } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import {
  type Choice, type ChosenObject, encodeChoice, isEverything, type LocationChoice, type Trigger, type TriggerFlag,
} from '../native/choice.js'; // prettier-ignore
import { TracedObject } from '../native/objects.js';
import type { NativeTracer } from '../native/reader.js';
import { refused } from '../native/refuse.js';
import type { PatternMatch } from '../native/select.js';
import { type FunctionSpec, parseFunctionSpecs } from '../native/values.js';
import { writeOutputs } from '../output/commit.js';
import { revert } from '../patch/revert.js';
import { readRecord } from '../record/journal.js';
import { jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { outputPath, readBytes, readInput } from './files.js';
import { commandDeadline, commandLimits } from './limits.js';
import { hash } from './hash.js';
import { open, type Opened } from './open.js';
import { debugFileOf, withSources } from './trace-objects.js';
import { out } from './terminal.js';
import { levels, timeOf, triggerParts } from './trace-selection.js';

export interface ChoiceOptions {
  readonly filter?: readonly string[] | undefined;
  readonly notrace?: readonly string[] | undefined;
  readonly hide?: readonly string[] | undefined;
  readonly locFilter?: readonly string[] | undefined;
  readonly match: PatternMatch;
  readonly signal?: readonly string[] | undefined;
  readonly depth?: number | undefined;
  readonly callerFilter?: readonly string[] | undefined;
  readonly timeFilter?: string | undefined;
  readonly sizeFilter?: number | undefined;
  readonly trigger?: readonly string[] | undefined;
  readonly argument?: readonly string[] | undefined;
  readonly retval?: readonly string[] | undefined;
  readonly autoArgs?: boolean | undefined;
  readonly disable?: boolean | undefined;
}

function nanoseconds(text: string, option: string): number {
  const plain = /^\d+$/.test(text) ? `${text}ns` : text;
  const time = timeOf(plain, 0n, option);
  if (time === undefined || time < 1) throw new ElftraceError('usage', `${option} takes a time, such as 10us`);
  return Math.round(time);
}

const ACTIONS: Readonly<Record<string, TriggerFlag>> = {
  filter: 'only',
  notrace: 'not',
  hide: 'hide',
  trace: 'kept',
  trace_on: 'on',
  'trace-on': 'on',
  traceon: 'on',
  trace_off: 'off',
  'trace-off': 'off',
  traceoff: 'off',
  finish: 'finish',
};

/** Actions of uftrace that there are not, and what there is. */
const NO_ACTIONS: Readonly<Record<string, string>> = {
  backtrace: 'it is about what is shown: replay -T takes it',
  color: 'it is about what is shown: replay -T takes it',
  read:
    'memory, page faults and counters of the processor are read by system calls, ' +
    'and calls are recorded without any: so they are in sandboxes and in handlers of signals',
};

/** What a trigger asks for, values included. */
interface ParsedTrigger {
  readonly trigger: Trigger;
  readonly recovers: boolean;
  readonly values: readonly FunctionSpec[];
}

/** `f@depth=2,time=1us,arg1/s`. */
function parseTrigger(text: string): ParsedTrigger {
  const { pattern, actions } = triggerParts(text);
  let trigger: Trigger = { pattern, flags: [], depth: null, time: null, size: null };
  let recovers = false;
  const values: FunctionSpec[] = [];
  for (const { word, name, value } of actions) {
    const flag = value === undefined && Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
    if (name === 'depth' && value !== undefined) trigger = { ...trigger, depth: levels(value, '-T depth') };
    else if (name === 'time' && value !== undefined) trigger = { ...trigger, time: nanoseconds(value, '-T time') };
    else if (name === 'size' && value !== undefined) trigger = { ...trigger, size: levels(value, '-T size') };
    else if (word === 'recover') recovers = true;
    else if (flag !== undefined) trigger = { ...trigger, flags: [...trigger.flags, flag] };
    else if (Object.hasOwn(NO_ACTIONS, name)) throw refused('trigger', `-T ${word}: ${NO_ACTIONS[name]!}`);
    else if (/^(?:fp)?arg\d|^retval/.test(word)) {
      values.push(...parseFunctionSpecs([`${pattern}@${word}`], word.startsWith('retval')));
    } else {
      const known =
        'depth=N, time=T, size=N, filter, notrace, hide, trace, trace_on, trace_off, finish, recover, argN, retval';
      throw new ElftraceError('usage', `-T ${word}: actions are ${known}`);
    }
  }
  return { trigger, recovers, values };
}

/** Whether a trigger asks for more than values. */
const isAnything = ({ flags, depth, time, size }: Trigger): boolean =>
  flags.length > 0 || [depth, time, size].some((each) => each !== null);

/** `lib.c`, `src/*.c@hide`. */
function parseLocation(text: string): LocationChoice {
  const HIDE = '@hide';
  return text.endsWith(HIDE)
    ? { pattern: text.slice(0, -HIDE.length), isHidden: true }
    : { pattern: text, isHidden: false };
}

const split = (texts: readonly string[] | undefined): string[] =>
  (texts ?? []).flatMap((each) => each.split(';')).filter((each) => each !== '');

/** @throws ElftraceError 'usage'; 'unsupported-form' with reason `trigger` */
export function choiceOf(args: ChoiceOptions): Choice {
  const plain =
    (flag: TriggerFlag) =>
    (pattern: string): Trigger => ({ pattern, flags: [flag], depth: null, time: null, size: null });
  if (args.signal !== undefined) {
    throw refused(
      'trigger',
      `--signal ${args.signal[0] ?? ''}: handlers of signals are the program's own: switch at a function, -T F@trace_on`,
    );
  }
  const parsed = split(args.trigger).map(parseTrigger);
  const choice: Choice = {
    match: args.match,
    locations: split(args.locFilter).map(parseLocation),
    triggers: [
      ...split(args.filter).map(plain('only')),
      ...split(args.notrace).map(plain('not')),
      ...split(args.hide).map(plain('hide')),
      ...split(args.callerFilter).map(plain('called')),
      ...parsed.map(({ trigger }) => trigger).filter(isAnything),
    ],
    depth: args.depth === undefined ? null : levels(args.depth, '--depth'),
    time: args.timeFilter === undefined ? null : nanoseconds(args.timeFilter, '--time-filter'),
    size: args.sizeFilter === undefined ? null : levels(args.sizeFilter, '--size-filter'),
    isOff: args.disable === true,
    recovered: parsed.filter(({ recovers }) => recovers).map(({ trigger }) => trigger.pattern),
    values: [
      ...parseFunctionSpecs(args.argument ?? [], false),
      ...parseFunctionSpecs(args.retval ?? [], true),
      ...parsed.flatMap(({ values }) => values),
    ],
    isAuto: args.autoArgs === true,
  };
  const isTimed = choice.time !== null || choice.triggers.some(({ time }) => time !== null);
  if (isTimed && split(args.callerFilter).length > 0) {
    throw new ElftraceError('usage', '-C goes without times: callers are recorded however long they last');
  }
  return choice;
}

/** uftrace's `recover` gives return addresses back for as long as a function runs. */
function checkRecovered({ recovered }: Choice, tracers: readonly NativeTracer[]): void {
  if (recovered.length === 0 || !tracers.includes('function_graph')) return;
  throw refused(
    'trigger',
    `-T ${recovered[0]!}@recover: with function_graph returns are recorded where they lead, ` +
      'and an address that is given back leads elsewhere: --tracer function leaves them alone',
  );
}

async function signaturesOf(image: ElfImage): Promise<ChosenObject['signatures']> {
  const debug = image.section('.debug_info') === undefined ? debugFileOf(image, ['/']) : null;
  try {
    const from = debug === null ? image : readElf(readBytes(debug));
    return await Signatures.read(from, { ...commandLimits(), deadline: commandDeadline() });
  } catch (error) {
    if (isBadDebugInfo(error)) return null;
    throw error;
  }
}

/** The segment that is only read and holds texts of the program. */
function constantsOf({ sections, segments }: ElfImage): ChosenObject['constants'] {
  const section = sections.find(({ name }) => name === '.rodata');
  const found = segments.find(
    ({ type, flags, address, memorySize }) =>
      type === PT_LOAD &&
      (flags & PF_W) === 0 &&
      section !== undefined &&
      section.address >= address &&
      section.address < address + memorySize,
  );
  return found === undefined ? { start: 0n, end: 0n } : { start: found.address, end: found.address + found.memorySize };
}

async function chosenObject(opened: Opened, id: string, choice: Choice): Promise<ChosenObject> {
  const { sites } = opened;
  const { arch, image } = sites.program;
  const plain = new TracedObject(id, '', sites, 0);
  const debug = image.section('.debug_line') === undefined ? debugFileOf(image, ['/']) : null;
  const { functions, starts } = choice.locations.length > 0 ? await withSources(plain, opened, debug) : plain;
  const places = arch.nativeTracing.kind === 'runtime' ? arch.nativeTracing.valuesOf(image) : null;
  const isTyped = choice.isAuto || choice.values.length > 0;
  const constants = constantsOf(image);
  return {
    id,
    functions,
    starts: [...starts],
    places,
    constants,
    signatures: isTyped ? await signaturesOf(image) : null,
  };
}

/** The file for a program that is about to run; null: every call is recorded, and no more. */
export async function choiceFor(
  args: ChoiceOptions,
  opened: Opened,
  id: string,
  tracer: NativeTracer,
): Promise<Uint8Array | null> {
  const choice = choiceOf(args);
  if (isEverything(choice)) return null;
  checkRecovered(choice, [tracer]);
  const object = await chosenObject(opened, id, choice);
  return encodeChoice([object], choice, opened.sites.program.image.header.endian, tracer);
}

/** What a patched file records, by its record. */
const tracerOfRequest = (requests: readonly string[]): NativeTracer =>
  (['function_graph', 'counter'] as const).find((each) => requests.includes(`record ${each}`)) ?? 'function';

/** Writes the file for programs and libraries that are patched already, or will be. */
export async function writeChoice(
  args: ChoiceOptions & {
    readonly symbols?: string | undefined;
    readonly tracer: NativeTracer;
    readonly json: boolean;
  },
  paths: readonly string[],
  wanted: string,
): Promise<number> {
  const choice = choiceOf(args);
  const objects: ChosenObject[] = [];
  let endian: 'little' | 'big' = 'little';
  const tracers = new Set<NativeTracer>();
  for (const path of paths) {
    const input = await readInput(path);
    const image = readElf(input.bytes);
    const record = readRecord(image);
    const bytes = record === null ? input.bytes : revert(image, null, hash);
    const opened = await open({ ...input, bytes }, args);
    tracers.add(record === null ? args.tracer : tracerOfRequest(record.requests));
    endian = image.header.endian;
    objects.push(await chosenObject(opened, hash(bytes), choice));
  }
  checkRecovered(choice, [...tracers]);
  const least = (['counter', 'function'] as const).find((each) => tracers.has(each)) ?? 'function_graph';
  const bytes = encodeChoice(objects, choice, endian, least);
  const output = outputPath(paths[0]!, wanted, false);
  await writeOutputs([{ path: output, bytes }]);
  if (args.json) out(JSON.stringify({ schema: jsonSchema, file: paths[0], choice: output }));
  else out(`${output}: what the program records where ELFTRACE_CHOICE names this file`);
  return exitCodes.ok;
}
