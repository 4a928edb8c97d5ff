package xmlrpc

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	for _, v := range []any{
		"", "a < b & c\n\td \"e\"", "ä€😀", 0, -5, 1<<31 - 1, true, false, 1.5, []byte("\x00\xff"), nil,
		time.Date(2026, 11, 27, 1, 2, 3, 0, time.UTC),
		[]any{}, []any{1, "two", []any{true}},
		map[string]any{}, map[string]any{"a": 1, "b": map[string]any{"c": []any{"d"}}},
	} {
		got, err := ReadAnswer(bytes.NewReader(Answer(v)))
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%#v comes back as %#v, %v", v, got, err)
		}
		method, params, err := ReadCall(bytes.NewReader(AppendCall(nil, "a.b", v, v)))
		if err != nil || method != "a.b" || !reflect.DeepEqual(params, []any{v, v}) {
			t.Errorf("call with %#v comes back as %s%#v, %v", v, method, params, err)
		}
	}
	if v, err := ReadAnswer(bytes.NewReader(Answer(math.MaxInt))); v != 1<<31-1 || err != nil {
		t.Errorf("a large number comes back as %v, %v", v, err)
	}
	if v, err := ReadAnswer(bytes.NewReader(Answer("a\x1b[0m"))); v != "a\uFFFD[0m" || err != nil {
		t.Errorf("a control character comes back as %q, %v", v, err)
	}
	var fault *Fault
	_, err := ReadAnswer(bytes.NewReader(AnswerFault(&Fault{10, "BAD_NAME: x"})))
	if !errors.As(err, &fault) || *fault != (Fault{10, "BAD_NAME: x"}) {
		t.Errorf("a fault comes back as %v", err)
	}
}

func TestReadCall(t *testing.T) {
	tests := []struct {
		text   string
		method string
		params []any
		err    string
	}{
		{"<methodCall><methodName>m</methodName></methodCall>", "m", nil, ""},
		{"<methodCall><methodName> m </methodName><params/></methodCall>", "m", nil, ""},
		{"<methodCall><methodName>m</methodName><params><param><value>plain</value></param></params></methodCall>",
			"m", []any{"plain"}, ""},
		{"<methodCall><methodName>m</methodName><params><param><value><i4> 7 </i4></value></param>" +
			"<param><value></value></param></params></methodCall>", "m", []any{7, ""}, ""},
		{"", "", nil, "EOF"},
		{"<methodCall>", "", nil, "EOF"},
		{"<a/>", "", nil, "<a> instead of <methodCall>"},
		{"<methodCall><params><param><value><int>x</int></value></param></params></methodCall>", "", nil, "invalid syntax"},
		{"<methodCall><params><param><value><set/></value></param></params></methodCall>", "", nil, "unknown type"},
		{"<methodCall><params><param>" + strings.Repeat("<value><array><data>", 20), "", nil, "too deep"},
	}
	for _, test := range tests {
		method, params, err := ReadCall(strings.NewReader(test.text))
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", test.text, err, test.err)
		}
		if err == nil && (method != test.method || !reflect.DeepEqual(params, test.params)) {
			t.Errorf("%s: %s%#v, want %s%#v", test.text, method, params, test.method, test.params)
		}
	}
}

func FuzzReadCall(f *testing.F) {
	f.Add(AppendCall(nil, "a.b", []any{map[string]any{"c": 1.5}}, nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		method, params, err := ReadCall(bytes.NewReader(text))
		if err != nil || strings.ContainsRune(method, '\uFFFD') {
			return
		}
		again, _, err := ReadCall(bytes.NewReader(AppendCall(nil, method, params...)))
		if err != nil || again != method {
			t.Errorf("%q comes back as %q, %v", method, again, err)
		}
	})
}
