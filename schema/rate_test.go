package schema

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want Rate
		err  string
	}{
		"a second":             {"100/s", Rate{100, time.Second}, ""},
		"a minute":             {"10/m", Rate{10, time.Minute}, ""},
		"an hour":              {"1000/h", Rate{1000, time.Hour}, ""},
		"the least":            {"1/h", Rate{1, time.Hour}, ""},
		"the most a second":    {"100000/s", Rate{100_000, time.Second}, ""},
		"the most a minute":    {"6000000/m", Rate{6_000_000, time.Minute}, ""},
		"more":                 {"100001/s", Rate{}, "must be at most 100000 a second"},
		"more a minute":        {"6000001/m", Rate{}, "must be at most 100000 a second"},
		"more a hour":          {"360000001/h", Rate{}, "must be at most 100000 a second"},
		"more than a number":   {"99999999999999999999/s", Rate{}, "must be at most 100000 a second"},
		"nothing":              {"", Rate{}, "must be a number"},
		"no number":            {"/s", Rate{}, "must be a number"},
		"no unit":              {"100", Rate{}, "must be a number"},
		"an unknown unit":      {"100/d", Rate{}, "must be a number"},
		"a long unit":          {"100/sec", Rate{}, "must be a number"},
		"zero":                 {"0/s", Rate{}, "must be a number"},
		"less than zero":       {"-1/s", Rate{}, "must be a number"},
		"a sign":               {"+1/s", Rate{}, "must be a number"},
		"leading zeros":        {"01/s", Rate{}, "must be a number"},
		"many leading zeros":   {"000000000000000000000/s", Rate{}, "must be a number"},
		"a fraction":           {"1.5/s", Rate{}, "must be a number"},
		"an exponent":          {"1e3/s", Rate{}, "must be a number"},
		"space":                {"1 /s", Rate{}, "must be a number"},
		"space behind":         {"1/s ", Rate{}, "must be a number"},
		"two units":            {"1/s/m", Rate{}, "must be a number"},
		"digits of other sort": {"１/s", Rate{}, "must be a number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRate(row.text)
			if got != row.want || (err == nil) != (row.err == "") || err != nil && !strings.HasPrefix(err.Error(), row.err) {
				t.Errorf("ParseRate(%q) = %+v, %v; want %+v, %q", row.text, got, err, row.want, row.err)
			}
			if err == nil && got.String() != row.text {
				t.Errorf("String of it = %q", got)
			}
		})
	}
	if got := (Rate{}).String(); got != "" {
		t.Errorf("String of none = %q", got)
	}
}

func TestRateIn(t *testing.T) {
	for _, row := range []struct {
		rate string
		span time.Duration
		want int
	}{{"100/s", time.Second, 100}, {"100/s", 10 * time.Millisecond, 1}, {"100/s", time.Millisecond, 1}, {"10/m", time.Second, 1}, {"10/m", time.Minute, 10}} {
		r, err := ParseRate(row.rate)
		if got := r.In(row.span); err != nil || got != row.want {
			t.Errorf("%s In(%s) = %d, %v, want %d", row.rate, row.span, got, err, row.want)
		}
	}
}

// However starts are taken, by whomever, in blocks of whatever size, and whatever the clocks say:
// no two blocks share a time, and in no span lie more than the rate allows.
func TestStartsNeverExceedTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{rapid.IntRange(1, 5000).Draw(t, "count"), rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per")}
		now := time.UnixMicro(1_800_000_000_000_000).UTC()
		lease := Lease{Key: "k"}
		var all []time.Time
		for range rapid.IntRange(1, 30).Draw(t, "blocks") {
			now = now.Add(time.Duration(rapid.IntRange(-1500, 5000).Draw(t, "ms")) * time.Millisecond)
			n := rapid.IntRange(1, 300).Draw(t, "n")
			const reach = 10 * time.Minute
			next, starts := lease.Reserve(r, n, now, reach, "w")
			if starts.Count > n {
				t.Fatalf("%d starts, asked for %d", starts.Count, n)
			}
			if starts.Count == 0 {
				if !next.Same(lease) || !starts.First.After(now.Add(reach)) {
					t.Fatalf("nothing at %s, but the lease changed, or the next start %s is within reach", now, starts.First)
				}
				continue
			}
			if err := next.Follows(lease); err != nil || next.Fence <= lease.Fence || string(next.Record) != "w" || next.Key != "k" {
				t.Fatalf("lease %+v after %+v: %v", next, lease, err)
			}
			if starts.Count < n && !starts.At(starts.Count).After(now.Add(reach)) {
				t.Fatalf("%d of %d starts, but the next one is within reach", starts.Count, n)
			}
			for i := range starts.Count {
				at := starts.At(i)
				if at.Before(now) || at.After(now.Add(reach)) {
					t.Fatalf("start %d at %s, by a clock of %s", i, at, now)
				}
				all = append(all, at)
			}
			lease = next
		}
		for i := range all {
			if i+r.Count < len(all) && all[i+r.Count].Sub(all[i]) < r.Per {
				t.Fatalf("%d starts within %s, of %s", r.Count+1, all[i+r.Count].Sub(all[i]), r)
			}
			if i > 0 && all[i].Before(all[i-1]) {
				t.Fatalf("start %s after %s", all[i], all[i-1])
			}
		}
	})
}

// A rate that is used up gives all that it says, but for what is lost by rounding at the ends of
// blocks.
func TestStartsComeUpToTheRate(t *testing.T) {
	for _, text := range []string{"100000/s", "99999/s", "7/s", "10/m", "1000/h"} {
		r, err := ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		now := time.UnixMicro(1_800_000_000_000_000)
		lease, n := Lease{Key: "k"}, 0
		var first, last time.Time
		for range 50 {
			var starts Reservations
			lease, starts = lease.Reserve(r, r.In(time.Second), now, 24*time.Hour, "w")
			if n += starts.Count; first.IsZero() {
				first = starts.First
			}
			last = starts.At(starts.Count)
		}
		if want := r.after(n); last.Sub(first) > want+want/1000 {
			t.Errorf("%s: %d starts take %s, want about %s", text, n, last.Sub(first), want)
		}
	}
}
