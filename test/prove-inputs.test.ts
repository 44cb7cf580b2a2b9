/** Bad input of proofs: an answer that says what is wrong, and is never `proved`. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { runtimeObject } from '../src/runtime/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { proof } from './support/proof.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-prove-inputs-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);
const bytesOf = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

function patched(name: string, ...options: readonly string[]): string {
  const output = at(`${name.replace('/', '-')}${options.join('')}`);
  const { status, stderr } = elftrace(['patch', sample(name), ...options, '-o', output]);
  expect([name, status, status === 0 ? '' : stderr]).toEqual([name, 0, '']);
  return output;
}

/** The position of a slot in a table of addresses. */
const slotAt = (bytes: Uint8Array, index: number): number =>
  readElf(bytes).section('__patchable_function_entries')!.offset + 8 * index;

test('PV-4: sites that overlap are inconclusive, and the one under them with them', async () => {
  const name = 'x86-64/program-patchable-5';
  const [original, image] = [bytesOf(sample(name)), bytesOf(patched(name, '--init'))];
  const good = await proof(original, image);
  expect([good.summary.different, good.summary.inconclusive]).toEqual([0, 0]);
  // The second slot leads into the window that the first one names.
  const [from, to] = [slotAt(original, 0), slotAt(original, 1)];
  const place = new DataView(original.buffer, original.byteOffset).getBigUint64(from, true);
  for (const bytes of [original, image])
    new DataView(bytes.buffer, bytes.byteOffset).setBigUint64(to, place + 2n, true);
  const { sites, summary } = await proof(original, image);
  const inside = sites.find(({ address }) => address === place + 2n)!;
  expect([inside.verdict, inside.reason]).toEqual(['inconclusive', 'not-reached']);
  // The site that no slot names any more changed, too.
  expect(summary.inconclusive + summary.unexplained.length).toBeGreaterThan(1);
});

test('PV-1: where no symbol says where functions begin, trials begin at the site', async () => {
  const name = 'x86-64/program-fentry-stripped';
  const [original, image] = [bytesOf(sample(name)), bytesOf(patched(name, '--nop'))];
  const { sites, summary } = await proof(original, image);
  expect([summary.proved > 10, summary.different, summary.inconclusive]).toEqual([true, 0, 0]);
  // The last byte of a nop of five becomes the first one of something else.
  const site = sites.find(({ reason }) => reason !== 'unchanged')!;
  const place = readElf(image).fileOffsetOf(site.address);
  expect(Buffer.from(image.subarray(place, place + 5)).toString('hex')).toBe('0f1f440000');
  // mov eax, 0
  image.set([0xb8, 0, 0, 0, 0], place);
  const wrong = (await proof(original, image)).sites.find(({ address }) => address === site.address)!;
  expect([wrong.verdict, wrong.account?.entry, wrong.account?.difference]).toMatchObject([
    'different',
    site.address,
    { what: 'register', name: 'rax' },
  ]);
});

test('PV-4: an original with other code beside its sites is no proof', async () => {
  const name = 'arm64/program-patchable-2';
  const [original, image] = [bytesOf(sample(name)), bytesOf(patched(name, '--init'))];
  const text = readElf(original).section('.text')!;
  // The last instruction of the section belongs to no site.
  original[text.offset + text.size - 4]! ^= 1;
  const { summary } = await proof(original, image);
  expect(summary.unexplained).toMatchObject([{ section: '.text', size: 1 }]);
});

test.each([
  [
    'a record whose file is another one',
    (bytes: Buffer, note: number) => {
      const digit = bytes.indexOf('"sha256":"', note) + 10;
      bytes.write(bytes.toString('latin1', digit, digit + 1) === '0' ? '1' : '0', digit, 'latin1');
    },
  ],
  [
    'a record that is cut off',
    (bytes: Buffer, note: number) => {
      bytes.fill(0, note + 40, note + 140);
    },
  ],
])('PV-4: %s is refused', (what, spoil) => {
  const name = 'x86-64/program-fentry';
  // With a runtime, the map of the image names the original as well.
  for (const way of ['--nop', '--enable']) {
    const bytes = Buffer.from(readFileSync(patched(name, way)));
    spoil(bytes, readElf(bytes).section('.note.elftrace')!.offset);
    writeFileSync(at('spoiled'), bytes);
    for (const files of [[at('spoiled')], [at('spoiled'), sample(name)]]) {
      const { status, stdout, stderr } = elftrace(['prove', ...files]);
      expect([what, way, status, stdout]).toEqual([what, way, 2, '']);
      expect(stderr).toMatch(/record/);
    }
  }
});

test('PV-4: a session of probes that does not give the bytes of the file is refused', () => {
  const name = 'ppc64-elfv2-le/program-mprofile';
  const session = patched(name, '--probe', 'p:x outer+0x10');
  const other = bytesOf(session);
  const image = readElf(other);
  const symbols = image.symbols;
  const place = Number(symbols.value[symbols.find('outer')]!) + 0x14;
  // Another breakpoint, of which no session tells.
  other.set(
    other.slice(image.fileOffsetOf(BigInt(place - 4)), image.fileOffsetOf(BigInt(place))),
    image.fileOffsetOf(BigInt(place)),
  );
  writeFileSync(at('other'), other);
  const { status, stdout } = elftrace(['prove', at('other'), sample(name)]);
  expect([status === 0, / proved, .* 0 different, 0 inconclusive\n$/.test(stdout) && status === 0]).toEqual([
    false,
    false,
  ]);
});

test('PV-4: an error names the file that it is about, and code that no site reaches leads back, too', () => {
  const file = patched('x86-64/program-fentry', '--enable', '--tracer', 'function_graph');
  const original = sample('x86-64/program-fentry');
  writeFileSync(at('text'), 'text\n');
  const said = (...words: readonly string[]): string => elftrace(['prove', ...words]).stderr;
  expect(said(file, at('text'))).toMatch(new RegExp(`^${at('text')}: error: the file does not begin with 7f`));
  expect(said(at('text'), file)).toMatch(new RegExp(`^${at('text')}: error: the file does not begin with 7f`));
  // Sites have trampolines of their own: the shared entry is executed by none.
  const bytes = bytesOf(file);
  const image = readElf(bytes);
  bytes[image.fileOffsetOf(image.symbols.value[image.symbols.find('ftrace_caller')]!)]! ^= 1;
  writeFileSync(at('other'), bytes);
  const { status, stderr } = elftrace(['prove', at('other'), original]);
  expect([status, stderr]).toEqual([
    2,
    expect.stringContaining(`${at('other')}: error: what its sites execute is proved`),
  ]);
});

test('PV-4: what calls tracers is no original of another traced file', () => {
  const name = 'arm64/program-patchable-2';
  const [one, other] = ['function', 'function_graph'].map((tracer) => patched(name, '--enable', '--tracer', tracer));
  const { status, stdout, stderr } = elftrace(['prove', other!, one!]);
  expect([status, stdout, stderr]).toEqual([2, '', expect.stringMatching(/calls tracers itself: the file that both/)]);
});

test('PV-4: a patched file is no original of itself; one that does not lead back says so', () => {
  const image = patched('arm64/program-patchable-2', '--enable');
  const { status, stdout, stderr } = elftrace(['prove', image, image]);
  expect([status, stdout, stderr]).toEqual([2, '', expect.stringMatching(/is the patched file itself: nothing is/)]);
  const bytes = bytesOf(image);
  // Text of the runtime, which no record tells of.
  const elf = readElf(bytes);
  const place = elf.fileOffsetOf(elf.symbols.value[elf.symbols.find('ftrace_stub')]!);
  bytes[place] = bytes[place]! ^ 1;
  writeFileSync(at('spoiled'), bytes);
  const other = elftrace(['prove', at('spoiled')]);
  expect([other.status, other.stdout]).toEqual([2, '']);
  expect(other.stderr).toMatch(/the record does not lead to the original, which may be named: /);
  expect(other.stderr).not.toContain('nothing was written');
});

test('PV-4: sites that did not change are proved by their bytes, where there are any; no site is no proof', () => {
  const nops = sample('arm64/program-patchable-2');
  const same = elftrace(['prove', nops, nops]);
  expect([same.status, same.stdout]).toEqual([
    0,
    expect.stringMatching(/ 0 proved, 19 unchanged, 0 different, 0 inconclusive\n$/),
  ]);
  // A byte beside them: functions without a site run, too.
  const bytes = bytesOf(nops);
  const image = readElf(bytes);
  bytes[image.fileOffsetOf(image.symbols.value[image.symbols.find('quiet')]!)]! ^= 1;
  writeFileSync(at('quiet'), bytes);
  expect(elftrace(['prove', at('quiet'), nops]).status).toBe(125);
  writeFileSync(at('none.o'), runtimeObject('arm64', 'regs')!);
  expect(elftrace(['prove', at('none.o'), at('none.o')])).toMatchObject({
    status: 125,
    stdout: expect.stringMatching(/ 0 sites: 0 proved, 0 unchanged/),
  });
});
