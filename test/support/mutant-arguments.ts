/**
 * Why mutants that a proof does not find change nothing that a proof is about (PV-5). The first row
 * that fits counts; a row that fits no mutant is an error of `scripts/mutants.ts`.
 */
import type { MutantNote } from './mutant-run.js';
import type { MutantKind } from './mutants.js';

export interface MutantArgument {
  readonly name: string;
  readonly why: string;
  readonly object: RegExp;
  readonly symbol: RegExp;
  /** Of the text of the instruction, or of both. */
  readonly text?: RegExp;
  readonly kinds?: readonly MutantKind[];
  /** What the code around it says. */
  readonly note?: MutantNote;
  /**
   * Computed, of trials or not: the code does the same (`mutant-equal.ts`), always or but for ways
   * on which the graph tracer stops for good.
   */
  readonly isSame?: 'always' | 'unless it stops';
  /** `idle`: no trial comes to the instruction. Default: `survived`. */
  readonly standing?: 'survived' | 'idle';
}

const any = /^/;

export const mutantArguments: readonly MutantArgument[] = [
  {
    name: 'same code',
    why:
      'computed (test/support/mutant-equal.ts): executed with symbols in place of numbers, ' +
      'it comes to a place of the original in a state that differs at most in what no code ' +
      'reads from there on',
    object: any,
    symbol: any,
    isSame: 'always',
  },
  {
    name: 'gives up',
    why:
      'only where the graph tracer stops for good, as a return is not on its stack, or a ' +
      "function lost its caller's frame pointer (C-FG-2): no function that keeps to its ABI " +
      'comes there, and elsewhere it is the same code, as computed',
    object: any,
    symbol: any,
    isSame: 'unless it stops',
  },
  {
    name: 'one hart',
    why: 'where one hart runs, a store with a reservation succeeds: the branch that tries ' + 'again is not taken',
    object: any,
    symbol: any,
    note: 'retry',
    text: /^(?:cbnz|bne|bnez) [^;]*$/,
    kinds: ['nop', 'immediate'],
  },
  {
    name: 'one hart',
    why:
      'where one hart runs, a store with a reservation succeeds: the branch that tries again is ' +
      'not taken, wherever it stands',
    object: any,
    symbol: any,
    note: 'retry',
    // The other one neither goes elsewhere nor changes what the branch asks.
    text: /^(?:bne [^;]*; (?!cmp|b)|(?:cbnz|bnez) [wx]?(\w+),[^;]*; (?!subs|c?b|\S+ [wx]?\1\b))/,
    kinds: ['swap'],
  },
  {
    name: 'looked at twice',
    why: 'a plain look in front of a load with a reservation: the second one decides',
    object: any,
    symbol: /^(?!write_record$|record_event$)/,
    text: /^(?:cbnz|bne|bnez) /,
    kinds: ['nop'],
    note: 'look',
  },
  {
    name: 'compare and exchange',
    why:
      'where one hart runs, a compare and exchange finds what was read just before: the ' +
      'branch for another value is not taken',
    object: any,
    symbol: any,
    note: 'exchange',
    kinds: ['nop', 'immediate'],
  },
  {
    name: 'compare and exchange',
    why:
      'where one hart runs, a compare and exchange finds what was read just before: the ' +
      'branch for another value is not taken',
    object: any,
    symbol: any,
    note: 'exchange',
    text: /; (?:stl?xr|st[wd]cx|sc\.[wd])/,
    kinds: ['swap'],
  },
  {
    name: 'a fourth',
    why:
      'a search in ascending numbers that looks at a fourth of what is left and not at the half looks at ' +
      'one that is left, too: it finds the same',
    object: /^riscv64\//,
    symbol: /^(?:matches|ftrace_direct_func|elftrace_probe_ftrace)$/,
    text: /^srli a\d,a\d,0x1$/,
    kinds: ['immediate'],
  },
  {
    name: 'number of a thread',
    why:
      'the number is the distance of two blocks through their size, a division that leaves out as ' +
      'many of the lowest bits as blocks are aligned to: a pointer into the block is enough',
    object: /^riscv64\//,
    symbol: /^(?:pop|elftrace_graph_push|elftrace_graph_return)$/,
    text: /^mv a0,s1$/,
    kinds: ['immediate'],
  },
  {
    name: 'number of a thread',
    why:
      'the distance is a multiple of the size: what is left out and what is multiplied by may change ' +
      'places, as both are exact',
    object: /^x86-64\//,
    symbol: /^(?:write_record|record_event|handle|elftrace_probe_hit)$/,
    text: /^sar; imul$/,
    kinds: ['swap'],
  },
  {
    name: 'number of a thread',
    why:
      'the distance is a multiple of the size: what is left out and what is multiplied by may change ' +
      'places, as both are exact',
    object: /^riscv64\//,
    symbol: /^(?:write_record|record_event|handle|elftrace_probe_hit|elftrace_graph_push)$/,
    text: /^srai (\w+),\1,0x4; mul \1,\1,\w+$/,
    kinds: ['swap'],
  },
  {
    name: 'frame of the runtime',
    why:
      'functions of the runtime that call no callback keep the link to the frame above for who ' +
      'unwinds: no code reads it, and nothing unwinds there',
    object: /^ppc/,
    symbol: /^\.?(?:handle|record_event)$/,
    text: /^st[wd]u r1,-\d+\(r1\)$/,
    kinds: ['registers'],
  },
  {
    name: 'stack pointer of a frame',
    why: 'the word of the frame is the stack pointer that the entry has: no callback may change it',
    object: /^riscv64\//,
    symbol: /^ftrace_regs_call$/,
    text: /^ld sp,16\(sp\)$/,
    kinds: ['nop'],
  },
  {
    name: 'lowest bit',
    why: 'a stack pointer is even: the mask that aligns it need not clear its lowest bit',
    object: /^riscv64\//,
    symbol: /^elftrace_invoke$/,
    text: /^andi sp,sp,-16$/,
    kinds: ['immediate'],
  },
  {
    name: 'hint',
    why: 'the hint of a load with a reservation says nothing about what it does',
    object: /^ppc/,
    symbol: any,
    text: /^l[wd]arx r\d+,(?:0|r\d+),r\d+,0$/,
    kinds: ['immediate'],
  },
  {
    name: 'behind a return',
    why: 'a nop changes places with the return in front of it',
    object: any,
    symbol: any,
    text: /^(?:ret(?: x\d+)?|blr); nop$/,
    kinds: ['swap'],
  },
  {
    name: 'time',
    why: 'the clock is read an instruction earlier or later: any time of the trial will do',
    object: any,
    symbol: any,
    note: 'clock',
    kinds: ['swap'],
  },
  {
    name: 'frame of the runtime',
    why: 'functions of the runtime set a frame pointer that no code reads: unwinders begin at ' + 'the entry',
    object: /^arm64\//,
    symbol: any,
    note: 'idle frame',
    kinds: ['nop'],
  },
  {
    name: 'readers beside',
    why: 'a record is of kind 0 until it is whole, for those who read while it is written',
    object: /^arm64\//,
    symbol: /^write_record$/,
    text: /^str wzr, \[x\d+\]/,
  },
  {
    name: 'link register',
    why: 'a jump that leaves its own address in ra: the function has a frame, and loads ra ' + 'before it returns',
    object: /^riscv64\//,
    symbol: any,
    text: /^j (?:0x)?[0-9a-f]+$/,
    kinds: ['registers'],
  },
  {
    name: 'never executed',
    why: 'no way leads to it: padding behind an instruction that goes elsewhere',
    object: any,
    symbol: any,
    note: 'never',
    standing: 'idle',
  },
  {
    name: 'gives up',
    why:
      'only where the graph tracer stops for good, as a return is not on its stack, or a ' +
      "function lost its caller's frame pointer (C-FG-2): no function that keeps to its ABI " +
      'comes there',
    object: any,
    symbol: /^(?:elftrace_graph_return|pop)$/,
    note: 'gives up',
    standing: 'idle',
  },
  {
    name: 'second way to the graph',
    why:
      'images of g2 have the graph tracer as a callback: the second patched call stays two ' +
      'nops; test/runtime-riscv.test.ts executes it',
    object: /^riscv64\/g2(?:\+probes)?$/,
    symbol: /^ftrace_graph_caller$/,
    standing: 'idle',
  },
  {
    name: 'graph as a branch',
    why:
      'g2-plain has the graph tracer as a patched call: the callback gets no frame, takes ' +
      'no call, and is in no image that is proved',
    object: /^riscv64\/g2-plain(?:\+probes)?$/,
    symbol: /^ftrace_graph_func$/,
    standing: 'idle',
  },
  {
    name: 'guard of the list',
    why: 'what wants a guard has no word of its own in front of the function (targets.ts): the ' + 'list calls it',
    object: /^arm64\/callops(?:\+probes)?$/,
    symbol: /^ftrace_ops_assist_func$/,
    standing: 'idle',
  },
  {
    name: 'nested function',
    why:
      'around the call of a nested function nothing can take its place, and the tool refuses it ' +
      '(EINVAL): of other functions the code behind the site says so first',
    object: /^x86-64\/(?:modern|y2014)(?:\+probes)?$/,
    symbol: /^elftrace_livepatch$/,
    text: /^(?:cmp|je|jne|jmp|movzx|nop)/,
    standing: 'idle',
  },
  {
    name: 'nested function',
    why:
      'around the call of a nested function nothing can take its place, and the tool refuses it ' +
      '(EINVAL): of other functions the code behind the site says so first',
    object: /^x86-64\/(?:modern|y2014)(?:\+probes)?$/,
    symbol: /^elftrace_livepatch$/,
    text: /^cmp(?:; je)?$/,
    kinds: ['nop', 'swap'],
  },
  {
    name: 'kept call',
    why: "a trap where what a replaced function's caller needs is not found, which was kept on " + 'the way in',
    object: /^ppc64-/,
    symbol: /^ftrace_regs_caller_end$/,
    text: /^trap$/,
    standing: 'idle',
  },
  {
    name: 'landing pad',
    why:
      'the call leads behind the first instruction of the entry, a landing pad, for which ' + 'no processor looks here',
    object: /^arm64 site$/,
    symbol: any,
    text: /^bl /,
    kinds: ['immediate'],
  },
  {
    name: 'landing pad',
    why:
      'the call leads behind the first instruction of the entry, a landing pad, for which ' + 'no processor looks here',
    object: /^arm64\//,
    symbol: /^elftrace_stub_text$/,
    text: /^bti c; ret$/,
    kinds: ['swap'],
  },
];
