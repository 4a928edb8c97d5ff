package systemd

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"superd/importer/draft"
)

// socket imports the socket unit of a service.
func (s *service) socket(path string) error {
	u, err := load(s.system, s.doc, path)
	if err != nil {
		return err
	}
	of := &service{importing: s.importing, unit: u} // for its notes and specifiers
	t := s.doc.Socket(s.table.Name)
	t.Comments = u.head
	var listen []string
	accept := false
	for _, a := range u.effective() {
		value, _ := u.specifiers(s.system, a.value)
		a.value = value
		t.Comment(a.comments...)
		switch {
		case a.section == "Unit" && a.key == "Description":
			t.Comments = append(t.Comments, a.value)
			continue
		case a.section != "Socket":
			continue
		}
		switch a.key {
		case "ListenStream", "ListenDatagram", "ListenFIFO":
			listen = append(listen, address(a.key, a.value))
		case "Accept":
			accept = boolean(a.value)
		case "SocketMode":
			t.Set("mode", fmt.Sprintf("%04s", a.value))
		case "SocketUser":
			t.Set("user", a.value)
		case "SocketGroup":
			t.Set("group", a.value)
		case "Backlog":
			if n, err := strconv.Atoi(a.value); err == nil && n > 0 {
				t.Set("backlog", n)
			}
		case "FileDescriptorName":
			t.Set("fdname", a.value)
		case "ReusePort", "FreeBind", "NoDelay", "KeepAlive":
			keys := map[string]string{"ReusePort": "reuse_port", "FreeBind": "free_bind",
				"NoDelay": "no_delay", "KeepAlive": "keep_alive"}
			if boolean(a.value) {
				t.Set(keys[a.key], true)
			}
		case "BindToDevice":
			t.Set("device", a.value)
		case "MaxConnections":
			if n, err := strconv.Atoi(a.value); err == nil && n > 0 {
				s.table.Set("max_connections", n)
			}
		case "MaxConnectionsPerSource":
			if n, err := strconv.Atoi(a.value); err == nil && n > 0 {
				s.table.Set("max_connections_per_source", n)
			}
		case "Service", "RemoveOnStop":
		default:
			of.note(a, "superd has no such key for a socket")
		}
	}
	t.Flush()
	if len(listen) == 0 {
		return fmt.Errorf("read %s: it listens nowhere that superd can listen", path)
	}
	if len(listen) == 1 {
		t.Set("listen", listen[0])
	} else {
		t.Set("listen", listen)
	}
	if !t.Has("backlog") && slices.ContainsFunc(listen, isStream) { // superd's default is the same
		t.Flush()
	}
	if !slices.ContainsFunc(listen, func(a string) bool { return strings.Contains(a, "/") }) {
		for _, key := range []string{"mode", "user", "group"} {
			if t.Has(key) {
				t.Delete(key)
			}
		}
	}
	s.table.Set("sockets", []string{t.Name})
	if accept || !s.startsItself(path) {
		s.table.Set("start", "on-connect")
	}
	if accept {
		s.table.Set("accept", true)
		if s.get("Service", "StandardInput") != "socket" {
			s.table.Set("socket_pass", "systemd")
		}
		for _, key := range []string{"restart", "ready.notify", "backoff.initial", "backoff.max", "backoff.jitter",
			"start_limit.failures", "start_limit.within", "start_limit.retry_after"} {
			if s.table.Has(key) {
				s.table.Delete(key)
			}
		}
	} else if s.get("Service", "StandardInput") == "socket" {
		s.table.Set("socket_pass", "stdin")
	}
	return nil
}

// startsItself reports whether a service also starts without a connection to the socket.
func (s *service) startsItself(socket string) bool {
	return s.has("Install") && strings.Contains(s.get("Service", "Sockets"), filepath.Base(socket))
}

func isStream(address string) bool {
	return !strings.HasPrefix(address, "udp:") && !strings.HasPrefix(address, "unixgram:") &&
		!strings.HasPrefix(address, "fifo:")
}

// address returns an address of systemd as superd has it.
func address(key, value string) string {
	local := strings.HasPrefix(value, "/") || strings.HasPrefix(value, "@")
	if key == "ListenFIFO" {
		return "fifo:" + value
	}
	if !local {
		if _, err := strconv.Atoi(value); err == nil {
			value = ":" + value
		} else if host, port, err := net.SplitHostPort(value); err == nil && host == "0.0.0.0" {
			value = "0.0.0.0:" + port
		}
	}
	switch {
	case key == "ListenDatagram" && local:
		return "unixgram:" + value
	case key == "ListenDatagram":
		return "udp:" + value
	case local:
		return "unix:" + value
	}
	return value
}

// timer imports the timer unit of a service.
func (s *service) timer(path string) error {
	u, err := load(s.system, s.doc, path)
	if err != nil {
		return err
	}
	of := &service{importing: s.importing, unit: u}
	t := s.table
	persistent := false
	for _, a := range u.effective() {
		if a.section != "Timer" {
			continue
		}
		t.Comment(a.comments...)
		switch a.key {
		case "OnCalendar":
			line, ok := cron(a.value)
			if !ok || t.Has("schedule") {
				of.note(a, "superd has no schedule for %q beside what it has: write a cron line", a.value)
				continue
			}
			t.Set("schedule", line)
		case "OnUnitActiveSec", "OnUnitInactiveSec":
			d, infinite, err := timeSpan(a.value)
			if err != nil || infinite || t.Has("schedule") {
				of.note(a, "superd has one schedule for a program")
				continue
			}
			t.Set("schedule", "@every "+draft.Duration(d))
		case "OnBootSec", "OnStartupSec", "OnActiveSec":
			of.note(a, "superd has no delay after its start: an @every has its first run after one period")
		case "RandomizedDelaySec":
			if d, infinite, err := timeSpan(a.value); err == nil && !infinite && d > 0 {
				t.Set("schedule_jitter", d)
			}
		case "FixedRandomDelay": // as superd's is
		case "Persistent":
			persistent = boolean(a.value)
		case "AccuracySec", "Unit":
		default:
			of.note(a, "superd has no such key for a schedule")
		}
	}
	t.Flush()
	if !t.Has("schedule") {
		return fmt.Errorf("read %s: it has no time that superd knows: import %s and set `schedule`", path, s.path)
	}
	t.Set("type", "oneshot")
	if !persistent && !strings.HasPrefix(t.Get("schedule").(string), "@every") {
		t.Set("schedule_missed", "skip")
	}
	if t.Get("restart") == "always" || t.Get("restart") == "never" {
		t.Delete("restart")
	}
	return nil
}

var (
	calendar = regexp.MustCompile(`^(?:([A-Za-z,.]+) )?(?:(?:\*-)?([\d*,/.]+)-([\d*,/.]+) )?([\d*,/.]+):([\d*,/.]+)(?::00)?$`)
	number   = regexp.MustCompile(`\d+`)
)

// cron returns the line of cron for a calendar expression of systemd. ok is false if there is none.
func cron(s string) (line string, ok bool) {
	s = strings.TrimSpace(s)
	switch lower := strings.ToLower(s); lower {
	case "hourly", "daily", "weekly", "monthly", "yearly":
		if lower == "weekly" {
			return "0 0 * * mon", true // @weekly of cron is on Sunday
		}
		return "@" + lower, true
	case "annually":
		return "@yearly", true
	case "minutely":
		return "* * * * *", true
	}
	found := calendar.FindStringSubmatch(s)
	if found == nil {
		if found = regexp.MustCompile(`^(?:\*-)?([\d*,/.]+)-([\d*,/.]+)$`).FindStringSubmatch(s); found == nil {
			return "", false
		}
		found = []string{"", "", found[1], found[2], "0", "0"}
	}
	fields := []string{found[5], found[4], cmpOr(found[3], "*"), cmpOr(found[2], "*")}
	for i, f := range fields {
		if f, ok = field(f); !ok {
			return "", false
		}
		fields[i] = f
	}
	days := "*"
	if found[1] != "" {
		days = strings.ToLower(strings.ReplaceAll(found[1], "..", "-"))
	}
	if days != "*" && fields[2] != "*" {
		return "", false // cron would run on either
	}
	return strings.Join(fields, " ") + " " + days, true
}

// field returns one field of a calendar expression as cron has it.
func field(s string) (string, bool) {
	s = strings.ReplaceAll(s, "..", "-")
	if first, step, ok := strings.Cut(s, "/"); ok {
		if n, err := strconv.Atoi(step); err != nil || n == 0 {
			return "", false
		}
		switch {
		case first == "*" || strings.Trim(first, "0") == "":
			return "*/" + step, true
		case !strings.Contains(first, "-"):
			return "", false
		}
	}
	if strings.Contains(s, ".") {
		return "", false
	}
	return number.ReplaceAllStringFunc(s, func(n string) string {
		if n = strings.TrimLeft(n, "0"); n == "" {
			return "0"
		}
		return n
	}), true
}
