package bench

import (
	"testing"
	"time"
)

func TestSessionsOfAConfig(t *testing.T) {
	kind := func(s session) string {
		text := map[layout]string{together: "together", workers: "workers", outage: "outage", oneKind: "one kind", apart: "apart", later: "later"}[s.layout]
		if s.noop {
			text += ", noop"
		}
		return text
	}
	rows := []struct {
		name  string
		cfg   Config
		want  []string // each session
		steps []int
	}{
		{"A", Config{Protocols: []string{"A"}, Targets: []string{"noop", "nats"}, Outage: true}, []string{"workers, noop", "outage, noop", "workers", "outage"}, []int{1, 1, 1, 1}},
		{"A over HTTP is B's", Config{Protocols: []string{"A", "B"}, Targets: []string{"http"}}, []string{"together"}, []int{1}},
		{"A on dev", Config{Protocols: []string{"A"}, System: OnDev, Targets: []string{"noop"}}, []string{"outage, noop"}, []int{1}},
		{"B, C and D", Config{Protocols: []string{"B", "C", "D"}, Targets: []string{"noop", "http"}, Rates: []int{1, 2}, Rounds: 2}, []string{"together", "together, noop"}, []int{6 + 10, 2}},
		{"B with noop alone", Config{Protocols: []string{"B"}, Targets: []string{"noop"}}, []string{"together, noop"}, []int{1}},
		{"E", Config{Protocols: []string{"E"}, Rounds: 2}, []string{"one kind", "together", "one kind", "together"}, []int{1, 1, 1, 1}},
		{"F never has noop", Config{Protocols: []string{"F"}, Targets: []string{"noop", "nats"}}, []string{"apart"}, []int{1}},
		{"H", Config{Protocols: []string{"H"}, Harm: []string{"hang", "drip"}}, []string{"together", "together"}, []int{2, 2}},
		{"R", Config{Protocols: []string{"R"}}, []string{"together"}, []int{1}},
		{"R with daily jobs", Config{Protocols: []string{"R"}, Jobs: 100, Rounds: 2}, []string{"together", "together"}, []int{3, 3}},
		{"R in process", Config{Protocols: []string{"R"}, InProcess: true}, []string{"together, noop"}, []int{1}},
		{"W", Config{Protocols: []string{"W"}, Rounds: 2}, []string{"together", "together"}, []int{7, 7}},
		{"W without warming up", Config{Protocols: []string{"W"}, Workflows: []string{"chains", "pace"}, Warm: -1}, []string{"together"}, []int{2}},
		{"intake", Config{Protocols: []string{"api", "import"}, Rounds: 2}, []string{"together, noop"}, []int{8}},
		{"consoles", Config{Protocols: []string{"consoles"}, Rounds: 2}, []string{"together"}, []int{5}},
		{"pages", Config{Protocols: []string{"pages"}, Rounds: 2}, []string{"later, noop"}, []int{3}},
		{"A comes first", Config{Protocols: []string{"R", "A"}, Targets: []string{"noop"}}, []string{"workers, noop", "together"}, []int{1, 1}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			all := sessions(row.cfg.withDefaults())
			if len(all) != len(row.want) {
				t.Fatalf("%d sessions, want %d", len(all), len(row.want))
			}
			for i, s := range all {
				if kind(s) != row.want[i] || len(s.steps) != row.steps[i] {
					t.Errorf("session %d: %s with %d steps, want %s with %d", i+1, kind(s), len(s.steps), row.want[i], row.steps[i])
				}
			}
		})
	}
}

func TestEveryProtocolHasAScenario(t *testing.T) {
	for _, p := range Protocols {
		if len(sessions(Config{Protocols: []string{p}, Targets: []string{"nats"}}.withDefaults())) == 0 {
			t.Errorf("protocol %s has no session", p)
		}
	}
}

func TestLead(t *testing.T) {
	b := &bench{perS: 1000, members: members{cfg: Config{}.withDefaults()}}
	for _, row := range []struct {
		name string
		w    batch
		want time.Duration
	}{
		// 8 s + 13 s
		{"a stream", batch{n: 10_000, span: time.Minute}, 21 * time.Second},
		// the least
		{"a small herd", batch{n: 1000}, 30 * time.Second},
		// never more
		{"a herd that warms up may be under way by then", batch{protocol: warming, n: 100_000}, 12 * time.Second},
		// 30 s at least; 8 s + 13 s are less
		{"a herd of daily jobs, which are all imported before", batch{n: 10, daily: 10_000}, 30 * time.Second},
		{"a larger one", batch{n: 10, daily: 100_000}, 138 * time.Second},
		{"beside another", batch{n: 5000, span: time.Minute, beside: &interference{rate: 500, span: 10 * time.Second}}, 21 * time.Second},
	} {
		if got := b.leadOf(row.w, &Result{}, b.perS, importFactor); got != row.want {
			t.Errorf("lead of %s = %s, want %s", row.name, got, row.want)
		}
	}
	if got := b.leadOf(batch{recurring: true, span: time.Minute}, &Result{Jobs: 10_000}, 500, makeFactor); got != 38*time.Second {
		t.Errorf("lead of recurring jobs = %s, want 38 s: 8 s + 1.5 × 20 s", got)
	}
}
