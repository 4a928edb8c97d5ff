package develop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"superd/config/schema"
	"superd/develop/first"
	"superd/internal/terminal"
	"superd/internal/words"
)

// firstFile is the file that init writes.
const firstFile = "superd.toml"

func (e Errors) newInit() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first superd.toml for this directory",
		Long: `Init writes a superd.toml for what the working directory has: a Procfile, compose.yaml, supervisord.conf
or ecosystem.config.js, or else scripts of package.json, manage.py, commands of a Go module, bin/dev.
It asks what to take; without a terminal, or with --yes, it takes what it would suggest. Beside it
is the schema for editors. It executes nothing and replaces no file.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i := initializer{in: bufio.NewReader(os.Stdin), out: cmd.ErrOrStderr(), asks: !yes && terminal.IsTerminal(os.Stdin)}
			return i.run(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "ask nothing")
	return cmd
}

type initializer struct {
	in   *bufio.Reader
	out  io.Writer // questions
	asks bool
}

func (i *initializer) run(stdout io.Writer) error {
	if _, err := os.Lstat(firstFile); err == nil {
		return fmt.Errorf("write %s: it is there already: change it, or move it away", firstFile)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("write %s: %w", firstFile, err)
	}
	chosen, err := i.choose(first.Look(dir))
	if err != nil {
		return err
	}
	text, doc, err := first.Write(dir, chosen)
	if err != nil {
		return fmt.Errorf("write %s: %w", firstFile, err)
	}
	mode := doc.Mode // of what was imported, which may have passwords
	if mode == 0 {
		mode = 0o644
	}
	if err := create(firstFile, text, mode); err != nil {
		return err
	}
	if _, err := os.Lstat(first.SchemaFile); errors.Is(err, fs.ErrNotExist) {
		described, err := schema.JSON()
		if err != nil {
			return err
		}
		if err := create(first.SchemaFile, string(described), 0o644); err != nil {
			return err
		}
	}
	for _, n := range doc.Notes {
		fmt.Fprintln(i.out, terminal.Sanitize(n.String()))
	}
	var names []string
	for _, p := range doc.Programs {
		names = append(names, p.Name)
	}
	_, err = fmt.Fprintf(stdout, "%s has %s: %s; see `superd up`\n", filepath.Join(dir, firstFile),
		words.Plural(len(names), "program"), strings.Join(names, ", "))
	return err
}

// create writes a file that must not exist.
func create(path, text string, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// choose returns what the user takes. What a file of another supervisor has is not suggested again.
func (i *initializer) choose(all []first.Candidate) (chosen []first.Candidate, err error) {
	imported := false
	for _, c := range all {
		if c.IsImport() && imported {
			continue
		}
		question := fmt.Sprintf("Take all programs of %s?", c.From)
		if !c.IsImport() {
			question = fmt.Sprintf("Take %s, %s (%s: %s)?", c.Name, strings.Join(c.Command, " "), c.From, c.Why)
		}
		yes, err := i.ask(question, !imported)
		if err != nil {
			return nil, err
		}
		if yes {
			imported = imported || c.IsImport()
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

// ask asks a question; usual is the answer of an empty line, and of a user who is not asked.
func (i *initializer) ask(question string, usual bool) (yes bool, err error) {
	if !i.asks {
		return usual, nil
	}
	choice := "[y/N]"
	if usual {
		choice = "[Y/n]"
	}
	for {
		fmt.Fprintf(i.out, "%s %s ", terminal.Sanitize(question), choice)
		line, err := i.in.ReadString('\n')
		if err != nil {
			fmt.Fprintln(i.out)
			return false, errDeclined
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "":
			return usual, nil
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
	}
}
