package cli

import (
	"strings"
	"testing"
	"time"
)

// Dates and words are days of the time zone of now, also where a day has 25 hours.
func TestInstant(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 25, 22, 0, 0, 0, berlin) // clocks were put back at 03:00
	for text, want := range map[string]string{
		"-10m":                      "2026-10-25T20:50:00Z",
		"0s":                        "2026-10-25T21:00:00Z",
		"-1d":                       "2026-10-24T20:00:00Z",
		"+40d":                      "2026-12-04T21:00:00Z",
		"-99999d":                   "",
		"d":                         "",
		"1.5d":                      "",
		"today":                     "2026-10-24T22:00:00Z",
		"yesterday":                 "2026-10-23T22:00:00Z",
		"tomorrow":                  "2026-10-25T23:00:00Z",
		"2026-11-01":                "2026-10-31T23:00:00Z",
		"2026-11-21T10:00:00+01:00": "2026-11-21T09:00:00Z",
		"2026-11-21T10:00:00.5Z":    "2026-11-21T10:00:00.5Z",
		"someday":                   "",
		"2026-02-30":                "",
		"2026-11-21T10:00:00":       "",
		"":                          "",
		"tomorrow 10:00":            "2026-10-26T09:00:00Z",
		"Tomorrow 9:30:15":          "2026-10-26T08:30:15Z",
		"today 18:30":               "2026-10-25T17:30:00Z",
		"today 02:00":               "2026-10-25T01:00:00Z/2026-10-25T00:00:00Z", // it comes twice
		"today 01:59":               "2026-10-24T23:59:00Z",
		"2026-11-21 10:00":          "2026-11-21T09:00:00Z",
		"2027-03-28 02:30":          "2027-03-28T01:30:00Z/", // clocks leave it out
		"monday":                    "2026-10-25T23:00:00Z",
		"friday 10:00":              "2026-10-30T09:00:00Z",
		"Fri 10:00":                 "2026-10-30T09:00:00Z",
		"sunday":                    "2026-10-31T23:00:00Z", // today's has begun
		"sunday 02:30":              "2026-11-01T01:30:00Z", // today's two are past
		"sunday 21:59":              "2026-11-01T20:59:00Z",
		"sunday 22:00":              "2026-11-01T21:00:00Z", // it is now
		"sunday 22:01":              "2026-10-25T21:01:00Z",
		"someday 10:00":             "",
		"tomorrow 24:00":            "",
		"tomorrow 10":               "",
		"tomorrow  10:00":           "",
		"tomorrow ":                 "",
		"10:00":                     "",
	} {
		if first, second, refused := strings.Cut(want, "/"); refused {
			_, err := Instant("at", text, now)
			for _, instead := range []string{first, second} {
				if instead == "" {
					continue
				}
				t0, bad := time.Parse(time.RFC3339, instead)
				if says := t0.In(berlin).Format(time.RFC3339); bad != nil || err == nil || !strings.Contains(err.Error(), "Europe/Berlin") || !strings.Contains(err.Error(), says) {
					t.Errorf("Instant(%q) = %v, want the zone, and %s to be written instead", text, err, says)
				}
			}
			continue
		}
		got, err := Instant("from", text, now)
		if (err != nil) != (want == "") || err == nil && got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("Instant(%q) = %v, %v; want %q", text, got.UTC(), err, want)
		}
	}
}

// A day begins when its clocks are put forward, if they leave midnight out, and at the first of two
// midnights.
func TestDaysThatBeginElsewhere(t *testing.T) {
	for _, row := range []struct{ zone, date, want string }{
		{"Africa/Cairo", "2026-04-24", "2026-04-24T01:00:00+03:00"},
		{"America/Havana", "2026-11-01", "2026-11-01T00:00:00-04:00"},
		{"Pacific/Apia", "2011-12-30", "2011-12-31T00:00:00+14:00"}, // a day that was left out
		{"Asia/Kathmandu", "2026-11-01", "2026-11-01T00:00:00+05:45"},
	} {
		zone, err := time.LoadLocation(row.zone)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Instant("from", row.date, time.Date(2026, 1, 1, 0, 0, 0, 0, zone))
		if err != nil || got.Format(time.RFC3339) != row.want {
			t.Errorf("Instant(%q) in %s = %v, %v, want %s", row.date, row.zone, got.Format(time.RFC3339), err, row.want)
		}
	}
}
