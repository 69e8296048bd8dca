/* SPDX-License-Identifier: MIT */
/*
 * Counting instructions; see count.h.
 */
#include "bench/count.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef BENCH_SANITIZED
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define ARGS_MAX 16

int count_open(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_HW_INSTRUCTIONS,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int count_close(int fd, uint64_t *instructions)
{
    int err = 0;

    if (ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) != 0 ||
        read(fd, instructions, sizeof(*instructions)) != sizeof(*instructions))
        err = -EIO;
    close(fd);
    return err;
}

/* valgrind, its options, this program, its arguments. */
static int make_args(char **argv, char *const *args, char *toggle, char *self)
{
    static char valgrind[] = "valgrind", tool[] = "--tool=callgrind",
                file[] = "--callgrind-out-file=/dev/null", none[] = "--collect-atstart=no";
    unsigned n = 0;

    argv[n++] = valgrind;
    argv[n++] = tool;
    argv[n++] = file;
    if (toggle) {
        argv[n++] = none;
        argv[n++] = toggle;
    }
    for (argv[n++] = self; *args; args++) {
        if (n + 1 >= ARGS_MAX)
            return -E2BIG;
        argv[n++] = *args;
    }
    argv[n] = NULL;
    return 0;
}

/*
 * The environment, and in it what keeps the C library from copying and clearing pages by
 * one instruction that repeats itself: valgrind counts each turn of that.
 */
static char **make_environ(void)
{
    static char tunables[] = "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=0x40000000:"
                             "glibc.cpu.x86_rep_stosb_threshold=0x40000000";
    size_t n = 0;
    char **copy;

    while (environ[n])
        n++;
    copy = calloc(n + 2, sizeof(*copy));
    if (!copy)
        return NULL;
    copy[0] = tunables; /* the first of a name counts */
    for (size_t i = 0; i < n; i++)
        copy[i + 1] = environ[i];
    return copy;
}

/* stdout and stderr into the pipe, where "Collected" is told. */
static int start(char **argv, char **env, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int err = posix_spawn_file_actions_init(&actions);

    if (err)
        return -err;
    err = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    if (!err)
        err = posix_spawnp(pid, argv[0], &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    return -err;
}

/* To the end of the stream, or its writer would have nobody to write to. */
static int find_collected(FILE *stream, uint64_t *instructions)
{
    char line[512];
    int err = -EPROTO;

    while (fgets(line, sizeof(line), stream)) {
        const char *told = strstr(line, "Collected :");

        if (told && sscanf(told, "Collected : %" SCNu64, instructions) == 1)
            err = 0;
    }
    return err;
}

static int read_and_wait(FILE *stream, pid_t pid, uint64_t *instructions)
{
    int err = find_collected(stream, instructions), status;

    return waitpid(pid, &status, 0) == pid && status == 0 ? err : -EPROTO;
}

static int run_and_read(char **argv, uint64_t *instructions)
{
    char **env = make_environ();
    int ends[2] = {-1, -1}, err;
    FILE *stream;
    pid_t pid = 0;

    if (!env || pipe2(ends, O_CLOEXEC) != 0) {
        free(env);
        return -ENOMEM;
    }
    stream = fdopen(ends[0], "r");
    err = stream ? start(argv, env, ends[1], &pid) : -ENOMEM;
    close(ends[1]);
    if (!err)
        err = read_and_wait(stream, pid, instructions);
    if (stream)
        fclose(stream);
    else
        close(ends[0]);
    free(env);
    return err;
}

int count_by_callgrind(char *const *args, const char *toggle, uint64_t *instructions)
{
    char *argv[ARGS_MAX];
    char option[64] = "", self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int err;

    if (SANITIZED)
        return -ENOEXEC; /* other instructions, and hours of them */
    if (len < 0)
        return -errno;
    self[len] = '\0';
    if (toggle)
        snprintf(option, sizeof(option), "--toggle-collect=%s", toggle);
    err = make_args(argv, args, toggle ? option : NULL, self);
    return err ? err : run_and_read(argv, instructions);
}
