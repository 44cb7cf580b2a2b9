/**
 * PowerPC sites that name their ops: a word in front of the stub out of line, or in front of the
 * function on 32 bits. Which ops each word names, what the callbacks count and what direct callers
 * see when the image runs, in the emulator and under qemu.
 */
import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import type { Ops, Outcome } from '../src/ftrace/index.js';
import { entryPoint } from '../src/program/entry-points.js';
import { loadImages } from '../src/program/loader.js';
import { OPS_WORDS, runtimeObject } from '../src/runtime/index.js';
import { verify } from '../src/sites/verdicts.js';
import { Session } from '../src/tracing/session.js';
import {
  assemble,
  file,
  loaderTools,
  type LoaderTarget,
  merge,
  runQemu,
  source,
  start,
} from './support/loader-build.js';
import { siteOf } from './support/loaded.js';
import { sampled } from './support/long.js';
import { openBytes } from './support/pipeline.js';
import { ppcTargets } from './support/ppc-build.js';
import { describeWith, run } from './support/tools.js';

interface Case {
  readonly target: LoaderTarget;
  readonly convention: 'ool-ops' | 'callops';
  /** `-fpatchable-function-entry=`. */
  readonly entry: string;
}

const CASES: readonly Case[] = [
  { target: 'ppc32', convention: 'callops', entry: '3,1' },
  { target: 'ppc32', convention: 'ool-ops', entry: '1' },
  { target: 'v1', convention: 'ool-ops', entry: '1' },
  { target: 'v2be', convention: 'ool-ops', entry: '1' },
  { target: 'v2le', convention: 'ool-ops', entry: '1' },
];

/** Calls with nine arguments, a global, and a caller that nothing else has. */
const PROGRAM = `
#include "lib.h"
unsigned table[4] = { 3, 5, 7, 11 };
__attribute__((noinline)) unsigned many(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
  unsigned h, unsigned i) { return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i + table[a & 3]; }
__attribute__((noinline)) unsigned work(unsigned a) { return a * table[a & 3] + many(a, 1, 2, 3, 4, 5, 6, 7, 8); }
__attribute__((noinline)) unsigned other(unsigned a) { return work(a) + 5; }
int main(void) { unsigned sum = 0; for (unsigned i = 0; i < 10; i++) sum = sum * 7 + work(i) + other(i); line("sum", sum); flush(); return 51; }
`;

/** A direct caller counts, writes down the function's caller, and goes on in the function. */
function caller(target: LoaderTarget, name: string): string {
  const is32 = target === 'ppc32';
  const [word, load, save, update] = is32 ? [4, 'lwz', 'stw', 'stwu'] : [8, 'ld', 'std', 'stdu'];
  const head =
    target === 'v1'
      ? ` .section .opd,"aw"\n .globl ${name}\n .type ${name},@function\n${name}: .quad .${name},.TOC.@tocbase,0\n .size ${name},24\n .text\n.${name}:`
      : ` .text\n .globl ${name}\n .type ${name},@function\n${name}:`;
  return `${target.startsWith('v2') ? ' .abiversion 2\n' : ''}${head}
 ${update} 1,-64(1)
 ${save} 11,48(1)
 mflr 12
 mtctr 12
 lis 12,${name}_hits@ha
 addi 12,12,${name}_hits@l
 ${load} 11,0(12)
 addi 11,11,1
 ${save} 11,0(12)
 ${save} 0,${word}(12)
 ${load} 11,48(1)
 addi 1,1,64
 mtlr 0
 bctr
 .size ${target === 'v1' ? '.' : ''}${name},.-${target === 'v1' ? '.' : ''}${name}
 .globl ${name}_hits
 .bss
 .balign 8
${name}_hits: .space 16
`;
}

/** The nop where GCC 13 and later put it: behind the set-up of r2, not in front (P-SITE-2). */
const atLocalEntry = (assembly: string): string =>
  assembly.replace(/^(\.LPFE\d+:\n\tnop\n)(\.LCF\d+:\n0:\taddis .*\n\taddi .*\n\t\.localentry\t.*\n)/gm, '$2$1');

function compiled({ target, entry }: Case): Uint8Array {
  const { prefix, gccFlags } = ppcTargets[target];
  const output = file('program.s');
  const vectors = target === 'ppc32' ? [] : ['-mno-vsx', '-mno-altivec'];
  const programs = new URL('../../test/programs', import.meta.url).pathname;
  run(
    `${prefix}gcc`,
    [
      '-O2', '-ffreestanding', '-fno-stack-protector', '-fno-pie', '-w', '-S', '-fno-asynchronous-unwind-tables',
      ...gccFlags, ...vectors, `-fpatchable-function-entry=${entry}`, '-x', 'c', '-', '-I', programs, '-o', output,
    ],
    PROGRAM,
  ); // prettier-ignore
  const text = readFileSync(output, 'utf8');
  const elfv2 = target.startsWith('v2');
  const moved = elfv2 ? atLocalEntry(text) : text;
  if (elfv2) expect(moved).not.toBe(text);
  return assemble(target, moved);
}

function done(outcome: Outcome): void {
  expect(outcome).toMatchObject({ kind: 'done' });
}

function imageOf(each: Case): Uint8Array {
  const { target, convention } = each;
  const { arch } = ppcTargets[target];
  const startFile = readFileSync(new URL('../../test/programs/start.S', import.meta.url), 'utf8');
  const parts = [assemble(target, startFile), compiled(each), assemble(target, caller(target, 'near'))];
  return loadImages(
    {
      core: source('core', merge(target, parts)),
      modules: [source('far', assemble(target, caller(target, 'far')))],
      base: 'user',
      runtime: source('runtime', runtimeObject(arch.target.id, convention)!),
      options: {},
    },
    arch,
  ).bytes;
}

describeWith(loaderTools, 'ops in a word of the site', () => {
  describe.each(sampled(CASES, 2))('$target $convention', (each) => {
    const { target } = each;
    const { arch } = ppcTargets[target];
    const image = imageOf(each);
    const word = image[4] === 1 ? 4 : 8;

    interface Seen {
      readonly output: string;
      readonly walks: number;
      word(symbol: string, index?: number): bigint;
      counted(session: Session, ops: Ops): number;
    }

    /** Runs an image in the emulator; qemu prints and ends as it does. */
    function ran(bytes: Uint8Array): Seen {
      const { image: elf, program } = openBytes(bytes);
      const { process, output } = start(arch, elf, program.loadMap?.registers);
      const { machine } = process;
      let walks = 0;
      machine.hook(entryPoint(program, 'ftrace_ops_list_func')!.address, () => {
        walks++;
        return 'continue';
      });
      expect(machine.run({ budget: 5_000_000 })).toMatchObject({ kind: 'exit', code: 51 });
      expect(runQemu(target, bytes)).toEqual({ output: output(), code: 51 });
      const at = (address: bigint): bigint => machine.readWord(address, word)!;
      return {
        output: output(),
        walks,
        word: (symbol, index = 0) => at(program.definedAt(program.symbols.find(symbol))! + BigInt(index * word)),
        counted: (session, ops) => Number(at(session.backend.addressOf(ops) + BigInt(word * OPS_WORDS.private))),
      };
    }

    /** The ops that the word of a function's site names. */
    function named(session: Session, name: string, ops: readonly Ops[]): string {
      const { program, sites, image: elf } = openBytes(session.bytes());
      const ip = sites.ip(siteOf(openBytes(session.bytes()), name));
      const place = each.convention === 'callops' ? ip - 8n : sites.stubs!.of(ip)!.ops!.address;
      const offset = elf.fileOffsetOf(place);
      const view = new DataView(elf.bytes.buffer, elf.bytes.byteOffset);
      const little = arch.target.dataEndian === 'little';
      const value = word === 4 ? BigInt(view.getUint32(offset, little)) : view.getBigUint64(offset, little);
      const runtime = ['ftrace_nop_ops', 'ftrace_list_ops'].find(
        (each) => entryPoint(program, each)!.identity === value,
      );
      return runtime ?? ops.find((one) => session.backend.addressOf(one) === value)?.name ?? `unknown ${value}`;
    }

    const counter = (session: Session, name: string, filter: string): Ops => {
      const ops = session.core.createOps({ name, func: session.functionAddress('elftrace_counter')!, flags: [] });
      done(session.core.setFilter(ops, 'filter', filter));
      return ops;
    };
    const plain = ran(image);

    test('P-OOL-9 P-CO-1: two ops without a walk of the list; three on two functions: the shared one walks', () => {
      expect(verify(openBytes(image).sites).verdicts).toEqual({ ok: openBytes(image).sites.count });
      const session = Session.open(image, arch);
      const { core } = session;
      const [first, second] = [counter(session, 'first', 'work'), counter(session, 'second', 'many')];
      const all = [first, second];
      done(core.register(first));
      done(core.register(second));
      expect(['work', 'many', 'main'].map((name) => named(session, name, all))).toEqual([
        'first',
        'second',
        'ftrace_nop_ops',
      ]);
      expect(verify(openBytes(session.bytes()).sites).verdicts).toEqual({ ok: openBytes(image).sites.count });
      const two = ran(session.bytes());
      expect([two.output, two.walks]).toEqual([plain.output, 0]);
      expect(all.map((ops) => two.counted(session, ops))).toEqual([20, 20]);
      const third = counter(session, 'third', 'work');
      done(core.register(third));
      expect(named(session, 'work', [...all, third])).toBe('ftrace_list_ops');
      const three = ran(session.bytes());
      expect([three.output, three.walks]).toEqual([plain.output, 20]);
      expect([...all, third].map((ops) => three.counted(session, ops))).toEqual([20, 20, 20]);
      for (const ops of [third, second, first]) done(core.unregister(ops));
      expect(named(session, 'work', all)).toBe('ftrace_nop_ops');
      expect(ran(session.bytes()).output).toBe(plain.output);
    });

    test('C-TGT-2: ops that want registers call the other entry, which reads the same word', () => {
      const session = Session.open(image, arch);
      const func = session.functionAddress('elftrace_counter')!;
      const ops = session.core.createOps({ name: 'regs', func, flags: ['SAVE_REGS'] });
      done(session.core.setFilter(ops, 'filter', 'many'));
      done(session.core.register(ops));
      const seen = ran(session.bytes());
      expect([seen.output, seen.walks, seen.counted(session, ops)]).toEqual([plain.output, 0, 20]);
    });

    test.each(['near', 'far'] as const)(
      'P-OOL-9 C-DIR-7: %s: a direct caller alone, beside another ops, alone again; in reach the site calls it, else the entry goes on to it',
      (name) => {
        const session = Session.open(image, arch);
        const { core } = session;
        const program = session.sites.program;
        const address = entryPoint(program, name)!.identity;
        const ops = core.createOps({ name: 'direct', func: 0n });
        done(core.setFilter(ops, 'filter', 'work'));
        const leads = (): string => {
          const opened = openBytes(session.bytes());
          const { target: to, state } = opened.sites.reading(siteOf(opened, 'work'))!;
          if (state !== 'call') return state;
          const { program: now } = opened;
          const at = now.stub(to!)?.target ?? to!;
          return now.describe(now.codeAt(at)!, at).replace(/^\.|\+0x0$/g, '');
        };
        const result = (): unknown => {
          const seen = ran(session.bytes());
          return { hits: seen.word(`${name}_hits`), output: seen.output, walks: seen.walks };
        };
        done(core.registerDirect(ops, address));
        expect(leads()).toBe(name === 'near' ? 'near' : 'ftrace_caller');
        expect(result()).toEqual({ hits: 20n, output: plain.output, walks: 0 });
        // The caller that it saw last is in `other`.
        const parent = ran(session.bytes()).word(`${name}_hits`, 1);
        expect(program.symbolName(program.functionAt(program.codeAt(parent)!, parent))).toMatch(/^\.?other$/);
        const counts = counter(session, 'counts', 'work many');
        done(core.register(counts));
        // The helper of direct callers wants a full frame.
        expect(leads()).toBe('ftrace_regs_caller');
        expect(result()).toEqual({ hits: 20n, output: plain.output, walks: 20 });
        done(core.unregister(counts));
        expect(result()).toEqual({ hits: 20n, output: plain.output, walks: 0 });
        done(core.unregisterDirect(ops, address));
        expect(result()).toEqual({ hits: 0n, output: plain.output, walks: 0 });
      },
    );

    test('C-IPM-4: a site has a direct caller or another function, since no entry goes on to both', () => {
      const session = Session.open(image, arch);
      const { core } = session;
      const direct = core.createOps({ name: 'direct', func: 0n, negotiate: () => 0 });
      done(core.setFilter(direct, 'filter', 'work'));
      done(core.registerDirect(direct, entryPoint(session.sites.program, 'near')!.identity));
      const func = session.functionAddress('elftrace_counter')!;
      const changes = core.createOps({ name: 'changes', func, flags: ['IPMODIFY', 'SAVE_REGS'] });
      done(core.setFilter(changes, 'filter', 'work'));
      expect(core.register(changes)).toMatchObject({ kind: 'refused', errno: 'EBUSY' });
    });
  });
});
