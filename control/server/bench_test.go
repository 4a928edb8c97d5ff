package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"superd/internal/escape"
	"superd/internal/procfs"
	"superd/logs"
	"superd/loop"
	"superd/procs"
	"superd/procs/fsm"
)

// BenchmarkStatus measures the server's work for the status of 1,000 running programs, off the
// loop.
func BenchmarkStatus(b *testing.B) {
	self, err := procfs.ReadStat(os.Getpid())
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
		all = append(all, procs.Status{Name: name, Program: name, State: fsm.Running, Main: procs.MainStatus{Pid: os.Getpid(), Start: self.Start, Uptime: time.Hour},
			Since: time.Now(), LogFile: "/var/log/superd/" + name + ".log", Collector: store.NewCollector(l.Root(), name, logs.Options{Path: file}), HasRun: true, Reason: "started"})
	}
	var brief []procs.Brief
	for _, st := range all {
		brief = append(brief, procs.Brief{Name: st.Name, State: st.State, Pid: st.Main.Pid})
	}
	s := New(Options{Log: slog.New(slog.DiscardHandler), TreeUsages: noUsages})
	for name, f := range map[string]func(){
		"brief": func() { _, _ = escape.Marshal(briefStatuses(brief)) },
		"full": func() {
			for range s.statuses(all, nil) {
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
