// The views that few open: in which jobs, tasks and workflows are written, and what is set up once.
// They are a file of their own, which is loaded with the first of them.

export { Import } from './views/Import';
export { JobEdit, JobNew } from './views/JobForm';
export { Keys } from './views/Keys';
export { Quotas } from './views/Quotas';
export { Secrets } from './views/Secrets';
export { SigningKeys } from './views/SigningKeys';
export { TaskForm } from './views/TaskForm';
export { TenantView } from './views/Tenant';
export { Tenants } from './views/Tenants';
export { WorkflowForm } from './views/WorkflowForm';
