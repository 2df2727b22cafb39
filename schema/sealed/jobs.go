package sealed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// ofJob is what is sealed of a job. The payload is no RawMessage: it must come back byte for byte.
type ofJob struct {
	Payload    []byte `json:"payload,omitempty"`
	Definition []byte `json:"definition,omitempty"`
}

func placeOfJob(id schema.JobID, generation int64) string {
	return "job\x00" + id.String() + "\x00" + strconv.FormatInt(generation, 10)
}

// generation returns a generation of a job as it is stored. It changes nothing that g points to.
func (b *box) generation(ctx context.Context, id schema.JobID, g schema.Generation) (schema.Generation, error) {
	spec := &g.Spec
	of := ofJob{Payload: spec.Payload}
	if spec.Workflow != nil {
		of.Definition = spec.Workflow.Definition
	}
	if g.Fault != nil || spec.Sealed != nil || len(of.Payload)+len(of.Definition) == 0 || !b.seals(ctx, spec.Tenant) {
		return g, nil
	}
	text, err := json.Marshal(of)
	if err == nil {
		spec.Sealed, err = b.keys.SealRow(text, placeOfJob(id, g.Number))
	}
	if err != nil {
		return g, err
	}
	spec.Payload = nil
	if spec.Workflow != nil {
		w := *spec.Workflow
		w.Definition = nil
		spec.Workflow = &w
	}
	return g, nil
}

// job returns a job as it is stored.
func (b *box) job(ctx context.Context, j schema.Job) (schema.Job, error) {
	var err error
	if j.Current, err = b.generation(ctx, j.ID, j.Current); err != nil || j.Before == nil {
		return j, err
	}
	before, err := b.generation(ctx, j.ID, *j.Before)
	j.Before = &before
	return j, err
}

// openGeneration opens a generation in place. One that cannot be opened has a Fault.
func (b *box) openGeneration(id schema.JobID, g *schema.Generation) {
	if g.Spec.Sealed == nil {
		return
	}
	text, err := b.openRow(g.Spec.Sealed, placeOfJob(id, g.Number))
	var of ofJob
	if err == nil {
		of, err = schema.Decode[ofJob](text, "sealed job")
	}
	if err != nil {
		g.Spec, g.Fault = schema.JobSpec{}, err
		return
	}
	g.Spec.Sealed, g.Spec.Payload = nil, of.Payload
	if g.Spec.Workflow != nil {
		w := *g.Spec.Workflow // others share it
		w.Definition = of.Definition
		g.Spec.Workflow = &w
	}
}

// openJob opens a job in place.
func (b *box) openJob(j *schema.Job) {
	b.openGeneration(j.ID, &j.Current)
	if j.Before != nil && j.Before.Spec.Sealed != nil {
		before := *j.Before
		b.openGeneration(j.ID, &before)
		j.Before = &before
	}
}

// CreateJob implements schema.JobStore.
func (s jobRows) CreateJob(ctx context.Context, j schema.Job) error {
	j, err := s.box.job(ctx, j)
	if err != nil {
		return err
	}
	return s.inner.CreateJob(ctx, j)
}

// CreateJobs implements schema.JobBatchStore.
func (s jobRows) CreateJobs(ctx context.Context, jobs []schema.Job) error {
	sealed := make([]schema.Job, len(jobs))
	for i := range jobs {
		var err error
		if sealed[i], err = s.box.job(ctx, jobs[i]); err != nil {
			return err
		}
	}
	return s.inner.CreateJobs(ctx, sealed)
}

// SwapJob implements schema.JobStore.
func (s jobRows) SwapJob(ctx context.Context, was int64, j schema.Job) error {
	j, err := s.box.job(ctx, j)
	if err != nil {
		return err
	}
	return s.inner.SwapJob(ctx, was, j)
}

// Job implements schema.JobStore.
func (s jobRows) Job(ctx context.Context, id schema.JobID) (schema.Job, error) {
	j, err := s.inner.Job(ctx, id)
	if err != nil {
		return j, err
	}
	if s.box.openJob(&j); j.Current.Fault != nil {
		return j, fmt.Errorf("read job %s: %w", id, j.Current.Fault)
	}
	return j, nil
}

// Jobs implements schema.JobStore.
func (s jobRows) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	jobs, err := s.inner.Jobs(ctx, shard, ids)
	for i := range jobs {
		s.box.openJob(&jobs[i])
	}
	return jobs, err
}

// JobsOf implements schema.JobStore.
func (s jobRows) JobsOf(ctx context.Context, shard schema.Shard, after schema.JobID, limit int) ([]schema.Job, error) {
	jobs, err := s.inner.JobsOf(ctx, shard, after, limit)
	for i := range jobs {
		s.box.openJob(&jobs[i])
	}
	return jobs, err
}

// sealedText is a sealed text in the place of one that is JSON.
type sealedText struct {
	Sealed []byte `json:"sealed"`
}

// sealedHead is what a sealedText begins with. No spec does.
var sealedHead = []byte(`{"sealed":"`)

func placeOfKey(tenant, key, what string) string {
	return "key\x00" + tenant + "\x00" + key + "\x00" + what
}

// RegisterKey implements schema.KeyStore.
func (s jobRows) RegisterKey(
	ctx context.Context, tenant, key string, claim schema.KeyRecord, expires time.Time,
) (stands schema.KeyRecord, mine bool, err error) {
	stored := claim
	if s.box.seals(ctx, tenant) {
		var text sealedText
		if text.Sealed, err = s.box.keys.SealRow(claim.Text, placeOfKey(tenant, key, "text")); err == nil {
			stored.Text, err = json.Marshal(text)
		}
		if err == nil && len(claim.Payload) > 0 {
			stored.Payload, err = s.box.keys.SealRow(claim.Payload, placeOfKey(tenant, key, "payload"))
		}
		if err != nil {
			return schema.KeyRecord{}, false, err
		}
	}
	stands, mine, err = s.inner.RegisterKey(ctx, tenant, key, stored, expires)
	if err == nil {
		err = s.box.openKey(tenant, key, &stands)
	}
	return stands, mine, err
}

// RegisteredKey implements schema.KeyStore.
func (s jobRows) RegisteredKey(ctx context.Context, tenant, key string) (schema.KeyRecord, error) {
	r, err := s.inner.RegisteredKey(ctx, tenant, key)
	if err == nil {
		err = s.box.openKey(tenant, key, &r)
	}
	return r, err
}

// openKey opens what stands under a key.
func (b *box) openKey(tenant, key string, r *schema.KeyRecord) error {
	if bytes.HasPrefix(r.Text, sealedHead) {
		text, err := schema.Decode[sealedText](r.Text, "sealed key")
		if err == nil {
			r.Text, err = b.openRow(text.Sealed, placeOfKey(tenant, key, "text"))
		}
		if err != nil {
			return fmt.Errorf("what key %q stands for: %w", key, err)
		}
	}
	if schema.IsSealed(r.Payload) {
		var err error
		if r.Payload, err = b.openRow(r.Payload, placeOfKey(tenant, key, "payload")); err != nil {
			return fmt.Errorf("what key %q stands for: %w", key, err)
		}
	}
	return nil
}
