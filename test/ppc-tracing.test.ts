/**
 * PowerPC dynamic ftrace on loaded images (T-PPC-9 to T-PPC-30): what is
 * verified before anything is written, both nop forms, near and far sites, and images that run.
 * Bytes are compared here without the tool's own plans; what a run must print is what the samples
 * print without tracing, which the loader's tests hold against GNU ld and qemu.
 */
import { describe, expect, test } from '@jest/globals';
import { bl, branchDisplacement, isBl, restoreToc } from '../src/arch-ppc/stubs.js';
import { branchReach } from '../src/arch-ppc/relocs.js';
import { reaches } from '../src/bits.js';
import { wordBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { checkAcceptance, type Plan, type PlanRequest, type Refusal } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import { waysTo } from '../src/patch/routes.js';
import { entryPoint } from '../src/program/entry-points.js';
import { planTracing, type Tracer } from '../src/tracing/tracing.js';
import { verify } from '../src/sites/verdicts.js';
import { traceDifferences, runWithBoth } from './support/compare-traces.js';
import { loadedCases, loadSamples, type LoadedCase, runImage, selectionOf, siteOf, trace } from './support/loaded.js';
import { differences, type Opened, openBytes, readSample } from './support/pipeline.js';
import { isLong, sampled } from './support/long.js';

const NOP = 0x6000_0000;
const B_OVER = 0x4800_0008;
const text = new TextEncoder();

const images = new Map<string, Uint8Array>();
/** The image of a case, laid out once; never changed in place. */
function imageOf(each: LoadedCase, stubs?: '2008'): Uint8Array {
  const key = `${each.name} ${stubs ?? ''}`;
  let bytes = images.get(key);
  if (!bytes) {
    bytes = loadSamples(each, stubs === undefined ? {} : { options: { machine: { 'ppc-stubs': stubs } } }).bytes;
    images.set(key, bytes);
  }
  return bytes.slice();
}

const pgCases = loadedCases.filter(({ target, flavour }) => target !== 'ppc32' && flavour === 'pg');
const cases32 = loadedCases.filter(({ target }) => target === 'ppc32');
const FAR = 'far_one_peer';
const NEAR = 'core_callback';

/** A word of an image by address. */
function wordAt({ program }: Opened, address: bigint): number {
  return program.reader.u32(address);
}

/** The image with one word replaced. */
function withWord(bytes: Uint8Array, address: bigint, word: number): Uint8Array {
  const { image } = openBytes(bytes);
  const out = bytes.slice();
  out.set(wordBytes(word, image.header.endian), image.fileOffsetOf(address));
  return out;
}

function addressOf(opened: Opened, name: string): bigint {
  return opened.sites.ip(siteOf(opened, name));
}

/** Plans one function's site and gives its refusal; undefined when it is planned. */
function refusalOf(bytes: Uint8Array, name: string, request: Partial<PlanRequest> = {}): Refusal | undefined {
  const opened = openBytes(bytes);
  const selection = selectionOf(opened, [name]);
  const plan = planSites(opened.sites, { to: { kind: 'nop' }, selection, ...request });
  expect(plan.refusals.length + plan.changed + plan.unchanged).toBe(1);
  return plan.refusals[0];
}

function makeCall(opened: Opened): PlanRequest['to'] {
  const entry = entryPoint(opened.program, 'ftrace_caller')!;
  return (site, reading) => waysTo(opened.program, entry, opened.sites.ip(site), reading);
}

/** The refusal of enabling one function's site. */
function enableRefusal(bytes: Uint8Array, name: string): Refusal | undefined {
  const opened = openBytes(bytes);
  const selection = selectionOf(opened, [name]);
  return planSites(opened.sites, { to: makeCall(opened), selection }).refusals[0];
}

function applied(bytes: Uint8Array, make: (opened: Opened) => Plan): Uint8Array {
  const opened = openBytes(bytes);
  const plan = make(opened);
  checkAcceptance(plan, {});
  return applyPlan(opened.image, plan).bytes;
}

const nopped = (bytes: Uint8Array, form?: string): Uint8Array =>
  applied(bytes, ({ sites }) => planSites(sites, { to: form === undefined ? { kind: 'nop' } : { kind: 'nop', form } }));
const enabledSites = (bytes: Uint8Array): Uint8Array =>
  applied(bytes, (opened) => planSites(opened.sites, { to: makeCall(opened) }));

/** Address of the first stub of a part that leads to a symbol. */
function stubTo(opened: Opened, part: string, symbol: string): bigint {
  const target = entryPoint(opened.program, symbol)!.identity;
  const owner = opened.program.loadMap!.parts.find(({ name }) => name === part)!;
  for (const { address, sizeBytes, count } of owner.stubs) {
    for (let i = 0; i < count; i++) {
      const at = address + BigInt(i * sizeBytes);
      if (opened.program.stub(at)?.target === target) return at;
    }
  }
  const entry = owner.entryStubs.find((stub) => stub.symbol === symbol);
  if (!entry) throw new Error(`no stub to ${symbol}`);
  return entry.address;
}

const plain = new Map<string, ReturnType<typeof runImage>>();
/** The untouched image's run. */
function untraced(each: LoadedCase): ReturnType<typeof runImage> {
  let run = plain.get(each.name);
  if (!run) plain.set(each.name, (run = runImage(imageOf(each))));
  return run;
}

// --------------------------------------------------------------------------------- all conventions

describe.each(sampled(loadedCases, 2))('$name', (each) => {
  test('T-PPC-9: calls of _mcount become nops and calls of ftrace_caller, and the image does the same', () => {
    const bytes = imageOf(each);
    const opened = openBytes(bytes);
    expect(opened.sites.totals().byState).toEqual({ compiled: opened.sites.count });
    const { output, exit } = untraced(each);
    expect(output).toMatch(/checksum/);
    const off = nopped(bytes);
    expect(openBytes(off).sites.totals().byState).toEqual({ nop: opened.sites.count });
    expect(runImage(off)).toMatchObject({ output, exit });
    const on = trace(off);
    expect(openBytes(on).sites.totals().byState).toEqual({ call: opened.sites.count });
    expect(verify(openBytes(on).sites).verdicts).toEqual({ ok: opened.sites.count });
    expect(runImage(on)).toMatchObject({ output, exit });
    expect(openBytes(nopped(on)).sites.totals().byState).toEqual({ nop: opened.sites.count });
    expect(revert(readElf(on))).toEqual(bytes);
  });

  test.each<[string, Tracer]>([
    ['function', { kind: 'function' }],
    ['function_graph', { kind: 'function_graph' }],
  ])('F-9, RT-15: %s records what the machine sees', (_, tracer) => {
    const both = runWithBoth(trace(imageOf(each), { tracer }));
    expect(both.stop.kind).toBe('exit');
    expect(both.output).toBe(untraced(each).output);
    expect(traceDifferences(both)).toEqual([]);
    // The same program on every target and convention: 90 entries, and as many returns.
    expect(both.guest.filter(({ kind }) => kind === 'entry').length).toBe(90);
    expect(both.guest.filter(({ kind }) => kind === 'return').length).toBe(tracer.kind === 'function' ? 0 : 90);
  });

  test('the counter counts every hit, and a function of the image can be the tracer', () => {
    const counted = runImage(trace(imageOf(each), { tracer: { kind: 'counter' } }));
    expect(counted.word('elftrace_count')).toBe(90n);
    const named = runImage(trace(imageOf(each), { tracer: { kind: 'symbol', name: 'elftrace_counter' } }));
    expect(named.word('elftrace_count')).toBe(90n);
    const code = (error: unknown): string => (error instanceof ElftraceError ? error.code : String(error));
    const failing = (name: string): string => {
      try {
        trace(imageOf(each), { tracer: { kind: 'symbol', name } });
        return '';
      } catch (error) {
        return code(error);
      }
    };
    expect(failing('no_such_function')).toBe('no-match');
    if (each.target !== 'ppc32') expect(failing('far_one_peer')).toBe('unsupported-form');
  });

  test('T-PPC-22: the idle function, put in notrace, keeps its nop while all others are enabled', () => {
    const opened = openBytes(imageOf(each));
    const selection = new Uint8Array(opened.sites.count).fill(1);
    selection[siteOf(opened, 'core_idle')] = 0;
    const on = trace(imageOf(each), { selection });
    const after = openBytes(on);
    expect(after.sites.totals().byState).toEqual({ call: opened.sites.count - 1, nop: 1 });
    expect(after.sites.state(siteOf(after, 'core_idle'))).toBe('nop');
    const both = runWithBoth(on);
    expect(traceDifferences(both)).toEqual([]);
    expect(both.guest.map(({ name }) => name)).not.toContain('core_idle');
    expect(both.guest.length).toBeGreaterThan(50);
    // The twin: without notrace it is called, and seen.
    const all = runWithBoth(trace(imageOf(each)));
    expect([traceDifferences(all), all.guest.some(({ name }) => name === 'core_idle')]).toEqual([[], true]);
  });

  test('C-INIT-2: sites that the tracer does not get become nops; switching the last one off leaves the nops alone', () => {
    const bytes = imageOf(each);
    const opened = openBytes(bytes);
    const selection = selectionOf(opened, [FAR, NEAR]);
    const on = trace(bytes, { selection });
    expect(openBytes(on).sites.totals().byState).toEqual({ call: 2, nop: opened.sites.count - 2 });
    const half = trace(on, { tracer: null, selection: selectionOf(openBytes(on), [FAR]) });
    expect(openBytes(half).sites.totals().byState).toEqual({ call: 1, nop: opened.sites.count - 1 });
    expect(runImage(half)).toMatchObject({ output: untraced(each).output });
    const off = trace(half, { tracer: null });
    // Nothing remains: the bytes are those of the image whose sites were only made nops.
    expect(differences(off, nopped(bytes), bytes.length).filter((at) => at >= 64)).toEqual([]);
    expect(revert(readElf(off))).toEqual(bytes);
  });

  test('T-PPC-10 T-PPC-11: a flipped bit in any verified word of a far site is EINVAL or EFAULT, and nothing is planned', () => {
    const bytes = imageOf(each);
    const opened = openBytes(bytes);
    const ip = addressOf(opened, FAR);
    const site = siteOf(opened, FAR);
    const reading = opened.sites.reading(site)!;
    const stub = reading.target!;
    const read = opened.program.stub(stub)!;
    expect(read.target).toBe(entryPoint(opened.program, '_mcount')!.identity);
    const verified = [ip];
    if (reading.form === 'call-restore') verified.push(ip + 4n);
    // The stub with the address in its instructions does not read what stands behind them.
    const size = read.form === 'ppc64.absolute' ? 28 : read.sizeBytes;
    for (let at = stub; at < stub + BigInt(size); at += 4n) verified.push(at);
    // Words that no form of the stub gives a meaning: the one in front of the magic (ELFv2), what
    // stands behind the target.
    const idle = new Set<bigint>();
    for (let at = stub; at < stub + BigInt(read.sizeBytes); at += 4n) if (wordAt(opened, at) === 0) idle.add(at);
    if (read.slot !== null) for (let i = 0n; i < 8n; i += 4n) idle.delete(read.slot + i);
    if (read.targetToc !== null && read.slot !== null) idle.delete(read.slot + 8n);
    let flips = 0;
    for (const at of sampled(verified, 3)) {
      if (idle.has(at)) continue;
      const word = wordAt(opened, at);
      for (let bit = 0; bit < 32; bit++) {
        const broken = withWord(bytes, at, (word ^ (1 << bit)) >>> 0);
        const refusal = refusalOf(broken, FAR, { expect: 'mcount' });
        expect([at - stub, bit, refusal?.errno]).toEqual([at - stub, bit, expect.stringMatching(/^E(INVAL|FAULT)$/)]);
        flips++;
      }
    }
    expect(flips).toBeGreaterThanOrEqual(32 * (!isLong ? 1 : each.target === 'ppc32' ? 5 : 7));
    // The twin: nothing flipped, nothing refused.
    expect(refusalOf(bytes, FAR, { expect: 'mcount' })).toBeUndefined();
    // T-PPC-11: to another function's stub.
    const other = withWord(bytes, ip, bl(ip, stubTo(opened, 'far_one', 'core_register')));
    expect(refusalOf(other, FAR)).toMatchObject({ code: 'stub-wrong-target', errno: 'EINVAL' });
  });

  test('T-PPC-18: the expectations of _mcount and ftrace_caller are told apart', () => {
    const bytes = imageOf(each);
    const on = enabledSites(bytes);
    const caller = entryPoint(openBytes(on).program, 'ftrace_caller')!.identity;
    for (const name of [FAR, NEAR]) {
      expect(refusalOf(bytes, name, { expect: 'mcount' })).toBeUndefined();
      expect(refusalOf(on, name, { expect: caller })).toBeUndefined();
      expect(refusalOf(bytes, name, { expect: caller })).toMatchObject({ errno: 'EINVAL' });
      expect(refusalOf(on, name, { expect: 'mcount' })).toMatchObject({ errno: 'EINVAL' });
    }
    expect(refusalOf(on, FAR, { expect: 'mcount' })!.code).toBe('stub-wrong-target');
    expect(refusalOf(on, NEAR, { expect: 'mcount' })!.code).toBe('wrong-target');
  });

  test('C-MOD-3 P-STUB-3 T-PPC-14 T-PPC-16 T-PPC-23: the module stands in the image; without it, or without its stub, there is no call', () => {
    const bytes = imageOf(each);
    const off = nopped(bytes);
    const opened = openBytes(off);
    const ip = addressOf(opened, FAR);
    const part = opened.program.partOf(ip)!;
    expect(part).toMatchObject({ kind: 'module', name: 'far_one' });
    expect(part.toc === null).toBe(each.target === 'ppc32');
    expect(part.entryStubs.map(({ symbol }) => symbol)).toContain('ftrace_caller');
    // C-MOD-3: another module than the caller believes.
    expect(refusalOf(bytes, FAR, { module: 'far_one' })).toBeUndefined();
    expect(refusalOf(bytes, FAR, { module: 'far_two' })).toMatchObject({ code: 'wrong-module', errno: 'EINVAL' });

    const replaced = (from: string, to: string): Uint8Array => {
      const out = off.slice();
      const [needle, value] = [text.encode(from), text.encode(to)];
      let found = 0;
      for (let at = 0; at + needle.length <= out.length; at++) {
        if (needle.every((byte, i) => out[at + i] === byte)) {
          out.set(value, at);
          found++;
        }
      }
      expect(found).toBeGreaterThan(0);
      return out;
    };
    expect(enableRefusal(off, FAR)).toBeUndefined();
    // No stub of this name in the map.
    const noStub = replaced('"symbol":"ftrace_caller"', '"symbol":"ftrace_xaller"');
    expect(enableRefusal(noStub, FAR)).toMatchObject({ code: 'no-stub', errno: 'EINVAL' });
    expect(enableRefusal(noStub, NEAR)).toBeUndefined();
    // No map at all: the image as a linker might have made it.
    const noMap = replaced('.note.elftrace.load\0', '.note.elftrace.lost\0');
    expect(openBytes(noMap).program.loadMap).toBeNull();
    expect(enableRefusal(noMap, FAR)).toMatchObject({ code: 'no-module', errno: 'EINVAL' });
    expect(refusalOf(noMap, NEAR, { module: 'far_one' })).toMatchObject({
      code: 'wrong-module',
      errno: 'EFAULT',
    });
  });

  test('5.3: the stub that a call would use is verified before it is used', () => {
    const off = nopped(imageOf(each));
    const opened = openBytes(off);
    const part = opened.program.partOf(addressOf(opened, FAR))!;
    const stub = part.entryStubs.find(({ symbol }) => symbol === 'ftrace_caller')!.address;
    const { slot } = opened.program.stub(stub)!;
    const at = slot === null ? stub + 4n : slot + (opened.image.header.endian === 'big' ? 4n : 0n);
    const broken = withWord(off, at, (wordAt(opened, at) ^ 0x10) >>> 0);
    expect(enableRefusal(broken, FAR)).toMatchObject({ code: 'stub-wrong-target', errno: 'EINVAL' });
    expect(enableRefusal(broken, NEAR)).toBeUndefined();
  });

  test('T-PPC-25: what cannot be read is EFAULT, what may not be written EPERM', () => {
    const bytes = imageOf(each);
    const opened = openBytes(bytes);
    const ip = addressOf(opened, FAR);
    const beyond = withWord(bytes, ip, bl(ip, ip + 0x100_0000n));
    expect(refusalOf(beyond, FAR)).toMatchObject({ errno: 'EFAULT' });
    const start = opened.image.fileOffsetOf(ip);
    const readonlyRanges = [{ start, end: start + 4 }];
    expect(refusalOf(bytes, FAR, { readonlyRanges })).toMatchObject({ code: 'not-writable', errno: 'EPERM' });
    expect(refusalOf(bytes, NEAR, { readonlyRanges })).toBeUndefined();
    // A word of the runtime: the whole plan fails.
    const call = opened.image.fileOffsetOf(entryPoint(opened.program, 'ftrace_call')!.identity);
    expect(() =>
      planTracing(opened.sites, {
        tracer: { kind: 'function' },
        others: 'nop',
        readonlyRanges: [{ start: call, end: call + 4 }],
      }),
    ).toThrow(/EPERM/);
  });

  test('T-PPC-3: an ip with low bits set is EINVAL', () => {
    const bytes = imageOf(each);
    const { sites, image } = openBytes(bytes);
    const table = sites.tables.findIndex(({ name }) => name === '__mcount_loc');
    const position = sites.tables[table]!.position[0]!;
    const low = image.header.endian === 'big' ? image.wordBytes - 1 : 0;
    for (const bits of [1, 2, 3]) {
      const broken = bytes.slice();
      broken[position + low] = broken[position + low]! | bits;
      const plan = planSites(openBytes(broken).sites, { to: { kind: 'nop' } });
      expect(plan.refusals.map(({ code, errno }) => [code, errno])).toEqual([['misaligned', 'EINVAL']]);
      expect(() => {
        checkAcceptance(plan, {});
      }).toThrow(ElftraceError);
    }
    for (let i = 0; i < sites.count; i++) expect(sites.ip(i) % 4n).toBe(0n);
  });

  test('nothing is written when one site of all is bad (C-UPD-3)', () => {
    const bytes = imageOf(each);
    const opened = openBytes(bytes);
    const broken = withWord(bytes, addressOf(opened, NEAR), 0x3860_0001);
    const before = broken.slice();
    const { image, sites } = openBytes(broken);
    const plan = planTracing(sites, { tracer: { kind: 'function' }, others: 'nop' });
    expect(plan.refusals).toHaveLength(1);
    expect(plan.changed).toBe(sites.count - 1);
    expect(() => {
      checkAcceptance(plan, {});
    }).toThrow(/1 of \d+ sites refused/);
    expect(broken).toEqual(before);
    // A store that is refused late: still nothing.
    const good = openBytes(bytes);
    const whole = planTracing(good.sites, { tracer: { kind: 'function' }, others: 'nop' });
    let stores = 0;
    expect(() => applyPlan(good.image, whole, { mayStore: () => ++stores < whole.steps.length })).toThrow(/EPERM/);
    expect(good.image.bytes).toEqual(bytes);
    expect(image.bytes).toEqual(before);
  });
});

// ------------------------------------------------------------------------------------ 64 bits, -pg

describe.each(pgCases.flatMap((each) => ([undefined, '2008'] as const).map((stubs) => ({ ...each, stubs }))))(
  '$name with stubs of $stubs',
  ({ stubs, ...each }) => {
    const restore = restoreToc(each.target === 'ppc64-elfv1' ? 40 : 24);

    test('T-PPC-6 T-PPC-7: the compiler leaves bl and nop, the loader makes the nop of far calls the restore of r2', () => {
      const object = openBytes(readSample(`${each.target}/far-one${each.ending}.ko`));
      for (let i = 0; i < object.sites.count; i++) {
        const view = object.sites.viewOf(i);
        expect([isBl(view.u32(0)), view.u32(4)]).toEqual([true, NOP]);
      }
      const loaded = openBytes(imageOf(each, stubs));
      for (let i = 0; i < loaded.sites.count; i++) {
        const far = loaded.sites.module(i) !== null;
        expect(loaded.sites.viewOf(i).u32(4)).toBe(far ? restore : NOP);
      }
    });

    test('T-PPC-12 T-PPC-15 T-PPC-17: the form of 2008 writes two nops, and two words back', () => {
      const bytes = imageOf(each, stubs);
      const ip = addressOf(openBytes(bytes), FAR);
      const words = (image: Uint8Array): [number, number] => {
        const opened = openBytes(image);
        return [wordAt(opened, ip), wordAt(opened, ip + 4n)];
      };
      const off = nopped(bytes, '2008');
      expect(words(off)).toEqual([NOP, NOP]);
      expect(runImage(off)).toMatchObject({ output: untraced(each).output });
      const on = trace(off);
      const [call, next] = words(on);
      expect([isBl(call), next]).toEqual([true, restore]);
      expect(runImage(on)).toMatchObject({ output: untraced(each).output });
      expect(words(trace(on, { tracer: null, nopForm: '2008' }))).toEqual([NOP, NOP]);
      // The later form keeps the restore.
      const b8 = nopped(bytes);
      expect(words(b8)).toEqual([B_OVER, restore]);
      expect(words(trace(b8))).toEqual([call, restore]);

      // T-PPC-15: nop and something else.
      expect(enableRefusal(withWord(off, ip + 4n, 0x3860_0001), FAR)).toMatchObject({
        code: 'restore-slot',
        errno: 'EINVAL',
      });
      expect(enableRefusal(off, FAR)).toBeUndefined();
    });

    test('T-PPC-13: the word behind is tested before any change', () => {
      const bytes = imageOf(each, stubs);
      const ip = addressOf(openBytes(bytes), FAR);
      const call = wordAt(openBytes(bytes), ip);
      const broken = withWord(bytes, ip + 4n, 0x3860_0001);
      for (const form of ['2008', 'b8']) {
        expect(refusalOf(broken, FAR, { to: { kind: 'nop', form } })).toMatchObject({
          code: 'toc-restore-missing',
          errno: 'EINVAL',
        });
      }
      expect(wordAt(openBytes(broken), ip)).toBe(call);
    });

    test('T-PPC-30: of two broken things the earlier check speaks', () => {
      const bytes = imageOf(each, stubs);
      const opened = openBytes(bytes);
      const ip = addressOf(opened, FAR);
      const stub = opened.sites.reading(siteOf(opened, FAR))!.target!;
      const other = stubTo(opened, 'far_one', 'core_register');
      const breakages: readonly [string, string, (image: Uint8Array) => Uint8Array][] = [
        ['no bl', 'wrong-bytes', (image) => withWord(image, ip, 0x3860_0001)],
        // Of both stubs: the next breakage leads the call to the other one.
        [
          'stub contents',
          'wrong-target',
          (image) => withWord(withWord(image, stub + 16n, 0x3860_0001), other + 16n, 0x3860_0001),
        ],
        ['stub target', 'stub-wrong-target', (image) => withWord(image, ip, bl(ip, other))],
        ['next word', 'toc-restore-missing', (image) => withWord(image, ip + 4n, 0x3860_0001)],
      ];
      breakages.forEach(([, code, first], i) => {
        expect(refusalOf(first(bytes), FAR)?.code).toBe(code);
        for (const [, , second] of breakages.slice(i + 1)) {
          // The earlier one last: it must win although its place was written over.
          expect(refusalOf(first(second(bytes)), FAR)?.code).toBe(code);
        }
      });
    });

    test('T-PPC-1 T-PPC-29: in reach one word, out of reach the stub', () => {
      const opened = openBytes(imageOf(each, stubs));
      const caller = entryPoint(opened.program, 'ftrace_caller')!;
      const far = addressOf(opened, FAR);
      const near = addressOf(opened, NEAR);
      expect(reaches(branchReach, far, caller.address)).toBe(false);
      expect(reaches(branchReach, near, caller.address)).toBe(true);
      // The word behind a near site: neither read nor written.
      for (const follower of [NOP, 0x3860_0001, 0x7c00_0000]) {
        const bytes = withWord(imageOf(each, stubs), near + 4n, follower);
        const on = openBytes(
          applied(bytes, (one) => planSites(one.sites, { to: makeCall(one), selection: selectionOf(one, [NEAR]) })),
        );
        expect(wordAt(on, near)).toBe(bl(near, caller.address));
        expect(wordAt(on, near + 4n)).toBe(follower);
        // The twin: behind a far site the word must bring the TOC back, and what does not is
        // refused.
        const wrong = withWord(imageOf(each, stubs), far + 4n, follower);
        expect(refusalOf(wrong, FAR)?.code).toBe('toc-restore-missing');
      }
      const on = openBytes(enabledSites(imageOf(each, stubs)));
      const target = far + BigInt(branchDisplacement(wordAt(on, far)));
      expect(on.program.stub(target)?.target).toBe(caller.identity);
    });

    test('T-PPC-4: a function symbol names a descriptor of text address and TOC', () => {
      if (each.target !== 'ppc64-elfv1') return;
      const { program } = openBytes(imageOf(each, stubs));
      const descriptor = program.symbols.value[program.symbols.find(FAR)]!;
      const part = program.partOf(descriptor)!;
      expect(program.reader.u64(descriptor)).toBe(entryPoint(program, FAR)!.identity);
      expect(program.reader.u64(descriptor + 8n)).toBe(part.toc);
      expect(program.partOf(entryPoint(program, FAR)!.identity)).toBe(part);
    });
  },
);

// ----------------------------------------------------------------------------------------- 32 bits

describe.each(cases32.flatMap((each) => ([undefined, '2008'] as const).map((stubs) => ({ ...each, stubs }))))(
  '$name with stubs of $stubs',
  ({ stubs, ...each }) => {
    test('T-PPC-19 T-PPC-20 T-PPC-21: far sites go through lis, addi, mtctr, bctr; one word toggles', () => {
      const bytes = imageOf(each, stubs);
      const opened = openBytes(bytes);
      const ip = addressOf(opened, FAR);
      const stub = ip + BigInt(branchDisplacement(wordAt(opened, ip)));
      const register = stubs === '2008' ? 11 : 12;
      const words = [0n, 4n, 8n, 12n].map((delta) => wordAt(opened, stub + delta));
      expect(words.map((word) => word >>> 16)).toEqual([
        0x3c00 | (register << 5),
        0x3800 | (register << 5) | register,
        (0x7c09_03a6 | (register << 21)) >>> 16,
        0x4e80,
      ]);
      const mcount = Number(entryPoint(opened.program, '_mcount')!.identity);
      const low = ((words[1]! & 0xffff) << 16) >> 16;
      expect(((words[0]! << 16) + low) >>> 0).toBe(mcount);
      const after = wordAt(opened, ip + 4n);
      const off = openBytes(nopped(bytes));
      expect([wordAt(off, ip), wordAt(off, ip + 4n)]).toEqual([NOP, after]);
      const on = openBytes(trace(nopped(bytes)));
      const to = ip + BigInt(branchDisplacement(wordAt(on, ip)));
      expect(on.program.stub(to)?.target).toBe(entryPoint(on.program, 'ftrace_caller')!.identity);
      // T-PPC-20: neither _mcount nor ftrace_caller.
      const wrong = withWord(bytes, ip, bl(ip, stubTo(opened, 'far_one', 'core_register')));
      expect(refusalOf(wrong, FAR)).toMatchObject({ code: 'stub-wrong-target', errno: 'EINVAL' });
    });

    test('T-PPC-27: the core is in reach: one word nop and bl, no stub, no module in the record', () => {
      const bytes = imageOf(each, stubs);
      const opened = openBytes(bytes);
      const ip = addressOf(opened, NEAR);
      const on = enabledSites(bytes);
      expect(wordAt(openBytes(on), ip)).toBe(bl(ip, entryPoint(opened.program, 'ftrace_caller')!.address));
      for (const part of opened.program.loadMap!.parts) {
        for (const { address, sizeBytes, count } of part.stubs) {
          const at = opened.image.fileOffsetOf(address);
          expect(on.subarray(at, at + sizeBytes * count)).toEqual(bytes.subarray(at, at + sizeBytes * count));
        }
      }
      // The twin: out of reach it is a stub in such an area that the site calls.
      const areas = opened.program.loadMap!.parts.flatMap((part) => part.stubs);
      const isStub = (target: bigint): boolean =>
        areas.some(
          ({ address, sizeBytes, count }) => target >= address && target < address + BigInt(sizeBytes * count),
        );
      const far = addressOf(opened, FAR);
      const leads = [ip, far].map((at) => isStub(at + BigInt(branchDisplacement(wordAt(openBytes(on), at)))));
      expect(leads).toEqual([false, true]);
      // A program of a linker, without a map: its own sites need no module.
      const program = openBytes(readSample('ppc32/program-mcount'));
      expect(program.program.loadMap).toBeNull();
      const plan = planSites(program.sites, { to: { kind: 'nop' } });
      expect([plan.refusals.length, plan.changed]).toEqual([0, plan.selected]);
      expect(plan.selected).toBeGreaterThan(10);
    });
  },
);
