import { BusError, PROPERTIES, valueOf } from './bus.ts'
import type { SystemdBus } from './systemd-bus.ts'

/** The service whose main process is this process, as systemd sees it. */
export type OwnUnit = {
  readonly name: string
  /** Returns properties in the order of their names; undefined for one that this systemd does not have. */
  properties(iface: 'Unit' | 'Service', ...names: readonly string[]): Promise<readonly unknown[]>
}

/**
 * Returns the own unit; undefined if this process is not a service's main process. Throws HostFault
 * `systemd_unavailable`.
 */
export async function findOwnUnit(bus: SystemdBus, pid = process.pid): Promise<OwnUnit | undefined> {
  const path = await bus
    .callManager('GetUnitByPID', 'u', [pid])
    .then(([found]) => String(found))
    .catch(undefinedIfRefused)
  if (path === undefined) return undefined
  const properties: OwnUnit['properties'] = (iface, ...names) =>
    Promise.all(names.map((name) => property(bus, path, `org.freedesktop.systemd1.${iface}`, name)))
  const [[name], [mainPid]] = await Promise.all([properties('Unit', 'Id'), properties('Service', 'MainPID')])
  return mainPid === pid ? { name: String(name), properties } : undefined
}

const property = (bus: SystemdBus, path: string, iface: string, name: string): Promise<unknown> =>
  bus
    .call({ path, interface: PROPERTIES, member: 'Get', signature: 'ss', body: [iface, name] })
    .then(([value]) => valueOf(value))
    .catch(undefinedIfRefused)

function undefinedIfRefused(error: unknown): undefined {
  if (error instanceof BusError) return undefined
  throw error
}
