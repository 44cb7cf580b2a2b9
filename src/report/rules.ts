/** What the rules say that verdicts and changes name, in a sentence each. */

/** Key: the rule's id as it is printed in brackets. */
export const rules: Readonly<Record<string, string>> = {
  'A-MOD-2': 'where only the ops of a call change, the literal in front of the function is the whole change.',
  'A-MOD-4': 'one word, nop to call and back: processors may execute it while it changes.',
  'A-SITE-1':
    'the word that toggles lies behind the landing pad and, with a literal, 12 or 16 bytes behind an 8-aligned slot.',
  'A-SITE-2':
    'start-up turns the word in front of the site, which must be a nop, into the move that keeps the return address.',
  'A-SITE-3':
    'the move that keeps the return address is never taken away again: its register is free at function entries.',
  'C-DIR-7':
    'alone, a direct caller is what the site calls; beside other ops the entry goes there behind the callbacks.',
  'C-FG-6': 'the graph tracer goes on by a branch inside the shared entry, which is patched after the sites.',
  'C-FG-7':
    'entries save general registers only: vectors and floating point of callers survive because callbacks leave them alone.',
  'C-FG-8':
    'the branch to the graph tracer is taken for every traced function, so its own filter is asked there when others are traced too.',
  'C-INIT-1': 'tables are padded and weak functions are taken out of them with zeros; empty slots are skipped.',
  'C-INIT-2': 'start-up brings every site from the compiler form to the nop form.',
  'C-REG-1': 'a tracer that is registered stands first in the list that the list function walks.',
  'C-TGT-2':
    'a site calls the profiling entry as compiled, or an entry of the tracer when it is enabled; nothing else.',
  'C-TGT-4':
    'the shared entries call one callee: the tracer itself while it is the only one, else the function that walks the list.',
  'C-TGT-8': 'the word that the shared entries pass as their third argument names the ops of the only tracer.',
  'C-TGT-9': 'an entry that passes only where it was called from needs the list function for any tracer.',
  'C-TRAMP-2':
    'a tracer gets a trampoline of its own when it is registered; one that it has already is led to its function anew.',
  'C-UPD-1':
    'entries, sites and the words that they read change in an order in which no callback runs for a function that it does not trace.',
  'C-UPD-2': 'a site is read and compared before it is written; other bytes than expected stop the change.',
  'F-2':
    'in relocatable files the expected bytes are the instruction and its relocation: the symbol decides where the call leads.',
  H1: 'a site of several bytes is written by the breakpoint method: a thread that executes it meanwhile sees the old or the new instruction, never a mixture.',
  H2: 'a thread between the two words of a site, where both change, runs half of the call: a wild jump; a word behind a fixed auipc has no such place.',
  H3: 'the TOC restore stays behind a branch that jumps over it: a thread that is inside the tracer still comes back to it.',
  H4: 'before a jump covers several instructions, every thread has left them: one that was interrupted there would go on inside the jump.',
  H5: 'a trampoline is freed when every thread has passed a point where none can be inside one.',
  H6: 'the ops word and the callee of shared entries change in an order in which no callback is handed ops of another.',
  H7: 'the word in front of a function is stored as a whole, and names ops as long as a thread may be on the way from the call to them.',
  H8: 'the graph tracer may go while functions are on the stack whose return it has taken: they still come back through its handler.',
  H9: 'a direct caller is exchanged without a moment in which a call reaches neither.',
  H10: 'after every phase of a change all processors drop what they had fetched before.',
  H11: 'the slot of a probe is used again when no thread can be in it.',
  H12: 'ops are freed when no thread can have loaded their address without having called through it; that all processors have synchronised is not enough.',
  H13: 'the optimizer and the undoing of a jump hold one lock: else a jump that is written already is taken for one that is only queued.',
  H14: 'a probe of user space that is optimised pushes nothing: a leaf may keep data below its stack pointer.',
  'K-ADDR-1':
    'a probe names a symbol and an offset, or an address that a symbol covers; landing pads are stepped over.',
  'K-ADDR-2': 'a probe is in text, and not in init text of a module that is loaded.',
  'K-ADDR-3':
    'code of tracers, entry code, what _kprobe_blacklist names and places that other mechanisms patch are not probed.',
  'K-ADDR-4':
    'a probe stands at the start of an instruction, counted from the start of its function in the original bytes.',
  'K-ADDR-5':
    'instructions that trap, mask interrupts, leave the segment or belong to exclusive sequences are not probed.',
  'K-ADDR-6': 'a probe is registered once.',
  'K-ADDR-7': 'a probe on an ftrace site is served by ftrace and never a jump; inside a site there is none.',
  'K-ADDR-8': 'machines for which no probes are built refuse all of them.',
  'K-ADDR-9': 'events of tracefs, perf and BPF take no probe in a function without an ftrace site.',
  'K-A64-1':
    'a window is one instruction that is neither a landing pad nor a call through its own link register; the buffer is within 128 MiB.',
  'K-PPC-1':
    'a window is one instruction, and no branch that may lead elsewhere; buffer, callback and way back are within 32 MiB.',
  'K-PPC-2': 'the buffer loads the TOC of its callback, which must be known.',
  'K-BP-1': 'a breakpoint replaces exactly as many bytes as it has itself, and these are saved.',
  'K-OPT-1': 'each fresh probe that is not on a site is tried; what cannot be prepared stays a breakpoint.',
  'K-OPT-2':
    'a probe becomes a jump when its buffer is prepared, it is armed, no post-handler needs to run and no other probe is inside.',
  'K-OPT-3': 'jumps are undone first, then every task is waited for, then the queued jumps are written.',
  'K-OPT-5': 'an undo takes a waiting probe off the queue, else it is queued, or done at once when forced.',
  'K-OPT-8': 'when the text is gone its probes are, too: they are not enabled again.',
  'K-OPT-10': 'without jumps on the machine, in the configuration or in the image probes stay breakpoints.',
  'K-REL-1':
    'what a loader still writes is not copied: such an instruction is not probed, and a window with one is no jump.',
  'K-REL-2': 'relocations that a linker kept go where the bytes go that they are about, or become R_*_NONE.',
  'K-RV-1':
    'a window is whole instructions of 4 or 8 bytes, with no branch but the last, and no site, exception entry or branch target inside.',
  'K-RV-2':
    'the longer jump spends a register that is dead before and behind the window; where there is none the probe stays a breakpoint.',
  'K-SLOT-1': 'an instruction runs out of line as a copy in reach whose operands mean what they meant.',
  'K-SLOT-2': 'slots are the lowest free bytes in reach, never overlap, and come back whole.',
  'K-SLOT-3': 'events and copies of probes need room in the image: load --probes makes it.',
  'K-WAY-1':
    'no code, table or landing pad of the whole image leads behind the first byte of a window, and what cannot be read counts as if it did.',
  'L-SITE-2':
    'the first of two nops becomes the move that keeps the return address and stays; the second becomes the call and back.',
  'L-SITE-3': 'each word of a call of -pg becomes a nop.',
  'M-LINK-1':
    'a table that is linked to one section holds slots of that section alone: the linker drops both together.',
  'M-LINK-2': 'slots into a COMDAT group stand in a table of the group: where another copy is kept, they go.',
  'M-LINK-3': 'tables of one name all say an order of sections, or none does: linkers join them.',
  'M-KLP-1': 'a livepatch module says so in its information, and its livepatch relocations are in their final form.',
  'M-KLP-2': 'each object and each of its functions has one row, with a name and code of the module in its place.',
  'M-KLP-3':
    'a name with position 0 is unique; position n is the n-th symbol of the name, by address in a kernel and by table order in a module.',
  'M-KLP-4':
    'a function is redirected by its site: one that stays after the start, is good, and is at the entry of the function.',
  'M-KLP-5':
    'sections .klp.rela.OBJECT.SECTION are SHT_RELA with SHF_RELA_LIVEPATCH and SHF_ALLOC, of an object that is patched.',
  'M-KLP-6':
    'livepatch relocations name SHN_LIVEPATCH symbols and nothing else does; those of a module name none of the kernel.',
  'M-KLP-7': 'the symbol that .klp.sym.OBJECT.SYMBOL,POSITION stands for is found as a function is.',
  'M-KLP-8':
    'the module loader of the machine takes every relocation: its type, what the place holds, what a call needs behind it.',
  'M-KLP-9': 'stubs of sites out of line are in reach, and no stub that is made later is written over them.',
  'M-KLP-10': 'entries of .klp.symid have numbers of their own and name symbols whose names occur twice.',
  'M-PAD-2':
    'where landing pads are checked, an indirect call must find one at the entry: nops belong behind the pad, not in front.',
  'M-PAD-5': 'where landing pads are checked, stubs and entries lead to functions that begin with one.',
  'M-PAD-4':
    'where an executable has indirect branches checked, a function that a pointer names begins with a landing pad.',
  'M-PAD-6':
    'where an object is made for checks of indirect branches, a function that a word of data names begins with a landing pad.',
  'M-SORT-3': 'a table may name a place once; of duplicates one record is kept.',
  'M-PAD-3': "a function that begins with the pad or call of the image's other sites has a slot; one without is named.",
  'M-VAL-1': 'a site lies in a function of an executable section, with bytes that are a form of a known shape.',
  'M-WEAK-1':
    'an entry too far behind the symbol before it belongs to a weak function that the linker overrode: its body is still there.',
  'P-NEW-1':
    'start-up checks the words in front of the site, then writes the nop (patchable: the move of the return address before it).',
  'P-NEW-2':
    'a call leads to the entry itself where it reaches, else to the stub of its module, else to one of the core.',
  'P-OFF-1':
    'in objects that are not loaded the call is a branch to itself with a relocation, and the loader, not the compiler, writes the TOC restore.',
  'M-PROD-7': 'sleds are switched in linked files only, and off is as the compiler left them.',
  'P-CO-1': 'the word in front of a function names the ops of its site before the call can look for them.',
  'P-OOL-2': 'a site with one nop calls through a stub of its own: mflr r0; bl tracer; mtlr r0; b behind the site.',
  'P-OOL-4': 'such a site is off as a nop and on as a jump to its stub, which is complete before.',
  'P-OOL-6':
    'start-up hands stubs out in the order of the table, from the area within text, the one behind it, or that of init text.',
  'P-OOL-7':
    'site and stub name each other, and the stub a tracing entry and an object; where one stub is written all are.',
  'P-SITE-2':
    'nops in front of the global entry sequence: the TOC pointer is not set up there, and calls of the same module enter behind them.',
  'P-STUB-1':
    'one stub leads to one target, found by the address stored in it: a call through a stub is a call of what is stored there.',
  'R-DIR-4': 'direct callers are reached through t1, t0 or the slot of t0: the entry of an image has one of the three.',
  'R-ENC-1':
    'a pair carries a distance in two parts, the lower one signed; what does not fit is refused before anything is written.',
  'R-MOD-2': 'where the first word of a pair stays, the target must have the same high part as it.',
  'R-MOD-3': 'two words may change only while no other processor executes; one aligned word may change at any time.',
  'R-MOD-4': 'entries call their tracer by a pair of instructions, or through a pointer that is stored at once.',
  'R-SITE-1': 'compressed nops of the compiler become nops of 4 bytes at start-up.',
  'R-SITE-3': 'the pair that changes begins one word behind the site, and its distances are counted from there.',
  'RT-11': 'a flag in the head of the ring says whether records have times; whoever reads them goes by it.',
  'RT-32': 'a site with room for a jump only goes to the nops in front of its function, which call the runtime.',
  'RT-4': 'ops objects, hashes and tables lie in a section of their own, and the tool writes every word of them.',
  'RT-6':
    'the state of the text is read from its bytes; a record that says otherwise is a mismatch, and nothing is written over it.',
  'S-SITE-2': 'a site that is off is brcl 0,0: compilers leave it, and kernels look for it.',
  'S-SITE-4': 'a branch to the trampoline of a site is turned off by its mask: one byte, and the distance stays.',
  'T-PPC-12':
    'the call becomes two nops, the TOC restore with it. A thread that is inside the tracer then returns with the wrong TOC pointer.',
  'T-PPC-17': 'switching a site on that has two nops writes the call and the TOC restore behind it.',
  'T-1': 'a probe within reach of an optimised one below makes that fall back to its breakpoint, in 2009 for ever.',
  'T-10': 'in 2009 jumps are for kernels without preemption only.',
  'T-KP-32': 'a machine may refuse to prepare a jump or to write it; the breakpoint then stays.',
  'X-2':
    'the function is decoded as a whole: no branch may lead into the replaced bytes, no indirect jump may be able to, no exception table may name it.',
  'X-3': 'every replaced instruction is copied, so it must work elsewhere with a jump behind it.',
  'X-ENC-1': 'the nop of a site is the one 5-byte instruction; other nops of that size are a mismatch.',
  'X-JMP-1':
    'a site jumps only to a direct caller that the table names with bit 0 set; such a caller returns to the caller of the function.',
  'X-MOD-2': 'all sites of a change are compared before the first is written.',
  'X-SITE-1': 'programs have 6-byte calls through a pointer or with a prefix besides the 5-byte ones of kernels.',
};

/** The sentence of a rule, or '' for one that has none. */
export function ruleText(rule: string): string {
  return Object.hasOwn(rules, rule) ? (rules[rule] ?? '') : '';
}
