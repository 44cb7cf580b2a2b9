/**
 * Unpacking in a process of its own, whose largest resident size is compared with what came out.
 */
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, test } from '@jest/globals';
import { isLong, isWhole } from './support/long.js';
import { root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'limits-memory-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const MIB = 2 ** 20;
/** As large as is allowed without being asked, nearly. */
const SIZE = 240 * MIB;

/** No bomb: half a megabyte of chance, over and over, changed here and there. */
const large = Buffer.alloc(SIZE);
{
  let x = 1;
  const next = (): number => (x = (Math.imul(x, 1_103_515_245) + 12_345) >>> 0) >>> 8;
  const pool = Buffer.from(Uint8Array.from({ length: 1 << 14 }, next));
  for (let at = 0; at < SIZE; at += 4096) {
    pool.copy(large, at, next() % (pool.length - 4096));
    large.writeUInt32LE(next(), at + (next() % 4000));
  }
}
const input = join(folder, 'large');
writeFileSync(input, large);

/**
 * Megabytes that the largest resident size grew by, when everything that is loaded once had been
 * loaded.
 */
const CHILD = `
import fs from 'node:fs';
const [small, file, how] = process.argv.slice(1);
const { unpack, unpackPieces } = await import(${JSON.stringify(join(root, 'build/src/elf/compressed.js'))});
const { streamArchive } = await import(${JSON.stringify(join(root, 'build/src/elf/archive.js'))});
const read = (path) => {
  const bytes = new Uint8Array(fs.statSync(path).size);
  const descriptor = fs.openSync(path);
  for (let at = 0; at < bytes.length;) at += fs.readSync(descriptor, bytes, at, bytes.length - at, null);
  return bytes;
};
await unpack(read(small));
const packed = read(file);
// ru_maxrss would begin with that of whoever made this process.
const resident = (name) => Number(new RegExp(name + ':\\\\s+(\\\\d+)').exec(fs.readFileSync('/proc/self/status', 'utf8'))[1]);
fs.writeFileSync('/proc/self/clear_refs', '5');
const before = resident('VmHWM');
let size = 0;
let code = '';
try {
  if (how === 'archive') {
    const elf = new Uint8Array([0x7f, 0x45, 0x4c, 0x46]);
    for await (const { bytes } of streamArchive(unpackPieces(packed), elf, 2 ** 28)) size += bytes.length;
  } else size = (await unpack(packed)).bytes.length;
} catch (error) {
  code = error.code;
}
console.log(JSON.stringify({ size, code, grown: (resident('VmHWM') - before) * 1024 }));
`;

function measure(small: string, packed: string, how = 'whole'): { size: number; code: string; grown: number } {
  const child = spawnSync(
    process.execPath,
    ['--max-old-space-size=64', '--input-type=module', '-e', CHILD, small, packed, how],
    { encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } },
  );
  expect(child.stderr).toBe('');
  return JSON.parse(child.stdout) as ReturnType<typeof measure>;
}

function packedFile(name: string, bytes: Uint8Array): string {
  writeFileSync(join(folder, name), bytes);
  return join(folder, name);
}

describeWith(['xz', 'zstd'], 'memory', () => {
  let gzipped: Buffer | null = null;
  const gzip = (): Buffer => (gzipped ??= runTool('gzip', ['-1', '-c', input]));
  const tools: readonly (readonly [string, () => string, () => string])[] = [
    ['gzip', () => packedFile('s.gz', gzipSync('small')), () => packedFile('l.gz', gzip())],
    [
      'gzip, two members',
      () => packedFile('s.gz', gzipSync('small')),
      () => packedFile('2.gz', Buffer.concat([gzipSync('first'), gzip()])),
    ],
    [
      'xz',
      () => packedFile('s.xz', runTool('xz', ['-c'], 'small')),
      () => packedFile('l.xz', runTool('xz', ['-0', '-T2', '-c', input])),
    ],
    [
      'zstd',
      () => packedFile('s.zst', runTool('zstd', ['-q', '-c'], 'small')),
      () => packedFile('l.zst', runTool('zstd', ['-q', '-c', input])),
    ],
    [
      'zstd without its size',
      () => packedFile('s.zst', runTool('zstd', ['-q', '-c'], 'small')),
      () => packedFile('p.zst', runTool('zstd', ['-q', '-c', '--no-content-size', input])),
    ],
  ];
  // Two members are two times what one is; a size that is said spares the reader work.
  test.each(tools.filter(([name]) => isWhole || (name !== 'gzip' && (isLong || /^xz|without/.test(name)))))(
    '%s: at most 1.2 times what comes out',
    (name, small, packed) => {
      const { size, code, grown } = measure(small(), packed());
      process.stdout.write(`${name}: ${(grown / size).toFixed(3)} times ${Math.floor(size / MIB)} MiB\n`);
      expect([code, Math.floor(size / MIB)]).toEqual(['', SIZE / MIB]);
      expect(grown / size).toBeLessThanOrEqual(1.2);
      expect(grown / size).toBeGreaterThan(0.9);
    },
  );

  test('a bomb takes no more than what is allowed', () => {
    const zeros = gzipSync(new Uint8Array(SIZE / 4), { level: 9 });
    const bomb = packedFile('bomb.gz', Buffer.concat(Array.from({ length: 40 }, () => zeros)));
    const { code, grown } = measure(packedFile('s.gz', gzipSync('small')), bomb);
    expect([statSync(bomb).size < 10 * MIB, code]).toEqual([true, 'limit-exceeded']);
    expect(grown).toBeLessThan(1.2 * 256 * MIB);
  });

  test('an archive of eight members: one at a time', () => {
    const MEMBER = SIZE / 8;
    const head = `${'a.o/'.padEnd(48)}${String(MEMBER).padEnd(10)}\`\n`;
    const parts = Array.from({ length: 8 }, (_, i) => [
      Buffer.from(head),
      Buffer.from('\x7fELF'),
      large.subarray(MEMBER * i + 4, MEMBER * (i + 1)),
    ]).flat();
    const archive = packedFile('a', Buffer.concat([Buffer.from('!<arch>\n'), ...parts]));
    const { code, size, grown } = measure(
      packedFile('s.zst', runTool('zstd', ['-q', '-c'], 'small')),
      packedFile('a.zst', runTool('zstd', ['-q', '-c', archive])),
      'archive',
    );
    process.stdout.write(`archive: ${(grown / MIB).toFixed(0)} MiB for ${size / MIB} MiB\n`);
    expect([code, size]).toEqual(['', SIZE]);
    // Members that were looked at are collected when some tens of megabytes of them wait.
    expect(grown).toBeLessThan(0.75 * SIZE);
  });
});
