/**
 * `spawnSync` for tests, with the parameters and results of node:child_process: programs are
 * started by a small process of its own (spawn-server.ts).
 *
 * To start a program, Node forks: the kernel copies the page tables of the process, and copies
 * every page that the process writes to afterwards. The test files share one process of hundreds of
 * megabytes, where one start costs between 10 and 200 ms of CPU time, as much as a short
 * compilation.
 *
 * A program that a test has just written may be refused for an instant (ETXTBSY): another test
 * file, which started a process of its own meanwhile, has handed it the descriptor that wrote the
 * program, until that process has become its program. Such a start is tried again.
 */
import { spawn, spawnSync as spawnHere, type SpawnSyncOptions, type SpawnSyncReturns } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { receive, send, type SpawnAnswer } from './spawn-server.js';

interface Server {
  readonly requests: number;
  readonly answers: number;
}

/** Both ends of a named pipe; opening one end alone would wait for the other. */
function pipeEnds(path: string): { readonly read: number; readonly write: number } {
  const both = openSync(path, constants.O_RDWR);
  const read = openSync(path, constants.O_RDONLY);
  const write = openSync(path, constants.O_WRONLY);
  closeSync(both);
  return { read, write };
}

/**
 * Pipes of a child that `spawn` makes itself do not block, so these are named ones. null: there are
 * none here.
 */
function start(): Server | null {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-spawn-'));
  try {
    const names = ['requests', 'answers'].map((name) => join(folder, name));
    if (spawnHere('mkfifo', names).status !== 0) return null;
    const [requests, answers] = [pipeEnds(names[0]!), pipeEnds(names[1]!)];
    const path = fileURLToPath(new URL('spawn-server.js', import.meta.url));
    const child = spawn(process.execPath, [path, 'serve'], {
      stdio: ['ignore', 'inherit', 'inherit', requests.read, answers.write],
    });
    child.unref();
    closeSync(requests.read);
    closeSync(answers.write);
    return { requests: requests.write, answers: answers.read };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * One for each thread; undefined: not started yet. It ends with this process, when its pipe is
 * closed.
 */
let server: Server | null | undefined;

type Options = Omit<SpawnSyncOptions, 'encoding'>;

export function spawnSync(command: string, args?: readonly string[], options?: Options): SpawnSyncReturns<Buffer>;
export function spawnSync(
  command: string,
  args: readonly string[],
  options: Options & { readonly encoding: 'utf8' | 'latin1' },
): SpawnSyncReturns<string>;
export function spawnSync(
  command: string,
  args: readonly string[] = [],
  options: Options & { readonly encoding?: 'utf8' | 'latin1' } = {},
): SpawnSyncReturns<Buffer | string> {
  for (let tries = 0; ; tries++) {
    const result = spawnOnce(command, args, options);
    const isBusy = result.error !== undefined && 'code' in result.error && result.error.code === 'ETXTBSY';
    if (!isBusy || tries >= 100) return result;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  }
}

function spawnOnce(
  command: string,
  args: readonly string[],
  options: Options & { readonly encoding?: 'utf8' | 'latin1' },
): SpawnSyncReturns<Buffer | string> {
  server ??= start();
  if (server === null) return spawnHere(command, args, options);
  const { encoding, ...rest } = options;
  // The environment as it is now, not as it was when the server started.
  send(server.requests, { command, args: [...args], options: { ...rest, env: { ...(rest.env ?? process.env) } } });
  const answer = receive(server.answers) as SpawnAnswer | null;
  if (answer === null) throw new Error(`the process that starts programs is gone: ${command} ${args.join(' ')}`);
  const text = (bytes: Uint8Array | null): Buffer | string => {
    const buffer = Buffer.from(bytes ?? []);
    return encoding === undefined ? buffer : buffer.toString(encoding);
  };
  const [stdout, stderr] = [text(answer.stdout), text(answer.stderr)];
  const { pid, status, signal, error } = answer;
  return {
    ...{ pid, status, signal, stdout, stderr, output: [null, stdout, stderr] },
    ...(error === null ? {} : { error: Object.assign(new Error(error.message), { code: error.code }) }),
  };
}

/**
 * What a program prints, without a limit; throws with what it says when it fails. Unlike `run` of
 * tools.ts this does not need jest.
 */
export function outputOf(command: string, args: readonly string[]): Buffer {
  const { status, stdout, stderr, error } = spawnSync(command, args, { maxBuffer: 1 << 28 });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: exit ${String(status)}\n${stderr.toString()}`);
  return stdout;
}
