package schema

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// ErrNotServed: this region may not act for a home now. NotServedError says why, and what to do.
var ErrNotServed = errors.New("home is not served here")

// ShardRange is the shards from First to Last, both of them included.
type ShardRange struct{ First, Last Shard }

// Home is a named set of shards. A shard keeps its home for ever, so an id tells its home. Only the
// region that serves a home acknowledges, publishes and starts what lies in its shards. It is
// called after the region that serves it at first.
type Home struct {
	Name   string
	Shards []ShardRange
}

// Homes are all homes of a cluster. The zero value has none: there are no regions.
type Homes struct {
	names   []string
	of      []int             // by shard: the index in names, -1 for a shard without a home
	shards  [][]Shard         // by the index in names, in order
	tenants map[string]string // the homes of those tenants that have one stated
}

// NewHomes returns the homes of list, or an error that joins every fault: a home without a name or
// shards, one named twice, a range that is none, a shard with two homes or, below the last one,
// without.
func NewHomes(list []Home) (Homes, error) {
	var h Homes
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, home := range list {
		switch {
		case home.Name == "":
			fault("a home has no name")
		case slices.Contains(h.names, home.Name):
			fault("home %s is named twice", home.Name)
		case len(home.Shards) == 0:
			fault("home %s has no shards", home.Name)
		}
		h.names = append(h.names, home.Name)
		for _, r := range home.Shards {
			if r.First > r.Last || r.Last >= MaxShards {
				fault("home %s: %d-%d is no range of shards between 0 and %d", home.Name, r.First, r.Last, MaxShards-1)
				continue
			}
			for len(h.of) <= int(r.Last) {
				h.of = append(h.of, -1)
			}
			told := false
			for s := r.First; s <= r.Last; s++ {
				if other := h.of[s]; other >= 0 && !told {
					fault("shard %d has two homes, %s and %s", s, h.names[other], home.Name)
					told = true // of the range: the next ones would be alike
				}
				h.of[s] = len(h.names) - 1
			}
		}
	}
	if gap := slices.Index(h.of, -1); gap >= 0 {
		fault("shard %d has no home", gap)
	}
	if len(faults) > 0 {
		return Homes{}, errors.Join(faults...)
	}
	h.shards = make([][]Shard, len(h.names))
	for s, i := range h.of {
		h.shards[i] = append(h.shards[i], Shard(s)) // #nosec G115 -- below MaxShards
	}
	return h, nil
}

// WithTenants returns h in which these tenants have these homes, or an error that joins every fault.
// It keeps the map. A tenant keeps its home for ever.
func (h Homes) WithTenants(homeOf map[string]string) (Homes, error) {
	var faults []error
	for _, tenant := range slices.Sorted(maps.Keys(homeOf)) {
		if home := homeOf[tenant]; !slices.Contains(h.names, home) {
			faults = append(faults, fmt.Errorf("tenant %s has the home %s, which is none of %s", tenant, home, strings.Join(h.names, ", ")))
		}
	}
	h.tenants = homeOf
	return h, errors.Join(faults...)
}

// Names returns the names of all homes, in the order of the configuration. The caller must not
// change it.
func (h Homes) Names() []string { return h.names }

// Of returns the home of a shard; false: it has none.
func (h Homes) Of(s Shard) (string, bool) {
	if int(s) >= len(h.of) {
		return "", false
	}
	return h.names[h.of[s]], true
}

// OfTenant returns the home of a tenant, and whether it was stated; if not it is the first home of
// all. What is decided for the whole tenant is decided there: keys, names, rates. "" without homes.
func (h Homes) OfTenant(tenant string) (home string, stated bool) {
	if home, stated = h.tenants[tenant]; !stated && len(h.names) > 0 {
		home = h.names[0]
	}
	return home, stated
}

// Shards returns the shards below that number that a home has, in order. The caller must not change
// them.
func (h Homes) Shards(home string, below int) []Shard {
	i := slices.Index(h.names, home)
	if i < 0 {
		return nil
	}
	all := h.shards[i]
	n := sort.Search(len(all), func(k int) bool { return int(all[k]) >= below })
	return all[:n]
}

// Covers returns an error unless each of that many shards has a home. A home may have more shards:
// they are for a later, larger number.
func (h Homes) Covers(shards int) error {
	if len(h.of) < shards {
		return fmt.Errorf("the cluster has %d shards, and the homes have those below %d: give each shard a home", shards, len(h.of))
	}
	return nil
}

// Epoch says which region serves a home from then on. The epochs of a home are a log that is only
// inserted into: the highest number counts.
type Epoch struct {
	Home   string
	Number int64 // from 1; 0: there is no epoch
	Region string
	By     string    // who wrote it: a person, or the node that did it by itself
	Reason string    // in their words
	At     time.Time // by the clock of who wrote it, ms: for people, nothing is computed from it
}

// Next returns the epoch after e, in which region serves the home.
func (e Epoch) Next(region, by, reason string, at time.Time) Epoch {
	return Epoch{Home: e.Home, Number: e.Number + 1, Region: region, By: by, Reason: reason, At: at.UTC().Truncate(time.Millisecond)}
}

// Same reports whether two epochs are the same row.
func (e Epoch) Same(o Epoch) bool {
	return e.Home == o.Home && e.Number == o.Number && e.Region == o.Region && e.By == o.By && e.Reason == o.Reason && e.At.Equal(o.At)
}

// errEpoch: an epoch lacks something.
var errEpoch = errors.New("an epoch needs a home, a number above 0 and a region")

// Validate returns an error if e may not be written.
func (e Epoch) Validate() error {
	if e.Home == "" || e.Number <= 0 || e.Region == "" {
		return errEpoch
	}
	return nil
}

// Beat is a sign of life of a region, which any of its nodes writes.
type Beat struct {
	Region string    `json:"region"`
	Node   string    `json:"node"`  // that wrote it
	Count  int64     `json:"count"` // of that process: a beat that stays the same is that of a silent region
	At     time.Time `json:"at"`    // by that node's clock, ms
	// Over is the Stamp of the beat that this one is to replace, where that is later than At: the
	// clock by which it was written was ahead. Zero: it is not.
	Over time.Time `json:"over,omitzero"`
	// Serves holds the homes that the region serves, and in which epoch: it has waited TakeOverWait.
	Serves map[string]int64 `json:"serves,omitempty"`
	// Executors is how many executors of the region the node knows of; nil: it does not tell.
	Executors *int `json:"executors,omitempty"`
	// Drain makes the row a request to drain a home, not a sign of life: its region is DrainRow
	// then.
	Drain *Drain `json:"drain,omitempty"`
	// Change makes the row the progress of a change of a home: its region is ChangeRow then.
	Change *HomeProgress `json:"change,omitempty"`
}

// Stamp returns the time by which a beat is the later one of two: At, or 1 ms after Over if that is
// later.
func (b *Beat) Stamp() time.Time {
	if least := b.Over.Add(time.Millisecond); !b.Over.IsZero() && least.After(b.At) {
		return least
	}
	return b.At
}

// Drain asks the region that serves a home to take in and to publish nothing more of it, because
// another one is to serve it. What was published is still started, and what runs goes on and is
// recorded.
type Drain struct {
	Home  string   `json:"home"`
	Epoch int64    `json:"epoch"` // in which the home is served; in another one it is of no effect
	To    string   `json:"to"`    // the region that is to serve it
	For   Duration `json:"for"`   // how long who asks waits before the next epoch
}

// DrainRow is the Region of the beat that asks to drain a home. No region has such a name.
func DrainRow(home string) string { return "drain/" + home }

// DrainSpare is how much longer than asked a home is drained if no epoch follows: then whoever
// asked has given up, and the region takes in again.
const DrainSpare = 10 * time.Second

// AnnounceRow is the Region of the beat that announces that a home is about to go to another region.
// No region has such a name.
func AnnounceRow(home string) string { return "announced/" + home }

// Announcement returns that row for the epoch which is about to end. From then on leases on this epoch
// and on those before it are short (HomeLease). It cannot be taken back: its time is made of the
// epoch, so that of two the later epoch stays, and the next epoch ends its effect.
func Announcement(ends Epoch) Beat {
	return Beat{Region: AnnounceRow(ends.Home), Count: ends.Number, At: time.UnixMilli(ends.Number).UTC()}
}

// EpochStore holds the epochs of all homes and the beats of all regions. They lie in one place for
// all regions, and what it answers holds for all of them.
type EpochStore interface {
	// Epochs returns the newest epoch of each of the homes, in their order; Number 0 where there is
	// none. An epoch that one call returned, or a later one, is returned by each call that begins
	// after that.
	Epochs(ctx context.Context, homes []string) ([]Epoch, error)
	// EpochLog returns the epochs of a home, the newest first, at most limit.
	EpochLog(ctx context.Context, home string, limit int) ([]Epoch, error)
	// InsertEpoch writes e unless its home has an epoch of that number, and returns the one that
	// stands. Of several at once one wins. To write the same again is harmless.
	//
	//	ErrConflict   another one stands, which is returned
	//	ErrUnknown    read again: it may still be written
	InsertEpoch(ctx context.Context, e Epoch) (Epoch, error)
	// PutBeat writes the beat of its region over the one before. Of two the later one (Stamp)
	// stays.
	PutBeat(ctx context.Context, b Beat) error
	// Beats returns the beat of every region that has one, in the order of regions.
	Beats(ctx context.Context) ([]Beat, error)
}

// LocalBeats is an EpochStore that also tells what the data centre of the caller has of the beats.
type LocalBeats interface {
	// BeatsHere returns the beats, in the order of regions, as the copies of our own data centre
	// have them. One of another region stands there once it was replicated, as do the rows that
	// region wrote before it, or at about that time: nothing orders them.
	BeatsHere(ctx context.Context) ([]Beat, error)
}

// Syncer is a store whose rows lie in several data centres. It can have each of them hold what any of
// them does: it reads the rows of a quorum of every data centre, and what one lacks is written to it
// before the read is answered. Rows come whole, page by page.
//
//	ErrUnavailable   a data centre does not answer
type Syncer interface {
	// SyncPartition does so with what has due times in a partition: entries, payloads, attempts and
	// outputs. It returns how many rows there are.
	SyncPartition(ctx context.Context, p Partition) (rows int, err error)
	// SyncShard does so with the jobs and the cursors of a shard.
	SyncShard(ctx context.Context, s Shard) (rows int, err error)
}

const (
	// HomeLeaseLife is how long a region may act for a home after it asked who serves it, counted
	// from before it asked.
	HomeLeaseLife = 10 * time.Second
	// HomeLeaseRead is how often it asks.
	HomeLeaseRead = 2 * time.Second
	// TakeOverWait is how long a region waits after it saw that it serves a home which another
	// served before: the life of the other's lease, and what the other had under way when that
	// ended.
	TakeOverWait = HomeLeaseLife + 2*time.Second

	// ShortLeaseLife is HomeLeaseLife for an epoch whose end was announced.
	ShortLeaseLife = 3 * time.Second
	// ShortLeaseRead is HomeLeaseRead then.
	ShortLeaseRead = 500 * time.Millisecond
	// ShortTakeOverWait is TakeOverWait then.
	ShortTakeOverWait = ShortLeaseLife + 2*time.Second
)

// HomeLease is what a process knows of who serves a home. It is a value: Observe returns the next
// one. Its times must carry monotonic readings.
type HomeLease struct {
	Epoch Epoch     // the newest one that was read; Number 0: there is none
	Read  time.Time // before the read that last told it was sent; zero: none was answered
	Whole time.Time // the same of the last read that told of announcements too
	From  time.Time // from when on the region of the epoch may act, if it is ours

	Announced int64     // the latest epoch whose end was announced, 0: none
	Heard     time.Time // when the first answer came that told so
}

// HomeRead is what one read told of a home.
type HomeRead struct {
	Epoch          Epoch // the newest one; Number 0: there is none
	Sent, Answered time.Time
	// Whole: the beats were read as well. Of those are:
	Whole     bool
	Announced int64 // the epoch whose end is announced (Announcement), 0: none
	Serves    int64 // the epoch of the home that our region says it serves already (Beat.Serves)
}

// Observe returns the lease after a read. region is ours.
//
//	epoch                               we may act
//	of another region                   never
//	the one that we had                 as before
//	ours, the first of its home         at once
//	ours, and so is the one before it   as in that one: nobody else served the home between them
//	ours, and our region serves in it   at once: another of our nodes has waited
//	ours, the end of the one before     after ShortTakeOverWait, and TakeOverWait after we heard of the
//	it was announced                    announcement
//	ours, else                          after TakeOverWait
//
// The wait begins with the answer. What was read is held by a quorum then, so whoever asks later
// sees it. Epoch.At is no begin: a write of unknown outcome may be completed much later.
//
// So a process that learned nothing of an announcement asked before we heard of it, and its lease, of
// HomeLeaseLife, ends that long after; any other one has a short lease on what it asked before the
// epoch that is ours could be read.
func (l HomeLease) Observe(r HomeRead, region string) HomeLease {
	was, newest := l.Epoch, r.Epoch
	if newest.Number < was.Number {
		return l // it was sent before the one that told ours: nothing is known by it
	}
	if r.Sent.After(l.Read) {
		l.Read = r.Sent
	}
	if r.Whole && r.Sent.After(l.Whole) {
		l.Whole = r.Sent
	}
	if r.Whole && r.Announced > l.Announced {
		l.Announced, l.Heard = r.Announced, r.Answered
	}
	l.Epoch = newest
	switch {
	case newest.Number == was.Number && r.Serves < newest.Number:
	case newest.Region != region:
		l.From = time.Time{}
	case newest.Number == 1, r.Serves >= newest.Number:
		if l.From.IsZero() || l.From.After(r.Answered) {
			l.From = r.Answered
		}
	case newest.Number == was.Number+1 && was.Region == region:
	case l.Announced >= newest.Number-1:
		l.From = later(r.Answered.Add(ShortTakeOverWait), l.Heard.Add(TakeOverWait))
	default:
		l.From = r.Answered.Add(TakeOverWait)
	}
	return l
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Short reports whether the end of the epoch was announced: leases on it are short.
func (l HomeLease) Short() bool { return l.Epoch.Number > 0 && l.Announced >= l.Epoch.Number }

// Waits reports whether region will serve the home, and still waits at now.
func (l HomeLease) Waits(region string, now time.Time) bool {
	return l.Epoch.Number > 0 && l.Epoch.Region == region && now.Before(l.From)
}

// Served returns in which epoch region may act for the home at now, or a NotServedError.
//
// The lease ends when either clock says so: the monotonic one, which stands still while the machine
// is suspended, or the wall clock, which may be set.
func (l HomeLease) Served(home, region string, now time.Time) (epoch int64, err error) {
	e := l.Epoch
	if e.Number > 0 && e.Region == region && !now.Before(l.From) && !l.ended(now) {
		return e.Number, nil
	}
	return 0, &NotServedError{Home: home, Asked: region, Lease: l, Now: now}
}

// ended reports whether the lease has ended. A read that told nothing of announcements gives a short
// one: the end of the epoch may have been announced.
func (l HomeLease) ended(now time.Time) bool {
	whole := l.Short() || pastLife(l.Whole, now, HomeLeaseLife)
	return whole && pastLife(l.Read, now, ShortLeaseLife)
}

// pastLife reports whether what lasts so long from a read on has ended; zero: nothing was read.
func pastLife(read, now time.Time, life time.Duration) bool {
	return read.IsZero() || elapsed(now.Sub(read), now.Round(0).Sub(read.Round(0))) >= life
}

// elapsed returns how much time has passed, by whichever clock says more.
func elapsed(monotonic, wall time.Duration) time.Duration { return max(monotonic, wall) }

// NotServedError says why a region may not act for a home, and what to do about it. It is an
// ErrNotServed.
type NotServedError struct {
	Home  string
	Asked string // the region that was asked: ours
	Lease HomeLease
	Now   time.Time
	To    string // the region that it is about to be moved to, while it is drained; "": it is not
}

// Is implements errors.Is.
func (*NotServedError) Is(target error) bool { return target == ErrNotServed }

// Region returns the region that serves the home as far as is known; "" if it is not known.
func (e *NotServedError) Region() string {
	if e.Lease.ended(e.Now) {
		return ""
	}
	return e.Lease.Epoch.Region
}

// RetryAfter returns when to ask this region again; 0: another one is to be asked.
func (e *NotServedError) RetryAfter() time.Duration {
	switch {
	case e.Lease.Waits(e.Asked, e.Now):
		return e.Lease.From.Sub(e.Now)
	case e.Region() != "" && e.Region() != e.Asked:
		return 0
	}
	return HomeLeaseRead
}

// Error implements error.
func (e *NotServedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "home %s is not served by region %s: ", e.Home, e.Asked)
	l := e.Lease
	switch served := l.Epoch; {
	case e.To != "":
		fmt.Fprintf(&b, "it is about to be moved to region %s, and nothing more is taken in for it here; try again in some seconds", e.To)
	case l.Read.IsZero():
		b.WriteString("who serves it has not been read yet; wait a few seconds, and look at the keyspace of regions if it lasts")
	case l.ended(e.Now):
		fmt.Fprintf(&b, "who serves it could not be read for %s; a quorum of the keyspace of regions must answer, until then nobody here may act for it",
			elapsed(e.Now.Sub(l.Read), e.Now.Round(0).Sub(l.Read.Round(0))).Round(100*time.Millisecond))
	case served.Number == 0:
		b.WriteString("it has no epoch; run carillon migrate, which writes the first one")
	case served.Region != e.Asked:
		fmt.Fprintf(&b, "region %s serves it (epoch %d); ask that one, or fail the home over", served.Region, served.Number)
	default:
		fmt.Fprintf(&b, "it takes the home over (epoch %d), and serves it in %s; try again then", served.Number, l.From.Sub(e.Now).Round(100*time.Millisecond))
	}
	return b.String()
}
