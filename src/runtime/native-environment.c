/*
 * What the environment asks for (RT-25), read from the kernel: the program may have changed its own
 * copy. Included by native.c. SPDX-License-Identifier: MIT
 */

static int set_directory(const char *value)
{
  word at = 0;
  if (*value == 0) return 0;
  if (*value != '/') {
    long length = call2(SYS_GETCWD, state.directory, PATH_ROOM / 2);
    if (failed(length) || length < 2 || state.directory[0] != '/') return 0;
    at = (word)length - 1;
    state.directory[at++] = '/';
  }
  while (*value) {
    if (at + 80 > PATH_ROOM) return 0;
    state.directory[at++] = *value++;
  }
  state.directory[at] = 0;
  return 1;
}

/* Whether what failed may work when descriptors or memory are there again. */
static int is_short(long result)
{
  return result == ENFILE_ || result == EMFILE_ || result == ENOMEM_;
}

static int begin_choice(const char *path);
static struct opened *opened_of(struct page *page);

static u64 number_of(const char *text)
{
  u64 value = 0;
  while (*text >= '0' && *text <= '9') value = value * 10 + (u64)(*text++ - '0');
  return *text == 0 ? value : 0;
}

#define NOT_NOW 2

/*
 * Whether the kernel says that the program has other rights than its user, or does not say;
 * NOT_NOW.
 */
static int is_secure(word *scratch)
{
  long file = open_file(TEXT("/proc/self/auxv"), O_CLOEXEC_);
  if (failed(file)) return is_short(file) ? NOT_NOW : 1;
  long size = call3(SYS_READ, file, scratch, sizeof state.room);
  call1(SYS_CLOSE, file);
  for (long i = 0; !failed(size) && i + 2 * WORD_BYTES <= size; i += 2 * WORD_BYTES) {
    if (scratch[i / WORD_BYTES] == AT_SECURE_) return scratch[i / WORD_BYTES + 1] != 0;
  }
  return 1;
}

/* Reads what the environment asks for; whether there is a state.directory to write to; NOT_NOW. */
static int read_environment(char *scratch)
{
  long file = open_file(TEXT("/proc/self/environ"), O_CLOEXEC_);
  if (failed(file)) return is_short(file) ? NOT_NOW : 0;
  word held = 0;
  int found = 0, is_off = 0, is_skipping = 0, is_chosen = 1;
  for (;;) {
    long size = call3(SYS_READ, file, scratch + held, sizeof state.room - held);
    if (failed(size) || size == 0) break;
    held += (word)size;
    word begin = 0;
    for (word i = 0; i < held; i++) {
      if (scratch[i]) continue;
      const char *text = scratch + begin, *value;
      if (is_skipping) is_skipping = 0;
      else if ((value = value_of(text, TEXT("ELFTRACE_DIR=")))) found = set_directory(value);
      else if ((value = value_of(text, TEXT("ELFTRACE_OFF=")))) is_off = *value && *value != '0';
      else if ((value = value_of(text, TEXT("ELFTRACE_SIZE=")))) state.file_limit = number_of(value);
      else if ((value = value_of(text, TEXT("ELFTRACE_POLICY=ring")))) state.is_ring = *value == 0;
      else if ((value = value_of(text, TEXT("ELFTRACE_THREADS=first")))) state.is_first_only = *value == 0;
      else if ((value = value_of(text, TEXT("ELFTRACE_SANDBOX=trace")))) state.filters = *value == 0 ? ~(word)0 : state.filters;
      else if ((value = value_of(text, TEXT("ELFTRACE_CHOICE=")))) is_chosen = *value == 0 || (!is_counting() && begin_choice(value));
      begin = i + 1;
    }
    copy(scratch, scratch + begin, held - begin);
    held -= begin;
    if (held == sizeof state.room) held = 0, is_skipping = 1;
  }
  call1(SYS_CLOSE, file);
  return found && is_chosen && !is_off;
}
