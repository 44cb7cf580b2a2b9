/* A machine of a stack whose code is bytes: compiled from a small language, with calls and arrays. */
#include "yard.h"

enum { END, CONST, LOAD, STORE, ADD, SUB, MUL, DIV, LESS, EQUAL, JUMP, JUMP_IF_NOT, CALL, RETURN, ARGUMENT, INDEX, PUT, EMIT, DUP, DROP, AND, NOT };

static u8 code[4096];
static u32 size;
static s32 stack[1024], globals[64], array[512];
static u64 executed;

static void op(u32 v) { code[size++] = (u8)v; }
static void op_word(u32 v, s32 w) {
  op(v);
  for (int i = 0; i < 4; i++) op((u32)w >> 8 * i);
}
static u32 op_jump(u32 v) {
  op(v);
  op(0);
  op(0);
  return size - 2;
}
static void land(u32 at, u32 to) {
  code[at] = (u8)to;
  code[at + 1] = (u8)(to >> 8);
}

/* The source: prefix expressions, one character each; `name` is a letter. */
static const char *source;
static u16 functions[26];

static char next(void) {
  while (*source == ' ' || *source == '\n') source++;
  return *source++;
}

static OWN void compile(void) {
  char c = next();
  if (c >= '0' && c <= '9') {
    s32 v = c - '0';
    while (*source >= '0' && *source <= '9') v = v * 10 + *source++ - '0';
    op_word(CONST, v);
  } else if (c >= 'a' && c <= 'z') {
    op(LOAD);
    op((u32)(c - 'a'));
  } else if (c == '=') {
    u32 name = (u32)(next() - 'a');
    compile();
    op(STORE);
    op(name);
  } else if (c == '$') op(ARGUMENT);
  else if (c == '@') {
    compile();
    op(INDEX);
  } else if (c == '!') {
    compile();
    compile();
    op(PUT);
  } else if (c == '.') {
    compile();
    op(EMIT);
  } else if (c == '~') {
    compile();
    op(NOT);
  } else if (c == '{') {
    while (*source == ' ' || *source == '\n') source++;
    while (*source != '}') {
      compile();
      while (*source == ' ' || *source == '\n') source++;
    }
    source++;
  } else if (c == '?') {
    compile();
    u32 other = op_jump(JUMP_IF_NOT);
    compile();
    u32 end = op_jump(JUMP);
    land(other, size);
    compile();
    land(end, size);
  } else if (c == 'W') {
    u32 start = size;
    compile();
    u32 end = op_jump(JUMP_IF_NOT);
    compile();
    land(op_jump(JUMP), start);
    land(end, size);
  } else if (c == 'F') {
    u32 name = (u32)(next() - 'A'), over = op_jump(JUMP);
    functions[name] = (u16)size;
    compile();
    op(RETURN);
    land(over, size);
  } else if (c == 'C') {
    u32 name = (u32)(next() - 'A');
    compile();
    op(CALL);
    op(functions[name]);
    op(functions[name] >> 8);
  } else {
    static const char symbols[] = "+-*/<#&";
    static const u8 ops[] = {ADD, SUB, MUL, DIV, LESS, EQUAL, AND};
    compile();
    compile();
    for (u32 i = 0; symbols[i]; i++)
      if (symbols[i] == c) op(ops[i]);
  }
}

static OWN void run(void) {
  u32 pc = 0, sp = 0, frame = 0;
  for (;;) {
    executed++;
    switch (code[pc++]) {
      case END: return;
      case CONST: stack[sp++] = (s32)(code[pc] | (u32)code[pc + 1] << 8 | (u32)code[pc + 2] << 16 | (u32)code[pc + 3] << 24), pc += 4; break;
      case LOAD: stack[sp++] = globals[code[pc++]]; break;
      case STORE: globals[code[pc++]] = stack[--sp]; break;
      case ADD: sp--, stack[sp - 1] = (s32)((u32)stack[sp - 1] + (u32)stack[sp]); break;
      case SUB: sp--, stack[sp - 1] = (s32)((u32)stack[sp - 1] - (u32)stack[sp]); break;
      case MUL: sp--, stack[sp - 1] = (s32)((u32)stack[sp - 1] * (u32)stack[sp]); break;
      case DIV: sp--, stack[sp - 1] = stack[sp] > 0 ? stack[sp - 1] / stack[sp] : 0; break;
      case LESS: sp--, stack[sp - 1] = stack[sp - 1] < stack[sp]; break;
      case EQUAL: sp--, stack[sp - 1] = stack[sp - 1] == stack[sp]; break;
      case AND: sp--, stack[sp - 1] &= stack[sp]; break;
      case NOT: stack[sp - 1] = !stack[sp - 1]; break;
      case JUMP: pc = code[pc] | (u32)code[pc + 1] << 8; break;
      case JUMP_IF_NOT: pc = stack[--sp] ? pc + 2 : code[pc] | (u32)code[pc + 1] << 8; break;
      case CALL:
        stack[sp++] = (s32)(pc + 2);
        stack[sp++] = (s32)frame;
        frame = sp;
        pc = code[pc] | (u32)code[pc + 1] << 8;
        break;
      case RETURN: {
        s32 result = stack[sp - 1];
        sp = frame - 2;
        pc = (u32)stack[sp];
        frame = (u32)stack[sp + 1];
        stack[sp - 1] = result;
        break;
      }
      case ARGUMENT: stack[sp++] = stack[frame - 3]; break;
      case INDEX: stack[sp - 1] = array[stack[sp - 1] & 511]; break;
      case PUT: sp -= 2, array[stack[sp] & 511] = stack[sp + 1]; break;
      case EMIT: note((u32)stack[--sp]); break;
      default: must(0, "no such operation"); return;
    }
  }
}

static void prepare(void) {
  source = "{ FF ?<$2 $ +CF-$1 CF-$2"           /* Fibonacci's numbers */
           "  FG ?#$0 0 +1 CG/$2"                 /* digits in base two */
           "  =i 2 W<i 400 {!i 1 =i+i 1}"         /* a sieve */
           "  =i 2 W<*i i 400 { ?@i {=j*i i W<j 400 {!j 0 =j+j i}} {} =i+i 1 }"
           "  =i 0 =s 0 W<i 400 { =s+s*@i i =i+i 1 } .s"
           "  .CF+9&n 3 .CG+n 12345"
           "  =a+n 27 =k 0 W~#a 1 { =k+k 1 ?#-a*2/a 2 0 =a/a 2 =a+1*3 a } .k }"; /* Collatz' steps */
  compile();
  op(END);
}

static void turn(u32 n) {
  globals['n' - 'a'] = (s32)n;
  run();
  note(executed);
}
