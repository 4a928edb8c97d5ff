package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"superd/cmd/superd/prompt"
	"superd/internal/terminal"
)

// prompt runs commands that a person types, if both ends are a terminal. Otherwise it shows which
// commands there are, and fails.
func (f *ctlFlags) prompt(cmd *cobra.Command, args []string) error {
	stdout, ok := cmd.OutOrStdout().(*os.File)
	if !ok || !terminal.IsTerminal(stdout) || !terminal.IsTerminal(os.Stdin) {
		return needCtlCommand(cmd, args)
	}
	d := &dialogue{flags: f, stdout: stdout, stderr: cmd.ErrOrStderr()}
	p := &prompt.Prompt{
		Stdin: os.Stdin, Stdout: stdout, Text: "superd> ", Run: d.run, Complete: d.complete,
	}
	fmt.Fprintln(stdout, "help lists the commands, Tab completes, Ctrl-C ends a command, and exit or Ctrl-D this prompt.")
	return p.Loop(cmd.Context())
}

// A dialogue runs the commands of a prompt.
type dialogue struct {
	flags  *ctlFlags
	stdout *os.File
	stderr io.Writer
}

// stripped returns words without what one types before them in a shell.
func stripped(words []string) []string {
	for _, own := range []string{"superd", "ctl"} {
		if len(words) > 1 && words[0] == own {
			words = words[1:]
		}
	}
	return words
}

// readsKeys reports whether a command, as stripped, reads keys.
func readsKeys(words []string) bool {
	if slices.Contains(words, "--help") {
		return false
	}
	return slices.Contains([]string{"attach", "exec", "shell", "edit"}, words[0]) ||
		slices.ContainsFunc(words, func(word string) bool {
			value, set := strings.CutPrefix(word, "--watch=")
			short := strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.Contains(word, "w")
			return word == "--watch" || short || set && value != "false"
		})
}

// arguments returns the command line of superd for words.
func (d *dialogue) arguments(words []string) []string {
	words = stripped(words)
	if words[0] == "help" {
		words = append(slices.Clone(words[1:]), "--help")
	}
	return slices.Concat([]string{"ctl"}, d.flags.proxyArgs(), d.flags.host.Args(), words)
}

// run runs a command and prints its error. A command that reads keys runs in a process of its own:
// what waits for a key here would take the next one from the prompt.
func (d *dialogue) run(ctx context.Context, words []string) {
	args := d.arguments(words)
	if readsKeys(stripped(words)) {
		d.runApart(args)
		return
	}
	err := execute(ctx, args, d.stdout, d.stderr)
	if _, silent := errors.AsType[exitStatus](err); err == nil || silent {
		return
	}
	if ctx.Err() != nil {
		fmt.Fprintln(d.stdout) // after ^C
		return
	}
	printError(d.stderr, err)
}

// runApart runs a command in a process of its own, which has the terminal and gets Ctrl-C.
func (d *dialogue) runApart(args []string) {
	binary, err := os.Executable()
	if err != nil {
		printError(d.stderr, fmt.Errorf("find superd's binary: %w", err))
		return
	}
	cmd := exec.Command(binary, args...) //nolint:noctx // Ctrl-C reaches it through the terminal
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, d.stdout, d.stderr
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		printError(d.stderr, err)
	}
}

// complete completes as a shell does.
func (d *dialogue) complete(ctx context.Context, words []string) (all []prompt.Candidate) {
	var out bytes.Buffer
	args := append([]string{cobra.ShellCompRequestCmd}, d.arguments(append(slices.Clip(words), ""))...)
	args = args[:len(args)-1]
	if err := execute(ctx, args, &out, io.Discard); err != nil {
		return nil
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, ":") { // the directive, which is the last
			break
		}
		word, description, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		all = append(all, prompt.Candidate{
			Word: word, Description: terminal.Sanitize(description), Continues: strings.HasSuffix(word, "="),
		})
	}
	if len(words) == 1 {
		for _, own := range [][2]string{{"exit", "End this prompt"}, {"help", "List the commands"}} {
			all = append(all, prompt.Candidate{Word: own[0], Description: own[1]})
		}
	}
	return all
}
