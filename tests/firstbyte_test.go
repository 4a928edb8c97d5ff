package tests

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/child"
	"superd/tests/harness"
)

// BenchmarkFirstByte compares what a client waits for the answer of a program that its connection
// starts: under superd, and where the benchmark itself starts it.
func BenchmarkFirstByte(b *testing.B) {
	for _, how := range []string{"superd on-connect", "superd accept", "fork and exec"} {
		b.Run(how, func(b *testing.B) {
			s := harness.NewSite(b, `
				[defaults]
				start = "on-connect"
				[socket.awaits]
				listen = "unix:DIR/awaits"
				[program.awaits]
				command = ["child", "serve", "0"]
				sockets = ["awaits"]
				restart = "on-failure"
				[socket.accepts]
				listen = "unix:DIR/accepts"
				[program.accepts]
				command = ["child", "answer"]
				sockets = ["accepts"]
				accept = true
				`)
			once := map[string]func() time.Duration{
				"superd on-connect": func() time.Duration {
					took := answerTime(b, s.Path("awaits"))
					s.Kill(s.Status("awaits").Pid, syscall.SIGTERM)
					s.WaitState("awaits", "exited")
					return took
				},
				"superd accept": func() time.Duration { return answerTime(b, s.Path("accepts")) },
				"fork and exec": func() time.Duration { return startAndAsk(b, s) },
			}[how]
			s.Start()
			waitOpen(s, 2)
			var all []time.Duration
			for b.Loop() {
				harness.Window(b, 1100*time.Millisecond) // a connection starts it once a second
				all = append(all, once())
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[0].Microseconds())/1000, "ms-least")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// answerTime returns how long a server takes to answer a new connection.
func answerTime(b *testing.B, path string) time.Duration {
	begin := time.Now()
	if _, err := ask("unix", path, "hello"); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// startAndAsk starts a server with a socket, and returns how long its first answer takes.
func startAndAsk(b *testing.B, s *harness.Site) time.Duration {
	path := s.Path("own")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.UnixListener).File()
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	binary, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Args = []string{child.Name, "serve", "3"}
	cmd.ExtraFiles, cmd.Stderr = []*os.File{file}, new(strings.Builder)
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	answerTime(b, path)
	took := time.Since(begin)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}
