/**
 * Definitions of kprobe events: what they say, where their errors are, what arguments fetch;
 * programs of events against the direct way.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { x86ProbeAbi } from '../src/arch-x86/kprobes.js';
import { ElftraceError } from '../src/errors.js';
import {
  compileArguments,
  type CompileContext,
  fetchArgument,
  type FetchSource,
  formatFetched,
  parseProbe,
} from '../src/kprobes/events.js';
import { compileProgram, decodeWords, registerValue, runProgram } from '../src/kprobes/program.js';

const context: CompileContext = {
  abi: x86ProbeAbi,
  symbol: (name) => (name === 'table' ? 0x1000n : null),
  atEntry: true,
};
/**
 * 0x1000 to 0x10ff: the byte is the low part of its address; a text at 0x1080, a pointer to it at
 * 0x1090.
 */
const MEMORY = Uint8Array.from({ length: 256 }, (_, i) => i);
MEMORY.set(new TextEncoder().encode('hello\0'), 0x80);
MEMORY.set([0x80, 0x10, 0, 0, 0, 0, 0, 0], 0x90);
const registers: Readonly<Record<string, bigint>> = {
  rdi: 0x1000n,
  rsi: 0xffff_ffff_ffff_fffen,
  rsp: 0x1010n,
  pc: 0x1234n,
};
const source: FetchSource = {
  register: (found) => registerValue(found, (name) => registers[name] ?? 0n),
  read: (address, size) => {
    const at = Number(address - 0x1000n);
    return address >= 0x1000n && at + size <= 256 ? MEMORY.slice(at, at + size) : null;
  },
  wordBytes: 8,
  littleEndian: true,
  comm: 'task',
};
/** What an argument is shown as, by both ways. */
function shown(argument: string): string {
  const [compiled] = compileArguments(parseProbe(`p f ${argument}`, 64), context);
  const direct = fetchArgument(compiled!, source);
  expect(decodeWords([compiled!], runProgram([compiled!], source), source)).toEqual([direct]);
  return formatFetched(compiled!.type, direct, (address) => (address === 0x1234n ? 'f+0x4' : ''));
}

test('a text that ends where nothing is mapped: what stands before is recorded, and that it is not whole', () => {
  // 0x10f0 on: 16 bytes, then nothing is mapped. The runtime's callback leaves what it has read.
  const [compiled] = compileArguments(parseProbe('p f +240(%di):string', 64), context);
  const words = runProgram([compiled!], source);
  expect(words.slice(0, 4).map((word) => word.toString(16))).toEqual([
    '1',
    'f7f6f5f4f3f2f1f0',
    'fffefdfcfbfaf9f8',
    '0',
  ]);
});

describe('definitions', () => {
  test.each([
    ['p f', { isReturn: false, group: 'kprobes', event: 'p_f_0', where: { name: 'f', offset: 0n } }],
    ['p:e f+0x10', { event: 'e', where: { offset: 16n } }],
    ['p:g/e mod:f+4', { group: 'g', event: 'e', where: { module: 'mod' } }],
    ['p:g/ f', { group: 'g', event: 'p_f_0' }],
    ['p 0xc0de', { event: 'p_0xc0de', where: { kind: 'address', address: 0xc0den } }],
    ['r f', { isReturn: true, event: 'r_f_0' }],
    ['r12:e f', { maxActive: 12 }],
    ['p:e f%return', { isReturn: true }],
    ['p f.isra.0 a=%ax', { where: { name: 'f.isra.0' } }],
  ])('%s', (text, expected) => {
    expect(parseProbe(text, 64)).toMatchObject(expected);
  });

  test.each([
    ['x f', 'bad-command', 0],
    ['p4 f', 'maxactive-not-return', 1],
    ['p', 'no-probe-point', 1],
    ['p:1 f', 'no-event-name', 2],
    ['p f+', 'bad-probe-address', 4],
    ['r f+4', 'bad-return-place', 2],
    ['p f %', 'bad-register', 4],
    ['p f $retval', 'retval-on-probe', 4],
    ['r f $arg1', 'argument-at-return', 4],
    ['p f $arg0', 'bad-argument-number', 4],
    ['p f +0(%ax', 'deref-open-brace', 10],
    ['p f %ax:u7', 'bad-type', 8],
    ['p f %ax:string', 'string-not-memory', 8],
    ['p f +0(%di):u8[0]', 'bad-array-count', 12],
    ['p f +0(%di):u8[65]', 'array-too-big', 12],
    ['p f %ax:b4@30/32', 'bad-bitfield', 8],
    ['p f a=%ax a=%bx', 'argument-twice', 10],
    ['p f __probe_ip=%ax', 'reserved-name', 4],
  ])('%s: %s', (text, reason, column) => {
    try {
      parseProbe(text, 64);
      throw new Error('it was understood');
    } catch (error) {
      if (!(error instanceof ElftraceError)) throw error;
      expect([error.code, error.context['reason'], error.context['column']]).toEqual(['bad-probe', reason, column]);
    }
  });

  test('no text makes the parser fail otherwise than by an error with a column', () => {
    const piece = fc.constantFrom('p', 'r', ':', '/', 'f', '+', '-', '0x1', '(', ')', '%', 'ax', '$', 'arg1', 'retval', '@', '\\', '"', ':u8', '[2]', ' ', 'b1@2/8', '%return'); // prettier-ignore
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
        try {
          parseProbe(pieces.join(''), 64);
        } catch (error) {
          if (!(error instanceof ElftraceError) || typeof error.context['column'] !== 'number') throw error;
        }
      }),
      { seed: 9, numRuns: 3000 },
    );
  });
});

describe('arguments', () => {
  test.each([
    ['%di', '0x1000'],
    ['%si:s32', '-2'],
    ['%si:u8', '254'],
    ['%ip:symbol', 'f+0x4'],
    ['$arg1:u16', '4096'],
    ['$arg2:x8', '0xfe'],
    ['$arg7', '0x1f1e1d1c1b1a1918'],
    ['$stack', '0x1010'],
    ['$stack1:x16', '0x1918'],
    ['$comm', '"task"'],
    ['\\42:u64', '42'],
    ['\\"word"', '"word"'],
    ['@0x1004:x32', '0x7060504'],
    ['@table+2:u8', '2'],
    ['+4(%di):u16', '1284'],
    ['-8(+0x98(%di)):u8', '(fault)'],
    ['+0(%di):x8[3]', '{0x0,0x1,0x2}'],
    ['+0x80(%di):string', '"hello"'],
    ['+0(+0x90(%di)):string', '"hello"'],
    ['+0x90(%di):string[1]', '{"hello"}'],
    ['+0(%si):u32', '(fault)'],
    ['+0xff(%di):u8[2]', '{255,(fault)}'],
    ['+0x41(%di):char', "'A'"],
    ['+1(%di):b4@4/8', '0'],
    ['+0x35(%di):b4@4/8', '3'],
  ])('%s is %s', (argument, expected) => {
    expect(shown(argument)).toBe(expected);
  });

  test.each([
    ['%zz', 'bad-register'],
    ['@nobody', 'no-symbol'],
  ])('%s: %s', (argument, reason) => {
    expect(() => compileArguments(parseProbe(`p f ${argument}`, 64), context)).toThrow(
      expect.objectContaining({ context: expect.objectContaining({ reason }) }),
    );
  });

  test('$argN means something at the entry of a function only', () => {
    const definition = parseProbe('p f+4 $arg1', 64);
    expect(() => compileArguments(definition, { ...context, atEntry: false })).toThrow('at the entry of a function');
  });

  test('an event that holds more than a record may have is refused', () => {
    const list = compileArguments(parseProbe('p f +0(%di):string[12]', 64), context);
    expect(() => compileProgram(list, 8)).toThrow('an event holds 768');
  });
});
