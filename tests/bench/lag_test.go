package bench

import (
	"bytes"
	"os"
	"regexp"
	"syscall"
	"time"
)

var loopLag = regexp.MustCompile(`loop_lag_max=(\S+)`)

// lag records the longest delay of superd's loop since its start.
func (m *match) lag(measure string) {
	if !m.isSuperd() {
		return
	}
	read := func() []byte {
		text, err := os.ReadFile(m.path("stderr"))
		if err != nil {
			m.Fatal(err)
		}
		return text
	}
	before := len(read())
	m.first.signal(m, syscall.SIGQUIT)
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		lag := loopLag.FindSubmatch(read()[before:])
		if lag == nil {
			continue
		}
		d, err := time.ParseDuration(string(bytes.Trim(lag[1], `"`)))
		if err != nil {
			m.Fatal(err)
		}
		m.addTime(m.c.name, "lag "+measure, d)
		return
	}
	m.Fatal("superd does not report the lag of its loop")
}
