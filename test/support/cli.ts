/** Runs the bundled command line; `npm run build` must have been run. */
import { spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { CliRequest } from './cli-server.js';
import { root } from './pipeline.js';
import { spawnSync } from './spawn.js';

export const cliPath = join(root, 'dist', 'cli.cjs');

export interface CliResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** In a process of its own, as users run it. */
export function elftrace(args: readonly string[], options: CliOptions = {}): CliResult {
  if (!existsSync(cliPath)) throw new Error(`${cliPath} is missing: run 'npm run build' first`);
  const { cwd, env } = request(args, options);
  const { status, stdout, stderr, error } = spawnSync(process.execPath, [cliPath, ...args], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    env,
  });
  if (error) throw error;
  return { status, stdout, stderr };
}

const request = (args: readonly string[], options: CliOptions): CliRequest => ({
  args,
  cwd: resolve(root, options.cwd ?? '.'),
  env: { ...process.env, NODE_OPTIONS: '', ...options.env },
});

/** A process that runs many commands, and the files that hold what they print. */
class Server {
  private readonly folder = mkdtempSync(join(tmpdir(), 'elftrace-cli-'));
  private readonly outputs = ['stdout', 'stderr'].map((name) => openSync(join(this.folder, name), 'a+'));
  private readonly requests: number;
  private readonly answers: number;
  /**
   * Commands evaluate the main module anew, and none is ever freed: a quarter of a megabyte each.
   * A new process costs what V8 has compiled.
   */
  private left = 500;

  constructor() {
    const [requests, answers] = ['requests', 'answers'].map((name) => join(this.folder, name)) as [string, string];
    const made = spawnSync('mkfifo', [requests, answers]);
    if (made.status !== 0) throw new Error('mkfifo failed');
    const server = join(root, 'build', 'test', 'support', 'cli-server.js');
    const options = process.execArgv.filter((each) => each.startsWith('--interrupt-budget'));
    spawn(process.execPath, [...options, server, requests, answers], {
      stdio: ['ignore', ...(this.outputs as [number, number])],
      env: { ...process.env, NODE_OPTIONS: '' },
    }).unref();
    // Each waits for the other side, in the order in which the server opens them.
    this.requests = openSync(requests, 'w');
    this.answers = openSync(answers, 'r');
  }

  get isSpent(): boolean {
    return this.left <= 0;
  }

  run(command: CliRequest): CliResult {
    this.left--;
    for (const output of this.outputs) ftruncateSync(output);
    const line = Buffer.from(`${JSON.stringify(command)}\n`);
    for (let at = 0; at < line.length;) at += writeSync(this.requests, line, at);
    const answer = Buffer.alloc(16);
    const length = readSync(this.answers, answer);
    const [stdout, stderr] = ['stdout', 'stderr'].map((name) => readFileSync(join(this.folder, name), 'utf8'));
    // Nothing: the process has ended.
    if (length === 0) this.left = 0;
    return {
      status: length === 0 ? null : Number(answer.toString('latin1', 0, length)),
      stdout: stdout!,
      stderr: stderr!,
    };
  }

  close(): void {
    for (const descriptor of [this.requests, this.answers, ...this.outputs]) closeSync(descriptor);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

let server: Server | null = null;
process.once('exit', () => {
  server?.close();
});

/**
 * The same in a process that has run commands before: a tenth of the time. For tests that need many
 * commands and are not about the process itself; those of the command line use `elftrace`.
 */
export function warmElftrace(args: readonly string[], options: CliOptions = {}): CliResult {
  if (server?.isSpent) {
    server.close();
    server = null;
  }
  server ??= new Server();
  return server.run(request(args, options));
}
