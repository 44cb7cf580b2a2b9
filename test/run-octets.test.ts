/**
 * Names of files, links, arguments and variables under `elftrace run` that are bytes and no UTF-8,
 * against Linux.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { testAgainstLinux } from './support/against-linux.js';
import { cliPath } from './support/cli.js';
import { writeSource } from './support/emulator.js';
import { isX86Linux } from './support/processor.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool } from './support/tools.js';

const WORDS = `
#include <stdio.h>
int main(int count, char **words) {
  for (int i = 1; i < count; i++) {
    for (char *each = words[i]; *each; each++) printf("%02x ", *each & 255);
    puts("");
  }
  return 3;
}
`;

testAgainstLinux({
  name: 'run-octets',
  source: 'octets',
  machines: 2,
  isThere: true,
  group: (machine) => `names that are no UTF-8 on ${machine}`,
  title: 'files, links, arguments and variables keep their bytes',
  look: (files) => {
    const [folder] = readdirSync(files, 'buffer').filter((each) => each[0]! >= 0x80);
    expect(folder).toEqual(Buffer.of(0xe9));
    const kept = readdirSync(Buffer.concat([Buffer.from(`${files}/`), folder!]), 'buffer').map((each) =>
      each.toString('hex'),
    );
    expect(kept).toContain('636166e92e6c696e6b');
  },
});

describeWith(['gcc', 'sh'], 'arguments that are no UTF-8', () => {
  (isX86Linux ? test : test.skip)('the command line hands them to the program as they were given', () => {
    const source = writeSource('words.c', WORDS);
    const program = join(source, '..', 'words');
    runTool('gcc', ['-O1', '-w', '-static', '-o', program, source]);
    const shown = (...before: readonly string[]): string =>
      // What a test hands to a program is text: the shell makes the bytes.
      spawnSync(
        'sh',
        ['-c', 'exec "$@" "$(printf "one\\\\377\\\\376")" "$(printf "\\\\303\\\\251\\\\351")" \ufffd', 'sh', ...before],
        {
          encoding: 'utf8',
        },
      ).stdout;
    const native = shown(program);
    expect(native.split('\n')).toHaveLength(4);
    expect(shown(process.execPath, cliPath, 'run', program)).toBe(native);
  });
});
