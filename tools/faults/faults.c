/*
 * Makes file operations of a process fail and moves its clock. Loaded with LD_PRELOAD; controlled by a file that
 * FAULTS_CONTROL names and every process maps, see `struct control`. Without FAULTS_CONTROL all calls go straight to libc.
 *
 * An operation matches when its file lies under the folder. The kernel is asked every time (/proc/self/fd), so there
 * is no table to keep: duplicated, inherited, renamed and deleted files are recognised, also through symbolic links.
 * Nothing here allocates.
 *
 * Not seen: calls inside libc (fopen, opendir), raw system calls in assembly, stores into mapped memory, io_uring.
 */

#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* "DESSFLT1" */
#define MAGIC UINT64_C(0x31544c4653534544)

/* The same order as CLASSES in faults.mjs. */
enum class { OPEN, CREATE, WRITE, SYNC, TRUNCATE, RENAME, UNLINK, MKDIR, BIND, READ, MMAP };

/* Little-endian, the same offsets as in faults.mjs. */
struct control {
  uint64_t magic;
  /* Absolute, without symbolic links; empty: nothing matches. */
  char folder[512];
  _Atomic uint32_t armed;
  _Atomic uint32_t classes;
  /* Among the operations of these classes since arming, from 1: the first that fails; -1: none. */
  _Atomic int64_t fail_at;
  /* How many fail from there on; -1: all. */
  _Atomic int64_t fail_count;
  _Atomic int32_t error;
  /* The first to fail, if it is a write, writes half instead, and those after it fail. */
  _Atomic uint32_t short_write;
  /* What can still be written; -1: no limit. */
  _Atomic int64_t free_bytes;
  _Atomic int64_t clock_offset_milliseconds;
  /* How many have loaded this library. */
  _Atomic uint64_t processes;
  /* Operations of these classes since arming. */
  _Atomic uint64_t operations;
  _Atomic uint64_t failed;
  _Atomic uint64_t matched_by_class[16];
  _Atomic uint64_t failed_by_class[16];
  /* While not 0 nothing fails, whatever is armed or full. */
  _Atomic uint32_t calm;
};
_Static_assert(offsetof(struct control, armed) == 520, "armed");
_Static_assert(offsetof(struct control, fail_at) == 528, "fail_at");
_Static_assert(offsetof(struct control, error) == 544, "error");
_Static_assert(offsetof(struct control, free_bytes) == 552, "free_bytes");
_Static_assert(offsetof(struct control, matched_by_class) == 592, "matched_by_class");
_Static_assert(offsetof(struct control, calm) == 848, "calm");
_Static_assert(sizeof(struct control) == 856, "size");

static struct control *control;

/* libc's own function of this name. Found when first needed: calls come before constructors have run. */
static void *resolve(_Atomic(void *) *slot, const char *name) {
  void *function = atomic_load_explicit(slot, memory_order_relaxed);
  if (!function) {
    function = dlsym(RTLD_NEXT, name);
    atomic_store_explicit(slot, function, memory_order_relaxed);
  }
  return function;
}
#define REAL(name)                                                                                                     \
  ({                                                                                                                   \
    static _Atomic(void *) slot;                                                                                       \
    (__typeof__(&name)) resolve(&slot, #name);                                                                         \
  })

__attribute__((constructor)) static void attach(void) {
  const char *path = getenv("FAULTS_CONTROL");
  if (!path || !*path) return;
  int fd = REAL(open)(path, O_RDWR | O_CLOEXEC);
  struct control *mapped =
      fd < 0 ? MAP_FAILED : REAL(mmap)(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  if (mapped == MAP_FAILED || mapped->magic != MAGIC) {
    /* A test that believes in faults that never come would prove nothing. */
    fprintf(stderr, "faults: expected a control file at FAULTS_CONTROL, got %s\n", path);
    abort();
  }
  atomic_fetch_add(&mapped->processes, 1);
  control = mapped;
}

static int active(void) { return control && control->folder[0]; }

/* Whether an absolute path is the folder or lies in it. */
static int under(const char *path) {
  size_t length = strnlen(control->folder, sizeof control->folder);
  return strncmp(path, control->folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Where an open file is; 0 when it cannot be told. `place` has PATH_MAX bytes. */
static size_t locate(int fd, char *place) {
  char link[32] = "/proc/self/fd/", digits[12];
  size_t at = strlen(link), count = 0;
  if (fd < 0) return 0;
  do digits[count++] = '0' + fd % 10;
  while (fd /= 10);
  while (count) link[at++] = digits[--count];
  link[at] = 0;
  ssize_t length = readlink(link, place, PATH_MAX - 1);
  if (length <= 0) return 0;
  place[length] = 0;
  return (size_t)length;
}

static int file_matches(int fd) {
  if (!active()) return 0;
  int before = errno;
  char place[PATH_MAX];
  int matches = locate(fd, place) && under(place);
  errno = before;
  return matches;
}

/* `follow`: of a symbolic link its target counts, as in open. */
static int path_matches(int directory, const char *path, int follow) {
  if (!active() || !path || !*path) return 0;
  int before = errno, matches = 0;
  char place[PATH_MAX];
  size_t end = strnlen(path, PATH_MAX);
  if (end < PATH_MAX) {
    int fd = follow ? REAL(openat)(directory, path, O_PATH | O_CLOEXEC) : -1;
    if (fd >= 0) {
      matches = locate(fd, place) && under(place);
      close(fd);
    } else {
      /* The folder it is in, and its name. */
      while (end > 1 && path[end - 1] == '/') end--;
      size_t name = end;
      while (name > 0 && path[name - 1] != '/') name--;
      memcpy(place, path, name);
      place[name] = 0;
      fd = REAL(openat)(directory, name ? place : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
      if (fd >= 0) {
        size_t length = locate(fd, place);
        if (length && length + 1 + (end - name) < sizeof place) {
          if (length > 1) place[length++] = '/';
          memcpy(place + length, path + name, end - name);
          place[length + end - name] = 0;
          matches = under(place);
        }
        close(fd);
      } else if (errno == EMFILE || errno == ENFILE)
        matches = under(path);
    }
  }
  errno = before;
  return matches;
}

/* The file that is mapped at an address. */
static int mapping_matches(const void *address) {
  if (!active()) return 0;
  int before = errno, matches = 0;
  char buffer[8192];
  size_t held = 0;
  int fd = REAL(open)("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (ssize_t got; fd >= 0 && (got = REAL(read)(fd, buffer + held, sizeof buffer - 1 - held)) > 0;) {
    held += (size_t)got;
    buffer[held] = 0;
    char *line = buffer;
    for (char *newline; (newline = strchr(line, '\n')); line = newline + 1) {
      *newline = 0;
      char *after;
      uintptr_t first = strtoul(line, &after, 16);
      uintptr_t last = *after == '-' ? strtoul(after + 1, NULL, 16) : 0;
      if ((uintptr_t)address < first || (uintptr_t)address >= last) continue;
      char *path = strchr(line, '/');
      matches = path && under(path);
    }
    held = strlen(line);
    memmove(buffer, line, held);
    if (held == sizeof buffer - 1) held = 0;
  }
  if (fd >= 0) close(fd);
  errno = before;
  return matches;
}

enum verdict { PASS, FAIL, HALF };

/* Counts a failure and sets errno. */
static enum verdict fail(enum class class, int error) {
  atomic_fetch_add(&control->failed, 1);
  atomic_fetch_add(&control->failed_by_class[class], 1);
  errno = error;
  return FAIL;
}

/* Counts an operation that matches and says what becomes of it. */
static enum verdict judge(enum class class, int can_halve) {
  atomic_fetch_add(&control->matched_by_class[class], 1);
  if (control->calm || !control->armed || !(control->classes & (1u << class))) return PASS;
  int64_t number = (int64_t)atomic_fetch_add(&control->operations, 1) + 1;
  int64_t first = control->fail_at, count = control->fail_count;
  if (first < 1 || number < first) return PASS;
  if (control->short_write && number == first && can_halve) return HALF;
  if (count >= 0 && number >= first + count + (control->short_write ? 1 : 0)) return PASS;
  return fail(class, control->error);
}

static int fails(enum class class) { return judge(class, 0) == FAIL; }

#define FILE_FAILS(class, fd) (file_matches(fd) && fails(class))
#define PATH_FAILS(class, directory, path) (path_matches(directory, path, 0) && fails(class))

/* Takes bytes from what is free; fewer where there are fewer. */
static int64_t reserve(size_t bytes) {
  int64_t free = control->free_bytes, taken;
  do {
    if (free < 0 || control->calm) return (int64_t)bytes;
    taken = (int64_t)bytes < free ? (int64_t)bytes : free;
  } while (taken > 0 && !atomic_compare_exchange_weak(&control->free_bytes, &free, free - taken));
  return taken;
}

static void give_back(int64_t bytes) {
  if (bytes > 0 && control->free_bytes >= 0) atomic_fetch_add(&control->free_bytes, bytes);
}

/* How many of these bytes may be written; -1: none, errno says why. Past the page cache only whole blocks are. */
static ssize_t admit(int fd, size_t bytes) {
  enum verdict verdict = judge(WRITE, bytes > 1);
  if (verdict == FAIL) return -1;
  int64_t reserved = reserve(verdict == HALF ? bytes / 2 : bytes);
  if (reserved < (int64_t)bytes && (fcntl(fd, F_GETFL) & O_DIRECT)) {
    give_back(reserved % 4096);
    reserved -= reserved % 4096;
  }
  if (reserved > 0 || bytes == 0) return reserved;
  fail(WRITE, ENOSPC);
  return -1;
}

/* Performs `call` with `length` bytes at most. */
#define WRITE_TO(fd, length, call)                                                                                     \
  do {                                                                                                                 \
    if (!file_matches(fd)) return call;                                                                                \
    ssize_t admitted = admit(fd, length);                                                                                  \
    if (admitted < 0) return -1;                                                                                       \
    length = (size_t)admitted;                                                                                         \
    ssize_t written = call;                                                                                            \
    give_back(admitted - (written < 0 ? 0 : written));                                                                 \
    return written;                                                                                                    \
  } while (0)

/* The same for several pieces, of which `cut` holds the first `length` bytes. */
#define WRITE_PIECES_TO(fd, pieces, count, call)                                                                       \
  do {                                                                                                                 \
    struct iovec cut[IOV_MAX];                                                                                         \
    if (count < 0 || count > IOV_MAX || !file_matches(fd)) return call;                                                \
    size_t length = 0;                                                                                                 \
    for (int i = 0; i < count; i++) length += pieces[i].iov_len;                                                       \
    ssize_t admitted = admit(fd, length);                                                                                  \
    if (admitted < 0) return -1;                                                                                       \
    size_t left = (size_t)admitted;                                                                                    \
    if (left < length) {                                                                                               \
      int used = 0;                                                                                                    \
      for (; used < count && left > 0; used++) {                                                                       \
        cut[used] = pieces[used];                                                                                      \
        if (cut[used].iov_len > left) cut[used].iov_len = left;                                                        \
        left -= cut[used].iov_len;                                                                                     \
      }                                                                                                                \
      pieces = cut;                                                                                                    \
      count = used;                                                                                                    \
    }                                                                                                                  \
    ssize_t written = call;                                                                                            \
    give_back(admitted - (written < 0 ? 0 : written));                                                                 \
    return written;                                                                                                    \
  } while (0)

/* Opening */

static int open_fails(int directory, const char *path, int flags) {
  int changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
  return !(flags & O_PATH) && path_matches(directory, path, !(flags & O_NOFOLLOW)) && fails(changes ? CREATE : OPEN);
}

#define READ_MODE(flags)                                                                                               \
  mode_t mode = 0;                                                                                                     \
  if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                                         \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode = va_arg(rest, mode_t);                                                                                       \
    va_end(rest);                                                                                                      \
  }

#define DEFINE_OPEN(name)                                                                                              \
  int name(const char *path, int flags, ...) {                                                                         \
    READ_MODE(flags)                                                                                                   \
    return open_fails(AT_FDCWD, path, flags) ? -1 : REAL(name)(path, flags, mode);                                     \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                                                                            \
  int name(int directory, const char *path, int flags, ...) {                                                          \
    READ_MODE(flags)                                                                                                   \
    return open_fails(directory, path, flags) ? -1 : REAL(name)(directory, path, flags, mode);                         \
  }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* What programs compiled with _FORTIFY_SOURCE call instead. */
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int directory, const char *path, int flags) { return openat(directory, path, flags); }
int __openat64_2(int directory, const char *path, int flags) { return openat64(directory, path, flags); }

int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int mkstemp(char *path) { return PATH_FAILS(CREATE, AT_FDCWD, path) ? -1 : REAL(mkstemp)(path); }
int mkstemp64(char *path) { return PATH_FAILS(CREATE, AT_FDCWD, path) ? -1 : REAL(mkstemp64)(path); }

/* Writing */

ssize_t write(int fd, const void *bytes, size_t length) { WRITE_TO(fd, length, REAL(write)(fd, bytes, length)); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  WRITE_TO(fd, length, REAL(pwrite)(fd, bytes, length, at));
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
  WRITE_TO(fd, length, REAL(pwrite64)(fd, bytes, length, at));
}
ssize_t writev(int fd, const struct iovec *pieces, int count) {
  WRITE_PIECES_TO(fd, pieces, count, REAL(writev)(fd, pieces, count));
}
ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at) {
  WRITE_PIECES_TO(fd, pieces, count, REAL(pwritev)(fd, pieces, count, at));
}
ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t at) {
  WRITE_PIECES_TO(fd, pieces, count, REAL(pwritev64)(fd, pieces, count, at));
}
ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
  WRITE_PIECES_TO(fd, pieces, count, REAL(pwritev2)(fd, pieces, count, at, flags));
}
ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off64_t at, int flags) {
  WRITE_PIECES_TO(fd, pieces, count, REAL(pwritev64v2)(fd, pieces, count, at, flags));
}

/* Copies count as writes to where they go, or else as reads of where they come from. */
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t length, unsigned int flags) {
  if (!file_matches(out) && FILE_FAILS(READ, in)) return -1;
  WRITE_TO(out, length, REAL(copy_file_range)(in, in_at, out, out_at, length, flags));
}
ssize_t sendfile(int out, int in, off_t *at, size_t length) {
  if (!file_matches(out) && FILE_FAILS(READ, in)) return -1;
  WRITE_TO(out, length, REAL(sendfile)(out, in, at, length));
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t length) {
  if (!file_matches(out) && FILE_FAILS(READ, in)) return -1;
  WRITE_TO(out, length, REAL(sendfile64)(out, in, at, length));
}

/* libuv calls some of them by number. */
long syscall(long number, ...) {
  long a[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
  va_end(rest);
  if (active()) {
    if (number == SYS_copy_file_range)
      return copy_file_range((int)a[0], (off64_t *)a[1], (int)a[2], (off64_t *)a[3], (size_t)a[4], (unsigned)a[5]);
    if (number == SYS_renameat2)
      return renameat2((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3], (unsigned)a[4]);
  }
  return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Syncing */

int fsync(int fd) { return FILE_FAILS(SYNC, fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return FILE_FAILS(SYNC, fd) ? -1 : REAL(fdatasync)(fd); }
int syncfs(int fd) { return FILE_FAILS(SYNC, fd) ? -1 : REAL(syncfs)(fd); }
int sync_file_range(int fd, off64_t at, off64_t length, unsigned int flags) {
  return FILE_FAILS(SYNC, fd) ? -1 : REAL(sync_file_range)(fd, at, length, flags);
}
int msync(void *address, size_t length, int flags) {
  return mapping_matches(address) && fails(SYNC) ? -1 : REAL(msync)(address, length, flags);
}

/* Changing lengths. What fallocate asks for is taken from what is free; it gets all of it or none. */

static int allocation_fails(int fd, int mode, int64_t length) {
  if (!file_matches(fd)) return 0;
  if (fails(TRUNCATE)) return 1;
  if (length <= 0 || (mode & FALLOC_FL_PUNCH_HOLE)) return 0;
  int64_t reserved = reserve((size_t)length);
  if (reserved == length) return 0;
  give_back(reserved);
  return fail(TRUNCATE, ENOSPC) == FAIL;
}

int ftruncate(int fd, off_t length) { return FILE_FAILS(TRUNCATE, fd) ? -1 : REAL(ftruncate)(fd, length); }
int ftruncate64(int fd, off64_t length) { return FILE_FAILS(TRUNCATE, fd) ? -1 : REAL(ftruncate64)(fd, length); }
int truncate(const char *path, off_t length) {
  return path_matches(AT_FDCWD, path, 1) && fails(TRUNCATE) ? -1 : REAL(truncate)(path, length);
}
int truncate64(const char *path, off64_t length) {
  return path_matches(AT_FDCWD, path, 1) && fails(TRUNCATE) ? -1 : REAL(truncate64)(path, length);
}
int fallocate(int fd, int mode, off_t at, off_t length) {
  return allocation_fails(fd, mode, length) ? -1 : REAL(fallocate)(fd, mode, at, length);
}
int fallocate64(int fd, int mode, off64_t at, off64_t length) {
  return allocation_fails(fd, mode, length) ? -1 : REAL(fallocate64)(fd, mode, at, length);
}
int posix_fallocate(int fd, off_t at, off_t length) {
  int before = errno;
  int error = allocation_fails(fd, 0, length) ? errno : REAL(posix_fallocate)(fd, at, length);
  errno = before;
  return error;
}
int posix_fallocate64(int fd, off64_t at, off64_t length) {
  int before = errno;
  int error = allocation_fails(fd, 0, length) ? errno : REAL(posix_fallocate64)(fd, at, length);
  errno = before;
  return error;
}

/* Names. One operation, also when both names match. */

static int names_fail(int from_directory, const char *from, int to_directory, const char *to) {
  return (path_matches(from_directory, from, 0) || path_matches(to_directory, to, 0)) && fails(RENAME);
}

int rename(const char *from, const char *to) {
  return names_fail(AT_FDCWD, from, AT_FDCWD, to) ? -1 : REAL(rename)(from, to);
}
int renameat(int from_directory, const char *from, int to_directory, const char *to) {
  return names_fail(from_directory, from, to_directory, to) ? -1
                                                            : REAL(renameat)(from_directory, from, to_directory, to);
}
int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned int flags) {
  if (names_fail(from_directory, from, to_directory, to)) return -1;
  return REAL(renameat2)(from_directory, from, to_directory, to, flags);
}
int link(const char *from, const char *to) {
  return names_fail(AT_FDCWD, from, AT_FDCWD, to) ? -1 : REAL(link)(from, to);
}
int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
  if (names_fail(from_directory, from, to_directory, to)) return -1;
  return REAL(linkat)(from_directory, from, to_directory, to, flags);
}
int symlink(const char *target, const char *path) {
  return PATH_FAILS(RENAME, AT_FDCWD, path) ? -1 : REAL(symlink)(target, path);
}
int symlinkat(const char *target, int directory, const char *path) {
  return PATH_FAILS(RENAME, directory, path) ? -1 : REAL(symlinkat)(target, directory, path);
}
int unlink(const char *path) { return PATH_FAILS(UNLINK, AT_FDCWD, path) ? -1 : REAL(unlink)(path); }
int unlinkat(int directory, const char *path, int flags) {
  return PATH_FAILS(UNLINK, directory, path) ? -1 : REAL(unlinkat)(directory, path, flags);
}
int rmdir(const char *path) { return PATH_FAILS(UNLINK, AT_FDCWD, path) ? -1 : REAL(rmdir)(path); }
int mkdir(const char *path, mode_t mode) { return PATH_FAILS(MKDIR, AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int directory, const char *path, mode_t mode) {
  return PATH_FAILS(MKDIR, directory, path) ? -1 : REAL(mkdirat)(directory, path, mode);
}
char *mkdtemp(char *path) { return PATH_FAILS(MKDIR, AT_FDCWD, path) ? NULL : REAL(mkdtemp)(path); }

int bind(int fd, const struct sockaddr *address, socklen_t length) {
  if (active() && address && length > offsetof(struct sockaddr_un, sun_path) && address->sa_family == AF_UNIX) {
    char path[sizeof(struct sockaddr_un) + 1] = {0};
    size_t bytes = length - offsetof(struct sockaddr_un, sun_path);
    memcpy(path, ((const struct sockaddr_un *)address)->sun_path, bytes < sizeof path ? bytes : sizeof path - 1);
    if (PATH_FAILS(BIND, AT_FDCWD, path)) return -1;
  }
  return REAL(bind)(fd, address, length);
}

/* Reading */

ssize_t read(int fd, void *bytes, size_t length) { return FILE_FAILS(READ, fd) ? -1 : REAL(read)(fd, bytes, length); }
ssize_t pread(int fd, void *bytes, size_t length, off_t at) {
  return FILE_FAILS(READ, fd) ? -1 : REAL(pread)(fd, bytes, length, at);
}
ssize_t pread64(int fd, void *bytes, size_t length, off64_t at) {
  return FILE_FAILS(READ, fd) ? -1 : REAL(pread64)(fd, bytes, length, at);
}
ssize_t readv(int fd, const struct iovec *pieces, int count) {
  return FILE_FAILS(READ, fd) ? -1 : REAL(readv)(fd, pieces, count);
}
ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t at) {
  return FILE_FAILS(READ, fd) ? -1 : REAL(preadv)(fd, pieces, count, at);
}
ssize_t preadv64(int fd, const struct iovec *pieces, int count, off64_t at) {
  return FILE_FAILS(READ, fd) ? -1 : REAL(preadv64)(fd, pieces, count, at);
}

/* Mapping: shared ones, also those that only read. */

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t at) {
  if ((flags & MAP_SHARED) && !(flags & MAP_ANONYMOUS) && FILE_FAILS(MMAP, fd)) return MAP_FAILED;
  return REAL(mmap)(address, length, protection, flags, fd, at);
}
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t at) {
  if ((flags & MAP_SHARED) && !(flags & MAP_ANONYMOUS) && FILE_FAILS(MMAP, fd)) return MAP_FAILED;
  return REAL(mmap64)(address, length, protection, flags, fd, at);
}

/* The clock: the wall's, never the monotonic one. Times of files stay the kernel's. */

static int64_t clock_offset(void) { return control ? control->clock_offset_milliseconds : 0; }

static void move(struct timespec *time, int64_t milliseconds) {
  int64_t nanoseconds = time->tv_nsec + milliseconds % 1000 * 1000000;
  int64_t carry = nanoseconds < 0 ? -1 : nanoseconds / 1000000000;
  time->tv_sec += milliseconds / 1000 + carry;
  time->tv_nsec = nanoseconds - carry * 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = REAL(clock_gettime)(clock, time);
  int64_t offset = clock_offset();
  if (offset && result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
    move(time, offset);
  return result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  int result = REAL(gettimeofday)(time, zone);
  int64_t offset = clock_offset();
  if (offset && result == 0) {
    struct timespec moved = {.tv_sec = time->tv_sec, .tv_nsec = time->tv_usec * 1000};
    move(&moved, offset);
    time->tv_sec = moved.tv_sec;
    time->tv_usec = moved.tv_nsec / 1000;
  }
  return result;
}
time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

/*
 * A deadline on the moved clock is brought back to the kernel's. Which clock a condition uses is not to be seen from
 * outside; a monotonic one is nowhere near a billion seconds.
 */
static const struct timespec *to_kernel(const struct timespec *deadline, struct timespec *copy) {
  int64_t offset = clock_offset();
  if (!offset || !deadline || deadline->tv_sec < 1000000000 || deadline->tv_nsec < 0 || deadline->tv_nsec >= 1000000000)
    return deadline;
  *copy = *deadline;
  move(copy, -offset);
  return copy;
}
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
  struct timespec copy;
  return REAL(sem_timedwait)(semaphore, to_kernel(deadline, &copy));
}
int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
  struct timespec copy;
  return REAL(pthread_cond_timedwait)(condition, mutex, to_kernel(deadline, &copy));
}
