package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/counters"
)

// BenchmarkMeter measures what an answer with the counters of 1,000 programs takes of the loop.
func BenchmarkMeter(b *testing.B) {
	const programs = 1000
	var file strings.Builder
	for i := range programs {
		fmt.Fprintf(&file, "[program.p%05d]\ncommand = 'sleep infinity'\n", i)
	}
	path := filepath.Join(b.TempDir(), "superd.toml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		b.Fatal(err)
	}
	v, s := quickSupervisor(c)
	s.Start(func() {})
	v.RunFor(time.Minute)
	m := NewMeter(s)
	_, all := m.Read()
	if len(all) != programs {
		b.Fatalf("%d programs, want %d", len(all), programs)
	}
	b.Run("Read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Read()
		}
	})
	readings := make([]counters.Reading, programs)
	for i := range readings {
		readings[i].Instance = all[i].Name
	}
	b.Run("Count", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range readings {
				readings[i].Written++
			}
			m.Count(readings, func(error) {})
		}
	})
}
