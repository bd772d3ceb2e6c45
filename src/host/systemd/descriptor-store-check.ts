import { descriptorStoreSupport } from './notify.ts'
import type { OwnUnit } from './own-unit.ts'

/**
 * Whether stored descriptors outlive a stop of the daemon; if not, the reason, and what an operator can do about it.
 */
export type StoreCheck =
  | { readonly available: true }
  | { readonly available: false; readonly because: string; readonly mend: string }

const REFERENCES = ['WantedBy', 'RequiredBy', 'RequisiteOf', 'BoundBy', 'UpheldBy', 'TriggeredBy'] as const
const SPEAKERS = ['main', 'exec', 'all']

/** Checks how the daemon's own unit is set up. Throws HostFault `systemd_unavailable`. */
export async function checkDescriptorStore(unit: OwnUnit | undefined): Promise<StoreCheck> {
  const support = descriptorStoreSupport()
  if (!support.supported) return no(support.because, 'install libsystemd0')
  if (unit === undefined)
    return no('the daemon is not the main process of a service', 'start it with systemctl')
  const { name } = unit
  const [[access, max, preserve], [fileState, ...referrers]] = await Promise.all([
    unit.properties('Service', 'NotifyAccess', 'FileDescriptorStoreMax', 'FileDescriptorStorePreserve'),
    unit.properties('Unit', 'UnitFileState', ...REFERENCES),
  ])
  const wrong = (setting: string, value: unknown, right: string): StoreCheck =>
    no(`${name} has ${setting}=${String(value)}`, `set ${setting}=${right} in its section [Service]`)

  if (preserve === undefined) {
    return no('this systemd keeps no store while its unit is stopped', 'upgrade to systemd 254 or later')
  }
  if (!SPEAKERS.includes(String(access))) return wrong('NotifyAccess', access, 'main')
  if (max === 0) return wrong('FileDescriptorStoreMax', max, '4096')
  if (preserve !== 'yes') return wrong('FileDescriptorStorePreserve', preserve, 'yes')
  // systemd unloads a stopped unit that no other unit refers to, and drops its store.
  if (referrers.every((units) => units === undefined || (units as readonly string[]).length === 0)) {
    const state = String(fileState) || 'transient'
    return no(`nothing refers to ${name} (${state}): a stop would drop the store`, `systemctl enable ${name}`)
  }
  return { available: true }
}

const no = (because: string, mend: string): StoreCheck => ({ available: false, because, mend })
