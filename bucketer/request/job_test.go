package request

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const everyMinute = `"task":"t","schedule":{"cron":"* * * * *"}`

func TestDecodeRecurringJob(t *testing.T) {
	at := func(h, m int) time.Time { return time.Date(2026, 11, 21, h, m, 0, 0, time.UTC) }
	cron := &schema.Schedule{Cron: "* * * * *"}
	for name, row := range map[string]struct {
		body string
		want schema.JobSpec
	}{
		"cron": {`{` + everyMinute + `}`, schema.JobSpec{Task: "t", Schedule: cron}},
		"cron in full": {
			`{"task":"t","schedule":{"cron":"0 30 2 * * MON-FRI","timezone":"Europe/Berlin","gap":"skip","overlap_hour":"both"}}`,
			schema.JobSpec{Task: "t", Schedule: &schema.Schedule{Cron: "0 30 2 * * MON-FRI", Timezone: "Europe/Berlin", Gap: "skip", OverlapHour: "both"}},
		},
		"every":         {`{"task":"t","schedule":{"every":"15m"}}`, schema.JobSpec{Task: "t", Schedule: &schema.Schedule{Every: schema.Duration(15 * time.Minute)}}},
		"with anchor":   {`{"task":"t","schedule":{"every":"1s","anchor":"2026-11-21T11:00:00.0001+01:00"}}`, schema.JobSpec{Task: "t", Schedule: &schema.Schedule{Every: schema.Duration(time.Second), Anchor: at(10, 0).Add(time.Millisecond)}}},
		"nulls":         {`{"task":"t","schedule":{"every":"1s","cron":null,"at":null},"name":null,"end":null,"jitter":null}`, schema.JobSpec{Task: "t", Schedule: &schema.Schedule{Every: schema.Duration(time.Second)}}},
		"a name":        {`{"name":"nightly.report-7_x",` + everyMinute + `}`, schema.JobSpec{Name: "nightly.report-7_x", Task: "t", Schedule: cron}},
		"inline work":   {`{"nats":{"subject":"a"},"timeout":"5s","schedule":{"cron":"* * * * *"}}`, schema.JobSpec{Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "a"}, Timeout: schema.Duration(5 * time.Second)}, Schedule: cron}},
		"everywhere":    {`{"durability":"everywhere",` + everyMinute + `}`, schema.JobSpec{Task: "t", Durability: schema.DurableEverywhere, Schedule: cron}},
		"the most runs": {`{"max_runs":100000,` + everyMinute + `}`, schema.JobSpec{Task: "t", MaxRuns: 100_000, Schedule: cron}},
		"start and end": {
			`{"start":"2026-11-21T10:00:00Z","end":"2999-11-21T12:00:00Z",` + everyMinute + `}`,
			schema.JobSpec{Task: "t", EndStated: at(12, 0).AddDate(973, 0, 0), Schedule: &schema.Schedule{Cron: "* * * * *", Start: at(10, 0), End: at(12, 0).AddDate(973, 0, 0)}},
		},
		"without a date": {
			`{"task":"t","schedule":{"cron":"0 9 * * *","timezone":"Europe/Berlin","exclude":["2026-12-25"]},"jitter":"1s"}`,
			schema.JobSpec{Task: "t", JitterStated: true, Schedule: &schema.Schedule{
				Jitter: schema.Duration(time.Second), Any: []schema.Schedule{{Cron: "0 9 * * *", Timezone: "Europe/Berlin", Exclude: []string{"2026-12-25"}}},
			}},
		},
		"several": {
			`{"task":"t","schedules":[{"cron":"0 9 * * *","timezone":"Europe/Berlin"},{"every":"15m","timezone":"Asia/Tokyo","exclude":["2026-12-25"]}],"end":"2027-01-01T00:00:00Z"}`,
			schema.JobSpec{Task: "t", EndStated: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), Schedule: &schema.Schedule{
				Listed: true, End: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
				Any: []schema.Schedule{{Cron: "0 9 * * *", Timezone: "Europe/Berlin"}, {Every: schema.Duration(15 * time.Minute), Timezone: "Asia/Tokyo", Exclude: []string{"2026-12-25"}}},
			}},
		},
		"only triggered": {`{"task":"t","name":"n","concurrency":{"limit":2},"labels":{"a":"b"}}`, schema.JobSpec{Name: "n", Task: "t", Concurrency: &schema.Concurrency{Limit: 2}, Labels: map[string]string{"a": "b"}}},
		"by a calendar": {
			`{"task":"t","schedule":{"cron":"0 9 * * *","calendar":{"name":"holidays","on":"next_day"}}}`,
			schema.JobSpec{Task: "t", Schedule: &schema.Schedule{Any: []schema.Schedule{{Cron: "0 9 * * *", Calendar: &schema.ScheduleCalendar{Name: "holidays", On: "next_day"}}}}},
		},
		"an interval by a calendar": {
			`{"task":"t","schedules":[{"every":"1h","timezone":"Asia/Tokyo","calendar":{"name":"holidays"}}]}`,
			schema.JobSpec{Task: "t", Schedule: &schema.Schedule{Listed: true, Any: []schema.Schedule{{Every: schema.Duration(time.Hour), Timezone: "Asia/Tokyo", Calendar: &schema.ScheduleCalendar{Name: "holidays"}}}}},
		},
		"a list of one":          {`{"task":"t","schedules":[{"cron":"* * * * *"}]}`, schema.JobSpec{Task: "t", Schedule: &schema.Schedule{Listed: true, Any: []schema.Schedule{*cron}}}},
		"jitter":                 {`{"jitter":"30s",` + everyMinute + `}`, schema.JobSpec{Task: "t", JitterStated: true, Schedule: &schema.Schedule{Cron: "* * * * *", Jitter: schema.Duration(30 * time.Second)}}},
		"jitter turned off":      {`{"jitter":"0s",` + everyMinute + `}`, schema.JobSpec{Task: "t", JitterStated: true, Schedule: cron}},
		"concurrency":            {`{"concurrency":{"limit":1,"on_limit":"cancel_oldest"},` + everyMinute + `}`, schema.JobSpec{Task: "t", Concurrency: &schema.Concurrency{Limit: 1, OnLimit: "cancel_oldest"}, Schedule: cron}},
		"concurrency by value":   {`{"concurrency":{"limit":1,"key":"/customer/a~1b"},` + everyMinute + `}`, schema.JobSpec{Task: "t", Concurrency: &schema.Concurrency{Limit: 1, Key: "/customer/a~1b"}, Schedule: cron}},
		"concurrency by default": {`{"concurrency":{"limit":1000},` + everyMinute + `}`, schema.JobSpec{Task: "t", Concurrency: &schema.Concurrency{Limit: 1000}, Schedule: cron}},
		"what one-off jobs have too": {
			`{"payload":[1],"priority":"low","labels":{"a":"b"},"misfire":{"policy":"run_all"},` + everyMinute + `}`,
			schema.JobSpec{Task: "t", Payload: json.RawMessage(`[1]`), Priority: schema.Low, Labels: map[string]string{"a": "b"}, Misfire: &schema.Misfire{Policy: "run_all"}, Schedule: cron},
		},
	} {
		t.Run(name, func(t *testing.T) {
			row.want.Tenant = "acme"
			var d Decoder
			job, got, err := d.Job("acme", []byte(row.body), testNow)
			if err != nil || got == nil {
				t.Fatalf("Job(%s) = %+v, %v; want a job that can have many runs", row.body, job, err)
			}
			if diff := cmp.Diff(&row.want, got); diff != "" {
				t.Errorf("Job(%s) (-want +got):\n%s", row.body, diff)
			}
			if diff := cmp.Diff(bucketer.Job{Tenant: "acme"}, job); diff != "" {
				t.Errorf("Job(%s) is a one-off job as well (-want +got):\n%s", row.body, diff)
			}
			checkSaidAgain(t, &d, got)
		})
	}
}

// checkSaidAgain checks that a spec, said again as a request, is the same spec.
func checkSaidAgain(t *testing.T, d *Decoder, spec *schema.JobSpec) {
	t.Helper()
	said, err := json.Marshal(OfSpec(spec))
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := d.Job(spec.Tenant, said, testNow)
	if err != nil || again == nil {
		t.Fatalf("a spec said again as %s = %v, %v; want the spec", said, again, err)
	}
	was := *spec
	was.Payload, again.Payload = nil, nil // Marshal compacts it
	if diff := cmp.Diff(&was, again); diff != "" {
		t.Errorf("a spec said again as %s differs (-want +got):\n%s", said, diff)
	}
}

// faultyRecurring are bodies that ask for a job that can have many runs, and their faults.
var faultyRecurring = map[string]struct {
	body string
	want []string
}{
	"at and cron":           {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00Z","cron":"* * * * *"}}`, []string{"body.schedule must have only one of at, cron and every"}},
	"cron and every":        {`{"task":"t","schedule":{"every":"1m","cron":"* * * * *"}}`, []string{"body.schedule must have only one of at, cron and every"}},
	"a zone for an instant": {`{"task":"t","schedule":{"at":"2026-11-21T10:00:00Z","timezone":"UTC"}}`, []string{"body.schedule.timezone goes with cron alone"}},
	"cron's parts alone":    {`{"task":"t","schedule":{"gap":"run","overlap_hour":"first"}}`, []string{"body.schedule.gap goes with cron", "body.schedule.overlap_hour goes with cron"}},
	"a zone for every":      {`{"task":"t","schedule":{"every":"1m","timezone":"Europe/Berlin"}}`, []string{"body.schedule.timezone goes with cron alone"}},
	"an anchor for cron":    {`{"task":"t","schedule":{"cron":"* * * * *","anchor":"2026-11-21T10:00:00Z"}}`, []string{"body.schedule.anchor goes with every alone"}},
	"the wrong types":       {`{"task":"t","schedule":{"cron":5,"timezone":1,"gap":true,"overlap_hour":[]}}`, []string{"body.schedule.cron must be a string", "body.schedule.timezone must be a string", "body.schedule.gap must be a string", "body.schedule.overlap_hour must be a string"}},
	"empty":                 {`{"task":"t","schedule":{"cron":"","timezone":""}}`, []string{"body.schedule.cron must be an expression", "body.schedule.timezone must be a name"}},
	"every as a number":     {`{"task":"t","schedule":{"every":60}}`, []string{"body.schedule.every must be a string"}},
	"every in days":         {`{"task":"t","schedule":{"every":"1d"}}`, []string{"body.schedule.every must be a duration"}},
	"every 0s":              {`{"task":"t","schedule":{"every":"0s"}}`, []string{"body.schedule.every must be from 1s"}},
	"every -1m":             {`{"task":"t","schedule":{"every":"-1m"}}`, []string{"body.schedule.every must be from 1s"}},
	"every century":         {`{"task":"t","schedule":{"every":"876000h"}}`, []string{"body.schedule.every must be from 1s"}},
	"an unknown gap":        {`{"task":"t","schedule":{"cron":"* * * * *","gap":"jump"}}`, []string{"body.schedule.gap must be one of run, skip"}},

	"60 minutes":               {`{"task":"t","schedule":{"cron":"60 * * * *"}}`, []string{"body.schedule.cron "}},
	"the 30th of February":     {`{"task":"t","schedule":{"cron":"0 0 30 2 *"}}`, []string{"body.schedule.cron never fires"}},
	"rarer than a decade":      {`{"task":"t","schedule":{"cron":"0 0 * 2 MON#5"}}`, []string{"body.schedule names no time between 2026-11-21 and 2044-02-29: at most 10 years"}},
	"a start, and then a wait": {`{"start":"2036-11-01T00:00:00Z","task":"t","schedule":{"cron":"@yearly"}}`, []string{"body.schedule names no time between 2026-11-21 and 2037-01-01"}},
	"a month by hash":          {`{"task":"t","schedule":{"cron":"0 0 31 H *"}}`, []string{"body.schedule.cron never fires"}},
	"seven fields":             {`{"task":"t","schedule":{"cron":"* * * * * * *"}}`, []string{"body.schedule.cron "}},
	"at a reboot":              {`{"task":"t","schedule":{"cron":"@reboot"}}`, []string{"body.schedule.cron "}},
	"every in cron":            {`{"task":"t","schedule":{"cron":"@every 0s"}}`, []string{"body.schedule.cron "}},
	"a zone in cron":           {`{"task":"t","schedule":{"cron":"TZ=Europe/Berlin * * * * *"}}`, []string{"body.schedule.cron "}},
	"a cron of 1 MB":           {`{"task":"t","schedule":{"cron":"` + strings.Repeat("*", 1_000_000) + `"}}`, []string{"body.schedule.cron "}},
	"no such zone":             {`{"task":"t","schedule":{"cron":"* * * * *","timezone":"Europe/Bonn"}}`, []string{"body.schedule.timezone "}},
	"the machine's zone":       {`{"task":"t","schedule":{"cron":"* * * * *","timezone":"Local"}}`, []string{"body.schedule.timezone "}},
	"a zone of the disk":       {`{"task":"t","schedule":{"cron":"* * * * *","timezone":"../../etc/passwd"}}`, []string{"body.schedule.timezone "}},
	"expression and zone":      {`{"task":"t","schedule":{"cron":"x","timezone":"y"}}`, []string{"body.schedule.cron ", "body.schedule.timezone "}},
	"an end before start":      {`{"start":"2026-11-21T10:00:00Z","end":"2026-11-21T10:00:00Z",` + everyMinute + `}`, []string{"body.end must be later than start"}},
	"an end that is past":      {`{"end":"2026-11-21T09:30:00Z",` + everyMinute + `}`, []string{"body.schedule names no time from now on"}},
	"an end before a first":    {`{"end":"2026-11-21T09:45:00Z","task":"t","schedule":{"every":"15m"}}`, []string{"body.schedule names no time from now on"}},
	"a list and one":           {`{"task":"t","schedule":{"every":"1m"},"schedules":[{"every":"1h"}]}`, []string{"body must have only one of schedule and schedules"}},
	"one and a list":           {`{"task":"t","schedules":[{"every":"1h"}],"schedule":{"every":"1m"}}`, []string{"body must have only one of schedule and schedules"}},
	"no list":                  {`{"task":"t","schedules":{"every":"1m"}}`, []string{"body.schedules must be a list"}},
	"an empty list":            {`{"task":"t","schedules":[]}`, []string{"body.schedules must hold at least one"}},
	"a long list":              {`{"task":"t","schedules":[` + strings.Repeat(`{"every":"1m"},`, 8) + `{"every":"1m"}]}`, []string{"body.schedules must be at most 8"}},
	"several that are wrong":   {`{"task":"t","schedules":[{"cron":"60 * * * *"},{"every":"1m","cron":"* * * * *"},{"at":"2026-11-22T00:00:00Z"},{},5]}`, []string{"body.schedules[1] must have only one of", "body.schedules[2] must have cron or every", "body.schedules[3] must have cron or every", "body.schedules[4] must be an object"}},
	"one of several":           {`{"task":"t","schedules":[{"every":"1m"},{"cron":"60 * * * *"}]}`, []string{"body.schedules[1].cron "}},
	"one of no time to come":   {`{"task":"t","end":"2026-11-22T00:00:00Z","schedules":[{"every":"1m"},{"cron":"0 0 1 1 *"}]}`, []string{"body.schedules[1] names no time from now on"}},
	"dates":                    {`{"task":"t","schedule":{"every":"1m","exclude":["2026-02-29",5,"25.12.2026","1969-12-31"]}}`, []string{"body.schedule.exclude[0] must be a date", "body.schedule.exclude[1] must be a string", "body.schedule.exclude[2] must be a date", "body.schedule.exclude[3] must be a date"}},
	"no list of dates":         {`{"task":"t","schedule":{"every":"1m","exclude":"2026-12-25"}}`, []string{"body.schedule.exclude must be a list of dates"}},
	"too many dates":           {`{"task":"t","schedule":{"every":"1m","exclude":[` + strings.Repeat(`"2026-12-25",`, 500) + `"2026-12-26"]}}`, []string{"body.schedule.exclude must be at most 500 dates"}},
	"dates of an instant":      {`{"task":"t","schedule":{"at":"2026-12-25T00:00:00Z","exclude":["2026-12-25"]}}`, []string{"body.schedule.exclude goes with cron or every"}},
	"a calendar":               {`{"task":"t","schedule":{"cron":"* * * * *","calendar":{"name":"A B","on":"never","x":1}}}`, []string{"body.schedule.calendar.name must be", "body.schedule.calendar.on must be one of skip, next_day, previous_day", "body.schedule.calendar.x is not a field"}},
	"a calendar of no name":    {`{"task":"t","schedule":{"cron":"* * * * *","calendar":{}}}`, []string{"body.schedule.calendar.name is missing"}},
	"a calendar of an instant": {`{"task":"t","schedule":{"at":"2026-12-25T00:00:00Z","calendar":{"name":"a"}}}`, []string{"body.schedule.calendar goes with cron or every"}},
	"an interval that moves":   {`{"task":"t","schedules":[{"every":"1h","calendar":{"name":"a","on":"next_day"}}]}`, []string{"body.schedules[0].calendar.on must be skip for an interval"}},
	"a zone of no dates":       {`{"task":"t","schedule":{"every":"1m","timezone":"Europe/Berlin","exclude":[]}}`, []string{"body.schedule.timezone goes with cron alone"}},
	"a zone of dates":          {`{"task":"t","schedule":{"every":"1m","timezone":"Europe/Bonn","exclude":["2026-12-25"]}}`, []string{"body.schedule.timezone "}},
	"a jitter of 1.5 ms":       {`{"jitter":"1500us",` + everyMinute + `}`, []string{"body.jitter must be a whole number of milliseconds"}},

	"of one run": {
		`{"task":"t","schedule":{"at":"2026-11-21T10:00:00Z"},"name":"n","start":"2026-11-21T10:00:00Z","end":"2026-11-21T10:00:00Z","max_runs":1,"jitter":"1s","concurrency":{"limit":1}}`,
		[]string{"body.name belongs to a recurring job", "body.start belongs", "body.end belongs", "body.max_runs belongs", "body.jitter belongs", "body.concurrency belongs"},
	},
	"of one run, at once": {`{"task":"t","start":"2026-11-21T10:00:00Z","concurrency":{"limit":1}}`, []string{"body.start belongs to a recurring job", "body.concurrency belongs"}},
	"only triggered": {
		`{"task":"t","name":"n","start":"2026-11-21T10:00:00Z","end":"2026-11-22T10:00:00Z","max_runs":1,"jitter":"1s","concurrency":{"limit":1},"region":"eu"}`,
		[]string{"body.region belongs to a one-off job", "body.start goes with a schedule", "body.end goes with a schedule", "body.max_runs goes with a schedule", "body.jitter goes with a schedule"},
	},
	"a bad name":         {`{"name":"Nightly Report",` + everyMinute + `}`, []string{"body.name must be 1 to 63"}},
	"a long name":        {`{"name":"` + strings.Repeat("a", 64) + `",` + everyMinute + `}`, []string{"body.name must be 1 to 63"}},
	"an id as name":      {`{"name":"0192e5a0-0000-7000-8000-000000000000",` + everyMinute + `}`, []string{"body.name must not be a UUID"}},
	"start and end":      {`{"start":"soon","end":7,` + everyMinute + `}`, []string{"body.start must be an RFC 3339", "body.end must be a string"}},
	"a start far away":   {`{"start":"2036-11-22T00:00:00Z",` + everyMinute + `}`, []string{"body.start must not be more than 10 years"}},
	"an end beyond ends": {`{"end":"9999-12-31T23:59:59-01:00",` + everyMinute + `}`, []string{"body.end must be an RFC 3339"}},
	"no runs":            {`{"max_runs":0,` + everyMinute + `}`, []string{"body.max_runs must be a whole number from 1 to 100000"}},
	"too many runs":      {`{"max_runs":100001,` + everyMinute + `}`, []string{"body.max_runs must be a whole number from 1 to 100000"}},
	"half a run":         {`{"max_runs":0.5,` + everyMinute + `}`, []string{"body.max_runs must be a whole number from 1 to 100000"}},
	"jitter":             {`{"jitter":"-1s",` + everyMinute + `}`, []string{"body.jitter must be from 0s to 24h"}},
	"jitter of a week":   {`{"jitter":"168h",` + everyMinute + `}`, []string{"body.jitter must be from 0s to 24h"}},
	"concurrency":        {`{"concurrency":{"limit":0,"on_limit":"wait","x":1},` + everyMinute + `}`, []string{"body.concurrency.limit must be a whole number from 1", "body.concurrency.on_limit must be one of queue, skip, cancel_oldest", "body.concurrency.x is not a field"}},
	"no pointers":        {`{"concurrency":{"limit":1,"key":"customer"},"payload":{},"labels":{"a b":"c"},` + everyMinute + `}`, []string{"body.concurrency.key must be a JSON pointer", "body.labels.a b must have a name"}},
	"an empty pointer":   {`{"concurrency":{"limit":1,"key":""},` + everyMinute + `}`, []string{"body.concurrency.key must be a JSON pointer into the payload"}},
	"a broken pointer":   {`{"concurrency":{"limit":1,"key":"/a~2"},` + everyMinute + `}`, []string{`body.concurrency.key must have "~0" for "~"`}},
	"a long pointer":     {`{"concurrency":{"limit":1,"key":"/` + strings.Repeat("a", 256) + `"},` + everyMinute + `}`, []string{"body.concurrency.key must be at most 256 bytes long"}},
	"a number for a key": {`{"concurrency":{"limit":1,"key":1},` + everyMinute + `}`, []string{"body.concurrency.key must be a string"}},
	"no limit":           {`{"concurrency":{"on_limit":"skip"},` + everyMinute + `}`, []string{"body.concurrency.limit is missing"}},
	"nothing to run":     {`{"schedule":{"cron":"* * * * *"}}`, []string{"body must have exactly one of"}},
	"a key":              {`{"key":"k",` + everyMinute + `}`, []string{"body.key belongs to the lines of an import"}},
}

func TestDecodeReportsEveryFaultOfRecurringJobs(t *testing.T) {
	for name, row := range faultyRecurring {
		t.Run(name, func(t *testing.T) {
			_, _, err := new(Decoder).Job("acme", []byte(row.body), testNow)
			checkFaults(t, err, row.want)
		})
	}
}

func TestDecodeLineOfRecurringJob(t *testing.T) {
	job, spec, err := new(Decoder).Line("acme", []byte(`{"key":"k",`+everyMinute+`}`), testNow)
	if err != nil || spec == nil {
		t.Fatalf("Line of a recurring job = %+v, %v; want a spec", spec, err)
	}
	if job.Key != "k" || job.BodyHash == "" || spec.Tenant != "acme" {
		t.Errorf("Line of a recurring job = %+v of tenant %q, want its key, a hash, and tenant acme", job, spec.Tenant)
	}
}

func TestDecodePutJob(t *testing.T) {
	for name, row := range map[string]struct {
		name, body string
		want       []string
	}{
		"named by its path":  {"nightly", `{` + everyMinute + `}`, nil},
		"named twice":        {"nightly", `{"name":"nightly",` + everyMinute + `}`, nil},
		"another name":       {"nightly", `{"name":"weekly",` + everyMinute + `}`, []string{"body.name must be the name in the path"}},
		"one-off":            {"nightly", `{"task":"t","schedule":{"at":"2026-11-22T00:00:00Z"}}`, []string{"body.schedule must have cron or every, or be absent"}},
		"only triggered":     {"nightly", `{"task":"t"}`, nil},
		"a bad name":         {"Nightly", `{` + everyMinute + `}`, []string{"path.id must be 1 to 63"}},
		"an id":              {"0192e5a0-0000-7000-8000-000000000000", `{` + everyMinute + `}`, []string{"path.id must not be a UUID"}},
		"bad path and body":  {"Nightly", `{"max_runs":0,` + everyMinute + `}`, []string{"path.id must be", "body.max_runs must be"}},
		"a body of no shape": {"nightly", `[]`, []string{"body must be an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).PutJob("acme", row.name, []byte(row.body), testNow)
			if row.want != nil {
				checkFaults(t, err, row.want)
				return
			}
			if err != nil || got.Name != row.name || got.Tenant != "acme" {
				t.Errorf("PutJob(%s, %s) = %+v, %v; want the name", row.name, row.body, got, err)
			}
		})
	}
	if _, err := new(Decoder).PutJob("acme", "n", []byte(`{`), testNow); err == nil || strings.Contains(err.Error(), "path") {
		t.Errorf("PutJob({) = %v, want it not to be JSON", err)
	}
}

func TestDecodePatchJob(t *testing.T) {
	created := testNow.Add(-time.Hour)
	minutely := schema.JobSpec{
		Tenant: "acme", Name: "n", Task: "t", Created: created, Updated: created, MaxRuns: 5, EndStated: testNow.Add(time.Hour),
		Schedule: &schema.Schedule{Cron: "* * * * *", Timezone: "Europe/Berlin", End: testNow.Add(5 * time.Minute), Jitter: schema.Duration(time.Second)},
	}
	interval := schema.JobSpec{
		Tenant: "acme", Work: &schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}, Created: created, Updated: created, JitterStated: true,
		Schedule: &schema.Schedule{Every: schema.Duration(time.Minute), Anchor: created, Jitter: schema.Duration(2 * time.Second)},
	}
	// said is what a decoder makes of a spec: a default jitter, and an end that only max_runs
	// makes, are for the planner.
	manual := schema.JobSpec{Tenant: "acme", Name: "n", Task: "t", Created: created, Updated: created}
	said := func(s schema.JobSpec, change func(*schema.JobSpec)) schema.JobSpec {
		if s.Schedule == nil {
			change(&s)
			return s
		}
		c := *s.Schedule
		c.End = s.EndStated
		if !s.JitterStated {
			c.Jitter = 0
		}
		s.Schedule = &c
		change(&s)
		return s
	}
	for name, row := range map[string]struct {
		job   schema.JobSpec
		patch string
		want  schema.JobSpec
		fault string
	}{
		"nothing":            {minutely, `{}`, minutely, ""},
		"another expression": {minutely, `{"schedule":{"cron":"0 * * * *"}}`, said(minutely, func(s *schema.JobSpec) { s.Schedule.Cron = "0 * * * *" }), ""},
		"another zone":       {minutely, `{"schedule":{"timezone":null}}`, said(minutely, func(s *schema.JobSpec) { s.Schedule.Timezone = "" }), ""},
		"as often as it may": {minutely, `{"max_runs":null}`, said(minutely, func(s *schema.JobSpec) { s.MaxRuns = 0 }), ""},
		"for ever":           {minutely, `{"max_runs":null,"end":null}`, said(minutely, func(s *schema.JobSpec) { s.MaxRuns, s.EndStated, s.Schedule.End = 0, time.Time{}, time.Time{} }), ""},
		"payload":            {minutely, `{"payload":{"a":1}}`, said(minutely, func(s *schema.JobSpec) { s.Payload = json.RawMessage(`{"a":1}`) }), ""},
		"from cron to every": {
			minutely, `{"schedule":{"cron":null,"timezone":null,"every":"30m"}}`,
			said(minutely, func(s *schema.JobSpec) {
				s.Schedule.Cron, s.Schedule.Timezone, s.Schedule.Every, s.Schedule.Anchor = "", "", schema.Duration(30*time.Minute), created
			}), "",
		},
		"from every to cron": {
			interval, `{"schedule":{"every":null,"cron":"0 * * * *"}}`,
			said(interval, func(s *schema.JobSpec) { *s.Schedule = schema.Schedule{Cron: "0 * * * *", Jitter: s.Schedule.Jitter} }), "",
		},
		"another interval": {interval, `{"schedule":{"every":"2m"}}`, said(interval, func(s *schema.JobSpec) { s.Schedule.Every = schema.Duration(2 * time.Minute) }), ""},
		"another anchor":   {interval, `{"schedule":{"anchor":"2026-11-21T09:00:00Z"}}`, said(interval, func(s *schema.JobSpec) { s.Schedule.Anchor = testNow.Add(-30 * time.Minute) }), ""},
		"jitter back":      {interval, `{"jitter":null}`, said(interval, func(s *schema.JobSpec) { s.JitterStated, s.Schedule.Jitter = false, 0 }), ""},
		"to a task":        {interval, `{"nats":null,"task":"u"}`, said(interval, func(s *schema.JobSpec) { s.Work, s.Task = nil, "u" }), ""},
		"its own name":     {minutely, `{"name":"n"}`, said(minutely, func(*schema.JobSpec) {}), ""},
		"another name":     {minutely, `{"name":"m"}`, minutely, "body.name cannot be changed"},
		"no name":          {minutely, `{"name":null}`, minutely, "body.name cannot be changed"},
		"one-off":          {interval, `{"schedule":{"every":null,"at":"2026-11-22T00:00:00Z"},"jitter":null}`, interval, "body.schedule cannot make a recurring job a one-off one"},
		"to several": {
			interval, `{"schedule":null,"schedules":[{"every":"1m"},{"cron":"0 9 * * *"}]}`,
			said(interval, func(s *schema.JobSpec) {
				*s.Schedule = schema.Schedule{Jitter: s.Schedule.Jitter, Listed: true, Any: []schema.Schedule{{Every: schema.Duration(time.Minute), Anchor: created}, {Cron: "0 9 * * *"}}}
			}), "",
		},
		"without a date": {
			minutely, `{"schedule":{"exclude":["2026-12-25"]}}`,
			said(minutely, func(s *schema.JobSpec) {
				s.Schedule.Any, s.Schedule.Cron, s.Schedule.Timezone = []schema.Schedule{{Cron: "* * * * *", Timezone: "Europe/Berlin", Exclude: []string{"2026-12-25"}}}, "", ""
			}), "",
		},
		"several beside one": {minutely, `{"schedules":[{"every":"1m"}]}`, minutely, "body must have only one of schedule and schedules"},
		"only triggered": {
			minutely, `{"schedule":null,"max_runs":null,"end":null}`,
			said(minutely, func(s *schema.JobSpec) { s.Schedule, s.MaxRuns, s.EndStated = nil, 0, time.Time{} }), "",
		},
		"triggered no more": {
			manual, `{"schedule":{"cron":"* * * * *"}}`, said(manual, func(s *schema.JobSpec) { s.Schedule = &schema.Schedule{Cron: "* * * * *"} }), "",
		},
		"triggered as before":            {manual, `{"priority":"high"}`, said(manual, func(s *schema.JobSpec) { s.Priority = schema.High }), ""},
		"without name nothing starts it": {interval, `{"schedule":null,"jitter":null}`, interval, "body.schedule cannot make a recurring job a one-off one"},
		"both":                           {interval, `{"schedule":{"cron":"* * * * *"}}`, interval, "body.schedule must have only one of"},
		"a fault":                        {interval, `{"max_runs":-1}`, interval, "body.max_runs must be"},
		"no object":                      {interval, `[]`, interval, "body must be an object"},
		"a doubled name":                 {interval, `{"task":"a","task":"b"}`, interval, "body.task is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(Decoder).PatchJob(row.job, []byte(row.patch), testNow)
			if row.fault != "" {
				checkFaults(t, err, []string{row.fault})
			} else if err != nil {
				t.Fatalf("PatchJob(%s) = %v", row.patch, err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("PatchJob(%s) (-want +got):\n%s", row.patch, diff)
			}
		})
	}
}
