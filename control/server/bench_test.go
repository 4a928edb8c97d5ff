package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"superd/logs"
	"superd/loop"
	"superd/procs"
)

// BenchmarkStatus is what the server does for the status of 1,000 running programs, off the loop.
func BenchmarkStatus(b *testing.B) {
	self, err := procs.ReadProcess(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	l, err := loop.New()
	if err != nil {
		b.Fatal(err)
	}
	store, dir := logs.NewStore(l, slog.New(slog.DiscardHandler)), b.TempDir()
	var all []procs.Status
	for i := range 1000 {
		name := fmt.Sprintf("program-%d", i)
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("a line of some length or so\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		all = append(all, procs.Status{Name: name, Program: name, State: procs.Running, Ready: true, Pid: os.Getpid(), StartTicks: self.Start,
			Since: time.Now(), Uptime: time.Hour, LogFile: "/var/log/superd/" + name + ".log", Capture: store.NewCapture(l.Root(), name, logs.Options{Path: file}), Reason: "started"})
	}
	var brief []procs.Brief
	for _, st := range all {
		brief = append(brief, procs.Brief{Name: st.Name, State: st.State, Pid: st.Pid})
	}
	s := New(Options{Log: slog.New(slog.DiscardHandler)})
	var buffer []byte
	for name, f := range map[string]func(){
		"brief": func() { buffer = appendBriefs(buffer[:0], brief) },
		"full": func() {
			for part := range s.statuses(all) {
				buffer = part
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
