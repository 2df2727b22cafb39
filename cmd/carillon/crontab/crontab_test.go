package crontab

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// said is an entry or a note as a line of text.
func said(entries []Entry, notes []Note) (lines []string) {
	for _, e := range entries {
		lines = append(lines, fmt.Sprintf("%d [%s] %s|%s|%s|%q", e.Line, e.Schedule, e.Timezone, e.User, e.Command, e.Stdin))
	}
	for _, n := range notes {
		word := "note"
		if n.Refused {
			word = "refused"
		}
		what, _, _ := strings.Cut(n.Message, ":")
		lines = append(lines, fmt.Sprintf("%d %s: %s", n.Line, word, what))
	}
	return lines
}

func TestParse(t *testing.T) {
	for file, row := range map[string]struct {
		form Form
		want []string
	}{
		"system": {System, []string{
			`7 [17 * * * *] |root|cd / && run-parts --report /etc/cron.hourly|""`,
			`8 [25 6 * * *] |root|test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }|""`,
			`9 [47 6 * * 7] |root|test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }|""`,
			`10 [52 6 1 * *] |root|test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }|""`,
			`4 note: SHELL is passed on with every command below it`,
			`5 note: PATH is passed on with every command below it`,
		}},
		"packages": {System, []string{
			`3 [09,39 * * * *] |root|[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi|""`,
			`4 [0 */12 * * *] |root|test -x /usr/bin/renew -a \! -d /run/systemd/system && perl -e 'sleep int(rand(43200))' && renew -q|""`,
			`5 [5-55/10 * * * *] |root|command -v sa1 > /dev/null && sa1 1 1|""`,
			`6 [30 7-23 * * *] |root|[ -x /etc/init.d/anacron ] && if [ ! -d /run/systemd/system ]; then /usr/sbin/invoke-rc.d anacron start >/dev/null; fi|""`,
			`7 [57 0 * * 0] |root|if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ]; then /usr/share/mdadm/checkarray --cron --all --idle --quiet; fi|""`,
			`9 [*/5 * * * *] |www-data|nice -n 19 /usr/bin/php -f "/var/www/cron.php" 2>&1|""`,
			`10 [@daily] |backup|/usr/bin/backup "a b"|" first line \n second\n"`,
			`2 note: MAILTO is left out`,
			`8 refused: @reboot has no time`,
		}},
		"user": {User, []string{
			`6 [0 5 * * 1] Europe/Berlin||tar -zcf /var/backups/home.tgz /home/|""`,
			`7 [*/15 9-17 * * MON-FRI] Europe/Berlin||$HOME/bin/poll --quiet|""`,
			`9 [30 16 * * 1-5] America/New_York||mail -s "It is 16:30" me|"Dear me,\n\nit is time. 100% sure.\n\n"`,
			`5 note: GREETING is passed on with every command below it`,
			`7 note: the leading '-' turns the log of cron off`,
			`10 refused: is not a time and a command`,
			`12 refused: is not a time and a command`,
		}},
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			entries, notes := Parse(string(text), row.form)
			if diff := cmp.Diff(row.want, said(entries, notes)); diff != "" {
				t.Errorf("Parse of %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func TestSettingsHoldFromWhereTheyStand(t *testing.T) {
	entries, _ := Parse("* * * * * a\nPATH=/bin\n* * * * * b\nPATH=\"/usr/bin\"\nX=y = z\n* * * * * c\r\n", User)
	var got []map[string]string
	for _, e := range entries {
		got = append(got, e.Environment)
	}
	want := []map[string]string{{}, {"PATH": "/bin"}, {"PATH": "/usr/bin", "X": "y = z"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environments (-want +got):\n%s", diff)
	}
	if entries[2].Command != "c" {
		t.Errorf("the command of a line that ends with CR LF is %q, want c", entries[2].Command)
	}
}

func TestCommandsWithEqualSignsAreNoSettings(t *testing.T) {
	for _, line := range []string{"* * * * * A=b c", "0 0 * * * x --y=z", "@daily a=b", "*/5 * * * * a = b"} {
		if entries, notes := Parse(line, User); len(entries) != 1 || len(notes) != 0 {
			t.Errorf("Parse(%q) = %+v, %+v; want one entry", line, entries, notes)
		}
	}
}

func TestFormOf(t *testing.T) {
	for file, want := range map[string]Form{
		"/etc/crontab": System, "/etc/cron.d/php": System, "cron.d/php": System, "/var/spool/cron/crontabs/me": User, "crontab": User, "-": User,
		"/home/me/crontab": User,
	} {
		if got := FormOf(file); got != want {
			t.Errorf("FormOf(%s) = %d, want %d", file, got, want)
		}
	}
}

func TestProgram(t *testing.T) {
	for command, want := range map[string]string{
		"cd / && run-parts --report /etc/cron.hourly": "run-parts", "test -x /usr/sbin/anacron || x": "anacron",
		"[ -x /usr/lib/php/sessionclean ] && y": "sessionclean", "A=b /usr/bin/make all": "make", `"/opt/My App/run"`: "My",
		"command -v sa1 > /dev/null && sa1 1 1": "sa1", "$HOME/bin/poll": "command", "": "command", "((1))": "command",
		"/usr/bin/env A=b python3 x.py": "python3", "/usr/bin/timeout -k 5 10m /opt/poll": "poll", "nohup nice -n 5 job-1": "job-1", "env": "command",
		"timeout -s KILL 60 /opt/poll": "poll", "env -u HOME -C /srv prog": "prog", "ionice -c idle x -c y": "x",
	} {
		if got := Program(command); got != want {
			t.Errorf("Program(%q) = %q, want %q", command, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"system", "packages", "user"} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, form := range []Form{User, System} {
			entries, notes := Parse(text, form)
			lines := strings.Count(text, "\n") + 1
			for _, e := range entries {
				if e.Line < 1 || e.Line > lines || strings.TrimSpace(e.Command) == "" || e.Schedule == "" || Program(e.Command) == "" {
					t.Fatalf("Parse(%q) has the entry %+v", text, e)
				}
			}
			for _, n := range notes {
				if n.Line < 1 || n.Line > lines || n.Message == "" {
					t.Fatalf("Parse(%q) has the note %+v", text, n)
				}
			}
		}
	})
}
