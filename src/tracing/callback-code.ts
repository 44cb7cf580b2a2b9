/**
 * Callbacks of runtime objects by their code: the entries and the return handler save general
 * registers only, so nothing that they call may use the registers of floating point and vectors,
 * unless an object wraps such callbacks (`elftrace_vector_func`). C-FG-7. Knows no machine: what an
 * instruction uses is told by its text.
 */
import { SHF_EXECINSTR } from '../elf/constants.js';
import type { Disassembler } from '../isa/disassembler.js';
import type { Program } from '../program/program.js';

/** An instruction of a callback that changes a register that no code saves. */
export interface UnsavedUse {
  readonly function: string;
  readonly section: string;
  readonly offset: bigint;
  readonly text: string;
}

/** The wrapper that saves vectors around a callback of ordinary C. */
export const vectorWrapper = 'elftrace_vector_func';

const defines = (program: Program, name: string): boolean => program.definedAt(program.symbols.find(name)) !== null;

/** Whether an object brings the entries that sites call. */
export function isRuntimeObject(program: Program): boolean {
  return program.relocatable && ['ftrace_caller', 'ftrace_stub'].every((name) => defines(program, name));
}

/**
 * The first such instruction of each function of a runtime object; none where the object has the
 * wrapper.
 */
export function unsavedUses(program: Program, disassembler: Disassembler): readonly UnsavedUse[] {
  if (!isRuntimeObject(program) || defines(program, vectorWrapper)) return [];
  const { image, symbols, arch } = program;
  const found: UnsavedUse[] = [];
  for (let symbol = 1; symbol < symbols.count; symbol++) {
    const size = Number(symbols.size[symbol]!);
    const place = program.functions.placeOf(symbol);
    const section = place && image.sections[place.section];
    if (size === 0 || !section || (section.flags & SHF_EXECINSTR) === 0n) continue;
    const code = image.contents(section).subarray(Number(place.value), Number(place.value) + size);
    const lines = disassembler.disassemble(code, place.value, arch.isa);
    const line = lines.find(({ text }) => arch.abi.unsavedRegisters.test(text));
    if (line) {
      found.push({
        function: program.symbolName(symbol),
        section: section.name,
        offset: line.address,
        text: line.text,
      });
    }
  }
  return found;
}
