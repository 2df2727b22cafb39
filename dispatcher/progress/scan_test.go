package progress

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
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

// TestLateReads: each bucket is read twice more, and inspected only if it has changed since its
// sweep.
func TestLateReads(t *testing.T) {
	bucket := schema.BucketOf(at)
	swept := []schema.EntryID{id(at), id(at.Add(time.Second))}
	late := append(slices.Clone(swept), id(at.Add(2*time.Second)))
	l := NewLateReads()
	l.Start(bucket, at)
	for b := bucket - 8; b < bucket; b++ {
		l.Swept(Digest{}, b, true)
	}
	var d Digest
	d.Add(swept)
	l.Swept(d, bucket, true)

	first := bucket.End().Add(bucketer.Grace + LateAfter)
	for b, ok := l.Next(bucket+1, first.Add(-1)); ok; b, ok = l.Next(bucket+1, first.Add(-1)) { // what another owner swept
		if b >= bucket {
			t.Fatalf("bucket %d is read before its time", b)
		}
		l.Add(nil, true)
	}
	for _, step := range []struct {
		name    string
		now     time.Time
		ids     []schema.EntryID
		inspect int
	}{
		{"5 min later, unchanged", first, swept, 0},
		{"3¼ h later, one more", bucket.End().Add(bucketer.Grace + HintAfter), late, 3},
	} {
		b, ok := l.Next(bucket+1, step.now)
		if !ok || b != bucket {
			t.Fatalf("%s: Next = %d, %v, want %d", step.name, b, ok, bucket)
		}
		l.Add(step.ids[:1], false)
		if l.After() != step.ids[0] || len(l.ToInspect(100)) != 0 {
			t.Fatalf("%s: in the middle of the bucket: after %v, %d to inspect", step.name, l.After(), len(l.ToInspect(100)))
		}
		l.Add(step.ids[1:], true)
		if got := l.ToInspect(100); len(got) != step.inspect {
			t.Fatalf("%s: %d ids to inspect, want %d", step.name, len(got), step.inspect)
		}
		for len(l.ToInspect(2)) > 0 {
			l.Inspected(len(l.ToInspect(2)))
		}
	}
	if b, ok := l.Next(bucket+1, at.Add(24*time.Hour)); ok {
		t.Errorf("bucket %d is read a third time", b)
	}
}
