/**
 * Whether a function can be traced, and by what: ftrace, a kprobe, fentry programs of BPF; where it
 * cannot, for which reason. Looks at files: what a running kernel forbids besides (lockdown, a
 * probe that fires inside of its own handler) is not told.
 */
import {
  type ComparedFunction,
  type ComparedImage,
  type DiffReasonCode,
  functionsNamed,
  Witness,
} from '../diff/index.js';
import { SHF_ALLOC, SHN_UNDEF, SHT_NOBITS, STB_WEAK } from '../elf/constants.js';
import { type Btf, btfKind } from '../elf/btf.js';
import type { DebugInfo } from '../elf/dwarf.js';
import type { ElfImage } from '../elf/image.js';
import { hex } from '../errors.js';
import { ProbeText, type ValidProbe } from '../kprobes/index.js';
import type { Program } from '../program/program.js';
import { isModule } from '../sites/table-lint.js';

/** `early`: only until init code is freed. `unknown`: the files do not tell. */
export type WhyAnswer = 'yes' | 'early' | 'no' | 'unknown';
export const mechanisms = ['ftrace', 'kprobe', 'fentry'] as const;
export type Mechanism = (typeof mechanisms)[number];

/**
 * Reasons: those of `diff` for functions without a site (`untraced` is a site that was patched
 * away), and `site`, `init`, `weak-loser` (another file has the function that counts), `bad-site`,
 * `probe` (of a probe that can be set), `blacklisted` and other refusals of probes, `not-served`
 * (nothing is known of probes of the machine), `btf`, `no-btf` (the image has none),
 * `not-in-btf`, `btf-base-missing`, `no-symbol`; `kernel-missing`, where kernels differ and none
 * was named.
 */
export type WhyCode =
  | Exclude<DiffReasonCode, 'symbol-gone' | 'section-discarded' | 'fewer-sites'>
  | 'site'
  | 'init'
  | 'weak-loser'
  | 'bad-site'
  | 'probe'
  | 'btf'
  | 'no-btf'
  | 'not-in-btf'
  | 'btf-base-missing'
  | 'no-symbol'
  | 'not-served'
  | 'kernel-missing'
  | `probe-${string}`;

export interface WhyReason {
  readonly answer: WhyAnswer;
  readonly code: WhyCode;
  /** For people, without a full stop. */
  readonly reason: string;
}

/** One function of that name; static ones may be several. */
export interface WhyFunction {
  /** Name of the symbol; that which was asked for where there is none. */
  readonly name: string;
  readonly source: string;
  /** Section and address, or offset in it; null where the file has no such function. */
  readonly section: string | null;
  readonly address: bigint | null;
  readonly by: Readonly<Record<Mechanism, WhyReason>>;
}

export interface WhyOptions {
  /** Names of functions that DWARF says were inlined are read from it. */
  readonly debug?: DebugInfo | null;
  /** The image's own; null: it could not be read without that of its kernel. */
  readonly btf?: Btf | null;
  /** What the kernel of a module takes of probes (`kernelProbes`); null: it is not known. */
  readonly kernel?: KernelProbes | null;
  /** True for names that another file defines and not as weak ones. */
  readonly isStrongElsewhere?: (name: string) => boolean;
}

const no = (code: WhyCode, reason: string): WhyReason => ({ answer: 'no', code, reason });

/** What every question about an image needs, made once. */
interface Knowledge {
  readonly debug: DebugInfo | null;
  readonly witness: Witness;
  /** Of a machine that is known to have probes. */
  readonly text: () => ProbeText;
}
const known = new WeakMap<ComparedImage, Knowledge>();

function knowledgeOf(image: ComparedImage, debug: DebugInfo | null): Knowledge {
  const before = known.get(image);
  if (before?.debug === debug) return before;
  const { sites } = image;
  let read: ProbeText | undefined;
  const text = (): ProbeText => (read ??= new ProbeText(sites.program, sites));
  const made = { debug, witness: new Witness(image, debug), text };
  known.set(image, made);
  return made;
}

interface Asked extends Pick<Knowledge, 'witness' | 'text'> {
  readonly image: ComparedImage;
  /** The only function of its name. */
  readonly isOnly: boolean;
}

/**
 * What is known of a function in one image.
 * @param image  made by `comparedImage` of its sites; one may serve many names
 * @param name  symbol, or the name that a symbol of C++ or Rust stands for
 */
export function whyFunction(image: ComparedImage, name: string, options: WhyOptions = {}): WhyFunction[] {
  const { witness, text } = knowledgeOf(image, options.debug ?? null);
  const found = functionsNamed(image, name);
  if (found.length > 0) {
    const asked = { image, witness, text, isOnly: found.length === 1 };
    return found.map((each) => whyOne(asked, each, options));
  }
  witness.askFor(new Set([name]));
  const { code, names } = witness.absent({ name, section: '' });
  const reason = absentReason(code, names);
  return [{ name, source: '', section: null, address: null, by: { ftrace: reason, kprobe: reason, fentry: reason } }];
}

function absentReason(code: DiffReasonCode, names: readonly string[]): WhyReason {
  if (code === 'split') return no('split', `the function is ${names.join(', ')} here`);
  if (code === 'inlined') return no('inlined', `inlined into ${names.length === 0 ? 'others' : names.join(', ')}`);
  if (code === 'elsewhere') return no('elsewhere', 'the file only refers to it: another one defines it');
  return no('no-symbol', 'the file has no function of that name');
}

function whyOne(asked: Asked, own: ComparedFunction, options: WhyOptions): WhyFunction {
  const { program } = asked.image.sites;
  const weak = isWeakLoser(program, own, options);
  const ftrace = weak ?? byFtrace(asked, own);
  const kprobe = weak ?? byKprobe(asked, own, options);
  const fentry = weak ?? byFentry(program, own, ftrace, options);
  return {
    name: own.name,
    source: own.source,
    section: own.section,
    address: own.address,
    by: { ftrace, kprobe, fentry },
  };
}

function isWeakLoser({ relocatable, symbols }: Program, own: ComparedFunction, options: WhyOptions): WhyReason | null {
  const isWeak = symbols.info[own.symbol]! >>> 4 === STB_WEAK;
  if (!relocatable || !isWeak || options.isStrongElsewhere?.(own.name) !== true) return null;
  return no('weak-loser', 'it is weak, and another file has the one that a link takes');
}

/** Code that is freed once the kernel runs, or the module is loaded. */
function isInit(program: Program, { section, address }: ComparedFunction): boolean {
  if (program.relocatable) {
    const { loader } = program.arch;
    const stays = loader.kind === 'modules' && loader.keepsInit && isModule(program);
    return section.startsWith('.init') && !stays;
  }
  if (section.startsWith('.init')) return true;
  const bound = (name: string): bigint | null => {
    const index = program.symbols.find(name);
    return index > 0 ? program.symbols.value[index]! : null;
  };
  const [start, end] = [bound('_sinittext'), bound('_einittext')];
  return start !== null && end !== null && address >= start && address < end;
}

const early = (what: string): WhyReason => ({
  answer: 'early',
  code: 'init',
  reason: `${what}, until init code is freed`,
});

function byFtrace({ image, witness }: Asked, own: ComparedFunction): WhyReason {
  const { sites } = image;
  const [index] = own.sites;
  if (index === undefined) {
    const { code } = witness.present(own);
    if (code === 'untraced') return no('untraced', 'patched away: the record says that it was untraced');
    if (code === 'no-slot') return no('no-slot', 'it begins as a site, and no table names it');
    return no('notrace', `notrace: it begins as no site (${own.section})`);
  }
  const state = sites.state(index);
  if (state === 'unknown' || state === 'foreign')
    return no('bad-site', 'its site is none that a kernel knows: verify says more');
  const what = `${sites.shape(index)} at +${hex(sites.ip(index) - own.address)}, ${state}`;
  if (isInit(sites.program, own)) return early(what);
  return { answer: 'yes', code: 'site', reason: what };
}

/** Where kernels differ in what they take of probes. */
export interface KernelProbes {
  /** Probes on ftrace sites (K-ADDR-7). */
  readonly onSites: boolean;
  /** Events with probes in functions that have no ftrace site (K-ADDR-9). */
  readonly withoutSite: boolean;
}

/** What a kernel says of an event that it refuses; one without the check has no such text. */
const REFUSAL = 'Could not probe notrace function';

function hasText(image: ElfImage, text: string): boolean {
  return image.sections.some((section) => {
    if ((section.flags & SHF_ALLOC) === 0n || section.type === SHT_NOBITS) return false;
    const { buffer, byteOffset, length } = image.contents(section);
    return Buffer.from(buffer, byteOffset, length).includes(text);
  });
}

const kernels = new WeakMap<ElfImage, KernelProbes | null>();

/** What the kernel in a file takes of probes; null: the file is no kernel. */
export function kernelProbes(image: ElfImage): KernelProbes | null {
  const before = kernels.get(image);
  if (before !== undefined) return before;
  const { symbols } = image;
  const has = (name: string): boolean => {
    const index = symbols.find(name);
    return index > 0 && symbols.sectionIndex[index] !== SHN_UNDEF;
  };
  const isKernel = image.segments.length > 0 && has('register_kprobe');
  const found = isKernel ? { onSites: has('kprobe_ftrace_handler'), withoutSite: !hasText(image, REFUSAL) } : null;
  kernels.set(image, found);
  return found;
}

/** A probe that is the tracer's, or none, as the kernel has it (K-ADDR-7); null: a breakpoint. */
function onSite(program: Program, found: ValidProbe, { kernel }: WhyOptions): WhyReason | 'site' | null {
  const { probes } = program.arch;
  if (found.site === null || probes.kind === 'none') return null;
  const serves = (kernelProbes(program.image) ?? kernel)?.onSites ?? (probes.kernelsServeSites ? true : null);
  if (serves === true) return 'site';
  // What such a kernel takes for the function may be in front of the site's own instruction.
  if (found.code.start !== found.address) return null;
  if (serves === false) {
    const reason = 'the function begins with its ftrace site, where this kernel takes no probe';
    return no('probe-no-ftrace-support', `${reason} [K-ADDR-7]`);
  }
  const reason = 'the function begins with its ftrace site, where some kernels take no probe: name the vmlinux';
  return { answer: 'unknown', code: 'kernel-missing', reason };
}

/**
 * Why events have no probe in a function that ftrace does not know (K-ADDR-9); null: they have. Of
 * a part that a compiler split off, `do_trap.cold`, the function itself counts, too.
 */
function withoutSite(image: ComparedImage, own: ComparedFunction, { kernel }: WhyOptions): WhyReason | null {
  const dot = own.name.indexOf('.');
  const whole = dot > 0 ? functionsNamed(image, own.name.slice(0, dot)) : [];
  if ([own, ...whole].some(({ sites }) => sites.length > 0)) return null;
  const takes = (kernelProbes(image.sites.program.image) ?? kernel)?.withoutSite ?? null;
  if (takes === true) return null;
  const what = 'no ftrace site is in it';
  if (takes === null) {
    return { answer: 'unknown', code: 'kernel-missing', reason: `${what}, and most kernels take no event there: name the vmlinux` };
  }
  return no('probe-notrace', `${what}: events of tracefs, perf and BPF are refused, only a module's own probe is not [K-ADDR-9]`);
} // prettier-ignore

function byKprobe({ image, text: read, isOnly }: Asked, own: ComparedFunction, options: WhyOptions): WhyReason {
  const { program } = image.sites;
  const { probes } = program.arch;
  if (probes.kind === 'none') return { answer: 'unknown', code: 'not-served', reason: probes.reason };
  const text = read();
  const section = program.functions.placeOf(own.symbol)?.section ?? -1;
  const range = program.relocatable ? program.codeOfSection(section) : program.codeAt(own.address);
  const found =
    isOnly || range === undefined
      ? text.validate({ kind: 'symbol', name: own.name, module: null, offset: 0n })
      : text.validateAt(range, own.address);
  // A kernel applies relocations before anything can be probed.
  const isLoadable = found.kind === 'refused' && found.code === 'relocation' && program.relocatable;
  if (found.kind === 'refused' && !isLoadable) return no(`probe-${found.code}`, `${found.reason} [${found.rule}]`);
  if (found.kind === 'valid' || isLoadable) {
    if (!text.knowsBlacklist) {
      return {
        answer: 'unknown',
        code: 'not-served',
        reason: 'the list of functions that no probe may be in is not in the file',
      };
    }
  }
  const site = found.kind === 'valid' ? onSite(program, found, options) : null;
  if (site !== null && site !== 'site') return site;
  const quiet = site === null ? withoutSite(image, own, options) : null;
  if (quiet !== null) return quiet;
  const what = site === 'site' ? 'through its ftrace site' : 'by a breakpoint';
  if (isInit(program, own)) return early(what);
  return { answer: 'yes', code: 'probe', reason: what };
}

function byFentry({ image }: Program, own: ComparedFunction, ftrace: WhyReason, { btf = null }: WhyOptions): WhyReason {
  const kind = btfKind(image);
  if (kind === 'none') return no('no-btf', 'the file has no BTF');
  if (ftrace.answer === 'no') return ftrace;
  if (btf === null) {
    const reason = 'BTF of a module is read with that of its kernel: name the vmlinux as well';
    return { answer: 'unknown', code: 'btf-base-missing', reason };
  }
  if (!btf.functions.has(own.name)) return no('not-in-btf', 'BTF does not describe it');
  return { answer: ftrace.answer, code: 'btf', reason: ftrace.answer === 'early' ? ftrace.reason : 'BTF describes it' };
}
