/* A Lisp: reader, evaluator with closures, tail calls, a collector that marks and sweeps. */
#include "yard.h"

#define CELLS 6000

enum { NIL, NUMBER, SYMBOL, PAIR, CLOSURE, PRIMITIVE };
struct cell { u8 kind, marked; s32 number; struct cell *head, *tail; };
typedef struct cell *value;

static struct cell cells[CELLS], nil_cell;
static value free_list, nil = &nil_cell, globals, roots[4096];
static u32 depth, symbols_used, collections;
static char names[64][10];
static value symbols[64];
static value s_quote, s_if, s_lambda, s_define, s_let, s_begin, s_true;

static OWN void mark(value v) {
  while (v && !v->marked) {
    v->marked = 1;
    if (v->kind == PAIR || v->kind == CLOSURE) {
      mark(v->head);
      v = v->tail;
    } else return;
  }
}

static OWN void collect(void) {
  collections++;
  mark(globals);
  for (u32 i = 0; i < depth; i++) mark(roots[i]);
  for (u32 i = 0; i < symbols_used; i++) mark(symbols[i]);
  for (u32 i = 0; i < CELLS; i++) {
    if (cells[i].marked) cells[i].marked = 0;
    else {
      cells[i].kind = NIL;
      cells[i].tail = free_list;
      free_list = &cells[i];
    }
  }
  nil->marked = 0;
}

static void keep(value v) { roots[depth++] = v; }

static value make(u8 kind, s32 number, value head, value tail) {
  if (!free_list) {
    keep(head);
    keep(tail);
    collect();
    depth -= 2;
    if (!free_list) must(0, "memory is full");
  }
  value v = free_list;
  free_list = v->tail;
  v->kind = kind;
  v->number = number;
  v->head = head;
  v->tail = tail;
  return v;
}
static value cons(value a, value b) { return make(PAIR, 0, a, b); }
static value number(s32 n) { return make(NUMBER, n, 0, 0); }

static value symbol(const char *name, u32 length) {
  for (u32 i = 0; i < symbols_used; i++) {
    u32 k = 0;
    while (k < length && names[i][k] == name[k]) k++;
    if (k == length && names[i][k] == 0) return symbols[i];
  }
  for (u32 k = 0; k < length; k++) names[symbols_used][k] = name[k];
  value v = symbols[symbols_used] = make(SYMBOL, (s32)symbols_used, 0, 0);
  symbols_used++;
  return v;
}

static const char *source;
static OWN value read(void) {
  while (*source == ' ' || *source == '\n') source++;
  if (*source == '\'') {
    source++;
    keep(cons(read(), nil));
    value v = cons(s_quote, roots[depth - 1]);
    depth--;
    return v;
  }
  if (*source == '(') {
    value first = nil, last = nil;
    source++;
    keep(nil);
    for (;;) {
      while (*source == ' ' || *source == '\n') source++;
      if (*source == ')') break;
      value item = read(), p = cons(item, nil);
      if (first == nil) roots[depth - 1] = first = p;
      else last->tail = p;
      last = p;
    }
    source++;
    depth--;
    return first;
  }
  const char *start = source;
  while (*source && *source != ' ' && *source != '\n' && *source != '(' && *source != ')') source++;
  if (*start >= '0' && *start <= '9') {
    s32 n = 0;
    for (const char *p = start; p < source; p++) n = n * 10 + *p - '0';
    return number(n);
  }
  return symbol(start, (u32)(source - start));
}

static value look_up(value name, value scope) {
  for (value s = scope; s != nil; s = s->tail)
    if (s->head->head == name) return s->head->tail;
  for (value s = globals; s != nil; s = s->tail)
    if (s->head->head == name) return s->head->tail;
  must(0, "no such name");
  return nil;
}

static value primitive(s32 which, value a, value b) {
  switch (which) {
    case 0: return number((s32)((u32)a->number + (u32)b->number));
    case 1: return number((s32)((u32)a->number - (u32)b->number));
    case 2: return number((s32)((u32)a->number * (u32)b->number));
    case 3: return number(b->number > 0 ? a->number % b->number : 0);
    case 4: return a->number < b->number ? s_true : nil;
    case 5: return a == b || (a->kind == NUMBER && b->kind == NUMBER && a->number == b->number) ? s_true : nil;
    case 6: return cons(a, b);
    case 7: return a->head;
    case 8: return a->tail;
    default: return a == nil ? s_true : nil;
  }
}

static OWN value evaluate(value v, value scope) {
  u32 base = depth;
  keep(v);
  keep(scope);
  for (;;) {
    value result = 0;
    roots[base] = v;
    roots[base + 1] = scope;
    depth = base + 2;
    if (v->kind == SYMBOL) result = v == s_true ? v : look_up(v, scope);
    else if (v->kind != PAIR) result = v;
    else if (v->head == s_quote) result = v->tail->head;
    else if (v->head == s_if) {
      v = evaluate(v->tail->head, scope) != nil ? v->tail->tail->head : v->tail->tail->tail->head;
      continue;
    } else if (v->head == s_lambda) result = make(CLOSURE, 0, v->tail, scope);
    else if (v->head == s_define) {
      keep(evaluate(v->tail->tail->head, scope));
      value pair = cons(v->tail->head, roots[depth - 1]);
      globals = cons(pair, globals);
      result = nil;
    } else if (v->head == s_let) {
      keep(evaluate(v->tail->tail->head, scope));
      value pair = cons(v->tail->head, roots[depth - 1]);
      scope = cons(pair, scope);
      v = v->tail->tail->tail->head;
      continue;
    } else if (v->head == s_begin) {
      for (v = v->tail; v->tail != nil; v = v->tail) evaluate(v->head, scope);
      v = v->head;
      continue;
    } else {
      value function = evaluate(v->head, scope);
      keep(function);
      u32 first = depth;
      for (value a = v->tail; a != nil; a = a->tail) keep(evaluate(a->head, scope));
      if (function->kind == PRIMITIVE) result = primitive(function->number, roots[first], roots[first + (depth > first + 1)]);
      else {
        value inner = function->tail;
        u32 at = first;
        keep(inner);
        for (value name = function->head->head; name != nil; name = name->tail) {
          value pair = cons(name->head, roots[at++]);
          roots[depth - 1] = inner = cons(pair, inner);
        }
        scope = inner;
        v = function->head->tail->head;
        continue;
      }
    }
    depth = base;
    return result;
  }
}

static s32 run(const char *text) {
  s32 last = 0;
  for (source = text; *source;) {
    value v = evaluate(read(), nil);
    last = v->kind == NUMBER ? v->number : -1;
    while (*source == ' ' || *source == '\n') source++;
  }
  return last;
}

static void prepare(void) {
  static const char *const primitives[] = {"+", "-", "*", "%", "<", "=", "cons", "car", "cdr", "null"};
  nil->kind = NIL;
  nil->head = nil->tail = nil;
  globals = nil;
  collect();
  s_quote = symbol("quote", 5), s_if = symbol("if", 2), s_lambda = symbol("lambda", 6), s_define = symbol("define", 6);
  s_let = symbol("let", 3), s_begin = symbol("begin", 5), s_true = symbol("t", 1);
  for (u32 i = 0; i < COUNT(primitives); i++) {
    u32 length = 0;
    while (primitives[i][length]) length++;
    globals = cons(cons(symbol(primitives[i], length), make(PRIMITIVE, (s32)i, 0, 0)), globals);
  }
  run("(define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))))"
      "(define map (lambda (f l) (if (null l) l (cons (f (car l)) (map f (cdr l))))))"
      "(define fold (lambda (f a l) (if (null l) a (fold f (f a (car l)) (cdr l)))))"
      "(define range (lambda (a b) (if (< a b) (cons a (range (+ a 1) b)) '())))"
      "(define filter (lambda (p l) (if (null l) l (if (p (car l)) (cons (car l) (filter p (cdr l))) (filter p (cdr l))))))"
      "(define append (lambda (a b) (if (null a) b (cons (car a) (append (cdr a) b)))))"
      "(define sort (lambda (l) (if (null l) l (let p (car l) (append (sort (filter (lambda (x) (< x p)) (cdr l)))"
      "  (cons p (sort (filter (lambda (x) (if (< x p) '() t)) (cdr l)))))))))"
      "(define noise (lambda (s n) (if (= n 0) '() (let next (% (+ (* s 421) 1663) 7875) (cons next (noise next (- n 1)))))))"
      "(define seed 1)");
}

static void turn(u32 n) {
  for (value s = globals; s != nil; s = s->tail)
    if (s->head->head == symbol("seed", 4)) {
      value fresh = number((s32)(n * 17 % 7875));
      s->head->tail = fresh;
    }
  note((u32)run("(fib 9)"));
  note((u32)run("(fold + 0 (map (lambda (x) (* x x)) (range 0 60)))"));
  note((u32)run("(fold (lambda (a x) (+ (* a 3) x)) 0 (sort (noise seed 24)))"));
  note(collections);
}
