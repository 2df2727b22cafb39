package logs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Bounds of one answer.
const (
	// maxRuns is how many runs are looked at, maxReads how often a part of a log is read. Such a
	// read takes at most 512 KiB.
	maxRuns  = 500
	maxReads = 64
	// maxSlices is how many partitions of due times are looked into: those of a minute are as many
	// as there are shards. One minute is looked into in any case.
	maxSlices = 512
	// searchTime is how long an answer may take before it says where to go on, besides the read
	// that is under way then.
	searchTime = 5 * time.Second
	// pageRuns is how many runs are read at a time.
	pageRuns = 100
	// About how many partitions are looked into for such a page of a job's history, and of the
	// steps of a workflow run.
	historySlices, stepSlices = 64, 4
)

// Bounds of following.
const (
	// followLag is how long after its due time a run is found: by then its row is held, unless it
	// came late.
	followLag = 3 * time.Second
	// maxFollowed is how many runs are followed at once. When there are more, the oldest are let
	// go.
	maxFollowed = 32
)

// Core tells time and shards (bucketer.Bucketer).
type Core interface {
	Now() time.Time
	ShardsEver() (int, error)
}

// Runs reads runs (runs.Reader).
type Runs interface {
	Run(ctx context.Context, tenant string, id schema.RunID) (runs.Run, error)
	Runs(ctx context.Context, w runs.Window, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error)
	Reports(ctx context.Context, id schema.RunID, after schema.PartKey) (reports []runs.LogReport, more bool, err error)
}

// Jobs reads the history of jobs (recurring.Reader).
type Jobs interface {
	JobRuns(ctx context.Context, tenant string, id schema.JobID, f recurring.JobRunFilter, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error)
}

// Steps reads the runs of the steps of a workflow run (orchestration.Orchestrator).
type Steps interface {
	StepRuns(ctx context.Context, of *runs.Run, step string, f runs.Filter, after schema.RunID, limit int) (list []runs.Run, next schema.RunID, err error)
}

// Searcher finds lines in the logs of runs. Its methods may be called from any goroutine.
type Searcher struct {
	core  Core
	runs  Runs
	jobs  Jobs
	steps Steps
}

// New returns a Searcher.
func New(core Core, r Runs, jobs Jobs, steps Steps) *Searcher {
	return &Searcher{core: core, runs: r, jobs: jobs, steps: steps}
}

// Kind says what an item is.
type Kind string

// The kinds.
const (
	LineKind  Kind = "line"  // a line of log; or that so many lines were not kept
	ErrorKind Kind = "error" // why an attempt failed
)

// Query says what is looked for. Zero fields select all, unless they say otherwise.
type Query struct {
	Tenant string
	// From and To are due times of runs: From ≤ due < To. Both must be stated unless Job or Run is.
	From, To time.Time
	Job      schema.JobID // one that can have many runs
	Run      schema.RunID // this run alone
	// Task is that of runs, and of steps of workflow runs. Labels are those of runs, and of
	// workflow runs.
	Task   string
	Labels map[string]string
	Text   string // is part of the line, in letters of either case
	Kind   Kind   // "": both
	// Says returns the error of an attempt as it is shown; nil: as it is recorded.
	Says func(*schema.Record) string `json:"-"`
}

// filter returns what top-level runs are selected by.
func (q *Query) filter() runs.Filter {
	return runs.Filter{Task: q.Task, Labels: q.Labels, Workflows: true}
}

// Item is a line, or the error of an attempt.
type Item struct {
	Run     *runs.Run // whose it is; shared by its items
	Kind    Kind
	Attempt int
	At      time.Time // when its executor heard the line, or when the attempt ended; zero with Dropped
	Text    string
	Dropped int // no line: so many that came here were not kept
	key     string
}

// ID names the item: the same in every answer that has it.
func (i *Item) ID() string { return i.Run.ID.String() + "-" + i.key }

// Looked says what an answer has looked at.
type Looked struct {
	Runs  int // how many runs, steps of workflow runs among them
	Logs  int // how often a part of a log was read
	Lines int // how many lines and errors
	// Damaged is how many parts of logs could not be understood, and were passed over.
	Damaged int
	// Reached: all runs are looked at that are due then or later, and in the window. Of FollowLogs:
	// all that are due before it.
	Reached time.Time
	// Behind: FollowLogs has more to tell at once.
	Behind bool
	// LetGo is how many runs FollowLogs does not follow any more, because there are too many.
	LetGo int
}

// Page is an answer.
type Page struct {
	Items  []Item
	Looked Looked
}

// Position is where a search goes on. The zero Position is the beginning.
type Position struct {
	Minute schema.Bucket `json:"minute,omitzero"` // of a window: which minute is looked at
	// After is the run that was looked at last, in that minute or in the history of a job.
	After runs.Position `json:"after"`
	Run   schema.RunID  `json:"run,omitzero"` // the run that is half read; zero: none is
	Step  schema.RunID  `json:"step,omitzero"`
	// At is the reading of that run; of a workflow run: of its step In, behind Step.
	In schema.RunID `json:"in,omitzero"`
	At Reading      `json:"at"`
}

// Reading is where the reading of one run goes on.
type Reading struct {
	Log runs.LogPosition
	// Told is the last execution of which it was told how it ended.
	Told schema.PartKey
}

// MarshalText returns a short form: six numbers.
func (r Reading) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%d.%d.%d.%d.%d", r.Log.Report.Attempt, r.Log.Report.Fence, r.Log.Report.Number, r.Log.Line, r.Told.Attempt, r.Told.Fence), nil
}

// UnmarshalText is the inverse of MarshalText.
func (r *Reading) UnmarshalText(text []byte) error {
	n, err := fmt.Sscanf(string(text), "%d.%d.%d.%d.%d.%d", &r.Log.Report.Attempt, &r.Log.Report.Fence, &r.Log.Report.Number, &r.Log.Line, &r.Told.Attempt, &r.Told.Fence)
	if err != nil || n != 6 {
		return errors.New("not a reading of a log")
	}
	return nil
}

// answer is a Page in the making.
type answer struct {
	*Searcher
	q      *Query
	text   string // what is looked for, in small letters
	limit  int
	slices int       // partitions that were looked into, about
	until  time.Time // when it is to end
	moved  bool      // it has come further than where it began: only then it may end by time
	over   bool      // it has cost what it may
	page   Page
}

func (s *Searcher) answer(q *Query, limit int) *answer {
	return &answer{Searcher: s, q: q, text: strings.ToLower(q.Text), limit: limit, until: s.core.Now().Add(searchTime)}
}

func (a *answer) full() bool { return len(a.page.Items) >= a.limit }

// spent reports whether the answer must end: it is full, or has cost what it may.
func (a *answer) spent() bool {
	l := &a.page.Looked
	return a.full() || a.over || l.Runs >= maxRuns || l.Logs >= maxReads || a.moved && !a.core.Now().Before(a.until)
}

// affords reports whether the answer may look into so many partitions more: the first time it may.
func (a *answer) affords(slices int) bool {
	if a.slices > 0 && a.slices+slices > maxSlices {
		a.over = true
		return false
	}
	a.slices += slices
	return true
}

// take adds an item if it is looked for.
func (a *answer) take(i Item) {
	a.page.Looked.Lines++
	switch {
	case a.q.Kind != "" && i.Kind != a.q.Kind:
	case a.text != "" && (i.Dropped > 0 || !strings.Contains(strings.ToLower(i.Text), a.text)):
	default:
		a.page.Items = append(a.page.Items, i)
	}
}
