package words

import (
	"fmt"
	"strings"
)

// Nearest returns the candidate most similar to name, "" if none is similar. Similar means that at
// most a third of the letters are wrong, missing or extra, or that two neighbours are swapped;
// failing that, that one of the two begins with the other. Case, '-' and '_' are ignored.
func Nearest(name string, candidates []string) string {
	best, bestDistance, prefix := "", 0, ""
	plain := plainName(name)
	for _, candidate := range candidates {
		other := plainName(candidate)
		limit := max(1, min(len(plain), len(other))/3)
		if d := editDistance(plain, other, limit); d <= limit && (best == "" || d < bestDistance) {
			best, bestDistance = candidate, d
		}
		const enough = 3 // letters
		if begins := strings.HasPrefix(plain, other) || strings.HasPrefix(other, plain); begins && prefix == "" && min(len(plain), len(other)) >= enough {
			prefix = candidate
		}
	}
	if best == "" {
		return prefix
	}
	return best
}

// DidYouMean returns `: did you mean "web"?`, or otherwise if no candidate is similar.
func DidYouMean(name string, candidates []string, otherwise string) string {
	if nearest := Nearest(name, candidates); nearest != "" {
		return fmt.Sprintf(": did you mean %q?", nearest)
	}
	return otherwise
}

var separators = strings.NewReplacer("-", "", "_", "")

func plainName(s string) string { return strings.ToLower(separators.Replace(s)) }

// editDistance returns how many bytes must be inserted, deleted, replaced or swapped with a
// neighbour to turn a into b (optimal string alignment). If that exceeds limit, it returns some
// number above limit.
func editDistance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff > limit || -diff > limit {
		return limit + 1
	}
	width := len(b) + 1
	before, previous, row := make([]int, width), make([]int, width), make([]int, width)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(previous[j]+cost, previous[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least > limit {
			return limit + 1
		}
		before, previous, row = previous, row, before
	}
	return previous[len(b)]
}

// OneOf returns "a", "a or b", "a, b or c".
func OneOf(values []string) string {
	if len(values) < 2 {
		return strings.Join(values, "")
	}
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}
