/**
 * Why mutants that a proof does not find change nothing that a proof is about (PV-5). The first row
 * that fits counts; a row that fits no mutant is an error of `scripts/mutants.ts`.
 */
import type { MutantNote } from './mutant-notes.js';
import { placeArguments } from './mutant-places.js';
import type { MutantKind } from './mutants.js';

export interface MutantArgument {
  readonly name: string;
  readonly why: string;
  readonly object: RegExp;
  readonly symbol: RegExp;
  /** Of the text of the instruction, or of both. */
  readonly text?: RegExp;
  readonly kinds?: readonly MutantKind[];
  /**
   * These alone, which were looked at one by one: function, place, kind, and what tells its code
   * from any other (`MutantState`).
   */
  readonly places?: readonly string[];
  /** Bytes of the symbol: from, up to. */
  readonly range?: readonly [from: number, to: number];
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

/** Of mutants that trials come to, and of those that they do not. */
const askedAgain = {
  name: 'read again',
  why:
    'whether a user of the graph tracer has a callback is asked again behind that callback, which changes ' +
    'no ops: it has one',
  object: any,
  symbol: /^elftrace_graph_push$/,
};

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
    name: 'looked at twice',
    why: 'a plain look in front of a load with a reservation: the second one decides',
    object: any,
    symbol: /^(?!write_any$|record_event$)/,
    text: /^(?:cbnz|bne|bnez) /,
    kinds: ['nop'],
    note: 'look',
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
    symbol: /^(?:pop|elftrace_graph_push)$/,
    // What is called there writes a record, and does nothing else with the pointer.
    places: [
      'riscv64 pop+444 immediate 371623cb41d7',
      'riscv64 elftrace_graph_push+560 immediate ad61d2364241',
      'riscv64 elftrace_graph_push+600 immediate 94a5e7a7cd9c',
    ],
  },
  {
    name: 'number of a thread',
    why:
      'the distance is a multiple of the size: what is left out and what is multiplied by may change ' +
      'places, as both are exact',
    object: /^x86-64\//,
    symbol: /^(?:record_event|handle|elftrace_probe_hit)$/,
    text: /^sar; imul$/,
    kinds: ['swap'],
  },
  {
    name: 'number of a thread',
    why:
      'the distance is a multiple of the size: what is left out and what is multiplied by may change ' +
      'places, as both are exact',
    object: /^riscv64\//,
    symbol: /^(?:record_event|handle|elftrace_probe_hit|elftrace_graph_push)$/,
    text: /^srai (\w+),\1,0x4; mul \1,\1,\w+$/,
    kinds: ['swap'],
  },
  {
    name: 'number of a thread',
    why:
      'the number is one of 32 bits: the upper half of what the distance of two blocks is multiplied by ' +
      'says nothing',
    object: /^ppc64-/,
    symbol: /^(?:record_event|handle|elftrace_probe_hit|elftrace_graph_push)$/,
    text: /^(?:lis r\d+,13594|ori (r\d+),\1,10144)$/,
    kinds: ['nop', 'immediate'],
  },
  {
    name: 'number of a thread',
    why:
      'the number is one of 32 bits: the upper half of what the distance of two blocks is multiplied by ' +
      'says nothing',
    object: /^ppc64-/,
    symbol: /^elftrace_graph_push$/,
    text: /^sldi (r10),\1,32$/,
    kinds: ['immediate'],
  },
  {
    name: 'a third',
    why:
      'a third of a small number is found by multiplication: the lower bits of what it is multiplied by ' +
      'say nothing',
    object: /^ppc64-/,
    symbol: /^record_event$/,
    text: /^(?:lis r6,-21846|ori r6,r6,4369[01])$/,
    kinds: ['immediate'],
  },
  {
    name: 'places in a table',
    why: 'a search compares two places in a table: no table has as many rows as 32 bits count',
    object: /^ppc64-/,
    symbol: /^matches$/,
    places: ['ppc64-elfv2-le matches+56 immediate 08260b689c6e'],
  },
  {
    name: 'no other op',
    why: 'programs of events have the ops that the tool writes: what tells others from them is taken on no way',
    object: any,
    symbol: /^record_event$/,
    places: ['ppc64-elfv2-le record_event+168 nop 3db04f69aafc', 'ppc64-elfv2-le record_event+168 swap 3db04f69aafc'],
  },
  {
    name: 'set anew',
    why:
      'where a text is behind a pointer, the look at the pointer sets the word, and where that look is left ' +
      'out, nothing reads it',
    object: any,
    symbol: /^record_event$/,
    places: ['riscv64 record_event+348 swap 1144d1659a83', 'ppc64-elfv2-le record_event+304 nop 3db04f69aafc'],
  },
  {
    name: 'one size',
    why: 'registers in frames of this machine have 8 bytes each: no program of an event says another size',
    object: /^riscv64\//,
    symbol: /^record_event$/,
    places: ['riscv64 record_event+236 immediate 1144d1659a83'],
    standing: 'idle',
  },
  {
    name: 'its own block',
    why:
      'a function in the place of another one comes back in a thread that has its call in a block, and no block ' +
      'is given back: none in front of that one is free, none is taken, and the last one is not passed',
    object: any,
    symbol: /^elftrace_side_pop$/,
    places: [
      'ppc64-elfv2-le elftrace_side_pop+16 nop 0ce5f396c5c2',
      'ppc64-elfv2-le elftrace_side_pop+40 registers 0ce5f396c5c2',
      'ppc64-elfv2-le elftrace_side_pop+52 swap 0ce5f396c5c2',
      'ppc64-elfv1 elftrace_side_pop+40 swap 6f3507e8a32d',
      'ppc64-elfv1 elftrace_side_pop+48 registers 6f3507e8a32d',
      'ppc64-elfv1 elftrace_side_pop+48 swap 6f3507e8a32d',
    ],
  },
  {
    name: 'still in its register',
    why: 'what is loaded from the frame is in the register from which it was stored, which no way there changes',
    object: any,
    symbol: /^ftrace_ops_list_func$/,
    places: ['ppc64-elfv2-le ftrace_ops_list_func+212 nop 2ce311d21b23'],
  },
  {
    name: 'no call under way',
    why:
      'a look at the word in front of the first call finds what the thread says of callbacks that run: a ' +
      'number that is far from every stack, as where a call of another stack is found',
    object: any,
    symbol: /^elftrace_graph_push$/,
    places: [
      'x86-64 elftrace_graph_push+41 nop 69bdea9cdcd6',
      'arm64 elftrace_graph_push+48 nop d38e69ef457d',
      'ppc64-elfv1 elftrace_graph_push+48 nop 5a45da8e7b43',
      'ppc64-elfv2-le elftrace_graph_push+56 nop df9431d23837',
    ],
  },
  {
    ...askedAgain,
    places: [
      'ppc64-elfv2-le elftrace_graph_push+636 nop df9431d23837',
      'ppc64-elfv2-le elftrace_graph_push+636 immediate e012a1960b19',
      'ppc64-elfv2-be elftrace_graph_push+636 immediate bfde7dedb068',
      'arm64 elftrace_graph_push+600 nop 8bf94ab86d96',
    ],
  },
  {
    ...askedAgain,
    places: [
      'arm64 elftrace_graph_push+608 nop 8bf94ab86d96',
      'arm64 elftrace_graph_push+608 nop acb95b04eb3b',
      'arm64 elftrace_graph_push+608 nop 7778901de03f',
      'ppc64-elfv1 elftrace_graph_push+644 nop 6848d137a8fa',
      'ppc64-elfv2-le elftrace_graph_push+644 nop e012a1960b19',
      'ppc64-elfv2-be elftrace_graph_push+836 nop d850c1e62afd',
      'ppc64-elfv2-le elftrace_graph_push+836 nop 70cd02ddbdc3',
    ],
    standing: 'idle',
  },
  {
    name: 'end of the list',
    why:
      'what stands at the end of the list of ops is passed over as any stub is, and nothing is behind it: it ' +
      'need not be known by its address',
    object: any,
    symbol: /^\.?ftrace_ops_list_func$/,
    places: [
      'arm64 ftrace_ops_list_func+196 immediate 4dc6c25a5df9',
      'arm64 ftrace_ops_list_func+276 swap 4dc6c25a5df9',
      'ppc64-elfv1 ftrace_ops_list_func+268 immediate 091ec20dadd0',
      'ppc64-elfv1 ftrace_ops_list_func+272 swap 091ec20dadd0',
      'ppc64-elfv1 .ftrace_ops_list_func+288 nop c400ea520597',
      'ppc64-elfv2-le ftrace_ops_list_func+288 swap 71b783e0b250',
      'ppc64-elfv2-be ftrace_ops_list_func+268 swap 29c24bd80aad',
      'ppc64-elfv2-le ftrace_ops_list_func+268 nop b3ccb52c5c0b',
      'riscv64 ftrace_ops_list_func+224 immediate 5fc065dcfb7e',
      'riscv64 ftrace_ops_list_func+228 immediate 107844231b69',
      'riscv64 ftrace_ops_list_func+228 nop 107844231b69',
      'riscv64 ftrace_ops_list_func+228 swap 5fc065dcfb7e',
      'x86-64 ftrace_ops_list_func+111 nop 44d0f40e8566',
    ],
  },
  {
    name: 'half of a word',
    why:
      'the branch leads one byte too far, behind what makes an operation one of 64 bits: on a small number ' +
      'that of 32 does the same',
    object: /^x86-64\//,
    symbol: any,
    places: [
      'x86-64 ftrace_ops_list_func+116 immediate e2aeb70861dc',
      'x86-64 elftrace_graph_push+99 immediate fabe513abe5c',
      'x86-64 elftrace_graph_push+125 immediate fabe513abe5c',
      'x86-64 elftrace_graph_push+242 immediate 6ff41e00ea81',
      'x86-64 elftrace_graph_push+562 immediate 6ff41e00ea81',
    ],
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
    name: 'frame of the runtime',
    why:
      'functions of the runtime that call no callback keep the link to the frame above for who ' +
      'unwinds: no code reads it, and nothing unwinds there',
    object: /^ppc/,
    symbol: /^ftrace_regs_caller_end$/,
    places: ['ppc64-elfv2-le ftrace_regs_caller_end+536 registers 5fbad08bf3cc'],
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
    // Halves of a clock have an order, and are compared.
    object: /^(?!ppc32\/)/,
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
    symbol: /^(?:write_any|elftrace_function_tracer|elftrace_graph_push|pop|record_event)$/,
    // Another register than 0 may be what a record far from the ring is told by.
    text: /^str [wx]zr, \[x\d+(?:, #24)?\]$/,
    kinds: ['nop', 'immediate'],
  },
  {
    name: 'link register',
    why: 'a jump that leaves its own address in ra: the function has a frame, and loads ra ' + 'before it returns',
    object: /^riscv64\//,
    // One that calls nothing has no frame.
    symbol: /^(?!ftrace_direct_func$)/,
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
    symbol: /^\.?(?:elftrace_graph_return|pop|return_to_handler|elftrace_return_text)$/,
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
    name: 'one kind of frame',
    why:
      'frames of these entries have the address of the function in the place that says of others whether ' +
      'they are whole: it is never 0',
    object: /^arm64\/(?:args|callops)(?:\+probes)?$/,
    symbol: /^ftrace_ops_list_func$/,
    places: [
      'arm64 ftrace_ops_list_func+224 immediate d2e37d550ec1',
      'arm64 ftrace_ops_list_func+248 nop d2e37d550ec1',
      'arm64 ftrace_ops_list_func+228 immediate 4dc6c25a5df9',
    ],
  },
  {
    name: 'one kind of frame',
    why:
      'frames of these entries have the place where the function goes on where others say whether they are ' +
      'whole: it is never 0, nor are its upper bytes',
    object: /^riscv64\/(?:g2-merged|g3c)(?:\+probes)?$/,
    symbol: /^ftrace_ops_list_func$/,
    places: ['riscv64 ftrace_ops_list_func+288 immediate 5fc065dcfb7e'],
  },
  {
    name: 'no frame',
    why: 'entries of this convention hand callbacks no frame: what one holds is not looked at',
    object: /^riscv64\/g2-plain(?:\+probes)?$/,
    symbol: /^(?:ftrace_ops_list_func|elftrace_livepatch)$/,
    places: [
      'riscv64 ftrace_ops_list_func+288 immediate 107844231b69',
      'riscv64 elftrace_livepatch+4 nop 644b5828faba',
    ],
    standing: 'idle',
  },
  {
    name: 'no frame',
    why: 'entries of this convention hand callbacks no frame: what their last argument is nothing says',
    object: /^arm64\/pg(?:\+probes)?$/,
    symbol: /^ftrace_ops_list_func$/,
    places: ['arm64 ftrace_ops_list_func+308 nop 593e9730cee5'],
  },
  {
    name: 'no block',
    why:
      'of a thread without a block the handler of hits reads no frame: it looks for one again, finds none, ' +
      'and the frame is put back',
    object: /^arm64\/regs\+probes$/,
    symbol: /^elftrace_probe_ftrace$/,
    places: [
      'arm64 elftrace_probe_ftrace+268 swap 57b10832281b',
      'arm64 elftrace_probe_ftrace+272 immediate 57b10832281b',
    ],
  },
  {
    name: 'first of a program',
    why:
      'a program of an event begins with a register or a number, which sets what is known of faults: what ' +
      'stands there before nothing reads',
    object: any,
    symbol: /^record_event$/,
    places: ['arm64 record_event+20 nop d1dde0f09e5c'],
  },
  {
    name: 'an event',
    why: 'a probe that is on has an event: a list of none need not be looked for',
    object: any,
    symbol: /^(?:handle|elftrace_probe_hit)$/,
    places: ['arm64 elftrace_probe_hit+148 immediate da2162ac1ba0'],
  },
  {
    name: 'behind the last block',
    why:
      'the search through all blocks ends behind the last one only where none has the call: there the graph ' +
      'tracer stops for good',
    object: any,
    symbol: /^elftrace_graph_return$/,
    places: ['arm64 elftrace_graph_return+188 nop 43ba7ddb11ac'],
  },
  {
    name: 'left out of the frames',
    why:
      'frames above callbacks lead past the one of this function to that of its caller, whose frame pointer ' +
      'it gives back: its stack pointer',
    object: /^arm64\//,
    symbol: /^pop$/,
    places: ['arm64 pop+0 swap 793d830a6ce3'],
  },
  {
    name: 'left out of the frames',
    why:
      'frames above callbacks lead past the one of this handler to that of the caller, whose frame pointer ' +
      'is in its register',
    object: /^riscv64\//,
    symbol: /^elftrace_return_text$/,
    places: ['riscv64 elftrace_return_text+28 nop c572f4d35b09'],
  },
  {
    name: 'lost by the call',
    why:
      'a nop changes places with the jump back, which leaves an address in ra for predictors alone: the ' +
      'caller lost ra with its call',
    object: /^riscv64\//,
    symbol: /^elftrace_return_end$/,
    places: ['riscv64 elftrace_return_end+0 swap c2eaa054698a'],
  },
  {
    name: 'only whether it is equal',
    why: 'a conditional comparison that does not compare sets flags of which the branch asks the one alone',
    object: /^arm64\//,
    symbol: /^elftrace_graph_push$/,
    places: ['arm64 elftrace_graph_push+292 immediate acb95b04eb3b'],
  },
  {
    name: 'not 0',
    why: 'code asks of the number no more than whether it is 0, and it is not',
    object: any,
    symbol: /^elftrace_graph_return$/,
    places: ['arm64 elftrace_graph_return+464 immediate c52c3bf1432d'],
  },
  {
    name: 'not 0',
    why: 'code asks of the number no more than whether it is 0, and it is not',
    object: any,
    symbol: /^matches$/,
    places: ['riscv64 matches+72 immediate 220acb300328'],
  },
  {
    name: 'all registers',
    why:
      'whether there are all registers is asked of a frame that has them: ops that want all of them are ' +
      'called by the entry that hands them on, and the list passes over them elsewhere',
    object: any,
    symbol: /^(?:ftrace_direct_func|elftrace_probe_ftrace)$/,
    places: [
      'arm64 elftrace_probe_ftrace+48 immediate 57b10832281b',
      'riscv64 ftrace_direct_func+20 swap 00932f08852c',
      'riscv64 ftrace_direct_func+28 nop 750eeb01d823',
      'riscv64 ftrace_direct_func+28 swap 7cf0fd75a0fd',
      'ppc32 ftrace_direct_func+24 nop 71a29a063035',
      'ppc32 ftrace_direct_func+36 nop 4e0a5d4c06fc',
      'ppc32 ftrace_direct_func+36 swap 4e0a5d4c06fc',
      'ppc64-elfv1 ftrace_direct_func+40 nop 01af7ce31f89',
      'ppc64-elfv2-le ftrace_direct_func+44 nop 3bb705c6343f',
      'ppc64-elfv1 elftrace_probe_ftrace+36 swap 881e799d03c6',
      'ppc64-elfv1 elftrace_probe_ftrace+40 swap 29860d6b50b2',
      'ppc64-elfv2-be elftrace_probe_ftrace+44 nop a036803b3507',
      'ppc64-elfv2-be elftrace_probe_ftrace+48 nop a036803b3507',
    ],
  },
  {
    name: 'direct from the plain entry',
    why:
      'ops of direct callers want all registers, so that a site with a direct caller calls the ' +
      'other entry: the plain one never goes to a direct caller',
    object: /^ppc64-.*\/ool-ops(?:\+probes)?$/,
    symbol: /^ftrace_regs_caller_end$/,
    range: [0, 0x60],
    standing: 'idle',
  },
  {
    name: 'direct from the plain entry',
    why:
      'ops of direct callers want all registers, so that a site with a direct caller calls the ' +
      'other entry: the plain one never goes to a direct caller',
    object: /^ppc32\/ool-ops(?:\+probes)?$/,
    symbol: /^ftrace_regs_caller_end$/,
    range: [0, 0x5c],
    standing: 'idle',
  },
  {
    name: 'users of a call',
    why:
      'whether users wait for a return is asked again behind its record, which changes no call under way: ' +
      'none does',
    object: any,
    symbol: /^depart$/,
    places: [
      'ppc32 depart+292 registers 91a70b43e989',
      'ppc32 depart+296 swap 91a70b43e989',
      'ppc32 depart+296 immediate 6a34e13a8775',
      'ppc32 depart+296 swap 6a34e13a8775',
      'ppc64-elfv1 depart+292 registers ef1b0e1ab6d1',
      'ppc64-elfv1 depart+300 nop ef1b0e1ab6d1',
      'ppc64-elfv2-be depart+288 nop d8d60e3b8108',
      'ppc64-elfv2-le depart+296 nop 7cce06631022',
      'ppc64-elfv2-le depart+300 immediate 7cce06631022',
      'ppc64-elfv2-le depart+292 nop 9c062161c8a5',
      'arm64 depart+212 immediate 5f938caa4395',
      'arm64 depart+216 nop 5f938caa4395',
    ],
    standing: 'idle',
  },
  {
    name: 'global entry',
    why:
      'the table of contents of a function that is called from elsewhere: entries and the list call it ' +
      'behind that, with the table that they have themselves',
    object: /^ppc64-elfv2-/,
    symbol: /^(?:ftrace_ops_(?:list|assist)_func|elftrace_probe_hit)$/,
    places: [
      'ppc64-elfv2-be ftrace_ops_assist_func+0 swap 358eb3041e13',
      'ppc64-elfv2-be ftrace_ops_assist_func+4 registers 358eb3041e13',
      'ppc64-elfv2-be ftrace_ops_list_func+0 registers 29c24bd80aad',
      'ppc64-elfv2-le ftrace_ops_list_func+4 nop b3ccb52c5c0b',
      'ppc64-elfv2-be elftrace_probe_hit+0 immediate 9a067e9b6028',
      'ppc64-elfv2-be elftrace_probe_hit+4 nop 9a067e9b6028',
      'ppc64-elfv2-be elftrace_probe_hit+4 immediate 9a067e9b6028',
      'ppc64-elfv2-le elftrace_probe_hit+0 registers cb157d021eea',
      'ppc64-elfv2-le elftrace_probe_hit+4 registers 6efb307af79f',
    ],
    standing: 'idle',
  },
  {
    name: 'profiling entry',
    why: 'the entry of sites that are not patched, for images that have none: a proof is about patched sites',
    object: any,
    symbol: /^\.?_mcount$/,
    standing: 'idle',
  },
  {
    name: 'wrapper of vectors',
    why:
      'callbacks of ordinary C are called by way of it where a program registers them itself: no request of ' +
      'the tool does; test/runtime-x86.test.ts executes it',
    object: /^x86-64\//,
    symbol: /^elftrace_vector_func$/,
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
    name: 'guard of the list',
    why: 'an entry that hands on no ops calls the list for one that wants a guard, too (targets.ts)',
    object: /^arm64\/pg(?:\+probes)?$/,
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
  {
    name: 'landing pad',
    why: 'the first instruction of a function is a landing pad, for which no processor looks here',
    object: /^arm64\//,
    symbol: any,
    text: /^nop; bti c$/,
    kinds: ['swap'],
  },
  ...placeArguments,
];
