import type { Role } from './clients.ts'

/** Roles that may use a route besides the controller, which may use all of them. */
type Others = readonly Exclude<Role, 'controller'>[]

const CONTROLLER_ONLY: Others = []
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
  'GET /v1/maintenance': READERS,
  'GET /v1/vms': READERS,
  'GET /v1/vm-states': READERS,
  'GET /v1/vms/:id': ALL,
  'GET /v1/vms/:id/plan': READERS,
  'GET /v1/vms/:id/counters': READERS,
  'GET /v1/vms/:id/events': READERS,
  'GET /v1/events': READERS,
  'GET /v1/snapshots': READERS,
  'GET /v1/snapshots/:id': READERS,
  'GET /v1/images': READERS,

  'GET /v1/vms/:id/console': CONSOLES,
  'GET /v1/vms/:id/console/log': CONSOLES,
  // The way to the pages. What a page shows, it asks for with the certificate of its reader.
  'GET /': ALL,
  'GET /ui': ALL,
  'GET /ui/': ALL,
  'GET /ui/vms.css': ALL,
  'GET /ui/vms.js': ALL,
  'GET /ui/console/:id': CONSOLES,
  'GET /ui/console.css': ALL,
  'GET /ui/console.js': ALL,

  'PUT /v1/maintenance': CONTROLLER_ONLY,
  'PUT /v1/vms/:id': CONTROLLER_ONLY,
  'DELETE /v1/vms/:id': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/arrival': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/boot': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/compute': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/disk': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/exit': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/keep-awake': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/metadata': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/migration': CONTROLLER_ONLY,
  'DELETE /v1/vms/:id/migration': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/network': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/power': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/readiness': CONTROLLER_ONLY,
  'POST /v1/vms/:id/reboot': CONTROLLER_ONLY,
  'POST /v1/vms/:id/rebuild': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/resize': CONTROLLER_ONLY,
  'PUT /v1/vms/:id/seed': CONTROLLER_ONLY,
  'PUT /v1/snapshots/:id': CONTROLLER_ONLY,
  'DELETE /v1/snapshots/:id': CONTROLLER_ONLY,
  'PUT /v1/snapshots/:id/upload': CONTROLLER_ONLY,
  'POST /v1/snapshots/:id/complete': CONTROLLER_ONLY,
  'DELETE /v1/images/:sha256': CONTROLLER_ONLY,
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
