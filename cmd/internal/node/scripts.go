package node

import (
	"fmt"
	"log/slog"
	"os"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor/target"
)

// openScripts makes the target of scripts, if the operator allows any, and the rules of requests.
// Executor and bucketer use the same allow list.
func (n *Node) openScripts(room *target.ByteBudget) (request.Rules, error) {
	rules := request.Rules{MailServer: n.cfg.Email.Server != ""}
	if n.cfg.Executor.Scripts == "" {
		return rules, nil
	}
	var err error
	if n.scripts, err = loadScripts(n.cfg.Executor, room, n.log); err != nil {
		return request.Rules{}, err
	}
	rules.Script = n.scripts.Fault
	return rules, nil
}

// loadScripts reads the allow list and makes the target of it.
func loadScripts(c config.Executor, room *target.ByteBudget, log *slog.Logger) (*target.Script, error) {
	list, err := config.LoadScripts(c.Scripts)
	if err != nil {
		return nil, fmt.Errorf("executor.scripts: %w", err)
	}
	made, err := target.NewScript(target.ScriptConfig{
		Commands: list, Root: os.Geteuid() == 0, MaxOutput: c.MaxOutput, Budget: room, Logger: log.With("part", "executor"),
	})
	if err != nil {
		return nil, fmt.Errorf("executor.scripts: %w", err)
	}
	return made, nil
}
