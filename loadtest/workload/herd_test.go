package workload_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/workload"
)

var update = flag.Bool("update", false, "draw loadtest/plots/herd.svg anew")

func herd(jobs int) workload.Herd {
	return workload.Herd{Jobs: jobs, Cron: "0 * * * *", From: from.Add(time.Minute), Seed: 1}
}

func most(rate []int) (highest, sum int) {
	for _, n := range rate {
		highest, sum = max(highest, n), sum+n
	}
	return highest, sum
}

// What is due at one instant is spread over the window, evenly: no second has more than its share by 6 standard deviations.
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
			rate, err := herd(jobs).Rate(row.window)
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
	if rate, err := h.Rate(0); err == nil {
		t.Errorf("Rate of %q = %v, want an error", h.Cron, rate)
	}
}

// The committed plot is of 100,000 jobs; -update draws it.
func TestDrawHerd(t *testing.T) {
	jobs := 2000
	if *update {
		jobs = 100_000
	}
	var curves []workload.HerdCurve
	for _, c := range []struct {
		name   string
		window time.Duration
	}{{"jitter 0s", 0}, {"jitter not stated: 10 s", -1}, {"jitter 1m", time.Minute}} {
		rate, err := herd(jobs).Rate(c.window)
		if err != nil {
			t.Fatal(err)
		}
		highest, sum := most(rate)
		t.Logf("%s: %d runs over %d s, at most %d in a second, %.0f on average", c.name, sum, len(rate), highest, float64(sum)/float64(len(rate)))
		curves = append(curves, workload.HerdCurve{Name: c.name, Rate: rate})
	}
	var svg bytes.Buffer
	if err := workload.DrawHerd(&svg, fmt.Sprintf("%d jobs on 0 * * * *: runs due in each second after the full hour", jobs), curves); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("DrawHerd draws what is no XML: %v", err)
		}
	}
	if *update {
		if err := os.WriteFile("../plots/herd.svg", svg.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
