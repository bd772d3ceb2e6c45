import type { SaveForm } from '../world/saved-state.ts'
import type { MachineSpec } from './machine-spec.ts'

/** The forms in which QEMU saves guests. */
export type QemuSaveForm = Exclude<SaveForm, 'backing'>

/** The first version that migrates to and from a file (QEMU 8.2 release notes, `file:`). */
const SAVES_SINCE = { major: 8, minor: 2 }
/**
 * The first version that gives each page of memory its own place in the file (QEMU, docs/devel/migration/mapped-ram).
 * Free memory is a hole, and the rest is read in large pieces. Later versions also read a stream, so an upgraded QEMU
 * can read older files.
 */
const MAPS_SINCE_MAJOR = 9

/**
 * How many threads read mapped memory. The thread that gives them work does not sleep, but looks for one that is free
 * again and again (QEMU, migration/multifd.c, multifd_recv). Where there are few cores, it takes its share of them,
 * which is smaller beside more threads.
 */
const READING_THREADS = 8

/**
 * Returns how a version of QEMU saves guests; undefined if it cannot. An unknown version counts as a new one, like all
 * versions that are still maintained.
 */
export function saveFormOf(version: string | undefined): QemuSaveForm | undefined {
  if (version === undefined) return 'mapped'
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major >= MAPS_SINCE_MAJOR) return 'mapped'
  return major === SAVES_SINCE.major && minor >= SAVES_SINCE.minor ? 'stream' : undefined
}

/**
 * Restores from the command line, so that the memory is read without waiting for a request; mapped memory by several
 * threads (`multifd`). The vCPUs stay stopped, because the saved file must be gone before they run.
 */
export function restoreArguments({ restorePath, restoreForm = 'mapped' }: MachineSpec): string[] {
  if (restorePath === undefined) return []
  const mapped = ['mapped-ram=on', 'x-multifd=on', `multifd-channels=${READING_THREADS}`]
  const properties = ['x-events=on', ...(restoreForm === 'mapped' ? mapped : [])]
  return [
    ...properties.flatMap((property) => ['-global', `migration.${property}`]),
    ...['-incoming', `file:${restorePath}`],
  ]
}

/**
 * Returns memory that the guest frees to the host; a save does not write it and a restore does not read it. The guest
 * is never asked to give up memory that it uses.
 */
export const balloonArguments = (): string[] => [
  ...['-device', 'virtio-balloon-pci-non-transitional,free-page-reporting=on,deflate-on-oom=on'],
]

/** The port of the guest's agent in events: QEMU reports nothing about a device without an id. */
export const AGENT_DEVICE = 'agent'

/** Connects the socket of the guest's agent, under the name that QEMU's own agent looks for (qemu-ga(8)). */
export const agentArguments = (socketPath: string): string[] => [
  ...['-device', 'virtio-serial-pci-non-transitional,max_ports=2'],
  ...['-chardev', `socket,id=agent,path=${socketPath},server=on,wait=off`],
  ...['-device', `virtserialport,id=${AGENT_DEVICE},chardev=agent,name=org.qemu.guest_agent.0`],
]
