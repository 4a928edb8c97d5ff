// Package edit lets a person edit a file of the configuration: a copy, which replaces the file only
// when the whole configuration with it has no new mistake.
package edit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"superd/config"
	"superd/internal/safepath"
	"superd/internal/terminal"
)

// An Edit is one file that is edited.
type Edit struct {
	Configuration string // path of the main file; absolute
	File          string // to edit; absolute
	Line          int    // on which an editor begins; 0: the first

	Getenv      func(string) string
	Stdin       *os.File
	Stdout      io.Writer
	Stderr      io.Writer
	interactive *bufio.Reader // of answers; nil before the first question
}

// ErrUnchanged reports that the person has left the file as it was.
var ErrUnchanged = errors.New("nothing has changed")

// maxFileBytes bounds the file, as where superd reads it.
const maxFileBytes = 16 << 20

// Run edits the file and replaces it. The error says why it stays as it was; then a text that the
// person has saved is kept, and the error names where.
func (e *Edit) Run(ctx context.Context) error {
	before, err := safepath.ReadFile(e.File, maxFileBytes)
	if err != nil {
		return fmt.Errorf("edit configuration: %w", err)
	}
	dir, err := os.MkdirTemp("", "superd-edit-")
	if err != nil {
		return fmt.Errorf("edit configuration: %w", err)
	}
	draft := filepath.Join(dir, filepath.Base(e.File))
	keep := false
	defer func() {
		if !keep {
			os.RemoveAll(dir)
		}
	}()
	const private = 0o600
	if err := os.WriteFile(draft, before, private); err != nil {
		return fmt.Errorf("edit configuration: %w", err)
	}
	known := e.mistakes(string(before))
	fail := func(err error) error { return fmt.Errorf("%w: your text is in %s", err, draft) }
	for {
		failed := e.edit(ctx, draft)
		after, err := os.ReadFile(draft)
		keep = err != nil || string(after) != string(before)
		switch {
		case failed != nil && keep: // it may have saved before
			return fail(failed)
		case failed != nil:
			return failed
		case err != nil:
			return fail(fmt.Errorf("read what was edited: %w", err))
		case !keep:
			return ErrUnchanged
		}
		if mistakes := e.newMistakes(string(after), known); len(mistakes) > 0 {
			for _, m := range mistakes {
				fmt.Fprintln(e.Stderr, terminal.Sanitize(m.Error()))
			}
			if again, err := e.Ask("Edit it again?", true); err != nil || !again {
				return fail(errors.Join(err, errors.New("edit configuration: it has mistakes, and the file is as before")))
			}
			continue
		}
		if now, err := safepath.ReadFile(e.File, maxFileBytes); err != nil || string(now) != string(before) {
			return fail(errors.Join(err, fmt.Errorf("edit configuration: %s was changed meanwhile, and is left as it is", e.File)))
		}
		if err := safepath.Replace(e.File, after); err != nil {
			return fail(fmt.Errorf("edit configuration: %w", err))
		}
		keep = false
		return nil
	}
}

// editors are commands for the case that no variable names one, the best first.
var editors = []string{"sensible-editor", "editor", "nano", "vim", "vi"}

// takesLine has the editors that begin at a line: +LINE before the name of the file.
var takesLine = []string{"vi", "vim", "nvim", "vim.basic", "vim.tiny", "nano", "emacs", "emacsclient", "micro", "joe", "mg"}

// edit runs the editor, and returns when it has ended.
func (e *Edit) edit(ctx context.Context, draft string) error {
	command := e.Getenv("VISUAL")
	if command == "" {
		command = e.Getenv("EDITOR")
	}
	for _, name := range editors {
		if command != "" {
			break
		}
		if _, err := exec.LookPath(name); err == nil {
			command = name
		}
	}
	if strings.TrimSpace(command) == "" {
		return errors.New("edit configuration: there is no editor: set VISUAL or EDITOR to one")
	}
	var args []string
	if first := strings.Fields(command)[0]; e.Line > 1 && slices.Contains(takesLine, filepath.Base(first)) {
		args = append(args, fmt.Sprintf("+%d", e.Line))
	}
	// The variable may have arguments, as with git and crontab
	cmd := exec.CommandContext(ctx, "/bin/sh", slices.Concat([]string{"-c", command + ` "$@"`, command}, args, []string{draft})...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	caught := make(chan os.Signal, 1) // Ctrl-C is for the editor
	signal.Notify(caught, os.Interrupt, syscall.SIGQUIT)
	defer signal.Stop(caught)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("edit configuration: the editor, %s, has failed: %w: the file is as before", command, err)
	}
	return nil
}

// mistakes returns the mistakes of the whole configuration with that text of the file.
func (e *Edit) mistakes(text string) config.Errors {
	conf, err := config.ExamineEdited(e.Configuration, e.File, text)
	if err == nil {
		return conf.Errors
	}
	if mistakes, ok := errors.AsType[config.Errors](err); ok {
		return mistakes
	}
	return config.Errors{{File: e.File, Err: err}}
}

// newMistakes returns the mistakes that were not there before. The others stand elsewhere, perhaps
// in a file that the person may not write, and keep nobody from editing. A mistake without a key,
// such as one of syntax, is always new in the file that is edited.
func (e *Edit) newMistakes(text string, known config.Errors) config.Errors {
	return slices.DeleteFunc(e.mistakes(text), func(m *config.KeyError) bool {
		return slices.ContainsFunc(known, func(k *config.KeyError) bool {
			return k.File == m.File && k.Key == m.Key && (k.Key != "" || k.File != e.File) && k.Err.Error() == m.Err.Error()
		})
	})
}

// Ask asks a question on the terminal. Without one the answer is no.
func (e *Edit) Ask(question string, otherwise bool) (bool, error) {
	if !terminal.IsTerminal(e.Stdin) {
		return false, nil
	}
	choices := "[y/N]"
	if otherwise {
		choices = "[Y/n]"
	}
	if e.interactive == nil {
		e.interactive = bufio.NewReader(e.Stdin)
	}
	for {
		fmt.Fprintf(e.Stdout, "%s %s ", question, choices)
		line, err := e.interactive.ReadString('\n')
		if err != nil {
			fmt.Fprintln(e.Stdout)
			return false, nil // the terminal is closed, or Ctrl-D
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "":
			return otherwise, nil
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
	}
}
