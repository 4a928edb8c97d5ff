// A program to be supervised that costs next to nothing. It writes into the FIFO that BENCH_FIFO names
// when it began, and keeps that open: so whoever reads there learns how many were executed and when,
// and sees the end of the FIFO when the last of them is gone.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void ask(int sig) {
	(void)sig;
	asked = 1;
}

// lines: prints a numbered line each millisecond until it is asked to end, and then that it ends.
static int lines(void) {
	char text[32];
	struct sigaction act = {.sa_handler = ask};
	sigaction(SIGTERM, &act, NULL);
	for (long number = 0;; number++) {
		int last = asked;
		int n = last ? snprintf(text, sizeof text, "end %ld\n", number) : snprintf(text, sizeof text, "%ld\n", number);
		if (write(1, text, n) != n)
			return 1;
		if (last)
			return 0;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

int main(int argc, char **argv) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	long long begin = t.tv_sec * 1000000000LL + t.tv_nsec;
	const char *path = getenv("BENCH_FIFO");
	int fd = path ? open(path, O_WRONLY) : -1;
	if (fd < 0 || write(fd, &begin, sizeof begin) != sizeof begin)
		return 1;
	if (argc > 1 && !strcmp(argv[1], "lines")) // s6-supervise adds arguments of its own
		return lines();
	for (;;)
		pause();
}
