/*
 * A machine of sixteen registers and words of code: an assembler of labels, then programs that sort,
 * hash and walk a list in it; dispatch by a table of functions and, beside it, by a switch.
 */
#include "yard.h"

enum { HALT, ADDI, ADD, SUB, MUL, XOR, SHL, SHR, LD, ST, BEQ, BLT, BNE, JAL, JR, LI };
struct machine { u32 r[16], pc, stopped; u64 count; u32 memory[1024]; };

static struct machine m, copy;
static u32 code[256], used;
static u16 labels[32], fix_places[64], fix_labels[64], fixes;

static u32 word_of(u32 op, u32 a, u32 b, s32 c) { return op << 24 | a << 20 | b << 16 | ((u32)c & 0xffff); }
static void emit(u32 op, u32 a, u32 b, s32 c) { code[used++] = word_of(op, a, b, c); }
static void label(u32 n) { labels[n] = (u16)used; }
static void branch(u32 op, u32 a, u32 b, u32 to) {
  fix_places[fixes] = (u16)used;
  fix_labels[fixes++] = (u16)to;
  emit(op, a, b, 0);
}

static OWN void assemble(void) {
  /* r1 = length; insertion sort of memory[0..r1). */
  emit(LI, 2, 0, 1);
  label(0);
  branch(BEQ, 2, 1, 4);
  emit(LD, 3, 2, 0);
  emit(ADDI, 4, 2, 0);
  label(1);
  branch(BEQ, 4, 0, 3);
  emit(LD, 5, 4, -1);
  branch(BLT, 5, 3, 3);
  emit(ST, 5, 4, 0);
  emit(ADDI, 4, 4, -1);
  branch(BEQ, 0, 0, 1);
  label(3);
  emit(ST, 3, 4, 0);
  emit(ADDI, 2, 2, 1);
  branch(BEQ, 0, 0, 0);
  label(4);
  /* A hash of them, by a subroutine. */
  emit(LI, 6, 0, 0x1234);
  emit(LI, 2, 0, 0);
  label(5);
  emit(LD, 7, 2, 0);
  branch(JAL, 15, 0, 8);
  emit(ADDI, 2, 2, 1);
  branch(BNE, 2, 1, 5);
  /* A list in memory[512..]: r8 = head, followed r9 times. */
  emit(LI, 8, 0, 512);
  emit(LI, 9, 0, 600);
  label(6);
  emit(LD, 10, 8, 1);
  emit(XOR, 6, 6, 10);
  emit(LD, 8, 8, 0);
  emit(ADDI, 9, 9, -1);
  branch(BNE, 9, 0, 6);
  emit(HALT, 0, 0, 0);
  label(8);
  emit(XOR, 6, 6, 7);
  emit(LI, 11, 0, 5);
  emit(SHL, 12, 6, 11);
  emit(LI, 11, 0, 27);
  emit(SHR, 13, 6, 11);
  emit(ADD, 6, 12, 13);
  emit(LI, 11, 0, 0x5bd1);
  emit(MUL, 6, 6, 11);
  emit(JR, 15, 0, 0);
  for (u32 i = 0; i < fixes; i++) code[fix_places[i]] |= labels[fix_labels[i]];
}

#define A (w >> 20 & 15)
#define B (w >> 16 & 15)
#define C ((s32)(s16)w)
#define X m.r[A]
#define Y m.r[B]
#define Z m.r[w & 15]

typedef void operation(u32 w);
static void halt(u32 w) { (void)w, m.stopped = 1; }
static void addi(u32 w) { X = Y + (u32)C; }
static void add(u32 w) { X = Y + Z; }
static void sub(u32 w) { X = Y - Z; }
static void mul(u32 w) { X = Y * Z; }
static void xor_(u32 w) { X = Y ^ Z; }
static void shl(u32 w) { X = Y << (Z & 31); }
static void shr(u32 w) { X = Y >> (Z & 31); }
static void ld(u32 w) { X = m.memory[(Y + (u32)C) & 1023]; }
static void st(u32 w) { m.memory[(Y + (u32)C) & 1023] = X; }
static void beq(u32 w) { if (X == Y) m.pc = w & 0xffff; }
static void blt(u32 w) { if (X < Y) m.pc = w & 0xffff; }
static void bne(u32 w) { if (X != Y) m.pc = w & 0xffff; }
static void jal(u32 w) { X = m.pc, m.pc = w & 0xffff; }
static void jr(u32 w) { m.pc = X; }
static void li(u32 w) { X = (u32)C; }
static operation *const operations[16] = {halt, addi, add, sub, mul, xor_, shl, shr, ld, st, beq, blt, bne, jal, jr, li};

static OWN void by_table(void) {
  while (!m.stopped) {
    u32 w = code[m.pc++];
    operations[w >> 24](w);
    m.count++;
  }
}

static OWN void by_switch(void) {
  u32 pc = 0, count = 0;
  u32 *r = m.r, *memory = m.memory;
  for (;;) {
    u32 w = code[pc++], a = A, b = B, z = w & 15, to = w & 0xffff;
    count++;
    switch (w >> 24) {
      case HALT: m.pc = pc, m.count = count, m.stopped = 1; return;
      case ADDI: r[a] = r[b] + (u32)C; break;
      case ADD: r[a] = r[b] + r[z]; break;
      case SUB: r[a] = r[b] - r[z]; break;
      case MUL: r[a] = r[b] * r[z]; break;
      case XOR: r[a] = r[b] ^ r[z]; break;
      case SHL: r[a] = r[b] << (r[z] & 31); break;
      case SHR: r[a] = r[b] >> (r[z] & 31); break;
      case LD: r[a] = memory[(r[b] + (u32)C) & 1023]; break;
      case ST: memory[(r[b] + (u32)C) & 1023] = r[a]; break;
      case BEQ: if (r[a] == r[b]) pc = to; break;
      case BLT: if (r[a] < r[b]) pc = to; break;
      case BNE: if (r[a] != r[b]) pc = to; break;
      case JAL: r[a] = pc, pc = to; break;
      case JR: pc = r[a]; break;
      default: r[a] = (u32)C; break;
    }
  }
}

static void prepare(void) { assemble(); }

static void turn(u32 n) {
  memset(&m, 0, sizeof m);
  m.r[1] = 40 + n % 20;
  for (u32 i = 0; i < 64; i++) m.memory[i] = random_();
  for (u32 i = 0; i < 256; i++) {
    m.memory[512 + 2 * i] = 512 + 2 * ((i * 77 + 13) & 255);
    m.memory[513 + 2 * i] = random_();
  }
  copy = m;
  by_table();
  u32 first = m.r[6];
  u64 count = m.count;
  m = copy;
  by_switch();
  must(first == m.r[6] && count == m.count, "table and switch differ");
  note(first);
  note(count);
}
