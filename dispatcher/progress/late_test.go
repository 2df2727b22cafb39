package progress

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestLateReads: each bucket is read twice more, and inspected only if it has changed since its
// sweep.
func TestLateReads(t *testing.T) {
	bucket := schema.BucketOf(at)
	swept := []schema.EntryID{id(at), id(at.Add(time.Second))}
	late := append(slices.Clone(swept), id(at.Add(2*time.Second)))
	l := NewLateReads()
	l.Start(bucket)
	for b := bucket - 8; b < bucket; b++ {
		l.Swept(Digest{}, b, true)
	}
	var d Digest
	d.Add(swept)
	l.Swept(d, bucket, true)

	first := bucket.End().Add(bucketer.Grace + LateAfter)
	for _, step := range []struct {
		name    string
		now     time.Time
		ids     []schema.EntryID
		inspect int
	}{
		{"5 min later, unchanged", first, swept, 0},
		{"3¼ h later, one more", bucket.End().Add(bucketer.Grace + HintAfter), late, 3},
	} {
		// What another owner swept comes before it.
		for b, ok := l.Next(bucket+1, step.now.Add(-1)); ok; b, ok = l.Next(bucket+1, step.now.Add(-1)) {
			if b >= bucket {
				t.Fatalf("%s: bucket %d is read before its time", step.name, b)
			}
			l.Add(nil, true)
		}
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

// TestWhatLateReadsInspect: a bucket whose digest is not known, because another owner swept it, is
// inspected in either round, but only once.
func TestWhatLateReadsInspect(t *testing.T) {
	bucket := schema.BucketOf(at)
	few := []schema.EntryID{id(at), id(at.Add(time.Second))}
	more := append(slices.Clone(few), id(at.Add(2*time.Second)))
	digest := func(ids []schema.EntryID) *Digest {
		d := new(Digest)
		d.Add(ids)
		return d
	}
	none := []schema.EntryID{}
	for _, c := range []struct {
		name    string
		swept   *Digest                           // nil: by another owner
		read    [len(lateAfters)][]schema.EntryID // in each round; nil: it begins after the bucket
		inspect [len(lateAfters)]int
	}{
		{"swept here, unchanged", digest(few), [...][]schema.EntryID{few, few}, [...]int{0, 0}},
		{"swept here, and a row came before the first round", digest(few), [...][]schema.EntryID{more, more}, [...]int{3, 0}},
		{"swept here, and a row came after it", digest(few), [...][]schema.EntryID{few, more}, [...]int{0, 3}},
		{"swept here when it was empty, and a row came", digest(nil), [...][]schema.EntryID{none, few}, [...]int{0, 2}},
		{"swept by another owner", nil, [...][]schema.EntryID{few, few}, [...]int{2, 0}},
		{"swept by another owner, and a row came after the first round", nil, [...][]schema.EntryID{few, more}, [...]int{2, 3}},
		{"swept by another owner when it was empty, and a row came", nil, [...][]schema.EntryID{none, few}, [...]int{0, 2}},
		{"swept, and read in the first round, by another owner", nil, [...][]schema.EntryID{nil, few}, [...]int{0, 2}},
		{"the same, and it is empty", nil, [...][]schema.EntryID{nil, none}, [...]int{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLateReads()
			l.next = [...]schema.Bucket{bucket, bucket}
			if c.swept != nil {
				l.Swept(*c.swept, bucket, true)
			}
			for round, after := range lateAfters {
				if c.read[round] == nil {
					l.next[round]++
					continue
				}
				b, ok := l.Next(bucket+1, bucket.End().Add(bucketer.Grace+after))
				if !ok || b != bucket || l.round != round {
					t.Fatalf("round %d: Next = %d, %v in round %d, want %d in this one", round, b, ok, l.round, bucket)
				}
				l.Add(c.read[round], true)
				got := len(l.ToInspect(100))
				if got != c.inspect[round] {
					t.Errorf("round %d: %d ids to inspect, want %d", round, got, c.inspect[round])
				}
				if got > 0 {
					l.Inspected(got)
				}
			}
			if len(l.swept) != 0 {
				t.Errorf("%d digests are kept after the last round, want none", len(l.swept))
			}
		})
	}
}

// TestTheNextOwnerReadsWhatWasNotRead: wherever the rounds of an owner were when it stopped, those
// of the next one begin there or before, and not much before. Settled waits for rounds that lag,
// and only for those.
func TestTheNextOwnerReadsWhatWasNotRead(t *testing.T) {
	const never = 24 * time.Hour
	first := schema.BucketOf(at)
	for _, c := range []struct {
		name  string
		ran   time.Duration
		stuck [len(lateAfters)]time.Duration // when the round read nothing more
		lag   schema.Bucket                  // of settled, behind the sweep
		again [len(lateAfters)]schema.Bucket // buckets that are read in vain by the next owner
	}{
		{"rounds on time", 5 * time.Hour, [...]time.Duration{never, never}, 0, [...]schema.Bucket{1, 1}},
		{"a short life", 90 * time.Second, [...]time.Duration{never, never}, 0, [...]schema.Bucket{1, 1}},
		{"a life in which nothing was read", 90 * time.Second, [...]time.Duration{0, 0}, 1, [...]schema.Bucket{0, 0}},
		{"the first round lags by an hour", 5 * time.Hour, [...]time.Duration{4 * time.Hour, never}, 60, [...]schema.Bucket{0, 61}},
		{"the second round lags by an hour", 5 * time.Hour, [...]time.Duration{never, 4 * time.Hour}, 60, [...]schema.Bucket{61, 0}},
		{"both lag", 5 * time.Hour, [...]time.Duration{3 * time.Hour, 4 * time.Hour}, 120, [...]schema.Bucket{0, 60}},
		{"within the slack", 5 * time.Hour, [...]time.Duration{5*time.Hour - 50*time.Second, never}, 0, [...]schema.Bucket{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLateReads()
			l.Start(first)
			settled, swept := first-1, first-1
			began := first.Start().Add(bucketer.Grace)
			for age := time.Duration(0); age <= c.ran; age += sliceSpan {
				now := began.Add(age)
				for ; swept < Sweepable(now); swept++ {
					l.Swept(Digest{}, swept+1, true)
				}
				settled = max(settled, min(swept, l.MaySettle()))
				reads(&l, swept, now, func(round int) bool { return age < c.stuck[round] })
			}
			if lag := swept - settled; lag != c.lag {
				t.Errorf("settled lags by %d buckets behind the sweep, want %d", lag, c.lag)
			}
			next := NewLateReads()
			next.Start(settled + 1)
			for round := range next.next {
				if again := l.next[round] - next.next[round]; again != c.again[round] {
					t.Errorf("round %d: %d buckets are read in vain (less than 0: left out), want %d", round, again, c.again[round])
				}
			}
		})
	}
}

// reads reads all buckets whose time has come, as far as the rounds go on.
func reads(l *LateReads, swept schema.Bucket, now time.Time, goesOn func(round int) bool) {
	var stuck LateReads // keeps what a round that is stuck would read
	stuck.next = l.next
	for {
		if _, ok := l.Next(swept+1, now); !ok {
			break
		}
		if goesOn(l.round) {
			l.Add(nil, true)
			continue
		}
		l.next[l.round] = swept + 1 // the other round goes on
	}
	for round := range l.next {
		if !goesOn(round) {
			l.next[round] = stuck.next[round]
		}
	}
}

const sliceSpan = 10 * time.Second
