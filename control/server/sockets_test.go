package server

import "testing"

func TestSockets(t *testing.T) {
	h := newHarness(t)
	status, body := h.request("GET", "/v1/sockets", "")
	want := `[{"socket":"http","address":":80","programs":["web"],"open":true,"leaving":false,"problem":null,"retry_in_s":null,"waiting":1,"backlog":100,"holders":[],"connections":null,"max_connections":null,"refused":null,"refused_from":null},` +
		`{"socket":"db","address":"unix:/run/db","programs":[],"open":false,"leaving":false,"problem":"address in use by process 7 (db)","retry_in_s":1,"waiting":null,"backlog":null,"holders":[],"connections":null,"max_connections":null,"refused":null,"refused_from":null}]` + "\n"
	if status != 200 || body != want {
		t.Errorf("GET /v1/sockets = %d %s\nwant %s", status, body, want)
	}
}
