import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { bundle } from './bundle.ts'
import type { BuildInfo } from './bundle.ts'
import { checkout } from './paths.ts'

/** Code for the executable's threads; a daemon that runs from its sources uses the source. */
export const PACK_THREAD = 'dist/thread/pack-thread.js'
export const IMAGE_THREAD = 'dist/thread/image-thread.js'
export const FLUSH_THREAD = 'dist/thread/flush-thread.js'

const ENTRIES = {
  'src/host/staging/pack-thread.ts': PACK_THREAD,
  'src/host/images/image-thread.ts': IMAGE_THREAD,
  'src/host/threads/flush-thread.ts': FLUSH_THREAD,
}

/** Makes the bundles; returns the bundled files. Safe while other processes do the same. */
export async function ensureThreads(info: BuildInfo): Promise<string[]> {
  const inputs = await Promise.all(
    Object.entries(ENTRIES).map(([entry, target]) => ensureThread(entry, path.join(checkout, target), info)),
  )
  return [...new Set(inputs.flat())]
}

async function ensureThread(entry: string, target: string, info: BuildInfo): Promise<string[]> {
  mkdirSync(path.dirname(target), { recursive: true })
  const aside = mkdtempSync(`${target}.`)
  const made = path.join(aside, path.basename(target))
  const inputs = await bundle(entry, made, info)
  renameSync(made, target)
  rmSync(aside, { recursive: true })
  return inputs
}
