/* The measures on libev. */
#include "common.h"
#include <ev.h>

static struct ev_loop *loop;
static long left;

static void on_ready(struct ev_loop *l, ev_io *w, int events)
{
	if (--left == 0)
		ev_break(l, EVBREAK_ALL);
}

static double dispatch(long n)
{
	for (long i = 0; i < n; i++) {
		ev_io *w = malloc(sizeof *w);
		ev_io_init(w, on_ready, ready_fd(), EV_READ);
		ev_io_start(loop, w);
	}
	long total = left = n == 1 ? 300000 : 3000000;
	double begin = cpu_ns();
	ev_run(loop, 0);
	return (cpu_ns() - begin) / total;
}

static void on_byte(struct ev_loop *l, ev_io *w, int events)
{
	pass_on((long)w->data);
	if (--left == 0)
		ev_break(l, EVBREAK_ALL);
}

static double pass(long n)
{
	make_ring(n);
	for (long i = 0; i < n; i++) {
		ev_io *w = malloc(sizeof *w);
		ev_io_init(w, on_byte, ring[i][0], EV_READ);
		w->data = (void *)i;
		ev_io_start(loop, w);
	}
	long total = left = 300000;
	double begin = cpu_ns();
	ev_run(loop, 0);
	return (cpu_ns() - begin) / total;
}

static void on_timer(struct ev_loop *l, ev_timer *t, int events)
{
	if (--left == 0)
		ev_break(l, EVBREAK_ALL);
}

/* delay returns a delay from first on, in steps of a microsecond, both in milliseconds. */
static double delay(long first_ms, long window_ms)
{
	return (first_ms * 1000 + random_below(window_ms * 1000)) / 1e6;
}

static void add_timers(long n, long first_ms, long window_ms)
{
	ev_timer *all = calloc(n, sizeof *all);
	for (long i = 0; i < n; i++) {
		ev_timer_init(&all[i], on_timer, delay(first_ms, window_ms), 0);
		ev_timer_start(loop, &all[i]);
	}
}

static double timer_cancel(long n)
{
	add_timers(n, 1000000, 3600000);
	ev_timer t;
	ev_init(&t, on_timer);
	const long total = 1000000;
	double begin = cpu_ns();
	for (long i = 0; i < total; i++) {
		ev_timer_set(&t, delay(1000000, 3600000), 0);
		ev_timer_start(loop, &t);
		ev_timer_stop(loop, &t);
	}
	return (cpu_ns() - begin) / total;
}

static double timer_new(long n)
{
	add_timers(n, 1000000, 3600000);
	const long total = 1000000;
	double begin = cpu_ns();
	for (long i = 0; i < total; i++) {
		ev_timer *t = malloc(sizeof *t);
		ev_timer_init(t, on_timer, delay(1000000, 3600000), 0);
		ev_timer_start(loop, t);
		ev_timer_stop(loop, t);
		free(t);
	}
	return (cpu_ns() - begin) / total;
}

static double timer_fire(long n)
{
	left = n;
	ev_now_update(loop);
	add_timers(n, 1, 20);
	for (double begin = now_ns(); now_ns() - begin < 30e6;)
		;
	double begin = cpu_ns();
	ev_run(loop, 0);
	return (cpu_ns() - begin) / n;
}

static ev_async async;

static void on_async(struct ev_loop *l, ev_async *a, int events) { run_posted(); }

static void count_down(void *arg)
{
	if (--left == 0)
		ev_break(loop, EVBREAK_ALL);
}

static void *poster(void *arg)
{
	for (long i = 0; i < (long)arg; i++) {
		push(count_down, NULL);
		ev_async_send(loop, &async);
	}
	return NULL;
}

static double post(long n)
{
	pthread_t t;
	left = n;
	ev_async_init(&async, on_async);
	ev_async_start(loop, &async);
	double begin = cpu_ns();
	check(pthread_create(&t, NULL, poster, (void *)n), "pthread_create");
	ev_run(loop, 0);
	return (cpu_ns() - begin) / n;
}

static double memory_watch(long n)
{
	double before = used_bytes();
	for (long i = 0; i < n; i++) {
		ev_io *w = malloc(sizeof *w);
		ev_io_init(w, on_ready, idle_fd(), EV_READ);
		ev_io_start(loop, w);
	}
	ev_run(loop, EVRUN_NOWAIT);
	return (used_bytes() - before) / n;
}

static double memory_timer(long n)
{
	double before = used_bytes();
	for (long i = 0; i < n; i++) {
		ev_timer *t = malloc(sizeof *t);
		ev_timer_init(t, on_timer, delay(1000000, 3600000), 0);
		ev_timer_start(loop, t);
	}
	return (used_bytes() - before) / n;
}

int main(int argc, char **argv)
{
	const char *names[] = {"dispatch", "pass", "timer-new", "timer-cancel", "timer-fire", "post", "memory-watch", "memory-timer", NULL};
	const measure measures[] = {dispatch, pass, timer_new, timer_cancel, timer_fire, post, memory_watch, memory_timer};
	loop = ev_default_loop(EVBACKEND_EPOLL);
	check(loop == NULL, "ev_default_loop");
	return run_measure(argc, argv, names, measures);
}
