/**
 * Sites of x86-64 that jump to their direct caller (DYNAMIC_FTRACE_WITH_JMP): the second form of a
 * site that is on. Programs run on the machine's own processor where that is one, and in the
 * emulator; races take every order of the stores against a thread.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { x86_64 } from '../src/arch-x86/index.js';
import { imageRace, parseRaceState, race, type RaceVariant } from '../src/race/index.js';
import { verify } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { FakeView, fromHex } from './support/fake-view.js';
import { isWhole, repeats } from './support/long.js';
import { openBytes, readSample } from './support/pipeline.js';
import { isX86Linux } from './support/processor.js';
import { describeWith, run, runProgramFile } from './support/tools.js';

/**
 * `victim` has its nops behind endbr64, `apart` has some in front as well. A caller that is jumped
 * to calls the function behind its site and adds to what it returns; one that is called counts.
 * The exit status is what both return, and sixteen for each count.
 */
const SOURCE = `
	.macro	begin name
	.balign	16
	.globl	\\name
	.type	\\name,%function
	.endm
	.macro	slot at
	.section __patchable_function_entries,"awo",%progbits,.text
	.balign	8
	.quad	\\at
	.text
	.endm
	.text
	begin	victim
victim:	endbr64
1:	nop; nop; nop; nop; nop
	lea	1(%rdi),%eax
	ret
	.size	victim,.-victim
	slot	1b
	.balign	16
2:	.fill	11,1,0x90
	.globl	apart
	.type	apart,%function
apart:	endbr64
	nop; nop; nop; nop; nop
	lea	2(%rdi),%eax
	ret
	.size	apart,.-apart
	slot	2b
	begin	jumped
jumped:	sub	$8,%rsp
	call	victim+9
	add	$8,%rsp
	add	$100,%eax
	ret
	.size	jumped,.-jumped
	begin	jumped2
jumped2: sub	$8,%rsp
	call	apart+9
	add	$8,%rsp
	add	$50,%eax
	ret
	.size	jumped2,.-jumped2
	begin	called
called:	incl	hits(%rip)
	ret
	.size	called,.-called
	.balign	2
	.byte	0x90
	.globl	odd
	.type	odd,%function
odd:	incl	hits(%rip)
	ret
	.size	odd,.-odd
	begin	_start
_start:	xor	%ebp,%ebp
	and	$-16,%rsp
	mov	$3,%edi
	call	victim
	mov	%eax,%ebx
	mov	$3,%edi
	call	apart
	add	%eax,%ebx
	mov	hits(%rip),%edi
	shl	$4,%edi
	add	%ebx,%edi
	mov	$60,%eax
	syscall
	.size	_start,.-_start
	.local	hits
	.comm	hits,4,4
	.section .note.GNU-stack,"",@progbits
`;

let folder = '';
const at = (name: string): string => join(folder, name);
const bytesOf = (name: string): Uint8Array => new Uint8Array(readFileSync(at(name)));
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'x86-jump-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** Exit status of a program, the same on the processor and in the emulator. */
function status(name: string): number | null {
  const emulated = elftrace(['run', at(name)]).status;
  if (isX86Linux) {
    chmodSync(at(name), 0o755);
    expect(runProgramFile(at(name)).status).toBe(emulated);
  }
  return emulated;
}

function patched(name: string, ...args: readonly string[]): string {
  const { status: code, stderr } = elftrace(['patch', ...args, at('program'), '-o', at(name)]);
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('error')]);
  return name;
}

/** Bytes of the site of a function. */
function siteOf(name: string, symbol: string): string {
  const { sites, program } = openBytes(bytesOf(name));
  const index = [...sites].find(({ functionSymbol }) => program.symbolName(functionSymbol) === symbol)!.index;
  const reading = sites.reading(index)!;
  return `${reading.state} ${reading.form} ${Buffer.from(sites.viewOf(index).bytes(reading.ipDelta, 1)).toString('hex')}`;
}

test('X-JMP-1 X-JMP-2: a table names a site that jumps, a scan for calls finds none', () => {
  const view = (code: string, functions = [0]): FakeView =>
    new FakeView({ code: fromHex(code), endian: 'little', base: 0x1000n, relocatable: false, functions });
  const [call5, call6, abs64, pad] = x86_64.siteShapes;
  const site = view('e9fb0f0000c3');
  expect(call5!.read(site, 'mcount-table')).toMatchObject({ state: 'call', form: 'jmp', target: 0x2000n, sizeBytes: 5 });
  expect(call5!.read(site, 'call')).toBeNull();
  expect(pad!.read(site, 'patchable-table')).toMatchObject({ state: 'call', form: 'jmp', target: 0x2000n });
  // Behind nops in front of the function a jump is its own, where no table names it.
  const front = view('9090909090e9f60f0000', [5]);
  expect(pad!.read(front, 'patchable-table')).toMatchObject({ state: 'foreign', form: 'before' });
  // And back: to a nop, to a call, to another jump.
  const reading = call5!.read(site, 'mcount-table')!;
  const after = (to: Parameters<NonNullable<typeof call5>['write']>[1]): string => {
    const change = call5!.write(reading, to, site);
    return 'refused' in change ? change.refused : Buffer.from(change.stores[0]!.after).toString('hex');
  };
  expect(after({ kind: 'nop' })).toBe('0f1f440000');
  expect(after({ kind: 'call', target: 0x3000n })).toBe('e8fb1f0000');
  expect(after({ kind: 'call', target: 0x3000n, jump: true })).toBe('e9fb1f0000');
  // push %r10; call; pop %r10
  const nested = view('4152e8f90f0000415ac3').at(2);
  const found = call5!.read(nested, 'mcount-table')!;
  expect(call5!.write(found, { kind: 'call', target: 0x3000n, jump: true }, nested)).toMatchObject({ refused: 'unsupported' });
  expect(call5!.write(found, { kind: 'call', target: 0x3000n }, nested)).toMatchObject({ rule: 'X-MOD-2' });
  for (const [shape, code] of [[call6, '660f1f440000'], [abs64, '660f1f8400000000000f1f4000']] as const) {
    const larger = view(code);
    const found = shape!.read(larger, 'mcount-table')!;
    expect(shape!.write(found, { kind: 'call', target: 0x2000n, jump: true }, larger)).toMatchObject({ refused: 'unsupported' });
  }
}); // prettier-ignore

describeWith(['x86_64-linux-gnu-gcc'], 'programs', () => {
  beforeAll(() => {
    writeFileSync(at('program.s'), SOURCE);
    run('x86_64-linux-gnu-gcc', ['-nostdlib', '-static', '-no-pie', at('program.s'), '-o', at('program')]);
  });

  test.each([
    ['victim', 'jumped', 109, 'e9'],
    ['apart', 'jumped2', 59, 'e9'],
  ])('X-JMP-1: %s jumps to %s, which returns to the caller of the function', (name, caller, expected, opcode) => {
    expect(status('program')).toBe(9);
    patched('on', '--direct', `${name}=jmp:${caller}`);
    expect(siteOf('on', name)).toBe(`call jmp ${opcode}`);
    expect(status('on')).toBe(expected);
    expect(verify(openBytes(bytesOf('on')).sites)).toMatchObject({ verdicts: { ok: 2 }, findings: [] });
    expect(elftrace(['status', at('on')]).stdout).toContain(`direct(jmp)-->${caller}`);
    const explained = elftrace(['explain', at('on'), name]).stdout;
    expect(explained).toContain('which the site jumps to');
  });

  test.each([
    ['victim', 'jmp:jumped', 109],
    ['apart', 'jmp:jumped2', 59],
    ['apart', 'called', 25],
  ])('X-JMP-3: %s=%s beside a tracer: the register entry goes on as the site would', (name, caller, expected) => {
    patched('both', '--direct', `${name}=${caller}`, '--enable');
    expect(siteOf('both', name)).toMatch(/^call \w+ e8$/);
    expect(verify(openBytes(bytesOf('both')).sites).verdicts).toEqual({ ok: 2 });
    expect(status('both')).toBe(expected);
  });

  test('X-JMP-1: jumps and calls change into each other and into nops, and all comes back', () => {
    const steps = (...list: readonly object[]): readonly string[] => {
      writeFileSync(at('session.json'), JSON.stringify({ version: 1, steps: list }));
      return ['--session', at('session.json')];
    };
    const jump = { direct: { function: 'victim', caller: 'jumped', jump: true } };
    const count = { 'modify-direct': { function: 'victim', caller: 'called' } };
    const back = { 'modify-direct': { function: 'victim', caller: 'jumped', jump: true } };
    patched('a', ...steps(jump, count));
    expect([siteOf('a', 'victim'), status('a')]).toEqual(['call call e8', 25]);
    patched('b', ...steps(jump, count, back));
    expect([siteOf('b', 'victim'), status('b')]).toEqual(['call jmp e9', 109]);
    patched('c', ...steps(jump, { 'no-direct': 'victim' }));
    expect([siteOf('c', 'victim'), status('c')]).toEqual(['compiled nops 90', 9]);
    const reverted = elftrace(['revert', at('b'), '-o', at('again')]);
    expect([reverted.status, bytesOf('again')]).toEqual([0, bytesOf('program')]);
  });

  test('X-JMP-1: a jump that the table does not name, and a call where it names a jump, are wrong targets', () => {
    patched('on', '--direct', 'victim=jmp:jumped');
    const { sites } = openBytes(bytesOf('on'));
    const index = [...sites].find(({ state }) => state === 'call')!.index;
    const place = sites.fileOffset(index) + sites.reading(index)!.ipDelta;
    const changed = (edit: (bytes: Uint8Array) => void): readonly object[] => {
      const bytes = bytesOf('on');
      edit(bytes);
      return verify(openBytes(bytes).sites).findings.map(({ verdict, rule }) => ({ verdict, rule }));
    };
    const wrong = [{ verdict: 'wrong-target', rule: 'X-JMP-1' }];
    expect(changed((bytes) => void (bytes[place] = 0xe8))).toEqual(wrong);
    expect(changed((bytes) => void bytes[place + 1]!++)).toEqual(wrong);
    // Without an entry that says so, as an image of an older kernel.
    const { image, program } = openBytes(bytesOf('on'));
    const flag = program.symbols.value[program.symbols.find('elftrace_direct_jumps')]!;
    expect(changed((bytes) => void (bytes[image.fileOffsetOf(flag)] = 0))).toEqual(wrong);
    // A program that was never patched.
    const plain = bytesOf('program');
    plain[place] = 0xe9;
    expect(verify(openBytes(plain).sites).findings).toMatchObject([{ verdict: 'wrong-target', rule: 'X-JMP-1' }]);
  });

  test('X-JMP-1: a caller at an odd address is called as ever, and not where bit 0 says jump', () => {
    patched('odd', '--direct', 'victim=odd');
    expect([siteOf('odd', 'victim'), status('odd')]).toEqual(['call call e8', 25]);
    const both = elftrace(['patch', '--direct', 'apart=jmp:jumped2', '--direct', 'victim=odd', at('program'), '-o', at('no')]);
    expect([both.status === 0, both.stderr]).toEqual([false, expect.stringContaining('odd address')]);
  }); // prettier-ignore

  const rows: readonly (readonly [string, string])[] = [
    ['nop', 'jmp:jumped'],
    ['jmp:jumped', 'nop'],
    ['direct:called', 'jmp:jumped'],
    ['jmp:jumped', 'direct:called'],
    ['jmp:jumped', 'call'],
  ];
  const raced = (from: string, to: string, variants: readonly RaceVariant[] = []): ReturnType<typeof race> => {
    const scene = imageRace({
      image: bytesOf('program'), site: 'victim', from: parseRaceState(from), to: parseRaceState(to), variants,
    });
    return race(scene.scene, scene.sequence, scene.options);
  }; // prettier-ignore

  test.each(isWhole ? rows : repeats([rows[0]!, rows[2]!]))(
    'X-JMP-4 H1 H9: from %s to %s, in every order',
    (from, to) => {
      const { verdict, bounds, counts } = raced(from, to);
      expect([verdict, bounds]).toEqual(['holds', []]);
      // One caller or the other, both on the way between them, and nothing else.
      const seen = new Set([...counts.outcomes.keys()].flatMap((each) => each.split(/[ ,+]+/)));
      expect(seen).toContain('jumped');
      expect([...seen].every((each) => ['-', 'jumped', 'called', 'elftrace_counter'].includes(each))).toBe(true);
    },
  );

  test('H1: a jump that is written byte by byte tears', () => {
    const { verdict, violations } = raced('nop', 'jmp:jumped', ['no-breakpoint']);
    expect([verdict, violations.map(({ rule }) => rule)]).toEqual([
      'violated',
      expect.arrayContaining(['torn-instruction']),
    ]);
  });
});

test('X-JMP-2: functions whose site cannot jump are refused, beside tracers too', () => {
  const refusals = [
    ['program-fentry', 'inner.0', 'static chain'],
    ['program-fentry-large', 'leaf', 'five bytes'],
  ] as const;
  for (const [program, name, reason] of refusals) {
    writeFileSync(at(program), readSample(`x86-64/${program}`));
    for (const more of [[], ['--enable']]) {
      const direct = (caller: string): string[] => [
        '--direct',
        `${name}=${caller}`,
        ...more,
        at(program),
        '-o',
        at('no'),
      ];
      const { status: code, stderr } = elftrace(['patch', ...direct('jmp:bump')]);
      expect([program, code === 0, stderr]).toEqual([program, false, expect.stringContaining(reason)]);
      expect([program, elftrace(['patch', ...direct('bump')]).status]).toEqual([program, 0]);
    }
  }
});

test('X-JMP-1: sites of other machines, and entries of 2014, only call', () => {
  writeFileSync(at('riscv'), readSample('riscv64/direct-rv64g'));
  const riscv = elftrace(['patch', '--direct', 'leaf=jmp:my_direct_caller', at('riscv'), '-o', at('no')]);
  expect([riscv.status === 0, riscv.stderr]).toEqual([false, expect.stringContaining('sites cannot jump')]);
});
