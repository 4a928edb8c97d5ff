package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// minStatements is the number of statements that a function must have to count.
const minStatements = 5

// traceVariable names the file to which the functions report.
const traceVariable = "SUPERD_LIVES"

// report is the package that the functions call.
const report = `package lives

import (
	"fmt"
	"os"
)

var file, _ = os.OpenFile(os.Getenv("` + traceVariable + `"), os.O_APPEND|os.O_WRONLY, 0)

func Called(where, function string) { fmt.Fprintf(file, "%s %s\n", where, function) }
`

// services are the packages below procs that only offer a service.
var services = []string{"eventlog", "journal", "notify", "probe", "schedule", "host"}

// build builds superd in a copy of the module whose functions report their calls.
func build(dir, to, binary string) error {
	const embedded = "sandbox/shim/bin"
	list := exec.Command("git", "ls-files", "-z", "--", "*.go", "*.s", "go.mod", "go.sum", embedded)
	list.Dir = dir
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("list files of %s: %w", dir, err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tools/") {
			continue
		}
		if err := copyFile(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	own := filepath.Join(to, "internal/lives")
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "lives.go"), []byte(report), 0o644); err != nil {
		return err
	}
	if err := instrumentAll(to); err != nil {
		return err
	}
	compile := exec.Command("go", "build", "-o", binary, "./cmd/superd")
	compile.Dir, compile.Env = to, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("build superd: %w\n%s", err, text)
	}
	return nil
}

// copyFile copies a file that may be gone from the worktree.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// instrumentAll changes the files of procs and of the packages below that are no services.
func instrumentAll(root string) error {
	return filepath.WalkDir(filepath.Join(root, "procs"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(services, d.Name()) || d.Name() == "linuxtest"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go"):
			return instrument(root, path)
		}
		return nil
	})
}

// instrument has each function of a file that counts report its calls.
func instrument(root, path string) error {
	files := token.NewFileSet()
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	where, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	// From the end, so that the offsets stay right
	for _, d := range slices.Backward(f.Decls) {
		function, is := d.(*ast.FuncDecl)
		if !is || function.Body == nil || !counts(function) {
			continue
		}
		at := files.Position(function.Body.Lbrace).Offset + 1
		text = slices.Insert(text, at,
			fmt.Appendf(nil, " lives.Called(%q, %q);", where, function.Name.Name)...)
	}
	at := files.Position(f.Name.End()).Offset
	// The blank variable is for files of which no function counts
	text = slices.Insert(text, at, []byte("; import \"superd/internal/lives\"")...)
	text = append(text, "\nvar _ = lives.Called\n"...)
	return os.WriteFile(path, text, 0o644)
}

// counts reports whether a reader has to read the function.
func counts(f *ast.FuncDecl) bool {
	switch f.Name.Name {
	case "snapshot", "Snapshot", "SetMachine":
		return false
	}
	statements := 0
	ast.Inspect(f.Body, func(n ast.Node) bool {
		_, is := n.(ast.Stmt)
		if _, block := n.(*ast.BlockStmt); is && !block {
			statements++
		}
		return true
	})
	return statements >= minStatements
}
