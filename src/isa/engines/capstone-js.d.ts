/**
 * The part of @alexaltea/capstone-js 5.0.9 that tests use as an oracle; the package has no types.
 */
declare module '@alexaltea/capstone-js' {
  export interface OracleInstruction {
    /** Signed. */
    readonly address: number | bigint;
    readonly size: number;
    readonly mnemonic: string;
    readonly op_str: string;
  }

  export interface OracleHandle {
    disasm(code: Uint8Array | readonly number[], address: number | bigint, max?: number): readonly OracleInstruction[];
    close(): void;
  }

  export interface OracleEngine {
    readonly ARCH_ARM64: number;
    readonly ARCH_X86: number;
    readonly ARCH_PPC: number;
    readonly ARCH_RISCV: number;
    readonly MODE_LITTLE_ENDIAN: number;
    readonly MODE_BIG_ENDIAN: number;
    readonly MODE_32: number;
    readonly MODE_64: number;
    readonly MODE_RISCV64: number;
    readonly MODE_RISCVC: number;
    readonly Capstone: new (arch: number, mode: number) => OracleHandle;
  }

  const load: () => Promise<OracleEngine>;
  // The package exports a function as its default; a declaration has to say what is there.
  // eslint-disable-next-line no-restricted-syntax
  export default load;
}
