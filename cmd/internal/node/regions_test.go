package node

import (
	"errors"
	"testing"

	"carillon.dev/carillon/cmd/internal/config"
)

// TestRegionsAreRefused: until nodes act only for the homes that their region serves.
func TestRegionsAreRefused(t *testing.T) {
	c := config.Default()
	c.Regions.Homes = []string{"eu=0-31", "us=32-63"}
	if err := New(c, Options{}).Run(t.Context()); !errors.Is(err, errRegions) {
		t.Errorf("Run with regions = %v, want that it is refused", err)
	}
}
