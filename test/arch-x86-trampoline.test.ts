/**
 * Private trampolines of x86-64, made of the entries of the guest runtime and of templates written
 * down here. What the bytes mean is asked of objdump; the vectors are those of X-TR-1 to 11.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  branchTarget,
  buildTrampoline,
  type BuiltTrampoline,
  calleeOf,
  checkTrampoline,
  findTemplate,
  freeTrampoline,
  jumpBytes,
  type OpsTrampoline,
  type OwnTrampoline,
  readTrampoline,
  retargetCall,
  type TemplateKind,
  type TextSeam,
  type TrampolineMaker,
  type TrampolineOps,
  type TrampolineTemplate,
  type TrampolineVariant,
  trampolineLayout,
  updateTrampoline,
} from '../src/arch-x86/trampoline.js';
import { pokeSteps } from '../src/arch-x86/live.js';
import { STB_GLOBAL } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import type { ConventionName } from '../src/machine/conventions.js';
import { runtimeObject } from '../src/runtime/index.js';
import { describeWith, run } from './support/tools.js';
import { conventionRow } from './support/conventions.js';

const BASE = 0x40_0000n;
const bytesOf = (text: string): Uint8Array => Uint8Array.from(text.split(' '), (each) => parseInt(each, 16));
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** The text of a runtime object as if it lay at BASE, with its global labels. */
function entriesOf(flavour: ConventionName): {
  readonly text: Uint8Array;
  readonly find: (name: string) => bigint | null;
} {
  const object = runtimeObject('x86-64', flavour);
  if (object === null) throw new Error(`no object ${flavour}`);
  const image = readElf(object);
  const text = image.section('.text');
  if (text === undefined) throw new Error('no text');
  const find = (name: string): bigint | null => {
    const index = image.symbols.find(name);
    if (index <= 0 || image.symbols.info[index]! >> 4 !== STB_GLOBAL) return null;
    return image.symbols.sectionIndex[index] === text.index ? BASE + image.symbols.value[index]! : null;
  };
  return { text: Uint8Array.from(image.contents(text)), find };
}

const made = { y2014: entriesOf('y2014'), modern: entriesOf('modern'), mcount: entriesOf('mcount') };
const flavourOf = (variant: TrampolineVariant): 'y2014' | 'modern' => (variant === '2014' ? 'y2014' : 'modern');

function templateOf(variant: TrampolineVariant, kind: TemplateKind): TrampolineTemplate {
  const template = findTemplate(kind, variant, made[flavourOf(variant)].find);
  if (template.kind === 'refused') throw new Error(template.reason);
  return template;
}
function bytesOfTemplate(template: TrampolineTemplate, from = made[flavourOf(template.variant)].text): Uint8Array {
  const offset = Number(template.start - BASE);
  return from.slice(offset, offset + template.size);
}
function built(request: Parameters<typeof buildTrampoline>[0]): BuiltTrampoline {
  const result = buildTrampoline(request);
  if (result.kind === 'refused') throw new Error(result.reason);
  return result;
}
function refusal(request: Parameters<typeof buildTrampoline>[0]): string {
  const result = buildTrampoline(request);
  return result.kind === 'refused' ? result.code : 'built';
}

const BOTH: readonly (readonly [TrampolineVariant, TemplateKind])[] = [
  ['2014', 'plain'],
  ['2014', 'regs'],
  ['modern', 'plain'],
  ['modern', 'regs'],
];

describe('entries that templates are made of', () => {
  test.each([
    ['2014', 'plain', 0x3a, 0x5c, null, 0x8b],
    ['2014', 'regs', 0x3b, 0xbf, null, 0x131],
    ['modern', 'plain', 0x67, 0x7e, null, 0xc2],
    ['modern', 'regs', 0x58, 0xc3, 0x115, 0x147],
  ] as const)('X-ENT-1 %s %s: labels where GNU as puts them', (variant, kind, opsLoad, call, directJump, size) => {
    expect(templateOf(variant, kind)).toMatchObject({ opsLoad, call, directJump, size });
  });

  test.each(BOTH)('T-X86-24 %s %s: the ops label begins 48 8b 15', (variant, kind) => {
    const template = templateOf(variant, kind);
    expect(hexOf(bytesOfTemplate(template).slice(template.opsLoad, template.opsLoad + 3))).toBe('488b15');
  });

  test('T-X86-24 the label stands right behind the save of the registers', () => {
    // Behind the store of the rip slot (2014: 48 89 94 24 80 …; modern plain: the rsp slot; modern
    // regs: sub $5,%rdi).
    const before = (variant: TrampolineVariant, kind: TemplateKind, size: number): string => {
      const template = templateOf(variant, kind);
      return hexOf(bytesOfTemplate(template).slice(template.opsLoad - size, template.opsLoad));
    };
    expect(before('2014', 'plain', 8)).toBe('4889942480000000');
    expect(before('2014', 'regs', 8)).toBe('4889942480000000');
    expect(before('modern', 'plain', 8)).toBe('48898c2498000000');
    expect(before('modern', 'regs', 4)).toBe('4883ef05');
  });

  test('T-X86-28 the labels are global; one that is missing refuses the trampoline with that reason', () => {
    for (const flavour of ['y2014', 'modern', 'mcount'] as const) {
      for (const name of conventionRow('x86-64', flavour).symbols.templates)
        expect([name, made[flavour].find(name) !== null]).toEqual([name, true]);
    }
    for (const stripped of conventionRow('x86-64', 'y2014').symbols.templates) {
      const kind: TemplateKind = stripped.includes('regs') ? 'regs' : 'plain';
      const found = findTemplate(kind, '2014', (name) => (name === stripped ? null : made.y2014.find(name)));
      expect(found).toMatchObject({ kind: 'refused', code: 'label-missing' });
      expect(found.kind === 'refused' && found.reason).toContain(stripped);
    }
    const jump = findTemplate('regs', 'modern', (name) => (name.endsWith('_jmp') ? null : made.modern.find(name)));
    expect(jump).toMatchObject({ code: 'label-missing' });
    const swapped = findTemplate('plain', '2014', (name) =>
      made.y2014.find(name === 'ftrace_call' ? 'ftrace_caller_op_ptr' : name),
    );
    expect(swapped).toMatchObject({ code: 'label-order' });
  });

  test('mcount entries make templates as well', () => {
    for (const kind of ['plain', 'regs'] as const) {
      const template = findTemplate(kind, '2014', made.mcount.find);
      if (template.kind === 'refused') throw new Error(template.reason);
      const bytes = bytesOfTemplate(template, made.mcount.text);
      expect(buildTrampoline({ template, bytes, address: 0x50_0000n, ops: 1n, callee: 0x41_0000n }).kind).toBe('built');
    }
  });
});

describe('X-TR: the block of 2014', () => {
  /** The template of the vector: nops, the load at 0x3c, a call somewhere behind it. */
  const vector = (): { template: TrampolineTemplate; bytes: Uint8Array } => {
    const bytes = new Uint8Array(0x9e).fill(0x90);
    bytes.set(bytesOf('48 8b 15 11 22 33 44'), 0x3c);
    bytes.set(bytesOf('e8 00 01 00 00'), 0x60);
    return {
      template: {
        kind: 'plain', variant: '2014', start: 0x4000n, size: 0x9e, opsLoad: 0x3c, call: 0x60, directJump: null, returnTo: 0x5000n,
      },
      bytes,
    }; // prettier-ignore
  };

  test('T-X86-14 X-TR-5 its vector', () => {
    const block = built({ ...vector(), address: 0x10000n, ops: 0xdeadbeefn, callee: null });
    expect(hexOf(block.bytes.slice(0x3f, 0x43))).toBe('60000000');
    expect(hexOf(block.bytes.slice(0x9e, 0xa3))).toBe('e95d4fffff');
    expect(hexOf(block.bytes.slice(0xa3, 0xab))).toBe('efbeadde00000000');
    expect(block.bytes).toHaveLength(0xab);
  });

  test.each(['plain', 'regs'] as const)(
    'T-X86-7 T-X86-8 X-TR-1 X-TR-2 %s: the copy of that entry, S + 13 bytes',
    (kind) => {
      const template = templateOf('2014', kind);
      const block = built({
        template,
        bytes: bytesOfTemplate(template),
        address: 0x50_0000n,
        ops: 0x60_0000n,
        callee: null,
      });
      expect(block.bytes).toHaveLength(template.size + 13);
      expect(block.sizeBytes).toBe(template.size + 13);
      const copied = block.bytes.slice(0, template.size);
      copied.set(bytesOfTemplate(template).slice(template.opsLoad + 3, template.opsLoad + 7), template.opsLoad + 3);
      expect(hexOf(copied)).toBe(hexOf(bytesOfTemplate(template)));
    },
  );

  test('T-X86-12 the ops word has 64 bits', () => {
    const template = templateOf('2014', 'plain');
    const ops = 0xffff_8880_dead_beefn;
    const block = built({ template, bytes: bytesOfTemplate(template), address: 0x50_0000n, ops, callee: 0x41_0000n });
    expect(new DataView(block.bytes.buffer).getBigUint64(template.size + 5, true)).toBe(ops);
    expect(readTrampoline(block.bytes, 0x50_0000n, block).ops).toBe(ops);
  });

  test('T-X86-27 the jump behind the end of the register entry is not in the copy', () => {
    const template = templateOf('2014', 'regs');
    const behind = made.y2014.text[Number(template.start - BASE) + template.size]!;
    expect([0xeb, 0xe9]).toContain(behind);
    const block = built({
      template,
      bytes: bytesOfTemplate(template),
      address: 0x50_0000n,
      ops: 1n,
      callee: 0x41_0000n,
    });
    expect(readTrampoline(block.bytes, 0x50_0000n, block).end).toEqual({
      kind: 'jump',
      target: made.y2014.find('ftrace_return'),
    });
    // popfq is the last instruction copied.
    expect(block.bytes[template.size - 1]).toBe(0x9d);
  });

  test('T-X86-45 X-TR-10 until the call is set it is the one of the template, at another place', () => {
    const template = templateOf('2014', 'plain');
    const bytes = bytesOfTemplate(template);
    const address = 0x50_0000n;
    const old = branchTarget(bytes.subarray(template.call), template.start + BigInt(template.call));
    const block = built({ template, bytes, address, ops: 1n, callee: null });
    expect(readTrampoline(block.bytes, address, block).callee).toBe(old! + (address - template.start));
  });

  test('T-X86-39 the load of the copy must be changed; a finished block that is moved keeps its ops and loses its branches', () => {
    const template = templateOf('2014', 'plain');
    const bytes = bytesOfTemplate(template);
    // As if it were linked: the word is 0x1000 behind the load.
    new DataView(bytes.buffer).setInt32(template.opsLoad + 3, 0x1000, true);
    const address = 0x50_0000n;
    const layout = trampolineLayout(template);
    const raw = new Uint8Array(layout.sizeBytes);
    raw.set(bytes);
    expect(readTrampoline(raw, address, layout).ops).toBeNull();
    const block = built({ template, bytes, address, ops: 0x1234n, callee: 0x41_0000n });
    const here = readTrampoline(block.bytes, address, block);
    const there = readTrampoline(block.bytes, address + 0x100n, block);
    expect(here).toEqual({ ops: 0x1234n, callee: 0x41_0000n, end: { kind: 'jump', target: template.returnTo } });
    expect(there).toEqual({
      ops: 0x1234n,
      callee: 0x41_0100n,
      end: { kind: 'jump', target: template.returnTo! + 0x100n },
    });
    expect(checkTrampoline(here, here)).toEqual([]);
    expect(checkTrampoline(there, here)).toEqual([
      'calls 0x410100, expected 0x410000',
      `ends in jmp 0x${(template.returnTo! + 0x100n).toString(16)}, expected jmp 0x${template.returnTo!.toString(16)}`,
    ]);
  });
});

describe('X-TR-11: the block of today', () => {
  test.each(['plain', 'regs'] as const)('%s: the copy, a return of 1, 2 or 5 bytes, the ops word behind it', (kind) => {
    const template = templateOf('modern', kind);
    const bytes = bytesOfTemplate(template);
    const request = { template, bytes, address: 0x50_0000n, ops: 0x1122_3344_5566_7788n, callee: 0x41_0000n };
    const tail = (block: BuiltTrampoline): string => hexOf(block.bytes.slice(template.size));
    expect(tail(built(request))).toBe('c38877665544332211');
    expect(tail(built({ ...request, returns: { kind: 'ret', sizeBytes: 2 } }))).toBe('c3cc8877665544332211');
    const thunk = built({
      ...request,
      returns: { kind: 'thunk', address: 0x50_0000n + BigInt(template.size) + 5n + 0x10n },
    });
    expect(tail(thunk)).toBe('e9100000008877665544332211');
    for (const block of [built(request), thunk]) {
      expect(readTrampoline(block.bytes, 0x50_0000n, block)).toMatchObject({
        ops: request.ops,
        callee: request.callee,
      });
      expect(new DataView(block.bytes.buffer).getInt32(template.opsLoad + 3, true)).toBe(
        block.opsOffset - template.opsLoad - 7,
      );
    }
  });

  test('regs: the jump to a direct caller becomes 66 90; another opcode there refuses', () => {
    const template = templateOf('modern', 'regs');
    const bytes = bytesOfTemplate(template);
    expect(bytes[0x115]).toBe(0x75);
    const request = { template, bytes, address: 0x50_0000n, ops: 1n, callee: 0x41_0000n };
    expect(hexOf(built(request).bytes.slice(0x115, 0x117))).toBe('6690');
    const other = bytes.slice();
    other[0x115] = 0x74;
    expect(refusal({ ...request, bytes: other })).toBe('direct-jump');
  });

  test('the call is written while building', () => {
    const template = templateOf('modern', 'plain');
    const request = { template, bytes: bytesOfTemplate(template), address: 0x50_0000n, ops: 1n };
    expect(refusal({ ...request, callee: null })).toBe('inner-call');
  });
});

describe('what refuses a template', () => {
  const plain = (variant: TrampolineVariant): Parameters<typeof buildTrampoline>[0] => {
    const template = templateOf(variant, 'plain');
    return { template, bytes: bytesOfTemplate(template), address: 0x50_0000n, ops: 1n, callee: 0x41_0000n };
  };
  /** The template with bytes in place of its first instruction, `sub $168,%rsp` (7 bytes). */
  const patched = (variant: TrampolineVariant, text: string): Parameters<typeof buildTrampoline>[0] => {
    const request = plain(variant);
    const bytes = request.bytes.slice();
    const put = bytesOf(text);
    bytes.fill(0x90, 0, 7);
    bytes.set(put);
    return { ...request, bytes };
  };

  test('T-X86-13 X-TR-4 the load must be 48 8b 15', () => {
    for (const variant of ['2014', 'modern'] as const) {
      const request = plain(variant);
      const bytes = request.bytes.slice();
      bytes[request.template.opsLoad + 2] = 0x0d;
      const result = buildTrampoline({ ...request, bytes });
      expect(result).toMatchObject({ code: 'ops-load' });
      expect(result.kind === 'refused' && result.reason).toContain('48 8b 0d');
      const noCall = request.bytes.slice();
      noCall[request.template.call] = 0xe9;
      expect(refusal({ ...request, bytes: noCall })).toBe('inner-call');
    }
  });

  test.each([
    ['mov d(%rip),%rax', '48 8b 05 00 10 00 00', 'rip-relative'],
    ['lea d(%rip),%rdi', '48 8d 3d 00 10 00 00', 'rip-relative'],
    ['cmpl $1,d(%rip)', '83 3d 00 10 00 00 01', 'rip-relative'],
    ['incq d(%rip) backwards', '48 ff 05 00 f0 ff ff', 'rip-relative'],
    ['call out', 'e8 00 10 00 00', 'branch-leaves'],
    ['jmp out', 'e9 00 f0 ff ff', 'branch-leaves'],
    ['je out', '0f 84 00 10 00 00', 'branch-leaves'],
    ['jmp short backwards', 'eb f0', 'branch-leaves'],
    ['jrcxz backwards', 'e3 f0', 'branch-leaves'],
  ])('X-TR-9 2014: %s', (_name, text, code) => {
    expect(refusal(patched('2014', text))).toBe(code);
  });

  test.each([
    ['a branch inside', 'eb 03'],
    ['a branch to the end, where the return jump stands', `e9 ${hexOf(Uint8Array.of(0x8b - 5))} 00 00 00`],
    ['an operand inside', '48 8b 05 10 00 00 00'],
  ])('X-TR-9 2014: %s moves along', (_name, text) => {
    expect(refusal(patched('2014', text))).toBe('built');
  });

  test('X-TR-11: displacements that leave the copy are adjusted by the distance; short ones cannot be', () => {
    for (const text of ['48 8b 05 00 10 00 00', '83 3d 00 10 00 00 01', 'e9 00 f0 ff ff', '0f 84 00 10 00 00']) {
      const request = patched('modern', text);
      const block = built(request);
      const field = text.startsWith('48') ? 3 : text.startsWith('e9') ? 1 : 2;
      const displacement = (bytes: Uint8Array): number => new DataView(bytes.buffer).getInt32(field, true);
      const shift = Number(request.template.start - request.address);
      expect(displacement(block.bytes) - displacement(request.bytes)).toBe(shift);
    }
    expect(refusal(patched('modern', 'eb f0'))).toBe('branch-leaves');
    expect(refusal({ ...patched('modern', '48 8b 05 00 10 00 80'), address: 0x7000_0000n, callee: 0x7000_1000n })).toBe(
      'out-of-reach',
    );
  });

  test('bytes that are no instruction, and labels inside one', () => {
    expect(refusal(patched('2014', '06 06'))).toBe('undecodable');
    // movabs swallows eight bytes: what follows is decoded out of step, over the label.
    const request = plain('2014');
    const bytes = request.bytes.slice();
    bytes.set(bytesOf('48 b8'), request.template.opsLoad - 8);
    expect(refusal({ ...request, bytes })).toBe('undecodable');
    expect(refusal({ ...request, bytes: request.bytes.slice(1) })).toBe('template-unreadable');
  });

  test('T-X86-41 everything must be within 2 GiB of the block', () => {
    for (const variant of ['2014', 'modern'] as const) {
      const request = plain(variant);
      expect(refusal({ ...request, callee: 0x1_0000_0000n + 0x50_0000n })).toBe('out-of-reach');
      expect(refusal({ ...request, address: 0x1_4000_0000n })).toBe('out-of-reach');
      const callers = { first: 0x40_0000n, last: 0x1_0000_0000n };
      expect(refusal({ ...request, callers })).toBe('out-of-reach');
      expect(refusal({ ...request, callers: { first: 0x40_0000n, last: 0x48_0000n } })).toBe('built');
    }
    // To the last byte: distance 0x7fffffff from the end of the call.
    const request = plain('2014');
    const end = request.address + BigInt(request.template.call) + 5n;
    expect(refusal({ ...request, callee: end + 0x7fff_ffffn })).toBe('built');
    expect(refusal({ ...request, callee: end + 0x8000_0000n })).toBe('out-of-reach');
  });

  test('T-X86-38 a jump from one address to another', () => {
    expect(hexOf(jumpBytes(0x401000n, 0x402345n) as Uint8Array)).toBe('e940130000');
    expect(hexOf(jumpBytes(0x401000n, 0x400000n) as Uint8Array)).toBe('e9fbefffff');
    expect(jumpBytes(0n, 0x8000_0005n)).toMatchObject({ code: 'out-of-reach' });
  });
});

describe('properties', () => {
  const near = fc.bigInt({ min: 0x1000_0000n, max: 0x5000_0000n });
  test.each(BOTH)('%s %s: what is read back is what was asked, and only the three places differ', (variant, kind) => {
    const template = templateOf(variant, kind);
    const bytes = bytesOfTemplate(template);
    fc.assert(
      fc.property(near, fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), near, near, (address, ops, callee, target) => {
        const block = built({ template, bytes, address, ops, callee });
        const reading = readTrampoline(block.bytes, address, block);
        expect(reading).toMatchObject({ ops, callee });
        const differs = [...block.bytes.slice(0, template.size)].flatMap((byte, i) => (byte === bytes[i] ? [] : [i]));
        const jump = template.directJump ?? -10;
        const allowed = (i: number): boolean =>
          (i >= template.opsLoad + 3 && i < template.opsLoad + 7) ||
          (i > template.call && i < template.call + 5) ||
          i === jump || i === jump + 1; // prettier-ignore
        expect(differs.filter((i) => !allowed(i))).toEqual([]);
        // T-X86-18: a change of the function changes four bytes at most.
        const at = address + BigInt(block.callOffset);
        const now = block.bytes.slice(block.callOffset, block.callOffset + 5);
        const store = retargetCall(now, at, target);
        if (store.kind === 'refused') throw new Error(store.reason);
        expect(store.after[0]).toBe(0xe8);
        expect(branchTarget(store.after, at)).toBe(target);
      }),
      { seed: 8, numRuns: 100 },
    );
  });

  test('no bytes make the builder throw', () => {
    const template = templateOf('modern', 'regs');
    const good = bytesOfTemplate(template);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(template.size - 1), fc.nat(255)), { minLength: 1, maxLength: 6 }),
        (changes) => {
          const bytes = good.slice();
          for (const [offset, value] of changes) bytes[offset] = value;
          const result = buildTrampoline({ template, bytes, address: 0x50_0000n, ops: 1n, callee: 0x41_0000n });
          expect(['built', 'refused']).toContain(result.kind);
        },
      ),
      { seed: 9, numRuns: 300 },
    );
  });
});

/** Memory with one text and an allocator, that can be told to fail. */
class Memory implements TextSeam {
  readonly log: string[] = [];
  readonly warnings: string[] = [];
  readonly blocks = new Map<bigint, Uint8Array>();
  next = 0x50_0000n;
  room = 10;
  unreadable = false;
  unwritable = false;
  noPatch = false;

  constructor(readonly text: Uint8Array) {}

  allocate(sizeBytes: number): bigint | null {
    this.log.push(`allocate ${String(sizeBytes)}`);
    if (this.room-- <= 0) return null;
    const address = this.next;
    this.next += 0x400n;
    this.blocks.set(address, new Uint8Array(sizeBytes));
    return address;
  }
  free(address: bigint): void {
    this.log.push(`free ${address.toString(16)}`);
    this.blocks.delete(address);
  }
  private at(address: bigint, sizeBytes: number): Uint8Array | null {
    for (const [start, bytes] of [...this.blocks, [BASE, this.text] as const]) {
      const offset = Number(address - start);
      if (offset >= 0 && offset + sizeBytes <= bytes.length) return bytes.subarray(offset, offset + sizeBytes);
    }
    return null;
  }
  read(address: bigint, sizeBytes: number): Uint8Array | null {
    if (this.unreadable) return null;
    return this.at(address, sizeBytes)?.slice() ?? null;
  }
  fill(address: bigint, bytes: Uint8Array): boolean {
    this.log.push(`fill ${String(bytes.length)}`);
    if (this.unwritable) return false;
    this.at(address, bytes.length)?.set(bytes);
    return true;
  }
  patch(address: bigint, before: Uint8Array, after: Uint8Array): boolean {
    this.log.push(`patch ${address.toString(16)}`);
    if (this.noPatch) return false;
    const bytes = this.at(address, after.length);
    expect(hexOf(bytes ?? new Uint8Array())).toBe(hexOf(before));
    bytes?.set(after);
    return true;
  }
  seal(): void {
    this.log.push('seal');
  }
  warn({ code }: { readonly code: string }): void {
    this.warnings.push(code);
  }
}

describe('X-TR: the life of a trampoline', () => {
  const OPS = 0x60_0000n;
  const maker = (variant: TrampolineVariant, change?: Partial<TrampolineMaker>): TrampolineMaker & { seam: Memory } => {
    const { text, find } = made[flavourOf(variant)];
    return { variant, find, ...change, seam: new Memory(text.slice()) };
  };
  const ops = (change: Partial<TrampolineOps> = {}): TrampolineOps => ({
    address: OPS, saveRegs: false, callee: 0x41_0000n, trampoline: { kind: 'none' }, ...change,
  }); // prettier-ignore
  const own = (trampoline: OpsTrampoline): OwnTrampoline => {
    if (trampoline.kind !== 'own') throw new Error('no trampoline');
    return trampoline;
  };
  const reading = (seam: Memory, { address, layout }: OwnTrampoline): ReturnType<typeof readTrampoline> =>
    readTrampoline(seam.blocks.get(address) ?? new Uint8Array(), address, layout);

  test.each(['2014', 'modern'] as const)(
    'T-X86-16 T-X86-20 X-TR-6 %s: created, with its call to the function',
    (variant) => {
      for (const saveRegs of [false, true]) {
        const m = maker(variant);
        const update = updateTrampoline(ops({ saveRegs }), m);
        expect(update.did).toBe('created');
        const trampoline = own(update.trampoline);
        expect(trampoline.layout.template).toBe(saveRegs ? 'regs' : 'plain');
        expect(reading(m.seam, trampoline)).toMatchObject({ ops: OPS, callee: 0x41_0000n });
        // X-TR-7: 2014 sets the call with the live method, today it is written while building.
        const call = (trampoline.address + BigInt(trampoline.layout.callOffset)).toString(16);
        const patch = variant === '2014' ? [`patch ${call}`] : [];
        const size = String(trampoline.layout.sizeBytes);
        expect(m.seam.log).toEqual([`allocate ${size}`, `fill ${size}`, ...patch, 'seal']);
        expect(m.seam.warnings).toEqual([]);
      }
    },
  );

  test.each(['2014', 'modern'] as const)(
    'T-X86-18 T-X86-19 T-X86-21 %s: one that is ours is re-pointed, nothing is allocated',
    (variant) => {
      for (const saveRegs of [false, true]) {
        const m = maker(variant);
        const first = own(updateTrampoline(ops({ saveRegs }), m).trampoline);
        const before = m.seam.blocks.get(first.address)!.slice();
        m.seam.log.length = 0;
        const update = updateTrampoline(ops({ saveRegs, callee: 0x42_3456n, trampoline: first }), m);
        expect(update).toEqual({ did: 'retargeted', trampoline: first });
        const after = m.seam.blocks.get(first.address)!;
        const differs = [...after].flatMap((byte, i) => (byte === before[i] ? [] : [i]));
        expect(differs.every((i) => i > first.layout.callOffset && i < first.layout.callOffset + 5)).toBe(true);
        expect(differs.length).toBeGreaterThan(0);
        expect(after[first.layout.callOffset]).toBe(0xe8);
        expect(m.seam.log).toEqual([`patch ${(first.address + BigInt(first.layout.callOffset)).toString(16)}`]);
        expect(updateTrampoline(ops({ saveRegs, callee: 0x42_3456n, trampoline: first }), m).did).toBe('nothing');
      }
    },
  );

  test('T-X86-17 a trampoline of the user is never changed', () => {
    const m = maker('2014');
    const trampoline: OpsTrampoline = { kind: 'user', address: 0x47_0000n };
    for (const saveRegs of [false, true]) {
      expect(updateTrampoline(ops({ saveRegs, trampoline }), m)).toEqual({ trampoline, did: 'nothing' });
    }
    expect(freeTrampoline(trampoline, m.seam)).toBe(trampoline);
    expect(m.seam.log).toEqual([]);
  });

  test('T-X86-9 no memory: no trampoline, no error, no warning', () => {
    for (const variant of ['2014', 'modern'] as const) {
      const m = maker(variant);
      m.seam.room = 0;
      expect(updateTrampoline(ops(), m)).toEqual({ trampoline: { kind: 'none' }, did: 'failed' });
      expect(m.seam.warnings).toEqual([]);
    }
  });

  test('T-X86-10 X-TR-3 a template that cannot be read: a warning, the memory is freed, no trampoline', () => {
    for (const variant of ['2014', 'modern'] as const) {
      const m = maker(variant);
      m.seam.unreadable = true;
      expect(updateTrampoline(ops(), m)).toEqual({ trampoline: { kind: 'none' }, did: 'failed' });
      expect(m.seam.warnings).toEqual(['template-unreadable']);
      expect(m.seam.log.at(-1)).toBe('free 500000');
      expect(m.seam.blocks.size).toBe(0);
      // A text that ends inside the entry reads the same way.
      const { find } = made[flavourOf(variant)];
      const cut: TrampolineMaker & { seam: Memory } = { variant, find, seam: new Memory(m.seam.text.slice(0, 0x20)) };
      expect(updateTrampoline(ops(), cut).did).toBe('failed');
      expect(cut.seam.warnings).toEqual(['template-unreadable']);
    }
  });

  test('T-X86-13 another load in the template: a warning, the memory is freed, no trampoline', () => {
    const m = maker('2014');
    m.seam.text[Number(made.y2014.find('ftrace_caller_op_ptr')! - BASE) + 2] = 0x0d;
    expect(updateTrampoline(ops(), m)).toEqual({ trampoline: { kind: 'none' }, did: 'failed' });
    expect(m.seam.warnings).toEqual(['ops-load']);
    expect(m.seam.blocks.size).toBe(0);
    // The other entry is intact.
    expect(updateTrampoline(ops({ saveRegs: true }), m).did).toBe('created');
  });

  test('T-X86-41 memory 4 GiB away: no trampoline', () => {
    for (const variant of ['2014', 'modern'] as const) {
      const m = maker(variant);
      m.seam.next = 0x1_4000_0000n;
      expect(updateTrampoline(ops(), m)).toEqual({ trampoline: { kind: 'none' }, did: 'failed' });
      expect(m.seam.warnings).toEqual(['out-of-reach']);
      expect(m.seam.blocks.size).toBe(0);
      const far = maker(variant);
      expect(updateTrampoline(ops({ callee: 0x1_4000_0000n }), far).did).toBe('failed');
      expect(far.seam.blocks.size).toBe(0);
    }
  });

  test('T-X86-22 a change of the call that fails is a warning, and the old call stays', () => {
    for (const variant of ['2014', 'modern'] as const) {
      const m = maker(variant);
      const first = own(updateTrampoline(ops(), m).trampoline);
      m.seam.noPatch = true;
      expect(updateTrampoline(ops({ callee: 0x42_0000n, trampoline: first }), m)).toEqual({
        trampoline: first,
        did: 'failed',
      });
      expect(m.seam.warnings).toEqual(['call-not-changed']);
      expect(reading(m.seam, first).callee).toBe(0x41_0000n);
      m.seam.noPatch = false;
      m.seam.blocks.get(first.address)![first.layout.callOffset] = 0xcc;
      expect(updateTrampoline(ops({ callee: 0x42_0000n, trampoline: first }), m).did).toBe('failed');
      m.seam.unreadable = true;
      expect(updateTrampoline(ops({ callee: 0x42_0000n, trampoline: first }), m).did).toBe('failed');
      expect(m.seam.warnings).toHaveLength(3);
    }
    // While creating, a call that cannot be set makes the block useless.
    const m = maker('2014');
    m.seam.noPatch = true;
    expect(updateTrampoline(ops(), m)).toEqual({ trampoline: { kind: 'none' }, did: 'failed' });
    expect(m.seam.blocks.size).toBe(0);
    const full = maker('modern');
    full.seam.unwritable = true;
    expect(updateTrampoline(ops(), full).did).toBe('failed');
    expect(full.seam.warnings).toEqual(['write-failed']);
    expect(full.seam.blocks.size).toBe(0);
  });

  test('T-X86-44 SAVE_REGS changed since: made anew of the other entry; 2014 would write over the middle of its copy', () => {
    for (const variant of ['2014', 'modern'] as const) {
      const m = maker(variant);
      const first = own(updateTrampoline(ops(), m).trampoline);
      const update = updateTrampoline(ops({ saveRegs: true, trampoline: first }), m);
      expect(update.did).toBe('rebuilt');
      expect(update.retired).toBe(first);
      const second = own(update.trampoline);
      expect(second.layout.template).toBe('regs');
      expect(reading(m.seam, second)).toMatchObject({ ops: OPS, callee: 0x41_0000n });
      // The first is untouched until nobody can be in it.
      expect(reading(m.seam, first)).toMatchObject({ ops: OPS, callee: 0x41_0000n });
      expect(freeTrampoline(first, m.seam)).toEqual({ kind: 'none' });
      expect(m.seam.blocks.has(first.address)).toBe(false);
      // The literal rule: offset of the register entry's call in a copy of the plain one. No call
      // stands there.
      const wrong = templateOf(variant, 'regs').call;
      const plain = built({
        template: templateOf(variant, 'plain'), bytes: bytesOfTemplate(templateOf(variant, 'plain')), address: 0x50_0000n, ops: 1n,
        callee: 0x41_0000n,
      }); // prettier-ignore
      expect(retargetCall(plain.bytes.slice(wrong, wrong + 5), 0x50_0000n + BigInt(wrong), 0x42_0000n)).toMatchObject({
        code: 'inner-call',
      });
    }
  });

  test('T-X86-21 H1 the inner call under the int3 protocol: at every store it is the old one, a trap or the new one', () => {
    const m = maker('2014');
    const first = own(updateTrampoline(ops(), m).trampoline);
    const at = first.address + BigInt(first.layout.callOffset);
    const seen = new Set<string>();
    m.seam.patch = (address, before, after): boolean => {
      const block = m.seam.blocks.get(first.address)!;
      const offset = first.layout.callOffset;
      expect(address).toBe(at);
      expect(hexOf(block.slice(offset, offset + 5))).toBe(hexOf(before));
      for (const step of pokeSteps([{ address, after }])) {
        if (step.kind === 'publish') {
          const [entry] = step.entries;
          expect(entry?.effect).toEqual({ kind: 'call', target: 0x42_3456n, returnTo: at + 5n });
        }
        if (step.kind !== 'store') continue;
        // One byte after the other, in both orders.
        const order = [...step.bytes.keys()];
        for (const i of step.phase === 'tail' ? order.reverse() : order) {
          block[offset + Number(step.address - at) + i] = step.bytes[i]!;
          const target = branchTarget(block.subarray(offset), at);
          seen.add(block[offset] === 0xcc ? 'trap' : `call 0x${target?.toString(16) ?? ''}`);
        }
      }
      return true;
    };
    expect(updateTrampoline(ops({ callee: 0x42_3456n, trampoline: first }), m).did).toBe('retargeted');
    expect([...seen]).toEqual(['trap', 'call 0x423456']);
  });

  test('X-TR-12: reverse lookup: what is called in the end', () => {
    const m = maker('modern');
    const first = own(updateTrampoline(ops(), m).trampoline);
    const read = (address: bigint, size: number): Uint8Array | null => m.seam.read(address, size);
    expect(calleeOf({ kind: 'trampoline', ...pick(first) }, read)).toBe(0x41_0000n);
    const stub = made.modern.find('ftrace_stub');
    for (const call of ['ftrace_call', 'ftrace_regs_call']) {
      expect(calleeOf({ kind: 'entry', call: made.modern.find(call)! }, read)).toBe(stub);
    }
    const graph = { kind: 'static', graphEntry: 0x47_0000n, graphHook: 0x48_0000n } as const;
    expect(calleeOf({ ...graph, address: 0x47_0000n }, read)).toBe(0x48_0000n);
    expect(calleeOf({ ...graph, address: 0x47_0001n }, read)).toBeNull();
    m.seam.blocks.get(first.address)![first.layout.callOffset] = 0xcc;
    expect(calleeOf({ kind: 'trampoline', ...pick(first) }, read)).toBeNull();
    m.seam.unreadable = true;
    expect(calleeOf({ kind: 'entry', call: made.modern.find('ftrace_call')! }, read)).toBeNull();
  });
});

function pick({ address, layout }: OwnTrampoline): Pick<OwnTrampoline, 'address' | 'layout'> {
  return { address, layout };
}

describeWith(['objdump'], 'blocks as objdump reads them', () => {
  function disassemble(bytes: Uint8Array, address: bigint): readonly string[] {
    const folder = mkdtempSync(join(tmpdir(), 'elftrace-tramp-'));
    try {
      const path = join(folder, 'code');
      writeFileSync(path, bytes);
      const text = run('objdump', [
        '-D', '-b', 'binary', '-m', 'i386:x86-64', '--no-show-raw-insn', `--adjust-vma=0x${address.toString(16)}`, path,
      ]).toString(); // prettier-ignore
      return text.split('\n').flatMap((line) => /^ +([0-9a-f]+):\t(.*?) *$/.exec(line)?.slice(1, 3).join(' ') ?? []);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  test.each(BOTH)('T-X86-11 T-X86-14 T-X86-20 %s %s: load, call and end', (variant, kind) => {
    const template = templateOf(variant, kind);
    const address = 0x50_1003n;
    const block = built({ template, bytes: bytesOfTemplate(template), address, ops: 0x60_0000n, callee: 0x41_0000n });
    const lines = disassemble(block.bytes, address);
    const at = (offset: number): string => (address + BigInt(offset)).toString(16);
    const word = (address + BigInt(block.opsOffset)).toString(16);
    const find = (offset: number): string =>
      (lines.find((line) => line.startsWith(`${at(offset)} `)) ?? '').replace(/\s+/g, ' ');
    expect(find(template.opsLoad)).toMatch(new RegExp(`mov 0x[0-9a-f]+\\(%rip\\),%rdx # 0x${word}$`));
    expect(find(template.call)).toBe(`${at(template.call)} call 0x410000`);
    if (template.returnTo === null) expect(find(template.size)).toBe(`${at(template.size)} ret`);
    else expect(find(template.size)).toBe(`${at(template.size)} jmp 0x${template.returnTo.toString(16)}`);
    if (template.directJump !== null) expect(find(template.directJump)).toBe(`${at(template.directJump)} xchg %ax,%ax`);
  });

  test('X-TR-9 adjusted operands and branches mean what they meant in the template', () => {
    for (const text of [
      '48 8b 05 00 10 00 00',
      '83 3d 00 10 00 00 01',
      'e9 00 f0 ff ff',
      '0f 84 00 10 00 00',
      'e8 11 22 33 00',
    ]) {
      const template = templateOf('modern', 'plain');
      const bytes = bytesOfTemplate(template);
      bytes.fill(0x90, 0, 7);
      bytes.set(bytesOf(text));
      const address = 0x51_2345n;
      const block = built({ template, bytes, address, ops: 1n, callee: 0x41_0000n });
      const target = (code: Uint8Array, start: bigint): string =>
        /0x[0-9a-f]+$/.exec(disassemble(code, start)[0] ?? '')?.[0] ?? '';
      expect(target(block.bytes, address)).toBe(target(bytes, template.start));
    }
  });
});
