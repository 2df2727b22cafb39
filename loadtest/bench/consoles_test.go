package bench

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/wait"
)

// halves are rounds of both halves with so much CPU a run, and so late.
func halves(system string, cpu, late [][2]float64) (all []*Result) {
	for i := range cpu {
		for half, variant := range []string{withoutConsoles, withThese} {
			r := measured(consolesProtocol, variant, consolesRate, 0, i+1, late[i][half])
			r.System, r.CPU = system, map[string]float64{"carillon": cpu[i][half], "cassandra": 100, "nats": 10, "sink": 50}
			if variant == withThese {
				r.Consoles = &Consoles{Open: consolesOpen, Views: "4 overview", PerS: 8}
			}
			all = append(all, r)
		}
	}
	return all
}

func pairsOf(n int, without, with float64) (all [][2]float64) {
	for range n {
		all = append(all, [2]float64{without, with})
	}
	return all
}

func TestGoalsOfConsoles(t *testing.T) {
	const cpu, late, whole = "consoles: CPU a run of the nodes", "consoles: lateness p99", "consoles: CPU a run of nodes, Cassandra"
	ragged := [][2]float64{{5, 9}, {4, 9}, {10, 9}, {6, 9}, {5, 9}}
	refused := halves("carillon", pairsOf(1, 100, 100), pairsOf(1, 5, 5))
	refused[1].Consoles.Failed = 1
	missed := halves("carillon", pairsOf(1, 100, 100), pairsOf(1, 5, 5))
	missed[0].Missed = 1
	few := halves("carillon", pairsOf(1, 100, 100), pairsOf(1, 5, 5))
	few[1].Consoles.Open = 3
	for _, row := range []struct {
		name string
		all  []*Result
		row  string
		want string
	}{
		{"4 % more", halves("carillon", pairsOf(5, 100, 104), pairsOf(5, 5, 5)), cpu, "| 1.04 ×; 1.04 × of 5 | pass |"},
		{"the same", halves("carillon", pairsOf(5, 100, 100), pairsOf(5, 5, 5)), cpu, "| 1 ×; 1 × of 5 | pass, aim reached |"},
		{"6 % more", halves("carillon", pairsOf(5, 100, 106), pairsOf(5, 5, 5)), cpu, "| 1.06 ×; 1.06 × of 5 | falls short |"},
		{"the median counts", halves("carillon", [][2]float64{{100, 101}, {100, 120}, {200, 202}}, pairsOf(3, 5, 5)), cpu, "| 1.01 ×; 1.2 × of 3 | pass, aim reached |"},
		{"with Cassandra and NATS it is less", halves("carillon", pairsOf(1, 110, 121), pairsOf(1, 5, 5)), whole, "| 1.05 × | pass |"},
		{"what was refused is as dear as can be", refused, cpu, "| never | falls short |"},
		{"what was missed too", missed, cpu, "| never | falls short |"},
		{"three consoles are not ten", few, cpu, "not measured"},
		{"one half is none", halves("carillon", pairsOf(1, 100, 100), pairsOf(1, 5, 5))[:1], cpu, "not measured"},
		{"within the spread", halves("carillon", pairsOf(5, 100, 100), ragged), late, "| 0.9 ×; 0.9 × of 5 | pass, aim reached |"},
		{"beyond the spread", halves("carillon", pairsOf(5, 100, 100), pairsOf(5, 10, 11)), late, "| 1.1 ×; 1.1 × of 5 | falls short |"},
		{"below a millisecond is none", halves("carillon", pairsOf(5, 100, 100), pairsOf(5, 0.2, 0.9)), late, "| 0.9 ×; 0.9 × of 5 | pass, aim reached |"},
		{"four rounds have no spread", halves("carillon", pairsOf(4, 100, 100), pairsOf(4, 10, 10)), late, "not measured: `make bench-console` does"},
		{"carillon dev", halves("carillon-dev", pairsOf(5, 100, 103), pairsOf(5, 5, 5)), "carillon dev: " + cpu, "| 1.03 ×; 1.03 × of 5 | pass |"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := table(t, row.all, row.row); !strings.Contains(got, row.want) {
				t.Errorf("row is %s\nwant %s in it", got, row.want)
			}
		})
	}
}

// TestTableOfConsoles: each figure by the rule of the house, CPU within 5 % and lateness within its
// spread.
func TestTableOfConsoles(t *testing.T) {
	all := halves("carillon", pairsOf(5, 100, 104), [][2]float64{{5, 9}, {4, 9}, {10, 9}, {6, 9}, {5, 9}})
	all[1].Consoles.Failed, all[1].Consoles.Fault = 2, "GET /v1/cluster: answered 503"
	var b bytes.Buffer
	if err := WriteGoals(&b, all); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| carillon, Carillon CPU µs a run, as measured | 100, 100, 100, 100, 100: **100** | 104, 104, 104, 104, 104: **104** | +4.0 %; 0.0 % | holds: within 5 % |",
		"| carillon, Carillon CPU a run by the sink's CPU a call |",
		"| carillon, CPU µs a run of all but sink and load | 210, 210,",
		"| carillon, lateness p99, ms | 5.000, 4.000, 10.0, 6.000, 5.000: **5.000** | 9.000, 9.000, 9.000, 9.000, 9.000: **9.000** | +80.0 %; 120.0 % | holds: below the spread |",
		"carillon, round 1: 10 consoles open (4 overview): 8.0 requests/s",
		"2 FAILED, the first: GET /v1/cluster: answered 503",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	p := Pairs{Lower: true, Before: []float64{5, 5, 5, 5, 5}, After: []float64{4, 4, 4, 4, 4}}
	if got := p.Verdict(); got != "holds: no worse" {
		t.Errorf("of what is better, and may be no worse: %q", got)
	}
	if p.After = []float64{6, 6, 6, 6, 6}; p.Verdict() != "**does not hold**" {
		t.Errorf("of what is worse, and has no spread: %q", p.Verdict())
	}
}

// TestTenConsoles: ten are open, of four views, on the nodes in turn, and none is left.
func TestTenConsoles(t *testing.T) {
	var asked [2]atomic.Int64
	var nodes []string
	for i := range asked {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			if of := r.Header.Get("Carillon-Tenant") == watchedTenant; of != strings.HasPrefix(r.URL.Path, "/v1/jobs") && r.URL.Path != "/v1/tenants" {
				t.Errorf("%s is asked for in the name of the tenant of the job: %t", r.URL, of)
			}
			_, _ = w.Write([]byte(`{"id":"018f3a5c-7d2e-7b1a-9c4d-0123456789ab","items":[]}`)) // the client sees it
		}))
		t.Cleanup(s.Close)
		nodes = append(nodes, s.URL)
	}
	w := watch(t.Context(), nodes, 10)
	all := func() (bool, error) {
		sum := 0
		var keys []string
		for key, n := range w.tally.Summary().Asked {
			sum, keys = sum+n, append(keys, key)
		}
		for _, want := range []string{"GET /v1/runs from limit to", "GET /v1/cluster", "GET /v1/jobs/{id}/runs limit", "GET /v1/stats/top by from to"} {
			if !slices.Contains(keys, want) {
				return false, nil
			}
		}
		return sum >= 100, nil // each its page and its view
	}
	if ok, err := wait.Poll(t.Context(), 10*time.Millisecond, time.Now().Add(30*time.Second), all); !ok || err != nil {
		t.Fatalf("not all was asked (%v): %v", err, w.tally.Summary().Asked)
	}
	c := w.end()
	if c.Open != 10 || c.Views != "4 overview, 3 runs, 2 cluster, 1 job" || c.Failed != 0 || c.Requests < 100 || c.P99 <= 0 || c.PerS <= 0 || c.Bytes <= 0 {
		t.Errorf("consoles are %+v", c)
	}
	if asked[0].Load() == 0 || asked[1].Load() == 0 {
		t.Errorf("nodes were asked %d and %d times, want both", asked[0].Load(), asked[1].Load())
	}
	if none := watch(t.Context(), nodes, 0); none.end() != nil {
		t.Error("no consoles are some")
	}
}
