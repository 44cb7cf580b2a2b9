/* Jump tables: a byte code machine, dense and sparse switches, computed goto. */
#include "lib.h"
enum { PUSH, ADD, SUB, MUL, DUP, SWAP, DROP, JNZ, DEC, OVER, XOR, SHL, HALT };
static const u8 program[] = {PUSH, 1, PUSH, 200, SWAP, PUSH, 3, MUL, PUSH, 7, ADD, OVER, XOR, SWAP, DEC, JNZ, 4, DROP, HALT};
static u32 interpret(u32 *steps) {
  u32 stack[16];
  int sp = 0, pc = 0;
  for (;;) {
    ++*steps;
    switch (program[pc++]) {
    case PUSH: stack[sp++] = program[pc++]; break;
    case ADD: sp--; stack[sp - 1] += stack[sp]; break;
    case SUB: sp--; stack[sp - 1] -= stack[sp]; break;
    case MUL: sp--; stack[sp - 1] *= stack[sp]; break;
    case DUP: stack[sp] = stack[sp - 1]; sp++; break;
    case SWAP: { u32 t = stack[sp - 1]; stack[sp - 1] = stack[sp - 2]; stack[sp - 2] = t; break; }
    case DROP: sp--; break;
    case JNZ: if (stack[sp - 1]) pc = program[pc]; else pc++; break;
    case DEC: stack[sp - 1]--; break;
    case OVER: stack[sp] = stack[sp - 2]; sp++; break;
    case XOR: sp--; stack[sp - 1] ^= stack[sp]; break;
    case SHL: sp--; stack[sp - 1] <<= stack[sp] & 31; break;
    case HALT: return stack[sp - 1];
    }
  }
}
static __attribute__((noinline)) int sparse(s32 v) {
  switch (v) {
  case -1000000: return 1;
  case -5: return 2;
  case 0: return 3;
  case 17: return 4;
  case 18: return 5;
  case 99999: return 6;
  case 0x7fffffff: return 7;
  default: return v > 50 ? 8 : 9;
  }
}
static u32 threaded(const u8 *code) {
  static const void *const labels[] = {&&inc, &&dbl, &&neg, &&end};
  u32 v = 1;
  goto *labels[*code++];
inc: v++; goto *labels[*code++];
dbl: v += v; goto *labels[*code++];
neg: v = ~v; goto *labels[*code++];
end: return v;
}
int main(void) {
  u32 steps = 0;
  u32 r = interpret(&steps);
  line("vm", r);
  line("steps", steps);
  static const s32 values[] = {-1000000, -5, 0, 17, 18, 99999, 0x7fffffff, 51, 49, -1};
  u32 sum = 0;
  for (unsigned i = 0; i < sizeof values / sizeof *values; i++) sum = sum * 10 + (u32)sparse(values[i]);
  line("sparse", sum);
  static const u8 code[] = {0, 1, 1, 2, 0, 1, 2, 1, 0, 3};
  line("threaded", threaded(code));
  flush();
  return (int)(r & 63);
}
