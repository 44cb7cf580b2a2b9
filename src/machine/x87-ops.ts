/**
 * The ops of x87: what programs mostly ask of it, by functions that work on its state in memory.
 * The registers are a stack whose top is in the status word, so no slot can stand for one of them
 * when code is made. A function decides for normal numbers and zeros, with all exceptions masked as
 * they are at the start; else it writes nothing and leaves the instruction to the lifter's helper,
 * which knows every case.
 *
 * Source: Intel SDM volume 1, chapter 8.
 */

/** Functions of the ops, which have their names. */
export type X87Function = 'x87load' | 'x87arithmetic' | 'x87compare' | 'x87store' | 'x87move' | 'x87unary';

/**
 * Where the parts are from the first register on, bytes: the slots of `X87_SLOTS` in this order.
 * The control word is kept xored with its initial value.
 */
export const X87_AT = {
  registers: 0,
  control: 128,
  status: 136,
  /** A bit for each register that is not empty. */
  tags: 144,
  opcode: 152,
  instruction: 160,
  operand: 168,
  /** Sign and exponent of a number of 80 bits, whose significand is the operand of an op. */
  upper: 176,
  /** What `x87store` makes: the bits to be stored, and status and tags for when they are. */
  bits: 184,
  nextStatus: 192,
  nextTags: 200,
} as const;

/** These slots, as a layout takes those in memory. */
export const X87_SLOTS = [
  ...Array.from({ length: 8 }, (_, i) => [`fpr${i}`, 'v128'] as const),
  ...['fcw', 'fsw', 'ftw', 'fop', 'fip', 'fdp', 'x87 upper', 'x87 bits', 'x87 status', 'x87 tags'].map(
    (name) => [name, 'i64'] as const,
  ),
] as const;

/** What a value is: the one of a register, or the operand of the op. */
export const X87_SOURCES = ['register', 'double', 'single', 'integer', 'extended', 'constant'] as const;
export type X87Source = (typeof X87_SOURCES)[number];

/** What `x87store` makes of the top of the stack. */
export const X87_TARGETS = ['double', 'single', 'integer16', 'integer32', 'integer64', 'extended'] as const;
export type X87Target = (typeof X87_TARGETS)[number];

/** What `x87move` does with the top and register i; the last one where its operand is not 0. */
export const X87_MOVES = ['exchange', 'copy', 'negate', 'magnitude', 'choose'] as const;
export type X87Move = (typeof X87_MOVES)[number];

/** What `x87unary` does with the top: its root, the integer near it, codes of what it is. */
export const X87_UNARY = ['root', 'integral', 'examine'] as const;
export type X87Unary = (typeof X87_UNARY)[number];

/** Fields of the constant that says what is asked: the first bit of each. */
export const X87_FIELDS = {
  /** Places from the top: what is written, or compared, and what is read. */
  target: 0,
  source: 3,
  pops: 6,
  /** A number of one of the lists above. */
  kind: 8,
  /** Reg field of an operation: 0 adds, 1 multiplies, 4 and 5 subtract, 6 and 7 divide. */
  operation: 11,
  /** Results of a comparison are flags, not the codes of the status word. */
  intoFlags: 14,
  /** To an integer: towards 0 whatever the control word says. */
  truncates: 15,
  /** Offset of the first register in the state block. */
  base: 16,
} as const;
