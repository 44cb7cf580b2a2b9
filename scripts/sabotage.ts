/**
 * `npm run test:sabotage`: breaks the built code one line at a time and runs the test that must notice. A breakage that no test
 * notices is a hole in the tests. Works on a copy of build/, so that an interrupted run leaves nothing broken behind.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Breakage {
  readonly name: string;
  /** File below build/src. */
  readonly file: string;
  readonly find: string | RegExp;
  readonly replace: string;
  /** Test file below build/test that must turn red. */
  readonly test: string;
  /** The test of that file that must: a pattern of its whole name. Default: any. */
  readonly named?: string;
}

/** In place of the runtime's bytes: the same with one instruction, given as PowerPC words of either byte order, made a nop. */
function withoutInstruction(...words: readonly number[]): string {
  return `((bytes) => {
      const view = new DataView(bytes.buffer);
      for (let at = 0; at + 4 <= bytes.length; at += 4) {
        for (const little of [false, true]) {
          if ([${words.join(', ')}].includes(view.getUint32(at, little))) view.setUint32(at, 0x60000000, little);
        }
      }
      return bytes;
    })(Uint8Array.from(atob(object.base64), (each) => each.charCodeAt(0)))`;
}
/** The same for little-endian words of arm64, of which one becomes another. */
function withWord(from: number, to: number): string {
  return `((bytes) => {
      const view = new DataView(bytes.buffer);
      for (let at = 0; at + 4 <= bytes.length; at += 4) if (view.getUint32(at, true) === ${from}) view.setUint32(at, ${to}, true);
      return bytes;
    })(Uint8Array.from(atob(object.base64), (each) => each.charCodeAt(0)))`;
}
/** The same for a word of RISC-V. */
function withoutRiscvWord(word: number): string {
  return `((bytes) => {
      const view = new DataView(bytes.buffer);
      for (let at = 0; at + 4 <= bytes.length; at += 4) if (view.getUint32(at, true) === ${word}) view.setUint32(at, 0x13, true);
      return bytes;
    })(Uint8Array.from(atob(object.base64), (each) => each.charCodeAt(0)))`;
}
const runtimeBytes = 'Uint8Array.from(atob(object.base64), (each) => each.charCodeAt(0))';

const breakages: readonly Breakage[] = [
  {
    name: 'write before verifying: a step is applied whatever stands there',
    file: 'ftrace/apply.js',
    find: 'if (!holdsAt(bytes, step.fileOffset, step.before)) {',
    replace: 'if (false) {',
    test: 'plan-apply',
  },
  {
    name: 'the store hook is not asked',
    file: 'ftrace/apply.js',
    find: 'if (!options.mayStore(step.fileOffset, step.after)) {',
    replace: 'if (false) {',
    test: 'plan-apply',
  },
  {
    name: 'revert does not compare the hash of what it restored',
    file: 'ftrace/apply.js',
    find: 'if (actual !== record.sha256) {',
    replace: 'if (false) {',
    test: 'journal',
  },
  {
    name: 'revert does not compare the bytes with the record',
    file: 'ftrace/journal.js',
    find: 'if (!holdsAt(bytes, offset, after)) {',
    replace: 'if (false) {',
    test: 'journal',
  },
  {
    name: 'the relocations of a call are left alone',
    file: 'ftrace/plan.js',
    find: 'for (const delta of change.neutralise) {',
    replace: 'for (const delta of []) {',
    test: 'plan-apply',
  },
  {
    name: 'refusals are ignored',
    file: 'ftrace/plan.js',
    find: 'if (plan.refusals.length > 0 && !acceptance.partial) {',
    replace: 'if (false) {',
    test: 'plan-apply',
  },
  {
    name: 'the module signature is kept',
    file: 'ftrace/apply.js',
    find: 'const dropTrailing = signature !== null;',
    replace: 'const dropTrailing = false;',
    test: 'plan-apply',
  },
  {
    name: 'stale relocations win over the contents of a sorted table',
    file: 'ftrace/tables.js',
    find: 'if (value !== 0n)\n            fromContents++;\n        else if',
    replace: 'if',
    test: 'tables',
  },
  {
    name: 'RELATIVE addends are ignored',
    file: 'ftrace/tables.js',
    find: 'if (type[row] !== arch.relocationRoles.relative)',
    replace: 'if (true)',
    test: 'tables',
  },
  {
    name: "call padding is taken for ftrace's table",
    file: 'ftrace/sites.js',
    find: 'return tried > 0;',
    replace: 'return false;',
    test: 'sites',
  },
  {
    name: 'duplicates are not noticed',
    file: 'ftrace/verdicts.js',
    find: /if \(index > 0 && sites\.range\[index - 1\]/,
    replace: 'if (false && sites.range[index - 1]',
    test: 'verdicts',
  },
  {
    name: 'local entries are not looked at',
    file: 'ftrace/verdicts.js',
    find: 'const local = arch.abi.localEntryOffset(program.symbols.other[symbol]);',
    replace: 'const local = 0;',
    test: 'verdicts',
  },
  {
    name: 'branch targets are not judged',
    file: 'ftrace/verdicts.js',
    find: "if (program.callee(reading.target) !== 'other')",
    replace: 'if (true)',
    test: 'verdicts',
  },
  {
    name: 'HA is taken without its rounding',
    file: 'relocs/apply.js',
    find: '0x8000n',
    replace: '0n',
    test: 'relocs-apply',
  },
  {
    name: 'the addend is ignored',
    file: 'relocs/apply.js',
    find: 'const A = row.addendIgnored ? 0n : inputs.addend;',
    replace: 'const A = 0n;',
    test: 'relocs-apply',
  },
  {
    name: 'the low part of a RISC-V pair is not carried into the high part',
    file: 'arch-riscv/sites.js',
    find: '0x800n',
    replace: '0n',
    test: 'arch-riscv-sites',
  },
  {
    name: 'a nop of another tool passes for ours on x86-64',
    file: 'arch-x86/sites.js',
    find: 'const NOP5_LOW = 0x0044_1f0f;',
    replace: 'const NOP5_LOW = 0x0040_1f0f;',
    test: 'arch-x86-sites',
  },
  {
    name: 'GOT calls are recorded one byte too late',
    file: 'arch-x86/sites.js',
    find: '-2]',
    replace: '-1]',
    test: 'arch-x86-sites',
  },
  {
    name: 'the entries of the runtime do not give the condition register back',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutInstruction(0x7c8f_f120),
    test: 'runtime-registers',
  },
  {
    name: 'the entries of the runtime do not give the static chain back',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutInstruction(0x8161_0030, 0x8161_003c, 0xe961_00c8, 0xe961_0088),
    test: 'runtime-registers',
  },
  {
    name: 'return_to_handler returns to itself',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutInstruction(0x7c68_03a6),
    test: 'runtime-samples',
  },
  {
    name: 'one entry convention is given for the other',
    file: 'runtime/index.js',
    find: '${target}/${flavour}',
    replace: '${target}/pg',
    test: 'runtime-object',
  },
  {
    name: 'emulator: subfic has no carry for equal operands',
    file: 'arch-ppc/lift.js',
    find: "x.b.to(CA, 'setleu', a, constant);",
    replace: "x.b.to(CA, 'setltu', a, constant);",
    test: 'coverage-ppc',
    named: 'le programs of thousands of cases',
  },
  {
    name: 'emulator: a hint bit of BO switches the counter off',
    file: 'arch-ppc/lift.js',
    find: 'const usesCounter = (bo & 4) === 0;',
    replace: 'const usesCounter = (bo & 5) === 0;',
    test: 'lift-ppc',
    named: 'every integer instruction with random operands',
  },
  {
    name: 'emulator: cbcdtd forgets the case of three large digits',
    file: 'arch-ppc/lift.js',
    find: 'const w = a | (e & i) | (not(e) & j);',
    replace: 'const w = a | i | (not(e) & j);',
    test: 'coverage-ppc',
    named: 'le programs of thousands of cases',
  },
  {
    name: 'emulator: OV32 of nego is that of 64 bits',
    file: 'arch-ppc/lift.js',
    find: 'sum(inverted, 0n, 1n, false);',
    replace: 'wide(-asSigned(a, bits), bits);',
    test: 'coverage-ppc',
    named: 'le programs of thousands of cases',
  },
  {
    name: 'emulator: stfs takes the largest denormal exponent for a normal one',
    file: 'arch-ppc/lift.js',
    find: "b.make('setleu', exponent, 896n)",
    replace: "b.make('setleu', exponent, 895n)",
    test: 'coverage-ppc',
    named: 'le programs of thousands of cases',
  },
  {
    name: "emulator: a reservation survives another CPU's store",
    file: 'emulator/reservations.js',
    find: 'this.clear(cpu);',
    replace: '',
    test: 'emulator-cpus',
    named: 'a store of another CPU breaks them',
  },
  {
    name: 'emulator: misaligned reservations are served',
    file: 'arch-ppc/lift.js',
    find: 'x.b.aligned(address, BigInt(bytes - 1));',
    replace: 'x.b.aligned(address, 0n);',
    test: 'coverage-ppc',
    named: 'le faults, window borders',
  },
  {
    name: 'emulator: stale lines are not kept',
    file: 'emulator/fetch.js',
    find: 'if (!lines.has(line) || kept.has(line))',
    replace: 'if (true)',
    test: 'emulator-fetch',
    named: 'H10: CPU 1 goes on with the nop until it synchronises',
  },
  {
    name: 'emulator: stale lines survive a synchronisation',
    file: 'emulator/fetch.js',
    find: 'kept.clear();',
    replace: '',
    test: 'emulator-fetch',
    named: 'isync of the guest synchronises its own CPU only',
  },
  {
    name: 'emulator: the base of an indexed update form is written before the fault',
    file: 'arch-ppc/lift.js',
    find: 'x.b.store(storeName(bytes, byteOrder(x, form)), f.r(',
    replace:
      'if (form.displacement === null) update(x, f, form, at.update);\n    x.b.store(storeName(bytes, byteOrder(x, form)), f.r(',
    test: 'lift-ppc',
    named: 'faults leave the state before the instruction le stwux',
  },
  {
    name: 'emulator: a gate returns behind its return address',
    file: 'emulator/gates.js',
    find: "machine.setRegister('pc', goesTo ?? returnAddress);",
    replace: "machine.setRegister('pc', goesTo ?? returnAddress + 4n);",
    test: 'emulator-gates',
    named: 'a call gets its arguments, returns its result',
  },
  {
    name: 'emulator: a call of a gate is planned',
    file: 'ftrace/plan.js',
    find: 'if (callsHost) {',
    replace: 'if (false) {',
    test: 'emulator-gates',
    named: 'a plan that calls a gate is refused',
  },
  {
    name: 'emulator: a restored process goes on reading where it had got to',
    file: 'emulator/syscalls.js',
    find: 'putDescriptorsBack();',
    replace: '',
    test: 'emulator-process-state',
    named: 'le: restored at any point, a program does again what it did',
  },
  {
    name: 'emulator: instructions behind a fault in their block are paid',
    file: 'emulator/machine.js',
    find: 'cpu.instructions -= unused;',
    replace: '',
    test: 'emulator-machine',
    named: 'a fault after slices counts what was completed',
  },
  {
    name: 'emulator: an op that a fault can see is dropped',
    file: 'emulator/passes.js',
    find: 'overwritten.clear();',
    replace: '',
    test: 'emulator-ir',
    named: 'one that a fault can see is',
  },
  {
    name: 'emulator, RISC-V: a quotient by zero is zero',
    file: 'arch-riscv/lift.js',
    find: "x.to(d, 'sub', out.make(op, a, b), none);",
    replace: "x.to(d, 'add', out.make(op, a, b), 0n);",
    test: 'coverage-riscv',
    named: 'gives what it gives under qemu',
  },
  {
    name: 'emulator, RISC-V: a word is zero-extended',
    file: 'emulator/ir.js',
    find: 'const signedWord = (opcode) => binary([opcode, I64.extendS]',
    replace: 'const signedWord = (opcode) => binary([opcode, I64.extendU]',
    test: 'coverage-riscv',
    named: 'gives what it gives under qemu',
  },
  {
    name: 'emulator, RISC-V: jalr keeps bit 0 of its target',
    file: 'arch-riscv/lift.js',
    find: 'const EVEN = 0xfffffffffffffffen',
    replace: 'const EVEN = 0xffffffffffffffffn',
    test: 'coverage-riscv',
  },
  {
    name: 'emulator, RISC-V: a known register stays known when something else writes it',
    file: 'arch-riscv/lift.js',
    find: 'this.known.delete(d);',
    replace: '',
    test: 'lift-riscv',
    named: 'a run gives what single steps give',
  },
  {
    name: 'emulator, RISC-V: a waiting shift is not emitted at the end of its block',
    file: 'arch-riscv/lift.js',
    find: 'lifting.flush();\n            return builder.finish(pc, terminator);',
    replace: 'return builder.finish(pc, terminator);',
    test: 'lift-riscv',
    named: 'a run gives what single steps give',
  },
  {
    name: 'emulator, RISC-V: sc keeps the reservation',
    file: 'arch-riscv/lift.js',
    find: 'b.mov(RESERVED_ADDRESS, NO_RESERVATION);',
    replace: '',
    test: 'coverage-riscv',
    named: 'gives what it gives under qemu',
  },
  {
    name: 'emulator, RISC-V: misaligned atomics are served',
    file: 'arch-riscv/lift.js',
    find: "x.b.aligned(f.r('rs1'), size === 'w' ? 3n : 7n);",
    replace: '',
    test: 'coverage-riscv',
    named: 'faults, misalignment',
  },
  {
    name: 'emulator, RISC-V: amo writes its register before the store',
    file: 'arch-riscv/lift.js',
    find: /(const memory = b\.temp\(\);\s+aligned\(x, f, size\);\s+b\.load\(.*\);)/,
    replace: "$1 x.copy(f.r('rd'), memory);",
    test: 'coverage-riscv',
    named: 'faults, misalignment',
  },
  {
    name: 'emulator, RISC-V: fence.i does nothing',
    file: 'arch-riscv/lift.js',
    find: "x.synchronises ? { kind: 'sync', next: x.next } : undefined",
    replace: 'undefined',
    test: 'lift-riscv',
    named: 'H10',
  },
  {
    name: 'emulator: the second line of a crossing instruction is fetched too early',
    file: 'emulator/machine.js',
    find: 'if (length > 1 && fetch.leavesLine(address, block.end - 1n))',
    replace: 'if (false)',
    test: 'lift-riscv',
    named: 'seen half old, half new',
  },
  {
    name: 'emulator: an instruction ends with its window',
    file: 'emulator/memory.js',
    find: 'if (here.length === max)',
    replace: 'if (true)',
    test: 'lift-riscv',
    named: 'an instruction across two windows',
  },
  {
    name: 'emulator: an exchanged comparison keeps its condition',
    file: 'emulator/interpreter.js',
    find: 'return b === op.d ? { condition: mirrored(condition), other: a } : null;',
    replace: 'return b === op.d ? { condition, other: a } : null;',
    test: 'emulator-ir',
    named: 'compares the sum with a slot: lt',
  },
  {
    name: 'callers on RISC-V: what an epilogue takes back is taken for the body',
    file: 'arch-riscv/unwind.js',
    find: 'state = whole;',
    replace: ';',
    test: 'lift-riscv',
    named: 'step by step',
  },
  {
    name: 'trace: a ring that wrapped is read from its first slot',
    file: 'trace/ring.js',
    find: 'kept < capacity ? 0 : Number(written & BigInt(capacity - 1))',
    replace: '0',
    test: 'trace-ring',
    named: 'wrap-around',
  },
  {
    name: 'trace: rings of any version are read',
    file: 'trace/ring.js',
    find: 'if (version !== RING_VERSION) {',
    replace: 'if (false) {',
    test: 'trace-ring',
    named: 'later version',
  },
  {
    name: 'trace: durations of the graph begin at the outermost function',
    file: 'trace/text.js',
    find: 'began[event.cpu]?.pop()',
    replace: 'began[event.cpu]?.[0]',
    test: 'trace-formats',
    named: 'indented by depth',
  },
  {
    name: 'trace: packets of Perfetto have no time',
    file: 'trace/timeline.js',
    find: '.number(PACKET.timestamp, event.time)',
    replace: '.number(PACKET.timestamp, 0)',
    test: 'trace-formats',
    named: 'packets: tracks',
  },
  {
    name: 'trace: the oracle takes return_to_handler for a function that has not returned',
    file: 'trace/oracle.js',
    find: 'while (top > 0 && frames[top - 1].sp === sp && frames[top - 1].back !== pc)',
    replace: 'while (false)',
    test: 'trace-guest',
    named: 'recursion from one place, returning through return_to_handler',
  },
  {
    name: 'trace: nobody is told of calls that the graph tracer did not record',
    file: 'cli/guest-trace.js',
    find: 'if (request.overruns > 0) {',
    replace: 'if (false) {',
    test: 'trace-guest',
    named: 'calls deeper than the stack',
  },
  {
    name: 'explain leaves the slot of a stub out',
    file: 'ftrace/chain.js',
    find: 'if (stub.slot !== null) {',
    replace: 'if (false) {',
    test: 'explain',
    named: 'the slot shows what is stored',
  },
  {
    name: 'patched calls of the runtime are taken for sites',
    file: 'ftrace/sites.js',
    find: ' || isRuntime(program, range, value)',
    replace: '',
    test: 'ppc64le-reach',
    named: '64 KiB left',
  },
  {
    name: 'loader: the word behind a far call is not made the restore of r2',
    file: 'arch-ppc/loader.js',
    find: 'restore: { delta: 4, word: restore } };',
    replace: 'restore: null };',
    test: 'ppc-tracing',
    named: 'T-PPC-6 T-PPC-7',
  },
  {
    name: 'loader: high halves are not rounded',
    file: 'arch-ppc/stubs.js',
    find: '((value + 0x8000n) >> 16n) & 0xffffn',
    replace: '(value >> 16n) & 0xffffn',
    test: 'loader-stubs',
  },
  {
    name: 'loader: an addend is ignored',
    file: 'program/link.js',
    find: 'const place = { part, section: own, offset, rule, addend, where };',
    replace: 'const place = { part, section: own, offset, rule, addend: 0n, where };',
    test: 'ppc-tracing',
  },
  {
    name: 'loader: stubs take the place of the terminator',
    file: 'program/stub-areas.js',
    find: 'area.used + 1 >= area.count',
    replace: 'area.used >= area.count',
    test: 'loader',
    named: 'T-PPC-28',
  },
  {
    name: 'enabling: the target of the stub is not compared',
    file: 'ftrace/routes.js',
    find: 'read.target !== entry.identity || otherToc',
    replace: 'otherToc',
    test: 'ppc-tracing',
    named: '5.3',
  },
  {
    name: 'enabling: a site whose module is not known takes no notice',
    file: 'ftrace/routes.js',
    find: 'if (part === undefined) {',
    replace: 'if (false) {',
    test: 'ppc-tracing',
    named: 'T-PPC-23',
  },
  {
    name: 'enabling: inner calls go to the global entry, where r12 must be set',
    file: 'ftrace/tracing.js',
    find: "const list = words.entry('ftrace_ops_list_func').address;",
    replace: "const list = words.entry('ftrace_ops_list_func').identity;",
    test: 'patch-enable',
    named: '05 section 7: function',
  },
  {
    name: 'enabling: sites that the tracer does not get stay calls',
    file: 'ftrace/tracing.js',
    find: 'if (!isWanted(site))\n                return nop;',
    replace: 'if (!isWanted(site))\n                return waysTo(program, entries.caller, sites.ip(site), reading);',
    test: 'ppc-tracing',
    named: 'C-INIT-2',
  },
  {
    name: 'sites: the word behind a call through a saving stub is not tested',
    file: 'arch-ppc/sites.js',
    find: 'if (view.stub(call.target)?.savesToc === true) {',
    replace: 'if (false) {',
    test: 'ppc-tracing',
    named: 'T-PPC-13',
  },
  {
    name: 'sites: the form of 2008 leaves the restore',
    file: 'arch-ppc/sites.js',
    find: 'pairStore(word, restore, NOP, NOP, endian)',
    replace: 'pairStore(word, restore, NOP, restore, endian)',
    test: 'ppc-tracing',
    named: 'T-PPC-12',
  },
  {
    name: 'expectations of the profiling entry and of a tracer are not told apart',
    file: 'ftrace/plan.js',
    find: 'if (expect === undefined || ',
    replace: 'if (true || ',
    test: 'ppc-tracing',
    named: 'T-PPC-18',
  },
  {
    name: 'revert of an injected program stops at the image with the runtime',
    file: 'ftrace/apply.js',
    find: 'if (!injected)',
    replace: 'if (true)',
    test: 'patch-enable',
    named: 'revert',
  },
  {
    name: 'x86-64: the inner call of a trampoline is left as it was',
    file: 'arch-x86/trampoline.js',
    find: 'if (seam.patch(address, store.before, store.after))',
    replace: 'if (true)',
    test: 'x86-trampolines',
    named: 'T-X86-18',
  },
  {
    name: 'x86-64: a trampoline of the other template is kept when SAVE_REGS changed',
    file: 'arch-x86/trampoline.js',
    find: 'if (trampoline.layout.template === kindOf(ops))',
    replace: 'if (true)',
    test: 'x86-trampolines',
    named: 'T-X86-44',
  },
  {
    name: 'x86-64: a trampoline whose call could not be changed is used all the same',
    file: 'ftrace/tracing.js',
    find: "if (update.did === 'failed')",
    replace: 'if (false)',
    test: 'x86-trampolines',
    named: 'T-X86-22',
  },
  {
    name: 'x86-64: the trampoline of the user is rewritten',
    file: 'ftrace/tracing.js',
    find: 'given && now.trampoline !== 0n',
    replace: 'false',
    test: 'x86-trampolines',
    named: 'T-X86-17',
  },
  {
    name: 'x86-64: ALLOC_TRAMP is not set',
    file: 'ftrace/tracing.js',
    find: "allocated: trampoline.kind === 'own'",
    replace: 'allocated: false',
    test: 'x86-trampolines',
    named: 'T-X86-16',
  },
  {
    name: 'x86-64: the head of a changed instruction is stored before the tail',
    file: 'arch-x86/live.js',
    find: '...(tails.length > 0 ? [...tails, sync] : []),\n        ...(heads.length > 0 ? [...heads, sync] : []),',
    replace: '...(heads.length > 0 ? [...heads, sync] : []),\n        ...(tails.length > 0 ? [...tails, sync] : []),',
    test: 'x86-trampolines',
    named: 'H1',
  },
  {
    name: 'x86-64: stubs lead four bytes in front of their target',
    file: 'arch-x86/loader.js',
    find: 'branchBias: 4n',
    replace: 'branchBias: 0n',
    test: 'x86-loader',
    named: 'RT-8',
  },
  {
    name: 'x86-64: all sites are taken to be calls of __fentry__',
    file: 'arch-x86/sites.js',
    find: 'flavoursFor(siteConvention(view, from.ipDelta))',
    replace: "flavoursFor('fentry')",
    test: 'x86-tracing',
    named: 'RT-2',
  },
  {
    name: 'x86-64: filters hold the address of the site where callbacks are told another',
    file: 'ftrace/tracing.js',
    find: 'reading.shape.entryIpDelta?.(reading) ?? 0',
    replace: '0',
    test: 'x86-session',
    named: 'C-TGT-7',
  },
  {
    name: 'x86-64: a moved trampoline is taken over whatever it calls',
    file: 'arch-x86/trampoline.js',
    find: 'callees.includes(found.callee)',
    replace: 'true',
    test: 'x86-images',
    named: 'T-X86-39 modern',
  },
  {
    name: 'x86-64: the room of a trampoline that may not be written is cleared',
    file: 'ftrace/trampolines.js',
    find: 'if (this.isForbidden(this.offsetOf(address, sizeBytes), sizeBytes))',
    replace: 'if (false)',
    test: 'x86-trampolines',
    named: 'the command line',
  },
  {
    name: 'x86-64: dynamic ops of 2014 have trampolines although tracers are preempted',
    file: 'ftrace/core/ops.js',
    find: "|| !ops.has('DYNAMIC') || policy.preempt === 'none'",
    replace: '|| true',
    test: 'x86-images',
    named: 'T-X86-6',
  },
  {
    name: 'x86-64: the graph tracer of 2014 gives every saved flag back',
    file: 'ftrace/core/graph.js',
    find: 'if ((saved.flags & OPS_FLAGS.ALLOC_TRAMP) !== 0)',
    replace: 'ops.flags = saved.flags; if ((saved.flags & OPS_FLAGS.ALLOC_TRAMP) !== 0)',
    test: 'x86-images',
    named: 'T-X86-36',
  },
  {
    name: 'x86-64: the trampoline that the graph tracer of 2014 borrowed stays ours to change',
    file: 'ftrace/core/graph.js',
    find: "ops.clear('ALLOC_TRAMP');",
    replace: '',
    test: 'x86-images',
    named: 'T-X86-34',
  },
  {
    name: 'x86-64: sites become nops where nothing is patched',
    file: 'ftrace/session.js',
    find: 'if (capabilities.patchable)',
    replace: 'if (true)',
    test: 'x86-images',
    named: 'T-X86-32',
  },
  {
    name: 'x86-64: without sizes a function reaches over the bodies of overridden ones',
    file: 'ftrace/verdicts.js',
    find: '|| isEntry(sites, index)',
    replace: '|| true',
    test: 'x86-tracing',
    named: 'X-SITE-2',
  },
  {
    name: 'x86-64: pads alone get no entries',
    file: 'program/conventions.js',
    find: 'if (arch.mcount.patchableIsPadding && found.size === 0)',
    replace: 'if (false)',
    test: 'x86-loader',
    named: 'nothing but pads',
  },
  {
    name: 'x86-64: the function tracer of 2014 keeps the plain entry at nested functions',
    file: 'ftrace/tracing.js',
    find: "entries.kind === 'y2014' && hasCallerInFrame",
    replace: 'false && hasCallerInFrame',
    test: 'x86-tracing',
    named: 'trampolines 2014, tracer function:',
  },
  {
    name: 'x86-64: programs with a C library count as one thread',
    file: 'program/loader.js',
    find: /section\.contents\[offset \+ \(.*?\)\] = 1;/,
    replace: '',
    test: 'x86-loader',
    named: 'threads',
  },
  {
    name: 'arm64: the entry looks for its ops without rounding down (functions with a landing pad)',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withWord(0x927d_f3cb, 0xaa1e_03eb),
    test: 'arm64-enable',
    named: 'callops, function',
  },
  {
    name: 'arm64: the entry forgets to zero the word of the direct caller',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withWord(0xf900_27ff, 0xd503_201f),
    test: 'arm64-runtime',
    named: 'callops, ftrace_caller',
  },
  {
    name: 'arm64: the ops pointer is not stored when a site is enabled',
    file: 'arch-arm64/sites.js',
    find: 'if (equalBytes(before, after))',
    replace: 'if (true)',
    test: 'arm64-enable',
    named: 'T-A64-1',
  },
  {
    name: 'arm64: PLT entries stand where erratum 843419 forbids an adrp',
    file: 'arch-arm64/stubs.js',
    find: 'return (place & 0xfffn) >= 0xff8n;',
    replace: 'return false;',
    test: 'arm64-loader',
    named: 'A-PLT-1',
  },
  {
    name: 'arm64: movz stays movz for a negative value',
    file: 'arch-arm64/loader.js',
    find: "value < 0n ? 'movn' : 'movz'",
    replace: "'movz'",
    test: 'arm64-loader',
    named: 'every group of movz',
  },
  {
    name: 'arm64: what an ops pointer names is not looked at before it is changed',
    file: 'ftrace/tracing.js',
    find: 'if (reading.literal !== null && !ops.isKnown(reading.literal))',
    replace: 'if (false)',
    test: 'arm64-enable',
    named: 'A-MOD-1',
  },
  {
    name: 'arm64: relocatable files get no relocation at the ops pointer',
    file: 'arch-arm64/sites.js',
    find: '{ delta: 0, type: R_AARCH64_ABS64, symbol }, ',
    replace: '',
    test: 'arm64-entry',
    named: 'F-2',
  },
  {
    name: 'new symbols of relocatable files are numbered from the last one that is there',
    file: 'ftrace/plan.js',
    find: 'return this.symbols.count + (again',
    replace: 'return this.symbols.count - 1 + (again',
    test: 'arm64-entry',
    named: 'F-2',
  },
  {
    name: 'arm64: position-independent files get ops pointers',
    file: 'arch-arm64/sites.js',
    find: 'if (view.positionIndependent)',
    replace: 'if (false)',
    test: 'arm64-entry',
    named: 'DT_TEXTREL',
  },
  {
    name: 'arm64: a site is switched on and its ops pointer is left as it was',
    file: 'arch-arm64/sites.js',
    find: 'return change([{ delta: 0, before, after }, ...words.stores]',
    replace: 'return change([...words.stores]',
    test: 'arm64-rules',
    named: 'A-MOD-5',
  },
  {
    name: 'RISC-V: the slot of t1 is not cleared before callbacks',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutRiscvWord(0x0201_3823),
    test: 'riscv-direct',
    named: 'T-RV-6',
  },
  {
    name: 'RISC-V: the entry does not look at t1',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutRiscvWord(0x0003_1463),
    test: 'riscv-direct',
    named: 'T-RV-7',
  },
  {
    name: 'RISC-V: the entry does not give t2 back, the static chain',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutRiscvWord(0x0381_3383),
    test: 'riscv-direct',
    named: 'R-ENT-0',
  },
  {
    name: 'RISC-V: the distance alone decides what a fixed auipc reaches',
    file: 'arch-riscv/sites.js',
    find: 'highPart(offset) === BigInt((auipc & 0xffff_f000) | 0)',
    replace: 'true',
    test: 'riscv-direct',
    named: 'T-RV-24',
  },
  {
    name: 'RISC-V: a G1 site is written over whatever its second half is',
    file: 'arch-riscv/sites.js',
    find: 'if (!hasSixteen(view, ip)) {',
    replace: 'if (false) {',
    test: 'riscv-enable',
    named: 'G1 needs',
  },
  {
    name: 'RISC-V: a far site reaches the entry through a stub that changes t0',
    file: 'arch-riscv/loader.js',
    find: "entryStub: () => 'entry'",
    replace: "entryStub: () => 'plt'",
    test: 'riscv-loader',
    named: 'a far site',
  },
  {
    name: 'RISC-V: code that a linker would shorten is loaded as it is',
    file: 'program/link.js',
    find: "if (rule.rule === 'align')",
    replace: 'if (false)',
    test: 'riscv-loader',
    named: 'refused',
  },
  {
    name: 'RISC-V: what differences hold is ignored',
    file: 'program/link.js',
    find: 'held: extractRelocation(rule, section.contents, offset, orders)',
    replace: 'held: 0n',
    test: 'riscv-loader',
    named: 'medany',
  },
  {
    name: 'RISC-V: callbacks at a fixed auipc are told the auipc',
    file: 'ftrace/tracing.js',
    find: '? ip : ip + 4n',
    replace: '? ip - 4n : ip',
    test: 'riscv-direct',
    named: 'T-RV-23',
  },
  {
    name: 'RISC-V: the proposal is not asked for, the slot stays that of t1',
    file: 'ftrace/session.js',
    find: 'if (options.directVariant !== undefined)',
    replace: 'if (false)',
    test: 'riscv-direct',
    named: 'F-9',
  },
  {
    name: 'RISC-V: the return handler forgets a1 (entries of 2022)',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutRiscvWord(0x00b1_3023),
    test: 'runtime-riscv',
    named: 'R-ENT-4',
  },
  {
    name: 'RISC-V: the ops of a direct caller need not save registers',
    file: 'ftrace/core/direct.js',
    find: "backend.capabilities.regs === 'separate' && !ops.has('SAVE_REGS')",
    replace: 'false',
    test: 'riscv-direct',
    named: 'T-RV-28',
  },
  {
    name: 'RISC-V: a pair is no hazard',
    file: 'arch-riscv/sites.js',
    find: "return changed > 1 ? 'H2' : null;",
    replace: 'return null;',
    test: 'riscv-direct',
    named: 'T-RV-25',
  },
  {
    name: 'RISC-V: a word in front of a function keeps its ops when its site is left to the list',
    file: 'ftrace/core/targets.js',
    find: "return { kind: 'list-ops' };",
    replace: "return { kind: 'nop-ops' };",
    test: 'riscv-coexistence',
    named: 'A6.3',
  },
  {
    name: 'race: a store of a patcher and a fetch of a thread are taken to be independent',
    file: 'race/world.js',
    find: 'meets(b.writes, a.reads) ||',
    replace: '',
    test: 'race',
    named: 'reduced set',
  },
  {
    name: "race: what threads share is taken to be each one's own",
    file: 'race/explore.js',
    find: 'this.shared.add(granule);',
    replace: '',
    test: 'race',
    named: 'lost update',
  },
  {
    name: 'race: an instruction is executed at once although its CPU may fetch it anew first',
    file: 'race/explore.js',
    find: ' || world.mayFetchAnew(actor.index, range)',
    replace: '',
    test: 'race',
    named: 'fetches anew',
  },
  {
    name: 'race: a wait for threads does not wait',
    file: 'race/world.js',
    find: 'this.books.patchers[actor.index].pending === 0',
    replace: 'true',
    test: 'race-hazards',
    named: 'H5: wait',
  },
  {
    name: 'race: nobody looks whether memory was freed',
    file: 'race/world.js',
    find: 'const freed = this.books.freed.find(',
    replace: 'const freed = [].find(',
    test: 'race-hazards',
    named: 'H12: serialised',
  },
  {
    name: 'race: halves of two instructions are an instruction',
    file: 'race/world.js',
    find: 'if (whole)',
    replace: 'if (true)',
    test: 'race-hazards',
    named: 'H1: bytes',
  },
  {
    name: 'race: interrupts reach processors in a trap handler',
    file: 'race/world.js',
    find: "case 'synchronise':\n                return step.thread === 'all' ? !this.anyTrapped()",
    replace: "case 'synchronise':\n                return step.thread === 'all' ? true",
    test: 'race-hazards',
    named: 'H1: int3',
  },
  {
    name: 'race: the number of orders leaves a factor out',
    file: 'race/explore.js',
    find: 'result = (result * BigInt(sum)) / BigInt(i);',
    replace: 'result = (result * BigInt(sum)) / BigInt(Math.min(i, 2));',
    test: 'race-hazards',
    named: 'H1: bytes',
  },
  {
    name: 'race: a loop that nobody leaves is none',
    file: 'race/explore.js',
    find: 'if (key === mark) {',
    replace: 'if (false) {',
    test: 'race',
    named: 'endless loop',
  },
  {
    name: 'race: a callback may have any ops',
    file: 'race/image.js',
    find: 'checks: passesOps ? checksOf([from, to], session, arch) : new Map(),',
    replace: 'checks: new Map(),',
    test: 'race-image',
    named: 'H6',
  },
  {
    name: 'race: something that runs on every processor waits for those that were preempted',
    file: 'race/image.js',
    find: "if (step.grace === 'rude' && this.request.preempt !== 'none')",
    replace: 'if (false)',
    test: 'race-image',
    named: 'T-X86-6',
  },
  {
    name: 'race: a machine that was stopped goes on with what it had fetched',
    file: 'race/world.js',
    find: 'if (step.synchronises === true)\n                for',
    replace: 'if (false)\n                for',
    test: 'race-image',
    named: 'R-MOD-3',
  },
  {
    name: 'race: bounds that cut a search are not stated',
    file: 'race/explore.js',
    find: "search.bound('max-schedules', Number(limit));",
    replace: '',
    test: 'race',
    named: 'are stated',
  },
  {
    name: 'race: registers that change are not told',
    file: 'race/story.js',
    find: '(after.get(name) === was ? [] :',
    replace: '(true ? [] :',
    test: 'race-image',
    named: 'told',
  },
  {
    name: 'sessions: sites that no table names are sites only as long as they are calls',
    file: 'ftrace/session.js',
    find: 'sites.keep();',
    replace: '',
    test: 'race-image',
    named: 'C-UPD-2',
  },
];

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const copy = mkdtempSync(join(tmpdir(), 'elftrace-sabotage-'));
let survived = 0;
try {
  for (const entry of ['package.json', 'jest.config.js', 'samples', 'schemas', 'docs', 'README.md', 'src', 'test']) {
    symlinkSync(join(root, entry), join(copy, entry));
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  cpSync(join(root, 'build'), join(copy, 'build'), { recursive: true });
  const wanted = process.argv.slice(2);
  for (const each of breakages) {
    if (wanted.length > 0 && !wanted.some((word) => each.name.includes(word))) continue;
    const path = join(copy, 'build', 'src', each.file);
    const good = readFileSync(path, 'utf8');
    const bad = good.replace(each.find, each.replace);
    if (bad === good) {
      console.log(`NOT APPLIED  ${each.name} (${each.file})`);
      survived++;
      continue;
    }
    writeFileSync(path, bad);
    const result = spawnSync(
      process.execPath,
      [
        join(copy, 'node_modules', 'jest', 'bin', 'jest.js'),
        '--bail',
        ...(each.named === undefined ? [] : ['--testNamePattern', each.named.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')]),
        join('build', 'test', `${each.test}.test.js`),
      ],
      { cwd: copy, encoding: 'utf8', timeout: 180000 },
    );
    writeFileSync(path, good);
    // Red for any other reason (a name that no test has, a syntax error, the time limit) proves nothing.
    const failed = /^Tests: .*\b[1-9]\d* failed/m.test(result.stderr) && result.status === 1;
    if (!failed) {
      console.log(`SURVIVED     ${each.name} (${each.test}${each.named === undefined ? '' : `: ${each.named}`})`);
      survived++;
    } else console.log(`noticed      ${each.name}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(survived === 0 ? 'every breakage was noticed' : `${survived} breakages were not noticed`);
process.exitCode = survived === 0 ? 0 : 1;
