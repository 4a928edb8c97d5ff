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

// HostPort reads HOST:PORT, where HOST may be empty.
var HostPort = Text("host:port", "a string", func(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 1 || n > 65535 {
		return "",
			fmt.Errorf(`must be host:port, got %s: write "127.0.0.1:5432"`, document.Quote(s))
	}
	return s, nil
}, QuoteSet)

// URL reads a URL of http or https.
var URL = Text("URL", "a string", func(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf(`must be a URL of http or https, got %s: write "http://127.0.0.1:8080/healthz"`,
			document.Quote(s))
	}
	return s, nil
}, QuoteSet)
