// Command superd-exec is the exec shim of programs with a sandbox, and the parent of a command that
// `superd run --` runs. superd has it embedded. It executes it between the fork and the program, or
// in its own place.
package main

import (
	"os"

	"superd/cmd/superd/single"
	"superd/internal/execshim"
	"superd/sandbox/enforce"
)

func main() {
	single.Become()
	execshim.Run(func(plan []string) (execshim.Sandbox, error) { return enforce.New(plan) })
	os.Stderr.WriteString(execshim.Name + " is internal to superd\n")
	os.Exit(2)
}
