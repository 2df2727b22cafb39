package runs

import (
	"encoding/hex"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// Run is a run as its rows tell it.
type Run struct {
	ID       schema.RunID
	Entry    schema.Entry     // the row that the run was born with
	Current  schema.Entry     // the entry that starts it: another one after a reschedule
	Attempts []schema.Attempt // ordered by number and fence, attempt 0 first
	State    schema.State
	// Progress is the last that the attempt under way reported. Only Reader.Run reads it.
	Progress *schema.RunProgress
	// Waits: of a workflow run: nothing but waits is under way. Only lists say it (Reader.NoteWaits).
	Waits bool
}

// Change is a validated change of a pending one-off job. Nil fields stay as they are.
type Change struct {
	// Of is the entry of which the change was made (Run.Current). If another one starts the run
	// now, the answer is ErrConflict. Zero means whichever starts it.
	Of schema.EntryID
	// Fires: the run waits for other jobs, and they have ended as it asks for. No other change of
	// such a run is taken.
	Fires bool

	At       *time.Time // a new instant; zero time = now
	Payload  *[]byte    // a new payload; nil slice = none
	Priority *schema.Priority
	Labels   *map[string]string
	Work     *schema.Work    // replaces the inline work …
	Task     *string         // … or the task
	Misfire  *schema.Misfire // a new misfire policy; zero = the default
}

// Position is where a listing goes on. The zero Position is the start of the window.
type Position struct {
	After schema.EntryID // the last entry walked over, in the order of ids over all shards
}

// MarshalText returns 32 hexadecimal digits. After may lie between the ids of two buckets, so the
// form of an id would not do.
func (p Position) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, p.After[:]), nil }

// UnmarshalText is the inverse of MarshalText.
func (p *Position) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(p.After)) {
		return errors.New("not a position")
	}
	_, err := hex.Decode(p.After[:], text)
	return err
}
