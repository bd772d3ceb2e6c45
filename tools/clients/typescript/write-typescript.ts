import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'
import { ensureClientTypes } from '../../client-types.ts'
import { checkout, distPath } from '../../paths.ts'
import { runChecked } from '../../process.ts'

/** Sources of the client: the one that vmhostctl uses. */
const SOURCE = path.join(checkout, 'src')
const ENTRY = path.join(SOURCE, 'client/library.ts')

/** The one library that it needs when it runs. */
const LIBRARY = 'openapi-fetch'

const OLDEST_NODE = 22

/** Makes an npm package: one file of JavaScript, and its types. Returns the files by their names in the package. */
export async function writeTypescript(version: string): Promise<Map<string, string>> {
  await ensureClientTypes()
  const folder = mkdtempSync(path.join(distPath(), 'client-'))
  try {
    await bundleScript(path.join(folder, 'index.js'))
    await emitTypes(folder)
    cpSync(path.join(SOURCE, 'client/schema.d.ts'), path.join(folder, 'client/schema.d.ts'))
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).toSorted()
    const texts = names
      .filter((name) => /\.(js|ts)$/.test(name))
      .map((name) => [name, readFileSync(path.join(folder, name), 'utf8')] as const)
    return new Map([['package.json', packageText(version)], ...texts])
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const bundleScript = (outfile: string): Promise<unknown> =>
  build({
    entryPoints: [ENTRY],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: `node${OLDEST_NODE}`,
    external: [LIBRARY],
    absWorkingDir: checkout,
    logLevel: 'error',
  })

/** Emits the types of the entry and of all that it imports. */
async function emitTypes(outDir: string): Promise<void> {
  const config = {
    extends: path.join(checkout, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      emitDeclarationOnly: true,
      declaration: true,
      rewriteRelativeImportExtensions: true,
      rootDir: SOURCE,
      outDir,
    },
    include: [],
    files: [ENTRY],
  }
  const file = path.join(outDir, 'tsconfig.json')
  writeFileSync(file, JSON.stringify(config))
  await runChecked([path.join(checkout, 'node_modules/.bin/tsc'), '--project', file])
}

function packageText(version: string): string {
  const { devDependencies: _, dependencies } = JSON.parse(
    readFileSync(path.join(checkout, 'package.json'), 'utf8'),
  ) as Record<string, Readonly<Record<string, string>>>
  const about = {
    name: 'vmhostd-client',
    version,
    description: "Client of vmhostd's API for controllers",
    license: 'Apache-2.0',
    type: 'module',
    exports: { '.': { types: './client/library.d.ts', default: './index.js' } },
    dependencies: { [LIBRARY]: dependencies?.[LIBRARY] },
    engines: { node: `>=${OLDEST_NODE}` },
  }
  return `${JSON.stringify(about, undefined, 2)}\n`
}
