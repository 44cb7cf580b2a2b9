/**
 * A process that writes outputs and may be killed at any of its system calls:
 * `output-writer.js single|pair FOLDER TEXT`. It looks for a file called `begin` when its own start
 * is over, so that a log of its calls shows where the writing begins.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Output, writeOutputs } from '../../src/output/commit.js';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** The outputs of the process: a file, or a journal and its file. */
export function outputsOf(kind: string, folder: string, text: string): Output[] {
  const file = { path: join(folder, 'file'), bytes: bytes(`file ${text}`.repeat(5000)) };
  if (kind === 'single') return [file];
  const journal = join(folder, 'journal');
  return [{ path: journal, bytes: bytes(`journal ${text}`), meanwhile: bytes('journal of both') }, file];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [kind, folder, text] = process.argv.slice(2) as [string, string, string];
  existsSync(join(folder, 'begin'));
  try {
    await writeOutputs(outputsOf(kind, folder, text));
  } catch (error) {
    process.stderr.write(error instanceof Error ? error.message : String(error));
    process.exitCode = 2;
  }
}
