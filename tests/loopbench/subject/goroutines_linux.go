package main

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// onGoroutines has the same measures for goroutines, the runtime's netpoller and its timers. There
// is none for a descriptor that is ready and not read.
var onGoroutines = map[string]measure{
	"pass":         passGoroutines,
	"timer-new":    timerNewRuntime,
	"timer-cancel": timerCancelRuntime,
	"timer-fire":   timerFireRuntime,
	"post":         postChannel,
	"switch":       switchChannel,
	"memory-watch": memoryReader,
	"memory-timer": memoryRuntimeTimer,
	"memory-task":  memoryGoroutine,
}

// passGoroutines runs a goroutine for each socket pair of the ring.
func passGoroutines(n int) (float64, error) {
	ring, err := newRing(n)
	if err != nil {
		return 0, err
	}
	const total = 300_000
	var count atomic.Int64
	done := make(chan struct{})
	begin := cpu()
	files := make([][2]*os.File, n)
	for i, p := range ring {
		files[i] = [2]*os.File{os.NewFile(uintptr(p[0]), ""), os.NewFile(uintptr(p[1]), "")}
	}
	for i := range files {
		go func() {
			var b [1]byte
			for {
				if _, err := files[i][0].Read(b[:]); err != nil {
					panic(err)
				}
				if _, err := files[(i+1)%n][1].Write(b[:]); err != nil {
					panic(err)
				}
				if count.Add(1) == total {
					close(done)
				}
			}
		}()
	}
	<-done
	return each(begin, total), nil
}

func idleRuntime(n int) []*time.Timer {
	all := make([]*time.Timer, n)
	for i := range all {
		all[i] = time.AfterFunc(far+randomBelow(window), func() {})
	}
	runtime.GC()
	return all
}

func timerNewRuntime(n int) (float64, error) {
	defer runtime.KeepAlive(idleRuntime(n))
	const total = 1_000_000
	begin := cpu()
	for range total {
		time.AfterFunc(far+randomBelow(window), func() {}).Stop()
	}
	return each(begin, total), nil
}

func timerCancelRuntime(n int) (float64, error) {
	defer runtime.KeepAlive(idleRuntime(n))
	t := time.AfterFunc(far, func() {})
	const total = 1_000_000
	begin := cpu()
	for range total {
		t.Reset(far + randomBelow(window))
		t.Stop()
	}
	return each(begin, total), nil
}

// timerFireRuntime measures timers that start a goroutine each, as AfterFunc does. It uses one
// processor, so that none fires while that is busy; those that do nevertheless are not counted.
func timerFireRuntime(n int) (float64, error) {
	runtime.GOMAXPROCS(1)
	var all sync.WaitGroup
	all.Add(n)
	fired := 0
	for range n {
		time.AfterFunc(time.Millisecond+randomBelow(20*time.Millisecond), func() {
			fired++
			all.Done()
		})
	}
	for busy := time.Now(); time.Since(busy) < 30*time.Millisecond; {
	}
	begin, before := cpu(), fired
	all.Wait()
	return each(begin, n-before), nil
}

// postChannel sends functions to a goroutine that calls them.
func postChannel(n int) (float64, error) {
	posted := make(chan func(), 1024)
	remaining := n
	f := func() { remaining-- }
	begin := cpu()
	go func() {
		for range n {
			posted <- f
		}
	}()
	for remaining > 0 {
		(<-posted)()
	}
	return each(begin, n), nil
}

// switchChannel passes a value back and forth between two goroutines.
func switchChannel(n int) (float64, error) {
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		for range there {
			back <- struct{}{}
		}
	}()
	begin := cpu()
	for range n / 2 {
		there <- struct{}{}
		<-back
	}
	return each(begin, n), nil
}

// memoryReader measures goroutines that wait for a descriptor.
func memoryReader(n int) (float64, error) {
	return memory(n, func() (any, error) {
		for range n {
			fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
			if err != nil {
				return nil, err
			}
			f := os.NewFile(uintptr(fd), "")
			go func() {
				var b [8]byte
				_, _ = f.Read(b[:])
			}()
		}
		time.Sleep(100 * time.Millisecond) // until all wait
		return nil, nil
	})
}

func memoryRuntimeTimer(n int) (float64, error) {
	f := func() {}
	return memory(n, func() (any, error) {
		all := make([]*time.Timer, 0, n)
		for range n {
			all = append(all, time.AfterFunc(far+randomBelow(window), f))
		}
		return all, nil
	})
}

// memoryGoroutine measures goroutines that sleep.
func memoryGoroutine(n int) (float64, error) {
	return memory(n, func() (any, error) {
		for range n {
			go time.Sleep(far)
		}
		time.Sleep(100 * time.Millisecond)
		return nil, nil
	})
}
