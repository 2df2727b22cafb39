package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// Limits and shares hold in the whole cluster: one node takes requests, another dispatches, others
// execute. A dispatcher knows the rates of tasks when it starts, and later changes within seconds.
func TestTourLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	onBothGrounds(t, func(t *testing.T, g ground) {
		log := logOfTour(t)
		members := []ring.Member{
			{Name: "api", Incarnation: 1, Roles: []string{config.Bucketer}},
			{Name: "d", Incarnation: 2, Roles: []string{config.Dispatcher}},
			{Name: "x", Incarnation: 3, Roles: []string{config.ExecutorR}},
			{Name: "y", Incarnation: 4, Roles: []string{config.ExecutorR}},
		}
		begin := func(t *testing.T, m ring.Member, slots int) *running {
			t.Helper()
			return startWith(t, m.Name, g.open(t, "carillon_test_limits", m.Name, log, members...), log, func(c *config.Config) {
				c.Roles, c.Executor.DrainTimeout, c.Executor.Slots = m.Roles, time.Second, slots
			}).up().tourist()
		}
		const many = 100
		api := begin(t, members[0], many)
		const rate = "4/s"
		api.task("paced", request.TaskRequest{Rate: rate})
		d := begin(t, members[1], many)
		t.Run("two execute", func(t *testing.T) {
			x, y := begin(t, members[2], many), begin(t, members[3], many)
			t.Run("a task runs so many times at once", func(t *testing.T) { t.Parallel(); api.in(t).showMaxConcurrent(x, y) })
			t.Run("runs of a job queue", func(t *testing.T) { t.Parallel(); api.in(t).showQueue() })
			t.Run("runs of a job are skipped", func(t *testing.T) { t.Parallel(); api.in(t).showSkip() })
			t.Run("the oldest run of a job is cancelled", func(t *testing.T) { t.Parallel(); api.in(t).showCancelOldest() })
		})
		t.Run("one executes", func(t *testing.T) {
			x := begin(t, members[2], many)
			t.Run("a circuit is closed by request", func(t *testing.T) { api.in(t).showReset(x) })
			t.Run("a task starts so often", func(t *testing.T) { t.Parallel(); api.in(t).showRate(rate) })
			// by each executor
			t.Run("what fails again and again is put off", func(t *testing.T) { t.Parallel(); api.in(t).showBreaker(x) })
		})
		t.Run("critical runs come before low ones", func(t *testing.T) {
			api.in(t).showPriorities(d, func() { begin(t, members[2], 2) })
		})
		t.Run("tenants have their shares", func(t *testing.T) {
			begin(t, members[2], 8)
			api.in(t).showShares()
		})
	})
}

// calls are what a receiver saw, in order of arrival.
type calls struct {
	mu   sync.Mutex
	seen []*check.Sighting
	open int
	most int // at once
}

// receive notes every call before answer says, by its number from 1 on, with which status it is
// answered.
func receive(t *testing.T, answer func(r *http.Request, number int) (status int)) (*calls, string) {
	t.Helper()
	c := &calls{}
	return c, sink(t, func(w http.ResponseWriter, r *http.Request) {
		// the end of a request is seen only once its body was read
		_, _ = io.Copy(io.Discard, r.Body)
		attempt, err := strconv.Atoi(r.Header.Get("Carillon-Attempt"))
		if err != nil {
			t.Errorf("a call of attempt %q", r.Header.Get("Carillon-Attempt"))
		}
		c.mu.Lock()
		s := &check.Sighting{Run: r.Header.Get("Carillon-Run-Id"), Attempt: attempt, At: time.Now()}
		c.seen = append(c.seen, s)
		c.open++
		c.most = max(c.most, c.open)
		number := len(c.seen)
		c.mu.Unlock()
		status := answer(r, number)
		c.mu.Lock()
		c.open--
		s.End, s.Status = time.Now(), status
		c.mu.Unlock()
		w.WriteHeader(status)
	})
}

// all returns the calls so far.
func (c *calls) all() []check.Sighting {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]check.Sighting, len(c.seen))
	for i, s := range c.seen {
		all[i] = *s
	}
	return all
}

// runs returns the runs of the calls so far.
func (c *calls) runs() (ids []string) {
	for _, s := range c.all() {
		ids = append(ids, s.Run)
	}
	return ids
}

// task puts a task that needs no receiver yet.
func (r *running) task(name string, task request.TaskRequest) {
	r.t.Helper()
	if task.HTTP == nil {
		task.HTTP = &schema.HTTPTarget{URL: "http://127.0.0.1:1"}
	}
	if _, err := r.client().PutTask(r.t.Context(), name, task); err != nil {
		r.t.Fatalf("PutTask = %v", err)
	}
}

// batch makes n jobs that are alike, but that each is due a step after the one before, and returns
// their runs.
func (r *running) batch(n int, job request.JobRequest, step time.Duration) []schema.RunID {
	r.t.Helper()
	job.Payload = json.RawMessage(`1`)
	var lines bytes.Buffer
	for i := range n {
		job.Key = uuid.NewString()
		if i > 0 && step > 0 {
			job.Schedule = &request.Schedule{At: job.Schedule.At.Add(step)}
		}
		text, err := json.Marshal(job)
		if err != nil {
			r.t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	ids := make([]schema.RunID, n)
	_, err := r.client().Import(r.t.Context(), &lines, httpapi.ImportOptions{}, func(res httpapi.ImportResult) error {
		if res.Error != nil {
			return res.Error
		}
		ids[res.Line-1] = schema.RunID(res.ID)
		return nil
	})
	if err != nil {
		r.t.Fatalf("Import = %v", err)
	}
	return ids
}

// metric returns the value of a series of the node, 0 if there is none of that name.
func (r *running) metric(series string) (n float64) {
	r.t.Helper()
	_, body := get(r.t, r.url+"/metrics")
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			var err error
			if n, err = strconv.ParseFloat(value, 64); err != nil {
				r.t.Fatalf("metric %s is %q", series, value)
			}
		}
	}
	return n
}

// judge fails the test unless the checker finds nothing wrong with runs of a task that were due
// when they were made, and have all ended.
func (r *running) judge(task check.Task, c *calls, ids []schema.RunID, acked time.Time) check.Report {
	r.t.Helper()
	h := check.History{SeenAll: true, Tasks: []check.Task{task}}
	for i, id := range ids {
		text, err := json.Marshal(r.awaitState(schema.JobID(id), schema.StateSucceeded))
		if err != nil {
			r.t.Fatal(err)
		}
		read := check.Reading{Status: check.Found, At: time.Now()}
		if err := json.Unmarshal(text, &read.Run); err != nil {
			r.t.Fatal(err)
		}
		ref := check.Ref{Source: task.Name, Line: i + 1}
		h.Asked = append(h.Asked, check.Ask{Ref: ref, Task: task.Name})
		h.Acks = append(h.Acks, check.Ack{Ref: ref, ID: id.String(), Status: http.StatusCreated, At: acked})
		h.Runs = append(h.Runs, check.Observation{ID: id.String(), First: read, Second: read})
	}
	h.Seen = c.all()
	report, err := check.Judge(h)
	if err != nil {
		r.t.Fatal(err)
	}
	if report.Failed() || report.Done != len(ids) {
		r.t.Errorf("the checker finds %d of %d runs done, and %v; limits %+v, rates %+v", report.Done, len(ids), report.Faults, report.Limits, report.Rates)
	}
	return report
}

const deferredMetric = `carillon_executor_deferred_total{reason=%q}`

func (r *running) showMaxConcurrent(executors ...*running) {
	t := r.t
	const n, most = 40, 3
	full, refused := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(refused) })
	c, url := receive(t, func(_ *http.Request, number int) int {
		if number == most {
			close(full)
		}
		<-refused
		<-time.After(10 * time.Millisecond) // the work
		return http.StatusOK
	})
	t.Cleanup(release) // before the sink is closed, whatever fails
	r.task("few", request.TaskRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}, MaxConcurrent: most})
	ids := r.batch(n, request.JobRequest{Task: "few"}, 0)
	acked := time.Now()
	pass(t, "as many runs are under way as may", full)
	await(t, "runs beyond the limit were tried", func() bool {
		tried := 0.0
		for _, x := range executors {
			tried += x.in(t).metric(fmt.Sprintf(deferredMetric, "limit"))
		}
		return tried >= n/4
	})
	r.awaitWaiting(t, "limit: ", ids)
	release()
	report := r.judge(check.Task{Name: "few", MaxConcurrent: most}, c, ids, acked)
	if len(report.Limits) != 1 || report.Limits[0].Most != most || report.Limits[0].Calls != n {
		t.Errorf("the checker says %+v, want %d calls, at most %d at once", report.Limits, n, most)
	}
}

func (r *running) showRate(rate string) {
	t := r.t
	// at once they would be three more than what the rate is good for in RateSlack, and one
	const n, again = 28, 4
	c, url := receive(t, func(_ *http.Request, number int) int {
		if number <= again {
			return http.StatusInternalServerError // another attempt is another start
		}
		return http.StatusOK
	})
	r.task("paced", request.TaskRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}}, Rate: rate})
	ids := r.batch(n, request.JobRequest{Task: "paced"}, 0)
	r.awaitWaiting(t, "rate: ", ids)
	task := check.Task{Name: "paced"}
	if err := task.Rate.UnmarshalText([]byte(rate)); err != nil {
		t.Fatal(err)
	}
	report := r.judge(task, c, ids, time.Now())
	if len(report.Rates) != 1 || report.Rates[0].Starts != n+again {
		t.Errorf("the checker says %+v, want %d starts", report.Rates, n+again)
	}
}

// repeated is a job whose runs are called for by hand, one after the other, and whose calls are
// answered when the test says so.
type repeated struct {
	*running
	job    httpapi.Job
	calls  *calls
	called chan string   // the run
	answer chan struct{} // lets one call end
	gone   chan string   // whose caller did not wait for the answer
}

func (r *running) repeated(onLimit string) *repeated {
	r.t.Helper()
	p := &repeated{running: r, called: make(chan string, 8), answer: make(chan struct{}), gone: make(chan string, 8)}
	over := make(chan struct{})
	var url string
	p.calls, url = receive(r.t, func(req *http.Request, _ int) int {
		run := req.Header.Get("Carillon-Run-Id")
		p.called <- run
		select {
		case <-p.answer:
		case <-req.Context().Done():
			p.gone <- run
		case <-over:
		}
		return http.StatusOK
	})
	r.t.Cleanup(func() { close(over) }) // before the sink is closed, whatever fails
	var err error
	p.job, _, err = r.client().PutJob(r.t.Context(), onLimit, request.JobRequest{
		Work:        schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Timeout: schema.Duration(time.Hour)},
		Schedule:    &request.Schedule{Every: schema.Duration(24 * time.Hour)},
		Concurrency: &schema.Concurrency{Limit: 1, OnLimit: onLimit},
	})
	if err != nil {
		r.t.Fatalf("PutJob = %v", err)
	}
	return p
}

// trigger starts one more run of the job now.
func (p *repeated) trigger() schema.RunID {
	p.t.Helper()
	run, err := p.client().TriggerJob(p.t.Context(), p.job.ID.String(), uuid.NewString())
	if err != nil {
		p.t.Fatalf("TriggerJob = %v", err)
	}
	return run.ID
}

// begins waits until a run is called.
func (p *repeated) begins(run schema.RunID) {
	p.t.Helper()
	if got := pass(p.t, fmt.Sprintf("run %s is called", run), p.called); got != run.String() {
		p.t.Fatalf("run %s is called, want %s", got, run)
	}
}

// end answers the call that is under way, and waits until its run has ended.
func (p *repeated) end(run schema.RunID) {
	p.t.Helper()
	select {
	case p.answer <- struct{}{}:
	case <-time.After(patience):
		p.t.Fatalf("no call waits for its answer, want that of run %s", run)
	}
	p.awaitState(schema.JobID(run), schema.StateSucceeded)
}

// saw fails the test unless the receiver saw these runs, once each and in this order.
func (p *repeated) saw(runs ...schema.RunID) {
	p.t.Helper()
	want := make([]string, len(runs))
	for i, run := range runs {
		want[i] = run.String()
	}
	if got := p.calls.runs(); !slices.Equal(got, want) {
		p.t.Errorf("the receiver saw %v, want %v", got, want)
	}
}

func (r *running) showQueue() {
	p, c := r.repeated(schema.OnLimitQueue), r.client()
	runs := []schema.RunID{p.trigger()}
	p.begins(runs[0])
	for range 2 {
		run := p.trigger()
		runs = append(runs, run)
		await(r.t, "a run waits for its turn", func() bool {
			got, err := c.Run(r.t.Context(), run)
			if err != nil {
				r.t.Fatal(err)
			}
			return got.State == schema.StatePending && got.Waiting != nil
		})
	}
	p.awaitState(schema.JobID(runs[0]), schema.StateRunning)
	var listed []string
	for run, err := range c.JobRuns(r.t.Context(), p.job.ID.String(), httpapi.JobRunQuery{To: time.Now().Add(time.Second)}) {
		if err != nil {
			r.t.Fatalf("JobRuns = %v", err)
		}
		listed = append(listed, fmt.Sprint(run.ID, " ", run.State, " ", run.Waiting != nil))
	}
	if want := []string{fmt.Sprint(runs[2], " pending true"), fmt.Sprint(runs[1], " pending true"), fmt.Sprint(runs[0], " running false")}; !slices.Equal(listed, want) {
		r.t.Errorf("the runs of the job are %q, want %q", listed, want)
	}
	p.end(runs[0])
	for _, run := range runs[1:] {
		p.begins(run)
		p.end(run)
	}
	p.saw(runs...)
}

func (r *running) showSkip() {
	p := r.repeated(schema.OnLimitSkip)
	first := p.trigger()
	p.begins(first)
	for range 2 {
		if run := r.awaitState(schema.JobID(p.trigger()), schema.StateMissed); run.Missed == nil || !strings.HasPrefix(run.Missed.Reason, "skipped") || len(run.Attempts) != 0 {
			r.t.Errorf("a run beyond the limit = %+v, want it skipped without an attempt", run)
		}
	}
	p.end(first)
	p.saw(first)
}

func (r *running) showCancelOldest() {
	p := r.repeated(schema.OnLimitCancelOldest)
	first := p.trigger()
	p.begins(first)
	second := p.trigger()
	if run := r.awaitState(schema.JobID(first), schema.StateCancelled); !strings.HasPrefix(run.CancelReason, "cancel_oldest") {
		r.t.Errorf("the first run = %+v, want it cancelled by the limit", run)
	}
	if gone := pass(r.t, "a caller hangs up", p.gone); gone != first.String() {
		r.t.Errorf("the caller of run %s hung up, want that of %s", gone, first)
	}
	p.begins(second)
	p.end(second)
	p.saw(first, second)
}

// A breaker opens by what 20 calls found, is open for 5 s, and closes by three calls that succeed.
func (r *running) showBreaker(executor *running) {
	t := r.t
	executor = executor.in(t)
	// failures: 20, of each run but one a call that was under way then, and what probes find should
	// the test be slow
	const n, most = 10, 40
	var well atomic.Bool
	c, url := receive(t, func(*http.Request, int) int {
		if !well.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	other, otherURL := receive(t, func(*http.Request, int) int { return http.StatusOK })
	retry := &schema.Retry{MaxAttempts: 20, Initial: schema.Duration(10 * time.Millisecond), Factor: 1, Jitter: "none"}
	ill := request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: url}, Retry: retry}}
	early := r.batch(n, ill, 0)
	await(t, "the breaker opens", func() bool { return executor.metric("carillon_executor_targets_broken") == 1 })
	late := r.batch(n, ill, 0)
	stranger := r.in(t)
	stranger.tenant = "t" + uuid.NewString()
	// another target of the tenant, and another tenant
	for _, who := range []*running{r, stranger} {
		for _, id := range who.batch(n, request.JobRequest{Work: schema.Work{HTTP: &schema.HTTPTarget{URL: otherURL}}}, 0) {
			who.awaitState(schema.JobID(id), schema.StateSucceeded)
		}
	}
	if got := other.all(); len(got) != 2*n {
		t.Errorf("the other receiver saw %d calls, want one of each of %d runs", len(got), 2*n)
	}
	await(t, "every run is put off", func() bool { return executor.metric(fmt.Sprintf(deferredMetric, "breaker")) >= 2*n })
	well.Store(true)
	for _, id := range slices.Concat(early, late) {
		r.awaitState(schema.JobID(id), schema.StateSucceeded)
	}
	failed, ofLate := 0, 0
	tried := map[string]int{}
	for _, s := range c.all() {
		if tried[s.Run]++; s.Attempt != tried[s.Run] {
			t.Errorf("call %d of run %s is attempt %d: to be put off uses none", tried[s.Run], s.Run, s.Attempt)
		}
		if s.Status == http.StatusOK {
			continue
		}
		failed++
		if slices.ContainsFunc(late, func(id schema.RunID) bool { return id.String() == s.Run }) {
			ofLate++
		}
	}
	if failed > most || ofLate > most-2*n || executor.metric("carillon_executor_targets_broken") != 0 {
		t.Errorf("%d attempts failed, %d of runs that came when the breaker was open, and the breaker is open: %v; want about 20, none but probes, and closed",
			failed, ofLate, executor.metric("carillon_executor_targets_broken"))
	}
}
