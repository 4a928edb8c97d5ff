package plan

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"superd/config"
)

// load returns a configuration with these programs, in files of a directory.
func load(t *testing.T, files map[string]string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "superd.toml"))
	if err != nil || len(c.Errors) > 0 {
		t.Fatal(err, c)
	}
	return c
}

// programs are not in the order of their names.
const programs = `
	include = ["more.toml"]
	[defaults]
	command = "sleep 1000"
	[program.web]
	requires = ["db"]
	groups = ["front"]
	[program.db]
	[program.css]
	groups = ["front"]
	autostart = false
	watch = { signal = "SIGHUP" }
	[program.fixed]
	environment = { PORT = "80" }
	env_file = "a.env"
	[program.file]
	env_file = ["-missing.env", "port.env"]
	[socket.api]
	listen = ["127.0.0.1:8080", "udp::53", "unix:/run/api.sock"]
	[program.logs]
	sockets = ["api"]
	log = { sink = "command", command = "cat" }`

func TestMake(t *testing.T) {
	c := load(t, map[string]string{
		"superd.toml": programs, "a.env": "A=1\n", "port.env": "PORT=81\n", "more.toml": "[program.last]\n",
	})
	dir := filepath.Dir(c.Path)
	sockets := []Port{{"of the socket api", 8080}}
	tests := []struct {
		name    string
		options Options
		want    string // without its first lines; DIR is the directory
		ports   []Port
	}{
		{"nothing changes but the logs", Options{}, "", sockets},
		{
			"named programs start with what they require", Options{Names: []string{"web", "css"}}, `
[program.css]
autostart = true

[program.fixed]
autostart = false

[program.file]
autostart = false

[program.logs]
autostart = false

[program.last]
autostart = false
`, sockets,
		},
		{
			"watched files", Options{Watch: []string{"db", "css"}}, `
[program.db]
watch = { paths = ["DIR"] }
`, sockets,
		},
		{
			"a group, a glob and a name", Options{Scale: map[string]int{"front": 2}, ExitWith: []string{"d*"}, PTY: []string{"last"}}, `
[program.web]
replicas = 2

[program.db]
essential = true
restart   = "never"

[program.css]
replicas = 2

[program.last]
pty = true
`, sockets,
		},
		{
			"ports go by the place in the files", Options{Ports: MissingPorts, FirstPort: 5000, Scale: map[string]int{"web": 2}}, `
[program.web]
environment = { PORT = "${4999+SUPERD_REPLICA}" }
replicas    = 2

[program.db]
environment = { PORT = "${5099+SUPERD_REPLICA}" }

[program.css]
environment = { PORT = "${5199+SUPERD_REPLICA}" }

[program.logs]
environment = { PORT = "${5499+SUPERD_REPLICA}" }

[program.last]
environment = { PORT = "${5599+SUPERD_REPLICA}" }
`, []Port{{"PORT of web@1", 5000}, {"PORT of web@2", 5001}, {"PORT of db", 5100}, {"PORT of logs", 5500}, {"PORT of last", 5600}, {"of the socket api", 8080}},
		},
		{
			"the project's env file is the first", Options{EnvFiles: []string{"-/p/.env"}, DotEnv: "DIR/port.env", Names: []string{"fixed", "file"}}, `
[program.web]
env_file  = ["-/p/.env"]
autostart = false

[program.db]
env_file  = ["-/p/.env"]
autostart = false

[program.css]
env_file = ["-/p/.env"]

[program.fixed]
env_file = ["-/p/.env", "DIR/a.env"]

[program.file]
env_file = ["-/p/.env", "-DIR/missing.env"]

[program.logs]
env_file  = ["-/p/.env"]
autostart = false

[program.last]
env_file  = ["-/p/.env"]
autostart = false
`, sockets,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.LogDir = "/log"
			tt.options.DotEnv = strings.ReplaceAll(tt.options.DotEnv, "DIR", dir)
			p, err := Make(c, tt.options)
			if err != nil {
				t.Fatal(err)
			}
			head := "# Made by superd up. It changes this file:\nextends = \"" + c.Path + "\"\n\n[superd]\nlog_dir = \"/log\"\n"
			if want := head + strings.ReplaceAll(tt.want, "DIR", dir); p.Text != want {
				t.Errorf("Make = %s\nwant %s", p.Text, want)
			}
			if !reflect.DeepEqual(p.Ports, tt.ports) {
				t.Errorf("ports are %v, want %v", p.Ports, tt.ports)
			}
			path := filepath.Join(dir, "up.toml")
			if err := os.WriteFile(path, []byte(p.Text), 0o600); err != nil {
				t.Fatal(err)
			}
			if c, err := config.Load(path); err != nil || len(c.Errors) > 0 {
				t.Errorf("superd refuses the plan: %v, %v", err, c)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	c := load(t, map[string]string{"superd.toml": "[program.web]\ncommand = \"x\"\n[program.db]\ncommand = \"x\"\n"})
	for want, o := range map[string]Options{
		`no program or group is named "wbe": did you mean "web"?`: {Names: []string{"wbe"}},
		`no program or group is named "x": there are db, web`:     {Names: []string{"x"}},
		"read --scale: web=-1: want a number from 0 to 10000":     {Scale: map[string]int{"web": -1}},
		"read --exit-with: db is not started":                     {Names: []string{"web"}, ExitWith: []string{"db"}},
		"set PORT of db: 65600 is above the last port":            {Ports: AllPorts, FirstPort: 65500},
		`read --pty: no program or group is named "["`:            {PTY: []string{"["}},
	} {
		if _, err := Make(c, o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Make(%+v) = %v, want %s", o, err, want)
		}
	}
}
