package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// A Schedule says when a one-shot runs. Exactly one of its fields is set.
type Schedule struct {
	Every time.Duration      // more than 0
	Cron  *cron.SpecSchedule // whose Next is for times without daylight saving: for those of UTC
}

// leastPeriod keeps superd from doing nothing but starting programs.
const leastPeriod = time.Second

// checkSchedule refuses what can't be a program's schedule.
func checkSchedule(s string) error {
	schedule, err := ParseSchedule(s)
	switch {
	case err != nil:
		return err
	case schedule.Cron == nil && schedule.Every < leastPeriod:
		return fmt.Errorf("the period must be at least %s, got %s", showDuration(leastPeriod), shorten(s))
	case schedule.Cron != nil && schedule.Cron.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero():
		return fmt.Errorf("%s never comes: no such day is in any year", shorten(s))
	}
	return nil
}

// A cronField is one of the five fields of a cron line, as its mistakes are shown. Source: man 5 crontab.
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

// ParseSchedule reads "@every 5m", "@daily" and its like, and cron lines of five fields. As cron does, a line with both a
// day of month and a day of week means the days that are either.
func ParseSchedule(s string) (Schedule, error) {
	const remedy = `: write "@every 5m", "@daily" or a cron line such as "30 4 * * mon-fri"`
	fields := strings.Fields(s)
	switch {
	case len(fields) == 0:
		return Schedule{}, fmt.Errorf("is empty%s", remedy)
	case fields[0] == "@every":
		return parsePeriod(s, strings.Join(fields[1:], " "))
	case strings.HasPrefix(s, "@") && !slices.Contains(cronWords, s):
		return Schedule{}, fmt.Errorf("unknown schedule %s%s", shorten(s), didYouMean(s, append([]string{"@every"}, cronWords...), remedy))
	case !strings.HasPrefix(s, "@") && len(fields) != len(cronFields):
		return Schedule{}, fmt.Errorf("must have %d fields, got %d in %s%s", len(cronFields), len(fields), shorten(s), remedy)
	}
	if err := checkCronFields(fields); err != nil {
		return Schedule{}, fmt.Errorf("%w%s", err, remedy)
	}
	parsed, err := parseCron(fields)
	if err != nil {
		return Schedule{}, fmt.Errorf("%s%s", printable(err.Error()), remedy)
	}
	line, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Schedule{}, fmt.Errorf("unknown schedule %s%s", shorten(s), remedy)
	}
	line.Location = time.UTC
	return Schedule{Cron: line}, nil
}

// maxSearchYears is the longest pause of a line that has a next time: from one 29 February to the next, over a year such as 2100.
const maxSearchYears = 8

func parsePeriod(s, period string) (Schedule, error) {
	every, err := parseDuration(period)
	switch {
	case err != nil:
		return Schedule{}, fmt.Errorf("in %s: %w", shorten(s), err)
	case every <= 0:
		return Schedule{}, fmt.Errorf("the period must be more than 0s, got %s", shorten(s))
	}
	return Schedule{Every: every}, nil
}

// checkCronFields names the item that the parser does not accept, or that only it would.
func checkCronFields(fields []string) error {
	if len(fields) != len(cronFields) {
		return nil // @daily
	}
	for i, field := range fields {
		for item := range strings.SplitSeq(field, ",") {
			alone := slices.Repeat([]string{"*"}, len(cronFields))
			alone[i] = item
			if _, err := parseCron(alone); err != nil || item == "" || strings.Contains(item, "+") {
				f := cronFields[i]
				return fmt.Errorf("%s is not a %s (%d to %d)", shorten(item), f.name, f.least, f.most)
			}
		}
	}
	return nil
}

// parseCron has the library parse a line. It takes names of days in either case, but THU for a hash, which begins with H.
func parseCron(fields []string) (cron.Schedule, error) {
	line := strings.ToLower(strings.Join(fields, " "))
	return cron.MustNewParser(cronOptions).WithMaxSearchYears(maxSearchYears).Parse(line)
}
