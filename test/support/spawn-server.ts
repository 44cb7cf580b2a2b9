/**
 * The process behind spawn.ts: reads requests from descriptor 3, starts what they name, and writes
 * how it ended to descriptor 4, until the process that asks is gone. It stays small, so that it
 * starts programs quickly; it imports nothing but what comes with Node.
 */
import { spawnSync, type SpawnSyncOptions } from 'node:child_process';
import { readSync, writeSync } from 'node:fs';
import { deserialize, serialize } from 'node:v8';

export interface SpawnRequest {
  readonly command: string;
  readonly args: readonly string[];
  readonly options: SpawnSyncOptions;
}

export interface SpawnAnswer {
  readonly pid: number;
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Uint8Array | null;
  readonly stderr: Uint8Array | null;
  readonly error: { readonly message: string; readonly code: string | undefined } | null;
}

/** Bytes of a message's length in front of it. */
const LENGTH_BYTES = 4;

/** Reads `size` bytes; null: the other side is gone. */
function readExactly(descriptor: number, size: number): Buffer | null {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size;) {
    const count = readSync(descriptor, bytes, at, size - at, null);
    if (count === 0) return null;
    at += count;
  }
  return bytes;
}

export function receive(descriptor: number): unknown {
  const length = readExactly(descriptor, LENGTH_BYTES);
  const message = length === null ? null : readExactly(descriptor, length.readUInt32LE());
  return message === null ? null : deserialize(message);
}

export function send(descriptor: number, message: SpawnRequest | SpawnAnswer): void {
  const body = serialize(message);
  const bytes = Buffer.alloc(LENGTH_BYTES + body.length);
  bytes.writeUInt32LE(body.length);
  body.copy(bytes, LENGTH_BYTES);
  for (let at = 0; at < bytes.length;) at += writeSync(descriptor, bytes, at);
}

/** The descriptors of a server, from its parent. */
const SERVER = { requests: 3, answers: 4 } as const;

function serve(): void {
  for (;;) {
    const request = receive(SERVER.requests) as SpawnRequest | null;
    if (request === null) return;
    const { error, pid, status, signal, stdout, stderr } = spawnSync(request.command, request.args, request.options);
    send(SERVER.answers, {
      ...{ pid, status, signal, stdout: stdout as Buffer | null, stderr: stderr as Buffer | null },
      error: error === undefined ? null : { message: error.message, code: (error as NodeJS.ErrnoException).code },
    });
  }
}

if (process.argv[2] === 'serve') serve();
