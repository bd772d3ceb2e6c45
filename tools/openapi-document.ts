import { createControllerApp } from '../src/api/controller/app.ts'
import { plainTransport } from '../src/api/controller/transports.ts'
import { Waits } from '../src/api/controller/waits.ts'
import { silentLog } from '../src/log/log.ts'
import { ConsoleHub } from '../src/owners/console-hub.ts'
import { packageVersion } from './bundle.ts'
import type { SnapshotId } from '../src/core/snapshot/record.ts'
import type { VmId } from '../src/core/vm/ids.ts'

/** The OpenAPI document as the daemon serves it under /docs/swagger.json: made of the schemas that validate requests. */
export async function openapiDocument(): Promise<object> {
  const unused = (): never => {
    throw new Error('only the description of the API is asked for here')
  }
  const rooms = {
    context: () => undefined,
    waits: new Waits<VmId>(() => () => {}),
    snapshotWaits: new Waits<SnapshotId>(() => () => {}),
    plan: unused,
    counters: unused,
    hostView: unused,
    consoles: new ConsoleHub({
      consoles: { session: () => undefined, lastSession: () => undefined, onSession: () => () => {} },
      store: { vms: { get: () => undefined }, onVmChange: () => () => {} },
    }),
    images: { list: unused, requestRemoval: unused },
    shells: { open: unused },
    time: { monotonicMs: unused, after: unused },
    waitingFor: () => [],
    readAsset: () => new Uint8Array(),
    version: packageVersion(),
    log: silentLog,
  }
  const app = await createControllerApp(rooms, plainTransport)
  return app.swagger()
}
