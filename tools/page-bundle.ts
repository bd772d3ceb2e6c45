import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'
import { checkout } from './paths.ts'

/**
 * Folder of the pages' scripts and styles, for an executable that embeds them and for a daemon that runs from its
 * sources.
 */
export const PAGES_FOLDER = 'dist/page'

/** Files of the pages, by the names under which they are embedded and served. */
const OUTPUTS = {
  'console.js': 'src/page/console/main.ts',
  'console.css': 'src/page/console/console.css',
  'vms.js': 'src/page/vms/main.ts',
  'vms.css': 'src/page/vms/vms.css',
} as const

/** Bundles scripts and styles of the pages into a folder; returns the bundled files. */
async function bundlePages(folder: string): Promise<string[]> {
  const result = await build({
    entryPoints: Object.entries(OUTPUTS).map(([name, source]) => ({
      in: source,
      out: path.parse(name).name,
    })),
    outdir: folder,
    bundle: true,
    platform: 'browser',
    // Browsers since 2024, which have light-dark() and client certificates for WebSockets.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    format: 'iife',
    absWorkingDir: checkout,
    metafile: true,
    // A browser gets a copy of the code, so it must get the licences too.
    legalComments: 'eof',
    minify: true,
    logLevel: 'error',
  })
  return Object.keys(result.metafile.inputs)
}

/**
 * Makes the bundles; returns the bundled files. Always makes them, because a check would take as long. Safe while other
 * processes do the same.
 */
export async function ensurePages(): Promise<string[]> {
  const folder = path.join(checkout, PAGES_FOLDER)
  mkdirSync(folder, { recursive: true })
  const aside = mkdtempSync(`${folder}.`)
  const inputs = await bundlePages(aside)
  for (const name of Object.keys(OUTPUTS)) renameSync(path.join(aside, name), path.join(folder, name))
  rmSync(aside, { recursive: true })
  return inputs
}
