/** Options that are about one machine, given for another. Owns the refusal; what the options mean is the machine's. */
import type { Arch } from '../machine/arch.js';
import { ElftraceError } from '../errors.js';

/** The machines that an option is about, by its name without the dashes: what their target's name begins with. */
const machineOf: Readonly<Record<string, string>> = {
  'x86-tramp': 'x86-64',
  'a64-era': 'arm64',
  'a64-default': 'arm64',
  'a64-entries': 'arm64',
  'riscv-site': 'riscv64',
  'riscv-direct': 'riscv64',
  'ppc-nop': 'ppc',
  'ppc-stubs': 'ppc',
};

/**
 * Refuses options of other machines. Who asks for private trampolines hears what the machine has in their place (T-A64-13).
 * @throws ElftraceError 'usage'
 */
export function checkMachineOptions(arch: Arch, given: Readonly<Record<string, string | undefined>>): void {
  const { target, trampolines } = arch;
  for (const [name, value] of Object.entries(given)) {
    const machine = machineOf[name];
    if (value === undefined || machine === undefined || target.id.startsWith(machine)) continue;
    const instead = name === 'x86-tramp' && trampolines.kind === 'none' ? `: ${trampolines.reason}` : '';
    throw new ElftraceError(
      'usage',
      `--${name} is about ${machine === 'ppc' ? 'PowerPC' : machine}, this is ${target.title}${instead}`,
      { value },
    );
  }
}
