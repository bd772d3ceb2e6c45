import type { Restored } from '../../core/recovery/judge-restored.ts'
import type { MaintenanceAfter } from '../../store/backup/maintenance-kept.ts'
import type { BackupContent } from '../../store/backup/read-backup.ts'
import type { RecoverySource } from '../../commands/vm/recover-vm.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { FileOutcome } from './kept-files.ts'
import type { Found } from './recover.ts'
import type { Outlook } from './restore.ts'

const KINDS: Readonly<Record<Restored['kind'], string>> = {
  ends: 'ENDS',
  deletes: 'DELETES',
  moved: 'MOVED',
  unsure: 'MOVED?',
  starts: 'starts',
  lacks: 'alone',
  fits: 'stays',
}

/** Returns what a file to put back is. */
export function aboutInWords(
  file: string,
  { about, schemaVersion }: BackupContent,
  vms: number,
): readonly string[] {
  const made =
    about === undefined
      ? 'a copy from before a change of the schema'
      : `made ${new Date(about.madeAtMs).toISOString()} on ${about.hostId} by vmhostd ${about.version}`
  return [`${file}: ${made}; schema ${schemaVersion}, ${vms === 1 ? '1 VM' : `${vms} VMs`}`]
}

/** Returns a line for each VM: what the daemon does with it once the records are put back. */
export function outlookInWords({ vms }: Outlook): readonly string[] {
  const width = Math.max(0, ...vms.map(({ id }) => id.length))
  return vms.map(
    ({ id, kind, because, isRecorded }) =>
      `  ${id.padEnd(width)}  ${KINDS[kind].padEnd(7)}  ${because}${isRecorded ? '' : ' (not in the file)'}`,
  )
}

/** Returns the state of the host once the records are put back. */
export function maintenanceInWords({ from, maintenance: { state } }: MaintenanceAfter): readonly string[] {
  const because = {
    present: 'as it is now',
    file: 'as in the file, because the present records do not say it',
    undrained:
      'because the present records do not say its state, and that of the file is drained or cannot be read',
  }[from]
  const held = state === 'drained' ? '. No guest starts or wakes until vmhostctl host uncordon' : ''
  return [`  the host is ${state}, ${because}${held}`]
}

/** Returns why the records are not put back as they are. */
export const refusalsInWords = ({ unsaid, moved, unsure, unreadable }: Outlook): readonly string[] => [
  ...(unsaid.length === 0
    ? []
    : [`${unsaid.join(', ')} would lose a guest or a disk: say --end VM or --leave-out VM for each`]),
  ...(moved.length === 0
    ? []
    : [`${moved.join(', ')} would run here and on another host: say --leave-out VM for each`]),
  ...(unsure.length === 0
    ? []
    : [
        `it is not known whether one of these has moved to another host and runs there: ${unsure.join(', ')} ` +
          `(${unreadable ?? 'the present records do not show it'}). ` +
          'Say --leave-out VM for each that has moved, and --none-moved for the others',
      ]),
]

/** Returns a line for each file of the host. */
export const filesInWords = (files: readonly FileOutcome[], isDry: boolean): readonly string[] =>
  files.map((file) => {
    const { path, what } = file
    if (what === 'failed')
      return `  ${path}  ${isDry ? 'could not be compared' : 'is NOT put back'}: ${file.because}`
    const words = {
      made: isDry ? 'would be put back' : 'put back',
      kept: 'is as in the backup',
      differs: 'is kept, and differs from the backup',
      unnamed: 'is not put back: the configuration does not name it',
    }[what]
    return `  ${path}  ${words}`
  })

/** Returns what is known of a VM without a record, in one line. */
export function orphanInWords({ id, orphan, joining }: Found): string {
  const { diskMib, createdAtMs, rootfsSha256, guest, saved } = orphan
  const parts = [
    `disk of ${diskMib} MiB`,
    createdAtMs === undefined
      ? 'created at an unknown time'
      : `created ${new Date(createdAtMs).toISOString()}`,
    rootfsSha256 === undefined ? 'of an unknown image' : `of image ${rootfsSha256.slice(0, 12)}…`,
    guest === undefined ? 'no guest' : `its guest ${guest}`,
    ...(saved === undefined ? [] : [`with ${saved.compute.memoryMib} MiB`]),
    ...(joining.kind === 'own' ? [] : [`of the state directory ${orphan.storeId ?? 'unknown'}`]),
  ]
  return `${id}: ${parts.join(', ')}`
}

/** Returns what is stored for a VM that gets its record again, and what differs from the file or is not known. */
export function recoveredInWords(
  record: VmRecord,
  { orphan, joining }: Found,
  source: RecoverySource,
): readonly string[] {
  const { id, desired, monitor, host } = record
  const { image, compute, disk, network, power } = desired
  const addresses = [network?.ipv4Address, network?.ipv6Address, network?.ipv6Prefix].filter(
    (one) => one !== undefined,
  )
  const fileSha256 = source.desired.image.rootfsSha256
  return [
    `${id}: ${power}, ${monitor}, ${compute.cpuMillicores / 1000} CPU, ${compute.memoryMib} MiB, disk ${disk.sizeMib} MiB, user ${host.userId}`,
    `  network      ${network === undefined ? 'none' : `${network.macAddress} ${addresses.join(' ')}`}`,
    `  power        ${power}, because ${orphan.guest === undefined ? 'it has no guest' : `its guest ${orphan.guest}`}`,
    ...deletionInWords(record),
    ...(image.rootfsSha256 === fileSha256
      ? []
      : [
          `  image        ${image.rootfsSha256}, as the note beside the disk says; the file has ${fileSha256}`,
        ]),
    ...(orphan.rootfsSha256 === undefined
      ? ['  image        as in the file: the note beside the disk does not say it']
      : []),
    ...(disk.sizeMib === source.desired.disk.sizeMib
      ? []
      : [`  disk         ${disk.sizeMib} MiB, as it is in the pool`]),
    ...(joining.kind === 'adopt'
      ? [
          `  state        this state directory has no records, and takes the id ${joining.storeId} of the lost one`,
        ]
      : []),
    '  not known    changes since the file was written, exits and wakes so far, the pinned SSH host key',
  ]
}

/** Returns that a VM which is recovered as stopped will be deleted by its own policy. */
function deletionInWords({ desired: { power, exit }, metadata }: VmRecord): readonly string[] {
  const seconds = exit?.deleteAfterSeconds
  if (power !== 'stopped' || seconds === undefined || metadata.protected) return []
  return [
    `  deletion     it is deleted with its disk ${seconds} s after it is found stopped, as the file says: start or protect it before`,
  ]
}
