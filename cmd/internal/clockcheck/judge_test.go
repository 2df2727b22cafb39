package clockcheck

import (
	"strings"
	"testing"
	"time"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// hosts makes one reading for each letter: = agrees, + and - differ by 9 s, ? is silent, o is our
// own host.
func hosts(letters string) []reading {
	var readings []reading
	for i, l := range letters {
		r := reading{host: string(rune('a' + i))}
		switch l {
		case '+':
			r.offset = 9 * s
		case '-':
			r.offset = -9 * s
		case '?':
			r.silent = true
		case 'o':
			r.host = ""
		}
		readings = append(readings, r)
	}
	return readings
}

func TestAMajorityOfHostsDecides(t *testing.T) {
	for _, row := range []struct {
		name, hosts string
		want        verdict
		says        string
	}{
		{"none", "", unchecked, "no other host"},
		{"ours alone", "o", unchecked, "no other host"},

		{"one other", "=", right, "1 of 1"},
		{"one other differs", "+", off, "off by 9s: 1 of 1 hosts say so (a)"},
		{"one other is silent", "?", undecided, "no majority: 0 of 1 hosts"},
		{"ours and another", "o=", right, "2 of 2"},
		{"ours and another that differs", "o+", off, "no majority: 1 of 2 hosts"},
		{"ours and another that is silent", "o?", undecided, "no majority: 1 of 2 hosts"},

		{"two that disagree", "=+", off, "no majority: 1 of 2 hosts agree with the clock of this node within 1s, 1 differ (b)"},
		{"two, one silent", "=?", undecided, "no majority: 1 of 2 hosts agree with the clock of this node within 1s, 1 did not answer"},
		{"ours, and two that disagree", "o=+", right, "2 of 3"},
		{"ours against two", "o++", off, "off by 9s: 2 of 3 hosts say so (b, c)"},
		{"ours against two that disagree", "o+-", off, "2 of 3 hosts say so"},
		{"ours, one lost", "o=?", right, "2 of 3"},
		{"ours, one wrong, one lost", "o+?", undecided, "no majority: 1 of 3 hosts agree with the clock of this node within 1s, 1 did not answer, 1 differ (b)"},
		{"ours, both lost", "o??", undecided, "no majority: 1 of 3 hosts"},

		{"three", "===", right, "3 of 3"},
		{"three, one wrong", "==-", right, "2 of 3"},
		{"three, one lost", "==?", right, "2 of 3"},
		{"three, two wrong", "=--", off, "off by -9s: 2 of 3 hosts say so (b, c)"},
		{"three, one wrong, one lost", "=-?", undecided, "no majority: 1 of 3 hosts"},
		{"three, all lost", "???", undecided, "no majority: 0 of 3 hosts agree with the clock of this node within 1s, 3 did not answer"},

		{"half of four", "==++", off, "no majority: 2 of 4 hosts"},
		{"half of six answer", "===???", undecided, "no majority: 3 of 6 hosts"},
		{"four of six", "==+=?=", right, "4 of 6"},
		{"a majority cannot agree any more", "=++??+", off, "no majority: 1 of 6 hosts"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := judge(hosts(row.hosts))
			if got.verdict != row.want || !strings.Contains(got.String(), row.says) {
				t.Errorf("judge(%q) = %d, %q, want %d, %q", row.hosts, got.verdict, got, row.want, row.says)
			}
		})
	}
}

// The margin of a reading is half of the time that the answer took.
func TestAReadingThatIsTooCoarseIsNoVote(t *testing.T) {
	for name, row := range map[string]struct {
		offset, margin time.Duration
		want           vote
	}{
		"right":                    {0, 0, agree},
		"just right":               {s, 0, agree},
		"just right, behind":       {-s, 0, agree},
		"just off":                 {s + 1, 0, differ},
		"surely right":             {600 * ms, 400 * ms, agree},
		"perhaps right":            {600 * ms, 401 * ms, silent},
		"perhaps right, ahead":     {-1400 * ms, 400 * ms, silent},
		"surely off":               {-1401 * ms, 400 * ms, differ},
		"the slowest, and no more": {0, 500 * ms, agree},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (reading{host: "a", offset: row.offset, margin: row.margin}).vote(); got != row.want {
				t.Errorf("vote of %v ± %v = %s, want %s", row.offset, row.margin, got, row.want)
			}
		})
	}
}

// For any clocks of the hosts: two nodes that majorities of the same hosts find right differ by at
// most twice the offset. If a minority of n hosts is wrong, a clock that is found right is near the
// right ones.
func TestTwoClocksThatAreRightAreNearEachOther(t *testing.T) {
	const limit = s // schema.MaxClockOffset
	clocks := []time.Duration{-9 * s, -2 * s, -900 * ms, 0, 900 * ms, 2 * s, 9 * s}
	n := len(clocks)
	for code := range n * n * n { // what three hosts show
		shown := []time.Duration{clocks[code%n], clocks[code/n%n], clocks[code/n/n]}
		var rights []time.Duration
		for _, ours := range clocks {
			for own := -1; own < 3; own++ { // on which host our node is
				if own >= 0 && shown[own] != ours {
					continue
				}
				var readings []reading
				for h, theirs := range shown {
					r := reading{host: string(rune('a' + h)), offset: ours - theirs}
					if h == own {
						r = reading{silent: true}
					}
					readings = append(readings, r)
				}
				if judge(readings).verdict == right {
					rights = append(rights, ours)
				}
			}
		}
		for _, a := range rights {
			for _, b := range rights {
				if (a - b).Abs() > 2*limit {
					t.Fatalf("of hosts that show %v, clocks that are off by %v and %v are both right", shown, a, b)
				}
			}
		}
	}
}
