package receiver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// MaxBody bounds the body of a delivery, in bytes.
const MaxBody = 1 << 20

// Sample is a delivery as JSON, with each key that one can have. Templates are tried with it.
const Sample = `{
"version": 1, "id": "17-1795677707350123", "receiver": "ops", "host": "web1",
"sent_at": "2026-11-21T07:21:47.4Z", "attempt": 1, "test": false,
"alerts": [{
  "id": "17-1795677707350123", "number": 17, "at": "2026-11-21T07:21:47.350123Z",
  "condition": "failed", "instance": "web", "program": "web", "groups": ["frontend"],
  "text": "web has failed: exit status 3", "reason": "exit status 3", "reason_kind": "exited",
  "state": "failed", "run": "5a2d44600e64915efd107fee1c2e8843",
  "exit": {"code": 3, "signal": null, "known": true}, "output": ["no such table"],
  "since": "2026-11-21T07:21:47.350123Z", "reminder": 0, "recovers": ["failed"]}],
"more": [{"condition": "failed", "count": 2, "programs": ["web"], "first": 18, "last": 20}],
"lost": {"events": 5, "reason": "5 events are missing", "up_to": 12}
}`

// bareSample is a delivery in which all that may be missing is missing.
const bareSample = `{
"version": 1, "id": "lost-17", "receiver": "ops", "host": "", "sent_at": "2026-11-21T07:21:47.4Z",
"attempt": 1, "test": true,
"alerts": [{
  "id": "lost-17", "number": 0, "at": "2026-11-21T07:21:47.350123Z", "condition": "events-lost",
  "instance": "", "program": "", "groups": [], "text": "", "reason": "", "reason_kind": "", "state": "",
  "run": "", "exit": null, "output": [], "since": "2026-11-21T07:21:47.350123Z", "reminder": 0, "recovers": []}],
"more": [], "lost": null
}`

// errTooLarge ends a template that writes too much.
var errTooLarge = fmt.Errorf("the body has more than %d bytes", MaxBody)

// parse parses a template. strict makes unknown keys an error.
func parse(text string, strict bool) (*template.Template, error) {
	option := "missingkey=zero"
	if strict {
		option = "missingkey=error"
	}
	return template.New("template").Option(option).Funcs(template.FuncMap{"json": toJSON}).Parse(text)
}

// toJSON returns v as JSON on one line.
func toJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// Render returns the body that a template makes of a delivery as JSON.
func Render(text string, delivery []byte) ([]byte, error) { return render(text, delivery, false) }

func render(text string, delivery []byte, strict bool) ([]byte, error) {
	t, err := parse(text, strict)
	if err != nil {
		return nil, plain(err)
	}
	var data any
	decoder := json.NewDecoder(bytes.NewReader(delivery))
	decoder.UseNumber() // as it is written, also a number of 16 digits
	if err := decoder.Decode(&data); err != nil {
		return nil, fmt.Errorf("read delivery: %w", err)
	}
	var body bounded
	if err := t.Execute(&body, data); err != nil {
		if errors.Is(err, errTooLarge) {
			err = errTooLarge
		}
		return nil, plain(err)
	}
	return body.Bytes(), nil
}

// CheckTemplate returns the mistake in a template, with the remedy; nil for none.
func CheckTemplate(text string) error {
	if _, err := render(text, []byte(Sample), true); err != nil {
		return fmt.Errorf("is no template that works: %w: see docs/alerts.md for what it can use", err)
	}
	if _, err := render(text, []byte(bareSample), true); err != nil {
		return fmt.Errorf("does not work if output, groups or exit are missing: %w: write {{with .exit}}…{{end}} or {{range .output}}…{{end}}", err)
	}
	return nil
}

// plain returns an error of a template without what text/template puts before it.
func plain(err error) error {
	text := strings.TrimPrefix(err.Error(), "template: ")
	return errors.New(strings.TrimPrefix(text, "template:"))
}

// A bounded is a buffer with a limit.
type bounded struct{ bytes.Buffer }

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxBody {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}
