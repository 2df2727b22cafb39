package document

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// secretUse is the mark of a secret.
type secretUse struct {
	At time.Time `json:"at"`
}

// SwapSecret implements schema.SecretStore.
func (r Roles) SwapSecret(ctx context.Context, was int64, is schema.Secret) error {
	err := is.Follows(was)
	d := Document{Kind: Secret, Scope: is.Tenant, Name: is.Name, Revision: is.Revision}
	if err == nil {
		d.Text, err = json.Marshal(is)
	}
	if err == nil {
		err = r.rows.SwapDocument(ctx, was, d)
	}
	if err != nil {
		return fmt.Errorf("swap secret %s of %s: %w", is.Name, is.Tenant, err)
	}
	return nil
}

// DeleteSecret implements schema.SecretStore.
func (r Roles) DeleteSecret(ctx context.Context, tenant, name string, was int64) error {
	if err := r.rows.SwapDocument(ctx, was, Document{Kind: Secret, Scope: tenant, Name: name, Deleted: true}); err != nil {
		return fmt.Errorf("delete secret %s of %s: %w", name, tenant, err)
	}
	return nil
}

// Secret implements schema.SecretStore.
func (r Roles) Secret(ctx context.Context, tenant, name string) (schema.Secret, error) {
	d, err := r.rows.Document(ctx, Secret, tenant, name)
	var s schema.Secret
	if err == nil {
		s = r.loadSecret(&d)
		err = s.Fault
	}
	if err != nil {
		return schema.Secret{}, fmt.Errorf("read secret %s of %s: %w", name, tenant, err)
	}
	return s, nil
}

// Secrets implements schema.SecretStore.
func (r Roles) Secrets(ctx context.Context, tenant, after string, limit int) ([]schema.Secret, error) {
	all, err := list(ctx, r, Secret, tenant, after, limit, r.loadSecret)
	if err != nil {
		return nil, fmt.Errorf("read secrets of %s: %w", tenant, err)
	}
	return all, nil
}

// loadSecret makes a secret of its row. A use before the secret was made is of one that had its
// name before. A mark that cannot be understood is none: the next use writes another.
func (r Roles) loadSecret(d *Document) schema.Secret {
	s, err := schema.Decode[schema.Secret](d.Text, "secret")
	if err == nil && len(s.Versions) == 0 {
		err = fmt.Errorf("decode secret: %w: it has no version", schema.ErrNotUnderstood)
	}
	if r.damage.Found("secrets", d.Scope+"/"+d.Name, err) != nil {
		s = schema.Secret{Fault: err}
	}
	s.Tenant, s.Name, s.Revision = d.Scope, d.Name, d.Revision
	var use secretUse
	if len(d.Mark) > 0 && json.Unmarshal(d.Mark, &use) == nil && !use.At.Before(s.CreatedAt) {
		s.LastUsed = use.At
	}
	return s
}

// TouchSecret implements schema.SecretStore.
func (r Roles) TouchSecret(ctx context.Context, tenant, name string, at time.Time) error {
	at = at.UTC().Truncate(time.Millisecond)
	d := Document{Kind: Secret, Scope: tenant, Name: name, Written: at}
	var err error
	if d.Mark, err = json.Marshal(secretUse{at}); err == nil {
		err = r.rows.PutDocuments(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("note the use of secret %s of %s: %w", name, tenant, err)
	}
	return nil
}
