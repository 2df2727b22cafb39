package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// worldEpochs are the epochs as one node has them: they outlive it.
type worldEpochs struct{ schema.EpochStore }

func (worldEpochs) Close() error { return nil }

// twoRegions are the worlds of two regions on one store, as if replication took no time: each has a
// queue and a ring of its own. eu has the shards 0-3, us the others.
func twoRegions(t *testing.T) (eu, us *world) {
	t.Helper()
	eu = newWorld(t, "a")
	us = &world{store: eu.store, broker: inproc.New(inproc.Config{}), members: []ring.Member{{Name: "b", Incarnation: 1, Roles: config.Default().Roles}}}
	t.Cleanup(us.broker.Close)
	for _, home := range []string{"eu", "us"} {
		if _, err := eu.store.InsertEpoch(t.Context(), schema.Epoch{Home: home}.Next(home, "test", "the first", time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	return eu, us
}

// startIn starts a node of a region.
func startIn(t *testing.T, w *world, region, name string, change func(*config.Config)) *running {
	t.Helper()
	open := w.opener(name)
	open.Epochs = func(context.Context) (EpochStore, error) { return worldEpochs{w.store}, nil }
	return startWith(t, name, open, nil, func(c *config.Config) {
		c.Node.Region = region
		c.Regions.Homes = []string{"eu=0-3", "us=4-7"}
		c.Regions.Datacenters = []string{"eu=dc-eu", "us=dc-us"}
		change(c)
	})
}

// TestTwoRegionsOnOneStore: each takes in, dispatches and starts what lies at its own home, and nothing
// runs twice. What belongs to the other home is refused, and the answer names it.
func TestTwoRegionsOnOneStore(t *testing.T) {
	inEU, inUS := twoRegions(t)
	none := func(*config.Config) {}
	eu, us := startIn(t, inEU, "eu", "a", none).up(), startIn(t, inUS, "us", "b", none).up()
	calls := make(chan string, 100)
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) { calls <- r.Header.Get("Carillon-Run-Id") })
	for _, r := range []*running{eu, us} {
		await(t, "it knows which homes it serves", func() bool {
			_, body := get(t, r.url+"/readyz")
			return strings.Contains(body, "regions: ok\n")
		})
	}

	work := request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}}
	const each = 10
	jobs := make(map[*running][]httpapi.Job)
	for range each {
		for _, r := range []*running{eu, us} {
			job, err := r.client().CreateJob(t.Context(), work) // without a key: it lies where it arrives
			if err != nil {
				t.Fatal(err)
			}
			jobs[r] = append(jobs[r], job)
		}
	}
	for r, first := range map[*running]schema.Shard{eu: 0, us: 4} {
		for _, job := range jobs[r] {
			run := r.awaitState(job.ID, schema.StateSucceeded)
			if s := run.ID.Shard(); s < first || s > first+3 || len(run.Attempts) != 1 {
				t.Fatalf("run %s of shard %d with %d attempts; want one attempt, in a shard from %d to %d", run.ID, s, len(run.Attempts), first, first+3)
			}
			if want := map[*running]string{eu: "a.eu", us: "b.us"}[r]; run.Attempts[0].Executor != want {
				t.Errorf("run %s ran on %s, want %s", run.ID, run.Attempts[0].Executor, want)
			}
		}
	}
	if n := len(calls); n != 2*each {
		t.Errorf("%d calls for %d runs, want one each", n, 2*each)
	}

	keyed, recurring := work, work
	keyed.Key = "k"
	recurring.Name = "hourly"
	recurring.Schedule = &request.Schedule{Every: schema.Duration(time.Hour)}
	once := us.clientOf(httpapi.ClientConfig{Retries: -1})
	var p *httpapi.Problem
	for what, job := range map[string]request.JobRequest{"a keyed job": keyed, "a recurring job": recurring} {
		if _, err := once.CreateJob(t.Context(), job); !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable || p.Kind() != "not-served" || !strings.Contains(p.Detail, "home eu") {
			t.Errorf("%s of a tenant at home in eu, in us: %v, want 503 not-served that names eu", what, err)
		}
		if _, err := eu.client().CreateJob(t.Context(), job); err != nil {
			t.Errorf("%s in eu: %v", what, err)
		}
	}
	seen, err := us.client().Regions(t.Context())
	if err != nil || seen.Region != "us" || len(seen.Homes) != 2 || seen.Homes[0].Region != "eu" || seen.Homes[0].Served || !seen.Homes[1].Served || seen.Homes[1].LeaseAge == nil {
		t.Errorf("Regions of us = %+v, %v, want home us served, eu by eu", seen, err)
	}
	if _, err := once.CancelRun(t.Context(), schema.RunID(jobs[eu][0].ID)); !errors.As(err, &p) || p.Kind() != "not-served" {
		t.Errorf("cancel a run of home eu in us: %v, want not-served", err)
	}
}

// TestAChangeReachesTheRegionThatServesItsHome: whichever region is asked. It is done once, also if
// it comes again by the other region.
func TestAChangeReachesTheRegionThatServesItsHome(t *testing.T) {
	inEU, inUS := twoRegions(t)
	eu := startIn(t, inEU, "eu", "a", func(*config.Config) {}).up()
	us := startIn(t, inUS, "us", "b", func(c *config.Config) { c.Regions.API = []string{"eu=" + eu.url, "us=http://127.0.0.1:1"} }).up()
	for _, r := range []*running{eu, us} {
		await(t, "it knows which homes it serves", func() bool {
			_, body := get(t, r.url+"/readyz")
			return strings.Contains(body, "regions: ok\n")
		})
	}
	calls := make(chan string, 100)
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) { calls <- r.Header.Get("Carillon-Run-Id") })
	once := us.clientOf(httpapi.ClientConfig{Retries: -1})
	keyed := request.JobRequest{Key: "k", Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}}
	job, err := once.CreateJob(t.Context(), keyed) // keys are kept at the home of the tenant
	if err != nil {
		t.Fatalf("a keyed job in us: %v", err)
	}
	if again, err := eu.client().CreateJob(t.Context(), keyed); err != nil || again.ID != job.ID {
		t.Errorf("the same in eu = %s, %v, want job %s", again.ID, err, job.ID)
	}
	if run := us.awaitState(job.ID, schema.StateSucceeded); run.ID.Shard() > 3 || run.Attempts[0].Executor != "a.eu" {
		t.Errorf("run %s ran on %s, want a shard of home eu, and its executor", run.ID, run.Attempts[0].Executor)
	}
	if n := len(calls); n != 1 {
		t.Errorf("%d calls, want one", n)
	}
	later := keyed
	later.Key, later.Name, later.Schedule = "", "hourly", &request.Schedule{Every: schema.Duration(time.Hour)}
	hourly, err := once.CreateJob(t.Context(), later)
	if err != nil {
		t.Fatalf("a recurring job in us: %v", err)
	}
	if _, err := once.PauseJob(t.Context(), hourly.ID.String()); err != nil {
		t.Errorf("pause it in us: %v", err)
	}
	far := keyed
	far.Key, far.Schedule = "far", &request.Schedule{At: time.Now().Add(time.Hour)}
	waiting, err := eu.client().CreateJob(t.Context(), far)
	if err == nil {
		_, err = once.CancelRun(t.Context(), schema.RunID(waiting.ID))
	}
	if err != nil {
		t.Errorf("cancel in us what eu took in: %v", err)
	}
	if _, metrics := get(t, us.url+"/metrics"); !strings.Contains(metrics, `carillon_region_forwarded_total{outcome="answered",region="eu"} 4`) {
		t.Errorf("us counts other than four requests that eu answered:\n%s", metrics)
	}
	drain := schema.Beat{Region: schema.DrainRow("eu"), At: time.Now(), Drain: &schema.Drain{Home: "eu", Epoch: 1, To: "us", For: schema.Duration(time.Minute)}}
	if err := inEU.store.PutBeat(t.Context(), drain); err != nil {
		t.Fatal(err)
	}
	await(t, "home eu is drained: us sends on, and eu takes nothing in", func() bool {
		keyed.Key += "k"
		_, err := once.CreateJob(t.Context(), keyed)
		var p *httpapi.Problem
		return errors.As(err, &p) && p.Kind() == "not-served" && strings.Contains(p.Detail, "it is about to be moved to region us")
	})
}

// TestAnImportReachesTheRegionsOfItsLines: each line is taken in by the region that serves its
// home, whichever region the import arrives in, and runs once.
func TestAnImportReachesTheRegionsOfItsLines(t *testing.T) {
	inEU, inUS := twoRegions(t)
	eu := startIn(t, inEU, "eu", "a", func(*config.Config) {}).up()
	us := startIn(t, inUS, "us", "b", func(c *config.Config) { c.Regions.API = []string{"eu=" + eu.url, "us=http://127.0.0.1:1"} }).up()
	for _, r := range []*running{eu, us} {
		await(t, "it knows which homes it serves", func() bool {
			_, body := get(t, r.url+"/readyz")
			return strings.Contains(body, "regions: ok\n")
		})
	}
	calls := make(chan string, 100)
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) { calls <- r.Header.Get("Carillon-Run-Id") })
	const most = 40
	var text strings.Builder
	for i := range most / 4 {
		for _, rest := range []string{
			`"region":"eu"`, `"region":"us"`,
			fmt.Sprintf(`"key":"k%d"`, i), // at the home of the tenant
			fmt.Sprintf(`"key":"at%d","schedule":{"at":%q}`, i, time.Now().UTC().Format(time.RFC3339)), // likewise
		} {
			fmt.Fprintf(&text, `{"http":{"url":%q},%s}`+"\n", url, rest)
		}
	}
	send := func(r *running) (ids map[int64]schema.JobID, refused map[int64]*httpapi.Problem, sum httpapi.ImportSummary) {
		ids, refused = make(map[int64]schema.JobID), make(map[int64]*httpapi.Problem)
		sum, err := r.client().Import(t.Context(), strings.NewReader(text.String()), httpapi.ImportOptions{}, func(l httpapi.ImportResult) error {
			if ids[l.Line] = l.ID; l.Error != nil {
				refused[l.Line] = l.Error
			}
			return nil
		})
		if err != nil {
			t.Fatalf("import: %v", err)
		}
		return ids, refused, sum
	}
	made, refused, sum := send(us)
	if want := (httpapi.ImportSummary{Lines: most, Created: most}); sum != want || len(made) != most {
		t.Fatalf("%d lines: %+v, refused %v, want %+v", len(made), sum, refused, want)
	}
	for line, id := range made {
		run := us.awaitState(id, schema.StateSucceeded)
		first, by := schema.Shard(0), "a.eu"
		if line%4 == 2 { // region us
			first, by = 4, "b.us"
		}
		if s := run.ID.Shard(); s < first || s > first+3 || len(run.Attempts) != 1 || run.Attempts[0].Executor != by {
			t.Errorf("line %d is run %s of shard %d, attempts %+v; want one by %s", line, run.ID, s, run.Attempts, by)
		}
	}
	if n := len(calls); n != most {
		t.Errorf("%d calls, want %d", n, most)
	}
	// Sent again, to the other region: lines with a key are known there. It has no address of us.
	again, refused, sum := send(eu)
	for line, id := range again {
		if keyed := line%4 == 3 || line%4 == 0; keyed && id != made[line] {
			t.Errorf("line %d sent to eu is job %s, want %s", line, id, made[line])
		}
		if p := refused[line]; (p != nil) != (line%4 == 2) || p != nil && (p.Kind() != "not-served" || !strings.Contains(p.Detail, "home us")) {
			t.Errorf("line %d sent to eu: %v, want that lines of home us alone are refused, and name it", line, p)
		}
	}
	if sum.Existing != most/2 {
		t.Errorf("the same in eu: %+v, want half of it known", sum)
	}
}

// TestAHomeMoves: once another region serves a home, it runs what is due there, each run once; the one
// before takes in and starts nothing of it any more.
func TestAHomeMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("the other region waits 12 s before it serves the home")
	}
	inEU, inUS := twoRegions(t)
	none := func(*config.Config) {}
	eu, us := startIn(t, inEU, "eu", "a", none).up(), startIn(t, inUS, "us", "b", none).up()
	calls := make(chan string, 100)
	url := sink(t, func(_ http.ResponseWriter, r *http.Request) { calls <- r.Header.Get("Carillon-Run-Id") })
	serves := func(r *running, home int) bool {
		seen, err := r.client().Regions(t.Context())
		return err == nil && len(seen.Homes) == 2 && seen.Homes[home].Served
	}
	await(t, "each serves its home", func() bool { return serves(eu, 0) && serves(us, 1) })

	const jobs = 10
	due := time.Now().Add(schema.TakeOverWait + 2*schema.HomeLeaseRead + time.Second)
	made := []httpapi.Job{eu.create(url, time.Time{})} // it runs in eu
	eu.awaitState(made[0].ID, schema.StateSucceeded)
	for range jobs {
		made = append(made, eu.create(url, due))
	}
	newest, err := inEU.store.Epochs(t.Context(), []string{"eu"})
	if err == nil {
		_, err = inEU.store.InsertEpoch(t.Context(), newest[0].Next("us", "test", "a drill", time.Now()))
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "eu stops", func() bool { return !serves(eu, 0) })
	once := eu.clientOf(httpapi.ClientConfig{Retries: -1})
	var p *httpapi.Problem
	if _, err := once.CreateJob(t.Context(), request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}}); !errors.As(err, &p) || p.Kind() != "not-served" || !strings.Contains(p.Detail, "region us serves it (epoch 2)") {
		t.Errorf("a job in eu, which serves nothing any more: %v, want not-served that names us", err)
	}
	for i, job := range made {
		run := us.awaitState(job.ID, schema.StateSucceeded)
		if want := map[bool]string{true: "a.eu", false: "b.us"}[i == 0]; len(run.Attempts) != 1 || run.Attempts[0].Executor != want {
			t.Errorf("run %d had the attempts %+v, want one, by %s", i, run.Attempts, want)
		}
	}
	if n := len(calls); n != jobs+1 {
		t.Errorf("%d calls for %d runs, want one each", n, jobs+1)
	}
	if keyed := us.create(url, time.Time{}); us.awaitState(keyed.ID, schema.StateSucceeded).ID.Shard() > 3 {
		t.Error("a keyed job does not lie at its tenant's home any more, which us serves now")
	}
}

// TestNodesOfTwoRegionsHaveNamesOfTheirOwn: each region has a ring of its own, where a second node
// of a name would be seen.
func TestNodesOfTwoRegionsHaveNamesOfTheirOwn(t *testing.T) {
	inEU, inUS := twoRegions(t)
	startIn(t, inEU, "eu", "a", func(*config.Config) {}).up()
	await(t, "it has a session", func() bool {
		s, err := inEU.store.Session(t.Context(), "a.eu")
		return err == nil && s.ID != ""
	})
	inUS.members[0].Name = "a"
	r := startIn(t, inUS, "us", "a", func(*config.Config) {})
	var err error
	select {
	case <-r.ready:
		t.Fatal("a second node a is up, want that it is refused")
	case err = <-r.ended:
		r.ended <- nil
	}
	if want := "node.name: a is the name of a node of region eu too (executor a.eu"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Run = %v, want %q", err, want)
	}
}

// TestWhatRegionsCannotDoIsRefused: a node does not start with shards that no home has, nor with a
// promise that it would not keep.
func TestWhatRegionsCannotDoIsRefused(t *testing.T) {
	for _, row := range []struct {
		change func(*config.Config)
		want   string
	}{
		{func(c *config.Config) { c.Regions.Homes = []string{"eu=0-3", "us=4-6"} }, "regions.homes: the cluster has 8 shards, and the homes have those below 7"},
		{func(c *config.Config) { c.Regions.Durability = config.DurableEverywhere }, "regions.durability: everywhere needs a store that has copies"},
	} {
		w, _ := twoRegions(t)
		r := startIn(t, w, "eu", "a", row.change)
		err := <-r.ended
		r.ended <- nil
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("Run = %v, want %q", err, row.want)
		}
	}
}
