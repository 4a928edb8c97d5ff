// Package first makes the first configuration of a project, from what its directory has: the file
// of another supervisor, or the scripts and programs of common tools. It executes nothing.
package first

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"superd/importer"
)

// A Candidate is what may be in the first configuration: one program, or all of another file.
type Candidate struct {
	Name    string   // of the program
	Command []string // templates
	From    string   // the file by which it was found, relative to the directory
	Why     string   // what was found there; "" for an import
	format  *importer.Format
}

// IsImport reports whether the candidate stands for all programs of the file From.
func (c *Candidate) IsImport() bool { return c.format != nil }

// sources are the files that can be imported, the first one first.
func sources() []string {
	return []string{"Procfile.dev", "Procfile", "process-compose.yaml", "process-compose.yml", "compose.yaml", "compose.yml",
		"docker-compose.yaml", "docker-compose.yml", "supervisord.conf", "ecosystem.config.js", "ecosystem.config.cjs"}
}

// Look returns what the directory has, the best first.
func Look(dir string) (all []Candidate) {
	for _, name := range sources() {
		path := filepath.Join(dir, name)
		if !isFile(path) {
			continue
		}
		if format, err := importer.Detect(path); err == nil {
			all = append(all, Candidate{From: name, format: &format})
		}
	}
	for _, look := range []func(dir string) []Candidate{ofRuby, ofNode, ofDjango, ofGo} {
		for _, c := range look(dir) {
			c.Name = unused(c.Name, all)
			all = append(all, c)
		}
	}
	return all
}

// unused returns name, or one with a number if a candidate has that.
func unused(name string, all []Candidate) string {
	for taken, n := name, 2; ; n++ {
		if !slices.ContainsFunc(all, func(c Candidate) bool { return c.Name == taken }) {
			return taken
		}
		taken = name + "-" + string(rune('0'+n%10))
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// most is how much of a file is read.
const most = 1 << 20

// read returns the beginning of a regular file, "" if there is none.
func read(path string) string {
	if !isFile(path) {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), most)])
}

// ofRuby finds the server of a Rails or Rack application.
func ofRuby(dir string) []Candidate {
	has := func(name string) bool { return isFile(filepath.Join(dir, name)) }
	switch {
	case has("Procfile.dev") || has("Procfile"): // bin/dev runs what is there
		return nil
	case has("bin/dev"):
		return []Candidate{{Name: "web", Command: []string{"bin/dev"}, From: "bin/dev", Why: "the application's own command for development"}}
	case has("bin/rails"):
		return []Candidate{{Name: "web", Command: []string{"bin/rails", "server", "--port", "${PORT:-3000}"}, From: "bin/rails", Why: "a Rails application"}}
	case has("Gemfile") && has("config.ru"):
		return []Candidate{{Name: "web", Command: []string{"bundle", "exec", "rackup", "--port", "${PORT:-9292}"}, From: "config.ru", Why: "a Rack application"}}
	}
	return nil
}

// background matches scripts that run beside a server.
var background = regexp.MustCompile(`(?i)(^|[:_-])(watch|worker|css|jobs?|queue)($|[:_-])`)

// ofNode finds the scripts of a package.json that run until they are ended.
func ofNode(dir string) (all []Candidate) {
	var file struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal([]byte(read(filepath.Join(dir, "package.json"))), &file) != nil {
		return nil
	}
	manager := "npm"
	for _, m := range []struct{ lock, name string }{
		{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
	} {
		if isFile(filepath.Join(dir, m.lock)) {
			manager = m.name
		}
	}
	add := func(name, script string) {
		all = append(all, Candidate{
			Name: name, Command: []string{manager, "run", script}, From: "package.json",
			Why: "the script " + script + ": " + file.Scripts[script],
		})
	}
	for _, script := range []string{"dev", "start", "serve"} {
		if file.Scripts[script] != "" {
			add("web", script)
			break
		}
	}
	scripts := make([]string, 0, len(file.Scripts))
	for script := range file.Scripts {
		scripts = append(scripts, script)
	}
	slices.Sort(scripts)
	for _, script := range scripts {
		if background.MatchString(script) {
			add(strings.Trim(strings.ReplaceAll(script, ":", "-"), "-"), script)
		}
	}
	return all
}

// ofDjango finds the server of a Django application.
func ofDjango(dir string) []Candidate {
	if !strings.Contains(read(filepath.Join(dir, "manage.py")), "django") {
		return nil
	}
	python := "python3"
	for _, environment := range []string{".venv", "venv"} {
		if path := filepath.Join(environment, "bin/python"); isFile(filepath.Join(dir, path)) {
			python = path
			break
		}
	}
	return []Candidate{{
		Name: "web", Command: []string{python, "manage.py", "runserver", "${PORT:-8000}"},
		From: "manage.py", Why: "a Django application",
	}}
}

// mainPackage matches the clause of a Go file that is part of a command.
var mainPackage = regexp.MustCompile(`(?m)^package main\b`)

// ofGo finds the commands of a Go module: in its directory, or else those below cmd.
func ofGo(dir string) (all []Candidate) {
	if !isFile(filepath.Join(dir, "go.mod")) {
		return nil
	}
	isCommand := func(dir string) bool {
		files, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "*.go"))
		return slices.ContainsFunc(files, func(path string) bool {
			return !strings.HasSuffix(path, "_test.go") && mainPackage.MatchString(read(path))
		})
	}
	if isCommand(dir) {
		return []Candidate{{Name: "web", Command: []string{"go", "run", "."}, From: "go.mod", Why: "the command of the module"}}
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "cmd")) // there may be none
	for _, e := range entries {
		if e.IsDir() && isCommand(filepath.Join(dir, "cmd", e.Name())) {
			all = append(all, Candidate{
				Name: e.Name(), Command: []string{"go", "run", "./cmd/" + e.Name()}, From: "go.mod", Why: "the command cmd/" + e.Name(),
			})
		}
	}
	return all
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
