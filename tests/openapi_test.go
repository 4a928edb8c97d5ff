package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"superd/tests/harness"
)

// An api is docs/openapi.yaml, against which answers are checked. It is stricter than the file: an
// answer must have no key that the file lacks.
type api struct {
	document map[string]any
	compiler *jsonschema.Compiler
	answered map[string]bool // operations that have answered without an error, as "GET /v1/status"
}

func loadAPI(t *testing.T) *api {
	t.Helper()
	text, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := &api{compiler: jsonschema.NewCompiler(), answered: map[string]bool{}}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, s := range at(document, "components", "schemas").(map[string]any) {
		s.(map[string]any)["additionalProperties"] = false
	}
	asJSON, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	a.document = parsed.(map[string]any)
	a.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := a.compiler.AddResource("openapi.json", parsed); err != nil {
		t.Fatal(err)
	}
	return a
}

// at returns what a document has at a path, nil for nothing.
func at(document any, path ...string) any {
	for _, name := range path {
		object, _ := document.(map[string]any)
		document = object[name]
	}
	return document
}

// template returns the path of the file that a path is an instance of, "" for none.
func (a *api) template(path string) string {
	paths := at(a.document, "paths").(map[string]any)
	if paths[path] != nil {
		return path
	}
	parts := strings.Split(path, "/")
	if len(parts) > 3 {
		parts[3] = "{name}"
	}
	if path = strings.Join(parts, "/"); paths[path] != nil {
		return path
	}
	return ""
}

// check compares an answer with the file.
func (a *api) check(method, path string, status int, media string, body []byte) error {
	template := a.template(path)
	response := []string{"paths", template, strings.ToLower(method), "responses", fmt.Sprint(status)}
	if ref, ok := at(a.document, append(response, "$ref")...).(string); ok {
		response = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	}
	content := append(response, "content", media)
	if at(a.document, content...) == nil {
		return fmt.Errorf("the file has no answer %d %s to %s %s: %.300s", status, media, method, template, body)
	}
	if status < 400 {
		a.answered[method+" "+template] = true
	}
	if at(a.document, append(content, "schema")...) == nil {
		return nil // bytes
	}
	pointer := "openapi.json#"
	for _, name := range append(content, "schema") {
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	schema, err := a.compiler.Compile(pointer)
	if err != nil {
		return err
	}
	for _, text := range values(media, body) {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			return fmt.Errorf("%s %s answers %d %s: %w", method, path, status, text, err)
		}
	}
	return nil
}

// values returns the JSON values of an answer: one, one a line, or those that begin the blocks.
func values(media string, body []byte) (all [][]byte) {
	if media == "application/json" {
		return [][]byte{body}
	}
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte("\n"))
		var block struct{ Length *int }
		if media == "application/octet-stream" && json.Unmarshal(line, &block) == nil && block.Length != nil {
			rest = rest[min(len(rest), *block.Length+1):]
		}
		all, body = append(all, line), rest
	}
	return all
}

// ask sends a request and checks the answer. An endless answer is read for a short time.
func (a *api) ask(t *testing.T, s *harness.Site, method, target string) (status int, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Deadline)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.Socket())
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://superd"+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	if strings.Contains(target, "/watch") && resp.StatusCode == http.StatusOK {
		body = firstLine(t, resp.Body)
	} else if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	if a.template(req.URL.Path) == "" {
		return resp.StatusCode, body // an invalid name, such as one with a slash
	}
	if err := a.check(method, req.URL.Path, resp.StatusCode, resp.Header.Get("Content-Type"), body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, body
}

// firstLine returns the first line of a stream.
func firstLine(t *testing.T, from io.Reader) (line []byte) {
	t.Helper()
	for !bytes.HasSuffix(line, []byte("\n")) {
		one := make([]byte, 1)
		if _, err := io.ReadFull(from, one); err != nil {
			t.Fatal(err)
		}
		line = append(line, one...)
	}
	return line
}

// TestOpenAPI: the answers of superd are those of docs/openapi.yaml, errors included, and each
// request of the file was made.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, everyKind+`
		[program.web]
		command = "sh -c 'while echo line; do sleep 0.1; done'"
		replicas = 2
		reload_signal = "HUP"
		stop_timeout = "0s"
		health = { exec = "true", interval = "100ms" }
		rolling = { pause = "0s" }
		log.format = "json"
		[socket.http]
		listen = "unix:http.sock"
		[program.listens]
		command = "sleep infinity"
		sockets = ["http"]
		[notify.ops]
		exec = "true"
		programs = ["web"]
		[notify.deaf]
		exec = "false"
		programs = ["web"]
		`)
	d := s.Start()
	a := loadAPI(t)
	s.WaitStatus("web@1", "is healthy", func(st harness.Status) bool { return st.State == "running" && st.Healthy != nil })
	s.WaitStatus("crashes", "has crashed twice", func(st harness.Status) bool { return st.Restarts > 1 })
	s.WaitLog("web@1", "line")

	for _, request := range []struct {
		target string
		status int
	}{
		{"GET /v1/status", 200},
		{"GET /v1/status?brief=1&name=web", 200},
		{"GET /v1/status?name=wbe", 404},
		{"GET /v1/status?nmae=web", 400},
		{"GET /v1/status/watch?name=web", 200},
		{"GET /v1/programs/web@1/logs?lines=2", 200},
		{"GET /v1/programs/web/logs", 409},
		{"GET /v1/logs?name=web&lines=3", 200},
		{"GET /v1/logs?name=crashes&lines=3", 200},
		{"GET /v1/logs?name=web&lines=3&blocks=1", 200},
		{"POST /v1/logs?name=labelled&lines=3&raw=1", 200},
		{"GET /v1/logs?grep=(", 400},
		{"GET /v1/tree", 200},
		{"GET /v1/sockets", 200},
		{"GET /v1/programs/web/why", 200},
		{"GET /v1/why?name=crashes&name=missing", 200},
		{"GET /v1/why", 400},
		{"GET /v1/events", 200},
		{"GET /v1/events?since=x", 400},
		{"GET /v1/history", 200},
		{"GET /v1/config", 200},
		{"GET /v1/version", 200},
		{"GET /v1/counters", 200},
		{"GET /healthz", 200},
		{"GET /readyz?name=web", 200},
		{"GET /readyz?name=missing", 503},
		{"POST /v1/programs/web/signal?signal=CONT", 200},
		{"POST /v1/programs/signal?name=web&signal=CONT", 200},
		{"POST /v1/programs/web/signal?signal=x", 400},
		{"POST /v1/programs/missing/reset-failed", 200},
		{"POST /v1/programs/reset-failed?name=missing", 200},
		{"POST /v1/programs/web@1/execute", 400},
		{"POST /v1/programs/web@1/attach", 409},
		{"POST /v1/programs/web/reload", 200},
		{"POST /v1/programs/web/clear-logs", 200},
		{"POST /v1/programs/clear-logs?name=web&rotated=1", 200},
		{"POST /v1/programs/reload?name=web&timeout=1m", 200},
		{"POST /v1/programs/web/stop", 200},
		{"POST /v1/programs/stop?name=web&wait=0", 200},
		{"POST /v1/programs/web/start", 200},
		{"POST /v1/programs/start?name=web", 200},
		{"POST /v1/programs/start?name=missing", 200},
		{"POST /v1/programs/unready/start?timeout=1ns", 504},
		{"POST /v1/programs/web/restart", 200},
		{"POST /v1/programs/restart?name=web&rolling=1&canary=1", 200},
		{"GET /v1/status?name=web", 200},     // during a rolling restart
		{"POST /v1/programs/web/await", 200}, // it waits for a decision
		{"POST /v1/programs/web/continue", 200},
		{"POST /v1/programs/await?name=web&name=gone&timeout=1m", 200},
		{"POST /v1/programs/restart?name=web&rolling=1&canary=1", 200},
		{"POST /v1/programs/undo?name=web", 200},
		{"POST /v1/programs/web/undo", 200},
		{"POST /v1/programs/continue?name=web", 200},
		{"POST /v1/scale?scale=web=3", 200},
		{"POST /v1/scale?scale=nobody=3", 404},
		{"POST /v1/scale?scale=web=-1", 409},
		{"POST /v1/programs/web/disable", 200},
		{"POST /v1/programs/disable?name=listens&name=logs", 200},
		{"GET /v1/status?name=web", 200}, // disabled
		{"POST /v1/programs/web/enable", 200},
		{"POST /v1/programs/enable?name=listens&name=logs", 200},
		{"POST /v1/programs/enable", 400},
		{"POST /v1/programs/enable?name=nobody", 404},
		{"POST /v1/programs/nobody/disable", 404},
		{"POST /v1/programs/logs.logger/disable", 409},
		{"GET /v1/notify", 200},
		{"GET /v1/notify?name=ops", 400},
		{"POST /v1/notify/ops/test", 200},
		{"POST /v1/notify/deaf/test", 200},
		{"POST /v1/notify/nobody/test", 404},
		{"POST /v1/reload?dry_run=1", 200},
		{"POST /v1/upgrade?binary=/no/such/file", 409},
	} {
		method, target, _ := strings.Cut(request.target, " ")
		if status, body := a.ask(t, s, method, target); status != request.status {
			t.Errorf("%s: status %d, want %d: %s", request.target, status, request.status, body)
		}
	}

	s.Configure(`
		[program.web]
		comand = "sleep infinity"
		`)
	if status, body := a.ask(t, s, "POST", "/v1/reload"); status != http.StatusUnprocessableEntity {
		t.Errorf("reload with a mistake: status %d: %s", status, body)
	}
	s.Configure(`
		[socket.http]
		listen = "unix:other.sock"
		[program.listens]
		command = "sleep infinity"
		sockets = ["http"]
		[program.new]
		command = "sleep infinity"
		`)
	if status, body := a.ask(t, s, "POST", "/v1/reload"); status != http.StatusOK {
		t.Errorf("reload: status %d: %s", status, body)
	}
	if status, body := a.ask(t, s, "POST", "/v1/upgrade"); status != http.StatusAccepted {
		t.Errorf("upgrade: status %d: %s", status, body)
	}
	harness.Until(t, "the successor answers", func() bool { return s.Ctl("version").Exit == 0 })
	a.ask(t, s, "GET", "/v1/events")
	a.ask(t, s, "GET", "/v1/history")
	if status, body := a.ask(t, s, "POST", "/v1/shutdown"); status != http.StatusAccepted {
		t.Errorf("shutdown: status %d: %s", status, body)
	}
	d.Wait()

	for path, operations := range at(a.document, "paths").(map[string]any) {
		for method := range operations.(map[string]any) {
			operation := strings.ToUpper(method) + " " + path
			if !a.answered[operation] && !strings.HasSuffix(path, "/execute") && !strings.HasSuffix(path, "/attach") {
				t.Errorf("%s was not answered without an error", operation)
			}
		}
	}
}

// TestOpenAPIOfRandomRequests: superd answers any requests as docs/openapi.yaml says.
func TestOpenAPIOfRandomRequests(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, everyKind)
	s.Start()
	a := loadAPI(t)
	r := &requests{rand.New(rand.NewPCG(*requestSeed, 100))}
	for range 500 {
		method, target := r.next()
		a.ask(t, s, method, target)
	}
}
