// Package places says where superd looks for its configuration, and which directories it uses when
// neither flags nor the configuration name others.
package places

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"superd/config"
	"superd/config/directory"
	"superd/internal/words"
)

const fileName = "superd.toml"

// Find returns the configuration file to use: explicit unless it is "", else the first that exists
// of ./superd.toml, $XDG_CONFIG_HOME/superd/superd.toml (for users other than root, uid 0), and
// /etc/superd/superd.toml. The error lists the paths tried.
func Find(explicit string, env func(string) string, uid int) (string, error) {
	if explicit != "" {
		return explicit, nil
	}
	paths := candidates(env, uid)
	for _, path := range paths {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		// Other errors, such as ENOTDIR, also mean that the file does not exist. A file that exists
		// but can't be accessed is not skipped.
		if errors.Is(err, fs.ErrPermission) {
			return "", fmt.Errorf("find configuration: %w", err)
		}
	}
	return "", fmt.Errorf("find configuration: there is no %s: write one, or name another file with -c", words.OneOf(paths))
}

func candidates(env func(string) string, uid int) []string {
	paths := []string{"./" + fileName}
	if uid != 0 {
		home := env("XDG_CONFIG_HOME")
		// The variable must hold an absolute path; ~/.config replaces it otherwise. Source: XDG
		// Base Directory Specification.
		if !filepath.IsAbs(home) && env("HOME") != "" {
			home = filepath.Join(env("HOME"), ".config")
		}
		if filepath.IsAbs(home) {
			paths = append(paths, filepath.Join(home, "superd", fileName))
		}
	}
	return append(paths, filepath.Join("/etc/superd", fileName))
}

// RuntimeDir returns the runtime directory, from the first that is set: flag, $SUPERD_RUNTIME_DIR,
// the one of c (c may be nil), $RUNTIME_DIRECTORY (set by systemd). Otherwise it is /run/superd for
// root (uid 0), $XDG_RUNTIME_DIR/superd for others, or /tmp/superd-UID if that is not set. It is
// absolute unless the working directory no longer exists.
func RuntimeDir(flag string, c *config.Config, env func(string) string, uid int) string {
	configured := ""
	if c != nil {
		configured = c.Superd.RuntimeDir
	}
	// With more than one RuntimeDirectory= the paths are separated by colons. Source: man 5
	// systemd.exec.
	ofUnit, _, _ := strings.Cut(env("RUNTIME_DIRECTORY"), ":")
	for _, dir := range []string{flag, env("SUPERD_RUNTIME_DIR"), configured, ofUnit} {
		if dir == "" {
			continue
		}
		if absolute, err := filepath.Abs(dir); err == nil {
			return absolute
		}
		return dir
	}
	if uid == 0 {
		return "/run/superd"
	}
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "superd")
	}
	return "/tmp/superd-" + strconv.Itoa(uid)
}

// LogDir returns the base of relative log files: the one of c (c may be nil), else /var/log/superd
// for root (uid 0), else log in the runtime directory.
func LogDir(c *config.Config, runtimeDir string, uid int) string {
	switch {
	case c != nil && c.Superd.LogDir != "":
		return c.Superd.LogDir
	case uid == 0:
		return "/var/log/superd"
	}
	return filepath.Join(runtimeDir, "log")
}

// RootsOf returns the roots for a superd of that user: of root, those of the system. env returns
// the value of a variable.
func RootsOf(env func(string) string, uid int, reserved ...string) directory.Roots {
	if uid == 0 {
		return directory.Roots{
			Roots: [directory.Kinds]string{"/run", "/var/lib", "/var/cache", "/var/log"}, Reserved: reserved,
		}
	}
	home := func(variable, inHome string) string {
		if dir := env(variable); filepath.IsAbs(dir) {
			return filepath.Clean(dir)
		}
		if dir := env("HOME"); filepath.IsAbs(dir) && inHome != "" {
			return filepath.Join(dir, inHome)
		}
		return ""
	}
	state := home("XDG_STATE_HOME", ".local/state")
	roots := [directory.Kinds]string{home("XDG_RUNTIME_DIR", ""), state, home("XDG_CACHE_HOME", ".cache"), ""}
	if state != "" {
		roots[directory.Logs] = filepath.Join(state, "log")
	}
	return directory.Roots{Roots: roots, Reserved: reserved}
}
