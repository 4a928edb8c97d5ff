package systemd

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"superd/config/codec"
)

var (
	dayNames = [...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	allHours = uint64(1)<<24 - 1
)

// star is the bit that a field of a cron line has which is not restricted.
const star = 1 << 63

// calendar returns the expressions of systemd for a cron line: two if it has both days of the month
// and days of the week, since cron then runs on either.
func calendar(schedule codec.Schedule) (all []string) {
	c := schedule.Cron
	times := fmt.Sprintf("%s:%s:00", field(c.Hour, allHours, 2), field(c.Minute, 1<<60-1, 2))
	month := field(c.Month, 1<<13-2, 2)
	days, week := c.Dom, c.Dow
	date := func(dom string) string { return fmt.Sprintf("*-%s-%s %s", month, dom, times) }
	dom := field(days, 1<<32-2, 2)
	switch {
	case week&star != 0 || week&0x7f == 0x7f:
		return []string{date(dom)}
	case days&star != 0 || dom == "*":
		return []string{weekdays(week) + " " + date("*")}
	}
	return []string{date(dom), weekdays(week) + " " + date("*")}
}

// field returns the values of a set, as ranges where three or more follow each other.
func field(set, all uint64, width int) string {
	if set &^= star; set&all == all {
		return "*"
	}
	var parts []string
	for set != 0 {
		first := bits.TrailingZeros64(set)
		n := bits.TrailingZeros64(^(set >> first))
		last := first + n - 1
		switch {
		case n >= 3:
			parts = append(parts, fmt.Sprintf("%0*d..%0*d", width, first, width, last))
		default:
			for v := first; v <= last; v++ {
				parts = append(parts, fmt.Sprintf("%0*d", width, v))
			}
		}
		set &^= (1<<n - 1) << first
	}
	return strings.Join(parts, ",")
}

// weekdays returns the days of a week, which begins with Monday, as ranges where three or more
// follow each other.
func weekdays(set uint64) string {
	const sunday = 6
	set = set&0x7f>>1 | set&1<<sunday
	numbers := field(set, 0xff, 1)
	var names []string
	for part := range strings.SplitSeq(numbers, ",") {
		first, last, isRange := strings.Cut(part, "..")
		name := dayNames[first[0]-'0']
		if isRange {
			name += ".." + dayNames[last[0]-'0']
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// span returns a duration as systemd writes it.
func span(d time.Duration) string {
	switch {
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	case d%time.Millisecond == 0:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	}
	return fmt.Sprintf("%dus", max(1, d/time.Microsecond))
}
