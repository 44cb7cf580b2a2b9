/**
 * Arguments about single places (PV-5): each was looked at by itself in the code around it. What
 * tells the code of its function from any other is the last word of a place.
 */
import type { MutantArgument } from './mutant-arguments.js';

const any = /^/;

/** Rows of one argument: the functions and machines are those of its places. */
const at = (
  name: string,
  why: string,
  places: readonly string[],
  standing: MutantArgument['standing'] = 'survived',
): MutantArgument => ({ name, why, object: any, symbol: any, places, standing });

export const placeArguments: readonly MutantArgument[] = [
  at(
    'still in its register',
    'what is loaded from the frame is in the register from which it was ' +
      'stored, which no way there changes; nor does what is called there',
    [
      'ppc32 record_event+1556 nop 8bac3c418999',
      'ppc32 record_event+1748 swap 8bac3c418999',
      'ppc32 record_event+1760 nop 8bac3c418999',
      'ppc32 record_event+1804 immediate 8bac3c418999',
      'ppc32 ftrace_ops_list_func+212 immediate 27ce2d847fe3',
      'ppc32 ftrace_ops_list_func+232 immediate 412ef030ac26',
      'ppc32 ftrace_ops_list_func+512 immediate 27ce2d847fe3',
      'ppc32 elftrace_probe_ftrace+368 immediate 4c0dc2b7d858',
      'ppc64-elfv2-le elftrace_graph_enter+164 nop 4a7225555e89',
    ],
  ),
  at(
    'still in its register',
    'what is loaded from the frame is in the register from which it was stored: the function that is called between ' +
      'does not change it',
    ['ppc64-elfv1 elftrace_side_push+252 swap a01e86914463'],
  ),
  at('still in its register', 'the register holds what is moved into it already, on all ways that come there', [
    'ppc32 record_event+964 registers 8bac3c418999',
    'ppc32 record_event+972 swap 8bac3c418999',
    'ppc32 record_event+1052 registers 8bac3c418999',
  ]),
  at(
    'only where it is known',
    'the address of a text that is not known is in another register: it is read only where it is known',
    ['ppc32 record_event+960 registers 8bac3c418999', 'ppc64-elfv1 record_event+828 swap 5d3eecc1f996'],
  ),
  at(
    'not changed on this way',
    'what is given back there was not changed yet: on this way the function has ' +
      'called nothing, and comes to no instruction that changes it',
    [
      'ppc32 ftrace_ops_list_func+132 nop 27ce2d847fe3',
      'ppc64-elfv2-le ftrace_ops_list_func+232 swap 71b783e0b250',
      'ppc64-elfv1 .ftrace_ops_list_func+232 nop c400ea520597',
      'riscv64 elftrace_probe_ftrace+116 nop 32ce01953b24',
      'riscv64 elftrace_probe_ftrace+124 nop 30e068a6dbb2',
      'riscv64 handle+124 immediate 889dbbb45c10',
      'x86-64 handle+286 registers a10eb6b4fb8e',
    ],
  ),
  at(
    'scratch register',
    'the register is dead where a function goes on: no caller passes anything ' +
      'in it, and frames that have not all registers leave it out',
    [
      'ppc64-elfv2-le ftrace_caller+304 nop 38754d611c47',
      'ppc64-elfv2-le ftrace_caller_end+52 nop 4a6e06296037',
      'ppc64-elfv2-le ftrace_regs_call+96 nop 073c6faa43de',
      'ppc64-elfv1 .ftrace_caller+52 immediate 1e583018167e',
      'ppc64-elfv1 .ftrace_caller+132 nop 737f52288903',
      'ppc64-elfv1 ftrace_regs_call+28 nop 4996fc3fe0b1',
      'ppc64-elfv1 ftrace_regs_call+40 nop 4996fc3fe0b1',
      'ppc64-elfv1 ftrace_regs_caller_end+248 nop efe26e71b12b',
      'ppc64-elfv2-be ftrace_regs_caller_end+52 nop 572dcac46f84',
      'riscv64 ftrace_graph_regs_call+124 immediate fe5c83f1ac5b',
    ],
  ),
  at(
    'by way of the stub',
    'where no callback names another place, the frame names the one where the stub ' +
      'goes on: to go there at once and by way of the stub is the same',
    [
      'ppc32 ftrace_call+8 nop 0c05855b19f1',
      'ppc32 ftrace_caller+196 immediate 21f5f2f84717',
      'ppc64-elfv2-le elftrace_entry_ool_ops+312 swap a8c4914796f5',
      'ppc64-elfv1 ftrace_regs_call+32 nop 1285a9675a29',
    ],
  ),
  at(
    'direct from the plain entry',
    'ops of direct callers want all registers, so that a site with a direct caller ' +
      'calls the other entry: the plain one never goes to a direct caller',
    ['ppc64-elfv2-le ftrace_caller+212 nop 38754d611c47', 'ppc64-elfv2-le ftrace_caller+212 immediate 38754d611c47'],
  ),
  at('a frame', 'entries of these conventions hand all callbacks a frame: it is never 0', [
    'ppc64-elfv2-le ftrace_ops_list_func+388 immediate 2ce311d21b23',
    'ppc64-elfv1 ftrace_ops_list_func+388 swap c400ea520597',
    'ppc64-elfv1 .ftrace_ops_list_func+300 immediate c400ea520597',
  ]),
  at('no frame', 'entries of this convention hand callbacks no frame: what their last argument is nothing says', [
    'ppc64-elfv1 .ftrace_caller+28 immediate 2e06df01b6b3',
    'ppc64-elfv2-be ftrace_caller+36 registers 489194c20e63',
    'ppc64-elfv2-le ftrace_ops_list_func+452 nop b3ccb52c5c0b',
  ]),
  at(
    'a return address',
    'the call that was found has a return address, which is not 0: the search through other blocks ends there',
    [
      'ppc32 elftrace_graph_return+388 nop 45cf0811771b',
      'ppc32 elftrace_graph_return+428 immediate 45cf0811771b',
      'ppc64-elfv2-le elftrace_graph_return+272 immediate 2821e2fe3e4f',
      'ppc64-elfv1 elftrace_graph_return+448 immediate af12702e132c',
      'riscv64 elftrace_graph_return+348 immediate e54d311a0d5c',
      'x86-64 elftrace_graph_return+114 nop 018013922ec8',
      'x86-64 elftrace_graph_return+114 immediate e43aeb985a18',
      'x86-64 elftrace_graph_return+114 immediate 936a850f2841',
      'x86-64 elftrace_graph_return+114 immediate 8daf1f5955e9',
      'x86-64 elftrace_graph_return+114 immediate dfb4a0d7639a',
    ],
  ),
  at(
    'a return address',
    'where no return is probed the word is 0, and so is no return ' +
      'address: the comparison that follows says so, too',
    ['ppc64-elfv2-le ftrace_graph_func+152 swap ff731b62eb01', 'riscv64 ftrace_graph_func+112 swap fb6943659ef9'],
  ),
  at(
    'told already',
    'entries of these conventions hand probes no site: no callback in front of the graph ' +
      'tracer takes a return, and the return address that it finds is the parent that it is ' +
      'told',
    [
      'arm64 ftrace_graph_func+116 nop 578f65a06d90',
      'arm64 ftrace_graph_func+128 immediate 578f65a06d90',
      'riscv64 ftrace_graph_func+108 immediate fb6943659ef9',
      'riscv64 ftrace_graph_func+128 registers fb6943659ef9',
    ],
  ),
  at('left by the call', 'behind the call the register is 0 on all ways, as the instruction makes it', [
    'x86-64 elftrace_graph_return+275 nop 018013922ec8',
  ]),
  at(
    'behind the last block',
    'the search through all blocks ends behind the last one only where ' +
      'none has the call: there the graph tracer stops for good',
    [
      'ppc32 elftrace_graph_return+436 immediate fc5d6a8fd856',
      'ppc32 elftrace_graph_return+436 immediate b24c45f7755e',
      'x86-64 elftrace_graph_return+295 immediate e43aeb985a18',
      'x86-64 elftrace_graph_return+298 nop e43aeb985a18',
      'x86-64 elftrace_graph_return+298 nop 936a850f2841',
    ],
  ),
  at(
    'half of a word',
    'the branch leads one byte too far, behind what makes an operation one ' +
      'of 64 bits: on a small number that of 32 does the same',
    [
      'x86-64 elftrace_graph_return+68 immediate 915474e48d2e',
      'x86-64 elftrace_graph_return+210 immediate 915474e48d2e',
      'x86-64 record_event+493 immediate 713d3aff92d9',
    ],
  ),
  at(
    'another register',
    'the call leads one byte too far, to where the function keeps another register in place ' +
      'of r14: its caller reads r14 no more, and gives back the one of its own caller',
    [
      'x86-64 elftrace_graph_return+267 immediate 018013922ec8',
      'x86-64 elftrace_graph_return+106 immediate e43aeb985a18',
      'x86-64 elftrace_graph_return+106 immediate 915474e48d2e',
    ],
  ),
  at(
    'never written',
    'of a call without users one byte more is read behind the users, of a word that no code writes: it is 0',
    ['x86-64 depart+218 immediate 9b0509f02c56'],
  ),
  at(
    'read again',
    'of a call without users the users are looked at again behind its record, which ' +
      'changes no call: there are none, and what is prepared for them nothing reads',
    [
      'ppc32 depart+272 swap 6a34e13a8775',
      'ppc32 depart+280 registers 6a34e13a8775',
      'ppc64-elfv1 depart+280 nop b030ef01c12b',
      'ppc64-elfv2-le depart+60 swap 9c062161c8a5',
      'ppc64-elfv1 depart+52 swap ef1b0e1ab6d1',
    ],
  ),
  at(
    'read again',
    'of a call without users the code looks at the lowest bit of the address of a ' +
      'site in place of its users: it is 0, and then the users are read',
    ['arm64 pop+404 swap 156437b19362'],
  ),
  at(
    'read again',
    'whether a user of the graph tracer has a callback is asked again ' +
      'behind that callback, which changes no ops: it has one',
    [
      'arm64 elftrace_graph_push+452 registers 310a2e651ca2',
      'arm64 elftrace_graph_push+452 registers 93753f9a726f',
      'x86-64 elftrace_graph_push+571 nop 6ff41e00ea81',
    ],
    'idle',
  ),
  at('an event', 'a probe that is on has an event: a list of none need not be looked for', [
    'ppc64-elfv2-le handle+768 swap ab205ca219e9',
    'ppc64-elfv1 handle+168 nop afd32c72eeb0',
    'riscv64 handle+156 nop 889dbbb45c10',
    'x86-64 handle+73 nop a10eb6b4fb8e',
    'x86-64 handle+73 nop 890261bd4968',
  ]),
  at(
    'no block',
    'of a thread without a block the handler of hits reads no frame: it looks for one ' +
      'again, finds none, the frame is put back, and no other callback is asked',
    [
      'ppc32 elftrace_probe_ftrace+340 immediate 4c0dc2b7d858',
      'ppc64-elfv1 elftrace_probe_ftrace+380 nop 881e799d03c6',
      'ppc64-elfv1 elftrace_probe_ftrace+388 immediate 881e799d03c6',
      'ppc64-elfv2-be elftrace_probe_ftrace+388 immediate a036803b3507',
      'riscv64 elftrace_probe_ftrace+324 immediate 30e068a6dbb2',
      'x86-64 elftrace_probe_ftrace+209 immediate 945d4ce40976',
      'x86-64 elftrace_probe_ftrace+209 immediate aacf91500112',
      'x86-64 elftrace_probe_ftrace+192 nop b3cf9b4a1e8a',
    ],
  ),
  at(
    'a free block',
    'a block that is free says of no callback under way: it need be ' +
      'neither found nor taken, as the handler does so itself',
    [
      'ppc32 elftrace_probe_ftrace+180 immediate 4c0dc2b7d858',
      'ppc64-elfv1 elftrace_probe_ftrace+168 nop 881e799d03c6',
      'ppc64-elfv1 elftrace_probe_ftrace+184 immediate 881e799d03c6',
      'ppc64-elfv1 elftrace_probe_ftrace+192 nop 29860d6b50b2',
    ],
  ),
  at(
    'all registers',
    'whether there are all registers is asked of a frame that has them: ops that want all of ' +
      'them are called by the entry that hands them on, and the list passes over them elsewhere',
    ['ppc32 elftrace_probe_ftrace+32 nop 4c0dc2b7d858', 'x86-64 elftrace_probe_ftrace+39 nop 945d4ce40976'],
  ),
  at(
    'all registers',
    'whether there are all registers is asked of a frame that has them: ops that want all of ' +
      'them are called by the entry that hands them on, and the list passes over them elsewhere',
    ['riscv64 ftrace_direct_func+84 nop 00932f08852c', 'riscv64 ftrace_direct_func+84 registers 7cf0fd75a0fd'],
    'idle',
  ),
  at(
    'all registers',
    'in place of a word of the frame another one is asked whether ' +
      'it is 0, which has an address of code: it is not',
    ['ppc64-elfv2-le ftrace_direct_func+40 immediate 68e2d37731e0'],
  ),
  at(
    'all registers',
    'the branch asks what the comparison before this one said: whether ' +
      'there is a frame, which there is, as that has all registers',
    ['ppc32 ftrace_direct_func+36 registers 71a29a063035'],
  ),
  at(
    'no row',
    'the branch asks what the comparison before this one said, whether there is a ' +
      'table: there is a frame, and without a table there is nothing to find',
    [
      'ppc64-elfv1 ftrace_direct_func+24 registers 01af7ce31f89',
      'ppc64-elfv2-le ftrace_direct_func+32 registers 68e2d37731e0',
    ],
  ),
  at(
    'a fourth',
    'a search in ascending numbers that looks at a fourth of what is left and not ' +
      'at the half looks at one that is left, too: it finds the same',
    ['arm64 elftrace_probe_ftrace+60 immediate 57b10832281b'],
  ),
  at(
    'looked at twice',
    'a plain look in front of a load with a reservation, at whether callbacks run: ' +
      'none does where a function returns, and the second look decides',
    ['arm64 elftrace_graph_return+64 immediate c52c3bf1432d'],
  ),
  at(
    'some elements',
    'how many elements an argument has is 1 at least, so that code for none is never executed',
    [
      'ppc32 record_event+1888 nop 8bac3c418999',
      'ppc64-elfv2-le record_event+1436 nop 3db04f69aafc',
      'ppc64-elfv2-le record_event+1436 swap 3db04f69aafc',
      'ppc64-elfv1 record_event+1436 nop 5d3eecc1f996',
      'riscv64 record_event+1276 nop 6c65688b31aa',
      'riscv64 record_event+1276 registers 6c65688b31aa',
    ],
    'idle',
  ),
  at('some elements', 'how many elements an argument has is 1 at least: the branch of none is never taken', [
    'ppc64-elfv1 record_event+532 immediate 5d3eecc1f996',
    'ppc64-elfv2-be record_event+532 nop ef04748c63f7',
    'x86-64 record_event+784 immediate 713d3aff92d9',
  ]),
  at(
    'some elements',
    'an event has room for fewer texts than half a word has bits: none is told of by the other half',
    ['ppc32 record_event+464 nop 8bac3c418999'],
    'idle',
  ),
  at(
    'set anew',
    'where a text is behind a pointer, the look at the pointer sets the ' +
      'word, and where that look is left out, nothing reads it',
    ['ppc32 record_event+512 immediate 8bac3c418999', 'riscv64 record_event+504 immediate 6c65688b31aa'],
  ),
  at(
    'last of an argument',
    'what is known of faults is read no more behind elements of memory: the ' +
      'next argument begins with a register or a number, which sets it',
    ['ppc32 record_event+608 nop 8bac3c418999', 'ppc32 record_event+1056 nop 8bac3c418999'],
  ),
  at('one size', 'registers in frames of this machine have 4 bytes each: no program of an event says another size', [
    'ppc32 record_event+908 swap 8bac3c418999',
  ]),
  at(
    'first of a program',
    'a program of an event begins with a register or a number, which sets what is ' +
      'known of faults, and a value: what stands there before nothing reads',
    [
      'ppc64-elfv1 record_event+12 nop 5d3eecc1f996',
      'ppc64-elfv1 record_event+136 immediate 5d3eecc1f996',
      'ppc64-elfv2-be record_event+20 nop ef04748c63f7',
      'riscv64 record_event+88 immediate 6c65688b31aa',
      'x86-64 record_event+22 registers 713d3aff92d9',
    ],
  ),
  at('readers beside', 'a record is of kind 0 until it is whole, for those who read while it is written', [
    'ppc64-elfv1 elftrace_function_tracer+96 nop bfd1db8c115f',
    'ppc64-elfv1 elftrace_function_tracer+120 immediate bfd1db8c115f',
    'riscv64 write_any+232 immediate 04a64e864b76',
  ]),
  at(
    'the other way',
    "the first block seems to be another thread's, as what is compared is no number of a thread: its record goes the " +
      'way of any, which finds that block and writes the same',
    [
      'arm64 elftrace_function_tracer+24 registers 24aaa1732f7b',
      'ppc64-elfv1 elftrace_function_tracer+4 nop bfd1db8c115f',
      'ppc64-elfv1 elftrace_side_pop+4 nop 4351a65264ab',
      'ppc64-elfv1 elftrace_side_push+4 immediate a01e86914463',
      'x86-64 elftrace_function_tracer+29 nop 27348ab7df19',
      'x86-64 elftrace_function_tracer+36 registers 27348ab7df19',
      'x86-64 elftrace_function_tracer+64 nop 27348ab7df19',
      'x86-64 elftrace_function_tracer+64 registers 27348ab7df19',
    ],
  ),
  at(
    'near site',
    'a site is in the image that has the ring, and near it: of both addresses the parent alone may be far',
    ['riscv64 elftrace_function_tracer+76 registers 8b22edfab379', 'x86-64 write_any+19 registers 445ec130b70c'],
  ),
  at(
    'tried again',
    'the branch leads behind the load with a reservation: there is none, the store fails, and code begins with the load',
    ['arm64 write_any+36 swap 0d398e14fbd6', 'ppc32 write_any+16 immediate 259d0fb856e1'],
  ),
  at(
    'tried again',
    'what is taken for the number of records is 1, at which a ring has room: the exchange finds another number, and ' +
      'code begins anew with that',
    ['ppc32 write_any+24 nop 259d0fb856e1'],
  ),
  at('few records', 'fewer records than 32 bits count have room: half of the comparison says the same', [
    'ppc64-elfv1 write_any+68 immediate 94c5929edb7c',
  ]),
  at(
    'number of a thread',
    'the number is one of 32 bits: the upper half of what the ' +
      'distance of two blocks is multiplied by says nothing',
    [
      'ppc64-elfv2-le elftrace_graph_push+64 registers 70cd02ddbdc3',
      'ppc64-elfv2-le elftrace_graph_push+64 registers dc22d30c24e7',
      'ppc64-elfv1 elftrace_graph_push+72 registers f81b926f8d03',
      'ppc64-elfv2-be elftrace_graph_push+64 registers d850c1e62afd',
    ],
  ),
  at(
    'stored already',
    'the function that goes on here by a jump has stored the register in the ' +
      'same word of the stack, and given it back: the word still has it',
    [
      'ppc64-elfv2-le elftrace_graph_push+12 nop 3f299628ae32',
      'ppc64-elfv2-le elftrace_graph_push+20 nop 3f299628ae32',
      'ppc64-elfv2-le elftrace_graph_push+592 nop e012a1960b19',
      'ppc64-elfv2-le elftrace_graph_push+596 nop e012a1960b19',
    ],
  ),
  at(
    'half of an address',
    'the lower half of an address of code is read, with the upper one of ' +
      'flags, which is 0: code asks no more than whether it is 0',
    ['ppc64-elfv1 depart+116 immediate ef1b0e1ab6d1'],
  ),
  at('set already', 'the word that an element of two bytes is read into is 0 before', [
    'ppc32 elftrace_probe_peek+56 immediate eb5ab5c8b049',
  ]),
  at('only whether it is equal', 'code asks of the comparison no more than whether both are equal', [
    'ppc32 elftrace_graph_push+56 registers 27dad732365e',
    'ppc64-elfv1 ftrace_ops_list_func+376 registers 091ec20dadd0',
  ]),
  at('not 0', 'code asks of the number no more than whether it is 0, and where it is, sets it anew', [
    'riscv64 record_event+360 immediate 6c65688b31aa',
  ]),
  at('set already', 'that there are users is set where the first one is found, which is in front of this on all ways', [
    'ppc64-elfv2-le elftrace_graph_push+596 registers 70cd02ddbdc3',
  ]),
  at(
    'elsewhere',
    'what is stored is in the data of the tracer, and what is loaded in the frame: neither changes the other',
    ['riscv64 handle+548 swap 889dbbb45c10', 'x86-64 write_any+160 swap 445ec130b70c'],
  ),
  at(
    'second way to the graph',
    'images of g2 have the graph tracer as a callback: the second ' +
      'patched call stays two nops, and takes no arguments',
    ['riscv64 ftrace_call+12 nop 5f54f9802b06'],
  ),
  at(
    'frame of the runtime',
    'functions of the runtime that call no callback keep the link to the frame ' +
      'above for who unwinds: no code reads it, and nothing unwinds there',
    [
      'ppc64-elfv1 ftrace_regs_caller_end+536 registers efe26e71b12b',
      'ppc64-elfv2-be elftrace_graph_enter+36 registers cf84285a9bde',
    ],
  ),
  at(
    'its own block',
    'a function in the place of another one comes back in a thread that has ' +
      'its call in a block, and no block is given back: none in front of that ' +
      'one is free, none is taken, and the last one is not passed',
    [
      'ppc64-elfv2-be elftrace_side_pop+28 immediate f90e1b519a8d',
      'ppc64-elfv2-be elftrace_side_pop+40 registers f90e1b519a8d',
      'ppc64-elfv2-be elftrace_side_pop+60 swap f90e1b519a8d',
      'ppc64-elfv2-be elftrace_side_pop+220 registers f90e1b519a8d',
    ],
  ),
  at(
    'kept call',
    "only where what a replaced function's caller needs is not found, which was kept on the way in",
    ['ppc64-elfv1 elftrace_side_pop+192 nop 6f3507e8a32d', 'ppc64-elfv1 elftrace_side_pop+228 nop 6f3507e8a32d'],
    'idle',
  ),
  at('frame of the handler', 'a word of the frame that a return makes for who unwinds: no code reads it', [
    'x86-64 elftrace_return_text+20 nop e2b61833e41d',
    'x86-64 elftrace_return_text+20 immediate e2b61833e41d',
  ]),
  at(
    'gives up',
    'the trap of a return that is not on the stack of the graph tracer: it stands a byte or some later',
    ['x86-64 elftrace_return_text+50 swap 4691a78fb8aa'],
    'idle',
  ),
];
