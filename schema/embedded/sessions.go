package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

func sessionKey(executor string) []byte { return append([]byte{byte(tableSessions)}, executor...) }

// SwapSession implements schema.SessionStore.
func (s sessionStore) SwapSession(ctx context.Context, was, is schema.Session) error {
	executor := is.Executor
	if executor == "" {
		executor = was.Executor
	}
	if err := s.swapSession(ctx, executor, was, is); err != nil {
		return fmt.Errorf("swap session of %s: %w", executor, err)
	}
	return nil
}

func (s sessionStore) swapSession(ctx context.Context, executor string, was, is schema.Session) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	key := sessionKey(executor)
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return err
	}
	var stands schema.Session
	if c := row.at(colValue, s.nowMS()); c != nil {
		stands = s.loadSession(executor, c)
	}
	if stands.ID != was.ID || was.ID != "" && !stands.Expires.Equal(was.Expires.Truncate(time.Millisecond)) {
		return schema.ErrConflict
	}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if is.ID == "" {
		err = b.Delete(key, nil)
	} else {
		// The row has no clock: it stays until it is swapped, however long ago the session expired.
		data := append(binary.BigEndian.AppendUint64(nil, uint64(is.Expires.UnixMilli())), is.ID...) // #nosec G115 -- bits
		if len(is.Former) > 0 {
			former, err := json.Marshal(is.Former)
			if err != nil {
				return err
			}
			data = append(append(data, 0), former...) // no id has a zero byte, nor has JSON
		}
		if len(is.Released) > 0 {
			released, err := json.Marshal(is.Released)
			if err != nil {
				return err
			}
			if len(is.Former) == 0 {
				data = append(data, 0)
			}
			data = append(append(data, 0), released...)
		}
		err = b.Set(key, appendCell(nil, cell{column: colValue, data: data}), nil)
	}
	if err != nil {
		return err
	}
	return s.commit(b)
}

func (s sessionStore) loadSession(executor string, c *cell) schema.Session {
	if len(c.data) < 8 {
		return schema.Session{}
	}
	expires := int64(binary.BigEndian.Uint64(c.data)) // #nosec G115 -- bits
	id, rest, _ := bytes.Cut(c.data[8:], []byte{0})
	former, released, _ := bytes.Cut(rest, []byte{0})
	session := schema.Session{Executor: executor, ID: string(id), Expires: time.UnixMilli(expires).UTC()}
	if len(former) > 0 {
		if err := json.Unmarshal(former, &session.Former); err != nil {
			session.Former, session.Unclear = nil, true
			_ = s.damage.Found("sessions", executor, err)
		}
	}
	if len(released) > 0 {
		if err := json.Unmarshal(released, &session.Released); err != nil {
			session.Released = nil // slots that stand too long cost a wait
			_ = s.damage.Found("sessions", executor, err)
		}
	}
	return session
}

// Session implements schema.SessionStore.
func (s sessionStore) Session(ctx context.Context, executor string) (schema.Session, error) {
	data, err := s.value(ctx, sessionKey(executor))
	if err != nil {
		return schema.Session{}, fmt.Errorf("read session of %s: %w", executor, err)
	}
	return s.loadSession(executor, &cell{data: data}), nil
}
