package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"superd/control"
)

// A role is what somebody may do.
type role byte

const (
	roleNone role = iota
	roleViewer
	roleOperator
)

// String returns the name of the role in /session.
func (r role) String() string { return [...]string{"none", "viewer", "operator"}[r] }

// Tokens are the secrets by which people and scripts log in.
type Tokens struct {
	Operator string
	Viewer   string // "": there are no viewers
}

const (
	sessionLife  = 7 * 24 * time.Hour
	renewAfter   = 24 * time.Hour // a cookie that is older is replaced
	maxRevoked   = 4096
	cookiePrefix = "superd_session_"
)

// auth finds out who has sent a request.
//
// A session is a cookie with a role, its end and a random identity, authenticated by HMAC-SHA256
// with a key from the token. So nothing is kept for it, it outlives this process, and it ends when
// the token is replaced. A session that was logged out is remembered as long as a cookie of it may
// be valid.
type auth struct {
	tokens [roleOperator + 1]string // by role; "": nobody has the role
	cookie http.Cookie              // without a value
	log    *slog.Logger

	failures throttle

	mu      sync.Mutex
	revoked map[identity]time.Time // when its last cookie has ended
}

// An identity tells sessions apart.
type identity [16]byte

// A session is who has sent a request.
type session struct {
	id    identity
	role  role
	until time.Time // end of the cookie; zero for a token in the request
	// secure says that the browser uses https, by a reverse proxy
	secure bool
}

func newAuth(o Options) *auth {
	a := &auth{log: o.Log, revoked: map[identity]time.Time{}}
	a.tokens[roleOperator], a.tokens[roleViewer] = o.Tokens.Operator, o.Tokens.Viewer
	a.cookie = http.Cookie{
		// A cookie is for all ports of a host: without the number, two servers would replace the
		// cookies of each other.
		Name: cookiePrefix + strconv.Itoa(o.Port),
		Path: "/", HttpOnly: true, Secure: o.TLS, SameSite: http.SameSiteStrictMode,
	}
	return a
}

// require returns who has sent a request, if they have at least that role.
func (a *auth) require(r *http.Request, least role) (session, error) {
	who, err := a.identify(r)
	switch {
	case err != nil:
		return session{}, err
	case who.role == roleNone:
		return session{}, &control.Error{Status: http.StatusUnauthorized, Message: "not logged in",
			Remedy: "log in with the token, or send it as the header Authorization: Bearer TOKEN"}
	case who.role < least:
		return session{}, &control.Error{Status: http.StatusForbidden, Message: "viewers may not do this",
			Remedy: "log in with the token of operators"}
	}
	return who, nil
}

// identify returns who has sent a request. The error is that of a token that is wrong.
func (a *auth) identify(r *http.Request) (session, error) {
	if token, ok := bearer(r); ok {
		role, err := a.check(r, token)
		if err != nil {
			return session{}, err
		}
		sum := sha256.Sum256([]byte(token))
		return session{id: identity(sum[:16]), role: role}, nil
	}
	return a.cookied(r), nil
}

// bearer returns the token in a request. Another scheme is that of a reverse proxy.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// cookied returns the session of the cookie in a request.
func (a *auth) cookied(r *http.Request) session {
	cookie, err := r.Cookie(a.cookie.Name)
	if err != nil {
		return session{} // nobody has logged in
	}
	return a.read(cookie.Value, time.Now())
}

// knows reports whether a request is of somebody with a role. It counts no wrong token.
func (a *auth) knows(r *http.Request) bool {
	if token, ok := bearer(r); ok {
		return a.match(token) != roleNone
	}
	return a.cookied(r).role != roleNone
}

// check returns the role of a token, and counts a wrong one. The right one is never throttled: all
// users of this machine have the same address, and one of them could lock out the others.
func (a *auth) check(r *http.Request, token string) (role, error) {
	if found := a.match(token); found != roleNone {
		return found, nil
	}
	from := clientOf(r)
	if wait := a.failures.wait(from, time.Now()); wait > 0 {
		return roleNone, &throttledError{wait, &control.Error{Status: http.StatusTooManyRequests,
			Message: "too many wrong tokens", Remedy: fmt.Sprintf("try again in %.0f s", math.Ceil(wait.Seconds()))}}
	}
	a.failures.add(from, time.Now())
	a.log.Warn("a login was refused", "from", from)
	return roleNone, &control.Error{Status: http.StatusForbidden, Message: "not the token",
		Remedy: "copy it from the token file, which `superd web` names when it starts"}
}

// match returns the role of a token. It takes the same time for each wrong one.
func (a *auth) match(token string) role {
	given, found := sha256.Sum256([]byte(token)), roleNone
	for role, known := range a.tokens {
		sum := sha256.Sum256([]byte(known))
		if subtle.ConstantTimeCompare(given[:], sum[:]) == 1 && known != "" {
			found = max(found, roleOf(role))
		}
	}
	return found
}

func roleOf(i int) role { return role(i) } //nolint:gosec // an index of tokens

// A throttledError has the time after which a client may try again.
type throttledError struct {
	wait time.Duration
	err  *control.Error
}

func (e *throttledError) Error() string { return e.err.Error() }

func (e *throttledError) Unwrap() error { return e.err }

// login exchanges a token for a cookie.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
		refuse(w, &control.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("read login: %v", err),
			Remedy: `send {"token":"TOKEN"}`})
		return
	}
	role, err := s.auth.check(r, strings.TrimSpace(given.Token))
	if err != nil {
		refuse(w, err)
		return
	}
	s.auth.begin(w, r, role)
	w.WriteHeader(http.StatusNoContent)
}

// logout ends the session of a request, if it has one.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.auth.revoke(s.auth.cookied(r))
	expired := s.auth.cookie
	expired.MaxAge = -1
	http.SetCookie(w, &expired)
	w.WriteHeader(http.StatusNoContent)
}

// begin begins a session. The origin of the page tells whether a reverse proxy takes https.
func (a *auth) begin(w http.ResponseWriter, r *http.Request, who role) {
	made := session{role: who, secure: strings.HasPrefix(r.Header.Get("Origin"), "https://")}
	_, _ = rand.Read(made.id[:]) // never fails
	a.issue(w, made)
}

// issue sends the cookie of a session, which ends after its whole life.
func (a *auth) issue(w http.ResponseWriter, s session) {
	s.until = time.Now().Add(sessionLife)
	cookie := a.cookie
	cookie.Secure = cookie.Secure || s.secure
	cookie.Value, cookie.MaxAge = a.write(s), int(sessionLife/time.Second)
	http.SetCookie(w, &cookie)
}

// renew replaces the cookie of a session that was not begun today, so that a page in use stays
// logged in. The old cookie stays good, for another tab may be using it; a logout ends both.
func (a *auth) renew(w http.ResponseWriter, who session) {
	if !who.until.IsZero() && time.Until(who.until) < sessionLife-renewAfter {
		a.issue(w, who)
	}
}

func (a *auth) revoke(s session) {
	if s.role == roleNone {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, until := range a.revoked {
		if len(a.revoked) >= maxRevoked || time.Now().After(until) {
			delete(a.revoked, id)
		}
	}
	a.revoked[s.id] = time.Now().Add(sessionLife) // a newer cookie may last until then
}

// The content of a cookie: the role with [secureBit], the end of the session in seconds since 1970,
// the identity, and the code that authenticates these.
const (
	secureBit  = 0x80
	endAt      = 1
	identityAt = endAt + 8
	codeAt     = identityAt + len(identity{})
	cookieSize = codeAt + sha256.Size
)

func (a *auth) write(s session) string {
	text := make([]byte, codeAt, cookieSize)
	text[0] = byte(s.role)
	if s.secure {
		text[0] |= secureBit
	}
	binary.BigEndian.PutUint64(text[endAt:], uint64(s.until.Unix())) //nolint:gosec // after 1970
	copy(text[identityAt:], s.id[:])
	return base64.RawURLEncoding.EncodeToString(append(text, a.code(s.role, text)...))
}

// read returns the session of a cookie; that of nobody if it is not valid at now.
func (a *auth) read(value string, now time.Time) session {
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(text) != cookieSize {
		return session{}
	}
	r := role(text[0] &^ secureBit)
	if r > roleOperator || a.tokens[r] == "" {
		return session{}
	}
	s := session{role: r, secure: text[0]&secureBit != 0, id: identity(text[identityAt:codeAt])}
	if !hmac.Equal(text[codeAt:], a.code(s.role, text[:codeAt])) {
		return session{}
	}
	s.until = time.Unix(int64(binary.BigEndian.Uint64(text[endAt:])), 0) //nolint:gosec // as written
	if !a.isValid(s, now) {
		return session{}
	}
	return s
}

// isValid reports whether a session has not ended. That of a token in the request does not.
func (a *auth) isValid(s session, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, revoked := a.revoked[s.id]
	return !revoked && (s.until.IsZero() || !now.After(s.until))
}

func (a *auth) code(r role, text []byte) []byte {
	code := hmac.New(sha256.New, []byte(a.tokens[r]))
	code.Write([]byte("superd web session\x00"))
	code.Write(text)
	return code.Sum(nil)
}
