/**
 * Options that are about one machine, given for another. Owns the refusal; what the options mean is
 * the machine's.
 */
import type { Arch } from '../machine/arch.js';
import { machineOptions } from '../targets.js';
import { ElftraceError } from '../errors.js';

/**
 * Refuses options of other machines. Who asks for private trampolines hears what the machine has in
 * their place (T-A64-13).
 * @throws ElftraceError 'usage'
 */
export function checkMachineOptions(arch: Arch, given: Readonly<Record<string, string>>): void {
  const { target, trampolines } = arch;
  for (const [name, value] of Object.entries(given)) {
    if (arch.options.some((each) => each.name === name)) continue;
    const option = machineOptions.find((each) => each.name === name);
    if (option === undefined) continue;
    const isTrampolines = Object.values(option.policy ?? {}).some((each) => each.trampolines !== undefined);
    const instead = isTrampolines && trampolines.kind === 'none' ? `: ${trampolines.reason}` : '';
    throw new ElftraceError('usage', `--${name} is about ${option.about}, this is ${target.title}${instead}`, {
      value,
    });
  }
}
