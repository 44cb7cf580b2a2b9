/**
 * Session files: operations of the ftrace core written down in YAML or JSON, in the order in which
 * they happen. Owns the format (published as `schemas/session.schema.json`), the places of its
 * errors and nothing else: symbols and filters are resolved by who runs the operations. The only
 * file that knows the YAML library; JSON is read as the subset of YAML that it is.
 *
 *   version: 1
 *   steps:
 *     - ops: { name: mine, call: my_callback, filter: 'sched_*', regs: if-supported }
 *     - register: mine
 *     - direct: { function: schedule, caller: my_caller }
 *     - tracing: off
 */
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type Scalar,
} from 'yaml';
import { ElftraceError } from '../errors.js';

/** Where something stands in the file, both counted from 1. */
export interface FilePlace {
  readonly line: number;
  readonly column: number;
}

/** What an ops asks for besides its filter. */
const sessionTraits = ['recursion', 'rcu', 'dynamic', 'permanent', 'ip-modify'] as const;
export type SessionTrait = (typeof sessionTraits)[number];

/** `at`: its place in the file; null for an operation that is in none. */
export type SessionOperation = { readonly at: FilePlace | null } & (
  | {
      readonly kind: 'ops';
      readonly name: string;
      /** Symbol of the callback. */
      readonly call: string;
      readonly regs: 'no' | 'yes' | 'if-supported';
      readonly traits: readonly SessionTrait[];
      /** Uses the global filter instead of its own. */
      readonly shared: boolean;
      readonly filter: string | null;
      readonly notrace: string | null;
      /** Symbol of a trampoline of its own. */
      readonly trampoline: string | null;
    }
  | { readonly kind: 'register' | 'unregister'; readonly ops: string }
  | {
      readonly kind: 'filter' | 'notrace';
      /** Null: the global filter. */
      readonly ops: string | null;
      readonly words: string;
      readonly append: boolean;
    }
  | { readonly kind: 'function'; readonly ops: string; readonly call: string }
  | {
      readonly kind: 'direct' | 'modify-direct';
      readonly function: string;
      readonly caller: string;
      /** The site jumps there: what it leads to returns to the function's caller. */
      readonly jump: boolean;
    }
  | { readonly kind: 'no-direct' | 'no-livepatch'; readonly function: string }
  | { readonly kind: 'livepatch'; readonly function: string; readonly replacement: string }
  | {
      readonly kind: 'graph';
      readonly name: string;
      /** Symbols of its callbacks; null: the runtime records both in its ring. */
      readonly callbacks: { readonly entry: string; readonly return: string } | null;
      readonly filter: string | null;
      readonly notrace: string | null;
    }
  | { readonly kind: 'no-graph'; readonly name: string }
  | {
      readonly kind: 'probe';
      /** A definition in the words of kprobe_events. */
      readonly define: string;
      readonly optimize: boolean;
      /**
       * Which version of the mechanism, and of a kernel that it needs; null: what another step
       * says, or the default.
       */
      readonly version: '2009' | 'modern' | null;
      readonly preempt: 'none' | 'full' | null;
    }
  /** `event`: GROUP/EVENT, or EVENT of the default group. */
  | { readonly kind: 'no-probe' | 'disable-probe' | 'enable-probe'; readonly event: string }
  /**
   * All probes at once: off, none of them is armed, whatever is set, enabled or disabled meanwhile.
   */
  | { readonly kind: 'probes'; readonly on: boolean }
  | { readonly kind: 'load'; readonly module: string; readonly file: string | null }
  | { readonly kind: 'unload'; readonly module: string }
  | { readonly kind: 'tracing'; readonly on: boolean }
);

/** The steps about probes. */
export type ProbeOperation = Extract<
  SessionOperation,
  { readonly kind: 'probe' | 'no-probe' | 'disable-probe' | 'enable-probe' | 'probes' }
>;

export interface SessionFile {
  readonly operations: readonly SessionOperation[];
}

type FieldType = 'text' | 'flag' | 'regs';

interface StepForm {
  readonly fields: Readonly<Record<string, FieldType>>;
  readonly required: readonly string[];
}

const target = {
  fields: { function: 'text', caller: 'text', jump: 'flag' },
  required: ['function', 'caller'],
} as const;
const words = { fields: { ops: 'text', words: 'text', append: 'flag' }, required: ['words'] } as const;

/** The steps whose value is a mapping, with the fields of each. */
export const sessionForms = {
  ops: {
    fields: {
      name: 'text',
      call: 'text',
      regs: 'regs',
      recursion: 'flag',
      rcu: 'flag',
      dynamic: 'flag',
      permanent: 'flag',
      'ip-modify': 'flag',
      shared: 'flag',
      filter: 'text',
      notrace: 'text',
      trampoline: 'text',
    },
    required: ['name', 'call'],
  },
  filter: words,
  notrace: words,
  function: { fields: { ops: 'text', call: 'text' }, required: ['ops', 'call'] },
  direct: target,
  'modify-direct': target,
  livepatch: { fields: { function: 'text', new: 'text' }, required: ['function', 'new'] },
  graph: {
    fields: { name: 'text', entry: 'text', return: 'text', filter: 'text', notrace: 'text' },
    required: ['name'],
  },
  probe: {
    fields: { define: 'text', optimize: 'flag', version: 'text', preempt: 'text' },
    required: ['define'],
  },
  load: { fields: { module: 'text', file: 'text' }, required: ['module'] },
} as const satisfies Readonly<Record<string, StepForm>>;

/** The steps whose value is one name. */
export const sessionNames = [
  'register',
  'unregister',
  'no-direct',
  'no-livepatch',
  'no-graph',
  'no-probe',
  'disable-probe',
  'enable-probe',
  'unload',
] as const;

/** The steps whose value is on or off. */
const switches = ['tracing', 'probes'] as const;

type FormName = keyof typeof sessionForms;
type NameStep = (typeof sessionNames)[number];

const stepNames: readonly string[] = [...Object.keys(sessionForms), ...sessionNames, ...switches];

function isForm(name: string): name is FormName {
  return Object.hasOwn(sessionForms, name);
}

function isNameStep(name: string): name is NameStep {
  return (sessionNames as readonly string[]).includes(name);
}

/** The fields of one step, each with its place. */
interface Fields {
  readonly texts: ReadonlyMap<string, string>;
  readonly flags: ReadonlySet<string>;
  readonly regs: 'no' | 'yes' | 'if-supported';
}

/** Names that earlier sessions on the same image made. */
export interface KnownNames {
  readonly ops: readonly string[];
  readonly graphs: readonly string[];
}

class Reader {
  readonly #lines = new LineCounter();
  readonly #operations: SessionOperation[] = [];
  readonly #ops = new Set<string>();
  readonly #users = new Set<string>();

  constructor(
    readonly text: string,
    readonly file: string,
    known: KnownNames,
  ) {
    for (const name of known.ops) this.#ops.add(name);
    for (const name of known.graphs) this.#users.add(name);
  }

  read(): SessionFile {
    const document: Document = parseDocument(this.text, {
      lineCounter: this.#lines,
      prettyErrors: false,
      uniqueKeys: true,
      // Names such as 1e400 or 0x10 stay what was written: scalars are read by their text.
      intAsBigInt: true,
    });
    const [error] = document.errors;
    if (error !== undefined) this.#fail(error.pos[0], error.message);
    const root = document.contents;
    if (!isMap(root)) this.#fail(root?.range?.[0] ?? 0, 'a session file is a mapping with version and steps');
    let steps: Node | null = null;
    let version = false;
    for (const pair of root.items) {
      const [key, at] = this.#key(pair);
      const value = this.#value(pair, at);
      if (key === 'version') {
        if (this.#text(value, 'version') !== '1')
          this.#fail(this.#start(value), 'this is for version 1 of session files');
        version = true;
      } else if (key === 'steps') steps = value;
      else this.#fail(at, `unknown key '${key}': version and steps are known`);
    }
    if (!version) this.#fail(this.#start(root), "'version: 1' is missing");
    if (steps === null) this.#fail(this.#start(root), "'steps' is missing");
    if (!isSeq(steps)) this.#fail(this.#start(steps), 'steps is a list');
    for (const step of steps.items) this.#step(step);
    return { operations: this.#operations };
  }

  #fail(offset: number, reason: string): never {
    const { line, col } = this.#lines.linePos(offset);
    throw new ElftraceError('usage', `${this.file}:${line}:${col}: ${reason}`, {
      file: this.file,
      fileOffset: offset,
      what: 'session',
      value: `${line}:${col}`,
    });
  }

  #start(node: Node): number {
    return node.range?.[0] ?? 0;
  }

  #place(offset: number): FilePlace {
    const { line, col } = this.#lines.linePos(offset);
    return { line, column: col };
  }

  #key({ key }: Pair): [name: string, offset: number] {
    if (!isScalar(key) || typeof key.value !== 'string') this.#fail(this.#offset(key), 'a key is a name');
    return [key.value, this.#start(key)];
  }

  #offset(node: unknown): number {
    return isScalar(node) || isMap(node) || isSeq(node) ? this.#start(node) : 0;
  }

  #value({ value }: Pair, at: number): Node {
    if (isScalar(value) || isMap(value) || isSeq(value)) return value;
    this.#fail(at, 'a value is missing, or is a reference to another place, which session files do not have');
  }

  #scalar(node: Node, what: string): Scalar {
    if (!isScalar(node) || node.value === null) this.#fail(this.#start(node), `${what} is one value`);
    return node;
  }

  /** A text as it is written; numbers too, since a filter may be one. */
  #text(node: Node, what: string): string {
    const scalar = this.#scalar(node, what);
    if (typeof scalar.value === 'string') return scalar.value;
    if (typeof scalar.value === 'bigint' && scalar.source !== undefined) return scalar.source;
    this.#fail(this.#start(node), `${what} is a text: quote it`);
  }

  #flag(node: Node, what: string): boolean {
    const { value } = this.#scalar(node, what);
    if (typeof value !== 'boolean') this.#fail(this.#start(node), `${what} is true or false`);
    return value;
  }

  #regs(node: Node): Fields['regs'] {
    const { value } = this.#scalar(node, 'regs');
    if (value === true) return 'yes';
    if (value === false) return 'no';
    if (value === 'if-supported') return value;
    this.#fail(this.#start(node), 'regs is true, false or if-supported');
  }

  #step(step: unknown): void {
    if (!isMap(step) || step.items.length !== 1) {
      this.#fail(this.#offset(step), `a step is a mapping with one key, one of: ${stepNames.join(', ')}`);
    }
    const pair = step.items[0]!;
    const [name, offset] = this.#key(pair);
    const value = this.#value(pair, offset);
    const at = this.#place(offset);
    if (name === 'load' && isScalar(value)) {
      this.#operations.push({ kind: 'load', module: this.#name(value, name), file: null, at });
    } else if (isForm(name)) this.#operations.push(this.#form(name, this.#fields(name, value), at, value));
    else if (isNameStep(name)) this.#operations.push(this.#named(name, this.#name(value, name), at, value));
    else if (name === 'tracing' || name === 'probes') {
      const text = this.#scalar(value, name).value;
      if (text !== 'on' && text !== 'off') this.#fail(this.#start(value), `${name} is on or off`);
      this.#operations.push({ kind: name, on: text === 'on', at });
    } else this.#fail(offset, `unknown step '${name}', one of: ${stepNames.join(', ')}`);
  }

  /** A text with something in it. */
  #name(node: Node, what: string): string {
    const text = this.#text(node, what);
    if (text === '') this.#fail(this.#start(node), `${what} is empty`);
    return text;
  }

  #fields(step: FormName, node: Node): Fields {
    if (!isMap(node)) this.#fail(this.#start(node), `${step} is a mapping`);
    const form: StepForm = sessionForms[step];
    const texts = new Map<string, string>();
    const flags = new Set<string>();
    let regs: Fields['regs'] = 'no';
    for (const pair of node.items) {
      const [key, at] = this.#key(pair);
      const type = Object.hasOwn(form.fields, key) ? form.fields[key] : undefined;
      const value = this.#value(pair, at);
      if (type === undefined) this.#fail(at, `${step} has no '${key}', it has: ${Object.keys(form.fields).join(', ')}`);
      if (type === 'regs') regs = this.#regs(value);
      else if (type === 'flag') {
        if (this.#flag(value, key)) flags.add(key);
      } else {
        if (key === 'name' && /\s/.test(this.#text(value, key))) this.#fail(this.#start(value), 'a name has no blanks');
        const mayBeEmpty = key === 'words' || key === 'filter' || key === 'notrace';
        texts.set(key, mayBeEmpty ? this.#text(value, key) : this.#name(value, key));
      }
    }
    for (const key of form.required) if (!texts.has(key)) this.#fail(this.#start(node), `${step} needs '${key}'`);
    return { texts, flags, regs };
  }

  #known(ops: string, node: Node): string {
    if (!this.#ops.has(ops)) this.#fail(this.#start(node), `no step before this one makes the ops '${ops}'`);
    return ops;
  }

  #named(name: NameStep, value: string, at: FilePlace, node: Node): SessionOperation {
    switch (name) {
      case 'register':
      case 'unregister':
        return { kind: name, ops: this.#known(value, node), at };
      case 'no-direct':
      case 'no-livepatch':
        return { kind: name, function: value, at };
      case 'no-graph':
        if (!this.#users.has(value))
          this.#fail(this.#start(node), `no step before this one makes the graph '${value}'`);
        return { kind: name, name: value, at };
      case 'no-probe':
      case 'disable-probe':
      case 'enable-probe':
        return { kind: name, event: value, at };
      case 'unload':
        return { kind: name, module: value, at };
      default:
        return name satisfies never;
    }
  }

  #opsForm({ texts, flags, regs }: Fields, at: FilePlace, node: Node): SessionOperation {
    const name = texts.get('name')!;
    if (this.#ops.has(name)) this.#fail(this.#start(node), `there is an ops '${name}' already`);
    if (flags.has('shared') && (texts.has('filter') || texts.has('notrace'))) {
      this.#fail(this.#start(node), 'an ops with the shared filter has none of its own');
    }
    this.#ops.add(name);
    return {
      kind: 'ops',
      name,
      call: texts.get('call')!,
      regs,
      traits: sessionTraits.filter((trait) => flags.has(trait)),
      shared: flags.has('shared'),
      filter: texts.get('filter') ?? null,
      notrace: texts.get('notrace') ?? null,
      trampoline: texts.get('trampoline') ?? null,
      at,
    };
  }

  #graphForm({ texts }: Fields, at: FilePlace, node: Node): SessionOperation {
    const name = texts.get('name')!;
    if (this.#users.has(name)) this.#fail(this.#start(node), `there is a graph '${name}' already`);
    if (texts.has('entry') !== texts.has('return')) {
      this.#fail(this.#start(node), "a graph has both 'entry' and 'return', or neither");
    }
    this.#users.add(name);
    return {
      kind: 'graph',
      name,
      callbacks: texts.has('entry') ? { entry: texts.get('entry')!, return: texts.get('return')! } : null,
      filter: texts.get('filter') ?? null,
      notrace: texts.get('notrace') ?? null,
      at,
    };
  }

  #probeForm({ texts, flags }: Fields, at: FilePlace, node: Node): SessionOperation {
    const one = <T extends string>(key: string, words: readonly T[]): T | null => {
      const word = texts.get(key) ?? null;
      const known = words.find((each) => each === word);
      if (word !== null && known === undefined) {
        this.#fail(this.#start(node), `${key} is ${words.join(' or ')}`);
      }
      return known ?? null;
    };
    return {
      kind: 'probe',
      define: texts.get('define')!,
      optimize: flags.has('optimize'),
      version: one('version', ['2009', 'modern']),
      preempt: one('preempt', ['none', 'full']),
      at,
    };
  }

  #form(name: FormName, fields: Fields, at: FilePlace, node: Node): SessionOperation {
    const { texts, flags } = fields;
    const text = (key: string): string => texts.get(key)!;
    const maybe = (key: string): string | null => texts.get(key) ?? null;
    switch (name) {
      case 'ops':
        return this.#opsForm(fields, at, node);
      case 'filter':
      case 'notrace': {
        const ops = maybe('ops');
        if (ops !== null) this.#known(ops, node);
        return { kind: name, ops, words: text('words'), append: flags.has('append'), at };
      }
      case 'function':
        return { kind: name, ops: this.#known(text('ops'), node), call: text('call'), at };
      case 'direct':
      case 'modify-direct':
        return { kind: name, function: text('function'), caller: text('caller'), jump: flags.has('jump'), at };
      case 'livepatch':
        return { kind: name, function: text('function'), replacement: text('new'), at };
      case 'graph':
        return this.#graphForm(fields, at, node);
      case 'probe':
        return this.#probeForm(fields, at, node);
      case 'load':
        return { kind: name, module: text('module'), file: maybe('file'), at };
      default:
        return name satisfies never;
    }
  }
}

/**
 * Reads a session file, YAML 1.2 or JSON.
 * @param file   what errors call it
 * @param known  names that its steps may use although it does not make them
 * @throws ElftraceError 'usage' with `FILE:LINE:COLUMN:` in front, both counted from 1
 */
export function parseSession(text: string, file = 'session', known: KnownNames = { ops: [], graphs: [] }): SessionFile {
  return new Reader(text, file, known).read();
}
