/*
 * Arguments and return values as they lie in records (RT-49), and how memory of the program is read
 * that may not be there (RT-50). Included by native-choice.c. SPDX-License-Identifier: MIT
 */
#define PAGE_ONES 4095ul

/* Memory of the program as far as it can be read; @returns how many bytes that are */
static word read_memory(void *to, word from, word size)
{
  word done = 0;
  while (done < size) {
    word here = from + done, part = PAGE_ONES + 1 - (here & PAGE_ONES);
    if (part > size - done) part = size - done;
    word file_place = here - ((word)config() - (word)config()->address);
    if (file_place >= choice_here()->start && file_place < choice_here()->end) {
      if (part > choice_here()->end - file_place) part = (word)(choice_here()->end - file_place);
      copy((u8 *)to + done, (const u8 *)here, part);
    } else if (state.reading == READ_BY_KERNEL) {
      word local[2] = { (word)to + done, part }, remote[2] = { here, part };
      long got = system_call(SYS_PROCESS_VM_READV, state.owner_process, (long)local, 1, (long)remote, 1, 0);
      if (got != (long)part) break;
    } else if (state.reading == READ_BY_PROBE) {
      /* No set of signals is asked for at 0. */
      if (here <= PAGE_ONES) break;
      if (call4(SYS_SIGPROCMASK, NO_SUCH_HOW, here & ~7ul, 0, 8) == EFAULT_) break;
      copy((u8 *)to + done, (const u8 *)here, part);
    } else break;
    done += part;
  }
  return done;
}

/* A unit in front of each value: format, number, bytes that follow, state. */
#define VALUE_WHOLE 0
#define VALUE_CUT 1
#define VALUE_UNREADABLE 2
static u32 value_head(const struct value *value, u32 bytes, u32 how)
{
  return value->format | (u32)value->number << 8 | bytes << 16 | how << 28;
}

/* Two units, low one first; of less than five bytes one. */
static u32 put_number(u32 *units, const struct value *value, u64 number, u32 bytes, u32 how)
{
  units[0] = value_head(value, bytes, how);
  units[1] = (u32)number;
  units[2] = (u32)(number >> 32);
  return bytes > 4 ? 3 : 2;
}

#define TEXT_MAX 256ul

/* The text at an address, or the address where it cannot be read. Units are left for it. */
static u32 put_text(u32 *units, const struct value *value, word address, word most)
{
  word room = most < TEXT_MAX ? most : TEXT_MAX, length = 0, got = 0, wanted = room;
  int is_ended = 0;
  u8 *text = (u8 *)(units + 1);
  if (value->format == 'S') {
    word object[2];
    if (read_memory(object, address, sizeof object) < sizeof object) wanted = 0;
    else {
      address = object[0];
      if (object[1] < wanted) wanted = object[1];
      is_ended = wanted == object[1];
    }
    got = read_memory(text, address, wanted);
    length = got;
    if (got < wanted) is_ended = 0;
    if (got == 0 && wanted) is_ended = -1;
    if (!wanted && !is_ended) is_ended = -1;
  } else {
    while (length < wanted && !is_ended) {
      /* Little at a time: most texts are short. */
      word part = wanted - length < 64 ? wanted - length : 64;
      got = read_memory(text + length, address + length, part);
      for (word end = length + got; length < end && !is_ended;) {
        if (text[length] == 0) is_ended = 1;
        else length++;
      }
      if (got < part && !is_ended) break;
    }
    if (length == 0 && !is_ended) is_ended = -1;
  }
  if (is_ended < 0) return put_number(units, value, address, WORD_BYTES, VALUE_UNREADABLE);
  for (word i = length; i % 4; i++) text[i] = 0;
  units[0] = value_head(value, (u32)length, is_ended ? VALUE_WHOLE : VALUE_CUT);
  return 1 + (u32)(length + 3) / 4;
}

/* The most units that values of a list take. */
static u32 most_units(const struct value *values, u32 count)
{
  u32 most = 2;
  for (u32 i = 0; i < count; i++) {
    int is_text = values[i].format == 's' || values[i].format == 'S';
    most += is_text ? 1 + TEXT_MAX / 4 : 5;
  }
  return most < DATA_UNITS ? most & ~1u : DATA_UNITS;
}

/* A value of up to 64 bits in one word, or in two. */
static u64 number_at(const volatile word *at, u32 bytes)
{
#if __SIZEOF_LONG__ == 4
  if (bytes <= WORD_BYTES) return at[0];
#ifdef UNITS_APART
  return (u64)at[0] << 32 | at[1];
#else
  return (u64)at[1] << 32 | at[0];
#endif
#else
  (void)bytes;
  return at[0];
#endif
}

/*
 * The values of a list as units. @param stack  where the stack's words of arguments begin
 * @returns number of units; what has no room is left out
 */
static u32 take_values(u32 *units, const struct value *values, u32 count, const word *registers, word stack)
{
  u32 used = 0, room = most_units(values, count);
  for (u32 i = 0; i < count; i++) {
    const struct value *value = &values[i];
    u64 number[2] = { 0, 0 };
    if (used + 5 > room) break;
    int is_long = value->bytes > 8;
    if (value->kind == VALUE_REGISTER) {
      number[0] = number_at(registers + value->place, value->bytes);
      if (is_long) number[1] = registers[value->place + 1];
    } else if (value->kind == VALUE_FLOATING) {
#ifdef PAIRED_FLOATS
      floating_register(value->place, is_long ? 8 : value->bytes, number);
      if (is_long) floating_register(value->place + 1u, 8, number + 1);
#else
      floating_register(value->place, value->bytes, number);
#endif
    } else if (is_long) copy(number, (const u8 *)(stack + (word)value->place * WORD_BYTES), 16);
    else number[0] = number_at((const word *)stack + value->place, value->bytes);
    if (value->format == 's' || value->format == 'S') {
      used += put_text(units + used, value, (word)number[0], (room - used - 1) * 4ul);
    } else if (is_long) {
      put_number(units + used, value, number[0], 8, VALUE_WHOLE);
      units[used] = value_head(value, value->bytes, VALUE_WHOLE);
      units[used + 3] = (u32)number[1];
      if (value->bytes > 12) units[used + 4] = (u32)(number[1] >> 32);
      used += 1 + (value->bytes + 3u) / 4;
    } else {
      u64 ones = value->bytes == 8 ? ~(u64)0 : ((u64)1 << value->bytes * 8) - 1;
      used += put_number(units + used, value, number[0] & ones, value->bytes, VALUE_WHOLE);
    }
  }
  return used;
}

static const struct value *values_of(const struct choice *choice, const struct row *row)
{
  return (const struct value *)(rows_of(choice) + choice->row_count) + row->first;
}
