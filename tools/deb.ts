import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import { buildExecutables, EXECUTABLES } from './build.ts'
import type { Build } from './build.ts'
import { hashInputs } from './hash.ts'
import { cachePath, checkout } from './paths.ts'
import { run, runChecked } from './process.ts'
import { step } from './step.ts'

/**
 * Packages that the daemon and its helpers need on a host. This systemd version is the first that can keep a descriptor
 * store.
 */
const DEPENDS = [
  'init-system-helpers (>= 1.54)',
  'systemd (>= 254)',
  'dbus',
  'libatomic1',
  'libc6 (>= 2.28)',
  'libstdc++6',
  'libsystemd0 (>= 254)',
  'libbpf1',
  // systemd starts a unit only for a user in the user database; the daemon publishes its users through this module.
  'libnss-systemd',
  'iproute2',
  'nftables',
  'xorriso',
]
const ARCHITECTURES = {
  x64: { deb: 'amd64', qemu: 'qemu-system-x86' },
  arm64: { deb: 'arm64', qemu: 'qemu-system-arm' },
}

/** Units in this folder make `systemctl mask` refuse; packaging/vmhostd.service says why it must. */
const UNITS = 'etc/systemd/system'
const DOC = 'usr/share/doc/vmhostd'

export interface DebOptions {
  /** The package's version, if it must differ from package.json's: tests upgrade from one build to another. */
  readonly version?: string
}

/** Builds the executables and the Debian package around them; returns the package's path below `dist/`. */
export async function buildDeb(options: DebOptions = {}): Promise<string> {
  const built = await buildExecutables()
  const arch = ARCHITECTURES[process.arch === 'arm64' ? 'arm64' : 'x64']
  const version = options.version ?? built.info.version
  const target = path.join(checkout, 'dist', `vmhostd_${version}_${arch.deb}.deb`)
  const inputs = ['packaging', 'tools/deb.ts', 'src/config/config.example.toml']
  const files = inputs.map((input) => path.join(checkout, input)).filter((file) => existsSync(file))
  const key = hashInputs(files, [built.key, version])
  const cached = path.join(built.folder, `${key}.deb`)
  if (!existsSync(cached)) {
    await step(`build the Debian package ${version}`, () =>
      assemble({ built, arch, version, target: cached }),
    )
  }
  // By rename, because a lab may be installing the existing package.
  const aside = `${target}.${process.pid}.new`
  copyFileSync(cached, aside)
  renameSync(aside, target)
  return target
}

interface Assembly {
  built: Build
  arch: { deb: string; qemu: string }
  version: string
  target: string
}

async function assemble({ built, arch, version, target }: Assembly): Promise<void> {
  const tree = mkdtempSync(path.join(cachePath('staging'), 'deb-'))
  try {
    chmodSync(tree, 0o755)
    install(path.join(built.folder, 'vmhostd'), tree, 'usr/bin/vmhostd', 0o755)
    // One file under two names: it decides by its name which program it is.
    symlinkSync('vmhostd', path.join(tree, 'usr/bin/vmhostctl'))
    await installCompletions(tree)
    const units = ['vmhostd.service', 'vmhost.slice']
    for (const unit of units) install(packaging(unit), tree, `${UNITS}/${unit}`)
    install(packaging('copyright'), tree, `${DOC}/copyright`)
    install(built.licences, tree, `${DOC}/third-party-licences.txt`)
    for (const name of ['vmhostd-alerts.yml', 'vmhostd-dashboard.json'])
      install(packaging(`prometheus/${name}`), tree, `${DOC}/${name}`)
    install(path.join(checkout, 'src/config/config.example.toml'), tree, `${DOC}/config.example.toml`)
    mkdirSync(path.join(tree, 'etc/vmhostd'), { recursive: true })
    for (const script of ['preinst', 'postinst', 'prerm', 'postrm'])
      install(packaging(script), tree, `DEBIAN/${script}`, 0o755)
    writeFileSync(path.join(tree, 'DEBIAN/conffiles'), units.map((unit) => `/${UNITS}/${unit}\n`).join(''))
    writeFileSync(path.join(tree, 'DEBIAN/control'), renderControl(version, arch, await installedKib(tree)))
    // zstd, because xz takes most of a minute for an executable of this size.
    const aside = `${target}.${process.pid}.new`
    const argv = ['dpkg-deb', '--build', '--root-owner-group', '-Zzstd', '-z3', tree, aside]
    await runChecked(argv)
    renameSync(aside, target)
  } finally {
    rmSync(tree, { recursive: true })
  }
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
    const target = path.join(tree, place)
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(target, script)
    chmodSync(target, 0o644)
  }
}

const packaging = (name: string): string => path.join(checkout, 'packaging', name)

function install(source: string, tree: string, place: string, mode = 0o644): void {
  const target = path.join(tree, place)
  mkdirSync(path.dirname(target), { recursive: true })
  copyFileSync(source, target)
  chmodSync(target, mode)
}

async function installedKib(tree: string): Promise<number> {
  const { stdout } = await run(['du', '-sk', '--apparent-size', tree])
  return Number(stdout.split('\t')[0])
}

/** Renders the control file of the package: deb-control(5). */
function renderControl(version: string, arch: { deb: string; qemu: string }, sizeKib: number): string {
  return [
    'Package: vmhostd',
    `Version: ${version}`,
    `Architecture: ${arch.deb}`,
    'Maintainer: the vmhostd authors <vmhostd@example.org>',
    `Installed-Size: ${sizeKib}`,
    `Depends: ${[...DEPENDS, arch.qemu].join(', ')}`,
    'Recommends: xfsprogs | btrfs-progs',
    'Section: admin',
    'Priority: optional',
    'Description: daemon that runs microVMs on one host',
    ' vmhostd runs microVMs under systemd and serves an HTTP API over mutual TLS.',
    ' Virtual machines are units of their own: they live on when the daemon stops,',
    ' crashes or is upgraded. vmhostctl is its client for people and scripts.',
    '',
  ].join('\n')
}

/** Runs `./dev build`. Returns the exit status. */
export async function main(): Promise<number> {
  const deb = await buildDeb()
  for (const file of [...EXECUTABLES.map(({ name }) => path.join(checkout, 'dist', name)), deb]) {
    const size = (statSync(file).size / 1024 / 1024).toFixed(1)
    console.log(`${path.relative(checkout, file)}  ${size} MiB`)
  }
  return 0
}
