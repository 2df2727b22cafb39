package embedded

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/document"
)

// documents implements document.Rows. A document is a row with its text in colValue.
type documents struct{ *core }

// documentTable says how the documents of a kind lie in their table.
type documentTable struct {
	table  table
	scoped bool // the key is scope and name, else the name alone
	// A deletion is a cell in colDeleted; in a table that is marked, where nothing is deleted, the
	// same column is the mark. In a table that is emptied a deletion is an empty text.
	marked, emptied bool
	revised         bool // the text has a field "revision", its first one
	backwards       bool // listed from the highest name to the lowest
}

// The tables are stored: never rename them.
var documentTables = map[document.Kind]documentTable{
	document.Tenant:        {table: 'T'},
	document.Task:          {table: tableTasks, scoped: true},
	document.RatedTask:     {table: 'R'},
	document.Operation:     {table: 'O', scoped: true, marked: true, backwards: true},
	document.OpenOperation: {table: 'W', emptied: true},
	document.SigningKeys:   {table: 'G', revised: true},
	document.Subscription:  {table: 'E', scoped: true},
	document.Listening:     {table: 'N'},
	document.Secret:        {table: 'V', scoped: true, marked: true, revised: true},

	document.Notification:      {table: 'Q', scoped: true},
	document.Incident:          {table: 'L', scoped: true},
	document.NotificationGroup: {table: 'J', scoped: true, revised: true},
	document.Calendar:          {table: 'Y', scoped: true},
	document.DeadLetterDay:     {table: 'F', scoped: true},
}

// revision is what a revised text says besides the document.
type revision struct {
	Revision int64 `json:"revision"`
}

func (t *documentTable) key(scope, name string) []byte {
	if t.scoped {
		return appendName(nil, t.table, scope, name)
	}
	return append([]byte{byte(t.table)}, name...)
}

// PutDocuments implements document.Rows: one batch, all of it or nothing.
func (d documents) PutDocuments(ctx context.Context, docs ...document.Document) error {
	rows := make([]rowWrite, len(docs))
	for i := range docs {
		doc, t := &docs[i], documentTables[docs[i].Kind]
		c := cell{column: colValue, timestamp: doc.Written.UnixMicro(), expires: expiryOf(doc.Expires), data: doc.Text}
		switch {
		case doc.Deleted && t.emptied:
			c.data = nil
		case doc.Deleted:
			c.column, c.data = colDeleted, nil
		case doc.Mark != nil:
			c.column, c.data = colMark, doc.Mark
		}
		if len(c.data) > maxRow {
			return fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(c.data))
		}
		rows[i] = rowWrite{t.key(doc.Scope, doc.Name), []cell{c}}
	}
	return d.putRows(ctx, rows...)
}

// Document implements document.Rows.
func (d documents) Document(ctx context.Context, kind document.Kind, scope, name string) (document.Document, error) {
	doc := document.Document{Kind: kind, Scope: scope, Name: name}
	if err := d.enter(ctx); err != nil {
		return doc, err
	}
	defer d.leave()
	t := documentTables[kind]
	row, err := d.row(t.key(scope, name))
	if err != nil {
		return doc, err
	}
	if !t.load(&doc, &row, d.nowMS()) {
		return doc, schema.ErrNotFound
	}
	if t.revised {
		doc.Revision, err = revisionOf(&doc)
	}
	return doc, err
}

// revisionOf returns the revision that the text of a document says.
func revisionOf(doc *document.Document) (int64, error) {
	r, err := schema.Decode[revision](doc.Text, string(doc.Kind))
	return r.Revision, err
}

// load fills in doc from its row. False means that the row holds none (any more).
func (t *documentTable) load(doc *document.Document, row *cells, nowMS int64) bool {
	c := row.at(colValue, nowMS)
	if !t.marked {
		c = row.undeleted(nowMS)
	}
	if c == nil || t.emptied && len(c.data) == 0 {
		return false
	}
	doc.Text, doc.Written = bytes.Clone(c.data), time.UnixMicro(c.timestamp).UTC()
	if mark := row.at(colMark, nowMS); t.marked && mark != nil {
		doc.Mark = bytes.Clone(mark.data)
	}
	return true
}

// Documents implements document.Rows.
func (d documents) Documents(ctx context.Context, kind document.Kind, scope, after string, limit int) (docs []document.Document, err error) {
	t := documentTables[kind]
	list := d.list
	if t.backwards {
		list = d.listBack
	}
	err = list(ctx, t.key(scope, ""), afterName(after), limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		doc := document.Document{Kind: kind, Scope: scope, Name: string(rest)}
		ok := t.load(&doc, row, nowMS)
		if ok && t.revised {
			doc.Revision, _ = revisionOf(&doc) // a text that cannot be understood is its own fault
		}
		if ok {
			docs = append(docs, doc)
		}
		return ok, nil
	})
	return docs, err
}

// SwapDocument implements document.Rows.
func (d documents) SwapDocument(ctx context.Context, was int64, is document.Document) error {
	var text []byte
	if !is.Deleted {
		// The text is an object that is not empty: the revision becomes its first field.
		text = append(fmt.Appendf(nil, `{"revision":%d,`, is.Revision), is.Text[1:]...)
	}
	if len(text) > maxRow {
		return fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(text))
	}
	t := documentTables[is.Kind]
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	key := t.key(is.Scope, is.Name)
	defer d.lock(key)()
	row, err := d.row(key)
	if err != nil {
		return err
	}
	var stands revision
	if c := row.at(colValue, d.nowMS()); c != nil {
		if stands, err = schema.Decode[revision](c.data, string(is.Kind)); err != nil {
			return err
		}
	}
	switch stands.Revision {
	case is.Revision: // of what is deleted: 0
		return nil
	case was:
		return d.replace(key, text, row.at(colMark, d.nowMS()))
	}
	return schema.ErrConflict
}

// replace replaces the row at key by a text and a mark (nil: none), or removes it if there is no
// text. The caller holds the row's lock.
func (d documents) replace(key, text []byte, mark *cell) error {
	b := d.db.NewBatch()
	defer closeQuietly(b)
	if text == nil {
		if err := b.Delete(key, nil); err != nil {
			return err
		}
		return d.commit(b)
	}
	row := appendCell(nil, cell{column: colValue, data: text})
	if mark != nil {
		row = appendCell(row, *mark)
	}
	if err := b.Set(key, row, nil); err != nil {
		return err
	}
	return d.commit(b)
}
