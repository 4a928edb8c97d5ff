package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOdd imports files as editors, other systems and mistakes leave them. Nothing of them is lost
// without a note.
func TestOdd(t *testing.T) {
	const mark = "\ufeff"
	tests := []struct {
		name, format string
		files        []sourceFile
		want         []string // in the configuration with its notes, or in the error
		not          string
	}{
		{"a byte order mark", "procfile", []sourceFile{{"Procfile", mark + "web: serve\r\nworker: work\r\n"},
			{".env", mark + "A=1\r\nB=2\r\n C=3\nD = 4\nE=5 \nF\n"}}, []string{"[program.web]\ncommand     = \"serve\"", "[program.worker]",
			"Procfile:1: foreman ignores the line, since a byte order mark", ".env:1: foreman ignores the line, since a byte order mark stands before it: superd reads it",
			".env:3: foreman ignores the line, since it has blanks", ".env:4: foreman ignores the line, since it has blanks",
			".env:5: E: foreman keeps the blanks at the end", ".env:6: foreman ignores the line, and superd refuses the file"}, ".env:2"},
		{"no command", "procfile", []sourceFile{{"Procfile", "a:  \nb: x\n"}}, []string{"Procfile:1: a: it has no command"}, "[program.a]"},
		{"a continued line", "procfile", []sourceFile{{"Procfile", "a: x \\\n  y\n"}}, []string{
			"Procfile:1: a: a Procfile has no continued lines", "Procfile:2: foreman ignores the line"}, ""},
		{"a byte order mark", "systemd", []sourceFile{{"web.service", mark + "[Service]\r\nExecStart=/bin/x \\\r\n  1\r\n"}},
			[]string{`command = "/bin/x 1"`}, "ignores"},
		{"values that are none", "systemd", []sourceFile{{"web.service", "[Service]\nExecStart=/x\nRestart=sometimes\n" +
			"KillMode=gently\nRestartSec=soon\nWatchdogSec=later\n"}}, []string{
			`web.service:3: Service.Restart: systemd ignores it: "sometimes" is no policy`,
			`Service.KillMode: systemd ignores it: "gently" is no mode`, `Service.RestartSec: systemd ignores it: "soon"`,
			`Service.WatchdogSec: systemd ignores it: "later"`}, `restart = "on-failure"`},
		{"half a header", "systemd", []sourceFile{{"web.service", "[Service]\nExecStart=/x\n[Install\nNice=5\n"}},
			[]string{`web.service:3: systemd refuses the unit: "[Install" does not end with ]`}, ""},
		{"two commands", "systemd", []sourceFile{{"web.service", "[Service]\nExecStart=/a\nExecStart=/b\n"}},
			[]string{`command = "/b"`, "web.service:3: Service.ExecStart: systemd refuses the unit"}, ""},
		{"drop-ins of prefixes and of all services", "systemd", []sourceFile{
			{"a-b-c.service", "[Service]\nExecStart=/x\n"}, {"a-b-c.service.d/2.conf", "[Service]\nNice=1\n"},
			{"a-b-.service.d/1.conf", "[Service]\nUser=u\n"}, {"a-.service.d/2.conf", "[Service]\nNice=2\n"},
			{"service.d/3.conf", "[Service]\nUMask=077\n"}}, []string{`umask   = "077"`, "nice    = 1", `user    = "u"`}, "nice = 2"},
		{"a key that is there twice", "compose", []sourceFile{{"compose.yaml", "services:\n  a: {command: x}\n  a: {command: y}\n"}},
			[]string{`line 3: "a" is there already, in line 2`}, ""},
		{"a second document", "compose", []sourceFile{{"compose.yaml", "services:\n  a: {command: x}\n---\nservices:\n  b: {}\n"}},
			[]string{"compose.yaml:3: compose merges this document"}, ""},
		{"values as Go prints them", "compose", []sourceFile{{"compose.yaml", "services:\n  a:\n    command: x\n    environment: " +
			"{A: 0755, B: 1.50, C: True, D: '0755', E: yes, F: 0x10}\n"}}, []string{`A = "493"`, `B = "1.5"`, `C = "true"`,
			`D = "0755"`, `E = "yes"`, `F = "16"`}, ""},
		{"merges and anchors", "compose", []sourceFile{{"compose.yaml", "x-a: &a {command: x, environment: &e {A: 1, B: 2}}\n" +
			"services:\n  a:\n    <<: *a\n    environment:\n      <<: *e\n      B: 3\n"}},
			[]string{`environment = { B = "3", A = "1" }`}, ""},
		{"an alias to itself", "compose", []sourceFile{{"compose.yaml", "services:\n  a: &a\n    command: x\n    environment: *a\n"}},
			[]string{"line 2: what it stands for contains itself"}, ""},
		{"aliases without end", "compose", []sourceFile{{"compose.yaml", bomb(40)}}, []string{"its aliases stand for too much"}, ""},
		{"a reference that superd has not", "compose", []sourceFile{{"compose.yaml", "services:\n  a:\n    command: x ${A:+b}\n"}},
			[]string{"services.a.command: superd has no ${A:+b}"}, ""},
		{"nothing to run", "compose", []sourceFile{{"compose.yaml", "services:\n  a: null\n  b: {command: x}\n"}},
			[]string{"compose.yaml:2: services.a: compose refuses it: it has no image"}, ""},
		{"tabs", "compose", []sourceFile{{"compose.yaml", "services:\n\ta:\n"}}, []string{"compose.yaml: yaml: line 2"}, ""},
		{"a command beats an entrypoint", "process-compose", []sourceFile{{"process-compose.yaml",
			"processes:\n  a: {entrypoint: [b], command: c}\n  d e: {command: x}\n"}}, []string{`command = "c"`,
			"processes.a.entrypoint: process-compose ignores it", `processes.d e: the program is "d-e"`}, ""},
		{"a second document", "process-compose", []sourceFile{{"process-compose.yaml", "processes:\n  a: {command: b}\n---\nx: y\n"}},
			[]string{"process-compose.yaml:3: process-compose reads the first document only"}, ""},
		{"a byte order mark", "pm2", []sourceFile{{"pm2.json", mark + "{\"apps\":\r\n[{\"script\": \"a.js\"}]}\r\n"}},
			[]string{`command = "node a.js"`}, ""},
		{"numbers, escapes and keys that are there twice", "pm2", []sourceFile{{"ecosystem.config.js", "module.exports = {apps: {" +
			"name: 'a', script: 'x\\u{41}', name: 'b', env: {A: 0x10, B: 1.50, C: -0.5, D: 1_000, E: undefined}, autostart: false}};;\n"}},
			[]string{"[program.b]", `command     = "xA"`, `environment = { A = "16", B = "1.5", C = "-0.5", D = "1000" }`,
				"autostart   = false"}, ""},
		{"what is no app", "pm2", []sourceFile{{"pm2.json", `{"apps": [{"script": "a.js"}, "b.js", {"name": "c"}]}`}},
			[]string{"apps[1]: it is no object", "apps[2]: it has no script"}, ""},
		{"YAML", "pm2", []sourceFile{{"ecosystem.yml", "apps:\n  # serves\n  - script: a.js\n    instances: 2\n    env: {A: $x, B: 1}\n" +
			"    autorestart: false\n"}}, []string{"# serves\n[program.a]", `environment = { A = "$x", B = "1" }`, "replicas    = 2",
			`restart     = "never"`, "ecosystem.yml:4: apps[0].instances"}, ""},
		{"nothing", "pm2", []sourceFile{{"pm2.json", " \n"}}, []string{"pm2.json: it is empty"}, ""},
		{"no JSON", "pm2", []sourceFile{{"pm2.json", "{\n\"apps\": x}"}}, []string{`pm2.json: line 2: "x}" is not JSON`}, ""},
		{"an included file that includes", "supervisord", []sourceFile{{"supervisord.conf", "[supervisord]\n[include]\nfiles=a.conf none.conf\n"},
			{"a.conf", "[program:\u00e9]\ncommand=x\n[include]\nfiles=b\n"}}, []string{
			`supervisord.conf:3: include.files: no file matches "none.conf"`, `a.conf:1: program:` + "\u00e9" + `: the program is "program"`}, ""},
		{"a group that names a program twice", "supervisord", []sourceFile{{"supervisord.conf", "[supervisord]\n[group:g]\n" +
			"programs=a,a\n[program:a]\ncommand=x\n[program:b]\ncommand=y\nnumprocs=2\nprocess_name=%(process_num)d\n" +
			"[group:h]\nprograms=b,b\n"}}, []string{"[program.a]", "replicas = 2"}, "replicas = 4"},
		{"a long line of anything", "supervisord", []sourceFile{{"supervisord.conf", strings.Repeat("x\xff", 500)}},
			[]string{"…", "stands before the first section"}, strings.Repeat("x", 100)},
		{"a one-shot without up", "s6", []sourceFile{{"a/", ""}, {"a/type", "oneshot\n"}}, []string{"a: it is a oneshot and has no file up"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.format+"/"+tt.name, func(t *testing.T) {
			format, err := Find(tt.format)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			doc, err := format.Import(systemOf(tt.files), filepath.Join(root, tt.files[0].name), "")
			if err != nil {
				got.WriteString(err.Error())
			} else {
				got.WriteString(doc.TOML() + "-- notes --\n")
				for _, n := range doc.Notes {
					got.WriteString(n.String() + "\n")
				}
				accept(t, doc, t.TempDir(), doc.TOML())
			}
			for _, want := range tt.want {
				if !strings.Contains(got.String(), want) {
					t.Errorf("%q is missing in\n%s", want, got.String())
				}
			}
			if tt.not != "" && strings.Contains(got.String(), tt.not) {
				t.Errorf("there is %q in\n%s", tt.not, got.String())
			}
		})
	}
}

// bomb returns a compose file whose aliases stand for 2 to the power of n mappings.
func bomb(n int) string {
	var b strings.Builder
	b.WriteString("services: {a: {command: x}}\nx-0: &x0 {k: v}\n")
	for i := range n {
		name, before := string(rune('a'+i%26))+strings.Repeat("x", i/26), "x0"
		if i > 0 {
			before = string(rune('a'+(i-1)%26)) + strings.Repeat("x", (i-1)/26)
		}
		b.WriteString("x-" + name + ": &" + name + " {<<: [*" + before + ", *" + before + "]}\n")
	}
	return b.String()
}

// TestEncoding: what is no UTF-8 is noted with its line.
func TestEncoding(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"Latin-1", "a: x\nb: caf\xe9\nc: \xff\n", "Procfile:2: the line is not UTF-8"},
		{"a replacement character of its own", "a: x \ufffd\nb: \xff\n", "Procfile:2: the line is not UTF-8"},
		{"a NUL byte", "a: x\n\nb: y\x00z\n", "Procfile:3: the line has a NUL byte"},
		{"plain", "a: x\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "Procfile")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			format, err := Find("procfile")
			if err != nil {
				t.Fatal(err)
			}
			doc, err := Import(format, path, ".")
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			for _, n := range doc.Notes {
				notes = append(notes, n.String())
			}
			if got := strings.Join(notes, "\n"); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("notes %q, want %q", got, tt.want)
			}
		})
	}
	if notes := encoding("a", []byte("\xff\xfea\x00")); len(notes) != 1 || !strings.Contains(notes[0].Text, "UTF-16") {
		t.Errorf("notes of UTF-16: %v", notes)
	}
}
