/* Arithmetic expressions: made as text, tokenised, parsed by precedence, folded, evaluated. */
#include "yard.h"

#define SIZE 4096

struct tree { u8 op; s32 value; struct tree *left, *right; };
struct token { u8 kind; s32 value; };

static char text[SIZE];
static u32 length;
static struct token tokens[SIZE];
static struct tree pool[SIZE];
static u32 used, next;
static s32 variables[26];

static OWN void make(u32 depth) {
  if (length > SIZE - 200) depth = 0;
  if (depth == 0 || below(8) == 0) {
    if (below(2)) text[length++] = (char)('a' + below(26));
    else {
      u32 v = below(1000);
      if (v > 99) text[length++] = (char)('0' + v / 100);
      if (v > 9) text[length++] = (char)('0' + v / 10 % 10);
      text[length++] = (char)('0' + v % 10);
    }
    return;
  }
  u32 kind = below(10);
  if (kind == 0) {
    text[length++] = '-';
    make(0);
  } else if (kind < 3) {
    text[length++] = '(';
    make(depth - 1);
    text[length++] = ')';
  } else {
    make(depth - 1);
    text[length++] = ' ';
    text[length++] = "+-*/%&|^<>?"[below(10)];
    text[length++] = ' ';
    make(depth - 1);
  }
}

static OWN void tokenise(void) {
  u32 count = 0;
  for (u32 at = 0; at < length;) {
    char c = text[at];
    struct token *t = &tokens[count];
    if (c == ' ') {
      at++;
      continue;
    }
    if (c >= '0' && c <= '9') {
      t->kind = 'n';
      t->value = 0;
      while (at < length && text[at] >= '0' && text[at] <= '9') t->value = t->value * 10 + text[at++] - '0';
    } else if (c >= 'a' && c <= 'z') {
      t->kind = 'v';
      t->value = c - 'a';
      at++;
    } else {
      t->kind = (u8)c;
      at++;
    }
    count++;
  }
  tokens[count].kind = 0;
}

static int precedence(u8 op) {
  switch (op) {
    case '|': return 1;
    case '^': return 2;
    case '&': return 3;
    case '<': case '>': return 4;
    case '+': case '-': return 5;
    case '*': case '/': case '%': return 6;
    default: return 0;
  }
}

static struct tree *node(u8 op, s32 value, struct tree *left, struct tree *right) {
  struct tree *t = &pool[used++];
  t->op = op;
  t->value = value;
  t->left = left;
  t->right = right;
  return t;
}

static struct tree *binary(int least);

static struct tree *primary(void) {
  struct token t = tokens[next++];
  if (t.kind == '-') return node('m', 0, primary(), 0);
  if (t.kind == '(') {
    struct tree *inner = binary(1);
    next++;
    return inner;
  }
  return node(t.kind, t.value, 0, 0);
}

static OWN struct tree *binary(int least) {
  struct tree *left = primary();
  for (;;) {
    u8 op = tokens[next].kind;
    int strength = precedence(op);
    if (strength == 0 || strength < least) return left;
    next++;
    left = node(op, 0, left, binary(strength + 1));
  }
}

static s32 apply(u8 op, s32 a, s32 b) {
  switch (op) {
    case '+': return (s32)((u32)a + (u32)b);
    case '-': return (s32)((u32)a - (u32)b);
    case '*': return (s32)((u32)a * (u32)b);
    case '/': return b == 0 || b == -1 ? a : a / b;
    case '%': return b == 0 || b == -1 ? 0 : a % b;
    case '&': return a & b;
    case '|': return a | b;
    case '^': return a ^ b;
    case '<': return a < b;
    default: return a > b;
  }
}

static OWN s32 evaluate(const struct tree *t) {
  switch (t->op) {
    case 'n': return t->value;
    case 'v': return variables[t->value];
    case 'm': return (s32)(0u - (u32)evaluate(t->left));
    default: {
      s32 a = evaluate(t->left);
      return apply(t->op, a, evaluate(t->right));
    }
  }
}

/* Constants worked out ahead; how many nodes are left. */
static OWN u32 fold(struct tree *t) {
  u32 count = 1;
  if (t->left) count += fold(t->left);
  if (t->right) count += fold(t->right);
  if (t->op == 'n' || t->op == 'v' || t->left->op != 'n' || (t->right && t->right->op != 'n')) return count;
  t->value = evaluate(t);
  t->op = 'n';
  t->left = t->right = 0;
  return 1;
}

static void prepare(void) {}

static void turn(u32 n) {
  length = used = next = 0;
  make(9);
  tokenise();
  struct tree *root = binary(1);
  s32 plain[20];
  for (u32 i = 0; i < 20; i++) {
    variables[(i + n) % 26] = (s32)random_() >> 8;
    plain[i] = evaluate(root);
    note((u32)plain[i]);
  }
  note(used);
  note(fold(root));
  must(evaluate(root) == plain[19], "folding changed a value");
}
