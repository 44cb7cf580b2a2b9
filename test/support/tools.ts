/**
 * Finds external tools (binutils, cross compilers, emulators) at run time. A test that needs one
 * says so: without it the group is skipped and the reason printed; with ELFTRACE_REQUIRE_TOOLS=1
 * (set in CI) a missing tool is a failure instead.
 */
import type { SpawnSyncReturns } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { describe, test } from '@jest/globals';
import { spawnSync } from './spawn.js';

/** Runs a program that a test has just written, or a tool on it, for at most 20 seconds. */
export function runProgramFile(command: string, args: readonly string[] = [], cwd?: string): SpawnSyncReturns<string> {
  return spawnSync(command, args, { encoding: 'utf8', timeout: 20_000, ...(cwd !== undefined && { cwd }) });
}

const found = new Map<string, string | null>();

/** Absolute path of a tool in PATH, or of one that is named by its path; null: it is not there. */
export function tool(name: string): string | null {
  const known = found.get(name);
  if (known !== undefined) return known;
  let result: string | null = null;
  for (const folder of isAbsolute(name) ? ['/'] : (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      result = path;
      break;
    } catch {
      // not in this folder
    }
  }
  found.set(name, result);
  return result;
}

/** Runs a tool and returns stdout as bytes; throws with stderr when it fails. */
export function run(name: string, args: readonly string[], input?: string | Uint8Array): Buffer {
  const result = spawnSync(name, [...args], { input, maxBuffer: 1 << 28 });
  if (result.error) throw result.error;
  if (result.status !== 0) {
    throw new Error(`${name} ${args.join(' ')}: exit ${String(result.status)}\n${result.stderr.toString()}`);
  }
  return result.stdout;
}

/**
 * `describe` that needs tools: one test that is skipped with the reason, or fails where
 * ELFTRACE_REQUIRE_TOOLS is set.
 */
export function describeWith(tools: readonly string[], name: string, body: () => void): void {
  const missing = tools.filter((each) => tool(each) === null);
  if (missing.length === 0) {
    describe(name, body);
    return;
  }
  const reason = `needs ${missing.join(', ')}`;
  if (process.env['ELFTRACE_REQUIRE_TOOLS'] === '1') {
    test(`${name} (${reason})`, () => {
      throw new Error(reason);
    });
  } else {
    process.stderr.write(`skipped: ${name}: ${reason}\n`);
    // The body is not run: many use the tools while they say what their tests are.
    test.skip(`${name} (${reason})`, () => undefined);
  }
}
