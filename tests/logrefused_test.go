package tests

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// TestLogThatRefusesWrites: if one file can't be written, superd does not take the system call for
// refused: other logs are written as before.
func TestLogThatRefusesWrites(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "while read x; do echo $x; done < DIR/steps"]
		`)
	step := s.Steps("steps")
	d := s.Start()
	step("one")
	s.WaitLog("web", "one\n")
	log, err := os.Open(s.Path("log/web.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	immutable := func(flag int) error {
		return unix.IoctlSetPointerInt(int(log.Fd()), unix.FS_IOC_SETFLAGS, flag)
	}
	const flag = 0x10 // FS_IMMUTABLE_FL
	if err := immutable(flag); err != nil {
		t.Skip("no immutable files here:", err)
	}
	defer immutable(0)
	step("two")
	s.WaitStatus("web", "can't be logged", func(st harness.Status) bool {
		return st.LogOutage != nil && strings.Contains(st.LogOutage.Reason, "operation not permitted")
	})
	if err := immutable(0); err != nil {
		t.Fatal(err)
	}
	s.WaitLog("web", "one\ntwo\n")
	if text := d.ErrOut.String(); strings.Contains(text, "a system call is refused") {
		t.Errorf("superd reports a call that is not refused:\n%s", text)
	}
}

// TestLogsWhereCallsAreRefused: where the kernel refuses the calls that move output inside it,
// superd reads and writes it instead: no byte is lost or repeated, no program waits.
func TestLogsWhereCallsAreRefused(t *testing.T) {
	t.Parallel()
	const lines = 20_000
	var numbers strings.Builder
	for i := range lines {
		fmt.Fprintln(&numbers, i)
	}
	want := numbers.String() + "no end"
	for _, tt := range []struct{ calls, errno string }{{"splice", "EPERM"}, {"tee", "ENOSYS"}, {"splice,tee", "EPERM"}, {"splice,tee", "ENOSYS"}} {
		t.Run(tt.calls+" "+tt.errno, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, "")
			conf := ""
			for name, keys := range map[string]string{
				"raw": "", "rotated": "max_size = '16KB', keep = 1000", "text": "format = 'text'", "drop": "overflow = 'drop'",
			} {
				conf += fmt.Sprintf("[program.%s]\ncommand = ['cat', 'DIR/numbers']\nrestart = 'never'\nlog = { stderr = 'merge', %s }\n", name, keys)
			}
			s.Configure(strings.ReplaceAll(conf, ",  }", " }"))
			s.Write("numbers", want)
			d := s.Start(harness.Refusing(tt.calls, tt.errno))
			s.WaitAll("has ended", func(st harness.Status) bool { return st.State == "exited" || st.State == "stopped" })
			d.Signal(syscall.SIGTERM)
			d.Wait()
			for _, name := range []string{"raw", "rotated", "drop", "text"} {
				var got strings.Builder
				for _, file := range s.Files("log/" + name + ".log*") {
					if file != "log/"+name+".log" {
						got.WriteString(s.Read(file))
					}
				}
				text := got.String() + s.Log(name)
				if name == "text" {
					text = linesOfText(text)
				}
				if text != want {
					t.Errorf("the log of %s has %d bytes, want %d, and its end is %.80q", name, len(text), len(want), text[max(0, len(text)-40):])
				}
			}
			for _, call := range strings.Split(tt.calls, ",") {
				if n := strings.Count(d.ErrOut.String(), "call="+call); n > 1 {
					t.Errorf("superd reported %d times that %s is refused, want once", n, call)
				}
			}
			if !strings.Contains(d.ErrOut.String(), "a system call is refused") {
				t.Error("superd did not report the call that is refused")
			}
		})
	}
}

// linesOfText returns the output in records of the format text; the last line has no newline.
func linesOfText(records string) string {
	var b strings.Builder
	for record := range strings.Lines(records) {
		fields := strings.SplitN(strings.TrimSuffix(record, "\n"), " ", 3)
		b.WriteString(fields[len(fields)-1])
		if len(fields) == 3 && fields[1] == "stdout" {
			b.WriteByte('\n')
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
