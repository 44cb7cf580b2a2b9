/**
 * The page of system calls, `docs/syscalls.md`, from the rows by which they are served. Prints it,
 * or writes it.
 *
 *   node build/scripts/syscalls-page.js [--write]
 */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { arches } from '../src/arches.js';
import { systemCalls } from '../src/guest/index.js';
import { type CallColumn, systemCallsPage } from '../src/report/system-calls.js';

/** Targets with the same calls share a column: what their ids begin with. */
export function callColumns(): readonly CallColumn[] {
  const columns = new Map<string, CallColumn>();
  for (const { target, emulation } of arches) {
    if (emulation.kind === 'none') continue;
    const calls = systemCalls(emulation.process);
    const key = JSON.stringify(calls);
    if (!columns.has(key)) columns.set(key, { title: target.id.replace(/-elfv\d.*$/, ''), calls });
  }
  return [...columns.values()];
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const page = systemCallsPage(callColumns());
  const path = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'docs', 'syscalls.md');
  if (process.argv.includes('--write')) writeFileSync(path, page);
  else process.stdout.write(page);
}
