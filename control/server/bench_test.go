package server

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"superd/procs"
)

// BenchmarkStatus is what the server does for the status of 1,000 running programs, off the loop.
func BenchmarkStatus(b *testing.B) {
	self, err := procs.ReadProcess(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	var all []procs.Status
	for i := range 1000 {
		name := fmt.Sprintf("program-%d", i)
		all = append(all, procs.Status{Name: name, Program: name, State: procs.Running, Ready: true, Pid: os.Getpid(), StartTicks: self.Start,
			Since: time.Now(), Uptime: time.Hour, LogFile: "/var/log/superd/" + name + ".log", LastLine: "a line of some length or so", Reason: "started"})
	}
	for name, f := range map[string]func() any{
		"brief": func() any { return briefs(all) },
		"full":  func() any { return statuses(all) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := json.Marshal(f()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
