package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/deploy/local/cluster"
)

func TestSuitesMeasureEverything(t *testing.T) {
	base := Config{
		Cluster: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 1, CommitLog: cluster.CommitLogGroup}, Rounds: 5,
		Program: "carillon-load", Carillon: "carillon", Dir: "dir", Out: "out",
	}
	for _, name := range []string{Small, Full} {
		t.Run(name, func(t *testing.T) {
			parts, err := Suite(name, base)
			if err != nil {
				t.Fatal(err)
			}
			var protocols, dirs []string
			for _, p := range parts {
				if err := p.Validate(); err != nil {
					t.Errorf("part %s on %s: %v", p.Protocols, p.System, err)
				}
				if p.Rounds != 5 || p.Cluster.CommitLog != cluster.CommitLogGroup || p.Out != "out" {
					t.Errorf("part %s: %d rounds, commit log %s, out %s; want those of the base", p.Protocols, p.Rounds, p.Cluster.CommitLog, p.Out)
				}
				if slices.Contains(dirs, p.Dir) {
					t.Errorf("part %s has the folder of another: %s", p.Protocols, p.Dir)
				}
				dirs = append(dirs, p.Dir)
				protocols = append(protocols, p.Protocols...)
				if slices.Contains(p.Protocols, "C") && p.System == OnCluster && (!slices.Contains(p.Rates, 2000) || !slices.Contains(p.Rates, 6000) || !slices.Contains(p.Rates, 10_000)) {
					t.Errorf("rates %v leave out one that a goal names", p.Rates)
				}
			}
			for _, p := range Protocols {
				if !slices.Contains(protocols, p) {
					t.Errorf("protocol %s is in no part", p)
				}
			}
		})
	}
	if _, err := Suite("medium", base); err == nil {
		t.Error("Suite(medium) = nil, want an error")
	}
}

func TestSomeParts(t *testing.T) {
	parts := []Config{{N: 1}, {N: 2}, {N: 3}}
	some, err := Some(parts, []int{3, 1})
	if err != nil || len(some) != 2 || some[0].N != 1 || some[1].N != 3 {
		t.Errorf("Some(3, 1) = %v, %v; want the first and the third, in this order", some, err)
	}
	if all, err := Some(parts, nil); err != nil || len(all) != 3 {
		t.Errorf("Some() = %d parts, %v; want all", len(all), err)
	}
	if _, err := Some(parts, []int{0, 2, 4}); err == nil || !strings.Contains(err.Error(), "part 0") || !strings.Contains(err.Error(), "part 4") {
		t.Errorf("Some(0, 2, 4) = %v, want both that are not there named", err)
	}
}

func TestRunSuiteRefusesBadPartsBeforeAnyStarts(t *testing.T) {
	var out bytes.Buffer
	err := RunSuite(t.Context(), []Config{{Protocols: []string{"A"}}, {Protocols: []string{"Q"}}}, &out)
	if err == nil || !strings.Contains(err.Error(), `"Q"`) || out.Len() > 0 {
		t.Errorf("RunSuite = %v after printing %q, want the faults and nothing printed", err, out.String())
	}
	if err := RunSuite(t.Context(), nil, &out); err != nil || !strings.Contains(out.String(), "not measured") {
		t.Errorf("RunSuite of nothing = %v, printed %q, want the goals", err, out.String())
	}
}
