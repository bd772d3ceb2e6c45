import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'
import { checkout } from './paths.ts'

/** Where an executable takes the pages' scripts and styles from, and a daemon that runs from its sources finds them. */
export const PAGES_FOLDER = 'dist/page'

/** What the console page is made of, by the names it is embedded and served under. */
const OUTPUTS = {
  'console.js': 'src/page/console/main.ts',
  'console.css': 'src/page/console/console.css',
} as const

/** Bundles scripts and styles of the pages into a folder, and answers which files went in. */
async function bundlePages(folder: string): Promise<string[]> {
  const result = await build({
    entryPoints: Object.entries(OUTPUTS).map(([name, source]) => ({
      in: source,
      out: path.parse(name).name,
    })),
    outdir: folder,
    bundle: true,
    platform: 'browser',
    // What has light-dark() and client certificates for WebSockets: browsers since 2024.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    format: 'iife',
    absWorkingDir: checkout,
    metafile: true,
    // A browser that is given a copy is given its licence.
    legalComments: 'eof',
    minify: true,
    logLevel: 'error',
  })
  return Object.keys(result.metafile.inputs)
}

/** Makes them anew, which takes as long as a look whether one must; answers which files went in. Safe while others do the same. */
export async function ensurePages(): Promise<string[]> {
  const folder = path.join(checkout, PAGES_FOLDER)
  mkdirSync(folder, { recursive: true })
  const aside = mkdtempSync(`${folder}.`)
  const inputs = await bundlePages(aside)
  for (const name of Object.keys(OUTPUTS)) renameSync(path.join(aside, name), path.join(folder, name))
  rmSync(aside, { recursive: true })
  return inputs
}
