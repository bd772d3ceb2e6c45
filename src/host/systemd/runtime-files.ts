import { chmod, lchown, mkdir, open, rm } from 'node:fs/promises'
import { constants } from 'node:fs'
import { dirname, join } from 'node:path'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import { assert } from '../../lib/assert.ts'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/**
 * Makes the runtime directory of a unit that does not run, with its files. systemd takes over a directory that exists,
 * and removes it with the unit (systemd.exec(5), RuntimeDirectory=). It belongs to root until everything is in it, so
 * that the unit's user cannot put a link there.
 */
export async function makeRuntimeFiles(spec: UnitSpec, parent = '/run'): Promise<void> {
  if (spec.runtimeFiles.length === 0) return
  for (const { name } of spec.runtimeFiles)
    assert(name !== '..' && !name.includes('/'), `a runtime file is in its directory, unlike ${name}`)
  const directory = join(parent, spec.runtimeDirectory)
  const above = dirname(directory)
  // systemd makes it with this mode too: monitors of all users pass through it, whatever our umask is.
  if ((await mkdir(above, { recursive: true })) !== undefined) await chmod(above, 0o755)
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { mode: 0o700 })
  for (const { name, content } of spec.runtimeFiles)
    await makeRuntimeFile(join(directory, name), content, spec.userId)
  await lchown(directory, spec.userId, spec.userId)
}

/**
 * Makes a file that the user of a unit can read. The path may be in a directory of that user: what is there already is an
 * error, and what the user puts there meanwhile changes no other file.
 */
export async function makeRuntimeFile(
  path: string,
  content: string | Uint8Array,
  userId: number,
): Promise<void> {
  const handle = await open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o400)
  try {
    await handle.writeFile(content)
    await handle.chown(userId, userId)
  } finally {
    await handle.close()
  }
}
