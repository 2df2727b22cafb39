package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/events"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Jobs takes jobs in and changes them (engine.Engine).
type Jobs interface {
	Submit(ctx context.Context, job bucketer.Job) (bucketer.Receipt, error)
	SubmitBatch(ctx context.Context, jobs []bucketer.Job, answer func(i int, r bucketer.Receipt, err error))
	Cancel(ctx context.Context, tenant string, id schema.RunID, by string) (runs.Run, error)
	Reschedule(ctx context.Context, tenant string, id schema.RunID, c runs.Change) (runs.Run, error)
}

// Runs reads runs (engine.Engine).
type Runs interface {
	Run(ctx context.Context, tenant string, id schema.RunID) (runs.Run, error)
	Runs(ctx context.Context, w runs.Window, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error)
	// RunByKey returns the run of an idempotency key; at: the instant of an import's line that stated one.
	RunByKey(ctx context.Context, tenant, key string, at time.Time) (runs.Run, error)
	Payload(ctx context.Context, run runs.Run) ([]byte, error)
	Output(ctx context.Context, tenant string, id schema.RunID, attempt int) (runs.Output, error)
	Logs(ctx context.Context, tenant string, id schema.RunID, attempt int, pos runs.LogPosition, limit int) ([]runs.LogLine, *runs.LogPosition, error)
}

// Tasks keeps the tasks of tenants (engine.Engine).
type Tasks interface {
	// PutTaskIf and DeleteTaskIf refuse a task that is not as it was put at `seen`, unless that is
	// zero, with bucketer.ErrStale.
	PutTaskIf(ctx context.Context, t schema.Task, seen time.Time) (stored schema.Task, created bool, err error)
	DeleteTaskIf(ctx context.Context, tenant, name string, seen time.Time) error
	Task(ctx context.Context, tenant, name string) (schema.Task, error)
	Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error)
	// CheckTask reports bucketer.ErrNoTask, and bucketer.Faults for a payload that does not fit
	// what the task asks for.
	CheckTask(ctx context.Context, tenant, task string, payload []byte) error
}

// Recurring keeps the jobs that can have many runs (engine.Engine).
type Recurring interface {
	JobMaker
	JobControl
	JobReader
}

// JobMaker creates and changes jobs that can have many runs. An ifMatch that is not 0 is the
// generation that the job must have: else the error is recurring.ErrStale.
type JobMaker interface {
	// CreateJob makes a job. With a key it does so once: existing says that it was made before, of
	// a body of the same hash.
	CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (job schema.Job, existing bool, err error)
	// CreateJobs makes each of many jobs as CreateJob does. answer is called exactly once for each,
	// in any order, from any goroutine, before CreateJobs returns.
	CreateJobs(ctx context.Context, all []recurring.Creation, answer func(i int, job schema.Job, existing bool, err error))
	// PutJob creates the job of this name, or replaces what it says.
	PutJob(ctx context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (job schema.Job, created bool, err error)
	// ChangeJob changes what a job says; change may be called again, with what the job says then.
	ChangeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64, change func(*schema.JobSpec) error) (schema.Job, error)
}

// JobControl starts and stops jobs that can have many runs. About ifMatch see JobMaker.
type JobControl interface {
	PauseJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error)
	ResumeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error)
	CancelJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error)
	// Trigger makes a run that is due now, of that payload; nil means the job's. job was just read.
	// About the key see JobMaker.CreateJob.
	Trigger(ctx context.Context, job schema.Job, payload json.RawMessage, key, bodyHash string) (bucketer.Receipt, error)
}

// JobReader reads jobs that can have many runs.
type JobReader interface {
	JobByID(ctx context.Context, tenant string, id schema.JobID) (schema.Job, error)
	JobByName(ctx context.Context, tenant, name string) (schema.Job, error)
	// NotUnderstood returns why the job does not go on, nil if it does: what is stored of it cannot
	// be understood.
	NotUnderstood(job *schema.Job) error
	// ListJobs returns at most limit jobs, newest first, and where to go on (before), nil at the
	// end.
	ListJobs(ctx context.Context, tenant string, f recurring.JobFilter, before schema.JobID, limit int) ([]schema.Job, *schema.JobID, error)
	// JobRuns returns at most limit runs of the job, the latest due first, and where to go on.
	JobRuns(ctx context.Context, tenant string, id schema.JobID, f recurring.JobRunFilter, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error)
	// Upcoming returns the next count runs of the job after now; fewer, if there are no more.
	Upcoming(job schema.Job, count int, now time.Time) []recurring.Occurrence
}

// Workflows shows and steers runs of workflows (engine.Engine). The workflows themselves are jobs: see
// Recurring.
type Workflows interface {
	// View returns a run of a workflow with its steps.
	View(ctx context.Context, run *runs.Run) (orchestration.View, error)
	// StepRuns returns the runs of its steps, in the order of steps, then items, after that one, only of
	// one step unless that is "", at most limit, and after which to go on; zero: there are no more.
	StepRuns(ctx context.Context, of *runs.Run, step string, f runs.Filter, after schema.RunID, limit int) (list []runs.Run, next schema.RunID, err error)
	// RetryWorkflow runs one that has ended again, from the steps that did not succeed. The same key
	// gives the same run.
	RetryWorkflow(ctx context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error)
	// SkipStep has a step not run; orchestration.ErrNoStep if there is none of that name.
	SkipStep(ctx context.Context, tenant string, id schema.RunID, step string) error
}

// Joins shows runs that wait for other jobs (engine.Engine).
type Joins interface {
	// Stuck returns those whose deadline has passed, by their ids, after that one, at most limit, and
	// after which to go on; zero: there are no more.
	Stuck(ctx context.Context, tenant string, after schema.RunID, limit int) (list []runs.Run, next schema.RunID, err error)
}

// Events takes events in and shows them (engine.Engine).
type Events interface {
	// Publish takes an event in; bucketer.ErrKeyReused: the key came with another body. The id of the
	// event is the receipt's run.
	Publish(ctx context.Context, tenant, name string, body json.RawMessage, key, bodyHash string) (bucketer.Receipt, error)
	Event(ctx context.Context, tenant string, id schema.EntryID) (schema.Entry, error)
	// Events returns events of a window, at most limit, as Runs does runs; name "": any.
	Events(ctx context.Context, w runs.Window, name string, pos runs.Position, limit int) ([]schema.Entry, *runs.Position, error)
	// RunsOf returns the runs that an event started, from number `from` on, and whether there are more.
	RunsOf(ctx context.Context, tenant string, id schema.EntryID, from, limit int) (list []runs.Run, more bool, err error)
	// Hearers returns who would hear of an event now.
	Hearers(ctx context.Context, tenant, event string, limit int) (events.Hearers, error)
}

// Deps are what the API speaks for.
type Deps struct {
	Jobs      Jobs
	Runs      Runs
	Tasks     Tasks
	Recurring Recurring
	Workflows Workflows
	Events    Events
	Joins     Joins
	// DeadLetters keeps the runs that have failed for good. Nil means that there are none.
	DeadLetters DeadLetters
	// Logs finds lines in the logs of runs. Nil means that nobody does.
	Logs Logs
	// Search finds and counts runs of long windows. Nil means that nobody does.
	Search Search
	// Operations does one thing to everything that matches. Nil means that there are none.
	Operations Operations
	// Keys keeps API keys. Nil means that there are none.
	Keys Keys
	// Tokens knows callers by tokens of a provider. Nil means that nobody does.
	Tokens Tokens
	// LogIn has browsers log in at a provider. Nil means that they need keys.
	LogIn LogIn
	// Peer knows clients by the certificates of their connections. Nil means that nobody does.
	Peer func(*tls.ConnectionState) (admin.Identity, bool)
	// Signing keeps the keys by which calls are signed. Nil means that there are none.
	Signing Signing
	// Secrets keeps the values that calls are made with. Nil means that there are none.
	Secrets Secrets
	// Notifications keeps the rules by which tenants are told what happens to their runs. Nil means that
	// there are none.
	Notifications Notifications
	// Calendars keeps the calendars that schedules name. Nil means that there are none.
	Calendars Calendars
	// Tenants keeps weights and quotas, and Quotas holds tenants to them. Nil means that there are
	// none.
	Tenants Tenants
	Quotas  Quotas
	// Encrypts reports whether a key is configured to encrypt data of tenants with; nil: there is
	// none.
	Encrypts func() bool
	// Targets asks executors about targets. Nil means that there are none.
	Targets Targets
	// Audit keeps what callers changed, and Stats counts of what was done. Nil means that nothing
	// is kept.
	Audit Audit
	Stats Stats
	// Upcoming counts what is due in coming minutes. Nil means that nobody does.
	Upcoming Upcoming
	// Ready tells how every dependency stands, for /readyz. Nil means that there is none.
	Ready func(ctx context.Context) []Dependency
	// Cluster tells what the node sees of its cluster, for /v1/cluster. Nil means that it sees
	// nothing.
	Cluster func(ctx context.Context) (Cluster, error)
	// Regions tells who serves the homes of shards, for /v1/regions. Nil means that there are none.
	Regions func() Regions
	// RegionChanges has other regions serve homes, for /v1/admin/regions. Nil means that there are none.
	RegionChanges RegionChanges
	// Homes are those of shards and tenants, which answers name. Nil means that there are no regions.
	Homes *schema.Homes
	// Forward sends writes on to the region that serves their home; it needs Homes. Nil means that
	// they are refused.
	Forward Forward
	// Gatherer is what /metrics shows; nil means nothing.
	Gatherer prometheus.Gatherer
}

// Config sets up a Server. The zero value of a field is its default.
type Config struct {
	Rules   request.Rules
	Version string // of the program, shown in the OpenAPI document; default "dev"
	Node    string // the node's name, told to who asks

	// CursorKey signs cursors, and a key that is derived from it seals the cookies of sessions; the
	// nodes of a cluster share it, at least 16 bytes. Default: drawn at New, so that cursors and
	// sessions hold only on this node and until it stops.
	CursorKey []byte

	// Host reports whether a request may name host, without its port, in its Host header; nil lets
	// it name any. The API under /v1 is refused to others. LocalHost makes one for a node that only
	// its own machine should reach.
	Host func(host string) bool

	// Auth has requests under /v1 carry an API key, which says tenant and role. Without it a caller
	// that reaches the node may do everything, for the tenant they name. ProtectMetrics has
	// /metrics ask for a key of the system tenant as well.
	Auth           bool
	ProtectMetrics bool
	// ReadOnly has every request refused that changes something, whoever asks. Sessions, previews
	// and dry runs are none of these.
	ReadOnly bool

	HeaderTimeout  time.Duration // to read the head of a request; default 10 s
	BodyTimeout    time.Duration // to read the body, imports left out; default 15 s
	RequestTimeout time.Duration // to answer, imports left out; default 15 s
	IdleTimeout    time.Duration // of a connection between two requests; default 2 min
	// an import from which nothing comes for so long is cut; default 5 min
	ImportIdle   time.Duration
	WriteTimeout time.Duration // a caller that takes nothing for so long is cut; default 30 s
	StopTimeout  time.Duration // for requests under way when Run is told to stop; default 10 s

	MaxImports int // imports at once; default 16
	// bytes of bodies in memory at once, imports and small ones left out; default 64 MiB
	MaxBodies  int
	ChunkLines int           // lines of one SubmitBatch; default and at most bucketer.MaxChunk
	ChunkBytes int           // bytes of the lines of one SubmitBatch; default 4 MiB
	ChunkAge   time.Duration // a line waits no longer than this for others; default 50 ms
	Chunks     int           // SubmitBatches at once of one import; default 4

	// OpenMetrics has /metrics answer in that form too, to who asks for it: it shows exemplars.
	OpenMetrics bool
	// Trace begins the span of a request to a route under /v1. What it returns ends the span, with
	// the status and the Location of the answer; nil: there is none. Nil means that no request has one.
	Trace func(r *http.Request, route string) func(status int, location string)

	// Now is the clock; nil means time.Now.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// MinCursorKey is the least length of a key that signs cursors, in bytes.
const MinCursorKey = 16

// Validate reports every fault of c.
func (c *Config) Validate() error {
	var faults []error
	if n := len(c.CursorKey); n > 0 && n < MinCursorKey {
		faults = append(faults, fmt.Errorf("httpapi: a cursor key of %d bytes, fewer than %d", n, MinCursorKey))
	}
	for _, d := range []struct {
		name string
		span time.Duration
	}{
		{"header time-out", c.HeaderTimeout},
		{"body time-out", c.BodyTimeout},
		{"request time-out", c.RequestTimeout},
		{"idle time-out", c.IdleTimeout},
		{"import idle time-out", c.ImportIdle},
		{"write time-out", c.WriteTimeout},
		{"stop time-out", c.StopTimeout},
		{"chunk age", c.ChunkAge},
	} {
		if d.span < 0 {
			faults = append(faults, fmt.Errorf("httpapi: a negative %s", d.name))
		}
	}
	for _, n := range []struct {
		name   string
		number int
		most   int
	}{
		{"imports", c.MaxImports, 1 << 16},
		{"bytes of bodies", c.MaxBodies, math.MaxInt},
		{"chunk lines", c.ChunkLines, bucketer.MaxChunk},
		{"chunk bytes", c.ChunkBytes, 1 << 30},
		{"chunks", c.Chunks, 1 << 10},
	} {
		if n.number < 0 || n.number > n.most {
			faults = append(faults, fmt.Errorf("httpapi: %d %s, not 0 to %d", n.number, n.name, n.most))
		}
	}
	return errors.Join(faults...)
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	if c.Version == "" {
		c.Version = "dev"
	}
	if len(c.CursorKey) == 0 {
		c.CursorKey = make([]byte, 32)
		_, _ = rand.Read(c.CursorKey) // never fails
	}
	span := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	span(&c.HeaderTimeout, 10*time.Second)
	span(&c.BodyTimeout, 15*time.Second)
	span(&c.RequestTimeout, 15*time.Second)
	span(&c.IdleTimeout, 2*time.Minute)
	span(&c.ImportIdle, 5*time.Minute)
	span(&c.WriteTimeout, 30*time.Second)
	span(&c.StopTimeout, 10*time.Second)
	span(&c.ChunkAge, 50*time.Millisecond)
	number := func(n *int, otherwise int) {
		if *n == 0 {
			*n = otherwise
		}
	}
	number(&c.MaxImports, 16)
	number(&c.MaxBodies, 64<<20)
	number(&c.ChunkLines, bucketer.MaxChunk)
	number(&c.ChunkBytes, 4<<20)
	number(&c.Chunks, 4)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

// Server is the HTTP API. It is an http.Handler; Run serves it on a listener.
type Server struct {
	config  Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	cursors cursors

	sessions sessions
	events   eventNotes
	searches searches

	engine   *gin.Engine
	api      huma.API
	openapi  []byte    // the document, as it is served
	decoders sync.Pool // of *request.Decoder
	imports  importsUnderWay
	bodies   atomic.Int64 // bytes left for bodies

	crossOrigin *http.CrossOriginProtection
	several     map[string]map[string]bool // parameters that may be there more than once, by route

	stopping chan struct{} // closed when Run is told to stop: imports end
	stop     sync.Once
}

func init() {
	// gin has no other way to keep it from writing to standard output
	gin.SetMode(gin.ReleaseMode)
	huma.DefaultArrayNullable = false // nor huma to say of all lists that they are never null
}

// New makes the API. It starts nothing.
func New(config Config, deps Deps) (*Server, error) {
	faults := []error{config.Validate()}
	if deps.Jobs == nil || deps.Runs == nil || deps.Tasks == nil || deps.Recurring == nil || deps.Workflows == nil || deps.Events == nil || deps.Joins == nil {
		faults = append(faults, errors.New("httpapi: needs jobs, runs, tasks, recurring jobs, workflows, events and joins"))
	}
	if (config.Auth || config.ProtectMetrics) && deps.Keys == nil {
		faults = append(faults, errors.New("httpapi: is to ask for keys, and has none"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return build(config, deps)
}

// Document returns the OpenAPI document that nodes of that version serve, as JSON; "" is the
// version "dev".
func Document(version string) ([]byte, error) {
	s, err := build(Config{Version: version}, Deps{}) // what requests need, routes do not
	if err != nil {
		return nil, err
	}
	return s.openapi, nil
}

func build(config Config, deps Deps) (*Server, error) {
	c := config.withDefaults()
	sealed, err := newSessions(c.CursorKey)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, deps: atHome(deps), log: c.Logger, metrics: newMetrics(c.Registerer), cursors: cursors{c.CursorKey}, sessions: sealed,
		imports: importsUnderWay{here: make(chan struct{}, c.MaxImports)}, stopping: make(chan struct{}),
		crossOrigin: http.NewCrossOriginProtection(),
	}
	s.watch()
	s.bodies.Store(int64(c.MaxBodies))
	s.decoders.New = func() any { return &request.Decoder{Rules: c.Rules} }

	s.engine = gin.New()
	s.engine.HandleMethodNotAllowed = true
	s.engine.RedirectTrailingSlash = false
	s.engine.UseRawPath = true
	if err := s.engine.SetTrustedProxies(nil); err != nil {
		return nil, fmt.Errorf("set trusted proxies: %w", err)
	}
	m := middleware{s}
	s.engine.Use(m.observe, m.recover, m.bound, m.host, m.form, m.identify)
	if deps.Homes != nil {
		s.engine.Use(m.forward)
	}
	s.engine.NoRoute(func(c *gin.Context) { s.refuse(c, notFound("Nothing is served at this path.")) })
	s.engine.NoMethod(func(c *gin.Context) {
		s.refuse(c, plain(http.StatusMethodNotAllowed, "This path does not take "+c.Request.Method+"."))
	})

	s.api = humagin.New(s.engine, documentWriter{s}.document())
	taskRoutes{s}.route()
	jobRoutes{s}.route()
	recurringRoutes{s}.route()
	workflowRoutes{s}.route()
	eventRoutes{s}.route()
	stuckRoutes{s}.route()
	runRoutes{s}.route()
	logRoutes{s}.route()
	scheduleRoutes{s}.route()
	operationRoutes{s}.route()
	deadLetterRoutes{s}.route()
	importRoutes{s}.route()
	keyRoutes{s}.route()
	signingRoutes{s}.route()
	secretRoutes{s}.route()
	notificationRoutes{s}.route()
	calendarRoutes{s}.route()
	tenantRoutes{s}.route()
	targetRoutes{s}.route()
	auditRoutes{s}.route()
	statsRoutes{s}.route()
	sessionRoutes{s}.route()
	logInRoutes{s}.route()
	regionRoutes{s}.route()
	if err := (systemRoutes{s}).route(); err != nil {
		return nil, err
	}
	return s, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.engine.ServeHTTP(w, r) }
