import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import { buildExecutables, EXECUTABLES } from './build.ts'
import type { Build } from './build.ts'
import { hashInputs } from './hash.ts'
import { manPages } from './man/man-pages.ts'
import { renderDebianChangelog } from './package/changelog.ts'
import { architecture, renderControl } from './package/control.ts'
import { documentPath, operatorsDocuments } from './package/documents.ts'
import { removeOtherPackages } from './package/other-packages.ts'
import { install, installCompressed, installedKib, installText, renderSums, settle } from './package/tree.ts'
import { cachePath, checkout } from './paths.ts'
import { runChecked, versionOf } from './process.ts'
import { epochOf } from './source-date.ts'
import { step } from './step.ts'

/** Units in this folder make `systemctl mask` refuse; packaging/vmhostd.service says why it must. */
const UNITS_FOLDER = 'etc/systemd/system'
const UNITS = ['vmhostd.service', 'vmhost.slice']
const NEEDRESTART = 'etc/needrestart/conf.d/vmhostd.conf'
const DOC = 'usr/share/doc/vmhostd'

/** Debian takes gzip and xz alone, and xz takes most of a minute for an executable of this size. */
const COMPRESSION = ['-Zgzip', '-z6']

/**
 * Builds the executables and the Debian package around them, with the list of what is embedded beside it; returns the
 * package's path below `dist/`.
 */
export async function buildDeb(): Promise<string> {
  const built = await buildExecutables()
  const { version } = built.info
  const target = path.join(checkout, 'dist', `vmhostd_${version}_${architecture.deb}.deb`)
  const inputs = ['packaging', 'docs', 'CHANGELOG.md', 'tools/deb.ts', 'tools/package', 'tools/man']
  const files = inputs.map((input) => path.join(checkout, input)).filter((file) => existsSync(file))
  const key = hashInputs(files, [built.key, version, epochOf(built.info.date), await versionOf('dpkg-deb')])
  const cached = path.join(built.folder, `${key}.deb`)
  if (!existsSync(cached)) {
    await step(`build the Debian package ${version}`, () => assemble({ built, version, target: cached }))
  }
  copyFileSync(built.sbom, target.replace(/deb$/, 'cdx.json'))
  // By rename, because a lab may be installing the existing package.
  const aside = `${target}.${process.pid}.new`
  copyFileSync(cached, aside)
  renameSync(aside, target)
  removeOtherPackages(target)
  return target
}

interface Assembly {
  built: Build
  version: string
  target: string
}

async function assemble({ built, version, target }: Assembly): Promise<void> {
  const tree = mkdtempSync(path.join(cachePath('staging'), 'deb-'))
  try {
    chmodSync(tree, 0o755)
    install(path.join(built.folder, 'vmhostd'), tree, 'usr/bin/vmhostd', 0o755)
    // One file under two names: it decides by its name which program it is.
    symlinkSync('vmhostd', path.join(tree, 'usr/bin/vmhostctl'))
    await installCompletions(tree)
    for (const unit of UNITS) install(packaging(unit), tree, `${UNITS_FOLDER}/${unit}`)
    install(packaging('needrestart.conf'), tree, NEEDRESTART)
    installDocuments(tree, built, version)
    mkdirSync(path.join(tree, 'etc/vmhostd'), { recursive: true })
    installControl(tree, version)
    settle(tree, built.info.date)
    const aside = `${target}.${process.pid}.new`
    const argv = ['dpkg-deb', '--build', '--root-owner-group', ...COMPRESSION, tree, aside]
    await runChecked(argv, { env: { ...process.env, SOURCE_DATE_EPOCH: epochOf(built.info.date) } })
    renameSync(aside, target)
  } finally {
    rmSync(tree, { recursive: true })
  }
}

function installDocuments(tree: string, { info, licences, sbom }: Build, version: string): void {
  const about = { version, date: info.date }
  for (const [name, text] of manPages(about))
    installCompressed(text, tree, `usr/share/man/man${name.at(-1)}/${name}`)
  for (const name of operatorsDocuments()) install(documentPath(name), tree, `${DOC}/${name}`)
  const changes = readFileSync(path.join(checkout, 'CHANGELOG.md'), 'utf8')
  installCompressed(renderDebianChangelog(changes, about), tree, `${DOC}/changelog`)
  install(packaging('copyright'), tree, `${DOC}/copyright`)
  install(licences, tree, `${DOC}/third-party-licences.txt`)
  install(sbom, tree, `${DOC}/${path.basename(sbom)}`)
  for (const name of ['vmhostd-alerts.yml', 'vmhostd-dashboard.json'])
    install(packaging(`prometheus/${name}`), tree, `${DOC}/${name}`)
  install(path.join(checkout, 'src/config/config.example.toml'), tree, `${DOC}/config.example.toml`)
  install(packaging('lintian-overrides'), tree, 'usr/share/lintian/overrides/vmhostd')
}

function installControl(tree: string, version: string): void {
  for (const script of ['preinst', 'postinst', 'prerm', 'postrm'])
    install(packaging(script), tree, `DEBIAN/${script}`, 0o755)
  const conffiles = [...UNITS.map((unit) => `${UNITS_FOLDER}/${unit}`), NEEDRESTART]
  installText(conffiles.map((name) => `/${name}\n`).join(''), tree, 'DEBIAN/conffiles')
  installText(renderSums(tree), tree, 'DEBIAN/md5sums')
  installText(renderControl(version, installedKib(tree)), tree, 'DEBIAN/control')
}

/** Folders in which each shell looks for the completions of packages. */
const COMPLETIONS = {
  bash: 'usr/share/bash-completion/completions/vmhostctl',
  zsh: 'usr/share/zsh/vendor-completions/_vmhostctl',
  fish: 'usr/share/fish/vendor_completions.d/vmhostctl.fish',
}

async function installCompletions(tree: string): Promise<void> {
  for (const [shell, place] of Object.entries(COMPLETIONS)) {
    const script = await runChecked([path.join(tree, 'usr/bin/vmhostctl'), 'completion', shell])
    installText(script, tree, place)
  }
}

const packaging = (name: string): string => path.join(checkout, 'packaging', name)

/** Runs `./dev build`. Returns the exit status. */
export async function main(): Promise<number> {
  const deb = await buildDeb()
  for (const file of [...EXECUTABLES.map(({ name }) => path.join(checkout, 'dist', name)), deb]) {
    const size = (statSync(file).size / 1024 / 1024).toFixed(1)
    console.log(`${path.relative(checkout, file)}  ${size} MiB`)
  }
  return 0
}
