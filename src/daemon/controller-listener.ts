import { bindControllerApi } from '../api/controller/controller-api.ts'
import { clientsOf } from '../api/controller/clients.ts'
import { bareAddress } from '../config/config.ts'
import { bindInWords } from './bind-fault.ts'
import { build } from './build.ts'
import { tlsFilesOf } from './tls-files-of.ts'
import type { BoundControllerApi } from '../api/controller/controller-api.ts'
import type { Config } from '../config/config.ts'
import type { Log } from '../log/log.ts'

/** Binds the listener for the controller. Throws an error that says what the operator can fix. */
export async function bindControllerListener(
  { controller, coordination }: Pick<Config, 'controller' | 'coordination'>,
  log: Log,
): Promise<BoundControllerApi> {
  const { listenAddress: address, port, commonName, clients } = controller
  const bound = await bindInWords({ table: 'controller', address, port }, () =>
    bindControllerApi({
      address: bareAddress(address),
      port,
      clients: clientsOf(commonName, clients),
      tlsFiles: tlsFilesOf(controller),
      nodeFiles: {
        certificate: coordination.certificateFile,
        ...(coordination.caFile === controller.caFile ? {} : { authority: coordination.caFile }),
      },
      version: build.version,
      log,
    }),
  )
  log.info({ listener: 'controller', address: bound.address, port: bound.port }, 'listening')
  return bound
}
