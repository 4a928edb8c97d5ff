package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
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

// appendRecord appends one record as a line. A nil value is that of a deletion.
func appendRecord(b []byte, key string, value any) ([]byte, error) {
	quoted, err := json.Marshal(key)
	if err != nil {
		return b, err
	}
	return appendLine(b, func(b []byte) ([]byte, error) {
		b = append(append(b, valuePrefix...), quoted...)
		if value != nil {
			if b, err = appendValue(append(b, `,"v":`...), value); err != nil {
				return b, fmt.Errorf("encode %s: %w", key, err)
			}
		}
		return append(b, '}'), nil
	})
}

func appendHeader(b []byte, h header) ([]byte, error) {
	return appendLine(b, func(b []byte) ([]byte, error) { return appendValue(b, h) })
}

// appendLine appends checksum, space, what text appends, and newline. After an error b is as it was.
func appendLine(b []byte, text func([]byte) ([]byte, error)) ([]byte, error) {
	start := len(b)
	b, err := text(append(b, "00000000 "...))
	if err == nil && len(b)-start > maxRecordBytes-1 {
		err = fmt.Errorf("record of %d bytes: at most %d are allowed", len(b)-start, maxRecordBytes)
	}
	if err == nil && bytes.IndexByte(b[start:], '\n') >= 0 {
		err = errors.New("the value's AppendJSON gives more than one line")
	}
	if err != nil {
		return b[:start], err
	}
	putSum(b[start:], b[start+sumBytes:])
	return append(b, '\n'), nil
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
	quoted, rest := rest[:end+1], rest[end+1:]
	if bytes.IndexByte(quoted, '\\') < 0 {
		key = string(quoted[1:end])
	} else if json.Unmarshal(quoted, &key) != nil {
		return "", nil, false
	}
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

// parseHeader returns the header that text is; not ok: it is none.
func parseHeader(text []byte) (h header, ok bool) {
	if !bytes.HasPrefix(text, []byte(headerPrefix)) || json.Unmarshal(text, &h) != nil {
		return header{}, false
	}
	return h, h.Format > 0
}
