package server

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"superd/control"
	"superd/tests/golden"
)

const openAPI = "../../docs/openapi.yaml"

// TestOpenAPIIsUpToDate compares docs/openapi.yaml with the table of routes and the types of
// package control: go test ./control/server -update
func TestOpenAPIIsUpToDate(t *testing.T) {
	want := []byte("# Made by go test ./control/server -update from the routes of superd.\n")
	var body bytes.Buffer
	e := yaml.NewEncoder(&body)
	e.SetIndent(2)
	if err := e.Encode(describe(t)); err != nil {
		t.Fatal(err)
	}
	want = append(want, body.Bytes()...)
	if golden.Update() {
		if err := os.WriteFile(openAPI, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(openAPI); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/openapi.yaml is out of date (%v): run go test ./control/server -update", err)
	}
}

// The objects of OpenAPI 3.1, as far as they are used.
type (
	apiDocument struct {
		OpenAPI    string                              `yaml:"openapi"`
		Info       apiInfo                             `yaml:"info"`
		Servers    []apiServer                         `yaml:"servers"`
		Security   []struct{}                          `yaml:"security"`
		Tags       []apiTag                            `yaml:"tags"`
		Paths      map[string]map[string]*apiOperation `yaml:"paths"`
		Components apiComponents                       `yaml:"components"`
	}
	apiInfo struct {
		Title       string            `yaml:"title"`
		Version     string            `yaml:"version"`
		Description string            `yaml:"description"`
		License     map[string]string `yaml:"license"`
	}
	apiServer struct {
		URL         string `yaml:"url"`
		Description string `yaml:"description"`
	}
	apiTag struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	apiOperation struct {
		ID         string                  `yaml:"operationId"`
		Summary    string                  `yaml:"summary"`
		Tags       []string                `yaml:"tags"`
		Parameters []*apiParameter         `yaml:"parameters,omitempty"`
		Body       *apiBody                `yaml:"requestBody,omitempty"`
		Responses  map[string]*apiResponse `yaml:"responses"`
	}
	apiParameter struct {
		Name        string     `yaml:"name"`
		In          string     `yaml:"in"`
		Required    bool       `yaml:"required,omitempty"`
		Description string     `yaml:"description"`
		Schema      *apiSchema `yaml:"schema"`
	}
	apiBody struct {
		Description string               `yaml:"description"`
		Content     map[string]*apiMedia `yaml:"content"`
	}
	apiMedia struct {
		Schema *apiSchema `yaml:"schema,omitempty"`
	}
	apiResponse struct {
		Ref         string               `yaml:"$ref,omitempty"`
		Description string               `yaml:"description,omitempty"`
		Content     map[string]*apiMedia `yaml:"content,omitempty"`
	}
	apiComponents struct {
		Schemas   map[string]*apiSchema   `yaml:"schemas"`
		Responses map[string]*apiResponse `yaml:"responses"`
	}
)

// tagOf names the roles, which are the tags of requests.
var tagOf = map[role]string{roleViewer: "viewer", roleOperator: "operator", roleOwner: "owner"}

// refusalTexts says when a request is refused with a status.
var refusalTexts = map[int]string{
	http.StatusBadRequest:            "The request is invalid: an unknown parameter, or a wrong value.",
	http.StatusForbidden:             "This user may not do this.",
	http.StatusNotFound:              "No program has this name.",
	http.StatusConflict:              "Not now, or not possible: see the message.",
	http.StatusRequestEntityTooLarge: "The body is too large.",
	http.StatusUnprocessableEntity:   "The configuration has mistakes, which are listed.",
	http.StatusInternalServerError:   "superd failed, for example to read a log file.",
	http.StatusServiceUnavailable:    "Too many connections are open, or superd has ended.",
	http.StatusGatewayTimeout:        "Not done within the timeout of the request. superd continues with it.",
}

// describe returns the description of the API.
func describe(t *testing.T) *apiDocument {
	t.Helper()
	types := newTypes(t)
	d := &apiDocument{
		OpenAPI: "3.1.0",
		Info: apiInfo{
			Title: "superd", Version: "1", License: map[string]string{"name": "MIT", "identifier": "MIT"},
			Description: "The control socket of superd, a process supervisor: HTTP/1.1 on the Unix socket superd.sock in " +
				"the runtime directory. The kernel tells superd which user has connected; there are no other credentials. " +
				"docs/api.md explains each request. New keys may be added to answers, and null stands for what is absent.",
		},
		Servers:  []apiServer{{URL: "http://superd", Description: "Any host name will do: the socket decides who answers."}},
		Security: []struct{}{},
		Tags: []apiTag{
			{tagOf[roleViewer], "Requests that read. Viewers, operators and owners may make them."},
			{tagOf[roleOperator], "Requests that control programs. Operators and owners may make them."},
			{tagOf[roleOwner], "Requests that let superd execute what the client chooses. Root and the user of superd may make them."},
		},
		Paths: map[string]map[string]*apiOperation{}, Components: apiComponents{Responses: map[string]*apiResponse{}},
	}
	for status, text := range refusalTexts {
		d.Components.Responses[responseName(status)] = &apiResponse{Description: text,
			Content: map[string]*apiMedia{mediaJSON: {types.of(control.Error{})}}}
	}
	routes := (&Server{}).routes()
	for i := range routes {
		r := &routes[i]
		if d.Paths[r.path] == nil {
			d.Paths[r.path] = map[string]*apiOperation{}
		}
		d.Paths[r.path][strings.ToLower(r.method)] = operation(t, r, types)
	}
	d.Components.Schemas = types.components
	return d
}

// operation returns the description of a route.
func operation(t *testing.T, r *route, types *apiTypes) *apiOperation {
	t.Helper()
	op := &apiOperation{ID: operationID(r), Summary: r.about, Tags: []string{tagOf[r.needs()]}, Responses: map[string]*apiResponse{}}
	refusals := append([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge,
		http.StatusInternalServerError, http.StatusServiceUnavailable}, r.refusals...)
	if strings.Contains(r.path, "{name}") {
		about := "A program, an instance, a group or a glob."
		if strings.HasPrefix(r.path, "/v1/notify/") {
			about = "A receiver of alerts."
		}
		op.Parameters = append(op.Parameters, &apiParameter{Name: "name", In: "path", Required: true, Schema: &apiSchema{Type: "string"},
			Description: about})
		refusals = append(refusals, http.StatusNotFound)
	}
	form := &apiSchema{Type: "object", Properties: map[string]*apiSchema{}}
	for _, name := range r.params {
		p := parameter(t, r, name)
		op.Parameters = append(op.Parameters, p)
		inForm := *p.Schema
		inForm.Description = p.Description
		form.Properties[name] = &inForm
		switch name {
		case "name", "scale":
			refusals = append(refusals, http.StatusNotFound)
		case "timeout":
			refusals = append(refusals, http.StatusGatewayTimeout)
		}
	}
	if r.method == http.MethodPost && len(r.params) > 0 {
		op.Body = &apiBody{Description: "The parameters, instead of those in the query.",
			Content: map[string]*apiMedia{"application/x-www-form-urlencoded": {form}}}
	}
	for _, status := range refusals {
		op.Responses[strconv.Itoa(status)] = &apiResponse{Ref: "#/components/responses/" + responseName(status)}
	}
	for _, a := range r.answers {
		response := op.Responses[strconv.Itoa(a.status)]
		if response == nil || response.Ref != "" {
			response = &apiResponse{Description: responseText(a), Content: map[string]*apiMedia{}}
			op.Responses[strconv.Itoa(a.status)] = response
		}
		of := a.of
		if a.status >= http.StatusBadRequest {
			of = append(slices.Clone(of), control.Error{})
		}
		response.Content[a.media] = &apiMedia{types.of(of...)}
	}
	return op
}

func responseText(a answer) string {
	switch {
	case a.status == http.StatusSwitchingProtocols:
		return "The connection has changed to the other protocol."
	case a.status >= http.StatusBadRequest:
		return "It is not so, or an error."
	case a.media == mediaLines:
		return "A stream of lines, each with JSON of this schema; or blocks, which begin with such a line."
	case a.media == mediaBytes:
		return "Bytes, as they are in the log."
	}
	return "The answer, on one line."
}

func responseName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

// operationID returns a name for a route: postProgramsNameStart.
func operationID(r *route) string {
	id := strings.ToLower(r.method)
	for part := range strings.FieldsFuncSeq(strings.TrimPrefix(r.path, "/v1"), func(c rune) bool { return strings.ContainsRune("/{}-", c) }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

// parameters are the parameters of requests, by name. Where one has another meaning in a route, it
// is there by path and name.
var parameters = map[string]struct {
	about  string
	schema *apiSchema
}{
	"name":             {"A program, an instance, a group or a glob; may be repeated.", stringList},
	"brief":            {"Only name, state and pid.", boolean},
	"lines":            {"Number of last lines, of each instance; without it all.", &apiSchema{Type: "integer", Minimum: new(0)}},
	"follow":           {"Continue with what is new until superd ends.", boolean},
	"since":            {"Nothing older: a duration such as 10m, or an RFC 3339 time.", text},
	"/v1/events since": {"The cursor of an event: only what comes after it; or a duration or a time, as for logs.", text},
	"until":            {"Nothing newer, as since; not with follow.", text},
	"run":              {"One run: 0 the newest, -1 the one before, or an invocation id or its beginning.", text},
	"grep":             {"Only lines that match this regular expression (RE2).", text},
	"raw":              {"Lines as they are in the file.", boolean},
	"times":            {"With follow: lines of raw logs have the time at which they came.", boolean},
	"skip":             {"With follow: skip output when the client is more than 16 MiB behind.", boolean},
	"blocks":           {"Answer with blocks of lines.", boolean},
	"cursor":           {"Continue after this line; may be repeated, one for each instance.", stringList},
	"signal":           {"HUP, SIGHUP or 1.", text},
	"command":          {"A word of the command; once for each.", stringList},
	"terminal":         {"Standard input is a terminal, which becomes the controlling one.", boolean},
	"term":             {"Value of the variable TERM.", text},
	"wait":             {"0: answer at once, not when it is done.", boolean},
	"timeout":          {"Wait no longer: a duration such as 1m30s.", text},
	"rolling":          {"One instance after the other.", boolean},
	"rotated":          {"Remove the rotated log files, too.", boolean},
	"canary":           {"With rolling: so many extra instances are started first.", &apiSchema{Type: "integer", Minimum: new(1)}},
	"scale":            {"PROGRAM=N; may be repeated.", stringList},
	"dry_run":          {"Say what it would do, and do nothing.", boolean},
	"binary":           {"Absolute path of the other binary; without it the file that superd was started from.", text},
}

var (
	text       = &apiSchema{Type: "string"}
	stringList = &apiSchema{Type: "array", Items: text}
	boolean    = &apiSchema{Type: "string", Enum: []string{"1", "0", "true", "false"}}
)

func parameter(t *testing.T, r *route, name string) *apiParameter {
	t.Helper()
	p, ok := parameters[r.path+" "+name]
	if !ok {
		p, ok = parameters[name]
	}
	if !ok {
		t.Errorf("%s %s: the parameter %s has no description here", r.method, r.path, name)
	}
	return &apiParameter{Name: name, In: "query", Description: p.about, Schema: p.schema}
}

// TestRoutesAreDescribed checks that each route says what it does and what it answers, and that
// each description of a parameter is of one that exists.
func TestRoutesAreDescribed(t *testing.T) {
	used := map[string]bool{}
	ids := map[string]bool{}
	routes := (&Server{}).routes()
	for i := range routes {
		r := &routes[i]
		if !strings.HasSuffix(r.about, ".") || len(r.answers) == 0 || ids[operationID(r)] {
			t.Errorf("%s %s: about %q, answers %v, id %s", r.method, r.path, r.about, r.answers, operationID(r))
		}
		ids[operationID(r)] = true
		for _, name := range r.params {
			used[name], used[fmt.Sprint(r.path, " ", name)] = true, true
		}
	}
	for name := range parameters {
		if !used[name] {
			t.Errorf("no route has the parameter %s", name)
		}
	}
}
