package logs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"superd/logs/follow"
	"superd/logs/frame"
)

// BenchmarkReading reads a log of 64 MB with lines of 100 bytes: as lines, as blocks, and with
// expressions that no line matches.
func BenchmarkReading(b *testing.B) {
	const size = 64 << 20
	for format, head := range map[frame.Format]string{
		frame.Raw: "", frame.Text: at(0) + " stdout ",
		frame.JSON: `{"time":"` + at(0) + `","program":"p","instance":"p","run":"aa","stream":"stdout","partial":false,"line":"`,
	} {
		tail := "\n"
		if format == frame.JSON {
			tail = "\"}\n"
		}
		var text strings.Builder
		for i := 0; text.Len() < size; i++ {
			fmt.Fprintf(&text, "%s%012d GET /index.html 200 %s%s", head, i, strings.Repeat("x", 65), tail)
		}
		r := newRig(b)
		log := r.newCollector(r.logDir(map[string]string{"p": text.String()}), "p", format).Log(Stdout)
		for name, q := range map[string]follow.Query{
			"lines": {}, "blocks": {Blocks: true}, "literal": {Grep: regexp.MustCompile("404 nothing")},
			"fold": {Grep: regexp.MustCompile("(?i)404 nothing")}, "expression": {Grep: regexp.MustCompile(`[45]\d\d$`)},
		} {
			b.Run(fmt.Sprintf("%s/%s", format, name), func(b *testing.B) {
				q.Lines = -1
				b.SetBytes(int64(text.Len()))
				for b.Loop() {
					reading := follow.NewReading(b.Context(), q)
					if err := reading.Set([]follow.Input{{Log: log}}); err != nil {
						b.Fatal(err)
					}
					for {
						e, err := reading.Next()
						if err != nil {
							b.Fatal(err)
						}
						if e == nil {
							break
						}
					}
					reading.Close()
				}
			})
		}
	}
}
