package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/drill"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// drilling is what the flags of a drill say.
type drilling struct {
	home, to, reason, task, url string
	failover, yes, json         bool
	acceptLag                   bool
	drain, within, wait         time.Duration
}

func regionDrillCommand() *cobra.Command {
	var file string
	o := drilling{}
	cmd := &cobra.Command{
		Use:   "drill HOME --to REGION [--failover] [--yes] [--json]",
		Short: "Practise that another region serves a home, and measure it: there and back",
		Long: "Practise that another region serves a home, and measure it. It says what it will do, and asks for the name of the\n" +
			"home unless --yes is there. Then it checks that both regions are ready (APIs, leases, lag, executors, every data\n" +
			"centre with that of the witness), moves the home, makes a job by the API of the region, which one of its executors\n" +
			"must start within --within of the epoch, and moves the home back. With --failover you stop the region that serves\n" +
			"the home when you are told to, and start it again; use the configuration of a node of the other region then.\n\n" +
			"The job calls --url by GET, by default /healthz of the region's API; or --task is run. It is made for the tenant of\n" +
			"the key in $CARILLON_KEY, which must be an admin of the tenant system where the API asks for keys.\n\n" +
			"If it fails or is interrupted, it says which region serves the home, and the command that goes on. The exit code is\n" +
			"0 if all went well and the home is where it was, 1 if not, and 2 if nothing was begun: wrong flags, or the name of\n" +
			"the home was not typed.",
		Example: "  carillon region drill eu --to us --config carillon.yaml",
		Args:    cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "configuration `file` (YAML)")
	f.StringVar(&o.to, "to", "", "the `region` that is to serve the home meanwhile")
	f.StringVar(&o.reason, "reason", "drill", "why, in your words: it is kept")
	f.BoolVar(&o.failover, "failover", false, "fail the home over instead of moving it: you stop the region")
	f.BoolVar(&o.acceptLag, "accept-lag", false, "with --failover: also if the other region is far behind")
	f.BoolVar(&o.yes, "yes", false, "ask nothing")
	f.BoolVar(&o.json, "json", false, "the report as JSON; what is done is told on the error output")
	f.StringVar(&o.task, "task", "", "run this `task`, which must take no payload, instead of calling a URL")
	f.StringVar(&o.url, "url", "", "call this `URL` from both regions")
	f.DurationVar(&o.drain, "drain", request.DefaultDrain, "how long what is under way may end before the home is moved, at most 5m")
	f.DurationVar(&o.within, "within", 30*time.Second, "a job must be started so soon after the epoch")
	f.DurationVar(&o.wait, "wait", 15*time.Minute, "with --failover: how long it waits for the region to stop, and to return")
	run := withEpochs(&file, func(cmd *cobra.Command, r regionsShared, args []string) error {
		o.home = args[0]
		return r.drill(cmd, o, file)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(o.faults()...); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// faults returns what is wrong with the flags.
func (o *drilling) faults() (faults []error) {
	if o.to == "" {
		faults = append(faults, cli.Usagef("--to: say which region is to serve the home"))
	}
	if o.reason == "" || strings.ContainsAny(o.reason, "'\n") {
		faults = append(faults, cli.Usagef("--reason: say why, in a line without '"))
	}
	if o.task != "" && o.url != "" {
		faults = append(faults, cli.Usagef("--task, --url: one of them"))
	}
	if o.drain < 0 || o.drain > homes.MaxDrain {
		faults = append(faults, cli.Usagef("--drain: %v is not between 0 and %v", o.drain, homes.MaxDrain))
	}
	if o.within <= 0 || o.wait <= 0 {
		faults = append(faults, cli.Usagef("--within, --wait: must be above 0"))
	}
	return faults
}

// everywhere is a store of epochs that can ask every data centre.
type everywhere interface {
	BeatsEverywhere(ctx context.Context) ([]schema.Beat, error)
}

// drill practises it.
func (r regionsShared) drill(cmd *cobra.Command, o drilling, file string) error {
	change := schema.HomeChange{Home: o.home, To: o.to, Forced: o.failover}
	if faults := r.changer().Faults(change); len(faults) > 0 {
		return refused(&schema.ChangeRefusedError{Faults: faults})
	}
	told := cmd.OutOrStdout()
	if o.json {
		told = cmd.ErrOrStderr()
	}
	r.out = told
	apis, closeAll, err := r.apis(o)
	if err != nil {
		return err
	}
	defer closeAll()
	d := &drill.Drill{
		Changer: r.changer(), Home: o.home, To: o.to, By: operator(), Reason: o.reason, Failover: o.failover, AcceptLag: o.acceptLag, Drain: o.drain,
		APIs: apis, Within: o.within, Wait: o.wait, Config: file, Say: r.say,
	}
	if all, ok := r.store.(everywhere); ok {
		d.Everywhere = func(ctx context.Context) error {
			_, err := all.BeatsEverywhere(ctx)
			return err
		}
	}
	was, err := d.Serving(cmd.Context())
	switch {
	case err != nil:
		return err
	case was.Number == 0:
		return fmt.Errorf("home %s has no epoch: run carillon migrate, which writes the first one", o.home)
	case was.Region == o.to:
		return cli.Usagef("--to: region %s serves home %s already", o.to, o.home)
	case o.failover && r.region == was.Region:
		return cli.Usagef("--config: it is of a node of region %s, which you are to stop: take one of region %s", was.Region, o.to)
	}
	d.Announce(was.Region)
	if !o.yes {
		if err := confirmed(cmd.Context(), cmd.InOrStdin(), told, o.home); err != nil {
			return err
		}
	}
	report := d.Run(cmd.Context(), was)
	if o.json {
		err = cli.Document(cmd.OutOrStdout(), report)
	} else {
		err = report.Write(told)
	}
	if err == nil && !report.OK {
		err = errors.New("the drill failed: " + report.Fault)
	}
	return err
}

// apis returns clients of the APIs of all regions that have one.
func (r regionsShared) apis(o drilling) (apis map[string]drill.API, closeAll func(), err error) {
	apis = make(map[string]drill.API)
	var clients []*httpapi.Client
	closeAll = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for region, urls := range r.urls {
		c, err := httpapi.NewClient((&cli.Remote{}).ClientConfig(urls...))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients = append(clients, c)
		apis[region] = drill.Remote{Client: c, Job: jobOf(o, urls[0])}
	}
	return apis, closeAll, nil
}

// jobOf returns the job of a drill at the region whose API has that URL.
func jobOf(o drilling, api string) request.JobRequest {
	job := request.JobRequest{Task: o.task, Labels: map[string]string{"carillon": "drill"}}
	if o.task == "" {
		url := o.url
		if url == "" {
			url = strings.TrimSuffix(api, "/") + "/healthz"
		}
		job.HTTP = &schema.HTTPTarget{Method: "GET", URL: url, Body: "none"}
	}
	return job
}

// confirmed asks for the name of the home.
func confirmed(ctx context.Context, in io.Reader, out io.Writer, home string) error {
	_, _ = fmt.Fprintf(out, "type %s to begin: ", home) // a closed output answers nothing either
	typed := make(chan string, 1)
	go func() { // a terminal cannot be asked to stop reading
		line, _ := bufio.NewReader(in).ReadString('\n') // what came is judged
		typed <- strings.TrimSpace(line)
	}()
	select {
	case line := <-typed:
		if line == home {
			return nil
		}
		return cli.Usagef("nothing was done: %s was not typed, and --yes is not there", home)
	case <-ctx.Done():
		return fmt.Errorf("nothing was done: %w", ctx.Err())
	}
}
