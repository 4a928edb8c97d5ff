package web

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Wrong tokens of one address.
const (
	maxFailures      = 10              // at once
	failureForgotten = 3 * time.Second // one each
	maxAddresses     = 1024
)

// A throttle counts wrong tokens by address, and forgets them with time.
type throttle struct {
	mu    sync.Mutex
	until map[netip.Prefix]time.Time // when the last wrong token is forgotten
}

// wait returns how long an address has to wait until it may try again.
func (t *throttle) wait(from netip.Prefix, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, counted := t.until[from]
	if !counted {
		return 0
	}
	return max(0, until.Sub(now)-(maxFailures-1)*failureForgotten)
}

// add counts a wrong token.
func (t *throttle) add(from netip.Prefix, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until == nil {
		t.until = map[netip.Prefix]time.Time{}
	}
	for address, until := range t.until {
		if len(t.until) >= maxAddresses || now.After(until) {
			delete(t.until, address)
		}
	}
	last := t.until[from]
	if last.Before(now) {
		last = now
	}
	t.until[from] = last.Add(failureForgotten)
}

// clientOf returns the address of a client. With IPv6 it is the network, of which a client has
// every address.
func clientOf(r *http.Request) netip.Prefix {
	const network = 64
	text, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() && !address.IsLoopback() {
		bits = network
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// A quota bounds what clients use at a time, in all and each.
type quota struct {
	all, each int

	mu   sync.Mutex
	used map[identity]int
	sum  int
}

func newQuota(all, each int) *quota { return &quota{all: all, each: each, used: map[identity]int{}} }

// take takes one for a client, and returns whether there was one.
func (q *quota) take(of identity) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sum >= q.all || q.used[of] >= q.each {
		return false
	}
	q.sum++
	q.used[of]++
	return true
}

// give gives one back.
func (q *quota) give(of identity) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sum--
	if q.used[of]--; q.used[of] == 0 {
		delete(q.used, of)
	}
}
