/**
 * The machines of the census, and how a program is executed there: in the emulator, or outside,
 * under qemu-user or natively.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const home = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');
/** The command line; a copy of `dist` may be named, which builds leave alone. */
const cli = join(process.env['ELFTRACE_DIST'] ?? join(home, 'dist'), 'cli.cjs');

export interface CensusMachine {
  readonly name: string;
  /** Debian's architecture and release; null: it has none, and programs of our own only. */
  readonly tree: { readonly architecture: string; readonly suite: string } | null;
  readonly qemu: string;
  /** The processor that the emulator announces. */
  readonly cpu: string;
  /** Prefix of the compilers. */
  readonly tools: string;
  /** Folder of musl in the tree; null: Debian has none. */
  readonly musl: string | null;
  /** What musl is compiled for beside the machine. */
  readonly muslFlags: readonly string[];
}

export const MACHINES: readonly CensusMachine[] = [
  { name: 'x86-64', tree: { architecture: 'amd64', suite: 'bookworm' }, qemu: 'qemu-x86_64', cpu: 'qemu64', tools: 'x86_64-linux-gnu-', musl: 'x86_64-linux-musl', muslFlags: [] },
  { name: 'arm64', tree: { architecture: 'arm64', suite: 'bookworm' }, qemu: 'qemu-aarch64', cpu: 'cortex-a57', tools: 'aarch64-linux-gnu-', musl: 'aarch64-linux-musl', muslFlags: [] },
  { name: 'riscv64', tree: { architecture: 'riscv64', suite: 'trixie' }, qemu: 'qemu-riscv64', cpu: 'rv64', tools: 'riscv64-linux-gnu-', musl: 'riscv64-linux-musl', muslFlags: [] },
  { name: 'ppc64le', tree: { architecture: 'ppc64el', suite: 'bookworm' }, qemu: 'qemu-ppc64le', cpu: 'power9', tools: 'powerpc64le-linux-gnu-', musl: 'powerpc64le-linux-musl', muslFlags: ['-mlong-double-64'] },
  { name: 'ppc64', tree: null, qemu: 'qemu-ppc64', cpu: 'power9', tools: 'powerpc64-linux-gnu-', musl: null, muslFlags: ['-mlong-double-64', '-mabi=elfv2'] },
  { name: 'ppc32', tree: null, qemu: 'qemu-ppc', cpu: '750', tools: 'powerpc-linux-gnu-', musl: null, muslFlags: ['-mlong-double-64'] },
]; // prettier-ignore

/** What a run did. */
export interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const ENVIRONMENT = ['LC_ALL=C', 'HOME=/', 'PATH=/usr/bin:/bin', 'PYTHONDONTWRITEBYTECODE=1'];
const LIMIT = 600_000;

export function execute(
  command: string,
  args: readonly string[],
  input = '',
  env?: NodeJS.ProcessEnv,
  cwd?: string,
  timeout = LIMIT,
): Ran {
  const { status, stdout, stderr, error } = spawnSync(command, [...args], {
    encoding: 'latin1',
    input,
    maxBuffer: 1 << 28,
    timeout,
    killSignal: 'SIGKILL',
    ...(env && { env }),
    ...(cwd !== undefined && { cwd }),
  });
  return { status, stdout, stderr: error ? error.message : stderr };
}

export function inEmulator(
  path: string,
  args: readonly string[],
  root: string | null,
  input = '',
  options: readonly string[] = [],
): Ran {
  const tree = root === null ? [] : ['--root', root];
  const env = ENVIRONMENT.flatMap((each) => ['--env', each]);
  return execute(
    process.execPath,
    [cli, 'run', ...options, ...tree, ...env, '--max-instructions', '20000000000', '--', path, ...args],
    input,
  );
}

export const environment: NodeJS.ProcessEnv = Object.fromEntries(
  ENVIRONMENT.map((each) => each.split('=') as [string, string]),
);
