package sim

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// TestAtOnce: in fake time a call may be cancelled at the instant at which it begins. Its end came before its begin, and it counted as one more.
func TestAtOnce(t *testing.T) {
	call := func(run string, from, to int) check.Sighting {
		return check.Sighting{Run: run, At: time.Unix(int64(from), 0), End: time.Unix(int64(to), 0)}
	}
	for _, c := range []struct {
		name  string
		calls []check.Sighting
		want  int
	}{
		{"none", nil, 0},
		{"one after the other", []check.Sighting{call("a", 1, 2), call("b", 2, 3)}, 1},
		{"two at once", []check.Sighting{call("a", 1, 3), call("b", 2, 4)}, 2},
		{"two calls of one run", []check.Sighting{call("a", 1, 3), call("a", 2, 4)}, 1},
		{"one that ended as it began, beside another", []check.Sighting{call("a", 1, 3), call("b", 2, 2)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := atOnce(c.calls); got != c.want {
				t.Errorf("atOnce = %d, want %d", got, c.want)
			}
		})
	}
}
