/** Outputs that grow while a command works: traces, what a guest prints. They take their place when they are complete. */
import * as fs from 'node:fs';
import { ElftraceError } from '../errors.js';
import { finishTemporary, lockOutput, openTemporary, putInPlace, refuseInput, writeFully } from './commit.js';
import { ioError, resolveTarget } from './target.js';

export interface OutputStream {
  readonly write: (bytes: Uint8Array) => void;
  /** The output is complete. Without this call nothing is left of a regular file. */
  readonly close: () => void;
}

function naming<T>(path: string, step: () => T): T {
  try {
    return step();
  } catch (cause) {
    if (cause instanceof ElftraceError) throw cause;
    throw ioError(path, 'write', cause);
  }
}

/**
 * A signal ends a command that executes a program at once: it may be in one long step, where no handler of ours would run. A
 * process that outlives it removes what it leaves; its standard input ends with the command. When the file has taken its
 * place, nothing has that name any more.
 * @returns ends that process
 */
function removeWhenKilled(temporary: string): () => void {
  if (process.platform === 'win32') return () => undefined;
  const { spawn } = process.getBuiltinModule('node:child_process');
  const script = 'trap "" INT TERM HUP; read -r _; rm -f -- "$1"';
  const watcher = spawn('/bin/sh', ['-c', script, 'sh', temporary], { stdio: ['pipe', 'ignore', 'ignore'] });
  // Without a shell the next command for this output removes it.
  watcher.on('error', () => undefined);
  watcher.stdin.on('error', () => undefined);
  watcher.unref();
  (watcher.stdin as unknown as { unref: () => void }).unref();
  return () => {
    watcher.stdin.destroy();
  };
}

/** @throws ElftraceError as `writeOutputs`, from opening, writing and closing */
export function openOutput(path: string): OutputStream {
  const target = resolveTarget(path);
  if (target.kind === 'socket') {
    throw new ElftraceError('io', `cannot write ${path}: it is a socket`, { file: path });
  }
  if (target.kind !== 'file') {
    const descriptor =
      target.kind === 'stream' ? naming(path, () => fs.openSync(target.path, fs.constants.O_WRONLY)) : 1;
    return {
      write: (bytes) => {
        naming(path, () => {
          writeFully(descriptor, bytes);
        });
      },
      close: () => {
        if (descriptor !== 1) fs.closeSync(descriptor);
      },
    };
  }
  if (target.existing !== null) refuseInput({ path }, target.existing);
  const lock = naming(path, () => lockOutput(target.path));
  const temporary = naming(path, () => openTemporary(target.path));
  const endWatch = removeWhenKilled(temporary.path);
  const model = target.existing === null ? null : { path: target.path, stats: target.existing };
  return {
    write: (bytes) => {
      naming(path, () => {
        writeFully(temporary.descriptor, bytes);
      });
    },
    close: () => {
      naming(path, () => {
        finishTemporary(temporary, model);
        putInPlace(temporary.path, target.path);
      });
      endWatch();
      lock.release();
    },
  };
}
