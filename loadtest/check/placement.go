package check

// placed judges where the attempts of a run were made that requires labels of its executor. An
// executor whose labels are not known is not judged. A run counts once.
func (j *judge) placed(r *run) {
	if r.job == nil || len(r.job.Requires) == 0 {
		return
	}
	for _, a := range r.attempts() {
		has, known := j.h.Labels[a.Executor]
		if !known || a.StartedAt.IsZero() {
			continue
		}
		for name, value := range r.job.Requires {
			if is, ok := has[name]; !ok || is != value {
				j.rep.Misplaced++
				j.fault(FaultMisplaced, r, "attempt %d was made by %s, which has the labels %v, and %s=%s is required", a.Number, a.Executor, has, name, value)
				return
			}
		}
	}
}
