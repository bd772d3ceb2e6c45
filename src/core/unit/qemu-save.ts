import type { SaveForm } from '../storage/saved-state.ts'
import type { MachineSpec } from './machine-spec.ts'

/** The first version that migrates to and from a file (QEMU 8.2 release notes, `file:`). */
const SAVES_SINCE = { major: 8, minor: 2 }
/**
 * The first version that gives each page of memory a place of its own in the file (QEMU,
 * docs/devel/migration/mapped-ram): what is free is a hole, and the rest is read in large pieces. Later versions read a
 * stream as well, so an upgrade finds what it can read.
 */
const MAPS_SINCE_MAJOR = 9

/**
 * How a version of QEMU saves guests; undefined when it cannot. A version that is not known counts as a new one, as all that
 * are still maintained.
 */
export function saveFormOf(version: string | undefined): SaveForm | undefined {
  if (version === undefined) return 'mapped'
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major >= MAPS_SINCE_MAJOR) return 'mapped'
  return major === SAVES_SINCE.major && minor >= SAVES_SINCE.minor ? 'stream' : undefined
}

/**
 * Restores from the command line, so that the memory is read before anybody has to ask; mapped memory by two threads
 * (`multifd`). The vCPUs stand still: the saved file must be gone before they run.
 */
export function restoreArguments({ restorePath, restoreForm = 'mapped' }: MachineSpec): string[] {
  if (restorePath === undefined) return []
  const properties = restoreForm === 'mapped' ? ['x-events', 'mapped-ram', 'x-multifd'] : ['x-events']
  return [
    ...properties.flatMap((name) => ['-global', `migration.${name}=on`]),
    ...['-incoming', `file:${restorePath}`],
  ]
}

/**
 * What the guest frees goes back to the host, and is neither written by a save nor read by a restore. The guest is never
 * asked to give up memory that it uses.
 */
export const balloonArguments = (): string[] => [
  ...['-device', 'virtio-balloon-pci-non-transitional,free-page-reporting=on,deflate-on-oom=on'],
]

/** Where an agent in the guest listens, under the name that QEMU's own agent looks for (qemu-ga(8)). */
export const agentArguments = (socketPath: string): string[] => [
  ...['-device', 'virtio-serial-pci-non-transitional,max_ports=2'],
  ...['-chardev', `socket,id=agent,path=${socketPath},server=on,wait=off`],
  ...['-device', 'virtserialport,chardev=agent,name=org.qemu.guest_agent.0'],
]
