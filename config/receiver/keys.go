package receiver

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"superd/config/codec"
	"superd/config/document"
)

// Table is the name of the table that has the receivers.
const Table = "notify"

// A Key describes one key of [notify.NAME].
type Key struct {
	Name    string
	Codec   string // how it is written, for the reference
	Default string // as TOML, "" for none
	Instead string // default in words; "": see Default
	Doc     string // meaning, as Markdown
	Schema  func() *codec.Schema

	secret bool // its values must not be shown
	set    func(r *Receiver, v codec.Value)
	get    func(r *Receiver) any
	shown  func(r *Receiver) string
}

// bind returns a key whose value k reads into a field of the receiver.
func bind[T any](name string, k codec.Codec[T], field func(*Receiver) *T, doc string) Key {
	return Key{
		Name: name, Codec: k.Name, Default: k.Show(*field(builtin())), Doc: doc, Schema: k.Schema,
		set: func(r *Receiver, v codec.Value) {
			if read, ok := k.Read(v); ok {
				*field(r) = read
			}
		},
		get:   func(r *Receiver) any { return *field(r) },
		shown: func(r *Receiver) string { return k.Show(*field(r)) },
	}
}

// maxRate bounds rate, far below an overflow.
const maxRate = 100_000

// Keys returns the keys of [notify.NAME], in the order of the reference.
func Keys() []Key {
	conditions := codec.List("array of conditions", codec.Choice(Conditions()...))
	on := bind("on", conditions,
		func(r *Receiver) *[]Condition { return &r.On },
		"What it is told of: `\"failed\"`, `\"unhealthy\"`, `\"oom\"`, `\"flapping\"`, "+
			"`\"recovered\"`, `\"schedule-missed\"`, `\"log-lost\"`. See [Alerts](alerts.md#conditions).")
	on.Instead, on.Schema = "all", func() *codec.Schema {
		s := conditions.Schema()
		s.MinItems = 1
		return s
	}
	programs := bind("programs", codec.List("array of strings", pattern),
		func(r *Receiver) *[]string { return &r.Programs },
		"The programs that it is told of: names of programs, instances and groups, and globs such "+
			"as `\"web*\"`.")
	programs.Instead = "all"
	user := bind("user", codec.Word, func(r *Receiver) *string { return &r.User },
		"The Unix user that the command of `exec` runs as.")
	user.Instead = "superd's own"
	webhook := bind("webhook", webURL, func(r *Receiver) *string { return &r.Webhook },
		"An http or https URL that gets alerts as the body of a POST request. Either this or `exec`.")
	webhook.secret = true // the URLs of chats have a secret
	return []Key{
		on, programs,
		bind("exec", codec.Command, func(r *Receiver) *[]string { return &r.Exec },
			"A command that gets alerts on standard input. It runs as a program's command would, "+
				"without a cgroup's limits; exit status 0 means that they are delivered."),
		user, webhook,
		bind("secret_file", codec.FilePath, func(r *Receiver) *string { return &r.SecretFile },
			"A file with the secret that signs requests: the header `X-Superd-Signature-256` has "+
				"`sha256=` and the HMAC-SHA256 of the body in hexadecimal. Only superd's user may be "+
				"able to read it."),
		bind("template", bodyTemplate, func(r *Receiver) *string { return &r.Template },
			"A template of the body in the language of Go's "+
				"[text/template](https://pkg.go.dev/text/template), over the JSON. `{{json .x}}` "+
				"writes a value as JSON."),
		bind("batch", codec.Duration(true), func(r *Receiver) *time.Duration { return &r.Batch },
			"How long alerts gather for one delivery, from the first one on; `\"0s\"`: each alert "+
				"is a delivery of its own."),
		bind("rate", codec.Integer(0, maxRate), func(r *Receiver) *int { return &r.Rate },
			"How many deliveries a minute there are at most; 0: no limit. What is beyond gathers "+
				"for the next one, which counts what it has no room for."),
		bind("repeat", codec.Duration(true), func(r *Receiver) *time.Duration { return &r.Repeat },
			"How often it is reminded while a condition lasts; `\"0s\"`: never."),
		bind("timeout", codec.Duration(false), func(r *Receiver) *time.Duration { return &r.Timeout },
			"How long a delivery may take. Then it has failed, and the command is killed with all "+
				"its processes."),
	}
}

// pattern reads a name or a glob of programs.
var pattern = codec.Text("string", "a name", func(s string) (string, error) {
	if _, err := path.Match(s, ""); s == "" || err != nil {
		return "", fmt.Errorf("%s is neither a name nor a glob: write one such as \"web\" or \"web*\"",
			document.Quote(s))
	}
	return s, nil
}, strconv.Quote)

// webURL reads a URL of http or https.
var webURL = codec.Text("string", "a URL", func(s string) (string, error) {
	const remedy = `write one such as "https://example.org/alerts"`
	u, err := url.Parse(s)
	switch {
	case err != nil: // the error repeats the URL, which may be secret
		var cause *url.Error
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return "", fmt.Errorf("is not a URL: %w: %s", err, remedy)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("must begin with http:// or https://, got %s: %s",
			document.Quote(u.Scheme+":"), remedy)
	case u.Hostname() == "":
		return "", fmt.Errorf("names no host: %s", remedy)
	case strings.ContainsAny(s, "{}"):
		return "", fmt.Errorf("is taken literally, and a URL has no braces: write what stands for them")
	}
	return s, nil
}, codec.QuoteSet).Matching(`^[hH][tT][tT][pP][sS]?://[^{}]+$`)

// bodyTemplate reads a template and tries it.
var bodyTemplate = codec.Text("string", "a template", func(s string) (string, error) {
	if s == "" {
		return "", errors.New("is empty: remove the key, or write a template such as " +
			"\"{{range .alerts}}{{.text}}\\n{{end}}\"")
	}
	if err := CheckTemplate(s); err != nil {
		return "", err
	}
	return s, nil
}, codec.QuoteSet)

// differences returns the names of the keys that differ.
func differences(before, after *Receiver) (names []string) {
	for _, k := range Keys() {
		if !reflect.DeepEqual(k.get(before), k.get(after)) {
			names = append(names, k.Name)
		}
	}
	return names
}

// A SetKey is a key whose value is not the built-in default.
type SetKey struct {
	Name, Value string // as TOML
}

// SetKeys returns the keys of a receiver that have not the built-in default.
func (r *Receiver) SetKeys() (all []SetKey) {
	for _, k := range Keys() {
		if !reflect.DeepEqual(k.get(r), k.get(builtin())) {
			all = append(all, SetKey{k.Name, k.shown(r)})
		}
	}
	return all
}
