/*
 * Counts the calls that change files below FAULT_DIR, and lets the one numbered FAULT_AT fail
 * (FAULT_KIND=full: no space) or kills the process in front of it (FAULT_KIND=kill). At the end
 * FAULT_COUNT holds how many calls there were, one letter each: o create, w write, s fsync, m
 * fchmod or fchown, l link, r rename, u unlink. For output.test.ts, as LD_PRELOAD.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char seen[4096];
static unsigned count;

static int below(const char *path)
{
	const char *folder = getenv("FAULT_DIR");

	return folder != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_ours(int descriptor)
{
	char name[64], path[4096];
	ssize_t length;

	snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
	length = readlink(name, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return below(path);
}

/* Whether this call fails. */
static int fault(char letter)
{
	const char *at = getenv("FAULT_AT"), *kind = getenv("FAULT_KIND");

	if (count < sizeof seen)
		seen[count] = letter;
	count++;
	if (at == NULL || (unsigned)atoi(at) != count)
		return 0;
	if (strcmp(kind, "kill") == 0)
		kill(getpid(), SIGKILL);
	errno = ENOSPC;
	return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *bytes, size_t size)
{
	if (is_ours(descriptor) && fault('w'))
		return -1;
	return NEXT(write)(descriptor, bytes, size);
}

int fsync(int descriptor)
{
	if (is_ours(descriptor) && fault('s'))
		return -1;
	return NEXT(fsync)(descriptor);
}

int fchmod(int descriptor, mode_t mode)
{
	if (is_ours(descriptor) && fault('m'))
		return -1;
	return NEXT(fchmod)(descriptor, mode);
}

int fchown(int descriptor, uid_t user, gid_t group)
{
	if (is_ours(descriptor) && fault('m'))
		return -1;
	return NEXT(fchown)(descriptor, user, group);
}

int link(const char *from, const char *to)
{
	if (below(to) && fault('l'))
		return -1;
	return NEXT(link)(from, to);
}

int rename(const char *from, const char *to)
{
	if (below(to) && fault('r'))
		return -1;
	return NEXT(rename)(from, to);
}

int unlink(const char *path)
{
	if (below(path) && fault('u'))
		return -1;
	return NEXT(unlink)(path);
}

static int opened(int (*next)(const char *, int, ...), const char *path, int flags, va_list more)
{
	mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;

	if ((flags & O_CREAT) != 0 && below(path) && fault('o'))
		return -1;
	return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list more;
	int result;

	va_start(more, flags);
	result = opened(NEXT(open), path, flags, more);
	va_end(more);
	return result;
}

int open64(const char *path, int flags, ...)
{
	va_list more;
	int result;

	va_start(more, flags);
	result = opened(NEXT(open64), path, flags, more);
	va_end(more);
	return result;
}

__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("FAULT_COUNT");
	FILE *file = path != NULL ? fopen(path, "w") : NULL;

	if (file == NULL)
		return;
	fwrite(seen, 1, count < sizeof seen ? count : sizeof seen, file);
	fclose(file);
}
