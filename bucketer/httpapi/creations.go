package httpapi

import (
	"context"

	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/schema"
)

// CreateJobs signs the jobs in place.
func (a auditedRecurring) CreateJobs(ctx context.Context, all []recurring.Creation, answer func(i int, job schema.Job, existing bool, err error)) {
	by := authorOf(ctx)
	for i := range all {
		all[i].Spec.CreatedBy = by
	}
	a.Recurring.CreateJobs(ctx, all, func(i int, job schema.Job, existing bool, err error) {
		if err == nil && !existing {
			a.changed(ctx, "create", nil, &job)
		}
		answer(i, job, existing, err)
	})
}

// CreateJobs refuses those for which there is no room, and passes the others on.
func (m meteredRecurring) CreateJobs(ctx context.Context, all []recurring.Creation, answer func(i int, job schema.Job, existing bool, err error)) {
	admitted := make([]recurring.Creation, 0, len(all))
	places := make([]int, 0, len(all))
	for i := range all {
		if err := m.admit(ctx, all[i].Spec.Tenant); err != nil {
			answer(i, schema.Job{}, false, err)
			continue
		}
		admitted, places = append(admitted, all[i]), append(places, i)
	}
	if len(admitted) > 0 {
		m.Recurring.CreateJobs(ctx, admitted, func(k int, job schema.Job, existing bool, err error) { answer(places[k], job, existing, err) })
	}
}
