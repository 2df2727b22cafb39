// Which view is at which path. The first that matches is shown.

import type { ComponentType } from 'preact';
import { later } from './parts/Later';
import { match, type Params } from './place';
import { Audit } from './views/Audit';
import { Cluster } from './views/Cluster';
import { Coming } from './views/Coming';
import { DeadLetter } from './views/DeadLetter';
import { DeadLetters } from './views/DeadLetters';
import { Events } from './views/Events';
import { JobView } from './views/Job';
import { Jobs } from './views/Jobs';
import { Nowhere } from './views/Nowhere';
import { OperationView } from './views/Operation';
import { Operations } from './views/Operations';
import { Overview } from './views/Overview';
import { RunView } from './views/Run';
import { Runs } from './views/Runs';
import { TaskView } from './views/Task';
import { Tasks } from './views/Tasks';
import { WorkflowView } from './views/Workflow';
import { WorkflowRun } from './views/WorkflowRun';
import { Workflows } from './views/Workflows';

/** What a view gets: the parameters of its path. Its query it reads itself, from router.ts. */
export interface ViewParams {
  params: Params;
}

export interface Route {
  pattern: string;
  view: ComponentType<ViewParams>;
}

const load = (): Promise<typeof import('./later')> => import('./later');
const Import = later(load, (file) => file.Import);
const JobEdit = later(load, (file) => file.JobEdit);
const JobNew = later(load, (file) => file.JobNew);
const Keys = later(load, (file) => file.Keys);
const Logs = later(load, (file) => file.Logs);
const NotificationForm = later(load, (file) => file.NotificationForm);
const Notifications = later(load, (file) => file.Notifications);
const NotificationView = later(load, (file) => file.NotificationView);
const Quotas = later(load, (file) => file.Quotas);
const Secrets = later(load, (file) => file.Secrets);
const SigningKeys = later(load, (file) => file.SigningKeys);
const TaskForm = later(load, (file) => file.TaskForm);
const TenantView = later(load, (file) => file.TenantView);
const Tenants = later(load, (file) => file.Tenants);
const WorkflowForm = later(load, (file) => file.WorkflowForm);

export const routes: readonly Route[] = [
  { pattern: '/', view: Overview },
  { pattern: '/coming', view: Coming },
  { pattern: '/runs', view: Runs },
  { pattern: '/runs/:id', view: RunView },
  { pattern: '/logs', view: Logs },
  { pattern: '/jobs', view: Jobs },
  { pattern: '/jobs/new', view: JobNew },
  { pattern: '/jobs/:id', view: JobView },
  { pattern: '/jobs/:id/edit', view: JobEdit },
  { pattern: '/workflows', view: Workflows },
  { pattern: '/workflows/new', view: WorkflowForm },
  { pattern: '/workflows/:name', view: WorkflowView },
  { pattern: '/workflows/:name/edit', view: WorkflowForm },
  { pattern: '/workflow-runs/:id', view: WorkflowRun },
  { pattern: '/tasks', view: Tasks },
  { pattern: '/tasks/new', view: TaskForm },
  { pattern: '/tasks/:name', view: TaskView },
  { pattern: '/tasks/:name/edit', view: TaskForm },
  { pattern: '/dead-letters', view: DeadLetters },
  { pattern: '/dead-letters/:id', view: DeadLetter },
  { pattern: '/operations', view: Operations },
  { pattern: '/operations/:id', view: OperationView },
  { pattern: '/import', view: Import },
  { pattern: '/events', view: Events },
  { pattern: '/notifications', view: Notifications },
  { pattern: '/notifications/new', view: NotificationForm },
  { pattern: '/notifications/:name', view: NotificationView },
  { pattern: '/notifications/:name/edit', view: NotificationForm },
  { pattern: '/secrets', view: Secrets },
  { pattern: '/tenants', view: Tenants },
  { pattern: '/tenants/:name', view: TenantView },
  { pattern: '/keys', view: Keys },
  { pattern: '/quotas', view: Quotas },
  { pattern: '/signing-keys', view: SigningKeys },
  { pattern: '/audit', view: Audit },
  { pattern: '/cluster', view: Cluster },
];

const nowhere: Route = { pattern: '', view: Nowhere };

export function routeOf(path: string): { route: Route; params: Params } {
  for (const route of routes) {
    const params = match(route.pattern, path);
    if (params) {
      return { route, params };
    }
  }
  return { route: nowhere, params: {} };
}
