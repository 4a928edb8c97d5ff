package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"superd/control"
	"superd/procs"
	"superd/procs/selection"
)

// A route is one method and path that the server handles.
type route struct {
	method, path string
	params       []string // accepted parameters, in the query or a form; others are refused
	serve        func(http.ResponseWriter, *http.Request) error
}

func (s *Server) routes() []route {
	logParams := []string{"name", "lines", "follow", "since", "run", "grep", "raw", "cursor", "until", "times", "skip", "blocks"}
	routes := []route{
		{"GET", "/v1/status", []string{"name", "brief"}, s.status},
		{"GET", "/v1/status/watch", []string{"name", "brief"}, s.watch},
		{"GET", "/v1/programs/{name}/logs", []string{"lines", "follow"}, s.logs},
		{"GET", "/v1/logs", logParams, s.readLogs},
		{"POST", "/v1/logs", logParams, s.readLogs},
		{"GET", "/v1/tree", []string{"name"}, s.tree},
		{"GET", "/v1/sockets", nil, s.sockets},
		{"GET", "/v1/programs/{name}/why", nil, s.why},
		{"GET", "/v1/why", []string{"name"}, s.why},
		{"GET", "/v1/events", []string{"name", "since", "lines", "follow"}, s.events},
		{"GET", "/v1/history", []string{"name"}, s.history},
		{"POST", "/v1/programs/signal", []string{"name", "signal"}, s.signal},
		{"POST", "/v1/programs/{name}/signal", []string{"signal"}, s.signal},
		{"GET", "/v1/config", []string{"name"}, s.config},
		{"POST", "/v1/programs/reset-failed", []string{"name"}, s.resetFailed},
		{"POST", "/v1/programs/{name}/reset-failed", nil, s.resetFailed},
		{"POST", "/v1/programs/{name}/execute", []string{"command", "terminal", "term"}, s.execute},
		{"POST", "/v1/programs/reload", []string{"name", "timeout"}, s.reloadPrograms},
		{"POST", "/v1/programs/{name}/reload", []string{"timeout"}, s.reloadPrograms},
		{"POST", "/v1/programs/continue", []string{"name", "timeout"}, s.decideRoll(procs.ContinueRoll)},
		{"POST", "/v1/programs/{name}/continue", []string{"timeout"}, s.decideRoll(procs.ContinueRoll)},
		{"POST", "/v1/programs/undo", []string{"name", "timeout"}, s.decideRoll(procs.UndoRoll)},
		{"POST", "/v1/programs/{name}/undo", []string{"timeout"}, s.decideRoll(procs.UndoRoll)},
		{"POST", "/v1/scale", []string{"scale", "wait", "timeout"}, s.scale},
		{"POST", "/v1/reload", []string{"dry_run"}, s.reload},
		{"POST", "/v1/shutdown", nil, s.shutdown},
		{"POST", "/v1/upgrade", []string{"binary"}, s.upgrade},
		{"GET", "/v1/notify", nil, s.receivers},
		{"POST", "/v1/notify/{name}/test", nil, s.testReceiver},
		{"GET", "/v1/version", nil, s.version},
		{"GET", "/v1/counters", nil, s.counters},
		{"GET", "/healthz", nil, s.healthz},
		{"GET", "/readyz", []string{"name"}, s.readyz},
	}
	for _, op := range []procs.Op{procs.OpStart, procs.OpStop, procs.OpRestart} {
		parameters := []string{"wait", "timeout"}
		if op == procs.OpRestart {
			parameters = append(parameters, "rolling", "canary")
		}
		routes = append(routes,
			route{"POST", "/v1/programs/" + op.String(), append([]string{"name"}, parameters...), s.command(op)},
			route{"POST", "/v1/programs/{name}/" + op.String(), parameters, s.command(op)})
	}
	return routes
}

// handler returns the routes with their common part: limits, parameters, errors as JSON.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	methods := map[string]string{} // by path
	for _, r := range s.routes() {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) {
			err := s.mayUse(req.Context(), &r)
			if err == nil {
				err = s.admit(w, req, &r)
			}
			if err == nil {
				err = r.serve(w, req)
			}
			if err != nil {
				s.refuse(w, req, err)
			}
		})
		if methods[r.path] != "" {
			methods[r.path] += ", "
		}
		methods[r.path] += r.method
	}
	for path, allowed := range methods {
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Allow", allowed)
			s.refuse(w, req, &control.Error{Status: http.StatusMethodNotAllowed,
				Message: fmt.Sprintf("%s does not take %s", req.URL.Path, req.Method), Remedy: "use " + allowed})
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		s.refuse(w, req, &control.Error{Status: http.StatusNotFound,
			Message: fmt.Sprintf("unknown path %s", req.URL.Path), Remedy: "see docs/api.md for all paths"})
	})
	return mux
}

// admit reads the whole request, within limits, and checks its parameters.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, to *route) error {
	limit := int64(maxBodyBytes)
	if slices.Contains(to.params, "cursor") {
		limit = maxCursorBytes
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(s.body))
	if r.ContentLength > limit {
		// A client that has sent its whole request reads the answer; for others the connection may
		// be closed first.
		_, _ = io.CopyN(io.Discard, r.Body, min(r.ContentLength, maxRefusedBytes))
		return errTooLarge(limit)
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err := r.ParseForm()
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return errTooLarge(limit)
	}
	if err != nil {
		return badRequest("", "read request: %v", err)
	}
	_ = connection.SetReadDeadline(time.Time{})
	for name := range r.Form {
		if !slices.Contains(to.params, name) {
			return badRequest(fmt.Sprintf("the parameters are %q", to.params), "unknown parameter %q", name)
		}
	}
	return checkGlobs(r.Form)
}

// checkGlobs returns an error if a request has too many globs as names.
func checkGlobs(form url.Values) error {
	globs := map[string]bool{}
	for _, name := range slices.Concat(form["name"], form["scale"]) {
		if selection.IsPattern(name) {
			globs[name] = true
		}
	}
	if len(globs) > maxGlobs {
		return badRequest("name programs or groups instead", "%d different globs, at most %d are allowed", len(globs), maxGlobs)
	}
	return nil
}

// names returns the programs of a request, from its path or else its parameters.
func names(r *http.Request) []string {
	if name := r.PathValue("name"); name != "" {
		return []string{name}
	}
	return r.Form["name"]
}

// flag returns the value of a boolean parameter: 1, 0, true or false.
func flag(r *http.Request, name string, otherwise bool) (bool, error) {
	text := r.Form.Get(name)
	if text == "" {
		return otherwise, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, badParameter(name, "use 1 or 0", "not a boolean: %q", text)
	}
	return value, nil
}
