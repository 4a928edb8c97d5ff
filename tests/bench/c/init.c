// The first process of a PID namespace in which one contestant runs. It starts what it is told to on descriptor 3, reaps who has no parent
// any more, and ends with the benchmark, however that ends: then the kernel kills all that is left in the namespace.
//
//	init [DIRECTORY PLACE]            DIRECTORY is seen at PLACE in the namespace
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

enum { SOCK = 3, ARGS = 4000 };

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void tell(const char *what, int pid, int status, long long at) {
	char text[100];
	int n = snprintf(text, sizeof text, "%s %d %d %lld", what, pid, status, at);
	if (send(SOCK, text, n, MSG_NOSIGNAL) != n)
		exit(1); // the benchmark is gone
}

// start executes a message: arguments, each with its NUL.
static void start(char *message, ssize_t size) {
	static char *args[ARGS + 1];
	int count = 0;
	for (char *at = message; at < message + size && count < ARGS; at += strlen(at) + 1)
		args[count++] = at;
	args[count] = NULL;
	long long at = now();
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		execvp(args[0], args);
		fail(args[0]);
	}
	tell("started", pid, 0, at);
}

int main(int argc, char **argv) {
	static char message[1 << 20];
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		fail("mount /proc");
	if (argc == 3 && mount(argv[1], argv[2], NULL, MS_BIND, NULL))
		fail(argv[2]);
	if (fcntl(SOCK, F_SETFD, FD_CLOEXEC))
		fail("descriptor 3");
	sigset_t children;
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, NULL);
	int signals = signalfd(-1, &children, SFD_CLOEXEC);
	if (signals < 0)
		fail("signalfd");
	struct pollfd watched[] = {{.fd = SOCK, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	for (;;) {
		if (poll(watched, 2, -1) < 0 && errno != EINTR)
			fail("poll");
		if (watched[1].revents) {
			struct signalfd_siginfo info;
			int status;
			pid_t pid;
			if (read(signals, &info, sizeof info) < 0)
				fail("signalfd");
			while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
				tell("ended", pid, status, now());
		}
		if (watched[0].revents) {
			ssize_t n = recv(SOCK, message, sizeof message - 1, 0);
			if (n <= 0)
				return 0;
			message[n] = 0;
			start(message, n);
		}
	}
}
