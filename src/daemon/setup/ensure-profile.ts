import { existsSync, writeFileSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { dirname, join, relative } from 'node:path'
import { bareAddress } from '../../config/config.ts'
import type { Config } from '../../config/config.ts'
import type { CertificatePaths } from './ensure-certificates.ts'
import type { SetupReport } from './setup-report.ts'

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
    return
  }
  const beside = (file: string): string => JSON.stringify(relative(directory, file))
  const lines = [
    '# How vmhostctl reaches this host. Paths are relative to this file; whoever can read the key is the controller.',
    `url = ${JSON.stringify(urlOf(config))}`,
    `ca = ${beside(paths.authority.certificate)}`,
    `cert = ${beside(paths.controller.certificate)}`,
    `key = ${beside(paths.controller.key)}`,
  ]
  writeFileSync(path, `${lines.join('\n')}\n`, { flag: 'wx', mode: 0o644 })
  report.made(path, what)
}

/**
 * Returns the URL at which this host reaches itself: by the name in every server certificate of ours, unless it listens
 * elsewhere.
 */
function urlOf({ controller }: Config): string {
  const address = bareAddress(controller.listenAddress)
  const local = ['0.0.0.0', '::', '127.0.0.1', '::1'].includes(address)
  const host = local ? 'localhost' : isIPv6(address) ? `[${address}]` : address
  return `https://${host}:${controller.port}`
}
