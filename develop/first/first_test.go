package first

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"superd/config"
)

// TestLook: what is found, and that superd accepts the result of all of it.
func TestLook(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // programs and their commands, or imported files
	}{
		{"nothing", nil, ""},
		{"a Procfile and its bin/dev", map[string]string{"Procfile": "web: x\n", "bin/dev": "", "bin/rails": ""}, "import Procfile"},
		{"several files", map[string]string{"Procfile.dev": "web: x\n", "Procfile": "web: x\n", "compose.yaml": "services: {}"}, "import Procfile.dev; import Procfile; import compose.yaml"},
		{"bin/dev", map[string]string{"bin/dev": ""}, "web: bin/dev"},
		{"Rails", map[string]string{"bin/rails": "", "Gemfile": "", "config.ru": ""}, "web: bin/rails server --port ${PORT:-3000}"},
		{"Rack", map[string]string{"Gemfile": "", "config.ru": ""}, "web: bundle exec rackup --port ${PORT:-9292}"},
		{
			"npm", map[string]string{"package.json": `{"scripts": {"start": "x", "dev": "y", "watch": "z", "queue:worker": "w", "watchful": "v"}}`},
			"web: npm run dev; queue-worker: npm run queue:worker; watch: npm run watch",
		},
		{"pnpm", map[string]string{"package.json": `{"scripts": {"serve": "x"}}`, "pnpm-lock.yaml": ""}, "web: pnpm run serve"},
		{"no scripts", map[string]string{"package.json": `{"scripts": []}`}, ""},
		{"Django", map[string]string{"manage.py": "from django import x", "venv/bin/python": ""}, "web: venv/bin/python manage.py runserver ${PORT:-8000}"},
		{"another manage.py", map[string]string{"manage.py": ""}, ""},
		{"a command of Go", map[string]string{"go.mod": "", "a.go": "// Package\npackage main\n", "cmd/x/x.go": "package main\n"}, "web: go run ."},
		{
			"commands of Go", map[string]string{"go.mod": "", "a.go": "package lib\n", "cmd/x/x.go": "package main\n", "cmd/y/y.go": "package y\n", "cmd/z/z_test.go": "package main\n"},
			"x: go run ./cmd/x",
		},
		{
			"names are unique", map[string]string{"manage.py": "django", "package.json": `{"scripts": {"dev": "x"}}`},
			"web: npm run dev; web-2: python3 manage.py runserver ${PORT:-8000}",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			all := Look(dir)
			var found []string
			var programs []Candidate
			for _, c := range all {
				if c.IsImport() {
					found = append(found, "import "+c.From)
				} else {
					found = append(found, c.Name+": "+strings.Join(c.Command, " "))
					programs = append(programs, c)
				}
			}
			if got := strings.Join(found, "; "); got != tt.want {
				t.Errorf("Look = %s, want %s", got, tt.want)
			}
			text, _, err := Write(dir, programs)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "new.toml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(path)
			if err != nil || len(c.Errors) > 0 || len(c.Programs) != max(len(programs), 1) {
				t.Errorf("superd refuses it: %v, %v\n%s", err, c, text)
			}
		})
	}
}
