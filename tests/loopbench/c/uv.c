/* The measures on libuv. */
#include "common.h"
#include <uv.h>

static uv_loop_t *loop;
static long left;

static void on_ready(uv_poll_t *h, int status, int events)
{
	if (--left == 0)
		uv_stop(loop);
}

static double dispatch(long n)
{
	for (long i = 0; i < n; i++) {
		uv_poll_t *h = malloc(sizeof *h);
		check(uv_poll_init(loop, h, ready_fd()), "uv_poll_init");
		check(uv_poll_start(h, UV_READABLE, on_ready), "uv_poll_start");
	}
	long total = left = n == 1 ? 300000 : 3000000;
	double begin = cpu_ns();
	uv_run(loop, UV_RUN_DEFAULT);
	return (cpu_ns() - begin) / total;
}

static void on_byte(uv_poll_t *h, int status, int events)
{
	pass_on((long)h->data);
	if (--left == 0)
		uv_stop(loop);
}

static double pass(long n)
{
	make_ring(n);
	for (long i = 0; i < n; i++) {
		uv_poll_t *h = malloc(sizeof *h);
		check(uv_poll_init(loop, h, ring[i][0]), "uv_poll_init");
		h->data = (void *)i;
		check(uv_poll_start(h, UV_READABLE, on_byte), "uv_poll_start");
	}
	long total = left = 300000;
	double begin = cpu_ns();
	uv_run(loop, UV_RUN_DEFAULT);
	return (cpu_ns() - begin) / total;
}

static void on_timer(uv_timer_t *t)
{
	if (--left == 0)
		uv_stop(loop);
}

static void add_timers(long n, uint64_t first_ms, uint64_t window_ms)
{
	uv_timer_t *all = calloc(n, sizeof *all);
	for (long i = 0; i < n; i++) {
		uv_timer_init(loop, &all[i]);
		uv_timer_start(&all[i], on_timer, first_ms + random_below(window_ms), 0);
	}
}

static double timer_cancel(long n)
{
	add_timers(n, 1000000, 3600000);
	uv_timer_t t;
	uv_timer_init(loop, &t);
	const long total = 1000000;
	double begin = cpu_ns();
	for (long i = 0; i < total; i++) {
		uv_timer_start(&t, on_timer, 1000000 + random_below(3600000), 0);
		uv_timer_stop(&t);
	}
	return (cpu_ns() - begin) / total;
}

static void on_close(uv_handle_t *h) { free(h); }

/* timer_new frees its timers as libuv asks for: uv_close, and the memory in the callback, in the next turn. */
static double timer_new(long n)
{
	add_timers(n, 1000000, 3600000);
	const long total = 1000000;
	double begin = cpu_ns();
	for (long i = 0; i < total; i++) {
		uv_timer_t *t = malloc(sizeof *t);
		uv_timer_init(loop, t);
		uv_timer_start(t, on_timer, 1000000 + random_below(3600000), 0);
		uv_close((uv_handle_t *)t, on_close);
		if (i % 1000 == 999)
			uv_run(loop, UV_RUN_NOWAIT);
	}
	return (cpu_ns() - begin) / total;
}

static double timer_fire(long n)
{
	left = n;
	uv_update_time(loop);
	add_timers(n, 1, 20);
	for (double begin = now_ns(); now_ns() - begin < 30e6;)
		;
	double begin = cpu_ns();
	uv_run(loop, UV_RUN_DEFAULT);
	return (cpu_ns() - begin) / n;
}

static uv_async_t async;

static void on_async(uv_async_t *a) { run_posted(); }

static void count_down(void *arg)
{
	if (--left == 0)
		uv_stop(loop);
}

static void *poster(void *arg)
{
	for (long i = 0; i < (long)arg; i++) {
		push(count_down, NULL);
		uv_async_send(&async);
	}
	return NULL;
}

static double post(long n)
{
	pthread_t t;
	left = n;
	check(uv_async_init(loop, &async, on_async), "uv_async_init");
	double begin = cpu_ns();
	check(pthread_create(&t, NULL, poster, (void *)n), "pthread_create");
	uv_run(loop, UV_RUN_DEFAULT);
	return (cpu_ns() - begin) / n;
}

static double memory_watch(long n)
{
	double before = used_bytes();
	for (long i = 0; i < n; i++) {
		uv_poll_t *h = malloc(sizeof *h);
		check(uv_poll_init(loop, h, idle_fd()), "uv_poll_init");
		check(uv_poll_start(h, UV_READABLE, on_ready), "uv_poll_start");
	}
	return (used_bytes() - before) / n;
}

static double memory_timer(long n)
{
	double before = used_bytes();
	for (long i = 0; i < n; i++) {
		uv_timer_t *t = malloc(sizeof *t);
		uv_timer_init(loop, t);
		uv_timer_start(t, on_timer, 1000000 + random_below(3600000), 0);
	}
	return (used_bytes() - before) / n;
}

int main(int argc, char **argv)
{
	const char *names[] = {"dispatch", "pass", "timer-new", "timer-cancel", "timer-fire", "post", "memory-watch", "memory-timer", NULL};
	const measure measures[] = {dispatch, pass, timer_new, timer_cancel, timer_fire, post, memory_watch, memory_timer};
	loop = uv_default_loop();
	return run_measure(argc, argv, names, measures);
}
