/**
 * What holds a program against what it was, as its folder and its attributes say: a value of
 * integrity beside it (FIPS), and attributes by which the kernel appraises files (IMA, EVM).
 */
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { refused } from '../native/refuse.js';

/** Where programs and libraries look for the value of a file. */
const valuesBeside = (path: string): readonly string[] => {
  const [folder, name] = [dirname(path), `${basename(path)}.hmac`];
  return [join(folder, `.${name}`), join(folder, name), join(folder, 'fipscheck', name)];
};

/** Attributes of the kernel's appraisal; none where there is no tool that tells (getfattr). */
function appraisals(path: string): readonly string[] {
  const words = ['-m', '^security\\.(ima|evm)$', '--absolute-names', '--', path];
  const { status, stdout } = spawnSync('getfattr', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return status === 0 ? [...stdout.matchAll(/^security\.\w+$/gm)].map(([name]) => name) : [];
}

/**
 * @param paths  the program as it was named, and where links lead
 * @throws ElftraceError 'unsupported-form' with reason `self-checking` or `signed`
 */
export function checkGuards(paths: readonly string[]): void {
  const value = paths.flatMap(valuesBeside).find((path) => fs.existsSync(path));
  if (value !== undefined) {
    throw refused(
      'self-checking',
      `${value} is for checks that the program is as it was built: patch a copy that has none beside it`,
    );
  }
  const [attribute] = appraisals(paths.at(-1)!);
  if (attribute === undefined) return;
  throw refused(
    'signed',
    `the file has ${attribute}, by which the kernel checks it: patch a copy without the attribute`,
  );
}
