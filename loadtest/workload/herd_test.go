package workload_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

var update = flag.Bool("update", false, "draw loadtest/plots/herd.svg anew")

func herd(jobs int) herdOf {
	return herdOf{Jobs: jobs, Cron: "0 * * * *", From: from.Add(time.Minute), Seed: 1}
}

func most(rate []int) (highest, sum int) {
	for _, n := range rate {
		highest, sum = max(highest, n), sum+n
	}
	return highest, sum
}

// What is due at one instant is spread over the window, evenly: no second has more than its share
// by 6 standard deviations.
func TestJitterSpreadsAHerd(t *testing.T) {
	const jobs = 20_000
	for _, row := range []struct {
		name    string
		window  time.Duration
		seconds int
	}{
		{"without jitter", 0, 1},
		{"by default", -1, 10},
		{"over a minute", time.Minute, 60},
	} {
		t.Run(row.name, func(t *testing.T) {
			rate, err := herd(jobs).rate(row.window)
			if err != nil {
				t.Fatalf("Rate(%s): %v", row.window, err)
			}
			highest, sum := most(rate)
			share := float64(jobs) / float64(row.seconds)
			if sum != jobs || len(rate) != row.seconds || float64(highest) > share+6*math.Sqrt(share) {
				t.Errorf("Rate(%s) spreads %d runs over %d s, at most %d in one, want %d over %d s, about %.0f in each", row.window, sum, len(rate), highest, jobs, row.seconds, share)
			}
		})
	}
}

func TestAHerdWithoutTimesIsAnError(t *testing.T) {
	h := herd(1)
	h.Cron = "0 0 30 2 *"
	if rate, err := h.rate(0); err == nil {
		t.Errorf("Rate of %q = %v, want an error", h.Cron, rate)
	}
}

// The committed plot is of 100,000 jobs; -update draws it.
func TestDrawHerd(t *testing.T) {
	jobs := 2000
	if *update {
		jobs = 100_000
	}
	var curves []herdCurve
	for _, c := range []struct {
		name   string
		window time.Duration
	}{{"jitter 0s", 0}, {"jitter not stated: 10 s", -1}, {"jitter 1m", time.Minute}} {
		rate, err := herd(jobs).rate(c.window)
		if err != nil {
			t.Fatal(err)
		}
		highest, sum := most(rate)
		t.Logf("%s: %d runs over %d s, at most %d in a second, %.0f on average", c.name, sum, len(rate), highest, float64(sum)/float64(len(rate)))
		curves = append(curves, herdCurve{c.name, rate})
	}
	var svg bytes.Buffer
	if err := drawHerd(&svg, fmt.Sprintf("%d jobs on 0 * * * *: runs due in each second after the full hour", jobs), curves); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("drawHerd draws what is no XML: %v", err)
		}
	}
	if *update {
		if err := os.WriteFile("../plots/herd.svg", svg.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A herdOf is many jobs with one schedule, such as all that are to run "at the full hour". The same
// one makes the same jobs.
type herdOf struct {
	Jobs int
	Cron string
	From time.Time // the jobs are looked at from here on
	Seed uint64
}

// rate returns how many of the jobs' first runs are due in each second from the first nominal time
// on, up to the last second that has any, by the system's own time maths. window is the jitter that
// the jobs state; negative = none is stated, so that the default is in force.
func (h herdOf) rate(window time.Duration) ([]int, error) {
	rng := rand.New(rand.NewPCG(h.Seed, 0)) // #nosec G404 -- repeatable ids
	var rate []int
	var first time.Time
	for n := range h.Jobs {
		// As the ids of jobs that were made over a day: a time, a shard, and 62 random bits.
		made := h.From.Add(-time.Duration(rng.Int64N(int64(24 * time.Hour))))
		id := schema.MakeJobID(made, schema.Shard(rng.IntN(64)), rng.Uint64()>>2) // #nosec G115 -- small
		seed := schema.HashOf(id.String())
		s, err := schedule.Compile(schema.Schedule{Cron: h.Cron, Jitter: schema.Duration(max(window, 0))}, seed)
		if err == nil && window < 0 {
			s, err = schedule.Compile(schema.Schedule{Cron: h.Cron, Jitter: schema.Duration(schedule.DefaultJitter(s.Shortest()))}, seed)
		}
		if err != nil {
			return nil, fmt.Errorf("herd: %w", err)
		}
		nominal, ok := s.Next(h.From)
		if !ok {
			return nil, fmt.Errorf("herd: %q names no time after %s", h.Cron, h.From)
		}
		if n == 0 {
			first = nominal
		}
		second := int(nominal.Add(s.Offset()).Sub(first) / time.Second)
		for len(rate) <= second {
			rate = append(rate, 0)
		}
		rate[second]++
	}
	return rate, nil
}

// A herdCurve is a rate of a [herdOf] with a name.
type herdCurve struct {
	name string
	rate []int
}

// The plot of a herd: a panel of bars for each curve, one above the other, each with a scale of its
// own.
const (
	herdWidth, herdPanel, herdHead = 760, 150, 40
	herdLeft, herdRight            = 90, 20
	herdBars                       = herdPanel - 50 // height of the highest bar
)

// drawHerd draws curves, each the runs due a second by second, over a common axis of seconds.
func drawHerd(w io.Writer, title string, curves []herdCurve) error {
	seconds := 0
	for _, c := range curves {
		seconds = max(seconds, len(c.rate))
	}
	var b strings.Builder
	height := herdHead + herdPanel*len(curves) + 30
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		herdWidth, height, herdWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="24" font-size="15">%s</text>`+"\n", herdLeft, title)
	step := float64(herdWidth-herdLeft-herdRight) / float64(seconds)
	for i, c := range curves {
		most := 0
		for _, n := range c.rate {
			most = max(most, n)
		}
		base := herdHead + herdPanel*(i+1) - 20
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", herdLeft, base-herdBars-8, c.name)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%d/s</text><text x="%d" y="%d" text-anchor="end">0</text>`+"\n",
			herdLeft-6, base-herdBars+5, most, herdLeft-6, base)
		fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" fill="none" stroke="#9aa5b1"/>`+"\n", herdLeft, base-herdBars, base, herdWidth-herdRight)
		b.WriteString(`<path fill="#2f80ed" d="`)
		for s, n := range c.rate {
			if n > 0 {
				fmt.Fprintf(&b, "M%.1f %dv-%.1fh%.1fV%d", herdLeft+float64(s)*step, base, math.Max(1, float64(n)/float64(most)*herdBars), math.Max(0.8, step*0.9), base)
			}
		}
		b.WriteString(`"/>` + "\n")
	}
	for k := range 7 {
		s := seconds * k / 6
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d s</text>`+"\n", herdLeft+float64(s)*step, height-12, s)
	}
	b.WriteString("</svg>\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("draw herd: %w", err)
	}
	return nil
}
