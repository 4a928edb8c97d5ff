package bench

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// results are what was measured: for each contestant and measure a value a round, or the reason why
// there is none.
type results struct {
	round int

	mu     sync.Mutex                 // in a quick run, several measurements take place at once
	values map[string]map[int]float64 // by contestant and measure
	why    map[string]why
}

func newResults() *results {
	return &results{values: map[string]map[int]float64{}, why: map[string]why{}}
}

func key(c, measure string) string { return c + "\x00" + measure }

func (r *results) add(c, measure string, value float64) { r.addIn(r.round, c, measure, value) }

// addIn adds the value of a round.
func (r *results) addIn(round int, c, measure string, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key(c, measure)
	if r.values[k] == nil {
		r.values[k] = map[int]float64{}
	}
	r.values[k][round] = value
}

func (r *results) addTime(c, measure string, d time.Duration) { r.add(c, measure, d.Seconds()) }

// not records why there is no value.
func (r *results) not(c, measure, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why[key(c, measure)] = why(fmt.Sprintf(format, args...))
}

// A figure is the median of the rounds, with the least and the greatest value.
type figure struct {
	median, least, most float64
	rounds              int
}

func (r *results) figure(c, measure string) (f figure, ok bool) {
	var all []float64
	for _, v := range r.values[key(c, measure)] {
		all = append(all, v)
	}
	if len(all) == 0 {
		return f, false
	}
	slices.Sort(all)
	return figure{median(all), all[0], all[len(all)-1], len(all)}, true
}

// ratio returns the median of the ratios within the rounds.
func (r *results) ratio(c, to, measure string) (ratio float64, ok bool) {
	var all []float64
	other := r.values[key(to, measure)]
	for round, v := range r.values[key(c, measure)] {
		if o := other[round]; o > 0 {
			all = append(all, v/o)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return median(all), true
}

// median returns the middle of sorted values, or the mean of the two middle ones.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// percentile99 returns the 99th percentile of sorted values.
func percentile99(sorted []float64) float64 {
	return sorted[min(len(sorted)-1, len(sorted)*99/100)]
}

// A unit formats values.
type unit func(v float64) string

func seconds(v float64) string {
	switch {
	case v >= 10:
		return fmt.Sprintf("%.0f s", v)
	case v >= 1:
		return fmt.Sprintf("%.2f s", v)
	case v >= 0.1:
		return fmt.Sprintf("%.0f ms", v*1e3)
	case v >= 0.01:
		return fmt.Sprintf("%.1f ms", v*1e3)
	case v >= 0.001:
		return fmt.Sprintf("%.2f ms", v*1e3)
	}
	return fmt.Sprintf("%.0f µs", v*1e6)
}

func mebibytes(v float64) string {
	if v < 10<<20 {
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.0f MiB", v/(1<<20))
}

func kibibytes(v float64) string { return fmt.Sprintf("%.1f KiB", v/1024) }
func number(v float64) string    { return fmt.Sprintf("%.0f", v) }
func perGiB(v float64) string    { return fmt.Sprintf("%.2f", v) }

func speed(v float64) string {
	if v < 1e9 {
		return fmt.Sprintf("%.0f MB/s", v/1e6)
	}
	return fmt.Sprintf("%.2f GB/s", v/1e9)
}

// spread returns a figure as text: the median, with the least and the greatest in brackets.
func (r *results) spread(c, measure string, show unit) string {
	f, ok := r.figure(c, measure)
	if !ok {
		if why := r.why[key(c, measure)]; why != "" {
			return string(why)
		}
		return "–"
	}
	text := show(f.median)
	if f.rounds > 1 && show(f.least) != show(f.most) {
		text += fmt.Sprintf(" (%s to %s)", strings.TrimSuffix(show(f.least), suffix(show(f.most))), show(f.most))
	}
	return text
}

// cell returns a figure as text, and its ratio to the yardstick.
func (r *results) cell(c, measure string, show unit) string {
	text := r.spread(c, measure, show)
	if ratio, ok := r.ratio(c, yardstickName, measure); ok && c != yardstickName {
		text += fmt.Sprintf("; %.2f", ratio)
	}
	return text
}

// suffix returns the unit of a shown value, with the space before it.
func suffix(shown string) string {
	_, unit, ok := strings.Cut(shown, " ")
	if !ok {
		return ""
	}
	return " " + unit
}
