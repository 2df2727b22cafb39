package httpapi

import (
	"fmt"
	"strings"
	"testing"
)

func TestSplitter(t *testing.T) {
	const text = "a\n\nbc\r\nd"
	for size := 1; size <= len(text)+1; size++ {
		var s splitter
		var got []string
		take := func() {
			for s.next() {
				got = append(got, fmt.Sprintf("%d=%q", s.number, s.text))
			}
		}
		for at := 0; at < len(text); at += size {
			s.feed([]byte(text[at:min(at+size, len(text))]))
			take()
		}
		s.end()
		if !s.more() {
			t.Errorf("blocks of %d: more() = false with a line carried", size)
		}
		take()
		if s.more() {
			t.Errorf("blocks of %d: more() = true at the end", size)
		}
		if want := `1="a" 2="" 3="bc\r" 4="d"`; strings.Join(got, " ") != want {
			t.Errorf("blocks of %d: %s, want %s", size, got, want)
		}
	}
}
