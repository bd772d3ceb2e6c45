import type { Role } from './clients.ts'

/** Roles that may use a route besides the controller, which may use all of them. */
type Others = readonly Exclude<Role, 'controller'>[]

const NOBODY_ELSE: Others = []
const READERS: Others = ['reader']
const CONSOLES: Others = ['console']
const ALL: Others = ['reader', 'console']

/**
 * Roles of each route, in the one place that says so. A route that is not here keeps the API from being made. Answers
 * hold no user data, keys or URLs for anyone, so a reader gets the same ones as the controller.
 */
const routes: Readonly<Record<string, Others>> = {
  'GET /healthz': ALL,
  'GET /readyz': ALL,
  'GET /docs': ALL,
  'GET /docs/errors': ALL,
  'GET /docs/scalar.js': ALL,
  'GET /docs/start.js': ALL,
  'GET /docs/swagger.json': ALL,

  'GET /metrics': READERS,
  'GET /v1/sync': READERS,
  'GET /v1/vms': READERS,
  'GET /v1/vms/:id': ALL,
  'GET /v1/vms/:id/plan': READERS,
  'GET /v1/vms/:id/counters': READERS,
  'GET /v1/vms/:id/events': READERS,
  'GET /v1/events': READERS,
  'GET /v1/snapshots': READERS,
  'GET /v1/snapshots/:id': READERS,
  'GET /v1/images': READERS,

  'GET /v1/vms/:id/console': CONSOLES,
  'GET /ui/console/:id': CONSOLES,
  'GET /ui/console.css': ALL,
  'GET /ui/console.js': ALL,

  'PUT /v1/vms/:id': NOBODY_ELSE,
  'DELETE /v1/vms/:id': NOBODY_ELSE,
  'PUT /v1/vms/:id/arrival': NOBODY_ELSE,
  'PUT /v1/vms/:id/boot': NOBODY_ELSE,
  'PUT /v1/vms/:id/compute': NOBODY_ELSE,
  'PUT /v1/vms/:id/disk': NOBODY_ELSE,
  'PUT /v1/vms/:id/exit': NOBODY_ELSE,
  'PUT /v1/vms/:id/keep-awake': NOBODY_ELSE,
  'PUT /v1/vms/:id/metadata': NOBODY_ELSE,
  'PUT /v1/vms/:id/migration': NOBODY_ELSE,
  'DELETE /v1/vms/:id/migration': NOBODY_ELSE,
  'PUT /v1/vms/:id/network': NOBODY_ELSE,
  'PUT /v1/vms/:id/power': NOBODY_ELSE,
  'PUT /v1/vms/:id/readiness': NOBODY_ELSE,
  'POST /v1/vms/:id/reboot': NOBODY_ELSE,
  'POST /v1/vms/:id/rebuild': NOBODY_ELSE,
  'PUT /v1/vms/:id/resize': NOBODY_ELSE,
  'PUT /v1/vms/:id/seed': NOBODY_ELSE,
  'PUT /v1/snapshots/:id': NOBODY_ELSE,
  'DELETE /v1/snapshots/:id': NOBODY_ELSE,
  'PUT /v1/snapshots/:id/upload': NOBODY_ELSE,
  'POST /v1/snapshots/:id/complete': NOBODY_ELSE,
  'DELETE /v1/images/:sha256': NOBODY_ELSE,
}

/** The routes that the table names, such as `GET /v1/vms/:id`. */
export const namedRoutes: readonly string[] = Object.keys(routes)

/** Returns the roles that may use a route, the controller first. Throws if the table does not name the route. */
export function rolesFor(method: string, url: string): readonly Role[] {
  const name = `${method === 'HEAD' ? 'GET' : method} ${url}`
  const others = routes[name]
  if (others === undefined)
    throw new Error(`${name} is not in src/api/controller/access.ts: say there which roles may use it`)
  return ['controller', ...others]
}
