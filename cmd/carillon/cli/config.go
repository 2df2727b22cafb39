package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/logging"
	"carillon.dev/carillon/cmd/internal/node"
	"carillon.dev/carillon/schema/cassandra"
)

// NewLogger makes the logger that the configuration asks for, and makes it the default one.
func NewLogger(w io.Writer, c config.Log) *slog.Logger {
	log, _ := NewLeveledLogger(w, c)
	return log
}

// FlushLog writes what a logger of NewLogger holds back: how many lines were left out.
func FlushLog(log *slog.Logger) {
	if h, ok := log.Handler().(*logging.Handler); ok {
		h.Flush()
	}
}

// NewLeveledLogger is NewLogger for a logger whose level can be changed.
func NewLeveledLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(c.Level)) // validated; else info
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, opts)
	if c.Format == "json" {
		handler = slog.NewJSONHandler(w, opts)
	}
	log := slog.New(logging.New(handler))
	// What libraries say through the standard logger (net/http: bytes of a callee) is for
	// debugging.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(log)
	return log, level
}

// CassandraConfig returns what the configuration of a node in file says about Cassandra.
func CassandraConfig(cmd *cobra.Command, file string) (cassandra.Config, error) {
	cfg, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return cassandra.Config{}, err
	}
	return node.CassandraConfig(cfg, NewLogger(cmd.ErrOrStderr(), cfg.Log), nil)
}

// MigrationConfig returns what the configuration of a node in file says about Cassandra, and of what
// regions share; nil: there are no regions.
func MigrationConfig(cmd *cobra.Command, file string) (cassandra.Config, *cassandra.Regions, error) {
	cfg, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return cassandra.Config{}, nil, err
	}
	cc, err := node.CassandraConfig(cfg, NewLogger(cmd.ErrOrStderr(), cfg.Log), nil)
	return cc, cfg.Regions.Migration(), err
}

// OpenEpochs opens what the regions share that the configuration of a node in file names. region is
// that of the node.
func OpenEpochs(cmd *cobra.Command, file string) (store *cassandra.EpochStore, regions config.RegionMap, region string, err error) {
	cfg, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return nil, config.RegionMap{}, "", err
	}
	regions, err = cfg.Regions.Map()
	if err == nil && !cfg.Regions.Enabled() {
		err = Usagef("the configuration names no regions (regions.homes)")
	}
	if err != nil {
		return nil, config.RegionMap{}, "", err
	}
	cc, err := node.CassandraConfig(cfg, NewLogger(cmd.ErrOrStderr(), cfg.Log), nil)
	if err != nil {
		return nil, config.RegionMap{}, "", err
	}
	cc.Keyspace = cfg.Regions.Keyspace
	store, err = cassandra.OpenEpochs(cmd.Context(), cc)
	if err != nil {
		return nil, config.RegionMap{}, "", fmt.Errorf("open the keyspace of regions: %w", err)
	}
	return store, regions, cfg.Node.Region, nil
}

// OpenCassandra opens the store that the configuration of a node in file names. What is to be known
// about the settings of its servers, serve, migrate and doctor say, and not each command that opens
// it.
func OpenCassandra(cmd *cobra.Command, file string) (*cassandra.Store, error) {
	cfg, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return nil, err
	}
	if cfg.Log.Level != "debug" {
		cfg.Log.Level = "error"
	}
	cc, err := node.CassandraConfig(cfg, NewLogger(cmd.ErrOrStderr(), cfg.Log), nil)
	if err != nil {
		return nil, err
	}
	store, err := cassandra.Open(cmd.Context(), cc)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return store, nil
}
