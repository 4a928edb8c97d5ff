package tests

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestDoctor: superd doctor reports what works here, what superd does instead of what does not, and
// which keys it can't support. Its exit status says whether superd can run.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	free := examine(t, s, 0)
	if !free.OK || !free.finding(t, "pidfd").Works || !free.finding(t, "pidfd").Needed {
		t.Errorf("where superd runs: %+v", free)
	}

	for _, name := range []string{"nice", "real-time", "ionice", "oom_score_adj", "limits.memlock", "limits.nproc"} {
		if f := free.finding(t, name); !f.Works && (f.Error == "" || len(f.Keys) == 0) {
			t.Errorf("%s: %+v, want what is missing, and for which keys", name, f)
		}
	}

	sandbox := harness.Refusing("pidfd_open,pidfd_send_signal,clone3,timerfd,splice", "EPERM")
	refused := examine(t, s, 0, sandbox)
	for _, name := range []string{"pidfd_open", "pidfd_send_signal", "clone_into_cgroup", "timerfd_create", "splice"} {
		if f := refused.finding(t, name); f.Works || f.Instead == "" || f.Remedy == "" {
			t.Errorf("%s, which is refused: %+v, want what superd does instead", name, f)
		}
	}
	if f := refused.finding(t, "cgroups"); f.Works || f.Error == "" || strings.Join(f.Keys, " ") != "limits.memory limits.memory_high limits.swap limits.cpu limits.cpu_weight limits.tasks limits.io" {
		t.Errorf("cgroups without clone3: %+v, want the keys that can't be kept", f)
	}
	// The running superd and `superd version --features` report the same.
	var version struct{ Features map[string]bool }
	if err := json.Unmarshal([]byte(s.Run("version", "--features", "--json").Out), &version); err != nil {
		t.Fatal(err)
	}
	for name, has := range version.Features {
		if f := free.finding(t, name); f.Works != has {
			t.Errorf("%s: doctor says %t, version --features %t", name, f.Works, has)
		}
	}

	for _, call := range []string{"eventfd", "clone_pidfd"} {
		if r := examine(t, s, 1, harness.Refusing(call, "ENOSYS")); r.OK {
			t.Errorf("without %s: %+v, want that superd can't run", call, r)
		}
	}
	cmd := s.Command("doctor")
	harness.Refusing("eventfd", "EPERM")(cmd)
	if out, _ := cmd.Output(); !strings.Contains(string(out), "\nsuperd can't run here") || !strings.HasPrefix(string(out), "MISSING  eventfd2") {
		t.Errorf("superd doctor without eventfd2:\n%s", out)
	}
}

// TestDoctorWithoutCgroups: if a limit forbids cgroups, superd doctor names it, as the running
// superd does.
func TestDoctorWithoutCgroups(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, value string }{
		{"cgroup.max.descendants", "0"}, {"cgroup.max.descendants", "1"}, {"cgroup.max.depth", "1"},
	} {
		t.Run(tt.name+" "+tt.value, func(t *testing.T) {
			t.Parallel()
			dir, inside := harness.OwnCgroup(t)
			s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
			if f := examine(t, s, 0, inside).finding(t, "cgroups"); !f.Works {
				t.Skipf("superd has no cgroups here: %s", f.Error)
			}
			setLimit(t, dir, tt.name, tt.value)
			f := examine(t, s, 0, inside).finding(t, "cgroups")
			if f.Works || !strings.Contains(f.Error, dir+"/"+tt.name) || len(f.Keys) != 7 {
				t.Errorf("cgroups: %+v, want that %s forbids them", f, tt.name)
			}
			stat, err := os.ReadFile(dir + "/cgroup.stat")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(stat), "nr_descendants 0\n") {
				t.Errorf("superd doctor has left cgroups behind: %s", stat)
			}
		})
	}
}

// A diagnosis is the output of superd doctor --json.
type diagnosis struct {
	OK       bool
	Findings []diagnosed
}

type diagnosed struct {
	Name, For, Error, Instead, Remedy string
	Works, Needed                     bool
	Keys                              []string
}

func (d diagnosis) finding(t *testing.T, name string) diagnosed {
	t.Helper()
	for _, f := range d.Findings {
		if f.Name == name {
			return f
		}
	}
	t.Errorf("superd doctor says nothing of %s", name)
	return diagnosed{}
}

// examine runs superd doctor.
func examine(t *testing.T, s *harness.Site, status int, options ...func(*exec.Cmd)) (d diagnosis) {
	t.Helper()
	cmd := s.Command("doctor", "--json")
	for _, o := range options {
		o(cmd)
	}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("superd doctor: exit status %d, want %d\n%s", got, status, out)
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return d
}
