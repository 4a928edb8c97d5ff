package hosttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/config/environ"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// newKernel returns a host, and the misuse that it has reported.
func newKernel(seed uint64) (k *Kernel, v *loop.Virtual, misuse *[]string) {
	v, misuse = loop.NewVirtual(seed), new([]string)
	return New(v, rand.New(rand.NewPCG(seed, 1)), func(format string, args ...any) {
		*misuse = append(*misuse, fmt.Sprintf(format, args...))
	}), v, misuse
}

// spawn starts a main process of an instance.
func spawn(k *Kernel, instance, run string, done func(host.Child, error)) {
	own := environ.Variables{}
	own.Set("SUPERD_INVOCATION_ID", run)
	k.Spawn(&host.SpawnSpec{
		Name: instance, Tree: k.NewTree(instance, ""), Own: own,
		Program: &config.Program{
			Name: instance, Command: []string{"/bin/x"}, Settings: &config.Settings{},
		},
	}, done)
}

// TestSeedDeterminesAll: the same seed gives the same history of faults, and others give others.
func TestSeedDeterminesAll(t *testing.T) {
	run := func(seed uint64) (lines []string) {
		k, v, misuse := newKernel(seed)
		k.Logf = func(format string, args ...any) {
			lines = append(lines, fmt.Sprintf("%v ", v.Now())+fmt.Sprintf(format, args...))
		}
		k.SIGCHLD = func() {}
		k.Mix = FaultMix{
			Crash: 0.5, Lifetime: time.Second, Forks: 0.5,
			SpawnFails: 0.3, SlowSpawn: time.Second,
		}
		for i := range 20 {
			spawn(k, fmt.Sprint("p", i), fmt.Sprint(i), func(host.Child, error) {})
		}
		v.RunFor(time.Minute)
		if len(*misuse) > 0 {
			t.Errorf("seed %d: %q", seed, *misuse)
		}
		return lines
	}
	if first, again := run(1), run(1); !slices.Equal(first, again) || len(first) < 20 {
		t.Errorf("seed 1 gives\n%q\nand\n%q", first, again)
	}
	if slices.Equal(run(1), run(2)) {
		t.Error("seeds 1 and 2 give the same history")
	}
}

// TestMisuseIsReported: what no caller may do is reported.
func TestMisuseIsReported(t *testing.T) {
	tests := []struct {
		name string
		do   func(k *Kernel, p *Handle)
		want string
	}{
		{"two main processes", func(k *Kernel, _ *Handle) {
			k.NewProcess("web", "b", RoleMain)
		}, "web is started as 3 while its process 2 is alive"},
		{"two of instances that replace each other", func(k *Kernel, _ *Handle) {
			k.NewProcess("web@1", "b", RoleMain)
		}, "web@1 is started as 3 while 2 of web is alive"},
		{"a signal through a closed pidfd", func(_ *Kernel, p *Handle) {
			p.Close()
			p.Signal(syscall.SIGTERM)
		}, "terminated for web is sent by pidfd 3, which is closed"},
		{"a pidfd is closed twice", func(_ *Kernel, p *Handle) {
			p.Close()
			p.Close()
		}, "pidfd 3 of web is closed twice"},
		{"a main process is reaped as unknown", func(k *Kernel, p *Handle) {
			p.Process.End(pidfd.Exit{Known: true})
			k.ReapUnknown(2)
		}, "2 of web is reaped as an unknown child"},
		{"a descriptor that is closed is stored", func(k *Kernel, p *Handle) {
			p.Close()
			k.Store("1", 3)
		}, "descriptor 3, which is closed, is stored as 1"},
		{"a stored descriptor is replaced", func(k *Kernel, p *Handle) {
			k.Store("1", p.FD())
			k.Store("1", p.FD())
		}, "a descriptor is stored as 1, as which another one is stored"},
		{"the tree of a live process is removed", func(k *Kernel, _ *Handle) {
			k.NewTree("web", "").Remove()
		}, "the tree of web is removed while 1 processes live in it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, v, misuse := newKernel(1)
			var main *Handle
			spawn(k, "web", "a", func(c host.Child, err error) {
				if main, _ = c.Process.(*Handle); err != nil {
					t.Fatal(err)
				}
			})
			v.RunFor(time.Second)
			k.SIGCHLD, k.StoresFDs = func() {}, true
			tt.do(k, main)
			if !slices.Equal(*misuse, []string{tt.want}) {
				t.Errorf("reported %q, want %q", *misuse, tt.want)
			}
		})
	}
}
