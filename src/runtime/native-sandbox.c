/*
 * Sandboxes that may kill for system calls (RT-59). Nobody can ask one which calls it kills for,
 * but /proc says that there is one, and what opens, reads and closes a file is what the dynamic
 * loader did in it before. Included by native.c. SPDX-License-Identifier: MIT
 */

/*
 * The beginning of the text behind `name`, where a part of a file begins with it; parts end with
 * `end`. Of several the last. @returns whether there is one; NO_DESCRIPTOR: it could not be asked
 */
#define NO_DESCRIPTOR (-1)
static int find_text(const char *path, const char *name, char end, char *to, word room)
{
  /* Stacks of signal handlers are small. */
  char piece[512];
  long file = open_file(path, O_CLOEXEC_);
  if (failed(file)) return is_short(file) ? NO_DESCRIPTOR : 0;
  const char *at = name;
  word length = 0;
  int is_found = 0;
  for (;;) {
    long size = call3(SYS_READ, file, piece, sizeof piece);
    if (failed(size) || size == 0) break;
    for (long i = 0; i < size; i++) {
      char letter = piece[i];
      if (letter == end) at = name;
      else if (at == 0) continue;
      else if (*at) {
        at = *at == letter ? at + 1 : 0;
        if (at && *at == 0) is_found = 1, length = 0;
      } else if (length + 1 < room) to[length++] = letter;
    }
  }
  call1(SYS_CLOSE, file);
  to[length] = 0;
  return is_found;
}

/*
 * Filters of system calls over a thread; before Linux 5.9 it is said that there are some, not how
 * many.
 */
#define UNKNOWN (~(word)0)
static word filters_of(const char *status)
{
  char text[12];
  int is_said = find_text(status, TEXT("Seccomp_filters:\t"), '\n', text, sizeof text);
  if (is_said == 0) is_said = find_text(status, TEXT("Seccomp:\t"), '\n', text, sizeof text);
  return is_said == NO_DESCRIPTOR ? UNKNOWN : is_said ? (word)number_of(text) : 0;
}

static word filters_here(void)
{
  return filters_of(TEXT("/proc/thread-self/status"));
}

/*
 * Whether the process may be traced. One that begins in a sandbox: where it is asked for, and where
 * the first process has as many filters: all of a container does.
 */
static int is_allowed(word filters)
{
  const char *environment = TEXT("/proc/self/environ");
  char text[8];
  if (filters == 0) return 1;
  if (find_text(environment, TEXT("ELFTRACE_DIR="), 0, text, sizeof text) <= 0) return 0;
  if (find_text(environment, TEXT("ELFTRACE_SANDBOX="), 0, text, sizeof text) > 0) {
    if (value_of(text, TEXT("trace"))) return 1;
    if (value_of(text, TEXT("off"))) return 0;
  }
  return filters_of(TEXT("/proc/1/status")) == filters;
}

/*
 * Whether a thread may make the system calls that a file takes, as far as filters are concerned.
 * Where some came since the process began, no thread of it begins one any more, and no child; they
 * make no call for that.
 */
static int is_as_before(void)
{
  word filters = state.is_closed ? UNKNOWN : filters_here();
  if (filters <= state.filters) return 1;
  if (filters != UNKNOWN) state.is_closed = 1;
  return 0;
}

/* Whether a thread that has no page yet may begin. */
static int may_begin(void)
{
  if (native_slot < 0) return 0;
  if (!state.is_asked) {
    word filters = filters_here();
    if (filters == UNKNOWN) return 0;
    state.filters = filters;
    if (!is_allowed(filters)) native_slot = -1;
    state.is_asked = 1;
    return native_slot >= 0;
  }
  /*
   * Of a process that begins, and once for each: where there is no memory for a page it comes here
   * with each call.
   */
  if (state.phase != READY || state.asked_thread == library_thread()) return !state.is_closed;
  if (!is_as_before()) return 0;
  state.asked_thread = library_thread();
  return 1;
}
