package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	base := []string{
		"PATH=/bin", "HOME=/root", "PATH=/second", "NOTIFY_SOCKET=x", "LISTEN_FDS=1", "WATCHDOG_USEC=1", "INVOCATION_ID=1",
		"JOURNAL_STREAM=1", "SUPERD_RUNTIME_DIR=/run/x", "broken", "EMPTY=",
	}
	identity := map[string]string{"HOME": "/home/web", "USER": "web", "SUPERD_INSTANCE": "web@2"}
	envFile := map[string]string{"FROM_FILE": "file", "BOTH": "file", "USER": "file", "SUPERD_NAME": "forged"}
	tests := []struct {
		name, text string
		argv, env  []string
		dir, err   string
	}{
		{
			name: "all layers, the later one wins",
			text: `command = ["x"]
				environment = { BOTH = "own", PATH = "/opt:${PATH}" }`,
			argv: []string{"x"},
			env:  []string{"BOTH=own", "EMPTY=", "FROM_FILE=file", "HOME=/home/web", "PATH=/opt:/bin", "USER=file"},
			dir:  "/etc/superd",
		},
		{
			name: "a clean environment",
			text: `command = ["x"]
				inherit_environment = false`,
			argv: []string{"x"},
			env:  []string{"BOTH=file", "FROM_FILE=file", "HOME=/home/web", "USER=file"},
			dir:  "/etc/superd",
		},
		{
			name: "references that refer to each other",
			text: `command = "x ${A} '${A}' ${EMPTY:-d} ${NONE:-d$$} $${A} ${EMPTY} ${SUPERD_INSTANCE} a${B}b"
				directory = "${HOME}/$$x"
				inherit_environment = true
				environment = { A = "${B} ${C}", B = "b", C = "${B}${B}" }`,
			argv: []string{"x", "b bb", "${A}", "d", "d$", "${A}", "", "web@2", "abb"},
			env:  []string{"A=b bb", "B=b", "BOTH=file", "C=bb", "EMPTY=", "FROM_FILE=file", "HOME=/home/web", "PATH=/bin", "USER=file"},
			dir:  "/home/web/$x",
		},
		{
			name: "unset variables are named with their keys, each once",
			text: `command = ["x", "${NONE}", "${A}", "${NONE}"]
				directory = "${NOWHERE}"
				environment = { A = "${X} ${Y}" }`,
			err: "expand command: ${NONE} is not set: set it in environment or env_file, or write ${NONE:-default}; " +
				"expand environment.A: ${X} and ${Y} are not set: set it in environment or env_file, or write ${X:-default}; " +
				"expand directory: ${NOWHERE} is not set: set it in environment or env_file, or write ${NOWHERE:-default}",
		},
		{
			name: "a directory that is not absolute in the end",
			text: `command = "x"
				directory = "${USER}"`,
			err: `expand directory: "file" is not an absolute path`,
		},
		{
			name: "an empty name",
			text: `command = ["${EMPTY}"]`,
			err:  "expand command: the name of the program is empty",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program(t, "[program.web]\n"+tt.text)
			argv, env, dir, err := p.Resolve(Inherited(base), nil, identity, envFile)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("resolve gives error\n%v\nwant\n%s", err, tt.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(argv, tt.argv) || !reflect.DeepEqual(env, tt.env) || dir != tt.dir {
				t.Errorf("resolve gives\n%q\n%q\n%q, %v\nwant\n%q\n%q\n%q", argv, env, dir, err, tt.argv, tt.env, tt.dir)
			}
		})
	}
}

func TestResolveOfReferencesInACircle(t *testing.T) {
	p := &Program{Command: []string{"x"}, Environment: map[string]string{"A": "${B}", "B": "${C}", "C": "${A:-x}"}, Settings: &Settings{Directory: "/"}}
	_, _, _, err := p.Resolve(nil, nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "expand environment.A: refers to itself by way of ${C}") {
		t.Errorf("resolve gives error %v", err)
	}
}

func TestResolveIsBounded(t *testing.T) {
	p := &Program{Command: []string{"x"}, Environment: map[string]string{"V0": "xxxxxxxx"}, Settings: &Settings{Directory: "/"}}
	for i := range 60 {
		p.Environment[fmt.Sprintf("V%d", i+1)] = fmt.Sprintf("${V%d}${V%d}", i, i)
	}
	_, _, _, err := p.Resolve(nil, nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "is longer than 131071 bytes once expanded") {
		t.Errorf("resolve gives error %.200v", err)
	}
}

func TestReadEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.env")
	text := "\ufeff# comment\r\n\r\n  \nA=1\nexport B=two words # no comment\nC='single \"$x\" \\n' # comment\n" +
		"D=\"double \\\" \\\\ \\$x \\` \\n\"\nE=\nF = padded\nA=2\nexport=3\nG==x\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadEnvFile(path)
	want := map[string]string{
		"A": "2", "B": "two words # no comment", "C": `single "$x" \n`, "D": "double \" \\ $x ` \\n", "E": "", "export": "3", "G": "=x",
	}
	if err == nil || !strings.Contains(err.Error(), `:9:1: "F " is not the name of a variable`) {
		t.Errorf("a blank before = gives error %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, "F = padded\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadEnvFile(path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadEnvFile = %q, %v\nwant %q", got, err, want)
	}
}

func TestReadEnvFileMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.env")
	if err := os.WriteFile(path, []byte("A=1\nB\n=x\nC=\"x\nD='x' y\nE F=1\nG=a\x00b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadEnvFile(path)
	want := strings.ReplaceAll(`P:2:1: "B" has no "=": write KEY=VALUE, and # before a comment
P:3:1: a variable needs a name: write KEY=VALUE
P:4:1: the quote before "x" is not closed on its line
P:5:1: "y" follows the closing quote: put all of the value in quotes
P:6:1: "E F" is not the name of a variable: use letters, digits and _
P:7:1: the value of G contains a NUL byte`, "P", path)
	if err == nil || err.Error() != want {
		t.Errorf("ReadEnvFile gives\n%v\nwant\n%s", err, want)
	}
	if _, err := ReadEnvFile(path + "x"); !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), ": read env file: no such file or directory") {
		t.Errorf("a missing file gives error %v", err)
	}
}

// BenchmarkResolve is what each start does for arguments and environment.
func BenchmarkResolve(b *testing.B) {
	p := DefaultProgram("web")
	p.Command, p.Directory, p.Environment = []string{"web", "--port", "${PORT}"}, "/", map[string]string{"PORT": "8080"}
	var base []string
	for i := range 25 {
		base = append(base, fmt.Sprintf("VARIABLE_%d=%d", i, i))
	}
	var run Variables
	run.Set("SUPERD_NAME", "web")
	run.Set("SUPERD_INSTANCE", "web")
	inherited := Inherited(base)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := p.Resolve(inherited, run, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
