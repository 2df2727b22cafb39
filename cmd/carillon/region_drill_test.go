package main

import (
	"bytes"
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

// TestADrillAsksFirst: it says what it will do, and does nothing unless the name of the home is
// typed or --yes is there. What makes no sense is refused before.
func TestADrillAsksFirst(t *testing.T) {
	for name, row := range map[string]struct {
		o      drilling
		region string // whose configuration it is
		typed  string
		want   string // of the error, or of what is said
	}{
		"another name is typed":     {drilling{home: "eu", to: "us"}, "us", "us\n", "nothing was done: eu was not typed"},
		"nothing is typed":          {drilling{home: "eu", to: "us"}, "us", "", "nothing was done"},
		"to where it is":            {drilling{home: "eu", to: "eu"}, "us", "eu\n", "region eu serves home eu already"},
		"no such home":              {drilling{home: "ap", to: "us"}, "us", "ap\n", "there is no home ap: there are eu, us"},
		"a fail-over from the lost": {drilling{home: "eu", to: "us", failover: true}, "eu", "eu\n", "which you are to stop: take one of region us"},
		"it is typed":               {drilling{home: "eu", to: "us"}, "us", "eu\n", "the drill failed: 2 checks failed: nothing was changed"}, // there are no APIs
		"nothing is asked":          {drilling{home: "eu", to: "us", yes: true}, "us", "", "the drill failed: 2 checks failed: nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, []string{"eu", "us"}, func(t *testing.T, r regionsShared, _ *bytes.Buffer) {
				r.region = row.region
				n := &noted{EpochStore: r.store}
				r.store = n
				cmd, out := regionDrillCommand(), new(bytes.Buffer)
				cmd.SetOut(out)
				cmd.SetIn(strings.NewReader(row.typed))
				cmd.SetContext(t.Context())
				err := r.drill(cmd, row.o, "carillon.yaml")
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("drill = %v, want %q; it says\n%s", err, row.want, out)
				}
				if told := strings.Contains(out.String(), "is taken to region us and back"); told != strings.Contains(row.want, "nothing was") {
					t.Errorf("it says\n%s\nbefore %q", out, row.want)
				}
				if len(n.announced)+len(n.moved) > 0 || serving(t, r, "eu").Number != 1 {
					t.Errorf("announced %v, moved %v, want nothing", n.announced, n.moved)
				}
			})
		})
	}
}

// TestADrillSaysEveryFaultOfItsFlags: together.
func TestADrillSaysEveryFaultOfItsFlags(t *testing.T) {
	o := drilling{reason: "it's", task: "t", url: "http://x.test", drain: -1}
	var said []string
	for _, err := range o.faults() {
		said = append(said, err.Error())
	}
	for _, want := range []string{"--to:", "--reason:", "--task, --url:", "--drain:", "--within, --wait:"} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("the faults are %q, want one of %s", said, want)
		}
	}
}

// TestAJobOfADrill: it calls the API of its region unless a URL or a task is stated.
func TestAJobOfADrill(t *testing.T) {
	r := regionsShared{urls: map[string][]string{"us": {"http://us.test/", "http://us2.test"}}}
	apis, closeAll, err := r.apis(drilling{})
	if err != nil || len(apis) != 1 {
		t.Fatalf("apis = %v, %v", apis, err)
	}
	closeAll()
	for o, want := range map[drilling]schema.HTTPTarget{
		{}:                        {Method: "GET", URL: "http://us.test/healthz", Body: "none"},
		{url: "https://x.test/a"}: {Method: "GET", URL: "https://x.test/a", Body: "none"},
	} {
		job := jobOf(o, "http://us.test/")
		if job.HTTP == nil || job.HTTP.Method != want.Method || job.HTTP.URL != want.URL || job.HTTP.Body != want.Body {
			t.Errorf("the job of %+v is %+v, want %+v", o, job, want)
		}
	}
	if job := jobOf(drilling{task: "t"}, "http://us.test"); job.Task != "t" || job.HTTP != nil {
		t.Errorf("the job of a task is %+v", job)
	}
}
