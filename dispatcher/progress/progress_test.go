package progress

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestARegisterThatLagsStaysWhereItIs: a cursor of which only one register lies in the future does
// not forget what is open since before that.
func TestARegisterThatLagsStaysWhereItIs(t *testing.T) {
	now := time.Now()
	lags := schema.BucketOf(now.Add(-3 * time.Hour))
	is := Restored(schema.Cursor{Epoch: 3, Dispatched: schema.BucketOf(now.Add(time.Hour)), Settled: lags}, now)
	if is.Epoch != 4 || is.Settled != lags || is.Dispatched != Sweepable(now)-doubtSpan {
		t.Errorf("Restored = %+v, want settled to stay at %d", is, lags)
	}
}

func TestPaceOfScans(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		rows  int
		want  time.Duration
	}{
		{"idle", ScanEvery, 0, ScanEvery},
		{"few rows", ScanEvery, busyRows, ScanEvery},
		{"twice as many: twice as often", ScanEvery, 2 * busyRows, ScanEvery / 2},
		{"and kept there", ScanEvery / 2, busyRows, ScanEvery / 2},
		{"never more often than", ScanEvery, 100 * busyRows, ScanBusy},
		{"idle again", ScanBusy, 0, ScanEvery},
	} {
		unread := Scan{Every: c.every, Rows: c.rows}
		if unread.SetPace(); unread.Every != c.every {
			t.Errorf("%s: SetPace where nothing new was to be read = %v, want it unchanged, %v", c.name, unread.Every, c.every)
		}
		s := Scan{Every: c.every, Rows: c.rows, Span: c.every}
		if s.SetPace(); s.Every != c.want || s.Rows != 0 || s.Span != 0 {
			t.Errorf("%s: SetPace after %d rows in %v = %v, want %v", c.name, c.rows, c.every, s.Every, c.want)
		}
	}
}
