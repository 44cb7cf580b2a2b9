/** Disassembly for people: loads the engine of a machine once, on first use. */
import type { Arch } from '../machine/arch.js';
import { type Disassembler, loadDisassembler } from '../isa/disassembler.js';
import type { Address } from '../units.js';

const loaded = new Map<string, Promise<Disassembler>>();

export function disassemblerOf(arch: Arch): Promise<Disassembler> {
  const kind = arch.isa.text;
  let known = loaded.get(kind);
  if (!known) {
    known = loadDisassembler(kind);
    loaded.set(kind, known);
  }
  return known;
}

/** Instructions of a few bytes on one line: `nop; bl 0x1234`. */
export async function oneLine(arch: Arch, code: Uint8Array, address: Address): Promise<string> {
  if (code.length === 0) return '';
  const disassembler = await disassemblerOf(arch);
  return disassembler
    .disassemble(code, address, arch.isa)
    .map((line) => line.text)
    .join('; ');
}
