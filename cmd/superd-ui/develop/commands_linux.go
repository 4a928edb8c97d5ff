package develop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"superd/config"
	"superd/develop/plan"
	"superd/develop/project"
	"superd/importer"
	"superd/importer/draft"
)

// Errors are made by the caller, whose exit statuses they stand for.
type Errors struct {
	Usage func(error) error // a mistake in the command line or in a file
	None  func(error) error // no superd answers
}

// Commands returns the commands. SUPERD is the first argument of each: the path of superd, which
// executes them.
func Commands(e Errors) []*cobra.Command {
	all := []*cobra.Command{e.newUp(), e.newDown(), e.newLs(), e.newInit()}
	for _, c := range all {
		c.Flags().String(superdFlag, "", "path of superd")
		_ = c.Flags().MarkHidden(superdFlag) // no error: the flag is defined
	}
	return all
}

// superdFlag has the path of superd.
const superdFlag = "superd"

// superdOf returns the path of superd.
func superdOf(cmd *cobra.Command) (string, error) {
	if path := cmd.Flag(superdFlag).Value.String(); path != "" {
		return path, nil
	}
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find superd: %w", err)
	}
	return filepath.Join(filepath.Dir(own), "superd"), nil
}

// files are the names of the files that superd up looks for in a directory, the first one first.
func files() []string {
	return []string{"superd.toml", "Procfile.dev", "Procfile", "process-compose.yaml", "process-compose.yml",
		"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"}
}

// formatOf splits a file such as compose:dev.yaml.
func formatOf(named string) (format, file string) {
	format, file, ok := strings.Cut(named, ":")
	if _, err := importer.Find(format); !ok || err != nil {
		return "", named
	}
	return format, file
}

// detect returns the format with that name, or that of the file if it is "".
func detect(file, format string) (importer.Format, error) {
	if format != "" {
		return importer.Find(format)
	}
	found, err := importer.Detect(file)
	if err != nil {
		return found, fmt.Errorf("%w, as in -f compose:%s", err, filepath.Base(file))
	}
	return found, nil
}

// find returns the file that is named, or else the first that the working directory has.
func find(named string) (string, error) {
	if named != "" {
		if info, err := os.Stat(named); err == nil && info.IsDir() {
			return findIn(named)
		}
		return named, nil
	}
	return findIn(".")
}

func findIn(dir string) (string, error) {
	for _, name := range files() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		absolute = dir
	}
	return "", fmt.Errorf("%s has no superd.toml, Procfile, process-compose.yaml or compose.yaml: "+
		"name a file with -f, or let `superd init` write one", absolute)
}

// load returns the configuration of a project, which its file is or is imported to. ports says
// which programs are given one, notes what the import has to say.
func load(p *project.Project, named string) (c *config.Config, ports plan.Ports, notes []draft.Note, err error) {
	if named == "" && filepath.Ext(p.File) == ".toml" {
		c, err = strict(p.File)
		return c, plan.MissingPorts, nil, err
	}
	format, err := detect(p.File, named)
	if err != nil {
		return nil, 0, nil, err
	}
	doc, err := importer.Import(format, p.File, p.Dir())
	if err != nil {
		return nil, 0, nil, err
	}
	if err := p.Write(p.ImportFile(), doc.TOML()); err != nil {
		return nil, 0, nil, err
	}
	c, err = strict(p.ImportFile())
	switch {
	case err != nil && isIn(err, p.ImportFile()):
		return nil, 0, nil, fmt.Errorf("%w\n%s was imported as that file", err, p.File)
	case err != nil:
		return nil, 0, nil, err
	}
	if format.Name == "procfile" {
		ports = plan.AllPorts
	}
	return c, ports, doc.Notes, nil
}

// isIn reports whether a mistake is in that file.
func isIn(err error, path string) bool {
	mistakes, ok := errors.AsType[config.Errors](err)
	return ok && slices.ContainsFunc(mistakes, func(e *config.KeyError) bool { return e.File == path })
}

// strict loads a configuration without any mistake.
func strict(path string) (*config.Config, error) {
	c, err := config.Load(path)
	if err == nil && len(c.Errors) > 0 {
		err = c.Errors
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// usesDotEnv reports whether the programs of a file get the .env beside it: those of a compose.yaml
// do not, where it has the values of variables in the file.
func usesDotEnv(file, named string) bool {
	format, err := detect(file, named)
	return named == "" && filepath.Ext(file) == ".toml" || err == nil && slices.Contains([]string{"procfile", "process-compose"}, format.Name)
}

// programsOf returns the names of the programs of a file, for completion.
func programsOf(file string) (names []cobra.Completion) {
	if filepath.Ext(file) == ".toml" {
		c, err := config.Load(file)
		if err != nil {
			return nil
		}
		for _, p := range c.Programs {
			names = append(names, p.Name)
		}
		return names
	}
	format, err := importer.Detect(file)
	if err != nil {
		return nil
	}
	doc, err := importer.Import(format, file, ".")
	if err != nil {
		return nil
	}
	for _, p := range doc.Programs {
		names = append(names, p.Name)
	}
	return names
}

// errDeclined says that nothing was done since the user said so.
var errDeclined = errors.New("not done")
