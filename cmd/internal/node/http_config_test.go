package node

import (
	"fmt"
	"log/slog"
	"testing"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/executor/target"
)

// Each of as many attempts as there are slots must get a connection, even if all go to one host.
func TestAHostMayHaveAsManyConnectionsAsThereAreSlots(t *testing.T) {
	for _, slots := range []int{1, executor.DefaultSlots, 20_000} {
		n := &Node{cfg: config.Config{Executor: config.Executor{Slots: slots}}, log: slog.New(slog.DiscardHandler)}
		if got := n.httpConfig(nil).MaxConnsPerHost; got < slots+target.MaxOrphanedDials {
			t.Errorf("with %d slots: %d connections to one host, want one for each, and %d for dials that are left", slots, got, target.MaxOrphanedDials)
		}
	}
}

func TestTheRangesOfTheConfigurationAreTheGuards(t *testing.T) {
	n := &Node{cfg: config.Config{Executor: config.Executor{AllowCIDRs: []string{"10.0.0.0/8"}, DenyCIDRs: []string{"10.1.0.0/16", "203.0.113.0/24"}}}, log: slog.New(slog.DiscardHandler)}
	if c := n.httpConfig(nil); fmt.Sprint(c.AllowPrefixes, c.DenyPrefixes) != "[10.0.0.0/8] [10.1.0.0/16 203.0.113.0/24]" {
		t.Errorf("httpConfig: allowed %v, never called %v; want what the configuration says", c.AllowPrefixes, c.DenyPrefixes)
	}
}
