package journal

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A snapshot is about as large as the record of an instance.
type snapshot struct {
	State    string  `json:"state"`
	Pid      int     `json:"pid"`
	Started  uint64  `json:"started"`
	Run      string  `json:"run"`
	Reason   string  `json:"reason"`
	Restarts int     `json:"restarts"`
	Delay    float64 `json:"delay_s"`
	Pad      string  `json:"pad"`
}

func newSnapshot(i int) *snapshot {
	return &snapshot{"running", 1000 + i, 123456789, "3f1c9a52d0b84c0f9d2f6a7be1c05d11", "started by the operator", i, 0.25,
		fmt.Sprintf("%0350d", i)}
}

func BenchmarkPut(b *testing.B) {
	j, _ := mustOpen(b, b.TempDir())
	value := newSnapshot(1)
	b.ReportAllocs()
	for b.Loop() {
		mustPut(b, j, "start/web/1", value)
	}
}

// BenchmarkQueue measures the loop's share of each change of state, with a new snapshot.
func BenchmarkQueue(b *testing.B) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("instance/", i)
	}
	j, _ := mustOpen(b, b.TempDir())
	made := *newSnapshot(1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := made
		j.Queue(keys[i%len(keys)], &s)
		i++
	}
}

// BenchmarkQueueToFile measures the total cost of a change of state, with the write by the other
// goroutine.
func BenchmarkQueueToFile(b *testing.B) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("instance/", i)
	}
	j, _ := mustOpen(b, b.TempDir())
	value := newSnapshot(1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		j.Queue(keys[i%len(keys)], value)
		if i++; i%len(keys) == 0 {
			flush(j)
		}
	}
	flush(j)
}

// BenchmarkOpen opens a journal of 10,000 instances, as it is after a compaction and just before
// the next.
func BenchmarkOpen(b *testing.B) {
	for _, times := range []int{1, 4} {
		b.Run(fmt.Sprintf("10000 instances recorded %d times", times), func(b *testing.B) {
			dir := b.TempDir()
			var content []byte
			for range times {
				for i := range 10_000 {
					var err error
					if content, err = appendRecord(content, fmt.Sprint("instance/", i), newSnapshot(i)); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if err := os.WriteFile(filepath.Join(dir, fileName), content, 0o600); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				j, state, err := Open(dir, boot, slog.New(slog.DiscardHandler))
				if err != nil || len(state.Values) != 10_000 {
					b.Fatal(err, len(state.Values))
				}
				b.StopTimer()
				j.Close(time.Minute)
				b.StartTimer()
			}
		})
	}
}
