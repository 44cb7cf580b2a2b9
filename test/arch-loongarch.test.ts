/**
 * LoongArch: sites of the compilers and of kernels, what is done to them, and text of instructions
 * as binutils 2.47 read them; what is installed here does not know the machine. No program of it is
 * executed here but by qemu-user (samples.test).
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { loongarchIsa, loongarchTable } from '../src/arch-loongarch/isa.js';
import { loongarchRelocations } from '../src/arch-loongarch/relocs.js';
import { loongarchBranches, loongarchStubForms } from '../src/arch-loongarch/stubs.js';
import { loongarchMcount } from '../src/arch-loongarch/abi.js';
import { wordBytes } from '../src/bytes.js';
import type { AddressReader } from '../src/machine/stubs.js';
import { archOf } from '../src/arches.js';
import type { ElfHeader } from '../src/elf/image.js';
import { verify } from '../src/sites/verdicts.js';
import { builtFolder } from '../scripts/build-samples.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { openBytes, readSample } from './support/pipeline.js';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'loongarch-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const NOP = '00004003';
const MOVE = '2c001500';
const sample = (name: string): string => join(builtFolder, 'loongarch64', name);
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Everything that each site owns. */
function siteBytes(bytes: Uint8Array): string[] {
  const { sites } = openBytes(bytes);
  return Array.from({ length: sites.count }, (_, i) => {
    const reading = sites.reading(i)!;
    return hexOf(sites.viewOf(i).bytes(reading.startDelta, reading.sizeBytes));
  });
}
const bytesOf = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

describe('sites of the compilers', () => {
  test.each([
    ['module-patchable-2.ko', 'loongarch.patchable', 'nops', NOP + NOP],
    ['module-mcount.ko', 'loongarch.mcount', 'pair', '0100001e2100004c'],
    ['module-mcount-fixed.ko', 'loongarch.mcount', 'pair', '0100001e2100004c'],
    ['module-mcount-recorded.ko', 'loongarch.mcount', 'bl', '00000054'],
  ])('L-SITE-1 L-SITE-3 L-REC-1 %s: 11 sites, all ok', (name, shape, form, bytes) => {
    const { sites } = openBytes(readSample(`loongarch64/${name}`));
    expect(sites.totals()).toEqual({ total: 11, byState: { compiled: 11 }, byShape: { [shape]: 11 } });
    expect(verify(sites).verdicts).toEqual({ ok: 11 });
    expect(sites.reading(0)!.form).toBe(form);
    expect(new Set(siteBytes(readSample(`loongarch64/${name}`)))).toEqual(new Set([bytes]));
  });

  test('L-SITE-4 slots that name nops in front of functions are unsupported, and the reason says why', () => {
    const { verdicts, findings } = verify(openBytes(readSample('loongarch64/module-patchable-4-2.ko')).sites);
    expect(verdicts).toEqual({ 'unsupported-shape': 11 });
    expect(findings[0]!.message).toContain('in front of the function');
  });

  test.each([
    ['program-mcount', 'loongarch.mcount', 18],
    ['program-patchable-2', 'loongarch.patchable', 19],
    ['shared-mcount.so', 'loongarch.mcount', 18],
  ])('M-WEAK-1 %s: linked sites', (name, shape, total) => {
    const { sites } = openBytes(readSample(`loongarch64/${name}`));
    expect(sites.totals()).toEqual({ total, byState: { compiled: total }, byShape: { [shape]: total } });
    expect(verify(sites).verdicts).toEqual({ ok: total - 1, 'weak-leftover': 1 });
  });

  test('a linked call leads through a linkage table to the slot of _mcount', () => {
    const { program, sites } = openBytes(readSample('loongarch64/shared-mcount.so'));
    expect(program.stub(sites.reading(0)!.target!)?.form).toBe('loongarch.plt');
  });
});

describe('what is done to them', () => {
  test.each(['module-mcount.ko', 'module-mcount-recorded.ko', 'program-mcount', 'shared-mcount.so'])(
    'L-SITE-3 L-MOD-1 %s: --nop, and the way back',
    async (name) => {
      const [off, back] = [join(folder, `off-${name}`), join(folder, `back-${name}`)];
      expect((await elftrace(['patch', sample(name), '--nop', '-o', off])).status).toBe(0);
      const { sites, image } = openBytes(bytesOf(off));
      const expected = verify(openBytes(readSample(`loongarch64/${name}`)).sites).verdicts;
      expect(verify(sites).verdicts).toEqual(expected);
      // The body that no function names is left alone.
      expect(siteBytes(bytesOf(off)).filter((each) => each === NOP).length).toBe(expected.ok);
      for (const table of image.relocations) {
        for (let row = 0; row < table.count; row++) {
          const isCall = table.symbols?.name(table.symbol[row]!) === '_mcount';
          if (isCall && image.header.type === 1) expect(table.type[row]).toBe(0);
        }
      }
      expect((await elftrace(['revert', off, '-o', back])).status).toBe(0);
      expect(readFileSync(back).equals(readFileSync(sample(name)))).toBe(true);
    },
  );

  test('L-REC-1 both words of a pair become nops, and no mark of relaxation is left on them', async () => {
    const off = join(folder, 'pair.ko');
    expect((await elftrace(['patch', sample('module-mcount.ko'), '--nop', '-o', off])).status).toBe(0);
    const before = openBytes(readSample('loongarch64/module-mcount.ko')).sites;
    const { sites } = openBytes(bytesOf(off));
    for (let i = 0; i < sites.count; i++) {
      expect(hexOf(before.viewOf(i).bytes(0, 8))).toBe('0100001e2100004c');
      expect(hexOf(sites.viewOf(i).bytes(0, 8))).toBe(NOP + NOP);
      expect(
        sites
          .viewOf(i)
          .relocationsAt(0)
          .map(({ table, row }) => table.type[row]),
      ).toEqual([0, 0]);
    }
  });

  test('L-SITE-2 --init stores the move, --nop and --init again change nothing, revert undoes it', async () => {
    const [on, off, back] = ['init.ko', 'again.ko', 'back.ko'].map((name) => join(folder, name)) as [string, string, string]; // prettier-ignore
    const name = sample('module-patchable-2.ko');
    expect((await elftrace(['patch', name, '--init', '-o', on])).stdout).toContain('11 of 11 sites changed');
    expect(new Set(siteBytes(bytesOf(on)))).toEqual(new Set([MOVE + NOP]));
    expect(verify(openBytes(bytesOf(on)).sites).verdicts).toEqual({ ok: 11 });
    for (const way of ['--nop', '--init']) {
      expect((await elftrace(['patch', on, way, '-o', off])).stdout).toContain('0 of 11 sites changed');
    }
    expect((await elftrace(['revert', on, '-o', back])).status).toBe(0);
    expect(readFileSync(back).equals(readFileSync(name))).toBe(true);
  });

  test('--untrace takes a slot out of the table, and revert brings it back', async () => {
    const [out, back] = [join(folder, 'untraced.ko'), join(folder, 'traced.ko')];
    const name = sample('module-patchable-2.ko');
    const functions = (await elftrace(['list', name])).stdout.trim().split('\n');
    expect(functions.length).toBe(11);
    expect((await elftrace(['patch', name, '--untrace', '-l', functions[0]!, '-o', out])).status).toBe(0);
    expect((await elftrace(['list', out])).stdout.trim().split('\n')).toEqual(functions.slice(1));
    expect((await elftrace(['revert', out, '-o', back])).status).toBe(0);
    expect(readFileSync(back).equals(readFileSync(name))).toBe(true);
  });

  test('L-REC-1 L-REC-2 a table is made of the calls, that of .exit.text left out', async () => {
    const out = join(folder, 'recorded.ko');
    // Slots of code that a linker may still shorten would name other places then.
    const relaxed = await elftrace(['mcount', sample('module-mcount.ko'), '-o', out]);
    expect(relaxed.status).toBe(1);
    expect(relaxed.stderr).toContain('-mno-relax');
    expect((await elftrace(['mcount', sample('module-mcount-fixed.ko'), '-o', out])).status).toBe(0);
    const { sites } = openBytes(bytesOf(out));
    expect(sites.tables.map(({ name, count }) => [name, count])).toEqual([['__mcount_loc', 10]]);
    expect(verify(sites).verdicts).toEqual({ ok: 10 });
  });

  test('calls of tracers are refused with the reason, and nothing is written', async () => {
    const out = join(folder, 'never.ko');
    const args = ['--enable', '--entry', 'ftrace_caller', '-o', out];
    const { status, stderr } = await elftrace(['patch', sample('module-patchable-2.ko'), ...args]);
    expect(status).toBe(1);
    expect(stderr).toContain('there are no entries for it');
    expect(() => readFileSync(out)).toThrow('ENOENT');
  });

  test('run says that there is no emulator: 125', async () => {
    const { status, stdout, stderr } = await elftrace(['run', sample('program-mcount')]);
    expect([status, stdout]).toEqual([125, '']);
    expect(stderr).toContain('there is no emulator of LoongArch');
  });
});

/** Words stored over a copy of a sample, from the start of its first site on. */
function stored(name: string, words: readonly number[]): ReturnType<typeof openBytes> {
  const bytes = Uint8Array.from(readSample(`loongarch64/${name}`));
  const at = openBytes(bytes).sites.fileOffset(0);
  words.forEach((word, i) => bytes.set(wordBytes(word, 'little'), at + 4 * i));
  return openBytes(bytes);
}

describe('states of a linked site', () => {
  const site = openBytes(readSample('loongarch64/program-patchable-2'));
  const ip = site.sites.ip(0);
  const { symbols } = site.program;
  const mcount = symbols.value[symbols.find('_mcount')]!;
  const elsewhere = symbols.value[symbols.find('sys_write')]!;
  const bl = (to: bigint): number => new DataView(loongarchBranches.call.encode(ip, to).buffer).getUint32(0, true);
  const [NOP_WORD, MOVE_WORD] = [0x0340_0000, 0x0015_002c];

  test.each([
    ['initialised', [MOVE_WORD, NOP_WORD], 'nop', '', ''],
    ['on', [MOVE_WORD, bl(mcount)], 'call', '', ''],
    ['on, to a function', [MOVE_WORD, bl(elsewhere)], 'call', 'wrong-target', 'no tracing entry'],
    ['on without the move', [NOP_WORD, bl(mcount)], 'foreign', 'wrong-bytes', 'destroys the return address'],
    ['one nop', [NOP_WORD, 0x02ff_c063], 'foreign', 'wrong-bytes', 'two nops are needed'],
    ['no nop', [0x02ff_c063, NOP_WORD], 'foreign', 'wrong-bytes', 'neither nop nor move'],
    ['another register', [0x0015_002d, NOP_WORD], 'foreign', 'wrong-bytes', 'neither nop nor move'],
  ] as const)('L-SITE-2 C-UPD-2 %s', (_, words, state, verdict, why) => {
    const { sites } = stored('program-patchable-2', words);
    expect(sites.state(0)).toBe(state);
    const [finding] = verify(sites).findings.filter((each) => each.site === 0);
    expect(finding?.verdict ?? '').toBe(verdict);
    if (why !== '') expect(finding!.message).toContain(why);
  });
});

test.each([
  ['module-mcount-recorded.ko', [0x5400_0400], 'field is not zero'],
  ['module-mcount-recorded.ko', [0x0340_0000], 'still has a relocation'],
  ['module-mcount-recorded.ko', [0x5000_0000], 'neither nop nor bl'],
  ['module-patchable-2.ko', [0x0015_002c, 0x5400_0000], 'without a relocation'],
] as const)('C-UPD-2 %s with words %j is wrong', (name, words, why) => {
  const { verdicts, findings } = verify(stored(name, words).sites);
  expect(verdicts).toEqual({ ok: 10, 'wrong-bytes': 1 });
  expect(findings[0]!.message).toContain(why);
});

test('L-REC-1 a call through a register is unsupported, and the reason says why', () => {
  const bytes = Uint8Array.from(readSample('loongarch64/module-mcount-fixed.ko'));
  const { image, sites } = openBytes(bytes);
  const view = new DataView(bytes.buffer);
  const [table] = image.relocations.filter((each) => image.sections[each.target]?.name === '.text');
  const rows = image.section('.rela.text')!;
  for (let row = 0; row < table!.count; row++) {
    // pcalau12i $t0 and GOT_PC_HI20 in place of pcaddu18i $ra and CALL36.
    if (table!.symbols!.name(table!.symbol[row]!) === '_mcount') view.setUint32(rows.offset + 24 * row + 8, 75, true);
  }
  const inText = Array.from({ length: sites.count }, (_, i) => i).filter((i) => sites.codeRange(i)!.name === '.text');
  for (const i of inText) view.setUint32(sites.fileOffset(i), 0x1a00_000c, true);
  const { verdicts, findings } = verify(openBytes(bytes).sites);
  expect(verdicts).toEqual({ ok: sites.count - inText.length, 'unsupported-shape': inText.length });
  expect(findings[0]!.message).toContain('through a register');
});

test('L-REC-1 pairs in linked code are calls; a jirl of another register is none', () => {
  const words = [0x1e00_0021, 0x4fff_fc21, 0x0340_0000, 0x5400_0400, 0x1e00_0021, 0x4c00_0181];
  const code = Uint8Array.from(words.flatMap((word) => [...wordBytes(word, 'little')]));
  const seen: bigint[] = [];
  const found = loongarchMcount.findCalls(code, 0, code.length, 0x1000n, (target) => seen.push(target) > 0);
  expect(found).toEqual([0, 12]);
  expect(seen).toEqual([0x1000n + 0x4_0000n - 4n, 0x100cn + 4n]);
});

test('L-STUB-1 entries of a module lead to any address', () => {
  const form = loongarchStubForms.find(({ name }) => name === 'loongarch.module-plt')!;
  const encode = (mnemonic: string, operands: Record<string, number>): number => loongarchTable.encode(mnemonic, operands); // prettier-ignore
  for (const target of [0x9000_0000_0024_4748n, 0x1234_5678_9abc_def0n, 0xffff_8000_0000_0ffcn, 0x7ff_f800n]) {
    const part = (bits: number, shift: bigint): number => Number(BigInt.asIntN(bits, target >> shift));
    const words = [
      encode('lu12i.w', { rd: 13, imm: part(20, 12n) }),
      encode('lu32i.d', { rd: 13, imm: part(20, 32n) }),
      encode('lu52i.d', { rd: 13, rj: 13, imm: part(12, 52n) }),
      encode('jirl', { rd: 0, rj: 13, imm: Number(target & 0xfffn) }),
    ];
    const reader: AddressReader = { u32: (at) => words[Number(at) / 4] ?? -1, u64: () => null, u8: () => -1 };
    expect(form.read(reader, 0n, null)).toMatchObject({ target, sizeBytes: 16, slot: null });
    words[3] = encode('jirl', { rd: 1, rj: 13, imm: 0 });
    expect(form.read(reader, 0n, null)).toBeNull();
  }
});

/**
 * Words and text by `objdump -d -M no-aliases` of binutils 2.47.50.20261021, section at address 0;
 * distances of branches counted from their own place.
 */
const READ_BY_OBJDUMP: readonly (readonly [word: number, text: string])[] = [
  [0x03400000, 'andi $zero, $zero, 0x0'],
  [0x0015002c, 'or $t0, $ra, $zero'],
  [0x57fffbff, 'bl -8'],
  [0x53fff7ff, 'b -12'],
  [0x57fffdff, 'bl 134217724'],
  [0x54000200, 'bl -134217728'],
  [0x51234400, 'b 74564'],
  [0x1e000021, 'pcaddu18i $ra, 1'],
  [0x4ffffc21, 'jirl $ra, $ra, -4'],
  [0x1fffffa1, 'pcaddu18i $ra, -3'],
  [0x4dfffc21, 'jirl $ra, $ra, 131068'],
  [0x4c000020, 'jirl $zero, $ra, 0'],
  [0x4c000180, 'jirl $zero, $t0, 0'],
  [0x29c06061, 'st.d $ra, $sp, 24'],
  [0x27080061, 'stptr.d $ra, $sp, 2048'],
  [0x43ffc49f, 'beqz $a0, -60'],
  [0x47fffcaf, 'bnez $a1, 4194300'],
  [0x6bffbc85, 'bltu $a0, $a1, -68'],
  [0x15ffffed, 'lu12i.w $t1, -1'],
  [0x1600004d, 'lu32i.d $t1, 2'],
  [0x032401ad, 'lu52i.d $t1, $t1, -1792'],
  [0x4c0125a0, 'jirl $zero, $t1, 292'],
  [0x1c00040f, 'pcaddu12i $t3, 32'],
  [0x28f401ef, 'ld.d $t3, $t3, -768'],
  [0x4c0001ed, 'jirl $t1, $t3, 0'],
  [0x02ffc063, 'addi.d $sp, $sp, -16'],
  [0x037ffca4, 'andi $a0, $a1, 0xfff'],
  [0x00df00a4, 'bstrpick.d $a0, $a1, 0x1f, 0x0'],
  [0x002d18a4, 'alsl.d $a0, $a1, $a2, 0x3'],
  [0x002b0000, 'syscall 0x0'],
  [0x002a0007, 'break 0x7'],
];

describe('instructions', () => {
  test('the table has no contradictions', () => {
    expect(() => loongarchTable.check()).not.toThrow();
  });

  test.each(READ_BY_OBJDUMP)('%i is %s', (word, text) => {
    const place = 0x9000_0000_0100_0000n;
    const { mnemonic, operands } = loongarchIsa.decode(wordBytes(word, 'little'), 0, place);
    expect(loongarchTable.encode(mnemonic, operands)).toBe(word);
    const plain = loongarchTable.format({ row: loongarchTable.row(mnemonic), operands }, place, { aliases: false });
    const target = operands['off'] === undefined ? '' : `0x${(place + BigInt(operands['off'])).toString(16)}`;
    expect(target === '' ? plain : plain.replace(target, String(operands['off']))).toBe(text);
  });

  test('site words under the names that assemblers have for them', () => {
    const text = (word: number): string => {
      const bytes = wordBytes(word, 'little');
      return loongarchIsa.format(loongarchIsa.decode(bytes, 0, 0x1000n));
    };
    expect([0x0340_0000, 0x0015_002c, 0x57ff_fbff, 0x4c00_0020, 0x4c00_0180].map(text)).toEqual([
      'nop',
      'move $t0, $ra',
      'bl 0xff8',
      'ret',
      'jr $t0',
    ]);
  });

  test('what is no instruction of the table is one word', () => {
    const words = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 1);
    expect(loongarchIsa.decode(words, 0, 0n)).toMatchObject({ mnemonic: 'unknown', sizeBytes: 4 });
    expect(loongarchIsa.decode(words, 4, 0n)).toMatchObject({ mnemonic: 'unknown', sizeBytes: 1 });
  });
});

test('names of relocations that readelf 2.47 gives to numbers', () => {
  const names = { 0: 'NONE', 2: '64', 3: 'RELATIVE', 66: 'B26', 71: 'PCALA_HI20', 75: 'GOT_PC_HI20', 100: 'RELAX', 102: 'ALIGN', 109: '64_PCREL', 110: 'CALL36', 126: 'TLS_DESC_PCREL20_S2' }; // prettier-ignore
  for (const [type, name] of Object.entries(names)) {
    expect(loongarchRelocations.get(Number(type))?.name).toBe(`R_LARCH_${name}`);
  }
  expect(loongarchRelocations.size).toBe(130);
});

test('32-bit files and those of the other byte order are refused by name', () => {
  const { header } = openBytes(readSample('loongarch64/module-mcount.ko')).image;
  const like = (change: Partial<ElfHeader>): ElfHeader => ({ ...header, ...change });
  expect(archOf(header).target.id).toBe('loongarch64');
  expect(() => archOf(like({ is64: false }))).toThrow('32-bit files are not served');
  expect(() => archOf(like({ endian: 'big' }))).toThrow('are not 64-bit big-endian');
});

test('L-MOD-2 module loaders take what compilers of kernels make', () => {
  /** Types of the sections that a loader reads. */
  const types = (name: string): number[] => {
    const { image } = openBytes(readSample(`loongarch64/${name}`));
    const loaded = image.relocations.filter((each) => ((image.sections[each.target]?.flags ?? 0n) & 2n) !== 0n);
    return [...new Set(loaded.flatMap((each) => [...each.type]))];
  };
  const { takenInModules } = openBytes(readSample('loongarch64/module-mcount.ko')).arch.relocationRoles;
  const refused = (name: string): number[] => types(name).filter((type) => !takenInModules[0]!.has(type));
  expect(['module-mcount-recorded.ko', 'module-patchable-2.ko', 'module-patchable-4-2.ko'].flatMap(refused)).toEqual(
    [],
  );
  // CALL36, RELAX and ALIGN: what GCC makes where nothing is said.
  expect(refused('module-mcount.ko').sort((a, b) => a - b)).toEqual([65, 100, 102, 110]);
});
