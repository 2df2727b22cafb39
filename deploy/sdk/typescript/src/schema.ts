// Generated from the OpenAPI document by generate.js: not to be edited.

export interface paths {
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Events of a window, in the order in which they were accepted. An answer may hold fewer items than limit, even none, and still have next_cursor
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Publish an event: the jobs and workflows start that run on it, and steps go on that wait for it
         * @description The answer comes when the event is durable. A job or workflow that was answered before starts one run of it at most, whose payload is the body. Names that begin with run., dead_letter. and workflow. are those of the system. Clients of NATS publish to the subject carillon.event.<tenant>.<name> by JetStream, with a colon for each dot of the tenant; a Nats-Msg-Id is the idempotency key. Who may publish for a tenant is a permission of NATS, on carillon.event.<tenant>.>
         *
         *     Who may: any key of the role operator or above.
         */
        post: operations["publish-event"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{name}/hearers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Who would hear of an event if it was published now: jobs and workflows that run on it, and steps that wait for it
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-event-hearers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/imports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create many jobs, one a line; answered while they are read
         * @description The body is NDJSON of any length, a job a line of at most 256 KiB, each with an optional "key". The jobs that a line names in after must be there before the import. Lines at the home of another region are sent on to the one that serves it. The answer has a line for each, in any order, and a summary as its last; an answer without summary was cut. Read the answer while sending: an import whose answers nobody takes stands still.
         *
         *     Who may: any key of the role operator or above.
         */
        post: operations["import-jobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The jobs of the tenant that can have many runs, newest first. An answer may hold fewer items than limit, even none, and still have next_cursor. One-off jobs are runs: GET /v1/runs?one_off=true&label= lists them
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-jobs"];
        put?: never;
        /**
         * Create a job
         * @description Who may: any key of the role operator or above.
         */
        post: operations["create-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A job
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["get-job"];
        /**
         * Create or replace a recurring job by its name
         * @description Who may: any key of the role operator or above.
         */
        put: operations["put-job"];
        post?: never;
        /**
         * Cancel a job; twice is the same as once
         * @description Who may: any key of the role operator or above.
         */
        delete: operations["cancel-job"];
        options?: never;
        head?: never;
        /**
         * Change a job by a merge patch (RFC 7396): a recurring job, or a pending one-off job's instant, payload, work, priority or labels
         * @description Who may: any key of the role operator or above.
         */
        patch: operations["patch-job"];
        trace?: never;
    };
    "/v1/jobs/{id}/backfills": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a stretch of a recurring job's past again, in the background
         * @description One run for each nominal time from ≤ time < to that the schedule, as it is now, names, whether that ran or not, or with missing of those that have no run, such as the times of a pause; at most 100,000 times. At most max_concurrent (5 if absent, at most 100) of them are unfinished at a time. They are due when they are asked for, have the trigger backfill and the priority low, and no more are asked for while one of them waits for its start. A paused job may be backfilled; one that was cancelled or has finished is 409. The operation is done when all its runs have ended.
         *
         *     Who may: any key of the role operator or above.
         */
        post: operations["create-backfill"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/backfills/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * How many runs a backfill would have
         * @description The same body as of a backfill is answered with what that would do, and nothing is begun. No times at all, or none that is missing, is no fault here.
         *
         *     Who may: any key of the role viewer or above.
         */
        post: operations["preview-backfill"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause a job: none of its runs starts until it is resumed; twice is the same as once
         * @description Who may: any key of the role operator or above.
         */
        post: operations["pause-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume a job that was paused, from now on; twice is the same as once
         * @description Who may: any key of the role operator or above.
         */
        post: operations["resume-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The runs of a job, newest first: the next one, those that wait or are under way, and those that have ended
         * @description In the order of due times, the latest first. Where a run stands never changes, so pages neither skip nor repeat one that starts or ends meanwhile. Runs that repeat one of the job's (replays of dead letters, retries) are runs of their own, and listed here too, at their own due times; those that were asked for before an upgrade to this version are not, nor what repeats one of these. Of runs to come the next one is listed, once it is planned. An answer may hold fewer items than limit, even none, and still have next_cursor.
         *
         *     Who may: any key of the role viewer or above.
         */
        get: operations["list-job-runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/trigger": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a job now, besides its schedule
         * @description Who may: any key of the role operator or above.
         */
        post: operations["trigger-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/upcoming": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The next runs of a job, if it stays as it is
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-upcoming"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Runs of a window of due times, in order. An answer may hold fewer items than limit, even none, and still have next_cursor
         * @description A list is asked for in one of five ways: from and to, with any filters; order=newest, with any filters and a window of up to 366 days; key, and at where the key is that of an import's line with an instant: the run that it made; event: the runs that it started; workflow_run: the runs of its steps, with an item of a step with for_each as a run of its own. A page walks a bounded part of the window, so a filter that matches rarely gives empty pages with next_cursor. Payloads are not searched.
         *
         *     order=newest is a search: the runs of the newest minute come first, those of one minute in the order of due times. Runs have no index of labels, tasks and texts of errors: a search reads the minutes of its window, all their partitions (a minute has as many as there are shards), and an answer says in searched how far it came. An answer is bounded: it ends after at most 2048 partitions or 5 seconds, and has next_cursor while there is more, so it may hold fewer items than limit, even none. All searches of a node together read at most 2000 partitions a second. A node has at most 16 searches under way, those of logs among them, and 4 of one tenant: what is over is answered 429. Indexed are the runs of a job (job: the latest due first), and those that failed, where state=failed alone is asked for while dead letters are kept: the latest due first, a second or two after they failed, each at the due time that it had first. searched.by says what was used.
         *
         *     Who may: any key of the role viewer or above.
         */
        get: operations["list-runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A run and its attempts
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["get-run"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a run; twice is the same as once
         * @description Who may: any key of the role operator or above.
         */
        post: operations["cancel-run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/graph": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The steps of a workflow run as a graph, with how they stand
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["get-run-graph"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lines that the worker of a run logged, in order, also while it runs. Until the run has ended an answer has next_cursor, also if it has no items
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-run-logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/output": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * All that was kept of the output of an attempt
         * @description As it is: text/plain in UTF-8, or application/octet-stream if it is none.
         *
         *     Who may: any key of the role viewer or above.
         */
        get: operations["get-run-output"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a finished run again, as a new run whose origin is this one
         * @description Its dead letter, if it has one, goes on waiting, whatever becomes of the new run. POST /v1/dead-letters/{id}/replay runs the same again and settles it; DELETE /v1/dead-letters/{id} settles it alone.
         *
         *     Who may: any key of the role operator or above.
         */
        post: operations["retry-run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{id}/steps/{step}/skip": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Have a step of a workflow run not run: it counts as succeeded for those after it. If it runs, it is cancelled
         * @description Who may: any key of the role operator or above.
         */
        post: operations["skip-step"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The next times of a schedule, and what is to be known about it
         * @description Who may: any key of the role viewer or above.
         */
        post: operations["preview-schedule"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The tasks of the tenant, by name
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-tasks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tasks/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A task
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["get-task"];
        /**
         * Create or replace a task
         * @description Who may: any key of the role operator or above.
         */
        put: operations["put-task"];
        post?: never;
        /**
         * Delete a task; its runs to come will fail
         * @description Who may: any key of the role operator or above.
         */
        delete: operations["delete-task"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The workflows of the tenant, newest first, without their steps. An answer may hold fewer items than limit, even none, and still have next_cursor
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-workflows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A workflow
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["get-workflow"];
        /**
         * Create or replace a workflow: a named graph of steps
         * @description A run keeps the definition that it began with. All faults are named, each with its place. At most 1,000 steps, in a body of at most 1 MiB.
         *
         *     Who may: any key of the role operator or above.
         */
        put: operations["put-workflow"];
        post?: never;
        /**
         * Cancel a workflow: no run of it begins any more. Runs under way go on: they are cancelled one by one. Twice is the same as once
         * @description Who may: any key of the role operator or above.
         */
        delete: operations["delete-workflow"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{name}/graph": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The steps of a workflow as a graph
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["get-workflow-graph"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{name}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause a workflow: none of its runs begins until it is resumed. Runs under way go on. Twice is the same as once
         * @description Who may: any key of the role operator or above.
         */
        post: operations["pause-workflow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{name}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume a workflow that was paused, from now on; twice is the same as once
         * @description Who may: any key of the role operator or above.
         */
        post: operations["resume-workflow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{name}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The runs of a workflow, newest first, without their steps
         * @description In the order of due times, the latest first. Where a run stands never changes, so pages neither skip nor repeat one that starts or ends meanwhile. Runs that repeat one of the job's (replays of dead letters, retries) are runs of their own, and listed here too, at their own due times; those that were asked for before an upgrade to this version are not, nor what repeats one of these. Of runs to come the next one is listed, once it is planned. An answer may hold fewer items than limit, even none, and still have next_cursor.
         *
         *     Who may: any key of the role viewer or above.
         */
        get: operations["list-workflow-runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{name}/trigger": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a workflow now, besides its schedule. The id of the run is that of /v1/runs/{id}
         * @description Who may: any key of the role operator or above.
         */
        post: operations["trigger-workflow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{name}/upcoming": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The next runs of a workflow, if it stays as it is
         * @description Who may: any key of the role viewer or above.
         */
        get: operations["list-workflow-upcoming"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AfterRequest: {
            /** @description From the due time of the run with which the chain began, or from the creation of a one-off job, to when a run that still waits is stuck; absent: 168h */
            deadline?: string;
            /** @description Their names or ids: either all of jobs that can have many runs, or all of one-off jobs. The job has one run for each run with which their chain begins, which must be one job's */
            jobs: string[];
            /**
             * @description How their runs must have ended; default all_succeeded. Once they cannot end so any more, the run is skipped
             * @enum {string}
             */
            when?: "all_succeeded" | "all_done" | "any_succeeded" | "any_failed";
        };
        Attempt: {
            error?: string;
            executor?: string;
            /** Format: date-time */
            finished_at?: string;
            /**
             * Format: int64
             * @description Lines of log that were not kept: too many, or too fast
             */
            log_dropped?: number;
            /**
             * Format: int64
             * @description Lines of log that were kept
             */
            log_lines?: number;
            /** Format: int64 */
            number: number;
            /** @enum {string} */
            outcome?: "succeeded" | "failed" | "timed_out" | "cancelled" | "lost" | "superseded";
            /** @description The output, or its first 2 KiB as text */
            output?: string;
            /** @description The output is not UTF-8 */
            output_binary?: boolean;
            /** @description There was more output than was kept */
            output_cut?: boolean;
            /**
             * Format: int64
             * @description Bytes that were kept, if that is more than output shows
             */
            output_size?: number;
            /** @description The last that the worker told */
            progress?: components["schemas"]["Progress"];
            /**
             * Format: date-time
             * @description When its message was published to the executors
             */
            published_at?: string;
            /**
             * Format: date-time
             * @description When its executor received the message
             */
            received_at?: string;
            redispatched?: boolean;
            region?: string;
            /** Format: date-time */
            started_at?: string;
            /** Format: int64 */
            status_code?: number;
        };
        BackfillPreview: {
            /**
             * Format: date-time
             * @description The first nominal time of those runs
             */
            first?: string;
            /**
             * Format: date-time
             * @description The first nominal time that may be run again
             */
            from: string;
            /**
             * Format: date-time
             * @description The last one
             */
            last?: string;
            /**
             * Format: int64
             * @description How many runs there would be
             */
            matched: number;
            /** @description What would be changed in what is asked for */
            notes?: string[];
            /**
             * Format: int64
             * @description How many nominal times the schedule names in the stretch; with missing, those that have a run are not matched
             */
            times: number;
            /**
             * Format: date-time
             * @description Nominal times before this one
             */
            to: string;
        };
        BackfillRequest: {
            /**
             * Format: date-time
             * @description The first nominal time that may be run again
             */
            from: string;
            /**
             * Format: int64
             * @description The most runs that are unfinished at a time; default 5
             */
            max_concurrent?: number;
            /** @description Only times that have no run when it is asked for. A run that was missed counts as none, and so does one that never started because its job was paused or changed; one that somebody cancelled counts as a run. from must lie within the retention of the history, and the job may have at most 20,000 runs from then on. Runs from before a retention was raised, the tenant's or the cluster's, leave after the shorter one as ever: older ones look missing, and would run again. So after a raise let from lie after it, or within the shorter retention */
            missing?: boolean;
            /**
             * Format: date-time
             * @description Nominal times before this one; default, and at most: now
             */
            to?: string;
        };
        BackfillScope: {
            /**
             * Format: date-time
             * @description The first nominal time that may be run again
             */
            from: string;
            job_id: string;
            job_name?: string;
            /**
             * Format: int64
             * @description The most runs that are unfinished at a time
             */
            max_concurrent: number;
            /** @description Times in it have runs, and are left out */
            missing?: boolean;
            /** @description What was changed in what was asked for */
            notes?: string[];
            /**
             * Format: date-time
             * @description Nominal times before this one
             */
            to: string;
        };
        BasicAuth: {
            /** @description Name of the secret that holds the password */
            secret: string;
            /** @description Without a colon, at most 255 bytes */
            username: string;
        };
        BearerAuth: {
            /** @description Name of the secret that holds the token of the header Authorization: Bearer */
            secret: string;
        };
        BodyFieldAuth: {
            /** @description A member of the JSON object that is the body: it is added, or replaced, when the call is made. At most 255 bytes */
            name: string;
            /** @description Name of the secret that holds the member's value, a text */
            secret: string;
        };
        ClientCredentials: {
            /** @description At most 255 bytes */
            client_id: string;
            /** @description What the request for a token says besides, such as audience: at most 16, 2 KiB together, and nothing secret */
            params?: {
                [key: string]: string;
            };
            /** @description At most 32 */
            scopes?: string[];
            /** @description Name of the secret that holds the client's secret */
            secret: string;
            /**
             * Format: uri
             * @description Where tokens are had (RFC 6749, section 4.4). A token is used until shortly before it expires, and another one is asked for once if the call is answered with 401
             */
            token_url: string;
        };
        Concurrency: {
            /** @description A JSON pointer into the payload, such as "/customer/id": at most limit runs at once for each value there. A value is a string, a number as it is written, or true or false; all runs whose payload has none there share one limit. A change counts for runs that are made after it */
            key?: string;
            /**
             * Format: int64
             * @description The most runs under way at once. A job's run that waits for its next attempt is not under way
             */
            limit: number;
            /** @enum {string} */
            on_limit?: "queue" | "skip" | "cancel_oldest";
        };
        Drawing: {
            edges: components["schemas"]["DrawnEdge"][];
            nodes: components["schemas"]["DrawnNode"][];
        };
        DrawnEdge: {
            from: string;
            to: string;
        };
        DrawnNode: {
            for_each?: boolean;
            if?: string;
            kind: string;
            name: string;
            state?: string;
            what?: string;
            when?: string;
        };
        EmailServer: {
            /** @description Name of the secret that holds the certificates that the server's one is to come from, as PEM; absent: those of the system */
            ca_secret?: string;
            /** @description Its name: its certificate is to be of it. Addresses that tasks may not call are refused when a mail is sent */
            host: string;
            /** @description Name of the secret that holds the password; not with tls none */
            password_secret?: string;
            /**
             * Format: int64
             * @description Absent: 465 with implicit TLS, else 587
             */
            port?: number;
            /**
             * @description starttls (default): a server that does not offer it gets nothing; implicit: from the first byte on; none: everybody on the way can read it
             * @enum {string}
             */
            tls?: "starttls" | "implicit" | "none";
            /** @description Absent: the server asks for none */
            username?: string;
        };
        EmailTarget: {
            /** @description Who sends it; with server, and not without */
            from?: string;
            /** @description The mail server; absent: the operator's, if there is one (email.server) */
            server?: components["schemas"]["EmailServer"];
            /** @description Addresses, of ASCII: me@example.com, or Me <me@example.com> */
            to: string[];
        };
        Event: {
            /** Format: date-time */
            accepted_at: string;
            /** @description Only if it is at most 4 KiB, and can be opened if it is stored encrypted */
            body?: unknown;
            id: string;
            name: string;
            tenant: string;
        };
        EventBridgeTarget: {
            /**
             * @description Name or ARN of the event bus, at most 512 bytes
             * @default default
             */
            bus: string;
            /** @description Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…", "session_token": "…"} (the last is optional) */
            credentials: string;
            /** @description The detail is the payload, which must be an object, with a member carillon: run_id, attempt and others */
            detail_type: string;
            /**
             * Format: uri
             * @description Instead of AWS's of the region; without a query
             */
            endpoint?: string;
            region: string;
            /** @description Not one that begins with aws. */
            source: string;
        };
        EventHearers: {
            /** @description Jobs and workflows of which it would start a run, if their filter takes its body */
            jobs: components["schemas"]["EventJob"][];
            /** @description There are more than were looked at: 200 */
            more?: boolean;
            /** @description Steps that wait for it, and that it would end, if their filter takes its body */
            steps: components["schemas"]["EventStep"][];
        };
        EventJob: {
            filter?: string;
            id: string;
            /** @enum {string} */
            kind: "job" | "workflow";
            name?: string;
        };
        EventListBody: {
            items: components["schemas"]["Event"][];
            next_cursor?: string;
        };
        EventReceipt: {
            /** @description Its runs: GET /v1/runs?event=<id> */
            id: string;
        };
        EventStep: {
            filter?: string;
            /** @description The run of the step */
            run_id: string;
            /** Format: date-time */
            since: string;
            step: string;
            workflow?: string;
            workflow_run_id: string;
        };
        EventTrigger: {
            /** @description From the event to the run's due time; absent: none */
            delay?: string;
            /** @description The event's name; run.*, dead_letter.* and workflow.* are those of the system */
            event: string;
            /** @description A CEL expression over event, its body; absent: every one starts a run. One that cannot be evaluated does not */
            filter?: string;
        };
        Fault: {
            location?: string;
            message: string;
            value?: unknown;
        };
        ForEach: {
            /** @description A step before it, whose output is the list, or holds it */
            from?: string;
            /** @description Where in the payload of the run the list is: a JSON pointer */
            input?: string;
            /** @description The list itself */
            items?: unknown[];
            /**
             * Format: int64
             * @description The most items that run at once; 0 or absent: all
             */
            max_concurrent?: number;
            /** @description Where in that output the list is: a JSON pointer (RFC 6901) */
            pointer?: string;
        };
        /** @description Exactly one of these. A field named secret, or that ends in _secret, names a secret of the tenant (PUT /v1/secrets/{name}); no value stands here. An attempt whose secret is missing, or whose token is refused, fails and is retried */
        HTTPAuth: {
            aws_sigv4?: components["schemas"]["SigV4Auth"];
            basic?: components["schemas"]["BasicAuth"];
            bearer?: components["schemas"]["BearerAuth"];
            body_field?: components["schemas"]["BodyFieldAuth"];
            header?: components["schemas"]["HeaderAuth"];
            mtls?: components["schemas"]["MTLSAuth"];
            oauth2_client_credentials?: components["schemas"]["ClientCredentials"];
        };
        HTTPTarget: {
            /** @description How the call shows who makes it. It goes to the URL's own origin alone, not where that redirects to */
            auth?: components["schemas"]["HTTPAuth"];
            /** @enum {string} */
            body?: "payload" | "none";
            /** @description At most 32, 8 KiB together */
            headers?: {
                [key: string]: string;
            };
            /** @enum {string} */
            method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS";
            /** @description The key by which the call is signed; absent: the one called default, if there is one */
            signing_key?: string;
            /**
             * Format: uri
             * @description Absolute, http or https, without user and password
             */
            url: string;
            /** @description Of messages of notifications alone: name of the secret that holds the URL; url is empty then */
            readonly url_secret?: string;
        };
        HeaderAuth: {
            /** @description A header that Carillon does not set itself */
            name: string;
            /** @description Name of the secret that holds the header's value */
            secret: string;
        };
        ImportResult: {
            error?: components["schemas"]["Problem"];
            id?: string;
            /** Format: int64 */
            line: number;
            /** Format: int64 */
            status: number;
        };
        ImportSummary: {
            /** Format: int64 */
            created: number;
            /** Format: int64 */
            existing: number;
            /** Format: int64 */
            failed: number;
            /** Format: int64 */
            lines: number;
        };
        JetStreamTarget: {
            /** @description The stream that must take the message; absent: whichever has the subject */
            stream?: string;
            /** @description Of a stream on the NATS servers that Carillon uses. The message has the header Nats-Msg-Id, which is the run's id */
            subject: string;
        };
        Job: {
            /** @description The jobs after which it runs; such a job has no schedule. A one-off job if they are */
            after?: components["schemas"]["JobAfter"];
            concurrency?: components["schemas"]["Concurrency"];
            /** Format: date-time */
            created_at: string;
            /** @description Who made it, as the audit log names callers: an API key, or the subject of a token. Absent where the node asked for no keys */
            created_by?: string;
            /**
             * @description When it was acknowledged, and its changes are: everywhere, once every region held it; else once its home did
             * @enum {string}
             */
            durability?: "home" | "everywhere";
            email?: components["schemas"]["EmailTarget"];
            /**
             * Format: date-time
             * @description No run from it on; that of max_runs, if it is earlier
             */
            end?: string;
            eventbridge?: components["schemas"]["EventBridgeTarget"];
            /** @description In the answer to a creation, which is 200 then: the job was there, created by another request with the same unique key; nothing was created */
            existing?: boolean;
            /** @description Why the job does not go on, though it is active: what is stored of it is not understood by this node */
            fault?: string;
            /**
             * Format: int64
             * @description Grows with every change; 1 for a one-off job
             */
            generation: number;
            guarantee?: string;
            http?: components["schemas"]["HTTPTarget"];
            id: string;
            jetstream?: components["schemas"]["JetStreamTarget"];
            /** @description The window of the job's own offset, which is the same for all its runs */
            jitter?: string;
            kafka?: components["schemas"]["KafkaTarget"];
            labels?: {
                [key: string]: string;
            };
            lambda?: components["schemas"]["LambdaTarget"];
            /** Format: int64 */
            max_runs?: number;
            misfire: components["schemas"]["JobMisfire"];
            name?: string;
            nats?: components["schemas"]["NATSTarget"];
            next_run?: components["schemas"]["NextRun"];
            /** @description Which events start a run; such a job has no schedule */
            on?: components["schemas"]["EventTrigger"];
            pause_on_failure?: components["schemas"]["PauseOnFailure"];
            /** @description Why the job is paused, if nobody has paused it */
            paused_because?: string;
            payload?: unknown;
            /** @description Of a one-off job: why the payload is absent: it is stored encrypted and cannot be opened */
            payload_fault?: string;
            /** @description While a run with low priority is under way, a critical run that lacks a slot may take its slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts it). That happens to a run three times at most, and never to work other than at_least_once */
            preemptible?: boolean;
            priority: string;
            /** @description The home of a one-off job, where there are regions, and whether no other region runs it */
            region?: components["schemas"]["RegionChoice"];
            /** @description Labels that the executor has which runs it, as the operator states them (executor.labels): at most 8. While no executor has all of them its runs wait, and say so (waiting.reason pool); they are tried within minutes after one has come. Absent: any executor */
            requires?: {
                [key: string]: string;
            };
            retry?: components["schemas"]["Retry"];
            schedule: components["schemas"]["JobSchedule"];
            /** @description Instead of one: it is due when any of them is, once at each instant */
            schedules?: components["schemas"]["JobSchedule"][];
            script?: components["schemas"]["ScriptTarget"];
            sns?: components["schemas"]["SNSTarget"];
            sqs?: components["schemas"]["SQSTarget"];
            /**
             * Format: date-time
             * @description No run before it
             */
            start?: string;
            /** @enum {string} */
            state: "active" | "paused" | "cancelled" | "finished";
            step_functions?: components["schemas"]["StepFunctionsTarget"];
            task?: string;
            tenant: string;
            timeout?: string;
            /** @description Of a one-off job: it is the only one of its key */
            unique?: components["schemas"]["JobUnique"];
            /** Format: date-time */
            updated_at: string;
        };
        JobAfter: {
            /** @description From the run with which the chain began, or from the creation of a one-off job, to when the run is stuck that has not started */
            deadline: string;
            /** @description Their names or ids, as they were stated. A name stands for the job that had it when this one was made or changed */
            jobs: string[];
            /** @enum {string} */
            when: "all_succeeded" | "all_done" | "any_succeeded" | "any_failed";
        };
        JobListBody: {
            items: components["schemas"]["Job"][];
            next_cursor?: string;
        };
        JobMisfire: {
            /** @description With any policy: a run that is later than this does not start, and is missed; with skip a minute at most. Absent: no bound but that of skip */
            deadline?: string;
            /** @enum {string} */
            policy: "run_all" | "run_latest" | "skip";
        };
        JobRequest: {
            after?: components["schemas"]["AfterRequest"];
            concurrency?: components["schemas"]["Concurrency"];
            /**
             * @description When this job, and its changes, are acknowledged, where there are regions. home: once the region that serves the home holds it; one that is lost for good loses what it wrote in its last moments. everywhere: once every region holds it, and 503 while one of them does not answer; guarded runs are then not started unless every region knows. Of a job it counts before that of its import, and that before its tenant's. 422: everywhere, and the cluster has no regions
             * @enum {string}
             */
            durability?: "home" | "everywhere";
            /**
             * Format: date-time
             * @description Of a recurring job: no run from it on
             */
            end?: string;
            eventbridge?: components["schemas"]["EventBridgeTarget"];
            /** @enum {string} */
            guarantee?: "at_least_once" | "at_most_once" | "effectively_once";
            http?: components["schemas"]["HTTPTarget"];
            jetstream?: components["schemas"]["JetStreamTarget"];
            jitter?: string;
            kafka?: components["schemas"]["KafkaTarget"];
            /** @description Idempotency key of a line of an import; not of a single request */
            key?: string;
            /** @description At most 16 */
            labels?: {
                [key: string]: string;
            };
            lambda?: components["schemas"]["LambdaTarget"];
            /**
             * Format: int64
             * @description Of a recurring job: paused and missed runs count
             */
            max_runs?: number;
            misfire?: components["schemas"]["Misfire"];
            /** @description Of a job that can have many runs; unique in the tenant. One that has a name, and neither schedule nor on nor after, runs only when it is triggered */
            name?: string;
            nats?: components["schemas"]["NATSTarget"];
            on?: components["schemas"]["EventTrigger"];
            pause_on_failure?: components["schemas"]["PauseOnFailure"];
            /** @description Any JSON, at most 64 KiB */
            payload?: unknown;
            /** @description While a run with low priority is under way, a critical run that lacks a slot may take its slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts it). That happens to a run three times at most, and never to work other than at_least_once */
            preemptible?: boolean;
            /** @enum {string} */
            priority?: "critical" | "high" | "normal" | "low";
            /** @description Of a one-off job: the home at which it lies, named after a region. One that has a key, waits for other jobs, or is of a task with a rate or a limit lies where its tenant is at home. Absent: there; other jobs lie where their task says, or a route of the operator has the host of their URL, or their tenant's home is stated, or else where the request arrives. 503 not-served: another region serves that home */
            region?: string | {
                name?: string;
                /** @description No other region runs it: while another one serves its home, its runs wait, and say so (waiting.reason region) */
                require?: boolean;
            };
            /** @description Labels that the executor has which runs it, as the operator states them (executor.labels): at most 8. While no executor has all of them its runs wait, and say so (waiting.reason pool); they are tried within minutes after one has come. Absent: any executor */
            requires?: {
                [key: string]: string;
            };
            retry?: components["schemas"]["Retry"];
            schedule?: components["schemas"]["Schedule"];
            /** @description Instead of schedule, of a recurring job: it is due when any of them is, once at each instant. Each has cron or every, and a time zone of its own; start, end, max_runs and jitter are of all */
            schedules?: components["schemas"]["Schedule"][];
            script?: components["schemas"]["ScriptTarget"];
            sns?: components["schemas"]["SNSTarget"];
            sqs?: components["schemas"]["SQSTarget"];
            /**
             * Format: date-time
             * @description Of a recurring job: no run before it
             */
            start?: string;
            step_functions?: components["schemas"]["StepFunctionsTarget"];
            /** @description The task to run; else exactly one of http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions and kafka */
            task?: string;
            timeout?: string;
            /** @description Of a one-off job that waits for no other: it is created only if no job of the same key was created within that one's window. Otherwise nothing is created, and the answer is 200 with that job and existing. The key is what by names, as the request states it (the order of members does not matter), and always the tenant and the task, or the call. A job that has ended or was cancelled counts until its window ends */
            unique?: components["schemas"]["UniqueRequest"];
        };
        JobSchedule: {
            /**
             * Format: date-time
             * @description Of every: an instant from which the others are counted
             */
            anchor?: string;
            /**
             * Format: date-time
             * @description Of a one-off job
             */
            at?: string;
            /** @description What it does on the dates of a calendar */
            calendar?: components["schemas"]["JobScheduleCalendar"];
            cron?: string;
            every?: string;
            /** @description Dates of the time zone on which it is not due */
            exclude?: string[];
            /**
             * @description Of cron: what becomes of times that the zone leaves out
             * @enum {string}
             */
            gap?: "run" | "skip";
            /**
             * @description Of cron: which of the times that the zone has twice
             * @enum {string}
             */
            overlap_hour?: "first" | "second" | "both";
            /** @description Of cron, and of excluded dates */
            timezone?: string;
        };
        JobScheduleCalendar: {
            /** @description Of a calendar of the tenant */
            name: string;
            /**
             * @description It is not due then; or due at its time of day on the next day, or on the day before, that is none of the dates
             * @enum {string}
             */
            on: "skip" | "next_day" | "previous_day";
        };
        JobUnique: {
            /** @description What makes two jobs the same, besides the tenant and what they run */
            by: string[];
            /** @description From created_at on */
            window: string;
        };
        KafkaSASL: {
            /** @enum {string} */
            mechanism: "plain" | "scram-sha-256" | "scram-sha-512";
            /** @description Name of the secret that holds the password */
            password_secret: string;
            /** @description At most 255 bytes */
            username: string;
        };
        KafkaTLS: {
            /** @description Name of the secret that holds the certificates that those of the brokers are to come from, as PEM; absent: those of the system */
            ca_secret?: string;
            /** @description Name of the secret that holds the certificate that is shown, as PEM */
            certificate_secret?: string;
            /** @description Name of the secret that holds its private key, as PEM */
            key_secret?: string;
        };
        KafkaTarget: {
            /** @description host:port of 1 to 8 brokers, each at most 120 bytes, by which the others are found. Every address of a broker goes through the guard of addresses, also those that the cluster names */
            brokers: string[];
            /** @description At most 32, 8 KiB together, and nothing secret. Others tell the run (carillon-run-id), the attempt and the trace */
            headers?: {
                [key: string]: string;
            };
            /** @description Records of one key keep their order; absent: any partition. At most 1 KiB */
            key?: string;
            /** @description Absent: the brokers ask for no user */
            sasl?: components["schemas"]["KafkaSASL"];
            /** @description Absent: the brokers are spoken to without TLS */
            tls?: components["schemas"]["KafkaTLS"];
            topic: string;
        };
        LambdaTarget: {
            /** @description Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…", "session_token": "…"} (the last is optional) */
            credentials: string;
            /**
             * Format: uri
             * @description Instead of AWS's of the region; without a query
             */
            endpoint?: string;
            /** @description Its name or ARN, with a version or alias after a colon */
            function: string;
            /**
             * @description sync (default): the run ends as the function does; async: it has succeeded once the invocation is accepted
             * @enum {string}
             */
            invocation?: "sync" | "async";
            region: string;
        };
        LogLine: {
            /**
             * Format: date-time
             * @description When its executor heard it
             */
            at?: string;
            /** Format: int64 */
            attempt: number;
            /**
             * Format: int64
             * @description No line of its own: so many that came here were not kept
             */
            dropped?: number;
            text?: string;
        };
        LogListBody: {
            items: components["schemas"]["LogLine"][];
            /** @description Present until the run has ended and all was read: what is logged meanwhile comes after it */
            next_cursor?: string;
        };
        MTLSAuth: {
            /** @description Name of the secret that holds the certificates that the callee's one is to come from, as PEM; absent: those of the system */
            ca_secret?: string;
            /** @description Name of the secret that holds the certificate that is shown, as PEM, followed by those that lead from it to a root */
            certificate_secret: string;
            /** @description Name of the secret that holds the certificate's private key, as PEM */
            key_secret: string;
        };
        Misfire: {
            /** @description With any policy: a run that is later than this does not start, and is missed; with skip a minute at most. Absent: no bound but that of skip */
            deadline?: string;
            /**
             * @description What becomes of runs that are more than a minute late, such as after a pause or an outage: run_all starts each; run_latest only the last of a recurring job, which has it by default, and the others are missed; skip starts none
             * @enum {string}
             */
            policy?: "run_all" | "run_latest" | "skip";
        };
        Missed: {
            /** Format: int64 */
            count: number;
            /** Format: date-time */
            from: string;
            reason?: string;
            /** Format: date-time */
            to: string;
        };
        NATSTarget: {
            /** @description Without wildcards; not under $, _ or carillon */
            subject: string;
        };
        NextRun: {
            /** Format: date-time */
            due_at: string;
            id: string;
            /** Format: date-time */
            nominal_at: string;
        };
        Operation: {
            /** @enum {string} */
            action: "cancel" | "pause" | "resume" | "trigger" | "retry" | "replay" | "discard" | "backfill" | "unknown";
            /** @description What a backfill is for */
            backfill?: components["schemas"]["BackfillScope"];
            /** Format: date-time */
            cancelled_at?: string;
            cancelled_by?: string;
            /**
             * Format: int64
             * @description Of those: done; none in a dry run. The runs that a backfill has asked for
             */
            changed: number;
            /** Format: date-time */
            created_at: string;
            created_by?: string;
            dry_run?: boolean;
            /**
             * Format: int64
             * @description Of those: could not be done. The runs of a backfill that ended without success
             */
            failed: number;
            /** @description Why what is stored of it cannot be understood: then its action and state are unknown */
            fault?: string;
            /** @description The first of those that failed, and why */
            faults?: string[];
            filter: components["schemas"]["OperationScope"];
            id: string;
            /**
             * Format: int64
             * @description Met so far; all nominal times of a backfill
             */
            matched: number;
            /**
             * Format: int64
             * @description The runs of a backfill that have not ended, when it was last looked at
             */
            running?: number;
            /** @enum {string} */
            state: "running" | "done" | "cancelled" | "unknown";
            tenant: string;
            /**
             * Format: int64
             * @description Of those: nothing was to be done
             */
            unchanged: number;
            /** Format: date-time */
            updated_at: string;
        };
        OperationScope: {
            /** @description Of dead letters: part of their error */
            error?: string;
            /** @description Of dead letters */
            error_pattern?: string;
            /** Format: date-time */
            from?: string;
            /** @description Of runs: they call it */
            host?: string;
            /** @description Of runs: the id of their job */
            job?: string;
            /** @description Of runs: the name by which their job was asked for */
            job_name?: string;
            /** @description Of runs: made with this idempotency key */
            key?: string;
            label?: string;
            /** @description Of runs: all of these, too */
            labels?: string[];
            /** @description Of runs: they are late by more than this span */
            late?: string;
            name_prefix?: string;
            state?: string;
            /** @description Of runs: in one of these */
            states?: string[];
            task?: string;
            /** Format: date-time */
            to?: string;
        };
        PauseOnFailure: {
            /**
             * Format: int64
             * @description It pauses when so many of its runs in a row have failed for good, in the order of their due times. A change or a resume begins the count anew
             */
            after: number;
        };
        Preview: {
            /** @description The schedule in words */
            description: string;
            /** @description What is to be known about it: changes of the zone that move, drop or double runs, jitter */
            notes: string[];
            /** @description The first nominal times after from */
            times: string[];
            /** @description The version of the time zone data */
            zones: string;
        };
        PreviewRequest: {
            /**
             * Format: int64
             * @description The most times; default 10
             */
            count?: number;
            /** Format: date-time */
            end?: string;
            /**
             * Format: date-time
             * @description The times come after it; default: now
             */
            from?: string;
            jitter?: string;
            schedule?: components["schemas"]["Schedule"];
            schedules?: components["schemas"]["Schedule"][];
            /** Format: date-time */
            start?: string;
        };
        Problem: {
            detail?: string;
            errors?: components["schemas"]["Fault"][];
            log_in?: string;
            /** Format: int64 */
            status: number;
            title: string;
            type: string;
        };
        Progress: {
            /**
             * Format: date-time
             * @description When it was told
             */
            at: string;
            /** Format: int64 */
            done: number;
            text?: string;
            /**
             * Format: int64
             * @description Absent if the worker does not say
             */
            total?: number;
        };
        RegionChoice: {
            Name: string;
            Require: boolean;
        };
        Retry: {
            /** Format: double */
            factor?: number;
            initial?: string;
            /**
             * @description full: a wait is drawn from 0 up to initial, times factor for each attempt after that, at most max; none: it is that long
             * @enum {string}
             */
            jitter?: "full" | "none";
            max?: string;
            /** Format: int64 */
            max_attempts?: number;
        };
        Run: {
            attempts: components["schemas"]["Attempt"][];
            /** @description What it calls, without a query: of a task, what the task says now; not in lists */
            calls?: string;
            /** @description Why it was cancelled, if nobody asked for that */
            cancel_reason?: string;
            /** @description Who made its job, as the audit log names callers; of a run that was triggered, or retried outside of a workflow: who asked for that. Absent where the node asked for no keys */
            created_by?: string;
            dead_letter?: boolean;
            /**
             * Format: date-time
             * @description Of a workflow run that has begun, and of a step that has a deadline: when it ends at the latest. That of a workflow run is not in lists. Of a run that waits for other jobs: when it is stuck
             */
            deadline_at?: string;
            /**
             * Format: date-time
             * @description While it waits: when its start will be tried that was put off, by the rate of its task, since as many runs of its task were under way as may, or since its target had no room or failed
             */
            deferred_until?: string;
            /** Format: date-time */
            due_at: string;
            /** @description Why the last attempt failed that has an error, of a run that has not succeeded: what lists select by error, and its first 512 bytes. Whole it is in attempts */
            error?: string;
            /** @description What started it, if trigger is event */
            event?: components["schemas"]["RunEvent"];
            /** @description Why what is stored of its last attempt cannot be understood: the run counts as failed, but what it came to is unknown */
            fault?: string;
            /** Format: date-time */
            finished_at?: string;
            id: string;
            /**
             * Format: int64
             * @description Of a step with for_each: which item it is, from 0
             */
            item?: number;
            /** @description Absent for a step of a workflow run */
            job_id?: string;
            /** @description The name of its job. Of a run that repeats another: of the job that the other is a run of */
            job_name?: string;
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Start of the first attempt less the later of due time and acceptance, in ms
             */
            lateness_ms?: number;
            missed?: components["schemas"]["Missed"];
            /** Format: date-time */
            next_attempt_at?: string;
            /** Format: date-time */
            nominal_at: string;
            /** @description The run that it repeats */
            origin?: string;
            /** @description In a list only if it is at most 4 KiB */
            payload?: unknown;
            /** @description Why the payload is absent: it is stored encrypted and cannot be opened */
            payload_fault?: string;
            /**
             * Format: int64
             * @description How often it was stopped to let a critical run start (preemptible). Such a start is not among the attempts: it used none up. started_at is the first start of all
             */
            preempted?: number;
            /** @enum {string} */
            priority: "critical" | "high" | "normal" | "low";
            /** @description Of the attempt under way; not in lists */
            progress?: components["schemas"]["Progress"];
            /** @description Of a step: why it was skipped, or could not be started. Of a run that would run after other jobs: why it was skipped */
            reason?: string;
            /** @description Of a run that failed: the run that repeats it, as its dead letter was replayed. Known as long as the dead letter is kept */
            replayed_as?: string;
            /** Format: date-time */
            started_at?: string;
            /**
             * @description waiting: of a workflow run, of which nothing but waits is under way (it is among those that are running, where a list asks for that), of a step that waits, or of a run that waits for other jobs; and stuck if its deadline has passed (both are among those that are pending, where a list asks for that). skipped: of a step, or of a run that never starts since other jobs did not end as it asks for
             * @enum {string}
             */
            state: "pending" | "running" | "waiting" | "stuck" | "retrying" | "succeeded" | "failed" | "cancelled" | "missed" | "skipped";
            /** @description Of a step: its name */
            step?: string;
            /** @description Of a workflow run: its steps, in the order of the workflow; not in lists */
            steps?: components["schemas"]["RunStep"][];
            task?: string;
            tenant: string;
            /** @enum {string} */
            trigger: "schedule" | "manual" | "retry" | "backfill" | "event" | "dependency" | "notification";
            /** @description Of a run that has started: what held it back last before that, and since when anything did */
            waited?: components["schemas"]["Waiting"];
            /** @description Of a pending or retrying run whose time has come, and that may not start yet: what it waits for. Of one that was cancelled before it started: what it waited for last */
            waiting?: components["schemas"]["Waiting"];
            /** @description Of a workflow run: the workflow. Its one attempt stands for all that its steps do */
            workflow?: string;
            /** @description Of a step: the workflow run */
            workflow_run_id?: string;
        };
        RunEvent: {
            id: string;
            name: string;
        };
        RunListBody: {
            items: components["schemas"]["Run"][];
            next_cursor?: string;
            /** @description With order=newest: how far the search has come */
            searched?: components["schemas"]["Searched"];
        };
        RunStep: {
            after?: string[];
            /**
             * Format: int64
             * @description Of all items, if it has any
             */
            attempts?: number;
            /** @description Of a step that waited for an event, and has it: that event, whose publisher the audit log knows. Of a run the first 20 steps that have one are told of */
            event?: components["schemas"]["RunEvent"];
            /** Format: date-time */
            finished_at?: string;
            /** @description Of a step with for_each */
            items?: components["schemas"]["StepItems"];
            name: string;
            /** @description Why it waits, was skipped or failed */
            reason?: string;
            /** @description Its run. Absent: it has none, because it has not started, was skipped since what it comes after ended otherwise, or has a run for each item */
            run_id?: string;
            /** Format: date-time */
            started_at?: string;
            /** @enum {string} */
            state: "pending" | "running" | "waiting" | "retrying" | "succeeded" | "failed" | "cancelled" | "missed" | "skipped";
        };
        SNSTarget: {
            /** @description Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…", "session_token": "…"} (the last is optional) */
            credentials: string;
            /**
             * Format: uri
             * @description Instead of AWS's of the region; without a query
             */
            endpoint?: string;
            /** @description Within which a FIFO queue or topic keeps the order; absent: of one that is FIFO the job */
            message_group?: string;
            region: string;
            /** @description Of the mails to those who subscribed by e-mail */
            subject?: string;
            topic_arn: string;
        };
        SQSTarget: {
            /** @description Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…", "session_token": "…"} (the last is optional) */
            credentials: string;
            /**
             * Format: uri
             * @description Instead of AWS's of the region; without a query
             */
            endpoint?: string;
            /** @description Within which a FIFO queue or topic keeps the order; absent: of one that is FIFO the job */
            message_group?: string;
            /**
             * Format: uri
             * @description At most 512 bytes. A FIFO queue (.fifo) takes a run's message once within 5 min: MessageDeduplicationId is the run's id
             */
            queue_url: string;
            region: string;
        };
        Schedule: {
            /**
             * Format: date-time
             * @description Of every: an instant from which the others are counted; default: creation
             */
            anchor?: string;
            /**
             * Format: date-time
             * @description When it is due, to the ms; absent or past: now; at most ten years ahead
             */
            at?: string;
            /** @description What it does on the dates of a calendar of the tenant (PUT /v1/calendars/{name}) */
            calendar?: components["schemas"]["ScheduleCalendar"];
            /** @description Five fields, or six with the second first; not beside at or every */
            cron?: string;
            every?: string;
            /** @description Dates of the time zone on which it is not due; at most 500 of all schedules of a job. Beside every, timezone says whose dates they are */
            exclude?: string[];
            /** @enum {string} */
            gap?: "run" | "skip";
            /** @enum {string} */
            overlap_hour?: "first" | "second" | "both";
            /** @description Of cron: an IANA name; default UTC */
            timezone?: string;
        };
        ScheduleCalendar: {
            /** @description Of a calendar of the tenant */
            name: string;
            /**
             * @description skip (default): it is not due then; next_day, previous_day, of cron alone: it is due at its time of day on the next day, or on the day before, that is none of the dates
             * @enum {string}
             */
            on?: "skip" | "next_day" | "previous_day";
        };
        ScriptTarget: {
            args?: string[];
            /** @description A name in the operator's allow list */
            command: string;
        };
        Searched: {
            /**
             * @description What found the runs. scan: every partition of the window was read. dead_letters, job: an index
             * @enum {string}
             */
            by: "scan" | "dead_letters" | "job";
            /**
             * Format: int64
             * @description How many partitions of due times this answer looked into, about
             */
            partitions: number;
            /**
             * Format: date-time
             * @description All runs of the window that are due then or later were looked at; in an export: those that are due before then
             */
            until?: string;
        };
        SigV4Auth: {
            access_key_id: string;
            region: string;
            /** @description Name of the secret that holds the secret access key */
            secret: string;
            /** @description As the signature names it */
            service: string;
            /** @description Name of the secret that holds the session token of temporary credentials */
            session_token_secret?: string;
        };
        Step: {
            /** @description The steps that come before it; absent: it starts at once */
            after?: string[];
            /** @description How long after its start the step may take, with all its attempts */
            deadline?: string;
            eventbridge?: components["schemas"]["EventBridgeTarget"];
            for_each?: components["schemas"]["ForEach"];
            /** @enum {string} */
            guarantee?: "at_least_once" | "at_most_once" | "effectively_once";
            http?: components["schemas"]["HTTPTarget"];
            /** @description A CEL expression over input and steps; false: the step is skipped, and counts as succeeded */
            if?: string;
            jetstream?: components["schemas"]["JetStreamTarget"];
            kafka?: components["schemas"]["KafkaTarget"];
            lambda?: components["schemas"]["LambdaTarget"];
            /** @description Unique in the workflow */
            name: string;
            nats?: components["schemas"]["NATSTarget"];
            /** @description Any JSON, at most 64 KiB when the step starts. An object {"$from": "extract", "pointer": "/files"} stands for the output of a step before it, {"$input": "/date"} for the payload of the run, {"$item": ""} for the item of for_each, {"$index": true} for its number from 0, {"$run": "/id"} for the run's id */
            payload?: unknown;
            /** @description While a run with low priority is under way, a critical run that lacks a slot may take its slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts it). That happens to a run three times at most, and never to work other than at_least_once */
            preemptible?: boolean;
            /** @enum {string} */
            priority?: "critical" | "high" | "normal" | "low";
            /** @description Labels that the executor has which runs it, as the operator states them (executor.labels): at most 8. While no executor has all of them its runs wait, and say so (waiting.reason pool); they are tried within minutes after one has come. Absent: any executor */
            requires?: {
                [key: string]: string;
            };
            retry?: components["schemas"]["Retry"];
            script?: components["schemas"]["ScriptTarget"];
            sns?: components["schemas"]["SNSTarget"];
            sqs?: components["schemas"]["SQSTarget"];
            step_functions?: components["schemas"]["StepFunctionsTarget"];
            /** @description The task to run; else exactly one of http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions, kafka, wait and workflow */
            task?: string;
            timeout?: string;
            wait?: components["schemas"]["Wait"];
            /**
             * @description How those must have ended; default all_succeeded. A step that cannot start any more is skipped: it counts as failed if one of those did, else as succeeded. always also starts after a cancel of the run
             * @enum {string}
             */
            when?: "all_succeeded" | "all_done" | "any_succeeded" | "any_failed" | "always";
            /** @description The workflow to run as a step; at most 8 deep. Its output is an object of the outputs of the steps that none comes after, by their names, at most 64 KiB */
            workflow?: string;
        };
        StepFunctionsTarget: {
            /** @description Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…", "session_token": "…"} (the last is optional) */
            credentials: string;
            /**
             * Format: uri
             * @description Instead of AWS's of the region; without a query
             */
            endpoint?: string;
            region: string;
            /** @description Its ARN, with a version or alias after a colon. The input is the payload, and the execution's name is the run's id: it is started once */
            state_machine: string;
        };
        StepItems: {
            /** @description How many are pending, running, retrying, succeeded, failed, cancelled. Items that have no run yet are in none */
            states: {
                [key: string]: number;
            };
            /** Format: int64 */
            total: number;
        };
        Task: {
            /** Format: date-time */
            created_at?: string;
            description?: string;
            eventbridge?: components["schemas"]["EventBridgeTarget"];
            /** @description Why what is stored of it cannot be understood: then nothing but its name is known, and its runs fail until it is put again */
            fault?: string;
            guarantee?: string;
            http?: components["schemas"]["HTTPTarget"];
            jetstream?: components["schemas"]["JetStreamTarget"];
            kafka?: components["schemas"]["KafkaTarget"];
            lambda?: components["schemas"]["LambdaTarget"];
            /**
             * Format: int64
             * @description How many runs of the task may be under way at once, in the whole cluster; absent: any number. Runs beyond wait, about in the order in which they are due: deferred_until says when they will be tried next. A change is in force within seconds; runs that were begun before are not stopped
             */
            max_concurrent?: number;
            name: string;
            nats?: components["schemas"]["NATSTarget"];
            /** @description What payloads must fit when jobs are written: a JSON Schema 2020-12 of at most 16 KiB. format is an annotation, patterns are Go's (RE2), references stay within it. No payload counts as null. A changed schema leaves jobs that were written before alone */
            payload_schema?: {
                [key: string]: unknown;
            };
            /** @description While a run with low priority is under way, a critical run that lacks a slot may take its slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts it). That happens to a run three times at most, and never to work other than at_least_once */
            preemptible?: boolean;
            /** @description How many runs of the task may start in a second, a minute or an hour, in the whole cluster: at most 100000 a second. Attempts after the first count. Runs beyond wait: their due time stays what it was, and deferred_until says when they will be tried. A change is in force after a few seconds, at most a minute */
            rate?: string;
            /** @description The home at which one-off jobs of the task lie that name none, have no key and wait for no other, unless the task has a rate or a limit. With require, all runs of the task wait until that region serves them; jobs whose home is another one are refused */
            region?: string | {
                name?: string;
                /** @description No other region runs it: while another one serves its home, its runs wait, and say so (waiting.reason region) */
                require?: boolean;
            };
            /** @description Labels that the executor has which runs it, as the operator states them (executor.labels): at most 8. While no executor has all of them its runs wait, and say so (waiting.reason pool); they are tried within minutes after one has come. Absent: any executor */
            requires?: {
                [key: string]: string;
            };
            retry?: components["schemas"]["Retry"];
            script?: components["schemas"]["ScriptTarget"];
            sns?: components["schemas"]["SNSTarget"];
            sqs?: components["schemas"]["SQSTarget"];
            step_functions?: components["schemas"]["StepFunctionsTarget"];
            timeout?: string;
            /** Format: date-time */
            updated_at?: string;
        };
        TaskListBody: {
            items: components["schemas"]["Task"][];
            next_cursor?: string;
        };
        TaskRequest: {
            /** @description At most 1024 bytes */
            description?: string;
            eventbridge?: components["schemas"]["EventBridgeTarget"];
            /** @enum {string} */
            guarantee?: "at_least_once" | "at_most_once" | "effectively_once";
            http?: components["schemas"]["HTTPTarget"];
            jetstream?: components["schemas"]["JetStreamTarget"];
            kafka?: components["schemas"]["KafkaTarget"];
            lambda?: components["schemas"]["LambdaTarget"];
            /**
             * Format: int64
             * @description How many runs of the task may be under way at once, in the whole cluster; absent: any number. Runs beyond wait, about in the order in which they are due: deferred_until says when they will be tried next. A change is in force within seconds; runs that were begun before are not stopped
             */
            max_concurrent?: number;
            nats?: components["schemas"]["NATSTarget"];
            /** @description What payloads must fit when jobs are written: a JSON Schema 2020-12 of at most 16 KiB. format is an annotation, patterns are Go's (RE2), references stay within it. No payload counts as null. A changed schema leaves jobs that were written before alone */
            payload_schema?: {
                [key: string]: unknown;
            };
            /** @description While a run with low priority is under way, a critical run that lacks a slot may take its slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts it). That happens to a run three times at most, and never to work other than at_least_once */
            preemptible?: boolean;
            /** @description How many runs of the task may start in a second, a minute or an hour, in the whole cluster: at most 100000 a second. Attempts after the first count. Runs beyond wait: their due time stays what it was, and deferred_until says when they will be tried. A change is in force after a few seconds, at most a minute */
            rate?: string;
            /** @description The home at which one-off jobs of the task lie that name none, have no key and wait for no other, unless the task has a rate or a limit. With require, all runs of the task wait until that region serves them; jobs whose home is another one are refused */
            region?: string | {
                name?: string;
                /** @description No other region runs it: while another one serves its home, its runs wait, and say so (waiting.reason region) */
                require?: boolean;
            };
            /** @description Labels that the executor has which runs it, as the operator states them (executor.labels): at most 8. While no executor has all of them its runs wait, and say so (waiting.reason pool); they are tried within minutes after one has come. Absent: any executor */
            requires?: {
                [key: string]: string;
            };
            retry?: components["schemas"]["Retry"];
            script?: components["schemas"]["ScriptTarget"];
            sns?: components["schemas"]["SNSTarget"];
            sqs?: components["schemas"]["SQSTarget"];
            step_functions?: components["schemas"]["StepFunctionsTarget"];
            timeout?: string;
        };
        TriggerRequest: {
            /** @description The input of the run: any JSON, at most 64 KiB; absent: the workflow's */
            payload?: unknown;
        };
        UniqueRequest: {
            /** @description What makes two jobs the same, besides the tenant and what they run: task (nothing else), payload, payload/… (a JSON pointer into the payload: payload/customer/id), labels or labels/NAME. A part that is absent counts as one. Default: task, payload */
            by?: string[];
            /** @description From the creation of the first job on, from 1s to 744h; it may last up to 5s longer */
            window: string;
        };
        UpcomingListBody: {
            items: components["schemas"]["NextRun"][];
        };
        Wait: {
            /** @description Of event: how long; then the step fails */
            deadline?: string;
            /** @description For the event of this name */
            event?: string;
            /** @description Of event: a CEL expression over event and input */
            filter?: string;
            /** @description So long from when the step starts */
            for?: string;
            /**
             * Format: date-time
             * @description Until this instant
             */
            until?: string;
        };
        Waiting: {
            /** @description A word and what it means. jobs: those that it runs after. event, time: what a step waits for. concurrency: the limit of its job. rate, limit: those of its task. slot: the time that the rate gave it has come; it waits for a slot of the limit of its task, of a quota, of its target or of an executor. quota: one of its tenant, of runs at once or of runs a minute. breaker: its target failed again and again. target_share, tenant_share: slow calls to its target, or of its tenant, have their part of the slots. region: its region alone may run it, and another serves its home now. pool: no executor that it reached has the labels that it requires */
            reason: string;
            /** Format: date-time */
            since: string;
        };
        Workflow: {
            concurrency?: components["schemas"]["Concurrency"];
            /** Format: date-time */
            created_at?: string;
            /** @description As of a job */
            created_by?: string;
            /** @description How long after its due time a run ends at the latest */
            deadline: string;
            /**
             * @description As of a job
             * @enum {string}
             */
            durability?: "home" | "everywhere";
            /**
             * Format: date-time
             * @description No run from it on; that of max_runs, if it is earlier
             */
            end?: string;
            /** @description Why the workflow does not go on, though it is active: what is stored of it is not understood by this node */
            fault?: string;
            /**
             * Format: int64
             * @description Grows with every change; 0 in a dry run, of a workflow that does not exist
             */
            generation: number;
            id: string;
            /** @description The window of the workflow's own offset, which is the same for all its runs */
            jitter?: string;
            labels?: {
                [key: string]: string;
            };
            /** Format: int64 */
            max_runs?: number;
            misfire: components["schemas"]["JobMisfire"];
            name: string;
            next_run?: components["schemas"]["NextRun"];
            /** @description Which events start a run; such a workflow has no schedule */
            on?: components["schemas"]["EventTrigger"];
            pause_on_failure?: components["schemas"]["PauseOnFailure"];
            /** @description Why the workflow is paused, if nobody has paused it */
            paused_because?: string;
            /** @description The input of scheduled runs, and of others that state none */
            payload?: unknown;
            priority: string;
            /** @description Absent: it runs when it is asked to, or has several */
            schedule?: components["schemas"]["JobSchedule"];
            /** @description Instead of one: it is due when any of them is, once at each instant */
            schedules?: components["schemas"]["JobSchedule"][];
            /**
             * Format: date-time
             * @description No run before it
             */
            start?: string;
            /** @enum {string} */
            state: "active" | "paused" | "cancelled" | "finished";
            /** @description Not in lists */
            steps?: components["schemas"]["Step"][];
            tenant: string;
            /** Format: date-time */
            updated_at?: string;
            /** @description In a list that asks for it: which of its runs wait for events, by the events that its definition names now */
            waiting?: components["schemas"]["WorkflowWaiting"][];
        };
        WorkflowListBody: {
            items: components["schemas"]["Workflow"][];
            next_cursor?: string;
        };
        WorkflowRequest: {
            /** @description How many runs may be under way at once; runs that are steps of other workflows do not count. Absent: any number */
            concurrency?: components["schemas"]["Concurrency"];
            /** @description How long after its due time a run may take as a whole; absent: 168h */
            deadline?: string;
            /**
             * @description When this workflow, and its changes, are acknowledged, where there are regions. home: once the region that serves the home holds it; one that is lost for good loses what it wrote in its last moments. everywhere: once every region holds it, and 503 while one of them does not answer; guarded runs are then not started unless every region knows. Of a job it counts before that of its import, and that before its tenant's. 422: everywhere, and the cluster has no regions
             * @enum {string}
             */
            durability?: "home" | "everywhere";
            /**
             * Format: date-time
             * @description No scheduled run from it on
             */
            end?: string;
            jitter?: string;
            /** @description At most 16 */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Paused and missed runs count
             */
            max_runs?: number;
            misfire?: components["schemas"]["Misfire"];
            /** @description If stated, that of the path */
            name?: string;
            on?: components["schemas"]["EventTrigger"];
            pause_on_failure?: components["schemas"]["PauseOnFailure"];
            /** @description The input of scheduled runs, and of others that state none: any JSON, at most 64 KiB. {"$run": "/id"} and {"$run": "/nominal_at"} stand for the run's */
            payload?: unknown;
            /** @enum {string} */
            priority?: "critical" | "high" | "normal" | "low";
            /** @description By cron or every; absent: it runs when it is asked to */
            schedule?: components["schemas"]["Schedule"];
            schedules?: components["schemas"]["Schedule"][];
            /**
             * Format: date-time
             * @description No scheduled run before it
             */
            start?: string;
            /** @description In any order: after says which come before which */
            steps: components["schemas"]["Step"][];
        };
        WorkflowWaiting: {
            event: string;
            /** @description There may be more: not all that wait for the event were looked at */
            more?: boolean;
            /** Format: int64 */
            runs: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    "list-events": {
        parameters: {
            query: {
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
                /** @description Only events of this name */
                name?: string;
                /** @description Accepted at this instant or later */
                from: string;
                /** @description Accepted before this one; at most an hour after from */
                to: string;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventListBody"];
                };
            };
        };
    };
    "publish-event": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same event */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The event's name: 1 to 63 characters of a-z, 0-9, '.', '_' and '-' */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": unknown;
            };
        };
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventReceipt"];
                };
            };
        };
    };
    "list-event-hearers": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The event's name */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventHearers"];
                };
            };
        };
    };
    "import-jobs": {
        parameters: {
            query?: {
                /** @description Check, and write nothing: a valid line is answered 200, without id */
                validate_only?: boolean;
                /** @description Of lines that state none: everywhere, a line is answered once every region holds its job. Absent: as the tenant states, or else the configuration */
                durability?: "home" | "everywhere";
                /** @description errors: answer only lines that failed, and the summary */
                results?: "all" | "errors";
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                "Content-Type"?: string;
                /** @description gzip or zstd */
                "Content-Encoding"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-ndjson": components["schemas"]["JobRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": components["schemas"]["ImportResult"] | {
                        summary: components["schemas"]["ImportSummary"];
                    } | {
                        error: components["schemas"]["Problem"];
                    };
                };
            };
        };
    };
    "list-jobs": {
        parameters: {
            query?: {
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
                state?: "active" | "paused" | "cancelled" | "finished";
                /** @description Only jobs that have this label, as name=value */
                label?: string;
                /** @description Only jobs whose name begins so */
                name_prefix?: string;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobListBody"];
                };
            };
        };
    };
    "create-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same answer */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    "get-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    "put-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Replace it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The job's name: 1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    "cancel-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Cancel it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    "patch-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Change it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobRequest"];
                "application/merge-patch+json": components["schemas"]["JobRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    "create-backfill": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same operation */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BackfillRequest"];
            };
        };
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Operation"];
                };
            };
        };
    };
    "preview-backfill": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BackfillRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackfillPreview"];
                };
            };
        };
    };
    "pause-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Do it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    "resume-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Do it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    "list-job-runs": {
        parameters: {
            query?: {
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
                /** @description Only runs in this state; stated again: or in that */
                state?: ("pending" | "running" | "waiting" | "stuck" | "retrying" | "succeeded" | "failed" | "cancelled" | "missed" | "skipped")[];
                /** @description First due time */
                from?: string;
                /** @description Due times before this one */
                to?: string;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunListBody"];
                };
            };
        };
    };
    "trigger-job": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description At most 128 bytes, quoted or not, kept for 24 h: the same key gives the same run */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    "list-upcoming": {
        parameters: {
            query?: {
                /** @description Runs that are due after it; absent or past: after now */
                from?: string;
                /** @description The most items of the answer */
                count?: number;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The job's id, or its name */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpcomingListBody"];
                };
            };
        };
    };
    "list-runs": {
        parameters: {
            query?: {
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
                /** @description due: in the order of due times. newest: from the newest minute back, over long windows: see the description */
                order?: "due" | "newest";
                /** @description First due time; needed unless order=newest, key, event or workflow_run is stated. Default with order=newest: 24 hours before to, and of a job: any */
                from?: string;
                /** @description Due times before this one; at most 24 hours after from, and 366 days with order=newest, where the default is now */
                to?: string;
                /** @description Only runs in this state; stated again: or in that. waiting: workflow runs of which nothing but waits is under way (they are among those that are running, too), and runs that wait for other jobs; stuck: those whose deadline has passed (both are among those that are pending, too) */
                state?: ("pending" | "running" | "waiting" | "stuck" | "retrying" | "succeeded" | "failed" | "cancelled" | "missed" | "skipped")[];
                /** @description Only runs of the job of this id or name, and those that repeat one of them; of one that can have many, the latest due first, as at /v1/jobs/{id}/runs. A one-off job has its one run: replayed_as names the run that repeats it */
                job?: string;
                /** @description Only runs of this task */
                task?: string;
                /** @description Only runs whose HTTP call goes to this host, which has a port where the URL states one; of a run of a task, by what the task says now */
                host?: string;
                /** @description Only runs that have this label, as name=value; stated again: and that */
                label?: string[];
                /** @description Only runs whose last error, as attempts show it, has this in it, in capitals or not. No pattern: it is taken as it is */
                error?: string;
                /** @description Only runs of one-off jobs */
                one_off?: boolean;
                /** @description Only runs whose created_by is this: the name of an API key, as the audit log has it */
                created_by?: string;
                /** @description Only runs whose first attempt started later than this span after they were due (lateness_ms), those that could have started for longer and have not, and those that were missed */
                late?: string;
                /** @description Only the run of this idempotency key. Without from and to it is looked up, as long as keys are kept: 24 h; that of an import's line with an instant as long as its run is, if at is stated. With from and to: of one-off jobs and lines of imports, due then */
                key?: string;
                /** @description Beside key, without from and to: the instant of the import's line, which stands together with its key */
                at?: string;
                /** @description The runs that the event of this id started, in the order in which they were planned; nothing else can be asked for beside it */
                event?: string;
                /** @description The runs of the steps of the workflow run of this id, in the order of the steps, then of items; beside it step, state and late can be asked for */
                workflow_run?: string;
                /** @description Beside workflow_run: only runs of the step of this name */
                step?: string;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunListBody"];
                };
            };
        };
    };
    "get-run": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The run's id */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    "cancel-run": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The run's id */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    "get-run-graph": {
        parameters: {
            query?: {
                /** @description json; else text for Mermaid, for Graphviz, or for a terminal */
                format?: "json" | "mermaid" | "dot" | "tree";
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The run's id */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Drawing"];
                    "text/plain": string;
                };
            };
        };
    };
    "list-run-logs": {
        parameters: {
            query?: {
                /** @description Only lines of this attempt */
                attempt?: number;
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The run's id */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogListBody"];
                };
            };
        };
    };
    "get-run-output": {
        parameters: {
            query?: {
                /** @description Of this attempt; default: of the one that succeeded, or the last that has ended */
                attempt?: number;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The run's id */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Whose output it is; absent: no attempt has ended */
                    "Carillon-Attempt"?: number;
                    /** @description true, if there was more than was kept */
                    "Carillon-Output-Cut"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                    "text/plain": string;
                };
            };
        };
    };
    "retry-run": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description At most 128 bytes, quoted or not, kept for 24 h: the same key gives the same new run */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The run's id */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    "skip-step": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The id of the workflow run */
                id: string;
                /** @description The step's name */
                step: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    "preview-schedule": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreviewRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Preview"];
                };
            };
        };
    };
    "list-tasks": {
        parameters: {
            query?: {
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskListBody"];
                };
            };
        };
    };
    "get-task": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description 1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Task"];
                };
            };
        };
    };
    "put-task": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Replace it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description 1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Task"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Task"];
                };
            };
        };
    };
    "delete-task": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Delete it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description 1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "list-workflows": {
        parameters: {
            query?: {
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
                state?: "active" | "paused" | "cancelled" | "finished";
                /** @description Only workflows that have this label, as name=value */
                label?: string;
                /** @description Only workflows whose name begins so */
                name_prefix?: string;
                /** @description Say of each workflow which of its runs wait for an event, such as the word of a person */
                waiting?: boolean;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkflowListBody"];
                };
            };
        };
    };
    "get-workflow": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workflow"];
                };
            };
        };
    };
    "put-workflow": {
        parameters: {
            query?: {
                /** @description Check it, answer what would be, and change nothing */
                dry_run?: boolean;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Replace it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The workflow's name: 1 to 63 characters of a-z, 0-9, '.', '_' and '-', not a UUID. Workflows share names with jobs */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WorkflowRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workflow"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    ETag?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workflow"];
                };
            };
        };
    };
    "delete-workflow": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Cancel it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workflow"];
                };
            };
        };
    };
    "get-workflow-graph": {
        parameters: {
            query?: {
                /** @description json; else text for Mermaid, for Graphviz, or for a terminal */
                format?: "json" | "mermaid" | "dot" | "tree";
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Drawing"];
                    "text/plain": string;
                };
            };
        };
    };
    "pause-workflow": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Do it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workflow"];
                };
            };
        };
    };
    "resume-workflow": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description Do it only if this is its ETag; else 412 */
                "If-Match"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workflow"];
                };
            };
        };
    };
    "list-workflow-runs": {
        parameters: {
            query?: {
                /** @description The most items of one answer */
                limit?: number;
                /** @description next_cursor of the answer before; opaque, and good only for the same list */
                cursor?: string;
                /** @description Only runs in this state; stated again: or in that */
                state?: ("pending" | "running" | "waiting" | "retrying" | "succeeded" | "failed" | "cancelled" | "missed")[];
                /** @description First due time */
                from?: string;
                /** @description Due times before this one */
                to?: string;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunListBody"];
                };
            };
        };
    };
    "trigger-workflow": {
        parameters: {
            query?: never;
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
                /** @description At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same run */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TriggerRequest"];
            };
        };
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    "Idempotency-Replayed"?: string;
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    "list-workflow-upcoming": {
        parameters: {
            query?: {
                /** @description Runs that are due after it; absent or past: after now */
                from?: string;
                /** @description The most items of the answer */
                count?: number;
            };
            header?: {
                /** @description The tenant that the request is for, where no key is asked for (default: default) or the key is of the tenant system. Else the key says it */
                "Carillon-Tenant"?: string;
            };
            path: {
                /** @description The workflow's name, or its id */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpcomingListBody"];
                };
            };
        };
    };
}
