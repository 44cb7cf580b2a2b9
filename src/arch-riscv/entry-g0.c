/*
 * What a call of -pg does not say and the code in front of it does: where the site is, where the
 * function returns to, in which word of its frame that stands, and where the frame ends. Reads
 * prologues of gcc and clang backwards, parcel by parcel; a parcel that only looks like what is
 * searched for is found out because the word in the frame must be the return address.
 * SPDX-License-Identifier: MIT
 */
#include "abi.h"
#include "entry.h"

typedef unsigned short parcel;

/*
 * Longest prologue that is searched, in parcels: 24 saved registers, arguments moved away, a large
 * frame.
 */
#define PROLOGUE 100
/* Words of the frame that are searched when the prologue moved the stack pointer once more. */
#define FRAME_WORDS 1024

static u32 word_at(const parcel *at) { return at[0] | (u32)at[1] << 16; }

/* First byte of the call that returns to `back`: a jal, or a pair. */
__attribute__((visibility("hidden"))) word elftrace_g0_site(word back) {
  const parcel low = *(const parcel *)(back - 4);
  return (low & 0xfff) == 0x0ef ? back - 4 : back - 8;
}

/* addi s0,sp,N in either size. */
static int sets_frame_pointer(const parcel *at) {
  return ((at[0] & 0xe01f) == 0 && at[0] != 0) || (word_at(at) & 0x000fffff) == 0x00010413;
}

/* mv a0,ra in either size. */
static int passes_return_address(const parcel *at) { return at[0] == 0x8506 || word_at(at) == 0x00008513; }

__attribute__((visibility("hidden"))) word elftrace_g0_parent(word ip, word passed, word frame_pointer) {
  const parcel *const site = (const parcel *)ip;
  /*
   * One of the two is in every prologue; a function with variable arguments stores eight registers
   * behind it.
   */
  for (const parcel *at = site - 1; at > site - PROLOGUE; at--) {
    if (passes_return_address(at)) return passed;
    /* -O0 copies ra through another register, and has a frame pointer, too. */
    if (sets_frame_pointer(at)) return *(const word *)(frame_pointer - 8);
  }
  return passed;
}

/* sd ra,N(sp): N, or -1. */
static long saved_at(const parcel *at) {
  if ((at[0] & 0xe07f) == 0xe006) return (at[0] >> 7 & 0x38) | (at[0] >> 1 & 0x1c0);
  const u32 whole = word_at(at);
  if ((whole & 0x01fff07f) != 0x00113023) return -1;
  return (whole >> 7 & 0x1f) | (whole >> 20 & 0xfe0);
}

/* addi sp,sp,-N in its three sizes: N, or 0. */
static long opened_by(const parcel *at) {
  const parcel p = at[0];
  long n = 0;
  if ((p & 0xef83) == 0x6101) n = (p >> 2 & 0x10) | (p << 3 & 0x20) | (p << 1 & 0x40) | (p << 4 & 0x180) | (p & 0x1000 ? -512 : 0);
  else if ((p & 0xef83) == 0x0101) n = (p >> 2 & 0x1f) | (p & 0x1000 ? -32 : 0);
  else if ((word_at(at) & 0x000fffff) == 0x00010113) n = (long)(int)word_at(at) >> 20;
  return n < 0 ? -n : 0;
}

/* The word with the return address, and the bytes from it to the end of the frame; 0: unknown. */
static word *find(const char *regs, word ip, word *rest) {
  const word parent = *(const word *)(regs + R_RA);
  const parcel *const site = (const parcel *)ip;
  long at = -1, size = 0;
  for (const parcel *code = site - 1; code > site - PROLOGUE && size == 0; code--) {
    if (at < 0) at = saved_at(code);
    else size = opened_by(code);
  }
  if (size <= at) return 0;
  *rest = (word)(size - at);
  word *const sp = (word *)(regs + REGS_BYTES);
  if (sp[at / 8] == parent) return &sp[at / 8];
  for (word i = 0; i < FRAME_WORDS; i++)
    if (sp[i] == parent) return &sp[i];
  return 0;
}

unsigned long *elftrace_return_slot(const void *regs, unsigned long ip) {
  word rest;
  return find(regs, ip, &rest);
}

unsigned long elftrace_caller_frame(const void *regs, unsigned long ip) {
  word rest = 0;
  return (word)find(regs, ip, &rest) + rest;
}
