// Package web tests the pages of `superd web` in Debian's chromium, which it drives by DevTools.
//
// make test-web installs it and runs this. It is a module of its own, so that superd does not get
// the modules that drive the browser.
package web

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"superd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// A server is a running `superd web`.
type server struct {
	*harness.Site
	url    string
	token  string
	errOut *harness.Output
	end    func()
}

// newSite makes a site with superd and its pages.
func newSite(t *testing.T, programs string) (*server, *harness.Superd) {
	t.Helper()
	s := harness.NewSite(t, programs)
	s.BuildUI()
	d := s.Start()
	return serve(t, s, "127.0.0.1:0"), d
}

// serve starts `superd web`.
func serve(t *testing.T, s *harness.Site, listen string) *server {
	t.Helper()
	cmd := s.Command("web", "-c", s.Config, "--token-file", s.Path("token"), "--listen", listen)
	errOut := new(harness.Output)
	cmd.Stderr = errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	t.Cleanup(end)
	errOut.Wait(t, "superd: pages at ")
	_, rest, _ := strings.Cut(errOut.String(), "superd: pages at ")
	url, _, _ := strings.Cut(rest, "/;")
	return &server{s, url, strings.TrimSpace(s.Read("token")), errOut, end}
}

// A tab is a tab of a browser of its own.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	mistakes []string // what the browser has complained about
	expected []string // parts of complaints that belong to the test
}

// newTab opens a browser. The test fails if a script of a page fails, or the policy of the page
// keeps it from something.
func newTab(t *testing.T, options ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.WindowSize(1280, 800), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("enable-precise-memory-info", true),
		chromedp.Flag("js-flags", "--expose-gc"), chromedp.WSURLReadTimeout(harness.Deadline))
	ctx, end := chromedp.NewExecAllocator(context.Background(), append(all, options...)...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.complain((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				b.complain(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, m := range b.mistakes {
			t.Errorf("the browser complains: %s", m)
		}
	})
	return b
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, part := range b.expected {
		if strings.Contains(text, part) {
			return
		}
	}
	b.mistakes = append(b.mistakes, text)
}

// expect names parts of complaints that belong to the test.
func (b *tab) expect(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, parts...)
}

// run runs an action, which may take as long as only a defect makes it, and returns its result.
func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Deadline)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], parameters P) R {
	b.t.Helper()
	return run(b, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, parameters)
	})
}

// open opens an address and waits until the page is there.
func (b *tab) open(url string) {
	b.t.Helper()
	run(b, chromedp.Navigate(url))
}

// enter opens the pages of a server, logged in.
func (b *tab) enter(s *server) {
	b.t.Helper()
	b.open(s.url + "/#token=" + s.token)
	b.shows("programs-table")
}

// value returns what an expression gives.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// do evaluates an expression for its effect.
func (b *tab) do(expression string) {
	b.t.Helper()
	value[chromedp.Void](b, "void ("+expression+")")
}

// at is an expression for the element that a test finds.
func at(test string) string {
	quoted, _ := json.Marshal(fmt.Sprintf(`[data-test=%q]`, test)) // a string is always written
	return "document.querySelector(" + string(quoted) + ")"
}

// in is an expression for an element within another one.
func in(outer, test string) string {
	return at(outer) + fmt.Sprintf(`?.querySelector('[data-test=%q]')`, test)
}

// until waits until an expression is true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	harness.Until(b.t, what, func() bool { return value[bool](b, "Boolean("+expression+")") })
}

// shows waits until the page has an element.
func (b *tab) shows(test string) {
	b.t.Helper()
	b.until(test+" is there", at(test))
}

// says waits until the text of an element contains a text.
func (b *tab) says(test, text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text) // a string is always written
	b.until(fmt.Sprintf("%s says %q", test, text), at(test)+"?.textContent.includes("+string(quoted)+")")
}

// click clicks on an element, as a script does: some are behind others on a narrow page.
func (b *tab) click(test string) {
	b.t.Helper()
	b.shows(test)
	b.do(at(test) + ".click()")
}

// clickIn clicks on an element within another one.
func (b *tab) clickIn(outer, test string) {
	b.t.Helper()
	b.until(test+" is in "+outer, in(outer, test))
	b.do(in(outer, test) + ".click()")
}

// confirm answers the question before a command.
func (b *tab) confirm() {
	b.t.Helper()
	b.click("confirm")
	b.until("the dialog is closed", "!"+at("confirm-dialog"))
}

// fill sets the value of a field.
func (b *tab) fill(test, text string) {
	b.t.Helper()
	b.shows(test)
	quoted, _ := json.Marshal(text) // a string is always written
	b.do(fmt.Sprintf("(() => { const e = %s; e.value = %s; e.dispatchEvent(new Event('input', {bubbles: true})); })()", at(test), quoted))
}

// theme makes the browser prefer light or dark.
func (b *tab) theme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}
