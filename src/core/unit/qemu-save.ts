import type { MachineSpec } from './machine-spec.ts'

/** From this version on a page of memory has a place of its own in the file (QEMU 9.0, docs/devel/migration/mapped-ram). */
const MAPPED_RAM_SINCE = 9
/** The first that saves to a file by itself (QEMU 8.2, `migrate` with `file:`). */
const FILE_SINCE = [8, 2] as const

/** What a version of QEMU can do about saves. An unknown version counts as a new one, as all that are still maintained. */
export type QemuSaving = {
  readonly toFile: boolean
  /** Whether memory lies at fixed places, so that what is free is a hole and the rest is read in large pieces. */
  readonly mappedRam: boolean
}

export function savingOf(version: string | undefined): QemuSaving {
  if (version === undefined) return { toFile: true, mappedRam: true }
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [fileMajor, fileMinor] = FILE_SINCE
  return {
    toFile: major > fileMajor || (major === fileMajor && minor >= fileMinor),
    mappedRam: major >= MAPPED_RAM_SINCE,
  }
}

/**
 * Restores from the command line, so that the memory is read before anybody has to ask. The vCPUs stand still: the saved
 * file must be gone before they run.
 */
export function restoreArguments({ restorePath }: MachineSpec, mappedRam: boolean): string[] {
  if (restorePath === undefined) return []
  return [
    ...['-global', 'migration.x-events=on'],
    ...(mappedRam ? ['-global', 'migration.mapped-ram=on'] : []),
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
