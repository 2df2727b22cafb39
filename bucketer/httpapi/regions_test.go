package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// regionsStub has other regions serve homes: it notes what it is asked for, and answers what it
// has.
type regionsStub struct {
	err     error
	already bool
	planned []schema.HomeChange
	begun   []schema.HomeChange
	refused []schema.ChangeFault
}

func (*regionsStub) Stand() RegionsStand {
	lag, executors, age := 0.7, 3, 0.2
	return RegionsStand{
		Region: "us", AsOf: Time{testNow},
		Regions: []RegionStand{{Name: "eu"}, {Name: "us", Local: true, LastSign: Time{testNow}, Node: "n", Lag: &lag, Executors: &executors}},
		Homes: []HomeStand{{
			Home: Home{Name: "eu", Region: "us", Epoch: 2, Served: true, LeaseAge: &age}, Shards: 4, Since: Time{testNow}, By: "ann", Reason: "drill",
			Change: HomeChangeViewOf(&schema.HomeProgress{Home: "eu", From: "eu", To: "us", By: "ann", Epoch: 1, Began: testNow, Since: testNow, Phase: schema.PhaseDone}, testNow),
		}},
	}
}

func (*regionsStub) Faults(c schema.HomeChange) (faults []schema.ChangeFault) {
	if c.Home != "eu" {
		faults = append(faults, schema.ChangeFault{Field: "home", Message: "there is no home " + c.Home + ": there are eu", Unknown: true})
	}
	if c.To != "us" && c.To != "eu" {
		faults = append(faults, schema.ChangeFault{Field: "to", Message: "there is no region " + c.To + ": there are eu, us", Unknown: true})
	}
	return faults
}

func (s *regionsStub) plan(c schema.HomeChange) schema.ChangePlan {
	executors := 3
	return schema.ChangePlan{
		Change: c, Was: schema.Epoch{Home: c.Home, Number: 1, Region: "eu"}, Already: s.already, HasSign: true, LastSign: 42 * time.Second, Lag: 500 * time.Millisecond,
		LostAtMost: 12500 * time.Millisecond, Executors: &executors, Announced: 12 * time.Second, Drained: c.Drain, Begins: 6 * time.Second, Refused: s.refused,
	}
}

func (s *regionsStub) Plan(_ context.Context, c schema.HomeChange) (schema.ChangePlan, error) {
	s.planned = append(s.planned, c)
	p := s.plan(c)
	p.Backlog = schema.HomeBacklog{Shards: 4, Sampled: 4, Settled: testNow, UnderWay: 120, LookedAt: 900, DueMeanwhile: 7}
	return p, s.err
}

func (s *regionsStub) Begin(_ context.Context, c schema.HomeChange) (schema.ChangePlan, schema.HomeProgress, error) {
	s.begun = append(s.begun, c)
	return s.plan(c), schema.HomeProgress{Home: c.Home, From: "eu", To: c.To, By: c.By, Reason: c.Reason, Forced: c.Forced, Epoch: 1, Began: testNow, Since: testNow, Phase: schema.PhaseChecking}, s.err
}

// deps gives a node the stub.
func (s *regionsStub) deps(_ *Config, d *Deps) { d.RegionChanges = s }

// TestAHomeIsPlannedMovedAndFailedOver: as it was asked for, and who did it stands in the audit
// log.
func TestAHomeIsPlannedMovedAndFailedOver(t *testing.T) {
	s, o := new(regionsStub), newAdminStub()
	hs := serve(t, newStub(), o.desk, s.deps)
	key := o.key("system/admin")
	post := func(act, body string) call {
		return call{method: "POST", path: "/v1/admin/regions/eu/" + act, body: body, header: key}
	}
	var a HomeChangeAnswer
	doJSON(t, hs, post("failover", `{"to":"us","plan":true}`), 200, &a)
	if p := a.Plan; !a.Planned || a.Change != nil || a.From != "eu" || a.Epoch != 2 || *p.LastSign != 42 || *p.Lag != 0.5 || *p.LostAtMost != 12.5 || *p.Executors != 3 || p.Unavailable != 6 || p.Backlog.UnderWay != 120 || p.Backlog.DueMeanwhile != 7 {
		t.Errorf("the plan of a fail-over is %+v", a)
	}
	if len(s.planned) != 1 || !s.planned[0].Forced || s.planned[0].Drain != 0 || s.planned[0].Sync || len(s.begun) != 0 || len(o.noted()) != 0 {
		t.Errorf("planned %+v, begun %+v, want one plan of a fail-over, and nothing noted", s.planned, s.begun)
	}
	a = HomeChangeAnswer{}
	doJSON(t, hs, post("failover", `{"to":"us","reason":"eu has no power","confirm":"eu","accept_lag":true}`), 200, &a)
	if want := (schema.HomeChange{Home: "eu", To: "us", By: "admin-key", Reason: "eu has no power", Forced: true, AcceptLag: true}); len(s.begun) != 1 || s.begun[0] != want || a.Planned || a.Change == nil || a.Plan.Backlog != nil {
		t.Errorf("begun %+v, answered %+v, want %+v", s.begun, a, want)
	}
	acts := o.noted()
	if len(acts) != 1 || acts[0].Tenant != "system" || acts[0].Actor != "admin-key" || acts[0].Action != "failover" || acts[0].Object != "home/eu" || acts[0].Note != "eu has no power" || acts[0].Before != (auditedEpoch{"eu", 1}) || acts[0].After != (auditedEpoch{"us", 2}) {
		t.Errorf("noted %+v, want who failed what over, and why", acts)
	}
	doJSON(t, hs, post("move", `{"to":"us","reason":"works","confirm":"eu"}`), 202, &a)
	doJSON(t, hs, post("move", `{"to":"us","reason":"works","confirm":"eu","drain":"0s","sync":false,"since":"2h","until":"1h","accept_no_executors":true}`), 202, &a)
	for i, want := range []schema.HomeChange{
		{Home: "eu", To: "us", By: "admin-key", Reason: "works", Drain: request.DefaultDrain, Sync: true, Until: request.DefaultUntil},
		{Home: "eu", To: "us", By: "admin-key", Reason: "works", Since: 2 * time.Hour, Until: time.Hour, AcceptNoExecutors: true},
	} {
		if s.begun[i+1] != want {
			t.Errorf("begun %+v, want %+v", s.begun[i+1], want)
		}
	}
	if acts := o.noted(); len(acts) != 2 || acts[0].Action != "move" || acts[0].Object != "home/eu" {
		t.Errorf("noted %+v, want two moves", acts)
	}
	var stand RegionsStand
	doJSON(t, hs, call{method: "GET", path: "/v1/admin/regions", header: o.key("system/viewer")}, 200, &stand)
	if len(stand.Regions) != 2 || len(stand.Homes) != 1 || stand.Homes[0].Change == nil || stand.Homes[0].Region != "us" || *stand.Regions[1].Lag != 0.7 {
		t.Errorf("GET /v1/admin/regions = %+v", stand)
	}
}

// TestAChangeOfAHomeIsRefused: each fault is named; nothing is begun, and nothing noted.
func TestAChangeOfAHomeIsRefused(t *testing.T) {
	decided := schema.Epoch{Home: "eu", Number: 2, Region: "us", By: "ann", Reason: "eu has no power", At: testNow}
	for name, row := range map[string]struct {
		path, body string
		err        error
		already    bool
		status     int
		kind       string
		want       []string // of the faults and the detail
	}{
		"nothing is stated":     {"eu/move", `{}`, nil, false, 422, "invalid", []string{"body.to is missing", "body.reason is missing", "body.confirm must be the name of the home"}},
		"all is wrong":          {"ap/failover", `{"to":"sa","confirm":"eu","drain":"4s"}`, nil, false, 422, "invalid", []string{"path.home there is no home ap", "body.to there is no region sa", "body.confirm", "body.reason", "body.drain is not a field"}},
		"a plan of what is not": {"ap/move", `{"to":"sa","plan":true}`, nil, false, 422, "invalid", []string{"path.home", "body.to"}},
		"values that are none":  {"eu/move", `{"to":7,"plan":"yes","drain":"1h","sync":1,"reason":"r","confirm":"eu"}`, nil, false, 422, "invalid", []string{"body.to must be a string", "body.plan must be true or false", "body.drain must be from 0s to 5m", "body.sync"}},
		"confirmed as another":  {"eu/move", `{"to":"us","reason":"r","confirm":"EU"}`, nil, false, 422, "invalid", []string{"body.confirm"}},
		"no executors, behind": {
			"eu/failover", `{"to":"us","reason":"r","confirm":"eu"}`,
			&schema.ChangeRefusedError{Faults: []schema.ChangeFault{{Field: "to", Message: "region us has no executor"}, {Field: "to", Message: "region us is behind"}}},
			false, 409, "home-not-changed",
			[]string{"body.to region us has no executor", "body.to region us is behind"},
		},
		"somebody else is at it": {
			"eu/move", `{"to":"us","reason":"r","confirm":"eu"}`, &schema.ChangeUnderWayError{By: schema.HomeProgress{Home: "eu", To: "us", By: "ann", Reason: "works", Phase: schema.PhaseDraining, Began: testNow}},
			false, 409, "change-under-way",
			[]string{"ann moves home eu to region us, since " + testNow.Format(time.RFC3339), "works"},
		},
		"somebody else was faster": {
			"eu/failover", `{"to":"us","reason":"r","confirm":"eu"}`, &schema.ChangeLostError{Stands: decided},
			false, 409, "home-decided",
			[]string{"ann decided that region us serves home eu (epoch 2): eu has no power; at " + testNow.Format(time.RFC3339)},
		},
		"where it is already":          {"eu/move", `{"to":"eu","reason":"r","confirm":"eu"}`, nil, true, 409, "home-not-changed", []string{"serves home eu already"}},
		"a plan to where it is":        {"eu/move", `{"to":"eu","plan":true}`, nil, true, 409, "home-not-changed", []string{"serves home eu already"}},
		"it is not known what stands":  {"eu/failover", `{"to":"us","reason":"r","confirm":"eu"}`, schema.ErrUnknown, false, 503, "unknown", nil},
		"no majority answers":          {"eu/failover", `{"to":"us","reason":"r","confirm":"eu"}`, schema.ErrUnavailable, false, 503, "unavailable", nil},
		"a name that no home has":      {"a.b/move", `{"to":"us","plan":true}`, nil, false, 422, "invalid", []string{"path.home is not the name of a home"}},
		"a body that is no JSON":       {"eu/move", `{`, nil, false, 400, "not-json", nil},
		"a body that is not an object": {"eu/move", `[]`, nil, false, 422, "invalid", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := &regionsStub{err: row.err, already: row.already}, newAdminStub()
			hs := serve(t, newStub(), o.deps, s.deps)
			p := doProblem(t, hs, call{method: "POST", path: "/v1/admin/regions/" + row.path, body: row.body}, row.status)
			said := p.Error()
			for _, want := range row.want {
				if !strings.Contains(said, want) {
					t.Errorf("the problem is %q, want %q in it", said, want)
				}
			}
			if p.Kind() != row.kind || len(o.noted()) != 0 || row.err == nil && !row.already && len(s.begun)+len(s.planned) > 0 {
				t.Errorf("kind %s, begun %+v, planned %+v, want %s and nothing", p.Kind(), s.begun, s.planned, row.kind)
			}
		})
	}
	for _, body := range []string{`{"to":"us","plan":true}`, `{}`, `{`} { // without regions, whatever the body has
		doProblem(t, serve(t, newStub()), call{method: "POST", path: "/v1/admin/regions/eu/move", body: body}, 404)
	}
	s := new(regionsStub)
	hs := serve(t, newStub(), s.deps, func(c *Config, _ *Deps) { c.ReadOnly = true })
	doProblem(t, hs, call{method: "POST", path: "/v1/admin/regions/eu/move", body: `{"to":"us","reason":"r","confirm":"eu"}`}, 403)
	doJSON(t, hs, call{method: "POST", path: "/v1/admin/regions/eu/move", body: `{"to":"us","plan":true}`}, 200, nil)
	if len(s.begun) != 0 || len(s.planned) != 1 {
		t.Errorf("a node that is read only has begun %+v and planned %+v, want the plan alone", s.begun, s.planned)
	}
}

// TestTheClientChangesHomes: the calls of the client are those of the API.
func TestTheClientChangesHomes(t *testing.T) {
	s := new(regionsStub)
	hs := serve(t, newStub(), s.deps)
	c, err := NewClient(ClientConfig{URLs: []string{hs.URL}, Retries: -1, HTTP: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	drain := schema.Duration(time.Second)
	if a, err := c.MoveHome(t.Context(), "eu", request.HomeChangeRequest{To: "us", Reason: "r", Confirm: "eu", Drain: &drain}); err != nil || a.Planned || s.begun[0].Drain != time.Second {
		t.Errorf("MoveHome = %+v, %v, begun %+v", a, err, s.begun)
	}
	if a, err := c.FailOverHome(t.Context(), "eu", request.HomeChangeRequest{To: "us", Plan: true}); err != nil || !a.Planned || !s.planned[0].Forced {
		t.Errorf("FailOverHome = %+v, %v, planned %+v", a, err, s.planned)
	}
	if stand, err := c.RegionsStand(t.Context()); err != nil || len(stand.Homes) != 1 || stand.Homes[0].Shards != 4 {
		t.Errorf("RegionsStand = %+v, %v", stand, err)
	}
}
