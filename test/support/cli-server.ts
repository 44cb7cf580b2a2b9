/**
 * Runs commands of the bundled command line one after another in one process, for cli.ts:
 * `cli-server.js REQUESTS ANSWERS`, two named pipes with a line of JSON for each command. What a
 * command prints goes to this process's own descriptors, which are files. Ends when its caller
 * closes the requests.
 */
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './pipeline.js';

export interface CliRequest {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const cliPath = join(root, 'dist', 'cli.js');
const cli = pathToFileURL(cliPath).href;
const requests = openSync(process.argv[2]!, 'r');
const answers = openSync(process.argv[3]!, 'w');

/** A line; null when the caller has gone. */
function readLine(descriptor: number): string | null {
  const pieces: Buffer[] = [];
  const piece = Buffer.alloc(1 << 16);
  for (;;) {
    const length = readSync(descriptor, piece);
    if (length === 0) return null;
    pieces.push(Buffer.from(piece.subarray(0, length)));
    if (piece[length - 1] === 0x0a) return Buffer.concat(pieces).toString('utf8');
  }
}

for (let number = 1; ; number++) {
  const line = readLine(requests);
  if (line === null) break;
  const { args, cwd, env } = JSON.parse(line) as CliRequest;
  process.chdir(cwd);
  process.env = { ...env };
  process.argv = [process.execPath, cliPath, ...args];
  process.exitCode = undefined;
  // The query makes it a module of its own, evaluated anew; what it imports is shared.
  await import(`${cli}?${number}`);
  writeSync(answers, `${process.exitCode ?? 0}\n`);
}
closeSync(answers);
process.exitCode = 0;
