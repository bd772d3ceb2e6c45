/**
 * Roles as they must be, written here once more: the table in `src/api/controller/access.ts` is compared with it. A
 * console client gets to its VM, its console and the pages around it, and to nothing else.
 */

const FOR_CONSOLES: ReadonlySet<string> = new Set([
  'GET /healthz',
  'GET /readyz',
  'GET /docs',
  'GET /docs/errors',
  'GET /docs/scalar.js',
  'GET /docs/start.js',
  'GET /docs/swagger.json',
  'GET /',
  'GET /ui',
  'GET /ui/',
  'GET /ui/vms.css',
  'GET /ui/vms.js',
  'GET /ui/console.css',
  'GET /ui/console.js',
  'GET /ui/console/:id',
  'GET /v1/vms/:id',
  'GET /v1/vms/:id/console',
  'GET /v1/vms/:id/console/log',
])

/** Reads that are not for a reader: these lead into a guest, or show what it wrote. */
const NOT_FOR_READERS: ReadonlySet<string> = new Set([
  'GET /ui/console/:id',
  'GET /v1/vms/:id/console',
  'GET /v1/vms/:id/console/log',
])

/** Returns the roles that may use a route, such as `GET /v1/vms/:id`. */
export const expectedRoles = (route: string): readonly string[] => [
  'controller',
  ...(route.startsWith('GET ') && !NOT_FOR_READERS.has(route) ? ['reader'] : []),
  ...(FOR_CONSOLES.has(route) ? ['console'] : []),
]
