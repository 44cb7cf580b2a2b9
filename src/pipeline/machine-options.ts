/**
 * Options that are about one machine, given for another. Owns the refusal; what the options mean is
 * the machine's.
 */
import type { Arch } from '../machine/arch.js';
import type { MachineOption } from '../machine/options.js';
import { loadAllArches } from '../targets.js';
import { ElftraceError } from '../errors.js';

/** The row of an option, by its name without the dashes, whichever machine has it. */
const optionNamed = async (name: string): Promise<MachineOption | undefined> =>
  (await loadAllArches()).flatMap(({ options }) => options).find((each) => each.name === name);

/**
 * Refuses options of other machines. Who asks for private trampolines hears what the machine has in
 * their place (T-A64-13).
 * @throws ElftraceError 'usage'
 */
export async function checkMachineOptions(
  arch: Arch,
  given: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const { target, trampolines } = arch;
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || arch.options.some((each) => each.name === name)) continue;
    const option = await optionNamed(name);
    if (option === undefined) continue;
    const isTrampolines = Object.values(option.policy ?? {}).some((each) => each.trampolines !== undefined);
    const instead = isTrampolines && trampolines.kind === 'none' ? `: ${trampolines.reason}` : '';
    throw new ElftraceError('usage', `--${name} is about ${option.about}, this is ${target.title}${instead}`, {
      value,
    });
  }
}
