import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'

/**
 * Fills a new cache entry in a temporary folder and moves it into place when it is complete, so that an interrupted
 * build is never used. The temporary folder has our process id in its name, because commands of an interrupted build
 * may still write to theirs.
 */
export async function publish(folder: string, fill: (building: string) => Promise<void>): Promise<void> {
  removeUnfinished(path.dirname(folder))
  const building = `${folder}.building-${process.pid}`
  mkdirSync(building)
  await fill(building)
  renameSync(building, folder)
}

function removeUnfinished(parent: string): void {
  for (const name of readdirSync(parent)) {
    const [, pid] = /\.building-(\d+)$/.exec(name) ?? []
    if (pid === undefined || (existsSync(`/proc/${pid}`) && Number(pid) !== process.pid)) continue
    rmSync(path.join(parent, name), { recursive: true, force: true, maxRetries: 3 })
  }
}

/**
 * Removes a cache entry. It loses its name first, so that a removal that is interrupted leaves nothing that looks
 * complete. Another process may remove the entry at the same time.
 */
export function discard(folder: string): void {
  const aside = `${folder}.building-${process.pid}`
  try {
    renameSync(folder, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  rmSync(aside, { recursive: true, force: true, maxRetries: 3 })
}
