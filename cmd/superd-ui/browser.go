package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// openFor is how long a browser may take to read the file that leads it to the pages.
const openFor = 30 * time.Second

// openBrowser opens an address, if the desktop has a command for that. All users see the arguments
// of a command, and the address has the token: so the browser gets a file that leads there, which
// only this user may read. The caller calls remove at the end: until then the file is removed when
// the browser has had its time.
func openBrowser(ctx context.Context, address string, stderr io.Writer) (remove func()) {
	command, err := exec.LookPath("xdg-open")
	if err != nil {
		fmt.Fprintln(stderr, "superd: there is no xdg-open: open it in a browser")
		return func() {}
	}
	path, err := writeRedirect(address)
	remove = sync.OnceFunc(func() {
		if path != "" {
			_ = os.Remove(path) // only its user may read it
		}
	})
	// The command may be the browser itself, which outlives this program
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command, path)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		remove()
		fmt.Fprintf(stderr, "superd: open a browser: %v\n", err)
		return remove
	}
	time.AfterFunc(openFor, remove)
	go func() { _ = cmd.Wait() }() // whether there is a browser is seen
	return remove
}

// writeRedirect writes a page that leads to address. After an error, path names the file if there
// is one.
func writeRedirect(address string) (path string, err error) {
	file, err := os.CreateTemp(os.Getenv("XDG_RUNTIME_DIR"), "superd-web-*.html") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(file, "<!doctype html><meta charset=\"utf-8\"><title>superd</title>\n"+
		"<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", html.EscapeString(address))
	return file.Name(), errors.Join(err, file.Close())
}
