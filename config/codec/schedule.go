package codec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"superd/config/document"
	"superd/internal/words"
)

// A Schedule says when a one-shot runs. Exactly one of its fields is set.
type Schedule struct {
	Every time.Duration      // more than 0
	Cron  *cron.SpecSchedule // with a Next that expects times without daylight saving, such as UTC
}

// ScheduleLine reads a schedule, as [ParseSchedule] does. It returns the text.
var ScheduleLine = Text(`"@every DURATION" or cron line`, "a string", func(s string) (string, error) {
	return s, checkSchedule(s)
}, QuoteSet).Matching(`^(\s*@every\s+\S.*|@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\s*[^@\s]\S*(\s+\S+){4}\s*)$`)

// leastPeriod is the shortest period of a schedule, so that superd does not spend its time starting
// programs.
const leastPeriod = time.Second

// checkSchedule returns an error if s is not a valid schedule of a program.
func checkSchedule(s string) error {
	schedule, err := ParseSchedule(s)
	switch {
	case err != nil:
		return err
	case schedule.Cron == nil && schedule.Every < leastPeriod:
		return fmt.Errorf("the period must be at least %s, got %s",
			words.Duration(leastPeriod), document.Quote(s))
	case schedule.Cron != nil && schedule.Cron.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero():
		return fmt.Errorf("%s never occurs: no year has such a day", document.Quote(s))
	}
	return nil
}

// A cronField is one of the five fields of a cron line, for messages. Source: man 5 crontab.
type cronField struct {
	name        string
	least, most int
}

var cronFields = []cronField{
	{"minute", 0, 59},
	{"hour", 0, 23},
	{"day of month", 1, 31},
	{"month", 1, 12},
	{"day of week", 0, 7},
}

var cronWords = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

const cronOptions = cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom | cron.Descriptor

// ParseSchedule parses "@every 5m", words such as "@daily", and cron lines of five fields. As in
// cron, a line with both a day of month and a day of week matches days that are either.
func ParseSchedule(s string) (Schedule, error) {
	const remedy = `: write "@every 5m", "@daily" or a cron line such as "30 4 * * mon-fri"`
	fields := strings.Fields(s)
	switch {
	case len(fields) == 0:
		return Schedule{}, fmt.Errorf("is empty%s", remedy)
	case fields[0] == "@every":
		return parsePeriod(s, strings.Join(fields[1:], " "))
	case strings.HasPrefix(s, "@") && !slices.Contains(cronWords, s):
		return Schedule{}, fmt.Errorf("unknown schedule %s%s",
			document.Quote(s), words.DidYouMean(s, append([]string{"@every"}, cronWords...), remedy))
	case !strings.HasPrefix(s, "@") && len(fields) != len(cronFields):
		return Schedule{}, fmt.Errorf("must have %d fields, got %d in %s%s",
			len(cronFields), len(fields), document.Quote(s), remedy)
	}
	if err := checkCronFields(fields); err != nil {
		return Schedule{}, fmt.Errorf("%w%s", err, remedy)
	}
	parsed, err := parseCron(fields)
	if err != nil {
		return Schedule{}, fmt.Errorf("%s%s", document.Printable(err.Error()), remedy)
	}
	line, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Schedule{}, fmt.Errorf("unknown schedule %s%s", document.Quote(s), remedy)
	}
	line.Location = time.UTC
	return Schedule{Cron: line}, nil
}

// maxSearchYears is the longest possible interval between two times of a line: from one 29 February
// to the next, across a year such as 2100.
const maxSearchYears = 8

func parsePeriod(s, period string) (Schedule, error) {
	every, err := ParseDurationAfter(period, "@every ", func(d time.Duration) bool { return d > 0 })
	switch {
	case err != nil:
		return Schedule{}, fmt.Errorf("in %s: %w", document.Quote(s), err)
	case every <= 0:
		return Schedule{}, fmt.Errorf("the period must be more than 0s, got %s", document.Quote(s))
	}
	return Schedule{Every: every}, nil
}

// checkCronFields returns an error that names the item which the parser refuses, or which only this
// parser accepts.
func checkCronFields(fields []string) error {
	if len(fields) != len(cronFields) {
		return nil // a word such as @daily
	}
	for i, field := range fields {
		for item := range strings.SplitSeq(field, ",") {
			alone := slices.Repeat([]string{"*"}, len(cronFields))
			alone[i] = item
			if _, err := parseCron(alone); err != nil || item == "" || strings.Contains(item, "+") {
				f := cronFields[i]
				return fmt.Errorf("%s is not a %s (%d to %d)",
					document.Quote(item), f.name, f.least, f.most)
			}
		}
	}
	return nil
}

// parseCron parses a line with the library. The line is put in lower case: the library accepts
// names of days in either case, but reads the H of THU as a hash.
func parseCron(fields []string) (cron.Schedule, error) {
	line := strings.ToLower(strings.Join(fields, " "))
	return cron.MustNewParser(cronOptions).WithMaxSearchYears(maxSearchYears).Parse(line)
}
