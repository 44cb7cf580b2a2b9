/**
 * Where a probe may go on x86-64, and where a jump: rules K-ADDR-1 to 7, X-2, X-3, K-BOOST-1, on a
 * program that the GNU assembler made.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { withRuntime } from '../src/tracing/inject.js';
import { explainProbe, planProbes, probeRoomFor, ProbeText } from '../src/kprobes/index.js';
import type { ProbeWhere } from '../src/kprobes/events.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { openBytes, readSample } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-kprobes-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const f = (name: string, body: string): string =>
  `.globl ${name}\n.type ${name},@function\n${name}:\n${body}\n.size ${name}, .-${name}\n`;

const SOURCE = `
.text
${f('plain', 'lea 1(%rax),%eax\n mov here(%rip),%ecx\n adc %ecx,%eax\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n ret')}
${f('pad', 'endbr64\n nopw 0(%rax,%rax)\n nop\n ret')}
${f('traps', 'ud2\n int $0x80\n int3\n nop\n ret')}
${f('segments', 'mov %eax,%ss\n lret\n ljmp *(%rax)\n iretq\n vmcall\n syscall\n sysretq\n ret')}
${f('branches', 'call plain\n jne 1f\n loop 1f\n call *%rax\n 1: ret\n nop\n nop\n nop\n nop\n nop')}
${f('into', 'nopw 0(%rax,%rax)\n nop\n 1: nopw 0(%rax,%rax)\n 2: nopl 0(%rax)\n nopw 0(%rax,%rax)\n nopw 0(%rax,%rax)\n jmp 2b')}
${f('table', 'nopw 0(%rax,%rax)\n nopw 0(%rax,%rax)\n jmp *%rax')}
${f('faults', 'nopw 0(%rax,%rax)\n 9: mov (%rax),%eax\n nopw 0(%rax,%rax)\n ret')}
${f('groups', '.byte 0xf6,0xc0,1\n .byte 0xf6,0xc8,1\n .byte 0xf7,0xc0,1,0,0,0\n .byte 0xf7,0xc8,1,0,0,0\n .byte 0xf7,0x08,1,0,0,0\n not %eax\n .byte 0xd0,0xe0\n .byte 0xd0,0xf0\n nop\n nop\n nop\n nop\n nop\n ret')}
${f('foreign', 'nopw 0(%rax,%rax)\n nopw 0(%rax,%rax)\n ret\n int3')}
${f('short', 'nop\n nop\n ret')}
${f('patched', '8: nopl 0(%rax,%rax)\n nop\n nop\n nop\n nop\n nop\n ret')}
${f('listed', 'nop\n ret')}
${f('clone', 'nop\n ret')}
${f('clone.cold', 'nop\n ret')}
${f('__cfi_plain', 'nop\n nop')}
${f('_start', 'ret')}
.section .noinstr.text,"ax"
${f('quiet', 'nop\n ret')}
.section .entry.text,"ax"
${f('entry', 'nopw 0(%rax,%rax)\n ret')}
.data
here: .long 5
.section _kprobe_blacklist,"a"
.quad listed, clone
.section __ex_table,"a"
.long 9b - ., 0, 0
.section __jump_table,"a"
.long 8b - ., 0
.quad 0
`;

describeWith(['gcc'], 'x86-64', () => {
  writeFileSync(join(folder, 'a.s'), SOURCE);
  run('gcc', ['-nostdlib', '-static', '-no-pie', '-Wl,--build-id=none', '-o', join(folder, 'a'), join(folder, 'a.s')]);
  const { program, sites } = openBytes(new Uint8Array(readFileSync(join(folder, 'a'))));
  const text = new ProbeText(program, sites);
  const at = (name: string, offset = 0): ProbeWhere => ({ kind: 'symbol', module: null, name, offset: BigInt(offset) });
  /** `mov copy boost`, or errno and reason of the refusal. */
  const probe = (name: string, offset = 0): string => {
    const found = text.validate(at(name, offset));
    if (found.kind === 'refused') return `${found.errno} ${found.code}`;
    const { method, boostable } = found.instruction;
    return `+${found.offset} ${method}${boostable ? ' boost' : ''}`;
  };
  const jump = (name: string, offset = 0): string => {
    const { jump: found } = explainProbe(text, at(name, offset));
    if (found === null) return 'no probe';
    return found.kind === 'refused' ? `${found.errno} ${found.code}` : `${found.bytes.length} bytes`;
  };

  test('K-ADDR-1 symbols, offsets and addresses; a landing pad is stepped over', () => {
    expect(probe('plain')).toBe('+0 copy boost');
    expect(probe('nobody')).toBe('ENOENT no-symbol');
    expect(probe('pad')).toBe('+4 copy boost');
    expect(probe('pad', 4)).toBe('+4 copy boost');
    const address = program.symbols.value[program.symbols.find('plain')]!;
    expect(text.validate({ kind: 'address', address })).toMatchObject({
      kind: 'valid',
      symbol: 'plain',
      atEntry: true,
    });
    expect(text.validate({ kind: 'address', address: address + 3n })).toMatchObject({ offset: 3, atEntry: false });
  });

  test('K-ADDR-2 text only', () => {
    expect(probe('here')).toBe('EINVAL not-text');
    expect(text.validate({ kind: 'address', address: 0x10n })).toMatchObject({ errno: 'EINVAL', code: 'not-text' });
  });

  test('K-ADDR-3 what must not be probed, clones and preambles too', () => {
    for (const name of ['quiet', 'entry', 'listed', 'clone', 'clone.cold', '__cfi_plain']) {
      expect([name, probe(name)]).toEqual([name, 'EINVAL blacklisted']);
    }
    expect(probe('patched')).toBe('EINVAL other-patch');
  });

  test('K-ADDR-4 instruction boundaries, counted from the start', () => {
    expect([0, 1, 2, 3, 4, 8, 9, 10, 11].map((offset) => probe('plain', offset).split(' ')[0])).toEqual([
      '+0', 'EILSEQ', 'EILSEQ', '+3', 'EILSEQ', 'EILSEQ', '+9', 'EILSEQ', '+11',
    ]); // prettier-ignore
    expect(probe('plain', 1)).toBe('EILSEQ not-a-boundary');
  });

  test('K-ADDR-5 instructions that cannot be probed', () => {
    expect([0, 2, 4].map((offset) => probe('traps', offset))).toEqual(Array(3).fill('EILSEQ trap'));
    expect(probe('segments', 0)).toBe('EINVAL masks-interrupts');
    expect(probe('segments', 2)).toBe('EOPNOTSUPP far-branch');
    expect(probe('segments', 3)).toBe('EOPNOTSUPP far-branch');
    expect(probe('segments', 5)).toBe('EOPNOTSUPP far-branch');
    expect(probe('segments', 7)).toBe('EOPNOTSUPP virtualisation');
    expect(probe('segments', 10)).toBe('+10 copy');
    expect(probe('segments', 12)).toBe('EOPNOTSUPP far-branch');
  });

  test('K-BOOST-1 branches are simulated, calls and syscalls are not followed by a jump', () => {
    expect([0, 5, 7, 9, 11].map((offset) => probe('branches', offset))).toEqual([
      '+0 simulate', '+5 simulate', '+7 simulate', '+9 simulate', '+11 copy boost',
    ]); // prettier-ignore
    expect(probe('faults', 5)).toBe('+5 copy');
  });

  test('K-BOOST-1 the second encoding of `test` (f6 and f7 with /1) and of shifts (/6) is not followed by a jump, their neighbours are', () => {
    expect([0, 3, 6, 12, 18, 24, 26, 28].map((offset) => probe('groups', offset))).toEqual([
      '+0 copy boost', '+3 copy', '+6 copy boost', '+12 copy', '+18 copy', '+24 copy boost', '+26 copy boost', '+28 copy',
    ]); // prettier-ignore
    // Nor may a window hold one.
    expect([3, 12, 18, 28].map((offset) => jump('groups', offset))).toEqual(Array(4).fill('EINVAL not-boostable'));
    expect([0, 6].map((offset) => jump('groups', offset))).toEqual(['EINVAL not-boostable', '6 bytes']);
  });

  test('X-1 X-2 X-3 where a jump may go', () => {
    expect(jump('plain')).toBe('9 bytes');
    expect(jump('plain', 9)).toBe('5 bytes');
    expect(jump('branches')).toBe('EINVAL not-boostable');
    // A branch leads to +11: no window may hold it, and a jump at +6 would end there, which is
    // refused as well.
    expect(jump('into')).toBe('5 bytes');
    expect(jump('into', 5)).toBe('6 bytes');
    expect(jump('into', 6)).toBe('EILSEQ branch-into-window');
    expect(jump('table')).toBe('EILSEQ indirect-jump');
    expect(jump('faults')).toBe('EILSEQ exception-table');
    expect(jump('foreign')).toBe('EILSEQ foreign-breakpoint');
    expect(jump('short')).toBe('EILSEQ too-short');
    expect(jump('patched', 4)).toBe('5 bytes');
    expect(jump('pad', 4)).toBe('5 bytes');
  });

  test('K-REL-1: a field that a loader still writes is in no probed instruction and in no window', () => {
    const path = (name: string): string => join(folder, name);
    writeFileSync(path('lib.s'), '.data\n.globl outside\n.type outside,@object\n.size outside,8\noutside: .quad 1');
    const body = 'nop\n movabs $outside,%rax\n lea 1(%rdi),%eax\n nop\n nop\n nop\n ret';
    writeFileSync(path('user.s'), `.text\n${f('_start', body)}`);
    const gcc = (...args: string[]): void => void run('gcc', ['-nostdlib', ...args]);
    gcc('-shared', '-o', path('lib.so'), path('lib.s'));
    // The dynamic linker writes into the text of this one.
    const link = ['-no-pie', '-Wl,-z,notext,-z,nocopyreloc', '-Wl,--emit-relocs'];
    gcc(...link, '-o', path('user'), path('user.s'), path('lib.so'));
    gcc('-c', '-o', path('user.o'), path('user.s'));
    for (const [name, who] of [
      ['user', /dynamic linker/],
      ['user.o', /load the file first/],
    ] as const) {
      const opened = openBytes(new Uint8Array(readFileSync(path(name))));
      const own = new ProbeText(opened.program, opened.sites);
      const explained = (offset: number) => explainProbe(own, at('_start', offset));
      // The breakpoint fits in front of the field, a window of five bytes does not.
      expect([name, explained(0)]).toMatchObject([
        name,
        { place: { kind: 'valid' }, jump: { errno: 'EBUSY', code: 'relocation' } },
      ]);
      expect([name, explained(1).place]).toMatchObject([
        name,
        { errno: 'EINVAL', code: 'relocation', rule: 'K-REL-1' },
      ]);
      expect((explained(1).place as { reason: string }).reason).toMatch(who);
      expect([name, explained(11)]).toMatchObject([name, { place: { kind: 'valid' }, jump: { kind: 'window' } }]);
    }
    // Patching says the same, and what a linker kept is applied already.
    const session = (define: string) => {
      const { arch, sites: found } = openBytes(new Uint8Array(readFileSync(path('user'))));
      const laid = withRuntime(found, undefined, undefined, undefined, {}, probeRoomFor(1));
      const text = JSON.stringify({ version: 1, steps: [{ probe: { define, optimize: true } }] });
      return planProbes(laid, arch, [{ name: 's', text }]).probes!.probes();
    };
    expect(() => session('p _start+1')).toThrow(/\(relocation, EINVAL\) \[K-REL-1\]/);
    expect(session('p _start')).toMatchObject([{ state: { text: 'breakpoint' }, refusal: { code: 'relocation' } }]);
    expect(session('p _start+11')).toMatchObject([{ state: { text: 'jump' } }]);
  });

  test('load --probes: objects without sites get a runtime for their probes; a core with entries of its own has none', () => {
    const path = (name: string): string => join(folder, name);
    const exit = 'mov $60,%eax\n xor %edi,%edi\n syscall';
    writeFileSync(
      path('bare.s'),
      `.text\n${f('_start', `call plain\n ${exit}`)}${f('plain', 'lea 1(%rdi),%eax\n nop\n nop\n ret')}`,
    );
    run('gcc', ['-c', '-o', path('bare.o'), path('bare.s')]);
    const probed = (...args: string[]) => elftrace(args, { cwd: folder });
    expect(probed('load', 'bare.o', '--probes', '2', '-o', 'bare')).toMatchObject({ status: 0, stderr: '' });
    const define = ['--probe', 'p:e plain', '--optimize'];
    expect(probed('patch', 'bare', ...define, '-o', 'bare.p')).toMatchObject({ status: 0, stderr: '' });
    expect(probed('run', '--trace', 'bare.t', '--format', 'ftrace', 'bare.p')).toMatchObject({ status: 0 });
    expect(readFileSync(path('bare.t'), 'utf8')).toMatch(/ e: \(plain\+0x0\)/);
    // A module of such a core comes and goes although ftrace has nothing to do there.
    writeFileSync(path('m.s'), `.text\n${f('thrice', 'call __fentry__\n lea 1(%rdi,%rdi,2),%eax\n nop\n nop\n ret')}`);
    run('gcc', ['-c', '-o', path('m.o'), path('m.s')]);
    const steps: readonly string[][] = [
      ['load', 'bare.o', 'm.o', '--probes', '2', '-o', 'with'],
      ['patch', 'with', '--probe', 'p:e plain', '--probe', 'p:m thrice+5', '--optimize', '-o', 'both'],
      ['unload', 'both', 'm', '-o', 'without'],
      ['load', 'without', 'm.o', '-o', 'again'],
    ];
    for (const step of steps) expect([step, probed(...step)]).toMatchObject([step, { status: 0 }]);
    const status = (name: string): string[] =>
      probed('status', name).stdout.split('\n').filter((line) => /kprobes\//.test(line)).map((line) => line.replace(/^\S+ +k +/, '')); // prettier-ignore
    expect(status('both')).toEqual(['plain+0x0  [OPTIMIZED]  kprobes/e', 'thrice+0x5  [OPTIMIZED]  kprobes/m']);
    for (const name of ['without', 'again']) {
      expect([name, status(name)]).toEqual([
        name,
        ['plain+0x0  [OPTIMIZED]  kprobes/e', 'thrice+0x5  [GONE]  kprobes/m'],
      ]);
    }
    const own = ['ftrace_caller', 'ftrace_call'].map((name) => f(name, 'ret')).join('');
    writeFileSync(path('own.s'), `.text\n${f('_start', exit)}${own}`);
    run('gcc', ['-c', '-o', path('own.o'), path('own.s')]);
    expect(probed('load', 'own.o', '--probes', '2', '-o', 'own')).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/--probes: no runtime was laid in/),
    });
  });

  test('files that take no runtime say why: they are position-independent, or not linked', () => {
    for (const [name, reason] of [
      ['x86-64/pie-patchable-5', 'position-independent'],
      ['x86-64/shared-fentry.so', 'position-independent'],
      ['x86-64/module-fentry.ko', 'relocatable'],
    ] as const) {
      const { sites: found } = openBytes(readSample(name));
      let error: unknown = null;
      try {
        withRuntime(found, undefined, undefined, undefined, {}, probeRoomFor(1));
      } catch (each) {
        error = each;
      }
      expect([name, error]).toMatchObject([name, { code: 'no-runtime', context: { reason } }]);
    }
  });
});
