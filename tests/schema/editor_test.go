package schema

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"superd/tests/harness"
)

// An editor is a client of a language server. Source: the Language Server Protocol, 3.17.
type editor struct {
	t   *testing.T
	to  io.WriteCloser
	out *bufio.Reader
	id  int
}

// open starts taplo's language server and opens a file in it.
func open(t *testing.T, dir, name, text string) (e *editor, uri string) {
	t.Helper()
	script, err := filepath.Abs("editor.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := tool(t, dir, "node", script, filepath.Dir(*tools))
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		to.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	e = &editor{t: t, to: to, out: bufio.NewReader(out)}
	uri = "file://" + filepath.Join(dir, name)
	e.request("initialize", map[string]any{
		"processId": nil, "rootUri": "file://" + dir,
		"workspaceFolders": []any{map[string]any{"uri": "file://" + dir, "name": "superd"}},
		"capabilities":     map[string]any{"workspace": map[string]any{"configuration": true}},
	})
	e.send(map[string]any{"method": "initialized", "params": map[string]any{}})
	e.send(map[string]any{"method": "textDocument/didOpen", "params": map[string]any{
		"textDocument": map[string]any{"uri": uri, "languageId": "toml", "version": 1, "text": text},
	}})
	return e, uri
}

// request returns the result of a request. Requests of the server are answered meanwhile.
func (e *editor) request(method string, params any) json.RawMessage {
	e.t.Helper()
	e.id++
	e.send(map[string]any{"id": e.id, "method": method, "params": params})
	for {
		m := e.receive()
		switch {
		case m.Method == "workspace/configuration":
			e.send(map[string]any{"id": m.ID, "result": []any{settings}})
		case m.Method != "" && m.ID != nil:
			e.send(map[string]any{"id": m.ID, "result": nil})
		case m.Method == "" && string(m.ID) == strconv.Itoa(e.id):
			if m.Error != nil {
				e.t.Fatalf("%s: %s", method, m.Error)
			}
			return m.Result
		}
	}
}

// settings are those of the extension of VS Code. Without catalogs taplo asks no server for
// schemas.
var settings = map[string]any{"schema": map[string]any{"enabled": true, "catalogs": []any{}}}

// A message is one of the language server.
type message struct {
	ID            json.RawMessage
	Method        string
	Result, Error json.RawMessage
}

// send sends a message as a line.
func (e *editor) send(m map[string]any) {
	e.t.Helper()
	m["jsonrpc"] = "2.0"
	if err := json.NewEncoder(e.to).Encode(m); err != nil {
		e.t.Fatal(err)
	}
}

func (e *editor) receive() (m message) {
	e.t.Helper()
	line, err := e.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	if err != nil {
		e.t.Fatalf("read from taplo: %v\n%s", err, line)
	}
	return m
}

// TestEditor: an editor with taplo shows the meaning of a key, and completes keys and choices.
func TestEditor(t *testing.T) {
	dir := withSchema(t)
	lines := []string{
		"#:schema ./superd.schema.json",
		"[program.web]",
		`command = "web"`,
		`restart = ""`,
		`stop_signal = ""`,
		`backoff.initial = "1s"`,
		`sto`,
		"[socket.http]",
		`listen = ":80"`,
	}
	text := strings.Join(lines, "\n") + "\n"
	write(t, dir, "superd.toml", text)
	e, uri := open(t, dir, "superd.toml", text)
	tests := []struct {
		method       string
		line, column int
		want         []string
	}{
		{"hover", 2, 2, []string{"What to run.", "split as a shell would"}},
		{"hover", 5, 10, []string{"Delay before the first restart.", "100ms"}},
		{"hover", 8, 2, []string{"Where superd listens"}},
		{"completion", 3, 11, []string{`on-failure`, `always`, `never`}},
		{"completion", 4, 15, []string{`SIGTERM`, `SIGHUP`}},
		{"completion", 6, 3, []string{`stop_timeout`, `stop_command`}},
	}
	for _, tt := range tests {
		params := map[string]any{
			"textDocument": map[string]any{"uri": uri},
			"position":     map[string]any{"line": tt.line, "character": tt.column},
		}
		var answer string
		// The server reads the schema after it has opened the file.
		harness.Until(t, fmt.Sprintf("%s of %s", tt.method, lines[tt.line]), func() bool {
			answer = string(e.request("textDocument/"+tt.method, params))
			return answer != "null"
		})
		for _, want := range tt.want {
			if !strings.Contains(answer, want) {
				t.Errorf("%s at %d:%d of\n%s\nlacks %q:\n%s", tt.method, tt.line, tt.column, lines[tt.line], want, answer)
			}
		}
	}
}
