// Package outbox tests bucketer/client/outbox on a real PostgreSQL. It lies here because this
// module has a driver and starts the server; the product's has none.
package outbox

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/bucketer/client/outbox"
	"carillon.dev/carillon/loadtest/peers/server"
)

const patience = time.Minute

var errCrash = errors.New("the process is killed here")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// postgres starts a server for the test. Without one the test is left out; in CI that is a failure.
func postgres(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "outbox") //nolint:usetesting // the user postgres may not pass through the parent of a TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 && os.Getenv("CI") != "true" {
		t.Skip("THE OUTBOX IS NOT TESTED: there is no PostgreSQL; run loadtest/peers/install")
	}
	p, err := server.StartPostgres(t.Context(), dir, server.PostgresConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Errorf("stop postgres: %v", err)
		}
	})
	return p.URL()
}

// A crash is a process that dies at one point of what it does: its connections are cut there.
type crash struct {
	at string // "before delete", "after import" …; "" never
	mu sync.Mutex
	// hit says that the point was reached.
	hit bool
}

func (c *crash) here(when, what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hit || c.at != when+" "+what {
		return false
	}
	c.hit = true
	return true
}

func statement(query string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	return strings.ToLower(strings.Trim(word, ";"))
}

type statementKey struct{}

// TraceQueryStart cuts the connection before a statement is sent.
func (c *crash) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if c.here("before", statement(data.SQL)) {
		_ = conn.PgConn().Conn().Close()
	}
	return context.WithValue(ctx, statementKey{}, statement(data.SQL))
}

// TraceQueryEnd cuts it after the server has answered.
func (c *crash) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	if c.here("after", ctx.Value(statementKey{}).(string)) {
		_ = conn.PgConn().Conn().Close()
	}
}

// RoundTrip crashes before a request is sent, or before its answer is read.
func (c *crash) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.here("before", "import") {
		return nil, errCrash
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && c.here("after", "import") {
		_, _ = io.Copy(io.Discard, resp.Body)
		return nil, errors.Join(errCrash, resp.Body.Close())
	}
	return resp, err
}

// connect opens the database, and a client of api, as one process has them.
func (c *crash) connect(t *testing.T, url, api string) (*sql.DB, *client.Client) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Tracer = c
	// Statements are not prepared beforehand, so that each is sent once.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = db.Close() })
	cl, err := client.New(api, client.WithHTTPClient(&http.Client{Transport: c}), client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	return db, cl
}

// carillon stands for a node: it creates an import's line once by key and instant, as API.md says,
// and refuses payloads of "refuse".
type carillon struct {
	*httptest.Server
	mu      sync.Mutex
	jobs    map[string]string // body, by key and instant
	created map[string]int    // by payload
	gate    chan struct{}     // an import waits for it, if it is not nil
	came    chan struct{}     // told of an import
}

func newCarillon(t *testing.T) *carillon {
	t.Helper()
	c := &carillon{jobs: make(map[string]string), created: make(map[string]int), came: make(chan struct{}, 100)}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(func() {
		c.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return c
}

func (c *carillon) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	select {
	case c.came <- struct{}{}:
	default:
	}
	if c.gate != nil {
		<-c.gate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, text := range bytes.Split(bytes.TrimSpace(body), []byte("\n")) {
		var line struct {
			Key      string
			Payload  string
			Schedule struct{ At string }
		}
		if err := json.Unmarshal(text, &line); err != nil || line.Key == "" || line.Schedule.At == "" {
			http.Error(w, string(text), http.StatusBadRequest)
			return
		}
		if line.Payload == "refuse" {
			_, _ = fmt.Fprintf(w, `{"line":%d,"status":422,"error":{"type":"urn:carillon:problem:no-task","title":"No","status":422}}`+"\n", i+1)
			continue
		}
		key, status := line.Key+" "+line.Schedule.At, http.StatusOK
		if known, ok := c.jobs[key]; !ok {
			c.jobs[key], status = string(text), http.StatusCreated
			c.created[line.Payload]++
		} else if known != string(text) {
			_, _ = fmt.Fprintf(w, `{"line":%d,"status":422,"error":{"type":"urn:carillon:problem:key-reused","title":"Reused","status":422}}`+"\n", i+1)
			continue
		}
		_, _ = fmt.Fprintf(w, `{"line":%d,"id":"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60","status":%d}`+"\n", i+1, status)
	}
	_, _ = fmt.Fprintln(w, `{"summary":{}}`)
}

func (c *carillon) counts() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.created)
}

func open(t *testing.T, db *sql.DB, table string) *outbox.Outbox {
	t.Helper()
	ob, err := outbox.New(outbox.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it does nothing
		if _, err := db.ExecContext(t.Context(), ob.DDL()); err != nil {
			t.Fatalf("make the table: %v", err)
		}
	}
	return ob
}

// enqueue writes a job for each payload in a transaction, and ends it.
func enqueue(t *testing.T, db *sql.DB, ob *outbox.Outbox, end func(*sql.Tx) error, payloads ...string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads {
		if _, err := ob.Enqueue(t.Context(), tx, client.NewJob(client.Task("ship")).Payload(p)); err != nil {
			t.Fatalf("Enqueue: %v", err)
		}
	}
	if err := end(tx); err != nil {
		t.Fatal(err)
	}
}

// TestOutbox has one server for all of its tests: it takes a second to start.
func TestOutbox(t *testing.T) {
	url := postgres(t)
	t.Run("a mover that is killed at any point", func(t *testing.T) { testCrashes(t, url) })
	t.Run("two movers share the rows", func(t *testing.T) { testTwoMovers(t, url) })
	t.Run("Run moves what is enqueued", func(t *testing.T) { testRun(t, url) })
}

// testCrashes: wherever the mover is killed, each job that was committed is created once, and none
// that was not.
func testCrashes(t *testing.T, url string) {
	points := []string{"after nothing"}
	for _, step := range []string{"begin", "select", "import", "delete", "update", "commit"} {
		points = append(points, "before "+step, "after "+step)
	}
	for n, at := range points {
		t.Run(at, func(t *testing.T) {
			api, killed := newCarillon(t), &crash{at: at}
			whole := new(crash)
			db, c := whole.connect(t, url, api.URL)
			ob := open(t, db, fmt.Sprintf("crash_%d", n))
			enqueue(t, db, ob, (*sql.Tx).Commit, "a", "b", "refuse", "c")
			enqueue(t, db, ob, (*sql.Tx).Rollback, "never")

			dying, dyingClient := killed.connect(t, url, api.URL)
			moved, err := ob.Mover(dying, dyingClient, outbox.MoverConfig{}).Step(t.Context())
			if killed.hit != (at != points[0]) {
				t.Fatalf("Step = %d, %v; the point was reached: %t", moved, err, killed.hit)
			}
			_ = dying.Close()
			mover := ob.Mover(db, c, outbox.MoverConfig{})
			for begun := time.Now(); ; {
				moved, err := mover.Step(t.Context())
				s, counting := ob.Standing(t.Context(), db)
				if err := errors.Join(err, counting); err != nil || time.Since(begun) > patience {
					t.Fatalf("Step of the next mover = %d, %v, and leaves %+v", moved, err, s)
				}
				if s.Waiting == 0 {
					if s.Refused != 1 || !s.Oldest.IsZero() {
						t.Errorf("Standing = %+v, want one that was refused", s)
					}
					break
				}
				time.Sleep(10 * time.Millisecond) // the server has not seen yet that the first mover's connection is gone
			}
			if got, want := api.counts(), "map[a:1 b:1 c:1]"; got != want {
				t.Errorf("created %s, want %s", got, want)
			}
			var why string
			if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT refused FROM crash_%d", n)).Scan(&why); err != nil || why != "422 No" {
				t.Errorf("refused = %q, %v; want why", why, err)
			}
		})
	}
}

// testTwoMovers: while one mover asks Carillon, another takes other rows.
func testTwoMovers(t *testing.T, url string) {
	api := newCarillon(t)
	api.gate = make(chan struct{})
	db, c := new(crash).connect(t, url, api.URL)
	ob := open(t, db, "two_movers")
	enqueue(t, db, ob, (*sql.Tx).Commit, "a", "b", "c", "d")
	var movers sync.WaitGroup
	moved := make([]int, 2)
	for i := range moved {
		movers.Go(func() {
			var err error
			if moved[i], err = ob.Mover(db, c, outbox.MoverConfig{Batch: 2}).Step(t.Context()); err != nil {
				t.Errorf("Step = %v", err)
			}
		})
	}
	for range moved {
		select {
		case <-api.came:
		case <-time.After(patience):
			t.Error("one mover waits for the other")
		}
	}
	close(api.gate)
	movers.Wait()
	if moved[0] != 2 || moved[1] != 2 || api.counts() != "map[a:1 b:1 c:1 d:1]" {
		t.Errorf("moved %v, created %s; want two by each, and each once", moved, api.counts())
	}
}

// testRun: Run takes full batches one after the other, hears of new rows, outlives an answer that
// is an error, and ends in order.
func testRun(t *testing.T, url string) {
	api := newCarillon(t)
	db, c := (&crash{at: "before import"}).connect(t, url, api.URL)
	ob := open(t, db, "run")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mover := ob.Mover(db, c, outbox.MoverConfig{Batch: 2, Poll: time.Hour})
	enqueue(t, db, ob, (*sql.Tx).Commit, "a", "b", "c")
	stop, ended := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- mover.Run(stop) }()
	defer ended()
	wait := func(want string) {
		t.Helper()
		for api.counts() != want {
			mover.Wake()
			select {
			case <-api.came:
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("created %s, want %s", api.counts(), want)
			}
		}
	}
	wait("map[a:1 b:1 c:1]")
	enqueue(t, db, ob, (*sql.Tx).Commit, "d")
	wait("map[a:1 b:1 c:1 d:1]")
	ended()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil when it is told to stop", err)
	}
}

// dev starts `carillon dev` on a free port, and returns the address of its API.
func dev(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.Command(program, "dev", "--port", "0", "--log-level", "error") // #nosec G204 -- of who runs the test
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("carillon dev ends with %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if up := regexp.MustCompile(`Carillon is up\..* API (\S+)`).FindStringSubmatch(lines.Text()); up != nil {
			return up[1]
		}
	}
	t.Fatal("carillon dev ended before it was up")
	return ""
}

// TestOutboxOnTheProgram moves jobs to the program that CARILLON_PROGRAM names: make sdk-test.
func TestOutboxOnTheProgram(t *testing.T) {
	program := os.Getenv("CARILLON_PROGRAM")
	if program == "" {
		t.Skip("CARILLON_PROGRAM names no program: make sdk-test runs this test")
	}
	api, url := dev(t, program), postgres(t)
	killed := &crash{at: "after import"}
	db, c := killed.connect(t, url, api)
	ob := open(t, db, "")
	mover := ob.Mover(db, c, outbox.MoverConfig{})
	label := fmt.Sprintf("outbox-%d", time.Now().UnixNano())
	begun := time.Now()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		job := client.NewJob(client.HTTP(api+"/healthz", client.Method("GET"))).Payload(n).Label("test", label)
		if _, err := ob.Enqueue(t.Context(), tx, job); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if moved, err := mover.Step(t.Context()); err == nil || moved != 0 {
		t.Fatalf("Step that is killed = %d, %v", moved, err)
	}
	if moved, err := mover.Step(t.Context()); err != nil || moved != 20 {
		t.Errorf("Step = %d, %v; want all 20", moved, err)
	}
	runs := 0
	for run, err := range c.Runs.List(t.Context(), client.RunQuery{From: begun.Add(-time.Minute), To: begun.Add(time.Minute), Labels: map[string]string{"test": label}}) {
		if err != nil {
			t.Fatal(err)
		}
		runs++
		if run, err = c.Runs.Wait(t.Context(), run.ID); err != nil || run.State != client.Succeeded {
			t.Errorf("run %s = %s, %v; want a success", run.ID, run.State, err)
		}
	}
	if runs != 20 {
		t.Errorf("there are %d runs, want 20", runs)
	}
}
