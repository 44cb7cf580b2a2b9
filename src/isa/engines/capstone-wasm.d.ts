/**
 * The part of capstone-wasm 1.0.3 that `disassembler.ts` uses. The package ships types, but its
 * export map hides them from NodeNext resolution.
 */
declare module 'capstone-wasm' {
  interface CapstoneInstruction {
    /**
     * Signed, and a number or a bigint depending on its value: not used, addresses are counted by
     * the caller.
     */
    readonly address: number | bigint;
    readonly size: number;
    readonly bytes: Uint8Array;
    readonly mnemonic: string;
    readonly opStr: string;
  }

  export class Capstone {
    constructor(arch: number, mode: number);
    /**
     * Throws when the first byte starts no instruction. The text is right only when `address` is a
     * bigint.
     */
    disasm(
      data: Uint8Array,
      options?: { readonly address?: bigint; readonly count?: number },
    ): readonly CapstoneInstruction[];
    close(): void;
  }

  export const Const: Readonly<
    Record<'CS_ARCH_ARM64' | 'CS_ARCH_X86' | 'CS_MODE_LITTLE_ENDIAN' | 'CS_MODE_64', number>
  >;

  export function loadCapstone(args?: Record<string, unknown>): Promise<void>;
}
