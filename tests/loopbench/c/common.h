/* What both programs share: each runs one measure, named by its arguments, and prints a figure per operation:
 * nanoseconds of processor time, or bytes for those called memory. Compare subject/ beside this directory. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef double (*measure)(long n);

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static double clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static double now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* cpu_ns is the processor time of all threads, which other processes disturb least. */
static double cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static double used_bytes(void)
{
	struct mallinfo2 m = mallinfo2();
	return (double)m.uordblks + (double)m.hblkhd;
}

/* random_below is a xorshift, the same in all programs. */
static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

/* ready_fd returns a descriptor that is always readable, idle_fd one that never is. */
static int ready_fd(void)
{
	int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	check(fd < 0, "eventfd");
	return fd;
}

static int idle_fd(void)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	check(fd < 0, "eventfd");
	return fd;
}

/* ring has n socket pairs, each with a byte in it: whoever reads one writes to the next. */
static int (*ring)[2];
static long ring_size;

static void make_ring(long n)
{
	ring = calloc(n, sizeof *ring);
	ring_size = n;
	for (long i = 0; i < n; i++) {
		check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ring[i]) < 0, "socketpair");
		check(write(ring[i][1], "x", 1) != 1, "write");
	}
}

static void pass_on(long i)
{
	char b;
	check(read(ring[i][0], &b, 1) != 1, "read");
	check(write(ring[(i + 1) % ring_size][1], &b, 1) != 1, "write");
}

/* A queue of functions, for posts from another thread. */
struct work {
	void (*f)(void *);
	void *arg;
};

struct queue {
	struct work *items;
	long len, cap;
};

static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct queue posted, taken;

static void push(void (*f)(void *), void *arg)
{
	pthread_mutex_lock(&queue_mutex);
	if (posted.len == posted.cap) {
		posted.cap = posted.cap ? 2 * posted.cap : 64;
		posted.items = realloc(posted.items, posted.cap * sizeof *posted.items);
	}
	posted.items[posted.len++] = (struct work){f, arg};
	pthread_mutex_unlock(&queue_mutex);
}

static void run_posted(void)
{
	pthread_mutex_lock(&queue_mutex);
	struct queue q = posted;
	posted = taken;
	posted.len = 0;
	pthread_mutex_unlock(&queue_mutex);
	for (long i = 0; i < q.len; i++)
		q.items[i].f(q.items[i].arg);
	taken = q;
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* run_measure runs the measure that the command line names. */
static int run_measure(int argc, char **argv, const char **names, const measure *measures)
{
	if (argc != 3) {
		fprintf(stderr, "usage: %s MEASURE N\n", argv[0]);
		return 1;
	}
	/* With one thread alone a process has a shorter way to its descriptors in the kernel than with several. */
	if (getenv("SECOND_THREAD")) {
		pthread_t t;
		check(pthread_create(&t, NULL, sleeper, NULL), "pthread_create");
	}
	for (int i = 0; names[i]; i++)
		if (!strcmp(argv[1], names[i])) {
			printf("%.2f\n", measures[i](atol(argv[2])));
			return 0;
		}
	fprintf(stderr, "no measure %s\n", argv[1]);
	return 1;
}
