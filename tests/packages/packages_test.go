// Package packages builds the packages of superd from the commit, examines them, and installs,
// upgrades and removes them under a systemd of their own: `make test-packages`, as root. Without
// -packages nothing runs.
package packages

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	enabled = flag.Bool("packages", false, "run the tests (root, lintian, rpm, mandoc, shellcheck)")
	bed     = flag.String("bed", "", "script that boots systemd in namespaces: see CONTRIBUTING.md")
	fresh   = flag.Bool("fresh", false, "compile everything once more for the second build")
	tree    = flag.String("tree", "", "a small Debian with systemd, made by install-deps.sh")
)

// Two versions of the same commit.
const older, newer = "0.0.1", "0.0.2"

// limit is the largest that a deb or an rpm may be, in bytes. Without xz it has half as much again.
const limit = 10_000_000

func TestPackages(t *testing.T) {
	if !*enabled {
		t.Skip("needs -packages: make test-packages")
	}
	if *bed == "" || *tree == "" {
		t.Fatal("needs -bed and -tree: make test-packages")
	}
	first := clone(t, "../..", "first")
	built := build(t, first, older, "amd64 arm64", "deb rpm apk tar.gz cdx.json")
	t.Run("Reproducible", func(t *testing.T) {
		if *fresh {
			t.Setenv("GOCACHE", t.TempDir())
		}
		again := build(t, clone(t, first, "another-place"), older, "amd64", "deb rpm apk tar.gz cdx.json")
		for _, name := range names(t, again, "*64*") {
			if !bytes.Equal(read(t, filepath.Join(built, name)), read(t, filepath.Join(again, name))) {
				t.Errorf("%s differs from that of another build", name)
			}
		}
	})
	t.Run("Files", func(t *testing.T) { examine(t, built) })
	t.Run("Lintian", func(t *testing.T) {
		for _, name := range names(t, built, "*.deb") {
			run(t, "lintian", "--allow-root", "--pedantic", "--display-info", "--fail-on", "error,warning,info,pedantic", filepath.Join(built, name))
		}
	})
	t.Run("Scripts", func(t *testing.T) {
		run(t, "sh", "-c", "shellcheck ../../packaging/*.sh ../../packaging/deb/p* ../../packaging/rpm/* ../../packaging/apk/* *.sh")
	})
	t.Run("Format", func(t *testing.T) { examineApk(t, built) })
	t.Run("Bill", func(t *testing.T) { examineBill(t, built) })

	next := build(t, first, newer, "amd64", "deb rpm apk")
	commands := filepath.Join(t.TempDir(), "example.sh")
	if err := os.WriteFile(commands, []byte(example(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"deb", "rpm"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			from, to := only(t, built, "*amd64*."+format, "*x86_64*."+format), only(t, next, "*."+format)
			run(t, *bed, "-t", "300", "-r", *tree, "-c", from+":/opt/old."+format, "-c", to+":/opt/new."+format,
				"-c", commands+":/opt/example.sh", "-c", "inside.sh:/opt/inside.sh",
				"--", "bash", "/opt/inside.sh", format, "/opt/old."+format, "/opt/new."+format, "/opt/example.sh")
		})
	}
	t.Run("openrc", func(t *testing.T) {
		t.Parallel()
		run(t, *bed, "-t", "300", "-r", *tree, "-c", only(t, built, "*amd64.deb")+":/opt/old.deb", "-c", only(t, next, "*.deb")+":/opt/new.deb",
			"-c", "../../packaging/superd.initd:/opt/superd.initd", "-c", "inside-openrc.sh:/opt/inside.sh",
			"--", "bash", "/opt/inside.sh", "/opt/old.deb", "/opt/new.deb", "/opt/superd.initd")
	})
	t.Run("apk", func(t *testing.T) {
		t.Parallel()
		run(t, "timeout", "300", "unshare", "--mount", "--pid", "--fork", "--kill-child", "./inside-apk.sh",
			only(t, built, "*x86_64.apk"), only(t, next, "*.apk"), t.TempDir())
	})
}

// example returns the commands of docs/packages.md that add a program after the installation.
func example(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(string(read(t, "../../docs/packages.md")), "Write a file for each program")
	_, after, _ = strings.Cut(after, "```\n")
	commands, _, found := strings.Cut(after, "```")
	if !found || !strings.Contains(commands, "[program.clock]") {
		t.Fatalf("docs/packages.md has no example of a program: %q", commands)
	}
	return commands
}

// clone returns a clone of a repository, without what is not committed.
func clone(t *testing.T, from, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	run(t, "git", "clone", "--quiet", from, dir)
	return dir
}

// build returns a directory with the packages that are built in the clone.
func build(t *testing.T, clone, version, arches, formats string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	cmd := exec.CommandContext(t.Context(), "packaging/build.sh", out)
	cmd.Dir = clone
	cmd.Env = append(os.Environ(), "VERSION="+version, "ARCHES="+arches, "FORMATS="+formats)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, text)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--quiet", "--check", "SHA256SUMS")
	check.Dir = out
	if text, err := check.CombinedOutput(); err != nil {
		t.Errorf("SHA256SUMS: %v\n%s", err, text)
	}
	return out
}

// run runs a command and returns its output. The test shows what it reports as ok.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "ok: ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return string(out)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// names returns the names of files in dir that match one of the patterns.
func names(t *testing.T, dir string, patterns ...string) (found []string) {
	t.Helper()
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(dir, p))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			found = append(found, filepath.Base(path))
		}
	}
	if len(found) == 0 {
		t.Fatalf("no file in %s matches %q", dir, patterns)
	}
	return found
}

// only returns the path of the one file in dir that matches one of the patterns.
func only(t *testing.T, dir string, patterns ...string) string {
	t.Helper()
	found := names(t, dir, patterns...)
	if len(found) != 1 {
		t.Fatalf("%d files match %q: %q", len(found), patterns, found)
	}
	return filepath.Join(dir, found[0])
}

// examine checks sizes, binaries, and that the formats have the same files.
func examine(t *testing.T, built string) {
	for _, name := range names(t, built, "*.deb", "*.rpm", "*.apk", "*.tar.gz") {
		info, err := os.Stat(filepath.Join(built, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, info.Size())
		// The others know gzip only.
		if xz := strings.HasSuffix(name, ".deb") || strings.HasSuffix(name, ".rpm"); xz && info.Size() > limit {
			t.Errorf("%s has %d bytes, at most %d are wanted", name, info.Size(), limit)
		}
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		root := t.TempDir()
		deb := only(t, built, "*_"+arch+".deb")
		run(t, "dpkg-deb", "-x", deb, root)
		if got := strings.TrimSpace(run(t, "dpkg-deb", "-f", deb, "Architecture")); got != arch {
			t.Errorf("%s has the architecture %s", deb, got)
		}
		for _, name := range []string{"superd", "superd-ui"} {
			examineBinary(t, filepath.Join(root, "usr/bin", name), machine)
		}
	}
	inDeb := listing(run(t, "sh", "-c", "dpkg-deb --fsys-tarfile '"+only(t, built, "*_amd64.deb")+"' | tar -t"))
	inRPM := listing(run(t, "rpm", "--query", "--package", "--list", only(t, built, "*.x86_64.rpm")))
	inApk := listing(run(t, "tar", "-tzf", only(t, built, "*_x86_64.apk")))
	for _, other := range []struct {
		name  string
		files []string
	}{{"rpm", inRPM}, {"apk", inApk}} {
		for _, path := range inDeb {
			if !slices.Contains(other.files, path) && !debOnly(other.name, path) {
				t.Errorf("the %s lacks %s", other.name, path)
			}
		}
	}
	if !slices.Contains(inApk, "etc/init.d/superd") || slices.Contains(inDeb, "etc/init.d/superd") {
		t.Error("the init script of OpenRC belongs into the apk alone")
	}
}

// debOnly reports whether another format has a file elsewhere, or not at all.
func debOnly(format, path string) bool {
	for _, of := range []string{"usr/share/lintian/", "usr/share/zsh/", "usr/share/doc/superd/changelog.Debian.gz"} {
		if strings.HasPrefix(path, of) {
			return true
		}
	}
	return format == "apk" && strings.HasPrefix(path, "usr/lib/")
}

// listing returns the paths of files in the output of a command.
func listing(out string) (paths []string) {
	for line := range strings.Lines(out) {
		if path := strings.TrimLeft(strings.TrimSpace(line), "./"); path != "" && !strings.HasSuffix(path, "/") {
			paths = append(paths, path)
		}
	}
	return paths
}

// examineBinary checks that a binary is static, stripped and for the machine.
func examineBinary(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != machine {
		t.Errorf("%s is for %v, want %v", path, f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically", path)
		}
	}
	if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
		t.Errorf("%s has symbols", path)
	}
	// A path of the machine would also make the build irreproducible.
	if home, err := os.UserHomeDir(); err == nil && bytes.Contains(read(t, path), []byte(home+"/go/pkg/mod")) {
		t.Errorf("%s has paths of the machine that built it", path)
	}
}

// examineBill checks that the bills of materials name what a binary links.
func examineBill(t *testing.T, built string) {
	for binary, module := range map[string]string{"superd": "golang.org/x/sys", "superd-ui": "charm.land/bubbletea/v2"} {
		var bill struct {
			Format   string `json:"bomFormat"`
			Metadata struct {
				Component struct{ Name, Version string }
			}
			Parts []struct{ Name, Version, Purl string } `json:"components"`
		}
		path := filepath.Join(built, fmt.Sprintf("%s-%s-linux-arm64.cdx.json", binary, older))
		if err := json.Unmarshal(read(t, path), &bill); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		has := slices.ContainsFunc(bill.Parts, func(p struct{ Name, Version, Purl string }) bool {
			return p.Name == module && p.Version != "" && strings.HasPrefix(p.Purl, "pkg:golang/"+module+"@")
		})
		if bill.Format != "CycloneDX" || bill.Metadata.Component.Version != older || !has {
			t.Errorf("%s: format %s of %v, without %s", path, bill.Format, bill.Metadata.Component, module)
		}
	}
}
