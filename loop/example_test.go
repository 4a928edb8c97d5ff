package loop_test

import (
	"fmt"
	"time"

	"superd/loop"
)

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

// What blocks runs in a goroutine, and its result comes back to the loop.
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

// Work for a scope that is gone is dropped.
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
		v.SetReady(fd, 0) // it was read
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
