package schema

import (
	"encoding/binary"
	"time"
)

// The run of a step of a workflow has an id that is a function of the workflow run, the step and
// the item alone. So two nodes that find at once that a step may start make one run, not two.
//
// Its rows (entry, attempts, payload, outputs) lie where its id says: in a bucket beyond all times,
// which no dispatcher scans. What leads to them is the workflow run, whose own entry stays open
// until the workflow has ended. All rows of one workflow run lie in one partition.

const (
	// MaxSteps bounds the steps of a workflow.
	MaxSteps = 1000
	// MaxItems bounds the items of one step.
	MaxItems = 10_000

	stepBits, itemBits = 10, 14
	stepFlag           = 1 << 63 // of the first eight bytes of an id
)

// MakeStepID returns the id of the run of a step of a workflow run: of the item with that number
// (from 1), or of the step as a whole (item 0). Steps are numbered from 0, in the order of the
// definition. The order of the ids of one workflow run is that of steps, then items.
//
// 38 bits of the hash are the workflow run's. Two that are due in one ms in one shard share them
// once in 275 billion.
func MakeStepID(workflow RunID, step, item int) RunID {
	var id RunID
	binary.BigEndian.PutUint64(id[:8], binary.BigEndian.Uint64(workflow[:8])|stepFlag)
	prefix := HashOf("step", workflow.String()) >> (stepBits + itemBits) << (stepBits + itemBits)
	place := uint64(step)&(1<<stepBits-1)<<itemBits | uint64(item)&(1<<itemBits-1) // #nosec G115 -- bounded
	binary.BigEndian.PutUint64(id[8:], 1<<63|prefix|place)
	return id
}

// IsStep reports whether id is that of the run of a step.
func (id EntryID) IsStep() bool { return id[0]&0x80 != 0 }

// StepBucket returns the bucket of the rows of steps of workflow runs that were due in the bucket of t.
func StepBucket(t time.Time) Bucket {
	return BucketOf(time.UnixMilli(t.UnixMilli() | (maxIDMillis + 1)))
}

// StepOf returns the number of the step and of the item that the id of a step's run names.
func (id EntryID) StepOf() (step, item int) {
	h := id.Hash()
	return int(h >> itemBits & (1<<stepBits - 1)), int(h & (1<<itemBits - 1)) // #nosec G115 -- few bits
}

// DefinitionID returns the id under which a workflow run keeps its definition, as a payload.
func DefinitionID(workflow RunID) EntryID { return MakeStepID(workflow, 1<<stepBits-1, 0) }

// StepRange returns the range of the ids of all steps of a workflow run.
func StepRange(workflow RunID) IDRange {
	first := MakeStepID(workflow, 0, 0)
	return IDRange{After: justBefore(first), Before: DefinitionID(workflow)}
}

// StepRunRange returns the range of the ids of one step of a workflow run, and of its items.
func StepRunRange(workflow RunID, step int) IDRange {
	return IDRange{After: justBefore(MakeStepID(workflow, step, 0)), Before: MakeStepID(workflow, step+1, 0)}
}

// ItemRange returns the range of the ids of the items of one step after the item with that number.
func ItemRange(workflow RunID, step, after int) IDRange {
	return IDRange{After: MakeStepID(workflow, step, after), Before: MakeStepID(workflow, step+1, 0)}
}

// justBefore returns an id that sorts before id, and after every id with a lower hash.
func justBefore(id EntryID) EntryID {
	if h := id.Hash(); h > 0 {
		binary.BigEndian.PutUint64(id[8:], 1<<63|(h-1))
		return id
	}
	id[8] = 0 // the variant bits: below every id of that time and shard
	return id
}

// WorkflowRun marks the entries of a run that is one of a workflow. It calls nothing itself: it
// starts steps, and ends when they have. Its job is the workflow.
type WorkflowRun struct {
	// Depth is how many workflows it was started through: 0 unless it is a step of another.
	Depth int `json:"depth,omitempty"`
	// Until is when the run ends at the latest. Only the entry of its definition says it.
	Until time.Time `json:"until,omitzero"`
	// Limited: the run has a slot of the workflow's limit. Only the entry of its definition says it.
	Limited bool `json:"limited,omitempty"`
}

// Step marks the entries of a run that is a step of a workflow run, or one item of a step.
type Step struct {
	Workflow RunID  `json:"workflow"` // the workflow run
	Name     string `json:"name"`
	// Items: of a step with for_each: how many items it has. Its row starts nothing: the items do.
	Items *int `json:"items,omitempty"`
	// Due is when it was found that the step may start: its due time.
	Due time.Time `json:"due,omitzero"`
	// Skipped: the step is not run. Fault says why it cannot be started: it has failed. Its row
	// starts nothing then.
	Skipped bool   `json:"skipped,omitempty"`
	Fault   string `json:"fault,omitempty"`
	// From: the step was taken over from this run, which succeeded: its output is that run's.
	From RunID `json:"from,omitzero"`
	// Wait: the step waits, and calls nothing.
	Wait *StepWait `json:"wait,omitempty"`
	// Deadline is when the step fails if it has not ended; zero: never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Until is when the workflow run ends at the latest. Rows of the step live for a retention more.
	Until time.Time `json:"until"`
}

// StepWait is what a step waits for: an instant, or an event.
type StepWait struct {
	Until  time.Time `json:"until,omitzero"`
	Event  string    `json:"event,omitempty"`
	Filter string    `json:"filter,omitempty"`
}

// Starts reports whether the run of the step is one that an executor starts.
func (s *Step) Starts() bool {
	return s.Items == nil && s.Wait == nil && s.From.IsZero() && !s.Skipped && s.Fault == ""
}
