import { readdirSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { unlessErrno } from '../../host/ffi/errno-error.ts'
import { privateKeyPath } from '../../host/ssh/key-pair.ts'
import type { Config } from '../../config/config.ts'

const OTHERS_READ = 0o004
const OTHERS_PASS = 0o001

/**
 * Returns the private keys of this host that every user of it can read: those of the configuration, that for guests,
 * and those beside them, such as the keys of an authority or of the controller.
 */
export function readableKeys({
  controller,
  coordination,
  stateDirectory,
}: Pick<Config, 'controller' | 'coordination' | 'stateDirectory'>): readonly string[] {
  const named = [controller.keyFile, coordination.keyFile]
  const beside = [...new Set(named.map((path) => dirname(path)))].flatMap((directory) =>
    (unlessErrno(() => readdirSync(directory), 'ENOENT') ?? [])
      .filter((name) => name.endsWith('.key'))
      .map((name) => join(directory, name)),
  )
  return [...new Set([...named, ...beside, privateKeyPath(stateDirectory)])].filter(isForAll)
}

/** Returns whether every user can read a file, and pass through the directories above it. */
function isForAll(path: string): boolean {
  const real = unlessErrno(() => realpathSync(path), 'ENOENT')
  if (real === undefined || (statSync(real).mode & OTHERS_READ) === 0) return false
  for (let above = dirname(real); ; above = dirname(above)) {
    if ((statSync(above).mode & OTHERS_PASS) === 0) return false
    if (above === dirname(above)) return true
  }
}
