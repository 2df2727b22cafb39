package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

const twoHolidays = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//EN\r\n" +
	"BEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:20301225\r\nSUMMARY:Christmas\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:2\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:20301226\r\nSUMMARY:Boxing Day\r\nEND:VEVENT\r\n" +
	"END:VCALENDAR\r\n"

// A calendar comes from a file, a job uses it and keeps it from being deleted, other dates replace
// it, and it goes once nobody uses it.
func TestCalendarsFromTheFirstToTheLast(t *testing.T) {
	api := clitest.StartNode(t)
	run := func(stdin string, args ...string) string {
		t.Helper()
		r := clitest.Run(t.Context(), stdin, append(args, "--api", api)...)
		if r.Code != 0 {
			t.Fatalf("carillon %v exits %d with %q", args, r.Code, r.Stderr)
		}
		return r.Stdout
	}
	refused := func(code int, says string, args ...string) {
		t.Helper()
		if r := clitest.Run(t.Context(), "", append(args, "--api", api)...); r.Code != code || !strings.Contains(r.Stderr, says) {
			t.Errorf("carillon %v exits %d with %q, want %d and %q", args, r.Code, r.Stderr, code, says)
		}
	}
	file := filepath.Join(t.TempDir(), "holidays.ics")
	if err := os.WriteFile(file, []byte(twoHolidays), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := run("", "calendar", "set", "holidays", "--icalendar", file); !strings.Contains(said, "2 dates, used by 0 jobs, the last is 2030-12-26") {
		t.Errorf("calendar set says %q", said)
	}
	job := clitest.Decode[httpapi.Job](t, run("", "job", "create", "--name", "nightly", "--cron", "0 9 25 12 *", "--start", "2030-12-01T00:00:00Z",
		"--calendar", "holidays", "--on-date", "next_day", "--subject", "a.b", "-o", "json"))
	if job.NextRun == nil || job.NextRun.DueAt.Format("2006-01-02") != "2030-12-27" {
		t.Errorf("the job's next run is %+v, want one on the first day that is no holiday", job.NextRun)
	}
	refused(1, "(409)", "calendar", "delete", "holidays")
	if said := run(strings.Replace(twoHolidays, "20301226", "20311226", 1), "calendar", "set", "holidays", "--icalendar", "-"); !strings.Contains(said, "used by 1 jobs") {
		t.Errorf("calendar set of one that is used says %q", said)
	}
	if said := run("", "calendar", "get", "holidays"); said != "2030-12-25\n2031-12-26\n" {
		t.Errorf("calendar get says %q", said)
	}
	if said := run("", "calendar", "list"); !strings.Contains(said, "holidays") || !strings.Contains(said, "2031-12-26") {
		t.Errorf("calendar list says %q", said)
	}
	refused(2, "--date or --icalendar", "calendar", "set", "holidays")
	refused(1, "(422)", "calendar", "set", "holidays", "--date", "2030-02-30")
	refused(1, "no such file", "calendar", "set", "holidays", "--icalendar", file+"x")
	refused(1, "(404)", "calendar", "get", "none")
	run("", "job", "cancel", "nightly")
	run("", "calendar", "delete", "holidays")
	refused(1, "(404)", "calendar", "get", "holidays")
}
