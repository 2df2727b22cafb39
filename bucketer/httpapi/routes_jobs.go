package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// The inputs of requests name each parameter themselves: huma looks into no embedded part that is
// not exported.
type (
	jobByID struct {
		ID string `path:"id" doc:"The job's id, or its name" example:"0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"`
	}
	jobCreate struct {
		Key string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same answer"`
		body
	}
	jobPatch struct {
		ID      string `path:"id" doc:"The job's id, or its name"`
		IfMatch string `header:"If-Match" doc:"Change it only if this is its ETag; else 412"`
		body
	}
	jobCancel struct {
		ID      string `path:"id" doc:"The job's id, or its name"`
		IfMatch string `header:"If-Match" doc:"Cancel it only if this is its ETag; else 412"`
	}
)

type jobAnswer struct {
	Status   int
	ETag     string `header:"ETag"`
	Replayed string `header:"Idempotency-Replayed" doc:"true, if the key was known"`
	Location string `header:"Location"`
	Body     Job
}

// jobRoutes serves one-off jobs.
type jobRoutes struct{ *Server }

func (s jobRoutes) route() {
	huma.Register(s.api, s.operation("create-job", http.MethodPost, "/v1/jobs", "Create a job", 201, 400, 408, 409, 413, 415, 422, 429, 503), s.createJob)
	s.describeBody("/v1/jobs", http.MethodPost, reflect.TypeFor[request.JobRequest](), "application/json")
	s.alsoAnswers("/v1/jobs", http.MethodPost, 200, 201)
	huma.Register(s.api, s.operation("get-job", http.MethodGet, "/v1/jobs/{id}", "A job", 200, 404, 422, 503), s.getJob)
	huma.Register(s.api, s.operation("patch-job", http.MethodPatch, "/v1/jobs/{id}", "Change a job by a merge patch (RFC 7396): a recurring job, or a pending one-off job's instant, payload, work, priority or labels", 200, 400, 404, 408, 409, 412, 413, 415, 422, 429, 503), s.patchJob)
	s.describeBody("/v1/jobs/{id}", http.MethodPatch, reflect.TypeFor[request.JobRequest](), "application/json", "application/merge-patch+json")
	huma.Register(s.api, s.operation("cancel-job", http.MethodDelete, "/v1/jobs/{id}", "Cancel a job; twice is the same as once", 200, 404, 409, 412, 422, 429, 503), s.cancelJob)
}

func (s *Server) decoder() *request.Decoder { return s.decoders.Get().(*request.Decoder) }

func (s jobRoutes) createJob(ctx context.Context, in *jobCreate) (*jobAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	now := s.config.Now()
	job, spec, err := d.Job(tenantOf(ctx), text, now)
	key, faults := idempotencyKey(in.Key)
	if err := also(err, faults); err != nil {
		return nil, s.fail(ctx, "create job", err)
	}
	if key != "" {
		job.Key, job.BodyHash = key, d.BodyHash()
	}
	if spec != nil && spec.After == nil {
		return recurringRoutes(s).createRecurring(ctx, *spec, job.Key, job.BodyHash)
	}
	if spec != nil {
		return s.createAfter(ctx, *spec, job.Key, job.BodyHash)
	}
	receipt, err := s.deps.Jobs.Submit(ctx, job)
	if err != nil {
		return nil, s.fail(ctx, "create job", err)
	}
	return s.answerCreated(ctx, job, receipt, now)
}

// answerCreated answers with a one-off job that was made now, or before.
func (s jobRoutes) answerCreated(ctx context.Context, job bucketer.Job, receipt bucketer.Receipt, now time.Time) (*jobAnswer, error) {
	out := &jobAnswer{Status: http.StatusCreated, Location: "/v1/jobs/" + receipt.Run.String()}
	if receipt.Unique {
		out.Status = http.StatusOK
		return out, s.showExisting(ctx, out, job.Tenant, &receipt)
	}
	if receipt.Existing {
		out.Replayed = "true"
	}
	if receipt.Existing || job.After != nil {
		// What became of it since can be read there, and when it was made: to note that the tenant has
		// jobs which run after others takes its time. The run exists in any case.
		if run, err := s.deps.Runs.Run(ctx, job.Tenant, receipt.Run); err == nil {
			out.ETag, out.Body = etag(&run), s.jobOf(&run, job.Payload)
			return out, nil
		}
	}
	if by := authorOf(ctx); by != "" {
		job.CreatedBy = by
	}
	job.Durability = "" // as it is shown when it is read
	if receipt.Everywhere {
		job.Durability = schema.DurableEverywhere
	}
	born := runs.Run{ID: receipt.Run, State: schema.StatePending}
	born.Entry.ID = receipt.Run
	if job.At.IsZero() && job.After == nil {
		job.At = receipt.Run.Time()
	}
	require := job.RequireRegion || receipt.Entry != nil && receipt.Entry.Spec.RequireRegion
	out.ETag, out.Body = etag(&born), s.homed(jobFrom(schema.JobOf(receipt.Run), job), require)
	out.Body.CreatedAt, out.Body.UpdatedAt = Time{now}, Time{now}
	if job.After != nil {
		return out, nil
	}
	out.Body.NextRun = &NextRun{ID: receipt.Run, NominalAt: Time{job.At}, DueAt: Time{receipt.Run.Time()}}
	return out, nil
}

// showExisting has out show a job that another request created. One whose rows have left is shown
// as it was created, finished.
func (s jobRoutes) showExisting(ctx context.Context, out *jobAnswer, tenant string, receipt *bucketer.Receipt) error {
	run, err := s.deps.Runs.Run(ctx, tenant, receipt.Run)
	payload := receipt.Entry.Payload
	switch {
	case err == nil:
		payload, err = s.deps.Runs.Payload(ctx, run)
	case errors.Is(err, schema.ErrNotFound):
		run, err = runs.Run{ID: receipt.Run, Entry: *receipt.Entry, State: schema.StateSucceeded}, nil
	}
	if err != nil {
		return s.fail(ctx, "read job", err)
	}
	out.ETag, out.Body = etag(&run), s.jobOf(&run, payload)
	out.Body.Existing = true
	return nil
}

// createAfter makes a job that runs after others: a one-off job, if they are.
func (s jobRoutes) createAfter(ctx context.Context, spec schema.JobSpec, key, hash string) (*jobAnswer, error) {
	now := s.config.Now()
	made, err := s.makeAfter(ctx, spec, key, hash)
	switch {
	case err != nil:
		return nil, s.fail(ctx, "create job", err)
	case made.oneOff != nil:
		return s.answerCreated(ctx, *made.oneOff, bucketer.Receipt{Run: made.run, Existing: made.existing}, now)
	}
	out := s.answerRecurring(made.job)
	out.Status, out.Location = http.StatusCreated, "/v1/jobs/"+made.job.ID.String()
	if made.existing {
		out.Replayed = "true"
	}
	return out, nil
}

// madeJob is a job that runs after others, as it was made: of one kind or the other.
type madeJob struct {
	job      *schema.Job
	oneOff   *bucketer.Job
	run      schema.RunID
	existing bool
}

// makeAfter makes a job that can have many runs. One that runs after others is a one-off job if those
// are.
func (s jobRoutes) makeAfter(ctx context.Context, spec schema.JobSpec, key, hash string) (madeJob, error) {
	job, existing, err := s.deps.Recurring.CreateJob(ctx, spec, key, hash)
	return makeOneOff(ctx, s.Server, recurring.Creation{Spec: spec, Key: key, BodyHash: hash}, &job, existing, err)
}

// makeOneOff is what follows once it was tried to make a job that can have many runs: one that runs
// after one-off jobs is made as such.
func makeOneOff(ctx context.Context, s *Server, asked recurring.Creation, job *schema.Job, existing bool, err error) (madeJob, error) {
	var one *recurring.OneOffUpstreams
	if !errors.As(err, &one) {
		return madeJob{job: job, existing: existing}, err
	}
	spec, key, hash := &asked.Spec, asked.Key, asked.BodyHash
	var faults bucketer.Faults
	for _, f := range []struct {
		name   string
		stated bool
	}{{"name", spec.Name != ""}, {"concurrency", spec.Concurrency != nil}, {"pause_on_failure", spec.PauseAfter > 0}} {
		if f.stated {
			faults = append(faults, bucketer.Fault{Location: "body." + f.name, Message: "belongs to a job that can have many runs: the jobs that this one runs after are one-off jobs, and so is it"})
		}
	}
	if len(faults) > 0 {
		return madeJob{}, faults
	}
	b := bucketer.Job{
		Tenant: spec.Tenant, Task: spec.Task, Work: spec.Work, Priority: spec.Priority, Misfire: spec.Misfire, Labels: spec.Labels, Payload: spec.Payload,
		After: &one.After, Durability: spec.Durability, Key: key, BodyHash: hash,
	}
	receipt, err := s.deps.Jobs.Submit(ctx, b)
	return madeJob{oneOff: &b, run: receipt.Run, existing: receipt.Existing}, err
}

func (s jobRoutes) getJob(ctx context.Context, in *jobByID) (*jobAnswer, error) {
	f, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, s.fail(ctx, "read job", err)
	}
	return s.answerFound(ctx, f)
}

func (s jobRoutes) patchJob(ctx context.Context, in *jobPatch) (*jobAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		f, err := s.patch(ctx, in, text)
		switch {
		case err == nil:
			return s.answerFound(ctx, f)
		case !errors.Is(err, schema.ErrConflict) || try == patchTries:
			return nil, s.fail(ctx, "change job", err)
		}
	}
}

// patchTries bounds how often a patch is made up again because another one was faster.
const patchTries = 5

// patch makes a patch up to the job as it stands, and changes the job if it still stands so:
// otherwise one of two patches at once would undo the other, and both would match one ETag.
func (s jobRoutes) patch(ctx context.Context, in *jobPatch, text []byte) (found, error) {
	f, err := s.find(ctx, in.ID)
	if err != nil {
		return f, err
	}
	if err := f.match(in.IfMatch); err != nil {
		return f, err
	}
	if f.job != nil {
		return recurringRoutes(s).patchRecurring(ctx, f, in.IfMatch, text)
	}
	payload, err := s.deps.Runs.Payload(ctx, *f.run)
	if err != nil {
		return f, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	change, err := d.Patch(requestOf(f.run, payload), text, s.config.Now())
	if err != nil || change == (runs.Change{}) {
		return f, err
	}
	change.Of = standing(f.run).ID
	run, err := s.deps.Jobs.Reschedule(ctx, tenantOf(ctx), f.run.ID, change)
	return found{run: &run}, err
}

func (s jobRoutes) cancelJob(ctx context.Context, in *jobCancel) (*jobAnswer, error) {
	f, err := s.find(ctx, in.ID)
	if err == nil {
		err = f.match(in.IfMatch)
	}
	switch {
	case err != nil:
	case f.job != nil:
		f, err = s.control(ctx, f, in.IfMatch, Recurring.CancelJob)
	default:
		var run runs.Run
		run, err = s.deps.Jobs.Cancel(ctx, tenantOf(ctx), f.run.ID, canceller)
		f = found{run: &run}
	}
	if err != nil {
		return nil, s.fail(ctx, "cancel job", err)
	}
	return s.answerFound(ctx, f)
}

// canceller is the author of cancels while keys name no caller.
const canceller = "api"

// found is a job: one that can have many runs, or else a one-off one, which is its run.
type found struct {
	job *schema.Job
	run *runs.Run
}

// tag returns the job's ETag.
func (f found) tag() string {
	if f.job != nil {
		return generationTag(f.job)
	}
	return etag(f.run)
}

// match checks the header If-Match of a request that would change the job.
func (f found) match(header string) error {
	if header == "" {
		return nil
	}
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == f.tag() {
			return nil
		}
	}
	p := problemOf(recurring.ErrStale)
	p.Detail = "Its ETag is " + f.tag() + "."
	return p
}

// generation returns the generation that a job which can have many runs must have, if the request
// says so; 0 = any.
func (f found) generation(header string) int64 {
	if header == "" || header == "*" {
		return 0
	}
	return f.job.Current.Number
}

// find returns the tenant's job of an id or a name. A workflow is none, and nor is a run of one that
// can have many, or of a step.
func (s *Server) find(ctx context.Context, text string) (found, error) {
	id, err := schema.ParseJobID(text)
	if err != nil {
		if bucketer.NameFault(text) != "" {
			return found{}, invalid(bucketer.Fault{Location: "path.id", Message: "is neither an id nor a name of a job"})
		}
		return s.findNamed(ctx, text)
	}
	none := notFound("There is no job with this id.")
	runID, ok := id.OneOff()
	if !ok {
		job, err := s.deps.Recurring.JobByID(ctx, tenantOf(ctx), id)
		return foundJob(&job, or(err, none))
	}
	run, err := s.deps.Runs.Run(ctx, tenantOf(ctx), runID)
	if spec := &run.Entry.Spec; err == nil && (!spec.Job.IsZero() || spec.Step != nil) {
		err = none
	}
	return found{run: &run}, or(err, none)
}

func (s *Server) findNamed(ctx context.Context, name string) (found, error) {
	job, err := s.deps.Recurring.JobByName(ctx, tenantOf(ctx), name)
	return foundJob(&job, or(err, notFound("There is no job of this name.")))
}

// foundJob refuses a workflow where a job is asked for.
func foundJob(job *schema.Job, err error) (found, error) {
	if err == nil && isWorkflow(job) {
		err = notFound("This is a workflow: it is at " + workflowsPath + "/" + job.Current.Spec.Name + ".")
	}
	return found{job: job}, err
}

// or returns err, or none if it says that there is nothing.
func or(err error, none *Problem) error {
	if errors.Is(err, schema.ErrNotFound) {
		return none
	}
	return err
}

func (s jobRoutes) answerFound(ctx context.Context, f found) (*jobAnswer, error) {
	if f.job != nil {
		return s.answerRecurring(f.job), nil
	}
	payload, err := s.deps.Runs.Payload(ctx, *f.run)
	if err != nil && !errors.Is(err, schema.ErrSealed) { // the answer says so
		return nil, s.fail(ctx, "read payload", err)
	}
	return &jobAnswer{Status: http.StatusOK, ETag: f.tag(), Body: s.jobOf(f.run, payload)}, nil
}

// etag names the state of a one-off job: it changes with what the job says and with how it stands.
func etag(r *runs.Run) string {
	sum := sha256.Sum256([]byte(standing(r).ID.String() + string(r.State)))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}
