package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// How an import is answered and bounded, besides Config.
const (
	ndjson = "application/x-ndjson"
	// answerBuffer is how many bytes of answers wait to be sent together.
	answerBuffer = 64 << 10
	// chunkTimeout bounds one SubmitBatch, and the way of its lines to other regions. It goes on
	// when the caller leaves: what was begun is brought to an end.
	chunkTimeout = time.Minute
	// A chunk is full with maxRecurring jobs that can have many runs and share no batches: each
	// costs conditional writes.
	maxRecurring = 256
)

type importQuery struct {
	ValidateOnly    bool   `query:"validate_only" doc:"Check, and write nothing: a valid line is answered 200, without id"`
	Durability      string `query:"durability" enum:"home,everywhere" doc:"Of lines that state none: everywhere, a line is answered once every region holds its job. Absent: as the tenant states, or else the configuration"`
	Results         string `query:"results" enum:"all,errors" default:"all" doc:"errors: answer only lines that failed, and the summary"`
	ContentType     string `header:"Content-Type"`
	ContentEncoding string `header:"Content-Encoding" doc:"gzip or zstd"`
}

// importRoutes serves bulk imports.
type importRoutes struct{ *Server }

func (s importRoutes) route() {
	op := s.operation("import-jobs", http.MethodPost, importPath, "Create many jobs, one a line; answered while they are read", 200, 400, 415, 422, 429, 503)
	op.Description = "The body is NDJSON of any length, a job a line of at most 256 KiB, each with an optional \"key\". " +
		"The jobs that a line names in after must be there before the import. Lines at the home of another region are sent on to the one that serves it. The answer has a line for each, in any order, and a summary as its last; an answer without summary was cut. " +
		"Read the answer while sending: an import whose answers nobody takes stands still."
	op.Responses["200"].Content = map[string]*huma.MediaType{ndjson: {Schema: &huma.Schema{OneOf: []*huma.Schema{
		s.schema(reflect.TypeFor[ImportResult]()),
		{
			Type: huma.TypeObject, Required: []string{"summary"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{"summary": s.schema(reflect.TypeFor[ImportSummary]())},
		},
		{
			Type: huma.TypeObject, Required: []string{"error"}, AdditionalProperties: false, Description: "The import ends here, before its end",
			Properties: map[string]*huma.Schema{"error": s.schema(reflect.TypeFor[Problem]())},
		},
	}}}}
	huma.Register(s.api, op, s.importJobs)
	s.describeBody(importPath, http.MethodPost, reflect.TypeFor[request.JobRequest](), ndjson)
}

func (s importRoutes) importJobs(ctx context.Context, in *importQuery) (*huma.StreamResponse, error) {
	if err := checkMedia(in.ContentType, ndjson, "application/ndjson", "application/jsonl"); err != nil {
		return nil, err
	}
	if err := durable(s.deps.Homes, schema.Durability(in.Durability), "query.durability"); err != nil {
		return nil, err
	}
	if !knownEncoding(in.ContentEncoding) {
		return nil, plain(http.StatusUnsupportedMediaType, "The content encoding must be gzip or zstd, or none.")
	}
	select {
	case <-s.stopping:
		return nil, stoppingProblem()
	case s.imports.here <- struct{}{}:
	default:
		p := plain(http.StatusTooManyRequests, fmt.Sprintf("%d imports are under way, and no more are taken.", s.config.MaxImports))
		p.RetryAfter = 5 * time.Second
		return nil, p
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer func() { <-s.imports.here }()
		s.metrics.imports.Inc()
		defer s.metrics.imports.Dec()
		s.newImporter(ctx, humagin.Unwrap(hc), in).run()
	}}, nil
}

func stoppingProblem() *Problem {
	p := bucketerNotReady()
	p.Detail = "The node is stopping. Send the import again: keys make it safe."
	return p
}

func bucketerNotReady() *Problem { return problemOf(bucketer.ErrNotReady) }

// importer is one import under way. The request's goroutine splits lines, decodes them and gathers
// chunks. One goroutine reads the body, and one for each chunk in flight submits it and writes its
// answers.
type importer struct {
	s            *Server
	ctx          context.Context
	gin          *gin.Context
	conn         *http.ResponseController
	tenant       string
	validateOnly bool
	errorsOnly   bool
	durability   schema.Durability // of lines that state none
	encoding     string
	way          *onward // of lines to other regions; nil: they stay here

	blocks  chan block    // what was read, in order; closed after one with an error
	free    chan []byte   // buffers to read into
	slots   chan struct{} // a token for each chunk in flight
	chunks  sync.WaitGroup
	broken  chan struct{} // closed when answers can no longer be written
	breakIt sync.Once

	lines  splitter
	permit bool // the tenant's quota has a place for the next line
	chunk  chunk

	mu      sync.Mutex
	out     *bufio.Writer // to the caller
	wrote   bool          // something lies in the buffers of the connection
	summary ImportSummary
}

// chunk is the jobs that go to the bucketer together, with their lines.
type chunk struct {
	jobs      []bucketer.Job
	specs     []*schema.JobSpec // of the job at the same place, if it can have many runs
	lines     []int64
	bytes     int
	recurring int       // specs that are not nil
	dear      int       // of those the ones that share no batches
	texts     lineTexts // of the jobs, if they may be sent on
}

func (s importRoutes) newImporter(ctx context.Context, c *gin.Context, in *importQuery) *importer {
	m := &importer{
		s: s.Server, ctx: context.WithValue(ctx, importing{}, true), gin: c, conn: http.NewResponseController(c.Writer), tenant: tenantOf(ctx),
		validateOnly: in.ValidateOnly, errorsOnly: in.Results == "errors", durability: schema.Durability(in.Durability), encoding: in.ContentEncoding,
		blocks: make(chan block), free: make(chan []byte, readBuffers), slots: make(chan struct{}, s.config.Chunks),
		broken: make(chan struct{}),
	}
	m.out = bufio.NewWriterSize(answerWriter{m}, answerBuffer)
	m.way = m.onward()
	for range readBuffers {
		m.free <- make([]byte, readBuffer)
	}
	return m
}

// run answers the import.
func (m *importer) run() {
	done := make(chan struct{})
	readerGone := make(chan struct{})
	go func() {
		defer close(readerGone)
		m.read(m.gin.Request.Body, done)
	}()
	err := m.gather()
	close(done)
	if err != nil { // the reader may be waiting for a caller who sends nothing more: end that
		_ = m.conn.SetReadDeadline(time.Now())
	}
	m.chunks.Wait()
	<-readerGone
	m.end(err)
}

// end writes the last line: the summary, or why there is none.
func (m *importer) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(err)
	if err == nil {
		m.reply(struct {
			Summary ImportSummary `json:"summary"`
		}{m.summary})
		m.flush()
		return
	}
	m.s.log.Debug("import cut", "tenant", m.tenant, "lines", m.summary.Lines, "err", err)
	p := problemOf(err)
	if !m.gin.Writer.Written() && m.out.Buffered() == 0 {
		m.gin.Header("Connection", "close")
		m.s.refuse(m.gin, p)
		return
	}
	m.reply(struct {
		Error *Problem `json:"error"`
	}{p})
	m.flush()
}

// note writes the import to the audit log. The caller holds mu.
func (m *importer) note(err error) {
	if m.validateOnly || m.summary.Lines == 0 {
		return
	}
	var notes []string
	if m.gin.GetHeader(forward.Header) != "" {
		notes = append(notes, "lines that another region sent on")
	}
	if err != nil {
		notes = append(notes, "cut before its end")
	}
	m.s.note(m.ctx, "import", "import", nil, m.summary, strings.Join(notes, "; "))
}

// gather takes lines in until the body ends, and submits them in chunks. It returns nil at the end
// of the body, or why it did not get there.
func (m *importer) gather() error {
	d := m.s.decoder()
	defer m.s.decoders.Put(d)
	age := time.NewTimer(m.s.config.ChunkAge)
	defer age.Stop()
	var (
		waiting bool // the timer runs for the oldest line in the chunk
		due     bool // the chunk is old enough
		ended   bool // there is nothing more to read
		failure error
		pace    <-chan time.Time // until the quota has a place for the next line
	)
	for {
		for !m.full() {
			if wait := m.wait(); wait > 0 {
				pace = time.After(wait)
				break
			}
			if !m.lines.next() {
				break
			}
			m.permit = false
			m.line(d)
		}
		if m.lines.buffer != nil && len(m.lines.rest) == 0 {
			m.free <- m.lines.release()
		}
		if ended && len(m.chunk.jobs) == 0 && !m.lines.more() {
			return failure
		}
		if !waiting && (len(m.chunk.jobs) > 0 || m.unsent()) {
			waiting = true
			age.Reset(m.s.config.ChunkAge)
		}
		var (
			slot chan<- struct{}
			in   <-chan block
		)
		if len(m.chunk.jobs) > 0 && (due || ended || m.full()) {
			slot = m.slots
		}
		if !ended && !m.lines.more() {
			in = m.blocks
		}
		select {
		case b := <-in:
			m.lines.feed(b.data)
			if b.err != nil {
				ended = true
				if failure = b.err; errors.Is(failure, io.EOF) {
					failure = nil
					m.lines.end()
				}
			}
		case slot <- struct{}{}:
			m.submit()
			waiting, due = false, false
		case <-age.C:
			waiting, due = false, len(m.chunk.jobs) > 0
			m.mu.Lock()
			m.flush()
			m.mu.Unlock()
		case <-pace:
		case <-m.s.stopping:
			return stoppingProblem()
		case <-m.broken:
			return errors.New("the answers cannot be written")
		}
	}
}

// wait returns how long the tenant's quota has the next line wait: 0 if the line can be taken, or
// if there is no quota.
func (m *importer) wait() time.Duration {
	if m.s.deps.Quotas == nil || m.validateOnly || m.permit || !m.lines.more() {
		return 0
	}
	wait, err := m.s.deps.Quotas.AdmitLine(m.ctx, m.tenant)
	if err != nil { // the error comes again when the line is taken
		m.s.log.Debug("quota of an import could not be read", "tenant", m.tenant, "err", err)
	}
	m.permit = wait == 0
	return wait
}

func (m *importer) full() bool {
	return len(m.chunk.jobs) >= m.s.config.ChunkLines || m.chunk.bytes >= m.s.config.ChunkBytes || m.chunk.dear >= maxRecurring
}

// line takes the line at which the splitter stands.
func (m *importer) line(d *request.Decoder) {
	text, number := m.lines.text, m.lines.number
	if m.lines.tooLong {
		m.answerAlone(number, &Problem{
			Type: problemType + "too-large", Title: "The line is too large", Status: http.StatusRequestEntityTooLarge,
			Detail: "A line of an import is at most 256 KiB.",
		})
		return
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	job, spec, err := d.Line(m.tenant, text, m.s.config.Now())
	if err == nil && m.validateOnly {
		task, payload := job.Task, job.Payload
		if spec != nil {
			task, payload = spec.Task, spec.Payload
		}
		if err = m.s.deps.Tasks.CheckTask(m.ctx, m.tenant, task, payload); err == nil {
			m.answerAlone(number, nil)
			return
		}
	}
	if err != nil {
		m.answerAlone(number, lineProblem(err))
		return
	}
	if job.Durability == "" {
		job.Durability = m.durability
	}
	if spec != nil && spec.Durability == "" {
		spec.Durability = m.durability
	}
	m.chunk.jobs = append(m.chunk.jobs, job)
	m.chunk.specs = append(m.chunk.specs, spec)
	if spec != nil {
		m.chunk.recurring++
		if !recurring.SharesBatches(spec, job.Key) {
			m.chunk.dear++
		}
	}
	m.chunk.lines = append(m.chunk.lines, number)
	m.chunk.bytes += len(text)
	m.way.add(text)
}

// lineProblem is problemOf with the places that a line has.
func lineProblem(err error) *Problem {
	p := problemOf(err)
	for i := range p.Errors {
		if p.Errors[i].Location == "header."+keyHeader {
			p.Errors[i].Location = "body.key"
		}
	}
	return p
}

// submit passes the chunk on, and answers its lines when they are decided. It holds a slot.
func (m *importer) submit() {
	c := m.chunk
	c.texts = m.way.take()
	m.chunk = chunk{}
	m.chunks.Add(1)
	go func() {
		defer func() {
			<-m.slots
			m.chunks.Done()
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), chunkTimeout)
		defer cancel()
		decisions := m.decide(ctx, c)
		m.sendOn(ctx, c, decisions)
		m.answer(c, decisions)
	}()
}

// decision is what became of one job.
type decision struct {
	id       schema.JobID
	existing bool
	err      error
}

var errUndecided = errors.New("the bucketer said nothing about this job")

// decide submits the chunk. What the bucketer did not answer is undecided.
func (m *importer) decide(ctx context.Context, c chunk) (decisions []decision) {
	decisions = make([]decision, len(c.jobs))
	for i := range decisions {
		decisions[i].err = errUndecided
	}
	var others sync.WaitGroup
	// the one-off jobs, and where they stand in the chunk if that is elsewhere
	jobs, places := c.jobs, []int(nil)
	if c.recurring > 0 {
		jobs = nil
		others.Go(func() { m.decideRecurring(ctx, c, decisions) })
		for i, spec := range c.specs {
			if spec == nil {
				jobs, places = append(jobs, c.jobs[i]), append(places, i)
			}
		}
	}
	defer others.Wait()
	defer m.guard()
	if len(jobs) > 0 {
		m.s.deps.Jobs.SubmitBatch(ctx, jobs, func(i int, r bucketer.Receipt, err error) {
			if places != nil {
				i = places[i]
			}
			// each exactly once, before SubmitBatch returns
			decisions[i] = decision{schema.JobOf(r.Run), r.Existing, err}
		})
	}
	return decisions
}

// decideRecurring makes those jobs of the chunk that can have many runs.
func (m *importer) decideRecurring(ctx context.Context, c chunk, decisions []decision) {
	defer m.guard()
	var asked []recurring.Creation
	var places []int
	for i, spec := range c.specs {
		if spec != nil {
			asked, places = append(asked, recurring.Creation{Spec: *spec, Key: c.jobs[i].Key, BodyHash: c.jobs[i].BodyHash}), append(places, i)
		}
	}
	m.s.deps.Recurring.CreateJobs(ctx, asked, func(k int, job schema.Job, existing bool, err error) {
		made, err := makeOneOff(ctx, m.s, asked[k], &job, existing, err)
		id := schema.JobOf(made.run)
		if made.job != nil {
			id = made.job.ID
		}
		// each exactly once, before CreateJobs returns
		decisions[places[k]] = decision{id, made.existing, err}
	})
}

// guard keeps a panic in one chunk from ending the node. It answers what was left undecided.
func (m *importer) guard() {
	if v := recover(); v != nil {
		m.s.log.Error("import chunk panicked", "err", v, "stack", string(debug.Stack()))
	}
}
