// The way to the views.

import { firstVersion, maySee, maySeeAll, who } from '../api/session';
import { href, place } from '../router';

interface Entry {
  name: string;
  path: string;
  /** Whether the person may see it. */
  seen?: () => boolean;
}

const groups: readonly { name: string; entries: readonly Entry[] }[] = [
  {
    name: 'Now',
    entries: [
      { name: 'Overview', path: '/' },
      { name: 'Coming hour', path: '/coming' },
      { name: 'Runs', path: '/runs' },
      { name: 'Logs', path: '/logs' },
      { name: 'Dead letters', path: '/dead-letters' },
      { name: 'Operations', path: '/operations' },
    ],
  },
  {
    name: 'Work',
    entries: [
      { name: 'Jobs', path: '/jobs' },
      { name: 'Workflows', path: '/workflows' },
      { name: 'Tasks', path: '/tasks' },
      { name: 'Events', path: '/events' },
      { name: 'Import', path: '/import' },
    ],
  },
  {
    name: 'Settings',
    entries: [
      { name: 'Notifications', path: '/notifications' },
      { name: 'Secrets', path: '/secrets' },
      { name: 'Signing keys', path: '/signing-keys', seen: () => maySee('admin') },
      { name: 'API keys', path: '/keys', seen: () => maySee('admin') },
      { name: 'Quotas', path: '/quotas' },
      { name: 'Tenants', path: '/tenants', seen: maySeeAll },
      { name: 'Audit', path: '/audit', seen: () => maySee('admin') },
    ],
  },
  {
    name: 'System',
    entries: [{ name: 'Cluster', path: '/cluster', seen: maySeeAll }],
  },
];

/** Views that belong to a list of another name. */
const under: Record<string, string> = { '/workflow-runs': '/workflows' };

export function Sidebar({ open, onGo }: { open: boolean; onGo: () => void }) {
  const list = '/' + (place.value.path.split('/')[1] ?? '');
  const at = under[list] ?? list;
  const w = who.value;
  return (
    <nav id="views" class={`sidebar ${open ? 'open' : ''}`} aria-label="Views" onClick={onGo}>
      <a class="brand" href={href('/')}>
        <img src="./icon.svg" alt="" />
        Carillon
      </a>
      {groups.map((group) => {
        const seen = group.entries.filter((entry) => entry.seen?.() ?? true);
        return (
          seen.length > 0 && (
            <div key={group.name} class="nav-group">
              <h2 id={`views-${group.name}`}>{group.name}</h2>
              <ul aria-labelledby={`views-${group.name}`}>
                {seen.map((entry) => (
                  <li key={entry.path}>
                    <a href={href(entry.path)} aria-current={entry.path === at ? 'page' : undefined}>
                      {entry.name}
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          )
        );
      })}
      <div class="sidebar-foot">
        <p>
          <a class="underlined" href="../docs">
            API
          </a>
        </p>
        {w?.node && (
          <p>
            node {w.node}
            <br />
            version {firstVersion.value}
          </p>
        )}
      </div>
    </nav>
  );
}
