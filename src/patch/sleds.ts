/**
 * Plans for sleds of XRay: which are switched on, to which trampolines, and which off. Decides
 * everything before anything is written; `apply.ts` executes the plan.
 */
import { equalBytes } from '../bytes.js';
import { ElftraceError, hexBytes } from '../errors.js';
import type { SledKind } from '../machine/sleds.js';
import type { Program } from '../program/program.js';
import type { Sled } from '../sites/sleds.js';
import type { Plan, Refusal, Step } from './plan.js';
import { type EntryPoint, entryPoint } from '../program/entry-points.js';

export interface SledRequest {
  readonly state: 'on' | 'off';
  /** One byte for each sled, nonzero for those that change; all when absent. */
  readonly selection?: Uint8Array;
  /** Symbols of trampolines in place of those of LLVM's runtime. */
  readonly trampolines?: Readonly<Partial<Record<SledKind, string>>>;
}

/** Symbols of the trampolines in LLVM's runtime. */
const sledTrampolines: Readonly<Record<SledKind, string>> = {
  entry: '__xray_FunctionEntry',
  exit: '__xray_FunctionExit',
  tail: '__xray_FunctionTailExit',
  'entry-args': '__xray_ArgLoggerEntry',
  'custom-event': '__xray_CustomEvent',
  'typed-event': '__xray_TypedEvent',
};

/** Bytes of a trampoline that may tell what it expects. */
const SHOWN_BYTES = 256;

/** A change of one sled, or why there is none. */
type Decision = { readonly after: Uint8Array } | { readonly code: string; readonly reason: string };

/** Why no sled of a file can be switched; null: they can. */
function whyNot({ relocatable, positionIndependent, arch }: Program, { state }: SledRequest): string | null {
  if (relocatable) return 'sleds are switched in linked files: a linker gives functions their numbers';
  if (state === 'on' && positionIndependent && arch.sleds?.absolute === true) {
    return 'sleds of this machine hold addresses, which a position-independent file would need relocations for';
  }
  return null;
}

/** The trampolines of a request, each looked up once. */
class Trampolines {
  private readonly known = new Map<string, { readonly entry: EntryPoint; readonly code: Uint8Array } | null>();

  constructor(
    private readonly program: Program,
    private readonly names: SledRequest['trampolines'],
  ) {}

  /** @throws ElftraceError 'no-match' for a given name that the file does not define */
  of(kind: SledKind): { readonly entry: EntryPoint; readonly code: Uint8Array } | { readonly missing: string } {
    const own = this.names?.[kind];
    const symbol = own ?? sledTrampolines[kind];
    let found = this.known.get(symbol);
    if (found === undefined) {
      const entry = entryPoint(this.program, symbol);
      const range = entry === null ? undefined : this.program.codeAt(entry.address);
      const start = range === undefined ? 0 : Number(entry!.address - range.address);
      found = range === undefined ? null : { entry: entry!, code: range.bytes.slice(start, start + SHOWN_BYTES) };
      this.known.set(symbol, found);
    }
    if (found !== null) return found;
    if (own !== undefined) throw new ElftraceError('no-match', `the file defines no function ${own}`, { symbol: own });
    return { missing: symbol };
  }
}

function decide(program: Program, sled: Sled, request: SledRequest, trampolines: Trampolines): Decision {
  const { reading, kind, address, bytes, id } = sled;
  const model = program.arch.sleds!;
  if (reading.state === 'wrong') return { code: 'wrong-bytes', reason: reading.reason };
  if (reading.state === 'unserved') return { code: 'unsupported', reason: reading.reason };
  if (request.state === 'off') return { after: reading.state === 'off' ? bytes : model.off(bytes, { kind, address }) };
  if (id === null) return { code: 'unsupported', reason: 'the number of its function is not known' };
  if (model.bound) {
    if (request.trampolines?.[kind] !== undefined) {
      return { code: 'unsupported', reason: "its call is the compiler's: another trampoline cannot be chosen" };
    }
    const after = model.on(bytes, { kind, address, id, target: 0n }, new Uint8Array(0));
    return 'refused' in after ? { code: 'out-of-range', reason: after.refused } : { after };
  }
  const trampoline = trampolines.of(kind);
  if ('missing' in trampoline) {
    return {
      code: 'no-trampoline',
      reason: `the file defines no ${trampoline.missing}, and no other trampoline is named`,
    };
  }
  const target = trampoline.entry.address;
  const after = model.on(bytes, { kind, address, id, target }, trampoline.code);
  return 'refused' in after ? { code: 'out-of-range', reason: after.refused } : { after };
}

/**
 * Decides what brings the selected sleds to a state.
 * @param sleds  all of the file (`findSleds`)
 * @returns a plan for `applyPlan`; sites of its steps and refusals are -1, since sleds are none
 * @throws ElftraceError 'unsupported-form' for files whose sleds cannot be switched, 'no-match'
 * Source: M-PROD-7
 */
export function planSleds(program: Program, sleds: readonly Sled[], request: SledRequest): Plan {
  const why = whyNot(program, request);
  if (why !== null) throw new ElftraceError('unsupported-form', why);
  const trampolines = new Trampolines(program, request.trampolines);
  const steps: Step[] = [];
  const refusals: Refusal[] = [];
  let selected = 0;
  sleds.forEach((sled, i) => {
    if (request.selection?.[i] === 0) return;
    selected++;
    const { range, address, bytes } = sled;
    const section = range === null ? '' : (program.image.sections[range.section]?.name ?? range.name);
    const decision = decide(program, sled, request, trampolines);
    if ('code' in decision) {
      const errno = decision.code === 'out-of-range' ? 'ERANGE' : 'EINVAL';
      const about = { site: -1, section, address, function: sled.function, errno } as const;
      refusals.push({ ...about, ...decision, expected: '', actual: hexBytes(bytes) });
    } else if (!equalBytes(bytes, decision.after)) {
      const fileOffset = range!.fileOffset + Number(address - range!.address);
      const place = { site: -1, section, address, fileOffset } as const;
      steps.push({ kind: 'store', ...place, before: bytes, after: decision.after, rule: 'M-PROD-7' });
    }
  });
  steps.sort((a, b) => a.fileOffset - b.fileOffset);
  const counts = { selected, changed: steps.length, unchanged: selected - refusals.length - steps.length };
  return { target: program.arch.target.id, request: `xray-${request.state}`, steps, refusals, ...counts };
}
