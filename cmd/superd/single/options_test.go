//go:build linux

package single

import (
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestConcerns(t *testing.T) {
	tests := []struct {
		args string
		want bool
	}{
		{"superd", false},
		{"superd run", false},
		{"superd run web.toml", false},
		{"superd run -- true", true},
		{"superd run --", true}, // the mistake is told
		{"superd run -g -v -- true", true},
		{"superd ctl exec web -- true", false},
		{"/usr/bin/tini true", true},
		{"dumb-init", true},
		{"/sbin/docker-init -- true", true},
	}
	for _, tt := range tests {
		if got := Concerns(strings.Fields(tt.args)); got != tt.want {
			t.Errorf("Concerns(%s) = %v, want %v", tt.args, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, args, env string
		want            func(o *options)
	}{
		{"a command", "superd run -- true -v", "", func(*options) {}},
		{"a command that is named like the end of the flags", "superd run -- -- true -v", "", func(o *options) { o.command = []string{"--", "true", "-v"} }},
		{"all flags of tini", "superd run -gsw -v -p USR1 -e 3 -e143 -- true -v", "", func(o *options) {
			o.group, o.subreaper, o.warnReaps, o.verbosity, o.death, o.expected = true, true, true, 2, syscall.SIGUSR1, []int{3, 143}
		}},
		{"rewritten signals", "superd run --rewrite 15:3 --rewrite=INT:0 -r HUP:TERM -- true -v", "", func(o *options) {
			o.rewrite = map[syscall.Signal]syscall.Signal{15: 3, 2: 0, 1: 15}
		}},
		{"the command only", "superd run -g --single-child -- true -v", "", func(*options) {}},
		{"help", "superd run -h -- true -v", "", func(o *options) { o.command, o.help = []string{"true", "-v"}, true }},
		{"tini without --", "tini -s true -v", "", func(o *options) { o.style, o.name, o.subreaper = styleTini, "tini", true }},
		{"tini by its environment", "/x/tini true -v", "TINI_SUBREAPER= TINI_KILL_PROCESS_GROUP=1 TINI_VERBOSITY=3", func(o *options) {
			o.style, o.name, o.subreaper, o.group, o.verbosity = styleTini, "tini", true, true, 3
		}},
		{"a command of tini that is called --version", "tini --version true", "", nil},
		{"dumb-init", "dumb-init true -v", "", func(o *options) { o.style, o.name, o.session, o.verbosity = styleDumbInit, "dumb-init", true, 0 }},
		{"dumb-init by its environment", "dumb-init -- true -v", "DUMB_INIT_DEBUG=1 DUMB_INIT_SETSID=0", func(o *options) {
			o.style, o.name, o.verbosity = styleDumbInit, "dumb-init", 3
		}},
		{"dumb-init in debugging", "dumb-init -v --single-child true -v", "", func(o *options) { o.style, o.name, o.verbosity = styleDumbInit, "dumb-init", 3 }},
	}
	for _, tt := range tests {
		env := strings.Fields(tt.env)
		got, err := parse(strings.Fields(tt.args), env)
		if tt.want == nil {
			if err == nil {
				t.Errorf("%s: parse(%s) = %+v, want an error", tt.name, tt.args, got)
			}
			continue
		}
		want := options{style: styleSuperd, name: "superd", command: []string{"true", "-v"}, env: env, verbosity: 1, rewrite: map[syscall.Signal]syscall.Signal{}}
		tt.want(&want)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: parse(%s) = %+v, %v, want %+v", tt.name, tt.args, got, err, want)
		}
	}
}

func TestParseMistakes(t *testing.T) {
	tests := []struct{ args, want string }{
		{"superd run --", "no command: name one, with its arguments"},
		{"superd run web.toml -- true", `"web.toml" is no flag: with -- the command follows that, and there is no file`},
		{"superd run -x -- true", "unknown flag -x"},
		{"superd run --config x -- true", "unknown flag --config"},
		{"superd run -g: -- true", "unknown flag -:"},
		{"superd run -e 256 -- true", `flag -e: "256" is no exit status: write 0 to 255`},
		{"superd run -p NONE -- true", "flag -p: unknown signal"},
		{"superd run -r 15 -- true", `flag -r: "15" is not FROM:TO`},
		{"superd run -r 0:15 -- true", `flag -r: "0:15" is not FROM:TO`},
		{"superd run -r 15:32 -- true", `flag -r: "15:32" is not FROM:TO`},
		{"superd run --verbose=2 -- true", "the flag --verbose has no value"},
		{"tini -r 15:3 true", "unknown flag -r"},
		{"tini --verbose true", "unknown flag --verbose"},
		{"tini", "no command"},
		{"tini -e", "the flag -e needs a value"},
		{"dumb-init --rewrite", "the flag --rewrite needs a value"},
		{"dumb-init -g true", "unknown flag -g"},
	}
	for _, tt := range tests {
		if _, err := parse(strings.Fields(tt.args), nil); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("parse(%s) gives the error %v, want %s", tt.args, err, tt.want)
		}
	}
	if _, err := parse([]string{"tini", "true"}, []string{"TINI_VERBOSITY=much"}); err == nil {
		t.Error("TINI_VERBOSITY=much is no mistake")
	}
}

// TestPreemption: the command gets the environment that superd was started with.
func TestPreemption(t *testing.T) {
	for _, env := range [][]string{{"A=1"}, {"A=1", "GODEBUG=x=1", "B=2"}, {"GODEBUG="}, {"GODEBUG=asyncpreemptoff=1"}} {
		inner := withoutPreemption(env)
		if !strings.Contains(strings.Join(inner, " "), "GODEBUG="+noPreemption) {
			t.Errorf("withoutPreemption(%q) = %q", env, inner)
		}
		if got := withPreemption(inner); !reflect.DeepEqual(got, env) {
			t.Errorf("withPreemption(%q) = %q, want %q", inner, got, env)
		}
	}
}

func TestPlan(t *testing.T) {
	for _, c := range []childPlan{{}, {style: styleDumbInit, terminal: true, ignored: []syscall.Signal{1, 22}}} {
		args := c.args([]string{"a", "b"})
		if got, ok := parsePlan(args[1]); !ok || !reflect.DeepEqual(got, c) {
			t.Errorf("parsePlan(%s) = %+v, %v, want %+v", args[1], got, ok, c)
		}
	}
	for _, text := range []string{"", "1", "1,perhaps", "x,true", "1,true,x"} {
		if _, ok := parsePlan(text); ok {
			t.Errorf("parsePlan(%s) succeeds", text)
		}
	}
}
