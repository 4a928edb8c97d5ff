// Child passes the crashpoints that it is given, after its role, and prints each.
package main

import (
	"fmt"
	"os"

	"superd/crashpoint"
)

func main() {
	crashpoint.SetRole(os.Args[1])
	for _, name := range os.Args[2:] {
		fmt.Println(name)
		crashpoint.Here(name)
	}
}
