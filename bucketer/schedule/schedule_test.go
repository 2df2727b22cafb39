package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func every(d time.Duration) schema.Schedule { return schema.Schedule{Every: schema.Duration(d)} }

func cron(text string) schema.Schedule { return schema.Schedule{Cron: text} }

// first returns the first n nominal times after t, as RFC 3339.
func first(t *testing.T, sch schema.Schedule, after string, n int) []string {
	t.Helper()
	s, err := schedule.Compile(sch, 0)
	if err != nil {
		t.Fatalf("Compile(%+v): %v", sch, err)
	}
	var times []string
	for u := range s.From(at(after)) {
		if len(times) == n {
			break
		}
		times = append(times, u.Format(time.RFC3339Nano))
	}
	return times
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	start := at("2026-11-21T00:00:00Z")
	for name, tt := range map[string]struct {
		schedule schema.Schedule
		want     []string // the faults, each by its beginning
	}{
		"nothing":                       {schema.Schedule{}, []string{"cron is missing, and so is every"}},
		"both":                          {schema.Schedule{Cron: "* * * * *", Every: schema.Duration(time.Hour)}, []string{"every cannot be stated beside cron"}},
		"blank":                         {cron("  "), []string{"cron is empty"}},
		"reboot":                        {cron("@reboot"), []string{"cron must name times: the start of a machine is none"}},
		"every in cron":                 {cron("@every 0s"), []string{"cron must not be an interval: state it in every"}},
		"an unknown macro":              {cron("@fortnightly"), []string{"cron names no times: of the words with @"}},
		"a trigger of the library":      {cron("@triggered"), []string{"cron names no times: of the words with @"}},
		"a zone inside":                 {cron("TZ=Europe/Berlin 0 9 * * *"), []string{"cron must not name a time zone"}},
		"a zone inside, as in crontabs": {cron("CRON_TZ=UTC 0 9 * * *"), []string{"cron must not name a time zone"}},
		"February 30":                   {cron("0 0 30 2 *"), []string{"cron never fires: no day matches it"}},
		"April 31, nearest workday":     {cron("0 0 31W 4 *"), []string{"cron never fires: no day matches it"}},
		"the sixth minute of sixty":     {cron("60 * * * *"), []string{`cron has a wrong minute: end of range (60) above maximum (59): "60"`}},
		"every field wrong": {cron("61 62 24 32 13 8"), []string{
			"cron has a wrong second", "cron has a wrong minute", "cron has a wrong hour",
			"cron has a wrong day of month", "cron has a wrong month", "cron has a wrong day of week",
		}},
		"wrong in two ways":       {cron("x 24 * * *"), []string{`cron has a wrong minute: "X" cannot stand there`, `cron has a wrong hour: end of range (24)`}},
		"four fields":             {cron("* * * *"), []string{"cron must have 5 fields"}},
		"a year":                  {cron("0 0 0 1 1 * 2030"), []string{"cron has 7 fields"}},
		"eight fields":            {cron("0 0 0 1 1 * 2030 1"), []string{"cron must have 5 fields"}},
		"a megabyte":              {cron(strings.Repeat("0,", 1<<19)), []string{"cron must not be longer than 255 bytes"}},
		"256 bytes":               {cron("0 0 * * *" + strings.Repeat(" ", 247)), []string{"cron must not be longer than 255 bytes"}},
		"a line break":            {cron("0 0 * * *\n"), []string{"cron has a character that is not printable ASCII at byte 9"}},
		"a no-break space":        {cron("0\u00a00 * * *"), []string{"cron has a character that is not printable ASCII at byte 1"}},
		"nothing in a list":       {cron("1,,2 * * * *"), []string{"cron has a wrong minute: an element of the list is missing"}},
		"a comma alone":           {cron(", * * * *"), []string{"cron has a wrong minute: an element of the list is missing"}},
		"a range from a star":     {cron("*-5 * * * *"), []string{`cron has a wrong minute: "*-5" cannot stand there`}},
		"a signed number":         {cron("+5 * * * *"), []string{`cron has a wrong minute: "+5" cannot stand there`}},
		"two ranges in one":       {cron("1-2-3 * * * *"), []string{`cron has a wrong minute: "1-2-3" cannot stand there`}},
		"step of nothing":         {cron("*/0 * * * *"), []string{"cron has a wrong minute: step of range must be a positive number"}},
		"step over the field":     {cron("*/60 * * * *"), []string{"cron has a wrong minute: step (60) must be less than range size (60)"}},
		"? as a minute":           {cron("? * * * *"), []string{`cron has a wrong minute: "?" cannot stand there`}},
		"? in a list":             {cron("0 0 1,? * *"), []string{`cron has a wrong day of month: "?" cannot stand there`}},
		"L as an hour":            {cron("0 L * * *"), []string{`cron has a wrong hour: "L" cannot stand there`}},
		"W of a range":            {cron("0 0 1-5W * *"), []string{`cron has a wrong day of month: "1-5W" cannot stand there`}},
		"a month as a weekday":    {cron("0 0 * * JAN"), []string{`cron has a wrong day of week: "JAN" cannot stand there`}},
		"the sixth Friday":        {cron("0 0 * * FRI#6"), []string{`cron has a wrong day of week: "FRI#6" cannot stand there`}},
		"stepping over the week":  {cron("0 0 * * FRI-MON/2"), []string{`cron has a wrong day of week: "FRI-MON/2" steps over the end of the week`}},
		"H of a wrong range":      {cron("H(30-61) * * * *"), []string{`cron has a wrong minute: "H(30-61)" must draw from a range within 0-59`}},
		"H of a reversed range":   {cron("0 H(5-3) * * *"), []string{`cron has a wrong hour: "H(5-3)" must draw from a range within 0-23`}},
		"H on the 31st":           {cron("0 0 H(1-31) * *"), []string{`cron has a wrong day of month: "H(1-31)" must draw from a range within 1-28`}},
		"H with step 0":           {cron("H/0 * * * *"), []string{`cron has a wrong minute: "H/0" must have a step of 1 to 60`}},
		"something after H":       {cron("HH * * * *"), []string{`cron has a wrong minute: "HH" cannot stand there`}},
		"a unit of the day":       {cron("0 9am * * *"), []string{`cron has a wrong hour: "9AM" cannot stand there`}},
		"an unknown zone":         {schema.Schedule{Cron: "0 0 * * *", Timezone: "Europe/Atlantis"}, []string{"timezone must be a name of the IANA time zone database"}},
		"Local":                   {schema.Schedule{Cron: "0 0 * * *", Timezone: "Local"}, []string{"timezone must be a name of the IANA time zone database"}},
		"a zone in wrong case":    {schema.Schedule{Cron: "0 0 * * *", Timezone: "europe/berlin"}, []string{`timezone must be written "Europe/Berlin"`}},
		"a path":                  {schema.Schedule{Cron: "0 0 * * *", Timezone: "../../etc/passwd"}, []string{"timezone must be a name"}},
		"a path from the root":    {schema.Schedule{Cron: "0 0 * * *", Timezone: "/etc/localtime"}, []string{"timezone must be a name"}},
		"a path inside":           {schema.Schedule{Cron: "0 0 * * *", Timezone: "Europe/../Europe/Berlin"}, []string{"timezone must be a name"}},
		"a folder":                {schema.Schedule{Cron: "0 0 * * *", Timezone: "Europe"}, []string{"timezone must be a name"}},
		"a zone as in POSIX":      {schema.Schedule{Cron: "0 0 * * *", Timezone: "CET-1CEST"}, []string{"timezone must be a name"}},
		"a zone of a megabyte":    {schema.Schedule{Cron: "0 0 * * *", Timezone: strings.Repeat("a", 1<<20)}, []string{"timezone must be a name"}},
		"an unknown gap":          {schema.Schedule{Cron: "0 0 * * *", Gap: "jump"}, []string{"gap must be run or skip"}},
		"an unknown overlap":      {schema.Schedule{Cron: "0 0 * * *", OverlapHour: "third"}, []string{"overlap_hour must be first, second or both"}},
		"an anchor beside cron":   {schema.Schedule{Cron: "0 0 * * *", Anchor: start}, []string{"anchor has no meaning for a cron expression"}},
		"every below a second":    {every(999 * time.Millisecond), []string{"every must be between 1s and 87600h0m0s"}},
		"every below nothing":     {every(-time.Hour), []string{"every must be between 1s and 87600h0m0s"}},
		"every above ten years":   {every(schedule.MaxEvery + time.Millisecond), []string{"every must be between 1s and 87600h0m0s"}},
		"every with a broken ms":  {every(time.Second + time.Microsecond), []string{"every must be a whole number of milliseconds"}},
		"an interval with a zone": {schema.Schedule{Every: schema.Duration(time.Hour), Timezone: "UTC", Gap: "run", OverlapHour: "first"}, []string{"timezone has no meaning for an interval", "gap has", "overlap_hour has"}},
		"an anchor without end":   {schema.Schedule{Every: schema.Duration(time.Hour), Anchor: time.Unix(1<<60, 0)}, []string{"anchor must lie in the years 1 to 9999"}},
		"end at start":            {schema.Schedule{Cron: "* * * * *", Start: start, End: start}, []string{"end must be later than start"}},
		"end before start":        {schema.Schedule{Cron: "* * * * *", Start: start, End: start.Add(-1)}, []string{"end must be later than start"}},
		"end before 1970":         {schema.Schedule{Cron: "* * * * *", End: at("1969-12-31T00:00:00Z")}, []string{"end must lie after the year 1969"}},
		"start in 2400":           {schema.Schedule{Cron: "* * * * *", Start: at("2400-01-01T00:00:00Z")}, []string{"start must lie before the year 2400"}},
		"nothing from start to end": {
			schema.Schedule{Cron: "0 9 * * *", Start: at("2026-11-21T09:00:00.001Z"), End: at("2026-11-22T09:00:00Z")},
			[]string{"cron never fires between start and end"},
		},
		"no interval from start to end": {
			schema.Schedule{Every: schema.Duration(time.Hour), Start: start.Add(time.Minute), End: start.Add(time.Hour)},
			[]string{"every never fires between start and end"},
		},
		"only in a gap that is skipped": {
			schema.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", Gap: "skip", Start: at("2026-03-28T12:00:00Z"), End: at("2026-03-29T12:00:00Z")},
			[]string{"cron never fires between start and end"},
		},
		"negative jitter":       {schema.Schedule{Cron: "* * * * *", Jitter: -1}, []string{"jitter must be between 0s and 24h0m0s"}},
		"jitter above a day":    {schema.Schedule{Cron: "* * * * *", Jitter: schema.Duration(25 * time.Hour)}, []string{"jitter must be between 0s and 24h0m0s"}},
		"jitter in microsecond": {schema.Schedule{Cron: "* * * * *", Jitter: schema.Duration(time.Microsecond)}, []string{"jitter must be a whole number of milliseconds"}},
		"everything": {
			schema.Schedule{Cron: "x", Timezone: "x", Gap: "x", OverlapHour: "x", Every: 1, Anchor: start, Start: start, End: start, Jitter: -1},
			[]string{"every cannot", "cron must have", "timezone must", "gap must", "overlap_hour must", "anchor has", "every must", "end must", "jitter must"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := schedule.Compile(tt.schedule, 1)
			var faults schedule.Faults
			if s != nil || !errors.As(err, &faults) {
				t.Fatalf("Compile(%.200v) = %v, %v, want Faults", tt.schedule, s, err)
			}
			wrong := len(faults) != len(tt.want)
			for i := 0; !wrong && i < len(faults); i++ {
				wrong = !strings.HasPrefix(faults[i].Location+" "+faults[i].Message, tt.want[i])
			}
			if wrong {
				t.Errorf("Compile(%.200v): faults %q, want those that begin with %q", tt.schedule, faults, tt.want)
			}
			if len(err.Error()) > 2000 {
				t.Errorf("Compile(%.200v): an error of %d bytes", tt.schedule, len(err.Error()))
			}
		})
	}
}

func TestNextOfExpressions(t *testing.T) {
	t.Parallel()
	const saturday = "2026-11-21T09:30:00Z"
	for name, tt := range map[string]struct {
		text  string
		after string
		want  []string
	}{
		"five fields":            {"*/15 9 * * *", saturday, []string{"2026-11-21T09:45:00Z", "2026-11-22T09:00:00Z"}},
		"six fields":             {"30 0 12 * * *", saturday, []string{"2026-11-21T12:00:30Z", "2026-11-22T12:00:30Z"}},
		"spaces and tabs":        {"\t0  12\t* * * ", saturday, []string{"2026-11-21T12:00:00Z"}},
		"names, in any case":     {"0 9 * DEC Mon-fri", saturday, []string{"2026-12-01T09:00:00Z", "2026-12-02T09:00:00Z"}},
		"hours over midnight":    {"0 22-1 * * *", saturday, []string{"2026-11-21T22:00:00Z", "2026-11-21T23:00:00Z", "2026-11-22T00:00:00Z", "2026-11-22T01:00:00Z", "2026-11-22T22:00:00Z"}},
		"months over new year":   {"0 0 1 NOV-FEB *", saturday, []string{"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-11-01T00:00:00Z"}},
		"days over the week":     {"0 0 * * FRI-MON", saturday, []string{"2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-27T00:00:00Z"}},
		"Sunday as 7":            {"0 0 * * 7", saturday, []string{"2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"}},
		"to Sunday as 7":         {"0 0 * * 6-7", saturday, []string{"2026-11-22T00:00:00Z", "2026-11-28T00:00:00Z"}},
		"a step from a number":   {"50/5 * * * *", saturday, []string{"2026-11-21T09:50:00Z", "2026-11-21T09:55:00Z", "2026-11-21T10:50:00Z"}},
		"either day":             {"0 0 1 * MON", "2026-11-28T00:00:00Z", []string{"2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z", "2026-12-07T00:00:00Z"}},
		"both, after a star":     {"0 0 */2 * MON", "2026-11-21T00:00:00Z", []string{"2026-11-23T00:00:00Z", "2026-12-07T00:00:00Z"}},
		"either, after ?":        {"0 0 ? * MON", saturday, []string{"2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"}},
		"two ?":                  {"0 0 ? * ?", saturday, []string{"2026-11-22T00:00:00Z"}},
		"the last day":           {"0 0 L * *", "2028-01-31T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z", "2028-04-30T00:00:00Z"}},
		"before the last day":    {"0 0 L-30 * *", saturday, []string{"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-03-01T00:00:00Z"}},
		"the last workday":       {"0 0 LW * *", saturday, []string{"2026-11-30T00:00:00Z", "2026-12-31T00:00:00Z", "2027-01-29T00:00:00Z"}},
		"near the 15th":          {"0 0 15W * *", saturday, []string{"2026-12-15T00:00:00Z", "2027-01-15T00:00:00Z", "2027-02-15T00:00:00Z", "2027-03-15T00:00:00Z", "2027-04-15T00:00:00Z", "2027-05-14T00:00:00Z"}},
		"near the 1st, not back": {"0 0 1W 8 *", "2026-01-01T00:00:00Z", []string{"2026-08-03T00:00:00Z", "2027-08-02T00:00:00Z"}},
		"near the last, not on":  {"0 0 31W 1 *", "2027-01-01T00:00:00Z", []string{"2027-01-29T00:00:00Z", "2028-01-31T00:00:00Z"}},
		"the third Friday":       {"0 0 * * FRI#3", saturday, []string{"2026-12-18T00:00:00Z", "2027-01-15T00:00:00Z"}},
		"the last Friday":        {"0 0 * * FRI#L", saturday, []string{"2026-11-27T00:00:00Z", "2026-12-25T00:00:00Z"}},
		"the last Sunday, short": {"0 0 * * 7L", saturday, []string{"2026-11-29T00:00:00Z", "2026-12-27T00:00:00Z"}},
		"five Mondays":           {"0 0 ? FEB MON#5", saturday, []string{"2044-02-29T00:00:00Z", "2072-02-29T00:00:00Z", "2112-02-29T00:00:00Z"}},
		"leap days":              {"0 0 29 2 *", "2096-02-28T00:00:00Z", []string{"2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"}},
		"yearly":                 {"@yearly", saturday, []string{"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"}},
		"annually, shouted":      {" @ANNUALLY ", saturday, []string{"2027-01-01T00:00:00Z"}},
		"monthly":                {"@monthly", saturday, []string{"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"}},
		"weekly":                 {"@weekly", saturday, []string{"2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"}},
		"daily":                  {"@daily", saturday, []string{"2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"}},
		"midnight":               {"@midnight", saturday, []string{"2026-11-22T00:00:00Z"}},
		"hourly":                 {"@hourly", saturday, []string{"2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"}},
		"every second":           {"* * * * * *", "2026-12-31T23:59:58.5Z", []string{"2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"}},
		"before 1970":            {"@yearly", "0001-01-01T00:00:00Z", []string{"1970-01-01T00:00:00Z", "1971-01-01T00:00:00Z"}},
		"to the horizon":         {"@yearly", "2397-06-01T00:00:00Z", []string{"2398-01-01T00:00:00Z", "2399-01-01T00:00:00Z"}},
		"behind the horizon":     {"* * * * *", "2400-01-01T00:00:00Z", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := len(tt.want)
			if name == "to the horizon" || n == 0 {
				n++
			}
			if d := cmp.Diff(tt.want, first(t, cron(tt.text), tt.after, n)); d != "" {
				t.Errorf("times of %q after %s (-want +got):\n%s", tt.text, tt.after, d)
			}
		})
	}
}

func TestNextOfIntervals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		schedule schema.Schedule
		after    string
		want     []string
	}{
		"from the anchor": {
			schema.Schedule{Every: schema.Duration(90 * time.Minute), Anchor: at("2026-11-21T09:30:00.25Z")},
			"2026-11-21T09:30:00.25Z",
			[]string{"2026-11-21T11:00:00.25Z", "2026-11-21T12:30:00.25Z"},
		},
		"at the anchor": {
			schema.Schedule{Every: schema.Duration(time.Hour), Anchor: at("2026-11-21T09:30:00Z")},
			"2026-11-21T09:29:59.9999Z",
			[]string{"2026-11-21T09:30:00Z", "2026-11-21T10:30:00Z"},
		},
		"before the anchor": {
			schema.Schedule{Every: schema.Duration(7 * 24 * time.Hour), Anchor: at("2026-11-23T00:00:00Z")},
			"2026-11-01T00:00:00Z",
			[]string{"2026-11-02T00:00:00Z", "2026-11-09T00:00:00Z"},
		},
		"through a change of clocks": {
			schema.Schedule{Every: schema.Duration(24 * time.Hour), Anchor: at("2026-03-28T01:30:00Z")},
			"2026-03-28T01:30:00Z",
			[]string{"2026-03-29T01:30:00Z", "2026-03-30T01:30:00Z"},
		},
		"start and end": {
			schema.Schedule{Every: schema.Duration(time.Hour), Start: at("2026-11-21T09:00:00Z"), End: at("2026-11-21T11:00:00Z")},
			"2020-01-01T00:00:00Z",
			[]string{"2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z"},
		},
		"start and end between ms": {
			schema.Schedule{Every: schema.Duration(time.Hour), Start: at("2026-11-21T09:00:00.0001Z"), End: at("2026-11-21T11:00:00.0001Z")},
			"2020-01-01T00:00:00Z",
			[]string{"2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"},
		},
		"an end beyond everything": {
			schema.Schedule{Every: schema.Duration(schedule.MaxEvery), Anchor: at("2000-01-01T00:00:00Z"), End: at("9999-12-31T23:59:59Z")},
			"2385-01-01T00:00:00Z",
			[]string{"2389-09-28T00:00:00Z", "2399-09-26T00:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := len(tt.want)
			if !tt.schedule.End.IsZero() {
				n++ // and nothing after it
			}
			if d := cmp.Diff(tt.want, first(t, tt.schedule, tt.after, n)); d != "" {
				t.Errorf("times of %+v after %s (-want +got):\n%s", tt.schedule, tt.after, d)
			}
		})
	}
}

func ExampleCompile() {
	s, err := schedule.Compile(schema.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, schema.HashOf("a job's id"))
	if err != nil {
		fmt.Println(err)
		return
	}
	// On the 29th the clock goes from 02:00 to 03:00, which is 01:00 in UTC.
	for t := range s.From(time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)) {
		fmt.Println(t.Format(time.DateTime))
		if t.Day() == 30 {
			break
		}
	}
	// Output:
	// 2026-03-28 01:30:00
	// 2026-03-29 01:00:00
	// 2026-03-30 00:30:00
}

func ExampleFaults() {
	_, err := schedule.Compile(schema.Schedule{Cron: "60 * * * *", Timezone: "Local"}, 0)
	var faults schedule.Faults
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Println(f.Location, "→", f.Message)
		}
	}
	// Output:
	// cron → has a wrong minute: end of range (60) above maximum (59): "60"
	// timezone → must be a name of the IANA time zone database, such as "Europe/Berlin"
}
