package sim

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// TestActsAreJudged: what a process does for a home is judged by who served it when, and by what
// the process was told.
func TestActsAreJudged(t *testing.T) {
	const never = -time.Second // it was not announced
	const shortWait, shortLasts = schema.ShortTakeOverWait, schema.ShortLeaseLife
	const told, wait, lasts = time.Second, schema.TakeOverWait, schema.HomeLeaseLife
	for _, row := range []struct {
		name   string
		region string
		asked  time.Duration // this long ago it asked, and was told that its region serves the home
		since  time.Duration // this long ago home eu went to us
		epoch  int64         // that it states
		later  bool          // something was done in the epoch of us already
		said   time.Duration // this long ago the end of epoch 1 was announced
		heard  bool          // it knows of that
		want   string
	}{
		{"the new one has waited", "us", told, wait, 2, false, never, false, ""},
		{"the new one has not waited", "us", told, wait - time.Millisecond, 2, false, never, false, "stands for"},
		{"the old one has a lease", "eu", lasts, lasts, 1, false, never, false, ""},
		{"the old one has it no more", "eu", lasts + time.Millisecond, lasts, 1, false, never, false, "has asked"},
		{"the old one acts for too long", "eu", lasts, lasts + time.Millisecond, 1, false, never, false, "has been over"},
		{"the old one acts after the new one", "eu", told, told, 1, true, never, false, "already"},
		{"the old one in the new one's epoch", "eu", told, told, 2, false, never, false, "not one of its region"},
		{"the new one in the old one's epoch", "us", told, wait, 1, false, never, false, "not one of its region"},
		{"nobody's epoch", "us", told, wait, 3, false, never, false, "not one of its region"},
		{"it says no epoch", "us", told, wait, 0, false, never, false, ""},
		{"announced: the new one has waited", "us", told, shortWait, 2, false, wait, true, ""},
		{"announced: the new one has not waited", "us", told, shortWait - time.Millisecond, 2, false, wait, true, "stands for"},
		{"announced just before: the new one has not waited", "us", told, shortWait, 2, false, wait - time.Millisecond, true, "stands for"},
		{"announced: the old one has a lease", "eu", shortLasts, shortLasts, 1, false, wait, true, ""},
		{"announced: the old one has it no more", "eu", shortLasts + time.Millisecond, shortLasts, 1, false, wait, true, "has asked"},
		{"announced: the old one acts for too long", "eu", told, shortLasts + time.Millisecond, 1, false, wait, true, "has been over"},
		{"announced just now: the old one has not heard of it", "eu", lasts, lasts, 1, false, lasts, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := newCluster(1, regionNames, 1, 4, 0, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				r, err := newRegions(c, nil)
				if err != nil {
					t.Fatal(err)
				}
				c.regions = r
				time.Sleep(time.Hour)
				if row.said >= row.since {
					if err := r.announce("eu", "us", 0); err != nil {
						t.Fatal(err)
					}
					time.Sleep(row.said - row.since)
				}
				if err := r.move("eu", "us"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(row.since)
				n, l := c.node(row.region+"n1"), &life{}
				sent := time.Now().Add(-row.asked)
				number := map[string]int64{"eu": 1, "us": 2}[row.region]
				r.read[l] = lastRead{sent, sent, map[string]string{"eu": row.region}, map[string]int64{"eu": number}}
				r.told[l] = lastTold{"eu": {0: sent}}
				if row.heard {
					r.told[l] = lastTold{"eu": {1: sent}}
				}
				if row.later {
					r.most["eu"] = 2
				}
				got := r.wrong(n, l, "eu", "start", row.epoch)
				if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
					t.Errorf("judged %q, want %q", got, row.want)
				}
				r.read[l] = lastRead{sent, sent, map[string]string{"eu": "elsewhere"}, nil}
				if got := r.wrong(n, l, "eu", "start", 0); got == "" {
					t.Error("it was told that another region serves the home, and may act")
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
