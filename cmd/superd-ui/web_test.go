package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWebFlags: flags are checked as the table [web] is, before a token is made.
func TestWebFlags(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "superd.toml")
	if err := os.WriteFile(conf, []byte("[program.a]\ncommand = 'true'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	for _, tt := range []struct {
		flag, value, want string
		usage             bool
	}{
		{"--allow-host", "foo:9001", `must be the name of a host, got "foo:9001"`, true},
		{"--allow-host", "https://foo", "must be the name of a host", true},
		{"--listen", "foo", "write HOST:PORT", true},
		{"--listen", "0.0.0.0:0", "others could read the token", false},
	} {
		cmd := newWebCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetErr(io.Discard)
		cmd.SetArgs([]string{"-c", conf, "--runtime-dir", dir, "--token-file", token, tt.flag, tt.value})
		err := cmd.ExecuteContext(t.Context())
		if _, usage := errors.AsType[usageError](err); err == nil || usage != tt.usage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %q", tt.flag, tt.value, err, tt.want)
		}
		if _, err := os.Stat(token); err == nil {
			t.Errorf("%s %s: a token is made", tt.flag, tt.value)
		}
	}
}
