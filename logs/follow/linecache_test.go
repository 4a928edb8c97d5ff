package follow

import (
	"testing"

	"superd/logs/segment"
)

// TestLineCacheIsBounded: the newest lines of many programs are cached for a while, within bounds.
func TestLineCacheIsBounded(t *testing.T) {
	var cache lineCache
	log := func() Log { return new(fakeLog) }
	first := log()
	cache.put(first, segment.OutputEnd{}, "one")
	if line, fresh := cache.get(first, segment.New("x", new(segment.Options)).OutputEnd()); line != "one" || fresh {
		t.Errorf("get() for another end = %q, %v, want the line of before, not fresh", line, fresh)
	}
	for range 10_000 {
		cache.put(log(), segment.OutputEnd{}, "a line of some length")
		if cache.bytes > cacheBytes || len(cache.lines)*entryBytes > cacheBytes {
			t.Fatalf("the cache holds %d lines, %d bytes", len(cache.lines), cache.bytes)
		}
	}
}
