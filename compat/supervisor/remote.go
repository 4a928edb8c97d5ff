package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
)

// A RemoteEvent is what a client has sent by sendRemoteCommEvent to the event listeners.
type RemoteEvent struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// remotePath is where event listeners follow what clients send. supervisord has no such path.
const remotePath = "/superd/remote"

// followers are the event listeners that follow what clients send.
type followers struct {
	mu  sync.Mutex
	all map[chan RemoteEvent]bool
}

// maxUnread is how many events a listener that does not read may be behind. Further ones are
// dropped.
const maxUnread = 16

func (f *followers) add() (events chan RemoteEvent, remove func()) {
	events = make(chan RemoteEvent, maxUnread)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[chan RemoteEvent]bool{}
	}
	f.all[events] = true
	return events, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.all, events)
	}
}

func (f *followers) send(e RemoteEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for events := range f.all {
		select {
		case events <- e:
		default:
		}
	}
}

// serveRemote streams what clients send, a line of JSON each.
func (h *Handler) serveRemote(w http.ResponseWriter, r *http.Request) {
	events, remove := h.remote.add()
	defer remove()
	w.Header().Set("Content-Type", "application/x-ndjson")
	client := http.NewResponseController(w)
	out := json.NewEncoder(stalling{w, client})
	if client.Flush() != nil {
		return
	}
	for {
		select {
		case e := <-events:
			if out.Encode(e) != nil || client.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func sendRemote(c *call, a arguments) (any, error) {
	e := RemoteEvent{a.text(0), a.text(1)}
	if *a.bad {
		return nil, nil
	}
	c.remote.send(e)
	return true, nil
}

// FollowRemote calls f with what clients send to the socket of serverURL, a line each, until ctx is
// done or superd ends.
func FollowRemote(ctx context.Context, serverURL string, f func(line []byte) error) error {
	path, isUnix := strings.CutPrefix(serverURL, "unix://")
	if !isUnix {
		return fmt.Errorf("SUPERVISOR_SERVER_URL is %q: write unix:// and the path of compat.supervisor_socket", serverURL)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://superd"+remotePath, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New("the socket for clients of supervisord answers " + answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 2*maxCall)
	for lines.Scan() {
		if err := f(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
