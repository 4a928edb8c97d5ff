package first

import (
	"path/filepath"

	"superd/importer"
	"superd/importer/draft"
)

// SchemaFile is the name of the schema that the first line of the configuration names.
const SchemaFile = "superd.schema.json"

// Write returns the text of the configuration with these candidates, which are programs, or one
// import and further programs.
func Write(dir string, chosen []Candidate) (text string, doc *draft.Document, err error) {
	doc = draft.New("")
	for _, c := range chosen {
		if !c.IsImport() {
			continue
		}
		if doc, err = importer.Import(*c.format, filepath.Join(dir, c.From), dir); err != nil {
			return "", nil, err
		}
		doc.Head = append([]string{"", "Made from " + c.From + " by superd init."}, doc.Head...)
	}
	for _, c := range chosen {
		if c.IsImport() {
			continue
		}
		p := doc.Program(c.Name)
		p.Comments = []string{c.Why}
		p.Set("command", draft.Command(c.Command))
	}
	if len(doc.Programs) == 0 {
		p := doc.Program("web")
		p.Comments = []string{"Nothing was found that this directory runs: write the command of a program."}
		p.Set("command", draft.Command{"sh", "-c", "echo write a command for web into superd.toml; exec sleep infinity"})
	}
	doc.Head = append([]string{
		"`superd up` runs these programs for development, with a PORT for each and the variables of .env;",
		"`superd run` runs them as they are here. `superd check` finds mistakes.",
	}, doc.Head...)
	doc.Tail = append(doc.Tail,
		"More keys of a program, such as:",
		`  requires    = ["db"]                              start after db is ready`,
		`  ready       = { tcp = "127.0.0.1:${PORT}" }       when it counts as ready`,
		`  environment = { LOG = "debug" }                   variables beside those of .env`,
		`  restart     = "on-failure"                        always, on-failure or never`,
		`  pty         = true                                a terminal, for superd attach`,
		`  watch       = {}                                  restart it when files change`,
		`  replicas    = 2                                   web@1 and web@2`,
	)
	return "#:schema ./" + SchemaFile + "\n\n" + doc.TOML(), doc, nil
}
