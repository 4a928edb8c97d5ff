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

// A route is one method and path that the server handles. docs/openapi.yaml describes all routes:
// go test ./control/server -update.
type route struct {
	method, path string
	params       []string // accepted parameters, in the query or a form; others are refused
	serve        func(http.ResponseWriter, *http.Request) error

	about    string   // what it does, as a sentence
	answers  []answer // apart from errors
	refusals []int    // statuses of errors that only few routes have
}

// An answer is one kind of answer to a request.
type answer struct {
	status int
	media  string // media type
	of     []any  // values of the types that it may be; of a stream, those of a line
}

const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
	mediaBytes = "application/octet-stream"
)

// with returns the only answer of most routes: 200 and JSON of one of these types.
func with(of ...any) []answer { return []answer{{http.StatusOK, mediaJSON, of}} }

// lines returns the answer of a stream: lines of JSON of one of these types.
func lines(of ...any) []answer { return []answer{{http.StatusOK, mediaLines, of}} }

func (s *Server) routes() []route {
	logParams := []string{"name", "lines", "follow", "since", "run", "grep", "raw", "cursor", "until", "times", "skip", "blocks"}
	logAnswers := append(lines(control.LogLine{}, control.LogPlace{}),
		answer{http.StatusOK, mediaBytes, []any{control.LogBlock{}, control.LogPlace{}}})
	statuses := []any{[]control.Status{}, []control.Brief{}}
	results := with([]control.CommandResult{})
	conflict := []int{http.StatusConflict}
	routes := []route{
		{"GET", "/v1/status", []string{"name", "brief"}, s.status,
			"Returns the state of instances.", with(statuses...), nil},
		{"GET", "/v1/status/watch", []string{"name", "brief"}, s.watch,
			"Returns the state at once, and again when it has changed, until superd ends.", lines(statuses...), nil},
		{"GET", "/v1/programs/{name}/logs", []string{"lines", "follow"}, s.logs,
			"Returns the output of an instance, byte for byte.", []answer{{http.StatusOK, mediaBytes, nil}}, conflict},
		{"GET", "/v1/logs", logParams, s.readLogs,
			"Returns lines of output, or with blocks=1 blocks of them.", logAnswers, nil},
		{"POST", "/v1/logs", logParams, s.readLogs,
			"Does the same, with parameters that are too long for a query.", logAnswers, nil},
		{"GET", "/v1/tree", []string{"name"}, s.tree,
			"Lists the processes of instances.", with([]control.ProcessTree{}), nil},
		{"GET", "/v1/sockets", nil, s.sockets,
			"Lists the sockets that superd holds.", with([]control.Socket{}), nil},
		{"GET", "/v1/programs/{name}/why", nil, s.why,
			"Explains the state of instances.", with([]control.Why{}), nil},
		{"GET", "/v1/why", []string{"name"}, s.why,
			"Explains the state of instances.", with([]control.Why{}), nil},
		{"GET", "/v1/events", []string{"name", "since", "lines", "follow"}, s.events,
			"Returns the event log.", lines(control.Event{}), nil},
		{"GET", "/v1/history", []string{"name"}, s.history,
			"Lists the runs of instances.", with([]control.Run{}), nil},
		{"POST", "/v1/programs/signal", []string{"name", "signal"}, s.signal,
			"Sends a signal to main processes.", results, nil},
		{"POST", "/v1/programs/{name}/signal", []string{"signal"}, s.signal,
			"Sends a signal to main processes.", results, nil},
		{"GET", "/v1/config", []string{"name"}, s.config,
			"Returns the configuration of programs that is in force.", with([]control.Configured{}), nil},
		{"POST", "/v1/programs/reset-failed", []string{"name"}, s.resetFailed,
			"Forgets failures and restarts.", results, nil},
		{"POST", "/v1/programs/{name}/reset-failed", nil, s.resetFailed,
			"Forgets failures and restarts.", results, nil},
		{"POST", "/v1/programs/clear-logs", []string{"name", "rotated", "timeout"}, s.clearLogs,
			"Empties the log files of instances.", results, nil},
		{"POST", "/v1/programs/{name}/clear-logs", []string{"rotated", "timeout"}, s.clearLogs,
			"Empties the log files of instances.", results, nil},
		{"POST", "/v1/programs/{name}/execute", []string{"command", "terminal", "term"}, s.execute,
			"Executes a command beside an instance: the connection changes to the protocol superd-execute, whose lines are an Execution each.",
			[]answer{{http.StatusSwitchingProtocols, mediaLines, []any{control.Execution{}}}}, nil},
		{"POST", "/v1/programs/{name}/attach", nil, s.attach,
			"Attaches to the terminal of an instance: the connection changes to the protocol superd-attach. superd sends lines that are an Attached each, the client lines that are a Typed.",
			[]answer{{http.StatusSwitchingProtocols, mediaLines, []any{control.Attached{}}}}, conflict},
		{"POST", "/v1/programs/reload", []string{"name", "timeout"}, s.reloadPrograms,
			"Makes programs read their own configuration again.", results, nil},
		{"POST", "/v1/programs/{name}/reload", []string{"timeout"}, s.reloadPrograms,
			"Makes programs read their own configuration again.", results, nil},
		{"POST", "/v1/programs/await", []string{"name", "timeout"}, s.awaitPrograms,
			"Waits until a reload of the configuration is done for programs.", results, nil},
		{"POST", "/v1/programs/{name}/await", []string{"timeout"}, s.awaitPrograms,
			"Waits until a reload of the configuration is done for programs.", results, nil},
		{"POST", "/v1/programs/continue", []string{"name", "timeout"}, s.decideRoll(procs.ContinueRoll),
			"Continues a rolling restart that waits.", results, nil},
		{"POST", "/v1/programs/{name}/continue", []string{"timeout"}, s.decideRoll(procs.ContinueRoll),
			"Continues a rolling restart that waits.", results, nil},
		{"POST", "/v1/programs/undo", []string{"name", "timeout"}, s.decideRoll(procs.UndoRoll),
			"Ends a rolling restart.", results, nil},
		{"POST", "/v1/programs/{name}/undo", []string{"timeout"}, s.decideRoll(procs.UndoRoll),
			"Ends a rolling restart.", results, nil},
		{"POST", "/v1/scale", []string{"scale", "wait", "timeout"}, s.scale,
			"Changes the number of instances.", with([]control.ScaleResult{}), conflict},
		{"POST", "/v1/reload", []string{"dry_run"}, s.reload,
			"Reads the configuration again and puts it in force.", with(control.ReloadResult{}),
			[]int{http.StatusConflict, http.StatusUnprocessableEntity}},
		{"POST", "/v1/shutdown", nil, s.shutdown,
			"Stops all programs and ends superd.", []answer{{http.StatusAccepted, mediaJSON, []any{control.Shutdown{}}}}, nil},
		{"POST", "/v1/upgrade", []string{"binary"}, s.upgrade,
			"Continues with another binary.", []answer{{http.StatusAccepted, mediaJSON, []any{control.Upgrade{}}}}, conflict},
		{"GET", "/v1/version", nil, s.version,
			"Returns the version.", with(control.Version{}), nil},
		{"GET", "/v1/counters", nil, s.counters,
			"Returns what metrics are made of.", with(control.Counters{}), nil},
		{"GET", "/healthz", nil, s.healthz,
			"Says whether superd's event loop turns.", with(control.Health{}), nil},
		{"GET", "/readyz", []string{"name"}, s.readyz,
			"Says whether instances are ready, or without names whether superd is.",
			append(with(control.Readiness{}), answer{http.StatusServiceUnavailable, mediaJSON, []any{control.Readiness{}}}), nil},
		{"POST", "/v1/programs/enable", []string{"name"}, s.enable(true),
			"Lets programs start with superd.", results, conflict},
		{"POST", "/v1/programs/{name}/enable", nil, s.enable(true),
			"Lets programs start with superd.", results, conflict},
		{"POST", "/v1/programs/disable", []string{"name"}, s.enable(false),
			"Keeps programs from starting with superd.", results, conflict},
		{"POST", "/v1/programs/{name}/disable", nil, s.enable(false),
			"Keeps programs from starting with superd.", results, conflict},
		{"GET", "/v1/notify", nil, s.receivers,
			"Lists the receivers of alerts.", with([]control.Receiver{}), nil},
		{"POST", "/v1/notify/{name}/test", nil, s.testReceiver,
			"Sends a test alert to a receiver.", with(control.ReceiverTest{}), nil},
	}
	for _, op := range []procs.Op{procs.OpStart, procs.OpStop, procs.OpRestart} {
		about := map[procs.Op]string{
			procs.OpStart: "Starts instances.", procs.OpStop: "Stops instances.", procs.OpRestart: "Restarts instances.",
		}[op]
		parameters := []string{"wait", "timeout"}
		if op == procs.OpRestart {
			parameters = append(parameters, "rolling", "canary")
		}
		routes = append(routes,
			route{"POST", "/v1/programs/" + op.String(), append([]string{"name"}, parameters...), s.command(op), about, results, nil},
			route{"POST", "/v1/programs/{name}/" + op.String(), parameters, s.command(op), about, results, nil})
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
