package schema

import "errors"

// What a store answers besides success. Adapters translate their driver's errors into these,
// once, and wrap them with the act: test with errors.Is.
var (
	// ErrNotFound: there is no such row, and a quorum said so.
	ErrNotFound = errors.New("not found")

	// ErrConflict: the condition of a conditional write did not hold; nothing was written.
	ErrConflict = errors.New("conflict")

	// ErrUnknown: a write may or may not have happened, and may still happen. Read before deciding;
	// repeating an unconditional write with the same timestamp is always right.
	ErrUnknown = errors.New("outcome unknown")

	// ErrUnavailable: the store could not answer. Of a read nothing may be concluded. A single
	// write did not happen; of a batch, any part may have.
	ErrUnavailable = errors.New("unavailable")

	// ErrNotUnderstood: a row is there that this program cannot understand. Another version wrote
	// it, it names a time zone that this program does not have, or it is damaged. Nothing was
	// written.
	ErrNotUnderstood = errors.New("not understood")

	// ErrTooLarge: a row is larger than the store takes; nothing was written.
	ErrTooLarge = errors.New("too large")
)
