package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// StatsRetention is how long counts stay.
const StatsRetention = 14 * 24 * time.Hour

// LateAfter is how much later than due a first start counts as late. It is one of LatenessBounds.
const LateAfter = time.Second

// LatenessBounds are the upper bounds of the fixed classes of lateness. A last class holds what is
// above all of them. They are stored by their place: never change one, only append.
var LatenessBounds = [...]time.Duration{
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, 60 * time.Second, 300 * time.Second,
}

// LatenessCounts counts first starts by the fixed classes of lateness.
type LatenessCounts [len(LatenessBounds) + 1]int64

// Observe counts a start that was so late.
func (c *LatenessCounts) Observe(late time.Duration) { c[latenessClass(late)]++ }

func latenessClass(late time.Duration) int {
	for i, bound := range LatenessBounds {
		if late <= bound {
			return i
		}
	}
	return len(LatenessBounds)
}

// Add adds other.
func (c *LatenessCounts) Add(other *LatenessCounts) {
	for i, n := range other {
		c[i] += n
	}
}

// Count returns how many starts there were.
func (c *LatenessCounts) Count() (n int64) {
	for _, of := range c {
		n += of
	}
	return n
}

// Late returns how many starts were later than LateAfter.
func (c *LatenessCounts) Late() (n int64) {
	for _, of := range c[latenessClass(LateAfter)+1:] {
		n += of
	}
	return n
}

// IsZero reports whether there were no starts.
func (c LatenessCounts) IsZero() bool { return c == LatenessCounts{} }

// MarshalJSON returns a list of counts, without the zeros at its end.
func (c LatenessCounts) MarshalJSON() ([]byte, error) {
	n := len(c)
	for n > 0 && c[n-1] == 0 {
		n--
	}
	return json.Marshal(c[:n])
}

// UnmarshalJSON is the inverse of MarshalJSON. Classes that a newer version knows above ours count
// in our last one.
func (c *LatenessCounts) UnmarshalJSON(text []byte) error {
	var list []int64
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("counts of lateness: %w", err)
	}
	*c = LatenessCounts{}
	for i, n := range list {
		c[min(i, len(c)-1)] += n
	}
	return nil
}

// MinuteStats counts what a node saw in one minute.
type MinuteStats struct {
	Minute time.Time `json:"-"` // its begin
	Node   string    `json:"-"` // and which of its lives: unique

	// Due: entries that were handed to executors for the first time.
	Due       int64 `json:"due,omitempty"`
	Started   int64 `json:"started,omitempty"`   // runs that were started for the first time
	Succeeded int64 `json:"succeeded,omitempty"` // attempts, as the next
	Failed    int64 `json:"failed,omitempty"`    // timed out and lost ones too
	Missed    int64 `json:"missed,omitempty"`    // runs
	// MissedFor says why. Older versions left it out.
	MissedFor MissedFor `json:"missed_for,omitzero"`
	Retried   int64     `json:"retried,omitempty"` // retries that were written
	// Lateness counts first starts by class: those later than the class before and at most UpTo.
	Lateness []LatenessClass `json:"lateness,omitempty"`
	// Fixed counts the same starts by the fixed classes. Older versions left it out.
	Fixed LatenessCounts `json:"fixed,omitzero"`

	Written int64 `json:"-"` // write timestamp, µs; not read back
}

// Idle reports whether nothing was counted.
func (m *MinuteStats) Idle() bool {
	return m.Due == 0 && m.Started == 0 && m.Succeeded == 0 && m.Failed == 0 && m.Missed == 0 && m.Retried == 0
}

// LatenessClass is a class of lateness and how many starts were in it.
type LatenessClass struct {
	UpTo  Duration `json:"up_to"`
	Count int64    `json:"count"`
}

// FixedClasses returns the starts of m by the fixed classes. What an older version counted is off by
// the width of its classes, a tenth: such a class counts where its middle lies.
func (m *MinuteStats) FixedClasses() LatenessCounts {
	if len(m.Lateness) == 0 || !m.Fixed.IsZero() {
		return m.Fixed
	}
	var c LatenessCounts
	for _, of := range m.Lateness {
		c[latenessClass(of.UpTo.Std()*20/21)] += of.Count
	}
	return c
}

// MissedFor counts missed runs by why they were missed. It may count fewer than were missed: older
// versions do not tell.
type MissedFor struct {
	Late     int64 `json:"late,omitempty"`      // later than the misfire policy of their job allows
	UnderWay int64 `json:"under_way,omitempty"` // as many runs of the job were under way as may be, and it skips
	Changed  int64 `json:"changed,omitempty"`   // the job was changed, paused or cancelled before they could start
	Fault    int64 `json:"fault,omitempty"`     // what is stored of them, or of their job, could not be read
}

// Count counts runs that were recorded as missed for a reason (Record.Reason). A reason that is not
// known counts for nothing.
func (m *MissedFor) Count(reason string, runs int64) {
	cause, _, _ := strings.Cut(reason, ":")
	switch cause {
	case "deadline", "skip", "run_latest":
		m.Late += runs
	case "skipped":
		m.UnderWay += runs
	case "changed":
		m.Changed += runs
	case "fault", "unreadable":
		m.Fault += runs
	}
}

// Add adds other.
func (m *MissedFor) Add(other *MissedFor) {
	m.Late += other.Late
	m.UnderWay += other.UnderWay
	m.Changed += other.Changed
	m.Fault += other.Fault
}

// StatsHour returns the hour in which a minute lies: hours since the Unix epoch.
func StatsHour(t time.Time) int { return int(floorDiv(t.Unix(), 3600)) }

// StatsKind says of what counts are kept apart.
type StatsKind string

// The kinds.
const (
	ByTenant StatsKind = "tenant"
	ByTask   StatsKind = "task"
	ByJob    StatsKind = "job"  // that can have many runs
	ByHost   StatsKind = "host" // that HTTP calls go to
)

// StatsKinds are all kinds. Their places are stored: only append. Do not modify.
var StatsKinds = []StatsKind{ByTenant, ByTask, ByJob, ByHost}

// Counts count what became of runs, as MinuteStats does.
type Counts struct {
	Due         int64          `json:"due,omitempty"` // not of hosts: a dispatcher does not know where a task calls
	Started     int64          `json:"started,omitempty"`
	Succeeded   int64          `json:"succeeded,omitempty"`
	Failed      int64          `json:"failed,omitempty"`
	Missed      int64          `json:"missed,omitempty"`
	MissedFor   MissedFor      `json:"missed_for,omitzero"`
	Retried     int64          `json:"retried,omitempty"`
	Lateness    LatenessCounts `json:"lateness,omitzero"`
	MaxLateness Duration       `json:"max_lateness,omitempty"`
}

// Add adds other.
func (c *Counts) Add(other *Counts) {
	c.Due += other.Due
	c.Started += other.Started
	c.Succeeded += other.Succeeded
	c.Failed += other.Failed
	if other.Missed > 0 {
		c.Missed += other.Missed
		c.MissedFor.Add(&other.MissedFor)
	}
	c.Retried += other.Retried
	if other.Started > 0 {
		c.Lateness.Add(&other.Lateness)
		c.MaxLateness = max(c.MaxLateness, other.MaxLateness)
	}
}

// Start counts a first start that was so late.
func (c *Counts) Start(late time.Duration) {
	c.Started++
	c.Lateness.Observe(late)
	c.MaxLateness = max(c.MaxLateness, Duration(late))
}

// End counts what a record says of an attempt that ended, or of a run of which nothing started.
func (c *Counts) End(rec *Record) {
	switch rec.Outcome {
	case Succeeded:
		c.Succeeded++
	case Failed, TimedOut, Lost:
		c.Failed++
	case Missed:
		c.Miss(rec.Reason, 1)
	}
	if !rec.Next.IsZero() {
		c.Retried++
	}
}

// Miss counts runs that were recorded as missed for a reason.
func (c *Counts) Miss(reason string, runs int64) {
	c.Missed += runs
	c.MissedFor.Count(reason, runs)
}

// troubleWeight is how much more a run weighs that failed, was missed or late.
const troubleWeight = 16

// Weight says how much there is to be told of, so which names are kept where not all are. Trouble
// weighs more, so that what fails is seen beside what is only busy.
func (c *Counts) Weight() int64 {
	return c.Due + c.Started + c.Succeeded + troubleWeight*(c.Failed+c.Missed+c.Lateness.Late())
}

// MaxLastError bounds NameCounts.LastError, bytes.
const MaxLastError = 200

// NameCounts are the counts of one tenant, task, job or host.
type NameCounts struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name,omitempty"` // of the task, job or host; "": the tenant's own, or a job without a name
	Job    JobID  `json:"job,omitzero"`
	Counts
	// LastError is why an attempt failed, the latest of them; at most MaxLastError bytes. Not of
	// tenants. Older versions left it out.
	LastError string `json:"last_error,omitempty"`

	// In which minutes attempts failed and succeeded, of the minutes that were added up; zero: in
	// none. Each row is of one minute, so it does not store them.
	FirstFailed, LastFailed, LastSucceeded time.Time `json:"-"`
}

// Seen notes the minute whose counts these are.
func (n *NameCounts) Seen(minute time.Time) {
	if n.Failed > 0 {
		n.FirstFailed, n.LastFailed = minute, minute
	}
	if n.Succeeded > 0 {
		n.LastSucceeded = minute
	}
}

// AddMinutes adds counts of the same name, of other minutes or nodes.
func (n *NameCounts) AddMinutes(other *NameCounts) {
	n.Add(&other.Counts)
	if other.LastSucceeded.After(n.LastSucceeded) {
		n.LastSucceeded = other.LastSucceeded
	}
	if other.Failed == 0 {
		return
	}
	if n.FirstFailed.IsZero() || other.FirstFailed.Before(n.FirstFailed) {
		n.FirstFailed = other.FirstFailed
	}
	if !other.LastFailed.Before(n.LastFailed) {
		n.LastFailed = other.LastFailed
		if other.LastError != "" {
			n.LastError = other.LastError
		}
	}
}

// NameStats counts what a node saw in one minute, by the names of a kind: those that weigh most
// each for itself, the others as one.
type NameStats struct {
	Minute time.Time `json:"-"`
	Node   string    `json:"-"` // as in MinuteStats
	Kind   StatsKind `json:"-"`

	Names  []NameCounts `json:"names,omitempty"`
	Others Counts       `json:"others,omitzero"`

	Written int64 `json:"-"` // write timestamp, µs; not read back
}

// MaxNameStats bounds the stored form of a NameStats, bytes.
const MaxNameStats = 64 << 10

// StatsStore holds counts of minutes. They leave after StatsRetention.
type StatsStore interface {
	// PutStats writes what a node counted in a minute; the latest write stands.
	PutStats(ctx context.Context, s MinuteStats) error
	// Stats returns all counts of an hour, by minute and node. Those that cannot be understood are
	// left out.
	Stats(ctx context.Context, hour int) ([]MinuteStats, error)
	// PutNameStats writes what a node counted in a minute by the names of a kind; the latest write
	// stands. ErrTooLarge: it has more than MaxNameStats bytes.
	PutNameStats(ctx context.Context, s NameStats) error
	// NameStats returns the counts of a kind in an hour, of minutes that begin at `from` or later, by
	// minute and node. Those that cannot be understood are left out.
	NameStats(ctx context.Context, kind StatsKind, hour int, from time.Time) ([]NameStats, error)
}

// hoursApart is by how many hours the partitions of two kinds lie apart: more than there are until
// the year 9999.
const hoursApart = 100_000_000

// StatsPartition returns the partition of the table stats that holds the counts of a kind in an
// hour. Those of all runs together lie in the partition of the hour itself, so whoever reads these
// reads nothing of names. Older versions never read partitions so far in the future. An unknown kind
// has one too, in which nothing lies.
func StatsPartition(kind StatsKind, hour int) int {
	for i, k := range StatsKinds {
		if k == kind {
			return hour + (i+1)*hoursApart
		}
	}
	return hour - hoursApart
}
