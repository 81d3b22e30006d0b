/* Makes the locks of the bundled SQLite belong to its open files instead of the process. SQLite includes this file by its
** option SQLITE_CUSTOM_INCLUDE, which `.cargo/config.toml` sets. docs/decisions/sqlite-locks.md has the reasons.
**
** A Python or Node.js program may have a second SQLite library, which opens the same database. POSIX locks belong to the
** process: the libraries would not see the locks of each other, and each would drop those of the other by closing a
** file. Here,
**
** 1. fcntl() takes open file description locks. They conflict with the POSIX locks of the other library. SQLite expects
**    that all its open files of one inode share their locks, so one of them has the locks of all.
** 2. close() keeps a file open while another library or process may hold locks on it, because closing would drop the
**    POSIX locks of this process. open() uses such a file again.
** 3. A child of fork() opens the files again, as it inherits no POSIX locks either.
**
** Only on Linux. Where the kernel has no such locks, as in gVisor, fcntl() takes POSIX locks. */
#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that SQLite has opened. */
struct own_file {
  int fd;
  int flags; /* of open() */
  int is_kept; /* SQLite has closed it */
  dev_t device;
  ino_t inode;
  struct own_file *next;
};

static struct own_file *own_files; /* the newest first */
static pthread_mutex_t own_mutex = PTHREAD_MUTEX_INITIALIZER;

static int own_is_writable(const struct own_file *file) { return (file->flags & O_ACCMODE) != O_RDONLY; }

static struct own_file *own_find(int fd) {
  struct own_file *file = own_files;
  while (file && (file->is_kept || file->fd != fd)) file = file->next;
  return file;
}

/* Sets or tests a lock of the open file. */
static int own_lock(int fd, int command, struct flock *lock) {
  int result;
  lock->l_pid = 0; /* the kernel refuses other values */
  result = fcntl(fd, command == F_GETLK ? F_OFD_GETLK : command == F_SETLK ? F_OFD_SETLK : F_OFD_SETLKW, lock);
  return result == -1 && errno == EINVAL ? fcntl(fd, command, lock) : result;
}

/* Sets or tests a lock of all open files of the inode: the oldest writable one has it. Releases it on each of them, because
** one that was opened for reading can have it too. */
static int own_lock_inode(int fd, int command, struct flock *lock) {
  struct own_file *file, *of_fd;
  int result = 0;
  pthread_mutex_lock(&own_mutex);
  of_fd = own_find(fd);
  for (file = of_fd ? own_files : NULL; file; file = file->next) {
    if (file->is_kept || file->inode != of_fd->inode || file->device != of_fd->device) continue;
    if (lock->l_type == F_UNLCK) {
      struct flock released = *lock;
      result |= own_lock(file->fd, command, &released);
    } else if (own_is_writable(file) || !own_is_writable(of_fd)) {
      fd = file->fd;
    }
  }
  if (lock->l_type != F_UNLCK) result = own_lock(fd, command, lock);
  pthread_mutex_unlock(&own_mutex);
  return result;
}

static int own_fcntl(int fd, int command, ...) {
  va_list rest;
  int result;
  va_start(rest, command);
  if (command == F_GETLK || command == F_SETLK || command == F_SETLKW) {
    result = own_lock_inode(fd, command, va_arg(rest, struct flock *));
  } else {
    result = fcntl(fd, command, va_arg(rest, int));
  }
  va_end(rest);
  return result;
}

/* Whether no library or process has a lock on the file. Then it also gets none until the file is closed, except if the
** file was opened for reading and cannot be locked for writing. */
static int own_may_close(const struct own_file *file) {
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct stat found;
  if (fstat(file->fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_nlink == 0) return 1;
  if (own_is_writable(file)) return own_lock(file->fd, F_SETLK, &all) == 0;
  return own_lock(file->fd, F_GETLK, &all) == 0 && all.l_type == F_UNLCK;
}

static void own_close_kept(void) {
  struct own_file **link = &own_files, *file;
  while ((file = *link)) {
    if (file->is_kept && own_may_close(file)) {
      close(file->fd);
      *link = file->next;
      free(file);
    } else {
      link = &file->next;
    }
  }
}

static int own_close(int fd) {
  struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  struct own_file *file;
  pthread_mutex_lock(&own_mutex);
  file = own_find(fd);
  if (file) {
    own_lock(fd, F_SETLK, &all);
    file->is_kept = 1;
    own_close_kept();
  }
  pthread_mutex_unlock(&own_mutex);
  return file ? 0 : close(fd);
}

/* Uses a kept file, if there is one that open() would open. */
static int own_reopen(const char *path, int flags) {
  const int compared = O_ACCMODE | O_NOFOLLOW;
  struct stat found;
  struct own_file *file;
  int fd = -1;
  if (flags & (O_EXCL | O_TRUNC)) return -1;
  if (fstatat(AT_FDCWD, path, &found, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) != 0) return -1;
  pthread_mutex_lock(&own_mutex);
  for (file = own_files; file && fd < 0; file = file->next) {
    if (file->is_kept && file->device == found.st_dev && file->inode == found.st_ino
        && (file->flags & compared) == (flags & compared)) {
      file->is_kept = 0;
      fd = file->fd;
    }
  }
  pthread_mutex_unlock(&own_mutex);
  return fd;
}

static void own_remember(int fd, int flags) {
  struct own_file *file = malloc(sizeof *file);
  struct stat found;
  if (!file || fstat(fd, &found) != 0) {
    free(file);
    return;
  }
  *file = (struct own_file){.fd = fd, .flags = flags, .device = found.st_dev, .inode = found.st_ino};
  pthread_mutex_lock(&own_mutex);
  file->next = own_files;
  own_files = file;
  pthread_mutex_unlock(&own_mutex);
}

static void own_before_fork(void) { pthread_mutex_lock(&own_mutex); }

static void own_in_parent(void) { pthread_mutex_unlock(&own_mutex); }

/* The child shares the locks of the files. It would keep them after the death of its parent, or release them. */
static void own_in_child(void) {
  char path[32];
  struct own_file *file;
  for (file = own_files; file; file = file->next) {
    int fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    fd = open(path, (file->flags & (O_ACCMODE | O_LARGEFILE)) | O_CLOEXEC);
    if (fd < 0) fd = open("/", O_PATH | O_CLOEXEC); /* every use fails */
    dup3(fd, file->fd, O_CLOEXEC);
    close(fd);
  }
  pthread_mutex_unlock(&own_mutex);
}

static void own_register(void) { pthread_atfork(own_before_fork, own_in_parent, own_in_child); }

static int own_open(const char *path, int flags, int mode) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  int fd;
  pthread_once(&once, own_register);
  fd = own_reopen(path, flags);
  if (fd < 0) {
    fd = open(path, flags, mode);
    if (fd >= 0) own_remember(fd, flags);
  }
  return fd;
}

#define open own_open
#define close own_close
#define fcntl own_fcntl
#endif
