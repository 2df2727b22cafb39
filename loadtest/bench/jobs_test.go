package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type line struct {
	Key      string
	HTTP     *struct{ URL string }
	NATS     *struct{ Subject string }
	Schedule struct{ At time.Time }
	Payload  *struct{ Pad string }
}

func read(t *testing.T, r io.Reader) []line {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var all []line
	for l := range bytes.Lines(text) {
		var x line
		d := json.NewDecoder(bytes.NewReader(l))
		d.DisallowUnknownFields()
		if err := d.Decode(&x); err != nil {
			t.Fatalf("line %s: %v", l, err)
		}
		all = append(all, x)
	}
	return all
}

func TestLinesSayWhatWasAsked(t *testing.T) {
	rows := []struct {
		name  string
		jobs  jobs
		check func(l line, n int) bool
	}{
		{"http", jobs{target: httpTarget, url: "http://h:1", source: "s7"}, func(l line, n int) bool {
			return l.HTTP != nil && l.HTTP.URL == "http://h:1/s7/"+digits(n) && l.Key == "" && l.Payload == nil
		}},
		{"noop calls nobody", jobs{target: noopTarget, url: nowhere, source: "s7"}, func(l line, _ int) bool {
			return l.HTTP != nil && strings.HasPrefix(l.HTTP.URL, nowhere)
		}},
		{"nats", jobs{target: natsTarget, source: "s7"}, func(l line, _ int) bool { return l.NATS != nil && l.NATS.Subject == natsSubject && l.HTTP == nil }},
		{"keyed", jobs{target: httpTarget, source: "s7", keyed: true}, func(l line, n int) bool { return l.Key == "s7-"+digits(n) }},
		{"payload", jobs{target: httpTarget, bytes: 200}, func(l line, _ int) bool { return l.Payload != nil && len(l.Payload.Pad) == 200-len(`{"pad":""}`) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			row.jobs.n, row.jobs.from, row.jobs.span, row.jobs.seed = 500, noon, time.Minute, 3
			all := read(t, &reader{jobs: row.jobs, of: selection{first: 1, last: 500}})
			if len(all) != 500 {
				t.Fatalf("%d lines, want 500", len(all))
			}
			for i, l := range all {
				if !row.check(l, i+1) || !l.Schedule.At.Equal(row.jobs.due(i+1)) {
					t.Fatalf("line %d is %+v, due %s", i+1, l, row.jobs.due(i+1))
				}
			}
		})
	}
}

func digits(n int) string {
	text, _ := json.Marshal(n) // a number
	return string(text)
}

func TestDueInstantsFillTheSpan(t *testing.T) {
	j := jobs{n: 60_000, from: noon, span: time.Minute, seed: 1}
	perSecond := make([]int, 60)
	for i := 1; i <= j.n; i++ {
		due := j.due(i)
		if due.Before(noon) || !due.Before(noon.Add(time.Minute)) || due.Nanosecond()%1e6 != 0 {
			t.Fatalf("due(%d) = %s, want a whole millisecond in the minute from %s on", i, due, noon)
		}
		perSecond[due.Second()]++
	}
	if lo, hi := slices.Min(perSecond), slices.Max(perSecond); lo < 850 || hi > 1150 {
		t.Errorf("between %d and %d jobs a second, want about 1000", lo, hi)
	}
	if at := (jobs{from: noon, seed: 1}).due(7); !at.Equal(noon) {
		t.Errorf("due without a span = %s, want %s", at, noon)
	}
	if a, b := j.due(1), (jobs{n: 60_000, from: noon, span: time.Minute, seed: 2}).due(1); a.Equal(b) {
		t.Errorf("two seeds, the same instant %s", a)
	}
}

func TestReaderGivesASelectionInSmallPieces(t *testing.T) {
	j := jobs{n: 5000, from: noon, target: httpTarget, url: "http://h:1", source: "s"}
	whole, err := io.ReadAll(&reader{jobs: j, of: selection{first: 1, last: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	var pieces bytes.Buffer
	if _, err := io.CopyBuffer(struct{ io.Writer }{&pieces}, struct{ io.Reader }{&reader{jobs: j, of: selection{first: 1, last: 5000}}}, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole, pieces.Bytes()) {
		t.Error("reading by 7 bytes gives other text than reading at once")
	}
	some := read(t, &reader{jobs: j, of: selection{list: []int{9, 4}}})
	if len(some) != 2 || !strings.HasSuffix(some[0].HTTP.URL, "/9") || !strings.HasSuffix(some[1].HTTP.URL, "/4") {
		t.Errorf("lines 9 and 4 are %+v", some)
	}
}

func TestPayloadTooSmallForItsFrameIsRefused(t *testing.T) {
	for bytes, ok := range map[int]bool{0: true, leastPayload - 1: false, leastPayload: true} {
		if err := (jobs{bytes: bytes}).validate(); (err == nil) != ok {
			t.Errorf("validate with %d bytes = %v, want an error: %t", bytes, err, !ok)
		}
	}
}
