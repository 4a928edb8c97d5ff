package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"superd/config/environ"
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
			name: "words",
			text: `command = ["x", "$OPTIONS", "$EMPTY", "$UNSET", "$$OPTIONS", "-$OPTIONS", "${OPTIONS}", "$1"]
				environment = { OPTIONS = "-u '${USER} x' \"\" $$HOME" }`,
			argv: []string{"x", "-u", "file x", "", "$HOME", "$OPTIONS", "-$OPTIONS", `-u 'file x' "" $HOME`, "$1"},
			env:  []string{"BOTH=file", "EMPTY=", "FROM_FILE=file", "HOME=/home/web", `OPTIONS=-u 'file x' "" $HOME`, "PATH=/bin", "USER=file"},
			dir:  "/etc/superd",
		},
		{
			name: "words of a command in one string",
			text: `command = "x $EMPTY $USER '$USER' $USER\"\" x$USER \"$USER\""`,
			argv: []string{"x", "file", "$USER", "$USER", "x$USER", "$USER"},
			env:  []string{"BOTH=file", "EMPTY=", "FROM_FILE=file", "HOME=/home/web", "PATH=/bin", "USER=file"},
			dir:  "/etc/superd",
		},
		{
			name: "words that can't be split",
			text: `command = "x $OPTIONS"
				environment = { OPTIONS = "it's" }`,
			err: "expand command: split $OPTIONS into words: the single quote at byte 3 is not closed: correct its value, or write ${OPTIONS} for one argument",
		},
		{
			name: "sums",
			text: `command = ["x", "--port=${7999+N}", "${100+10*N}x"]
				environment = { N = "2", PORT = "${0+M}", M = "-3" }`,
			argv: []string{"x", "--port=8001", "120x"},
			env:  []string{"BOTH=file", "EMPTY=", "FROM_FILE=file", "HOME=/home/web", "M=-3", "N=2", "PATH=/bin", "PORT=-3", "USER=file"},
			dir:  "/etc/superd",
		},
		{
			name: "a sum of no number",
			text: `command = ["x", "${1+USER}", "${1+NONE}"]`,
			err: `expand command: USER is "file", which is no integer to calculate with; ` +
				"expand command: ${NONE} is not set: set it in environment or env_file, or write ${NONE:-default}",
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
			argv, env, dir, err := p.Resolve(environ.Inherited(base), nil, identity, envFile)
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
	if err == nil || !strings.Contains(err.Error(), "expand environment.A: refers to itself through ${C}") {
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

// BenchmarkResolve measures what each start does for arguments and environment.
func BenchmarkResolve(b *testing.B) {
	p := DefaultProgram("web")
	p.Command, p.Directory, p.Environment = []string{"web", "--port", "${PORT}"}, "/", map[string]string{"PORT": "8080"}
	var base []string
	for i := range 25 {
		base = append(base, fmt.Sprintf("VARIABLE_%d=%d", i, i))
	}
	var run environ.Variables
	run.Set("SUPERD_NAME", "web")
	run.Set("SUPERD_INSTANCE", "web")
	inherited := environ.Inherited(base)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := p.Resolve(inherited, run, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
