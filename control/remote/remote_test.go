package remote

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/control"
)

// fakeSSH returns a program in place of ssh that runs the script.
func fakeSSH(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// patience is a time that only a defect takes.
const patience = time.Minute

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "admin@a.example", "::1", "a-b"} {
		if err := CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
	for _, name := range []string{"", "-oProxyCommand=x", "a b", "a\nb", "a\tb"} {
		if CheckName(name) == nil {
			t.Errorf("CheckName(%q) accepts it", name)
		}
	}
}

// TestDial: what is written reaches the other side and back, with the arguments as they are.
func TestDial(t *testing.T) {
	awkward := `it's "$HOME" *`
	h := Host{Name: "box", Timeout: patience, Args: []string{"--runtime-dir", awkward}, SSH: fakeSSH(t, `
while [ "$1" != -- ]; do shift; done
[ "$2" = box ] || exit 9
shift 2
superd() { printf 'superd proxy 1\n'; for word; do printf '%s\n' "$word"; done; exec cat; }
eval "$*"`)}
	c, err := h.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		t.Fatal(err)
	}
	want := "ctl\nproxy\n--runtime-dir\n" + awkward + "\nping\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if err := c.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read after its deadline: %v", err)
	}
}

// TestDialFails: the error says which part of the way failed, and nothing is left behind.
func TestDialFails(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"ssh fails", "echo noise >&2; echo 'ssh: connect: Connection refused' >&2; exit 255", "connect to box: ssh: connect: Connection refused"},
		{"ssh fails silently", "exit 255", "connect to box: ssh failed"},
		{"no superd in the PATH", "echo 'sh: 1: superd: not found' >&2; exit 127", "connect to box: superd is not in its PATH: sh: 1: superd: not found"},
		{"another status", "exit 3", "connect to box: exit status 3"},
		{"a greeting of the shell", "echo Welcome; exec cat", `connect to box: unexpected output: "Welcome\n": does its shell print something at its start?`},
		{"the end of the greeting is missing", "printf 'superd pr'; exit 0", "connect to box: exit status 0"},
		{"a long complaint", "yes complaint | head -n 10000 >&2; echo 'superd: the last line' >&2; exit 1", "connect to box: the last line"},
	} {
		h := Host{Name: "box", Timeout: patience, SSH: fakeSSH(t, tt.script)}
		if c, err := h.Dial(t.Context()); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, %v, want error %s", tt.name, c, err, tt.want)
		}
	}
	none := Host{Name: "box", Timeout: patience, SSH: fakeSSH(t, "echo 'superd: "+control.ErrNoSuperd.Error()+" on /run/x' >&2; exit 4")}
	if _, err := none.Dial(t.Context()); !errors.Is(err, control.ErrNoSuperd) || !strings.HasSuffix(err.Error(), " on /run/x") {
		t.Errorf("no superd answers there: %v", err)
	}
	missing := Host{Name: "box", Timeout: patience, SSH: filepath.Join(t.TempDir(), "none")}
	if _, err := missing.Dial(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without ssh: %v", err)
	}
	slow := Host{Name: "box", Timeout: 50 * time.Millisecond, SSH: fakeSSH(t, "exec sleep 1000")}
	if _, err := slow.Dial(t.Context()); err == nil || err.Error() != "connect to box: no answer within 50ms" {
		t.Errorf("a host that hangs: %v", err)
	}
}
