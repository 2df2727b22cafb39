package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// As many as may be are under way at once, and the results come in order, however long each takes.
func TestManyAreDoneAtOnceAndShownInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, most atomic.Int64
		var shown []int
		start := time.Now()
		const n = 4 * atOnce
		err := inOrder(t.Context(), n, func(int) bool { return false }, func(_ context.Context, i int) (int, error) {
			now := under.Add(1)
			defer under.Add(-1)
			for m := most.Load(); now > m; m = most.Load() {
				if most.CompareAndSwap(m, now) {
					break
				}
			}
			time.Sleep(time.Second + time.Duration(n-i)*time.Millisecond)
			return i, nil
		}, func(i int) error {
			shown = append(shown, i)
			return nil
		})
		if err != nil || len(shown) != n || !slices.IsSorted(shown) {
			t.Errorf("inOrder = %v and showed %v, want nil and 0 to %d", err, shown, n-1)
		}
		if most.Load() != atOnce {
			t.Errorf("at most %d were under way at once, want %d", most.Load(), atOnce)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it took %v, want about 4s", took)
		}
	})
}

// One that waits begins after all before it, and an error ends what has not begun.
func TestOneThatWaitsAndAnErrorThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended, begun atomic.Int64
		bad := errors.New("bad")
		err := inOrder(t.Context(), 100, func(i int) bool { return i == 5 }, func(_ context.Context, i int) (int, error) {
			begun.Add(1)
			if i == 5 && ended.Load() != 5 {
				t.Errorf("the one that waits began after %d of 5 had ended", ended.Load())
			}
			time.Sleep(time.Duration(10-min(i, 7)) * time.Second)
			defer ended.Add(1)
			if i == 5 {
				return 0, bad
			}
			return i, nil
		}, func(int) error { return nil })
		if !errors.Is(err, bad) {
			t.Errorf("inOrder = %v, want %v", err, bad)
		}
		if begun.Load() == 100 {
			t.Error("all 100 were begun after the error of the sixth")
		}
	})
}

// Jobs that depend on each other are put one after the other.
func TestBarriers(t *testing.T) {
	var jobs []manifest
	var want []bool
	for _, row := range []struct {
		name, after string
		waits       bool
	}{
		{"a", "", false},
		{"b", "", false},
		{"c", "x", false},
		{"d", "a", true},
		{"e", "a", false},
		{"f", "b", false},
		{"f", "", true},
		{"g", "later", false},
		{"later", "", true},
	} {
		m := manifest{name: row.name, text: json.RawMessage(`{"payload": {}}`)}
		if row.after != "" {
			m.text = json.RawMessage(`{"after": {"jobs": ["other", "` + row.after + `"]}}`)
		}
		jobs, want = append(jobs, m), append(want, row.waits)
	}
	if got := barriers(jobs); !slices.Equal(got, want) {
		t.Errorf("barriers = %v, want %v", got, want)
	}
}

func TestTallyIsDrawnOnATerminalAlone(t *testing.T) {
	var out bytes.Buffer
	quiet := newTally(&out, 2)
	quiet.count()
	quiet.clear()
	if out.Len() > 0 {
		t.Errorf("without a terminal it writes %q", out.String())
	}
	live := &tally{w: &out, live: true, from: 2}
	live.count()
	if got := out.String(); !strings.Contains(got, "1 of 2") {
		t.Errorf("on a terminal it writes %q, want 1 of 2", got)
	}
}
