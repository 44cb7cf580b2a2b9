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

/** Rows that have a name, a reason and more in common; the types say that nothing is left out. */
const together = <C extends Pick<MutantArgument, 'name' | 'why'>>(
  common: C,
  rows: readonly Omit<MutantArgument, keyof C>[],
): MutantArgument[] => rows.map((row) => ({ ...common, ...row }) as unknown as MutantArgument);

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
    symbol: /^find_block$/,
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
  ...together(
    {
      name: 'number of a thread',
      why:
        'the distance is a multiple of the size: what is left out and what is multiplied by may change ' +
        'places, as both are exact',
      kinds: ['swap'],
    },
    [
      {
        object: /^x86-64\//,
        symbol: /^(?:record_event|handle|elftrace_probe_hit)$/,
        text: /^sar; imul$/,
      },
      {
        object: /^riscv64\//,
        symbol: /^(?:record_event|handle|elftrace_probe_hit|elftrace_graph_push)$/,
        text: /^srai (\w+),\1,0x4; mul \1,\1,\w+$/,
      },
    ],
  ),
  ...together(
    {
      name: 'number of a thread',
      why:
        'the number is one of 32 bits: the upper half of what the distance of two blocks is multiplied by ' +
        'says nothing',
      object: /^ppc64-/,
    },
    [
      {
        symbol: /^\.?(?:record_event|handle|elftrace_probe_hit|elftrace_graph_push|pop|announce|tell_return)$/,
        text: /^(?:lis r\d+,13594|ori (r\d+),\1,10144)$/,
        kinds: ['nop', 'immediate'],
      },
      {
        symbol: /^\.?(?:record_event|handle|elftrace_probe_hit|elftrace_graph_push|pop|announce|tell_return)$/,
        text: /^ori (r\d+),\1,10144$/,
        kinds: ['registers'],
      },
      {
        symbol: /^elftrace_graph_push$/,
        text: /^sldi (r\d+),\1,32$/,
        kinds: ['immediate', 'registers'],
      },
      {
        symbol: /^elftrace_graph_push$/,
        text: /^lis (r\d+),13594; ori \1,\1,10144$/,
        kinds: ['swap'],
      },
    ],
  ),
  {
    name: 'one size',
    why: 'registers in frames of a machine have one size each: no program of an event says another one',
    object: any,
    symbol: /^record_event$/,
    places: ['x86-64 record_event+242 registers 65e76b45a413', 'x86-64 record_event+242 nop a030478abe81'],
    standing: 'idle',
  },
  {
    name: 'one size',
    why:
      'registers in frames of this machine have 4 bytes each: where the second word of one of 8 is ' +
      'read from, nothing goes',
    object: /^ppc32\//,
    symbol: /^record_event$/,
    places: ['ppc32 record_event+892 swap d7cf3f8abad0', 'ppc32 record_event+896 nop d7cf3f8abad0'],
  },
  {
    name: 'one size',
    why: 'registers in frames of this machine have 4 bytes each: none of 8 is read',
    object: /^ppc32\//,
    symbol: /^record_event$/,
    places: ['ppc32 record_event+1676 nop d7cf3f8abad0'],
    standing: 'idle',
  },
  {
    name: 'small number',
    why: 'the result is 0 or 1: as a number of 64 bits it has no other bits than as one of 32',
    object: /^ppc64-/,
    symbol: /^\.?(?:matches|take_records)$/,
    text: /^extsw r3,r3(?:; blr)?$/,
    kinds: ['nop', 'swap'],
  },
  {
    name: 'number of a block',
    why: 'what the distance of two blocks is multiplied by makes it their number: its upper half is 0',
    object: /^ppc64-/,
    symbol: /^(?:elftrace_graph_push|elftrace_probe_hit)$/,
    text: /^clrldi (r\d+),\1,32$/,
    kinds: ['nop'],
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
  ...together(
    {
      name: 'frame of the runtime',
      why:
        'functions of the runtime that call no callback keep the link to the frame above for who ' +
        'unwinds: no code reads it, and nothing unwinds there',
      object: /^ppc/,
    },
    [
      {
        symbol: /^\.?(?:handle|record_event)$/,
        text: /^st[wd]u r1,-\d+\(r1\)$/,
        kinds: ['registers'],
      },
      {
        symbol: /^ftrace_regs_caller_end$/,
        places: ['ppc64-elfv2-le ftrace_regs_caller_end+536 registers 5fbad08bf3cc'],
      },
    ],
  ),
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
    // Halves of a clock have an order, and are compared; neighbours of x86-64 shift them.
    object: /^(?!ppc32\/|x86-64\/)/,
    symbol: any,
    note: 'clock',
    kinds: ['swap'],
  },
  {
    name: 'frame of the runtime',
    why: 'functions of the runtime set a frame pointer that no code reads: unwinders begin at the entry',
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
    why: 'a jump that leaves its own address in ra: the function has a frame, and loads ra before it returns',
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
    name: 'no frame',
    why: 'entries of this convention hand callbacks no frame: what one holds is not looked at',
    object: /^riscv64\/g2-plain(?:\+probes)?$/,
    symbol: /^(?:ftrace_ops_list_func|elftrace_livepatch)$/,
    places: ['riscv64 elftrace_livepatch+4 nop 644b5828faba'],
    standing: 'idle',
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
      'ppc32 ftrace_direct_func+24 nop 71a29a063035',
      'ppc32 ftrace_direct_func+36 nop 4e0a5d4c06fc',
      'ppc32 ftrace_direct_func+36 swap 4e0a5d4c06fc',
      'ppc64-elfv1 ftrace_direct_func+40 nop 01af7ce31f89',
      'ppc64-elfv2-le ftrace_direct_func+44 nop 3bb705c6343f',
    ],
  },
  ...together(
    {
      name: 'direct from the plain entry',
      why:
        'ops of direct callers want all registers, so that a site with a direct caller calls the ' +
        'other entry: the plain one never goes to a direct caller',
      symbol: /^ftrace_regs_caller_end$/,
      standing: 'idle',
    },
    [
      {
        object: /^ppc64-.*\/ool-ops(?:\+probes)?$/,
        range: [0, 0x60],
      },
      {
        object: /^ppc32\/ool-ops(?:\+probes)?$/,
        range: [0, 0x5c],
      },
    ],
  ),
  {
    name: 'global entry',
    why:
      'the table of contents of a function that is called from elsewhere: entries and the list call it ' +
      'behind that, with the table that they have themselves',
    object: /^ppc64-elfv2-(?:be|le)\/(?:regs|ool|pg)(?:\+probes)?$/,
    symbol: /^(?:ftrace_ops_(?:list|assist)_func|elftrace_probe_hit)$/,
    text: /^(?:addis r2,r12,-?\d+|addi r2,r2,-?\d+)$/,
    range: [0, 8],
    standing: 'idle',
  },
  {
    name: 'global entry',
    why:
      'the table of contents of a function that is called from ' +
      'elsewhere, and the nop in front of it: entries and the list ' +
      'call it behind that, with the table that they have themselves',
    object: /^ppc64-elfv2-/,
    symbol: /^ftrace_ops_list_func$/,
    text: /^nop; addis r2,r12,-?\d+$/,
    kinds: ['swap'],
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
      'callbacks of ordinary C are called by way of it where a program registers them ' +
      'itself: no request of the tool does; test/runtime-x86.test.ts executes it',
    object: /^x86-64\//,
    symbol: /^elftrace_vector_func$/,
    standing: 'idle',
  },
  {
    name: 'guard of the list',
    why: 'what wants a guard has no word of its own in front of the function (targets.ts): the list calls it',
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
  ...together(
    {
      name: 'nested function',
      why:
        'around the call of a nested function nothing can take its place, and the tool refuses it ' +
        '(EINVAL): of other functions the code behind the site says so first',
      object: /^x86-64\/(?:modern|y2014)(?:\+probes)?$/,
      symbol: /^elftrace_livepatch$/,
    },
    [
      {
        text: /^(?:cmp|je|jne|jmp|movzx|nop)/,
        standing: 'idle',
      },
      {
        text: /^cmp(?:; je)?$/,
        kinds: ['nop', 'swap'],
      },
    ],
  ),
  {
    name: 'kept call',
    why: "a trap where what a replaced function's caller needs is not found, which was kept on the way in",
    object: /^ppc64-/,
    symbol: /^ftrace_regs_caller_end$/,
    text: /^trap$/,
    standing: 'idle',
  },
  ...together(
    {
      name: 'kept call',
      why:
        "a trap follows where what a replaced function's caller needs is not " +
        'found, which was kept on the way in: what is done before it says nothing',
      object: /^ppc64-/,
      symbol: /^elftrace_side_pop$/,
    },
    [
      {
        places: [
          'ppc64-elfv1 elftrace_side_pop+168 registers 4351a65264ab',
          'ppc64-elfv2-be elftrace_side_pop+188 registers 6c4531614627',
          'ppc64-elfv2-le elftrace_side_pop+180 registers a102117512ca',
          'ppc64-elfv2-le elftrace_side_pop+188 registers a102117512ca',
        ],
        standing: 'idle',
      },
      {
        places: ['ppc64-elfv2-le elftrace_side_pop+112 swap a102117512ca'],
      },
    ],
  ),
  ...together(
    {
      name: 'landing pad',
      why: 'the call leads behind the first instruction of the entry, a landing pad, for which no processor looks here',
    },
    [
      {
        object: /^arm64 site$/,
        symbol: any,
        text: /^bl /,
        kinds: ['immediate'],
      },
      {
        object: /^arm64\//,
        symbol: /^elftrace_stub_text$/,
        text: /^bti c; ret$/,
        kinds: ['swap'],
      },
    ],
  ),
  {
    name: 'landing pad',
    why: 'the first instruction of a function is a landing pad, for which no processor looks here',
    object: /^arm64\//,
    symbol: any,
    text: /^nop; bti c$/,
    kinds: ['swap'],
  },
  ...together(
    {
      name: 'wanted',
      why: 'who tells of a return is asked to where a user wanted it: there is a bit of one',
    },
    [
      {
        object: /^ppc/,
        symbol: /^\.?tell_return$/,
        text: /^(?:cmp[wd]i r\d+,0(?:; beqlr)?|beqlr)$/,
        kinds: ['nop', 'swap'],
        range: [0, 16],
      },
      {
        object: /^x86-64\//,
        symbol: /^tell_return$/,
        text: /^(?:mov; test|je)$/,
        kinds: ['swap', 'immediate'],
        range: [13, 21],
      },
    ],
  ),
  ...placeArguments,
];
