package node

import (
	"fmt"
	"os"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor/target"
)

// openScripts makes the target of scripts, if the operator allows any, and the rules of requests
// that name one. Executor and bucketer use the same allow list.
func (n *Node) openScripts(room *target.ByteBudget) (request.Rules, error) {
	file := n.cfg.Executor.Scripts
	if file == "" {
		return request.Rules{}, nil
	}
	list, err := config.LoadScripts(file)
	if err != nil {
		return request.Rules{}, fmt.Errorf("executor.scripts: %w", err)
	}
	n.scripts, err = target.NewScript(target.ScriptConfig{
		Commands: list, Root: os.Geteuid() == 0, MaxOutput: n.cfg.Executor.MaxOutput, Budget: room, Logger: n.log.With("part", "executor"),
	})
	if err != nil {
		return request.Rules{}, fmt.Errorf("executor.scripts: %w", err)
	}
	return request.Rules{Script: n.scripts.Fault}, nil
}
