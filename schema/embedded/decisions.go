package embedded

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// Decide implements schema.DecisionStore.
func (s decisionStore) Decide(ctx context.Context, key, text string, expires time.Time) (string, error) {
	decided, err := s.decide(ctx, decisionKey(key), text, expires)
	if err != nil {
		return "", fmt.Errorf("decide %q: %w", key, err)
	}
	return decided, nil
}

func (s decisionStore) decide(ctx context.Context, key []byte, text string, expires time.Time) (string, error) {
	if len(text) > maxRow {
		return "", fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(text))
	}
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.leave()
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return "", err
	}
	if c := row.at(colValue, s.nowMS()); c != nil {
		return string(c.data), nil
	}
	return text, s.setRow(key, []byte(text), expires)
}

func decisionKey(key string) []byte { return append([]byte{byte(tableDecisions)}, key...) }
