// Command superd-exec is the exec shim of programs with a sandbox. superd has it embedded and
// executes it between the fork and the program.
package main

import (
	"os"

	"superd/internal/execshim"
	"superd/sandbox/enforce"
)

func main() {
	execshim.Run(func(plan []string) (execshim.Sandbox, error) { return enforce.New(plan) })
	os.Stderr.WriteString(execshim.Name + " is internal to superd\n")
	os.Exit(2)
}
