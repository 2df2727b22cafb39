package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"carillon.dev/carillon/cmd/carillon/capacity"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// capacityPage holds what commands printed, each between a line that names the command and the end
// of its block.
const capacityPage = "../../loadtest/CAPACITY.md"

// The tables of the page are what the commands beside them print. A change of the model changes the
// page.
func TestCapacityPageIsWhatTheCommandPrints(t *testing.T) {
	page, err := os.ReadFile(capacityPage)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- carillon ", "<!-- end -->\n"
	found := 0
	for _, block := range strings.Split(string(page), from)[1:] {
		line, rest, ok := strings.Cut(block, " -->\n")
		shown, _, ended := strings.Cut(rest, to)
		if !ok || !ended {
			t.Fatalf("a block of the page has no end: %.80s", block)
		}
		found++
		if want := clitest.Succeed(t, strings.Fields(line)...).Stdout; shown != want {
			t.Errorf("carillon %s prints other than what %s shows:\n%s\nwant\n%s", line, capacityPage, shown, want)
		}
	}
	if found < 3 {
		t.Errorf("%d blocks of the page come from commands, want at least 3", found)
	}
}

func TestCapacityTellsEveryFaultAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		wants []string
		lines int
	}{
		{
			"everything", strings.Fields("--rate fast --duration 2 --kind ftp --payload -1 --retention 7w --resident x --ahead 1s --regions 0 --replication 9 --cores 1.5 --disk 1 -o yaml"),
			[]string{"--rate", "--duration", "--kind", "--payload", "--retention", "--resident", "--ahead", "--regions", "--replication", "--cores", "--disk", "--output"},
			12,
		},
		{"no rate", []string{"--kind", "ftp"}, []string{"--rate: is needed", "--kind"}, 2},
		{"negative", []string{"--rate", "-5"}, []string{"--rate: -5"}, 1},
		{"next to none", []string{"--rate", "1e-305", "-o", "json"}, []string{"--rate: 1e-305"}, 1},
		{"not a number at all", []string{"--rate", "NaN"}, []string{"--rate"}, 1},
		{"residents and rates", []string{"--rate", "1k,2k", "--resident", "1,2,3"}, []string{"3 numbers for 2 rates"}, 1},
		{"too many rates", []string{"--rate", strings.Repeat("1,", 16) + "1"}, []string{"17 rates"}, 1},
		{"two bad rates", []string{"--rate", "0,-1,5"}, []string{"--rate: 0 ", "--rate: -1 "}, 2},
		{"an output unknown to --sources", []string{"--sources", "-o", "xml"}, []string{"--output"}, 1},
		{"an argument", []string{"more"}, []string{"more"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := clitest.Run(t.Context(), "", append([]string{"capacity"}, tt.args...)...)
			if r.Code != 2 || r.Stdout != "" {
				t.Errorf("carillon capacity %q exits %d and prints %q, want 2 and nothing", tt.args, r.Code, r.Stdout)
			}
			for _, want := range tt.wants {
				if strings.Count(r.Stderr, want) != 1 {
					t.Errorf("carillon capacity %q tells of %q %d times, want once:\n%s", tt.args, want, strings.Count(r.Stderr, want), r.Stderr)
				}
			}
			if got := strings.Count(r.Stderr, "\n"); got != tt.lines {
				t.Errorf("carillon capacity %q tells %d lines, want %d:\n%s", tt.args, got, tt.lines, r.Stderr)
			}
		})
	}
}

func TestCapacityAsJSON(t *testing.T) {
	r := clitest.Succeed(t, "capacity", "--rate", "1k, 10k", "--resident", "1M,2.5M", "--regions", "2", "--sources", "-o", "json")
	var doc capacityDocument
	dec := json.NewDecoder(bytes.NewBufferString(r.Stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("decode: %v\n%s", err, r.Stdout)
	}
	if len(doc.Plans) != 2 || doc.Plans[1].Demand.Rate != 10_000 || doc.Plans[1].Demand.Resident != 2.5e6 || doc.Plans[0].Shards == 0 {
		t.Errorf("plans = %+v, want those of 1,000 and 10,000 runs/s", doc.Plans)
	}
	if len(doc.Sources) != len(capacity.Table()) {
		t.Errorf("%d sources, want %d", len(doc.Sources), len(capacity.Table()))
	}
}

func TestCapacityShowsItsSources(t *testing.T) {
	alone := clitest.Succeed(t, "capacity", "--sources").Stdout
	with := clitest.Succeed(t, "capacity", "--rate", "5000", "--sources").Stdout
	for _, c := range capacity.Table() {
		if !strings.Contains(alone, c.Source) || !strings.Contains(with, c.Source) {
			t.Errorf("--sources does not show where %q comes from: %s", c.Name, c.Source)
		}
	}
	if !strings.Contains(with, capacity.Day) || !strings.Contains(with, "GIVES OUT AT") {
		t.Errorf("carillon capacity --rate 5000 --sources lacks the day or the limits:\n%s", with)
	}
}
