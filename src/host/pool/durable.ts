import { dirname } from 'node:path'
import { open, rename } from './pool-files.ts'

/** Makes the content of a file, or the names in a directory, last through a power failure (fsync(2)). */
export async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Gives a finished file its name, all or nothing: either the whole file has it after a power failure, or none. */
export async function publish(temporary: string, path: string): Promise<void> {
  await sync(temporary)
  await rename(temporary, path)
  await sync(dirname(path))
}
