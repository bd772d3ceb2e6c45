import type { MachineSpec } from './machine-spec.ts'

/**
 * The first version that gives each page of memory a place of its own in the file (QEMU, docs/devel/migration/mapped-ram):
 * what is free is a hole, and the rest is read in large pieces. One that writes a stream can read no such file, nor the other
 * way round; so there is one form, and an upgrade of QEMU finds what it can read.
 */
const SAVES_SINCE_MAJOR = 9

/** Whether a version of QEMU saves guests. An unknown one counts as a new one, as all that are still maintained. */
export const canSave = (version: string | undefined): boolean =>
  version === undefined || Number(version.split('.')[0]) >= SAVES_SINCE_MAJOR

/**
 * Restores from the command line, so that the memory is read before anybody has to ask, by two threads (`multifd`). The vCPUs
 * stand still: the saved file must be gone before they run.
 */
export function restoreArguments({ restorePath }: MachineSpec): string[] {
  if (restorePath === undefined) return []
  return [
    ...['x-events', 'mapped-ram', 'x-multifd'].flatMap((name) => ['-global', `migration.${name}=on`]),
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
