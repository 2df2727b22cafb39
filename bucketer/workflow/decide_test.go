package workflow

import (
	"fmt"
	"testing"
)

// TestDecide is the table of conditions.
func TestDecide(t *testing.T) {
	type row struct {
		before before
		want   map[When]string // "" undecided, "start", or the verdict of a skip
	}
	all := func(succeeded, done, anySucceeded, anyFailed, always string) map[When]string {
		return map[When]string{AllSucceeded: succeeded, AllDone: done, AnySucceeded: anySucceeded, AnyFailed: anyFailed, Always: always}
	}
	for name, r := range map[string]row{
		"nothing is known":      {before{open: 2}, all("", "", "", "", "")},
		"all succeeded":         {before{succeeded: 2}, all("start", "start", "start", "succeeded", "start")},
		"all failed":            {before{failed: 2}, all("failed", "start", "failed", "start", "start")},
		"all were cancelled":    {before{cancelled: 2}, all("cancelled", "start", "cancelled", "cancelled", "start")},
		"one succeeded":         {before{open: 1, succeeded: 1}, all("", "", "start", "", "")},
		"one failed":            {before{open: 1, failed: 1}, all("failed", "", "", "start", "")},
		"one was cancelled":     {before{open: 1, cancelled: 1}, all("", "", "", "", "")},
		"succeeded, failed":     {before{succeeded: 1, failed: 1}, all("failed", "start", "start", "start", "start")},
		"succeeded, cancelled":  {before{succeeded: 1, cancelled: 1}, all("cancelled", "start", "start", "cancelled", "start")},
		"failed, cancelled":     {before{failed: 1, cancelled: 1}, all("failed", "start", "failed", "start", "start")},
		"one of each":           {before{succeeded: 1, failed: 1, cancelled: 1}, all("failed", "start", "start", "start", "start")},
		"one of each, and open": {before{open: 1, succeeded: 1, failed: 1, cancelled: 1}, all("failed", "", "start", "start", "")},
	} {
		for when, want := range r.want {
			t.Run(name+", "+string(when), func(t *testing.T) {
				what, v := decide(when, r.before)
				got := string(v)
				if what == starts {
					got = "start"
				}
				if got != want || what == undecided && v != "" {
					t.Errorf("decide(%s, %+v) = %d %q, want %q", when, r.before, what, got, want)
				}
			})
		}
	}
}

// TestConditionsAreMonotone: of up to four steps before one, everything that may be known, and
// everything that may become known of it later. Nodes decide with different knowledge.
func TestConditionsAreMonotone(t *testing.T) {
	const most = 4
	checked := 0
	for n := int32(1); n <= most; n++ {
		for s := int32(0); s <= n; s++ {
			for f := int32(0); f <= n-s; f++ {
				for c := int32(0); c <= n-s-f; c++ {
					now := before{open: n - s - f - c, succeeded: s, failed: f, cancelled: c}
					for _, when := range Whens {
						checked += later(t, when, now)
					}
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d cases were compared", checked)
	}
}

// later compares a decision with all that may follow from it, and with the end.
func later(t *testing.T, when When, now before) (checked int) {
	t.Helper()
	what, v := decide(when, now)
	if now.open == 0 && what == undecided {
		t.Errorf("decide(%s, %+v) is undecided, though all is known", when, now)
	}
	for s := int32(0); s <= now.open; s++ {
		for f := int32(0); f <= now.open-s; f++ {
			for c := int32(0); c <= now.open-s-f; c++ {
				then := before{open: now.open - s - f - c, succeeded: now.succeeded + s, failed: now.failed + f, cancelled: now.cancelled + c}
				checked++
				if what2, v2 := decide(when, then); what != undecided && (what2 != what || v2 != v) {
					t.Errorf("decide(%s, %+v) = %d %q, and with more knowledge %+v = %d %q", when, now, what, v, then, what2, v2)
				}
			}
		}
	}
	return checked
}

func TestEachSkipHasItsReason(t *testing.T) {
	seen := make(map[string]bool)
	for _, when := range []When{AllSucceeded, AnySucceeded, AnyFailed} {
		for _, v := range []Verdict{Failed, Cancelled} {
			seen[reasonOf(when, v)] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("reasons are %v, want 4: two of all_succeeded, and one each of the others", fmt.Sprint(seen))
	}
}
