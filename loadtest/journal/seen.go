package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// SeenWriter makes the lines of a sink's record. It does no I/O: the sink decides when bytes go to the
// file.
//
//	{"start":NS}                         the sink started; arrivals count from 1 again
//	{"n":1,"run":…,"path":…,"attempt":1,"fence":…,"due":…,"at":NS,"end":NS,"status":200}
//	{"n":1,"end":NS,"status":200}        the end of an arrival that was written without one
//	{"n":1,"end":NS,"status":0,"gone":NS}  the same; its caller went away at that time
//	{"n":1,"end":NS,"status":429,"retry_after":3}  the same; the answer asked for a wait, in seconds
//	{"n":1,"run":…,…,"body":HASH}        its content, see check.Sent; and only where they are unusual:
//	                                     "key" and "job" (the run's id), "type" (JSON), "custom" (none)
//	{"mark":N}                           all up to arrival N is in the file, and no more has come
//	{"close":N}                          the sink stopped in order after N arrivals
//
// A record is complete if every start is followed by its close or, the last one, by a mark of all its
// arrivals.
type SeenWriter struct{}

// Arrival is one call of the sink, as it stood in the request.
type Arrival struct {
	N              int64
	Run, Path, Due string
	From           string // address of the caller; "": it was on this machine
	Attempt, Fence int64
	At, End        time.Time // zero End: not ended yet
	Gone           time.Time // when the caller went away; zero: it did not
	Status         int
	RetryAfter     time.Duration // that the answer asked for, in whole seconds; 0: none
	Sent           *check.Sent   // what it carried; nil: not recorded
}

// Start adds the line of a start.
func (SeenWriter) Start(b []byte, at time.Time) []byte { return number(b, `{"start":`, at.UnixNano()) }

// Mark adds a line: n arrivals are in the file.
func (SeenWriter) Mark(b []byte, n int64) []byte { return number(b, `{"mark":`, n) }

// Close adds the line of an orderly stop.
func (SeenWriter) Close(b []byte, n int64) []byte { return number(b, `{"close":`, n) }

func number(b []byte, head string, n int64) []byte {
	b = append(b, head...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, '}', '\n')
}

// Arrival adds the line of a.
func (SeenWriter) Arrival(b []byte, a *Arrival) []byte {
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, a.N, 10)
	b = append(b, `,"run":`...)
	b = appendString(b, a.Run)
	b = append(b, `,"path":`...)
	b = appendString(b, a.Path)
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, a.Attempt, 10)
	b = append(b, `,"fence":`...)
	b = strconv.AppendInt(b, a.Fence, 10)
	b = append(b, `,"due":`...)
	b = appendString(b, a.Due)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, a.At.UnixNano(), 10)
	if a.From != "" {
		b = appendString(append(b, `,"from":`...), a.From)
	}
	b = appendSent(b, a.Sent, a.Run)
	if !a.End.IsZero() {
		b = appendEnd(b, a)
	}
	return append(b, '}', '\n')
}

func appendSent(b []byte, s *check.Sent, run string) []byte {
	if s == nil {
		return b
	}
	b = append(b, `,"body":`...)
	b = strconv.AppendUint(b, uint64(s.Body), 10)
	for _, f := range []struct{ name, value, usual string }{
		{`,"key":`, s.Key, run}, {`,"job":`, s.Job, run}, {`,"type":`, s.Type, check.JSONType},
	} {
		if f.value != f.usual {
			b = appendString(append(b, f.name...), f.value)
		}
	}
	if s.Custom != 0 {
		b = append(b, `,"custom":`...)
		b = strconv.AppendUint(b, uint64(s.Custom), 10)
	}
	return b
}

// End adds the line of the end of a.
func (SeenWriter) End(b []byte, a *Arrival) []byte {
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, a.N, 10)
	b = appendEnd(b, a)
	return append(b, '}', '\n')
}

func appendEnd(b []byte, a *Arrival) []byte {
	b = append(b, `,"end":`...)
	b = strconv.AppendInt(b, a.End.UnixNano(), 10)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	if !a.Gone.IsZero() {
		b = append(b, `,"gone":`...)
		b = strconv.AppendInt(b, a.Gone.UnixNano(), 10)
	}
	if a.RetryAfter > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, int64(a.RetryAfter/time.Second), 10)
	}
	return b
}

type seenLine struct {
	Start   int64   `json:"start"`
	Mark    *int64  `json:"mark"`
	Close   *int64  `json:"close"`
	N       int64   `json:"n"`
	Run     *string `json:"run"`
	Path    string  `json:"path"`
	Attempt int     `json:"attempt"`
	Fence   int64   `json:"fence"`
	Due     string  `json:"due"`
	From    string  `json:"from"`
	At      int64   `json:"at"`
	End     int64   `json:"end"`
	Status  int     `json:"status"`
	Gone    int64   `json:"gone"`
	After   int64   `json:"retry_after"`

	Body   *check.Hash `json:"body"`
	Custom check.Hash  `json:"custom"`
	Key    *string     `json:"key"`
	Job    *string     `json:"job"`
	Type   *string     `json:"type"`
}

// sent returns the content of the call; nil if the line does not say.
func (l *seenLine) sent() *check.Sent {
	if l.Body == nil {
		return nil
	}
	usual := func(s *string, otherwise string) string {
		if s == nil {
			return otherwise
		}
		return *s
	}
	return &check.Sent{
		Key: usual(l.Key, *l.Run), Job: usual(l.Job, *l.Run), Type: usual(l.Type, check.JSONType), Body: *l.Body, Custom: l.Custom,
	}
}

// gone returns when the caller went away; zero if it did not.
func (l *seenLine) gone() time.Time {
	if l.Gone == 0 {
		return time.Time{}
	}
	return time.Unix(0, l.Gone).UTC()
}

// ended copies the end of an arrival into g.
func (l *seenLine) ended(g *check.Sighting) {
	g.Status, g.Gone, g.RetryAfter = l.Status, l.gone(), time.Duration(l.After)*time.Second
	if l.End != 0 {
		g.End = time.Unix(0, l.End).UTC()
	}
}

// seenReader puts the lines together.
type seenReader struct {
	seen []check.Sighting
	open map[int64]int // arrivals of this start without an end → index in seen
	n    int64         // arrivals since the start
	all  bool          // no earlier start left a gap
	// closed and marked are the state of the present start.
	started, closed, marked bool
}

// ReadSeen reads a sink's record: the arrivals, in the order of the file, and whether it is
// complete. An empty record is not complete: there was no sink.
func ReadSeen(r io.Reader) (seen []check.Sighting, all bool, err error) {
	s := seenReader{open: map[int64]int{}, all: true}
	// a sink that starts again after a kill finds half a line and ends it
	torn := func(next []byte) bool {
		var l seenLine
		return json.Unmarshal(next, &l) == nil && l.Start != 0
	}
	if err := eachLine(r, s.line, torn); err != nil {
		return nil, false, fmt.Errorf("read what the sink saw: %w", err)
	}
	return s.seen, s.all && s.started && (s.closed || s.marked), nil
}

// ReadSeenFile reads a sink's record.
func ReadSeenFile(path string) (seen []check.Sighting, all bool, err error) {
	seen, err = ReadFile(path, func(r io.Reader) ([]check.Sighting, error) {
		seen, whole, err := ReadSeen(r)
		all = whole
		return seen, err
	})
	return seen, all, err
}

func (s *seenReader) line(_ int, b []byte) error {
	var l seenLine
	if err := json.Unmarshal(b, &l); err != nil {
		s.marked, s.closed = false, false
		return err
	}
	switch {
	case l.Start != 0:
		if s.started && !s.closed {
			s.all = false
		}
		s.started, s.closed, s.marked, s.n = true, false, false, 0
		clear(s.open)
	case l.Mark != nil:
		s.marked = *l.Mark == s.n
	case l.Close != nil:
		s.closed = *l.Close == s.n
	case l.Run == nil:
		i, ok := s.open[l.N]
		if !ok {
			return fmt.Errorf("the end of arrival %d, which is not open", l.N)
		}
		l.ended(&s.seen[i])
		delete(s.open, l.N)
	default:
		s.arrival(&l)
	}
	return nil
}

func (s *seenReader) arrival(l *seenLine) {
	s.n++
	s.marked, s.closed = false, false
	g := check.Sighting{Run: *l.Run, Attempt: l.Attempt, Fence: l.Fence, From: l.From, At: time.Unix(0, l.At).UTC()}
	g.Ref, _ = check.ParseRef(l.Path)
	g.Sent = l.sent()
	g.Due, _ = time.Parse(time.RFC3339Nano, l.Due) // recorded, not believed
	if l.ended(&g); l.End == 0 {
		s.open[l.N] = len(s.seen)
	}
	s.seen = append(s.seen, g)
}
