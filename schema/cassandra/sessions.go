package cassandra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// sessionTTL is how long a session's row stays after its last renewal, in seconds. A session is
// renewed every few seconds; one that was not for an hour was declared dead long ago, or had no
// attempts.
const sessionTTL = 3600

// SwapSession implements schema.SessionStore.
func (s sessionStore) SwapSession(ctx context.Context, was, is schema.Session) error {
	if err := s.swapSession(ctx, was, is); err != nil {
		return fmt.Errorf("swap session of %s: %w", or(is.Executor, was.Executor), err)
	}
	return nil
}

func (s sessionStore) swapSession(ctx context.Context, was, is schema.Session) error {
	executor := or(is.Executor, was.Executor)
	former, err := formerCell(is.Former)
	if err != nil {
		return err
	}
	released, err := releasedCell(is.Released)
	if err != nil {
		return err
	}
	row := make(map[string]any)
	var applied bool
	switch {
	case was.ID == "" && is.ID == "":
		switch _, err := s.Session(ctx, executor); {
		case errors.Is(err, schema.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		return schema.ErrConflict
	case was.ID == "":
		applied, err = s.swap(ctx, createSession, nil, row, executor, is.ID, is.Expires, former, released, sessionTTL)
	case is.ID == "":
		applied, err = s.swap(ctx, removeSession, nil, row, executor, was.ID, was.Expires)
	default:
		applied, err = s.swap(ctx, renewSession, nil, row, sessionTTL, is.ID, is.Expires, former, released, executor, was.ID, was.Expires)
	}
	switch {
	case errors.Is(err, schema.ErrUnknown):
		return s.settleSession(ctx, executor, was, is, err)
	case err != nil:
		return err
	case !applied:
		return schema.ErrConflict
	}
	return nil
}

// formerCell is the stored form of the sessions that a session remembers. None are an empty text: a
// null would leave a tombstone at every renewal.
func formerCell(former []schema.FormerSession) (string, error) {
	if len(former) == 0 {
		return "", nil
	}
	text, err := json.Marshal(former)
	if err != nil {
		return "", fmt.Errorf("encode former sessions: %w", err)
	}
	return string(text), nil
}

// releasedCell is the stored form of the homes of which slots are released; none: an empty text.
func releasedCell(released map[string]int64) (string, error) {
	if len(released) == 0 {
		return "", nil
	}
	text, err := json.Marshal(released)
	if err != nil {
		return "", fmt.Errorf("encode released homes: %w", err)
	}
	return string(text), nil
}

// settleSession decides a swap of unknown outcome by reading the session.
func (s sessionStore) settleSession(ctx context.Context, executor string, was, is schema.Session, unknown error) error {
	now, err := s.Session(ctx, executor)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return readAgain(unknown, err)
	}
	switch {
	case sameSession(now, is):
		return nil
	case sameSession(now, was):
		return unknown // its condition still holds: it may yet be done
	}
	return schema.ErrConflict
}

// sameSession compares what is stored of sessions; no session is the same as none.
func sameSession(a, b schema.Session) bool {
	if a.ID == "" || b.ID == "" {
		return a.ID == b.ID
	}
	return a.ID == b.ID && a.Expires.UnixMilli() == b.Expires.UnixMilli()
}

// Session implements schema.SessionStore.
func (s sessionStore) Session(ctx context.Context, executor string) (schema.Session, error) {
	session := schema.Session{Executor: executor}
	var expires time.Time
	var former, released string
	err := s.oneSerial(ctx, selectSession, []any{executor}, &session.ID, &expires, &former, &released)
	if err == nil && former != "" {
		if fault := json.Unmarshal([]byte(former), &session.Former); fault != nil {
			session.Former, session.Unclear = nil, true
			_ = s.damage.Found("sessions", executor, fault)
		}
	}
	if err == nil && released != "" {
		if fault := json.Unmarshal([]byte(released), &session.Released); fault != nil {
			session.Released = nil // slots that stand too long cost a wait
			_ = s.damage.Found("sessions", executor, fault)
		}
	}
	if err != nil {
		return schema.Session{}, fmt.Errorf("read session of %s: %w", executor, err)
	}
	session.Expires = expires.UTC()
	return session, nil
}
