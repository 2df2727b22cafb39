package progress

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// at is an instant within a bucket; end is the bucket's end.
var (
	at  = time.Date(2030, 1, 1, 0, 0, 30, 0, time.UTC)
	end = schema.BucketOf(at).End()
)

func id(t time.Time) schema.EntryID { return schema.MakeEntryID(t, 1, 7) }

// TestScanReadsEverything: stretches follow each other, from one bucket to the next, and leave
// nothing out.
func TestScanReadsEverything(t *testing.T) {
	var c Scan
	c.Start(at, 1)
	read := at
	for now := at; now.Before(end.Add(5 * time.Second)); now = now.Add(ScanEvery) {
		for again := true; again; {
			st, ok := c.Begin(1, now)
			if !ok {
				break
			}
			if !st.Known.Equal(read) {
				t.Fatalf("at %v the stretch begins at %v, want %v", now, st.Known, read)
			}
			if first := st.Range.After; !first.IsZero() && first.Time().After(read) || st.Partition.Bucket.Start().After(read) {
				t.Fatalf("at %v the range begins after %v, want nothing left out from %v on", now, first.Time(), read)
			}
			_, again = c.Advance(st, 0, schema.EntryID{}, false, false, now)
			read = st.End
		}
		if ahead := now.Add(ScanEvery + ScanSlack); read.Before(ahead) {
			t.Fatalf("at %v everything before %v was read, want %v at least", now, read, ahead)
		}
	}
}

// TestAdvance: what follows from a page.
func TestAdvance(t *testing.T) {
	for _, c := range []struct {
		name          string
		last          time.Time // zero = no row
		full, spilled bool
		leftOut       bool
		more          bool
		read          time.Time
	}{
		{"all was read", time.Time{}, false, false, false, false, at.Add(1750 * time.Millisecond)},
		{"a full page", at.Add(time.Second), true, false, false, true, at.Add(time.Second)},
		{"a full page with spilled rows that have time", at.Add(time.Second), true, true, false, true, at.Add(time.Second)},
		{"a full page with spilled rows that are due", at.Add(100 * time.Millisecond), true, true, true, true, at.Add(251 * time.Millisecond)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Scan
			s.Start(at, 1)
			st, _ := s.Begin(1, at)
			var last schema.EntryID
			if !c.last.IsZero() {
				last = id(c.last)
			}
			leftOut, _ := s.Advance(st, 500, last, c.full, c.spilled, at)
			if leftOut != c.leftOut || s.More != c.more || !s.Read.Equal(c.read) {
				t.Errorf("left out %v, more %v, read %v, want %v, %v, %v", leftOut, s.More, s.Read, c.leftOut, c.more, c.read)
			}
			if s.Unread.Any() != c.leftOut || c.leftOut && s.Unread.After != last {
				t.Errorf("unread = %+v, want one after the page: %v", s.Unread, c.leftOut)
			}
		})
	}
}
