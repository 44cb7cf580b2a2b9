/**
 * Kernels as they are booted: what has an ELF file inside is read, the rest is named. Headers as
 * Linux and U-Boot document them.
 */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { unpackLz4Legacy } from '../src/elf/lz4.js';
import { unwrapKernel } from '../src/elf/wrapped.js';
import { withoutBranchFilter } from '../src/elf/xz-filters.js';
import { ElftraceError } from '../src/errors.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, readSample, root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'wrapped-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const elf = Buffer.from(readSample('x86-64/module-fentry.ko'));

const filter = (program: string, args: readonly string[], input: Uint8Array): Buffer => {
  const { status, stdout } = spawnSync(program, [...args], { input, maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${program} ends with ${status}`);
  return stdout as unknown as Buffer;
};
const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
/** As the build of Linux does for every form but gzip. */
const sized = (packed: Uint8Array, of: Uint8Array): Buffer => Buffer.concat([packed, u32(of.length)]);

/** A bzImage: boot sector, setup, and the payload somewhere in the protected-mode code. */
function bzImage(payload: Uint8Array, protocol = 0x20f): Buffer {
  const head = Buffer.alloc(5 * 512 + 700);
  head.write('MZ');
  head[0x1f1] = 4;
  head.set([0x55, 0xaa], 0x1fe);
  head.write('HdrS', 0x202, 'latin1');
  head.writeUInt16LE(protocol, 0x206);
  head.writeUInt32LE(700, 0x248);
  head.writeUInt32LE(payload.length, 0x24c);
  return Buffer.concat([head, payload, Buffer.alloc(99, 0xcc)]);
}

function zboot(payload: Uint8Array, form: string): Buffer {
  const head = Buffer.alloc(512);
  head.write('MZ\0\0zimg', 'latin1');
  head.writeUInt32LE(512, 8);
  head.writeUInt32LE(payload.length, 12);
  head.write(form, 24);
  head.writeUInt32LE(0x818223cd, 56);
  return Buffer.concat([head, payload, u32(0)]);
}

function uImage(payload: Uint8Array): Buffer {
  const head = Buffer.alloc(64);
  head.writeUInt32BE(0x27051956);
  head.writeUInt32BE(payload.length, 12);
  return Buffer.concat([head, payload]);
}

function unified(payload: Uint8Array): Buffer {
  const head = Buffer.alloc(0x200);
  head.write('MZ');
  head.writeUInt32LE(0x40, 0x3c);
  head.write('PE\0\0', 0x40, 'latin1');
  head.writeUInt16LE(2, 0x46);
  const section = (index: number, name: string, size: number): void => {
    head.write(name, 0x58 + index * 40, 'latin1');
    head.writeUInt32LE(size, 0x58 + index * 40 + 8);
    head.writeUInt32LE(Math.ceil(size / 512) * 512, 0x58 + index * 40 + 16);
    head.writeUInt32LE(0x200, 0x58 + index * 40 + 20);
  };
  section(0, '.osrel', 0);
  section(1, '.linux', payload.length);
  return Buffer.concat([head, payload, Buffer.alloc(512)]);
}

const flat = (at: number, magic: string): Buffer => {
  const bytes = Buffer.alloc(4096);
  bytes.write('MZ');
  bytes.write(magic, at, 'latin1');
  return bytes;
};
const arm64Image = flat(0x38, 'ARMd');
const riscvImage = flat(0x30, 'RISCV\0\0\0RSC\x05');

/** Legacy LZ4: literals, and matches wherever four bytes came before. */
function lz4(data: Uint8Array): Buffer {
  const out: Buffer[] = [u32(0x184c2102)];
  for (let from = 0; from < data.length; from += 1 << 23) {
    const block = lz4Block(data.subarray(from, from + (1 << 23)));
    out.push(u32(block.length), block);
  }
  return Buffer.concat(out);
}

function lz4Block(data: Uint8Array): Buffer {
  const out: number[] = [];
  const seen = new Map<string, number>();
  const more = (length: number): number[] =>
    length < 15 ? [] : [...Array<number>(Math.floor((length - 15) / 255)).fill(255), (length - 15) % 255];
  let start = 0;
  for (let at = 0; at + 12 < data.length;) {
    const key = data.subarray(at, at + 4).join();
    const before = seen.get(key);
    seen.set(key, at);
    if (before === undefined || at - before > 0xffff) {
      at++;
      continue;
    }
    let length = 4;
    while (at + length < data.length - 5 && data[before + length] === data[at + length]) length++;
    const literals = at - start;
    out.push((Math.min(literals, 15) << 4) | Math.min(length - 4, 15), ...more(literals));
    for (let i = start; i < at; i++) out.push(data[i]!);
    out.push((at - before) & 0xff, (at - before) >> 8, ...more(length - 4));
    at += length;
    start = at;
  }
  const rest = data.length - start;
  out.push(Math.min(rest, 15) << 4, ...more(rest));
  return Buffer.concat([Buffer.from(out), data.subarray(start)]);
}

const refusal = async (bytes: Uint8Array): Promise<[string, string | undefined, string | undefined]> => {
  try {
    await unwrapKernel(bytes);
  } catch (error) {
    if (error instanceof ElftraceError) return [error.code, error.context.reason, error.context.actual];
    throw error;
  }
  return ['accepted', undefined, undefined];
};

describe('lz4', () => {
  test('a block by hand: literals, a match that overlaps itself, the last literals', () => {
    const block = [0x32, 0x61, 0x62, 0x63, 0x03, 0x00, 0x50, 0x76, 0x77, 0x78, 0x79, 0x7a];
    const out = unpackLz4Legacy(Buffer.concat([u32(0x184c2102), u32(block.length), Buffer.from(block)]), 100);
    expect(Buffer.from(out).toString()).toBe('abcabcabcvwxyz');
  });

  test('what was packed comes back; damaged data are refused, and nothing else happens', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(1, 2, 255), { maxLength: 900 }),
        fc.nat(),
        fc.nat(255),
        (data, at, value) => {
          const packed = lz4(Uint8Array.from(data));
          expect([...unpackLz4Legacy(packed, 1000)]).toEqual(data);
          packed[4 + (at % Math.max(1, packed.length - 4))] = value;
          try {
            unpackLz4Legacy(packed, 1000);
          } catch (error) {
            expect(error).toBeInstanceOf(ElftraceError);
          }
        },
      ),
      { seed: 22, numRuns: 400 },
    );
    expect(() => unpackLz4Legacy(lz4(Buffer.alloc(5000)), 4999)).toThrow(/unpacks to more than 4999 bytes/);
  });
});

describeWith(['xz', 'zstd'], 'wrapped kernels', () => {
  const forms: readonly (readonly [string, (data: Uint8Array) => Buffer])[] = [
    ['gzip', (data) => gzipSync(data)],
    ['xz', (data) => sized(filter('xz', ['--check=crc32', '--x86', '--lzma2=dict=1MiB', '-c'], data), data)],
    ['xz', (data) => sized(filter('xz', ['--check=crc32', '--powerpc', '--lzma2=dict=1MiB', '-c'], data), data)],
    ['xz', (data) => sized(filter('xz', ['--check=crc32', '-c'], data), data)],
    ['zstd', (data) => sized(filter('zstd', ['-q', '-c'], data), data)],
    ['lz4', (data) => sized(lz4(data), data)],
  ];

  test.each(forms)('a bzImage with %s', async (form, pack) => {
    const payload = Buffer.concat([elf, Buffer.alloc(5, 1)]);
    const { layers, bytes } = (await unwrapKernel(bzImage(pack(payload))))!;
    expect(layers).toEqual(['bzImage', form]);
    expect(Buffer.compare(payload, bytes)).toBe(0);
  });

  test('branch filters of xz: random bytes and calls, several blocks, a wrong check', async () => {
    const random = Buffer.from(
      fc.sample(fc.uint8Array({ minLength: 60_000, maxLength: 60_000, size: 'max' }), { seed: 4, numRuns: 1 })[0]!,
    );
    // Opcodes and high bytes of near targets so often that the filter meets each of its cases.
    for (let i = 0; i < random.length; i += 2) if (random[i]! < 100) random[i] = [0xe8, 0xe9, 0, 0xff][random[i]! & 3]!;
    for (const arch of ['--x86', '--powerpc']) {
      const packed = filter('xz', ['--check=crc32', arch, '--lzma2', '--block-size=20000', '-T1', '-c'], random);
      const kernel = bzImage(sized(packed, random));
      expect(await refusal(kernel)).toEqual(['unsupported-form', 'wrapped-payload', 'bzImage, xz']);
      const filtered = withoutBranchFilter(packed)!;
      const out = filter('xz', ['-dc'], filtered.bytes);
      filtered.restore(out);
      expect(Buffer.compare(out, random)).toBe(0);
      const wrong = filter('xz', ['-dc'], filtered.bytes);
      wrong[30_000]! ^= 1;
      expect(() => {
        filtered.restore(wrong);
      }).toThrow(/checksum/);
    }
    expect(() => withoutBranchFilter(filter('xz', ['--check=crc64', '--x86', '--lzma2', '-c'], random))).toThrow(
      /only CRC32/,
    );
  });

  test('a size behind the payload that is not that of what comes out is refused', async () => {
    const wrong = Buffer.concat([filter('zstd', ['-q', '-c'], elf), u32(elf.length + 1)]);
    expect(await refusal(bzImage(wrong))).toEqual(['elf-malformed', undefined, undefined]);
  });

  test.each([
    ['arm64 Image', arm64Image, 'wrapped-flat'],
    ['gzip, arm64 Image', gzipSync(arm64Image), 'wrapped-flat'],
    ['RISC-V Image', riscvImage, 'wrapped-flat'],
    ['EFI zboot, gzip, arm64 Image', zboot(gzipSync(arm64Image), 'gzip'), 'wrapped-flat'],
    ['EFI zboot, zstd, RISC-V Image', zboot(filter('zstd', ['-q', '-c'], riscvImage), 'zstd'), 'wrapped-flat'],
    ['device tree or FIT image', Buffer.from('d00dfeed0000100000000000', 'hex'), 'wrapped-flat'],
    ['uImage, gzip', uImage(gzipSync(Buffer.alloc(300))), 'wrapped-payload'],
    ['bzImage', bzImage(elf, 0x207), 'wrapped-flat'],
    ['bzImage, bzip2', bzImage(sized(Buffer.from('BZh9'), elf)), 'wrapped-compression'],
    ['bzImage, lzma', bzImage(sized(Buffer.from([0x5d, 0, 0, 1]), elf)), 'wrapped-compression'],
    ['bzImage, lzo', bzImage(sized(Buffer.from('894c5a4f000d0a1a0a', 'hex'), elf)), 'wrapped-compression'],
    ['lz4 frame', Buffer.from('04224d186440', 'hex'), 'wrapped-compression'],
  ])('%s is named', async (layers, bytes, reason) => {
    expect(await refusal(bytes)).toEqual(['unsupported-form', reason, layers]);
  });

  test.each([
    ['uImage, gzip', uImage(gzipSync(elf))],
    ['unified kernel image, bzImage, gzip', unified(bzImage(gzipSync(elf)))],
    ['EFI zboot, gzip', zboot(gzipSync(elf), 'gzip')],
    ['lz4', lz4(elf)],
  ])('%s around an ELF file', async (layers, bytes) => {
    const unwrapped = (await unwrapKernel(bytes))!;
    expect([unwrapped.layers.join(', '), Buffer.compare(unwrapped.bytes, elf)]).toEqual([layers, 0]);
  });

  test('payloads that reach past the end are refused; ELF files and other bytes are nothing of the kind', async () => {
    const whole = bzImage(gzipSync(elf));
    expect((await refusal(whole.subarray(0, 4000)))[0]).toBe('elf-truncated');
    expect(await unwrapKernel(elf)).toBeNull();
    expect(await unwrapKernel(readSample('x86-64/program-fentry'))).toBeNull();
    expect(await unwrapKernel(Buffer.from('#!/bin/sh\n'))).toBeNull();
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.nat(255), async (at, value) => {
        const mutant = Buffer.from(whole);
        mutant[at % (5 * 512)] = value;
        expect((await refusal(mutant))[0]).toMatch(/^(accepted|elf-truncated|elf-malformed|unsupported-form)$/);
      }),
      { seed: 7, numRuns: 300 },
    );
  });

  describe('on the command line', () => {
    const path = join(folder, 'vmlinuz');
    writeFileSync(path, bzImage(sized(filter('xz', ['--check=crc32', '--x86', '--lzma2', '-c'], elf), elf)));
    const run = (...args: string[]): [number | null, string, string] => {
      const { status, stdout, stderr } = elftrace(args);
      return [status, stdout, stderr];
    };

    test('verbs that read work on the ELF file and say what was around it', () => {
      expect(run('info', path)[1]).toContain(`${path}(bzImage, xz): x86-64`);
      expect(JSON.parse(run('info', '--json', path)[1])).toMatchObject({ wrapped: ['bzImage', 'xz'] });
      expect(run('verify', path)).toEqual([0, expect.stringContaining('(bzImage, xz): x86-64: 11 sites: 11 ok'), '']);
      const [status, list, notice] = run('list', path);
      expect([status, list.trim().split('\n').length]).toEqual([0, 11]);
      expect(notice).toBe(`${path}(bzImage, xz): notice: functions of the ELF file inside\n`);
      expect(run('status', path)[0]).toBe(0);
      expect(run('status', path)[1]).toContain('(bzImage, xz)');
      expect(run('disasm', path, 'module_run')[0]).toBe(0);
    });

    test.each([
      ['patch', '--nop', path, '-o'],
      ['mcount', path, '-o'],
      ['revert', path, '-o'],
      ['load', path, '-o'],
      ['unload', path, 'part', '-o'],
    ])('%s refuses and says what to do', (...args) => {
      const output = join(folder, 'none');
      const [status, , stderr] = run(...args, output);
      expect([status, existsSync(output)]).toEqual([4, false]);
      expect(stderr).toMatch(/is bzImage, xz around an ELF file.*elftrace unwrap .* -o vmlinux/);
    });

    test('unwrap gives the ELF file, which is patched as every other', () => {
      const output = join(folder, 'vmlinux');
      const [status, stdout] = run('unwrap', '--json', path, '-o', output);
      expect(status).toBe(0);
      const schema = JSON.parse(readFileSync(join(root, 'schemas', 'unwrap.schema.json'), 'utf8')) as object;
      expect(new Ajv2020().validate(schema, JSON.parse(stdout))).toBe(true);
      expect(JSON.parse(stdout)).toMatchObject({ layers: ['bzImage', 'xz'], bytes: elf.length, output });
      expect(Buffer.compare(readFileSync(output), elf)).toBe(0);
      expect(run('patch', '--nop', output, '-o', join(folder, 'quiet'))[0]).toBe(0);
      const flat = join(folder, 'Image');
      writeFileSync(flat, arm64Image);
      const refused = run('unwrap', flat, '-o', join(folder, 'no'));
      expect([refused[0], existsSync(join(folder, 'no'))]).toEqual([4, false]);
      expect(refused[2]).toMatch(/^\S*Image: error: arm64 Image: no ELF file is inside/);
    });
  });
});

describeWith(['objcopy'], 'the wrapper of PowerPC', () => {
  test('an ELF file with .kernel:vmlinux.strip', async () => {
    const packed = join(folder, 'packed');
    writeFileSync(packed, gzipSync(elf));
    copyFileSync(join(builtSamples, 'ppc32', 'core-mcount'), join(folder, 'boot'));
    const { status } = spawnSync('objcopy', [
      `--add-section=.kernel:vmlinux.strip=${packed}`,
      join(folder, 'boot'),
      join(folder, 'zImage'),
    ]);
    expect(status).toBe(0);
    const { layers, bytes } = (await unwrapKernel(readFileSync(join(folder, 'zImage'))))!;
    expect([layers, Buffer.compare(bytes, elf)]).toEqual([['zImage', 'gzip'], 0]);
  });
});
