// Package locate finds the control socket of a running superd.
package locate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"

	"superd/config"
	"superd/config/places"
	"superd/control"
	"superd/develop/project"
)

// Socket returns the path of the control socket. It is in runtimeDir or, if that is empty, that of
// the project that `superd up` runs from configFile, or else in the directory that this file names
// or implies. An empty configFile stands for a project of the working directory, or of the nearest
// directory above it, and then for the usual places.
func Socket(configFile, runtimeDir string) (string, error) {
	p, err := running(configFile, runtimeDir)
	if err != nil {
		return "", err
	}
	if p != nil {
		return p.Socket(), nil
	}
	conf, err := load(configFile, runtimeDir)
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(places.RuntimeDir(runtimeDir, conf, os.Getenv, os.Geteuid()))
	if err != nil {
		return "", fmt.Errorf("find runtime directory: %w", err)
	}
	return filepath.Join(dir, control.SocketName), nil
}

// running returns the project that runs there, nil if there is none.
func running(configFile, runtimeDir string) (*project.Project, error) {
	switch {
	case runtimeDir != "" || os.Getenv("SUPERD_RUNTIME_DIR") != "":
		return nil, nil //nolint:nilnil // none is no error
	case configFile == "":
		return project.Own().Current()
	}
	p, err := project.Own().At(configFile)
	if err != nil || p.State() == project.Ended {
		return nil, nil //nolint:nilerr,nilnil // whoever reads the file tells the error
	}
	return p, nil
}

// load returns the configuration, or nil if it does not determine the runtime directory. A file
// that does not contain the name of that key is not parsed, as it may define a thousand programs.
func load(configFile, runtimeDir string) (*config.Config, error) {
	if runtimeDir != "" || configFile == "" && os.Getenv("SUPERD_RUNTIME_DIR") != "" {
		return nil, nil
	}
	path, err := places.Find(configFile, os.Getenv, os.Geteuid())
	if err != nil && configFile == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(text, []byte("runtime_dir")) {
		return nil, nil
	}
	conf, err := config.Load(path)
	if err != nil {
		if dir := named(text, path); dir != "" {
			return &config.Config{Superd: config.Superd{RuntimeDir: dir}}, nil
		}
		return nil, fmt.Errorf("find runtime directory: correct the configuration, or name the directory with --runtime-dir:\n%w", err)
	}
	return conf, nil
}

// named returns the runtime directory that the text of the file at path names, "" if it is not TOML
// or names none. So clients find their superd when another key, or an included file, has a mistake.
func named(text []byte, path string) string {
	var keys struct {
		Superd struct {
			RuntimeDir string `toml:"runtime_dir"`
		}
	}
	dir := ""
	if _, err := toml.Decode(string(text), &keys); err == nil {
		dir = keys.Superd.RuntimeDir
	}
	if dir != "" && !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(path), dir)
	}
	return dir
}
