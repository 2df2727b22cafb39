package gate

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"time"
)

// calibrateFor is how long the calibration loop runs: about as long as one run of a benchmark, so
// that other processes slow both down alike.
const calibrateFor = 30 * time.Millisecond

// sample is what the calibration loop encodes and decodes.
type sample struct {
	Name   string            `json:"name"`
	At     time.Time         `json:"at"`
	Counts []int             `json:"counts"`
	Labels map[string]string `json:"labels"`
}

// turn is one turn of the loop: JSON both ways, a map and a little hashing, in about the shares of
// the hot paths. After a change of it all figures must be measured anew.
func turn() int {
	in := sample{Name: "calibration", At: time.UnixMilli(1_767_225_600_000).UTC(), Counts: []int{1, 20, 300, 4000}, Labels: map[string]string{"a": "b", "team": "billing"}}
	text, err := json.Marshal(&in)
	if err != nil {
		panic(err) // a constant
	}
	var out sample
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	m := make(map[string]int)
	for i := range 100 {
		m[strconv.Itoa(i*7919)] = i
	}
	sum := sha256.Sum256(text)
	return len(out.Name) + len(m) + int(sum[0])
}

// calibrate returns how many ns one turn takes now.
func calibrate() float64 {
	began := time.Now()
	turns, sum := 0, 0
	for time.Since(began) < calibrateFor {
		for range 10 {
			sum += turn()
		}
		turns += 10
	}
	took := time.Since(began)
	if sum == 0 {
		panic("unreachable") // keeps the work from being optimised away
	}
	return float64(took.Nanoseconds()) / float64(turns)
}
