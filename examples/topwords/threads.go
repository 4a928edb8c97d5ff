package main

import (
	"net"
	"net/netip"
	"sync"
)

// threads has a goroutine for each connection, and a lock for the shared state.
func threads(server netip.AddrPort, n int) (*tally, error) {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex // guards the variables below
		t     = newTally()
		first error
		conns []net.Conn
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil || first != nil {
			return
		}
		first = err
		for _, c := range conns {
			c.Close() // ends the reads of the others
		}
	}
	for range n {
		conn, err := net.Dial("tcp", server.String())
		if err != nil {
			fail(err)
			break
		}
		mu.Lock()
		conns = append(conns, conn)
		failed := first != nil
		mu.Unlock()
		all.Go(func() {
			defer conn.Close()
			if !failed {
				fail(words(conn, func(word []byte) {
					mu.Lock()
					defer mu.Unlock()
					t.add(word)
				}))
			}
		})
		if failed {
			break
		}
	}
	all.Wait()
	return t, first
}
