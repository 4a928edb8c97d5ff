package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"time"
)

// openFor is how long a browser may take to read the file that leads it to the pages.
const openFor = 30 * time.Second

// openBrowser opens an address, if the desktop has a command for that. All users see the arguments
// of a command, and the address has the token: so the browser gets a file that leads there, which
// only this user may read.
func openBrowser(ctx context.Context, address string, stderr io.Writer) {
	command, err := exec.LookPath("xdg-open")
	if err != nil {
		fmt.Fprintln(stderr, "superd: there is no xdg-open: open it in a browser")
		return
	}
	path, err := writeRedirect(address)
	cmd := exec.CommandContext(ctx, command, path)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(stderr, "superd: open a browser: %v\n", err)
		return
	}
	go func() {
		_ = cmd.Wait() // whether there is a browser is seen
		select {
		case <-time.After(openFor):
		case <-ctx.Done():
		}
		_ = os.Remove(path) // only its user may read it
	}()
}

// writeRedirect writes a page that leads to address.
func writeRedirect(address string) (path string, err error) {
	file, err := os.CreateTemp(os.Getenv("XDG_RUNTIME_DIR"), "superd-web-*.html") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(file, "<!doctype html><meta charset=\"utf-8\"><title>superd</title>\n"+
		"<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", html.EscapeString(address))
	return file.Name(), errors.Join(err, file.Close())
}
