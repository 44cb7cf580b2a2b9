/*
 * The only process of a booted kernel: performs the steps of the file /plan, one on a line, and
 * says on the console what the kernel answered. It judges nothing. Freestanding: no C library,
 * since the cross compilers of some machines come without one.
 *
 *   say TEXT                    the text again
 *   write FILE TEXT             opens the file, cut to nothing, and writes the text
 *   load FILE [PARAMETERS]      finit_module
 *   unload MODULE               delete_module, again while the module is busy
 *   count LABEL                 lines of available_filter_functions, by module, with a hash that
 *                               knows no order
 *   names LABEL                 the same, and every name of a module, and those of the kernel
 *                               itself that /globs selects
 *   trace LABEL                 the functions of /interest in the trace, each once; only
 *                               function_graph says their modules
 *   tun, attach FILE, mount TYPE, touch, umount, detach
 *                               calls into modules: a network device, a block device with FILE in
 *                               it, a file system on that
 *   kmsg                        the kernel's log
 *
 * Every line of output begins with "@@ ". After the last step the machine is switched off.
 */
typedef unsigned long word;
typedef unsigned char byte;

#if defined(__x86_64__)
enum {
  READ = 0, WRITE = 1, CLOSE = 3, IOCTL = 16, NANOSLEEP = 35, MOUNT = 165, UMOUNT2 = 166, REBOOT = 169,
  DELETE_MODULE = 176, OPENAT = 257, MKDIRAT = 258, UNLINKAT = 263, FINIT_MODULE = 313
};
#elif defined(__powerpc64__)
enum {
  READ = 3, WRITE = 4, CLOSE = 6, MOUNT = 21, UMOUNT2 = 52, IOCTL = 54, REBOOT = 88, DELETE_MODULE = 129,
  NANOSLEEP = 162, OPENAT = 286, MKDIRAT = 287, UNLINKAT = 292, FINIT_MODULE = 353
};
#elif defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
enum {
  IOCTL = 29, MKDIRAT = 34, UNLINKAT = 35, UMOUNT2 = 39, MOUNT = 40, OPENAT = 56, CLOSE = 57, READ = 63, WRITE = 64,
  NANOSLEEP = 101, DELETE_MODULE = 106, REBOOT = 142, FINIT_MODULE = 273
};
#else
#error "no system calls for this machine"
#endif

/* One system call: its result, or the negative error number. */
static long call5(long number, word a, word b, word c, word d, word e) {
#if defined(__x86_64__)
  register word r10 __asm__("r10") = d;
  register word r8 __asm__("r8") = e;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__powerpc64__)
  register word r0 __asm__("r0") = (word)number;
  register word r3 __asm__("r3") = a;
  register word r4 __asm__("r4") = b;
  register word r5 __asm__("r5") = c;
  register word r6 __asm__("r6") = d;
  register word r7 __asm__("r7") = e;
  __asm__ volatile("sc\n\tbns+ 1f\n\tneg 3, 3\n1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7)
                   :
                   : "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "memory");
  return (long)r3;
#elif defined(__aarch64__)
  register word x8 __asm__("x8") = (word)number;
  register word x0 __asm__("x0") = a;
  register word x1 __asm__("x1") = b;
  register word x2 __asm__("x2") = c;
  register word x3 __asm__("x3") = d;
  register word x4 __asm__("x4") = e;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return (long)x0;
#else
  register word a7 __asm__("a7") = (word)number;
  register word a0 __asm__("a0") = a;
  register word a1 __asm__("a1") = b;
  register word a2 __asm__("a2") = c;
  register word a3 __asm__("a3") = d;
  register word a4 __asm__("a4") = e;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4) : "memory");
  return (long)a0;
#endif
}
#define call3(number, a, b, c) call5(number, (word)(a), (word)(b), (word)(c), 0, 0)

/* GCC makes calls of these from loops and copies, also in freestanding code. */
void *memset(void *to, int value, word size) {
  for (volatile byte *at = to; size > 0; size--) *at++ = (byte)value;
  return to;
}
void *memcpy(void *to, const void *from, word size) {
  volatile byte *at = to;
  for (const byte *next = from; size > 0; size--) *at++ = *next++;
  return to;
}

static word length(const char *text) {
  word n = 0;
  while (text[n] != 0) n++;
  return n;
}
static int equal(const char *one, const char *other) {
  while (*one != 0 && *one == *other) one++, other++;
  return *one == *other;
}

/* --- Output: a line at a time, so that the kernel's own lines come between lines --- */

static int console = 1;
static char line[1024];
static word filled;

static void put(const char *text) {
  while (*text != 0 && filled < sizeof line - 2) line[filled++] = *text++;
}
static void number(long value) {
  char digits[24];
  word at = sizeof digits;
  word rest = value < 0 ? (word)-value : (word)value;
  digits[--at] = 0;
  do digits[--at] = (char)('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (value < 0) digits[--at] = '-';
  put(digits + at);
}
static void hexadecimal(word value) {
  char digits[17];
  for (int at = 15; at >= 0; at--, value >>= 4) digits[at] = "0123456789abcdef"[value & 15];
  digits[16] = 0;
  put(digits);
}
static void end(void) {
  line[filled++] = '\n';
  for (word done = 0; done < filled;) {
    long wrote = call3(WRITE, console, line + done, filled - done);
    if (wrote <= 0) break;
    done += (word)wrote;
  }
  filled = 0;
}
static void begin(const char *what) {
  put("@@ ");
  put(what);
}
/* A line that says how a step ended. */
static void ended(const char *what, const char *with, long result) {
  begin(what);
  put(" ");
  put(with);
  put(" ");
  number(result < 0 ? -result : 0);
  end();
}

/* --- Files --- */

enum { AT_FDCWD = -100, RDONLY = 0, WRONLY = 1, RDWR = 2, CREAT = 0100, TRUNC = 01000, NONBLOCK = 04000 };

static long opened(const char *path, int flags) {
  return call5(OPENAT, (word)AT_FDCWD, (word)path, (word)flags, 0644, 0);
}
static void closed(long file) {
  call3(CLOSE, file, 0, 0);
}

/* Reads a file line by line: the line without its end, or 0 at the end of the file. */
struct lines {
  long file;
  word at, size;
  char buffer[65536];
  char text[4096];
};
static int nextByte(struct lines *from) {
  if (from->at == from->size) {
    long size = call3(READ, from->file, from->buffer, sizeof from->buffer);
    if (size <= 0) return -1;
    from->size = (word)size;
    from->at = 0;
  }
  return (byte)from->buffer[from->at++];
}
static char *nextLine(struct lines *from) {
  word n = 0;
  int each = nextByte(from);
  if (each < 0) return 0;
  for (; each >= 0 && each != '\n'; each = nextByte(from))
    if (n < sizeof from->text - 1) from->text[n++] = (char)each;
  from->text[n] = 0;
  return from->text;
}
static int openLines(struct lines *from, const char *path) {
  from->at = from->size = 0;
  from->file = opened(path, RDONLY);
  return from->file >= 0;
}

static long writeFile(const char *path, const char *text) {
  long file = opened(path, WRONLY | TRUNC);
  if (file < 0) return file;
  long result = call3(WRITE, file, text, length(text));
  closed(file);
  return result;
}

/* --- Selections --- */

/*
 * Files of patterns, one on a line, where * stands for anything. /globs selects functions of the
 * kernel itself, which are counted apart; /interest says whose lines of a trace are printed.
 */

struct selection {
  char text[4096];
  const char *patterns[64];
  int count;
};
static struct selection globs, interest;

static int matches(const char *pattern, const char *name) {
  const char *star = 0, *from = 0;
  while (*name != 0) {
    if (*pattern == '*') star = ++pattern, from = name;
    else if (*pattern == *name) pattern++, name++;
    else if (star != 0) pattern = star, name = ++from;
    else return 0;
  }
  while (*pattern == '*') pattern++;
  return *pattern == 0;
}
static int isSelected(const struct selection *by, const char *name) {
  for (int each = 0; each < by->count; each++)
    if (matches(by->patterns[each], name)) return 1;
  return 0;
}
static void readSelection(struct selection *into, const char *path) {
  long file = opened(path, RDONLY);
  long size = file < 0 ? 0 : call3(READ, file, into->text, sizeof into->text - 1);
  closed(file);
  for (char *at = into->text; size > 0 && *at != 0 && into->count < 64;) {
    into->patterns[into->count++] = at;
    while (*at != 0 && *at != '\n') at++;
    if (*at == '\n') *at++ = 0;
  }
}

static word hashOf(const char *text) {
  word hash = 0xcbf29ce484222325;
  for (; *text != 0; text++) hash = (hash ^ (byte)*text) * 0x100000001b3;
  return hash;
}

/* --- count, names --- */

struct tally {
  char module[64];
  word lines, selected, hash;
};
static struct tally tallies[256];
static int tallyCount;
static struct lines input;

/* Splits "name [module]" in its parts; the module of the kernel itself is "-". */
static const char *moduleOf(char *text) {
  for (char *at = text; *at != 0; at++) {
    if (*at == '\t' || (*at == ' ' && at[1] != '[')) *at = 0;
    if (*at != ' ') continue;
    *at = 0;
    char *name = at + 2;
    for (at = name; *at != 0 && *at != ']'; at++) {}
    *at = 0;
    return name;
  }
  return "-";
}
static struct tally *tallyOf(const char *module) {
  for (int each = 0; each < tallyCount; each++)
    if (equal(tallies[each].module, module)) return &tallies[each];
  if (tallyCount == 255) return &tallies[tallyCount];
  struct tally *one = &tallies[tallyCount++];
  memset(one, 0, sizeof *one);
  for (word at = 0; module[at] != 0 && at < sizeof one->module - 1; at++) one->module[at] = module[at];
  return one;
}

static void count(const char *label, int withNames) {
  tallyCount = 0;
  if (!openLines(&input, "/sys/kernel/tracing/available_filter_functions")) return ended("count", label, -2);
  for (char *text; (text = nextLine(&input)) != 0;) {
    const char *module = moduleOf(text);
    struct tally *one = tallyOf(module);
    one->lines++;
    int apart = equal(module, "-") && isSelected(&globs, text);
    if (apart) one->selected++;
    else one->hash += hashOf(text);
    if (!withNames || (equal(module, "-") && !apart)) continue;
    begin("name ");
    put(label), put(" "), put(module), put(" "), put(text);
    end();
  }
  closed(input.file);
  for (int each = 0; each < tallyCount; each++) {
    begin("lines ");
    put(label), put(" "), put(tallies[each].module), put(" ");
    number((long)tallies[each].lines), put(" "), number((long)tallies[each].selected), put(" ");
    hexadecimal(tallies[each].hash);
    end();
  }
  ended("count", label, 0);
}

/* --- compare: the lines of a file of the kernel against those of a list --- */

enum { PLACES = 1 << 17 };
static struct place {
  word hash;
  long count;
} places[PLACES];

static struct place *placeOf(const char *text) {
  word hash = hashOf(text), at = hash % PLACES;
  while (places[at].hash != 0 && places[at].hash != hash) at = (at + 1) % PLACES;
  places[at].hash = hash;
  return &places[at];
}
static void differs(const char *how, const char *list, const char *text) {
  begin(how);
  put(" "), put(list), put(" "), put(text);
  end();
}
static void compare(const char *list, const char *path) {
  memset(places, 0, sizeof places);
  if (!openLines(&input, list)) return ended("compare", list, -2);
  for (char *text; (text = nextLine(&input)) != 0;) placeOf(text)->count++;
  closed(input.file);
  if (!openLines(&input, path)) return ended("compare", path, -2);
  for (char *text; (text = nextLine(&input)) != 0;) {
    char *name = text;
    /* Addresses stand in front of a tabulator. */
    for (char *at = text; *at != 0; at++)
      if (*at == '\t') name = at + 1;
    struct place *one = placeOf(name);
    if (one->count > 0) one->count--;
    else differs("surplus", list, name);
  }
  closed(input.file);
  if (!openLines(&input, list)) return ended("compare", list, -2);
  for (char *text; (text = nextLine(&input)) != 0;)
    if (placeOf(text)->count > 0) placeOf(text)->count--, differs("missing", list, text);
  closed(input.file);
  ended("compare", list, 0);
}

/* --- trace --- */

enum { SEEN = 1 << 15 };
static word seen[SEEN];

/* Whether this name was not there before. */
static int isNew(word hash) {
  for (word at = hash % SEEN, tries = 0; tries < SEEN; tries++, at = (at + 1) % SEEN) {
    if (seen[at] == hash) return 0;
    if (seen[at] != 0) continue;
    seen[at] = hash;
    return 1;
  }
  return 0;
}

/* The function of a line of either tracer, as "name" or "name [module]"; 0: a line without one. */
static char *tracedFunction(char *text) {
  char *bar = 0, *arrow = 0;
  if (*text == '#') return 0;
  for (char *at = text; *at != 0; at++) {
    if (*at == '|' && bar == 0) bar = at;
    if (at[0] == ' ' && at[1] == '<' && at[2] == '-') arrow = at;
  }
  if (arrow != 0) {
    *arrow = 0;
    for (char *at = text; *at != 0; at++)
      if (at[0] == ':' && at[1] == ' ') text = at + 2;
    return text;
  }
  if (bar == 0) return 0;
  do bar++;
  while (*bar == ' ');
  char *stop = bar;
  while (*stop != 0 && *stop != '(') stop++;
  if (*stop == 0 || *bar == '}' || *bar == '/') return 0;
  *stop = 0;
  return bar;
}

static void trace(const char *label) {
  word events = 0, functions = 0;
  memset(seen, 0, sizeof seen);
  if (!openLines(&input, "/sys/kernel/tracing/trace")) return ended("trace", label, -2);
  for (char *text; (text = nextLine(&input)) != 0;) {
    char *name = tracedFunction(text);
    if (name == 0) continue;
    events++;
    if (!isNew(hashOf(name))) continue;
    functions++;
    const char *module = moduleOf(name);
    if (equal(module, "-") && !isSelected(&interest, name)) continue;
    begin("hit ");
    put(label), put(" "), put(module), put(" "), put(name);
    end();
  }
  closed(input.file);
  begin("traced ");
  put(label), put(" "), number((long)events), put(" "), number((long)functions);
  end();
  ended("trace", label, 0);
}

/* --- Calls into modules --- */

static char loopPath[] = "/dev/loop0";
static long loopFile = -1;

static long attach(const char *image) {
  long control = opened("/dev/loop-control", RDWR);
  if (control < 0) return control;
  long free = call3(IOCTL, control, 0x4c82 /* LOOP_CTL_GET_FREE */, 0);
  closed(control);
  if (free < 0 || free > 9) return free < 0 ? free : -28;
  loopPath[9] = (char)('0' + free);
  long file = opened(image, RDWR);
  if (file < 0) return file;
  loopFile = opened(loopPath, RDWR);
  long result = loopFile < 0 ? loopFile : call3(IOCTL, loopFile, 0x4c00 /* LOOP_SET_FD */, file);
  closed(file);
  return result;
}
static long detach(void) {
  long result = call3(IOCTL, loopFile, 0x4c01 /* LOOP_CLR_FD */, 0);
  closed(loopFile);
  return result;
}
/* Makes a network device and leaves it again. */
static long tun(void) {
  static byte request[40] = {'t', 'r', 'a', 'c', 'e', 'd'};
  /* TUNSETIFF: the direction of the argument stands elsewhere in PowerPC's numbers. */
#if defined(__powerpc64__)
  const word set = 0x800454ca;
#else
  const word set = 0x400454ca;
#endif
  request[16] = 1; /* IFF_TUN; its low byte comes first on all machines here */
  request[17] = 0x10; /* IFF_NO_PI */
  long file = opened("/dev/net/tun", RDWR);
  if (file < 0) return file;
  long result = call3(IOCTL, file, set, request);
  closed(file);
  return result;
}
static long touch(void) {
  char text[16];
  long file = opened("/mnt/file", RDWR | CREAT);
  if (file < 0) return file;
  long wrote = call3(WRITE, file, "traced\n", 7);
  closed(file);
  file = opened("/mnt/file", RDONLY);
  long size = file < 0 ? file : call3(READ, file, text, sizeof text);
  closed(file);
  call3(UNLINKAT, AT_FDCWD, "/mnt/file", 0);
  return wrote != 7 ? wrote : size == 7 ? 0 : -5;
}

static void pause(long milliseconds) {
  long time[2] = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  call3(NANOSLEEP, time, 0, 0);
}
static long load(const char *path, const char *parameters) {
  long file = opened(path, RDONLY);
  if (file < 0) return file;
  long result = call3(FINIT_MODULE, file, parameters, 0);
  closed(file);
  return result;
}
/* What a closed device still holds goes a moment later. */
static long unload(const char *module) {
  long result = -11;
  for (int tries = 0; tries < 100 && result == -11; tries++) {
    result = call3(DELETE_MODULE, module, 04000 /* O_NONBLOCK */, 0);
    if (result == -11) pause(20);
  }
  return result;
}

/* A probe at a function, in place of the one before it. */
static long probe(const char *name) {
  static char text[512] = "p ";
  word size = length(name) + 1;
  if (size > sizeof text - 2) return -7;
  for (word at = 0; at < size; at++) text[2 + at] = name[at];
  return writeFile("/sys/kernel/tracing/kprobe_events", text);
}

static void kernelLog(void) {
  static char record[8192];
  long file = opened("/dev/kmsg", RDONLY | NONBLOCK);
  for (;;) {
    long size = call3(READ, file, record, sizeof record - 1);
    if (size == -32) continue; /* EPIPE: records were lost, the next one is there */
    if (size <= 0) break;
    record[size] = 0;
    for (char *at = record; *at != 0; at++)
      if (*at == '\n') *at = 0;
    begin("log ");
    put(record);
    end();
  }
  closed(file);
}

/* --- Steps --- */

static void perform(char *step) {
  char *words[3] = {step, "", ""};
  for (int each = 1; each < 3; each++) {
    char *at = words[each - 1];
    while (*at != 0 && *at != ' ') at++;
    if (*at == 0) break;
    *at = 0;
    words[each] = at + 1;
  }
  const char *first = words[1], *rest = words[2];
  if (equal(step, "say")) begin("say "), put(first), end();
  else if (equal(step, "write")) ended(step, first, writeFile(first, rest));
  else if (equal(step, "load")) ended(step, first, load(first, rest));
  else if (equal(step, "unload")) ended(step, first, unload(first));
  else if (equal(step, "count")) count(first, 0);
  else if (equal(step, "names")) count(first, 1);
  else if (equal(step, "compare")) compare(first, rest);
  else if (equal(step, "probe")) ended(step, first, probe(first));
  else if (equal(step, "trace")) trace(first);
  else if (equal(step, "tun")) ended("call", step, tun());
  else if (equal(step, "attach")) ended("call", step, attach(first));
  else if (equal(step, "mount"))
    ended("call", first, call5(MOUNT, (word)loopPath, (word) "/mnt", (word)first, 0, 0));
  else if (equal(step, "touch")) ended("call", step, touch());
  else if (equal(step, "umount")) ended("call", step, call3(UMOUNT2, "/mnt", 0, 0));
  else if (equal(step, "detach")) ended("call", step, detach());
  else if (equal(step, "kmsg")) kernelLog();
  else ended("unknown", step, -22);
}

static void mounted(const char *type, const char *where) {
  call3(MKDIRAT, AT_FDCWD, where, 0755);
  long result = call5(MOUNT, (word)type, (word)where, (word)type, 0, 0);
  if (result < 0) ended("mounting", type, result);
}

__attribute__((used)) static void start(void) {
  static char plan[65536];
  mounted("devtmpfs", "/dev");
  console = (int)opened("/dev/console", RDWR);
  mounted("proc", "/proc");
  mounted("sysfs", "/sys");
  mounted("tracefs", "/sys/kernel/tracing");
  mounted("debugfs", "/sys/kernel/debug");
  call3(MKDIRAT, AT_FDCWD, "/mnt", 0755);
  readSelection(&globs, "/globs");
  readSelection(&interest, "/interest");
  begin("begin");
  end();
  long file = opened("/plan", RDONLY);
  word size = 0;
  for (long got; (got = call3(READ, file, plan + size, sizeof plan - 1 - size)) > 0;) size += (word)got;
  for (char *at = plan; *at != 0;) {
    char *step = at;
    while (*at != 0 && *at != '\n') at++;
    if (*at == '\n') *at++ = 0;
    if (*step != 0) perform(step);
  }
  begin("end");
  end();
  pause(200);
  for (;;) call5(REBOOT, 0xfee1dead, 672274793, 0x4321fedc /* power off */, 0, 0);
}

#if defined(__riscv)
__asm__(".globl _start\n_start:\n.option push\n.option norelax\nla gp, __global_pointer$\n.option pop\ntail start");
#elif defined(__powerpc64__)
/* A process of ABI version 2 starts with its entry in r12. */
__asm__(".globl _start\n.type _start, @function\n_start:\n0: addis 2, 12, .TOC.-0b@ha\naddi 2, 2, .TOC.-0b@l\n"
        ".localentry _start, .-_start\nli 0, 0\nstdu 0, -64(1)\nbl start\nnop");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\nb start");
#else
__asm__(".globl _start\n_start:\nand $-16, %rsp\ncall start");
#endif
