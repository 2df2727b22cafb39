package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// A View is a view of the page, as it is when it is opened from the navigation or by a link.
type View string

// The views.
const (
	Overview View = "overview"
	Runs     View = "runs" // those of the last 15 minutes, the latest first
	// the same list, of runs that are to come
	NextHour View = "runs due in the next hour"
	NextDay  View = "runs due in the next 24 hours"
	Jobs     View = "jobs"
	Job      View = "job" // now and next, of a job that can have many runs
	Cluster  View = "cluster"
	// Upcoming is no view, but a question of the Overview alone: of the hour that begins in two, which
	// the page does not ask for.
	Upcoming View = "coming minutes"
	// Nor are these: the search of runs, the latest due first, of the next hour. The first finds
	// what it wants in the first partitions. The second wants a label that no run has, and is asked
	// once: its answer ends when it has cost what a search may.
	Newest View = "runs searched, newest first"
	Sought View = "runs searched by a label that none has"
	// Onward asks for the page of a search that follows the one asked for before.
	Onward View = "runs searched, page after page"
)

// The intervals of api/live.ts, from an answer to the next request: of what a person watches, of
// lists, of what hardly changes.
const (
	fast   = 2 * time.Second
	steady = 5 * time.Second
	slow   = 30 * time.Second
	// whoEvery is that of session.ts.
	whoEvery = 30 * time.Second
)

const (
	statsPath     = "/v1/stats"
	topPath       = "/v1/stats/top"
	upcomingPath  = "/v1/stats/upcoming"
	runsPath      = "/v1/runs"
	jobsPath      = "/v1/jobs"
	clusterPath   = "/v1/cluster"
	regionsPath   = "/v1/regions"
	whoamiPath    = "/v1/whoami"
	tenantsPath   = "/v1/tenants"
	previewPath   = "/v1/schedules/preview"
	workflowsPath = "/v1/workflows"
	jobPath       = jobsPath + "/{id}"
	nextPath      = jobPath + "/upcoming"
	historyPath   = jobPath + "/runs"
)

const (
	pageSize = 50 // of lists
	// A list is asked for again until it has half a page, or enoughCalls were made (api/pages.ts).
	enough, enoughCalls = pageSize / 2, 5
	// The search for the latest runs (views/Runs.tsx).
	latestLimit, latestCalls = 500, 24
	latestGuess              = 15 * time.Second
	latestPatience           = 4 * time.Second
	usualSpan                = 15 * time.Minute
)

// files are what a browser loads of the page itself, the page first.
var files = []string{"", "theme.js", "app.js", "app.css", "icon.svg"}

// A question is what the page asks, once or again and again.
type question struct {
	method string // "" = GET
	path   string // as the OpenAPI document has it
	every  time.Duration
	// ofJob: it can be asked once the job is known.
	ofJob bool
	ask   func(ctx context.Context, c *Console, q *question) (Seen, error)
}

// Seen is what an answer shows.
type Seen struct {
	Items int   // of lists
	Due   int64 // runs in coming minutes
	// again is when it is asked again; 0 = at its interval.
	again time.Duration
}

// who is asked before all others, and kept up to date.
var who = question{path: whoamiPath, every: whoEvery, ask: plain(nil)}

// ofEveryView is what all views ask.
var ofEveryView = []question{
	{path: tenantsPath, ask: plain(func(time.Time) url.Values { return url.Values{"limit": {"500"}} })},
}

// views is what each of them asks.
var views = map[View][]question{
	Overview: {
		minutes(3, fast), minutes(60, slow), minutes(360, slow),
		{path: clusterPath, every: fast, ask: plain(nil)},
		{path: upcomingPath, every: slow, ask: upcoming(0)},
		{path: topPath, every: steady, ask: plain(func(now time.Time) url.Values {
			return url.Values{"by": {"job"}, "from": {instant(now.Add(-time.Hour))}, "to": {instant(now)}}
		})},
		{path: topPath, every: slow, ask: plain(func(now time.Time) url.Values {
			return url.Values{"by": {"host"}, "from": {instant(now.Add(-time.Hour))}, "to": {instant(now)}}
		})},
		{path: workflowsPath, every: slow, ask: plain(func(time.Time) url.Values {
			return url.Values{"waiting": {"true"}, "limit": {"500"}}
		})},
	},
	Runs:     {{path: runsPath, every: steady, ask: askLatest}},
	NextHour: {{path: runsPath, every: steady, ask: coming(time.Hour)}},
	NextDay:  {{path: runsPath, every: steady, ask: coming(24*time.Hour - 2*time.Second)}},
	Jobs: {{path: jobsPath, every: steady, ask: func(ctx context.Context, c *Console, q *question) (Seen, error) {
		return c.gather(ctx, q, url.Values{"limit": {strconv.Itoa(pageSize)}})
	}}},
	Job: {
		{path: jobPath, every: steady, ask: askJob},
		{path: nextPath, every: steady, ofJob: true, ask: plain(func(time.Time) url.Values { return url.Values{"count": {"10"}} })},
		{method: http.MethodPost, path: previewPath, ofJob: true, ask: askPreview},
		{path: historyPath, every: steady, ofJob: true, ask: plain(func(time.Time) url.Values { return url.Values{"limit": {"8"}} })},
	},
	Cluster: {
		{path: clusterPath, every: fast, ask: plain(nil)},
		{path: regionsPath, ask: plain(nil)}, // once, as without regions
	},
	Upcoming: {{path: upcomingPath, every: slow, ask: upcoming(2 * time.Hour)}},
	Newest: {{path: runsPath, every: steady, ask: func(ctx context.Context, c *Console, q *question) (Seen, error) {
		return c.gather(ctx, q, ofNextHour(time.Now()))
	}}},
	Sought: {{path: runsPath, every: steady, ask: plain(func(now time.Time) url.Values {
		query := ofNextHour(now)
		query.Set("label", "team=none")
		return query
	})}},
	Onward: {{path: runsPath, every: steady, ask: askOnward}},
}

// instant writes a time as browsers do.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// plain asks, and looks at nothing but whether there is an answer.
func plain(query func(now time.Time) url.Values) func(context.Context, *Console, *question) (Seen, error) {
	return func(ctx context.Context, c *Console, q *question) (Seen, error) {
		var asked url.Values
		if query != nil {
			asked = query(time.Now())
		}
		_, err := c.fetch(ctx, q, asked, nil)
		return Seen{}, err
	}
}

// minutes asks for the counts of the last so many minutes, with the one under way (api/minutes.ts).
func minutes(count int, every time.Duration) question {
	return question{path: statsPath, every: every, ask: plain(func(now time.Time) url.Values {
		to := now.Truncate(time.Minute).Add(time.Minute)
		return url.Values{"from": {instant(to.Add(-time.Duration(count) * time.Minute))}, "to": {instant(to)}}
	})}
}

// upcoming asks for the coming hour, or the one that begins after so long. Minutes that were not
// counted yet are, a moment later.
func upcoming(after time.Duration) func(context.Context, *Console, *question) (Seen, error) {
	return func(ctx context.Context, c *Console, q *question) (Seen, error) {
		query := url.Values{"minutes": {"60"}}
		if after > 0 {
			query.Set("from", instant(time.Now().Add(after)))
		}
		var list struct{ Items []struct{ Runs *int64 } }
		if err := c.decode(ctx, q, query, nil, &list); err != nil {
			return Seen{}, err
		}
		seen := Seen{Items: len(list.Items)}
		for _, m := range list.Items {
			if m.Runs == nil {
				seen.again = fast
				continue
			}
			seen.Due += *m.Runs
		}
		return seen, nil
	}
}

// runPage is a page of a list, of which runs have due times.
type runPage struct {
	Items []struct {
		DueAt time.Time `json:"due_at"`
	}
	Next string `json:"next_cursor"`
}

// gather asks for the first pages of a list.
func (c *Console) gather(ctx context.Context, q *question, query url.Values) (Seen, error) {
	var seen Seen
	for range enoughCalls {
		var page runPage
		if err := c.decode(ctx, q, query, nil, &page); err != nil {
			return Seen{}, err
		}
		if seen.Items += len(page.Items); seen.Items >= enough || page.Next == "" {
			break
		}
		query.Set("cursor", page.Next)
	}
	return seen, nil
}

// coming asks for the runs that are due within a span from now on.
func coming(span time.Duration) func(context.Context, *Console, *question) (Seen, error) {
	return func(ctx context.Context, c *Console, q *question) (Seen, error) {
		now := time.Now()
		return c.gather(ctx, q, url.Values{"from": {instant(now)}, "to": {instant(now.Add(span))}, "limit": {strconv.Itoa(pageSize)}})
	}
}

// ofNextHour asks the search for runs that are due in the next hour, the latest first.
func ofNextHour(now time.Time) url.Values {
	return url.Values{"from": {instant(now)}, "to": {instant(now.Add(time.Hour))}, "limit": {strconv.Itoa(pageSize)}, "order": {"newest"}}
}

// askOnward asks for the next page of the search for runs of the next hour.
func askOnward(ctx context.Context, c *Console, q *question) (Seen, error) {
	if c.onward == nil {
		c.onward = ofNextHour(time.Now())
	}
	var page runPage
	if err := c.decode(ctx, q, c.onward, nil, &page); err != nil {
		return Seen{}, err
	}
	c.onward.Set("cursor", page.Next)
	return Seen{Items: len(page.Items)}, nil
}

// askLatest looks for the latest runs of the last 15 minutes. What is due in this second belongs to
// them.
func askLatest(ctx context.Context, c *Console, q *question) (Seen, error) {
	now := time.Now()
	end := now.Add(latestPatience)
	ms := func(t time.Time) float64 { return float64(t.UnixMilli()) }
	at := func(ms float64) string { return instant(time.UnixMilli(int64(ms))) }
	found, err := latestOf(func(s slice) (duePage, error) {
		query := url.Values{"from": {at(s.from)}, "to": {at(s.to)}, "limit": {strconv.Itoa(latestLimit)}}
		if s.cursor != "" {
			query.Set("cursor", s.cursor)
		}
		var page runPage
		if err := c.decode(ctx, q, query, nil, &page); err != nil {
			return duePage{}, err
		}
		read := duePage{next: page.Next}
		for _, run := range page.Items {
			read.due = append(read.due, ms(run.DueAt))
		}
		return read, nil
	}, ms(now.Add(-usualSpan)), ms(now.Add(time.Second)), search{
		want: pageSize, guess: c.guess, calls: latestCalls, late: func() bool { return time.Now().After(end) },
	})
	if err != nil {
		return Seen{}, err
	}
	c.guess = found.span
	return Seen{Items: min(len(found.due), 2*pageSize)}, nil
}

// knownJob is what the view of a job knows of it.
type knownJob struct {
	ID       string
	Schedule map[string]any
	Jitter   string
}

func askJob(ctx context.Context, c *Console, q *question) (Seen, error) {
	var job knownJob
	if err := c.decode(ctx, q, nil, nil, &job); err != nil {
		return Seen{}, err
	}
	c.know(&job)
	return Seen{Items: 1}, nil
}

// askPreview asks for the notes on the job's schedule, if it has one.
func askPreview(ctx context.Context, c *Console, q *question) (Seen, error) {
	job := c.job.Load()
	parts := []string{"cron", "timezone", "gap", "overlap_hour"}
	if job.Schedule["cron"] == nil {
		parts = []string{"every", "anchor"}
	}
	asked := map[string]any{}
	for name, value := range job.Schedule {
		if slices.Contains(parts, name) {
			asked[name] = value
		}
	}
	if len(asked) == 0 {
		return Seen{}, nil
	}
	body := map[string]any{"schedule": asked, "count": 1}
	if job.Jitter != "" {
		body["jitter"] = job.Jitter
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Seen{}, err
	}
	_, err = c.fetch(ctx, q, nil, text)
	return Seen{}, err
}
