/*
 * What of a program is recorded, as a file says that the tool made (RT-47 to RT-50);
 * native/choice.ts writes it. Numbers have the byte order of the program.
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_CHOICE_H
#define ELFTRACE_NATIVE_CHOICE_H

/* A part for one object, rows and values behind it; the part with an id of zeros is for others. */
struct choice {
  u8 magic[8];
  u8 id[32];
  /* With all that belongs to it. */
  u32 bytes;
  u32 flags;
  /* Levels of calls that are recorded, 0: all. */
  u32 depth;
  u32 row_count;
  /* Nanoseconds that a call must last. */
  u64 time;
  /* Addresses in the file of what is only read, [start, end): texts there need no look. */
  u64 start, end;
  /* Bytes that functions must have, 0: any. */
  u32 size;
  u32 none;
};

/*
 * `flags`: only what rows with ROW_ONLY call is recorded; nothing is, until a row switches it on.
 */
#define CHOICE_ONLY 1
#define CHOICE_OFF 2
/* What is recorded of a call depends on what is open. */
#define CHOICE_TREE 4
/*
 * Calls are taken back when they return, but for those within which a row with ROW_CALLED was
 * called.
 */
#define CHOICE_CALLERS 8

/* A function: site addresses in the file, (start, end], of which the lower 32 bits. */
struct row {
  u32 start, end;
  u32 flags;
  u32 depth;
  u64 time;
  /* Values at the call, and behind it those of the return; the first one's number in the list. */
  u32 first;
  u16 arguments, results;
  /* Bytes that what it calls must have, and it; how many it has. */
  u32 size;
  u32 length;
};

#define ROW_ONLY 1
#define ROW_NOT 2
#define ROW_ON 4
#define ROW_OFF 8
#define ROW_DEPTH 16
#define ROW_TIME 32
/* Recorded however long it lasts; what it is called by, too. */
#define ROW_KEPT 64
#define ROW_CALLED 128
/* As if it had no site; what it calls is recorded. */
#define ROW_HIDDEN 256
/* Nothing is recorded behind its call. */
#define ROW_FINISH 512
#define ROW_SIZE 1024
/* Its length is known, and less than is asked for somewhere. */
#define ROW_SMALL 2048

/* A value: where it is, how it is read, what readers are told of it. */
struct value {
  u8 kind;
  /* A letter: s text, S text of a std::string; others are numbers. */
  u8 format;
  u8 bytes;
  /* As readers get it: number below, class above (native/values.ts). */
  u8 number;
  /* A register's place where the entry saved them, a floating register, a word of the stack. */
  u16 place;
  u16 none;
};

#define VALUE_REGISTER 0
#define VALUE_FLOATING 1
#define VALUE_STACK 2

/* What is open of the calls of a thread. It survives a fork, beside its page. */
#if __SIZEOF_LONG__ == 8
#define OPEN_MAX 0x20000
#else
#define OPEN_MAX 0x4000
#endif
#define REGIONS_MAX 16
/* How far apart two frames of one stack may be, bytes. */
#define FAR_FRAMES 0x100000ul

struct open_call {
  word stack;
  /* Where its records begin in the file and how many bytes they are; 0: there are none. */
  word at, bytes;
  u64 start;
  u64 time;
  /* Blocks that had begun. */
  u64 turns;
  const struct row *row;
  u32 levels, depth, size;
  u8 is_inside, is_left_out, is_recorded, is_kept;
};

struct opened {
  /* Counts what changed, so that a change which a signal's handler interrupts is made once more. */
  word serial;
  word count, regions;
  struct {
    word below, highest;
  } region[REGIONS_MAX];
  struct open_call calls[OPEN_MAX];
};
#define OPENED_BYTES ((sizeof(struct opened) + 4095) & ~4095ul)

#endif
