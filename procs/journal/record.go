package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"
)

// maxRecordBytes bounds one record.
const maxRecordBytes = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// How the two kinds of records begin, after checksum and space.
const (
	valuePrefix  = `{"k":`
	headerPrefix = `{"superd":"journal",`
	sumBytes     = 8 + 1 // the checksum and the space behind it
)

// format is the version of the format: greater when an older superd would misunderstand it. New keys are no reason.
const format = 1

// A header is the record that whoever opens a journal writes first. Of several the last counts.
type header struct {
	Superd string `json:"superd"` // "journal"
	Format int    `json:"version"`
	Boot   string `json:"boot"`
	Writer
}

// blank is where the checksum of a record comes.
const blank = "00000000 "

// appendRecord appends one record as a line; of a deletion, where value is nil. After an error b is as it was.
func appendRecord(b []byte, key string, value any) ([]byte, error) {
	start := len(b)
	b, err := appendKey(append(b, blank+valuePrefix...), key)
	if err == nil && value != nil {
		b, err = appendValue(append(b, `,"v":`...), value)
	}
	if err != nil {
		return b[:start], err
	}
	return seal(append(b, '}'), start)
}

func appendHeader(b []byte, h header) ([]byte, error) {
	start := len(b)
	b, err := appendValue(append(b, blank...), h)
	if err != nil {
		return b[:start], err
	}
	return seal(b, start)
}

// seal makes a line of what b holds from start on.
func seal(b []byte, start int) ([]byte, error) {
	line := b[start:]
	if len(line) >= maxRecordBytes {
		return b[:start], fmt.Errorf("the record has %d bytes, allowed are %d", len(line), maxRecordBytes)
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		return b[:start], errors.New("its AppendJSON gives more than one line")
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
	if appender, ok := value.(Appender); ok {
		return appender.AppendJSON(b), nil
	}
	text, err := json.Marshal(value)
	return append(b, text...), err
}

func putSum(dst, text []byte) {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(text, castagnoli))
	hex.Encode(dst, sum[:])
}

// body returns what the checksum of a line without its newline stands for; not ok: the line is damaged.
//
// Where a line end was lost, the line is two or more records, of which the last may be whole. Text of the form that is
// looked for stands nowhere else: in a JSON string its quotes are escaped, and elsewhere no object follows a number.
func body(line []byte) (text []byte, damaged bool) {
	if text = checked(line); text != nil {
		return text, false
	}
	for rest := line; ; {
		i := max(bytes.LastIndex(rest, []byte(" "+valuePrefix)), bytes.LastIndex(rest, []byte(" "+headerPrefix)))
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

// parseRecord takes a value's record apart. The results share text's memory; value is nil for a deletion. That it is JSON
// is not checked again: who decodes it does that, and the checksum vouches for the rest.
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

// parseHeader returns the header that text is; not ok: it is none.
func parseHeader(text []byte) (header, bool) {
	if !bytes.HasPrefix(text, []byte(headerPrefix)) {
		return header{}, false
	}
	var h header
	err := json.Unmarshal(text, &h)
	return h, err == nil && h.Format > 0
}
