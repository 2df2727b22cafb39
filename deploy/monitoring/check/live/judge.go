package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"carillon.dev/carillon/deploy/monitoring/check"
	"carillon.dev/carillon/deploy/monitoring/check/dashboards"
)

// interval is what $__rate_interval is: some scrapes.
const interval = "10s"

// judge asks a Prometheus what panels ask, over a span.
type judge struct {
	api      string
	from, to time.Time
	tenant   string
	cluster  bool // it is one: panels that are empty in one process alone may not be
}

// answer is what a query of a panel came to.
type answer struct {
	dashboard, panel string
	expr             string
	series           int
	last             float64 // the largest of the last values; NaN: there is none
	fault            string  // "": it has an answer, or may be without
	allowed          string  // why it may be without one, if it is
}

// all asks every query of every dashboard.
func (j *judge) all(ctx context.Context, boards []check.Dashboard) ([]answer, error) {
	may := make(map[[2]string]string)
	for _, d := range dashboards.All() {
		for _, p := range d.Panels() {
			if p.Empty != "" && !(j.cluster && p.Empty == dashboards.ClustersOnly) {
				may[[2]string{"Carillon: " + d.Title, p.Title}] = p.Empty
			}
		}
	}
	var all []answer
	for _, d := range boards {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				a, err := j.ask(ctx, target.Expr)
				if err != nil {
					return nil, err
				}
				a.dashboard, a.panel = d.Title, p.Title
				if why := may[[2]string{d.Title, p.Title}]; a.fault != "" && why != "" && !strings.HasPrefix(a.fault, "error") {
					a.fault, a.allowed = "", why
				}
				all = append(all, a)
			}
		}
	}
	return all, nil
}

// ask asks one query over the whole span.
func (j *judge) ask(ctx context.Context, expr string) (answer, error) {
	a := answer{expr: expr, last: math.NaN()}
	window := strconv.Itoa(int(j.to.Sub(j.from).Seconds())) + "s"
	chosen := check.Choose(expr, window, interval, j.tenant)
	form := url.Values{
		"query": {chosen}, "step": {"2"},
		"start": {strconv.FormatInt(j.from.Unix(), 10)}, "end": {strconv.FormatInt(j.to.Unix(), 10)},
	}
	var result struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Values [][2]any
			}
		}
	}
	if err := j.post(ctx, "/api/v1/query_range", form, &result); err != nil {
		return a, err
	}
	numbers := 0
	for _, s := range result.Data.Result {
		last := math.NaN()
		for _, v := range s.Values {
			if n := number(v[1]); !math.IsNaN(n) {
				numbers, last = numbers+1, n
			}
		}
		if math.IsNaN(a.last) || last > a.last {
			a.last = last
		}
	}
	switch a.series = len(result.Data.Result); {
	case result.Status != "success":
		a.fault = "error: " + result.Error
	case a.series == 0:
		a.fault = "no series"
	case numbers == 0:
		a.fault = "only NaN"
	}
	return a, nil
}

func number(v any) float64 {
	text, _ := v.(string)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

func (j *judge) post(ctx context.Context, path string, form url.Values, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.api+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("content-type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(to); err != nil {
		return fmt.Errorf("ask Prometheus: %s: %w", answer.Status, err)
	}
	return nil
}

// proof is what the load did, and how the metrics of dashboards show it.
type proof struct {
	what, expr string
	value      float64
	ok         bool
}

// happened are queries that are above 0 if the load did what it is for.
var happened = []proof{
	{what: "runs succeeded", expr: `sum(increase(carillon_executor_attempts_total{outcome="succeeded"}[$__range]))`},
	{what: "attempts failed", expr: `sum(increase(carillon_executor_attempts_total{outcome="failed"}[$__range]))`},
	{what: "attempts timed out", expr: `sum(increase(carillon_executor_attempts_total{outcome="timed_out"}[$__range]))`},
	{what: "retries were written", expr: `sum(increase(carillon_entries_written_total{kind="retry"}[$__range]))`},
	{what: "dead letters were written", expr: `sum(increase(carillon_dead_letters_total{event="written"}[$__range]))`},
	{what: "dead letters were replayed or discarded", expr: `sum(increase(carillon_dead_letters_total{event=~"replayed|discarded"}[$__range]))`},
	{what: "an operation changed something", expr: `sum(increase(carillon_operation_acts_total{result="changed"}[$__range]))`},
	{what: "a rate held starts back", expr: `sum(increase(carillon_dispatcher_rate_reservations_total[$__range]))`},
	{what: "runs were held back and told of", expr: `max(max_over_time(carillon_runs_held[$__range]))`},
	{what: "a limit held runs back, and their turn came", expr: `sum(increase(carillon_limit_turns_total[$__range]))`},
	{what: "workflow runs ended", expr: `sum(increase(carillon_workflow_runs_ended_total[$__range]))`},
	{what: "an event started a job", expr: `sum(increase(carillon_event_jobs_total{what="started"}[$__range]))`},
	{what: "runs waited for other jobs", expr: `sum(increase(carillon_joins_total{what="fired"}[$__range]))`},
	{what: "lines were imported", expr: `sum(increase(carillon_import_lines_total[$__range]))`},
	{what: "the API refused what was wrong", expr: `sum(increase(carillon_http_requests_total{status=~"4.."}[$__range]))`},
	{what: "a node was killed and came back", expr: `sum(changes(process_start_time_seconds[$__range]))`},
	{what: "a tenant has metrics of its own", expr: `sum(carillon_tenant_lateness_seconds_count{tenant="` + loadTenant + `"})`},
}

// happenedInClusters are those of a cluster alone.
var happenedInClusters = []proof{
	{what: "the others gave the killed node up for dead", expr: `sum(increase(carillon_ring_departures_total{status="dead"}[$__range]))`},
	{what: "shards were taken over", expr: `sum(increase(carillon_dispatcher_takeovers_total[$__range]))`},
}

// proofs asks whether the load did what it is for: else that a panel has an answer says little.
func (j *judge) proofs(ctx context.Context) ([]proof, error) {
	all := slices.Clone(happened)
	if j.cluster {
		all = append(all, happenedInClusters...)
	}
	for i := range all {
		a, err := j.ask(ctx, all[i].expr)
		if err != nil {
			return nil, err
		}
		all[i].value, all[i].ok = a.last, a.fault == "" && a.last > 0
	}
	return all, nil
}

// alerts returns the names of the alerts that were pending or fired in the span.
func (j *judge) alerts(ctx context.Context) (string, error) {
	form := url.Values{"query": {fmt.Sprintf("count by (alertname, alertstate) (count_over_time(ALERTS[%ds]))", int(j.to.Sub(j.from).Seconds()))}}
	var result struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := j.post(ctx, "/api/v1/query", form, &result); err != nil {
		return "", err
	}
	var names []string
	for _, r := range result.Data.Result {
		names = append(names, r.Metric["alertname"]+" ("+r.Metric["alertstate"]+")")
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "none", nil
	}
	return strings.Join(names, ", "), nil
}

// report prints a line for each query.
func report(w io.Writer, answers []answer) {
	board := ""
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, a := range answers {
		if a.dashboard != board {
			board = a.dashboard
			_, _ = fmt.Fprintf(t, "\n%s\n", board)
		}
		title := a.panel
		if i > 0 && answers[i-1].panel == title && answers[i-1].dashboard == board {
			title = ""
		}
		said := fmt.Sprintf("%d series\tlast %.6g", a.series, a.last)
		switch {
		case a.fault != "":
			said = "FAULT: " + a.fault + "\t" + a.expr
		case a.allowed != "":
			said = "empty\tmay be: " + a.allowed
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\n", title, said)
	}
	_ = t.Flush()
}

// reportProofs prints whether the load did what it is for.
func reportProofs(w io.Writer, proofs []proof) {
	_, _ = fmt.Fprint(w, "\nWhat the load did, as the metrics show it\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range proofs {
		_, _ = fmt.Fprintf(t, "  %s\t%.6g\t%s\n", p.what, p.value, map[bool]string{true: "", false: "NOT SEEN: " + p.expr}[p.ok])
	}
	_ = t.Flush()
}

// verdict returns an error if a panel has no answer, or the load did not do what it is for.
func verdict(answers []answer, proofs []proof) error {
	var faults, empty, unseen int
	for _, a := range answers {
		if a.fault != "" {
			faults++
		}
		if a.allowed != "" {
			empty++
		}
	}
	for _, p := range proofs {
		if !p.ok {
			unseen++
		}
	}
	fmt.Printf("\n%d queries: %d have an answer, %d may be empty and are, %d have faults; %d of %d things of the load were seen.\n",
		len(answers), len(answers)-faults-empty, empty, faults, len(proofs)-unseen, len(proofs))
	if faults+unseen > 0 || len(answers) == 0 {
		return fmt.Errorf("%d queries without an answer, %d things not seen", faults, unseen)
	}
	return nil
}
