package supervisor

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/compat/xmlrpc"
	"superd/control"
)

// fake is an API with instances that start and stop at once.
type fake struct {
	API
	all     []control.Status
	config  map[string]string
	dry     control.ReloadResult
	dryErr  error
	reloads int
	calls   []string
}

func (f *fake) Status(_ context.Context, names []string) (all []control.Status, err error) {
	for _, st := range f.all {
		if len(names) == 0 || slices.Contains(names, st.Name) {
			all = append(all, st)
		}
	}
	return all, nil
}

func (f *fake) Command(_ context.Context, verb string, names []string, wait bool, _ time.Duration) (done []control.CommandResult, err error) {
	f.calls = append(f.calls, verb+" "+strings.Join(names, " "))
	for _, name := range names {
		at := slices.IndexFunc(f.all, func(st control.Status) bool { return st.Name == name })
		st, ok := &f.all[at], true
		switch {
		case verb == "stop":
			st.State, st.Pid = control.StateStopped, nil
		case st.Program == "bad":
			st.State, ok = control.StateFailed, false
		default:
			st.State, st.Pid = control.StateRunning, new(7)
		}
		done = append(done, control.CommandResult{Name: name, OK: ok})
	}
	return done, nil
}

func (f *fake) Signal(_ context.Context, signal string, names []string) (done []control.CommandResult, err error) {
	if signal != "HUP" {
		return nil, &control.Error{Status: http.StatusBadRequest, Message: "unknown signal"}
	}
	for _, name := range names {
		done = append(done, control.CommandResult{Name: name, OK: true})
	}
	return done, nil
}

func (f *fake) ClearLogs(_ context.Context, names []string, _ bool) (done []control.CommandResult, err error) {
	for _, name := range names {
		done = append(done, control.CommandResult{Name: name, OK: name != "bad", Message: "its output goes to syslog"})
	}
	return done, nil
}

func (f *fake) Config(context.Context, []string) (all []control.Configured, err error) {
	for name, text := range f.config {
		all = append(all, control.Configured{Program: name, Text: text})
	}
	return all, nil
}

func (f *fake) DryReload(context.Context) (control.ReloadResult, error) { return f.dry, f.dryErr }

func (f *fake) Reload(context.Context) (control.ReloadResult, error) {
	f.reloads++
	f.all = slices.DeleteFunc(f.all, func(st control.Status) bool { return slices.Contains(f.dry.Removed, st.Program) })
	for _, name := range f.dry.Added {
		f.all = append(f.all, status(name, control.StateRunning))
	}
	f.dry = control.ReloadResult{}
	return f.dry, nil
}

func (f *fake) Version(context.Context) (control.Version, error) { return control.Version{}, nil }

func (f *fake) Shutdown(context.Context) (control.Shutdown, error) { return control.Shutdown{}, nil }

func status(instance, state string, groups ...string) control.Status {
	program, _, _ := strings.Cut(instance, "@")
	st := control.Status{Name: instance, Program: program, State: state, Groups: groups}
	if state == control.StateRunning {
		st.Pid, st.Uptime = new(5), new(90061.5)
	}
	return st
}

func newFake() *fake {
	return &fake{all: []control.Status{
		status("bad", control.StateStopped), status("b", control.StateRunning, "g", "h"),
		status("a", control.StateStopped, "g"), status("web@1", control.StateRunning), status("web@2", control.StateStopped),
	}, config: map[string]string{"web": "[program.web]\ncommand = [\"/bin/web\", \"-v\"]\nreplicas = 2\nstop_signal = \"INT\"\n",
		"a": "[program.a]\nautostart = false\n"}}
}

// request calls a method with the role of an owner.
func request(t *testing.T, h *Handler, method string, params ...any) (any, *xmlrpc.Fault) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/RPC2", bytes.NewReader(xmlrpc.AppendCall(nil, method, params...)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	value, err := xmlrpc.ReadAnswer(w.Body)
	fault, isFault := errors.AsType[*xmlrpc.Fault](err)
	if err != nil && !isFault {
		t.Fatalf("%s: %v", method, err)
	}
	return value, fault
}

func newHandler(api API, role Role) *Handler {
	return NewHandler(New(api), func(*http.Request) Role { return role }, os.Open, 42)
}

func TestMethods(t *testing.T) {
	tests := []struct {
		method string
		params []any
		want   any // a number is the code of a fault
	}{
		{"supervisor.getVersion", nil, "3.0"},
		{"supervisor.getPID", nil, 42},
		{"supervisor.nosuch", nil, -UnknownMethod},
		{"getPID", nil, -UnknownMethod},
		{"supervisor.getPID", []any{1}, -IncorrectParameters},
		{"supervisor.startProcess", []any{1}, -IncorrectParameters},
		{"supervisor.startProcess", []any{"a"}, -BadName},
		{"supervisor.startProcess", []any{"g:a"}, true},
		{"supervisor.startProcess", []any{"g:a", false}, true},
		{"supervisor.startProcess", []any{"g:b"}, -AlreadyStarted},
		{"supervisor.startProcess", []any{"bad"}, -SpawnError},
		{"supervisor.startProcess", []any{"web:web_00"}, -AlreadyStarted},
		{"supervisor.startProcess", []any{"web@2", true}, true},
		{"supervisor.stopProcess", []any{"web"}, -BadName},
		{"supervisor.stopProcess", []any{"web:web_01", 1}, -NotRunning},
		{"supervisor.stopProcess", []any{"web:web_00"}, true},
		{"supervisor.signalProcess", []any{"g:b", "HUP"}, true},
		{"supervisor.signalProcess", []any{"g:b", "WHAT"}, -BadSignal},
		{"supervisor.signalProcess", []any{"g:a", "HUP"}, -NotRunning},
		{"supervisor.startProcessGroup", []any{"h"}, -BadName},
		{"supervisor.startProcessGroup", []any{""}, -BadName},
		{"supervisor.startProcessGroup", []any{"g"}, []any{
			map[string]any{"group": "g", "name": "a", "status": Success, "description": "OK"}}},
		{"supervisor.stopProcess", []any{"g:*"}, []any{
			map[string]any{"group": "g", "name": "b", "status": Success, "description": "OK"}}},
		{"supervisor.startAllProcesses", nil, []any{
			map[string]any{"group": "bad", "name": "bad", "status": SpawnError, "description": "SPAWN_ERROR: bad"},
			map[string]any{"group": "g", "name": "a", "status": Success, "description": "OK"},
			map[string]any{"group": "web", "name": "web_01", "status": Success, "description": "OK"}}},
		{"supervisor.readLog", []any{0, 0}, -NoFile},
		{"supervisor.clearProcessLogs", []any{"g:b"}, true},
		{"supervisor.clearProcessLog", []any{"bad"}, -Failed},
		{"supervisor.clearProcessLogs", []any{"nosuch"}, -BadName},
		{"supervisor.clearAllProcessLogs", nil, []any{
			map[string]any{"group": "bad", "name": "bad", "status": Failed, "description": "FAILED: its output goes to syslog"},
			map[string]any{"group": "g", "name": "a", "status": Success, "description": "OK"},
			map[string]any{"group": "g", "name": "b", "status": Success, "description": "OK"},
			map[string]any{"group": "web", "name": "web_00", "status": Success, "description": "OK"},
			map[string]any{"group": "web", "name": "web_01", "status": Success, "description": "OK"}}},
		{"supervisor.clearLog", nil, -NoFile},
		{"supervisor.sendRemoteCommEvent", []any{"type", "data"}, true},
		{"supervisor.sendProcessStdin", []any{"g:b", "x"}, -NoFile},
		{"system.multicall", []any{[]any{
			map[string]any{"methodName": "supervisor.getPID", "params": []any{}},
			map[string]any{"methodName": "system.multicall", "params": []any{}}, map[string]any{}}}, []any{42,
			map[string]any{"faultCode": 2, "faultString": "INCORRECT_PARAMETERS: Recursive system.multicall forbidden"},
			map[string]any{"faultCode": 2, "faultString": "INCORRECT_PARAMETERS: No methodName"}}},
	}
	for _, test := range tests {
		got, fault := request(t, newHandler(newFake(), Owner), test.method, test.params...)
		if fault != nil {
			got = -fault.Code
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s%v = %v (%v), want %v", test.method, test.params, got, fault, test.want)
		}
	}
}

func TestInfo(t *testing.T) {
	h := newHandler(newFake(), Viewer)
	all, fault := request(t, h, "supervisor.getAllProcessInfo")
	if fault != nil {
		t.Fatal(fault)
	}
	var lines []string
	for _, v := range all.([]any) {
		i := v.(map[string]any)
		lines = append(lines, i["group"].(string)+":"+i["name"].(string)+" "+i["statename"].(string)+" "+i["description"].(string))
	}
	want := []string{"bad:bad STOPPED Not started", "g:a STOPPED Not started", "g:b RUNNING pid 5, uptime 1 day, 1:01:01",
		"web:web_00 RUNNING pid 5, uptime 1 day, 1:01:01", "web:web_01 STOPPED Not started"}
	if !slices.Equal(lines, want) {
		t.Errorf("processes %q, want %q", lines, want)
	}
	all, fault = request(t, h, "supervisor.getAllConfigInfo")
	if fault != nil {
		t.Fatal(fault)
	}
	for _, v := range all.([]any) {
		if i := v.(map[string]any); i["name"] == "web_00" {
			if i["command"] != "/bin/web -v" || i["stopsignal"] != 2 || i["stopwaitsecs"] != 10 || i["autostart"] != true || i["inuse"] != true {
				t.Errorf("configuration %v", i)
			}
		} else if i["name"] == "a" && i["autostart"] != false {
			t.Errorf("configuration %v", i)
		}
	}
}

// TestRoles: who may only view programs can't call what changes something, nor an operator what
// ends superd.
func TestRoles(t *testing.T) {
	needs := map[Role]bool{}
	for name, m := range methods() {
		if name == "system.listMethods" {
			continue
		}
		params := make([]any, m.least)
		for i := range params {
			params[i] = "x"
		}
		for _, role := range []Role{Viewer, Operator} {
			f := newFake()
			_, fault := request(t, newHandler(f, role), name, params...)
			refused := fault != nil && strings.Contains(fault.Text, "may only view")
			if refused != (role < m.needs) {
				t.Errorf("role %d, %s: %v", role, name, fault)
			}
			if refused && len(f.calls) > 0 {
				t.Errorf("role %d, %s: %v", role, name, f.calls)
			}
		}
		needs[m.needs] = true
	}
	if len(needs) != 3 {
		t.Errorf("methods need the roles %v", needs)
	}
}

func TestUpdate(t *testing.T) {
	f := newFake()
	h := newHandler(f, Operator)
	f.dryErr = errors.New("line 3: bad")
	if _, fault := request(t, h, "supervisor.reloadConfig"); fault == nil || fault.Code != CantReread {
		t.Errorf("mistake in the file: %v", fault)
	}
	f.dryErr = nil
	f.all = append(f.all, status("old", control.StateStopped, "h"))
	f.dry = control.ReloadResult{Added: []string{"new"}, Removed: []string{"bad", "old"}, Changed: []string{"b"}}
	got, fault := request(t, h, "supervisor.reloadConfig")
	if want := []any{[]any{[]any{"new"}, []any{"g"}, []any{"bad", "h"}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("reread: %v, %v, want %v", got, fault, want)
	}
	// As `supervisorctl update` does it. superd reloads once.
	for _, step := range []struct {
		method, group string
		fault         int
	}{
		{"stopProcessGroup", "bad", 0}, {"removeProcessGroup", "bad", 0}, {"removeProcessGroup", "bad", BadName},
		{"stopProcessGroup", "h", 0}, {"removeProcessGroup", "h", 0}, {"removeProcessGroup", "h", BadName},
		{"removeProcessGroup", "g", StillRunning}, {"stopProcessGroup", "g", 0}, {"removeProcessGroup", "g", 0},
		{"startProcessGroup", "g", BadName}, {"addProcessGroup", "g", 0}, {"addProcessGroup", "new", 0}, {"addProcessGroup", "new", AlreadyAdded},
		{"addProcessGroup", "nosuch", BadName},
	} {
		_, fault := request(t, h, "supervisor."+step.method, step.group)
		code := 0
		if fault != nil {
			code = fault.Code
		}
		if code != step.fault {
			t.Errorf("%s(%s): %v, want %d", step.method, step.group, fault, step.fault)
		}
	}
	if f.reloads != 1 {
		t.Errorf("%d reloads, want 1", f.reloads)
	}
	// a does not start with superd.
	if want := []string{"stop b", "start b"}; !slices.Equal(f.calls, want) {
		t.Errorf("commands %q, want %q", f.calls, want)
	}
}

func TestLogs(t *testing.T) {
	f := newFake()
	path := filepath.Join(t.TempDir(), "b.log")
	f.all[1].LogFile = &path
	h := newHandler(f, Viewer)
	if _, fault := request(t, h, "supervisor.readProcessStdoutLog", "g:b", 0, 0); fault == nil || fault.Code != NoFile {
		t.Errorf("missing file: %v", fault)
	}
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method         string
		offset, length int
		want           any
	}{
		{"read", 0, 0, "0123456789"}, {"read", 2, 3, "234"}, {"read", -3, 0, "789"}, {"read", -30, 0, "0123456789"},
		{"read", 20, 5, ""}, {"read", -3, 2, -BadArguments}, {"read", 0, -1, -BadArguments},
		{"tail", 0, 4, []any{"6789", 10, true}}, {"tail", 8, 100, []any{"89", 10, false}}, {"tail", 10, 5, []any{"", 10, false}},
		{"tail", 50, 5, []any{"", 10, false}},
	} {
		got, fault := request(t, h, "supervisor."+test.method+"ProcessStdoutLog", "g:b", test.offset, test.length)
		if fault != nil {
			got = -fault.Code
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s(%d, %d) = %v, want %v", test.method, test.offset, test.length, got, test.want)
		}
	}
}

func TestHTTP(t *testing.T) {
	h := newHandler(newFake(), Owner)
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, "/RPC2", "", http.StatusBadRequest},
		{http.MethodPost, "/RPC2", "no xml", http.StatusBadRequest},
		{http.MethodPost, "/RPC2", "<methodCall></methodCall>", http.StatusBadRequest},
		{http.MethodPost, "/RPC2", strings.Repeat(" ", maxCall+1), http.StatusBadRequest},
		{http.MethodGet, "/", "", http.StatusNotFound},
		{http.MethodGet, "/mainlogtail", "", http.StatusNotFound},
		{http.MethodGet, "/logtail/nosuch/stdout", "", http.StatusNotFound},
		{http.MethodGet, "/logtail/g:b/other", "", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
		if w.Code != test.status {
			t.Errorf("%s %s: status %d, want %d", test.method, test.path, w.Code, test.status)
		}
	}
}
