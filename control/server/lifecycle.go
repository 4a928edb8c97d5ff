package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/control"
	"superd/procs"
)

func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	dryRun, err := flag(r, "dry_run", false)
	if err != nil {
		return err
	}
	type result struct {
		reloadResult procs.ReloadResult
		err          error
	}
	results := make(chan result, 1)
	s.options.Post(func() {
		s.options.Supervisor.Reload(dryRun, func(reloadResult procs.ReloadResult, err error) { results <- result{reloadResult, err} })
	})
	select {
	case got := <-results:
		if got.err != nil {
			return reloadError(got.err)
		}
		return s.answer(w, http.StatusOK, reloadResult(&got.reloadResult))
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func reloadResult(r *procs.ReloadResult) control.ReloadResult {
	out := control.ReloadResult{
		DryRun: r.DryRun, Added: listed(r.Names(config.ProgramAdded)), Removed: listed(r.Names(config.ProgramRemoved)),
		Changed: listed(r.Names(config.AppliedLive, config.RestartNeeded)), Programs: make([]control.Change, len(r.Programs)),
		Superd: keyChanges(r.Superd), Notes: listed(r.Notes), Unrecorded: unrecorded(r.Unrecorded),
	}
	for i := range r.Programs {
		c := &r.Programs[i]
		out.Programs[i] = control.Change{Program: c.Name, Change: string(c.Kind), Keys: keyChanges(c.Keys)}
	}
	out.Sockets = []control.SocketChange{}
	for i := range r.Sockets {
		if c := &r.Sockets[i]; c.Kind != config.Unchanged {
			out.Sockets = append(out.Sockets, control.SocketChange{
				Socket: c.Name, Change: string(c.Kind), Keys: keyChanges(c.Keys),
				Opened: addresses(c.Opened), Closed: addresses(c.Closed),
			})
		}
	}
	return out
}

func addresses(all []listen.Address) []string {
	list := make([]string, len(all))
	for i, a := range all {
		list[i] = a.String()
	}
	return list
}

func keyChanges(all []config.KeyChange) []control.KeyChange {
	list := make([]control.KeyChange, len(all))
	for i, k := range all {
		list[i] = control.KeyChange{Key: k.Key, Old: present(k.Old), New: present(k.New), Restart: k.Restart, Text: k.String()}
	}
	return list
}

func reloadError(err error) error {
	if e := explain(err); e.Status == http.StatusUnprocessableEntity {
		return e
	}
	return &control.Error{Status: http.StatusConflict, Message: err.Error(), Remedy: "the old configuration stays in force"}
}

func listed(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// recordTime bounds how long an answer waits until the request is in the journal.
const recordTime = time.Second

var errNoRecord = errors.New("the journal was not written in time")

// shutdown answers when the request is in the journal, or can't be written. The end of the server
// waits for that.
func (s *Server) shutdown(w http.ResponseWriter, r *http.Request) error {
	info, err := onLoop(r.Context(), s, s.options.Supervisor.Info)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("user %d requested it over the control socket", peerOf(r.Context()))
	results := make(chan error, 1)
	s.options.Post(func() {
		s.options.Supervisor.RequestShutdown(why, func(unrecorded error) { results <- unrecorded })
	})
	select {
	case err = <-results:
	case <-time.After(recordTime):
		err = errNoRecord
	}
	err = s.answer(w, http.StatusAccepted, control.Shutdown{Pid: info.Pid, Unrecorded: unrecorded(err),
		Message: fmt.Sprintf("shutting down; running programs: %d of %d", info.Running, info.Programs)})
	_ = http.NewResponseController(w).Flush()
	return err
}

// upgrade answers before superd executes the other binary, which ends this server and all its
// connections.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) error {
	type result struct {
		upgrade Upgrade
		err     error
	}
	results := make(chan result, 1)
	s.options.Post(func() {
		s.options.Upgrade(r.Form.Get("binary"), func(u Upgrade, err error) { results <- result{u, err} })
	})
	got := <-results // continues even if the client is gone
	if got.err != nil {
		return &control.Error{Status: http.StatusConflict, Message: got.err.Error(), Remedy: "superd continues unchanged"}
	}
	err := s.answer(w, http.StatusAccepted, got.upgrade.Answer)
	_ = http.NewResponseController(w).Flush()
	s.options.Post(got.upgrade.Go)
	return err
}

func (s *Server) version(w http.ResponseWriter, r *http.Request) error {
	info, err := onLoop(r.Context(), s, s.options.Supervisor.Info)
	if err != nil {
		return err
	}
	v := s.options.Version
	v.Pid, v.Uptime = info.Pid, info.Uptime.Seconds()
	return s.answer(w, http.StatusOK, v)
}
