/** Runs the bundled command line as a child process; `npm run build` must have been run. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './pipeline.js';

export const cliPath = join(root, 'dist', 'cli.js');

export interface CliResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export function elftrace(args: readonly string[], options: CliOptions = {}): CliResult {
  if (!existsSync(cliPath)) throw new Error(`${cliPath} is missing: run 'npm run build' first`);
  const { status, stdout, stderr, error } = spawnSync(process.execPath, [cliPath, ...args], {
    cwd: options.cwd ?? root,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    env: { ...process.env, NODE_OPTIONS: '', ...options.env },
  });
  if (error) throw error;
  return { status, stdout, stderr };
}
