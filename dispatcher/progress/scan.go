package progress

import (
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/schema"
)

const (
	// ScanEvery is how often a shard is scanned.
	ScanEvery = time.Second
	// ScanBusy is how often a busy shard is scanned: what is read later is fresher at its start.
	ScanBusy = 250 * time.Millisecond
	// ScanSlack is how far a scan looks beyond what will be published before the next one.
	ScanSlack = 500 * time.Millisecond
	// busyRows is from how many rows a second on a shard is busy.
	busyRows = 100
)

// Scan is how far a shard's scan has come. In steady state it reads every row once.
type Scan struct {
	Bucket schema.Bucket  // the open bucket
	Seen   schema.EntryID // rows after it are still to be read; zero = all rows of the bucket
	Until  time.Time      // rows due before it were asked for; a read under way may miss a new one
	Read   time.Time      // rows due before it were read
	Ahead  time.Time      // how far ahead the last scan read
	More   bool           // there is more to read before Until
	Cut    time.Time      // due time of the next row, for which there is no room yet; zero = there is room
	Retry  time.Time      // Cut is not tried again before
	Unread Unread         // what was left out

	Every time.Duration // until the next scan
	Rows  int           // read since Every was set …
	Span  time.Duration // … of so much due time
}

// Unread is a range of due time that the scan left out, to be on time with what comes after. It is
// read apart, for all flows that are not spilled.
type Unread struct {
	After schema.EntryID // rows after it are to be read …
	To    time.Time      // … up to what is due now; zero = nothing was left out
}

// Any reports whether something was left out.
func (u Unread) Any() bool { return !u.To.IsZero() }

// Open reports whether something due before t was left out.
func (u Unread) Open(t time.Time) bool { return u.Any() && u.After.Time().Before(t) }

// Start begins the scan of a shard at t.
func (c *Scan) Start(t time.Time, shard schema.Shard) {
	c.Bucket, c.Seen = schema.BucketOf(t), Below(schema.FirstID(t, shard))
	c.Until, c.Read = t, t
	c.Every, c.Unread = ScanEvery, Unread{}
}

// A Stretch is what one read of the scan asks for.
type Stretch struct {
	Partition schema.Partition
	Range     schema.IDRange
	End       time.Time // everything due before it was asked for
	Known     time.Time // what is due before it had been read by then
}

// Begin returns the stretch to be read now; false if the scan has read far enough ahead. From now
// on hints count for what lies before its end: the read may miss them.
func (c *Scan) Begin(shard schema.Shard, now time.Time) (Stretch, bool) {
	horizon := now.Add(c.Reach()).Truncate(time.Millisecond)
	if horizon.Before(c.Until) { // an earlier scan looked further ahead
		if horizon = c.Until; c.Read.Equal(c.Until) {
			return Stretch{}, false
		}
	}
	c.Ahead = horizon
	st := Stretch{
		Partition: schema.Partition{Bucket: c.Bucket, Shard: shard},
		Range:     schema.IDRange{After: c.Seen}, End: horizon, Known: c.Read,
	}
	if end := c.Bucket.End(); end.After(horizon) {
		st.Range.Before = schema.FirstID(horizon, shard)
	} else {
		st.End = end
	}
	c.Span += max(st.End.Sub(c.Until), 0)
	c.Until = st.End
	return st, true
}

// Advance takes in a page of a stretch: its rows, the last of them, whether the page was full or
// cut, and whether rows were spilled. Where rows are spilled that should be published by now, what
// comes after them is about to be late as well: the scan leaves out what is due until now, and
// leftOut is true. again says that the next stretch should be read at once.
func (c *Scan) Advance(st Stretch, rows int, last schema.EntryID, full, spilled bool, at time.Time) (leftOut, again bool) {
	c.Rows += rows
	if !last.IsZero() {
		c.Seen = last
	}
	c.More = full
	if leftOut = c.More && spilled && !c.Seen.Time().After(at.Add(depth.Lead)); leftOut {
		present := at.Add(depth.Lead + time.Millisecond).Truncate(time.Millisecond)
		if c.More = present.Before(st.End); !c.More {
			present = st.End
		}
		c.leaveOut(c.Seen, present, st.Partition.Shard)
	}
	switch {
	case c.More:
		if seen := c.Seen.Time(); seen.After(c.Read) {
			c.Read = seen
		}
		return leftOut, true
	case st.End.Equal(st.Partition.Bucket.End()):
		c.Bucket, c.Seen, c.Read = st.Partition.Bucket+1, schema.EntryID{}, st.End
		return leftOut, c.Bucket.Start().Before(at.Add(c.Reach()))
	default:
		c.Read = st.End
		return leftOut, false
	}
}

// leaveOut adds to the unread range what lies after the last row read and is due before t.
func (c *Scan) leaveOut(last schema.EntryID, t time.Time, shard schema.Shard) {
	if !c.Unread.Any() {
		c.Unread.After = last
	}
	c.Unread.To = t
	c.Seen = Below(schema.FirstID(t, shard))
}

// SetPace sets how soon the next scan comes: when about busyRows rows have become due, between
// ScanBusy and ScanEvery.
func (c *Scan) SetPace() {
	if c.Span <= 0 {
		return // an earlier scan has read far enough ahead
	}
	rate := float64(c.Rows) / c.Span.Seconds()
	c.Every, c.Rows, c.Span = ScanEvery, 0, 0
	if rate > busyRows {
		c.Every = max(time.Duration(float64(ScanEvery)*busyRows/rate), ScanBusy).Truncate(time.Millisecond)
	}
}

// Reach is how far beyond now a scan reads.
func (c *Scan) Reach() time.Duration { return c.Every + ScanSlack + depth.Lead }

// NextAfter returns when the next scan comes that is due at t by the pace. One that comes less
// often than the last one had read ahead for would be too late.
func (c *Scan) NextAfter(t, now time.Time) time.Time {
	end := c.Ahead.Add(-ScanSlack - depth.Lead)
	if !t.After(end.Add(ScanSlack / 2)) {
		return t
	}
	if soon := now.Add(ScanBusy); soon.After(end) {
		return soon
	}
	return end
}

// Passed reports whether the scan may miss a row that is written now.
func (c *Scan) Passed(id schema.EntryID) bool { return id.Time().Before(c.Until) }

// Front returns an id up to which everything was read, but for the unread range.
func (c *Scan) Front(shard schema.Shard) schema.EntryID {
	if read := Below(schema.FirstID(c.Read, shard)); read.Compare(c.Seen) > 0 {
		return read
	}
	return c.Seen
}
