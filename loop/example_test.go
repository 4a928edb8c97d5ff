package loop_test

import (
	"fmt"
	"time"

	"superd/loop"
)

// A loop runs until it is stopped.
func Example() {
	l, err := loop.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	l.Root().Every(time.Millisecond, func() {
		n++
		fmt.Println("tick", n)
		if n == 3 {
			l.Stop()
		}
	})
	if err := l.Run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// tick 1
	// tick 2
	// tick 3
}

// A timer calls once, unless another event stops it first.
func ExampleScope_After() {
	v := loop.NewVirtual(1)
	start := v.Now()
	timeout := v.Root().After(10*time.Second, func() { fmt.Println("too late") })
	v.Root().After(3*time.Second, func() {
		fmt.Println("answered after", v.Now()-start)
		timeout.Stop()
	})
	v.RunFor(time.Minute)
	// Output: answered after 3s
}

// An interval does not drift: a callback that takes longer than the period misses ticks, and the
// next tick is on time again.
func ExampleScope_Every() {
	v := loop.NewVirtual(1)
	start := v.Now()
	n := 0
	v.Root().Every(time.Second, func() {
		fmt.Println("called after", v.Now()-start)
		if n++; n == 1 {
			v.Advance(2500 * time.Millisecond) // a slow callback
		}
	})
	v.RunFor(5 * time.Second)
	// Output:
	// called after 1s
	// called after 3.5s
	// called after 4s
	// called after 5s
}

// A watchdog: a timer that each sign of life sets again.
func ExampleTimer_Reset() {
	v := loop.NewVirtual(1)
	start := v.Now()
	watchdog := v.Root().After(3*time.Second, func() { fmt.Println("silent since 3s, after", v.Now()-start) })
	alive := v.Root().Every(time.Second, func() { watchdog.Reset(3 * time.Second) })
	v.Root().After(4500*time.Millisecond, alive.Stop)
	v.RunFor(time.Minute)
	// Output: silent since 3s, after 7s
}

// What was opened last is released first, whatever ends the scope.
func ExampleScope_Defer() {
	v := loop.NewVirtual(1)
	server := v.Root().Child()
	server.Defer(func() { fmt.Println("close the listener") })
	conn := server.Child()
	conn.Defer(func() { fmt.Println("close the connection") })
	conn.After(time.Minute, func() { fmt.Println("never called") })
	server.Close()
	v.RunFor(time.Hour)
	// Output:
	// close the connection
	// close the listener
}

// A slow callback delays those after it.
func ExampleLoop_Lag() {
	v := loop.NewVirtual(1)
	v.Root().After(time.Second, func() { v.Advance(200 * time.Millisecond) }) // a slow callback
	v.RunFor(time.Minute)
	fmt.Println(v.Lag().Max)
	// Output: 200ms
}

// A scope is closed once, and nothing of it is left.
func ExampleScope() {
	l, err := loop.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	job := l.Root().Child()
	job.Defer(func() { fmt.Println("job cleaned up") })
	job.After(time.Hour, func() { fmt.Println("never called") })
	job.Child().Defer(func() { fmt.Println("part of the job cleaned up") })
	l.Root().After(time.Millisecond, func() {
		job.Close()
		l.Stop()
	})
	if err := l.Run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// part of the job cleaned up
	// job cleaned up
}

// Blocking work runs in a goroutine, and its result is posted to the loop.
func ExampleLoop_Post() {
	l, err := loop.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := 0
	go func() {
		result := 6 * 7 // slow, or blocking
		l.Post(func() {
			answer = result // on the loop: no lock
			l.Stop()
		})
	}()
	if err := l.Run(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(answer)
	// Output: 42
}

// Work for a closed scope is dropped.
func ExampleScope_Post() {
	v := loop.NewVirtual(1)
	run := v.Root().Child()
	run.Post(func() { fmt.Println("never called") })
	run.Close()
	v.Step()
	fmt.Println("done")
	// Output: done
}

// An hour passes at once, and the same seed gives the same hour.
func ExampleVirtual() {
	v := loop.NewVirtual(1)
	start := v.Now()
	fd := v.NewFD()
	_, err := v.Root().OnReadable(fd, func() {
		fmt.Println("readable after", v.Now()-start)
		v.SetReady(fd, 0) // after a read
	})
	if err != nil {
		fmt.Println(err)
	}
	v.Root().Every(20*time.Minute, func() {
		fmt.Println("tick after", v.Now()-start)
	})
	v.Root().After(30*time.Minute, func() { v.SetReady(fd, loop.Readable) })
	v.RunFor(time.Hour)
	// Output:
	// tick after 20m0s
	// readable after 30m0s
	// tick after 40m0s
	// tick after 1h0m0s
}

// A connection is watched for as long as its scope is open.
func ExampleScope_OnReadable() {
	v := loop.NewVirtual(1)
	conn := v.Root().Child()
	fd := v.NewFD()
	conn.Defer(func() { v.CloseFD(fd) }) // after the watch, which is newer
	_, err := conn.OnReadable(fd, func() {
		fmt.Println("read a request")
		conn.Close()
	})
	if err != nil {
		fmt.Println(err)
	}
	v.SetReady(fd, loop.Readable)
	for v.Step() {
	}
	fmt.Println(v.OpenFDs(), "descriptors open")
	// Output:
	// read a request
	// 0 descriptors open
}
