package embedded_test

import (
	"testing"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// TestEpochContract: a store keeps the contract of schema.EpochStore.
func TestEpochContract(t *testing.T) {
	schematest.ExerciseEpochs(t, func(t *testing.T) schema.EpochStore { return open(t, embedded.Config{}) })
}
