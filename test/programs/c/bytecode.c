/*
 * A register machine of fixed-size instructions: primes, factorials, strings built by guest code.
 */
#include "lib.h"
enum op { LI, MOV, ADDR, SUBR, MULR, DIVR, REMR, ANDI, SHLI, JMP, JEQ, JLT, LOAD, STORE, OUT, CALL, RET, STOP };
struct insn { u8 op, a, b, c; s16 imm; };
static s64 regs[16];
static s32 memory_[64];
static u16 stack[16];
static __attribute__((noinline)) u32 execute(const struct insn *code) {
  u32 pc = 0, steps = 0, sp = 0;
  for (;;) {
    const struct insn *i = &code[pc++];
    s64 *d = &regs[i->a], b = regs[i->b], c = regs[i->c];
    steps++;
    switch ((enum op)i->op) {
    case LI: *d = i->imm; break;
    case MOV: *d = b; break;
    case ADDR: *d = b + c + i->imm; break;
    case SUBR: *d = b - c; break;
    case MULR: *d = b * c; break;
    case DIVR: *d = c ? b / c : -1; break;
    case REMR: *d = c ? b % c : b; break;
    case ANDI: *d = b & i->imm; break;
    case SHLI: *d = i->imm < 0 ? b >> -i->imm : b << i->imm; break;
    case JMP: pc = (u32)(pc + i->imm); break;
    case JEQ: if (*d == b) pc = (u32)(pc + i->imm); break;
    case JLT: if (*d < b) pc = (u32)(pc + i->imm); break;
    case LOAD: *d = memory_[(b + i->imm) & 63]; break;
    case STORE: memory_[(b + i->imm) & 63] = (s32)*d; break;
    case OUT: line("out", (u64)*d); break;
    case CALL: stack[sp++ & 15] = (u16)pc; pc = (u32)i->imm; break;
    case RET: pc = stack[--sp & 15]; break;
    case STOP: return steps;
    }
  }
}
static const struct insn program[] = {
    {LI, 1, 0, 0, 2}, {LI, 2, 0, 0, 60}, {LI, 9, 0, 0, 0}, /* 3: next candidate */
    {CALL, 0, 0, 0, 12}, {JEQ, 3, 0, 0, 3}, {STORE, 1, 9, 0, 0}, {ADDR, 9, 9, 8, 0}, {ADDR, 10, 10, 1, 0}, {LI, 8, 0, 0, 1},
    {ADDR, 1, 1, 8, 0}, {JLT, 1, 2, 0, -8}, {JMP, 0, 0, 0, 8}, /* 12: r3 = r1 is prime */
    {LI, 4, 0, 0, 2}, {LI, 3, 0, 0, 1}, {MULR, 5, 4, 4, 0}, {JLT, 1, 5, 0, 3}, {REMR, 6, 1, 4, 0}, {ADDR, 4, 4, 3, 0}, {JMP, 0, 0, 0, 5},
    {RET, 0, 0, 0, 0}, /* 20: the end */
    {OUT, 9, 0, 0, 0}, {OUT, 10, 0, 0, 0}, {STOP, 0, 0, 0, 0}, {STOP, 0, 0, 0, 0}, {JEQ, 6, 0, 0, 1}, {JMP, 0, 0, 0, -12}, {LI, 3, 0, 0, 0}, {RET, 0, 0, 0, 0}};
int main(void) {
  regs[8] = 1;
  line("steps", execute(program));
  static const struct insn factorial[] = {{LI, 1, 0, 0, 1}, {LI, 2, 0, 0, 1}, {LI, 3, 0, 0, 25}, {MULR, 1, 1, 2, 0}, {ADDR, 2, 2, 8, 0}, {JLT, 2, 3, 0, -3},
                                          {OUT, 1, 0, 0, 0}, {SHLI, 4, 1, 0, -9}, {OUT, 4, 0, 0, 0}, {DIVR, 5, 1, 3, 0}, {OUT, 5, 0, 0, 0}, {STOP, 0, 0, 0, 0}};
  line("steps", execute(factorial));
  u32 sum = 0;
  for (int i = 0; i < 64; i++) sum = sum * 3 + (u32)memory_[i];
  line("memory", sum);
  flush();
  return (int)regs[10];
}
