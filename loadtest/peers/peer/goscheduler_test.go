package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestScheduleTime(t *testing.T) {
	at := func(clock string) time.Time {
		t.Helper()
		when, err := time.Parse("15:04:05.999", clock)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, row := range []struct {
		name     string
		due, now time.Time
		roundUp  bool
		want     time.Time
	}{
		{"as it is", at("10:01:30.250"), at("10:00:00"), false, at("10:01:30")},
		{"rounded up", at("10:01:30.250"), at("10:00:00"), true, at("10:02:00")},
		{"rounded up by almost a minute", at("10:01:00.001"), at("10:00:00"), true, at("10:02:00")},
		{"a whole minute stays", at("10:01:00"), at("10:00:00"), true, at("10:01:00")},
		{"ready: the next minute", time.Time{}, at("10:00:30"), false, at("10:01:00")},
		{"ready, rounded up", time.Time{}, at("10:00:30"), true, at("10:01:00")},
		{"ready shortly before a minute: the one after", time.Time{}, at("10:00:58.500"), false, at("10:02:00")},
	} {
		if got := scheduleTime(row.due, row.now, row.roundUp); !got.Equal(row.want) {
			t.Errorf("%s: scheduleTime(%s, %s, %t) = %s, want %s", row.name, row.due, row.now, row.roundUp, got, row.want)
		}
	}
}

func TestClearOfEnd(t *testing.T) {
	minute := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{
		0: 0, 30 * time.Second: 30 * time.Second, 58 * time.Second: 58 * time.Second, 59 * time.Second: time.Minute,
	} {
		if got := clearOfEnd(minute.Add(after)); !got.Equal(minute.Add(want)) {
			t.Errorf("clearOfEnd %s into a minute = %s, want %s", after, got.Sub(minute), want)
		}
	}
}

func TestRunsThatHaveEndedAreReadFromItsCounters(t *testing.T) {
	const page = `# HELP callback_status_count 
# TYPE callback_status_count counter
callback_status_count{appId="bench",partitionId="0",status="Success"} 12
callback_status_count{appId="bench",partitionId="1",status="Success"} 1.5e+06
callback_status_count{appId="bench",partitionId="1",status="Fail"} 3
callback_status_count{appId="bench",partitionId="1",status="Retry"} 7
callback_status_count{appId="first",partitionId="0",status="Success"} 1
callback_duration_count{appId="bench",partitionId="0"} 99
`
	for app, want := range map[string]int{"bench": 1_500_015, "first": 1, "none": 0} {
		if got, err := parseDone([]byte(page), app); err != nil || got != want {
			t.Errorf("parseDone of %s = %d, %v, want %d", app, got, err, want)
		}
	}
	if _, err := parseDone([]byte(`callback_status_count{appId="bench",partitionId="1",status="Fail"} many`), "bench"); err == nil {
		t.Error("parseDone of what is no number = nil, want an error")
	}
}

func TestInsertionsThatGoschedulerFailsAreTriedAgain(t *testing.T) {
	for _, row := range []struct {
		name    string
		answers []int // then 200
		calls   int
		fails   bool
	}{
		{"taken", nil, 1, false},
		{"failed twice", []int{500, 503}, 3, false},
		{"refused", []int{400}, 1, true},
		{"failed each time", []int{500, 500, 500, 500, 500}, goschedulerTries, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			calls := 0
			var last string
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var got struct {
					AppID        string
					ScheduleTime int64
					Callback     struct{ Details struct{ URL, Method string } }
				}
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Errorf("decode: %v", err)
				}
				last = fmt.Sprint(r.URL.Path, " ", got.AppID, " ", got.ScheduleTime, " ", got.Callback.Details.Method, " ", got.Callback.Details.URL)
				if calls++; calls <= len(row.answers) {
					w.WriteHeader(row.answers[calls-1])
				}
			}))
			defer api.Close()
			g := &goscheduler{api: api.URL, client: api.Client(), log: slog.New(slog.DiscardHandler)}
			err := g.insert(t.Context(), "bench", http.MethodPost, "http://sink/w1/7", "{}", time.Unix(120, 0))
			if (err != nil) != row.fails || calls != row.calls {
				t.Errorf("insert = %v after %d calls, want an error: %t, after %d", err, calls, row.fails, row.calls)
			}
			if want := "/goscheduler/schedules bench 120 POST http://sink/w1/7"; last != want {
				t.Errorf("it was asked for %q, want %q", last, want)
			}
		})
	}
}

func TestGoschedulerNeedsACheckout(t *testing.T) {
	if _, err := New("goscheduler", Means{}); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("New without a checkout = %v, want ErrNoCheckout", err)
	}
	for _, name := range Names() {
		if p, err := New(name, Means{Goscheduler: "x"}); err != nil || p.Name() != name {
			t.Errorf("New(%q) = %v, %v, want a system of that name", name, p, err)
		}
	}
}
