"""The types of the API. Generated from its OpenAPI document by generate.py: not to be edited.

Answers have times as text (RFC 3339; `carillon.instant` reads them) and durations as text such as "1m30s"
(`carillon.span` reads them). Where a request alone has one, a datetime or a timedelta may stand as well.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict


class _AfterRequestRequired(TypedDict):
    # Their names or ids: either all of jobs that can have many runs, or all of one-off jobs.
    # The job has one run for each run with which their chain begins, which must be one job's
    jobs: list[str]


class AfterRequest(_AfterRequestRequired, total=False):
    # From the due time of the run with which the chain began, or from the creation of a one-off
    # job, to when a run that still waits is stuck; absent: 168h
    deadline: str | timedelta
    # How their runs must have ended; default all_succeeded. Once they cannot end so any more,
    # the run is skipped
    when: Literal["all_succeeded", "all_done", "any_succeeded", "any_failed"]


class _AttemptRequired(TypedDict):
    number: int


class Attempt(_AttemptRequired, total=False):
    error: str
    executor: str
    finished_at: str
    # Lines of log that were not kept: too many, or too fast
    log_dropped: int
    # Lines of log that were kept
    log_lines: int
    outcome: Literal["succeeded", "failed", "timed_out", "cancelled", "lost", "superseded"]
    # The output, or its first 2 KiB as text
    output: str
    # The output is not UTF-8
    output_binary: bool
    # There was more output than was kept
    output_cut: bool
    # Bytes that were kept, if that is more than output shows
    output_size: int
    # The last that the worker told
    progress: Progress
    # When its message was published to the executors
    published_at: str
    # When its executor received the message
    received_at: str
    redispatched: bool
    region: str
    started_at: str
    status_code: int


class _BasicAuthRequired(TypedDict):
    # Name of the secret that holds the password
    secret: str
    # Without a colon, at most 255 bytes
    username: str


class BasicAuth(_BasicAuthRequired, total=False):
    pass


class _BearerAuthRequired(TypedDict):
    # Name of the secret that holds the token of the header Authorization: Bearer
    secret: str


class BearerAuth(_BearerAuthRequired, total=False):
    pass


class _BodyFieldAuthRequired(TypedDict):
    # A member of the JSON object that is the body: it is added, or replaced, when the call is
    # made. At most 255 bytes
    name: str
    # Name of the secret that holds the member's value, a text
    secret: str


class BodyFieldAuth(_BodyFieldAuthRequired, total=False):
    pass


class _ClientCredentialsRequired(TypedDict):
    # At most 255 bytes
    client_id: str
    # Name of the secret that holds the client's secret
    secret: str
    # Where tokens are had (RFC 6749, section 4.4). A token is used until shortly before it
    # expires, and another one is asked for once if the call is answered with 401
    token_url: str


class ClientCredentials(_ClientCredentialsRequired, total=False):
    # What the request for a token says besides, such as audience: at most 16, 2 KiB together,
    # and nothing secret
    params: dict[str, str]
    # At most 32
    scopes: list[str]


class _ConcurrencyRequired(TypedDict):
    # The most runs under way at once. A job's run that waits for its next attempt is not under
    # way
    limit: int


class Concurrency(_ConcurrencyRequired, total=False):
    # A JSON pointer into the payload, such as "/customer/id": at most limit runs at once for
    # each value there. A value is a string, a number as it is written, or true or false; all
    # runs whose payload has none there share one limit. A change counts for runs that are made
    # after it
    key: str
    on_limit: Literal["queue", "skip", "cancel_oldest"]


class _EmailServerRequired(TypedDict):
    # Its name: its certificate is to be of it. Addresses that tasks may not call are refused
    # when a mail is sent
    host: str


class EmailServer(_EmailServerRequired, total=False):
    # Name of the secret that holds the certificates that the server's one is to come from, as
    # PEM; absent: those of the system
    ca_secret: str
    # Name of the secret that holds the password; not with tls none
    password_secret: str
    # Absent: 465 with implicit TLS, else 587
    port: int
    # starttls (default): a server that does not offer it gets nothing; implicit: from the first
    # byte on; none: everybody on the way can read it
    tls: Literal["starttls", "implicit", "none"]
    # Absent: the server asks for none
    username: str


_EmailTargetKeywordsOptional = TypedDict("_EmailTargetKeywordsOptional", {"from": "str"}, total=False)


class _EmailTargetRequired(TypedDict):
    # Addresses, of ASCII: me@example.com, or Me <me@example.com>
    to: list[str]


class EmailTarget(_EmailTargetKeywordsOptional, _EmailTargetRequired, total=False):
    # The mail server; absent: the operator's, if there is one (email.server)
    server: EmailServer


class _EventRequired(TypedDict):
    accepted_at: str
    id: str
    name: str
    tenant: str


class Event(_EventRequired, total=False):
    # Only if it is at most 4 KiB, and can be opened if it is stored encrypted
    body: Any


class _EventBridgeTargetRequired(TypedDict):
    # Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…",
    # "session_token": "…"} (the last is optional)
    credentials: str
    # The detail is the payload, which must be an object, with a member carillon: run_id,
    # attempt and others
    detail_type: str
    region: str
    # Not one that begins with aws.
    source: str


class EventBridgeTarget(_EventBridgeTargetRequired, total=False):
    # Name or ARN of the event bus, at most 512 bytes
    bus: str
    # Instead of AWS's of the region; without a query
    endpoint: str


class _EventReceiptRequired(TypedDict):
    # Its runs: GET /v1/runs?event=<id>
    id: str


class EventReceipt(_EventReceiptRequired, total=False):
    pass


class _EventTriggerRequired(TypedDict):
    # The event's name; run.*, dead_letter.* and workflow.* are those of the system
    event: str


class EventTrigger(_EventTriggerRequired, total=False):
    # From the event to the run's due time; absent: none
    delay: str
    # A CEL expression over event, its body; absent: every one starts a run. One that cannot be
    # evaluated does not
    filter: str


class _FaultRequired(TypedDict):
    message: str


class Fault(_FaultRequired, total=False):
    location: str
    value: Any


_ForEachKeywordsOptional = TypedDict("_ForEachKeywordsOptional", {"from": "str"}, total=False)


class ForEach(_ForEachKeywordsOptional, total=False):
    # Where in the payload of the run the list is: a JSON pointer
    input: str
    # The list itself
    items: list[Any]
    # The most items that run at once; 0 or absent: all
    max_concurrent: int
    # Where in that output the list is: a JSON pointer (RFC 6901)
    pointer: str


# Exactly one of these. A field named secret, or that ends in _secret, names a secret of the tenant
# (PUT /v1/secrets/{name}); no value stands here. An attempt whose secret is missing, or whose token
# is refused, fails and is retried
class HTTPAuth(TypedDict, total=False):
    aws_sigv4: SigV4Auth
    basic: BasicAuth
    bearer: BearerAuth
    body_field: BodyFieldAuth
    header: HeaderAuth
    mtls: MTLSAuth
    oauth2_client_credentials: ClientCredentials


class _HTTPTargetRequired(TypedDict):
    # Absolute, http or https, without user and password
    url: str


class HTTPTarget(_HTTPTargetRequired, total=False):
    # How the call shows who makes it. It goes to the URL's own origin alone, not where that
    # redirects to
    auth: HTTPAuth
    body: Literal["payload", "none"]
    # At most 32, 8 KiB together
    headers: dict[str, str]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    # The key by which the call is signed; absent: the one called default, if there is one
    signing_key: str
    # Of messages of notifications alone: name of the secret that holds the URL; url is empty
    # then
    url_secret: str


class _HeaderAuthRequired(TypedDict):
    # A header that Carillon does not set itself
    name: str
    # Name of the secret that holds the header's value
    secret: str


class HeaderAuth(_HeaderAuthRequired, total=False):
    pass


class _ImportResultRequired(TypedDict):
    line: int
    status: int


class ImportResult(_ImportResultRequired, total=False):
    error: Problem
    id: str


class _ImportSummaryRequired(TypedDict):
    created: int
    existing: int
    failed: int
    lines: int


class ImportSummary(_ImportSummaryRequired, total=False):
    pass


class _JetStreamTargetRequired(TypedDict):
    # Of a stream on the NATS servers that Carillon uses. The message has the header Nats-Msg-
    # Id, which is the run's id
    subject: str


class JetStreamTarget(_JetStreamTargetRequired, total=False):
    # The stream that must take the message; absent: whichever has the subject
    stream: str


_JobKeywordsOptional = TypedDict("_JobKeywordsOptional", {"lambda": "LambdaTarget"}, total=False)


class _JobRequired(TypedDict):
    created_at: str
    # Grows with every change; 1 for a one-off job
    generation: int
    id: str
    misfire: JobMisfire
    priority: str
    schedule: JobSchedule
    state: Literal["active", "paused", "cancelled", "finished"]
    tenant: str
    updated_at: str


class Job(_JobKeywordsOptional, _JobRequired, total=False):
    # The jobs after which it runs; such a job has no schedule. A one-off job if they are
    after: JobAfter
    concurrency: Concurrency
    # Who made it, as the audit log names callers: an API key, or the subject of a token. Absent
    # where the node asked for no keys
    created_by: str
    # When it was acknowledged, and its changes are: everywhere, once every region held it; else
    # once its home did
    durability: Literal["home", "everywhere"]
    email: EmailTarget
    # No run from it on; that of max_runs, if it is earlier
    end: str
    eventbridge: EventBridgeTarget
    # In the answer to a creation, which is 200 then: the job was there, created by another
    # request with the same unique key; nothing was created
    existing: bool
    # Why the job does not go on, though it is active: what is stored of it is not understood by
    # this node
    fault: str
    guarantee: str
    http: HTTPTarget
    jetstream: JetStreamTarget
    # The window of the job's own offset, which is the same for all its runs
    jitter: str
    kafka: KafkaTarget
    labels: dict[str, str]
    max_runs: int
    name: str
    nats: NATSTarget
    next_run: NextRun
    # Which events start a run; such a job has no schedule
    on: EventTrigger
    pause_on_failure: PauseOnFailure
    # Why the job is paused, if nobody has paused it
    paused_because: str
    payload: Any
    # Of a one-off job: why the payload is absent: it is stored encrypted and cannot be opened
    payload_fault: str
    # While a run with low priority is under way, a critical run that lacks a slot may take its
    # slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts
    # it). That happens to a run three times at most, and never to work other than at_least_once
    preemptible: bool
    # The home of a one-off job, where there are regions, and whether no other region runs it
    region: RegionChoice
    # Labels that the executor has which runs it, as the operator states them (executor.labels):
    # at most 8. While no executor has all of them its runs wait, and say so (waiting.reason
    # pool); they are tried within minutes after one has come. Absent: any executor
    requires: dict[str, str]
    retry: Retry
    # Instead of one: it is due when any of them is, once at each instant
    schedules: list[JobSchedule]
    script: ScriptTarget
    sns: SNSTarget
    sqs: SQSTarget
    # No run before it
    start: str
    step_functions: StepFunctionsTarget
    task: str
    timeout: str
    # Of a one-off job: it is the only one of its key
    unique: JobUnique


class _JobAfterRequired(TypedDict):
    # From the run with which the chain began, or from the creation of a one-off job, to when
    # the run is stuck that has not started
    deadline: str
    # Their names or ids, as they were stated. A name stands for the job that had it when this
    # one was made or changed
    jobs: list[str]
    when: Literal["all_succeeded", "all_done", "any_succeeded", "any_failed"]


class JobAfter(_JobAfterRequired, total=False):
    pass


class _JobMisfireRequired(TypedDict):
    policy: Literal["run_all", "run_latest", "skip"]


class JobMisfire(_JobMisfireRequired, total=False):
    # With any policy: a run that is later than this does not start, and is missed; with skip a
    # minute at most. Absent: no bound but that of skip
    deadline: str


_JobRequestKeywordsOptional = TypedDict("_JobRequestKeywordsOptional", {"lambda": "LambdaTarget"}, total=False)


class JobRequest(_JobRequestKeywordsOptional, total=False):
    after: AfterRequest
    concurrency: Concurrency
    # When this job, and its changes, are acknowledged, where there are regions. home: once the
    # region that serves the home holds it; one that is lost for good loses what it wrote in its
    # last moments. everywhere: once every region holds it, and 503 while one of them does not
    # answer; guarded runs are then not started unless every region knows. Of a job it counts
    # before that of its import, and that before its tenant's. 422: everywhere, and the cluster
    # has no regions
    durability: Literal["home", "everywhere"]
    # Of a recurring job: no run from it on
    end: str | datetime
    eventbridge: EventBridgeTarget
    guarantee: Literal["at_least_once", "at_most_once", "effectively_once"]
    http: HTTPTarget
    jetstream: JetStreamTarget
    jitter: str | timedelta
    kafka: KafkaTarget
    # Idempotency key of a line of an import; not of a single request
    key: str
    # At most 16
    labels: dict[str, str]
    # Of a recurring job: paused and missed runs count
    max_runs: int
    misfire: Misfire
    # Of a job that can have many runs; unique in the tenant. One that has a name, and neither
    # schedule nor on nor after, runs only when it is triggered
    name: str
    nats: NATSTarget
    on: EventTrigger
    pause_on_failure: PauseOnFailure
    # Any JSON, at most 64 KiB
    payload: Any
    # While a run with low priority is under way, a critical run that lacks a slot may take its
    # slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts
    # it). That happens to a run three times at most, and never to work other than at_least_once
    preemptible: bool
    priority: Literal["critical", "high", "normal", "low"]
    # Of a one-off job: the home at which it lies, named after a region. One that has a key,
    # waits for other jobs, or is of a task with a rate or a limit lies where its tenant is at
    # home. Absent: there; other jobs lie where their task says, or a route of the operator has
    # the host of their URL, or their tenant's home is stated, or else where the request
    # arrives. 503 not-served: another region serves that home
    region: str | dict[str, Any]
    # Labels that the executor has which runs it, as the operator states them (executor.labels):
    # at most 8. While no executor has all of them its runs wait, and say so (waiting.reason
    # pool); they are tried within minutes after one has come. Absent: any executor
    requires: dict[str, str]
    retry: Retry
    schedule: Schedule
    # Instead of schedule, of a recurring job: it is due when any of them is, once at each
    # instant. Each has cron or every, and a time zone of its own; start, end, max_runs and
    # jitter are of all
    schedules: list[Schedule]
    script: ScriptTarget
    sns: SNSTarget
    sqs: SQSTarget
    # Of a recurring job: no run before it
    start: str | datetime
    step_functions: StepFunctionsTarget
    # The task to run; else exactly one of http, nats, script, lambda, jetstream, sqs, sns,
    # eventbridge, step_functions and kafka
    task: str
    timeout: str | timedelta
    # Of a one-off job that waits for no other: it is created only if no job of the same key was
    # created within that one's window. Otherwise nothing is created, and the answer is 200 with
    # that job and existing. The key is what by names, as the request states it (the order of
    # members does not matter), and always the tenant and the task, or the call. A job that has
    # ended or was cancelled counts until its window ends
    unique: UniqueRequest


class JobSchedule(TypedDict, total=False):
    # Of every: an instant from which the others are counted
    anchor: str
    # Of a one-off job
    at: str
    # What it does on the dates of a calendar
    calendar: JobScheduleCalendar
    cron: str
    every: str
    # Dates of the time zone on which it is not due
    exclude: list[str]
    # Of cron: what becomes of times that the zone leaves out
    gap: Literal["run", "skip"]
    # Of cron: which of the times that the zone has twice
    overlap_hour: Literal["first", "second", "both"]
    # Of cron, and of excluded dates
    timezone: str


class _JobScheduleCalendarRequired(TypedDict):
    # Of a calendar of the tenant
    name: str
    # It is not due then; or due at its time of day on the next day, or on the day before, that
    # is none of the dates
    on: Literal["skip", "next_day", "previous_day"]


class JobScheduleCalendar(_JobScheduleCalendarRequired, total=False):
    pass


class _JobUniqueRequired(TypedDict):
    # What makes two jobs the same, besides the tenant and what they run
    by: list[str]
    # From created_at on
    window: str


class JobUnique(_JobUniqueRequired, total=False):
    pass


class _KafkaSASLRequired(TypedDict):
    mechanism: Literal["plain", "scram-sha-256", "scram-sha-512"]
    # Name of the secret that holds the password
    password_secret: str
    # At most 255 bytes
    username: str


class KafkaSASL(_KafkaSASLRequired, total=False):
    pass


class KafkaTLS(TypedDict, total=False):
    # Name of the secret that holds the certificates that those of the brokers are to come from,
    # as PEM; absent: those of the system
    ca_secret: str
    # Name of the secret that holds the certificate that is shown, as PEM
    certificate_secret: str
    # Name of the secret that holds its private key, as PEM
    key_secret: str


class _KafkaTargetRequired(TypedDict):
    # host:port of 1 to 8 brokers, each at most 120 bytes, by which the others are found. Every
    # address of a broker goes through the guard of addresses, also those that the cluster names
    brokers: list[str]
    topic: str


class KafkaTarget(_KafkaTargetRequired, total=False):
    # At most 32, 8 KiB together, and nothing secret. Others tell the run (carillon-run-id), the
    # attempt and the trace
    headers: dict[str, str]
    # Records of one key keep their order; absent: any partition. At most 1 KiB
    key: str
    # Absent: the brokers ask for no user
    sasl: KafkaSASL
    # Absent: the brokers are spoken to without TLS
    tls: KafkaTLS


class _LambdaTargetRequired(TypedDict):
    # Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…",
    # "session_token": "…"} (the last is optional)
    credentials: str
    # Its name or ARN, with a version or alias after a colon
    function: str
    region: str


class LambdaTarget(_LambdaTargetRequired, total=False):
    # Instead of AWS's of the region; without a query
    endpoint: str
    # sync (default): the run ends as the function does; async: it has succeeded once the
    # invocation is accepted
    invocation: Literal["sync", "async"]


class _LogLineRequired(TypedDict):
    attempt: int


class LogLine(_LogLineRequired, total=False):
    # When its executor heard it
    at: str
    # No line of its own: so many that came here were not kept
    dropped: int
    text: str


class _MTLSAuthRequired(TypedDict):
    # Name of the secret that holds the certificate that is shown, as PEM, followed by those
    # that lead from it to a root
    certificate_secret: str
    # Name of the secret that holds the certificate's private key, as PEM
    key_secret: str


class MTLSAuth(_MTLSAuthRequired, total=False):
    # Name of the secret that holds the certificates that the callee's one is to come from, as
    # PEM; absent: those of the system
    ca_secret: str


class Misfire(TypedDict, total=False):
    # With any policy: a run that is later than this does not start, and is missed; with skip a
    # minute at most. Absent: no bound but that of skip
    deadline: str | timedelta
    # What becomes of runs that are more than a minute late, such as after a pause or an outage:
    # run_all starts each; run_latest only the last of a recurring job, which has it by default,
    # and the others are missed; skip starts none
    policy: Literal["run_all", "run_latest", "skip"]


_MissedKeywordsRequired = TypedDict("_MissedKeywordsRequired", {"from": "str"}, total=True)


class _MissedRequired(TypedDict):
    count: int
    to: str


class Missed(_MissedKeywordsRequired, _MissedRequired, total=False):
    reason: str


class _NATSTargetRequired(TypedDict):
    # Without wildcards; not under $, _ or carillon
    subject: str


class NATSTarget(_NATSTargetRequired, total=False):
    pass


class _NextRunRequired(TypedDict):
    due_at: str
    id: str
    nominal_at: str


class NextRun(_NextRunRequired, total=False):
    pass


class _PauseOnFailureRequired(TypedDict):
    # It pauses when so many of its runs in a row have failed for good, in the order of their
    # due times. A change or a resume begins the count anew
    after: int


class PauseOnFailure(_PauseOnFailureRequired, total=False):
    pass


class _PreviewRequired(TypedDict):
    # The schedule in words
    description: str
    # What is to be known about it: changes of the zone that move, drop or double runs, jitter
    notes: list[str]
    # The first nominal times after from
    times: list[str]
    # The version of the time zone data
    zones: str


class Preview(_PreviewRequired, total=False):
    pass


_PreviewRequestKeywordsOptional = TypedDict("_PreviewRequestKeywordsOptional", {"from": "str | datetime"}, total=False)


class PreviewRequest(_PreviewRequestKeywordsOptional, total=False):
    # The most times; default 10
    count: int
    end: str | datetime
    jitter: str | timedelta
    schedule: Schedule
    schedules: list[Schedule]
    start: str | datetime


class _ProblemRequired(TypedDict):
    status: int
    title: str
    type: str


class Problem(_ProblemRequired, total=False):
    detail: str
    errors: list[Fault]
    log_in: str


class _ProgressRequired(TypedDict):
    # When it was told
    at: str
    done: int


class Progress(_ProgressRequired, total=False):
    text: str
    # Absent if the worker does not say
    total: int


class _RegionChoiceRequired(TypedDict):
    Name: str
    Require: bool


class RegionChoice(_RegionChoiceRequired, total=False):
    pass


class Retry(TypedDict, total=False):
    factor: float
    initial: str
    # full: a wait is drawn from 0 up to initial, times factor for each attempt after that, at
    # most max; none: it is that long
    jitter: Literal["full", "none"]
    max: str
    max_attempts: int


class _RunRequired(TypedDict):
    attempts: list[Attempt]
    due_at: str
    id: str
    nominal_at: str
    priority: Literal["critical", "high", "normal", "low"]
    # waiting: of a workflow run, of which nothing but waits is under way (it is among those
    # that are running, where a list asks for that), of a step that waits, or of a run that
    # waits for other jobs; and stuck if its deadline has passed (both are among those that are
    # pending, where a list asks for that). skipped: of a step, or of a run that never starts
    # since other jobs did not end as it asks for
    state: Literal["pending", "running", "waiting", "stuck", "retrying", "succeeded", "failed", "cancelled", "missed", "skipped"]
    tenant: str
    trigger: Literal["schedule", "manual", "retry", "backfill", "event", "dependency", "notification"]


class Run(_RunRequired, total=False):
    # What it calls, without a query: of a task, what the task says now; not in lists
    calls: str
    # Why it was cancelled, if nobody asked for that
    cancel_reason: str
    # Who made its job, as the audit log names callers; of a run that was triggered, or retried
    # outside of a workflow: who asked for that. Absent where the node asked for no keys
    created_by: str
    dead_letter: bool
    # Of a workflow run that has begun, and of a step that has a deadline: when it ends at the
    # latest. That of a workflow run is not in lists. Of a run that waits for other jobs: when
    # it is stuck
    deadline_at: str
    # While it waits: when its start will be tried that was put off, by the rate of its task,
    # since as many runs of its task were under way as may, or since its target had no room or
    # failed
    deferred_until: str
    # Why the last attempt failed that has an error, of a run that has not succeeded: what lists
    # select by error, and its first 512 bytes. Whole it is in attempts
    error: str
    # What started it, if trigger is event
    event: RunEvent
    # Why what is stored of its last attempt cannot be understood: the run counts as failed, but
    # what it came to is unknown
    fault: str
    finished_at: str
    # Of a step with for_each: which item it is, from 0
    item: int
    # Absent for a step of a workflow run
    job_id: str
    # The name of its job. Of a run that repeats another: of the job that the other is a run of
    job_name: str
    labels: dict[str, str]
    # Start of the first attempt less the later of due time and acceptance, in ms
    lateness_ms: int
    missed: Missed
    next_attempt_at: str
    # The run that it repeats
    origin: str
    # In a list only if it is at most 4 KiB
    payload: Any
    # Why the payload is absent: it is stored encrypted and cannot be opened
    payload_fault: str
    # How often it was stopped to let a critical run start (preemptible). Such a start is not
    # among the attempts: it used none up. started_at is the first start of all
    preempted: int
    # Of the attempt under way; not in lists
    progress: Progress
    # Of a step: why it was skipped, or could not be started. Of a run that would run after
    # other jobs: why it was skipped
    reason: str
    # Of a run that failed: the run that repeats it, as its dead letter was replayed. Known as
    # long as the dead letter is kept
    replayed_as: str
    started_at: str
    # Of a step: its name
    step: str
    # Of a workflow run: its steps, in the order of the workflow; not in lists
    steps: list[RunStep]
    task: str
    # Of a run that has started: what held it back last before that, and since when anything did
    waited: Waiting
    # Of a pending or retrying run whose time has come, and that may not start yet: what it
    # waits for. Of one that was cancelled before it started: what it waited for last
    waiting: Waiting
    # Of a workflow run: the workflow. Its one attempt stands for all that its steps do
    workflow: str
    # Of a step: the workflow run
    workflow_run_id: str


class _RunEventRequired(TypedDict):
    id: str
    name: str


class RunEvent(_RunEventRequired, total=False):
    pass


class _RunStepRequired(TypedDict):
    name: str
    state: Literal["pending", "running", "waiting", "retrying", "succeeded", "failed", "cancelled", "missed", "skipped"]


class RunStep(_RunStepRequired, total=False):
    after: list[str]
    # Of all items, if it has any
    attempts: int
    # Of a step that waited for an event, and has it: that event, whose publisher the audit log
    # knows. Of a run the first 20 steps that have one are told of
    event: RunEvent
    finished_at: str
    # Of a step with for_each
    items: StepItems
    # Why it waits, was skipped or failed
    reason: str
    # Its run. Absent: it has none, because it has not started, was skipped since what it comes
    # after ended otherwise, or has a run for each item
    run_id: str
    started_at: str


class _SNSTargetRequired(TypedDict):
    # Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…",
    # "session_token": "…"} (the last is optional)
    credentials: str
    region: str
    topic_arn: str


class SNSTarget(_SNSTargetRequired, total=False):
    # Instead of AWS's of the region; without a query
    endpoint: str
    # Within which a FIFO queue or topic keeps the order; absent: of one that is FIFO the job
    message_group: str
    # Of the mails to those who subscribed by e-mail
    subject: str


class _SQSTargetRequired(TypedDict):
    # Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…",
    # "session_token": "…"} (the last is optional)
    credentials: str
    # At most 512 bytes. A FIFO queue (.fifo) takes a run's message once within 5 min:
    # MessageDeduplicationId is the run's id
    queue_url: str
    region: str


class SQSTarget(_SQSTargetRequired, total=False):
    # Instead of AWS's of the region; without a query
    endpoint: str
    # Within which a FIFO queue or topic keeps the order; absent: of one that is FIFO the job
    message_group: str


class Schedule(TypedDict, total=False):
    # Of every: an instant from which the others are counted; default: creation
    anchor: str | datetime
    # When it is due, to the ms; absent or past: now; at most ten years ahead
    at: str | datetime
    # What it does on the dates of a calendar of the tenant (PUT /v1/calendars/{name})
    calendar: ScheduleCalendar
    # Five fields, or six with the second first; not beside at or every
    cron: str
    every: str | timedelta
    # Dates of the time zone on which it is not due; at most 500 of all schedules of a job.
    # Beside every, timezone says whose dates they are
    exclude: list[str]
    gap: Literal["run", "skip"]
    overlap_hour: Literal["first", "second", "both"]
    # Of cron: an IANA name; default UTC
    timezone: str


class _ScheduleCalendarRequired(TypedDict):
    # Of a calendar of the tenant
    name: str


class ScheduleCalendar(_ScheduleCalendarRequired, total=False):
    # skip (default): it is not due then; next_day, previous_day, of cron alone: it is due at
    # its time of day on the next day, or on the day before, that is none of the dates
    on: Literal["skip", "next_day", "previous_day"]


class _ScriptTargetRequired(TypedDict):
    # A name in the operator's allow list
    command: str


class ScriptTarget(_ScriptTargetRequired, total=False):
    args: list[str]


class _SigV4AuthRequired(TypedDict):
    access_key_id: str
    region: str
    # Name of the secret that holds the secret access key
    secret: str
    # As the signature names it
    service: str


class SigV4Auth(_SigV4AuthRequired, total=False):
    # Name of the secret that holds the session token of temporary credentials
    session_token_secret: str


_StepKeywordsOptional = TypedDict("_StepKeywordsOptional", {"if": "str", "lambda": "LambdaTarget"}, total=False)


class _StepRequired(TypedDict):
    # Unique in the workflow
    name: str


class Step(_StepKeywordsOptional, _StepRequired, total=False):
    # The steps that come before it; absent: it starts at once
    after: list[str]
    # How long after its start the step may take, with all its attempts
    deadline: str
    eventbridge: EventBridgeTarget
    for_each: ForEach
    guarantee: Literal["at_least_once", "at_most_once", "effectively_once"]
    http: HTTPTarget
    jetstream: JetStreamTarget
    kafka: KafkaTarget
    nats: NATSTarget
    # Any JSON, at most 64 KiB when the step starts. An object {"$from": "extract", "pointer":
    # "/files"} stands for the output of a step before it, {"$input": "/date"} for the payload
    # of the run, {"$item": ""} for the item of for_each, {"$index": true} for its number from
    # 0, {"$run": "/id"} for the run's id
    payload: Any
    # While a run with low priority is under way, a critical run that lacks a slot may take its
    # slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts
    # it). That happens to a run three times at most, and never to work other than at_least_once
    preemptible: bool
    priority: Literal["critical", "high", "normal", "low"]
    # Labels that the executor has which runs it, as the operator states them (executor.labels):
    # at most 8. While no executor has all of them its runs wait, and say so (waiting.reason
    # pool); they are tried within minutes after one has come. Absent: any executor
    requires: dict[str, str]
    retry: Retry
    script: ScriptTarget
    sns: SNSTarget
    sqs: SQSTarget
    step_functions: StepFunctionsTarget
    # The task to run; else exactly one of http, nats, script, lambda, jetstream, sqs, sns,
    # eventbridge, step_functions, kafka, wait and workflow
    task: str
    timeout: str
    wait: Wait
    # How those must have ended; default all_succeeded. A step that cannot start any more is
    # skipped: it counts as failed if one of those did, else as succeeded. always also starts
    # after a cancel of the run
    when: Literal["all_succeeded", "all_done", "any_succeeded", "any_failed", "always"]
    # The workflow to run as a step; at most 8 deep. Its output is an object of the outputs of
    # the steps that none comes after, by their names, at most 64 KiB
    workflow: str


class _StepFunctionsTargetRequired(TypedDict):
    # Name of the secret that holds {"access_key_id": "…", "secret_access_key": "…",
    # "session_token": "…"} (the last is optional)
    credentials: str
    region: str
    # Its ARN, with a version or alias after a colon. The input is the payload, and the
    # execution's name is the run's id: it is started once
    state_machine: str


class StepFunctionsTarget(_StepFunctionsTargetRequired, total=False):
    # Instead of AWS's of the region; without a query
    endpoint: str


class _StepItemsRequired(TypedDict):
    # How many are pending, running, retrying, succeeded, failed, cancelled. Items that have no
    # run yet are in none
    states: dict[str, int]
    total: int


class StepItems(_StepItemsRequired, total=False):
    pass


_TaskKeywordsOptional = TypedDict("_TaskKeywordsOptional", {"lambda": "LambdaTarget"}, total=False)


class _TaskRequired(TypedDict):
    name: str


class Task(_TaskKeywordsOptional, _TaskRequired, total=False):
    created_at: str
    description: str
    eventbridge: EventBridgeTarget
    # Why what is stored of it cannot be understood: then nothing but its name is known, and its
    # runs fail until it is put again
    fault: str
    guarantee: str
    http: HTTPTarget
    jetstream: JetStreamTarget
    kafka: KafkaTarget
    # How many runs of the task may be under way at once, in the whole cluster; absent: any
    # number. Runs beyond wait, about in the order in which they are due: deferred_until says
    # when they will be tried next. A change is in force within seconds; runs that were begun
    # before are not stopped
    max_concurrent: int
    nats: NATSTarget
    # What payloads must fit when jobs are written: a JSON Schema 2020-12 of at most 16 KiB.
    # format is an annotation, patterns are Go's (RE2), references stay within it. No payload
    # counts as null. A changed schema leaves jobs that were written before alone
    payload_schema: dict[str, Any]
    # While a run with low priority is under way, a critical run that lacks a slot may take its
    # slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts
    # it). That happens to a run three times at most, and never to work other than at_least_once
    preemptible: bool
    # How many runs of the task may start in a second, a minute or an hour, in the whole
    # cluster: at most 100000 a second. Attempts after the first count. Runs beyond wait: their
    # due time stays what it was, and deferred_until says when they will be tried. A change is
    # in force after a few seconds, at most a minute
    rate: str
    # The home at which one-off jobs of the task lie that name none, have no key and wait for no
    # other, unless the task has a rate or a limit. With require, all runs of the task wait
    # until that region serves them; jobs whose home is another one are refused
    region: str | dict[str, Any]
    # Labels that the executor has which runs it, as the operator states them (executor.labels):
    # at most 8. While no executor has all of them its runs wait, and say so (waiting.reason
    # pool); they are tried within minutes after one has come. Absent: any executor
    requires: dict[str, str]
    retry: Retry
    script: ScriptTarget
    sns: SNSTarget
    sqs: SQSTarget
    step_functions: StepFunctionsTarget
    timeout: str
    updated_at: str


_TaskRequestKeywordsOptional = TypedDict("_TaskRequestKeywordsOptional", {"lambda": "LambdaTarget"}, total=False)


class TaskRequest(_TaskRequestKeywordsOptional, total=False):
    # At most 1024 bytes
    description: str
    eventbridge: EventBridgeTarget
    guarantee: Literal["at_least_once", "at_most_once", "effectively_once"]
    http: HTTPTarget
    jetstream: JetStreamTarget
    kafka: KafkaTarget
    # How many runs of the task may be under way at once, in the whole cluster; absent: any
    # number. Runs beyond wait, about in the order in which they are due: deferred_until says
    # when they will be tried next. A change is in force within seconds; runs that were begun
    # before are not stopped
    max_concurrent: int
    nats: NATSTarget
    # What payloads must fit when jobs are written: a JSON Schema 2020-12 of at most 16 KiB.
    # format is an annotation, patterns are Go's (RE2), references stay within it. No payload
    # counts as null. A changed schema leaves jobs that were written before alone
    payload_schema: dict[str, Any]
    # While a run with low priority is under way, a critical run that lacks a slot may take its
    # slot: the call is stopped, uses no attempt, and starts again (preempted of a run counts
    # it). That happens to a run three times at most, and never to work other than at_least_once
    preemptible: bool
    # How many runs of the task may start in a second, a minute or an hour, in the whole
    # cluster: at most 100000 a second. Attempts after the first count. Runs beyond wait: their
    # due time stays what it was, and deferred_until says when they will be tried. A change is
    # in force after a few seconds, at most a minute
    rate: str
    # The home at which one-off jobs of the task lie that name none, have no key and wait for no
    # other, unless the task has a rate or a limit. With require, all runs of the task wait
    # until that region serves them; jobs whose home is another one are refused
    region: str | dict[str, Any]
    # Labels that the executor has which runs it, as the operator states them (executor.labels):
    # at most 8. While no executor has all of them its runs wait, and say so (waiting.reason
    # pool); they are tried within minutes after one has come. Absent: any executor
    requires: dict[str, str]
    retry: Retry
    script: ScriptTarget
    sns: SNSTarget
    sqs: SQSTarget
    step_functions: StepFunctionsTarget
    timeout: str | timedelta


class TriggerRequest(TypedDict, total=False):
    # The input of the run: any JSON, at most 64 KiB; absent: the workflow's
    payload: Any


class _UniqueRequestRequired(TypedDict):
    # From the creation of the first job on, from 1s to 744h; it may last up to 5s longer
    window: str | timedelta


class UniqueRequest(_UniqueRequestRequired, total=False):
    # What makes two jobs the same, besides the tenant and what they run: task (nothing else),
    # payload, payload/… (a JSON pointer into the payload: payload/customer/id), labels or
    # labels/NAME. A part that is absent counts as one. Default: task, payload
    by: list[str]


_WaitKeywordsOptional = TypedDict("_WaitKeywordsOptional", {"for": "str"}, total=False)


class Wait(_WaitKeywordsOptional, total=False):
    # Of event: how long; then the step fails
    deadline: str
    # For the event of this name
    event: str
    # Of event: a CEL expression over event and input
    filter: str
    # Until this instant
    until: str


class _WaitingRequired(TypedDict):
    # A word and what it means. jobs: those that it runs after. event, time: what a step waits
    # for. concurrency: the limit of its job. rate, limit: those of its task. slot: the time
    # that the rate gave it has come; it waits for a slot of the limit of its task, of a quota,
    # of its target or of an executor. quota: one of its tenant, of runs at once or of runs a
    # minute. breaker: its target failed again and again. target_share, tenant_share: slow calls
    # to its target, or of its tenant, have their part of the slots. region: its region alone
    # may run it, and another serves its home now. pool: no executor that it reached has the
    # labels that it requires
    reason: str
    since: str


class Waiting(_WaitingRequired, total=False):
    pass


class _WorkflowRequired(TypedDict):
    # How long after its due time a run ends at the latest
    deadline: str
    # Grows with every change; 0 in a dry run, of a workflow that does not exist
    generation: int
    id: str
    misfire: JobMisfire
    name: str
    priority: str
    state: Literal["active", "paused", "cancelled", "finished"]
    tenant: str


class Workflow(_WorkflowRequired, total=False):
    concurrency: Concurrency
    created_at: str
    # As of a job
    created_by: str
    # As of a job
    durability: Literal["home", "everywhere"]
    # No run from it on; that of max_runs, if it is earlier
    end: str
    # Why the workflow does not go on, though it is active: what is stored of it is not
    # understood by this node
    fault: str
    # The window of the workflow's own offset, which is the same for all its runs
    jitter: str
    labels: dict[str, str]
    max_runs: int
    next_run: NextRun
    # Which events start a run; such a workflow has no schedule
    on: EventTrigger
    pause_on_failure: PauseOnFailure
    # Why the workflow is paused, if nobody has paused it
    paused_because: str
    # The input of scheduled runs, and of others that state none
    payload: Any
    # Absent: it runs when it is asked to, or has several
    schedule: JobSchedule
    # Instead of one: it is due when any of them is, once at each instant
    schedules: list[JobSchedule]
    # No run before it
    start: str
    # Not in lists
    steps: list[Step]
    updated_at: str
    # In a list that asks for it: which of its runs wait for events, by the events that its
    # definition names now
    waiting: list[WorkflowWaiting]


class _WorkflowRequestRequired(TypedDict):
    # In any order: after says which come before which
    steps: list[Step]


class WorkflowRequest(_WorkflowRequestRequired, total=False):
    # How many runs may be under way at once; runs that are steps of other workflows do not
    # count. Absent: any number
    concurrency: Concurrency
    # How long after its due time a run may take as a whole; absent: 168h
    deadline: str | timedelta
    # When this workflow, and its changes, are acknowledged, where there are regions. home: once
    # the region that serves the home holds it; one that is lost for good loses what it wrote in
    # its last moments. everywhere: once every region holds it, and 503 while one of them does
    # not answer; guarded runs are then not started unless every region knows. Of a job it
    # counts before that of its import, and that before its tenant's. 422: everywhere, and the
    # cluster has no regions
    durability: Literal["home", "everywhere"]
    # No scheduled run from it on
    end: str | datetime
    jitter: str | timedelta
    # At most 16
    labels: dict[str, str]
    # Paused and missed runs count
    max_runs: int
    misfire: Misfire
    # If stated, that of the path
    name: str
    on: EventTrigger
    pause_on_failure: PauseOnFailure
    # The input of scheduled runs, and of others that state none: any JSON, at most 64 KiB.
    # {"$run": "/id"} and {"$run": "/nominal_at"} stand for the run's
    payload: Any
    priority: Literal["critical", "high", "normal", "low"]
    # By cron or every; absent: it runs when it is asked to
    schedule: Schedule
    schedules: list[Schedule]
    # No scheduled run before it
    start: str | datetime


class _WorkflowWaitingRequired(TypedDict):
    event: str
    runs: int


class WorkflowWaiting(_WorkflowWaitingRequired, total=False):
    # There may be more: not all that wait for the event were looked at
    more: bool

