/** The arm64 target with what runs its code. */
import type { Arch } from '../machine/arch.js';
import { arm64Emulation } from './emulation.js';
import { arm64Still } from './still.js';

export const arm64: Arch = { ...arm64Still, emulation: arm64Emulation };
