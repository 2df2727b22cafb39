package bucketer

// Verdict says what becomes of an entry after its job was looked at.
type Verdict uint8

// The verdicts.
const (
	// Publish: the entry may start. The job's next occurrence is held.
	Publish Verdict = iota
	// Doubtful: as Publish, but only before an instant that the executor reads in the job's row.
	Doubtful
	// Dropped: nothing starts from the entry, and its rows say so.
	Dropped
	// Undecided: nothing is decided yet; to be asked again.
	Undecided
)
