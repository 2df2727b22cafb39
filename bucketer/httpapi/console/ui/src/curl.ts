// Requests as a person would type them. Pure.

export interface CurlRequest {
  method: string;
  url: string;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
}

/** Quotes a text for a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A request as a command. With a key, it is read from the environment: it is never shown. */
export function curlText(request: CurlRequest, options: { key: boolean }): string {
  const parts = ['curl -sS'];
  if (request.method !== 'GET' && !(request.method === 'POST' && request.body !== undefined)) {
    parts.push(`-X ${request.method}`);
  }
  parts.push(quoted(request.url));
  if (options.key) {
    parts.push('-H "Authorization: Bearer $CARILLON_KEY"');
  }
  for (const [name, value] of Object.entries(request.headers ?? {})) {
    parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  }
  if (request.body !== undefined) {
    parts.push(`-H ${quoted('Content-Type: application/json')}`, `-d ${quoted(JSON.stringify(request.body))}`);
  }
  return parts.join(' \\\n  ');
}
