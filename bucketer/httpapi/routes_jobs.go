package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// The inputs of requests name each parameter themselves: huma looks into no embedded part that is not exported.
type (
	jobByID struct {
		ID string `path:"id" doc:"The job's id" example:"0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"`
	}
	jobCreate struct {
		Key string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same answer"`
		body
	}
	jobPatch struct {
		ID      string `path:"id" doc:"The job's id"`
		IfMatch string `header:"If-Match" doc:"Change it only if this is its ETag; else 412"`
		body
	}
	jobCancel struct {
		ID      string `path:"id" doc:"The job's id"`
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

func (s *Server) routeJobs() {
	huma.Register(s.api, s.operation("create-job", http.MethodPost, "/v1/jobs", "Create a one-off job", 201, 400, 408, 413, 415, 422, 429, 503), s.createJob)
	s.describeBody("/v1/jobs", http.MethodPost, reflect.TypeFor[bucketer.JobRequest](), "application/json")
	huma.Register(s.api, s.operation("get-job", http.MethodGet, "/v1/jobs/{id}", "A job", 200, 404, 422, 503), s.getJob)
	huma.Register(s.api, s.operation("patch-job", http.MethodPatch, "/v1/jobs/{id}", "Change a pending one-off job by a merge patch (RFC 7396): its instant, payload, work, priority or labels", 200, 400, 404, 408, 409, 412, 413, 415, 422, 429, 503), s.patchJob)
	s.describeBody("/v1/jobs/{id}", http.MethodPatch, reflect.TypeFor[bucketer.JobRequest](), "application/json", "application/merge-patch+json")
	huma.Register(s.api, s.operation("cancel-job", http.MethodDelete, "/v1/jobs/{id}", "Cancel a job; twice is the same as once", 200, 404, 409, 412, 422, 503), s.cancelJob)
}

func (s *Server) decoder() *bucketer.Decoder { return s.decoders.Get().(*bucketer.Decoder) }

func (s *Server) createJob(ctx context.Context, in *jobCreate) (*jobAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	now := s.config.Now()
	job, err := d.Job(tenantOf(ctx), text, now)
	key, faults := idempotencyKey(in.Key)
	if err := also(err, faults); err != nil {
		return nil, s.fail(ctx, "create job", err)
	}
	if key != "" {
		job.Key, job.BodyHash = key, d.BodyHash()
	}
	receipt, err := s.deps.Jobs.Submit(ctx, job)
	if err != nil {
		return nil, s.fail(ctx, "create job", err)
	}
	out := &jobAnswer{Status: http.StatusCreated, Location: "/v1/jobs/" + receipt.Run.String()}
	if receipt.Existing {
		out.Replayed = "true"
		// What became of it since is told where it can be read; the run stands in any case.
		if run, err := s.deps.Runs.Run(ctx, job.Tenant, receipt.Run); err == nil {
			out.ETag, out.Body = etag(&run), jobOf(&run, job.Payload)
			return out, nil
		}
	}
	born := bucketer.Run{ID: receipt.Run, State: schema.StatePending}
	born.Entry.ID = receipt.Run
	if job.At.IsZero() {
		job.At = receipt.Run.Time()
	}
	out.ETag, out.Body = etag(&born), jobFrom(schema.JobOf(receipt.Run), job)
	out.Body.CreatedAt, out.Body.UpdatedAt = Time{now}, Time{now}
	out.Body.NextRun = &NextRun{ID: receipt.Run, NominalAt: Time{job.At}, DueAt: Time{receipt.Run.Time()}}
	return out, nil
}

func (s *Server) getJob(ctx context.Context, in *jobByID) (*jobAnswer, error) {
	run, err := s.oneOff(ctx, in.ID)
	if err != nil {
		return nil, s.fail(ctx, "read job", err)
	}
	return s.answerJob(ctx, run)
}

func (s *Server) patchJob(ctx context.Context, in *jobPatch) (*jobAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		run, err := s.patch(ctx, in, text)
		switch {
		case err == nil:
			return s.answerJob(ctx, run)
		case !errors.Is(err, schema.ErrConflict) || try == patchTries:
			return nil, s.fail(ctx, "change job", err)
		}
	}
}

// patchTries bounds how often a patch is made up again because another one was faster.
const patchTries = 5

// patch makes a patch up to the job as it stands, and changes the job if it still stands so: otherwise one of two
// patches at once would undo the other, and both would match one ETag.
func (s *Server) patch(ctx context.Context, in *jobPatch, text []byte) (bucketer.Run, error) {
	run, err := s.oneOff(ctx, in.ID)
	if err != nil {
		return run, err
	}
	if err := checkMatch(in.IfMatch, &run); err != nil {
		return run, err
	}
	payload, err := s.deps.Runs.Payload(ctx, run)
	if err != nil {
		return run, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	change, err := d.Patch(requestOf(&run, payload), text, s.config.Now())
	if err != nil || change == (bucketer.Change{}) {
		return run, err
	}
	change.Of = standing(&run).ID
	return s.deps.Jobs.Reschedule(ctx, tenantOf(ctx), run.ID, change)
}

func (s *Server) cancelJob(ctx context.Context, in *jobCancel) (*jobAnswer, error) {
	run, err := s.oneOff(ctx, in.ID)
	if err == nil {
		err = checkMatch(in.IfMatch, &run)
	}
	if err == nil {
		run, err = s.deps.Jobs.Cancel(ctx, tenantOf(ctx), run.ID, canceller)
	}
	if err != nil {
		return nil, s.fail(ctx, "cancel job", err)
	}
	return s.answerJob(ctx, run)
}

// canceller is who cancelled, as long as keys name nobody.
const canceller = "api"

func (s *Server) answerJob(ctx context.Context, run bucketer.Run) (*jobAnswer, error) {
	payload, err := s.deps.Runs.Payload(ctx, run)
	if err != nil {
		return nil, s.fail(ctx, "read payload", err)
	}
	return &jobAnswer{Status: http.StatusOK, ETag: etag(&run), Body: jobOf(&run, payload)}, nil
}

// oneOff returns the run that the one-off job id is.
func (s *Server) oneOff(ctx context.Context, id string) (bucketer.Run, error) {
	job, err := schema.ParseJobID(id)
	if err != nil {
		if bucketer.NameFault(id) == "" {
			return bucketer.Run{}, notFound("There is no job of this name.")
		}
		return bucketer.Run{}, invalid(bucketer.Fault{Location: "path.id", Message: "is neither an id nor a name of a job"})
	}
	none := notFound("There is no job with this id.")
	runID, ok := job.OneOff()
	if !ok {
		return bucketer.Run{}, none
	}
	run, err := s.deps.Runs.Run(ctx, tenantOf(ctx), runID)
	if err != nil {
		return bucketer.Run{}, err
	}
	if !run.Entry.Spec.Job.IsZero() { // a run of a job that has many
		return bucketer.Run{}, none
	}
	return run, nil
}

// etag names the state of a one-off job: it changes with what the job says and with how it stands.
func etag(r *bucketer.Run) string {
	sum := sha256.Sum256([]byte(standing(r).ID.String() + string(r.State)))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// checkMatch checks the header If-Match of a request that would change r.
func checkMatch(header string, r *bucketer.Run) error {
	if header == "" {
		return nil
	}
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == etag(r) {
			return nil
		}
	}
	return &Problem{
		Type: problemType + "stale", Title: "The job is not as it was", Status: http.StatusPreconditionFailed,
		Detail: "Its ETag is " + etag(r) + ".",
	}
}
