package workflow

import (
	"fmt"
	"testing"
)

func TestFiltersAreKept(t *testing.T) {
	var c FilterCache
	first := c.Filter("event.n > 1")
	if first == nil || c.Filter("event.n > 1") != first {
		t.Error("a filter is compiled twice")
	}
	for range 2 {
		if c.Filter("event +") != nil {
			t.Error("a text with faults gives a filter")
		}
	}
	for i := range 2 * maxFilters {
		c.Filter(fmt.Sprintf("event.n > %d", i))
	}
	if n := len(c.known); n > maxFilters {
		t.Errorf("%d filters are kept, at most %d", n, maxFilters)
	}
}
