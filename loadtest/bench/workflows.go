package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/schema"
)

// The parts of W.
const (
	pacePart      = "pace"        // chains at a rate: the gaps between their steps
	chainsPart    = "chains"      // as many chains as can be: steps a second
	fanOutPart    = "fanout"      // one run with a step of many items, and a step after all of them
	followersPart = "subscribers" // one event that many jobs follow
)

// workflowParts are all, in the order in which they are measured.
var workflowParts = []string{pacePart, chainsPart, fanOutPart, followersPart}

const (
	// workflowNodes is how many nodes of all roles W has on a cluster, at least.
	workflowNodes = 2
	// warmSteps is how many steps of chains warm the system up, at most, after Config.Warm one-off
	// runs: until then the compiler of Cassandra's virtual machine uses as much CPU as its requests.
	warmSteps = 50_000
	// followersAtOnce bounds the requests that make subscribers.
	followersAtOnce = 32
	// workflowAsk bounds a request to make or to start something.
	workflowAsk = 30 * time.Second
)

// workflowRuns is W. Each round has a system of its own: subscribers stay in the store. It does each
// part once before it is measured, chains for all parts that have them.
func workflowRuns(c Config) []session {
	var all []session
	for round := range c.Rounds {
		s := session{warm: httpTarget, nodes: max(workflowNodes, c.Cluster.Nodes)}
		if warm := min(c.Warm, warmSteps) / flow.ChainSteps; warm > 0 {
			s.steps = append(s.steps, warmPart(chainsPart, warm))
		}
		for _, part := range workflowParts {
			if !slices.Contains(c.Workflows, part) {
				continue
			}
			if runs := courseOf(c, part).runs; c.Warm > 0 && (part == fanOutPart || part == followersPart) {
				s.steps = append(s.steps, warmPart(part, runs))
			}
			s.steps = append(s.steps, workflowPart(c, part, round+1))
		}
		all = append(all, s)
	}
	return all
}

// workflowPart is the step that measures a part and keeps its result.
func workflowPart(c Config, part string, round int) step {
	return func(ctx context.Context, b *bench, sys system) error {
		r, err := measureWorkflows(ctx, b, sys, courseOf(c, part), round)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		return b.keep(r)
	}
}

// warmPart is the step that does a part which is not measured. It fails if a promise was broken.
func warmPart(part string, runs int) step {
	return func(ctx context.Context, b *bench, sys system) error {
		c := courseOf(b.cfg, part)
		c.runs = runs
		r, err := measureWorkflows(ctx, b, sys, c, 1)
		if err != nil {
			return fmt.Errorf("warm up with %s: %w", part, err)
		}
		if broke := r.Missed + r.Early + r.Unexpected; broke > 0 {
			return fmt.Errorf("of the %s that warm up %d steps were missed, %d began early, and %d calls were not asked for", part, r.Missed, r.Early, r.Unexpected)
		}
		return nil
	}
}

// A course is how a part of W is measured: what is made before, how it is started, and how it is
// judged.
type course struct {
	part        string
	runs, steps int           // of each run
	rate        int           // steps a second; 0 = no rate
	span        time.Duration // over which runs are started at the rate
	prepare     func(ctx context.Context, w *workflows) error
	start       func(ctx context.Context, w *workflows, c course, began time.Time) error
	place       func(w *workflows, s *check.Sighting) (flow.Place, bool)
	judge       func(r *Result, b *flow.Board, began time.Time)
}

func courseOf(c Config, part string) course {
	switch part {
	case pacePart:
		rate := c.Pace
		return course{
			part: part, rate: rate, span: c.Span, runs: int(float64(rate) * c.Span.Seconds() / flow.ChainSteps), steps: flow.ChainSteps,
			prepare: putChain, start: paceChains, place: (*workflows).stepOf, judge: judgeChains,
		}
	case chainsPart:
		return course{part: part, runs: c.Chains, steps: flow.ChainSteps, prepare: putChain, start: saturate, place: (*workflows).stepOf, judge: judgeChains}
	case fanOutPart:
		return course{part: part, runs: 1, steps: c.Items + 1, prepare: putFanOut, start: fanOut, place: (*workflows).stepOf, judge: judgeFanOut}
	default:
		return course{part: part, runs: c.Items, steps: 1, prepare: putFollowers, start: publish, place: (*workflows).followerOf, judge: judgeFollowers}
	}
}

// workflows is one measurement of W.
type workflows struct {
	*bench

	sys  system
	name string // of the workflow or the event, and the source in addresses
	url  string // of the sink

	mu     sync.Mutex // guards what follows
	places map[string]flow.Place
	resent int // requests that were refused for now and sent again
}

// measureWorkflows measures a course.
func measureWorkflows(ctx context.Context, b *bench, sys system, c course, round int) (r *Result, err error) {
	called, err := b.callee(ctx, sys, httpTarget)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, called.end()) }()
	b.serial++
	w := &workflows{bench: b, sys: sys, name: fmt.Sprintf("w%d", b.serial), url: called.url, places: map[string]flow.Place{}}
	if err := c.prepare(ctx, w); err != nil {
		return nil, err
	}
	if err := b.quiet(ctx, sys); err != nil {
		return nil, err
	}
	r = b.result(ctx, sys, "W", c.part, httpTarget, round)
	r.N, r.Rate, r.Span, r.Settings.Payload, r.Settings.Keyed = c.runs*c.steps, float64(c.rate), c.span.Seconds(), 0, false
	b.cfg.Log.Info("starting workflows", "part", c.part, "runs", c.runs, "steps", r.N)
	m := b.meter(ctx, sys)
	flames := b.profiling(ctx, sys, min(max(c.span, flameHerd), flameLongest))
	began := time.Now()
	if err := c.start(ctx, w, c, began); err != nil {
		return nil, err
	}
	if err := m.untilOver(ctx, called, r.N, time.Now(), false); err != nil {
		return nil, err
	}
	m.costs(ctx, r, r.N)
	flames(r)
	if err := called.end(); err != nil {
		return nil, err
	}
	seen, err := readSeen(called.sink.Record)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(called.sink.Record); err != nil {
		return nil, fmt.Errorf("remove record: %w", err)
	}
	board := flow.NewBoard(c.runs, c.steps)
	board.Read(seen, func(s *check.Sighting) (flow.Place, bool) { return c.place(w, s) })
	r.fromBoard(board, began)
	c.judge(r, board, began)
	if w.resent > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d requests were refused for now and sent again", w.resent))
	}
	return r, nil
}

// fromBoard fills in what all parts have in common.
func (r *Result) fromBoard(b *flow.Board, began time.Time) {
	arrived := b.Arrivals()
	r.Missed, r.Doubled, r.Unexpected = b.Missed(), b.Extra, b.Unexpected
	if len(arrived) == 0 {
		return
	}
	r.LastStart = b.Last().Sub(began).Seconds()
	r.RunsPerS = float64(len(arrived)) / max(r.LastStart, 1e-3)
}

// judgeChains fills in the gaps between the steps of chains, as lateness.
func judgeChains(r *Result, b *flow.Board, _ time.Time) {
	gaps, early := b.Gaps()
	r.Early, r.Lateness = early, exact(gaps, "sink")
}

// judgeFanOut fills in how late the join was. When it came is when the last step came, so LastStart.
func judgeFanOut(r *Result, b *flow.Board, began time.Time) {
	gap, fanned, ok := b.Join()
	switch {
	case !ok:
		return // something is missed
	case gap < 0:
		r.Early++
	}
	r.Lateness = exact([]time.Duration{max(gap, 0)}, "sink")
	r.Notes = append(r.Notes, fmt.Sprintf("the last item began %.3f s after the request; the gap is that before the join", fanned.Sub(began).Seconds()))
}

// judgeFollowers fills in how long after the event each of its runs began, as lateness.
func judgeFollowers(r *Result, b *flow.Board, began time.Time) {
	var late []time.Duration
	for _, at := range b.Arrivals() {
		late = append(late, at.Sub(began))
	}
	r.Lateness = exact(late, "sink")
	if len(late) > 0 && slices.Min(late) < 0 {
		r.Early++
	}
}

// stepOf returns the step that a call is of. It must name the run of the step, and its address.
func (w *workflows) stepOf(s *check.Sighting) (flow.Place, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.places[s.Run]
	return p, ok && s.Ref.Source == w.name
}

// followerOf returns the subscriber that a call is of, by its address.
func (w *workflows) followerOf(s *check.Sighting) (flow.Place, bool) {
	return flow.Place{Run: s.Ref.Line - 1}, s.Ref.Source == w.name
}

// address returns where a step calls, counted from 1.
func (w *workflows) address(step int) string { return fmt.Sprintf("%s/%s/%d", w.url, w.name, step) }

// putChain makes a workflow of steps that come one after the other.
func putChain(ctx context.Context, w *workflows) error {
	steps := make([]string, flow.ChainSteps)
	for i := range steps {
		after := ""
		if i > 0 {
			after = fmt.Sprintf(`"after":["s%d"],`, i)
		}
		steps[i] = fmt.Sprintf(`{"name":"s%d",%s"http":{"url":%q}}`, i+1, after, w.address(i+1))
	}
	return w.put(ctx, "/v1/workflows/"+w.name, `{"steps":[`+strings.Join(steps, ",")+`]}`)
}

// putFanOut makes a workflow with a step for each item of its input, and one after all of them.
func putFanOut(ctx context.Context, w *workflows) error {
	return w.put(ctx, "/v1/workflows/"+w.name, fmt.Sprintf(
		`{"steps":[{"name":"each","for_each":{"input":"/items"},"payload":{"$item":""},"http":{"url":%q}},{"name":"join","after":["each"],"http":{"url":%q}}]}`, w.address(1), w.address(2)))
}

// putFollowers makes the jobs that run on the event.
func putFollowers(ctx context.Context, w *workflows) error {
	return api.Each(ctx, w.cfg.Log, "subscribers", w.cfg.Items, followersAtOnce, func(ctx context.Context, i int) error {
		return w.put(ctx, fmt.Sprintf("/v1/jobs/%s-%d", w.name, i+1), fmt.Sprintf(`{"on":{"event":%q},"http":{"url":%q}}`, w.name, w.address(i+1)))
	})
}

// paceChains starts chains at the rate.
func paceChains(ctx context.Context, w *workflows, c course, began time.Time) error {
	return flow.Pace(ctx, began, c.runs, flow.Every(c.rate), func(ctx context.Context, i int) error { return w.trigger(ctx, c, i, `{}`) })
}

// saturate starts chains as fast as they end, with Config.Open of them open.
func saturate(ctx context.Context, w *workflows, c course, _ time.Time) error {
	done := func(ctx context.Context) (int, error) {
		_, seen, err := w.sinkSeen(ctx, w.url)
		return int(seen) / flow.ChainSteps, err
	}
	return flow.Saturate(ctx, c.runs, w.cfg.Open, done, func(ctx context.Context, i int) error { return w.trigger(ctx, c, i, `{}`) })
}

// fanOut starts the one run.
func fanOut(ctx context.Context, w *workflows, c course, _ time.Time) error {
	items := make([]int, w.cfg.Items)
	for i := range items {
		items[i] = i + 1
	}
	body, err := json.Marshal(map[string]any{"payload": map[string]any{"items": items}})
	if err != nil {
		return fmt.Errorf("make items: %w", err)
	}
	return w.trigger(ctx, c, 0, string(body))
}

// publish publishes the event.
func publish(ctx context.Context, w *workflows, _ course, _ time.Time) error {
	_, err := w.ask(ctx, http.MethodPost, "/v1/events/"+w.name, `{}`, 0)
	return err
}

// trigger asks for run i of the workflow, and notes which runs its steps will have.
func (w *workflows) trigger(ctx context.Context, c course, i int, body string) error {
	text, err := w.ask(ctx, http.MethodPost, "/v1/workflows/"+w.name+"/trigger", body, i)
	if err != nil {
		return err
	}
	var made struct {
		ID schema.RunID `json:"id"`
	}
	if err := json.Unmarshal(text, &made); err != nil {
		return fmt.Errorf("start run %d: read answer: %w", i, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, id := range stepIDs(made.ID, c) {
		w.places[id] = flow.Place{Run: i, Step: n}
	}
	return nil
}

// stepIDs returns the ids of the runs of the steps of a run, in order: of a chain each step, of a
// fan-out each item of the first step, and the join.
func stepIDs(run schema.RunID, c course) []string {
	ids := make([]string, c.steps)
	for n := range ids {
		step, item := n, 0
		if c.part == fanOutPart {
			step, item = 0, n+1
			if n == c.steps-1 {
				step, item = 1, 0
			}
		}
		ids[n] = schema.MakeStepID(run, step, item).String()
	}
	return ids
}

// put makes something under its name.
func (w *workflows) put(ctx context.Context, path, body string) error {
	_, err := w.ask(ctx, http.MethodPut, path, body, 0)
	return err
}

// ask makes a request to a node and returns the answer, which must be of 2xx. What was refused for now
// (429) is sent again after as long as the answer says; that counts in its time.
func (w *workflows) ask(ctx context.Context, method, path, body string, i int) ([]byte, error) {
	nodes := w.sys.intake()
	if len(nodes) == 0 {
		return nil, errors.New("no node takes anything in")
	}
	for try := 1; ; try++ {
		a, err := api.Ask(ctx, w.client, api.Request{
			Method: method, URL: nodes[i%len(nodes)] + path, Type: "application/json", Body: []byte(body), Timeout: workflowAsk,
		})
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		case a.Status/100 == 2:
			return a.Body, nil
		case a.Status != http.StatusTooManyRequests || try == refusedTries:
			return nil, fmt.Errorf("%s %s: answered %d %.300s", method, path, a.Status, a.Body)
		}
		w.mu.Lock()
		w.resent++
		w.mu.Unlock()
		if err := wait.For(ctx, cmp.Or(a.RetryAfter, refusedWait)); err != nil {
			return nil, err
		}
	}
}
