// The views that few open: in which logs are searched, in which jobs, tasks and workflows are written, what
// is set up once, and what only clusters with regions have. They are a file of their own, which is loaded
// with the first of them.

export { ClusterRegions } from './views/ClusterRegions';
export { Import } from './views/Import';
export { JobEdit, JobNew } from './views/JobForm';
export { Keys } from './views/Keys';
export { Logs } from './views/Logs';
export { NotificationForm } from './views/NotificationForm';
export { Notifications } from './views/Notifications';
export { NotificationView } from './views/Notification';
export { Quotas } from './views/Quotas';
export { Secrets } from './views/Secrets';
export { SigningKeys } from './views/SigningKeys';
export { TaskForm } from './views/TaskForm';
export { TenantView } from './views/Tenant';
export { Tenants } from './views/Tenants';
export { WorkflowForm } from './views/WorkflowForm';
