import { mkdirSync } from 'node:fs'
import path from 'node:path'

/** The checkout that contains this file. */
export const checkout = path.resolve(import.meta.dirname, '..')

/** Folder for everything that the tools make: outside the checkout, so that a fresh clone reuses it. */
export const cacheDir = process.env['VMHOSTD_CACHE'] ?? '/var/cache/vmhostd-dev'

/** Returns a folder below the cache; makes it if it is missing. */
export function cachePath(...parts: string[]): string {
  const folder = path.join(cacheDir, ...parts)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Returns a folder below `dist`, where builds leave what they make; makes it if it is missing. */
export function distPath(...parts: string[]): string {
  const folder = path.join(checkout, 'dist', ...parts)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Returns a name that is safe as a file name: `lab root: packages` becomes `lab-root-packages`. */
export function slug(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
}
