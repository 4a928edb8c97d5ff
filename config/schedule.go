package config

import (
	"fmt"
	"strconv"
	"strings"
)

// A cronField bounds one of the five fields of a cron line. Source: man 5 crontab.
type cronField struct {
	name        string
	least, most int
	names       []string // names[i] stands for least+i
}

var cronFields = []cronField{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var cronWords = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// checkSchedule accepts "@every 5m", "@daily" and its like, and cron lines of five fields.
func checkSchedule(s string) error {
	const remedy = `: write "@every 5m", "@daily" or a cron line such as "30 4 * * mon-fri"`
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return fmt.Errorf("is empty%s", remedy)
	}
	if fields[0] == "@every" {
		period, err := parseDuration(strings.Join(fields[1:], " "))
		if err != nil {
			return fmt.Errorf("in %s: %w", shorten(s), err)
		}
		if period <= 0 {
			return fmt.Errorf("the period must be more than 0s, got %s", shorten(s))
		}
		return nil
	}
	if strings.HasPrefix(s, "@") {
		for _, word := range cronWords {
			if s == word {
				return nil
			}
		}
		return fmt.Errorf("unknown schedule %s%s", shorten(s), didYouMean(s, append([]string{"@every"}, cronWords...), remedy))
	}
	if len(fields) != len(cronFields) {
		return fmt.Errorf("must have %d fields, got %d in %s%s", len(cronFields), len(fields), shorten(s), remedy)
	}
	for i, field := range fields {
		for item := range strings.SplitSeq(field, ",") {
			if !cronFields[i].accepts(item) {
				return fmt.Errorf("%s is not a %s (%d to %d)%s", shorten(item), cronFields[i].name, cronFields[i].least, cronFields[i].most, remedy)
			}
		}
	}
	return nil
}

// accepts reports whether item is *, a value or a range, with or without a step.
func (f cronField) accepts(item string) bool {
	span, step, stepped := strings.Cut(item, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || step[0] == '+') {
		return false
	}
	if span == "*" {
		return true
	}
	first, last, isRange := strings.Cut(span, "-")
	from, ok := f.value(first)
	if !ok || !isRange {
		return ok
	}
	to, ok := f.value(last)
	return ok && from <= to
}

func (f cronField) value(s string) (int, bool) {
	for i, name := range f.names {
		if strings.EqualFold(s, name) {
			return f.least + i, true
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && f.least <= n && n <= f.most && s[0] != '+' && s[0] != '-'
}
