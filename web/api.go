package web

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"superd/control"
)

const maxLogged = 1 << 10 // bytes of the parameters of a change

// A call is a request of the control socket that pages and scripts may make.
type call struct {
	method string
	path   string // {name} stands for a program or a receiver of alerts
	least  role   // who may
}

// calls are those of docs/api.md, without attach, execute, shutdown and upgrade: a login at a
// browser is not as much as one at the machine.
func calls() []call {
	all := []call{
		{"GET", "/v1/status", roleViewer},
		{"GET", "/v1/status/watch", roleViewer},
		{"GET", "/v1/programs/{name}/logs", roleViewer},
		{"GET", "/v1/logs", roleViewer},
		{"POST", "/v1/logs", roleViewer},
		{"GET", "/v1/tree", roleViewer},
		{"GET", "/v1/sockets", roleViewer},
		{"GET", "/v1/programs/{name}/why", roleViewer},
		{"GET", "/v1/why", roleViewer},
		{"GET", "/v1/events", roleViewer},
		{"GET", "/v1/history", roleViewer},
		{"GET", "/v1/config", roleViewer},
		{"GET", "/v1/version", roleViewer},
		{"GET", "/v1/counters", roleViewer},
		{"GET", "/v1/notify", roleViewer},
		{"GET", "/healthz", roleViewer},
		{"GET", "/readyz", roleViewer},
		{"POST", "/v1/programs/await", roleViewer},
		{"POST", "/v1/programs/{name}/await", roleViewer},
		{"POST", "/v1/notify/{name}/test", roleOperator},
		{"POST", "/v1/scale", roleOperator},
		{"POST", "/v1/reload", roleOperator},
	}
	for _, verb := range []string{"start", "stop", "restart", "signal", "reset-failed", "reload", "continue", "undo", "clear-logs",
		"enable", "disable"} {
		all = append(all, call{"POST", "/v1/programs/" + verb, roleOperator},
			call{"POST", "/v1/programs/{name}/" + verb, roleOperator})
	}
	return all
}

// api returns the handler of the paths below /api/: those of the control socket of the first host,
// and with the name of a host after /api those of that one.
func (s *Server) api() http.Handler {
	mux := http.NewServeMux()
	for _, c := range calls() {
		serve := func(w http.ResponseWriter, r *http.Request) {
			if err := s.pass(w, r, c); err != nil {
				refuse(w, err)
			}
		}
		mux.HandleFunc(c.method+" /api"+c.path, serve)
		mux.HandleFunc(c.method+" /api/{host}"+c.path, serve)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.auth.require(r, roleViewer); err != nil {
			refuse(w, err)
			return
		}
		refuse(w, &control.Error{Status: http.StatusNotFound,
			Message: fmt.Sprintf("no request %s %s here", r.Method, r.URL.Path), Remedy: "see docs/web.md for what pages may do"})
	})
	return mux
}

// pass passes a request on to superd, and its answer back.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, c call) error {
	who, err := s.auth.require(r, c.least)
	if err != nil {
		return err
	}
	if s.options.ReadOnly && c.least > roleViewer {
		return &control.Error{Status: http.StatusForbidden, Message: "this server changes nothing",
			Remedy: "use superd ctl, or start superd web without read_only"}
	}
	h, err := s.host(r.PathValue("host"))
	if err != nil {
		return err
	}
	var form string
	q := question{
		post: c.method == http.MethodPost, query: r.URL.Query(),
		path: strings.Replace(c.path, "{name}", url.PathEscape(r.PathValue("name")), 1),
	}
	if q.post {
		if form, err = formOf(r); err != nil {
			return err
		}
		if form != "" {
			q.form = strings.NewReader(form)
		}
	}
	places, endless := s.requests, isEndless(q.path, q.query, form)
	if endless {
		places = s.streams
	}
	q.waits = q.post || endless
	if !places.take(who.id) {
		return errBusy
	}
	defer places.give(who.id)
	if c.least > roleViewer {
		s.options.Log.Info("request", "path", q.path, "query", brief(q.query), "form", brief(values(form)),
			"host", h.name, "by", who.role, "from", clientOf(r))
	}
	answer, err := h.ask(r.Context(), q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for _, name := range []string{"Content-Type", "Content-Length", "Retry-After"} {
		if value := answer.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(answer.StatusCode)
	if endless { // the first line may take any time
		_ = http.NewResponseController(w).Flush() // an error is that of the first write
	}
	if err := copyOn(w, answer.Body, func() bool { return s.auth.isValid(who, time.Now()) }); err != nil {
		panic(http.ErrAbortHandler) // shows the client that the answer is not complete
	}
	return nil
}

// isEndless reports whether the answer to a request of superd may have no end.
func isEndless(path string, query url.Values, form string) bool {
	return strings.HasSuffix(path, "/watch") || query.Has("follow") || values(form).Has("follow")
}

// values returns those of a form that can be read: superd says what is wrong with the others.
func values(form string) url.Values {
	all, _ := url.ParseQuery(form)
	return all
}

// brief returns parameters for a message.
func brief(v url.Values) string {
	text := v.Encode() // without characters that control a terminal
	if len(text) > maxLogged {
		return text[:maxLogged] + "..."
	}
	return text
}

// formOf returns the form in the body of a request; "" if it has none.
func formOf(r *http.Request) (string, error) {
	if r.ContentLength == 0 {
		return "", nil
	}
	kind := r.Header.Get("Content-Type")
	if parsed, _, err := mime.ParseMediaType(kind); err != nil || parsed != formType {
		return "", &control.Error{Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("not a form: %q", kind),
			Remedy: "send parameters in the query or as " + formType}
	}
	text, err := io.ReadAll(r.Body) // already read within limits
	return string(text), err
}

var errEnded = errors.New("the session has ended")

// copyOn copies an answer as it comes, while it is valid.
func copyOn(w http.ResponseWriter, from io.Reader, valid func() bool) error {
	connection, buffer := http.NewResponseController(w), make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !valid() {
				return errEnded
			}
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := connection.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// download sends the whole log of an instance as a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request, who session) error {
	h, err := s.host(r.FormValue("host"))
	if err != nil {
		return err
	}
	name := r.FormValue("instance")
	if name == "" {
		name = r.FormValue("name")
	}
	if name == "" {
		return &control.Error{Status: http.StatusBadRequest, Message: "no instance is named", Remedy: "add instance=NAME"}
	}
	if !s.requests.take(who.id) {
		return errBusy
	}
	defer s.requests.give(who.id)
	log, err := h.stream(r.Context(), question{path: "/v1/programs/" + url.PathEscape(name) + "/logs"})
	if err != nil {
		return err
	}
	defer log.Close()
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": fmt.Sprintf("%s-%s.log", name, time.Now().Format("20060102-150405"))}))
	if err := copyOn(w, log, func() bool { return s.auth.isValid(who, time.Now()) }); err != nil {
		panic(http.ErrAbortHandler) // shows the client that the file is not complete
	}
	return nil
}
