/** The riscv64 target with what runs its code. */
import type { Arch } from '../machine/arch.js';
import { riscvEmulation } from './emulation.js';
import { riscv64Still } from './still.js';

export const riscv64: Arch = { ...riscv64Still, emulation: riscvEmulation };
