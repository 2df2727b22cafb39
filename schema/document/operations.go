package document

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// OperationText is the text of an Operation: two objects, for a backend that keeps them apart.
type OperationText struct {
	Spec     json.RawMessage `json:"spec"`
	Progress json.RawMessage `json:"progress"`
}

// markRetention is how long the mark of a cancelled operation stays: longer than what is written
// of the operation after it.
const markRetention = schema.OperationRetention + 24*time.Hour

// PutOperation implements schema.OperationStore. An operation is listed as open before it is there,
// and is removed from the list after it is done.
func (r Roles) PutOperation(ctx context.Context, op schema.Operation) error {
	text, err := operationText(&op)
	if err != nil {
		return fmt.Errorf("put operation %s: %w", op.ID, err)
	}
	written, id := op.Progress.Updated, string(op.ID[:])
	expires := written.Add(schema.OperationRetention)
	docs := []Document{
		{Kind: OpenOperation, Name: id, Text: []byte(op.Tenant), Written: written, Expires: expires, Deleted: op.Progress.Done},
		{Kind: Operation, Scope: op.Tenant, Name: id, Text: text, Written: written, Expires: expires},
	}
	if op.Progress.Done {
		docs[0], docs[1] = docs[1], docs[0]
	}
	if err := r.rows.PutDocuments(ctx, docs...); err != nil {
		return fmt.Errorf("put operation %s: %w", op.ID, err)
	}
	return nil
}

func operationText(op *schema.Operation) ([]byte, error) {
	return json.Marshal(struct {
		Spec     *schema.OperationSpec `json:"spec"`
		Progress *schema.Progress      `json:"progress"`
	}{&op.Spec, &op.Progress})
}

// CancelOperation implements schema.OperationStore.
func (r Roles) CancelOperation(ctx context.Context, tenant string, id schema.OperationID, mark schema.Cancel) error {
	text, err := json.Marshal(mark)
	if err == nil {
		err = r.rows.PutDocuments(ctx, Document{
			Kind: Operation, Scope: tenant, Name: string(id[:]), Mark: text, Written: mark.At, Expires: mark.At.Add(markRetention),
		})
	}
	if err != nil {
		return fmt.Errorf("cancel operation %s: %w", id, err)
	}
	return nil
}

// Operation implements schema.OperationStore.
func (r Roles) Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	op := schema.Operation{ID: id, Tenant: tenant}
	d, err := r.rows.Document(ctx, Operation, tenant, string(id[:]))
	if err == nil {
		err = r.damage.Found("operations", id.String(), loadOperation(&op, &d))
	}
	if err != nil {
		return schema.Operation{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return op, nil
}

// Operations implements schema.OperationStore.
func (r Roles) Operations(ctx context.Context, tenant string, before schema.OperationID, limit int) ([]schema.Operation, error) {
	name := ""
	if !before.IsZero() {
		name = string(before[:])
	}
	ops, err := list(ctx, r, Operation, tenant, name, limit, func(d *Document) schema.Operation {
		op := schema.Operation{Tenant: tenant}
		copy(op.ID[:], d.Name)
		op.Fault = r.damage.Found("operations", op.ID.String(), loadOperation(&op, d))
		return op
	})
	if err != nil {
		return nil, fmt.Errorf("read operations of %s: %w", tenant, err)
	}
	return ops, nil
}

func loadOperation(op *schema.Operation, d *Document) error {
	text, err := schema.Decode[OperationText](d.Text, "operation")
	if err == nil {
		op.Spec, err = schema.Decode[schema.OperationSpec](text.Spec, "operation")
	}
	if err == nil {
		op.Progress, err = schema.Decode[schema.Progress](text.Progress, "progress")
	}
	if d.Mark != nil {
		// one that cannot be understood is one
		mark, _ := schema.Decode[schema.Cancel](d.Mark, "cancel mark")
		op.Cancelled = &mark
	}
	return err
}

// OpenOperations implements schema.OperationStore.
func (r Roles) OpenOperations(ctx context.Context, limit int) ([]schema.OpenOperation, error) {
	open, err := list(ctx, r, OpenOperation, "", "", limit, func(d *Document) schema.OpenOperation {
		o := schema.OpenOperation{Tenant: string(d.Text)}
		copy(o.ID[:], d.Name)
		return o
	})
	if err != nil {
		return nil, fmt.Errorf("read open operations: %w", err)
	}
	return open, nil
}
