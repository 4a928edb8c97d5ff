package codec

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"superd/config/document"
)

// LooksLikeHostPort reports whether s is HOST:PORT rather than a path.
func LooksLikeHostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	_, perr := strconv.Atoi(port)
	return err == nil && perr == nil && !strings.Contains(s, "/")
}

// CheckHostPort returns an error if s is not HOST:PORT.
func CheckHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || port == "" {
		return errors.New("has no host and port")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("has the port %s, which must be a number from 1 to 65535",
			document.Quote(port))
	}
	return nil
}

// HostPort reads HOST:PORT, where HOST may be empty, as a template.
var HostPort = Text("host:port", "a string", func(s string) (string, error) {
	example, err := exampleOf(s)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(example)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 1 || n > 65535 {
		return "",
			fmt.Errorf(`must be host:port, got %s: write "127.0.0.1:5432"`, document.Quote(s))
	}
	return s, nil
}, QuoteSet).Matching(`:([0-9]+|.*\$.*)$`)

// exampleOf returns what a template expands to if each variable is 1.
func exampleOf(template string) (string, error) {
	text, _, err := document.Expand(template, func(string) (string, bool) { return "1", true })
	return text, err
}

// URL reads a URL of http or https, as a template.
var URL = Text("URL", "a string", func(s string) (string, error) {
	example, err := exampleOf(s)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(example)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf(`must be a URL of http or https, got %s: write "http://127.0.0.1:8080/healthz"`,
			document.Quote(s))
	}
	return s, nil
}, QuoteSet).Matching(`^[hH][tT][tT][pP][sS]?://.`)

// LogAddress reads the path of a socket, or a URL with host and port.
var LogAddress = Codec[string]{
	Name:   "string",
	Show:   QuoteSet,
	Schema: plain,
	Read: func(v Value) (string, bool) {
		s, ok := v.Str("an address", func(string) bool { return false })
		if !ok {
			return "", false
		}
		scheme, rest, isURL := strings.Cut(s, "://")
		if !isURL && !LooksLikeHostPort(s) && s != "" {
			return v.Path(s), true
		}
		if isURL && (scheme == "udp" || scheme == "tcp") {
			if err := CheckHostPort(rest); err != nil {
				v.Fail("%s %w: write \"%s://HOST:PORT\"", document.Quote(s), err, scheme)
				return "", false
			}
			return s, true
		}
		v.Fail(`%s is not an address of journald or syslog: write a path such as "/dev/log", or for syslog "udp://HOST:PORT" or "tcp://HOST:PORT"`, document.Quote(s))
		return "", false
	},
}
