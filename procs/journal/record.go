package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"unicode/utf8"
)

// maxRecordBytes bounds one record. A configuration has at most 64 MiB, which JSON may expand by a
// factor of six.
const maxRecordBytes = 512 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Beginnings of the kinds of records, after checksum and space.
const (
	valuePrefix  = `{"k":`
	headerPrefix = `{"superd":"journal",`
	endPrefix    = `{"superd":"end","at":`
	sumBytes     = 8 + 1 // checksum with the following space
)

// format is the version of the format. It is incremented when an older superd would misread the
// journal; new keys do not require that.
const format = 1

// A header is the first record written after a journal is opened. Of several the last counts.
type header struct {
	Superd string `json:"superd"` // "journal"
	Format int    `json:"version"`
	Boot   string `json:"boot"`
	Writer
}

// appendEnd appends the end record, which has the file's length. It is overwritten after each
// write, so its own length is constant. A shorter file lacks records.
func appendEnd(b []byte, at int64) []byte {
	start := len(b)
	b = append(append(b, blank...), endPrefix...)
	var digits [19]byte
	text := strconv.AppendInt(digits[:0], at, 10)
	for range len(digits) - len(text) {
		b = append(b, ' ')
	}
	b = append(append(b, text...), '}')
	putSum(b[start:], b[start+sumBytes:])
	return append(b, '\n')
}

// parseEnd returns the file's length from an end record; ok is false if text is none.
func parseEnd(text []byte) (at int64, ok bool) {
	rest, ok := bytes.CutPrefix(text, []byte(endPrefix))
	if !ok {
		return 0, false
	}
	rest, ok = bytes.CutSuffix(rest, []byte("}"))
	at, err := strconv.ParseInt(string(bytes.TrimLeft(rest, " ")), 10, 64)
	return at, ok && err == nil && at >= 0
}

// blank is the placeholder of a record's checksum.
const blank = "00000000 "

// appendRecord appends a record as a line; a nil value means a deletion. After an error b is
// unchanged.
func appendRecord(b []byte, key string, value any) ([]byte, error) {
	start := len(b)
	b, err := appendKey(append(b, blank+valuePrefix...), key)
	if err == nil && value != nil {
		b, err = appendValue(append(b, `,"v":`...), value)
	}
	if err != nil {
		return b[:start], err
	}
	return seal(append(b, '}'), start, maxRecordBytes)
}

func appendHeader(b []byte, h header) ([]byte, error) {
	start := len(b)
	b, err := appendValue(append(b, blank...), h)
	if err != nil {
		return b[:start], err
	}
	return seal(b, start, maxRecordBytes)
}

// seal completes the line in b from start on with its checksum. The line must have fewer than limit
// bytes.
func seal(b []byte, start, limit int) ([]byte, error) {
	line := b[start:]
	if len(line) >= limit {
		return b[:start], fmt.Errorf("the record has %d bytes, more than %d", len(line), limit)
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		return b[:start], errors.New("its JSON has more than one line")
	}
	putSum(line, line[sumBytes:])
	return append(b, '\n'), nil
}

// appendKey appends key as a JSON string.
func appendKey(b []byte, key string) ([]byte, error) {
	for i := range len(key) {
		if c := key[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(key)
			return append(b, quoted...), err
		}
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"'), nil
}

func appendValue(b []byte, value any) ([]byte, error) {
	if encode, ok := value.(func() []byte); ok {
		return append(b, encode()...), nil
	}
	text, err := json.Marshal(value)
	return append(b, text...), err
}

func putSum(dst, text []byte) {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(text, castagnoli))
	hex.Encode(dst, sum[:])
}

// body returns the text of a line without its newline, according to the checksum, and whether the
// line is damaged.
//
// If a line end is missing, the line contains several records, of which the last may be complete.
// Its beginning can't occur elsewhere: in a JSON string its quotes are escaped, and otherwise no
// object follows a number.
func body(line []byte) (text []byte, damaged bool) {
	if text = checked(line); text != nil {
		return text, false
	}
	for rest := line; ; {
		i := max(bytes.LastIndex(rest, []byte(" "+valuePrefix)), bytes.LastIndex(rest, []byte(" "+headerPrefix)),
			bytes.LastIndex(rest, []byte(" "+endPrefix)))
		if i < sumBytes-1 {
			return nil, true
		}
		if isSum(rest[i+1-sumBytes : i]) {
			return checked(line[i+1-sumBytes:]), true
		}
		rest = rest[:i]
	}
}

// checked returns the text of the line if its checksum is right, else nil.
func checked(line []byte) []byte {
	if len(line) < sumBytes || line[sumBytes-1] != ' ' {
		return nil
	}
	var sum [sumBytes - 1]byte
	if putSum(sum[:], line[sumBytes:]); !bytes.Equal(sum[:], line[:sumBytes-1]) {
		return nil
	}
	return line[sumBytes:]
}

func isSum(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// parseRecord splits a value's record. The results share text's memory; value is nil for a
// deletion. It does not check that value is JSON: the decoder does, and the checksum covers the
// rest.
func parseRecord(text []byte) (key string, value []byte, ok bool) {
	rest, ok := bytes.CutPrefix(text, []byte(valuePrefix))
	if !ok || len(rest) < 3 || rest[0] != '"' {
		return "", nil, false
	}
	end := 1
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return "", nil, false
	}
	if key, ok = unquote(rest[:end+1]); !ok {
		return "", nil, false
	}
	rest = rest[end+1:]
	if string(rest) == "}" {
		return key, nil, true
	}
	value, ok = bytes.CutPrefix(rest, []byte(`,"v":`))
	if !ok {
		return "", nil, false
	}
	value, ok = bytes.CutSuffix(value, []byte("}"))
	return key, value, ok
}

// unquote returns the text of a JSON string.
func unquote(quoted []byte) (s string, ok bool) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), true
	}
	var decoded string
	err := json.Unmarshal(quoted, &decoded)
	return decoded, err == nil
}

// parseHeader decodes a header; ok is false if text is none.
func parseHeader(text []byte) (header, bool) {
	if !bytes.HasPrefix(text, []byte(headerPrefix)) {
		return header{}, false
	}
	var h header
	err := json.Unmarshal(text, &h)
	return h, err == nil && h.Format > 0
}
