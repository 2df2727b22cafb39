package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/schema"
)

// Quotas bounds what tenants may use (admin.Tenants).
type Quotas interface {
	// AdmitRun takes a run with so many bytes of payload out of the tenant's quotas, or answers a
	// *admin.QuotaError.
	AdmitRun(ctx context.Context, tenant string, bytes int) error
	// AdmitLine takes a line of an import out of the tenant's quota, or says how long to wait.
	AdmitLine(ctx context.Context, tenant string) (wait time.Duration, err error)
	// AdmitJob admits one more job that can have many runs, or answers a *admin.QuotaError;
	// count counts them, up to most.
	AdmitJob(ctx context.Context, tenant string, count func(ctx context.Context, most int) (int, error)) error
}

// metered takes what is submitted out of the quotas of its tenants.
type metered struct {
	Jobs
	quotas Quotas
}

func (m metered) Submit(ctx context.Context, job bucketer.Job) (bucketer.Receipt, error) {
	if err := m.quotas.AdmitRun(ctx, job.Tenant, len(job.Payload)); err != nil {
		return bucketer.Receipt{}, err
	}
	return m.Jobs.Submit(ctx, job)
}

func (m metered) SubmitBatch(ctx context.Context, jobs []bucketer.Job, answer func(i int, r bucketer.Receipt, err error)) {
	refused := make(map[int]error)
	for i := range jobs {
		if err := m.quotas.AdmitRun(ctx, jobs[i].Tenant, len(jobs[i].Payload)); err != nil {
			refused[i] = err
		}
	}
	if len(refused) == 0 {
		m.Jobs.SubmitBatch(ctx, jobs, answer)
		return
	}
	var admitted []bucketer.Job
	var places []int
	for i, job := range jobs {
		if err, ok := refused[i]; ok {
			answer(i, bucketer.Receipt{}, err)
			continue
		}
		admitted, places = append(admitted, job), append(places, i)
	}
	if len(admitted) > 0 {
		m.Jobs.SubmitBatch(ctx, admitted, func(i int, r bucketer.Receipt, err error) { answer(places[i], r, err) })
	}
}

// meteredRecurring takes jobs that can have many runs out of the quotas of their tenants.
type meteredRecurring struct {
	Recurring
	quotas Quotas
}

// admit admits one more job of the tenant.
func (m meteredRecurring) admit(ctx context.Context, tenant string) error {
	return m.quotas.AdmitJob(ctx, tenant, func(ctx context.Context, most int) (count int, err error) {
		var before schema.JobID
		for {
			page, next, err := m.ListJobs(ctx, tenant, recurring.JobFilter{}, before, countPage)
			if err != nil {
				return 0, err
			}
			for i := range page {
				if !page[i].Current.State.Ended() {
					count++
				}
			}
			if next == nil || count >= most {
				return count, nil
			}
			before = *next
		}
	})
}

// countPage is how many jobs are read at once to count them.
const countPage = 500

func (m meteredRecurring) CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (schema.Job, bool, error) {
	if err := m.admit(ctx, spec.Tenant); err != nil {
		return schema.Job{}, false, err
	}
	return m.Recurring.CreateJob(ctx, spec, key, bodyHash)
}

func (m meteredRecurring) PutJob(ctx context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (schema.Job, bool, error) {
	old, err := m.JobByName(ctx, tenant, name)
	if errors.Is(err, schema.ErrNotFound) || err == nil && old.Current.State.Ended() {
		err = m.admit(ctx, tenant)
	}
	if err != nil {
		return schema.Job{}, false, err
	}
	return m.Recurring.PutJob(ctx, tenant, name, ifMatch, spec)
}

func (m meteredRecurring) Trigger(ctx context.Context, job schema.Job, payload json.RawMessage, key, bodyHash string) (bucketer.Receipt, error) {
	if err := m.quotas.AdmitRun(ctx, job.Current.Spec.Tenant, len(payload)); err != nil {
		return bucketer.Receipt{}, err
	}
	return m.Recurring.Trigger(ctx, job, payload, key, bodyHash)
}

// meteredWorkflows takes workflow runs that are run again out of the quota of runs.
type meteredWorkflows struct {
	Workflows
	quotas Quotas
}

func (m meteredWorkflows) RetryWorkflow(ctx context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error) {
	if err := m.quotas.AdmitRun(ctx, tenant, 0); err != nil {
		return bucketer.Receipt{}, err
	}
	return m.Workflows.RetryWorkflow(ctx, tenant, id, key)
}

// meteredOperations takes the beginning of an operation that starts runs out of its tenant's quota,
// as one run. The runs that it starts wait for the quota (operations.Operations).
type meteredOperations struct {
	Operations
	quotas Quotas
}

func (m meteredOperations) Begin(ctx context.Context, tenant string, spec schema.OperationSpec, key, bodyHash string) (operations.Begun, error) {
	if spec.StartsRuns() && !spec.DryRun {
		if err := m.quotas.AdmitRun(ctx, tenant, 0); err != nil {
			return operations.Begun{}, err
		}
	}
	return m.Operations.Begin(ctx, tenant, spec, key, bodyHash)
}

func (m meteredOperations) Backfill(ctx context.Context, tenant string, id schema.JobID, r operations.Backfill, by, key, bodyHash string) (operations.Begun, error) {
	if err := m.quotas.AdmitRun(ctx, tenant, 0); err != nil {
		return operations.Begun{}, err
	}
	return m.Operations.Backfill(ctx, tenant, id, r, by, key, bodyHash)
}

// quotaProblem is the problem of a quota that is used up.
func quotaProblem(e *admin.QuotaError) *Problem {
	return &Problem{
		Type: problemType + "quota", Title: "The tenant's quota is used up", Status: http.StatusTooManyRequests,
		Detail:     fmt.Sprintf("%s is %d, shared by the nodes that take jobs in. Nothing was written.", e.Quota, e.Limit),
		RetryAfter: max(e.RetryAfter, time.Second),
	}
}
