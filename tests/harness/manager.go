package harness

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// A Manager is the receiving end of the notification protocol (man 3 sd_notify), as systemd is.
type Manager struct {
	t        testing.TB
	mu       sync.Mutex
	messages []string
}

// Manager makes the test the manager of a superd that is not started yet.
func (s *Site) Manager() *Manager {
	s.T.Helper()
	path := s.Path("notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { conn.Close() })
	s.Env = append(s.Env, "NOTIFY_SOCKET="+path)
	m := &Manager{t: s.T}
	go m.receive(conn)
	return m
}

func (m *Manager) receive(conn *net.UnixConn) {
	b := make([]byte, 1<<16)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return // closed
		}
		m.mu.Lock()
		m.messages = append(m.messages, string(b[:n]))
		m.mu.Unlock()
	}
}

// Count returns the number of messages with a line that begins with text.
func (m *Manager) Count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, message := range m.messages {
		if strings.Contains("\n"+message+"\n", "\n"+text) {
			n++
		}
	}
	return n
}

// Wait waits until that many messages have a line that begins with text.
func (m *Manager) Wait(text string, times int) {
	m.t.Helper()
	Until(m.t, "superd has sent "+text, func() bool { return m.Count(text) >= times })
}
