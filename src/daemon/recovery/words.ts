import type { Restored } from '../../core/recovery/judge-restored.ts'
import type { BackupContent } from '../../store/backup/restoring.ts'
import type { FileOutcome } from './kept-files.ts'
import type { Outlook } from './restore.ts'

const KINDS: Readonly<Record<Restored['kind'], string>> = {
  ends: 'ENDS',
  deletes: 'DELETES',
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

/** Returns a line for each file of the host. */
export const filesInWords = (files: readonly FileOutcome[], isDry: boolean): readonly string[] =>
  files.map(({ path, what }) => {
    const words = {
      made: isDry ? 'would be put back' : 'put back',
      kept: 'is as in the backup',
      differs: 'is kept, and differs from the backup',
    }[what]
    return `  ${path}  ${words}`
  })
