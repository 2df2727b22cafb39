package client

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// authFlags are the flags by which a job or a task says who makes its calls, which function of AWS
// Lambda it invokes, and what message it sends.
type authFlags struct {
	auth                             string
	function, awsRegion, awsEndpoint string
	credentials                      string
	async                            bool
	message                          string
}

// ofLambda are the flags that go with --function.
var ofLambda = []string{"aws-region", "credentials", "async", "aws-endpoint"}

// authForms are what --auth may state. NAME stands for a secret.
var authForms = []string{
	`{"bearer": {"secret": "NAME"}}`,
	`{"basic": {"username": "carillon", "secret": "NAME"}}`,
	`{"header": {"name": "X-Api-Key", "secret": "NAME"}}`,
	`{"oauth2_client_credentials": {"token_url": "https://example.com/token", "client_id": "carillon", "secret": "NAME"}}`,
	`{"aws_sigv4": {"region": "eu-central-1", "service": "execute-api", "access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret": "NAME"}}`,
	`{"mtls": {"certificate_secret": "NAME", "key_secret": "NAME"}}`,
	`{"body_field": {"name": "token", "secret": "NAME"}}`,
}

func (f *authFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.auth, "auth", "", "who makes the call, by `JSON`, @file or - for standard input, such as {\"bearer\": {\"secret\": \"NAME\"}}; see carillon secret for all; none")
	flags.StringVar(&f.function, "function", "", "function of AWS Lambda to invoke: its `name` or ARN")
	flags.StringVar(&f.awsRegion, "aws-region", "", "`region` of the function")
	flags.StringVar(&f.credentials, "credentials", "", "`name` of the secret with the credentials by which the function is invoked")
	flags.BoolVar(&f.async, "async", false, "do not wait for the end of the function")
	flags.StringVar(&f.message, "message", "", "message to send, by `JSON`, @file or - for standard input: an object of one of jetstream, sqs, sns, eventbridge, step_functions and kafka, as the API has them")
	flags.StringVar(&f.awsEndpoint, "aws-endpoint", "", "`URL` instead of AWS's")
}

// sends returns the message that --message states.
func (f *authFlags) sends(cmd *cobra.Command) (w schema.Work, err error) {
	text, err := readJSON("--message", f.message, cmd.InOrStdin())
	if err != nil {
		return w, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // what is dropped here the API cannot refuse
	if err := d.Decode(&w); err != nil {
		return w, cli.Usagef("--message: is not as the API has it: %v", err)
	}
	if kind, _ := w.Message(); kind == "" {
		return w, cli.Usagef("--message: is no object of jetstream, sqs, sns, eventbridge, step_functions or kafka")
	}
	return w, nil
}

// state changes in the work what the flags state; --function has been taken in.
func (f *authFlags) state(cmd *cobra.Command, w *schema.Work) error {
	given := cmd.Flags().Changed
	if w.Lambda == nil {
		for _, flag := range ofLambda {
			if given(flag) {
				return cli.Usagef("--%s goes with a function", flag)
			}
		}
	} else {
		w.Lambda.Region, w.Lambda.Credentials = cmp.Or(f.awsRegion, w.Lambda.Region), cmp.Or(f.credentials, w.Lambda.Credentials)
		if given("aws-endpoint") {
			w.Lambda.Endpoint = f.awsEndpoint
		}
		if given("async") {
			w.Lambda.Invocation = map[bool]string{true: schema.LambdaAsync, false: schema.LambdaSync}[f.async]
		}
	}
	switch {
	case !given("auth"):
		return nil
	case w.HTTP == nil:
		return cli.Usagef("--auth goes with a URL")
	case f.auth == "none":
		w.HTTP.Auth = nil
		return nil
	}
	text, err := readJSON("--auth", f.auth, cmd.InOrStdin())
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // what is dropped here the API cannot refuse
	if err := d.Decode(&w.HTTP.Auth); err != nil {
		return cli.Usagef("--auth: is not as http.auth of the API: %v", err)
	}
	return nil
}
