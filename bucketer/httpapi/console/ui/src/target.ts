// What a task does when it runs, in a few words. Pure.

export interface WorkLike {
  http?: { method?: string | undefined; url: string; auth?: object | undefined } | undefined;
  nats?: { subject: string } | undefined;
  script?: { command: string; args?: readonly string[] | null | undefined } | undefined;
  lambda?: { function: string; region?: string | undefined } | undefined;
  jetstream?: { subject: string } | undefined;
  sqs?: { queue_url: string } | undefined;
  sns?: { topic_arn: string } | undefined;
  eventbridge?: { bus?: string | undefined; source: string; detail_type: string } | undefined;
  step_functions?: { state_machine: string } | undefined;
  kafka?: { topic: string } | undefined;
}

/** Messages: work whose callee is a queue, a topic, a stream or a state machine. */
export const messageKinds = ['jetstream', 'kafka', 'sqs', 'sns', 'eventbridge', 'step_functions'] as const;
export type MessageKind = (typeof messageKinds)[number];

export type WorkKind = 'http' | 'nats' | 'script' | 'lambda' | MessageKind;

export const workKinds: readonly { value: WorkKind; text: string }[] = [
  { value: 'http', text: 'HTTP call' },
  { value: 'nats', text: 'NATS request' },
  { value: 'script', text: 'Script of the operator’s list' },
  { value: 'lambda', text: 'AWS Lambda function' },
  { value: 'jetstream', text: 'JetStream message' },
  { value: 'kafka', text: 'Kafka record' },
  { value: 'sqs', text: 'AWS SQS message' },
  { value: 'sns', text: 'AWS SNS message' },
  { value: 'eventbridge', text: 'AWS EventBridge event' },
  { value: 'step_functions', text: 'AWS Step Functions execution' },
];

export function workKindOf(work: WorkLike): WorkKind | undefined {
  return workKinds.find((k) => work[k.value] !== undefined)?.value;
}

/** "POST https://example.com/hook", "NATS work.email". */
export function targetWords(work: WorkLike): string {
  if (work.http) {
    return `${work.http.method ?? 'POST'} ${work.http.url}`;
  }
  if (work.nats) {
    return `NATS ${work.nats.subject}`;
  }
  if (work.script) {
    return ['script', work.script.command, ...(work.script.args ?? [])].join(' ');
  }
  if (work.lambda) {
    return `Lambda ${work.lambda.function}${work.lambda.region ? ` in ${work.lambda.region}` : ''}`;
  }
  return messageWords(work);
}

/** "Kafka orders.due", "SQS jobs.fifo". */
function messageWords(work: WorkLike): string {
  if (work.jetstream) {
    return `JetStream ${work.jetstream.subject}`;
  }
  if (work.kafka) {
    return `Kafka ${work.kafka.topic}`;
  }
  if (work.sqs) {
    return `SQS ${work.sqs.queue_url.replace(/^.*\//, '')}`;
  }
  if (work.sns) {
    return `SNS ${work.sns.topic_arn.replace(/^.*:/, '')}`;
  }
  if (work.eventbridge) {
    return `EventBridge ${work.eventbridge.source} ${work.eventbridge.detail_type}`;
  }
  return work.step_functions ? `Step Functions ${work.step_functions.state_machine.replace(/^.*:stateMachine:/, '')}` : '';
}

/** How calls show who makes them, in a word; "" for not at all. */
export function authWords(work: WorkLike): string {
  const kind = Object.keys(work.http?.auth ?? {})[0];
  const known: Record<string, string> = {
    bearer: 'bearer token',
    basic: 'user and password',
    header: 'a header',
    oauth2_client_credentials: 'OAuth 2 client credentials',
    aws_sigv4: 'AWS signature',
    mtls: 'client certificate',
    body_field: 'a field of the body',
  };
  return kind === undefined ? '' : (known[kind] ?? kind);
}

/** The host of a target that HTTP calls go to, with its port where that is stated; undefined: it is none. */
export function hostOf(target: string): string | undefined {
  return /^https?:\/\/([^/?#]+)/.exec(target)?.[1]?.toLowerCase();
}
