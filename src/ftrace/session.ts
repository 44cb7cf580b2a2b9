/**
 * Sessions: the core on an image. At rest it works on a copy of a file and gives the bytes; live it works on the memory of a machine as well.
 * Owns the way into a session (every site verified and made a nop, C-INIT-2) and the order of the image's parts; the core owns everything after.
 */
import { ByteView } from '../bytes.js';
import type { Arch } from '../arch.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError, hex } from '../errors.js';
import { load, type LoadOptions, trampolineSection } from '../program/program.js';
import { type Capabilities, FtraceCore, type Policy, profiles, type SiteInput } from './core/index.js';
import { ImageBackend, type Text } from './image-backend.js';
import { checkAcceptance, type Plan, planSites } from './plan.js';
import { findSites, type Sites } from './sites.js';
import { entriesOf, initialState, recordIp } from './tracing.js';
import { entryPoint } from './routes.js';
import { isCovered } from './verdicts.js';

export interface SessionOptions extends LoadOptions {
  readonly policy?: Partial<Policy>;
  readonly nopForm?: string;
  /** What the image is to offer, where that is not what its entries do: for asking what happens then. */
  readonly capabilities?: Partial<Capabilities>;
  /** Text of a machine that runs the image (`liveText`); the copy of the file alone when absent. */
  readonly text?: (image: ElfImage) => Text;
  /** RISC-V: which word of the frame the helper of direct callers writes, in bytes (RISCV_DIRECT_SLOTS). */
  readonly directSlot?: number;
}

const hasTrampolines = ({ program }: Sites): boolean =>
  program.arch.trampolines.kind === 'private' && program.image.section(trampolineSection) !== undefined;

/** What follows from the entries of an image for the variants of the mechanism; what the caller says comes first. */
function policyOf(sites: Sites): Partial<Policy> {
  const { trampolines } = sites.program.arch;
  if (trampolines.kind === 'none') return {};
  const { kind, graph } = entriesOf(sites.program);
  return {
    trampolines: hasTrampolines(sites) ? trampolines.variantOf(kind) : 'none',
    // Entries of that time have one graph tracer, with an entry or a jump of its own.
    ...(graph === 'branch' ? { graph: 'single' as const } : {}),
  };
}

/** What the entries of an image offer (F-11). */
export function capabilitiesOf(sites: Sites): Capabilities {
  const { kind } = entriesOf(sites.program);
  if (sites.program.arch.target.id === 'arm64') {
    return profiles[kind === 'callops' ? 'arm64' : kind === 'regs' ? 'arm64 regs' : 'arm64 mcount'];
  }
  switch (kind) {
    case 'pg':
      return profiles['ppc64-elfv1'];
    case 'g2':
      // T-RV-1: direct calls need the entry that saves all registers.
      return entryPoint(sites.program, 'ftrace_regs_caller') === null
        ? { ...profiles.riscv64, regs: 'none', direct: 'none' }
        : profiles.riscv64;
    case 'g2-merged':
    case 'g3':
      return profiles['riscv64 merged'];
    case 'g3c':
      return profiles['riscv64 g3c'];
    case 'g0':
    case 'g1':
      return profiles['riscv64 g1'];
    case 'modern':
      return { ...profiles['x86-64'], trampolines: hasTrampolines(sites) };
    case 'y2014':
    case 'mcount':
      return { ...profiles['x86-64 2014'], trampolines: hasTrampolines(sites) };
    default:
      return profiles['ppc64-elfv2-le'];
  }
}

export class Session {
  private constructor(
    readonly sites: Sites,
    readonly backend: ImageBackend,
    readonly core: FtraceCore,
  ) {}

  /**
   * Opens a session on an image with entries; the bytes given stay as they are.
   * @throws ElftraceError 'plan-refused' when a site is not as it must be, 'no-runtime' without entries
   */
  static open(bytes: Uint8Array, arch: Arch, options: SessionOptions = {}): Session {
    const image = readElf(bytes.slice());
    const sites = findSites(load(image, arch, options));
    const usable = new Uint8Array(sites.count);
    // C-INIT-1: sites of which the machine cannot make use are no records.
    for (let i = 0; i < sites.count; i++) usable[i] = sites.reading(i)?.fault === 'misaligned' ? 0 : 1;
    const to = initialState(sites.program, options.nopForm, options.policy?.literalOff);
    const text = options.text?.(image);
    const write = (plan: Plan): void => {
      checkAcceptance(plan, {});
      for (const step of plan.steps) {
        if (text?.store(step.address, step.after) === false) {
          throw new ElftraceError('site-mismatch', `the site at ${hex(step.address)} may not be written (EPERM)`, {
            address: step.address,
          });
        }
        image.bytes.set(step.after, step.fileOffset);
      }
    };
    write(planSites(sites, { to, selection: usable }));
    sites.keep();
    // The compiler's nops are off, and yet not what the machine's own disabled form is (P-NEW-1).
    const left = usable.map((each, i) => (each === 1 && sites.reading(i)?.state === 'compiled' ? 1 : 0));
    if (left.includes(1)) write(planSites(sites, { to: { kind: 'init' }, selection: left }));
    if (options.directSlot !== undefined) setDirectSlot(sites, options.directSlot);
    const backend = new ImageBackend(sites, {
      capabilities: { ...capabilitiesOf(sites), ...options.capabilities },
      ...(options.nopForm === undefined ? {} : { nopForm: options.nopForm }),
      ...(text === undefined ? {} : { text }),
    });
    const { serves: served } = entriesOf(sites.program);
    const inputs = new Map<string | null, SiteInput[]>([[null, []]]);
    for (let i = 0; i < sites.count; i++) {
      if (!sites.codeRange(i) || !isServed(sites, i, served) || usable[i] === 0) continue;
      const module = sites.module(i);
      const list = inputs.get(module) ?? [];
      inputs.set(module, list);
      list.push(siteInput(sites, i));
    }
    const core = new FtraceCore({
      backend,
      sites: inputs.get(null)!,
      records: {
        siteBytes: arch.target.codeAlignBytes === 1 ? arch.branches.call.sizeBytes : 4,
        dotSymbols: arch.target.abiName === 'elfv1',
      },
      policy: { ...policyOf(sites), ...options.policy },
    });
    for (const [module, list] of inputs) if (module !== null) core.loadModule(module, list);
    return new Session(sites, backend, core);
  }

  /** The image as it is now. */
  bytes(): Uint8Array {
    return this.sites.program.image.bytes.slice();
  }

  /** What a function pointer to a function of the image holds: its address, or that of its descriptor. */
  pointerTo(name: string): bigint | null {
    const { program } = this.sites;
    const symbol = program.symbols.find(name);
    return program.definedAt(symbol) === null ? null : program.symbols.value[symbol]!;
  }

  /** Text address of a function of the image, for ops. */
  functionAddress(name: string): bigint | null {
    const { program } = this.sites;
    return program.definedAt(program.symbols.find(name));
  }
}

/** Whether the entries can serve a site, where what stands around it decides that; others stay nops. */
function isServed(sites: Sites, index: number, served: readonly string[]): boolean {
  const reading = sites.reading(index);
  if (!reading?.shape.entriesAt) return true;
  return sites.entriesOf(index, reading).some((each) => served.includes(each));
}

function setDirectSlot({ program }: Sites, slot: number): void {
  const place = entryPoint(program, 'elftrace_direct_slot');
  if (place === null) throw new ElftraceError('no-runtime', 'the entries of the image know no direct callers', {});
  const { image } = program;
  const view = new ByteView(image.bytes, image.header.endian, 'elftrace_direct_slot');
  view.insertWord(image.fileOffsetOf(place.identity), BigInt(slot), image.wordBytes);
}

function siteInput(sites: Sites, index: number): SiteInput {
  const { program } = sites;
  const symbol = sites.functionSymbol(index);
  const ip = recordIp(sites, index);
  const place = symbol < 0 ? undefined : program.functions.placeOf(symbol);
  return {
    ip,
    name: program.symbolName(symbol),
    ...(place === undefined ? {} : { siteOffset: ip - place.value, symbolSize: program.symbols.size[symbol]! }),
    weak: !isCovered(sites, index),
  };
}
