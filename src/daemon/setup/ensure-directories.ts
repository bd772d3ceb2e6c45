import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../../config/config.ts'
import type { SetupReport } from './setup-report.ts'

/** A VM's own user must reach its own files below, but must not list the others. */
const TRAVERSABLE = 0o711
const PRIVATE = 0o700

/** Makes the directories of the configuration, except the pool, which is made when it is marked. */
export function ensureDirectories(config: Config, report: SetupReport): void {
  ensureDirectory(config.stateDirectory, TRAVERSABLE, 'durable state', report)
  ensureDirectory(config.runDirectory, TRAVERSABLE, 'sockets of this boot', report)
  const { caFile, certificateFile, keyFile } = config.controller
  for (const directory of new Set([caFile, certificateFile, keyFile].map((path) => dirname(path)))) {
    if (!exists(directory)) ensureDirectory(directory, PRIVATE, 'certificates and keys', report)
  }
}

function ensureDirectory(path: string, mode: number, what: string, report: SetupReport): void {
  if (mkdirSync(path, { recursive: true }) !== undefined) {
    // The umask applies to the mode that is given to mkdir(2).
    chmodSync(path, mode)
    report.made(path, `${what}, mode ${octal(mode)}`)
    return
  }
  const before = statSync(path).mode & 0o7777
  const after = before | (mode & 0o011)
  if (after === before) report.kept(path, what)
  else {
    chmodSync(path, after)
    report.changed(
      path,
      `${what}, mode ${octal(before)} to ${octal(after)}: the users of VMs pass through it`,
    )
  }
  if ((before & 0o022) !== 0) report.warned(path, `others than its owner can write here: chmod go-w ${path}`)
}

const octal = (mode: number): string => mode.toString(8).padStart(4, '0')
const exists = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined
