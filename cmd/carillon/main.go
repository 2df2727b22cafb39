// Command carillon is the whole system: a node of a cluster, a node in one process for development,
// and the client of both.
//
// Here are the commands that run a node or need none: serve, dev, migrate, cursor, capacity,
// openapi and version, one file each. Package client has those that ask the API, package importer
// the import of jobs, package doctor what looks at an installation, package cli what all of them
// share.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/client"
	"carillon.dev/carillon/cmd/carillon/doctor"
	"carillon.dev/carillon/cmd/carillon/importer"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, release := withHangups(ctx)
	code := cli.Execute(ctx, root(), os.Stderr)
	release()
	stop()
	os.Exit(code)
}

func root() *cobra.Command {
	return cli.Program(version, append(client.Commands(), serveCommand(), devCommand(), migrateCommand(), cursorCommand(), regionCommand(), importer.Command(), openapiCommand(), capacityCommand(), simulateCommand(), doctor.Command(version), versionCommand())...)
}
