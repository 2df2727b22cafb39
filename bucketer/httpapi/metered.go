package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"carillon.dev/carillon/bucketer"
)

// Quotas holds tenants to what they may use (bucketer.Tenants).
type Quotas interface {
	// AdmitRun takes a run with so many bytes of payload out of the tenant's quotas, or answers a *bucketer.QuotaError.
	AdmitRun(ctx context.Context, tenant string, bytes int) error
	// AdmitLine takes a line of an import out of the tenant's quota, or says how long to wait.
	AdmitLine(ctx context.Context, tenant string) (wait time.Duration, err error)
}

// metered holds what is submitted to the quotas of its tenants.
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

// quotaProblem is the problem of a quota that is used up.
func quotaProblem(e *bucketer.QuotaError) *Problem {
	return &Problem{
		Type: problemType + "quota", Title: "The tenant's quota is used up", Status: http.StatusTooManyRequests,
		Detail:     fmt.Sprintf("%s is %d, shared by the nodes that take jobs in. Nothing was written.", e.Quota, e.Limit),
		RetryAfter: max(e.RetryAfter, time.Second),
	}
}
