import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { ensurePackages } from './apt.ts'
import { BPF_OBJECT, ensureBpfObject } from './bpf-object.ts'
import { bundle, KOFFI_ASSET, koffiBinary, packageVersion } from './bundle.ts'
import { ensureClientTypes } from './client-types.ts'
import { FIXED_SEED, makeProgram } from './code-cache.ts'
import type { BuildInfo } from './bundle.ts'
import { hashInputs } from './hash.ts'
import { renderLicences } from './licences.ts'
import { withLock } from './lock.ts'
import { ensurePages, PAGES_FOLDER } from './page-bundle.ts'
import { cachePath, checkout } from './paths.ts'
import { run, versionOf } from './process.ts'
import { discard, publish } from './publish.ts'
import { renderSbom } from './sbom.ts'
import { epochOf, sourceDate } from './source-date.ts'
import { step } from './step.ts'
import type { StepLog } from './step.ts'
import { ensureThreads, FLUSH_THREAD, IMAGE_THREAD, PACK_THREAD } from './thread-bundle.ts'

const STRIP = '/usr/bin/strip'
const NEEDS = [{ name: 'binutils', probe: STRIP, why: 'strip takes 30 MB of symbols from the executable' }]

/** Number of finished builds that the cache keeps, for switching between branches. */
const KEPT_BUILDS = 4

const LICENCES = 'third-party-licences.txt'
const SBOM = 'vmhostd.cdx.json'

/** One file with several programs, so that Node is on the host only once. */
interface Executable {
  /** The program whose name the file has; the others are links to it. */
  readonly name: string
  /** The script that it runs first. */
  readonly entry: string
  /** The entry of each program, by its name. The file decides by the name that it is called by which one it is. */
  readonly programs: Readonly<Record<string, string>>
  readonly assets: Readonly<Record<string, string>>
}

export const EXECUTABLES: readonly Executable[] = [
  {
    name: 'vmhostd',
    entry: 'src/executable.ts',
    programs: { vmhostd: 'src/main.ts', vmhostctl: 'src/ctl-main.ts' },
    assets: {
      [KOFFI_ASSET]: koffiBinary(),
      'scalar.js': 'node_modules/@scalar/api-reference/dist/browser/standalone.js',
      'errors.md': 'docs/errors.md',
      'console.js': `${PAGES_FOLDER}/console.js`,
      'console.css': `${PAGES_FOLDER}/console.css`,
      'vms.js': `${PAGES_FOLDER}/vms.js`,
      'vms.css': `${PAGES_FOLDER}/vms.css`,
      'config.example.toml': 'src/config/config.example.toml',
      'traffic.bpf.o': BPF_OBJECT,
      'pack-thread.js': PACK_THREAD,
      'image-thread.js': IMAGE_THREAD,
      'flush-thread.js': FLUSH_THREAD,
    },
  },
]

const aliasesOf = ({ name, programs }: Executable): readonly string[] =>
  Object.keys(programs).filter((program) => program !== name)

/** A finished build: a folder of the cache that holds every executable and the licences of its contents. */
export interface Build {
  readonly key: string
  readonly folder: string
  readonly info: BuildInfo & { readonly date: Date }
  readonly licences: string
  /** The list of what is embedded; see sbom.ts. */
  readonly sbom: string
}

/** Builds every executable into `dist/`; takes unchanged ones from the cache. */
export async function buildExecutables(): Promise<Build> {
  await ensurePackages(NEEDS)
  await ensureClientTypes()
  const pageInputs = await ensurePages()
  await ensureBpfObject()
  const info = {
    version: packageVersion(),
    commit: await commitOf(checkout),
    date: await sourceDate(checkout),
  }
  const threadInputs = await ensureThreads(info)
  const assets = EXECUTABLES.flatMap((executable) => Object.values(executable.assets))
  const inputs = [
    'src',
    'package-lock.json',
    'package.json',
    'tools/bundle.ts',
    'tools/code-cache.ts',
    'tools/page-bundle.ts',
    'tools/thread-bundle.ts',
    'tools/build.ts',
    'tools/licences.ts',
    'tools/sbom.ts',
    ...assets,
  ]
  const files = inputs.map((input) => path.resolve(checkout, input)).filter((file) => existsSync(file))
  const key = hashInputs(files, [
    info.version,
    info.commit,
    epochOf(info.date),
    process.version,
    process.arch,
    await versionOf(STRIP),
  ])
  const folder = path.join(cachePath('builds'), key)
  const finished = { key, folder, info, licences: path.join(folder, LICENCES), sbom: path.join(folder, SBOM) }
  await withLock('build', async () => {
    if (!existsSync(folder))
      await publish(folder, (building) => build(building, info, [...pageInputs, ...threadInputs]))
    keepNewest(folder)
  })
  copyToDist(folder)
  return finished
}

/** Returns the commit that is checked out, marked if the tree differs from it; `unknown` outside a repository. */
async function commitOf(folder: string): Promise<string> {
  const argv = ['git', '-C', folder, 'describe', '--always', '--abbrev=12', '--exclude=*', '--dirty']
  const result = await run(argv)
  return result.code === 0 ? result.stdout.trim() : 'unknown'
}

async function build(building: string, info: Build['info'], otherInputs: readonly string[]): Promise<void> {
  const bundled = new Set<string>(otherInputs)
  for (const executable of EXECUTABLES) {
    await step(`build ${executable.name}`, async (log) => {
      for (const input of await buildOne(executable, building, info, log)) bundled.add(input)
    })
  }
  writeFileSync(path.join(building, LICENCES), renderLicences([...bundled]))
  writeFileSync(path.join(building, SBOM), renderSbom([...bundled], info))
}

async function buildOne(
  executable: Executable,
  folder: string,
  info: BuildInfo,
  log: StepLog,
): Promise<string[]> {
  // Relative, because the executable has this path in it: equal sources must give an equal executable in any folder.
  const main = 'first.cjs'
  const output = executable.name
  const inputs = new Set(await bundle(executable.entry, path.join(folder, main), info))
  const assets = Object.entries(executable.assets).map(([name, file]) => [name, path.resolve(checkout, file)])
  for (const [name, entry] of Object.entries(executable.programs)) {
    const made = { bundle: `${name}.cjs`, script: `${name}.js`, code: `${name}.code` }
    for (const input of await bundle(entry, path.join(folder, made.bundle), info)) inputs.add(input)
    await makeProgram(folder, made, log)
    for (const file of [made.script, made.code]) assets.push([file, path.join(folder, file)])
  }
  const config = {
    main,
    output,
    executable: await strippedNode(log),
    assets: Object.fromEntries(assets) as Record<string, string>,
    disableExperimentalSEAWarning: true,
    // Otherwise a user who sets NODE_OPTIONS could run code inside the daemon.
    execArgvExtension: 'none',
  }
  const configFile = `${executable.name}.sea.json`
  writeFileSync(path.join(folder, configFile), JSON.stringify(config))
  await log.run([process.execPath, FIXED_SEED, '--build-sea', configFile], { cwd: folder })
  chmodSync(path.join(folder, output), 0o755)
  for (const alias of aliasesOf(executable)) symlinkSync(executable.name, path.join(folder, alias))
  for (const name of Object.keys(executable.programs)) {
    await checkStart(path.join(folder, name), log)
  }
  return [...inputs, ...Object.values(executable.assets)]
}

/**
 * Checks that a program starts alone, outside any node_modules, and that it says nothing but its help: Node would warn
 * there of a code cache that it cannot use.
 */
async function checkStart(program: string, log: StepLog): Promise<void> {
  let output = ''
  const onOutput = (chunk: Buffer): void => {
    output += chunk.toString()
  }
  const options = { cwd: '/', env: { PATH: '/usr/bin' }, timeoutMs: 20_000, onOutput }
  const help = await log.run([program, '--help'], options)
  const [firstLine = ''] = help.split('\n', 1)
  const name = path.basename(program)
  if (!firstLine.includes(name)) throw new Error(`${name} --help is another program's`)
  if (output !== help) throw new Error(`${name} --help writes to standard error too`)
}

/** Makes a copy of this Node without its symbols, once per version of Node and of strip. */
async function strippedNode(log: StepLog): Promise<string> {
  const key = hashInputs([], [process.version, process.arch, await versionOf(STRIP)])
  const target = path.join(cachePath('node'), `${process.version}-${process.arch}-${key}`)
  if (!existsSync(target)) {
    await log.run([STRIP, '--remove-section=.comment', '-o', `${target}.new`, process.execPath])
    renameSync(`${target}.new`, target)
  }
  return target
}

function copyToDist(folder: string): void {
  const dist = path.join(checkout, 'dist')
  mkdirSync(dist, { recursive: true })
  for (const executable of EXECUTABLES) {
    const { name } = executable
    const target = path.join(dist, name)
    copyFileSync(path.join(folder, name), `${target}.${process.pid}.new`)
    renameSync(`${target}.${process.pid}.new`, target)
    for (const alias of aliasesOf(executable)) {
      const aside = path.join(dist, `${alias}.${process.pid}.new`)
      symlinkSync(name, aside)
      renameSync(aside, path.join(dist, alias))
    }
  }
}

function keepNewest(folder: string): void {
  const now = new Date()
  utimesSync(folder, now, now)
  const parent = path.dirname(folder)
  const age = (name: string) => statSync(path.join(parent, name)).mtimeMs
  const names = readdirSync(parent).toSorted((a, b) => age(b) - age(a))
  for (const name of names.slice(KEPT_BUILDS)) discard(path.join(parent, name))
}
