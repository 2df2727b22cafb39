package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// decisionPrefix keeps decisions apart from the other rows of leases.
const decisionPrefix = "decide/"

// Decide implements schema.DecisionStore.
func (s decisionStore) Decide(ctx context.Context, key, text string, expires time.Time) (string, error) {
	decided, err := s.decide(ctx, decisionPrefix+key, text, expires)
	if err != nil {
		return "", fmt.Errorf("decide %q: %w", key, err)
	}
	return decided, nil
}

func (s decisionStore) decide(ctx context.Context, lease, text string, expires time.Time) (string, error) {
	if len(text) > maxRowBytes {
		return "", fmt.Errorf("%d bytes: %w", len(text), schema.ErrTooLarge)
	}
	row := make(map[string]any)
	applied, err := s.swap(ctx, createDecision, row, lease, text, s.ttl(expires))
	switch {
	case errors.Is(err, schema.ErrUnknown):
		var decided string
		switch readErr := s.oneSerial(ctx, selectDecision, []any{lease}, &decided); {
		case errors.Is(readErr, schema.ErrNotFound):
			return "", err // it may yet be done
		case readErr != nil:
			return "", readAgain(err, readErr)
		}
		return decided, nil
	case err != nil:
		return "", err
	case applied:
		return text, nil
	}
	decided, _ := row["record"].(string)
	return decided, nil
}
