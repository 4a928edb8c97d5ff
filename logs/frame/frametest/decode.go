// Package frametest decodes messages as their receivers do, for tests.
package frametest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Journal reads an entry as journald does. Source: systemd.io/JOURNAL_NATIVE_PROTOCOL.
func Journal(entry []byte) (map[string]string, error) {
	fields := map[string]string{}
	for len(entry) > 0 {
		line, rest, ok := bytes.Cut(entry, []byte{'\n'})
		if !ok {
			return nil, errors.New("a field without its end")
		}
		name, value, ok := bytes.Cut(line, []byte{'='})
		if !ok {
			return nil, fmt.Errorf("a field with a length of its own: %q", line)
		}
		if _, twice := fields[string(name)]; twice {
			return nil, fmt.Errorf("%s comes twice", name)
		}
		fields[string(name)] = string(value)
		entry = rest
	}
	return fields, nil
}

// A Message is a message of RFC 5424.
type Message struct {
	Facility, Priority            int
	Host, App, ID                 string
	At                            time.Time
	Instance, Run, Partial, After string
}

// Syslog reads a message, as package frame makes it.
func Syslog(message []byte) (m Message, err error) {
	text := string(message)
	pri, rest, ok := strings.Cut(text, ">")
	number, err := strconv.Atoi(strings.TrimPrefix(pri, "<"))
	if !ok || err != nil || number > 191 || number < 0 {
		return m, fmt.Errorf("priority %q", pri)
	}
	m.Facility, m.Priority = number/8, number%8
	fields := strings.SplitN(rest, " ", 7)
	if len(fields) < 7 || fields[0] != "1" || fields[4] != "-" {
		return m, fmt.Errorf("header %q", rest)
	}
	if m.At, err = time.Parse(time.RFC3339Nano, fields[1]); err != nil {
		return m, err
	}
	m.Host, m.App, m.ID = fields[2], fields[3], fields[5]
	for _, name := range []string{m.Host, m.App, m.ID} {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return m, fmt.Errorf("name %q", name)
		}
	}
	data, ok := strings.CutPrefix(fields[6], "[superd@32473")
	if !ok {
		return m, fmt.Errorf("structured data %q", fields[6])
	}
	for strings.HasPrefix(data, " ") {
		name, rest, _ := strings.Cut(data[1:], `="`)
		var value []byte
		for i := 0; ; i++ {
			if i >= len(rest) {
				return m, errors.New("a parameter without its end")
			}
			if rest[i] == '"' {
				data = rest[i+1:]
				break
			}
			if rest[i] == '\\' {
				i++
			}
			value = append(value, rest[i])
		}
		switch name {
		case "instance":
			m.Instance = string(value)
		case "run":
			m.Run = string(value)
		case "partial":
			m.Partial = string(value)
		}
	}
	if m.After, ok = strings.CutPrefix(data, "] "); !ok {
		return m, fmt.Errorf("after the structured data %q", data)
	}
	return m, nil
}
