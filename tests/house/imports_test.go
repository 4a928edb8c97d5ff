// Package house tests the shape of the code base: which package may import which, and which words
// its identifiers may not have.
package house

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"superd/tests/golden"
	"superd/tests/table"
)

const (
	module = "superd/"
	page   = "../../docs/architecture.md"
)

// allowed has for each package of superd itself the packages of superd that it may import. An
// import that is missing here is a mistake in the code, or a decision to be made here.
//
// Only cmd/superd imports procs/linux: procs knows the system as procs/host.
var allowed = map[string]string{
	"cmd/superd/report":   "control internal/escape internal/terminal internal/words",
	"cmd/superd/prompt":   "config/document",
	"cmd/superd/crashlog": "signals",
	"cmd/superd/attach":   "control internal/terminal",
	"cmd/superd":          `alerts/service cmd/superd/attach cmd/superd/await cmd/superd/crashlog cmd/superd/edit cmd/superd/eventlistener cmd/superd/fleet cmd/superd/portwatch cmd/superd/prompt cmd/superd/receivers cmd/superd/report cmd/superd/single cmd/superd/systemctl cmd/superd/ui compat/socket compat/supervisorctl config config/codec config/places config/schema control control/locate control/mistakes control/remote control/server doctor internal/execshim internal/failpoint internal/gcpacer internal/logqueue internal/procfs internal/signame internal/terminal internal/threads internal/words keeper keeper/fdstore logs logs/read loop pidfd procs procs/eventlog procs/host procs/journal procs/linux procs/linux/cgroup procs/pty procs/rundir procs/snapshot sandbox signals`,
	"cmd/superd-exec":     "cmd/superd/single internal/execshim sandbox/enforce",
	"cmd/superd-ui": `cmd/superd-ui/develop config config/pages config/places control control/locate control/remote
		exporter exporter/manifest importer importer/draft internal/safepath internal/terminal metrics
		top web`,
	"compat/xmlrpc":        "",
	"compat/socket":        "compat/supervisor control control/server internal/safepath",
	"compat/supervisorctl": `compat/supervisor compat/xmlrpc control control/locate internal/terminal`,
	"compat/supervisor":    "compat/xmlrpc config control internal/safepath internal/signame",
	"control/server": `alerts/deliver config config/listen control control/mistakes internal/escape
		internal/passwd internal/procfs internal/signame internal/words logs logs/follow
		logs/segment pidfd procs procs/counters procs/diagnosis procs/enabling procs/eventlog
		procs/fsm procs/host procs/probe procs/pty procs/selection`,
	"control":        "",
	"control/locate": "config config/places control develop/project",
	"control/remote": "control",
	"metrics":        "control",
	"doctor": `internal/execshim internal/privilege internal/rlimit pidfd procs/linux/cgroup sandbox
		sandbox/shim`,
	"procs": `config config/environ config/listen internal/signame internal/words logs loop loop/task pidfd
		procs/changes procs/counters procs/deps procs/diagnosis procs/enabling procs/eventlog
		procs/execprobe procs/filewatch procs/fsm procs/handover procs/host procs/instance
		procs/instance/beside procs/instance/paths procs/onconnect procs/outputevents procs/probe
		procs/pty procs/reaper procs/reconcile procs/rolling procs/schedule procs/selection
		procs/snapshot procs/sockets procs/subscriptions`,
	"procs/instance": `config config/directory config/environ internal/signame internal/words logs loop
		pidfd procs/counters procs/deps procs/eventlog procs/execprobe procs/fsm procs/host procs/instance/beside
		procs/instance/directories procs/instance/flapping procs/instance/health
		procs/instance/launch procs/instance/output procs/instance/paths procs/instance/readiness
		procs/instance/teardown procs/notify procs/probe procs/schedule procs/snapshot
		procs/sockets`,
	"procs/instance/beside": `config internal/signame internal/words loop pidfd procs/eventlog procs/execprobe procs/fsm
		procs/host procs/notify procs/snapshot`,
	"procs/instance/directories": "loop procs/host",
	"procs/instance/health":      `config internal/words loop procs/eventlog procs/fsm procs/host procs/probe procs/snapshot`,
	"procs/instance/launch":      "loop pidfd procs/host",
	"procs/instance/output":      `config logs logs/sink loop procs/host procs/instance/paths procs/pty procs/snapshot`,
	"procs/pty":                  "internal/syscalls",
	"procs/instance/readiness": `config internal/words logs logs/segment loop procs/fsm procs/host procs/instance/launch
		procs/probe`,
	"procs/instance/teardown": "config internal/signame loop pidfd procs/host",
	"procs/instance/paths":    "config config/directory logs logs/frame logs/segment logs/sink",
	"procs/execprobe":         "loop pidfd procs/host procs/probe",
	"procs/handover":          "loop procs/eventlog procs/host",
	"procs/fsm":               "config internal/words",
	"procs/host":              "config config/directory config/environ config/listen logs loop pidfd procs/notify procs/probe",
	"procs/host/hosttest":     "config config/listen loop pidfd procs/host procs/notify procs/probe",
	"procs/onconnect":         `config internal/words loop procs/fsm procs/host procs/instance procs/sockets`,
	"procs/sockets":           `config config/listen loop procs/eventlog procs/fsm procs/host procs/snapshot`,
	"procs/linux":             `config config/codec config/directory config/document config/executable config/listen internal/execshim internal/failpoint internal/mounts internal/passwd internal/privilege internal/procfs internal/safepath internal/syscalls internal/workers logs/pipe loop pidfd procs/host procs/linux/cgroup procs/linux/filetree procs/linux/listener procs/linux/proctree procs/notify procs/probe procs/pty sandbox sandbox/shim`,
	"procs/linux/cgroup": `config config/codec internal/mounts internal/procfs internal/syscalls internal/workers
		pidfd procs/host procs/linux/proctree`,
	"procs/linux/listener":  `config config/listen internal/passwd internal/procfs internal/safepath`,
	"procs/linux/proctree":  "config internal/procfs internal/workers pidfd procs/host",
	"procs/linux/linuxtest": "config config/environ internal/procfs loop pidfd procs/host",
	"procs/counters":        "procs/fsm",
	"procs/deps":            "config config/cycle",
	"procs/diagnosis": `config config/enablement internal/words logs procs/eventlog procs/fsm procs/host
		procs/probe`,
	"procs/outputevents":  `internal/words logs loop procs/eventlog procs/fsm procs/handover procs/instance`,
	"procs/selection":     "config internal/words procs/instance",
	"procs/subscriptions": "loop procs/instance",
	"procs/reconcile":     "loop procs/deps procs/fsm procs/instance",
	"procs/rolling":       "config internal/words procs/snapshot",
	"procs/eventlog":      "internal/escape",
	"procs/journal":       "internal/failpoint",
	"procs/notify":        "internal/terminal loop",
	"procs/probe":         "internal/terminal loop",
	"procs/reaper":        "internal/signame loop pidfd procs/host",
	"procs/rundir":        `internal/procfs internal/safepath internal/syscalls procs/eventlog procs/journal`,
	"procs/schedule":      "config/codec loop",
	"procs/snapshot": `config config/listen internal/workers pidfd procs/counters procs/fsm procs/journal
		procs/schedule`,
	"procs/snapshot/snapshottest": "config",
	"keeper":                      "internal/gcpacer internal/procfs keeper/fdstore loop pidfd signals",
	"keeper/fdstore":              "",
	"config":                      `config/codec config/cycle config/directory config/document config/enablement config/environ config/executable config/filewatch config/listen config/pages config/receiver internal/passwd internal/privilege internal/rlimit internal/signame internal/words sandbox`,
	"config/codec":                "config/document internal/rlimit internal/signame internal/words",
	"config/listen":               "config/document internal/words",
	"config/environ":              `config/codec config/document`,
	"config/document":             "internal/safepath",
	"logs": `internal/failpoint internal/mounts internal/syscalls internal/words logs/follow logs/frame
		logs/fslimit logs/pipe logs/read logs/segment logs/sink loop`,
	"logs/follow":          "internal/workers logs/frame logs/fslimit logs/pipe logs/segment",
	"logs/frame":           "internal/escape",
	"logs/frame/frametest": "",
	"logs/fslimit":         "internal/mounts",
	"logs/logstest":        "",
	"logs/pipe":            "internal/syscalls",
	"logs/read":            "internal/syscalls",
	"logs/segment": `internal/failpoint internal/passwd internal/safepath internal/syscalls logs/frame
		logs/fslimit logs/pipe`,
	"logs/sink":          "internal/syscalls internal/terminal logs/frame logs/pipe",
	"signals":            "internal/disposition loop",
	"loop":               "internal/syscalls",
	"loop/task":          "loop",
	"pidfd":              "pidfd/vfork",
	"pidfd/vfork":        "",
	"internal/escape":    "",
	"internal/execshim":  "internal/rlimit sandbox",
	"internal/failpoint": "",
	"internal/gcpacer":   "",
	"internal/logqueue":  "",
	"internal/mounts":    "",
	"internal/passwd":    "",
	"internal/privilege": "internal/rlimit",
	"internal/procfs":    "internal/syscalls pidfd",
	"internal/rlimit":    "",
	"internal/safepath":  "internal/syscalls",
	"internal/signame":   "internal/words",
	"internal/syscalls":  "",
	"internal/terminal":  "internal/escape",
	"internal/threads":   "internal/privilege",
	"internal/words":     "",
	"internal/workers":   "",
	"sandbox":            "",
	"sandbox/enforce":    "sandbox",
	"sandbox/shim":       "",
	"control/mistakes":   "config control",
	"config/schema":      "config config/codec",
	"top":                "cmd/superd/report control internal/terminal internal/words",
	"cmd/superd/ui":      "",
	"importer": `importer/compose importer/draft importer/pm2 importer/processcompose importer/procfile
		importer/exported importer/s6 importer/supervisord importer/systemd`,
	"importer/compose":  "config/document exporter/mark importer/draft importer/yamltree",
	"importer/exported": "config exporter exporter/manifest exporter/mark importer/draft",
	"exporter": `config exporter/compose exporter/kubernetes exporter/manifest exporter/nomad
		exporter/systemd`,
	"exporter/compose": `config config/codec config/directory exporter/manifest exporter/mark
		exporter/yamltext internal/rlimit internal/signame`,
	"exporter/definition": "config config/document config/receiver",
	"exporter/kubernetes": `config config/directory exporter/manifest exporter/mark exporter/yamltext
		internal/signame`,
	"exporter/manifest": `config config/codec config/directory config/document config/environ
		config/listen exporter/definition`,
	"exporter/mark":  "exporter/manifest",
	"exporter/nomad": "config exporter/manifest exporter/mark internal/signame",
	"exporter/systemd": `config config/codec config/directory config/environ config/listen
		exporter/manifest exporter/mark internal/rlimit internal/signame`,
	"exporter/yamltext":       "",
	"importer/draft":          "internal/words",
	"importer/pm2":            "config/document importer/draft importer/yamltree",
	"importer/processcompose": "importer/draft importer/yamltree",
	"importer/procfile":       "importer/draft",
	"importer/s6":             "importer/draft",
	"importer/supervisord":    "importer/draft",
	"importer/systemd":        "importer/draft",
	"importer/yamltree":       "",
	"cmd/superd/edit":         "config internal/safepath internal/terminal",
	"cmd/superd/await":        "cmd/superd/report control internal/terminal internal/words",
	"procs/changes":           "config",
	"procs/enabling":          `config config/enablement loop procs/eventlog procs/fsm procs/handover procs/selection`,
	"config/enablement":       "config/document internal/safepath",
	"config/places":           "config config/directory internal/words",
	"cmd/superd/receivers":    "cmd/superd/report control internal/terminal internal/words",
	"alerts":                  "config/receiver procs/eventlog",
	"alerts/command": `alerts/deliver config config/document config/environ internal/words loop procs/execprobe
		procs/host`,
	"alerts/service":          `alerts/command alerts/deliver config loop procs procs/eventlog procs/rundir`,
	"alerts/deliver":          `alerts config config/receiver internal/escape internal/terminal procs/eventlog`,
	"config/receiver":         "config/codec config/document internal/words",
	"procs/instance/flapping": "internal/words procs/snapshot",
	"web":                     "control internal/safepath metrics",
	"config/pages":            "config/codec config/document",
	"config/directory":        "config/codec config/document config/environ",
	"config/cycle":            "",
	"cmd/superd/single":       "internal/disposition internal/signame sandbox/shim",
	"internal/disposition":    "",
	"config/filewatch":        "config/codec config/document",
	"procs/linux/filetree":    "procs/host",
	"procs/filewatch": `config config/filewatch internal/signame loop pidfd procs/eventlog procs/fsm procs/host
		procs/instance procs/instance/beside`,
	"cmd/superd-ui/develop": `config config/document config/schema control develop/first develop/plan develop/project
		importer importer/draft internal/procfs internal/terminal internal/words pidfd
		procs/linux/listener`,
	"cmd/superd/portwatch":     `config config/document config/environ procs/eventlog procs/linux/listener`,
	"develop/first":            "importer importer/draft",
	"develop/plan":             "config config/document importer/draft internal/words",
	"develop/project":          "",
	"cmd/superd/systemctl":     "cmd/superd/report control internal/terminal internal/words",
	"cmd/superd/eventlistener": "compat/listener compat/supervisor control control/locate",
	"compat/listener":          "compat/supervisor control",
	"config/executable":        "config/codec config/document",
	"cmd/superd/fleet":         "cmd/superd/report control/remote",
}

// imports returns what each package of superd itself imports of superd, on Linux, without tests.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = "../.."
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name, ours := strings.CutPrefix(words[0], module)
		if !ours || strings.HasPrefix(name, "tests") || strings.HasPrefix(name, "examples") {
			continue
		}
		found[name] = nil
		for _, imported := range words[1:] {
			if imported, ours := strings.CutPrefix(imported, module); ours {
				found[name] = append(found[name], imported)
			}
		}
	}
	return found
}

func TestImports(t *testing.T) {
	found := imports(t)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list, known := allowed[name]
		if !known {
			t.Errorf("package %s is not in the table of allowed imports: enter it", name)
			continue
		}
		may := strings.Fields(list)
		for _, imported := range found[name] {
			if !slices.Contains(may, imported) {
				t.Errorf("%s imports %s, which the table does not allow", name, imported)
			}
		}
		for _, imported := range may {
			if !slices.Contains(found[name], imported) {
				t.Errorf("%s no longer imports %s: remove it from the table", name, imported)
			}
		}
	}
	for name := range allowed {
		if _, exists := found[name]; !exists {
			t.Errorf("there is no package %s: remove it from the table", name)
		}
	}
}

// heavy are modules, by the beginning of their path, that only superd-ui links: they would add to
// the start of each `superd ctl` and to the memory of the supervisor.
var heavy = []string{"github.com/prometheus/", "google.golang.org/protobuf", "charm.land/",
	"github.com/charmbracelet/", "go.yaml.in/yaml"}

// TestHeavyModules: superd links none of the large modules of superd-ui.
func TestHeavyModules(t *testing.T) {
	deps := func(command string) []string {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/"+command)
		list.Dir = "../.."
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	for _, prefix := range heavy {
		isHeavy := func(path string) bool { return strings.HasPrefix(path, prefix) }
		if i := slices.IndexFunc(deps("superd"), isHeavy); i >= 0 {
			t.Errorf("cmd/superd links %s: move what needs it to cmd/superd-ui", deps("superd")[i])
		}
		if !slices.ContainsFunc(deps("superd-ui"), isHeavy) {
			t.Errorf("cmd/superd-ui no longer links %s: remove it from the list", prefix)
		}
	}
}

// TestModulesOfTests: no command links what only tests use.
func TestModulesOfTests(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/...", "./examples/...")
	list.Dir = "../.."
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"github.com/santhosh-tekuri/jsonschema", "github.com/cpuguy83/go-md2man"} {
		if strings.Contains(string(out), module) {
			t.Errorf("a command links %s, which is for tests", module)
		}
	}
}

// TestPicture: the pictures in the documentation show the imports as they are.
func TestPicture(t *testing.T) {
	found := imports(t)
	for mark, room := range map[string]func(string) string{"imports": topRoom, "procs": procsRoom} {
		picture := "```mermaid\n" + draw(found, room) + "```\n"
		if golden.Update() {
			if err := table.Replace(page, mark, picture); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), picture) {
			t.Errorf("docs/architecture.md has another picture %s of the imports: "+
				"go test ./tests/house -run Picture -update", mark)
		}
	}
}

// topRoom returns the directory at the top that a package is in, and of commands the command or
// what is below it. It leaves out internal, which many import.
func topRoom(name string) string {
	room, below, _ := strings.Cut(name, "/")
	switch room {
	case "internal":
		return ""
	case "cmd":
		if command, _, isBelow := strings.Cut(below, "/"); isBelow {
			return room + "/" + command + "/*"
		}
		return name
	}
	return room
}

// procsRoom returns the directory in procs that a package is in. It leaves out all others.
func procsRoom(name string) string {
	below, ok := strings.CutPrefix(name, "procs/")
	if !ok || strings.HasSuffix(name, "test") { // a helper of tests
		if name == "procs" {
			return name
		}
		return ""
	}
	room, _, _ := strings.Cut(below, "/")
	return "procs/" + room
}

// draw returns a Mermaid graph of the imports between rooms, without each arrow that others imply.
func draw(found map[string][]string, room func(string) string) string {
	arrows := map[string]map[string]bool{}
	for name, all := range found {
		for _, imported := range all {
			from, to := room(name), room(imported)
			if from == "" || to == "" || from == to {
				continue
			}
			if arrows[from] == nil {
				arrows[from] = map[string]bool{}
			}
			arrows[from][to] = true
		}
	}
	var reaches func(from, to string, seen map[string]bool) bool
	reaches = func(from, to string, seen map[string]bool) bool {
		for next := range arrows[from] {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if reaches(next, to, seen) {
					return true
				}
			}
		}
		return false
	}
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	node := strings.NewReplacer("/", "_", "*", "all")
	for _, from := range slices.Sorted(maps.Keys(arrows)) {
		for _, to := range slices.Sorted(maps.Keys(arrows[from])) {
			implied := false
			for other := range arrows[from] {
				implied = implied || other != to && reaches(other, to, map[string]bool{from: true})
			}
			if !implied {
				fmt.Fprintf(&b, "    %s[%s] --> %s[%s]\n", node.Replace(from), from, node.Replace(to), to)
			}
		}
	}
	return b.String()
}
