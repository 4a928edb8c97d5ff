package deliver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"superd/config/receiver"
)

// Headers of a request, beside those of HTTP.
const (
	SignatureHeader = "X-Superd-Signature-256" // sha256= and the HMAC of the body in hexadecimal
	keyHeader       = "Idempotency-Key"
)

const (
	maxAnswer    = 4 << 10 // bytes of an answer that are read
	idleTimeout  = 10 * time.Second
	dialTimeout  = 10 * time.Second
	maxAfter     = 5 * time.Minute // longest wait that an answer can ask for
	maxHeaderLen = 1024            // bytes of a header
)

// A webhook sends deliveries to a URL.
type webhook struct {
	receiver *receiver.Receiver
	client   *http.Client
	agent    string      // User-Agent
	reading  chan secret // of a reading of the secret under way, of capacity 1; nil: none is
}

// A secret is what came of the reading of a secret.
type secret struct {
	text []byte
	err  error
}

// newWebhook returns the webhook of a receiver. It uses no proxy, whatever the environment of
// superd says, and follows no redirect, which could lead the signed body elsewhere.
func newWebhook(r *receiver.Receiver, version string) *webhook {
	transport := &http.Transport{
		Proxy:                  nil,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           1,
		MaxConnsPerHost:        1,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	return &webhook{receiver: r, agent: "superd/" + version, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A refusal is an answer other than success.
type refusal struct {
	status string
	remedy string
	after  time.Duration // that the answer asks to wait; 0: it does not
}

func (e *refusal) Error() string { return "the receiver has answered " + e.status + e.remedy }

// send sends a body. It returns the status and the begin of the answer.
func (w *webhook) send(ctx context.Context, key string, body []byte) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.receiver.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.receiver.Webhook, bytes.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("make request: %w", withoutURL(err))
	}
	request.Header.Set("Content-Type", contentType(body))
	request.Header.Set("User-Agent", w.agent)
	request.Header.Set(keyHeader, key[:min(len(key), maxHeaderLen)])
	if path := w.receiver.SecretFile; path != "" {
		secret, err := w.secret(ctx, path)
		if err != nil {
			return 0, "", fmt.Errorf("sign request: %w", err)
		}
		request.Header.Set(SignatureHeader, sign(secret, body))
	}
	response, err := w.client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, "", fmt.Errorf("send request: no answer within timeout %v", w.receiver.Timeout)
		}
		return 0, "", fmt.Errorf("send request: %w", withoutURL(err))
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // so that the connection is reused
	switch code := response.StatusCode; {
	case code >= 300 && code < 400:
		return code, string(text), &refusal{response.Status, ": redirects are not followed: write the URL to which it leads", 0}
	case code < 200 || code >= 300:
		return code, string(text), &refusal{response.Status, "", retryAfter(response.Header)}
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		return code, string(text), fmt.Errorf("read answer: not complete within timeout %v", w.receiver.Timeout)
	}
	return response.StatusCode, string(text), nil
}

// close closes idle connections.
func (w *webhook) close() { w.client.CloseIdleConnections() }

// retryAfter returns the wait that an answer asks for, 0 for none.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 3600))*time.Second, maxAfter)
}

// withoutURL returns the cause of an error without the URL, which may be secret.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// contentType returns the type of a body: a template may write anything.
func contentType(body []byte) string {
	if json.Valid(body) {
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// sign returns the value of the header with the signature of a body.
func sign(secret, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// secret reads the secret, until ctx is done. A file system may hang: the next request waits for
// the same reading.
func (w *webhook) secret(ctx context.Context, path string) ([]byte, error) {
	if w.reading == nil {
		reading := make(chan secret, 1)
		w.reading = reading
		go func() {
			text, err := readSecret(path)
			reading <- secret{text, err}
		}()
	}
	select {
	case s := <-w.reading:
		w.reading = nil
		return s.text, s.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s: its file system does not answer", path)
	}
}

// readSecret reads a secret, without white space around it. Others must not be able to read it.
func readSecret(path string) ([]byte, error) {
	// A FIFO must not block
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := receiver.CheckSecret(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, receiver.MaxSecret))
	if err != nil {
		return nil, err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return nil, fmt.Errorf("%s is empty: write the secret into it", path)
	}
	return []byte(secret), nil
}
