// What stands beside superd in the measurements of output: programs that print, and the least that moves what they print.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 100, MOST = 64000, STAMP = 21 };

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// wait_for returns when a byte comes out of the FIFO.
static void wait_for(const char *gate) {
	char c;
	int fd = open(gate, O_RDONLY);
	if (fd < 0 || read(fd, &c, 1) < 0)
		fail(gate);
	close(fd);
}

static void tell(const char *path, const char *text) {
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

// print BYTES SIZE RESULT [GATE]: writes numbered lines of 100 bytes, SIZE bytes a write, and reports
// when it began and ended, in nanoseconds of the monotonic clock. With a gate it stays, since some
// supervisors would start it again.
static void print(long long bytes, size_t size, const char *result, const char *gate) {
	static char chunk[MOST];
	char text[64];
	if (size < LINE || size > MOST || size % LINE) {
		fprintf(stderr, "print: %zu bytes a write are not between %d and %d, in lines of %d\n", size, LINE, MOST, LINE);
		exit(2);
	}
	memset(chunk, 'x', sizeof chunk);
	if (gate)
		wait_for(gate);
	long long begin = now(), number = 0;
	for (long long left = bytes / LINE * LINE; left > 0;) {
		size_t n = left < (long long)size ? (size_t)left : size;
		for (size_t at = 0; at < n; at += LINE) {
			long long rest = number++;
			for (int digit = 11; digit >= 0; digit--, rest /= 10)
				chunk[at + digit] = '0' + rest % 10;
			chunk[at + 12] = ' ';
			chunk[at + LINE - 1] = '\n';
		}
		for (size_t done = 0; done < n;) {
			ssize_t w = write(1, chunk + done, n - done);
			if (w < 0)
				fail("write");
			done += w;
		}
		left -= n;
	}
	snprintf(text, sizeof text, "%lld\n%lld\n", begin, now());
	tell(result, text);
	while (gate)
		pause();
}

// splice FILE: moves what comes on standard input into the file, and nothing else.
static void move(const char *file) {
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		fail(file);
	fcntl(0, F_SETPIPE_SZ, 256 << 10); // as much as superd gives to who fills it
	for (;;) {
		ssize_t n = splice(0, NULL, fd, NULL, 1 << 20, 0);
		if (n == 0)
			return;
		if (n < 0 && errno != EINTR)
			fail("splice");
	}
}

// latency FILE COUNT RESULT [GATE]: tells the time from each write to when the line is in the file, in nanoseconds. With a gate it stays.
static void latency(const char *file, int count, const char *result, const char *gate) {
	static char all[1 << 20];
	size_t used = 0;
	struct stat st;
	int fd = -1;
	if (gate)
		wait_for(gate);
	if (write(1, "begin\n", 6) != 6)
		fail("write");
	while ((fd = open(file, O_RDONLY)) < 0 || fstat(fd, &st) || st.st_size == 0) {
		if (fd >= 0)
			close(fd);
		usleep(1000);
	}
	for (int i = 0; i < count && used < sizeof all - 32; i++) {
		usleep(2000 + i % 7 * 300);
		fstat(fd, &st);
		off_t before = st.st_size;
		long long begin = now();
		if (write(1, "a line\n", 7) != 7)
			fail("write");
		do
			fstat(fd, &st);
		while (st.st_size == before);
		used += snprintf(all + used, sizeof all - used, "%lld\n", now() - begin);
	}
	tell(result, all);
	while (gate)
		pause();
}

// quiet COUNT GATE: writes a line first, and behind the gate one about each 20 ms, which says when. It
// stays.
static void quiet(int count, const char *gate) {
	char text[STAMP + 1];
	for (int i = 0; i <= count; i++) {
		snprintf(text, sizeof text, "%0*lld\n", STAMP - 1, now());
		if (write(1, text, STAMP) != STAMP)
			fail("write");
		if (i == 0) {
			wait_for(gate);
			srand(getpid());
			usleep(rand() % 20000); // not all at once
		} else {
			usleep(18000 + rand() % 4000);
		}
	}
	for (;;)
		pause();
}

// read_stamps reports the age of each further line of a file, and returns how many there were.
static int read_stamps(int fd, long long seen, FILE *out) {
	char text[STAMP + 1] = "";
	int count = 0;
	for (; read(fd, text, STAMP) == STAMP; count++) {
		if (text[STAMP - 1] != '\n') {
			fprintf(stderr, "watch: no line: %s\n", text);
			exit(1);
		}
		if (out)
			fprintf(out, "%lld\n", seen - atoll(text));
	}
	return count;
}

// watch COUNT RESULT FILE...: reports the time from each write of a quiet program until the line is in
// its file, in nanoseconds, of that many lines in all. It runs before all others, so that it does not
// wait for a processor. It says when it watches.
static void watch(int count, const char *result, char **files) {
	static int open_files[1000]; // by watch descriptor, which begin at 1
	static char events[1 << 16] __attribute__((aligned(8)));
	struct sched_param param = {.sched_priority = 1};
	FILE *out = fopen(result, "w");
	int notify = inotify_init1(IN_CLOEXEC);
	if (!out || notify < 0)
		fail("watch");
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		fail("sched_setscheduler");
	for (; *files; files++) {
		struct stat st;
		while (stat(*files, &st) || st.st_size < STAMP)
			usleep(1000);
		int fd = open(*files, O_RDONLY | O_CLOEXEC), wd = inotify_add_watch(notify, *files, IN_MODIFY);
		if (fd < 0 || wd < 0 || wd >= (int)(sizeof open_files / sizeof *open_files))
			fail(*files);
		read_stamps(fd, 0, NULL); // the first one
		open_files[wd] = fd;
	}
	if (write(1, "ready\n", 6) != 6)
		fail("write");
	while (count > 0) {
		ssize_t n = read(notify, events, sizeof events);
		long long seen = now();
		if (n <= 0)
			fail("inotify");
		for (char *e = events; e < events + n; e += sizeof(struct inotify_event) + ((struct inotify_event *)e)->len)
			count -= read_stamps(open_files[((struct inotify_event *)e)->wd], seen, out);
	}
	if (fclose(out))
		fail(result);
}

int main(int argc, char **argv) {
	const char *path = getenv("BENCH_FIFO"); // of the arena, as in child.c
	int fd = path ? open(path, O_WRONLY) : -1;
	long long begin = now();
	if (path && (fd < 0 || write(fd, &begin, sizeof begin) != sizeof begin))
		fail(path);
	if (argc >= 5 && !strcmp(argv[1], "print"))
		print(atoll(argv[2]), atol(argv[3]), argv[4], argc > 5 ? argv[5] : NULL);
	else if (argc == 3 && !strcmp(argv[1], "splice"))
		move(argv[2]);
	else if (argc >= 5 && !strcmp(argv[1], "latency"))
		latency(argv[2], atoi(argv[3]), argv[4], argc > 5 ? argv[5] : NULL);
	else if (argc == 4 && !strcmp(argv[1], "quiet"))
		quiet(atoi(argv[2]), argv[3]);
	else if (argc >= 5 && !strcmp(argv[1], "watch"))
		watch(atoi(argv[2]), argv[3], argv + 4);
	else
		return 2;
	return 0;
}
