/**
 * Whether return addresses may be replaced in a program: function_graph and return probes put an
 * address of their own where a function's return address was, and keep the real one on a stack
 * beside. A program that leaves functions in another way than by returning (longjmp, exceptions,
 * cancelled threads), returns twice (setjmp, vfork), changes stacks (makecontext) or runs functions
 * in signal handlers does not find its way back. Until the runtime serves those, such programs are
 * refused. Owns the names and the decision; where code refers to them is found by `references.ts`.
 *
 * What counts is code outside of the C library and libgcc. In a program with libraries of its own
 * (static), that is all code but the functions that are known by name to use these mechanisms in a
 * way that traced functions never see; one of those that has a site was compiled with the program
 * and is not the library's. What is not known counts as the program's own.
 */
import { STT_OBJECT } from '../elf/constants.js';
import { landingPads } from '../elf/landing-pads.js';
import { ElftraceError, hex } from '../errors.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import { type Reference, referencesTo } from './references.js';
import type { Sites } from '../sites/sites.js';

/** What a program does that a replaced return address does not survive. */
export type GraphHazardKind =
  | 'jump'
  | 'returns-twice'
  | 'signal'
  | 'context'
  | 'exception'
  | 'thread-exit'
  | 'landing-pads'
  /** Nothing is known: a static program without symbols, or code that cannot be read. */
  | 'unknown';

/** One reason not to replace return addresses. */
export interface GraphHazard {
  readonly kind: GraphHazardKind;
  /** How the program refers to it; `table`: an exception table of its own. */
  readonly by: Reference['kind'] | 'table' | 'nothing';
  /** What is referred to: a function, a system call, a landing pad; '' where nothing is known. */
  readonly reference: string;
  /**
   * Function that refers to it, with offset; '' where no symbol covers the place, or it is not
   * known.
   */
  readonly function: string;
  readonly section: string;
  readonly address: Address | null;
  readonly reason: string;
}

interface Family {
  readonly kind: GraphHazardKind;
  readonly reason: string;
  readonly names: RegExp;
  /**
   * Functions of the C library and of libgcc that use it inside. Source: relocations of every
   * object of libc.a (glibc 2.36 of x86-64, arm64, riscv64, ppc32, ppc64, ppc64le), read with
   * objdump.
   */
  readonly internals: readonly string[];
}

const FAMILIES: readonly Family[] = [
  {
    kind: 'jump',
    reason: 'functions are left without their returns',
    names: /^(_?longjmp|siglongjmp|__longjmp|____?longjmp_chk|__libc_(sig)?longjmp|__longjmp_cancel)$/,
    internals: ['_dl_signal_error', '_dl_signal_exception', 'unwind_stop'],
  },
  {
    kind: 'returns-twice',
    reason: 'a function returns more often than it is called',
    names:
      /^(_?_?setjmp|_?_?sigsetjmp|__sigsetjmp_cancel|_?_?vfork|__libc_vfork|clone|__clone[23]?|clone3|__clone_internal(_fallback)?)$/,
    internals: [
      '__libc_start_call_main', '__libc_start_main', '__libc_start_main_impl', '_dl_catch_exception', '_dl_catch_error', 'start_thread',
      '__spawni', '__spawnix', 'create_thread', '__pthread_create', 'pthread_create', '__pthread_create_2_1',
    ], // prettier-ignore
  },
  {
    kind: 'signal',
    reason: 'functions run in signal handlers, between the call and the return of others',
    names: /^(_?_?sigaction|__libc_sigaction|rt_sigaction|signal|_?_?(bsd|sysv)_signal|ssignal|sigset|_?_?sigvec)$/,
    internals: [
      '__lckpwdf', '__profil', '__pthread_cancel', 'pthread_cancel', '__pthread_create', 'pthread_create', '__pthread_create_2_1', '__spawni_child',
      '__sprofil', 'abort', 'cancel_handler', 'do_system', 'sigignore', 'siginterrupt', 'try_file_lock',
    ], // prettier-ignore
  },
  {
    kind: 'context',
    reason: 'functions return on another stack than they were called on',
    names: /^(_?_?(make|swap|set|get)context|(jump|make|ontop)_fcontext|__morestack)$/,
    internals: ['__start_context', '__startcontext'],
  },
  {
    kind: 'exception',
    reason: 'an unwinder does not get past a replaced return address',
    names:
      /^(_Unwind_(RaiseException|ForcedUnwind|Resume_or_Rethrow|SjLj_RaiseException|SjLj_ForcedUnwind|SjLj_Resume_or_Rethrow)|__cxa_(throw|rethrow)|_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE|_ZSt\d+__throw_\w+|objc_exception_(re)?throw)$/,
    internals: ['__pthread_unwind'],
  },
  {
    kind: 'thread-exit',
    reason: 'a thread is unwound through its functions',
    names:
      /^(_?_?pthread_(exit|cancel|unwind|unwind_next|register_cancel|register_cancel_defer)|_?_?thrd_exit|___pthread_unwind_next)$/,
    internals: [
      '___pthread_testcancel', '__pthread_testcancel', 'pthread_testcancel', '___pthread_unregister_cancel_restore',
      '__pthread_unregister_cancel_restore', '__libc_cleanup_pop_restore', '__pthread_enable_asynccancel', '__pthread_setcancelstate',
      'pthread_setcancelstate', '__pthread_setcanceltype', 'pthread_setcanceltype', 'handle_requests', 'handle_fildes_io', 'sigcancel_handler', 'unwind_cleanup',
    ], // prettier-ignore
  },
];

const PADS: Omit<Family, 'names'> = {
  kind: 'landing-pads',
  reason: 'it has an exception table, and an unwinder does not get past a replaced return address',
  internals: [
    '_IO_fflush', '_IO_fgets', '_IO_fputs', '_IO_fread', '_IO_ftell', '_IO_fwrite', '_IO_getc', '_IO_gets', '_IO_getwc', '_IO_new_fclose',
    '_IO_new_fgetpos', '_IO_new_fgetpos64', '_IO_new_file_underflow', '_IO_new_fsetpos', '_IO_new_fsetpos64', '_IO_peekc_locked', '_IO_putc',
    '_IO_puts', '_IO_seekoff', '_IO_seekpos', '_IO_setbuffer', '_IO_setvbuf', '_IO_ungetc', '_IO_wfile_underflow', '__check_pf',
    '__dl_iterate_phdr', '__fgets_chk', '__fgetws_chk', '__fread_chk', '__fseeko', '__fseeko64', '__ftello', '__ftello64', '__getdelim',
    '__gets_chk', '__pthread_once_slow', '__scandir64_tail', '__scandir_tail', '__vsyslog_internal', 'closelog', 'fgetws', 'fputc', 'fputwc',
    'fputws', 'freopen', 'freopen64', 'fseek', 'fwide', 'getchar', 'getpass', 'getwchar', 'openlog', 'putchar', 'putwc', 'putwchar', 'rewind',
    'ungetc', 'ungetwc',
  ], // prettier-ignore
};

const familyOf = (name: string): Family | undefined => FAMILIES.find(({ names }) => names.test(name));

/**
 * Without what compilers append to the parts of a function, the dot of ELFv1, and the C library's
 * mark of its own names.
 */
const plain = (name: string): string =>
  name
    .replace(/^\./, '')
    .replace(/^__GI_/, '')
    .replace(/\.(cold|part|isra|constprop|lto_priv)\b.*$/, '');

/** The callback that replaces return addresses, where the graph tracer is one. */
export const graphCallback = 'ftrace_graph_func';

/**
 * True for linked programs and libraries of user space: kernels and images of `load` know what they
 * do.
 */
export function isUserProgram({ program, tables }: Sites): boolean {
  if (program.relocatable || tables.some(({ name }) => name === '__start_mcount_loc')) return false;
  return program.loadMap === null || program.loadMap.original !== null;
}

class Check {
  readonly hazards: GraphHazard[] = [];
  /** Symbols of functions with a site: what the program's own compiler made. */
  private readonly traced = new Set<number>();
  private readonly program: Program;

  constructor(sites: Sites) {
    this.program = sites.program;
    for (let i = 0; i < sites.count; i++) this.traced.add(sites.functionSymbol(i));
  }

  private functionAt(address: Address): number {
    const range = this.program.codeAt(address);
    return range === undefined ? -1 : this.program.functionAt(range, address);
  }

  /** `main+0x12`; of data the object. */
  private describe(address: Address): string {
    const { program } = this;
    const range = program.codeAt(address);
    if (range !== undefined) return program.describe(range, address);
    const { symbols } = program;
    for (let i = 1; i < symbols.count; i++) {
      if ((symbols.info[i]! & 15) !== STT_OBJECT) continue;
      const start = symbols.value[i]!;
      if (address >= start && address < start + symbols.size[i]!) return symbols.name(i);
    }
    return '';
  }

  /** True where the C library or libgcc themselves do it, inside. */
  private isLibrary(address: Address, library: readonly string[], own: (name: string) => boolean): boolean {
    const symbol = this.functionAt(address);
    if (symbol < 0 || this.traced.has(symbol)) return false;
    const place = this.program.functions.placeOf(symbol);
    const aliases = place === undefined ? [symbol] : this.program.functions.aliases(place.section, place.value);
    return aliases.some((each) => {
      const name = plain(this.program.symbolName(each));
      return library.includes(name) || own(name);
    });
  }

  references(): void {
    const { program } = this;
    const { emulation } = program.arch;
    const numbers = emulation.kind === 'none' ? [] : [...emulation.process.syscalls];
    const systemCalls = new Map(
      numbers.flatMap(([number, name]) => (name === 'rt_sigaction' ? [[BigInt(number), name] as const] : [])),
    );
    const found = referencesTo(program, { isWanted: (name) => familyOf(name) !== undefined, systemCalls });
    if (found === null) {
      this.unknown(`code of ${program.arch.target.title} cannot be read`);
      return;
    }
    const seen = new Set<string>();
    for (const { kind, name, address, section } of found) {
      const family = familyOf(name)!;
      if (
        address !== null &&
        kind !== 'data' &&
        this.isLibrary(address, family.internals, (each) => familyOf(each) !== undefined)
      )
        continue;
      const where = address === null ? '' : this.describe(address);
      const owner = where.replace(/\+0x[0-9a-f]+$/, '');
      const key = `${owner === '' ? String(address) : owner} ${name} ${kind}`;
      if (seen.has(key)) continue;
      seen.add(key);
      this.hazards.push({
        kind: family.kind,
        by: kind,
        reference: name,
        function: where,
        section,
        address,
        reason: family.reason,
      });
    }
  }

  exceptionTables(): void {
    const { program } = this;
    const { pads, unread } = landingPads(program.image);
    const seen = new Set<string>();
    for (const { value } of pads) {
      if (this.isLibrary(value, PADS.internals, () => false)) continue;
      const where = this.describe(value);
      const owner = where === '' ? hex(value) : where.replace(/\+0x[0-9a-f]+$/, '');
      if (seen.has(owner)) continue;
      seen.add(owner);
      this.hazards.push({
        kind: PADS.kind,
        by: 'table',
        reference: 'a landing pad',
        function: where,
        section: program.codeAt(value)?.name ?? '',
        address: value,
        reason: PADS.reason,
      });
    }
    if (unread !== null) this.unknown(`its exception tables cannot be read (${unread})`);
  }

  /**
   * Names of functions are the only evidence of which library they are from; imports have theirs in
   * any case.
   */
  symbols(): void {
    const { program } = this;
    const { dynamicSymbols } = program.image;
    const isImporting = dynamicSymbols.sectionIndex.some((section, i) => i > 0 && section === 0);
    if (program.namesFunctions || isImporting) return;
    this.unknown(
      'it has no symbols and its libraries in it, so nobody knows what it calls: --symbols FILE names its functions',
    );
  }

  private unknown(reason: string): void {
    this.hazards.push({
      kind: 'unknown',
      by: 'nothing',
      reference: '',
      function: '',
      section: '',
      address: null,
      reason,
    });
  }
}

/**
 * Everything in a program that does not go together with replaced return addresses; empty for
 * kernels and images of `load`.
 */
export function graphHazards(sites: Sites): readonly GraphHazard[] {
  if (!isUserProgram(sites)) return [];
  return sites.program.derived('graph-hazards', () => {
    const check = new Check(sites);
    check.symbols();
    check.references();
    check.exceptionTables();
    return check.hazards;
  });
}

const verbs: Readonly<Record<Reference['kind'], string>> = {
  call: 'calls',
  address: 'takes the address of',
  'system-call': 'makes the system call',
  data: 'holds the address of',
  import: 'imports',
};

/** One hazard as a sentence. */
function graphHazardText({ by, reference, function: name, address, section, reason }: GraphHazard): string {
  if (by === 'nothing') return reason;
  if (by === 'table') return `${name === '' ? hex(address!) : name}: ${reason}`;
  const who =
    address === null ? 'the program' : name === '' ? `${section === '' ? 'code' : section} at ${hex(address)}` : name;
  return `${who} ${verbs[by]} ${reference}: ${reason}`;
}

/** Hazards that a message names; the others are counted. */
const NAMED = 20;

/** A program whose return addresses may not be replaced; carries all findings. */
export class UnsafeGraphError extends ElftraceError {
  constructor(
    readonly what: string,
    readonly hazards: readonly GraphHazard[],
  ) {
    const lines = hazards.slice(0, NAMED).map((each) => `\n  ${graphHazardText(each)}`);
    const more = hazards.length > NAMED ? `\n  and ${hazards.length - NAMED} more` : '';
    super(
      'unsafe-graph',
      `${what} replaces return addresses, which this program does not survive:${lines.join('')}${more}\n` +
        '  nothing was written; --allow-unsafe-graph does it all the same',
      { reason: hazards[0]!.kind, errno: 'EOPNOTSUPP', value: hazards.length },
    );
  }
}

/**
 * Refuses to replace return addresses in a program that does not survive it.
 * @param what     who wants to, for the message
 * @param allowed  hazards are told and not refused
 * @returns what must be said where they are allowed
 * @throws UnsafeGraphError 'unsafe-graph'
 */
export function checkGraphSafety(sites: Sites, what: string, allowed: boolean): readonly string[] {
  const hazards = graphHazards(sites);
  if (hazards.length === 0) return [];
  if (!allowed) throw new UnsafeGraphError(what, hazards);
  return [
    `--allow-unsafe-graph: ${what} replaces return addresses, and the program may die of it or its trace be wrong: ` +
      hazards.slice(0, NAMED).map(graphHazardText).join('; ') +
      (hazards.length > NAMED ? `; and ${hazards.length - NAMED} more` : ''),
  ];
}
