import { createApp } from '../listener/create-app.ts'
import { namedSchemas } from '../wire/named.ts'
import { describeController } from './openapi.ts'
import { consolePageRoutes } from './routes/console-page.ts'
import { hostPageRoutes } from './routes/host-page.ts'
import { consoleLogRoute } from './routes/console-log.ts'
import { consoleRoute } from './routes/console.ts'
import { docsRoutes } from './routes/docs.ts'
import { eventRoutes } from './routes/events.ts'
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
import type { App, Transport } from '../listener/app.ts'
import type { Pages } from '../listener/problem-page.ts'
import type { ApiDependencies } from './dependencies.ts'

export const controllerPages: Pages = { prefix: '/ui', home: '/ui/', homeWords: 'All VMs' }

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
