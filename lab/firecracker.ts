import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import path from 'node:path'

/** The place of Firecracker inside a lab, on the lab's PATH, if this machine has it. */
export const LAB_FIRECRACKER = '/usr/local/bin/firecracker'

/** Environment variable with the path of Firecracker, for a machine that does not have it on PATH. */
const PROGRAM_IN_ENVIRONMENT = 'VMHOSTD_FIRECRACKER'

/**
 * Returns the path of this machine's Firecracker; undefined if it has none. Throws if the variable names no program.
 */
export function findFirecracker(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const named = env[PROGRAM_IN_ENVIRONMENT] ?? ''
  if (named !== '') {
    if (!isProgram(named)) throw new Error(`${PROGRAM_IN_ENVIRONMENT} is not a program: ${named}`)
    return realpathSync(named)
  }
  const onPath = (env['PATH'] ?? '').split(':').filter((folder) => path.isAbsolute(folder))
  const found = onPath.map((folder) => path.join(folder, 'firecracker')).find(isProgram)
  return found === undefined ? undefined : realpathSync(found)
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}
