package control

import (
	"context"
	"net/url"
	"time"
)

// A Receiver is a receiver of alerts: a [notify.NAME] table.
type Receiver struct {
	Name        string     `json:"name"`
	Kind        string     `json:"kind"`    // exec or webhook
	Target      string     `json:"target"`  // the command, or the URL without what may be secret
	Problem     *string    `json:"problem"` // the mistake for which it is not used
	Cursor      uint64     `json:"cursor"`  // number of the newest event that it has read
	Lag         uint64     `json:"lag"`     // events after that
	Pending     int        `json:"pending"` // alerts that wait for a delivery
	Delivered   uint64     `json:"delivered"`
	Failures    int        `json:"failures"` // failed attempts since the last success
	LastSuccess *time.Time `json:"last_success"`
	LastError   *string    `json:"last_error"`
	LastErrorAt *time.Time `json:"last_error_at"`
	RetryIn     *float64   `json:"retry_in_s"` // until the next attempt
}

// A ReceiverTest is what came of a test of a receiver.
type ReceiverTest struct {
	Name     string  `json:"name"`
	OK       bool    `json:"ok"`
	Message  string  `json:"message"`
	Status   *int    `json:"status"` // of the answer to a webhook
	Output   string  `json:"output"` // begin of the answer, or end of the command's output
	Duration float64 `json:"duration_s"`
}

// Receivers returns the receivers of alerts, by name.
func (c *Client) Receivers(ctx context.Context) (all []Receiver, err error) {
	err = c.get(ctx, "/v1/notify", nil, &all)
	return all, err
}

// TestReceiver makes a test delivery to a receiver.
func (c *Client) TestReceiver(ctx context.Context, name string) (result ReceiverTest, err error) {
	err = c.post(ctx, "/v1/notify/"+url.PathEscape(name)+"/test", nil, true, &result)
	return result, err
}
