package config

import (
	"strings"
	"testing"

	"superd/config/pages"
)

// TestLoadWeb: the tables of superd web are read without those of programs, whatever these have.
func TestLoadWeb(t *testing.T) {
	load := func(text string) (*Config, error) {
		return loadWeb("/etc/superd.toml", memory(map[string]string{"/etc/superd.toml": text}))
	}
	c, err := load(`
include = "missing/*.toml"
[superd]
runtime_dir = "/run/other"
[web]
listen = "127.0.0.1:80"
token_file = "token"
hosts = ["a.example"]
read_only = true
[program.web]
comand = 5
[unknown]
`)
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Web; w.Listen != "127.0.0.1:80" || !strings.HasSuffix(w.TokenFile, "/etc/token") || len(w.Hosts) != 1 || !w.ReadOnly {
		t.Errorf("[web] is %+v", w)
	}
	if c.Superd.RuntimeDir != "/run/other" {
		t.Errorf("runtime_dir is %q", c.Superd.RuntimeDir)
	}
	if c, err = load("[program.web]\ncommand = 'x'\n"); err != nil || c.Web.Listen != pages.DefaultListen {
		t.Errorf("without [web]: %+v, %v", c, err)
	}
	if _, err = load("[web]\nlisten = '0.0.0.0:80'\n"); err == nil || !strings.Contains(err.Error(), "/etc/superd.toml:2:10: web.listen: 0.0.0.0 is beyond") {
		t.Errorf("a mistake in [web]: %v", err)
	}
	if _, err = load("[web\n"); err == nil {
		t.Error("what is no TOML is accepted")
	}
}
