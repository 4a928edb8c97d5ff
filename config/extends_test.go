package config

import (
	"reflect"
	"testing"
)

// TestExtends: values of the file count rather than those of the file that it extends, key by key.
func TestExtends(t *testing.T) {
	c, err := load("/etc/superd/run/up.toml", memory(map[string]string{
		"run/up.toml": `
			extends = "../app/superd.toml"
			[superd]
			log_dir = "/log"
			[defaults]
			environment = { D = "new", E = "1" }
			[program.web]
			replicas = 3
			environment = { PORT = "5000" }
			log = { keep = 3 }
			ready = { tcp = "localhost:1" }
			[program.job]
			essential = true
			[program.more]
			command = "more"
			[program.sub]
			autostart = false`,
		"app/superd.toml": `
			include = ["*.d/*.toml"]
			[superd]
			exit_when = "all-exited"
			log_dir = "log"
			[defaults]
			stop_timeout = "3s"
			environment = { D = "old", F = "1" }
			[program.web]
			command = "web"
			environment = { A = "1", PORT = "80" }
			log = { max_size = "5KB" }
			ready = { line = "up" }
			[program.job]
			command = "job"
			type = "oneshot"`,
		"app/x.d/sub.toml": "[program.sub]\ncommand = \"sub\"\n",
	}))
	if err != nil || len(c.Errors) > 0 || len(c.Warnings) > 0 {
		t.Fatal(err, c.Errors, c.Warnings)
	}
	web := c.Program("web")
	wantEnv := map[string]string{"A": "1", "PORT": "5000", "D": "new", "E": "1", "F": "1"}
	if web.Replicas != 3 || web.Directory != "/etc/superd/app" || web.StopTimeout != 3e9 ||
		web.Log.Keep != 3 || web.Log.MaxSize != 5000 || web.Ready.Line != "" || web.Ready.TCP != "localhost:1" ||
		web.File != "/etc/superd/app/superd.toml" || !reflect.DeepEqual(web.Environment, wantEnv) {
		t.Errorf("web is %+v of %s, with %v", web.Settings, web.File, web.Environment)
	}
	job, sub, more := c.Program("job"), c.Program("sub"), c.Program("more")
	if !job.Essential || job.Restart != RestartNever || sub.Autostart || more.Directory != "/etc/superd/run" {
		t.Errorf("job %+v, sub %+v, more %+v", job, sub, more)
	}
	if c.Superd != (Superd{LogDir: "/log", ExitWhen: ExitAllExited}) {
		t.Errorf("[superd] is %+v", c.Superd)
	}
}
