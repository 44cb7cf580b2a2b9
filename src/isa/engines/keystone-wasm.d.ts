/**
 * The part of keystone-wasm 1.0.4 that `assembler.ts` uses. The package ships types, but its export
 * map hides them from NodeNext resolution.
 */
declare module 'keystone-wasm' {
  export class Keystone {
    constructor(arch: number, mode: number);
    /** Throws with the engine's message; `errNo` then says which. */
    asm(text: string, options?: { readonly address?: bigint }): Uint8Array;
    errNo(): number;
    close(): void;
  }

  export const Const: Readonly<
    Record<
      'KS_ARCH_ARM64' | 'KS_ARCH_X86' | 'KS_MODE_LITTLE_ENDIAN' | 'KS_MODE_64' | 'KS_ERR_ASM_SYMBOL_MISSING',
      number
    >
  >;

  export function loadKeystone(args?: Record<string, unknown>): Promise<void>;
}
