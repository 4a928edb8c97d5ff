package schema_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"superd/config"
	"superd/config/schema"
	"superd/tests/golden"
)

const (
	root      = "../.."
	committed = root + "/docs/superd.schema.json"
)

// TestSchemaIsUpToDate compares docs/superd.schema.json with the table of keys: go test
// ./config/schema -update
func TestSchemaIsUpToDate(t *testing.T) {
	want, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if golden.Update() {
		if err := os.WriteFile(committed, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(committed); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/superd.schema.json is out of date (%v): run go test ./config/schema -update", err)
	}
}

// compile returns the schema as a validator has it.
func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("superd.schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("superd.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// validate returns what the schema says of a file.
func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var file map[string]any
	if _, err := toml.Decode(text, &file); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(parsed)
}

// TestEveryKey checks that the schema has each key of the table, with its meaning.
func TestEveryKey(t *testing.T) {
	type node struct {
		Ref         string `json:"$ref"`
		Description string
		Properties  map[string]*node
		Definitions map[string]*node
	}
	text, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var top node
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	for _, k := range config.Describe() {
		at := &top
		switch k.Table {
		case "":
		case "program", "socket", "notify":
			at = top.Definitions[k.Table]
		default:
			at = top.Properties[k.Table]
		}
		for name := range strings.SplitSeq(k.Name, ".") {
			if at != nil {
				at = at.Properties[name]
			}
		}
		if at == nil || at.Description == "" || strings.Contains(at.Description, "](#") || strings.Contains(at.Description, ".md#") {
			t.Errorf("%s.%s: %+v, want its meaning, without links into a page", k.Table, k.Name, at)
		}
	}
}

// TestAcceptsValid checks that the schema accepts what superd accepts: the cases of
// config/testdata without a mistake, and the examples.
func TestAcceptsValid(t *testing.T) {
	s := compile(t)
	accept := func(name, text string) {
		t.Helper()
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	cases := 0
	paths, err := filepath.Glob("../testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut("\n"+string(data), "\n=== ")
		for text := range strings.SplitSeq(rest, "\n=== ") {
			name, text, _ := strings.Cut(text, "\n")
			input, outcome, _ := strings.Cut(text, "---\n")
			if slices.ContainsFunc(strings.Split(strings.TrimSpace(outcome), "\n"), isMistake) {
				continue
			}
			cases++
			for i, file := range strings.Split(input, ">>> ") {
				fileName := "superd.toml"
				if i > 0 {
					fileName, file, _ = strings.Cut(file, "\n")
				}
				if strings.HasSuffix(fileName, ".toml") {
					accept(filepath.Base(path)+": "+name, file)
				}
			}
		}
	}
	if cases < 25 {
		t.Errorf("only %d cases of config/testdata have no mistake", cases)
	}
	for _, path := range examples(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		accept(path, string(text))
	}
}

// TestAcceptsForms checks that the schema accepts each form of a value that superd accepts.
func TestAcceptsForms(t *testing.T) {
	s := compile(t)
	for key, values := range map[string]string{
		"stop_timeout":           `"0s" | "1h30m" | "+5s" | "1.5s" | ".5s" | "5.s" | "1us" | "1µs" | "1μs" | "10ns" | "1m0.5s"`,
		"start_timeout":          `"1ns" | "0.001s" | "0h10m"`,
		"log.max_size":           `0 | 10 | "0" | "512" | "10MB" | "10 MB" | "1.5gib" | " 1KB" | "7b" | ".5TiB"`,
		"stop_signal":            `"SIGTERM" | "term" | " Usr1 " | "15" | "+9" | "sigrtmin+3" | "RTMAX-1" | "RTMIN" | "SIGSTKFLT"`,
		"no_restart_exit_codes":  `[0,255,"SIGTERM","hup"]`,
		"umask":                  `"022" | 0o022 | "0777" | "0"`,
		"cpu_affinity":           `"0" | "0-1" | "0,1" | "0-1, 3" | " 1 , 2"`,
		"ionice":                 `"idle" | "best-effort" | "best-effort:7" | "realtime:0"`,
		"scheduling":             `"other" | "batch" | "idle" | "fifo:1" | "rr:99"`,
		"limits.nofile":          `1024 | "infinity" | "1024:infinity" | "1:2"`,
		"limits.core":            `0 | "1GB" | "infinity" | "0:1GiB" | "1MB:infinity"`,
		"limits.cpu_time":        `"1s" | "infinity" | "1m:2h" | "10s:infinity"`,
		"limits.cpu":             `1 | 0.5 | 1000 | 0.001`,
		"backoff.factor":         `1 | 1.5 | 1000`,
		"limits.io":              `{"/dev/null"={read=1}} | {"/"={read="1MB",write_ops=5}}`,
		"command":                `"a" | "a 'b c'" | ["a","b"] | ["a",""]`,
		"env_file":               `"a" | "-a" | ["a","-b"] | []`,
		"state_directory":        `"a" | ["a","b/c"] | "web-${SUPERD_REPLICA}"`,
		"log.compress":           `true | false | "gzip" | "zstd"`,
		"log.mode":               `"0640" | 0o600`,
		"sandbox.protect_system": `true | false | "full" | "strict"`,
		"sandbox.read_only":      `["/a","-/b"] | []`,
		"sandbox.syscalls.deny":  `["@mount","ptrace"]`,
		"ready.tcp":              `":80" | "localhost:80" | "[::1]:80" | "${HOST:-a}:${PORT:-80}"`,
		"ready.http":             `"http://a" | "HTTPS://a/b" | "http://a:${PORT}/"`,
		"environment":            `{} | {A="b",a_b="${A}"}`,
		"replicas":               `0 | 1 | 10000`,
	} {
		for value := range strings.SplitSeq(values, " | ") {
			text := "[program.web]\n"
			if key != "command" {
				text += "command = \"/bin/true\"\n"
			}
			acceptsBoth(t, s, text+key+" = "+value+"\n")
		}
	}
	for table, values := range map[string]string{
		"compat": `supervisor_socket = "/run/supervisor.sock" | supervisor_socket = "s"`,
		"web":    `listen = ":80" | listen = "localhost:9001" | listen = "[::1]:9001" | listen = ":+80" | hosts = ["a.example.org"] | read_only = true`,
		"notify.ops": `webhook = "HTTPS://user:pass@example.org:1/a?b#c" | exec = "a 'b c'" | exec = ["a"] | webhook = "http://a"; rate = 0; batch = "0s" | ` +
			`exec = "a"; on = ["failed", "log-lost"]; programs = []; repeat = "1h"; user = "root"`,
	} {
		for keys := range strings.SplitSeq(values, " | ") {
			acceptsBoth(t, s, "["+table+"]\n"+strings.ReplaceAll(keys, "; ", "\n")+"\n")
		}
	}
}

// acceptsBoth checks that superd accepts a file, and that the schema does.
func acceptsBoth(t *testing.T, s *jsonschema.Schema, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "superd.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil || len(c.Errors) > 0 {
		t.Errorf("superd does not accept\n%s%v %v", text, err, c)
		return
	}
	if err := validate(t, s, text); err != nil {
		t.Errorf("the schema does not accept\n%s%v", text, err)
	}
	for _, r := range c.Receivers {
		if len(r.Invalid) > 0 {
			t.Errorf("superd does not accept\n%s%v", text, r.Invalid)
		}
	}
}

// isMistake reports whether a line of what Load says is more than a warning.
func isMistake(line string) bool { return line != "" && !strings.HasPrefix(line, "warning: ") }

// examples returns the paths of the examples' configurations.
func examples(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root+"/examples", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".toml" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 20 {
		t.Fatalf("examples: %d files, %v", len(paths), err)
	}
	return paths
}

// TestExamplesNameTheSchema checks that each example begins with the place of the schema.
func TestExamplesNameTheSchema(t *testing.T) {
	for _, path := range examples(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		place, ok := strings.CutPrefix(first, "#:schema ")
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), place)); !ok || err != nil {
			t.Errorf("%s begins with %q, want #:schema and the path of docs/superd.schema.json: %v", path, first, err)
		}
	}
}

// TestRefusesMistakes checks where the schema finds mistakes.
func TestRefusesMistakes(t *testing.T) {
	s := compile(t)
	const web, ops = "[program.web]\ncommand = \"web\"\n", "[notify.ops]\n"
	tests := []struct{ name, text, at string }{
		{"unknown key", web + "comand = \"x\"", "/program/web"},
		{"unknown table", "[programs.web]", ""},
		{"unknown key of a subtable", web + "backoff.initally = \"1s\"", "/program/web/backoff"},
		{"unknown key in defaults", "[defaults]\nx = 1", "/defaults"},
		{"unknown key of superd", "[superd]\nx = 1", "/superd"},
		{"wrong choice", web + "restart = \"sometimes\"", "/program/web/restart"},
		{"wrong type", web + "replicas = \"2\"", "/program/web/replicas"},
		{"too large", web + "replicas = 10001", "/program/web/replicas"},
		{"not a whole number", web + "replicas = 1.5", "/program/web/replicas"},
		{"factor too small", web + "backoff.factor = 0.5", "/program/web/backoff/factor"},
		{"duration without a unit", web + "stop_timeout = \"10\"", "/program/web/stop_timeout"},
		{"duration as a number", web + "stop_timeout = 10", "/program/web/stop_timeout"},
		{"duration that must not be 0", web + "start_timeout = \"0s\"", "/program/web/start_timeout"},
		{"size without a full unit", web + "log.max_size = \"10M\"", "/program/web/log/max_size"},
		{"negative size", web + "log.max_size = -1", "/program/web/log/max_size"},
		{"unknown signal", web + "stop_signal = \"SIGTREM\"", "/program/web/stop_signal"},
		{"signal as a number", web + "stop_signal = 15", "/program/web/stop_signal"},
		{"unknown exit status", web + "no_restart_exit_codes = [\"SIGTREM\"]", "/program/web/no_restart_exit_codes/0"},
		{"exit code too large", web + "success_exit_codes = [0, 256]", "/program/web/success_exit_codes/1"},
		{"word for a list", web + "requires = \"db\"", "/program/web/requires"},
		{"empty command", "[program.web]\ncommand = []", "/program/web/command"},
		{"number in a command", "[program.web]\ncommand = [\"nice\", 1]", "/program/web/command/1"},
		{"variable that is no string", web + "environment = { PORT = 80 }", "/program/web/environment/PORT"},
		{"mode that is not octal", web + "umask = \"088\"", "/program/web/umask"},
		{"limit of two values", web + "limits.nofile = \"1:2:3\"", "/program/web/limits/nofile"},
		{"limit of a device", web + "limits.io = { \"/dev/sda\" = { reed = 1 } }", "/program/web/limits/io/~1dev~1sda"},
		{"unknown capability", web + "sandbox.capabilities = [\"CAP_NET\"]", "/program/web/sandbox/capabilities/0"},
		{"schedule of four fields", web + "schedule = \"* * * *\"", "/program/web/schedule"},
		{"port without a host", web + "ready.tcp = \"80\"", "/program/web/ready/tcp"},
		{"address that is no URL", web + "health.http = \"127.0.0.1\"", "/program/web/health/http"},
		{"relative path", web + "pid_file = \"web.pid\"", "/program/web/pid_file"},
		{"class of I/O", web + "ionice = \"idle:1\"", "/program/web/ionice"},
		{"CPUs", web + "cpu_affinity = \"0-\"", "/program/web/cpu_affinity"},
		{"socket without an address", "[socket.http]", "/socket/http"},
		{"unknown key of compat", "[compat]\nsupervisor_sock = \"/run/x\"", "/compat"},
		{"unknown key of web", "[web]\nlisten_on = \":9001\"", "/web"},
		{"address of web without a port", "[web]\nlisten = \"localhost\"", "/web/listen"},
		{"host of web that is a URL", "[web]\nhosts = [\"https://superd.example.org\"]", "/web/hosts/0"},
		{"unknown key of a receiver", ops + "exec = \"x\"\nretry = 3", "/notify/ops"},
		{"unknown condition", ops + "exec = \"x\"\non = [\"failure\"]", "/notify/ops/on/0"},
		{"no condition", ops + "exec = \"x\"\non = []", "/notify/ops/on"},
		{"receiver that is nobody", ops + "rate = 1", "/notify/ops"},
		{"receiver that is two", ops + "exec = \"x\"\nwebhook = \"https://example.org\"", "/notify/ops"},
		{"webhook that is no URL", ops + "webhook = \"example.org\"", "/notify/ops/webhook"},
		{"delivery without time", ops + "exec = \"x\"\ntimeout = \"0s\"", "/notify/ops/timeout"},
		{"name of a receiver", "[notify.\"a b\"]\nexec = \"x\"", "/notify"},
		{"name of a program", "[program.\"web@2\"]\ncommand = \"x\"", "/program"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := validate(t, s, tt.text)
			refused, ok := errors.AsType[*jsonschema.ValidationError](err)
			if !ok {
				t.Fatalf("the schema says %v of\n%s", err, tt.text)
			}
			if at := deepest(refused); at != tt.at {
				t.Errorf("the mistake is at %q, want %q: %v", at, tt.at, err)
			}
		})
	}
}

// deepest returns the place of a mistake as a JSON pointer.
func deepest(e *jsonschema.ValidationError) string {
	at := e.InstanceLocation
	for len(e.Causes) > 0 {
		e = e.Causes[0]
		at = slices.MaxFunc([][]string{at, e.InstanceLocation}, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
	}
	var b strings.Builder
	for _, name := range at {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return b.String()
}
