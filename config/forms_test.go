package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"superd/config/codec"
	"superd/config/document"
	"superd/tests/golden"
)

// forms has each key in each form that files of users may have, and what it means:
//
//	stop_timeout = "1h30m" # "1h30m0s"
//
// Further keys that the first one needs follow it, after " ; ". A line is never changed or removed:
// docs/compatibility.md promises that.
const forms = "testdata/v1/forms.txt"

// TestForms checks that all forms are accepted, and mean what they did. -update writes the meaning
// of lines that have none, and changes no other.
func TestForms(t *testing.T) {
	text, err := os.ReadFile(forms)
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	table, seen := "", map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if header, ok := strings.CutPrefix(line, "["); ok {
			table = strings.TrimSuffix(header, "]")
		}
		source, want, known := strings.Cut(line, " # ")
		key, _, isForm := strings.Cut(source, " = ")
		if !isForm {
			fmt.Fprintln(&written, line)
			continue
		}
		seen[table+"."+key] = true
		got, err := meaning(table, key, strings.ReplaceAll(source, " ; ", "\n"))
		switch {
		case err != nil:
			t.Errorf("[%s] %s: %v", table, source, err)
		case !known && !golden.Update():
			t.Errorf("[%s] %s has no meaning: go test ./config -run Forms -update", table, source)
		case known && got != want:
			t.Errorf("[%s] %s\nmeans %s\nwant  %s: files of users rely on it", table, source, got, want)
		}
		if !known {
			want = got
		}
		fmt.Fprintln(&written, source+" # "+want)
	}
	for _, k := range Describe() {
		if !seen[k.Table+"."+k.Name] {
			t.Errorf("%s lacks the key %s of [%s]: add a line for each form", forms, k.Name, k.Table)
		}
	}
	if golden.Update() && !t.Failed() {
		if err := os.WriteFile(forms, []byte(written.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// meaning returns the value of a key, as superd shows it, in a file with these keys in a table.
func meaning(table, key, keysOfTable string) (string, error) {
	const program, socket = "[program.x]\n", "[socket.s]\n"
	var text string
	switch table {
	case "":
		text = keysOfTable + "\n" + program + "command = \"/bin/a\"\n"
	case "program":
		text = program + keysOfTable + "\n" + "[program.db]\ncommand = \"/bin/a\"\n"
		if !strings.HasPrefix(key, "command") {
			text = strings.Replace(text, program, program+"command = \"/bin/a\"\n", 1)
		}
		if strings.Contains(text, "sockets = ") {
			text += socket + "listen = \":80\"\n"
		}
	case "socket":
		text = program + "command = \"/bin/a\"\nsockets = [\"s\"]\n" + socket + keysOfTable + "\n"
		if !strings.Contains(text, "listen = ") {
			text += "listen = \":80\"\n"
		}
	case "notify":
		text = program + "command = \"/bin/a\"\n[notify.n]\n" + keysOfTable + "\n"
	default:
		text = program + "command = \"/bin/a\"\n[" + table + "]\n" + keysOfTable + "\n"
	}
	h := memory(map[string]string{"superd.toml": text, "more.toml": "[program.more]\ncommand = \"/bin/a\"\n", "plain.env": "A=b\n"})
	l := &loader{
		host: h, reader: document.NewReader("superd.toml", h.files),
		report: &codec.Report{}, tables: map[string][]codec.Value{},
		builders: map[string]*builder{}, socketBuilders: map[string]*builder{},
	}
	c := l.config("superd.toml")
	if len(c.Errors) > 0 {
		return "", c.Errors
	}
	b := builtin()
	b.superd, b.control, b.compat, b.web = c.Superd, c.Control, c.Compat, c.Web
	switch table {
	case "program":
		b = l.builders["x"]
	case "socket":
		b = l.socketBuilders["s"]
	case "notify":
		for _, k := range c.Receivers[0].SetKeys() {
			if k.Name == key {
				return k.Value, nil
			}
		}
		return "the default", nil
	case "":
		names := []string{}
		for _, p := range c.Programs {
			names = append(names, p.Name)
		}
		return "programs " + strings.Join(names, ", "), nil
	}
	if key == "environment" {
		return variables(b.Environment, func(string) string { return hiddenValue }), nil
	}
	var all []string
	for _, k := range keys() {
		switch {
		case k.table == table && k.name == key:
			return k.shown(b), nil
		case k.table == table && strings.HasPrefix(k.name, key+"."): // a table such as backoff
			all = append(all, strings.TrimPrefix(k.name, key+".")+" = "+k.shown(b))
		}
	}
	return strings.Join(all, ", "), nil
}
