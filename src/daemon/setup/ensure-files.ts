import { chmodSync, mkdirSync, readFileSync, statSync, existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { parse } from 'smol-toml'
import type { Config } from '../../config/config.ts'
import type { SetupReport } from './setup-report.ts'
import { writeNewFiles } from '../new-files.ts'
import type { CertificatePaths } from './ensure-certificates.ts'
import { ensureKeyPair, privateKeyPath } from '../../host/ssh/key-pair.ts'
import { mayBeOwnUrl, ownUrl } from './own-address.ts'

/** A VM's own user must reach its own files below, but must not list the others. */
const TRAVERSABLE = 0o711
const PRIVATE = 0o700

/** Makes the directories of the configuration, except the pool, which is made when it is marked. */
export function ensureDirectories(config: Config, report: SetupReport): void {
  ensureDirectory(config.stateDirectory, TRAVERSABLE, 'durable state', report)
  ensureDirectory(config.runDirectory, TRAVERSABLE, 'sockets of this boot', report)
  const listeners = [config.controller, ...(config.coordination.enabled ? [config.coordination] : [])]
  const files = listeners.flatMap(({ caFile, certificateFile, keyFile }) => [
    caFile,
    certificateFile,
    keyFile,
  ])
  for (const directory of new Set(files.map((path) => dirname(path)))) {
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
  if ((before & 0o022) !== 0)
    report.warned(path, `other users than its owner can write here: chmod go-w ${path}`)
}

const octal = (mode: number): string => mode.toString(8).padStart(4, '0')
const exists = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined

/** Writes a profile beside the configuration, so that `vmhostctl` on this host works at once; keeps an existing one. */
export function ensureProfile(
  configPath: string,
  config: Config,
  { paths, report }: { readonly paths: CertificatePaths; readonly report: SetupReport },
): void {
  const directory = dirname(configPath)
  const path = join(directory, 'vmhostctl.toml')
  const what = 'profile of vmhostctl'
  if (existsSync(path)) {
    report.kept(path, what)
    warnOfOtherUrl(path, config, report)
    return
  }
  const beside = (file: string): string => JSON.stringify(relative(directory, file))
  const lines = [
    '# How vmhostctl reaches this host. Paths are relative to this file; a program that can read the key is the controller.',
    `url = ${JSON.stringify(ownUrl(config))}`,
    `ca = ${beside(paths.authority.certificate)}`,
    `cert = ${beside(paths.controller.certificate)}`,
    `key = ${beside(paths.controller.key)}`,
  ]
  writeNewFiles([{ path, content: `${lines.join('\n')}\n`, mode: 0o644 }])
  report.made(path, what)
}

/** Warns if a kept profile is older than a change of the address or the port of this host. */
function warnOfOtherUrl(path: string, config: Config, report: SetupReport): void {
  const url = urlIn(readFileSync(path, 'utf8'))
  const own = ownUrl(config)
  if (url === undefined) report.warned(path, `it has no url: write url = ${JSON.stringify(own)}`)
  else if (!mayBeOwnUrl(url, config))
    report.warned(
      path,
      `its url is ${url}, and the configuration gives ${own}: change it, or vmhostctl does not reach this host`,
    )
}

function urlIn(profile: string): string | undefined {
  try {
    const { url } = parse(profile)
    return typeof url === 'string' && URL.canParse(url) ? url : undefined
  } catch {
    return undefined
  }
}

/** Makes the key with which the daemon logs in to guests; keeps an existing one. */
export function ensureSshKey({ stateDirectory, host }: Config, report: SetupReport): void {
  const path = privateKeyPath(stateDirectory)
  const what = 'SSH key for guests, with its .pub'
  const wasThere = existsSync(path)
  ensureKeyPair(stateDirectory, host.id)
  if (wasThere) report.kept(path, what)
  else report.made(path, what)
}
