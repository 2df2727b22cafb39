package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	lockName = "migrate"
	// seconds; renewed before every statement, each of which takes at most ddlTimeout
	lockTTL = 120
	// how long another's lock is waited for: longer than a dead holder's stands
	lockWait    = 3 * time.Minute
	lockPoll    = 500 * time.Millisecond // how often
	dropTimeout = 5 * time.Second
)

// errLockLost means that the lock ran out or was taken while we held it: another may be migrating.
var errLockLost = errors.New("migration lock was lost")

// lock is the right to migrate the keyspace. It ends by itself when its holder dies.
type lock struct {
	store *Store
	owner string
}

// takeMigrationLock waits until the lock is ours.
func takeMigrationLock(ctx context.Context, s *Store, owner string) (*lock, error) {
	end := s.cfg.Now().Add(lockWait)
	for {
		row := make(map[string]any)
		applied, err := s.swap(ctx, takeLock, row, lockName, owner, s.cfg.Now(), lockTTL)
		holder, _ := row["owner"].(string)
		switch {
		case err != nil && !errors.Is(err, schema.ErrUnknown) && !noSuchTable(err):
			// the node may not have seen it yet
			return nil, fmt.Errorf("take migration lock: %w", err)
		case applied, err == nil && holder == owner: // ours by an earlier try that was not answered
			return &lock{s, owner}, nil
		}
		if s.cfg.Now().After(end) {
			return nil, fmt.Errorf("take migration lock: %w: held by %s for more than %s", schema.ErrConflict, holder, lockWait)
		}
		s.cfg.Logger.Info("waiting for the migration lock", "holder", holder)
		if !wait(ctx, lockPoll) {
			return nil, fmt.Errorf("take migration lock, held by %s: %w", holder, ctx.Err())
		}
	}
}

// keep renews the lock for another lockTTL.
func (l *lock) keep(ctx context.Context) error {
	applied, err := l.store.swap(ctx, keepLock, make(map[string]any), lockTTL, l.owner, l.store.cfg.Now(), lockName, l.owner)
	if err != nil {
		return fmt.Errorf("keep migration lock: %w", err)
	}
	if !applied {
		return errLockLost
	}
	return nil
}

// drop gives the lock back.
func (l *lock) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	applied, err := l.store.swap(ctx, dropLock, make(map[string]any), lockName, l.owner)
	if err != nil {
		return fmt.Errorf("drop migration lock (it ends by itself within %d s): %w", lockTTL, err)
	}
	if !applied {
		return errLockLost
	}
	return nil
}
