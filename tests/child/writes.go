package child

import (
	"fmt"
	"os"
	"strconv"
)

// lineWidth is the length of a line of the mode writes.
const lineWidth = 100

// writes prints BYTES bytes of numbered lines, SIZE bytes a write, at full speed. The lines are
// those of the mode numbers, 100 bytes long. A write may end within a line. The last line is
// INSTANCE RUN end N.
func writes(args []string) error {
	size, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	prefix := os.Getenv("SUPERD_INSTANCE") + " " + os.Getenv("SUPERD_INVOCATION_ID") + " "
	buffer, n := make([]byte, 0, size+lineWidth), 0
	for ; n*lineWidth < most; n++ {
		buffer = fmt.Appendf(buffer, "%s%-*d\n", prefix, lineWidth-len(prefix)-1, n+1)
		for len(buffer) >= size {
			if _, err := os.Stdout.Write(buffer[:size]); err != nil {
				return err
			}
			buffer = append(buffer[:0], buffer[size:]...)
		}
	}
	_, err = os.Stdout.Write(fmt.Appendf(buffer, "%send %d\n", prefix, n))
	return err
}
