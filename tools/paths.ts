import { mkdirSync } from 'node:fs'
import path from 'node:path'

/** The checkout this file stands in. */
export const checkout = path.resolve(import.meta.dirname, '..')

/** Where everything made by the tools is kept: outside the checkout, so that a clean clone never pays twice. */
export const cacheDir = process.env['VMHOSTD_CACHE'] ?? '/var/cache/vmhostd-dev'

/** A folder below the cache, made when it is missing. */
export function cachePath(...parts: string[]): string {
  const folder = path.join(cacheDir, ...parts)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** A name that is safe as a file name: `lab root: packages` becomes `lab-root-packages`. */
export function slug(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
}
