/**
 * What an ELF header says -> the target that serves it, and the `Arch` of a target on demand: the
 * command line loads the machine of the file at hand and no other. `arches.ts` has all of them at
 * once. These two are the only importers of the `arch-*` folders and the only files outside them
 * that name machines. Machines that we recognise and do not serve are refused here, with the
 * reason.
 */
import * as elf from './elf/constants.js';
import type { ElfHeader } from './elf/image.js';
import { ElftraceError } from './errors.js';
import { arm64Options } from './arch-arm64/options.js';
import { ppcOptions } from './arch-ppc/options.js';
import { riscvOptions } from './arch-riscv/options.js';
import { x86Options } from './arch-x86/options.js';
import type { Arch, StillArch } from './machine/arch.js';
import type { MachineOption } from './machine/options.js';

/** Names of the targets that are served. */
export type TargetId =
  | 'x86-64'
  | 'ppc32'
  | 'ppc64-elfv1'
  | 'ppc64-elfv2-be'
  | 'ppc64-elfv2-le'
  | 'riscv64'
  | 'arm64'
  | 's390x'
  | 'loongarch64';

/** Names of e_machine values that we recognise; anything else is 'unknown-machine'. */
const machineNames: ReadonlyMap<number, string> = new Map([
  [elf.EM_SPARC, 'SPARC'],
  [elf.EM_386, 'i386'],
  [elf.EM_68K, 'm68k'],
  [elf.EM_MIPS, 'MIPS'],
  [elf.EM_PARISC, 'PA-RISC'],
  [elf.EM_PPC, 'PowerPC 32-bit'],
  [elf.EM_PPC64, 'PowerPC 64-bit'],
  [elf.EM_S390, 'S/390'],
  [elf.EM_ARM, 'ARM (32 bit)'],
  [elf.EM_SH, 'SuperH'],
  [elf.EM_SPARCV9, 'SPARC V9'],
  [elf.EM_IA_64, 'IA-64'],
  [elf.EM_X86_64, 'x86-64'],
  [elf.EM_AARCH64, 'arm64'],
  [elf.EM_RISCV, 'RISC-V'],
  [elf.EM_LOONGARCH, 'LoongArch'],
]);

/** Name of the machine for people, or its number. */
export function machineName(machine: number): string {
  return machineNames.get(machine) ?? `machine ${machine}`;
}

function unsupported(header: ElfHeader, reason: string): ElftraceError {
  return new ElftraceError('unsupported-machine', `${machineName(header.machine)}: ${reason} (ENODEV)`, {
    what: 'ELF header: e_machine',
    value: header.machine,
  });
}

/**
 * The target of a file.
 * @throws ElftraceError 'unsupported-machine' for machines that are recognised and not served
 *   (i386, RV32, 32-bit ARM, x32,
 *         big-endian RISC-V and arm64, …), 'unknown-machine' for the rest
 */
export function targetOf(header: ElfHeader): TargetId {
  const little = header.endian === 'little';
  switch (header.machine) {
    case elf.EM_X86_64:
      if (!header.is64) throw unsupported(header, 'the x32 ABI is not served');
      if (!little) break;
      return 'x86-64';
    case elf.EM_PPC:
      if (header.is64 || little) throw unsupported(header, 'only 32-bit big-endian files are served');
      return 'ppc32';
    case elf.EM_PPC64: {
      if (!header.is64) break;
      // 0 in the ABI bits is what compilers put into objects: ELFv1 for big-endian, ELFv2 for
      // little-endian files.
      const abi = header.flags & elf.EF_PPC64_ABI;
      if (abi === 3) throw unsupported(header, 'e_flags name an ABI version that does not exist');
      if (little) {
        if (abi === 1) throw unsupported(header, 'little-endian ELFv1 is not served');
        return 'ppc64-elfv2-le';
      }
      return abi === 2 ? 'ppc64-elfv2-be' : 'ppc64-elfv1';
    }
    case elf.EM_RISCV:
      if (!header.is64)
        throw unsupported(header, 'RV32 is not served: its direct calls and register frames do not exist');
      if (!little) throw unsupported(header, 'big-endian RISC-V is not served');
      return 'riscv64';
    case elf.EM_AARCH64:
      if (!header.is64) throw unsupported(header, 'the ILP32 ABI is not served');
      if (!little) throw unsupported(header, 'big-endian arm64 is not served');
      return 'arm64';
    case elf.EM_S390:
      if (!header.is64) throw unsupported(header, '31-bit files are not served');
      if (little) break;
      return 's390x';
    case elf.EM_LOONGARCH:
      if (!header.is64) throw unsupported(header, '32-bit files are not served');
      if (!little) break;
      return 'loongarch64';
    default:
      if (machineNames.has(header.machine)) throw unsupported(header, 'recognised, and not served for patching');
  }
  if (machineNames.has(header.machine)) {
    throw new ElftraceError(
      'elf-malformed',
      `ELF header: ${machineName(header.machine)} files are not ${header.is64 ? 64 : 32}-bit ${header.endian}-endian`,
      { what: 'ELF header: e_machine', value: header.machine },
    );
  }
  throw new ElftraceError('unknown-machine', `ELF header: e_machine ${header.machine} is not known`, {
    what: 'ELF header: e_machine',
    value: header.machine,
  });
}

/**
 * One row for each name: targets of one machine may have choices that others of it lack.
 * @param options  of several targets
 */
function mergedOptions(options: readonly MachineOption[]): readonly MachineOption[] {
  const rows = new Map<string, MachineOption>();
  for (const option of options) {
    const choices = new Set([...(rows.get(option.name)?.choices ?? []), ...option.choices]);
    rows.set(option.name, { ...option, choices: [...choices] });
  }
  return [...rows.values()];
}

/** Options of all machines: the command line has them before it knows the machine of a file. */
export const machineOptions: readonly MachineOption[] = mergedOptions([
  ...ppcOptions(32),
  ...ppcOptions(64),
  ...riscvOptions,
  ...arm64Options,
  ...x86Options,
]);

const machines: Readonly<Record<TargetId, () => Promise<Arch>>> = {
  'x86-64': async () => (await import('./arch-x86/index.js')).x86_64,
  ppc32: async () => (await import('./arch-ppc/index.js')).ppc32,
  'ppc64-elfv1': async () => (await import('./arch-ppc/index.js')).ppc64ElfV1,
  'ppc64-elfv2-be': async () => (await import('./arch-ppc/index.js')).ppc64ElfV2Be,
  'ppc64-elfv2-le': async () => (await import('./arch-ppc/index.js')).ppc64ElfV2Le,
  riscv64: async () => (await import('./arch-riscv/index.js')).riscv64,
  arm64: async () => (await import('./arch-arm64/index.js')).arm64,
  s390x: async () => (await import('./arch-s390x/index.js')).s390x,
  loongarch64: async () => (await import('./arch-loongarch/index.js')).loongarch64,
};

/** The same without what runs code; there is none of the others. */
const stillMachines: Readonly<Partial<Record<TargetId, () => Promise<StillArch>>>> = {
  'x86-64': async () => (await import('./arch-x86/still.js')).x86_64Still,
  ppc32: async () => (await import('./arch-ppc/still.js')).ppc32Still,
  'ppc64-elfv1': async () => (await import('./arch-ppc/still.js')).ppc64ElfV1Still,
  'ppc64-elfv2-be': async () => (await import('./arch-ppc/still.js')).ppc64ElfV2BeStill,
  'ppc64-elfv2-le': async () => (await import('./arch-ppc/still.js')).ppc64ElfV2LeStill,
  riscv64: async () => (await import('./arch-riscv/still.js')).riscv64Still,
  arm64: async () => (await import('./arch-arm64/still.js')).arm64Still,
};

/** For verbs that execute nothing; that one does all the same is a fault of ours. */
function withoutEmulation(still: StillArch): Arch {
  return {
    ...still,
    get emulation(): never {
      throw new ElftraceError('internal', `what runs ${still.target.title} is not loaded`);
    },
  };
}

let loaded = 0;

/** The machines of files that came so far, a bit for each. */
export const loadedMachines = (): number => loaded;

/**
 * The machine of a file, loaded when the first file of it comes.
 * @param use  `read`: nothing is executed, and `emulation` must not be asked for
 * @throws ElftraceError as `targetOf`
 */
export async function loadArch(header: ElfHeader, use: 'read' | 'run' = 'run'): Promise<Arch> {
  const id = targetOf(header);
  loaded |= 1 << Object.keys(machines).indexOf(id);
  const still = use === 'read' ? stillMachines[id] : undefined;
  return still === undefined ? machines[id]() : withoutEmulation(await still());
}
