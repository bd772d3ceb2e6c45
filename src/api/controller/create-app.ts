import { createApp } from '../listener/create-app.ts'
import { namedSchemas } from '../wire/named.ts'
import { consolePageRoutes } from './routes/console-page.ts'
import { hostPageRoutes } from './routes/host-page.ts'
import { consoleLogRoute } from './routes/console-log.ts'
import { consoleRoute } from './routes/console.ts'
import { docsRoutes } from './routes/docs.ts'
import { eventRoutes, EVENTS_DESCRIPTION } from './routes/events.ts'
import { healthRoutes } from '../listener/health.ts'
import { imageRoutes } from './routes/images.ts'
import { maintenanceRoutes } from './routes/maintenance.ts'
import { snapshotChangeRoutes } from './routes/snapshot-changes.ts'
import { snapshotReadRoutes } from './routes/snapshot-reads.ts'
import { syncRoutes } from './routes/sync.ts'
import { vmChangeRoutes } from './routes/vm-changes.ts'
import { vmMigrationRoutes } from './routes/vm-migration.ts'
import { vmShapeRoutes } from './routes/vm-shape.ts'
import { vmReadRoutes } from './routes/vm-reads.ts'
import { vmStateRoutes } from './routes/vm-states.ts'
import { guardRoles } from './guard-roles.ts'
import { given } from '../../lib/given.ts'
import { metricsRoute } from '../metrics/metrics-route.ts'
import { acceptUpgrades } from './upgrade.ts'
import { findVersions } from './versions.ts'
import { SNAPSHOTS_DESCRIPTION } from './routes/snapshot-parts.ts'
import type { App, Transport } from '../listener/app.ts'
import type { Pages } from '../listener/problem-page.ts'
import type { ApiDependencies } from './dependencies.ts'
import type { ApiDescription } from '../listener/openapi.ts'

export const controllerPages: Pages = { prefix: '/ui', home: '/ui/', homeWords: 'Start page' }

/** Creates the controller API on a transport, ready but not listening. */
export const createControllerApp = (dependencies: ApiDependencies, transport: Transport): Promise<App> =>
  createApp({
    transport,
    description: describeController(dependencies.version),
    reference: '/docs',
    schemas: namedSchemas,
    pages: controllerPages,
    findVersions: findVersions(dependencies),
    prepare: (app) => acceptUpgrades(app, dependencies.log),
    addRoutes(routes) {
      guardRoles(routes, dependencies)
      healthRoutes(routes, dependencies)
      syncRoutes(routes, dependencies)
      maintenanceRoutes(routes, dependencies)
      vmReadRoutes(routes, dependencies)
      vmStateRoutes(routes, dependencies)
      vmChangeRoutes(routes, dependencies)
      vmMigrationRoutes(routes, dependencies)
      vmShapeRoutes(routes, dependencies)
      snapshotReadRoutes(routes, dependencies)
      snapshotChangeRoutes(routes, dependencies)
      imageRoutes(routes, dependencies)
      eventRoutes(routes, dependencies)
      consoleRoute(routes, dependencies)
      consoleLogRoute(routes, dependencies)
      hostPageRoutes(routes, dependencies)
      consolePageRoutes(routes, dependencies)
      metricsRoute(routes, 'Host', dependencies.metrics)
      docsRoutes(routes, dependencies)
    },
    ...given({ onAnswered: dependencies.onAnswered }),
    log: dependencies.log,
  })

const DESCRIPTION = `Runs microVMs on one host.

**Every mutation stores what is desired and answers at once.** The host follows by itself. A VM nests two objects,
\`desired\` and \`observed\`; poll \`GET /v1/vms/{id}\` until \`generations.desired\` and \`generations.observed\` are equal. If
\`observed\` stays behind, \`observed.error\` says why; the daemon keeps trying.

A mutation that changes something answers 202; one that changes nothing answers 200. A deletion of what is gone answers 204, and so
does each deletion of a snapshot. A change of what a VM is desired to be raises its desired generation; labels, protection and
\`PUT …/keep-awake\` raise its revision alone.

Repeating a request is safe, except a reboot or a rebuild: one that is done begins again, unless both requests have the same
\`If-Match\`. Send \`If-Match\` with the \`ETag\` of an earlier answer to change only what you have seen, and \`?dry_run=true\` to
learn what a mutation would do. \`If-None-Match: *\` creates only what is not there yet. \`If-None-Match\` with \`Prefer: wait=N\` makes reading a VM or a snapshot a long poll.

A request that changes a part of a VM leaves out what stays: an absent member stays as it is stored, and \`null\` removes one that
may be absent. Lists, labels, \`bandwidth\` and \`firewall\` are replaced as a whole.

A member of a VM has the same name and form in the request and in the answer, with these exceptions: \`state\` of \`PUT …/power\` is
\`desired.power\`, \`check\` of \`PUT …/readiness\` is \`desired.readiness\`, and \`until\` of \`PUT …/keep-awake\` is \`keep_awake_until\`.
An image is answered by its digest, without its URL, and is in \`desired.image\`, whatever the request. \`user_data\` and
\`ssh_authorized_keys\` are never answered.

**A later version of the daemon may add to what clients read.** Each object of an answer may have further members, and
so may events and the messages of a console: pass over those that you do not know. A new value of a string may come, such as a
state, a reason or a stage: treat it as something else than the values that you know.

Errors are \`application/problem+json\`; decide on \`code\`, and see [all codes](/docs/errors). Unknown members, wrong types and
unknown query parameters are refused. Bodies have at most 1 MiB. Times are RFC 3339 in UTC.

Every request needs a client certificate. The controller's may do everything; those of other clients have a role, and each operation says
which roles it is for.`

/** Returns the parts of the OpenAPI document that routes do not have. */
const describeController = (version: string): ApiDescription => ({
  title: 'vmhostd',
  version,
  text: DESCRIPTION,
  tags: [
    { name: 'VMs', description: 'Virtual machines.' },
    { name: 'Snapshots', description: SNAPSHOTS_DESCRIPTION },
    {
      name: 'Images',
      description: 'The images of VMs. The host fetches them into the pool when a VM needs them.',
    },
    { name: 'Events', description: EVENTS_DESCRIPTION },
    { name: 'Host', description: 'The host as a whole.' },
    { name: 'Health', description: 'The health of the daemon itself.' },
    { name: 'Documentation', description: 'The documentation of this API.' },
  ],
  certificate:
    'A client certificate with the common name of the controller, or of a client that the configuration names.',
})
