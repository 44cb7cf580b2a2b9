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
      'stored: the function that is called between does not change it',
    ['ppc64-elfv1 elftrace_side_push+252 swap a01e86914463'],
  ),
  at(
    'scratch register',
    'the register is dead where a function goes on: no caller passes anything ' +
      'in it, and frames that have not all registers leave it out',
    [
      'ppc64-elfv2-le ftrace_caller_end+52 nop 4a6e06296037',
      'ppc64-elfv2-le ftrace_regs_call+96 nop 073c6faa43de',
      'ppc64-elfv1 .ftrace_caller+52 immediate 1e583018167e',
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
      'ppc64-elfv2-le elftrace_entry_ool_ops+312 swap a8c4914796f5',
      'ppc64-elfv1 ftrace_regs_call+32 nop 1285a9675a29',
    ],
  ),
  at('no frame', 'entries of this convention hand callbacks no frame: what their last argument is nothing says', [
    'ppc64-elfv1 .ftrace_caller+28 immediate 2e06df01b6b3',
    'ppc64-elfv2-be ftrace_caller+36 registers 489194c20e63',
  ]),
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
  at('readers beside', 'a record is of kind 0 until it is whole, for those who read while it is written', [
    'ppc64-elfv1 elftrace_function_tracer+96 nop bfd1db8c115f',
    'ppc64-elfv1 elftrace_function_tracer+120 immediate bfd1db8c115f',
    'riscv64 write_any+232 immediate 04a64e864b76',
  ]),
  at(
    'the other way',
    "the first block seems to be another thread's, as what is compared is no number of a " +
      'thread: its record goes the way of any, which finds that block and writes the same',
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
    'the branch leads behind the load with a reservation: there is none, the store fails, and code ' +
      'begins with the load',
    ['arm64 write_any+36 swap 0d398e14fbd6', 'ppc32 write_any+16 immediate 259d0fb856e1'],
  ),
  at(
    'tried again',
    'what is taken for the number of records is 1, at which a ring has room: ' +
      'the exchange finds another number, and code begins anew with that',
    ['ppc32 write_any+24 nop 259d0fb856e1'],
  ),
  at('few records', 'fewer records than 32 bits count have room: half of the comparison says the same', [
    'ppc64-elfv1 write_any+68 immediate 94c5929edb7c',
  ]),
  at('set already', 'the word that an element of two bytes is read into is 0 before', [
    'ppc32 elftrace_probe_peek+56 immediate eb5ab5c8b049',
  ]),
  at(
    'elsewhere',
    'what is stored is in the data of the tracer, and what is loaded in the frame: neither changes the other',
    ['x86-64 write_any+160 swap 445ec130b70c'],
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
    ['ppc64-elfv1 ftrace_regs_caller_end+536 registers efe26e71b12b'],
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
  at('the other way', 'its record goes the way of any, which writes the same', [
    'riscv64 pop+176 nop 1fe2ebf03d76',
    'riscv64 elftrace_graph_push+476 nop 8cec0b3f7314',
    'riscv64 elftrace_graph_push+364 swap 8c4938adfa33',
  ]),
  at(
    'near site',
    'a site is in the image that has the ring, and near it: of both addresses the parent alone may be far',
    ['riscv64 pop+224 nop 1fe2ebf03d76', 'arm64 elftrace_graph_push+420 immediate d23b2f124056'],
  ),
  at(
    'a byte later',
    'whether there is a user is asked of all at once: a word that begins a byte later has all bytes ' +
      'of the same addresses but the lowest ones, and no address has that one alone',
    [
      'riscv64 elftrace_graph_push+272 immediate 8cec0b3f7314',
      'riscv64 elftrace_graph_push+320 immediate 57b1e9263f1e',
      'riscv64 elftrace_graph_push+196 immediate 8c4938adfa33',
      'riscv64 elftrace_graph_push+228 immediate 8c4938adfa33',
      'riscv64 elftrace_graph_push+268 immediate ea5bc7f93218',
      'riscv64 elftrace_graph_push+316 immediate ea5bc7f93218',
    ],
  ),
  at('readers beside', 'a record is of kind 0 until it is whole, for those who read while it is written', [
    'riscv64 elftrace_graph_push+520 nop 8cec0b3f7314',
    'riscv64 elftrace_graph_push+516 immediate 8c4938adfa33',
    'riscv64 elftrace_graph_push+464 nop 57b1e9263f1e',
  ]),
  at(
    'not changed on this way',
    'what is given back there was not changed yet: on this way the function has called nothing, and ' +
      'comes to no instruction that changes it',
    ['riscv64 pop+356 nop 801c33549772', 'riscv64 elftrace_graph_push+560 nop 8c4938adfa33'],
  ),
  at(
    'one kind of frame',
    'frames of these entries have the place where the function goes on where others say whether they ' +
      'are whole: it is never 0',
    ['riscv64 ftrace_ops_list_func+208 nop 00c7c3214c38'],
  ),
  at('a frame', 'entries of these conventions hand all callbacks a frame: it is never 0', [
    'riscv64 ftrace_graph_func+204 nop 385e3d5fc08b',
    'riscv64 ftrace_graph_func+204 immediate 385e3d5fc08b',
    'riscv64 ftrace_graph_func+204 swap 385e3d5fc08b',
  ]),
  at(
    'number of a block',
    'what looks for a block gives a number that is no higher than there are blocks: its upper half is 0',
    ['riscv64 ftrace_graph_func+144 nop 14c42d961ad7'],
  ),
  at(
    'the other way',
    "the first block seems to be another thread's, as what is compared is no number of a thread: its " +
      'record goes the way of any, which finds that block and writes the same',
    [
      'arm64 elftrace_function_tracer+20 nop 831dc359bca7',
      'arm64 elftrace_function_tracer+4 nop 24aaa1732f7b',
      'x86-64 elftrace_function_tracer+157 nop 325161e3895c',
      'x86-64 elftrace_function_tracer+176 immediate 99c6142dc414',
    ],
  ),
  at(
    'the other way',
    "the first block seems to be another thread's, as what is compared is no number of a thread: the " +
      'search through all blocks finds it',
    [
      'arm64 ftrace_ops_list_func+48 nop b8f60410f4be',
      'x86-64 ftrace_ops_list_func+275 nop c05664db66e5',
      'x86-64 ftrace_ops_assist_func+147 nop 5d16ac190c3a',
      'x86-64 ftrace_ops_assist_func+144 nop cdc9fdd174ea',
      'x86-64 elftrace_probe_ftrace+365 nop 42d23c910e15',
      'x86-64 elftrace_graph_enter+141 swap 93aefc4fc750',
      'x86-64 elftrace_graph_return+152 nop d5880334ce63',
      'x86-64 elftrace_graph_return+152 immediate 4aeadeaea8b8',
    ],
  ),
  at(
    'frame of the runtime',
    'functions of the runtime that call no callback set a frame pointer that no code reads, and ' +
      'nothing unwinds there',
    ['arm64 take_records+112 immediate 11ef32349241'],
  ),
  at('read early', 'what is read an instruction early is a word of the tracer, and on the other way nothing reads it', [
    'arm64 ftrace_ops_list_func+140 swap 22150313dbd4',
  ]),
  at(
    'a bit higher',
    'whether there is a user is asked of all at once: an address that is shifted by a bit is no more ' +
      '0 than it was',
    [
      'arm64 elftrace_graph_push+264 immediate 81ee743adb50',
      'arm64 elftrace_graph_push+272 immediate 81ee743adb50',
      'arm64 elftrace_graph_push+368 immediate ae4c7f892204',
      'arm64 elftrace_graph_push+412 immediate ae4c7f892204',
      'arm64 elftrace_graph_push+380 immediate 3979ff01e028',
      'arm64 elftrace_graph_push+236 immediate 939b1fccd48b',
      'arm64 elftrace_graph_push+272 immediate 939b1fccd48b',
      'arm64 elftrace_graph_push+348 immediate bedfddc77ef9',
      'arm64 elftrace_graph_push+356 immediate bedfddc77ef9',
      'arm64 elftrace_graph_push+372 immediate bedfddc77ef9',
    ],
  ),
  at(
    'near site',
    'the call leads behind the first look at whether addresses are near, that of the site, which is: ' +
      'in its place is the word of a user, and there is none',
    ['arm64 elftrace_graph_push+356 immediate 81ee743adb50'],
  ),
  at(
    'told already',
    'entries of these conventions hand probes no site: no callback in front of the graph tracer ' +
      'takes a return, and the return address that it finds is the parent that it is told',
    ['arm64 ftrace_graph_func+92 nop f5eaa947d91b'],
  ),
  at(
    'the other way',
    "the first block seems to be another thread's, as what is compared is no number of a thread: its " +
      'record goes the way of any, which finds that block and writes the same',
    ['x86-64 elftrace_function_tracer+144 registers 325161e3895c'],
  ),
  at(
    'the other way',
    "the first block seems to be another thread's, as what is compared is no number of a thread: the " +
      'search through all blocks finds it',
    [
      'x86-64 ftrace_ops_list_func+60 immediate c05664db66e5',
      'x86-64 ftrace_ops_assist_func+211 registers 5d16ac190c3a',
      'x86-64 ftrace_ops_assist_func+211 registers 435fe64ad7df',
      'x86-64 elftrace_graph_enter+237 registers af9df35ea8f5',
      'x86-64 elftrace_graph_enter+237 registers 93aefc4fc750',
      'x86-64 elftrace_probe_ftrace+361 registers 99ae85cb3d3a',
    ],
  ),
  at('readers beside', 'a record is of kind 0 until it is whole, for those who read while it is written', [
    'ppc32 elftrace_graph_push+480 immediate 421b73e25398',
    'ppc64-elfv1 elftrace_graph_push+612 immediate a27c86a95491',
    'ppc64-elfv1 write_any+160 immediate bd034b81f6e9',
    'ppc64-elfv2-le pop+248 immediate 06a16093cd96',
    'ppc64-elfv2-be elftrace_function_tracer+136 immediate 4fdc2b33c844',
    'ppc64-elfv2-be pop+248 immediate aba2a794b5c1',
  ]),
  at(
    'scratch register',
    'the register is dead where a function goes on: no caller passes anything in it, and frames that ' +
      'have not all registers leave it out',
    ['ppc64-elfv1 .return_to_handler+48 registers 3a6d08ea5343'],
  ),
  at(
    'the other way',
    "the first block seems to be another thread's, as what is compared is no number of a thread: the " +
      'search through all blocks finds it',
    [
      'ppc64-elfv1 elftrace_graph_return+8 registers 589eb87e17e8',
      'ppc64-elfv1 handle+8 registers 3be581289b4a',
      'ppc64-elfv1 elftrace_graph_enter+4 registers 3159ecd006b0',
      'ppc64-elfv1 ftrace_ops_list_func+4 registers d2605c21688b',
      'ppc64-elfv2-le elftrace_side_pop+12 registers a102117512ca',
      'ppc64-elfv2-le ftrace_ops_assist_func+12 registers dccc9f187ebf',
      'ppc64-elfv2-le ftrace_graph_func+12 registers 913f56d5967d',
      'ppc64-elfv2-le elftrace_graph_return+16 registers 8c8bdf960084',
      'ppc64-elfv2-le handle+16 nop 06fad900a965',
      'ppc64-elfv2-le ftrace_graph_func+12 nop fece744f02da',
      'ppc64-elfv2-be ftrace_ops_list_func+16 nop 551cabc3c30e',
    ],
  ),
  at(
    'number of a thread',
    'the number is one of 32 bits: the upper half of what the distance of two blocks is multiplied ' +
      'by says nothing',
    [
      'ppc64-elfv1 announce+384 registers e7fca232f5dc',
      'ppc64-elfv1 announce+384 immediate e7fca232f5dc',
      'ppc64-elfv1 pop+468 immediate 8f205d831057',
      'ppc64-elfv2-le announce+384 registers ff6e30003e95',
      'ppc64-elfv2-le pop+468 registers 06a16093cd96',
      'ppc64-elfv2-le announce+384 immediate d2fb2760a707',
    ],
  ),
  at(
    'gives up',
    'how far the search for a return goes, farther than it need: it ' +
      'ends at a block that has it, or the graph tracer stops for good',
    [
      'ppc32 elftrace_graph_return+76 immediate 7d1708b0faaa',
      'ppc64-elfv2-le elftrace_graph_return+84 immediate 8c8bdf960084',
    ],
  ),
  at('still in its register', 'a search that finds no entry leaves the frame in its register, which it was asked for', [
    'ppc32 elftrace_graph_return+92 swap 7d1708b0faaa',
    'ppc64-elfv1 elftrace_graph_return+92 swap 40406d621aef',
    'ppc64-elfv1 elftrace_graph_return+92 swap 589eb87e17e8',
    'ppc64-elfv1 elftrace_graph_return+108 nop 589eb87e17e8',
    'ppc64-elfv2-le elftrace_graph_return+148 swap 8c8bdf960084',
  ]),
  at(
    'the other way',
    'what is compared with the number of the thread begins in the middle of ' +
      'the owner of the first block: the search through all blocks finds it',
    [
      'ppc32 elftrace_function_tracer+8 immediate 7cb345b567fd',
      'ppc32 ftrace_graph_func+20 immediate 9f3653b6702c',
      'ppc32 elftrace_graph_return+20 immediate c19a3e5cb6fe',
      'ppc64-elfv2-be elftrace_graph_return+16 immediate a7bd6ef03fc2',
      'ppc64-elfv2-be elftrace_graph_return+16 immediate da980fe4d8ff',
    ],
  ),
  at(
    'half of a register',
    'the branch leads into the middle of an instruction that adds ' +
      'to 32 bits there: the number of a user has no more',
    ['x86-64 announce+120 immediate 07eea0534519', 'x86-64 announce+120 immediate 53922665fdda'],
  ),
  at('set already', 'the register holds 0 there, or a bit of a user that wants the return: then the answer is yes', [
    'x86-64 announce+184 nop 53922665fdda',
  ]),
  at('an element', 'an event asks for one element at least: none is no array', [
    'ppc64-elfv1 record_event+532 nop 2ed319dcee51',
    'ppc64-elfv2-be record_event+532 swap d6bba866402a',
    'arm64 record_event+504 swap 68bfca5b2974',
  ]),
  at(
    'an element',
    'an event asks for one element at least: none is no array',
    [
      'x86-64 record_event+1230 nop 65e76b45a413',
      'x86-64 record_event+1230 swap 65e76b45a413',
      'x86-64 record_event+1235 immediate 65e76b45a413',
      'x86-64 record_event+1235 immediate 80fca30f9a1e',
      'x86-64 record_event+1230 nop a030478abe81',
      'ppc64-elfv2-le record_event+1408 registers b96adb18882b',
      'arm64 record_event+1044 nop d32b2ca191e9',
      'arm64 record_event+1048 nop d32b2ca191e9',
      'arm64 record_event+1048 immediate 68bfca5b2974',
    ],
    'idle',
  ),
  at(
    'one size',
    'registers in frames of this machine have 8 bytes each: none of 4 is read',
    ['ppc64-elfv1 record_event+804 registers 2ed319dcee51'],
    'idle',
  ),
  at('the other way', 'its record goes the way of any, which writes the same', [
    'ppc64-elfv2-le elftrace_function_tracer+44 nop 89350bd5599b',
  ]),
  at('readers beside', 'a record is of kind 0 until it is whole, for those who read while it is written', [
    'ppc64-elfv2-le write_any+136 immediate 52fbf637cfab',
    'ppc64-elfv2-be write_any+144 nop 128ac847c46f',
    'ppc64-elfv2-be write_any+136 nop a12eecf8022f',
  ]),
];
