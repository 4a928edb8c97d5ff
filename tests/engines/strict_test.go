// Package engines has exports read by those for whom they are: the parser of Nomad, the types of
// Kubernetes, the loader of Docker Compose and systemd-analyze, each as strict as it can be.
//
// With the flag -engines, a Nomad agent runs jobs, and an API server of Kubernetes checks
// manifests.
package engines

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/hashicorp/nomad/jobspec2"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"superd/config"
	"superd/exporter"
	"superd/exporter/manifest"
)

// options are those of the exports here.
func options() manifest.Options {
	return manifest.Options{Name: "shop", TimeZone: "Europe/Berlin", Binary: "/usr/bin/superd",
		Images: map[string]string{"": "registry.example/shop:1"}}
}

// An exported configuration.
type exported struct {
	name string // shop, shop-whole, keys
	*manifest.Export
}

// exports returns the configurations of the exporter's tests in a format.
func exports(t *testing.T, format string) (all []exported) {
	t.Helper()
	f, err := exporter.Find(format)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "keys"} {
		c := load(t, "/srv/"+name+"/superd.toml", filepath.Join("../../exporter/testdata", name+".toml"))
		for suffix, export := range map[string]func(*config.Config, manifest.Options) (*manifest.Export, error){
			"": f.Export, "-whole": f.Whole,
		} {
			e, err := export(c, options())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, exported{name + suffix, e})
		}
	}
	return all
}

// load reads a file as if it were at path.
func load(t *testing.T, path, file string) *config.Config {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.ExamineEdited(path, path, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Errors) > 0 {
		t.Fatal(c.Errors)
	}
	return c
}

// TestNomadParses: the parser of Nomad takes every job.
func TestNomadParses(t *testing.T) {
	for _, e := range exports(t, "nomad") {
		for _, f := range e.Files {
			job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{
				Path: f.Name, Body: []byte(f.Text), Strict: true,
			})
			if err != nil {
				t.Errorf("%s: %v", e.name, err)
				continue
			}
			if e.name != "shop-whole" {
				continue
			}
			text := *job.TaskGroups[0].Tasks[0].Templates[0].EmbeddedTmpl
			again, err := config.ExamineEdited("/srv/shop/superd.toml", "/srv/shop/superd.toml", text)
			if err != nil || len(again.Errors) > 0 {
				t.Errorf("superd does not take its template: %v\n%s", err, text)
				continue
			}
			want := load(t, "/srv/shop/superd.toml", "../../exporter/testdata/shop.toml")
			for _, p := range want.Programs {
				if got := again.Program(p.Name).Command; strings.Join(got, "|") != strings.Join(p.Command, "|") {
					t.Errorf("the template has the command %q of %s, want %q", got, p.Name, p.Command)
				}
			}
		}
	}
}

// kinds are the objects that an export may have.
var kinds = map[string]func() any{
	"apps/v1 Deployment": func() any { return &appsv1.Deployment{} },
	"batch/v1 Job":       func() any { return &batchv1.Job{} },
	"batch/v1 CronJob":   func() any { return &batchv1.CronJob{} },
	"v1 Service":         func() any { return &corev1.Service{} },
	"v1 ConfigMap":       func() any { return &corev1.ConfigMap{} },
}

// TestKubernetesDecodes: every manifest has fields of its type only.
func TestKubernetesDecodes(t *testing.T) {
	for _, e := range exports(t, "kubernetes") {
		for _, document := range strings.Split(e.Files[0].Text, "\n---\n") {
			var head struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal([]byte(document), &head); err != nil {
				t.Errorf("%s: %v\n%s", e.name, err, document)
				continue
			}
			object := kinds[head.APIVersion+" "+head.Kind]
			if object == nil {
				t.Errorf("%s has the kind %q %q", e.name, head.APIVersion, head.Kind)
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(document), object()); err != nil {
				t.Errorf("%s: %v\n%s", e.name, err, document)
			}
		}
	}
}

// TestComposeLoads: the loader of Docker Compose takes every file, and gives back what was meant.
func TestComposeLoads(t *testing.T) {
	for _, e := range exports(t, "compose") {
		dir := t.TempDir()
		path := filepath.Join(dir, "compose.yaml")
		if err := os.WriteFile(path, []byte(e.Files[0].Text), 0o600); err != nil {
			t.Fatal(err)
		}
		opts, err := cli.NewProjectOptions([]string{path}, cli.WithWorkingDirectory(dir), cli.WithResolvedPaths(true),
			cli.WithProfiles([]string{"*"}), cli.WithoutEnvironmentResolution)
		if err != nil {
			t.Fatal(err)
		}
		project, err := opts.LoadProject(context.Background())
		if err != nil {
			t.Errorf("%s: %v\n%s", e.name, err, e.Files[0].Text)
			continue
		}
		if e.name == "shop" {
			report, err := project.GetService("report")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Join(report.Entrypoint, " "), "sh -c /srv/shop/report > /var/lib/reports/$(date +%F)"; got != want {
				t.Errorf("the entrypoint is %q, want %q", got, want)
			}
		}
	}
}

// TestSystemdVerifies: systemd-analyze has nothing to say about any unit, apart from commands that
// this machine does not have.
func TestSystemdVerifies(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze: install systemd")
	}
	for _, e := range exports(t, "systemd") {
		dir := t.TempDir()
		args := []string{"verify", "--man=no", "--recursive-errors=no"}
		for _, f := range e.Files {
			if strings.HasSuffix(f.Name, ".toml") {
				continue
			}
			path := filepath.Join(dir, f.Name)
			if err := os.WriteFile(path, []byte(f.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			args = append(args, strings.Replace(path, "@.service", "@1.service", 1))
		}
		cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":", "LC_ALL=C")
		out, _ := cmd.CombinedOutput() // it fails for missing commands, too
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, dir) || strings.Contains(line, ".service:") || strings.Contains(line, ".socket:") ||
				strings.Contains(line, ".timer:") || strings.Contains(line, ".target:") {
				if !strings.Contains(line, "is not executable: No such file or directory") {
					t.Errorf("%s: %s", e.name, line)
				}
			}
		}
	}
}
