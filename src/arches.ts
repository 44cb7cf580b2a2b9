/**
 * The registry: all machines at once, for programs that ask without waiting. `targets.ts` knows
 * which one an ELF header asks for, and loads a single one.
 */
import { arm64 } from './arch-arm64/index.js';
import { loongarch64 } from './arch-loongarch/index.js';
import { ppc32, ppc64ElfV1, ppc64ElfV2Be, ppc64ElfV2Le } from './arch-ppc/index.js';
import { riscv64 } from './arch-riscv/index.js';
import { s390x } from './arch-s390x/index.js';
import { x86_64 } from './arch-x86/index.js';
import type { ElfHeader } from './elf/image.js';
import type { Arch } from './machine/arch.js';
import { targetOf } from './targets.js';

/** All targets, in the order of the documentation. */
export const arches: readonly Arch[] = [
  x86_64,
  ppc32,
  ppc64ElfV1,
  ppc64ElfV2Be,
  ppc64ElfV2Le,
  riscv64,
  arm64,
  s390x,
  loongarch64,
];

/**
 * The target of a file.
 * @throws ElftraceError 'unsupported-machine' for machines that are recognised and not served
 *   (i386, RV32, 32-bit ARM, x32, big-endian RISC-V and arm64, …), 'unknown-machine' for the rest
 */
export function archOf(header: ElfHeader): Arch {
  const id = targetOf(header);
  return arches.find(({ target }) => target.id === id)!;
}
