/**
 * A program of test/programs/processes that works on files in the directory that it is given: what
 * it prints on Linux, and under `elftrace run` on a machine.
 */
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { PROGRAMS } from './emulator.js';
import { covering, sampled } from './long.js';
import { isX86Linux } from './processor.js';
import { LINUX_TARGETS, run } from './run.js';
import { describeWith, run as runTool, runProgramFile } from './tools.js';

const USER = 1000;

/**
 * What starts a program as a user without rights, who owns these directories then; nothing where
 * the tests run as one.
 */
export function userFor(...directories: readonly string[]): readonly string[] {
  if (process.getuid?.() !== 0) return [];
  // The other user must find the way there.
  chmodSync(tmpdir(), statSync(tmpdir()).mode | 0o111);
  for (const each of directories) chownSync(each, USER, USER);
  const id = String(USER);
  return ['setpriv', '--reuid', id, '--regid', id, '--clear-groups'];
}

/** What one such test is. */
export interface AgainstLinux {
  /** Of its folder; the source is `source`.c. */
  readonly name: string;
  readonly source: string;
  /** How many machines of the sampled ones the quick run has. */
  readonly machines: number;
  /** Titles of the group, by the machine's name, and of the test. */
  readonly group: (machine: string) => string;
  readonly title: string;
  /** A copy of the program, `program`, is in the directory that it is given. */
  readonly isThere?: boolean;
  /** On Linux it is a user without rights who starts it. Default: who runs the tests. */
  readonly asUser?: boolean;
  /** Looks at what the program has left; `files`: its directory as `--write` keeps it. */
  readonly look?: (files: string) => void;
}

/** Registers the tests: the program ends with 3, and prints on each machine what Linux does. */
export function testAgainstLinux({
  name,
  source,
  machines,
  group,
  title,
  asUser = false,
  isThere = false,
  look,
}: AgainstLinux): void {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const build = (machine: string, gcc: string): string => {
    const path = join(folder, machine);
    runTool(gcc, ['-O1', '-w', '-static', '-o', path, join(PROGRAMS, 'processes', `${source}.c`)]);
    return path;
  };
  const directory = (...names: readonly string[]): string => {
    const path = join(folder, ...names);
    mkdirSync(path, { recursive: true });
    return path;
  };
  let native: string | null = null;
  const onLinux = (): string => {
    if (native !== null) return native;
    const [program, files] = [build('native', 'gcc'), directory('native-files')];
    if (isThere) copyFileSync(program, join(files, 'program'));
    const [command = '', ...args] = [...(asUser ? userFor(folder, files) : []), program, files];
    const { stdout, status } = runProgramFile(command, args);
    expect(status).toBe(3);
    return (native = stdout);
  };
  for (const [machine, gcc] of sampled(
    covering(LINUX_TARGETS, ([, , form]) => form),
    machines,
  )) {
    if (!isX86Linux) continue;
    describeWith([gcc, 'gcc'], group(machine), () => {
      test(title, () => {
        const kept = directory(`${machine}-kept`);
        directory(`${machine}-tree`, 'files');
        const tree = join(folder, `${machine}-tree`);
        const program = build(machine, gcc);
        if (isThere) copyFileSync(program, join(tree, 'files', 'program'));
        const here = run(['--root', tree, '--write', kept, program, '/files']);
        expect(here.stdout.split('\n')).toEqual(onLinux().split('\n'));
        expect([here.status, here.json['deviations']]).toEqual([3, []]);
        look?.(join(kept, 'files'));
      });
    });
  }
}
