package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/search"
	"carillon.dev/carillon/schema"
)

// Search finds and counts runs of long windows (engine.Engine).
type Search interface {
	SearchRuns(ctx context.Context, q *search.Query, pos search.Position, limit int) ([]runs.Run, search.Searched, *search.Position, error)
	CountRuns(ctx context.Context, q *search.Query, pos search.Position) (search.Counts, search.Searched, *search.Position, error)
}

const (
	statesPath  = statsPath + "/states"
	historyPath = "/v1/history"

	// orderNewest is the order of a list of runs that is a search.
	orderNewest = "newest"
	// maxSearchWindow is the longest window of a search; defaultSearchSpan is how far one goes back
	// where no from is stated, and statesSpan how far counts go back and ahead.
	maxSearchWindow   = 366 * 24 * time.Hour
	defaultSearchSpan = 24 * time.Hour
	statesSpan        = time.Hour
	// lateRows is how long after its end a day may be exported: rows may come late.
	lateRows = 10 * time.Second

	// nextCursorHeader and searchedHeader are headers of an export.
	nextCursorHeader = "Carillon-Next-Cursor"
	searchedHeader   = "Carillon-Searched-Until"
)

// searchCost says what a search may cost.
const searchCost = "Runs have no index of labels, tasks and texts of errors: a search reads the minutes of its window, all their partitions (a minute has as many as there are shards), and an answer says in searched how far it came. " +
	"An answer is bounded: it ends after at most 2048 partitions or 5 seconds, and has next_cursor while there is more, so it may hold fewer items than limit, even none. " +
	"All searches of a node together read at most 2000 partitions a second. A node has at most 16 searches under way, those of logs among them, and 4 of one tenant: what is over is answered 429."

// Searched says how far a search has come.
type Searched struct {
	By         string `json:"by" enum:"scan,dead_letters,job" doc:"What found the runs. scan: every partition of the window was read. dead_letters, job: an index"`
	Until      Time   `json:"until,omitzero" doc:"All runs of the window that are due then or later were looked at; in an export: those that are due before then"`
	Partitions int    `json:"partitions" doc:"How many partitions of due times this answer looked into, about"`
}

func searchedOf(s search.Searched) *Searched {
	return &Searched{By: string(s.By), Until: Time{s.Until}, Partitions: s.Partitions}
}

// RunStates counts runs by where they are on their way.
type RunStates struct {
	From       Time             `json:"from" doc:"The window that is counted"`
	To         Time             `json:"to"`
	Ready      int64            `json:"ready" doc:"Due, and not started"`
	DueSoon    int64            `json:"due_soon" doc:"Due within the next 5 minutes"`
	Delayed    int64            `json:"delayed" doc:"Due later than that, or waiting for a later attempt or for other jobs"`
	Running    int64            `json:"running"`
	Done       int64            `json:"done" doc:"Ended, however"`
	States     map[string]int64 `json:"states" doc:"By state, as lists of runs show it; states without runs are left out"`
	Waiting    map[string]int64 `json:"waiting" doc:"How many of those that are ready or delayed may not start yet, by the word with which waiting of a run says why: concurrency, rate, slot, limit, quota, breaker, target_share, tenant_share, region, pool, jobs. Words without runs are left out"`
	Complete   bool             `json:"complete" doc:"All of the window was counted. Else the numbers are those of a part of it, from searched.until on: ask again with next_cursor, and add up"`
	Searched   Searched         `json:"searched"`
	NextCursor string           `json:"next_cursor,omitempty" doc:"Present until all was counted"`
}

type (
	statesFilter struct {
		Cursor string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same question"`
		From   time.Time `query:"from" doc:"First due time; default: an hour ago"`
		To     time.Time `query:"to" doc:"Due times before this one; default: in an hour. At most 366 days after from"`
		Task   string    `query:"task" doc:"Only runs of this task"`
		Host   string    `query:"host" maxLength:"260" doc:"Only runs whose HTTP call goes to this host"`
		Label  []string  `query:"label,explode" maxItems:"16" doc:"Only runs that have this label, as name=value; stated again: and that"`
		OneOff bool      `query:"one_off" doc:"Only runs of one-off jobs"`
		By     string    `query:"created_by" maxLength:"256" doc:"Only runs whose created_by is this"`
	}
	statesAnswer struct{ Body RunStates }

	historyFilter struct {
		Day    string `query:"day" required:"true" format:"date" doc:"Runs that were due on this day, in UTC. It must have ended 10 s ago" example:"2026-11-20"`
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"500" doc:"The most lines of one answer"`
		Cursor string `query:"cursor" maxLength:"1024" doc:"Carillon-Next-Cursor of the answer before; opaque, and good only for the same day"`
	}
)

// searchRoutes serves searches, counts and exports of runs.
type searchRoutes struct{ *Server }

func (s searchRoutes) route() {
	op := s.operation("get-stats-states", http.MethodGet, statesPath, "How many runs are ready, due soon, delayed, running and done, and in which states", 200, 422, 429, 503)
	op.Description = "Of the tenant, by due time. The numbers are exact for the part of the window that was counted, each run in the state that it had then; they are no estimate. " + searchCost
	huma.Register(s.api, op, s.countStates)
	op = s.operation("export-history", http.MethodGet, historyPath, "The runs that were due on a day, a line each", 200, 404, 422, 429, 503)
	op.Description = "Each line is a run as lists of runs have it, without payloads and outputs, in the order of due times, in the state that it has when it is read. Steps of workflow runs are not in it: GET /v1/runs?workflow_run= lists them. " +
		"An answer that does not come to the end of the day has the header " + nextCursorHeader + ": ask again with it. Whoever keeps the lines of an answer together with that cursor gets each run once, also after a break. " +
		"History is kept as long as runs are: for the retention of the tenant, if it has one. A day that began before that lacks what has left. " + searchCost
	run := s.schema(reflect.TypeFor[Run]())
	op.Responses["200"].Content = map[string]*huma.MediaType{ndjson: {Schema: run}}
	op.Responses["200"].Headers = map[string]*huma.Param{
		nextCursorHeader: {Description: "Where the export goes on; absent: at its end", Schema: &huma.Schema{Type: huma.TypeString}},
		searchedHeader:   {Description: "All runs that were due before then are exported", Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	}
	huma.Register(s.api, op, s.exportHistory)
}

// searchCursor is where a search goes on. It holds its window, since the ends of that may be left
// to the first answer.
type searchCursor struct {
	From time.Time       `json:"from"`
	To   time.Time       `json:"to"`
	At   search.Position `json:"at"`
}

// begin begins a search of the caller's tenant, or says why it may not.
func (s searchRoutes) begin(ctx context.Context) (end func(), err error) {
	if s.deps.Search == nil {
		return nil, notFound("This node searches no runs.")
	}
	end, ok := s.searches.begin(tenantOf(ctx))
	if !ok {
		return nil, tooManySearches()
	}
	return end, nil
}

// listNewest lists runs from the newest minute to the oldest: a search.
func (s searchRoutes) listNewest(ctx context.Context, in *runFilter) (*runList, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	q := search.Query{Window: runs.Window{Tenant: tenantOf(ctx), From: in.From.UTC(), To: in.To.UTC()}}
	var faults bucketer.Faults
	q.Filter, faults = in.filter()
	for _, p := range []selection{{"at", !in.At.IsZero()}, {"step", in.Step != ""}} {
		if p.stated {
			faults = append(faults, bucketer.Fault{Location: "query." + p.name, Message: "cannot be asked for beside order"})
		}
	}
	job, what, err := runRoutes(s).jobOfQuery(ctx, in.Job)
	switch {
	case err != nil:
		return nil, s.fail(ctx, "search runs", err)
	case what != "":
		faults = append(faults, bucketer.Fault{Location: "query.job", Message: what, Value: in.Job})
	}
	question := []any{"runs newest", q.Window, job}
	calls := q.CallsTo(func(tenant, task string) (schema.Task, error) { return s.deps.Tasks.Task(ctx, tenant, task) })
	if !job.IsZero() {
		out, err := s.listJobNewest(ctx, in, &q.Window, job, question, faults)
		if unread := calls.Unread(); err == nil && unread != nil {
			return nil, s.fail(ctx, "search runs", unread)
		}
		return out, err
	}
	now := s.config.Now().UTC()
	if q.To.IsZero() {
		q.To = now.Add(time.Second) // with what is due right now
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultSearchSpan)
	}
	c := searchCursor{From: q.From, To: q.To}
	faults = append(faults, checkWindow(q.From, q.To, maxSearchWindow)...)
	faults = append(faults, beforeKept(ctx, s.Server, in.Cursor, q.From)...)
	if err := s.goOn(in.Cursor, question, &c, faults); err != nil {
		return nil, err
	}
	q.From, q.To = c.From, c.To
	page, searched, next, err := s.deps.Search.SearchRuns(ctx, &q, c.At, in.Limit)
	if err == nil {
		err = calls.Unread() // a run may be missing whose task could not be read
	}
	if err != nil {
		return nil, s.fail(ctx, "search runs", err)
	}
	var at any
	if next != nil {
		at = searchCursor{q.From, q.To, *next}
	}
	out, err := runRoutes(s).answerRuns(ctx, page, question, at)
	if err == nil {
		out.Body.Searched = searchedOf(searched)
	}
	return out, err
}

// listJobNewest lists runs of a job, by its history. That needs no window.
func (s searchRoutes) listJobNewest(ctx context.Context, in *runFilter, w *runs.Window, job schema.JobID, question any, faults bucketer.Faults) (*runList, error) {
	faults = append(faults, checkYears(w.From, w.To)...)
	faults = append(faults, beforeKept(ctx, s.Server, in.Cursor, w.From)...)
	if !w.From.IsZero() && !w.To.IsZero() && !w.To.After(w.From) {
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be after from"})
	}
	var pos runs.Position
	if err := s.goOn(in.Cursor, question, &pos, faults); err != nil {
		return nil, err
	}
	out, err := runRoutes(s).listWindow(ctx, w, job, pos, in.Limit, question)
	if err == nil {
		out.Body.Searched = searchedOf(search.Searched{By: search.ByHistory})
	}
	return out, err
}

func (s searchRoutes) countStates(ctx context.Context, in *statesFilter) (*statesAnswer, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	asked := runFilter{Task: in.Task, Host: in.Host, Label: in.Label, OneOff: in.OneOff, CreatedBy: in.By}
	q := search.Query{Window: runs.Window{Tenant: tenantOf(ctx), From: in.From.UTC(), To: in.To.UTC()}}
	var faults bucketer.Faults
	q.Filter, faults = asked.filter()
	question := []any{"states of runs", q.Window}
	calls := q.CallsTo(func(tenant, task string) (schema.Task, error) { return s.deps.Tasks.Task(ctx, tenant, task) })
	now := s.config.Now().UTC()
	if q.From.IsZero() {
		q.From = sooner(now, q.To).Add(-statesSpan)
	}
	if q.To.IsZero() {
		q.To = now.Add(statesSpan)
	}
	c := searchCursor{From: q.From, To: q.To}
	faults = append(faults, checkWindow(q.From, q.To, maxSearchWindow)...)
	faults = append(faults, beforeKept(ctx, s.Server, in.Cursor, q.From)...)
	if err := s.goOn(in.Cursor, question, &c, faults); err != nil {
		return nil, err
	}
	q.From, q.To = c.From, c.To
	counts, searched, next, err := s.deps.Search.CountRuns(ctx, &q, c.At)
	if err == nil {
		err = calls.Unread()
	}
	if err != nil {
		return nil, s.fail(ctx, "count runs", err)
	}
	out := &statesAnswer{RunStates{
		From: Time{q.From}, To: Time{q.To}, Complete: next == nil, Searched: *searchedOf(searched), States: make(map[string]int64, len(counts.States)), Waiting: counts.Waits,
		Ready: counts.Phases[search.Ready], DueSoon: counts.Phases[search.DueSoon], Delayed: counts.Phases[search.Delayed],
		Running: counts.Phases[search.Running], Done: counts.Phases[search.Done],
	}}
	for state, n := range counts.States {
		out.Body.States[string(state)] = n
	}
	if next != nil {
		if out.Body.NextCursor, err = s.cursors.make(question, searchCursor{q.From, q.To, *next}); err != nil {
			return nil, s.fail(ctx, "count runs", err)
		}
	}
	return out, nil
}

// sooner returns x, or y if that is stated and before it.
func sooner(x, y time.Time) time.Time {
	if !y.IsZero() && y.Before(x) {
		return y
	}
	return x
}

func (s searchRoutes) exportHistory(ctx context.Context, in *historyFilter) (*huma.StreamResponse, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var faults bucketer.Faults
	day, err := time.Parse(time.DateOnly, in.Day)
	switch {
	case err != nil:
		faults = bucketer.Faults{{Location: "query.day", Message: "must be a date such as 2026-11-20", Value: in.Day}}
	case s.config.Now().Before(day.AddDate(0, 0, 1).Add(lateRows)):
		faults = bucketer.Faults{{Location: "query.day", Message: "has not ended yet, in UTC", Value: in.Day}}
	}
	if kept, days := keptFrom(ctx, s.Server); err == nil && (in.Cursor == "" || in.Cursor == onlyFaults) && days > 0 && !day.AddDate(0, 0, 1).After(kept) {
		faults = append(faults, bucketer.Fault{
			Location: "query.day", Message: "must not have ended more than " + numberOfDays(days) + " ago: so long the tenant keeps history (its retention)", Value: in.Day,
		})
	}
	var at search.Position
	question := []any{"history", tenantOf(ctx), day}
	if err := s.goOn(in.Cursor, question, &at, faults); err != nil {
		return nil, err
	}
	q := search.Query{Window: runs.Window{Tenant: tenantOf(ctx), From: day, To: day.AddDate(0, 0, 1)}, Oldest: true}
	page, searched, next, err := s.deps.Search.SearchRuns(ctx, &q, at, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "export history", err)
	}
	var goesOn any
	if next != nil {
		goesOn = next
	}
	list, err := runRoutes(s).answerRuns(ctx, page, question, goesOn)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	for i := range list.Body.Items {
		if err := lines.Encode(historyLine(&list.Body.Items[i])); err != nil {
			return nil, s.fail(ctx, "export history", err)
		}
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", ndjson)
		hc.SetHeader("Content-Length", strconv.Itoa(text.Len())) // the caller sees that an answer broke off
		hc.SetHeader(searchedHeader, searched.Until.UTC().Format(time.RFC3339Nano))
		if list.Body.NextCursor != "" {
			hc.SetHeader(nextCursorHeader, list.Body.NextCursor)
		}
		hc.SetStatus(http.StatusOK)
		_, _ = hc.BodyWriter().Write(text.Bytes()) // a caller that has gone needs no answer
	}}, nil
}

// historyLine returns a run as history has it: without what callers and targets said.
func historyLine(r *Run) *Run {
	r.Payload = nil
	for i := range r.Attempts {
		r.Attempts[i].Output = ""
	}
	return r
}
