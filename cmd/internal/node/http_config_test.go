package node

import (
	"log/slog"
	"testing"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor"
)

// Of as many attempts as there are slots, each must find a connection though all be to one host.
func TestAHostMayHaveAsManyConnectionsAsThereAreSlots(t *testing.T) {
	for _, slots := range []int{1, executor.DefaultSlots, 20_000} {
		n := &Node{cfg: config.Config{Executor: config.Executor{Slots: slots}}, log: slog.New(slog.DiscardHandler)}
		if got := n.httpConfig(nil).MaxConnsPerHost; got < slots+executor.MaxLeftDials {
			t.Errorf("with %d slots: %d connections to one host, want one for each, and %d for dials that are left", slots, got, executor.MaxLeftDials)
		}
	}
}
