/**
 * Outputs that grow while a command works: traces, what a guest prints. They take their place when
 * they are complete.
 */
import * as fs from 'node:fs';
import { ElftraceError } from '../errors.js';
import {
  discardOutputs,
  finishTemporary,
  lockOutput,
  openTemporary,
  putInPlace,
  refuseInput,
  writeFully,
} from './commit.js';
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

/** Until the returned function is called a signal that ends the command takes its outputs along. */
function discardOnSignals(): () => void {
  const end = (): void => {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  };
  const stop = (signal: NodeJS.Signals): void => {
    end();
    discardOutputs();
    process.kill(process.pid, signal);
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  return end;
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
  const signalsEnd = discardOnSignals();
  const begin = () => ({ lock: lockOutput(target.path), temporary: openTemporary(target.path) });
  const { lock, temporary } = naming(path, () => {
    try {
      return begin();
    } catch (error) {
      signalsEnd();
      throw error;
    }
  });
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
      lock.release();
      signalsEnd();
    },
  };
}
