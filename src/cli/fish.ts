/** `elftrace completion fish`: yargs has scripts for bash and zsh alone. */
import { exitCodes } from './exit.js';
import { out } from './terminal.js';

/** Words come from the command itself, as in the scripts of the other shells; files from fish. */
const SCRIPT = `# completion of elftrace for fish: elftrace completion fish > ~/.config/fish/completions/elftrace.fish
function __elftrace_words
    set -l words (commandline -opc) (commandline -ct)
    elftrace --get-yargs-completions $words
end
# Behind an option that has choices there are no files.
function __elftrace_no_files
    set -l words (commandline -opc)
    test (count $words) -lt 2; or string match -q -- '-*' $words[-1]; and count (__elftrace_words) >/dev/null
end
complete -c elftrace -n __elftrace_no_files -f
complete -c elftrace -a '(__elftrace_words)'`;

export function runFishCompletion(): number {
  for (const line of SCRIPT.split('\n')) out(line);
  return exitCodes.ok;
}
