package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"superd/control"
)

// policy is the Content-Security-Policy of every answer: a page runs no script and loads nothing
// but the embedded files, and no other page frames it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard returns h behind the checks that concern every request.
func (s *Server) guard(h http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		bounded := &writer{ResponseWriter: w, control: http.NewResponseController(w)}
		w = bounded
		// An answer without a body, and the end of others, are written after this handler
		defer func() { _ = bounded.limit() }() // an error is that of the connection
		if err := s.names.check(r); err != nil {
			refuse(w, err)
			return
		}
		if err := origins.Check(r); err != nil || isForeign(r) {
			refuse(w, &control.Error{Status: http.StatusForbidden, Message: "the request is from a page of another server",
				Remedy: "open the pages of superd themselves; a reverse proxy has to pass on the header Host"})
			return
		}
		limit := int64(maxLoginBytes)
		if r.ContentLength != 0 && s.auth.knows(r) {
			limit = maxBodyBytes
		}
		if err := takeBody(w, r, limit); err != nil {
			refuse(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// takeBody reads the body of a request, of at most limit bytes, within its time. Then nothing
// bounds how long the answer may take.
func takeBody(w http.ResponseWriter, r *http.Request, limit int64) error {
	if r.ContentLength == 0 {
		return nil
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		// A client that has sent its whole request reads the answer
		_, _ = io.CopyN(io.Discard, r.Body, maxRefusedBytes)
		return &control.Error{Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit), Remedy: "make several requests"}
	}
	if err != nil {
		return &control.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("read request: %v", err)}
	}
	_ = connection.SetReadDeadline(time.Time{})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return nil
}

// isForeign reports whether a page of another server loads something other than the first page
// itself. The cookie alone does not tell: it goes to a host, whatever the port.
func isForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.URL.Path != "/"
}

// names are the names by which browsers may call a server. If a page of another server makes its
// own name an address of this one, its requests have the same origin as the page: only the name
// tells. Source: DNS rebinding, as in owasp.org.
type names map[string]bool

func newNames(more []string) names {
	all := names{"localhost": true}
	for _, name := range more {
		all[canonical(name)] = true
	}
	return all
}

func canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// check returns an error if a request has none of the names. An address is one if the connection
// leads there: no name service has been asked for it.
func (n names) check(r *http.Request) error {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if n[canonical(name)] {
		return nil
	}
	if address, err := netip.ParseAddr(name); err == nil && (address.Unmap().IsLoopback() || address.Unmap() == localAddress(r)) {
		return nil
	}
	return &control.Error{Status: http.StatusMisdirectedRequest, Message: fmt.Sprintf("this server has not the name %q", name),
		Remedy: "add it to hosts in [web], or start superd web with --allow-host"}
}

// localAddress returns the address that a client has connected to.
func localAddress(r *http.Request) netip.Addr {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if local == nil {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap()
}

// A writer limits the time of each write, instead of that of the whole answer: an idle stream has
// no time-out.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// limit bounds the writes until the next call.
func (w *writer) limit() error { return w.control.SetWriteDeadline(time.Now().Add(writeTimeout)) }

// Write implements [io.Writer].
func (w *writer) Write(b []byte) (int, error) {
	if err := w.limit(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(b)
}

// FlushError sends what was written. HTTP/2 would end a stream at the limit even if nothing waits
// to be written, so there is none after that.
func (w *writer) FlushError() error {
	if err := w.limit(); err != nil {
		return err
	}
	if err := w.control.Flush(); err != nil {
		return err
	}
	return w.control.SetWriteDeadline(time.Time{})
}

// Flush implements [http.Flusher].
func (w *writer) Flush() { _ = w.FlushError() } // an error is that of the next write

// Unwrap serves [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
