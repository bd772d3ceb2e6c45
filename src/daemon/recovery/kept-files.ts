import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { errorChain } from '../../log/error-chain.ts'
import { writeNewFiles } from '../new-files.ts'
import { privateKeyPath } from '../../host/ssh/key-pair.ts'
import type { Config } from '../../config/config.ts'
import type { KeptFile } from '../../store/backup/write-backup.ts'

/**
 * Returns the paths of files without which another installation is not this host: its configuration, its own
 * certificates and keys, the certificates that it trusts, the lists of those that are revoked, and the key that guests
 * know. Keys of authorities and of the controller are left out, because they can do more than this host.
 */
function pathsOfHost(configPath: string, config: Config): ReadonlySet<string> {
  const { controller, coordination, objectStore, stateDirectory } = config
  const ssh = privateKeyPath(stateDirectory)
  const tls = [controller, coordination].flatMap(({ caFile, certificateFile, keyFile, revocationFile }) => [
    caFile,
    certificateFile,
    keyFile,
    ...(revocationFile === undefined ? [] : [revocationFile]),
  ])
  const others = objectStore.extraCaFile === undefined ? [] : [objectStore.extraCaFile]
  return new Set([configPath, ...tls, ...others, ssh, `${ssh}.pub`])
}

/** Reads those of the files of this host that are there. */
export const filesOfHost = (configPath: string, config: Config): readonly KeptFile[] =>
  [...pathsOfHost(configPath, config)]
    .filter((path) => existsSync(path))
    .map((path) => ({ path, mode: statSync(path).mode & 0o7777, content: readFileSync(path) }))

/**
 * The outcome for a file of a backup: `made` where there is none; a file that is there is kept. `unnamed`: the
 * configuration does not name it, so it stays in the backup. `failed`: it can be neither read nor made.
 */
export type FileOutcome = { readonly path: string } & (
  | { readonly what: 'made' | 'kept' | 'differs' | 'unnamed' }
  | { readonly what: 'failed'; readonly because: string }
)

type Host = { readonly configPath: string; readonly config: Config; readonly isDry: boolean }

/** Puts files of the host back where none is, and no others; a dry run only compares. A failure ends nothing. */
export function putFilesBack(files: readonly KeptFile[], host: Host): readonly FileOutcome[] {
  const named = pathsOfHost(host.configPath, host.config)
  return files.map((file) => {
    const { path } = file
    if (!named.has(path)) return { path, what: 'unnamed' }
    try {
      return { path, what: putBack(file, host) }
    } catch (error) {
      return { path, what: 'failed', because: errorChain(error) }
    }
  })
}

function putBack(
  { path, mode, content }: KeptFile,
  { configPath, isDry }: Host,
): 'made' | 'kept' | 'differs' {
  if (existsSync(path)) return readFileSync(path).equals(content) ? 'kept' : 'differs'
  if (!isDry) {
    mkdirSync(dirname(path), { recursive: true, mode: path === configPath ? 0o755 : 0o700 })
    writeNewFiles([{ path, content, mode }])
  }
  return 'made'
}
