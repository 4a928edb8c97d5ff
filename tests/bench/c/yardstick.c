// The least that supervises: posix_spawn, a pidfd each, epoll. It starts programs, restarts those that
// end, lists them, and ends them all on SIGTERM. It has no names, no configuration, no record and no
// backoff, and does nothing about their output.
//
//	yardstick run SOCKET N COMMAND...
//	yardstick status SOCKET
//	yardstick time COMMAND...         how long the command takes, in nanoseconds
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct program {
	pid_t pid;
	int pidfd;
};

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void watch(int epoll, int fd, unsigned tag) {
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = tag};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
		fail("epoll_ctl");
}

static void spawn(struct program *p, char **command, posix_spawnattr_t *attr) {
	errno = posix_spawn(&p->pid, command[0], NULL, attr, command, environ);
	if (errno)
		fail(command[0]);
	if ((p->pidfd = syscall(SYS_pidfd_open, p->pid, 0)) < 0)
		fail("pidfd_open");
}

// answer tells a client who runs, and ends the connection.
static void answer(int listener, struct program *programs, unsigned count) {
	int c = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (c < 0)
		fail("accept");
	FILE *out = fdopen(c, "w");
	for (unsigned i = 0; i < count; i++)
		fprintf(out, "p%04u running %d\n", i, programs[i].pid);
	fclose(out);
}

static struct sockaddr_un address(const char *path) {
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strncpy(a.sun_path, path, sizeof a.sun_path - 1);
	return a;
}

static int run(const char *path, unsigned count, char **command) {
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);

	struct sockaddr_un a = address(path);
	int epoll = epoll_create1(EPOLL_CLOEXEC), listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (epoll < 0 || listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 100))
		fail(path);
	sigset_t term, none;
	sigemptyset(&none);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	int signals = signalfd(-1, &term, SFD_CLOEXEC);
	watch(epoll, listener, count);
	watch(epoll, signals, count + 1);

	posix_spawnattr_t attr;
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	struct program *programs = calloc(count, sizeof *programs);
	for (unsigned i = 0; i < count; i++) {
		spawn(&programs[i], command, &attr);
		watch(epoll, programs[i].pidfd, i);
	}
	for (unsigned left = count, ending = 0; left > 0;) {
		struct epoll_event events[64];
		int n = epoll_wait(epoll, events, 64, -1);
		for (int e = 0; e < n; e++) {
			unsigned tag = events[e].data.u32;
			if (tag == count) {
				answer(listener, programs, count);
			} else if (tag > count) {
				ending = 1;
				epoll_ctl(epoll, EPOLL_CTL_DEL, signals, NULL);
				for (unsigned i = 0; i < count; i++)
					syscall(SYS_pidfd_send_signal, programs[i].pidfd, SIGTERM, NULL, 0);
			} else {
				struct program *p = &programs[tag];
				siginfo_t info;
				waitid(P_PIDFD, p->pidfd, &info, WEXITED);
				epoll_ctl(epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
				close(p->pidfd);
				if (ending) {
					left--;
					continue;
				}
				spawn(p, command, &attr);
				watch(epoll, p->pidfd, tag);
			}
		}
	}
	return 0;
}

static int status(const char *path) {
	static char buffer[64 << 10];
	struct sockaddr_un a = address(path);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a))
		fail(path);
	for (ssize_t n; (n = read(s, buffer, sizeof buffer)) > 0;)
		if (write(1, buffer, n) != n)
			fail("write");
	return 0;
}

static int measure(char **command) {
	struct timespec from, to;
	int state;
	pid_t pid;
	clock_gettime(CLOCK_MONOTONIC, &from);
	errno = posix_spawnp(&pid, command[0], NULL, NULL, command, environ);
	if (errno)
		fail(command[0]);
	waitpid(pid, &state, 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	fprintf(stderr, "%lld\n", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec);
	return WIFEXITED(state) ? WEXITSTATUS(state) : 1;
}

int main(int argc, char **argv) {
	if (argc > 4 && !strcmp(argv[1], "run"))
		return run(argv[2], atoi(argv[3]), argv + 4);
	if (argc == 3 && !strcmp(argv[1], "status"))
		return status(argv[2]);
	if (argc > 2 && !strcmp(argv[1], "time"))
		return measure(argv + 2);
	return 2;
}
