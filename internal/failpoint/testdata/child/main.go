// Child sets its role to the first argument, passes the failpoints named by the others, and prints
// each.
package main

import (
	"fmt"
	"os"

	"superd/internal/failpoint"
)

func main() {
	failpoint.SetRole(os.Args[1])
	for _, name := range os.Args[2:] {
		fmt.Println(name)
		failpoint.Here(name)
	}
}
