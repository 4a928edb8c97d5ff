package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"superd/control"
)

// superdStub serves answers, by path, on the control socket of a new runtime directory.
func superdStub(t *testing.T, answers map[string]http.HandlerFunc) (runtimeDir string) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, control.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, answer := range answers {
		mux.HandleFunc(path, answer)
	}
	stub := &http.Server{Handler: mux}
	go func() { _ = stub.Serve(l) }()
	t.Cleanup(func() { stub.Close() })
	return dir
}

func fixed(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintln(w, body)
	}
}

// logLines answers with lines of logs, or with their blocks where they are requested.
func logLines(lines string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for sent := range strings.Lines(lines) {
			var line struct {
				Line  *string
				Bytes []byte
			}
			fields := map[string]any{}
			if err := errors.Join(json.Unmarshal([]byte(sent), &line), json.Unmarshal([]byte(sent), &fields)); err != nil {
				panic(err)
			}
			if line.Line == nil || r.FormValue("blocks") != "1" {
				fmt.Fprintln(w, strings.TrimSuffix(sent, "\n"))
				continue
			}
			text := line.Bytes
			if text == nil {
				text = []byte(*line.Line)
			}
			delete(fields, "line")
			delete(fields, "bytes")
			fields["length"] = len(text)
			head, _ := json.Marshal(fields)
			fmt.Fprintf(w, "%s\n%s\n", head, text)
		}
	}
}

const (
	upAndDown = `[{"name":"db","program":"db","groups":[],"state":"running","ready":true,"healthy":null,"pid":7,"since":"2026-11-21T07:20:45Z","uptime_s":1,"restarts":0,"exit":null,"next_start_in_s":null,"cpu_s":0.5,"rss_bytes":1048576,"log_file":"/l","last_line":"hello","reason":"started","status_text":null,"health_check":null},` +
		`{"name":"web","program":"web","groups":["g"],"state":"failed","ready":false,"healthy":null,"pid":null,"since":null,"uptime_s":null,"restarts":2,"exit":{"code":3,"signal":null,"at":"2026-11-21T07:20:45Z","known":true},"next_start_in_s":null,"cpu_s":null,"rss_bytes":null,"log_file":null,"last_line":null,"reason":"exit status 3","status_text":null,"health_check":null}]`
	onlyUp = `[{"name":"db","state":"running","pid":7}]`
)

func TestExitStatuses(t *testing.T) {
	dir := superdStub(t, map[string]http.HandlerFunc{
		"/v1/status": func(w http.ResponseWriter, r *http.Request) {
			switch r.FormValue("name") {
			case "db":
				fmt.Fprintln(w, onlyUp)
			case "nope":
				fixed(404, `{"error":"no program, instance or group is named \"nope\"","remedy":"did you mean \"db\"?"}`)(w, r)
			default:
				fmt.Fprintln(w, upAndDown)
			}
		},
		"/v1/programs/start":   fixed(200, `[{"name":"db","ok":true,"state":"running","message":"running, pid 7"}]`),
		"/v1/programs/restart": fixed(200, `[{"name":"db","ok":true,"state":"running","message":"fine"},{"name":"web","ok":false,"state":"failed","message":"exit status 3"}]`),
		"/v1/programs/stop":    fixed(504, `{"error":"not done within the timeout","remedy":"superd goes on with it"}`),
		"/v1/programs/signal":  fixed(400, `{"error":"unknown signal \"BOO\"","remedy":""}`),
		"/v1/reload":           fixed(422, `{"error":"a.toml:1:1: x: bad\na.toml:2:1: y: bad","remedy":"correct it","mistakes":[{},{}]}`),
		"/v1/tree":             fixed(200, `[]`),
		"/v1/config":           fixed(200, `[]`),
		"/v1/version":          fixed(200, `{"version":"1.2.3","commit":null,"pid":7,"keeper_pid":null,"uptime_s":61,"features":{"pidfs":true}}`),
		"/v1/logs":             logLines(`{"time":null,"instance":"db@1","line":"a line \u001b[2J","cursor":"db@1:r0.0"}`),
		"/v1/why":              fixed(200, `[{"name":"db@1","state":"running","text":"db@1 runs\n  | \u001b[2J\n"},{"name":"db@2","state":"stopped","text":"db@2 rests\n"}]`),
		"/v1/history":          fixed(200, `[{"name":"db","program":"db","run":"a","pid":7,"started_at":"2026-11-21T07:20:45Z","reason":"exit status 3","status_text":null,"health_check":null}]`),
		"/v1/events": func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("since") == "7" && r.FormValue("follow") == "1" {
				fmt.Fprintln(w, `{"cursor":8,"at":"2026-11-21T07:20:45Z","kind":"shutdown","reason":"SIGTERM","status_text":null,"health_check":null}`)
				return
			}
			fmt.Fprintln(w, `{"cursor":7,"at":"2026-11-21T07:20:45Z","kind":"reload","reason":"1 added","status_text":null,"health_check":null}`)
		},
	})
	files := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.toml", "[program.a]\ncommand = \"true\"\n")
	bad := write("bad.toml", "[program.a]\ncomand = \"true\"\n[program.b]\n")
	broken := write("broken.toml", "[superd]\nruntime_dir = \n")
	named := write("named.toml", fmt.Sprintf("[superd]\nruntime_dir = %q\n", dir))
	none := filepath.Join(files, "none")

	ctl := func(args ...string) []string { return append([]string{"ctl", "--runtime-dir", dir}, args...) }
	tests := []struct {
		args   []string
		want   int
		stdout string // must be contained
		stderr string // must be contained; "": no output at all
	}{
		{nil, 2, "", "Available Commands"},
		{[]string{"nonsense"}, 2, "", `unknown command "nonsense"`},
		{[]string{"ctl"}, 2, "", "Available Commands"},
		{[]string{"ctl", "nonsense"}, 2, "", `unknown command "nonsense"`},
		{[]string{"ctl", "status", "--nonsense"}, 2, "", "--nonsense"},
		{[]string{"--help"}, 0, "Available Commands", ""},
		{[]string{"version"}, 0, "superd devel", ""},
		{[]string{"version", "--features"}, 0, "pidfd\n", ""},
		{[]string{"version", "--json"}, 0, `"version":"devel"`, ""},
		{[]string{"check", "-c", good}, 0, "good.toml: 1 program, no mistakes\n", ""},
		{[]string{"check", "-c", bad}, 2, "", "2 mistakes"},
		{[]string{"check", "-c", none}, 2, "", "none"},
		{[]string{"check", "-c", none, "--json"}, 2, `"severity":"error"`, ""},
		{[]string{"check", "extra"}, 2, "", "extra"},
		{[]string{"run", "-c", good, "--log-level", "loud"}, 2, "", "loud"},

		{ctl("status"), 0, "exit status 3", ""},
		{ctl("status", "db", "--brief"), 0, "running", ""},
		{ctl("status", "db"), 0, "db", ""},
		{ctl("status", "web"), 3, "failed", ""},
		{ctl("status", "web", "--json"), 3, `"state":"failed"`, ""},
		{ctl("status", "nope"), 1, "", `did you mean "db"?`},
		{ctl("status", "--brief", "--watch"), 2, "", "--watch"},
		{ctl("start", "db"), 0, "db: running, pid 7\n", ""},
		{ctl("start"), 2, "", "missing NAME"},
		{ctl("restart", "db", "web"), 1, "db: fine\n", "web: exit status 3\n"},
		{ctl("stop", "web", "--timeout", "1s"), 1, "", "not done within the timeout"},
		{ctl("stop", "web", "--timeout", "-1s"), 2, "", "--timeout"},
		{ctl("signal", "BOO", "web"), 2, "", "BOO"},
		{ctl("signal", "HUP"), 2, "", "missing NAME"},
		{ctl("reload"), 2, "", "a.toml:2:1: y: bad\nsuperd: 2 mistakes: correct it"},
		{ctl("version"), 0, "superd 1.2.3, pid 7, up 1m1s\n+pidfs\n", ""},
		{ctl("version", "--json"), 0, `"pid":7`, ""},
		{ctl("logs", "db"), 0, "db@1 | a line \\x1b[2J\n", ""},
		{ctl("logs", "db", "--raw"), 0, "db@1 | a line \x1b[2J\n", ""},
		{ctl("logs", "db", "--json"), 0, `"instance":"db@1","line":"a line`, ""},
		{ctl("logs", "db", "--json", "--raw"), 2, "", "--raw"},
		{ctl("logs", "db", "-n", "some"), 2, "", `"some"`},
		{ctl("why", "db"), 0, "db@1 runs\n  | \\x1b[2J\n\ndb@2 rests\n", ""},
		{ctl("why", "db", "--json"), 0, `"state":"stopped"`, ""},
		{ctl("why"), 2, "", "missing NAME"},
		{ctl("history"), 0, "exit status 3\n", ""},
		{ctl("history", "db", "--json"), 0, `"pid":7`, ""},
		{ctl("events"), 0, "reload  1 added\n", ""},
		{ctl("events", "--json"), 0, `{"cursor":7,`, ""},
		{ctl("events", "-f", "--since", "7"), 0, "shutdown  SIGTERM\n", ""},
		{ctl("events", "-f", "--since", "7", "--json"), 0, `{"cursor":8,`, ""},
		{ctl("events", "--since", "-1"), 2, "", "--since"},
		{ctl("events", "-n", "few"), 2, "", `"few"`},
		{[]string{"ctl", "-c", named, "version"}, 0, "1.2.3", ""},
		{[]string{"ctl", "-c", broken, "version"}, 2, "", "--runtime-dir"},
		{[]string{"ctl", "-c", none, "version"}, 2, "", "none"},
		{[]string{"ctl", "--runtime-dir", none, "version"}, 4, "", "no superd answers on " + none + "/superd.sock: start one with `superd run`"},
		{[]string{"ctl", "--runtime-dir", none, "shutdown"}, 4, "", "no superd answers"},
		{[]string{"ctl", "--runtime-dir", "/" + strings.Repeat("x", 200), "status"}, 1, "", "choose a shorter runtime directory"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		got := run(t.Context(), tt.args, &stdout, &stderr)
		if got != tt.want || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) ||
			tt.stderr == "" && stderr.Len() > 0 {
			t.Errorf("superd %s: status %d, stdout %q, stderr %q\nwant %d, %q, %q", strings.Join(tt.args, " "), got, &stdout, &stderr, tt.want, tt.stdout, tt.stderr)
		}
		if n := strings.Count(stderr.String(), "\n"); n > 40 {
			t.Errorf("superd %s: %d lines of errors do not fit a screen", strings.Join(tt.args, " "), n)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "superd.toml")
	if err := os.WriteFile(path, []byte("[program.a]\ncommand = \"a ${UNSET_BY_THE_TEST}\"\n\n[program.b]\ncomand = \"b\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"check", "--json", "-c", path}, &stdout, &stderr); status != 2 {
		t.Errorf("check: status %d, want 2: %s", status, &stderr)
	}
	var got []control.Mistake
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	has := func(key, severity string, line int) bool {
		return slices.ContainsFunc(got, func(m control.Mistake) bool {
			return m.File == path && m.Line == line && m.Column > 0 && m.Key == key && m.Severity == severity && m.Message != ""
		})
	}
	if !has("program.b.comand", "error", 5) || !has("program.a.command", "warning", 2) {
		t.Errorf("check --json: %s\nwant an error of program.b.comand in line 5, a warning of program.a.command in line 2", &stdout)
	}
}

func TestCheckJSONIsAnArrayWithoutMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "superd.toml")
	if err := os.WriteFile(path, []byte("[program.a]\ncommand = \"true\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"check", "--json", "-c", path}, &stdout, &stderr); status != 0 || stdout.String() != "[]\n" {
		t.Errorf("check: status %d, %q, want 0 and []", status, &stdout)
	}
}

func TestNamesComplete(t *testing.T) {
	dir := superdStub(t, map[string]http.HandlerFunc{"/v1/status": fixed(200, onlyUp)})
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"__complete", "ctl", "--runtime-dir", dir, "stop", ""}, &stdout, &stderr)
	if !strings.HasPrefix(stdout.String(), "db\trunning\n") {
		t.Errorf("completion is %q, want db", &stdout)
	}
	stdout.Reset()
	run(t.Context(), []string{"__complete", "ctl", "--runtime-dir", dir, "scale", ""}, &stdout, &stderr)
	if !strings.HasPrefix(stdout.String(), "db=\n") {
		t.Errorf("completion of scale is %q, want db=", &stdout)
	}
}

// TestUpgradeIfRunning: what installs a package need not know whether superd runs.
func TestUpgradeIfRunning(t *testing.T) {
	for args, want := range map[string]int{"--if-running": 0, "--if-running=false": statusNoSuperd} {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), []string{"ctl", "--runtime-dir", t.TempDir(), "upgrade", args}, &stdout, &stderr); got != want {
			t.Errorf("upgrade %s without a superd: status %d, want %d: %s", args, got, want, &stderr)
		}
	}
}

func TestPrintedLogs(t *testing.T) {
	const all = `[{"name":"a","state":"running","pid":1},{"name":"long","state":"stopped","pid":null}]`
	const lines = `{"instance":"a","cursor":"a:n0.0.0"}
{"time":"2026-11-21T07:20:45.250123Z","instance":"a","stream":"stdout","partial":true,"line":"a\u001b[2J","cursor":"a:r1.0"}
{"time":null,"instance":"long","stream":null,"partial":false,"line":"three","cursor":"long:r1.0"}
{"time":null,"instance":"a","note":"3 bytes are missing","lost_bytes":3,"cursor":"a:r1.0"}
{"time":null,"instance":"a","stream":null,"partial":true,"line":"\ufffd","bytes":"/w==","cursor":"a:r1.0"}
`
	const head = `{"time":"2026-11-21T07:20:45.250123Z","instance":"a","stream":"stdout","partial":true,`
	pieces := head + `"line":"one","cursor":"a:r1.0"}` + "\n" + head + `"continued":true,"line":" whole","cursor":"a:r1.0"}` + "\n" +
		head + `"line":"two","cursor":"a:r1.0"}` + "\n" + strings.Replace(head, "stdout", "stderr", 1) + `"line":"three","cursor":"a:r1.0"}` + "\n"
	tests := []struct {
		name, status, lines string
		args                []string
		want                string
	}{
		{"several", all, lines, nil, "a    | 2026-11-21T07:20:45.250123Z stdout+ a\\x1b[2J\nlong | three\na    | \\xff\n"},
		{"without times", all, lines, []string{"--times=false"}, "a    | a\\x1b[2J\nlong | three\na    | \\xff\n"},
		{"several, raw", all, lines, []string{"--raw"}, "a    | a\x1b[2J\nlong | three\na    | \xff\n"},
		{"one, and another that comes", `[{"name":"a","state":"running","pid":1}]`, lines, nil,
			"2026-11-21T07:20:45.250123Z stdout a\\x1b[2J\nlong | three\na    | \\xff\n"},
		{"one, raw", `[{"name":"a","state":"running","pid":1}]`, strings.ReplaceAll(lines, "long", "a"), []string{"--raw"}, "a\x1b[2Jthree\n\xff"},
		{"a line in pieces", `[{"name":"a","state":"running","pid":1}]`, pieces, nil,
			"2026-11-21T07:20:45.250123Z stdout one whole\n2026-11-21T07:20:45.250123Z stdout two\n2026-11-21T07:20:45.250123Z stderr three\n"},
		{"pieces that match", `[{"name":"a","state":"running","pid":1}]`, pieces, []string{"--grep", "o"},
			"2026-11-21T07:20:45.250123Z stdout+ one whole\n2026-11-21T07:20:45.250123Z stdout+ two\n2026-11-21T07:20:45.250123Z stderr+ three\n"},
		{"pieces that match, raw", `[{"name":"a","state":"running","pid":1}]`, pieces, []string{"--grep", "o", "--raw"}, "one whole\ntwo\nthree"},
	}
	for _, tt := range tests {
		dir := superdStub(t, map[string]http.HandlerFunc{"/v1/status": fixed(200, tt.status), "/v1/logs": logLines(tt.lines)})
		var stdout, stderr bytes.Buffer
		args := append([]string{"ctl", "--runtime-dir", dir, "logs", "*"}, tt.args...)
		if status := run(t.Context(), args, &stdout, &stderr); status != 0 || strings.Contains(tt.lines, "missing") != (stderr.String() == "superd: a: 3 bytes are missing\n") {
			t.Errorf("%s: status %d, stderr %q", tt.name, status, &stderr)
		}
		if stdout.String() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, &stdout, tt.want)
		}
	}
}
