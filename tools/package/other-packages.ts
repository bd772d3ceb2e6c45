import { readdirSync, rmSync } from 'node:fs'
import path from 'node:path'

/**
 * Removes packages of other versions beside this one, with their lists:
 * what installs a package takes the one that is there.
 */
export function removeOtherPackages(deb: string): void {
  const folder = path.dirname(deb)
  const own = path.basename(deb, '.deb')
  for (const name of readdirSync(folder)) {
    const [, other] = /^(vmhostd_.+)\.(?:deb|cdx\.json)$/.exec(name) ?? []
    if (other !== undefined && other !== own) rmSync(path.join(folder, name), { force: true })
  }
}
