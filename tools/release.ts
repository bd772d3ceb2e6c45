/** `./dev release`: makes every file of a release below dist/release. Equal sources give equal files. */
import { createHash } from 'node:crypto'
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { buildClients } from './clients/clients.ts'
import { packageVersion } from './bundle.ts'
import { surfaceOfToday } from './compatibility/surface.ts'
import { buildDeb } from './deb.ts'
import { coordinationDocument, metricsDocument, openapiDocument } from './openapi-document.ts'
import { checkout, distPath } from './paths.ts'
import { sourceDate } from './source-date.ts'
import { step } from './step.ts'

const DOCUMENTS = {
  controller: openapiDocument,
  coordination: coordinationDocument,
  metrics: metricsDocument,
} as const

const SUMS = 'SHA256SUMS'

/** Makes the files and their sums; returns the folder. */
export async function buildRelease(): Promise<string> {
  const deb = await buildDeb()
  rmSync(distPath('release'), { recursive: true })
  const folder = distPath('release')
  const about = { version: packageVersion(), date: await sourceDate(checkout) }
  for (const file of [deb, deb.replace(/deb$/, 'cdx.json')])
    copyFileSync(file, path.join(folder, path.basename(file)))
  for (const [name, make] of Object.entries(DOCUMENTS))
    writeFileSync(
      path.join(folder, `vmhostd-openapi-${name}-${about.version}.json`),
      `${JSON.stringify(await make(), undefined, 2)}\n`,
    )
  writeFileSync(
    path.join(folder, `vmhostd-surface-${about.version}.json`),
    `${JSON.stringify(await surfaceOfToday(), undefined, 1)}\n`,
  )
  await step('make the clients', () => buildClients(folder, about))
  writeFileSync(path.join(folder, SUMS), sumsOf(folder))
  return folder
}

/** Renders the sums of all files, which `sha256sum --check` compares. */
const sumsOf = (folder: string): string =>
  readdirSync(folder)
    .filter((name) => name !== SUMS)
    .toSorted()
    .map((name) => {
      const sum = createHash('sha256').update(readFileSync(path.join(folder, name)))
      return `${sum.digest('hex')}  ${name}\n`
    })
    .join('')

/** Returns the exit status. */
export async function main(): Promise<number> {
  const folder = await buildRelease()
  for (const name of readdirSync(folder)) console.log(path.relative(checkout, path.join(folder, name)))
  return 0
}
