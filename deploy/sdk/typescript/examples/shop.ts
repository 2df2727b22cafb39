// A shop that reminds its customers: what creates jobs, and what runs them. test/examples.test.ts tests it without a
// server; worker.ts runs its worker.

import { type Client, defineJob } from "../src/index.js"; // "carillon-client"
import { Final, RetryAfter, type Run } from "../src/worker.js"; // "carillon-client/worker"

export interface Reminder {
  order: number;
  to: string;
}

export const remindJob = defineJob<Reminder>("remind", {
  subject: "work.remind",
  read(value) {
    const { order, to } = value as Partial<Reminder>;
    if (typeof order !== "number" || typeof to !== "string") throw new TypeError("want order and to");
    return { order, to };
  },
});

export class Shop {
  constructor(private readonly carillon: Client) {}

  /** Takes an order; its customer is reminded in two days. The key keeps a second try from reminding twice. */
  async order(order: number, to: string, now: Date): Promise<string> {
    const at = new Date(now.getTime() + 2 * 86_400_000);
    const job = await this.carillon.jobs.create(remindJob.job({ order, to }, { at }), { idempotencyKey: `remind-${order}` });
    return job.id;
  }

  async paid(reminder: string): Promise<void> {
    await this.carillon.jobs.cancel(reminder);
  }
}

/** Sends a reminder. A run may come twice: whatever sends mail should know run.id. */
export function remind(run: Run<Reminder>): { sent: string } {
  const { order, to } = run.payload;
  if (!to.includes("@")) throw new Final(`${to} is no address`);
  if (to.endsWith("@busy.example") && run.attempt === 1) throw new RetryAfter("the mail server asks to come later", 60);
  run.log(`reminding ${to} of order ${order}`);
  return { sent: to };
}
