package codec

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"superd/config/document"
)

// sizeUnits are powers of 1000 and, with an i, of 1024. showSize takes the first unit that divides
// a size.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9},
	{"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
}

// parseSize parses a number of bytes: "10MB" (10^7), "10MiB", "1.5GB", "512". Units are
// case-insensitive; a fraction of a byte is dropped.
func parseSize(s string) (int64, error) {
	const remedy = `write it as "512KB", "10MB" (10^7 bytes) or "10MiB"`
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := s[len(number):]
	number = strings.TrimSpace(number)
	if strings.HasPrefix(number, "-") {
		return 0, fmt.Errorf("must not be negative, got %s", document.Quote(s))
	}
	// The length limit bounds the arithmetic; the character check excludes exponents and fractions
	// such as 1/3.
	value, ok := new(big.Rat).SetString(number)
	if !ok || len(number) > 40 || strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%s is not a size: %s", document.Quote(s), remedy)
	}
	factor := int64(0)
	for _, u := range sizeUnits {
		if unit == "" || strings.EqualFold(unit, u.name) {
			factor = u.bytes
			if unit == "" {
				factor = 1
			}
			break
		}
	}
	if factor == 0 {
		if strings.Contains("kmgt", strings.ToLower(unit)) {
			upper := strings.ToUpper(unit)
			return 0, fmt.Errorf("%s has no full unit: write %q (powers of 1000) or %q (powers of 1024)",
				document.Quote(s), number+upper+"B", number+upper+"iB")
		}
		return 0, fmt.Errorf("%s has the unknown unit %q: %s", document.Quote(s), unit, remedy)
	}
	value.Mul(value, new(big.Rat).SetInt64(factor))
	bytes := new(big.Int).Quo(value.Num(), value.Denom())
	if !bytes.IsInt64() {
		return 0, fmt.Errorf("is too large, got %s: at most %d bytes", document.Quote(s), int64(math.MaxInt64))
	}
	return bytes.Int64(), nil
}

// ShowSize returns the shortest exact notation of n.
func ShowSize(n int64) string {
	for _, u := range sizeUnits {
		if u.bytes > 1 && n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Size reads a number of bytes of at least least.
func Size(least int64) Codec[int64] {
	return Codec[int64]{
		Name: "size",
		Schema: func() *Schema {
			return &Schema{Type: stringOrInteger, Minimum: least, Pattern: `^` + sizePattern + `$`}
		},
		Show: func(n int64) string {
			if n == 0 {
				return "0"
			}
			return strconv.Quote(ShowSize(n))
		},
		Read: func(v Value) (int64, bool) {
			n, ok := v.Raw.(int64)
			if !ok {
				if _, ok := v.Raw.(string); !ok {
					v.Fail(`must be a size such as "10MB" or a number of bytes, got %s`, v.Describe())
					return 0, false
				}
				s, ok := v.Str("a size", AnyString)
				if !ok {
					return 0, false
				}
				var err error
				if n, err = parseSize(s); err != nil {
					v.Fail("%w", err)
					return 0, false
				}
			}
			switch {
			case n < 0:
				v.Fail("must not be negative, got %d", n)
			case n < least:
				v.Fail("must be %d bytes or more, got %d", least, n)
			default:
				return n, true
			}
			return 0, false
		},
	}
}
