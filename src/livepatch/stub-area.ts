/**
 * Room for the out-of-line stubs of a livepatch module (M-KLP-9): a kernel appends them to the
 * stubs of the module's calls, each area in whole entries. Sections of modules that come later get
 * their stubs later, behind or, where the area was not reserved, inside it.
 */
import { reaches } from '../bits.js';
import * as elf from '../elf/constants.js';
import type { Severity } from '../sites/verdicts.js';
import type { Sites } from '../sites/sites.js';
import { KERNEL, type LivepatchModule } from './module.js';

interface StubAreaProblem {
  readonly rule: string;
  readonly message: string;
  readonly severity: Severity;
}

/** Major and minor number as one that can be compared. */
const rank = (text: string): number => text.split('.').reduce((sum, each) => sum * 1000 + Number(each), 0);

/** Calls for which stubs are made when a module of another name comes. */
function lateCalls({ image }: LivepatchModule, sites: Sites): number {
  const { relocations } = sites.program.arch;
  const targets = new Set<string>();
  for (const { section, count, type, symbol, addend } of image.relocations) {
    const own = image.sections[section];
    if (own === undefined || (own.flags & elf.SHF_RELA_LIVEPATCH) === 0n) continue;
    if (own.name.startsWith(`.klp.rela.${KERNEL}.`)) continue;
    for (let row = 0; row < count; row++) {
      if (relocations.get(type[row]!)?.stubAllowed === true) targets.add(`${symbol[row]}+${addend[row]}`);
    }
  }
  return targets.size;
}

/** @param sites  those of the livepatch module itself */
export function stubAreaProblems(module: LivepatchModule, sites: Sites): StubAreaProblem[] {
  const { arch } = sites.program;
  const { outOfLine, loader } = arch;
  if (outOfLine === null || loader.kind === 'none') return [];
  let slots = 0;
  for (let i = 0; i < sites.count; i++) if (sites.reading(i)?.shape.outOfLine === true) slots++;
  if (slots === 0) return [];
  const { entryBytes } = loader.stubs;
  // With the word that names the ops.
  const bytes = slots * (outOfLine.codeBytes + arch.target.wordBytes);
  const entries = Math.ceil(bytes / entryBytes);
  const late = lateCalls(module, sites);
  const problems: StubAreaProblem[] = [];
  const { from, to } = outOfLine.unreserved;
  const kernel = module.kernel === null ? null : rank(module.kernel.join('.'));
  if (kernel !== null && kernel >= rank(from) && kernel <= rank(to) && entries > 1 && late > 0) {
    problems.push({
      rule: 'M-KLP-9',
      severity: 'warning',
      message:
        `${slots} sites have stubs in ${entries} entries, of which kernels ${from} to ${to} reserve the first: ` +
        `stubs of ${late} calls that are bound later are written over them, unless the fix was ported back`,
    });
  }
  let code = BigInt(entries * entryBytes);
  for (const { flags, size } of module.image.sections) {
    const isCode = (flags & elf.SHF_ALLOC) !== 0n && (flags & elf.SHF_EXECINSTR) !== 0n;
    if (isCode) code += BigInt(size);
  }
  if (!reaches({ ...outOfLine.reach, alignBytes: 1 }, 0n, code)) {
    problems.push({
      rule: 'M-KLP-9',
      severity: 'error',
      message: `its code has ${code} bytes with stubs: not every site reaches its stub (${outOfLine.reach.max} bytes)`,
    });
  }
  return problems;
}
