package schema

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// HomeChange asks that another region serve a home: it is moved, or failed over.
type HomeChange struct {
	Home, To   string
	By, Reason string // who asks, and why, in their words

	Forced bool          // fail-over: the region that serves the home is lost
	Drain  time.Duration // of a move: how long what is under way may end first; 0: nothing is drained

	Sync         bool          // the rows of all data centres are compared first
	Since, Until time.Duration // over which due times

	// AcceptLag has a fail-over done although the region that takes over is behind by more than
	// MaxTakeOverLag, or it is not known by how much.
	AcceptLag bool
	// AcceptNoExecutors has it done although that region has no executor: then it takes in, and
	// starts nothing.
	AcceptNoExecutors bool
}

// MaxTakeOverLag is how far a region may be behind the one that is lost, and still take a home over
// unasked. At rest it is 0 to 2 s.
const MaxTakeOverLag = 10 * time.Second

// Verb returns what is done: "move" or "fail over".
func (c HomeChange) Verb() string {
	if c.Forced {
		return "fail over"
	}
	return "move"
}

// Phases of a change, in their order. The last four are ends.
const (
	PhaseChecking  = "checking"  // it listens for signs of life
	PhaseComparing = "comparing" // the rows of all data centres
	PhaseAnnounced = "announced" // leases become short; the home is served
	PhaseDraining  = "draining"  // nothing is taken in or published of the home
	PhaseDeciding  = "deciding"  // the epoch is written
	PhaseDone      = "done"      // the epoch stands
	PhaseRefused   = "refused"   // nothing was announced
	PhaseGivenUp   = "given-up"  // the region that served the home serves on
	PhaseUnknown   = "unknown"   // it may have been done, or be given up: ask who serves the home
)

// HomeProgress tells of a change how far it is, and how it ended. Whoever does it writes it every 2
// s, as the beat of ChangeRow, so that every region can read it. It decides nothing.
type HomeProgress struct {
	Home   string    `json:"home"`
	Epoch  int64     `json:"epoch"` // in which the home was served when it began
	From   string    `json:"from"`
	To     string    `json:"to"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Forced bool      `json:"forced,omitempty"`
	Began  time.Time `json:"began"` // this and Since by the clock of whoever does it
	Phase  string    `json:"phase"`
	Since  time.Time `json:"since"` // when the phase began
	// Partitions of Of, and Rows, were compared.
	Partitions int    `json:"partitions,omitempty"`
	Of         int    `json:"of,omitempty"`
	Rows       int    `json:"rows,omitempty"`
	Fault      string `json:"fault,omitempty"` // why it ended otherwise than done
}

// Ended reports whether nobody works on it any more.
func (p HomeProgress) Ended() bool {
	return slices.Contains([]string{PhaseDone, PhaseRefused, PhaseGivenUp, PhaseUnknown}, p.Phase)
}

// Same reports whether two tell of the same change.
func (p HomeProgress) Same(o HomeProgress) bool {
	return p.Home == o.Home && p.By == o.By && p.To == o.To && p.Began.Equal(o.Began)
}

// ChangeRow is the Region of the beat that tells how far the change of a home is. No region has
// such a name.
func ChangeRow(home string) string { return "change/" + home }

// BeatOf returns the beat of a region among beats.
func BeatOf(beats []Beat, region string) (Beat, bool) {
	i := slices.IndexFunc(beats, func(b Beat) bool { return b.Region == region })
	if i < 0 {
		return Beat{}, false
	}
	return beats[i], true
}

// ChangePlan says what a change costs. What could not be found out is told by a Fault beside it.
type ChangePlan struct {
	Change  HomeChange
	Was     Epoch // the newest one of the home
	Already bool  // the region serves the home already: nothing is to be done

	// LastSign is how old the last sign of life is of the region that serves the home, by its clock
	// and ours; false: it never gave one.
	LastSign   time.Duration
	HasSign    bool
	Lag        time.Duration // how far the region that takes over is behind that sign
	LagFault   string        // why that is not known; "": it is
	LostAtMost time.Duration // of a fail-over: what was acknowledged in so long may be missing; 0: not known
	Executors  *int          // of the region that takes over; nil: it does not tell

	Announced, Drained, Begins time.Duration // how long each takes; of a fail-over only Begins
	Backlog                    HomeBacklog

	// Refused are the faults for which the change would be refused.
	Refused []ChangeFault
}

// Unavailable returns for how long nothing is taken in or published of the home. A fail-over counts
// from the epoch: the home was not served before.
func (p *ChangePlan) Unavailable() time.Duration { return p.Drained + p.Begins }

// HomeBacklog is what is under way in a home, estimated from some of its shards.
type HomeBacklog struct {
	Shards, Sampled int
	Settled         time.Time // everything due before is finished, in all shards of the home
	// UnderWay are runs that were due since and may wait or run, about. Those that the other region
	// starts may be started again, unless they are guarded.
	UnderWay int64
	// LookedAt are runs due since 10 minutes before: so many the region that takes over looks at,
	// about.
	LookedAt int64
	// DueMeanwhile are runs that become due while nobody publishes, about: they start late.
	DueMeanwhile int64
	More         bool   // there are more: counting is bounded
	Fault        string // why it is not known; "": it is
}

// ChangeFault is one thing for which a change is refused.
type ChangeFault struct {
	Field   string // of HomeChange that is at fault: home, to, reason
	Message string
	Unknown bool // there is no such home or region
}

// ChangeRefusedError has every fault for which a change is refused. Nothing was announced or
// written.
type ChangeRefusedError struct{ Faults []ChangeFault }

// Error implements error.
func (e *ChangeRefusedError) Error() string {
	said := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		said[i] = f.Message
	}
	return strings.Join(said, "; ")
}

// Unknown reports whether one of the faults is that there is no such home or region.
func (e *ChangeRefusedError) Unknown() bool {
	return slices.ContainsFunc(e.Faults, func(f ChangeFault) bool { return f.Unknown })
}

// ChangeUnderWayError says that somebody else works on a change of the home. Nothing was announced
// or written.
type ChangeUnderWayError struct{ By HomeProgress }

// Error implements error.
func (e *ChangeUnderWayError) Error() string {
	p := &e.By
	what := "moves"
	if p.Forced {
		what = "fails over"
	}
	return fmt.Sprintf("%s %s home %s to region %s, since %s (%s): %s", p.By, what, p.Home, p.To, p.Began.UTC().Format(time.RFC3339), p.Phase, p.Reason)
}

// ChangeLostError says that somebody else wrote the next epoch first. It is an ErrConflict.
type ChangeLostError struct{ Stands Epoch }

// Is implements errors.Is.
func (*ChangeLostError) Is(target error) bool { return target == ErrConflict }

// Error implements error.
func (e *ChangeLostError) Error() string {
	s := &e.Stands
	return fmt.Sprintf("somebody else was faster: %s decided that region %s serves home %s (epoch %d): %s; at %s", s.By, s.Region, s.Home, s.Number, s.Reason, s.At.UTC().Format(time.RFC3339))
}
