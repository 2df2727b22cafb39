package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// CreateJob makes a job. With a Key it may be sent again until it is known to be durable; without
// one, an answer that leaves that open (503, kind "unknown") comes back as it is.
func (c *Client) CreateJob(ctx context.Context, job request.JobRequest) (Job, error) {
	var out Job
	key := job.Key
	job.Key = ""
	_, err := c.call(ctx, ask{method: http.MethodPost, path: "/v1/jobs", body: job, header: keyed(key), repeatable: key != ""}, &out)
	return out, err
}

func keyed(key string) http.Header {
	h := make(http.Header)
	if key != "" {
		h.Set(keyHeader, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key)+`"`)
	}
	return h
}

// Job returns a job by its id or name.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	var out Job
	_, err := c.call(ctx, ask{method: http.MethodGet, path: "/v1/jobs/" + url.PathEscape(id), repeatable: true}, &out)
	return out, err
}

// PatchJob changes a recurring job, or a pending one-off one, by a merge patch, which is anything
// that encodes as a JSON object.
func (c *Client) PatchJob(ctx context.Context, id string, patch any) (Job, error) {
	var out Job
	_, err := c.call(ctx, ask{method: http.MethodPatch, path: "/v1/jobs/" + url.PathEscape(id), body: patch, repeatable: true}, &out)
	return out, err
}

// PatchJobIf is PatchJob of a job whose ETag is tag: else the answer is the Problem "stale". It may
// be sent again: after an answer that was lost, "stale" may mean that the job was changed.
func (c *Client) PatchJobIf(ctx context.Context, id, tag string, patch any) (Job, error) {
	var out Job
	_, err := c.call(ctx, ask{method: http.MethodPatch, path: jobPath(id, ""), body: patch, header: http.Header{"If-Match": {tag}}, repeatable: true}, &out)
	return out, err
}

// JobTagged returns a job of an id or a name with its ETag.
func (c *Client) JobTagged(ctx context.Context, id string) (Job, string, error) {
	var out Job
	header, err := c.call(ctx, ask{method: http.MethodGet, path: jobPath(id, ""), repeatable: true}, &out)
	return out, header.Get("ETag"), err
}

// CancelJob cancels a job of an id or a name; twice is the same as once.
func (c *Client) CancelJob(ctx context.Context, id string) (Job, error) {
	var out Job
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: "/v1/jobs/" + url.PathEscape(id), repeatable: true}, &out)
	return out, err
}

// Run returns a run and its attempts.
func (c *Client) Run(ctx context.Context, id schema.RunID) (Run, error) {
	var out Run
	_, err := c.call(ctx, ask{method: http.MethodGet, path: "/v1/runs/" + id.String(), repeatable: true}, &out)
	return out, err
}

// CancelRun cancels a run; twice is the same as once.
func (c *Client) CancelRun(ctx context.Context, id schema.RunID) (Run, error) {
	var out Run
	_, err := c.call(ctx, ask{method: http.MethodPost, path: "/v1/runs/" + id.String() + "/cancel", repeatable: true}, &out)
	return out, err
}

// RetryRun runs a finished run again, as a new run. About key see CreateJob.
func (c *Client) RetryRun(ctx context.Context, id schema.RunID, key string) (Run, error) {
	var out Run
	_, err := c.call(ctx, ask{method: http.MethodPost, path: "/v1/runs/" + id.String() + "/retry", header: keyed(key), repeatable: key != ""}, &out)
	return out, err
}

// RunOutput is what was kept of the output of an attempt.
type RunOutput struct {
	Text    []byte
	Attempt int  // 0: none has ended
	Cut     bool // there was more
	Binary  bool // it is not UTF-8
}

// Output returns the output of an attempt of a run; 0 stands for the one that succeeded, or the
// last that has ended.
func (c *Client) Output(ctx context.Context, id schema.RunID, attempt int) (RunOutput, error) {
	path := "/v1/runs/" + id.String() + "/output"
	if attempt != 0 {
		path += "?attempt=" + strconv.Itoa(attempt)
	}
	var out RunOutput
	header, err := c.call(ctx, ask{method: http.MethodGet, path: path, repeatable: true}, &out.Text)
	if err != nil {
		return RunOutput{}, err
	}
	out.Attempt, _ = strconv.Atoi(header.Get(attemptHeader)) // absent: 0
	out.Cut = header.Get(outputCutHeader) == "true"
	out.Binary = !strings.HasPrefix(header.Get("Content-Type"), "text/")
	return out, nil
}

// Logs returns the lines that the worker of a run logged, of one attempt unless that is 0. With
// follow it goes on until the run has ended and all is read, asking every pause for what is new. It
// ends with the first error.
func (c *Client) Logs(ctx context.Context, id schema.RunID, attempt int, follow bool, pause time.Duration) iter.Seq2[LogLine, error] {
	return func(yield func(LogLine, error) bool) {
		params := url.Values{"limit": {"500"}}
		if attempt != 0 {
			params.Set("attempt", strconv.Itoa(attempt))
		}
		for {
			var page struct {
				Items      []LogLine `json:"items"`
				NextCursor string    `json:"next_cursor"`
			}
			path := "/v1/runs/" + id.String() + "/logs?" + params.Encode()
			if _, err := c.call(ctx, ask{method: http.MethodGet, path: path, repeatable: true}, &page); err != nil {
				yield(LogLine{}, err)
				return
			}
			for _, line := range page.Items {
				if !yield(line, nil) {
					return
				}
			}
			if page.NextCursor == "" || len(page.Items) == 0 && !follow {
				return
			}
			params.Set("cursor", page.NextCursor)
			if len(page.Items) > 0 {
				continue
			}
			if err := sleep(ctx, pause); err != nil {
				yield(LogLine{}, err)
				return
			}
		}
	}
}

// Tasks returns the tasks of the tenant, by name. It ends with the first error.
func (c *Client) Tasks(ctx context.Context) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) { eachItem(ctx, c, "/v1/tasks", url.Values{}, 0, yield) }
}

// eachItem yields every item of a list, page by page. It returns false when it should not go on.
func eachItem[T any](ctx context.Context, c *Client, path string, params url.Values, limit int, yield func(T, error) bool) bool {
	return eachOf(ctx, c, path, params, limit, func([]string) {}, yield)
}

// eachOf is eachItem of a list that is asked of nodes. It tells before the items of a page which
// did not answer.
func eachOf[T any](ctx context.Context, c *Client, path string, params url.Values, limit int, missing func(nodes []string), yield func(T, error) bool) bool {
	if limit == 0 {
		limit = 500
	}
	params.Set("limit", strconv.Itoa(limit))
	for {
		var page struct {
			Items        []T      `json:"items"`
			MissingNodes []string `json:"missing_nodes"`
			NextCursor   string   `json:"next_cursor"`
		}
		if _, err := c.call(ctx, ask{method: http.MethodGet, path: path + "?" + params.Encode(), repeatable: true}, &page); err != nil {
			var none T
			yield(none, err)
			return false
		}
		missing(page.MissingNodes)
		for _, item := range page.Items {
			if !yield(item, nil) {
				return false
			}
		}
		if page.NextCursor == "" {
			return true
		}
		params.Set("cursor", page.NextCursor)
	}
}

// PutTask creates or replaces a task.
func (c *Client) PutTask(ctx context.Context, name string, task request.TaskRequest) (Task, error) {
	var out Task
	_, err := c.call(ctx, ask{method: http.MethodPut, path: "/v1/tasks/" + url.PathEscape(name), body: task, repeatable: true}, &out)
	return out, err
}

// PutTaskIf is PutTask of a task whose ETag is tag: else the answer is the Problem "stale".
func (c *Client) PutTaskIf(ctx context.Context, name, tag string, task request.TaskRequest) (Task, error) {
	var out Task
	_, err := c.call(ctx, ask{method: http.MethodPut, path: "/v1/tasks/" + url.PathEscape(name), body: task, header: http.Header{"If-Match": {tag}}}, &out)
	return out, err
}

// TaskTagged returns a task with its ETag.
func (c *Client) TaskTagged(ctx context.Context, name string) (Task, string, error) {
	var out Task
	header, err := c.call(ctx, ask{method: http.MethodGet, path: "/v1/tasks/" + url.PathEscape(name), repeatable: true}, &out)
	return out, header.Get("ETag"), err
}

// Task returns a task.
func (c *Client) Task(ctx context.Context, name string) (Task, error) {
	var out Task
	_, err := c.call(ctx, ask{method: http.MethodGet, path: "/v1/tasks/" + url.PathEscape(name), repeatable: true}, &out)
	return out, err
}

// DeleteTask deletes a task.
func (c *Client) DeleteTask(ctx context.Context, name string) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: "/v1/tasks/" + url.PathEscape(name), repeatable: true}, nil)
	return err
}

// Cluster returns what a node sees of its cluster.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var out Cluster
	_, err := c.call(ctx, ask{method: http.MethodGet, path: "/v1/cluster", repeatable: true}, &out)
	return out, err
}

// Regions returns which region serves each home of shards, as the node knows.
func (c *Client) Regions(ctx context.Context) (Regions, error) {
	var out Regions
	_, err := c.call(ctx, ask{method: http.MethodGet, path: "/v1/regions", repeatable: true}, &out)
	return out, err
}

// Ready asks a node once whether it is ready: nil, or a *Problem whose Detail has a line for each
// dependency.
func (c *Client) Ready(ctx context.Context) error {
	node := c.at.Load()
	_, err := c.once(ctx, node, ask{method: http.MethodGet, path: "/readyz"}, nil, nil)
	if err != nil {
		c.next(node)
	}
	return err
}

// ImportOptions say how an import is sent and answered.
type ImportOptions struct {
	ValidateOnly bool // check, and write nothing
	ErrorsOnly   bool // answer only lines that failed
	// Durability is that of lines that state none; "": as the tenant or the configuration says.
	Durability schema.Durability
	Encoding   string // how the text is compressed as it is: "", "gzip" or "zstd"
}

// ErrImportCut: an import ended before its summary. What was answered stands; sent again, its keyed
// lines are found. It comes with the reason, a *Problem if the server gave one.
var ErrImportCut = errors.New("the import was cut")

// maxAnswerLine bounds a line of the answer of an import, in bytes.
const maxAnswerLine = 1 << 20

// Import sends r, a job a line (request.JobRequest), and calls onResult (which may be nil) for
// each answered line, in any order, while it sends. An error of onResult ends the import. Import is
// not repeated once anything was sent: who has the lines sends them again. The answers must be
// taken: a slow onResult slows the import down.
func (c *Client) Import(ctx context.Context, r io.Reader, o ImportOptions, onResult func(ImportResult) error) (ImportSummary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	params := url.Values{}
	if o.ValidateOnly {
		params.Set("validate_only", "true")
	}
	if o.Durability != "" {
		params.Set("durability", string(o.Durability))
	}
	if o.ErrorsOnly {
		params.Set("results", "errors")
	}
	resp, err := c.openImport(ctx, r, o.Encoding, importPath+"?"+params.Encode())
	if err != nil {
		return ImportSummary{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxAnswerLine)
	for lines.Scan() {
		var l struct {
			ImportResult
			Summary *ImportSummary `json:"summary"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return ImportSummary{}, fmt.Errorf("%w: decode an answer: %w", ErrImportCut, err)
		}
		switch {
		case l.Summary != nil:
			return *l.Summary, nil
		case l.Line == 0 && l.Error != nil:
			return ImportSummary{}, fmt.Errorf("%w: %w", ErrImportCut, l.Error)
		case onResult != nil:
			if err := onResult(l.ImportResult); err != nil {
				return ImportSummary{}, err
			}
		}
	}
	err = lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return ImportSummary{}, fmt.Errorf("%w: %w", ErrImportCut, err)
}

// openImport starts to send r, at the first node that takes it. Once some of r is gone there is no
// other try.
func (c *Client) openImport(ctx context.Context, r io.Reader, encoding, path string) (*http.Response, error) {
	for try := 0; ; try++ {
		node := c.at.Load()
		body := &takenReader{r: r}
		req, err := c.request(ctx, node, http.MethodPost, path, body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", ndjson)
		if encoding != "" {
			req.Header.Set("Content-Encoding", encoding)
		}
		// Nothing is sent before the server agrees, so that a refusal costs none of r.
		req.Header.Set("Expect", "100-continue")
		resp, err := c.http.Do(req)
		switch {
		case err != nil:
			err = fmt.Errorf("import: %w", err)
		case resp.StatusCode != http.StatusOK:
			err = readProblemOf(resp)
			_ = resp.Body.Close()
		default:
			return resp, nil
		}
		again, wait := c.again(ctx, err, true)
		if !again || try >= c.config.Retries || !body.withdraw() {
			return nil, err
		}
		c.next(node)
		if wait == 0 {
			wait = backoff(try)
		}
		if err := sleep(ctx, min(wait, c.config.MaxWait)); err != nil {
			return nil, err
		}
	}
}

// takenReader is the body of one try to send an import. It can be withdrawn until the first byte is
// taken, so that another try may have it: a transport may otherwise read on after its request has
// failed.
type takenReader struct {
	r     io.Reader
	state atomic.Int32 // 0 fresh, 1 taken, 2 withdrawn
}

func (t *takenReader) Read(p []byte) (int, error) {
	if t.state.Load() != 1 && !t.state.CompareAndSwap(0, 1) {
		return 0, errors.New("the import is being sent by another try")
	}
	return t.r.Read(p) //nolint:wrapcheck // io.EOF must stay itself
}

// Close does nothing: who has the reader closes it.
func (t *takenReader) Close() error { return nil }

// withdraw reports whether nothing was taken, and sees to it that nothing will be.
func (t *takenReader) withdraw() bool { return t.state.CompareAndSwap(0, 2) }
