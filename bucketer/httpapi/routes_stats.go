package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

// Stats reads counts of minutes (admin.Stats).
type Stats interface {
	// Minutes returns the counts of all nodes together, From ≤ minute < To, by minute, and the nodes
	// that did not tell of the minute under way; minutes in which nothing was counted are left out.
	Minutes(ctx context.Context, q admin.MinutesQuery) (minutes []admin.Minute, missing []string, err error)
	// Top returns the counts by tenant, task, job or host.
	Top(ctx context.Context, q admin.TopQuery) (admin.Top, error)
}

// Upcoming estimates what is due in coming minutes (admin.Upcoming).
type Upcoming interface {
	Forecast(ctx context.Context, from time.Time, minutes int) (admin.Forecast, error)
}

// MinuteStats is what the cluster did in a minute.
type MinuteStats struct {
	Minute    Time          `json:"minute" doc:"Its begin"`
	Due       int64         `json:"due" doc:"Runs and later starts of them that were handed to executors for the first time"`
	Started   int64         `json:"started" doc:"Runs that were started for the first time"`
	Succeeded int64         `json:"succeeded" doc:"Attempts that succeeded"`
	Failed    int64         `json:"failed" doc:"Attempts that failed, timed out or were lost"`
	Missed    int64         `json:"missed" doc:"Runs that were recorded as missed"`
	MissedFor *MissedFor    `json:"missed_for,omitempty" doc:"Why they were; absent if none was"`
	Retried   int64         `json:"retried" doc:"Retries that were planned"`
	Late      int64         `json:"late" doc:"First starts later than 1 s after the run was due"`
	Lateness  *LatenessRank `json:"lateness,omitempty" doc:"Of first starts; absent if there were none"`
	Running   bool          `json:"running,omitempty" doc:"The minute is under way: counted so far, at most some 2 s ago"`
	Partial   bool          `json:"partial,omitempty" doc:"Of one tenant: so many tenants had runs in this minute that some were counted as one, this one perhaps among them"`
}

// LatenessRank is how late first starts were, in ms. Of all tenants together the ranks are right to
// about a tenth, else to the class.
type LatenessRank struct {
	P50     float64         `json:"p50_ms"`
	P99     float64         `json:"p99_ms"`
	Max     float64         `json:"max_ms"`
	Classes []LatenessClass `json:"classes,omitempty" doc:"How many starts were how late, of a minute: classes without a start are left out"`
}

// LatenessClass counts the starts that were later than the class before, and at most so late.
type LatenessClass struct {
	UpTo  float64 `json:"up_to_ms,omitempty" doc:"1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000 or 300000; absent: later than all of these"`
	Count int64   `json:"count"`
}

// MissedFor counts missed runs by why they were.
type MissedFor struct {
	Late     int64 `json:"late" doc:"Later than the misfire policy of their job allows"`
	UnderWay int64 `json:"under_way" doc:"Skipped: as many runs of the job were under way as may be, and its limit skips others"`
	Changed  int64 `json:"changed" doc:"The job was changed, paused or cancelled before they could start"`
	Fault    int64 `json:"fault" doc:"What is stored of them, or of their job, could not be read"`
}

func missedFor(missed int64, m *schema.MissedFor) *MissedFor {
	if missed == 0 {
		return nil
	}
	return &MissedFor{m.Late, m.UnderWay, m.Changed, m.Fault}
}

// StatsList is what the cluster did, minute by minute.
type StatsList struct {
	Scope        string        `json:"scope" enum:"all,tenant" doc:"Whose runs are counted"`
	Tenant       string        `json:"tenant,omitempty" doc:"The tenant, where it is one"`
	Items        []MinuteStats `json:"items"`
	MissingNodes []string      `json:"missing_nodes" doc:"Nodes that did not answer within a second: what they counted in the minute under way is not in it"`
}

// Sums are what was counted of runs, as MinuteStats has it.
type Sums struct {
	Due       *int64        `json:"due,omitempty" doc:"Absent for hosts: whoever hands a run to executors does not know where its task calls"`
	Started   int64         `json:"started"`
	Succeeded int64         `json:"succeeded"`
	Failed    int64         `json:"failed"`
	Missed    int64         `json:"missed"`
	MissedFor *MissedFor    `json:"missed_for,omitempty" doc:"Why they were; absent if none was"`
	Retried   int64         `json:"retried"`
	Late      int64         `json:"late" doc:"First starts later than 1 s after the run was due"`
	Lateness  *LatenessRank `json:"lateness,omitempty" doc:"Of first starts, right to the class; absent if there were none"`
}

// NameStats is what became of the runs of a tenant, task, job or host.
type NameStats struct {
	Name   string `json:"name" doc:"Of the tenant, the task, or the host with its port; of the job its name, or its id where it has none"`
	Tenant string `json:"tenant"`
	JobID  string `json:"job_id,omitempty" doc:"Of a job" format:"uuid"`
	Sums
	FailedFrom    Time   `json:"failed_from,omitzero" doc:"The first minute of the stretch in which an attempt failed"`
	FailedTo      Time   `json:"failed_to,omitzero" doc:"The last minute in which one did"`
	SucceededLast Time   `json:"succeeded_last,omitzero" doc:"The last minute of the stretch in which an attempt succeeded"`
	LastError     string `json:"last_error,omitempty" doc:"Why an attempt failed, about the latest of them; cut to 200 bytes. Not of tenants"`
}

// TopStats is what became of runs by name.
type TopStats struct {
	By           string      `json:"by" enum:"tenant,task,job,host"`
	Scope        string      `json:"scope" enum:"all,tenant" doc:"Whose runs are counted"`
	ScopedTenant string      `json:"tenant,omitempty" doc:"The tenant, where it is one"`
	Items        []NameStats `json:"items"`
	Others       *Sums       `json:"others,omitempty" doc:"All names together that are not among items; absent if there are none"`
	Kept         int         `json:"kept" doc:"How many names each node keeps of each minute; all others of the minute are counted as one"`
	Complete     bool        `json:"complete" doc:"No node had more names than it keeps. Else a name may have done more than is shown: the rest is counted in others, if all tenants are"`
	MissingNodes []string    `json:"missing_nodes" doc:"Nodes that did not answer within a second: what they counted in the minute under way is not in it"`
}

// UpcomingRuns is what is due in coming minutes.
type UpcomingRuns struct {
	Items         []UpcomingMinute `json:"items"`
	SampledShards int              `json:"sampled_shards" doc:"Of how many shards, at least, the rows of each minute were counted: the more, the better the estimate"`
	Shards        int              `json:"shards" doc:"Of how many there are"`
	AsOf          Time             `json:"as_of,omitzero" doc:"When one of the minutes was counted last; absent if none was"`
}

// UpcomingMinute is what is due in a minute.
type UpcomingMinute struct {
	Minute    Time   `json:"minute" doc:"Its begin"`
	Runs      *int64 `json:"runs,omitempty" doc:"About how many runs are due; absent if the minute has not been counted yet: ask again in a second"`
	Estimated bool   `json:"estimated" doc:"That runs is an estimate: true wherever it is there"`
}

const (
	statsPath    = "/v1/stats"
	topPath      = statsPath + "/top"
	upcomingPath = statsPath + "/upcoming"

	scopeAll    = "all"
	scopeTenant = "tenant"

	// maxStatsWindow is the longest stretch of one answer.
	maxStatsWindow = 24 * time.Hour
	// maxPast is how long ago the first of the coming minutes may be: clocks differ.
	maxPast = time.Hour
	// maxFuture is how far ahead it may be: as far as jobs.
	maxFuture = 3660 * 24 * time.Hour
)

type (
	statsFilter struct {
		From  time.Time `query:"from" doc:"First minute; default: an hour before to"`
		To    time.Time `query:"to" doc:"Minutes before this instant; default: now. At most 24 h after from"`
		Scope string    `query:"scope" enum:"all,tenant" doc:"Whose runs: of all tenants, which needs a key of the tenant system, or of the one that the request is for. Default: all for such a key, and where no key is asked for"`
	}
	statsAnswer struct{ Body StatsList }
	topFilter   struct {
		By    string    `query:"by" enum:"tenant,task,job,host" required:"true" doc:"What counts are kept apart by. Jobs are those that can have many runs; runs that state their work themselves are of no task; hosts are those that HTTP calls go to"`
		Limit int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of the answer"`
		From  time.Time `query:"from" doc:"First minute; default: an hour before to"`
		To    time.Time `query:"to" doc:"Minutes before this instant; default: now. At most 24 h after from"`
		Scope string    `query:"scope" enum:"all,tenant" doc:"Whose runs, as of GET /v1/stats"`
		Order string    `query:"order" enum:"activity,started,failed,missed,retried,late" default:"activity" doc:"Which come first. activity: what has many runs, of which those that failed, were missed or late weigh more"`
	}
	topAnswer      struct{ Body TopStats }
	upcomingFilter struct {
		From    time.Time `query:"from" doc:"In the first minute; default: now. At most an hour ago"`
		Minutes int       `query:"minutes" minimum:"1" maximum:"1440" default:"60" doc:"How many minutes"`
	}
	upcomingAnswer struct{ Body UpcomingRuns }
)

// statsRoutes serves counts of minutes.
type statsRoutes struct{ *Server }

func (s statsRoutes) route() {
	op := s.operation("get-stats", http.MethodGet, statsPath, "What the cluster did, minute by minute", 200, 422, 503)
	op.Description = "Of all tenants together, or of one. The minute under way is the last item: it is asked of all nodes. A run of one tenant counts as started once that is recorded: " +
		"up to two seconds later than of all together. Minutes in which nothing was counted are left out. Kept for 14 days."
	huma.Register(s.api, op, s.getStats)
	op = s.operation("get-stats-top", http.MethodGet, topPath, "What became of runs by tenant, task, job or host", 200, 422, 503)
	op.Description = "Which tenant is busy, which job fails, which host is slow: the counts of a stretch of time by name, with the minute under way. " +
		"Each node keeps the names of a minute that weigh most; runs that failed, were missed or late weigh more than others. Kept for 14 days."
	huma.Register(s.api, op, s.getTop)
	op = s.operation("get-stats-upcoming", http.MethodGet, upcomingPath, "About how many runs are due in each coming minute", 200, 422, 503)
	op.Description = "An estimate: the rows of two shards of each minute are counted in the background, every 30 s while somebody asks (minutes that are more than ten minutes ahead more seldom), " +
		"and stand for all shards. Of a recurring job only its next run is in it: later ones are no rows yet. Retries and deferred starts count, and so do runs that were cancelled."
	huma.Register(s.api, op, s.getUpcoming)
}

// window returns the window that is asked for, or its faults.
func (s statsRoutes) window(since, before time.Time) (from, to time.Time, err error) {
	from, to = since.UTC(), before.UTC()
	if before.IsZero() {
		to = s.config.Now().UTC()
	}
	if since.IsZero() {
		from = to.Add(-time.Hour)
	}
	switch {
	case !to.After(from):
		return from, to, invalid(bucketer.Fault{Location: "query.to", Message: "must be after from"})
	case to.Sub(from) > maxStatsWindow:
		return from, to, invalid(bucketer.Fault{Location: "query.to", Message: "must be at most 24 hours after from"})
	}
	return from, to, nil
}

// scope returns whose runs are asked for: of one tenant, or of all ("").
func (s statsRoutes) scope(ctx context.Context, asked string) (scope, tenant string, err error) {
	who := callerOf(ctx)
	switch {
	case asked == scopeTenant, asked == "" && !who.system:
		return scopeTenant, who.tenant, nil
	case !who.system:
		return "", "", forbidden("The counts of all tenants need a key of the tenant " + schema.SystemTenant + ". The key may have those of its own tenant: scope=tenant.")
	}
	return scopeAll, "", nil
}

func (s statsRoutes) getStats(ctx context.Context, in *statsFilter) (*statsAnswer, error) {
	if s.deps.Stats == nil {
		return nil, notFound("This node keeps no counts.")
	}
	from, to, err := s.window(in.From, in.To)
	if err != nil {
		return nil, err
	}
	out := new(statsAnswer)
	if out.Body.Scope, out.Body.Tenant, err = s.scope(ctx, in.Scope); err != nil {
		return nil, err
	}
	minutes, missing, err := s.deps.Stats.Minutes(ctx, admin.MinutesQuery{From: from, To: to, Tenant: out.Body.Tenant})
	if err != nil {
		return nil, s.fail(ctx, "read stats", err)
	}
	out.Body.MissingNodes = append([]string{}, missing...)
	out.Body.Items = make([]MinuteStats, len(minutes))
	for i := range minutes {
		out.Body.Items[i] = minuteStatsOf(&minutes[i])
	}
	return out, nil
}

func minuteStatsOf(m *admin.Minute) MinuteStats {
	out := MinuteStats{
		Minute: Time{m.Minute}, Due: m.Due, Started: m.Started, Succeeded: m.Succeeded, Failed: m.Failed, Missed: m.Missed, Retried: m.Retried,
		MissedFor: missedFor(m.Missed, &m.MissedFor), Late: m.Classes.Late(), Running: m.Running, Partial: m.Partial,
	}
	if out.Lateness = rankOf(m.Lateness); out.Lateness != nil {
		out.Lateness.Classes = classesOf(&m.Classes)
	}
	return out
}

// rankOf returns the ranks of starts, nil if there were none.
func rankOf(l admin.Lateness) *LatenessRank {
	if l.Count() == 0 {
		return nil
	}
	return &LatenessRank{P50: inMS(l.Rank(.5)), P99: inMS(l.Rank(.99)), Max: inMS(l.Rank(1))}
}

// classesOf returns the classes that have starts.
func classesOf(c *schema.LatenessCounts) (classes []LatenessClass) {
	for i, n := range c {
		if n == 0 {
			continue
		}
		class := LatenessClass{Count: n}
		if i < len(schema.LatenessBounds) {
			class.UpTo = inMS(schema.Duration(schema.LatenessBounds[i]))
		}
		classes = append(classes, class)
	}
	return classes
}

func inMS(d schema.Duration) float64 { return float64(d.Std().Microseconds()) / 1000 }

func (s statsRoutes) getTop(ctx context.Context, in *topFilter) (*topAnswer, error) {
	if s.deps.Stats == nil {
		return nil, notFound("This node keeps no counts.")
	}
	from, to, err := s.window(in.From, in.To)
	if err != nil {
		return nil, err
	}
	kind := schema.StatsKind(in.By)
	out := new(topAnswer)
	out.Body.By, out.Body.Kept = in.By, tally.Kept[kind]
	if out.Body.Scope, out.Body.ScopedTenant, err = s.scope(ctx, in.Scope); err != nil {
		return nil, err
	}
	top, err := s.deps.Stats.Top(ctx, admin.TopQuery{
		Kind: kind, From: from, To: to, Tenant: out.Body.ScopedTenant, Order: admin.Order(in.Order), Limit: in.Limit,
	})
	if err != nil {
		return nil, s.fail(ctx, "read stats by "+in.By, err)
	}
	out.Body.Complete, out.Body.MissingNodes = top.Complete, append([]string{}, top.Missing...)
	if top.Others != (schema.Counts{}) {
		others := sumsOf(&top.Others, kind)
		out.Body.Others = &others
	}
	out.Body.Items = make([]NameStats, len(top.Names))
	for i := range top.Names {
		out.Body.Items[i] = nameStatsOf(&top.Names[i], kind)
	}
	return out, nil
}

func nameStatsOf(n *schema.NameCounts, kind schema.StatsKind) NameStats {
	out := NameStats{
		Name: n.Name, Tenant: n.Tenant, Sums: sumsOf(&n.Counts, kind),
		FailedFrom: Time{n.FirstFailed}, FailedTo: Time{n.LastFailed}, SucceededLast: Time{n.LastSucceeded}, LastError: n.LastError,
	}
	switch {
	case kind == schema.ByTenant:
		out.Name = n.Tenant
	case kind == schema.ByJob:
		if out.JobID = n.Job.String(); out.Name == "" {
			out.Name = out.JobID
		}
	}
	return out
}

func sumsOf(c *schema.Counts, kind schema.StatsKind) Sums {
	out := Sums{
		Started: c.Started, Succeeded: c.Succeeded, Failed: c.Failed, Missed: c.Missed, MissedFor: missedFor(c.Missed, &c.MissedFor), Retried: c.Retried, Late: c.Lateness.Late(),
		Lateness: rankOf(admin.LatenessOf(&c.Lateness, c.MaxLateness)),
	}
	if kind != schema.ByHost {
		out.Due = &c.Due
	}
	return out
}

func (s statsRoutes) getUpcoming(ctx context.Context, in *upcomingFilter) (*upcomingAnswer, error) {
	if s.deps.Upcoming == nil {
		return nil, notFound("This node counts no coming minutes.")
	}
	now, from := s.config.Now().UTC(), in.From.UTC()
	if in.From.IsZero() {
		from = now
	}
	switch {
	case from.Before(now.Add(-maxPast)):
		return nil, invalid(bucketer.Fault{Location: "query.from", Message: "must be at most an hour ago"})
	case from.After(now.Add(maxFuture)):
		return nil, invalid(bucketer.Fault{Location: "query.from", Message: "must be at most ten years ahead"})
	}
	f, err := s.deps.Upcoming.Forecast(ctx, from, in.Minutes)
	if err != nil {
		return nil, s.fail(ctx, "read coming minutes", err)
	}
	out := new(upcomingAnswer)
	out.Body.SampledShards, out.Body.Shards, out.Body.AsOf = f.Sampled, f.Shards, Time{f.AsOf}
	out.Body.Items = make([]UpcomingMinute, len(f.Minutes))
	for i := range f.Minutes {
		m := &f.Minutes[i]
		out.Body.Items[i] = UpcomingMinute{Minute: Time{m.Minute}, Estimated: m.Known}
		if m.Known {
			out.Body.Items[i].Runs = &m.Runs
		}
	}
	return out, nil
}
