package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// nobody hears no hint and no signal.
type nobody struct{}

func (nobody) Near(schema.Shard, []schema.Entry) {}
func (nobody) Signal(string, []byte)             {}

// graveyard is a node with a real bucketer over a store in memory, and the runs of it that have
// failed.
type graveyard struct {
	t     *testing.T
	store *embedded.Store
	b     *engine.Engine
	hs    *httptest.Server
	o     *adminStub
}

func newGraveyard(t *testing.T, change ...func(*Config, *Deps)) *graveyard {
	t.Helper()
	now := func() time.Time { return testNow }
	store, err := embedded.Open(embedded.Config{Shards: 4, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close = %v", err)
		}
	})
	b, err := engine.New(bucketer.Config{Store: store, Hints: nobody{}, Signals: nobody{}, Now: now})
	if err == nil {
		err = b.Refresh(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &graveyard{t: t, store: store, b: b, o: newAdminStub()}
	g.hs = serve(t, newStub(), append([]func(*Config, *Deps){func(_ *Config, d *Deps) {
		d.Jobs, d.Runs, d.Tasks, d.Recurring, d.DeadLetters, d.Audit = b, b, b, b, b, g.o
	}}, change...)...)
	return g
}

// expired is what the callee has to say of it.
const expired = "{\n  \"error\": \"card 4242 is expired\"\n}"

// dead makes a run of the tenant that has failed for good, due so long before now.
func (g *graveyard) dead(tenant string, ago time.Duration) schema.RunID {
	g.t.Helper()
	return g.deadOf(tenant, ago, func(*schema.Spec) {})
}

// deadOf is dead with what change makes of the run.
func (g *graveyard) deadOf(tenant string, ago time.Duration, change func(*schema.Spec)) schema.RunID {
	g.t.Helper()
	id := schema.MakeEntryID(testNow.Add(-ago), 1, schema.RandomHash())
	spec := schema.Spec{
		Tenant: tenant, Nominal: id.Time(), Accepted: testNow.UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}},
	}
	change(&spec)
	return g.deadSaying(id, spec, expired)
}

// deadSaying makes a run that has failed for good by an answer with that body.
func (g *graveyard) deadSaying(id schema.RunID, spec schema.Spec, body string) schema.RunID {
	g.t.Helper()
	e, err := schema.NewEntry(id, spec, []byte(`{"n":1}`), testNow.Add(24*time.Hour))
	if err != nil {
		g.t.Fatal(err)
	}
	a := schema.Attempt{
		Run: id, Number: 1, Fence: 1, Written: testNow.UnixMicro(), Expires: testNow.Add(24 * time.Hour),
		Record: &schema.Record{
			Entry: id, Executor: "x", Started: testNow.Add(-time.Second), Finished: testNow, Outcome: schema.Failed, Error: "answered 400 Bad Request", Status: 400, Final: true, Output: body, OutputSize: int64(len(body)),
		},
	}
	if err := errors.Join(g.store.PutEntries(context.Background(), []schema.Entry{e}), g.store.PutAttempts(context.Background(), []schema.Attempt{a})); err != nil {
		g.t.Fatal(err)
	}
	g.b.FollowUp(context.Background(), []bucketer.Finished{{Entry: e, Attempt: a}}, func(_ int, err error) {
		if err != nil {
			g.t.Fatal(err)
		}
	})
	return id
}

type letterPage struct {
	Items      []DeadLetter `json:"items"`
	NextCursor string       `json:"next_cursor"`
}

func TestDeadLetterIsShownReplayedAndDiscarded(t *testing.T) {
	g := newGraveyard(t)
	id, other := g.dead("default", time.Hour), g.dead("default", 2*time.Hour)
	path := "/v1/dead-letters/" + id.String()
	var run Run
	doJSON(t, g.hs, call{method: "GET", path: "/v1/runs/" + id.String()}, 200, &run)
	if run.State != schema.StateFailed || !run.DeadLetter || !run.ReplayedAs.IsZero() {
		t.Errorf("run = %s, dead letter %v, replayed as %s; want failed, and a dead letter", run.State, run.DeadLetter, run.ReplayedAs)
	}
	var got DeadLetter
	doJSON(t, g.hs, call{method: "GET", path: path}, 200, &got)
	want := DeadLetter{
		ID: id, JobID: schema.JobOf(id), Tenant: "default", State: "waiting", Priority: schema.Normal, NominalAt: Time{id.Time()}, DueAt: Time{id.Time()},
		StartedAt: Time{testNow.Add(-time.Second)}, FailedAt: Time{testNow}, ExpiresAt: Time{testNow.Add(30 * 24 * time.Hour)}, Attempts: 1,
		Outcome: schema.Failed, Error: "answered 400 Bad Request: { \"error\": \"card 4242 is expired\" }", Pattern: "answered 400 Bad Request", StatusCode: 400, Output: expired, Payload: []byte(`{"n":1}`),
		History: []Attempt{{
			Number: 1, Executor: "x", StartedAt: Time{testNow.Add(-time.Second)}, FinishedAt: Time{testNow}, Outcome: schema.Failed,
			Error: "answered 400 Bad Request: { \"error\": \"card 4242 is expired\" }", StatusCode: 400, Output: expired, OutputSize: int64(len(expired)),
		}},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("GET %s = %+v\nwant %+v", path, got, want)
	}

	var first, second Run
	header := doJSON(t, g.hs, call{method: "POST", path: path + "/replay"}, 201, &first)
	if first.Origin != id || first.State != schema.StatePending || header.Get("Location") != "/v1/runs/"+first.ID.String() || header.Get("Idempotency-Replayed") != "" {
		t.Errorf("POST replay = %+v, header %v; want a new run of that origin", first, header)
	}
	if header := doJSON(t, g.hs, call{method: "POST", path: path + "/replay"}, 201, &second); second.ID != first.ID || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("POST replay again = %s, replayed %q; want %s", second.ID, header.Get("Idempotency-Replayed"), first.ID)
	}
	doJSON(t, g.hs, call{method: "GET", path: path}, 200, &got)
	if got.State != "replayed" || got.Replay != first.ID || got.ReplayState != schema.StatePending || got.ReplayedBy != anonymous || !got.ReplayedAt.Equal(testNow) {
		t.Errorf("GET %s after the replay = %+v, want it replayed as %s", path, got, first.ID)
	}
	var done letterPage
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?state=replayed&error_pattern=answered+400+Bad+Request"}, 200, &done)
	if len(done.Items) != 1 || done.Items[0].ID != id || done.Items[0].Replay != first.ID || done.Items[0].ReplayState != schema.StatePending {
		t.Errorf("GET those that were replayed = %+v, want %s alone, and how its new run stands", done.Items, id)
	}
	var left letterPage
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?error_pattern=answered+400+Bad+Request"}, 200, &left)
	if len(left.Items) != 1 || left.Items[0].ID != other {
		t.Errorf("GET those of the error that wait = %+v, want %s", left.Items, other)
	}
	if doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?error_pattern=timed+out"}, 200, &left); len(left.Items) != 0 {
		t.Errorf("GET those of another error = %+v, want none", left.Items)
	}
	run = Run{} // what is absent now was there
	doJSON(t, g.hs, call{method: "GET", path: "/v1/runs/" + id.String()}, 200, &run)
	if run.State != schema.StateFailed || run.DeadLetter || run.ReplayedAs != first.ID {
		t.Errorf("run after the replay = %s, dead letter %v, replayed as %s; want failed, none, and as %s", run.State, run.DeadLetter, run.ReplayedAs, first.ID)
	}
	doJSON(t, g.hs, call{method: "DELETE", path: path}, 204, nil) // it is gone already

	otherPath := "/v1/dead-letters/" + other.String()
	for range 2 {
		doJSON(t, g.hs, call{method: "DELETE", path: otherPath}, 204, nil)
	}
	listed := struct{ Items []Run }{}
	doJSON(t, g.hs, call{method: "GET", path: fmt.Sprintf("/v1/runs?from=%s&to=%s", testNow.Add(-3*time.Hour).Format(time.RFC3339), testNow.Add(-time.Second).Format(time.RFC3339))}, 200, &listed)
	for i := range listed.Items {
		want := map[schema.RunID]schema.RunID{id: first.ID}[listed.Items[i].ID]
		if r := &listed.Items[i]; r.DeadLetter || r.ReplayedAs != want {
			t.Errorf("run %s is listed with a dead letter %t, replayed as %s; want none, and as %s", r.ID, r.DeadLetter, r.ReplayedAs, want)
		}
	}
	if len(listed.Items) != 2 {
		t.Errorf("%d runs are listed, want 2", len(listed.Items))
	}
	doProblem(t, g.hs, call{method: "GET", path: otherPath}, 404)
	doProblem(t, g.hs, call{method: "POST", path: otherPath + "/replay"}, 404)
	var page letterPage
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters"}, 200, &page)
	if len(page.Items) != 0 || page.NextCursor != "" {
		t.Errorf("GET /v1/dead-letters = %+v, want none", page)
	}
	var acts []string
	for _, act := range g.o.acts {
		acts = append(acts, act.Action+" "+act.Object+" "+act.Note)
	}
	if want := []string{"replay dead-letter/" + id.String() + " run " + first.ID.String(), "discard dead-letter/" + other.String() + " "}; !slices.Equal(acts, want) {
		t.Errorf("audit: %q, want %q", acts, want)
	}
}

func TestDeadLettersAreListedPageByPage(t *testing.T) {
	g := newGraveyard(t)
	var want []schema.RunID
	for i := range 7 {
		want = append(want, g.dead("default", time.Duration(i)*20*time.Hour))
	}
	g.dead("other", time.Hour)
	g.dead("default", 40*24*time.Hour) // before what is listed where nothing is stated
	list := func(query string) (got []schema.RunID) {
		for cursor := ""; ; {
			var page letterPage
			doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?" + query + cursor}, 200, &page)
			for _, l := range page.Items {
				if l.Payload != nil || l.History != nil {
					t.Errorf("a list shows payload %s and attempts %v", l.Payload, l.History)
				}
				got = append(got, l.ID)
			}
			if page.NextCursor == "" {
				return got
			}
			cursor = "&cursor=" + page.NextCursor
		}
	}
	if got := list("limit=3"); !slices.Equal(got, want) {
		t.Errorf("GET /v1/dead-letters = %v, want %v", got, want)
	}
	window := "limit=2&from=" + want[5].Time().Format(time.RFC3339Nano) + "&to=" + want[2].Time().Format(time.RFC3339Nano)
	if got := list(window); !slices.Equal(got, want[3:6]) {
		t.Errorf("GET /v1/dead-letters of a window = %v, want %v", got, want[3:6])
	}
	if got := list("task=mail"); len(got) != 0 {
		t.Errorf("GET /v1/dead-letters of a task = %v, want none", got)
	}

	var page letterPage
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?limit=3"}, 200, &page)
	for name, query := range map[string]string{
		"a forged cursor":      "limit=3&cursor=AAAA",
		"a cut cursor":         "limit=3&cursor=" + page.NextCursor[:len(page.NextCursor)-4],
		"of another list":      "limit=3&task=mail&cursor=" + page.NextCursor,
		"backwards":            "from=2026-11-21T01:00:00Z&to=2026-11-21T01:00:00Z",
		"too long":             "from=2025-01-01T00:00:00Z&to=2026-11-21T01:00:00Z",
		"a name that is none":  "task=A%20b",
		"no time":              "from=yesterday",
		"too many":             "limit=501",
		"a year without form":  "from=9999-12-31T23:59:59-01:00",
		"a state, though none": "state=failed",
	} {
		p := doProblem(t, g.hs, call{method: "GET", path: "/v1/dead-letters?" + query}, 422)
		if len(p.Errors) == 0 {
			t.Errorf("%s: %+v, want the fault", name, p)
		}
	}
	// A cursor of another tenant's list.
	doProblem(t, g.hs, call{method: "GET", path: "/v1/dead-letters?limit=3&cursor=" + page.NextCursor, header: http.Header{tenantHeader: {"other"}}}, 422)
}

// TestDeadLettersOfAJobAndALabel: lists take the words of replay and discard.
func TestDeadLettersOfAJobAndALabel(t *testing.T) {
	g := newGraveyard(t)
	var job Job
	doJSON(t, g.hs, call{method: "POST", path: "/v1/jobs", body: `{"name":"nightly","nats":{"subject":"s"},"schedule":{"every":"1000h"}}`}, 201, &job)
	oneOff := g.dead("default", time.Hour)
	var of, billing []schema.RunID
	for i := range 6 {
		id := g.deadOf("default", time.Duration(i+2)*time.Hour, func(s *schema.Spec) {
			s.Job, s.JobName, s.Labels = job.ID, "nightly", map[string]string{"team": "billing", "n": fmt.Sprint(i % 2)}
			if i >= 4 {
				s.Labels["team"] = "mail"
			}
		})
		of = append(of, id)
		if i < 4 {
			billing = append(billing, id)
		}
	}
	list := func(query string) (got []schema.RunID) {
		t.Helper()
		for cursor := ""; ; {
			var page letterPage
			doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?limit=2&" + query + cursor}, 200, &page)
			for _, l := range page.Items {
				got = append(got, l.ID)
			}
			if page.NextCursor == "" {
				return got
			}
			cursor = "&cursor=" + page.NextCursor
		}
	}
	for query, want := range map[string][]schema.RunID{
		"job=nightly":                               of,
		"job=" + job.ID.String():                    of,
		"job=" + schema.JobOf(oneOff).String():      {oneOff},
		"label=team%3Dbilling":                      billing,
		"label=team%3Dbilling&label=n%3D0":          {of[0], of[2]},
		"job=nightly&label=team%3Dmail&label=n%3D1": {of[5]},
		"label=team%3D":                             nil,
		"label=none%3Dx":                            nil,
	} {
		if got := list(query); !slices.Equal(got, want) {
			t.Errorf("GET /v1/dead-letters?%s = %v, want %v", query, got, want)
		}
	}
	p := doProblem(t, g.hs, call{method: "GET", path: "/v1/dead-letters?job=none&label=team&label=n%3D1&label=n%3D2&task=A!&from=2026-11-21T01:00:00Z&to=2026-11-21T01:00:00Z&cursor=AAAA"}, 422)
	var at []string
	for _, f := range p.Errors {
		at = append(at, f.Location)
	}
	slices.Sort(at)
	if want := []string{"query.cursor", "query.job", "query.label", "query.label", "query.task", "query.to"}; !slices.Equal(at, want) {
		t.Errorf("faults at %q, want all of %q", at, want)
	}
	var page letterPage
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?limit=2&label=n%3D0&label=team%3Dbilling"}, 200, &page)
	if page.NextCursor != "" {
		doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?limit=2&label=team%3Dbilling&label=n%3D0&cursor=" + page.NextCursor}, 200, nil)
		doProblem(t, g.hs, call{method: "GET", path: "/v1/dead-letters?limit=2&label=team%3Dbilling&cursor=" + page.NextCursor}, 422)
	}
}

// TestDeadLettersWithAText: lists take a part of the error that they show.
func TestDeadLettersWithAText(t *testing.T) {
	g := newGraveyard(t)
	var declined, all []schema.RunID
	for i := range 6 {
		id := schema.MakeEntryID(testNow.Add(-time.Duration(i+1)*time.Hour), 1, schema.RandomHash())
		spec := schema.Spec{Tenant: "acme", Nominal: id.Time(), Accepted: testNow.UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}}
		body := "database timeout"
		if i%2 == 0 {
			body = "{\"error\":\n \"Card declined\"}"
			declined = append(declined, id)
		}
		all = append(all, g.deadSaying(id, spec, body))
	}
	c := newClient(t, g.hs.URL)
	for _, row := range []struct {
		q    LetterQuery
		want []schema.RunID
	}{
		{LetterQuery{Error: "card DECLINED"}, declined},
		{LetterQuery{Error: `"error": "card`}, declined},
		{LetterQuery{Error: "answered 400"}, all},
		{LetterQuery{Error: "card declined", Pattern: "answered 400 Bad Request"}, declined},
		{LetterQuery{Error: "card declined", Pattern: "timed out"}, nil},
		{LetterQuery{Error: "card declined", Task: "mail"}, nil},
		{LetterQuery{Pattern: "answered 400 Bad Request"}, all},
	} {
		var got []schema.RunID
		row.q.From, row.q.To, row.q.Limit = testNow.Add(-24*time.Hour), testNow, 2
		for l, err := range c.DeadLetters(t.Context(), row.q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, l.ID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("DeadLetters(%+v) = %v, want %v", row.q, got, row.want)
		}
	}
	acme := http.Header{tenantHeader: {"acme"}}
	var page letterPage
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters?limit=1&error=card+declined", header: acme}, 200, &page)
	for query, location := range map[string]string{
		"error=a%0Ab":                                           "query.error",
		"error=" + strings.Repeat("a", 257):                     "query.error",
		"limit=1&cursor=" + page.NextCursor:                     "query.cursor",
		"limit=1&error=database&cursor=" + page.NextCursor:      "query.cursor",
		"limit=1&label=error%3Dcard&cursor=" + page.NextCursor:  "query.cursor",
		"error_pattern=card+declined&cursor=" + page.NextCursor: "query.cursor",
	} {
		if p := doProblem(t, g.hs, call{method: "GET", path: "/v1/dead-letters?" + query, header: acme}, 422); len(p.Errors) != 1 || p.Errors[0].Location != location {
			t.Errorf("GET /v1/dead-letters?%s: faults %+v, want one at %s", query, p.Errors, location)
		}
	}
}

func TestDeadLettersBelongToTheirTenant(t *testing.T) {
	g := newGraveyard(t)
	id := g.dead("theirs", time.Hour)
	ours := http.Header{tenantHeader: {"ours"}}
	path := "/v1/dead-letters/" + id.String()
	for _, c := range []call{{method: "GET", path: path}, {method: "POST", path: path + "/replay"}, {method: "DELETE", path: path}} {
		c.header = ours
		doProblem(t, g.hs, c, 404)
	}
	var page letterPage
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters", header: ours}, 200, &page)
	if len(page.Items) != 0 {
		t.Errorf("GET /v1/dead-letters = %+v, want none", page.Items)
	}
	var got DeadLetter
	doJSON(t, g.hs, call{method: "GET", path: path, header: http.Header{tenantHeader: {"theirs"}}}, 200, &got)
	if got.State != "waiting" {
		t.Errorf("state = %s, want waiting", got.State)
	}
}

func TestBadRequestsForDeadLetters(t *testing.T) {
	g := newGraveyard(t)
	id := g.dead("default", time.Hour)
	for name, c := range map[string]struct {
		call
		status int
	}{
		"no id":               {call{method: "GET", path: "/v1/dead-letters/x"}, 422},
		"no id, replayed":     {call{method: "POST", path: "/v1/dead-letters/x/replay"}, 422},
		"no id, discarded":    {call{method: "DELETE", path: "/v1/dead-letters/x"}, 422},
		"none, replayed":      {call{method: "POST", path: "/v1/dead-letters/" + somewhere + "/replay"}, 404},
		"a body":              {call{method: "POST", path: "/v1/dead-letters/" + id.String() + "/replay", body: `{"at":"now"}`}, 422},
		"a body that is none": {call{method: "POST", path: "/v1/dead-letters/" + id.String() + "/replay", body: `{`}, 400},
		"another method":      {call{method: "PUT", path: "/v1/dead-letters/" + id.String()}, 405},
	} {
		t.Run(name, func(t *testing.T) { doProblem(t, g.hs, c.call, c.status) })
	}
	var got DeadLetter
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters/" + id.String()}, 200, &got)
	if got.State != "waiting" {
		t.Errorf("state after all that = %s, want waiting", got.State)
	}
}

// A replay is a run that is asked for.
func TestReplaysComeOutOfTheQuota(t *testing.T) {
	g := newGraveyard(t, func(_ *Config, d *Deps) { d.Quotas = usedUp{} })
	id := g.dead("default", time.Hour)
	doProblem(t, g.hs, call{method: "POST", path: "/v1/dead-letters/" + id.String() + "/replay"}, 429)
	var got DeadLetter
	doJSON(t, g.hs, call{method: "GET", path: "/v1/dead-letters/" + id.String()}, 200, &got)
	if got.State != "waiting" {
		t.Errorf("state = %s, want waiting", got.State)
	}
}

// usedUp are quotas of which nothing is left.
type usedUp struct{ Quotas }

func (usedUp) AdmitRun(context.Context, string, int) error {
	return &admin.QuotaError{Quota: "runs_per_minute", Limit: 1, RetryAfter: time.Second}
}

func TestClientOfDeadLetters(t *testing.T) {
	g := newGraveyard(t)
	first, second := g.dead("acme", time.Hour), g.dead("acme", 2*time.Hour) // the client's tenant
	c := newClient(t, g.hs.URL)
	var ids []schema.RunID
	for l, err := range c.DeadLetters(t.Context(), LetterQuery{From: testNow.Add(-24 * time.Hour), To: testNow, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.ID)
	}
	if !slices.Equal(ids, []schema.RunID{first, second}) {
		t.Errorf("DeadLetters = %v, want both", ids)
	}
	run, err := c.ReplayDeadLetter(t.Context(), first)
	if err != nil || run.Origin != first {
		t.Errorf("ReplayDeadLetter = %+v, %v; want a run of that origin", run, err)
	}
	if err := c.DiscardDeadLetter(t.Context(), second); err != nil {
		t.Errorf("DiscardDeadLetter = %v", err)
	}
	if l, err := c.DeadLetter(t.Context(), first); err != nil || l.Replay != run.ID {
		t.Errorf("DeadLetter = %+v, %v; want it replayed as %s", l, err, run.ID)
	}
	var p *Problem
	if _, err := c.DeadLetter(t.Context(), second); !errors.As(err, &p) || p.Status != 404 {
		t.Errorf("DeadLetter of what was discarded = %v, want 404", err)
	}
}
