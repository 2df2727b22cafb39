package schema

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Outcome is how an attempt ended.
type Outcome string

// The outcomes. Missed, Skipped and Replaced belong to attempt 0 alone, which says why nothing
// started here. Cancelled may be of any attempt, and so may Failed: with number 0 it is a retry that
// nobody could write, or a step that could not be started.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	TimedOut  Outcome = "timed_out"
	// Lost: its executor's session was declared dead before a record was there.
	Lost Outcome = "lost"
	// Superseded: an outcome that lost to another one of its run: see IsSuperseded.
	Superseded Outcome = "superseded"
	Cancelled  Outcome = "cancelled"
	Missed     Outcome = "missed"
	Replaced   Outcome = "handed_on" // another entry replaces this one: see To
	Skipped    Outcome = "skipped"   // a step that its workflow did not run, or a run that others have kept from starting
	// UpstreamEnded: attempt 0 of a run that waits for other jobs: one of them has ended. It is no end of
	// the run itself.
	UpstreamEnded Outcome = "upstream_ended"
	// Began: a run of a workflow is under way. It ends under the same number and fence.
	Began Outcome = "began"
)

// known reports whether o is one of them. A newer version may know more.
func (o Outcome) known() bool {
	switch o {
	case Succeeded, Failed, TimedOut, Lost, Superseded, Cancelled, Missed, Replaced, Skipped, UpstreamEnded, Began:
		return true
	}
	return false
}

// Deferred is the reason of a Replaced whose entry is due later, because the run may not start yet.
const Deferred = "deferred"

// Cause says why a start was deferred.
type Cause string

// The causes of a deferral.
const (
	CauseRate    Cause = "rate"    // the rate of its task
	CauseLimit   Cause = "limit"   // the max_concurrent of its task is reached
	CauseQuota   Cause = "quota"   // the quota of its tenant is reached: runs at once
	CauseBreaker Cause = "breaker" // the circuit of its target is open
	// CauseTargetShare: its target is slow, and has its share of the executor's slots.
	CauseTargetShare Cause = "target_share"
	// CauseRegion: only the region that its home is named after may run it, and another serves
	// that.
	CauseRegion Cause = "region"
	// CauseTenantShare: its tenant is slow, and has its share of the executor's slots.
	CauseTenantShare Cause = "tenant_share"
	// CausePool: no executor that was reached has the labels that it requires.
	CausePool Cause = "pool"
)

// Fence is a fencing token: a number that only grows, and of two holders the higher wins. It is µs
// since the Unix epoch with random low bits, so that two starts of one µs differ.
type Fence int64

// MakeFence returns the fence of a start at t. Its low 10 bits are random: it is exact to about 1
// ms.
func MakeFence(t time.Time) Fence {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails
	return Fence(t.UnixMicro()&^0x3ff | int64(binary.BigEndian.Uint16(b[:])&0x3ff))
}

// SessionRef names the session under which an attempt runs.
type SessionRef struct {
	Executor string    `json:"executor"`
	ID       string    `json:"session"`
	Started  time.Time `json:"started"`
	Entry    EntryID   `json:"entry"`
	// Guarded: it holds a claim (see Claim). The claim stays when the executor's next life replaces
	// the session.
	Guarded bool `json:"guarded,omitempty"`
	// Home and Epoch are of slots of a limit: see Block. Not stored with attempts.
	Home  string `json:"-"`
	Epoch int64  `json:"-"`
}

// Record is the last word on one attempt. It says everything that follows from it, so anybody may
// repeat its follow-ups: same ids, same timestamps.
type Record struct {
	Entry    EntryID   `json:"entry"` // the entry that started it, or that this attempt 0 is about
	Executor string    `json:"executor,omitempty"`
	Region   string    `json:"region,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished"`
	Outcome  Outcome   `json:"outcome"`
	Error    string    `json:"error,omitempty"`
	// Sealed is the error, the output and the text of the progress, encrypted, in base64; they are
	// then empty where the record is stored. After ErrSealed it stays, and Error says why.
	Sealed string `json:"sealed,omitempty"`
	Status int    `json:"status_code,omitempty"`
	Output string `json:"output,omitempty"` // the output, or its head as text: see OutputSize

	// OutputSize is how many bytes of the output lie in parts, from its first byte on. 0 means that
	// Output is all that was kept.
	OutputSize int64 `json:"output_size,omitempty"`
	// OutputCut: there was more than was kept.
	OutputCut bool `json:"output_cut,omitempty"`
	// OutputBinary: the output is not UTF-8. If there are no parts, Output is the output without
	// the bytes that are not.
	OutputBinary bool `json:"output_binary,omitempty"`
	// Lines is how many lines of log were kept, LinesDropped how many were not.
	Lines        int `json:"log_lines,omitempty"`
	LinesDropped int `json:"log_dropped,omitempty"`
	// Progress is the last that the worker reported.
	Progress *RunProgress `json:"progress,omitempty"`

	// PublishedMillis is how long before Started the message of the attempt was published, in ms, at
	// least 1. 0 means that it is not known: nothing was executed, or an older version wrote the record.
	PublishedMillis int64 `json:"published_ms,omitempty"`
	// ReceivedMillis is how long before Started the executor received the message, in ms. It says
	// nothing where PublishedMillis is 0.
	ReceivedMillis int64 `json:"received_ms,omitempty"`

	Redispatched bool `json:"redispatched,omitempty"`

	// Unstarted: the attempt noted its session and was given up, before it started or because its
	// executor was stopped. The session counts for nothing any more, and the number is free again.
	Unstarted bool `json:"unstarted,omitempty"`
	// Preempted: it is unstarted because it was stopped under way to let a critical run start.
	Preempted bool `json:"preempted,omitempty"`
	// Doubt: another execution may have ended the run before this success. The follow-up of this
	// record resolves a dead letter of the run, if there is one.
	Doubt bool `json:"doubt,omitempty"`
	// Outlived: the attempt ran for longer than its session. Others may have recorded it as lost in
	// this very row, which does not show that any more.
	Outlived bool `json:"outlived,omitempty"`
	// Announce: somebody may listen to events of the system about the run: they follow from this.
	Announce bool `json:"announce,omitempty"`
	// Final: no attempt follows this failure.
	Final bool `json:"final,omitempty"`
	// Next is the retry entry that follows, drawn before this record was written.
	Next EntryID `json:"next,omitzero"`
	// To is the entry that replaces this one, for Replaced. It is zero while a limit holds the run
	// back: the entry is drawn when a slot is free.
	To EntryID `json:"to,omitzero"`
	// Reason says why, for Missed, for a Cancelled that follows from something else than a request
	// to cancel this run, and for a Replaced to a later time (Deferred).
	Reason string `json:"reason,omitempty"`
	// Cause says why, for a Replaced with the reason Deferred. Older versions left it empty.
	Cause Cause `json:"cause,omitempty"`
	// Before, of attempt 0 of a run that waits for other jobs: how one of them ended, of which Entry was
	// the run (UpstreamEnded), or all of them (Skipped).
	Before *JobEnd `json:"before,omitempty"`
	// Missed: the record stands for a stretch of nominal times of its job. The run's is the first.
	Missed *Stretch `json:"missed,omitempty"`
}

// JobEnd is how a job ended, or all before another one, for what runs after it.
type JobEnd struct {
	Job JobID `json:"job,omitzero"` // zero: all
	// Verdict is one of package workflow.
	Verdict string `json:"verdict"`
}

// Ruined reports whether the record ends its run as failed for good: a dead letter follows from it.
func (r *Record) Ruined() bool {
	switch r.Outcome {
	case Failed, TimedOut, Lost:
		return r.Final && !r.Unstarted
	}
	return false
}

// Attempt is a row of attempts: one execution of a run, or (number 0) why there was none.
// The record and the session are separate cells; a write leaves a nil one untouched.
type Attempt struct {
	Run     RunID
	Number  int
	Fence   Fence
	Record  *Record
	Session *SessionRef
	Written int64     // write timestamp, µs; equal for every repetition of this write
	Expires time.Time // when the row leaves; unknown (zero) when read

	// Tenant is whose the run is, where the row is written: it decides whether the record is stored
	// encrypted. It is not stored; "" is for rows that say nothing of what the run brought or gave.
	Tenant string

	// Fault is set where a stored row cannot be understood (ErrNotUnderstood). What the attempt
	// came to is unknown then, and it has neither record nor session. Fold says what that means for
	// the run.
	Fault error
}

// LoadAttempt makes an attempt of the cells of its row; nil is a cell that is not there. Beside a
// record the session says nothing any more, and need not be understood.
func LoadAttempt(run RunID, number int, fence Fence, record, session []byte, written int64) Attempt {
	a := Attempt{Run: run, Number: number, Fence: fence, Written: written}
	var err error
	if record != nil {
		if a.Record, err = DecodeRecord(record); err == nil && !a.Record.Outcome.known() && !a.Record.Unstarted {
			err = fmt.Errorf("decode record: %w: outcome %q", ErrNotUnderstood, a.Record.Outcome)
		}
	}
	if session != nil && err == nil {
		if a.Session, err = DecodeSessionRef(session); err != nil && a.Record != nil {
			err = nil
		}
	}
	if err != nil {
		a.Record, a.Session, a.Fault = nil, nil, fmt.Errorf("attempt %d of %s: %w", number, run, err)
	}
	return a
}

// Empty reports whether the row has no cell that is still there.
func (a *Attempt) Empty() bool { return a.Record == nil && a.Session == nil && a.Fault == nil }

// LostAt returns the write timestamp, in µs, of the record that an attempt started at `started` was
// lost. "Lost" is a guess of whoever finds the session dead. So its timestamp lies before the
// start: the attempt's own record, which is written at its end, wins whichever is written last.
func LostAt(started time.Time) int64 { return started.UnixMicro() - 1 }

// UnstartedAt returns the write timestamp, in µs, of the record by which an executor says that its
// attempt never counted. It is lower than LostAt: where others found the attempt lost, they have
// gone on from that, and the loss stands.
func UnstartedAt(started time.Time) int64 { return started.UnixMicro() - 2 }

// HeldByLimit reports whether the row says that its entry waits for a limit, which its reason names.
// The last step of a catch-up is replaced by nothing too, and has no reason.
func (a *Attempt) HeldByLimit() bool {
	return a.Number == 0 && a.Record != nil && a.Record.Outcome == Replaced && a.Record.To.IsZero() && a.Record.Reason != ""
}

// Unstarted reports whether the row stands for nothing: see Record.
func (a *Attempt) Unstarted() bool { return a.Record != nil && a.Record.Unstarted }

// Preempted reports whether the attempt was stopped to let a critical run start: see Record.
func (a *Attempt) Preempted() bool { return a.Unstarted() && a.Record.Preempted }

// CountPreempted returns how often the run of these attempts was stopped to let a critical run
// start.
func CountPreempted(attempts []Attempt) (n int) {
	for i := range attempts {
		if attempts[i].Preempted() {
			n++
		}
	}
	return n
}

// EncodeRecord returns the stored form of r.
func EncodeRecord(r *Record) ([]byte, error) { return encodeCell(r, "record") }

// DecodeRecord is the inverse of EncodeRecord.
func DecodeRecord(text []byte) (*Record, error) { return decodeCell[Record](text, "record") }

// EncodeSessionRef returns the stored form of s.
func EncodeSessionRef(s *SessionRef) ([]byte, error) { return encodeCell(s, "session") }

// DecodeSessionRef is the inverse of EncodeSessionRef.
func DecodeSessionRef(text []byte) (*SessionRef, error) {
	return decodeCell[SessionRef](text, "session")
}

func encodeCell(v any, what string) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	return text, nil
}

// Decode returns what a stored cell says, or the zero value and ErrNotUnderstood.
func Decode[T any](text []byte, what string) (T, error) {
	v, err := decodeCell[T](text, what)
	if err != nil {
		var none T
		return none, err
	}
	return *v, nil
}

func decodeCell[T any](text []byte, what string) (*T, error) {
	var v *T
	err := json.Unmarshal(text, &v)
	if err == nil && v == nil {
		err = errNull
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w: %w", what, ErrNotUnderstood, err)
	}
	return v, nil
}

// errNull: a cell holds the word null, which is no value of anything.
var errNull = errors.New("it is null")

// AttemptStore holds the attempts of runs.
type AttemptStore interface {
	// PutAttempts writes the rows as one batch, each with its own timestamp and expiry; nil cells
	// are left as they are. The caller bounds it and groups it by partition. Errors as PutEntries.
	PutAttempts(ctx context.Context, attempts []Attempt) error
	// Attempts returns the attempts of the runs, which all lie in p, at most 100, ordered by run,
	// number and fence. One whose row cannot be understood is among them, with its Fault.
	Attempts(ctx context.Context, p Partition, runs []RunID) ([]Attempt, error)
	// KeepAttempts makes some attempts of a run stay until expires at least: those that `which`
	// picks, and those that cannot be understood. It writes their cells again byte for byte, each
	// under its own timestamp: of equal cells the longer-lived one wins. Errors as PutEntries.
	KeepAttempts(ctx context.Context, run RunID, expires time.Time, which func(*Attempt) bool) error
}
