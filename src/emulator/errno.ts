/** Errors of system calls by their names. */

/**
 * Error numbers; equal on all targets that are served. Source: Linux asm-generic/errno-base.h,
 * errno.h.
 */
export const ERRNO = {
  EPERM: 1, ENOENT: 2, ESRCH: 3, EINTR: 4, EIO: 5, E2BIG: 7, ENOEXEC: 8, EBADF: 9, ECHILD: 10, EAGAIN: 11, ENOMEM: 12, EACCES: 13, EFAULT: 14, EBUSY: 16,
  EEXIST: 17, EXDEV: 18, ENODEV: 19, ENOTDIR: 20, EISDIR: 21, EINVAL: 22, EMFILE: 24, ENOTTY: 25, EFBIG: 27, ENOSPC: 28, ESPIPE: 29, EROFS: 30, EPIPE: 32,
  ERANGE: 34, EDEADLK: 35, ENAMETOOLONG: 36, ENOSYS: 38, ENOTEMPTY: 39, ELOOP: 40, EOVERFLOW: 75, ENOTSOCK: 88, EMSGSIZE: 90, EPROTOTYPE: 91, ENOPROTOOPT: 92, EPROTONOSUPPORT: 93,
  ESOCKTNOSUPPORT: 94, EOPNOTSUPP: 95, EAFNOSUPPORT: 97, EISCONN: 106, ENOTCONN: 107, ETIMEDOUT: 110, ECONNREFUSED: 111,
} as const; // prettier-ignore
export type Errno = keyof typeof ERRNO;
