// Command static is the child of the tests as a program of its own, for roots without libraries.
package main

import (
	"os"

	"superd/tests/child"
)

func main() { os.Exit(child.Main(os.Args[1:])) }
