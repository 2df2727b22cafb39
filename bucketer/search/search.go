package search

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Bounds of one answer, and of all of a node.
const (
	// maxPartitions is how many partitions of due times an answer looks into. One minute is looked
	// into in any case.
	maxPartitions = 2048
	// searchTime is how long an answer may take before it says where to go on, besides the read
	// that is under way then.
	searchTime = 5 * time.Second
	// pageRuns is how many runs are read at a time.
	pageRuns = 500
	// maxCounted is how many runs one answer counts.
	maxCounted = 20_000
	// partitionRate is how many partitions a second all searches of a node begin to read.
	partitionRate = 2000
	// furtherCost is how often the partitions of a minute count for a further page of it: their
	// rows, and the attempts of these.
	furtherCost = 2
)

// Core tells time, shards and rows (bucketer.Bucketer).
type Core interface {
	Now() time.Time
	ShardsEver() (int, error)
	Stored(ctx context.Context, ids []schema.EntryID) (map[schema.EntryID]schema.Entry, error)
}

// Runs reads runs (runs.Reader).
type Runs interface {
	Runs(ctx context.Context, w runs.Window, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error)
	Fold(ctx context.Context, rows []schema.Entry) ([]runs.Run, error)
}

// Letters reads dead letters (schema.DeadLetterStore).
type Letters interface {
	DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error)
}

// Searcher searches. Its methods may be called from any goroutine.
type Searcher struct {
	core    Core
	runs    Runs
	letters Letters
	kept    time.Duration // how long dead letters are
	pace    *rate.Limiter // of partitions
}

// New returns a Searcher. kept is how long dead letters are kept.
func New(core Core, r Runs, letters Letters, kept time.Duration) *Searcher {
	return &Searcher{core, r, letters, kept, rate.NewLimiter(partitionRate, schema.MaxShards)}
}

// Query says which runs are looked for.
type Query struct {
	runs.Window      // both of its ends must be stated
	Oldest      bool // from the oldest minute on, instead of from the newest
}

// By says by what runs were found.
type By string

// By what runs are found.
const (
	ByScan    By = "scan"         // every partition of the window was read
	ByFailed  By = "dead_letters" // of runs that have failed: their dead letters
	ByHistory By = "job"          // of one job: its history
)

// Searched says how far a search has come.
type Searched struct {
	By By
	// Until: all runs of the window were looked at that are due then or later; with Oldest, before
	// then.
	Until time.Time
	// Partitions is how many partitions this answer looked into, about.
	Partitions int
}

// Position is where a search goes on. The zero Position is its beginning.
type Position struct {
	Minute schema.Bucket `json:"minute,omitzero"` // which minute is looked at
	After  runs.Position `json:"after"`           // the run that was looked at last in it
	// Of dead letters: in which day, and before which run; zero: from the newest of the day.
	Day    int          `json:"day,omitzero"`
	Before schema.RunID `json:"before,omitzero"`
}

// SearchRuns returns at most limit runs that q selects, from pos on, how far it came, and where to
// go on; nil: all was looked at. About the order and what an answer may cost see the package. An
// answer may hold fewer runs than limit, even none, and still say where to go on.
//
// Runs that have failed are found by their dead letters, if q asks for no other state and those are
// still kept: a moment after the failure, and at the due time that the run had first.
func (s *Searcher) SearchRuns(ctx context.Context, q *Query, pos Position, limit int) ([]runs.Run, Searched, *Position, error) {
	a := s.answer(q, limit)
	look := a.walk
	if s.indexed(q, &pos) {
		look = a.failed
	}
	next, err := look(ctx, pos)
	if err != nil {
		return nil, Searched{}, nil, err
	}
	return a.found, a.searched, next, nil
}

// answer is an answer in the making.
type answer struct {
	*Searcher
	q        *Query
	limit    int // of what is taken
	taken    int
	until    time.Time // when it is to end
	moved    bool      // it has come further than where it began: only then it may end by time
	searched Searched
	found    []runs.Run
	take     func([]runs.Run) // what becomes of what matches
}

func (s *Searcher) answer(q *Query, limit int) *answer {
	a := &answer{Searcher: s, q: q, limit: limit, until: s.core.Now().Add(searchTime)}
	a.take = func(page []runs.Run) { a.found = append(a.found, page...) }
	return a
}

// add takes runs that match.
func (a *answer) add(page []runs.Run) {
	a.taken += len(page)
	a.take(page)
}

// room returns how many more runs may be taken.
func (a *answer) room() int { return a.limit - a.taken }
