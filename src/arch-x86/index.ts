/** The x86-64 target with what runs its code. */
import type { Arch } from '../machine/arch.js';
import { x86Emulation } from './emulation.js';
import { x86_64Still } from './still.js';

export const x86_64: Arch = { ...x86_64Still, emulation: x86Emulation };
