import { existsSync, watch } from 'node:fs'
import { crashDaemon } from '../../lab/inside/shell.ts'

/** The files that appear on the way to sleep of a VM, each with what it shows. */
export const savingFiles = (
  id: string,
): readonly (readonly [when: string, folder: string, name: string])[] => {
  const disk = `/var/lib/vmhostd/pool/disks/${id}`
  return [
    ['when the monitor begins to write', `${disk}/save`, 'memory'],
    ['before a save is published', disk, 'saved.tmp'],
    ['when a save has been published', disk, 'saved'],
  ]
}

/** Kills the daemon when a file appears. */
export async function crashWhenMade(folder: string, name: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const watcher = watch(folder, (_event, changed) => {
    // Only what is published is also removed. The others may have another name by the time of this call.
    if (changed === name && (name !== 'saved' || existsSync(`${folder}/${name}`))) resolve()
  })
  await promise
  watcher.close()
  await crashDaemon()
}
