/** What ELF files come in: archives, compressed files, modules with a signature. */
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { isArchive, memberBytes, readArchive, replaceMember } from '../src/elf/archive.js';
import { compressedForm, unpack } from '../src/elf/compressed.js';
import { readElf } from '../src/elf/read.js';
import { readModuleSignature, SIGNATURE_MAGIC } from '../src/elf/signature.js';
import { Xxh64, xxh64Low } from '../src/elf/xxhash.js';
import { ALL_SHAPES, smallObject } from './support/elf-builder.js';
import { make } from './support/elf-compile.js';
import { describeWith, run } from './support/tools.js';

const object = smallObject(ALL_SHAPES[0]!);
const text = new TextEncoder();

/** The code of what `body` throws. */
function refused(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    if (error instanceof ElftraceError) return error.code;
    throw error;
  }
  return 'read';
}

async function rejected(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof ElftraceError) return error.code;
    throw error;
  }
  return 'read';
}

function joined(...parts: readonly (string | Uint8Array)[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts.map((part) => (typeof part === 'string' ? text.encode(part) : part))));
}

function member(name: string, size: number | string): string {
  return `${name.padEnd(16)}${'0'.padEnd(12)}${'0'.padEnd(6)}${'0'.padEnd(6)}${'644'.padEnd(8)}${String(size).padEnd(10)}\`\n`;
}

describeWith(['ar', 'as'], 'archives against ar', () => {
  const names = ['short.o', 'a_name_of_more_than_sixteen_bytes.o', 'odd.bin', 'sixteen_bytes_.o'];
  let object: Uint8Array;
  let gnu: Uint8Array;
  let withoutIndex: Uint8Array;
  let thin: Uint8Array;
  let listed: readonly string[];

  beforeAll(() => {
    // An object that ar itself understands, so that it makes an index of symbols.
    const path = make('archive-object', ['as', '{in}', '-o', '{out}'], '.globl f\nf: .byte 0x90\n', '.s');
    if (path === null) throw new Error('as made no object');
    object = new Uint8Array(readFileSync(path));
    const folder = mkdtempSync(join(tmpdir(), 'elftrace-ar-'));
    for (const name of names) writeFileSync(join(folder, name), name === 'odd.bin' ? 'odd' : object);
    const archive = (options: string): Uint8Array => {
      const result = spawnSync('ar', [options, `${options}.a`, ...names], { cwd: folder });
      if (result.status !== 0) throw new Error(result.stderr.toString());
      return new Uint8Array(readFileSync(join(folder, `${options}.a`)));
    };
    gnu = archive('rcsD');
    withoutIndex = archive('rcSD');
    thin = archive('rcsDT');
    listed = run('ar', ['t', join(folder, 'rcsD.a')])
      .toString()
      .trim()
      .split('\n');
    rmSync(folder, { recursive: true });
  });

  test('members, long names and the symbol index', () => {
    const members = readArchive(gnu);
    expect(members[0]).toMatchObject({ name: '/', kind: 'symbols' });
    expect(members.slice(1).map((each) => each.name)).toEqual(listed);
    expect(listed).toEqual(names);
    expect(members.slice(1).map((each) => each.size)).toEqual([object.length, object.length, 3, object.length]);
    expect(memberBytes(gnu, members[2]!)).toEqual(object);
    expect(readElf(memberBytes(gnu, members[4]!)).symbols.find('f')).toBeGreaterThan(0);
    expect(readArchive(withoutIndex).map((each) => each.name)).toEqual(names);
  });

  test('thin archives are refused with the reason', () => {
    expect(isArchive(thin)).toBe(true);
    expect(() => readArchive(thin)).toThrow('its members are other files');
    expect(refused(() => readArchive(thin))).toBe('unsupported-form');
  });

  test('a member is replaced by one of the same size, nothing else changes', () => {
    const chosen = readArchive(gnu).find((each) => each.name === names[1])!;
    const other = object.slice();
    other[200]! ^= 0xff;
    const out = replaceMember(gnu, chosen, other);
    expect(memberBytes(out, chosen)).toEqual(other);
    expect(replaceMember(out, chosen, object)).toEqual(gnu);
    expect(refused(() => replaceMember(gnu, chosen, object.slice(1)))).toBe('unsupported-form');
  });
});

describe('archives built by the test', () => {
  test('BSD names and symbol index', () => {
    const bytes = joined(
      '!<arch>\n',
      member('#1/20', 24),
      '__.SYMDEF SORTED\0\0\0\0',
      '\0\0\0\0',
      member('#1/12', 12 + object.length),
      'bsd_name.o\0\0',
      object,
      object.length % 2 === 1 ? '\n' : '',
      member('plain.o', 1),
      'x\n',
    );
    const members = readArchive(bytes);
    expect(members.map((each) => [each.name, each.kind, each.size])).toEqual([
      ['__.SYMDEF SORTED', 'symbols', 4],
      ['bsd_name.o', 'file', object.length],
      ['plain.o', 'file', 1],
    ]);
    expect(memberBytes(bytes, members[1]!)).toEqual(object);
  });

  test('an empty archive', () => {
    expect(readArchive(text.encode('!<arch>\n'))).toEqual([]);
  });

  test.each([
    ['no archive', 'abc', 'not-elf'],
    ['half a header', '!<arch>\n' + member('a/', 0).slice(0, 59), 'elf-truncated'],
    ['contents cut off', '!<arch>\n' + member('a/', 5) + '1234', 'elf-truncated'],
    ['size without digits', '!<arch>\n' + member('a/', '-1'), 'elf-malformed'],
    ['size in hex', '!<arch>\n' + member('a/', '0x10'), 'elf-malformed'],
    ['size of 1e10', '!<arch>\n' + member('a/', '9999999999'), 'elf-truncated'],
    ['end of header', '!<arch>\n' + member('a/', 0).slice(0, 58) + '??', 'elf-malformed'],
    ['long name without a table', '!<arch>\n' + member('/5', 0), 'bad-reference'],
    ['long name outside the table', '!<arch>\n' + member('//', 4) + 'a/\n\n' + member('/4', 0), 'bad-reference'],
    ['BSD name longer than the member', '!<arch>\n' + member('#1/9', 8) + '12345678', 'elf-truncated'],
  ])('%s', (_name, contents, expected) => {
    expect(refused(() => readArchive(text.encode(contents)))).toBe(expected);
  });
});

describeWith(['gzip', 'xz', 'zstd'], 'compressed files', () => {
  const contents = new Uint8Array(readFileSync(process.execPath).subarray(0, 700_000));
  const pack = (command: string, ...args: readonly string[]): Uint8Array =>
    new Uint8Array(run(command, ['-c', ...args], contents));
  const forms: readonly (readonly [string, string, () => Uint8Array])[] = [
    ['gzip', 'gzip', () => pack('gzip')],
    ['gzip, two members', 'gzip', () => joined(pack('gzip'), new Uint8Array(run('gzip', ['-c'], 'more')))],
    ['xz as rpm builds it', 'xz', () => pack('xz', '--check=sha256', '--block-size=5000')],
    ['xz as the kernel builds it', 'xz', () => pack('xz', '--check=crc32', '--lzma2=dict=1MiB')],
    ['xz with CRC64 and several blocks', 'xz', () => pack('xz', '--block-size=100000')],
    [
      'xz, two streams and padding',
      'xz',
      () => joined(pack('xz'), new Uint8Array(8), new Uint8Array(run('xz', ['-c'], 'more')), new Uint8Array(4)),
    ],
    ['zstd', 'zstd', () => pack('zstd')],
    ['zstd -19 with its size', 'zstd', () => pack('zstd', '-19', `--stream-size=${contents.length}`)],
    ['zstd without checksum', 'zstd', () => pack('zstd', '--no-check')],
    [
      'zstd, two frames and one to skip',
      'zstd',
      () =>
        joined(
          pack('zstd'),
          new Uint8Array([0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9]),
          new Uint8Array(run('zstd', ['-c'], 'more')),
        ),
    ],
  ];

  test.each(forms)('%s', async (name, form, packing) => {
    const packed = packing();
    const expected = /two/.test(name) ? joined(contents, 'more') : contents;
    const result = await unpack(packed);
    expect(result.form).toBe(form);
    expect(Buffer.compare(result.bytes, expected)).toBe(0);
    expect(await rejected(unpack(packed, { unpacked: contents.length - 1 }))).toBe('limit-exceeded');
  });

  test.each(forms)('%s: cut short or damaged', async (name, _form, packing) => {
    const packed = packing();
    for (const size of [12, 40, Math.floor(packed.length / 2), packed.length - 1]) {
      // Padding that is cut to less than a word, and a second member that is not there, are the
      // only cuts that may pass.
      expect([name, size, await rejected(unpack(packed.slice(0, size)))]).toEqual([name, size, 'elf-truncated']);
    }
    if (name.includes('without checksum')) return;
    const damaged = packed.slice();
    damaged[Math.floor(packed.length / 2)]! ^= 0x10;
    expect(['elf-malformed', 'elf-truncated']).toContain(await rejected(unpack(damaged)));
  });

  test('a filter that the package lacks is named', async () => {
    expect(await rejected(unpack(pack('xz', '--x86', '--lzma2')))).toBe('unsupported-form');
  });

  test('what is not compressed comes back itself', async () => {
    expect(await unpack(object)).toEqual({ form: 'none', bytes: object });
    expect(compressedForm(new Uint8Array([0x1f]))).toBe('none');
  });

  test('promises of a zstd header are not believed', async () => {
    // Single segment, eight bytes of size: 2^40 bytes in one raw block of one byte.
    const frame = new Uint8Array([0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 9, 0, 0, 7]);
    const memory = process.memoryUsage().arrayBuffers;
    expect(await rejected(unpack(frame, { unpacked: 2 ** 50, ratio: Infinity }))).toBe('elf-malformed');
    expect(process.memoryUsage().arrayBuffers - memory).toBeLessThan(1 << 20);
  });

  test('zstd frames that do not state their size, of any size, with a window that is moved for no block', async () => {
    const [step, copy] = [1 << 17, Uint8Array.prototype.copyWithin];
    const moved: number[] = [];
    Uint8Array.prototype.copyWithin = function (...all) {
      moved.push(this.length);
      return copy.apply(this, all);
    };
    try {
      for (const size of [0, 1, step - 1, step, step + 1, 4 * step, 5 * step - 3]) {
        const part = contents.slice(0, size);
        for (const how of [
          ['-1', '--long=27'],
          ['-1', '--no-check'],
        ]) {
          const packed = new Uint8Array(run('zstd', ['-c', '--no-content-size', ...how], part));
          expect([size, Buffer.compare((await unpack(packed)).bytes, part)]).toEqual([size, 0]);
          const twice = joined(packed, run('zstd', ['-c'], 'more'));
          expect(Buffer.compare((await unpack(twice)).bytes, joined(part, 'more'))).toBe(0);
        }
      }
    } finally {
      Uint8Array.prototype.copyWithin = copy;
    }
    expect(moved).toEqual([]);
  });

  test('a SHA-256 sum that xz did not make is damage, in any block', async () => {
    const packed = new Uint8Array(run('xz', ['-c', '--check=sha256', '--block-size=4'], 'some more'));
    expect(Buffer.from((await unpack(packed)).bytes).toString()).toBe('some more');
    const index = packed.length - 12 - (new DataView(packed.buffer).getUint32(packed.length - 8, true) + 1) * 4;
    for (const place of [index - 1, index - 32 - 48]) {
      const damaged = packed.slice();
      damaged[place]! ^= 1;
      expect(await rejected(unpack(damaged))).toBe('elf-malformed');
    }
  });

  test('zstd checksums of every tail length agree with ours', async () => {
    // The tool's checksum is the expectation: the low half of XXH64 stands in the last four bytes
    // of the frame.
    expect(xxh64Low(new Uint8Array(0))).toBe(0x51d8_e999);
    for (const size of [1, 3, 4, 7, 8, 12, 31, 32, 33, 40, 63, 64, 100, 1000]) {
      const part = contents.slice(5000, 5000 + size);
      const frame = new Uint8Array(run('zstd', ['-c'], part));
      expect(xxh64Low(part)).toBe(Buffer.from(frame).readUInt32LE(frame.length - 4));
      expect((await unpack(frame)).bytes).toEqual(part);
      const parts = new Xxh64();
      for (let at = 0; at < size; at += 7) parts.update(part.subarray(at, Math.min(size, at + 7)));
      expect(parts.low()).toBe(xxh64Low(part));
    }
  });
});

describe('module signatures', () => {
  /** As `sign-file` appends it: message, 12 bytes with the length in big-endian order, magic. */
  const signed = (message: Uint8Array, length = message.length, signer = 0, key = 0): Uint8Array =>
    joined(
      object,
      message,
      new Uint8Array([
        0,
        0,
        2,
        signer,
        key,
        0,
        0,
        0,
        length >>> 24,
        (length >>> 16) & 255,
        (length >>> 8) & 255,
        length & 255,
      ]),
      SIGNATURE_MAGIC,
    );

  test('is found, and is what follows the ELF part', () => {
    const message = new Uint8Array(0x2a9).fill(0x30);
    const bytes = signed(message);
    const signature = readModuleSignature(bytes)!;
    expect(signature).toMatchObject({ offset: object.length, size: 0x2a9 + 12 + 28, idType: 2 });
    expect(signature.message).toEqual(message);
    expect(readElf(bytes).elfSize).toBe(signature.offset);
  });

  test('lengths of signer and key count', () => {
    const signature = readModuleSignature(signed(new Uint8Array(100), 90, 4, 6))!;
    expect(signature.offset).toBe(object.length);
  });

  test('no magic, no signature', () => {
    expect(readModuleSignature(object)).toBe(null);
    expect(readModuleSignature(new Uint8Array(0))).toBe(null);
    expect(readModuleSignature(joined(signed(new Uint8Array(9)), '\n'))).toBe(null);
  });

  test('lengths that do not fit', () => {
    expect(refused(() => readModuleSignature(signed(new Uint8Array(9), object.length + 10)))).toBe('elf-malformed');
    expect(refused(() => readModuleSignature(signed(new Uint8Array(9), 0xffff_ffff)))).toBe('elf-malformed');
    expect(refused(() => readModuleSignature(joined(new Uint8Array(11), SIGNATURE_MAGIC)))).toBe('elf-malformed');
    expect(readModuleSignature(signed(new Uint8Array(0)))).toMatchObject({ size: 40 });
  });
});
