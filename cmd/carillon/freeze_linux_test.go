package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

// callee records when the calls of each run came, and when the first was answered.
type callee struct {
	takes time.Duration

	mu       sync.Mutex
	calls    map[string][]time.Time // by run
	answered map[string]time.Time
}

func (c *callee) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	run := r.Header.Get("Idempotency-Key")
	c.mu.Lock()
	c.calls[run] = append(c.calls[run], time.Now())
	first := len(c.calls[run]) == 1
	c.mu.Unlock()
	time.Sleep(c.takes) // it works
	if first {
		c.mu.Lock()
		c.answered[run] = time.Now()
		c.mu.Unlock()
	}
}

func (c *callee) runs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// If a process is frozen for longer than its session lives, only runs under way are called twice:
// those that it had called and not recorded. CARILLON_STOPS says how often this is tried.
func TestAFreezeDoublesOnlyWhatWasUnderWay(t *testing.T) {
	const (
		frozen   = 20 * time.Second
		recorded = time.Second // a call that was answered so long before the freeze is in the store
		backlog  = 100
	)
	if testing.Short() {
		t.Skip("a freeze lasts 20 s")
	}
	tries := 1
	if v := os.Getenv("CARILLON_STOPS"); v != "" {
		var err error
		if tries, err = strconv.Atoi(v); err != nil {
			t.Fatalf("CARILLON_STOPS: %v", err)
		}
	}
	for try := range tries {
		t.Run(fmt.Sprint(try+1), func(t *testing.T) {
			t.Parallel()
			c := &callee{takes: 200 * time.Millisecond, calls: make(map[string][]time.Time), answered: make(map[string]time.Time)}
			sink := httptest.NewServer(c)
			defer sink.Close()
			dev := startChild(t, "", "dev", "--port", "0", "--slots", "4", "--data-dir", t.TempDir())
			dev.stdout.Await(t, isUp)
			api := regexp.MustCompile(`API (\S+)`).FindStringSubmatch(dev.stdout.String())[1]
			for range backlog {
				resp, err := http.Post(api+"/v1/jobs", "application/json", strings.NewReader(fmt.Sprintf(`{"http":{"url":%q}}`, sink.URL)))
				if err != nil {
					t.Fatal(err)
				}
				if _ = resp.Body.Close(); resp.StatusCode != http.StatusCreated {
					t.Fatalf("POST /v1/jobs: %s", resp.Status)
				}
			}
			clitest.Await(t, "some runs were called", func() bool { return c.runs() > 20 })
			stopped := time.Now()
			if err := dev.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(frozen)
			thawed := time.Now()
			if err := dev.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			clitest.Await(t, "all runs were called", func() bool { return c.runs() == backlog })
			time.Sleep(6 * time.Second) // longer than a delivery waits for its acknowledgement
			c.mu.Lock()
			defer c.mu.Unlock()
			again := 0
			for run, at := range c.calls {
				if len(at) == 1 {
					continue
				}
				again++
				underWay := at[0].Before(thawed) && c.answered[run].After(stopped.Add(-recorded))
				if len(at) > 2 || !underWay {
					t.Errorf("%s was called %d times, first %v after the freeze began and then %v after it ended",
						run, len(at), at[0].Sub(stopped), at[1].Sub(thawed))
				}
			}
			t.Logf("%d of %d runs were called twice, which were under way when the process was frozen", again, backlog)
			dev.end(t, syscall.SIGTERM)
		})
	}
}
