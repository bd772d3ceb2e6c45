import { createControllerApp } from '../src/api/controller/create-app.ts'
import { CertificateEnds } from '../src/api/controller/certificate-ends.ts'
import { createCoordinationApp } from '../src/api/coordination/coordination-api.ts'
import { createMetricsApp } from '../src/api/metrics/metrics-api.ts'
import { plainTransport } from '../src/api/listener/transports.ts'
import { beginsUpgrade } from '../src/api/controller/upgrade.ts'
import { Waits } from '../src/api/controller/waits.ts'
import { readAsset } from '../src/daemon/assets.ts'
import { silentLog } from '../src/log/log.ts'
import { ConsoleHub } from '../src/owners/console/console-hub.ts'
import { packageVersion } from './bundle.ts'
import type { App } from '../src/api/listener/app.ts'

/**
 * Returns the OpenAPI document as the daemon serves it under /docs/swagger.json; its sources are the schemas that
 * validate requests.
 */
export async function openapiDocument(): Promise<object> {
  const app = await describedApp()
  return app.swagger()
}

/** Returns the OpenAPI document of the API for other hosts, as the daemon serves it under /docs/coordination.json. */
export async function coordinationDocument(): Promise<object> {
  const app = await describedCoordinationApp()
  return app.swagger()
}

/** Returns the OpenAPI document of the listener for metrics, as the daemon serves it under /docs/metrics.json. */
export async function metricsDocument(): Promise<object> {
  const app = await createMetricsApp(
    {
      metrics: { scrape: nothingBehind },
      waitingFor: () => [],
      errorsMarkdown: () => readAsset('errors.md'),
      version: packageVersion(),
      log: silentLog,
    },
    plainTransport(() => false),
  )
  return app.swagger()
}

/** Makes the API for other hosts without a daemon behind it. */
export const describedCoordinationApp = (): Promise<App> =>
  createCoordinationApp(
    {
      departures: () => undefined,
      waitingFor: () => [],
      errorsMarkdown: () => readAsset('errors.md'),
      version: packageVersion(),
      log: silentLog,
    },
    plainTransport(() => false),
  )

/** Makes the API without a daemon behind it: enough for its pages and its description. */
export const describedApp = (): Promise<App> =>
  createControllerApp(
    {
      context: () => undefined,
      waits: new Waits(() => () => {}),
      snapshotWaits: new Waits(() => () => {}),
      listWaits: new Waits(() => () => {}),
      eventWaits: new Waits(() => () => {}),
      plan: nothingBehind,
      counters: nothingBehind,
      hostView: nothingBehind,
      consoles: new ConsoleHub({
        consoles: { session: () => undefined, lastSession: () => undefined, onSession: () => () => {} },
        store: { vms: { get: () => undefined }, onVmChange: () => () => {} },
      }),
      images: { list: nothingBehind, requestRemoval: nothingBehind },
      arrivals: { readOffer: nothingBehind },
      shells: { open: nothingBehind },
      time: { monotonicMs: nothingBehind, after: nothingBehind },
      certificates: new CertificateEnds(silentLog),
      hostFaults: () => [],
      metrics: { scrape: nothingBehind },
      waitingFor: () => [],
      readAsset,
      version: packageVersion(),
      endIfGone: () => {},
      log: silentLog,
    },
    plainTransport(beginsUpgrade),
  )

const nothingBehind = (): never => {
  throw new Error('this API has nothing behind it')
}
